use alloc::vec::Vec;
use core::time::Duration;

use shorthaul_types::{BitRate, Seed};

use crate::draw::Draw;
use crate::loss::Phases;
use crate::validate::ConfigError;
use crate::{Trace, validate};

/// The step in which the rate of a generated trace changes: a few radio frames.
const STEP_MILLIS: u64 = 20;
/// 50 million opportunities are 200 MB of memory.
const MAX_OPPORTUNITIES: u64 = 50_000_000;

/// How the rate of a generated cellular trace behaves.
///
/// The logarithm of the rate is an Ornstein–Uhlenbeck process: the rate is log-normally distributed with
/// the given coefficient of variation, and forgets its past exponentially within `memory`. That is the slow
/// fading a moving phone sees. Outages (dead spots, handovers) come on top: a two-state Markov chain in
/// continuous time, during which the rate is zero. The trace is scaled so that its mean, outages included,
/// is `mean`; so traces of different variability carry the same amount of data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CellularModel {
    /// The mean rate of the whole trace.
    pub mean: BitRate,
    /// The standard deviation of the rate outside outages, divided by its mean: 0 is a constant rate, 0.5 a
    /// walk through a city, 1 a drive.
    pub variation: f64,
    /// The time within which the rate forgets its past (the autocorrelation of its logarithm falls to 1/e).
    pub memory: Duration,
    /// Outages: the mean time between two and their mean length; `None` for none.
    pub outages: Option<CellularOutages>,
    /// The length of the trace, after which it repeats.
    pub length: Duration,
}

/// Outages in a generated trace, both times exponentially distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellularOutages {
    /// The mean time from the end of one to the beginning of the next.
    pub mean_gap: Duration,
    /// The mean length.
    pub mean_length: Duration,
}

impl Default for CellularModel {
    /// An LTE phone in a moving car: 10 Mbit/s, a variation of 0.7 that lasts for some seconds, an outage of
    /// a second or so every minute; two minutes.
    fn default() -> Self {
        CellularModel {
            mean: BitRate::from_bits_per_sec(10_000_000),
            variation: 0.7,
            memory: Duration::from_secs(3),
            outages: Some(CellularOutages {
                mean_gap: Duration::from_secs(60),
                mean_length: Duration::from_secs(1),
            }),
            length: Duration::from_secs(120),
        }
    }
}

impl Trace {
    /// Generates a trace. The same seed and model give the same trace.
    ///
    /// # Errors
    /// If a value of the model makes no sense, or the trace would have no opportunity, or more than 50
    /// million.
    pub fn cellular(seed: Seed, model: &CellularModel) -> Result<Trace, ConfigError> {
        let opportunities = model.opportunities()?;
        let shares = model.shares(seed);
        let total: f64 = shares.iter().sum();
        let length = model.length.as_millis() as f64;

        let mut millis = Vec::with_capacity(opportunities as usize);
        let mut done = 0.0;
        for (step, share) in shares.iter().enumerate() {
            let begins = step as f64 * STEP_MILLIS as f64;
            let width = (length - begins).min(STEP_MILLIS as f64);
            // opportunity n comes when n + 1 of `opportunities` shares of the whole have been done
            let scaled = share / total * opportunities as f64;
            while scaled > 0.0 && (millis.len() as f64 + 1.0) <= done + scaled {
                let within = (millis.len() as f64 + 1.0 - done) / scaled;
                millis.push((begins + within * width) as u32);
            }
            done += scaled;
        }
        // the last one closes the repetition, whatever rounding or an outage at the end have left
        millis.truncate(opportunities as usize - 1);
        millis.resize(opportunities as usize, length as u32);
        Trace::from_millis(millis).map_err(|error| ConfigError::new("cellular", alloc::format!("{error}")))
    }
}

impl CellularModel {
    /// How many delivery opportunities the trace has; checks the model.
    fn opportunities(&self) -> Result<u64, ConfigError> {
        let part = |name, problem| Err(ConfigError::new(name, problem));
        if !(0.0..=10.0).contains(&self.variation) {
            return part("cellular.variation", "must be a number from 0 (constant) to 10");
        }
        validate::positive("cellular.memory", self.memory)?;
        if let Some(outages) = self.outages {
            validate::positive("cellular.outages.mean_gap", outages.mean_gap)?;
            validate::positive("cellular.outages.mean_length", outages.mean_length)?;
        }
        if self.length < Duration::from_millis(1) || self.length.as_millis() > u128::from(u32::MAX) {
            return part("cellular.length", "must be from 1 ms to 49 days");
        }
        let length = Duration::from_millis(self.length.as_millis() as u64);
        match self.mean.bytes_in(length).0 / Self::BYTES {
            0 => part(
                "cellular.mean",
                "is too low for a single packet in the length of the trace; raise either",
            ),
            n if n > MAX_OPPORTUNITIES => {
                part("cellular.length", "makes more than 50 million packets at this rate; shorten the trace")
            }
            n => Ok(n),
        }
    }

