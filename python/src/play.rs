//! A link and a congestion control by themselves, to look at what they do.
use crate::value_error;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use shorthaul_congestion::{AckSample, Algorithm, CongestionEvent, Control, ControlParams, RateSample};
use shorthaul_link as link;
use shorthaul_types::{BitRate, Bytes, Seed, Time};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// One direction of a link: packets go in at times, and come out at others or not at all.
#[pyclass(module = "shorthaul._shorthaul")]
pub struct Link {
    link: link::Link<u64>,
    offered: u64,
    clock: f64,
}

fn time(seconds: f64) -> PyResult<Time> {
    let since = Duration::try_from_secs_f64(seconds)
        .map_err(|error| value_error(format!("time {seconds}: {error}")))?;
    Ok(Time::ZERO + since)
}

#[pymethods]
impl Link {
    /// A link from what scenario files say of one, such as `rate = "10 Mbit/s"\ndelay = "20 ms"`.
    #[new]
    #[pyo3(signature = (spec, seed = 0, up = false))]
    fn new(spec: &str, seed: u64, up: bool) -> PyResult<Self> {
        let spec: link::LinkSpec = toml::from_str(spec).map_err(value_error)?;
        let direction = if up { link::Direction::Up } else { link::Direction::Down };
        let no_files =
            |file: &str| Err(format!("{file}: give a trace's rates by a generator here, not by a file"));
        let config = spec.resolve(direction, Seed(seed), no_files).map_err(value_error)?;
        Ok(Link { link: link::Link::new(config, Seed(seed)), offered: 0, clock: 0.0 })
    }

    /// Offers a packet of `size` bytes at `at` seconds, not before the one before it. Says why it was dropped, if it was.
    fn push(&mut self, at: f64, size: u64) -> PyResult<Option<String>> {
        if at < self.clock {
            return Err(value_error(format!(
                "a packet at {at} s after one at {} s: time goes forward",
                self.clock
            )));
        }
        let now = time(at)?;
        self.clock = at;
        let number = self.offered;
        self.offered += 1;
        Ok(match self.link.push(now, Bytes(size), number) {
            link::Offered::Queued => None,
            link::Offered::Dropped { reason, .. } => Some(reason.as_str().to_owned()),
        })
    }

    /// What has been delivered until `until` seconds: the time, and the packet's number among those offered.
    fn pop(&mut self, until: f64) -> PyResult<Vec<(f64, u64)>> {
        let until = time(until)?;
        Ok(std::iter::from_fn(|| self.link.pop(until))
            .map(|(at, number)| (at.as_secs_f64(), number))
            .collect())
    }

    /// How long a packet would wait in the queue that came at `at` seconds, in seconds.
    fn queue_delay(&self, at: f64) -> PyResult<f64> {
        Ok(self.link.queue_delay(time(at)?).as_secs_f64())
    }

    /// What became of the packets: numbers by name.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (stats, dict) = (self.link.stats(), PyDict::new(py));
        dict.set_item("offered", stats.offered)?;
        dict.set_item("delivered", stats.delivered)?;
        dict.set_item("delivered_bytes", stats.delivered_bytes.0)?;
        dict.set_item("queue_full", stats.dropped.queue_full)?;
        dict.set_item("lost", stats.dropped.loss)?;
        dict.set_item("outage", stats.dropped.outage)?;
        dict.set_item("max_queue", stats.max_queue)?;
        Ok(dict)
    }
}

/// A congestion control that is told of acknowledgments and losses by hand, as if its window were always full.
#[pyclass(module = "shorthaul._shorthaul")]
pub struct Congestion {
    /// For `Sync` alone: whoever calls has it to himself.
    control: Mutex<Box<dyn Control>>,
    delivered: u64,
    /// How much had been delivered when: for the round trip that a delivery rate covers.
    before: VecDeque<(Time, u64)>,
    now: Time,
    in_recovery: bool,
}

