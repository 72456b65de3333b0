//! The smallest of recent samples, in constant space.
use crate::snapshot::{Blank, keeps};
use core::time::Duration;
use shorthaul_types::Time;

/// A running minimum over a time window (Kathleen Nichols' filter).
///
/// It keeps the best sample, the best since then, and the best since that, so that when the best
/// grows too old its successor is at hand. The result is the exact minimum unless successors grew
/// old together, and never older than the window.
#[derive(Clone, Debug, Default)]
pub struct MinFilter {
    best: Option<[Sample; 3]>,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Time,
    /// Nanoseconds.
    value: u64,
}

keeps!(MinFilter { best });
keeps!(Sample { at, value });

impl Blank for Sample {
    fn blank() -> Self {
        Sample { at: Time::ZERO, value: 0 }
    }
}

impl MinFilter {
    /// The smallest of the values, as the last update left it.
    pub fn get(&self) -> Option<Duration> {
        self.best.map(|best| Duration::from_nanos(best[0].value))
    }

    /// Takes in a value of at most an hour, and forgets what is older than `window`.
    pub fn update(&mut self, at: Time, value: Duration, window: Duration) {
        let value = value.as_nanos() as u64;
        let new = Sample { at, value };
        let age = |sample: Sample| at.saturating_since(sample.at);
        let Some([mut first, mut second, mut third]) = self.best else {
            self.best = Some([new; 3]);
            return;
        };
        if value <= first.value || age(third) > window {
            self.best = Some([new; 3]);
            return;
        }
        if value <= second.value {
            (second, third) = (new, new);
        } else if value <= third.value {
            third = new;
        }
        if age(first) > window {
            (first, second, third) = (second, third, new);
            if age(first) > window {
                (first, second, third) = (second, third, new);
            }
        } else if second.at == first.at && age(first) > window / 4 {
            // A quarter of the window without a second best: take one from here on.
            (second, third) = (new, new);
        } else if third.at == second.at && age(first) > window / 2 {
            third = new;
        }
        self.best = Some([first, second, third]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(10);

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn the_minimum_is_forgotten_when_it_leaves_the_window() {
        let mut filter = MinFilter::default();
        filter.update(Time::ZERO, ms(10), WINDOW);
        for s in 1..=10 {
            filter.update(Time::from_secs(s), ms(50), WINDOW);
            assert_eq!(filter.get(), Some(ms(10)), "after {s} s");
        }
        filter.update(Time::from_secs(11), ms(60), WINDOW);
        assert_eq!(filter.get(), Some(ms(50)));
    }

    #[test]
    fn a_smaller_sample_counts_at_once() {
        let mut filter = MinFilter::default();
        assert_eq!(filter.get(), None);
        filter.update(Time::ZERO, ms(10), WINDOW);
        filter.update(Time::from_secs(1), ms(9), WINDOW);
        assert_eq!(filter.get(), Some(ms(9)));
        filter.update(Time::from_secs(100), ms(90), WINDOW);
        assert_eq!(filter.get(), Some(ms(90)));
    }
}
