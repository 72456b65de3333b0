//! A clamped window that finds its own size: the effective bandwidth-delay product, estimated all the
//! time (the future work of "TCP flow aggregation", §IX).
//!
//! ```text
//! window = gain · rate · min_rtt + bunching
//! ```
//! `rate` is what was delivered over the last round trips, `min_rtt` the shortest of the last ten seconds,
//! and `bunching` what acknowledgments deliver at a time beyond the rate: links that gather
//! acknowledgments, or serve a phone every so often, need that much more to stay busy.
//!
//! Nobody else uses the link, so a queue is our own doing and shows at once in the round-trip time. While
//! there is none, rate = window / min_rtt, and the window grows by `gain` a round trip; when the link is
//! full, the rate no longer follows, and a queue of (gain − 1) of the product remains, as the paper has it.
//! No phase of probing is needed: the surplus that keeps the link busy is the probe. When the link's rate falls,
//! deliveries slow down at once, and the window follows within a round trip of the empty link.
use core::time::Duration;

use shorthaul_types::{BitRate, Time};

use crate::ack_aggregation::{AckAggregation, Expectation};
use crate::volume::{self, Gain};
use crate::window::MAX_WINDOW;
use crate::{Delivery, PathEstimate};

/// The window over the product: "around 20 % larger than the effective link BDP" (AGG §IV-C).
const GAIN: Gain = Gain(1200);
/// How much longer than the shortest one the round-trip times of a whole round must be to show a queue.
const QUEUED: Gain = Gain(1250);
/// Rounds in a row with hardly any growth after which the pipe is full, as in BBR.
const FULL_ROUNDS: u32 = 3;
/// A round-trip time is remembered for so long.
const MEMORY: Duration = Duration::from_secs(10);
/// So many rounds in which the window fell and the round-trip time did not show that it is not a queue
/// that makes it long, but another path.
const REROUTED_ROUNDS: u32 = 4;
/// The window never falls below so many segments, or delayed acknowledgments stop the clock.
const FLOOR: u64 = 4;

/// A window that follows the product of bandwidth and delay.
#[derive(Clone, Debug)]
pub struct AutoClamp {
    path: PathEstimate,
    bunching: AckAggregation,
    mss: u64,
    window: u64,
    /// The link was never full yet: the window doubles each round.
    starting: bool,
    full: u32,
    best: u64,
    /// The window, not the data, limited what was sent in this round.
    round_limited: bool,
    /// The shortest round-trip time of this round.
    round_rtt: Option<Duration>,
    /// Of the rounds before, while the window fell and the round-trip time stayed.
    stuck: u32,
    stuck_rtt: Duration,
}

impl AutoClamp {
    /// Begins with `initial` bytes, for segments of `mss` bytes.
    pub fn new(now: Time, mss: u32, initial: u64) -> Self {
        AutoClamp {
            path: PathEstimate::new(now, MEMORY),
            bunching: AckAggregation::new(now),
            mss: u64::from(mss.max(1)),
            window: initial.max(FLOOR * u64::from(mss)).min(MAX_WINDOW),
            starting: true,
            full: 0,
            best: 0,
            round_limited: false,
            round_rtt: None,
            stuck: 0,
            stuck_rtt: Duration::ZERO,
        }
    }

    /// What the path is known to be like.
    pub fn path(&self) -> &PathEstimate {
        &self.path
    }

    /// The window, in bytes.
    pub fn window(&self) -> u64 {
        self.window
    }

    /// Whether the link was never full yet.
    pub fn is_starting(&self) -> bool {
        self.starting
    }

    /// Something is sent while `in_flight` bytes, itself not included, are on their way.
    pub fn on_send(&mut self, now: Time, in_flight: u64) {
        self.path.on_send(now, in_flight);
        if in_flight == 0 {
            self.bunching.restart(now);
        }
    }

    /// The window is not used up, for want of data, with `in_flight` bytes on their way.
    pub fn on_limited(&mut self, in_flight: u64) {
        self.path.on_limited(in_flight);
    }

    /// The window held something back.
    pub fn on_full(&mut self) {
        self.round_limited = true;
    }

    /// Something was delivered.
    pub fn on_delivery(&mut self, delivery: Delivery) {
        let Delivery { now, bytes, rtt, .. } = delivery;
        self.path.on_delivery(delivery);
        if let Some(rtt) = rtt {
            self.round_rtt = Some(self.round_rtt.map_or(rtt, |least| least.min(rtt)));
        }
        let (Some(rate), Some(min_rtt)) = (self.path.bandwidth(), self.path.min_rtt()) else { return };
        let path =
            Expectation { bandwidth: rate.bits_per_sec(), window: self.window, round: self.path.rounds() };
        self.bunching.on_ack(now, bytes, path);
        if self.path.round_ended() {
            self.on_round(now, min_rtt);
        }
        if !self.starting
            && let Some(latest) = self.path.latest_rate()
        {
            self.follow(latest, min_rtt);
        }
    }

    fn on_round(&mut self, now: Time, min_rtt: Duration) {
        let limited = core::mem::take(&mut self.round_limited);
        let Some(rtt) = self.round_rtt.take() else { return };
        let queued = rtt.as_nanos() > u128::from(QUEUED.of(min_rtt.as_nanos() as u64));
        if self.starting {
            let rate = self.path.bandwidth().map_or(0, BitRate::bits_per_sec);
            let grows = rate > Gain(1250).of(self.best);
            self.best = self.best.max(rate);
            if limited {
                self.full = if grows { 0 } else { self.full + 1 };
                if queued || self.full >= FULL_ROUNDS {
                    self.starting = false;
                } else {
                    self.window = (2 * self.window).min(MAX_WINDOW);
                }
            }
            return;
        }
        // A longer path looks like a queue that does not drain: learn its delay, or the window would fall
        // for as long as the shorter one is remembered.
        let same = rtt.abs_diff(self.stuck_rtt) < rtt / 8;
        self.stuck = if queued && same { self.stuck + 1 } else { 0 };
        self.stuck_rtt = rtt;
        if self.stuck >= REROUTED_ROUNDS {
            self.path.relearn(now, rtt);
            self.stuck = 0;
        }
    }

    fn follow(&mut self, rate: BitRate, min_rtt: Duration) {
        let product = volume::in_time(rate.bits_per_sec(), min_rtt);
        let target = GAIN.of(product) + self.bunching.extra();
        self.window = target.clamp(FLOOR * self.mss, MAX_WINDOW);
    }

    /// The link is back after it carried nothing for a while: it may be another cell.
    pub fn on_link_back(&mut self, now: Time) {
        self.bunching.restart(now);
        self.round_rtt = None;
        self.stuck = 0;
    }
}
