//! Vegas: the round-trip time tells how much waits in the queue, and the window is set so that
//! this is a few segments.
//!
//! Once a round trip, with W the window, BaseRTT the smallest round-trip time ever and RTT the
//! smallest of the round:
//!
//! ```text
//! Expected = W / BaseRTT      Actual = W / RTT
//! diff     = (Expected − Actual)·BaseRTT = W·(1 − BaseRTT/RTT)   segments in the queue      §III-B
//! avoidance    diff < α = 2: W += 1    diff > β = 4: W −= 1    else W stays                §III-B
//! slow start   W doubles every other round trip; in the rounds between it stays, so that Expected and
//!              Actual are of the same W. diff > γ = 1 ends it                              §III-C
//! loss, RTO        as Reno
//! ```
//! Source: L. S. Brakmo and L. L. Peterson, "TCP Vegas: end to end congestion avoidance on
//! a global Internet", IEEE JSAC 13(8), 1995.
//!
//! As in Linux's `tcp_vegas`: on leaving slow start W becomes what filled the path at the actual
//! rate, W·BaseRTT/RTT + 1; the smallest round-trip time of the round is taken, since that of
//! a delayed acknowledgment says nothing about the queue; a round with fewer than three samples
//! grows as Reno; and after recovery or idleness one whole round is waited for. The new mechanisms
//! for retransmission in the paper (§III-A) are not part of congestion control here: the sender's
//! own recovery does their work, and so the window is halved, not cut by a quarter, on loss.
//!
//! What left while W stayed is acknowledged in the round after, the one that is to double W again. In
//! that round W grows from the first sample on that shows no more than γ in the queue; if none does,
//! slow start is over, and W was never doubled once too often.
//!
//! Deviation from Linux: `diff` has RTT, not BaseRTT, below the fraction bar, as in the paper.
use core::time::Duration;

use shorthaul_types::Time;

use super::reno::SLOW_START_LIMIT;
use crate::congestion_avoidance::CongestionAvoidance;
use crate::window::{SavedWindow, Window, delegate_to_window};
use crate::{AckSample, ByteCounting, CongestionEvent, Control, ControlParams};

/// α: with less than this in the queue, the window grows. In segments, like β and γ.
const ALPHA: u64 = 2;
/// β: with more than this in the queue, the window shrinks.
const BETA: u64 = 4;
/// γ: with more than this in the queue, slow start ends.
const GAMMA: u64 = 1;
/// With fewer samples than this in a round, all may be of delayed acknowledgments.
const ENOUGH_SAMPLES: u32 = 3;

/// Vegas congestion control (Brakmo and Peterson).
#[derive(Debug)]
pub struct Vegas {
    window: Window,
    avoidance: CongestionAvoidance,
    limit: Option<u64>,
    base_rtt: Option<Duration>,
    round: Round,
    /// Slow start grows in this round; in the next it holds.
    growing: bool,
    /// The window when the round began.
    held: u64,
    undo: Option<SavedWindow>,
}

/// What is seen while one window is acknowledged.
#[derive(Debug, Default)]
struct Round {
    /// Bytes still to be delivered before it ends.
    remaining: u64,
    min_rtt: Option<Duration>,
    samples: u32,
    /// The window limited the sender throughout.
    limited: bool,
    /// Recovery or idleness touched it: no conclusion is drawn from it.
    disturbed: bool,
}

impl Round {
    fn new(in_flight: u64) -> Self {
        Round { remaining: in_flight, limited: true, ..Round::default() }
    }
}

impl Vegas {
    /// Starts in slow start from the initial window.
    pub fn new(params: ControlParams) -> Self {
        Vegas {
            window: Window::new(&params),
            avoidance: CongestionAvoidance::default(),
            limit: ByteCounting::limit(&params, SLOW_START_LIMIT),
            base_rtt: None,
            round: Round { disturbed: true, ..Round::default() },
            growing: false,
            held: params.initial_window,
            undo: None,
        }
    }

