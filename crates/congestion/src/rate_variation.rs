//! How much a path's rate changes from one round trip to the next.
use crate::snapshot::keeps;
use crate::volume::Gain;

/// The number of rounds for which a change counts: the mean is moved by an eighth of the difference, as SRTT is.
const MEMORY: u64 = 8;

/// The mean change of the delivery rate between two rounds, as a part of the greater of the two. A link of a fixed rate
/// has none; one that is shared out by radio conditions has a tenth to a half.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateVariation {
    /// In millionths.
    mean: u64,
    previous: u64,
    /// The highest rate of the present round.
    best: u64,
}

keeps!(RateVariation { mean, previous, best });

/// What is assumed before anything is measured, in millionths: a little, as on a link of which only the delay varies.
const ASSUMED: u64 = 60_000;

impl Default for RateVariation {
    fn default() -> Self {
        RateVariation { mean: ASSUMED, previous: 0, best: 0 }
    }
}

impl RateVariation {
    /// A rate, in bits a second, was measured in the present round.
    pub(crate) fn on_rate(&mut self, rate: u64) {
        self.best = self.best.max(rate);
    }

    /// A round has ended. If it was not `usual`, for the window was changed on purpose, it says nothing.
    pub(crate) fn on_round(&mut self, usual: bool) {
        let rate = core::mem::take(&mut self.best);
        if usual && rate > 0 && self.previous > 0 {
            let greater = rate.max(self.previous);
            let change = u128::from(rate.abs_diff(self.previous)) * 1_000_000 / u128::from(greater);
            self.mean = self.mean - self.mean / MEMORY + change as u64 / MEMORY;
        }
        self.previous = if usual { rate } else { 0 };
    }

    /// The mean, from zero to one.
    pub(crate) fn get(&self) -> Gain {
        Gain((self.mean / 1000) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(rates: &[u64]) -> u32 {
        let mut variation = RateVariation::default();
        for &rate in rates.iter().cycle().take(100) {
            variation.on_rate(rate / 2);
            variation.on_rate(rate);
            variation.on_round(true);
        }
        variation.get().0
    }

    #[test]
    fn a_steady_rate_has_none_and_one_that_halves_and_doubles_a_half() {
        assert_eq!(after(&[10_000_000]), 0);
        assert!((490..=500).contains(&after(&[10_000_000, 5_000_000])));
        assert!((80..=120).contains(&after(&[10_000_000, 9_000_000])));
    }

    #[test]
    fn rounds_with_another_window_do_not_count() {
        let of_the_same = |rates: &[u64]| {
            let mut variation = RateVariation::default();
            for &rate in rates {
                variation.on_rate(rate);
                variation.on_round(rate == 8);
            }
            variation.get()
        };
        assert_eq!(of_the_same(&[8, 8, 2, 2, 8, 8]), of_the_same(&[8, 8, 8]), "two comparisons of 8 with 8");
    }

    #[test]
    fn before_anything_is_measured_a_little_is_assumed() {
        assert_eq!(RateVariation::default().get(), Gain(60));
    }
}
