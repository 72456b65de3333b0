//! What the path itself is like: now and then the window is so small that no queue of it can be left, and what is measured then is the path's own.
use super::{AutoClamp, FLOOR, MEMORY, MOST_UNDER_LOAD, SAME, SURPLUS, scaled};
use crate::min_filter::MinFilter;
use crate::volume::{self, Gain};
use core::time::Duration;
use shorthaul_types::{BitRate, Time};

/// The rounds of a drained window before its round trips are the path's own.
const DRAIN_ROUNDS: u32 = 2;
/// How many more rounds stay drained if their round trips are longer than before.
const MORE_ROUNDS: u32 = 4;
/// A round trip that is shorter than this part of the shortest known one shows that there was a queue when that was measured.
const SHORTER: Gain = Gain(875);
/// Round trips that are shorter than this part of what they were have followed the window.
const FOLLOWS: Gain = Gain(900);

/// What the window does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It follows the product.
    Follow,
    /// It is small, until the queue must have drained: then round-trip times are the path's own.
    Drain { rounds: u32, before: u64, known: Duration, least: Option<Duration>, mean: Option<Duration> },
    /// It is what it was before it was drained, until the rates are those of this window again.
    Refill { rounds: u32 },
}

impl AutoClamp {
    /// The window becomes small enough for a path of this round trip, where the shortest known one is `known`; `least` segments.
    pub(super) fn begin_drain(&mut self, known: Duration, min_rtt: Duration, least: u64) {
        (self.longer, self.is_look) = (0, false);
        let rate = self.best_rate();
        self.phase = Phase::Drain { rounds: 0, before: self.window, known, least: None, mean: None };
        let product = volume::in_time(rate, min_rtt) * 3 / 4;
        let beside = volume::in_time(rate, self.beside);
        self.window = (product + beside).min(self.window).max(least * self.mss);
    }

    /// A round of the drained window is over, of which the shortest round trip was `least` and the average `mean`. Of the path are known its shortest round
    /// trip, what it is without this window's queue, and what it would be at the link's rate.
    pub(super) fn on_drained(
        &mut self,
        now: Time,
        (least, mean): (Duration, Duration),
        (min_rtt, unqueued, own_rtt): (Duration, Duration, Duration),
    ) {
        let Phase::Drain { rounds, before, known, least: found, mean: shown } = &mut self.phase else {
            return;
        };
        *rounds += 1;
        let drained = DRAIN_ROUNDS + u32::from(self.is_look && self.is_offered);
        if *rounds < drained {
            return;
        }
        let least = found.map_or(least, |found| found.min(least));
        *found = Some(least);
        let shown = *shown.insert(shown.map_or(mean, |shown| shown.min(mean)));
        // Whether the path is longer now is another question than what it is like under load.
        let same = self.is_look || least <= scaled(unqueued.max(own_rtt), SAME);
        if *rounds < drained + MORE_ROUNDS {
            if !same {
                return;
            }
            // They follow the window: what was taken for the path was a queue.
            if mean < scaled(unqueued, FOLLOWS) && mean > scaled(own_rtt, SAME) {
                let rate = self.path.bandwidth().map_or(0, BitRate::bits_per_sec);
                let smaller = volume::in_time(rate, mean) * 3 / 4;
                self.window = smaller.min(self.window).max(FLOOR * self.mss);
                self.under_load.on_shorter(mean);
                return;
            }
        }
        let (before, stood) = (*before, self.others.is_some() && least < scaled(*known, SHORTER));
        self.window = before;
        self.phase = Phase::Refill { rounds: 2 };
        self.confirmed_at = now;
        if self.can_look() {
            let longer = shown > scaled(own_rtt, SAME);
            self.under_load.on_look(longer.then_some(shown.min(2 * min_rtt + MOST_UNDER_LOAD)));
        }
        if self.others.is_some() {
            // Nobody's queue is in it now; in other rounds there may be the others'.
            self.base = MinFilter::default();
            self.base.update(now, mean, MEMORY);
        }
        if stood {
            // There was a queue whenever the shortest was measured: the link was full, and the window for another path.
            if self.starting {
                self.end_start(now);
            }
            let product = volume::in_time(self.best_rate(), least);
            let target = product + SURPLUS.of(product);
            self.window = target.max(FLOOR * self.mss).min(before);
        }
        if !same {
            // It grows from what it is: were the path not longer but the link nearly still, to double the
            // window until it is full would make a queue of many seconds.
            self.path.relearn(now, least);
            self.min_rtt_rate = self.best_rate();
            self.base = MinFilter::default();
        }
    }
}
