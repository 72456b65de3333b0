//! What two samples say of the difference of their means, at any time one looks.
//!
//! The evidence is the Bayes factor of the two-sample *t* test with a normal prior on the standardized difference (Gönen,
//! Johnson, Lu, Westfall 2005), which does not depend on the unknown mean and variance:
//!
//! ```text
//! ν = n₁ + n₂ − 2,  n = n₁·n₂ / (n₁ + n₂),  t = (x̄₁ − x̄₂ − θ) / (s·√(1/n))
//! E = (1 + n·g)^(−1/2) · [ (1 + t²/ν) / (1 + t²/(ν·(1 + n·g))) ]^((ν+1)/2)
//! ```
//! If the difference is θ, E exceeds 1/α with probability α at most, *ever* (Ville's inequality; that it holds under optional
//! stopping: Hendriksen, de Heide, Grünwald 2021). So one may look after each flow.
use libm::{exp, log, sqrt};

/// The variance of the prior, in units of the variance of the samples.
const PRIOR: f64 = 1.0;
/// Times are not told apart more finely than by a hundredth: a variance of logarithms below is taken as this.
const LEAST_VARIANCE: f64 = 1e-4;

/// Count, mean and sum of squared differences from it (Welford 1962).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    pub count: u32,
    pub mean: f64,
    squares: f64,
}

impl Sample {
    pub fn add(&mut self, value: f64) {
        self.count += 1;
        let before = value - self.mean;
        self.mean += before / f64::from(self.count);
        self.squares += before * (value - self.mean);
    }

    /// The values of another are here, too (Chan, Golub, LeVeque 1979).
    pub fn join(&mut self, other: Sample) {
        let (own, others) = (f64::from(self.count), f64::from(other.count));
        let all = own + others;
        if others > 0.0 {
            let between = other.mean - self.mean;
            self.mean += between * others / all;
            self.squares += other.squares + between * between * own * others / all;
            self.count += other.count;
        }
    }
}

/// Two samples.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Comparison {
    pub split: Sample,
    pub control: Sample,
}

/// What the test goes by.
struct Pooled {
    difference: f64,
    /// The squared standard error of the difference.
    squared_error: f64,
    /// ν.
    freedom: f64,
    /// 1 + n·g.
    inflation: f64,
}

impl Comparison {
    /// What another two samples have is here, too.
    pub fn join(&mut self, other: Comparison) {
        self.split.join(other.split);
        self.control.join(other.control);
    }

    fn pooled(&self) -> Option<Pooled> {
        let (a, b) = (f64::from(self.split.count), f64::from(self.control.count));
        if a < 1.0 || b < 1.0 || a + b < 3.0 {
            return None;
        }
        let (freedom, effective) = (a + b - 2.0, a * b / (a + b));
        let variance = ((self.split.squares + self.control.squares) / freedom).max(LEAST_VARIANCE);
        Some(Pooled {
            difference: self.split.mean - self.control.mean,
            squared_error: variance / effective,
            freedom,
            inflation: 1.0 + effective * PRIOR,
        })
    }

    /// By how much the mean of what is split is above the other.
    pub fn difference(&self) -> Option<f64> {
        self.pooled().map(|pooled| pooled.difference)
    }

    /// The logarithm of the evidence against a difference of `theta`.
    pub fn log_evidence(&self, theta: f64) -> f64 {
        let Some(Pooled { difference, squared_error, freedom, inflation }) = self.pooled() else {
            return 0.0;
        };
        let per_freedom = (difference - theta) * (difference - theta) / squared_error / freedom;
        let fit = log(1.0 + per_freedom) - log(1.0 + per_freedom / inflation);
        (freedom + 1.0) / 2.0 * fit - log(inflation) / 2.0
    }

    /// The differences against which there is less evidence than 1/α: they contain the true one with probability 1 − α, at all
    /// times at once. `None` while that is every difference.
    pub fn interval(&self, alpha: f64) -> Option<(f64, f64)> {
        let Pooled { difference, squared_error, freedom, inflation } = self.pooled()?;
        let ratio = exp((log(inflation) / 2.0 - log(alpha)) * 2.0 / (freedom + 1.0));
        if ratio >= inflation {
            return None;
        }
        let squared_t = freedom * (ratio - 1.0) / (1.0 - ratio / inflation);
        let half = sqrt(squared_t * squared_error);
        Some((difference - half, difference + half))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gain::tests::normal;
    use shorthaul_types::Seed;

    /// Of `runs` seeds, the share of those in which the evidence against `theta` ever passes 20, in 400 flows of which every
    /// `nth` is in the control group, while the true difference is `truth` standard deviations.
    fn crossings(runs: u64, nth: u64, truth: f64, theta: f64) -> f64 {
        let crossed = |run: &u64| {
            let seed = Seed(*run).derive("evidence");
            let mut comparison = Comparison::default();
            (0..400).any(|flow| {
                let value = normal(seed, flow);
                if flow % nth == 0 {
                    comparison.control.add(value);
                } else {
                    comparison.split.add(value + truth);
                }
                comparison.log_evidence(theta) >= log(20.0)
            })
        };
        (0..runs).filter(crossed).count() as f64 / runs as f64
    }

    #[test]
    fn without_a_difference_one_look_in_twenty_series_is_wrong_at_most() {
        for nth in [2, 10, 50] {
            let wrong = crossings(1000, nth, 0.0, 0.0);
            assert!(wrong <= 0.05, "every {nth}th: {wrong}");
        }
    }

    #[test]
    fn a_difference_is_found() {
        assert!(crossings(200, 2, 0.6, 0.0) >= 0.95);
        assert!(crossings(200, 20, 1.5, 0.0) >= 0.95);
    }

    #[test]
    fn samples_that_are_joined_are_as_if_they_had_been_one() {
        let mut all = Comparison::default();
        let mut parts = [Comparison::default(); 3];
        for flow in 0..200 {
            let value = normal(Seed(3), flow) + 5.0;
            let part = &mut parts[(flow * flow % 3) as usize];
            for comparison in [&mut all, part] {
                if flow % 7 == 0 { comparison.control.add(value) } else { comparison.split.add(value) }
            }
        }
        let mut joined = Comparison::default();
        parts.into_iter().for_each(|part| joined.join(part));
        assert_eq!((joined.split.count, joined.control.count), (all.split.count, all.control.count));
        for theta in [-0.1, 0.0, 0.3] {
            assert!((joined.log_evidence(theta) - all.log_evidence(theta)).abs() < 1e-9);
        }
    }

    #[test]
    fn the_interval_is_where_the_evidence_is_less() {
        let mut comparison = Comparison::default();
        assert_eq!(comparison.interval(0.05), None);
        for flow in 0..60 {
            comparison.split.add(normal(Seed(1), flow));
            if flow % 5 == 0 {
                comparison.control.add(1.0 + normal(Seed(2), flow));
            }
        }
        let (low, high) = comparison.interval(0.05).unwrap();
        for edge in [low, high] {
            assert!((comparison.log_evidence(edge) - log(20.0)).abs() < 1e-9);
        }
        let middle = comparison.difference().unwrap();
        assert!(low < middle && middle < high && comparison.log_evidence(middle) < 0.0);
    }
}
