//! Westwood+: after a loss the window is set to what the path was measured to carry, not to half.
//!
//! ```text
//! bandwidth sample   b = d / Δ     d delivered in Δ, Δ = max(RTT, 50 ms)
//! low-pass filter    b' = (7·b' + b)/8, BWE = (7·BWE + b')/8; the first sample fills both
//! loss               ssthresh = max(BWE·RTTmin, 2·SMSS), cwnd = min(cwnd, ssthresh)
//! RTO                ssthresh likewise, cwnd = SMSS
//! ```
//! between which the window grows as Reno's. A random loss on a path that is not full leaves
//! `BWE·RTTmin` about where the window was, so nothing is given away; a full queue is emptied,
//! since RTTmin is the round-trip time without it.
//!
//! Sources: S. Mascolo et al., "TCP Westwood", MobiCom 2001 (setting the window); L. A. Grieco and
//! S. Mascolo, "Performance evaluation and comparison of Westwood+, New Reno, and Vegas TCP
//! congestion control", ACM CCR 34(2), 2004, §2 (one bandwidth sample a round trip, which ACK
//! compression does not inflate). The interval, the filter of two stages and the new RTTmin after
//! an RTO are those of Linux's `tcp_westwood`; the paper has one stage with coefficient 0.9.
//!
//! Deviations. Delivered bytes are known exactly here, by selective acknowledgments or the
//! sender's counting, so the correction for delayed and duplicate ACKs of Linux's
//! `westwood_acked_count` is not needed. Before the first bandwidth sample a loss is answered as
//! Reno does. In the first slow start the window doubles with each sample, and the filter, which
//! forgets in some 15 round trips, would still hold the rate of a second ago when the first loss
//! comes; so until then a sample above the estimate fills both stages. Samples while the application or the peer left room are not taken, as they tell how
//! much was sent and not how much could have been.
use core::time::Duration;

use shorthaul_types::{BitRate, Time};

use super::reno::SLOW_START_LIMIT;
use crate::congestion_avoidance::CongestionAvoidance;
use crate::volume;
use crate::window::{SavedWindow, Window, delegate_to_window};
use crate::{AckSample, ByteCounting, CongestionEvent, Control, ControlParams};

/// No bandwidth sample covers less (Linux's `TCP_WESTWOOD_RTT_MIN`).
const SHORTEST_INTERVAL: Duration = Duration::from_millis(50);

/// Westwood congestion control, with its estimate of the bandwidth as a part.
#[derive(Debug)]
pub struct Westwood<E> {
    window: Window,
    avoidance: CongestionAvoidance,
    limit: Option<u64>,
    bandwidth: E,
    rtt: Option<Duration>,
    min_rtt: Option<Duration>,
    /// The path may have changed: the next round-trip time is the new minimum.
    renew_min_rtt: bool,
    undo: Option<SavedWindow>,
}

/// Westwood+ congestion control (Mascolo, Grieco).
pub type WestwoodPlus = Westwood<Bandwidth>;

/// An estimate of the bandwidth, out of acknowledgments.
pub trait Estimate: core::fmt::Debug + Send {
    /// What the congestion control with it is called.
    const NAME: &'static str;

    /// Of a connection that begins now.
    fn begin(now: Time) -> Self;

    /// Counts an acknowledgment; `rtt` is the smoothed round-trip time.
    fn on_ack(&mut self, ack: &AckSample, rtt: Duration);

    /// A loss has ended the first slow start.
    fn on_loss(&mut self) {}

    /// Nothing was sent until now, which says nothing about the path.
    fn restart(&mut self, now: Time);

    /// The estimate, in bits per second; `None` before the first sample.
    fn rate(&self) -> Option<u64>;
}

/// The bandwidth estimate of Westwood+.
#[derive(Debug)]
pub struct Bandwidth {
    since: Time,
    delivered: u64,
    limited: bool,
    /// Nothing has ended the first slow start yet.
    rising: bool,
    /// The two stages of the filter in bits per second; `None` before the first sample.
    stages: Option<(u64, u64)>,
}

impl Estimate for Bandwidth {
    const NAME: &'static str = "westwood";

    fn begin(now: Time) -> Self {
        Bandwidth { since: now, delivered: 0, limited: true, rising: true, stages: None }
    }

