//! Others who may share the path's queue: what is known of them, and what is done together.
use super::under_load::UnderLoad;
use super::{AutoClamp, DRAINED, FLOOR, Phase, RoundTrips, SURPLUS};
use crate::Delivery;
use crate::min_filter::MinFilter;
use crate::recent_max::RecentMax;
use crate::volume;
use crate::window::MAX_WINDOW;
use core::time::Duration;
use shorthaul_types::{BitRate, Time};

/// What is known of those who may share a link with a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Others {
    /// The mean rate of all of them, the window's own counted, in bit/s.
    pub mean_rate: u64,
    /// The window's own shortest round trip was measured without a queue of theirs.
    pub path_is_known: bool,
}

impl AutoClamp {
    /// Tells who may share the link, where there are others. A surplus that is a part of the product keeps rates as they
    /// are to each other; who has less than the mean has a larger one, and who has more a smaller one, until all have the same.
    pub fn set_others(&mut self, others: Option<Others>) {
        self.others = others;
    }

    /// All who may share the path's queue hold back now. The path may be as short as `nearest`, another's of them: whoever came when the
    /// queue stood has never seen it without.
    pub fn drain(&mut self, nearest: Duration) {
        self.asks_drain = false;
        if let (Some(min_rtt), false) = (self.path.min_rtt(), matches!(self.phase, Phase::Drain { .. })) {
            self.begin_drain(min_rtt, min_rtt.min(nearest), DRAINED);
        }
    }

    /// Whether the path is to be seen without a queue, and others may share that: see [`drain`](Self::drain).
    pub fn asks_drain(&self) -> bool {
        self.asks_drain
    }

    /// Something was delivered while another window than this was in use.
    pub fn on_delivery_beside(&mut self, delivery: Delivery) {
        self.path.on_delivery(delivery);
    }

    /// Others are served with this window from now on: together they have `rate` in a round trip of `nearest`. No less than `least`
    /// bytes.
    pub fn on_joined(&mut self, now: Time, nearest: Duration, rate: BitRate, least: u64) {
        let product = volume::in_time(rate.bits_per_sec(), nearest);
        self.on_uncontested(now, nearest, (product + SURPLUS.of(product)).max(least));
    }

    /// Nobody competes any more, and round trips of late were as short as `rtt`. The window goes on from `window` bytes.
    pub fn on_uncontested(&mut self, now: Time, rtt: Duration, window: u64) {
        self.path.on_gap(now);
        self.path.relearn(now, rtt.min(self.path.min_rtt().unwrap_or(rtt)));
        self.min_rtt_rate = self.best_rate();
        self.base = MinFilter::default();
        self.aggregation.restart(now);
        self.round = RoundTrips::default();
        self.recent = RecentMax::new();
        self.longer = 0;
        self.confirmed_at = now;
        self.starting = false;
        self.under_load = UnderLoad::default();
        self.window = window.clamp(FLOOR * self.mss, MAX_WINDOW);
        self.phase = Phase::Refill { rounds: 2 };
    }
}
