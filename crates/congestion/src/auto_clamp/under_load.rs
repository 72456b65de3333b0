//! Round trips that are long under load, and no queue: a radio that keeps the order of packets makes all wait for the one that comes
//! late; an uplink gathers acknowledgments. The more packets there are the longer it takes, up to a bound.
//!
//! A window that takes that for its own queue becomes smaller, the rate with it, and round trips stay as long as they were. That is also
//! how it is told: with three quarters of what the rate needs there is no queue, and what round trips take then, on average, is the
//! path's. A link that varies may do that once by chance. So it takes two looks to be believed, and the shortest of three counts.
use super::{AutoClamp, FLOOR, FULL, LONGER, UNNOTICED, scaled};
use crate::snapshot::keeps;
use crate::volume;
use core::time::Duration;

/// A look costs a part of two round trips. Where one takes this long, as over GPRS, that is seconds of a window of a few segments.
const SLOW: Duration = Duration::from_secs(1);
/// So many looks are remembered,
const LOOKS: usize = 3;
/// and so many are needed.
const NEEDED: usize = 2;
/// Rounds that are longer than is explained until the first look,
const FIRST: u32 = 4;
/// until what it showed is looked at again,
const SECOND: u32 = 4;
/// and at most, as each one that brings no news doubles them.
const MOST: u32 = 100;

/// What round trips take under load without a queue, where it is longer than the shortest.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnderLoad {
    looks: [Option<Duration>; LOOKS],
    /// Rounds since the last look, or in a row that were longer than is explained.
    rounds: u32,
    /// The next look is after so many.
    after: u32,
}

keeps!(UnderLoad { looks, rounds, after });

impl Default for UnderLoad {
    fn default() -> Self {
        UnderLoad { looks: [None; LOOKS], rounds: 0, after: FIRST }
    }
}

impl UnderLoad {
    /// It, where there is such a thing.
    pub fn get(&self) -> Option<Duration> {
        let looks = self.looks.iter().flatten();
        (looks.clone().count() >= NEEDED).then(|| looks.min().copied()).flatten()
    }

    /// The window was small enough for no queue, and a round trip took `mean` on average; `None` where that was no longer than the path
    /// takes by itself.
    pub fn on_look(&mut self, mean: Option<Duration>) {
        self.rounds = 0;
        // What is news is looked at again soon.
        if mean.is_none() || self.get().is_some() {
            self.after = (2 * self.after).min(MOST);
        }
        match mean {
            Some(_) => {
                self.looks.rotate_right(1);
                self.looks[0] = mean;
            }
            None => self.looks = [None; LOOKS],
        }
    }

    /// The start ended, and before it did, round trips took `mean` while the rate grew with the window.
    pub fn on_start(&mut self, mean: Duration) {
        self.looks[..NEEDED].fill(Some(mean));
    }

    /// Round trips followed the window when it became smaller still: they took no longer than `mean` by themselves.
    pub fn on_shorter(&mut self, mean: Duration) {
        for look in self.looks.iter_mut().flatten() {
            *look = mean.min(*look);
        }
    }

    /// A round is over, in which round trips were longer than is explained, or not. Says whether it is time to look.
    pub fn on_round(&mut self, is_longer: bool) -> bool {
        let is_seen = self.looks[0].is_some();
        self.rounds = if is_longer || is_seen { self.rounds.saturating_add(1) } else { 0 };
        let after = if is_seen && self.get().is_none() { SECOND.min(self.after) } else { self.after };
        self.rounds >= after
    }
}

/// Mean round trips while a window doubles. As long as they hardly grow, the rate does, and there is no queue, however long they are.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Doubled {
    mean: Option<Duration>,
    times: u32,
}

/// So often a window has to have doubled until round trips that were long all the time are the path's.
const DOUBLED: u32 = 3;

impl Doubled {
    /// The window doubles after a round of this mean.
    pub fn on_round(&mut self, mean: Duration) {
        self.mean = Some(mean);
        self.times = self.times.saturating_add(1);
    }

