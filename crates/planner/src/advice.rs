use std::fmt;

use shorthaul_types::format_duration;

use crate::{Forecast, Limit};

/// When relays are used (section VI-F of Kalim et al.: by a model, or by the user's policy).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Policy {
    /// Whatever is forecast.
    Always,
    /// Not at all.
    Never,
    /// Where they make the transfer at least this many times as fast.
    Gain(f64),
}

impl Default for Policy {
    /// A gain of 1.1: less is lost in the forecast's own error.
    fn default() -> Self {
        Policy::Gain(1.1)
    }
}

/// Whether to use relays, how many, and what a person would say.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    direct: Option<Forecast>,
    chosen: Option<Forecast>,
    best: Option<Forecast>,
}

/// As long as one relay fewer costs no more than this share of time, it is left out.
const NOT_WORTH_A_RELAY: f64 = 0.05;

impl Advice {
    /// Decides between `direct` (`None` where there is no direct way) and `relayed`, forecasts of the same transfer.
    ///
    /// Of the relayed ones the one with the fewest relays is taken that is hardly slower than the fastest.
    pub fn new(direct: Option<&Forecast>, relayed: &[Forecast], policy: Policy) -> Self {
        let best = relayed.iter().min_by_key(|forecast| forecast.time.expected);
        let enough = |forecast: &&Forecast| {
            let fastest = best.map_or(0.0, |best| best.time.expected.as_secs_f64());
            forecast.time.expected.as_secs_f64() <= (1.0 + NOT_WORTH_A_RELAY) * fastest
        };
        let fewest =
            relayed.iter().filter(enough).min_by_key(|forecast| (forecast.legs, forecast.time.expected));
        let chosen = fewest.filter(|forecast| match (policy, direct) {
            (Policy::Never, Some(_)) => false,
            (Policy::Gain(least), Some(direct)) => gain(direct, forecast) >= least,
            (Policy::Always, _) | (_, None) => true,
        });
        Advice { direct: direct.cloned(), chosen: chosen.cloned(), best: best.cloned() }
    }

    /// The forecast with relays that is to be followed; `None` to go direct.
    pub fn relayed(&self) -> Option<&Forecast> {
        self.chosen.as_ref()
    }

    /// How many relays to use.
    pub fn relays(&self) -> usize {
        self.chosen.as_ref().map_or(0, |forecast| forecast.legs - 1)
    }

    /// How many times as fast as the direct way what is advised is; 1 for going direct.
    pub fn gain(&self) -> f64 {
        match (&self.direct, &self.chosen) {
            (Some(direct), Some(chosen)) => gain(direct, chosen),
            _ => 1.0,
        }
    }

    /// The probability that what is advised is the faster way, from both intervals, taken for independent.
    pub fn certainty(&self) -> f64 {
        let (Some(direct), Some(relayed)) = (&self.direct, self.chosen.as_ref().or(self.best.as_ref()))
        else {
            return 1.0;
        };
        let deviation =
            |f: &Forecast| (f.time.high.as_secs_f64() / f.time.expected.as_secs_f64()).ln() / 1.96;
        let z = gain(direct, relayed).ln() / deviation(direct).hypot(deviation(relayed)).max(1e-9);
        let relays_win = logistic_normal(z);
        if self.chosen.is_some() { relays_win } else { 1.0 - relays_win }
    }
}

fn gain(direct: &Forecast, relayed: &Forecast) -> f64 {
    direct.time.expected.as_secs_f64() / relayed.time.expected.as_secs_f64()
}

