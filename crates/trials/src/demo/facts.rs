//! What matters of a path, read from its scenario.
use std::time::Duration;

use serde::Serialize;
use shorthaul_lab::Topology;
use shorthaul_link::{Direction, LinkConfig};

use shorthaul_types::Bytes;

use super::plan::Path;

/// What a full packet takes of a link, where its length decides about its loss.
const FULL_PACKET: Bytes = Bytes(1500);

/// What matters of a path's links to what is seen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PathFacts {
    /// The rate of the slowest link toward the client, in bits per second.
    pub rate_bit_per_s: f64,
    /// The round-trip time of a small packet from end to end without queues, in seconds.
    pub round_trip_s: f64,
    /// The part of it between client and gateway.
    pub access_round_trip_s: f64,
    /// The part of it between gateway and server.
    pub wan_round_trip_s: f64,
    /// The gateway's first window toward the client, in segments; ends begin with ten.
    pub initial_window: u32,
    /// The probability that a packet toward the client is lost at random.
    pub loss: f64,
}

impl PathFacts {
    /// Of `path` with a topology whose links lead from `client` to `gateway` and from there to `server`.
    pub fn of(topology: &Topology, path: &Path) -> PathFacts {
        let mut facts = PathFacts {
            rate_bit_per_s: f64::INFINITY,
            round_trip_s: 0.0,
            access_round_trip_s: 0.0,
            wan_round_trip_s: 0.0,
            initial_window: path.initial_window,
            loss: 0.0,
        };
        for link in &topology.links {
            let ends = [link.between[0].as_str(), link.between[1].as_str()];
            let (toward_client, access) = match ends {
                ["client", "gateway"] => (Direction::Down, true),
                ["gateway", "client"] => (Direction::Up, true),
                ["gateway", "server"] => (Direction::Down, false),
                ["server", "gateway"] => (Direction::Up, false),
                _ => continue,
            };
            let both = [Direction::Up, Direction::Down];
            let round_trip: Duration = both.iter().filter_map(|d| link.config(*d)).map(delay).sum();
            let part = if access { &mut facts.access_round_trip_s } else { &mut facts.wan_round_trip_s };
            *part += round_trip.as_secs_f64();
            facts.round_trip_s += round_trip.as_secs_f64();
            if let Some(config) = link.config(toward_client) {
                facts.rate_bit_per_s = facts.rate_bit_per_s.min(rate(config));
                facts.loss = 1.0 - (1.0 - facts.loss) * (1.0 - config.loss.mean(FULL_PACKET));
            }
        }
        facts
    }
}

/// How long a small packet takes on average, besides queueing.
fn delay(config: &LinkConfig) -> Duration {
    config.delay + config.jitter.map_or(Duration::ZERO, |jitter| jitter.distribution.mean())
}

fn rate(config: &LinkConfig) -> f64 {
    config.rate.mean().map_or(f64::INFINITY, |rate| rate.bits_per_sec() as f64)
}

#[cfg(test)]
mod tests {
    use super::super::plan::PATHS;
    use super::*;

    #[test]
    fn the_three_paths_are_what_their_titles_say() {
        let facts = |name: &str| {
            let path = PATHS.iter().find(|path| path.name == name).unwrap();
            PathFacts::of(&Topology::from_toml(path.name, path.topology).unwrap(), path)
        };
        let halfway = facts("halfway");
        assert_eq!(halfway.rate_bit_per_s, 32e6);
        assert!((halfway.round_trip_s - 0.128).abs() < 1e-6, "{halfway:?}");
        assert_eq!(halfway.access_round_trip_s, halfway.wan_round_trip_s);
        assert!((halfway.loss - 0.001).abs() < 1e-6, "{halfway:?}");
        assert!((facts("geo").round_trip_s - 0.6).abs() < 1e-6);
        assert!((33e3..34e3).contains(&facts("gprs").rate_bit_per_s));
    }
}
