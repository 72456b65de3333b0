//! Which of several ways a session takes: forecasts, corrected by what came of those before, and a small share of sessions that
//! goes another way to stay informed. No clock, no I/O, and chance is given.
//!
//! What is learnt of a way is the logarithm of measured over forecast time. It is one part that all ways to a destination have in
//! common (a slow server is slow by every way) and one of the way's own, both normally distributed about 0 as long as nothing was
//! measured; a measurement moves them as a Kalman filter does, and what is not measured again returns to where it began.
use std::time::Duration;

use shorthaul_types::Time;

/// How it is learnt, and what that may cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Learning {
    /// The standard deviation of what all forecasts to a destination are off by together, as a logarithm.
    pub common: f64,
    /// That of what a way's is off by beside the others.
    pub own: f64,
    /// That of a single session about what is to be expected.
    pub noise: f64,
    /// After this time, what was measured counts for 1/e.
    pub remembers: Duration,
    /// The share of all time that sessions may take longer because they stay informed.
    pub purse: f64,
    /// What relays must gain to be used, as a ratio of times: less is lost in the forecast's own error.
    pub least_gain: f64,
}

impl Default for Learning {
    /// 0.3, 0.3 and 0.2; five minutes; 2 %; 1.05.
    fn default() -> Self {
        Learning {
            common: 0.3,
            own: 0.3,
            noise: 0.2,
            remembers: Duration::from_secs(300),
            purse: 0.02,
            least_gain: 1.05,
        }
    }
}

/// Why a way was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It is expected to be the fastest.
    Fastest,
    /// No relay is expected to gain enough.
    NotWorthIt,
    /// To stay informed: it may well be the fastest.
    Explores,
    /// There is no other.
    Only,
}

/// What was decided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// The way, by its number among the forecasts.
    pub way: usize,
    /// Seconds that are expected by it.
    pub expected: f64,
    /// The standard deviation of that, as a logarithm.
    pub deviation: f64,
    /// Why.
    pub why: Why,
}

/// What is known of the ways to a destination. A way has the same number each time; 0 is the direct one.
#[derive(Clone, Debug)]
pub struct Ways {
    learning: Learning,
    at: Time,
    /// What all have in common, then each way's own part.
    mean: Vec<f64>,
    /// Covariances of these, row by row.
    covariance: Vec<f64>,
    measured: Vec<u32>,
    /// Seconds that staying informed may still cost.
    purse: f64,
}

/// The purse holds what this many seconds of sessions earn, at most: an idle hour buys no long detour.
const PURSE_OF: f64 = 300.0;
/// A single measurement is believed to be off by this factor at most: what a host that slept took says nothing of the way.
const MOST: f64 = 3.0;

impl Ways {
    /// So many ways, of which nothing is known but forecasts.
    pub fn new(learning: Learning, ways: usize) -> Self {
        let mut known = Ways {
            learning,
            at: Time::ZERO,
            mean: vec![0.0],
            covariance: vec![learning.common.powi(2)],
            measured: Vec::new(),
            purse: 0.0,
        };
        known.grow(ways);
        known
    }

    fn grow(&mut self, ways: usize) {
        let (old, new) = (self.mean.len(), ways + 1);
        if new <= old {
            return;
        }
        let mut covariance = vec![0.0; new * new];
        for row in 0..old {
            for column in 0..old {
                covariance[row * new + column] = self.covariance[row * old + column];
            }
        }
        for own in old..new {
            covariance[own * new + own] = self.learning.own.powi(2);
        }
        self.covariance = covariance;
        self.mean.resize(new, 0.0);
        self.measured.resize(ways, 0);
    }

