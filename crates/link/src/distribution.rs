use core::time::Duration;

use shorthaul_types::Seed;

use crate::draw::Draw;

/// A random length of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// Always the same.
    Constant(Duration),
    /// Every value from `min` to `max` is equally likely.
    Uniform {
        /// The shortest.
        min: Duration,
        /// The longest; not below `min`.
        max: Duration,
    },
    /// Exponential, cut off at `max` (by conditioning, so nothing piles up there).
    Exponential {
        /// The mean it would have without the cut; above zero.
        mean: Duration,
        /// The longest; `Duration::MAX` for no cut.
        max: Duration,
    },
    /// Normal; a negative draw counts as zero.
    Normal {
        /// The mean before negative draws are raised to zero.
        mean: Duration,
        /// The standard deviation.
        std_dev: Duration,
    },
    /// Pareto: mostly small, with rare large outliers.
    Pareto {
        /// The mean. The smallest value is `mean · (shape − 1) / shape`.
        mean: Duration,
        /// The tail exponent, above 1. Up to 2 the variance is infinite.
        shape: f64,
    },
}

impl Distribution {
    /// A Pareto distribution with shape 1.5, which is what ns-2 takes when none is given.
    pub const fn pareto(mean: Duration) -> Self {
        Distribution::Pareto { mean, shape: 1.5 }
    }

    /// The expected value.
    pub fn mean(&self) -> Duration {
        match *self {
            Distribution::Constant(value) => value,
            Distribution::Uniform { min, max } => min.saturating_add(max) / 2,
            Distribution::Pareto { mean, .. } => mean,
            Distribution::Exponential { mean, max } => {
                let (mean, max) = (mean.as_secs_f64(), max.as_secs_f64());
                seconds(mean - max / libm::expm1(max / mean))
            }
            Distribution::Normal { mean, std_dev } => {
                let (mean, std_dev) = (mean.as_secs_f64(), std_dev.as_secs_f64());
                if std_dev == 0.0 {
                    return seconds(mean);
                }
                let z = mean / std_dev;
                let below = 0.5 * (1.0 + libm::erf(z / core::f64::consts::SQRT_2));
                let density = libm::exp(-0.5 * z * z) / libm::sqrt(core::f64::consts::TAU);
                seconds(mean * below + std_dev * density)
            }
        }
    }

    /// The `index`th of the random values that belong to `seed`: a function, so that whoever draws with the
    /// same seed gets the same values in whatever order.
    pub fn draw(&self, seed: Seed, index: u64) -> Duration {
        self.sample(Draw::of(seed, "times"), index)
    }

    /// Says what is wrong with the parameters, if anything, and what would be right.
    ///
    /// # Errors
    /// If there is no distribution with these parameters.
    pub fn check(&self) -> Result<(), &'static str> {
        self.problem().map_or(Ok(()), Err)
    }

    /// The value that belongs to `index`.
    pub(crate) fn sample(&self, draw: Draw, index: u64) -> Duration {
        match *self {
            Distribution::Constant(value) => value,
            Distribution::Uniform { min, max } => {
                let width = u64::try_from(max.saturating_sub(min).as_nanos()).unwrap_or(u64::MAX);
                let offset = (u128::from(draw.bits(index)) * (u128::from(width) + 1)) >> 64;
                min.saturating_add(Duration::from_nanos(offset as u64))
            }
            Distribution::Exponential { mean, max } => {
                let (mean, max) = (mean.as_secs_f64(), max.as_secs_f64());
                let share_below_max = -libm::expm1(-max / mean);
                seconds(-mean * libm::log1p(-draw.unit(index) * share_below_max))
            }
            Distribution::Normal { mean, std_dev } => {
                seconds(mean.as_secs_f64() + std_dev.as_secs_f64() * draw.normal(index))
            }
            Distribution::Pareto { mean, shape } => {
                let smallest = mean.as_secs_f64() * (shape - 1.0) / shape;
                seconds(smallest * libm::pow(draw.positive_unit(index), -1.0 / shape))
            }
        }
    }

    /// What is wrong with the parameters, if anything.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        match *self {
            Distribution::Uniform { min, max } if min > max => Some("min is greater than max; exchange them"),
            Distribution::Exponential { mean, .. } if mean.is_zero() => Some("mean must be above zero"),
            Distribution::Exponential { max, .. } if max.is_zero() => Some("max must be above zero"),
            // written so that NaN is refused too
            Distribution::Pareto { shape, .. } if !(shape > 1.0 && shape.is_finite()) => {
                Some("shape must be above 1, or the mean does not exist; 1.5 is usual")
            }
            _ => None,
        }
    }
}

/// `value` seconds, kept within what a `Duration` can hold; negative values become zero.
pub(crate) fn seconds(value: f64) -> Duration {
    // `as` saturates, and 584 years are enough for anyone's delay
    Duration::from_nanos((value * 1e9 + 0.5) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use shorthaul_types::Seed;

    fn sampled_mean(distribution: Distribution, n: u64) -> f64 {
        let draw = Draw::of(Seed(5), "test");
        (0..n).map(|i| distribution.sample(draw, i).as_secs_f64()).sum::<f64>() / n as f64
    }

    #[test]
    fn sampled_means_agree_with_the_closed_forms() {
        let ms = Duration::from_millis;
        for distribution in [
            Distribution::Constant(ms(70)),
            Distribution::Uniform { min: ms(100), max: ms(200) },
            Distribution::Exponential { mean: ms(200), max: Duration::MAX },
            Distribution::Exponential { mean: ms(200), max: ms(250) },
            Distribution::Normal { mean: ms(50), std_dev: ms(10) },
            Distribution::Normal { mean: ms(10), std_dev: ms(50) },
            Distribution::Pareto { mean: ms(500), shape: 3.0 },
        ] {
            let (sampled, expected) =
                (sampled_mean(distribution, 200_000), distribution.mean().as_secs_f64());
            assert!((sampled / expected - 1.0).abs() < 0.01, "{distribution:?}: {sampled} for {expected}");
        }
    }

    #[test]
    fn pareto_has_the_tail_it_should() {
        // the mean converges slowly at shape 1.5, the tail probabilities do not
        let distribution = Distribution::pareto(Duration::from_millis(500));
        let draw = Draw::of(Seed(6), "test");
        let smallest = 0.5 / 3.0;
        for multiple in [1.5, 2.0, 4.0, 16.0_f64] {
            let n = 200_000;
            let beyond =
                (0..n).filter(|&i| distribution.sample(draw, i).as_secs_f64() > smallest * multiple).count();
            let expected = multiple.powf(-1.5);
            let sampled = beyond as f64 / n as f64;
            assert!((sampled / expected - 1.0).abs() < 0.03, "{multiple}: {sampled} for {expected}");
        }
        assert!((0..1000).all(|i| distribution.sample(draw, i) >= Duration::from_micros(166_666)));
    }

    #[test]
    fn bounds_are_kept() {
        let ms = Duration::from_millis;
        let draw = Draw::of(Seed(7), "test");
        let uniform = Distribution::Uniform { min: ms(5), max: ms(6) };
        let exponential = Distribution::Exponential { mean: ms(5), max: ms(6) };
        for i in 0..10_000 {
            assert!((ms(5)..=ms(6)).contains(&uniform.sample(draw, i)));
            assert!(exponential.sample(draw, i) <= ms(6));
        }
        assert!(Distribution::Uniform { min: ms(6), max: ms(5) }.problem().is_some());
        assert!(Distribution::Pareto { mean: ms(6), shape: f64::NAN }.problem().is_some());
    }
}