/// The normal distribution function to two digits, `1/(1 + e^{−1.702·z})` (Haley 1952).
fn logistic_normal(z: f64) -> f64 {
    1.0 / (1.0 + (-1.702 * z).exp())
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |forecast: &Forecast| format_duration(forecast.time.expected);
        match (&self.direct, &self.chosen) {
            (None, None) => write!(f, "There is no way."),
            (None, Some(chosen)) => write!(f, "Use {}: there is no direct way. {chosen}.", relays(chosen)),
            (Some(direct), Some(chosen)) => {
                let sure = (100.0 * self.certainty()).floor().clamp(1.0, 99.0);
                write!(
                    f,
                    "Use {}: {} in {} instead of {}, {:.1} times as fast ({sure} % sure to be faster)",
                    relays(chosen),
                    chosen.size,
                    time(chosen),
                    time(direct),
                    self.gain(),
                )?;
                write!(f, "; {}.", binding(chosen))
            }
            (Some(direct), None) => {
                write!(f, "Go direct: ")?;
                match direct.bottleneck.limit {
                    Limit::Start => write!(
                        f,
                        "{} takes {}, and most of that is set-up and slow start",
                        direct.size,
                        time(direct)
                    )?,
                    limit @ (Limit::Capacity | Limit::Queue) => {
                        write!(f, "{} takes {}, and {limit} binds already", direct.size, time(direct))?;
                    }
                    limit => write!(f, "{} takes {}, bound by {limit}", direct.size, time(direct))?,
                }
                match &self.best {
                    None => write!(f, "; there is no relay to compare with."),
                    Some(best) => {
                        let saved = 100.0 * (1.0 - 1.0 / gain(direct, best));
                        let what = if saved >= 0.5 {
                            format!("would save {saved:.0} % of the time")
                        } else if saved <= -0.5 {
                            format!("would cost {:.0} % more time", 100.0 * (1.0 / gain(direct, best) - 1.0))
                        } else {
                            "would make no difference".to_string()
                        };
                        write!(f, "; {} {what}.", relays(best))
                    }
                }
            }
        }
    }
}

fn relays(forecast: &Forecast) -> String {
    match forecast.legs - 1 {
        1 => "one relay".to_string(),
        n => format!("{n} relays"),
    }
}

fn binding(forecast: &Forecast) -> String {
    let bottleneck = forecast.bottleneck;
    match bottleneck.limit {
        Limit::Start => "set-up and slow start then take most of the time".to_string(),
        Limit::Buffer => format!("the buffer of relay {} then binds", bottleneck.leg + 1),
        limit if forecast.alike => format!("{limit} then binds, on each leg"),
        limit => format!("{limit} then binds, on leg {} of {}", bottleneck.leg + 1, forecast.legs),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use shorthaul_types::{BitRate, Bytes};

    use super::*;
    use crate::{Leg, Path, Relay, Transfer, model};

    fn advice(leg: Leg, size: u64, policy: Policy) -> Advice {
        let reno = model::by_name("reno").unwrap();
        let forecast = |relays| {
            let path = Path::evenly_split(&leg, relays, Relay::default());
            path.forecast(&*reno, &Transfer::new(Bytes(size))).unwrap()
        };
        let relayed: Vec<Forecast> = (1..=4).map(forecast).collect();
        Advice::new(Some(&forecast(0)), &relayed, policy)
    }

    fn leg(rtt_ms: u64, loss: f64) -> Leg {
        Leg::new(Duration::from_millis(rtt_ms), loss, BitRate::from_bits_per_sec(32_000_000))
    }

    #[test]
    fn a_large_transfer_over_a_long_lossy_way_uses_relays() {
        let found = advice(leg(128, 0.001), 100_000_000, Policy::default());
        assert!((2..=4).contains(&found.relays()) && found.gain() > 3.0, "{found}");
        let said = found.to_string();
        assert!(
            said.starts_with("Use ") && said.contains("times as fast") && said.contains("then binds"),
            "{said}"
        );
    }

    #[test]
    fn a_transfer_too_small_to_gain_goes_direct() {
        let found = advice(leg(128, 0.001), 10_000, Policy::default());
        assert_eq!(found.relays(), 0);
        let said = found.to_string();
        assert!(said.starts_with("Go direct: 10 kB") && said.contains("slow start"), "{said}");
    }

    #[test]
    fn a_full_link_goes_direct() {
        let found = advice(leg(8, 0.0), 100_000_000, Policy::default());
        let said = found.to_string();
        assert!(said.starts_with("Go direct") && said.contains("link rate binds"), "{said}");
    }

    #[test]
    fn the_users_policy_comes_first() {
        assert_eq!(advice(leg(128, 0.001), 100_000_000, Policy::Never).relays(), 0);
        assert!(advice(leg(8, 0.0), 10_000, Policy::Always).relays() > 0);
        assert_eq!(advice(leg(128, 0.001), 100_000_000, Policy::Gain(1e3)).relays(), 0);
    }

    #[test]
    fn without_a_direct_way_there_is_no_choice() {
        let reno = model::by_name("reno").unwrap();
        let path = Path::evenly_split(&leg(100, 0.01), 1, Relay::default());
        let only = path.forecast(&*reno, &Transfer::new(Bytes(1000))).unwrap();
        let found = Advice::new(None, &[only], Policy::default());
        assert!(found.relays() == 1 && found.to_string().contains("no direct way"), "{found}");
    }
}