    /// Of the window with which the round began, the bytes that wait in the queue and those that the
    /// path itself holds, by the smallest round-trip time of the round.
    fn split(&self, round: &Round) -> Option<(u64, u64)> {
        let (base, rtt) = (self.base_rtt?, round.min_rtt?);
        let path = u128::from(self.held) * base.as_nanos() / rtt.as_nanos().max(1);
        let path = path.min(u128::from(self.held)) as u64;
        Some((self.held - path, path))
    }

    /// A round has ended: sets the window by what was seen in it.
    fn judge(&mut self, round: &Round) {
        let Some((queued, path)) = self.split(round) else { return };
        let mss = self.window.mss();
        if self.window.in_slow_start() {
            if self.growing && queued > GAMMA * mss {
                self.window.set_bytes(self.window.bytes().min(path + mss).max(2 * mss));
                self.window.leave_slow_start();
            }
        } else if queued > BETA * mss {
            self.window.set_bytes((self.window.bytes() - mss).max(2 * mss));
            self.window.leave_slow_start();
        } else if queued < ALPHA * mss && round.limited {
            self.window.set_bytes(self.window.bytes() + mss);
        }
    }

    fn start_over(&mut self, in_flight: u64) {
        self.round = Round { disturbed: true, ..Round::new(in_flight) };
        self.growing = false;
        self.avoidance.reset();
    }
}

impl Control for Vegas {
    fn on_ack(&mut self, ack: &AckSample) {
        if let Some(rtt) = ack.rtt.map(|rtt| rtt.max(Duration::from_nanos(1))) {
            self.base_rtt = Some(self.base_rtt.map_or(rtt, |base| base.min(rtt)));
            self.round.min_rtt = Some(self.round.min_rtt.map_or(rtt, |min| min.min(rtt)));
            self.round.samples = self.round.samples.saturating_add(1);
        }
        self.round.limited &= ack.cwnd_limited;
        let ended = ack.delivered >= self.round.remaining;
        self.round.remaining = self.round.remaining.saturating_sub(ack.delivered);
        let admitted = self.window.admits(ack);
        self.round.disturbed |= !admitted && ack.in_recovery;
        if admitted {
            let measured = self.round.samples >= ENOUGH_SAMPLES;
            if self.window.in_slow_start() {
                let room =
                    self.split(&self.round).is_some_and(|(queued, _)| queued <= GAMMA * self.window.mss());
                if (self.growing && room) || self.window.is_repairing_timeout() {
                    self.window.slow_start(ack, self.limit, 1);
                }
            } else if self.round.disturbed || (ended && !measured) {
                self.avoidance.on_ack(&mut self.window, ack, ack.newly_acked);
            }
            if ended && measured && !self.round.disturbed {
                let round = core::mem::take(&mut self.round);
                self.judge(&round);
            }
        }
        if ended {
            self.growing = !self.growing;
            self.round = Round::new(ack.in_flight);
            self.held = self.window.bytes();
        }
    }

    fn on_congestion(&mut self, _now: Time, _event: CongestionEvent, flight_size: u64) {
        let half = flight_size.min(self.window.bytes()) / 2;
        self.undo = Some(self.window.reduce(half, half.max(2 * self.window.mss())));
        self.start_over(half);
    }

    fn on_timeout(&mut self, _now: Time, flight_size: u64) {
        let half = flight_size.min(self.window.bytes()) / 2;
        self.undo = self.window.collapse(half).or(self.undo);
        self.start_over(0);
    }

    fn on_spurious(&mut self, _now: Time) {
        if let Some(saved) = self.undo.take() {
            self.window.restore(saved);
        }
    }

    fn on_idle_restart(&mut self, _now: Time) {
        self.window.restart();
        self.start_over(0);
        self.undo = None;
    }

    fn on_transmit_start(&mut self, _now: Time) {
        // The round-trip times before the pause are those of another queue.
        self.round = Round { disturbed: true, ..Round::default() };
    }

    delegate_to_window!();

    fn name(&self) -> &'static str {
        "vegas"
    }
}
