//! HyStart++ (RFC 9406): leaving the initial slow start when the round-trip time begins to rise,
//! before the queue overflows.
//!
//! A round lasts until everything that was in flight at its start is delivered. When the smallest
//! round-trip time of a round is larger than that of the round before by
//!
//! ```text
//! RttThresh = max(4 ms, min(lastRoundMinRTT / 8, 16 ms))                               §4.2
//! ```
//! the queue may be filling: Conservative Slow Start (CSS) goes on at a quarter of the growth for
//! up to five rounds. If the round-trip time falls below where it was on entry, the rise was
//! jitter, and slow start resumes; else congestion avoidance follows.
use core::time::Duration;

use crate::AckSample;
use crate::snapshot::{Blank, keeps};

const MIN_RTT_THRESH: Duration = Duration::from_millis(4);
const MAX_RTT_THRESH: Duration = Duration::from_millis(16);
const MIN_RTT_DIVISOR: u32 = 8;
const N_RTT_SAMPLE: u32 = 8;
const CSS_ROUNDS: u32 = 5;
/// How much slower the window grows in CSS.
pub(crate) const CSS_GROWTH_DIVISOR: u64 = 4;
/// L of a sender that does not pace, in segments (§4.3); a paced one has none.
pub(crate) const SLOW_START_LIMIT: u64 = 8;

/// How the window is to grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    SlowStart,
    Conservative,
    /// The path is full: congestion avoidance begins.
    Done,
}

/// Conservative Slow Start.
#[derive(Clone, Copy, Debug)]
struct Conservative {
    /// cssBaselineMinRtt: the round-trip time that caused the entry.
    baseline: Duration,
    rounds: u32,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct HyStart {
    /// Bytes still to be delivered before the round ends; zero before the first.
    round_left: u64,
    last_round_min: Option<Duration>,
    round_min: Option<Duration>,
    samples: u32,
    conservative: Option<Conservative>,
}

keeps!(HyStart { round_left, last_round_min, round_min, samples, conservative });
keeps!(Conservative { baseline, rounds });

impl Blank for Conservative {
    fn blank() -> Self {
        Conservative { baseline: Duration::ZERO, rounds: 0 }
    }
}

impl HyStart {
    /// Takes the round-trip time of an ACK in slow start and tells how to go on.
    pub(crate) fn on_ack(&mut self, ack: &AckSample) -> Phase {
        if self.round_left == 0 {
            self.start_round(ack.in_flight_before);
        }
        if let Some(rtt) = ack.rtt {
            self.samples = self.samples.saturating_add(1);
            self.round_min = Some(self.round_min.map_or(rtt, |min| min.min(rtt)));
        }
        if self.samples >= N_RTT_SAMPLE {
            self.judge_delay();
        }
        let round_ended = ack.delivered >= self.round_left;
        self.round_left = self.round_left.saturating_sub(ack.delivered);
        if round_ended {
            if let Some(css) = &mut self.conservative {
                // The round in which CSS was entered counts, though it was only a part of one.
                css.rounds += 1;
                if css.rounds >= CSS_ROUNDS {
                    return Phase::Done;
                }
            }
            self.start_round(ack.in_flight);
        }
        if self.conservative.is_some() { Phase::Conservative } else { Phase::SlowStart }
    }

    fn start_round(&mut self, in_flight: u64) {
        self.round_left = in_flight;
        if self.round_min.is_some() {
            self.last_round_min = self.round_min.take();
        }
        self.samples = 0;
    }

    /// Enters or leaves CSS by the smallest round-trip time of this round so far.
    fn judge_delay(&mut self) {
        let Some(current) = self.round_min else { return };
        match self.conservative {
            Some(css) if current < css.baseline => self.conservative = None,
            Some(_) => {}
            None => {
                let Some(last) = self.last_round_min else { return };
                let threshold = (last / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
                if current >= last.saturating_add(threshold) {
                    self.conservative = Some(Conservative { baseline: current, rounds: 0 });
                }
            }
        }
    }
}