    const BYTES: u64 = Trace::OPPORTUNITY.0;

    /// The relative rate in each step; at least one is above zero.
    fn shares(&self, seed: Seed) -> Vec<f64> {
        let draw = Draw::of(seed, "cellular rate");
        // the standard deviation of the logarithm that gives a log-normal its coefficient of variation
        let sigma = libm::sqrt(libm::log1p(self.variation * self.variation));
        let step = Duration::from_millis(STEP_MILLIS);
        let keep = libm::exp(-step.as_secs_f64() / self.memory.as_secs_f64());
        let fresh = libm::sqrt(1.0 - keep * keep);
        let origin = shorthaul_types::Time::ZERO;
        let mut outages = self.outages.map(|outages| {
            Phases::new(outages.mean_length, outages.mean_gap, Draw::of(seed, "cellular outages"), origin)
        });

        let steps = (self.length.as_millis() as u64).div_ceil(STEP_MILLIS);
        let mut x = draw.normal(0);
        let mut shares: Vec<f64> = (0..steps)
            .map(|i| {
                x = keep * x + fresh * draw.normal(i + 1);
                let is_out = outages
                    .as_mut()
                    .is_some_and(|outages| outages.is_on_at(origin + Duration::from_millis(i * STEP_MILLIS)));
                if is_out { 0.0 } else { libm::exp(sigma * x) }
            })
            .collect();
        // a short trace may lie in an outage altogether; then it ends with it
        if shares.iter().all(|share| *share <= 0.0)
            && let Some(last) = shares.last_mut()
        {
            *last = 1.0;
        }
        shares
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    /// Opportunities per second.
    fn per_second(trace: &Trace) -> Vec<f64> {
        let mut counts = alloc::vec![0.0; trace.period().as_secs() as usize + 1];
        for at in trace.millis() {
            counts[(*at / 1000) as usize] += 1.0;
        }
        counts.pop();
        counts
    }

    #[test]
    fn the_mean_is_exact_whatever_the_seed() {
        for seed in 0..20 {
            let model = CellularModel::default();
            let trace = Trace::cellular(Seed(seed), &model).unwrap();
            assert_eq!(trace.period(), model.length);
            let rate = trace.mean_rate().bits_per_sec() as f64;
            assert!((rate / 10e6 - 1.0).abs() < 1e-4, "seed {seed}: {rate}");
        }
    }

    #[test]
    fn variation_and_memory_are_as_asked() {
        let model =
            CellularModel { variation: 0.5, outages: None, length: secs(20_000), ..Default::default() };
        let rates = per_second(&Trace::cellular(Seed(3), &model).unwrap());
        let n = rates.len() as f64;
        let mean = rates.iter().sum::<f64>() / n;
        let covariance = |lag: usize| {
            let pairs = rates.iter().zip(&rates[lag..]);
            pairs.map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>() / (n - lag as f64)
        };
        // averaging over a second takes a little of the variation away: exp(-1/3) of the memory remains
        let variation = covariance(0).sqrt() / mean;
        assert!((variation - 0.5).abs() < 0.06, "{variation}");
        let correlation = covariance(3) / covariance(0);
        assert!((correlation - (-1.0_f64).exp()).abs() < 0.06, "{correlation}");
    }

    #[test]
    fn outages_take_their_share_and_nothing_varies_without_variation() {
        let outages = Some(CellularOutages { mean_gap: secs(9), mean_length: secs(1) });
        let model = CellularModel { variation: 0.0, outages, length: secs(5_000), ..Default::default() };
        let trace = Trace::cellular(Seed(4), &model).unwrap();
        let silent: u32 = trace.millis().windows(2).map(|pair| (pair[1] - pair[0]).saturating_sub(2)).sum();
        let share = f64::from(silent) / 5_000_000.0;
        assert!((share - 0.1).abs() < 0.02, "{share}");
        let flat = CellularModel { variation: 0.0, outages: None, ..Default::default() };
        let rates = per_second(&Trace::cellular(Seed(4), &flat).unwrap());
        assert!(rates.iter().all(|rate| (rate - 833.3).abs() < 2.0));
    }

    #[test]
    fn seeds_differ_and_nonsense_is_refused() {
        let model = CellularModel::default();
        let trace = |seed| Trace::cellular(Seed(seed), &model).unwrap();
        assert_eq!(trace(1), trace(1));
        assert_ne!(trace(1), trace(2));
        for wrong in [
            CellularModel { variation: f64::NAN, ..model },
            CellularModel { mean: BitRate::default(), ..model },
            CellularModel { length: Duration::ZERO, ..model },
            CellularModel { length: secs(86_400 * 40), ..model },
        ] {
            assert!(Trace::cellular(Seed(1), &wrong).is_err(), "{wrong:?}");
        }
    }
}
