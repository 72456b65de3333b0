use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use shorthaul_types::{Seed, Time};

use super::limiter::{Allowance, Bucket, Limiter};
use super::message::Onward;

/// How long a measured way from here to a target is told to those who ask.
pub const ONWARD_AGE: Duration = Duration::from_secs(60);
/// Targets of which that is kept.
pub const ONWARD_MAX: usize = 256;

/// How much a responder answers and measures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Answers to any one network (a /24 or a /56).
    pub per_network: Allowance,
    /// Challenges in all: they go to addresses that have proved nothing yet.
    pub challenges: Allowance,
    /// Measurements of ways to targets in all.
    pub measurements: Allowance,
    /// Targets to which the way is kept.
    pub ways: usize,
}

impl Default for Limits {
    /// 50 answers a second to a network, 200 challenges a second, 10 measurements a second; twice as much in a burst. Ways to 256 targets.
    fn default() -> Self {
        let allowance = |per_second| Allowance { per_second, burst: 2.0 * per_second };
        Limits {
            per_network: allowance(50.0),
            challenges: allowance(200.0),
            measurements: allowance(10.0),
            ways: ONWARD_MAX,
        }
    }
}

/// What is left of a responder's [`Limits`], and what it knows of ways to targets: everything that decides whether a probe is
/// answered and what it is told, but for keys and load. It reads no message, so that a simulation of many nodes can have it as it is.
#[derive(Debug)]
pub struct Rations {
    limits: Limits,
    sources: Limiter,
    challenges: Bucket,
    measurements: Bucket,
    onward: HashMap<SocketAddr, Known>,
    /// Nothing in `onward` is older.
    oldest: Time,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    way: Onward,
    /// When it was measured, or began to be.
    at: Time,
}

/// What whoever asks for a way is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// The way to the target, as far as it is known.
    pub way: Onward,
    /// Whether it is to be measured now, and told to [`Rations::learn`].
    pub measure: bool,
}

impl Rations {
    /// Bytes of a target in the table of ways: its address, what is known of it, and the table's own byte.
    pub const WAY_BYTES: usize = size_of::<(SocketAddr, Known)>() + 1;
    /// Bytes that are held however little is asked.
    pub const BYTES: usize = size_of::<Rations>() + Limiter::BYTES;

    /// Nothing was asked yet. Which networks share a bucket, nobody can know.
    pub fn new(now: Time, limits: Limits) -> Self {
        Rations::with(now, limits, Limiter::new(now, limits.per_network))
    }

    /// The same; which networks share a bucket follows from a seed, so that a simulation can be repeated.
    pub fn seeded(now: Time, limits: Limits, seed: Seed) -> Self {
        Rations::with(now, limits, Limiter::seeded(now, limits.per_network, seed))
    }

    fn with(now: Time, limits: Limits, sources: Limiter) -> Self {
        Rations {
            sources,
            challenges: Bucket::full(now, limits.challenges),
            measurements: Bucket::full(now, limits.measurements),
            onward: HashMap::new(),
            oldest: now,
            limits,
        }
    }

    /// Whether somebody who has proved nothing yet may be challenged.
    pub fn challenge(&mut self, now: Time) -> bool {
        self.challenges.take(now, self.limits.challenges)
    }

    /// What a probe from a proven address gets that asks for the way to `target`, or for none. `None` if its network asks too often.
    pub fn ask(&mut self, now: Time, source: IpAddr, target: Option<SocketAddr>) -> Option<Told> {
        let way = target.map(|target| self.way_to(now, target)).unwrap_or_default();
        if !self.sources.take(now, source) {
            return None;
        }
        let unknown = target.filter(|_| way == Onward::Unknown);
        Some(Told { way, measure: unknown.is_some_and(|target| self.may_measure(now, target)) })
    }

