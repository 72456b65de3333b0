//! Illinois: loss says when the window shrinks, and the delay says by how much, and how fast it grows.
//!
//! Once a round trip, with `da` the mean round-trip time of the round less the smallest ever, and `dm` the largest ever
//! less the smallest:
//!
//! ```text
//! α = 10                       da ≤ d1 = 0.01·dm                            eq. 2
//! α = κ1/(κ2 + da)             else: 10 at d1, 0.3 at dm
//! β = 1/8                      da ≤ d2 = 0.1·dm                             eq. 3
//! β = κ3 + κ4·da               d2 < da < d3: straight from 1/8 to 1/2
//! β = 1/2                      da ≥ d3 = 0.8·dm
//! avoidance   W += α/W for each segment acknowledged
//! loss        W −= β·W
//! ```
//! `α = 1` and `β = 1/2`, which is Reno, while `W < 15` segments and after an RTO. Once the delay was above d1, it must
//! stay below for θ = 5 rounds before α is 10 again: one short round trip is no empty queue (§3.3).
//!
//! Source: S. Liu, T. Başar, R. Srikant, "TCP-Illinois: A loss- and delay-based congestion control algorithm for
//! high-speed networks", Performance Evaluation 65(6-7), 2008. The constants are those of §5 and of Linux's
//! `tcp_illinois`.
//!
//! As in Linux, α and β are adapted in slow start, too, and round-trip times above 10 s count as 10 s. Deviation: Linux
//! starts a round with the next segment sent; here one ends when as much was delivered as was in flight at its start.
use core::time::Duration;

use shorthaul_types::Time;

use super::reno::SLOW_START_LIMIT;
use crate::window::{SavedWindow, Window, delegate_to_window};
use crate::{AckSample, ByteCounting, CongestionEvent, Control, ControlParams};

/// α without any queue, in segments a round trip.
const ALPHA_MAX: f64 = 10.0;
/// α with the longest queue.
const ALPHA_MIN: f64 = 0.3;
/// α of Reno.
const ALPHA_BASE: f64 = 1.0;
/// β without much of a queue.
const BETA_MIN: f64 = 0.125;
/// β with a long queue, and of Reno.
const BETA_MAX: f64 = 0.5;
/// Below this window, in segments, it is Reno.
const WINDOW_THRESHOLD: u64 = 15;
/// θ: after this many rounds without a queue, α is the largest again.
const THETA: u32 = 5;
/// Longer round-trip times count as this.
const LONGEST_RTT: Duration = Duration::from_secs(10);

/// TCP-Illinois congestion control (Liu, Başar, Srikant).
#[derive(Debug)]
pub struct Illinois {
    window: Window,
    limit: Option<u64>,
    /// The shortest and the longest round-trip time ever.
    extremes: Option<(Duration, Duration)>,
    round: Round,
    alpha: f64,
    beta: f64,
    /// Rounds without a queue since α left its largest value; `None` as long as it has not.
    calm: Option<u32>,
    /// α times the acknowledged bytes that the window has not grown for yet.
    unrewarded: f64,
    undo: Option<SavedWindow>,
}

/// The round-trip times of one window.
#[derive(Debug, Default)]
struct Round {
    /// Bytes still to be delivered before it ends.
    remaining: u64,
    sum: Duration,
    samples: u32,
}

/// α of eq. 2, where `da` is above d1.
fn alpha(da: f64, dm: f64) -> f64 {
    let d1 = dm / 100.0;
    let spread = ALPHA_MAX - ALPHA_MIN;
    let kappa_1 = (dm - d1) * ALPHA_MIN * ALPHA_MAX / spread;
    let kappa_2 = (dm - d1) * ALPHA_MIN / spread - d1;
    (kappa_1 / (kappa_2 + da)).clamp(ALPHA_MIN, ALPHA_MAX)
}

/// β of eq. 3.
fn beta(da: f64, dm: f64) -> f64 {
    let (d2, d3) = (dm / 10.0, dm * 0.8);
    if da <= d2 {
        BETA_MIN
    } else if da >= d3 {
        BETA_MAX
    } else {
        BETA_MIN + (BETA_MAX - BETA_MIN) * (da - d2) / (d3 - d2)
    }
}

impl Illinois {
    /// Starts in slow start from the initial window.
    pub fn new(params: ControlParams) -> Self {
        Illinois {
            window: Window::new(&params),
            limit: ByteCounting::limit(&params, SLOW_START_LIMIT),
            extremes: None,
            round: Round::default(),
            alpha: ALPHA_MAX,
            beta: BETA_MAX,
            calm: None,
            unrewarded: 0.0,
            undo: None,
        }
    }