    /// Once a round trip, a sample goes through the filter.
    fn on_ack(&mut self, ack: &AckSample, rtt: Duration) {
        self.limited &= ack.cwnd_limited;
        let elapsed = ack.now.saturating_since(self.since);
        if elapsed > rtt.max(SHORTEST_INTERVAL) {
            if self.limited {
                let sample = volume::rate(self.delivered, elapsed);
                if self.rising && self.stages.is_some_and(|(_, estimate)| sample > estimate) {
                    self.stages = None;
                }
                self.take(sample);
            }
            self.restart(ack.now);
        }
        self.delivered = self.delivered.saturating_add(ack.delivered);
    }

    fn on_loss(&mut self) {
        self.rising = false;
    }

    fn restart(&mut self, now: Time) {
        self.since = now;
        self.delivered = 0;
        self.limited = true;
    }

    fn rate(&self) -> Option<u64> {
        self.stages.map(|(_, estimate)| estimate)
    }
}

impl Bandwidth {
    fn take(&mut self, sample: u64) {
        let filter = |old: u64, new: u64| ((u128::from(old) * 7 + u128::from(new)) / 8) as u64;
        self.stages = Some(match self.stages {
            None => (sample, sample),
            Some((first, second)) => {
                let first = filter(first, sample);
                (first, filter(second, first))
            }
        });
    }
}

impl<E: Estimate> Westwood<E> {
    /// Starts in slow start from the initial window.
    pub fn new(params: ControlParams) -> Self {
        Westwood {
            window: Window::new(&params),
            avoidance: CongestionAvoidance::default(),
            limit: ByteCounting::limit(&params, SLOW_START_LIMIT),
            bandwidth: E::begin(params.now),
            rtt: None,
            min_rtt: None,
            renew_min_rtt: false,
            undo: None,
        }
    }

    /// BWE, the estimate of the bandwidth that is available; `None` before the first sample.
    pub fn bandwidth(&self) -> Option<BitRate> {
        self.bandwidth.rate().map(BitRate::from_bits_per_sec)
    }

    /// BWE·RTTmin; half the flight before there is a BWE.
    fn pipe(&self, flight_size: u64) -> u64 {
        match (self.bandwidth.rate(), self.min_rtt) {
            (Some(bandwidth), Some(rtt)) => volume::in_time(bandwidth, rtt),
            _ => flight_size.min(self.window.bytes()) / 2,
        }
    }
}

impl<E: Estimate> Control for Westwood<E> {
    fn on_ack(&mut self, ack: &AckSample) {
        if let Some(rtt) = ack.rtt {
            self.rtt = Some(self.rtt.map_or(rtt, |srtt| srtt - srtt / 8 + rtt / 8));
            let renew = core::mem::take(&mut self.renew_min_rtt);
            self.min_rtt = Some(self.min_rtt.filter(|_| !renew).map_or(rtt, |min| min.min(rtt)));
        }
        if let Some(rtt) = self.rtt {
            self.bandwidth.on_ack(ack, rtt);
        }
        if !self.window.admits(ack) {
            return;
        }
        let mut acked = ack.newly_acked;
        if self.window.in_slow_start() {
            acked = self.window.slow_start(ack, self.limit, 1);
        }
        self.avoidance.on_ack(&mut self.window, ack, acked);
    }

    fn on_congestion(&mut self, _now: Time, _event: CongestionEvent, flight_size: u64) {
        let pipe = self.pipe(flight_size);
        self.bandwidth.on_loss();
        self.undo = Some(self.window.reduce(pipe, pipe.max(2 * self.window.mss())));
        self.avoidance.reset();
    }

    fn on_timeout(&mut self, _now: Time, flight_size: u64) {
        let pipe = self.pipe(flight_size);
        self.bandwidth.on_loss();
        self.undo = self.window.collapse(pipe).or(self.undo);
        self.avoidance.reset();
        self.renew_min_rtt = true;
    }

    fn on_spurious(&mut self, _now: Time) {
        if let Some(saved) = self.undo.take() {
            self.window.restore(saved);
        }
        self.renew_min_rtt = false;
    }

    fn on_idle_restart(&mut self, _now: Time) {
        self.window.restart();
        self.avoidance.reset();
        self.undo = None;
    }

    fn on_transmit_start(&mut self, now: Time) {
        self.bandwidth.restart(now); // nothing was sent, which says nothing about the path
    }

    delegate_to_window!();

    fn name(&self) -> &'static str {
        E::NAME
    }
}
