//! A sender with endless data over one bottleneck with an endless queue: enough of a path to
//! clock an algorithm with honest round-trip times.
use std::collections::VecDeque;
use std::time::Duration;

use shorthaul_congestion::{AckSample, Algorithm, Control, ControlParams};
use shorthaul_types::{BitRate, Bytes, Time};

pub const MSS: u64 = 1000;

pub fn params() -> ControlParams {
    ControlParams { initial_window: 10 * MSS, ..ControlParams::new(MSS as u32, Time::ZERO) }
}

pub fn build(name: &str) -> Box<dyn Control> {
    name.parse::<Algorithm>().unwrap().build(params())
}

/// An ACK of `acked` bytes in order to a sender that fills its window.
pub fn ack(control: &dyn Control, now: Time, acked: u64) -> AckSample {
    AckSample {
        now,
        delivered: acked,
        newly_acked: acked,
        in_flight_before: control.window(),
        in_flight: control.window().saturating_sub(acked),
        rtt: None,
        waited: None,
        reported: None,
        rate: None,
        cwnd_limited: true,
        in_recovery: false,
    }
}

/// Acknowledges one full window in ACKs of `per_ack` bytes, all at `now`.
pub fn round(control: &mut dyn Control, now: Time, per_ack: u64) {
    let mut left = control.window();
    while left > 0 {
        let acked = left.min(per_ack);
        left -= acked;
        let sample = ack(control, now, acked);
        control.on_ack(&sample);
    }
}

struct Segment {
    sent: Time,
    acked: Time,
}

pub struct Path {
    pub control: Box<dyn Control>,
    pub now: Time,
    rate: BitRate,
    rtt: Duration,
    free_at: Time,
    flight: VecDeque<Segment>,
}

impl Path {
    pub fn new(control: Box<dyn Control>, rate: BitRate, rtt: Duration) -> Self {
        Path { control, now: Time::ZERO, rate, rtt, free_at: Time::ZERO, flight: VecDeque::new() }
    }

    pub fn in_flight(&self) -> u64 {
        self.flight.len() as u64 * MSS
    }

    /// The bandwidth-delay product in bytes.
    pub fn bdp(&self) -> u64 {
        self.rate.bytes_in(self.rtt).0
    }

    /// Sends what the window allows and then takes one ACK, whose round-trip time is
    /// `extra` longer than the path makes it.
    pub fn step(&mut self, extra: Duration) {
        while self.in_flight() + MSS <= self.control.window() {
            self.free_at = self.free_at.max(self.now) + self.rate.time_to_send(Bytes(MSS));
            self.flight.push_back(Segment { sent: self.now, acked: self.free_at + self.rtt });
        }
        let in_flight_before = self.in_flight();
        let segment = self.flight.pop_front().expect("a window holds at least one segment");
        self.now = segment.acked;
        self.control.on_ack(&AckSample {
            now: self.now,
            delivered: MSS,
            newly_acked: MSS,
            in_flight_before,
            in_flight: self.in_flight(),
            rtt: Some(self.now.saturating_since(segment.sent) + extra),
            waited: None,
            reported: None,
            rate: None,
            cwnd_limited: true,
            in_recovery: false,
        });
    }

    pub fn run_until(&mut self, end: Time) {
        while self.now < end {
            self.step(Duration::ZERO);
        }
    }
}