    fn way_to(&self, now: Time, target: SocketAddr) -> Onward {
        let known = self.onward.get(&target).filter(|known| now.saturating_since(known.at) < ONWARD_AGE);
        known.map(|known| known.way).unwrap_or_default()
    }

    /// Books a measurement, unless one is under way or there were too many.
    fn may_measure(&mut self, now: Time, target: SocketAddr) -> bool {
        // Whoever asks a full table many times makes it go through all of it once for each that has become too old.
        if now.saturating_since(self.oldest) >= ONWARD_AGE {
            self.onward.retain(|_, known| now.saturating_since(known.at) < ONWARD_AGE);
            self.oldest = self.onward.values().map(|known| known.at).min().unwrap_or(now);
        }
        if self.onward.contains_key(&target)
            || self.onward.len() >= self.limits.ways
            || !self.measurements.take(now, self.limits.measurements)
        {
            return false;
        }
        self.oldest = if self.onward.is_empty() { now } else { self.oldest.min(now) };
        self.onward.insert(target, Known { way: Onward::Unknown, at: now });
        true
    }

    /// The way to a target was measured: its round-trip time, or `None` if nobody answers there.
    pub fn learn(&mut self, now: Time, target: SocketAddr, round_trip: Option<Duration>) {
        let way = round_trip.map_or(Onward::Unreachable, Onward::RoundTrip);
        if self.onward.len() < self.limits.ways || self.onward.contains_key(&target) {
            self.oldest = if self.onward.is_empty() { now } else { self.oldest.min(now) };
            self.onward.insert(target, Known { way, at: now });
        }
    }

    /// Targets to which it knows the way, or is measuring it, or did a while ago.
    pub fn ways(&self) -> usize {
        self.onward.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(port: u16) -> SocketAddr {
        ([198, 51, 100, 1], port).into()
    }

    #[test]
    fn what_has_become_too_old_leaves_its_place_however_full_the_table_is() {
        // So much is asked and measured as there are places.
        let plenty = Allowance { per_second: 1e6, burst: 1e6 };
        let limits = Limits { per_network: plenty, measurements: plenty, ..Limits::default() };
        let mut rations = Rations::seeded(Time::ZERO, limits, Seed(1));
        let from = [192, 0, 2, 1].into();
        // Four a second, each of another one: there is always a place.
        for at in 0..600_u64 {
            let told = rations.ask(Time::from_millis(250 * at), from, Some(target(at as u16)));
            assert_eq!(told, Some(Told { way: Onward::Unknown, measure: true }), "{at}");
        }
        // Ten a second: no place is left after 25 seconds, and the first is free after a minute.
        let mut rations = Rations::seeded(Time::ZERO, limits, Seed(1));
        let mut measured = Vec::new();
        for at in 0..1200_u64 {
            let told = rations.ask(Time::from_millis(100 * at), from, Some(target(at as u16))).unwrap();
            if told.measure {
                measured.push(at);
            }
            assert!(rations.ways() <= ONWARD_MAX);
        }
        let expected: Vec<u64> = (0..256).chain(600..856).collect();
        assert_eq!(measured, expected);
    }

    #[test]
    fn the_same_seed_has_the_same_networks_share() {
        let limits = Limits { per_network: Allowance { per_second: 0.0, burst: 1.0 }, ..Limits::default() };
        let answered = |seed| {
            let mut rations = Rations::seeded(Time::ZERO, limits, Seed(seed));
            let networks = (0..500_u16).map(|n| IpAddr::from([10, (n >> 8) as u8, n as u8, 1]));
            networks.map(|from| rations.ask(Time::ZERO, from, None).is_some()).collect::<Vec<_>>()
        };
        assert_eq!(answered(1), answered(1));
        assert_ne!(answered(1), answered(2));
        // 500 balls into 256 bins: all but 36 bins are hit.
        let hit = answered(1).iter().filter(|answered| **answered).count();
        assert!((200..=240).contains(&hit), "{hit}");
    }
}
