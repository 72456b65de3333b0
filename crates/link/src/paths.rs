//! Rates of a link whose path is another every so often, as of a terminal in a constellation in low orbit.
use alloc::vec::Vec;
use core::time::Duration;

use shorthaul_types::{BitRate, Seed};

use crate::draw::Draw;
use crate::validate::{self, ConfigError};
use crate::{Distribution, LinkConfig, OutageTimes, Outages, QueueLimit, Rate, RouteChanges};

/// In this step the rate of a path varies.
const STEP: Duration = Duration::from_millis(100);
/// A million phases are 24 MB of memory.
const MOST_PHASES: u128 = 1_000_000;
/// How long a terminal stays with a satellite.
const SLOT: Duration = Duration::from_secs(15);

/// How the rate of a link behaves whose path changes at regular times.
///
/// Each path has a rate of its own: its logarithm is drawn evenly between those of `least` and `most`, so that a jump is as likely to
/// halve as to double. While a path lasts, the logarithm of the rate is an Ornstein–Uhlenbeck process around it; what would leave the
/// range from `least` to `most` stays at its end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathsModel {
    /// How long a path stays.
    pub every: Duration,
    /// The lowest rate.
    pub least: BitRate,
    /// The highest.
    pub most: BitRate,
    /// The standard deviation of the rate of a path over its mean: 0 is a constant rate.
    pub variation: f64,
    /// The time within which the rate of a path forgets its past (the autocorrelation of its logarithm falls to 1/e).
    pub memory: Duration,
    /// After this long the rates repeat.
    pub length: Duration,
}

impl PathsModel {
    /// Paths with rates between these, as of a Starlink terminal: 15 s each, varying by a fifth within a second or so; ten minutes.
    pub const fn between(least: BitRate, most: BitRate) -> Self {
        PathsModel {
            every: SLOT,
            least,
            most,
            variation: 0.2,
            memory: Duration::from_secs(1),
            length: Duration::from_secs(600),
        }
    }

    /// The rates. The same seed and model give the same.
    ///
    /// # Errors
    /// If a value of the model makes no sense.
    pub fn rate(&self, seed: Seed) -> Result<Rate, ConfigError> {
        self.validate()?;
        let [least, most] = [self.least, self.most].map(|rate| libm::log(rate.bits_per_sec() as f64));
        let (of_path, within) = (Draw::of(seed, "paths"), Draw::of(seed, "within paths"));
        let sigma = libm::sqrt(libm::log1p(self.variation * self.variation));
        let keep = libm::exp(-STEP.as_secs_f64() / self.memory.as_secs_f64());
        let fresh = libm::sqrt(1.0 - keep * keep);
        let mut x = within.normal(0);
        let (mut phases, mut at, mut step) = (Vec::new(), Duration::ZERO, 0);
        while at < self.length {
            let path = at.as_nanos() / self.every.as_nanos();
            let path_ends = Duration::from_nanos(((path + 1) * self.every.as_nanos()) as u64);
            let lasts = STEP.min(path_ends - at).min(self.length - at);
            step += 1;
            x = keep * x + fresh * within.normal(step);
            let mean = least + (most - least) * of_path.unit(path as u64);
            let bits = libm::exp((mean + sigma * x).clamp(least, most));
            phases.push((lasts, BitRate::from_bits_per_sec(libm::round(bits) as u64)));
            at += lasts;
        }
        Ok(Rate::Schedule { phases, repeats: true })
    }

    fn validate(&self) -> Result<(), ConfigError> {
        let part = |name, problem| Err(ConfigError::new(name, problem));
        validate::positive("rate.paths.every", self.every)?;
        validate::positive("rate.paths.memory", self.memory)?;
        validate::positive("rate.paths.length", self.length)?;
        if self.least.bits_per_sec() == 0 || self.most < self.least {
            return part("rate.paths", "`least` is above zero, and `most` is not below it");
        }
        if !(0.0..=10.0).contains(&self.variation) {
            return part("rate.paths.variation", "must be a number from 0 (constant) to 10");
        }
        let phases =
            self.length.as_nanos() / STEP.as_nanos() + self.length.as_nanos() / self.every.as_nanos();
        if phases > MOST_PHASES {
            return part("rate.paths.length", "makes more than a million steps; shorten it");
        }
        Ok(())
    }
}

