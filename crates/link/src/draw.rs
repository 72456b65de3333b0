use shorthaul_types::Seed;

/// The randomness of one component: a function from an index to a number.
///
/// Nothing is consumed by drawing, so what one packet gets does not depend on how many draws were
/// made for others, nor on which other components are switched on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draw(Seed);

impl Draw {
    /// The randomness of the component `name` of the link with `seed`.
    pub(crate) fn of(seed: Seed, name: &str) -> Self {
        Draw(seed.derive(name))
    }

    /// 64 random bits.
    pub(crate) fn bits(self, index: u64) -> u64 {
        self.0.nth(index).0
    }

    /// Uniform in [0, 1).
    pub(crate) fn unit(self, index: u64) -> f64 {
        (self.bits(index) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in (0, 1]: safe to take the logarithm of.
    pub(crate) fn positive_unit(self, index: u64) -> f64 {
        1.0 - self.unit(index)
    }

    /// True with `probability`.
    pub(crate) fn happens(self, index: u64, probability: f64) -> bool {
        self.unit(index) < probability
    }

    /// Exponential with mean 1.
    pub(crate) fn exponential(self, index: u64) -> f64 {
        -libm::log(self.positive_unit(index))
    }

    /// Normal with mean 0 and standard deviation 1 (Box–Muller).
    pub(crate) fn normal(self, index: u64) -> f64 {
        let radius = libm::sqrt(2.0 * self.exponential(index));
        radius * libm::cos(core::f64::consts::TAU * self.part(index).unit(0))
    }

    /// Independent randomness that belongs to `index`, for what needs several draws.
    pub(crate) fn part(self, index: u64) -> Draw {
        Draw(self.0.nth(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_have_the_moments_they_should() {
        let draw = Draw::of(Seed(1), "test");
        let n = 200_000;
        let mean = |f: &dyn Fn(u64) -> f64| (0..n).map(f).sum::<f64>() / n as f64;
        assert!((mean(&|i| draw.unit(i)) - 0.5).abs() < 0.003);
        assert!((mean(&|i| draw.exponential(i)) - 1.0).abs() < 0.01);
        assert!(mean(&|i| draw.normal(i)).abs() < 0.01);
        assert!((mean(&|i| draw.normal(i) * draw.normal(i)) - 1.0).abs() < 0.015);
    }

    #[test]
    fn neighbours_are_not_correlated() {
        let draw = Draw::of(Seed(1), "test");
        let n = 200_000;
        let sum: f64 = (0..n).map(|i| (draw.unit(i) - 0.5) * (draw.unit(i + 1) - 0.5)).sum();
        assert!((sum / f64::from(n as u32) * 12.0).abs() < 0.01);
    }
}
