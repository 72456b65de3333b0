//! A path that changes now and then: packets take another route, or another satellite.
use core::time::Duration;

use crate::Distribution;
use crate::draw::Draw;
use crate::validate::{ConfigError, distribution, positive};

/// The path changes at regular times, and its propagation delay with it: as in a constellation in low orbit, which assigns
/// another satellite to a terminal every so often, or where routing flaps.
///
/// What leaves after a change can overtake what left before it, where the new path is shorter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RouteChanges {
    /// How long a path stays, counted from the start of the link; above zero.
    pub every: Duration,
    /// What each path adds to the delay of the link. Drawn for each by itself, and for each direction.
    pub delay: Distribution,
}

impl RouteChanges {
    /// What the path adds that a packet takes which leaves `since_origin` after the start of the link.
    pub(crate) fn extra(&self, draw: Draw, since_origin: Duration) -> Duration {
        let path = since_origin.as_nanos() / self.every.as_nanos().max(1);
        self.delay.sample(draw, path as u64)
    }

    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        positive("route_changes.every", self.every)?;
        distribution("route_changes.delay", &self.delay)
    }
}

/// How they are written.
#[cfg(feature = "serde")]
pub(crate) mod written {
    use super::{Distribution, Duration, RouteChanges};
    use crate::spec_parts::{none_or, none_or_table, read_distribution, scalar_or_table};
    use schemars::{JsonSchema, Schema, SchemaGenerator};
    use serde::{Deserialize, Deserializer};
    use shorthaul_types::{schema, serde_duration};

    /// A path that changes at regular times.
    #[derive(Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct RouteChangesTable {
        /// How long a path stays.
        #[serde(with = "serde_duration")]
        #[schemars(with = "schema::Duration")]
        every: Duration,
        /// What each path adds to the delay.
        #[serde(deserialize_with = "read_distribution")]
        delay: Distribution,
    }

    pub(crate) fn read<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Option<RouteChanges>>, D::Error> {
        const EXAMPLE: &str = "{ every = \"15 s\", delay = \"0 ms to 20 ms\" }";
        scalar_or_table(
            d,
            "route changes such as { every = \"15 s\", delay = \"0 ms to 20 ms\" }, or \"none\"",
            |scalar| none_or(scalar, EXAMPLE).map(|()| Some(None)),
            |RouteChangesTable { every, delay }| Ok(Some(Some(RouteChanges { every, delay }))),
        )
    }

    pub(crate) fn schema(generator: &mut SchemaGenerator) -> Schema {
        none_or_table::<RouteChangesTable>(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Link, LinkConfig};
    use alloc::vec::Vec;
    use shorthaul_types::{Bytes, Seed, Time};

    fn changing() -> LinkConfig {
        let ms = Duration::from_millis;
        let delay = Distribution::Uniform { min: ms(0), max: ms(40) };
        let route_changes = Some(RouteChanges { every: ms(100), delay });
        LinkConfig { delay: ms(10), route_changes, ..LinkConfig::default() }
    }

    /// How long each of the packets takes that leave every 10 ms, in the order in which they came out.
    fn latencies(count: u64) -> (Vec<(u64, Duration)>, Link<u64>) {
        let mut link = Link::new(changing(), Seed(3));
        for number in 0..count {
            let _ = link.push(Time::from_millis(10 * number), Bytes(100), number);
        }
        let out = core::iter::from_fn(|| link.pop(Time::MAX));
        let out = out.map(|(at, number)| (number, at.saturating_since(Time::from_millis(10 * number))));
        (out.collect(), link)
    }

    #[test]
    fn a_path_stays_for_its_time_and_the_next_has_another_delay() {
        let (mut out, _) = latencies(200);
        out.sort_unstable();
        let of_path: Vec<Duration> = out.chunks(10).map(|path| path[0].1).collect();
        for (number, latency) in out {
            assert_eq!(latency, of_path[number as usize / 10], "packet {number}");
            assert!((10..=50).contains(&latency.as_millis()), "{latency:?}");
        }
        assert!(of_path.windows(2).all(|pair| pair[0] != pair[1]), "{of_path:?}");
        let mean = of_path.iter().sum::<Duration>() / of_path.len() as u32;
        assert!((20..40).contains(&mean.as_millis()), "{mean:?}");
    }

    #[test]
    fn what_takes_a_shorter_path_overtakes() {
        assert!(!changing().keeps_order());
        let (out, link) = latencies(200);
        let overtaken = out.windows(2).filter(|pair| pair[0].0 > pair[1].0).count();
        assert!(overtaken > 0 && link.stats().reordered > 0, "{overtaken}");
    }

    #[test]
    fn what_cannot_be_is_named() {
        let usual = changing().route_changes.unwrap();
        let of = |route_changes| LinkConfig { route_changes: Some(route_changes), ..changing() };
        let error = of(RouteChanges { every: Duration::ZERO, ..usual }).validate().unwrap_err();
        assert!(alloc::format!("{error}").starts_with("route_changes.every"));
    }
}