/// A Starlink terminal, by what was measured of them:
///
/// - another satellite every 15 s, and another shortest round trip with it (Huston, "A transport protocol's view of Starlink", APNIC
///   2024); here 25 to 60 ms there and back;
/// - 10 to 370 Mbit/s over days (the same), dips from 175 to 75 Mbit/s within half a minute (Sauter, wirelessmoves.com 2023), up to
///   25 Mbit/s upward; here 20 to 250 and 5 to 25 Mbit/s;
/// - at each change latency rises for 75 to 140 ms (arXiv:2601.08439) by 30 to 50 ms (Huston), and packets are lost, half of those of a
///   second at worst (Kassem et al., "A browser-side view of Starlink connectivity", IMC 2022); here nothing gets through for 40 to
///   140 ms: for 60 ms at most packets wait, what comes later is lost;
/// - hundreds of milliseconds of queue under load (the list starlink at bufferbloat.net, 2023); here what the slowest path carries in
///   0.4 s, dropped from at the tail.
impl LinkConfig {
    /// The downlink of such a terminal. Both directions have the same `link_seed`: they change paths, and fail, at the same times.
    pub fn starlink_downlink(link_seed: Seed) -> LinkConfig {
        starlink(link_seed.derive("down"), link_seed, [20, 250], 1_000_000)
    }

    /// The uplink.
    pub fn starlink_uplink(link_seed: Seed) -> LinkConfig {
        starlink(link_seed.derive("up"), link_seed, [5, 25], 250_000)
    }
}