#[pymethods]
impl Congestion {
    /// A control by its name in scenario files, such as `cubic`, with segments of `mss` bytes and a first window of
    /// `initial_window` segments.
    #[new]
    #[pyo3(signature = (name, mss = 1460, initial_window = 10, seed = 0))]
    fn new(name: &str, mss: u32, initial_window: u32, seed: u64) -> PyResult<Self> {
        let algorithm: Algorithm = name.parse().map_err(value_error)?;
        if mss == 0 || initial_window == 0 {
            return Err(value_error("mss and initial_window are at least 1"));
        }
        let params = ControlParams { seed: Seed(seed), ..ControlParams::new(mss, Time::ZERO) };
        Ok(Congestion {
            control: Mutex::new(algorithm.build(params.with_initial_segments(initial_window))),
            delivered: 0,
            before: VecDeque::new(),
            now: Time::ZERO,
            in_recovery: false,
        })
    }

    /// The congestion window, in bytes.
    #[getter]
    fn window(&mut self) -> u64 {
        self.control().window()
    }

    /// The slow start threshold in bytes; None while there is none.
    #[getter]
    fn ssthresh(&mut self) -> Option<u64> {
        Some(self.control().ssthresh()).filter(|threshold| *threshold != u64::MAX)
    }

    /// The rate of its own that it paces at, in bit/s, if it has one.
    #[getter]
    fn pacing_rate(&mut self) -> Option<u64> {
        self.control().pacing_rate().map(|rate| rate.bits_per_sec())
    }

    /// An acknowledgment came at `at` seconds, for `size` bytes whose round trip took `rtt` seconds. `rate`, in bit/s, is the
    /// delivery rate; without, it is what was acknowledged in the last round trip.
    #[pyo3(signature = (at, size, rtt, rate = None))]
    fn ack(&mut self, at: f64, size: u64, rtt: f64, rate: Option<u64>) -> PyResult<()> {
        let now = self.advance(at)?;
        let rtt = Duration::try_from_secs_f64(rtt).map_err(|error| value_error(format!("rtt: {error}")))?;
        let sent_at = Time::ZERO + now.saturating_since(Time::ZERO).saturating_sub(rtt);
        while self.before.get(1).is_some_and(|(at, _)| *at <= sent_at) {
            self.before.pop_front();
        }
        let prior_delivered =
            self.before.front().filter(|(at, _)| *at <= sent_at).map_or(0, |(_, delivered)| *delivered);
        self.delivered += size;
        self.before.push_back((now, self.delivered));
        let in_round = self.delivered - prior_delivered;
        // What arrives within a round trip was under way at its beginning.
        let in_flight_before = in_round.min(self.control().window()).max(size);
        let measured = (8.0 * in_round as f64 / rtt.as_secs_f64().max(1e-9)) as u64;
        let sample = AckSample {
            now,
            delivered: size,
            newly_acked: size,
            in_flight_before,
            in_flight: in_flight_before - size,
            rtt: Some(rtt),
            waited: None,
            reported: None,
            rate: Some(RateSample {
                rate: BitRate::from_bits_per_sec(rate.unwrap_or(measured)),
                delivered: self.delivered,
                prior_delivered,
                interval: rtt,
                app_limited: false,
                lost: 0,
                in_flight_at_send: in_flight_before,
            }),
            cwnd_limited: true,
            in_recovery: self.in_recovery,
        };
        self.control().on_ack(&sample);
        Ok(())
    }

    /// A loss was found at `at` seconds: fast recovery begins, unless it goes on already.
    fn loss(&mut self, at: f64) -> PyResult<()> {
        let now = self.advance(at)?;
        if !self.in_recovery {
            self.in_recovery = true;
            let flight = self.control().window();
            self.control().on_congestion(now, CongestionEvent::Loss, flight);
        }
        Ok(())
    }

    /// What was outstanding at the last loss or timeout has arrived.
    fn recovered(&mut self, at: f64) -> PyResult<()> {
        let now = self.advance(at)?;
        self.in_recovery = false;
        self.control().on_recovered(now);
        Ok(())
    }

    /// The retransmission timer expired.
    fn timeout(&mut self, at: f64) -> PyResult<()> {
        let now = self.advance(at)?;
        self.in_recovery = false;
        let flight = self.control().window();
        self.control().on_timeout(now, flight);
        Ok(())
    }
}

impl Congestion {
    fn control(&mut self) -> &mut dyn Control {
        &mut **self.control.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    fn advance(&mut self, at: f64) -> PyResult<Time> {
        let now = time(at)?;
        if now < self.now {
            return Err(value_error(format!(
                "{at} s lies before {} s: time goes forward",
                self.now.as_secs_f64()
            )));
        }
        self.now = now;
        Ok(now)
    }
}