    /// Time passes, and what is known becomes older.
    fn pass(&mut self, now: Time) {
        let passed = now.saturating_since(self.at).as_secs_f64();
        self.at = self.at.max(now);
        // After fifty times as long nothing is left, and numbers stay numbers.
        let keeps = (-(passed / self.learning.remembers.as_secs_f64().max(1e-3)).min(50.0)).exp();
        let n = self.mean.len();
        for (i, mean) in self.mean.iter_mut().enumerate() {
            *mean *= keeps;
            let begun = if i == 0 { self.learning.common } else { self.learning.own };
            self.covariance[i * n + i] += (1.0 / (keeps * keeps) - 1.0) * begun * begun;
        }
        self.covariance.iter_mut().for_each(|covariance| *covariance *= keeps * keeps);
    }

    /// What a forecast is to be multiplied with, and the standard deviation of what remains, both as logarithms.
    pub fn correction(&self, way: usize) -> (f64, f64) {
        let n = self.mean.len();
        let Some(own) = self.mean.get(way + 1) else {
            return (self.mean[0], self.learning.common.hypot(self.learning.own));
        };
        let at = |row: usize, column: usize| self.covariance[row * n + column];
        let variance = at(0, 0) + 2.0 * at(0, way + 1) + at(way + 1, way + 1);
        (self.mean[0] + own, variance.max(0.0).sqrt())
    }

    /// How many sessions by this way were measured.
    pub fn measured(&self, way: usize) -> u32 {
        self.measured.get(way).copied().unwrap_or(0)
    }

    /// Chooses among the ways for a session that is forecast to take so many seconds by each; `None` by one that cannot be had.
    /// `normal` draws from the standard normal distribution.
    ///
    /// Thompson's rule: each way is drawn from what is believed of it, and the fastest of the draws is taken. So one is tried as often as
    /// it may be the fastest, and clients that know the same do not all do the same. An upper bound would send
    /// them all there at once. What that is expected to cost is paid from a purse into which each session pays a share of its time; where it is empty, the
    /// way that is expected to be the fastest is taken. So whatever is drawn, and however wrong the forecasts, staying informed costs no more than that share.
    pub fn choose(
        &mut self,
        now: Time,
        forecasts: &[Option<f64>],
        mut normal: impl FnMut() -> f64,
    ) -> Option<Choice> {
        self.grow(forecasts.len());
        self.pass(now);
        let n = self.mean.len();
        let expected: Vec<Option<f64>> = forecasts
            .iter()
            .enumerate()
            .map(|(way, forecast)| forecast.map(|forecast| forecast * self.correction(way).0.exp()))
            .collect();
        // Relays are taken only where they gain enough: of what is expected, and of what is drawn.
        let least_gain = self.learning.least_gain;
        let take = |times: &[Option<f64>]| {
            let there = times.iter().enumerate().filter_map(|(way, time)| time.map(|time| (way, time)));
            let (way, time) = there.min_by(|a, b| a.1.total_cmp(&b.1))?;
            let direct = times.first().copied().flatten().filter(|direct| *direct < time * least_gain);
            Some(direct.map_or((way, time), |direct| (0, direct)))
        };
        let (best, time) = take(&expected)?;
        let why = match best {
            _ if expected.iter().flatten().count() == 1 => Why::Only,
            0 => Why::NotWorthIt,
            _ => Why::Fastest,
        };
        self.purse = (self.purse + self.learning.purse * time).min(self.learning.purse * PURSE_OF);
        // The part that all have in common does not tell them apart.
        let drawn: Vec<Option<f64>> = expected
            .iter()
            .enumerate()
            .map(|(way, time)| {
                let deviation = self.covariance[(way + 1) * n + way + 1].max(0.0).sqrt();
                time.map(|time| time * (deviation * normal()).exp())
            })
            .collect();
        let mut chosen = Choice { way: best, expected: time, deviation: 0.0, why };
        if let Some((way, _)) = take(&drawn)
            && way != best
            && let Some(other) = expected[way]
        {
            let costs = (other - time).max(0.0);
            if costs <= self.purse {
                self.purse -= costs;
                chosen = Choice { way, expected: other, deviation: 0.0, why: Why::Explores };
            }
        }
        chosen.deviation = self.correction(chosen.way).1.hypot(self.learning.noise);
        Some(chosen)
    }