fn starlink(seed: Seed, link_seed: Seed, mbit: [u64; 2], queue: u64) -> LinkConfig {
    let [least, most] = mbit.map(|mbit| BitRate::from_bits_per_sec(mbit * 1_000_000));
    let ms = Duration::from_millis;
    let lasts = Distribution::Uniform { min: ms(40), max: ms(140) };
    LinkConfig {
        // The model is sound: a test says so.
        rate: PathsModel::between(least, most).rate(seed).unwrap_or_default(),
        queue: QueueLimit::Bytes(queue),
        delay: Duration::from_micros(12_500),
        route_changes: Some(RouteChanges {
            every: SLOT,
            delay: Distribution::Uniform { min: Duration::ZERO, max: Duration::from_micros(17_500) },
        }),
        outages: Outages {
            when: OutageTimes::Regular { every: SLOT, lasts, shared: Some(link_seed) },
            hold: ms(60),
        },
        ..LinkConfig::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Link;
    use shorthaul_types::{Bytes, Time};

    fn mbit(rate: u64) -> BitRate {
        BitRate::from_bits_per_sec(rate * 1_000_000)
    }

    fn phases(rate: Rate) -> Vec<(Duration, f64)> {
        let Rate::Schedule { phases, repeats: true } = rate else { panic!("{rate:?}") };
        phases.into_iter().map(|(lasts, rate)| (lasts, rate.bits_per_sec() as f64 * 1e-6)).collect()
    }

    #[test]
    fn each_path_has_a_rate_of_its_own_and_stays_for_its_time() {
        let model = PathsModel {
            variation: 0.0,
            length: Duration::from_secs(6000),
            ..PathsModel::between(mbit(20), mbit(250))
        };
        let phases = phases(model.rate(Seed(1)).unwrap());
        assert_eq!(phases.iter().map(|(lasts, _)| *lasts).sum::<Duration>(), model.length);
        let paths: Vec<f64> = phases.chunks(150).map(|path| path[0].1).collect();
        assert_eq!(paths.len(), 400);
        for (path, chunk) in phases.chunks(150).enumerate() {
            assert!(chunk.iter().all(|(lasts, rate)| *lasts == STEP && *rate == paths[path]), "path {path}");
        }
        assert!(paths.windows(2).all(|pair| pair[0] != pair[1]));
        assert!(paths.iter().all(|rate| (20.0..=250.0).contains(rate)));
        // Even in the logarithm: as many below the geometric mean, 70.7 Mbit/s, as above, and a quarter below 37.6.
        let below = |rate: f64| paths.iter().filter(|path| **path < rate).count() as f64 / 400.0;
        assert!((below(70.7) - 0.5).abs() < 0.07, "{}", below(70.7));
        assert!((below(37.6) - 0.25).abs() < 0.07, "{}", below(37.6));
    }

    #[test]
    fn a_path_varies_as_asked_and_never_leaves_the_range() {
        let model = PathsModel {
            every: Duration::from_secs(20_000),
            length: Duration::from_secs(20_000),
            ..PathsModel::between(mbit(1), mbit(1000))
        };
        let rates: Vec<f64> =
            phases(model.rate(Seed(4)).unwrap()).into_iter().map(|(_, rate)| rate).collect();
        let count = rates.len() as f64;
        let mean = rates.iter().sum::<f64>() / count;
        let covariance = |lag: usize| {
            let pairs = rates.iter().zip(&rates[lag..]);
            pairs.map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>() / (count - lag as f64)
        };
        let variation = libm::sqrt(covariance(0)) / mean;
        assert!((variation - 0.2).abs() < 0.02, "{variation}");
        let correlation = covariance(10) / covariance(0);
        assert!((correlation - libm::exp(-1.0)).abs() < 0.06, "after a second: {correlation}");
        let tight = PathsModel { variation: 2.0, ..PathsModel::between(mbit(20), mbit(30)) };
        let rates = phases(tight.rate(Seed(4)).unwrap());
        assert!(rates.iter().all(|(_, rate)| (19.999..=30.001).contains(rate)));
    }

    #[test]
    fn what_cannot_be_is_named() {
        let usual = PathsModel::between(mbit(20), mbit(250));
        assert_eq!(usual.rate(Seed(1)), usual.rate(Seed(1)));
        assert_ne!(usual.rate(Seed(1)), usual.rate(Seed(2)));
        for wrong in [
            PathsModel { every: Duration::ZERO, ..usual },
            PathsModel { least: mbit(0), ..usual },
            PathsModel { most: mbit(10), ..usual },
            PathsModel { variation: f64::NAN, ..usual },
            PathsModel { length: Duration::from_secs(1_000_000), ..usual },
        ] {
            let said = alloc::format!("{}", wrong.rate(Seed(1)).unwrap_err());
            assert!(said.starts_with("rate.paths"), "{said}");
        }
    }

    /// What became of packets that leave every `every` on a link, over ten minutes: when each left, and how long it took.
    fn sent(config: LinkConfig, every: Duration) -> (Vec<(f64, Option<f64>)>, Link<usize>) {
        let mut link = Link::new(config, Seed(9));
        let mut fates = Vec::new();
        let mut at = Time::ZERO;
        while at < Time::from_secs(600) {
            fates.push((at.as_secs_f64(), None));
            let _ = link.push(at, Bytes(100), fates.len() - 1);
            at += every;
        }
        while let Some((out, number)) = link.pop(Time::MAX) {
            fates[number].1 = Some(out.as_secs_f64() - fates[number].0);
        }
        (fates, link)
    }

    /// Round trips of 25 to 60 ms that change every 15 s, and at each change, and then alone, a short time in which packets wait and
    /// are lost.
    #[test]
    fn a_starlink_terminal_is_as_it_was_measured() {
        let every = Duration::from_millis(5);
        let ways =
            [LinkConfig::starlink_downlink(Seed(7)), LinkConfig::starlink_uplink(Seed(7))].map(|config| {
                config.validate().unwrap();
                assert!(matches!(&config.rate, Rate::Schedule { .. }), "{:?}", config.rate);
                sent(config, every).0
            });
        let [mut shortest, mut longest] = [f64::MAX, 0.0_f64];
        let mut lost_at_changes = 0;
        for (down, up) in ways[0].iter().zip(&ways[1]) {
            let since_change = down.0 % 15.0;
            let near = down.0 >= 15.0 && since_change < 0.141;
            match (down.1, up.1) {
                (Some(down), Some(up)) if !near => {
                    shortest = shortest.min(down + up);
                    longest = longest.max(down + up);
                }
                (None, _) | (_, None) => {
                    assert!(near, "lost at {}", down.0);
                    lost_at_changes += 1;
                }
                _ => {}
            }
        }
        assert!(
            (0.025..0.035).contains(&shortest) && (0.05..=0.0605).contains(&longest),
            "{shortest} {longest}"
        );
        assert!(lost_at_changes > 100, "of 39 changes: {lost_at_changes}");
        // Both directions fail together.
        let lost = |way: usize| {
            ways[way]
                .iter()
                .filter(|fate| fate.1.is_none())
                .map(|fate| fate.0 as u64 / 15)
                .collect::<Vec<_>>()
        };
        let [mut down, mut up] = [lost(0), lost(1)];
        down.dedup();
        up.dedup();
        assert_eq!(down, up);
        assert!((20..=39).contains(&down.len()), "{} of 39 changes lose packets", down.len());
    }
}