    /// Counts an ACK; at the end of a round, α and β are set anew.
    fn measure(&mut self, ack: &AckSample) {
        if let Some(rtt) = ack.rtt {
            let rtt = rtt.min(LONGEST_RTT);
            let (least, most) = self.extremes.unwrap_or((rtt, rtt));
            self.extremes = Some((least.min(rtt), most.max(rtt)));
            self.round.sum = self.round.sum.saturating_add(rtt);
            self.round.samples = self.round.samples.saturating_add(1);
        }
        self.round.remaining = self.round.remaining.saturating_sub(ack.delivered);
        if self.round.remaining == 0 {
            self.adapt();
            self.round = Round { remaining: ack.in_flight.max(1), ..Round::default() };
        }
    }

    fn adapt(&mut self) {
        if self.window.bytes() < WINDOW_THRESHOLD * self.window.mss() {
            (self.alpha, self.beta) = (ALPHA_BASE, BETA_MAX);
        } else if let (Some((least, most)), 1..) = (self.extremes, self.round.samples) {
            let mean = self.round.sum / self.round.samples;
            let (da, dm) = (mean.saturating_sub(least).as_secs_f64(), (most - least).as_secs_f64());
            self.alpha = self.next_alpha(da, dm);
            self.beta = beta(da, dm);
        }
    }

    fn next_alpha(&mut self, da: f64, dm: f64) -> f64 {
        if da > dm / 100.0 {
            self.calm = Some(self.calm.unwrap_or(0));
            return alpha(da, dm);
        }
        match &mut self.calm {
            Some(rounds) if *rounds + 1 < THETA => {
                *rounds += 1;
                self.alpha
            }
            _ => {
                self.calm = None;
                ALPHA_MAX
            }
        }
    }

    /// α/W for each segment acknowledged, in whole segments.
    fn grow(&mut self, ack: &AckSample, acked: u64) {
        if acked == 0 || !ack.cwnd_limited || self.window.in_slow_start() {
            return;
        }
        let size = self.window.bytes();
        self.unrewarded += self.alpha * acked.min(size) as f64;
        let segments = (self.unrewarded / size as f64) as u64;
        if segments > 0 {
            self.unrewarded = 0.0;
            self.window.set_bytes(size.saturating_add(segments * self.window.mss()));
        }
    }

    /// The window less the share `beta` of it. What limited transmit sent beyond it does not count (RFC 3042).
    fn reduced(&self, flight_size: u64, beta: f64) -> u64 {
        let size = flight_size.min(self.window.bytes());
        size - (size as f64 * beta) as u64
    }
}

impl Control for Illinois {
    fn on_ack(&mut self, ack: &AckSample) {
        self.measure(ack);
        if !self.window.admits(ack) {
            return;
        }
        let mut acked = ack.newly_acked;
        if self.window.in_slow_start() {
            acked = self.window.slow_start(ack, self.limit, 1);
        }
        self.grow(ack, acked);
    }

    fn on_congestion(&mut self, _now: Time, _event: CongestionEvent, flight_size: u64) {
        let left = self.reduced(flight_size, self.beta);
        self.undo = Some(self.window.reduce(left, left.max(2 * self.window.mss())));
        self.unrewarded = 0.0;
    }

    fn on_timeout(&mut self, _now: Time, flight_size: u64) {
        let half = self.reduced(flight_size, BETA_MAX);
        self.undo = self.window.collapse(half).or(self.undo);
        (self.alpha, self.beta) = (ALPHA_BASE, BETA_MAX);
        (self.calm, self.unrewarded, self.round) = (None, 0.0, Round::default());
    }

    fn on_spurious(&mut self, _now: Time) {
        if let Some(saved) = self.undo.take() {
            self.window.restore(saved);
        }
    }

    fn on_idle_restart(&mut self, _now: Time) {
        self.window.restart();
        (self.unrewarded, self.round) = (0.0, Round::default());
        self.undo = None;
    }

    delegate_to_window!();

    fn name(&self) -> &'static str {
        "illinois"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alpha_falls_from_ten_without_a_queue_to_three_tenths_with_the_longest() {
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
        near(alpha(0.01, 1.0), ALPHA_MAX);
        near(alpha(1.0, 1.0), ALPHA_MIN);
        // κ1 = 0.99·3/9.7 and κ2 = 0.99·0.3/9.7 − 0.01, by the paper
        near(alpha(0.5, 1.0), (0.99 * 3.0 / 9.7) / (0.99 * 0.3 / 9.7 - 0.01 + 0.5));
        assert!(alpha(0.2, 1.0) > alpha(0.21, 1.0));
    }

    #[test]
    fn beta_is_an_eighth_then_a_straight_line_then_a_half() {
        for (da, expected) in [(0.0, 0.125), (0.1, 0.125), (0.45, 0.3125), (0.8, 0.5), (1.0, 0.5)] {
            assert!((beta(da, 1.0) - expected).abs() < 1e-9, "{da}: {}", beta(da, 1.0));
        }
        assert_eq!(beta(0.0, 0.0), BETA_MIN, "no delay was ever seen");
    }
}