    /// A session that was forecast to take so many seconds, before any correction, has taken so many.
    pub fn on_measured(&mut self, now: Time, way: usize, forecast: f64, took: f64) {
        if !(forecast > 0.0 && took > 0.0) {
            return;
        }
        self.grow(way + 1);
        self.pass(now);
        let n = self.mean.len();
        let seen = (took / forecast).ln() - self.mean[0] - self.mean[way + 1];
        let seen = seen.clamp(-MOST.ln(), MOST.ln());
        let gain: Vec<f64> =
            (0..n).map(|row| self.covariance[row * n] + self.covariance[row * n + way + 1]).collect();
        let variance = gain[0] + gain[way + 1] + self.learning.noise.powi(2);
        for row in 0..n {
            self.mean[row] += gain[row] / variance * seen;
            for column in 0..n {
                self.covariance[row * n + column] -= gain[row] * gain[column] / variance;
            }
        }
        self.measured[way] = self.measured[way].saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn what_is_measured_corrects_what_is_forecast() {
        let mut ways = Ways::new(Learning::default(), 3);
        for second in 0..20 {
            ways.on_measured(at(second), 1, 2.0, 4.0);
        }
        let (factor, deviation) = ways.correction(1);
        assert!((factor.exp() - 2.0).abs() < 0.1 && deviation < 0.15, "{factor} {deviation}");
        // A part of that may be the destination's, and so the other ways'.
        let (other, unsure) = ways.correction(2);
        assert!(other > 0.2 && other < factor && unsure > deviation, "{other} {unsure}");
        // It is forgotten.
        ways.pass(at(3600));
        assert!(ways.correction(1).0.abs() < 0.01);
        assert!((ways.correction(1).1 - 0.3_f64.hypot(0.3)).abs() < 0.01);
    }

    #[test]
    fn a_relay_that_gains_nothing_is_not_used() {
        let mut ways = Ways::new(Learning::default(), 2);
        let no_luck = || 0.0;
        let choice = ways.choose(at(0), &[Some(10.0), Some(9.8)], no_luck).unwrap();
        assert_eq!((choice.way, choice.why), (0, Why::NotWorthIt));
        let choice = ways.choose(at(0), &[Some(10.0), Some(5.0)], no_luck).unwrap();
        assert_eq!((choice.way, choice.why), (1, Why::Fastest));
        assert_eq!(ways.choose(at(0), &[None, Some(5.0)], no_luck).unwrap().why, Why::Only);
        assert_eq!(ways.choose(at(0), &[None, None], no_luck), None);
        // It turns out to be slow.
        for _ in 0..10 {
            ways.on_measured(at(1), 1, 5.0, 15.0);
            ways.on_measured(at(1), 0, 10.0, 10.0);
        }
        assert_eq!(ways.choose(at(2), &[Some(10.0), Some(5.0)], no_luck).unwrap().way, 0);
    }

    #[test]
    fn staying_informed_costs_no_more_than_the_purse() {
        let learning = Learning { own: 1.0, ..Learning::default() };
        let mut ways = Ways::new(learning, 2);
        let (mut lost, mut all, mut turn) = (0.0, 0.0, 0.0);
        for second in 0..2000 {
            turn = if turn == 3.0 { -3.0 } else { 3.0 };
            // The other way always looks as if it could be the best, and never is.
            let choice = ways.choose(at(second), &[Some(10.0), Some(12.0)], || {
                turn = -turn;
                turn
            });
            let choice = choice.unwrap();
            lost += choice.expected - 10.0;
            all += 10.0;
        }
        assert!(lost > 0.0 && lost <= 0.02 * all + 1e-6, "{lost} of {all}");
    }
}