    /// That of the last round.
    pub fn mean(&self) -> Option<Duration> {
        self.mean
    }

    /// What a round trip took before the link was full, if that is known.
    pub fn without_queue(&self) -> Option<Duration> {
        self.mean.filter(|_| self.times >= DOUBLED)
    }
}

impl AutoClamp {
    /// What a round trip takes without a queue, where `own` is the shortest.
    pub(super) fn unqueued(&self, own: Duration) -> Duration {
        match self.under_load.get() {
            Some(under_load) if self.may_be_long() => own.max(under_load),
            _ => own,
        }
    }

    /// Whether round trips may be long without a queue, and that can be told: where they are shorter than a queue that nobody notices, what
    /// waits in the other direction is not known that exactly.
    fn may_be_long(&self) -> bool {
        let can_be_told = |min_rtt: Duration| (UNNOTICED..SLOW).contains(&min_rtt);
        self.looks && self.others.is_none() && self.path.min_rtt().is_none_or(can_be_told)
    }

    /// Whether a smaller window shows what the path is like without a queue: a queue that was overfull was a queue.
    pub(super) fn can_look(&self) -> bool {
        self.may_be_long() && self.overflown == 0
    }

    /// Whether it is time for that, after a round of this mean in which the window was used up.
    pub(super) fn is_time_to_look(&mut self, mean: Duration, unqueued: Duration) -> bool {
        let least = FLOOR * self.mss;
        // What is offered to others and cannot become small enough has a queue of its own making in each look: where the rate had been a
        // tenth, uploads had a queue of 28 ms instead of 20.
        let shows = !self.is_offered || volume::in_time(self.best_rate(), unqueued) * 3 / 4 >= least;
        let is_longer = mean > scaled(self.surplus_rtt, LONGER);
        shows && self.can_look() && self.under_load.on_round(is_longer)
    }

    /// Round trips that are longer show at the start that the link is full. Those that were as long with half of the window do not.
    pub(super) fn full_at_start(&self, min_rtt: Duration) -> Duration {
        let full = scaled(min_rtt, FULL);
        match !self.is_offered && self.can_look() {
            true => self.doubled.mean().map_or(full, |mean| full.max(scaled(mean, FULL))),
            false => full,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Option<Duration> = Some(Duration::from_millis(60));
    const LONGER: Option<Duration> = Some(Duration::from_millis(70));

    /// Rounds until it is time to look.
    fn rounds(under_load: &mut UnderLoad) -> u32 {
        (1..1000).find(|_| under_load.on_round(true)).expect("some time")
    }

    #[test]
    fn two_looks_are_believed_and_the_shortest_of_three_counts() {
        let mut under_load = UnderLoad::default();
        assert_eq!(rounds(&mut under_load), FIRST);
        under_load.on_look(LONGER);
        assert_eq!(under_load.get(), None, "by chance");
        assert_eq!(rounds(&mut under_load), SECOND);
        under_load.on_look(LONG);
        assert_eq!(under_load.get(), LONG);
        under_load.on_look(LONGER);
        under_load.on_look(LONGER);
        assert_eq!(under_load.get(), LONG);
        under_load.on_look(LONGER);
        assert_eq!(under_load.get(), LONGER);
        under_load.on_look(None);
        assert_eq!(under_load.get(), None);
    }

    #[test]
    fn looks_that_bring_no_news_become_rare() {
        let mut under_load = UnderLoad::default();
        let mut last = rounds(&mut under_load);
        for _ in 0..3 {
            under_load.on_look(None);
            let next = rounds(&mut under_load);
            assert_eq!(next, 2 * last);
            last = next;
        }
        assert!(!under_load.on_round(false), "rounds that are explained begin anew");
        for _ in 0..5 {
            under_load.on_look(None);
        }
        assert_eq!(rounds(&mut under_load), MOST);
    }
}
