//! Whether others may fill the path's queue: round trips stay long, whatever the window does.
//!
//! That is no answer, for a path may be long under load by itself; it says when it is worth to ask.
use super::{AutoClamp, DOUBT, LONGER, SAME, scaled};
use crate::min_filter::MinFilter;
use crate::volume::Gain;
use core::time::Duration;
use shorthaul_types::{BitRate, Bytes, Time};

/// Rates are remembered as the time that this takes.
const MEGABYTE: Bytes = Bytes(1_000_000);
/// So many rounds that are not explained are enough where they lasted for [`LASTS`], and so many where they are shorter.
const ROUNDS: [u32; 2] = [4, 16];
/// See [`ROUNDS`].
const LASTS: Duration = Duration::from_secs(1);
/// A round trip of up to this many times what the window makes on a full link is explained by the window.
const EXPLAINED: Gain = Gain(1060);

/// Rounds whose round trips the window does not explain.
#[derive(Clone, Debug, Default)]
pub(super) struct Contested {
    /// How long a megabyte took at the best rate of the last minute.
    quickest: MinFilter,
    /// Since when rounds are not explained, and how many they are.
    unexplained: Option<(Time, u32)>,
    is_long: bool,
}

impl Contested {
    /// The path was seen to carry this much.
    pub fn on_rate(&mut self, now: Time, rate: BitRate) {
        self.quickest.update(now, rate.time_to_send(MEGABYTE), DOUBT);
    }

    /// Whether `rate`, in bit/s, is less than half of the best one of the last minute.
    fn has_yielded(&self, rate: u64) -> bool {
        let now = BitRate::from_bits_per_sec(rate.max(1)).time_to_send(MEGABYTE);
        self.quickest.get().is_some_and(|quickest| now > 2 * quickest)
    }

    fn on_round(&mut self, now: Time, is_explained: bool) {
        let (since, rounds) = self.unexplained.unwrap_or((now, 0));
        let rounds = rounds.saturating_add(1);
        self.unexplained = (!is_explained).then_some((since, rounds));
        let lasts = now.saturating_since(since) >= LASTS;
        self.is_long = !is_explained && rounds >= ROUNDS[usize::from(!lasts)];
    }
}

impl AutoClamp {
    /// The shortest round trip of the path, of late where the path may have become longer.
    pub fn shortest(&self) -> Option<Duration> {
        let known = self.path.min_rtt();
        self.shortest.get().into_iter().chain(known).min()
    }

    /// Whether round trips stay long although the window has followed, or was smaller for a while: the path is long by itself, or others fill the
    /// queue.
    pub fn is_contested(&self) -> bool {
        self.has_become_longer() || self.under_load.get().is_some() || self.contested.is_long
    }

    /// Whether the path is taken to be longer than it was a minute ago: a drained window left round trips long.
    pub fn has_become_longer(&self) -> bool {
        match (self.path.min_rtt(), self.shortest()) {
            (Some(known), Some(shortest)) => known > scaled(shortest, SAME),
            _ => false,
        }
    }

    /// A round that the window limited is over, with round trips of `mean`.
    pub(super) fn watch_round(&mut self, now: Time, mean: Duration, min_rtt: Duration) {
        let is_longer = mean > scaled(self.shortest().unwrap_or(min_rtt), LONGER);
        let has_yielded = is_longer && self.contested.has_yielded(self.recent.get());
        let is_explained = mean <= scaled(self.full_rtt.max(min_rtt), EXPLAINED);
        self.contested.on_round(now, is_explained && !has_yielded);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After how many rounds of this length it is long.
    fn long_after(round: Duration) -> Option<u32> {
        let mut contested = Contested::default();
        (1..100).find(|number| {
            contested.on_round(Time::from_secs(1) + round * *number, false);
            contested.is_long
        })
    }

    #[test]
    fn what_is_not_explained_for_long_is_told() {
        assert_eq!(long_after(Duration::from_millis(10)), Some(16));
        assert_eq!(long_after(Duration::from_millis(200)), Some(6), "a second later");
        assert_eq!(long_after(Duration::from_secs(2)), Some(4));
        let mut contested = Contested::default();
        let explained = (1..100).all(|number| {
            contested.on_round(Time::from_secs(number), number % 3 == 0);
            !contested.is_long
        });
        assert!(explained, "one that is explained begins anew");
    }

    #[test]
    fn who_has_half_of_what_was_carried_has_not_yielded() {
        let mut contested = Contested::default();
        let start = Time::from_secs(1);
        contested.on_rate(start, BitRate::from_bits_per_sec(20_000_000));
        contested.on_rate(start + Duration::from_secs(1), BitRate::from_bits_per_sec(5_000_000));
        assert!(contested.has_yielded(9_000_000) && !contested.has_yielded(10_000_000));
        let later = start + DOUBT + Duration::from_secs(2);
        contested.on_rate(later, BitRate::from_bits_per_sec(5_000_000));
        assert!(!contested.has_yielded(5_000_000), "a minute later nobody knows");
    }
}
