//! How late a machine is served that has no processor of its own.
use serde::de::{self, Deserialize, Deserializer};
use shorthaul_link::Distribution;
use shorthaul_types::{Seed, Time, parse_duration, schema};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// How long after something has happened, a packet that has come or a deadline, a node looks at it. What comes meanwhile
/// waits, and is looked at first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Lateness {
    /// A time drawn each time that it sleeps and something happens.
    Wakeup(Distribution),
    /// It is stopped for a while, again and again; in between it is served in time. When that begins, the seed says.
    Stalls {
        /// How long it is stopped; shorter than `every`.
        stall: Duration,
        /// The time from one stop to the next; above zero.
        every: Duration,
    },
}

impl Lateness {
    /// How long after `now`, when something happens, a node wakes that has woken `wakeups` times. `seed` is the node's.
    pub fn at(&self, now: Time, wakeups: u64, seed: Seed) -> Duration {
        match self {
            Lateness::Wakeup(distribution) => distribution.draw(seed, wakeups),
            Lateness::Stalls { stall, every } => {
                let period = (every.as_nanos() as u64).max(1);
                let begun = (now.as_nanos() + seed.nth(0).0 % period) % period;
                stall.saturating_sub(Duration::from_nanos(begun))
            }
        }
    }
}

/// This is no lateness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseLatenessError {
    text: String,
}

impl fmt::Display for ParseLatenessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` says not how late: write a time or a distribution such as \"2 ms\" or \"exponential 2 ms\", or a stop that comes \
             again and is shorter than the time between, such as \"10 ms every 100 ms\"",
            self.text
        )
    }
}

impl std::error::Error for ParseLatenessError {}

impl FromStr for Lateness {
    type Err = ParseLatenessError;

    /// Reads what [`Distribution`] reads, and `10 ms every 100 ms`.
    fn from_str(text: &str) -> Result<Self, ParseLatenessError> {
        let error = || ParseLatenessError { text: text.to_owned() };
        let Some((stall, every)) = text.split_once(" every ") else {
            let distribution: Distribution = text.parse().map_err(|_| error())?;
            return distribution.check().map(|()| Lateness::Wakeup(distribution)).map_err(|_| error());
        };
        let stall = parse_duration(stall).map_err(|_| error())?;
        let every = parse_duration(every).map_err(|_| error())?;
        if stall < every { Ok(Lateness::Stalls { stall, every }) } else { Err(error()) }
    }
}

shorthaul_types::written_as!(Lateness, "Lateness", |_| schema::text(
    "a time or a distribution, or a stop that comes again",
    &["2 ms", "exponential 2 ms", "10 ms every 100 ms"]
));

impl<'de> Deserialize<'de> for Lateness {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn late(text: &str) -> Lateness {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn stalls_come_again_and_between_them_nothing_is_late() {
        let lateness = late("10 ms every 100 ms");
        for seed in [1, 2, 3].map(Seed) {
            let at = |micros: u64| lateness.at(Time::from_micros(micros), 0, seed);
            let stopped: Vec<u64> = (0..1000).filter(|tenth| at(tenth * 100) > Duration::ZERO).collect();
            assert!(
                (99..=101).contains(&stopped.len()),
                "of 1000 tenths of a millisecond: {}",
                stopped.len()
            );
            // Whenever something happens, it is looked at when the stop is over: there is one end of it.
            let ends: std::collections::BTreeSet<u64> =
                stopped.iter().map(|tenth| tenth * 100_000 + at(tenth * 100).as_nanos() as u64).collect();
            assert!(ends.len() <= 2, "seed {seed:?}: {ends:?}");
        }
    }

    #[test]
    fn each_time_is_drawn_from_the_distribution() {
        assert_eq!(late("3 ms").at(Time::ZERO, 5, Seed(1)), Duration::from_millis(3));
        let lateness = late("exponential 2 ms");
        let sum: Duration = (0..10_000).map(|n| lateness.at(Time::ZERO, n, Seed(7))).sum();
        assert!((1.9..2.1).contains(&(sum.as_secs_f64() * 1e3 / 1e4)), "{sum:?}");
    }

    #[test]
    fn what_is_no_lateness_is_refused_with_examples() {
        for wrong in ["", "late", "100 ms every 100 ms", "10 ms every", "exponential 0 ms"] {
            let error = wrong.parse::<Lateness>().unwrap_err().to_string();
            assert!(error.contains("10 ms every 100 ms"), "{error}");
        }
    }
}
