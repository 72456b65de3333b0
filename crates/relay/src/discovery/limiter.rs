use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::IpAddr;
use std::time::Duration;

use shorthaul_types::{Seed, Time};

/// Buckets that sources are spread over.
const SOURCES: usize = 256;

/// A store of permissions that fills steadily up to a limit (a token bucket).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    tokens: f64,
    filled_at: Time,
}

/// How fast a bucket fills, and what it holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Allowance {
    /// Permissions a second.
    pub per_second: f64,
    /// Permissions that may be saved up.
    pub burst: f64,
}

impl Bucket {
    pub(crate) const fn full(now: Time, allowance: Allowance) -> Self {
        Bucket { tokens: allowance.burst, filled_at: now }
    }

    /// Takes one permission, if there is one.
    pub(crate) fn take(&mut self, now: Time, allowance: Allowance) -> bool {
        let passed = now.saturating_since(self.filled_at).as_secs_f64();
        self.tokens = (self.tokens + passed * allowance.per_second).min(allowance.burst);
        self.filled_at = now;
        let there = self.tokens >= 1.0;
        if there {
            self.tokens -= 1.0;
        }
        there
    }

    /// When there will be one.
    pub(crate) fn ready_at(&self, allowance: Allowance) -> Time {
        let missing = (1.0 - self.tokens).max(0.0);
        self.filled_at + Duration::from_secs_f64((missing / allowance.per_second.max(1e-9)).min(1e9))
    }
}

/// Keeps any one network from taking more than its share of the answers, in memory that does not grow:
/// networks share buckets where their hashes meet.
#[derive(Debug)]
pub(crate) struct Limiter {
    allowance: Allowance,
    spread: Spread,
    buckets: Vec<Bucket>,
}

/// What says which bucket a network has.
#[derive(Debug)]
enum Spread {
    /// Nobody can know: who could choose networks that share a bucket would silence them.
    Secret(RandomState),
    /// A simulation is to be repeated.
    Drawn(Seed),
}

impl Limiter {
    /// Bytes that the buckets take.
    pub(crate) const BYTES: usize = SOURCES * size_of::<Bucket>();

    pub(crate) fn new(now: Time, allowance: Allowance) -> Self {
        Limiter::with(now, allowance, Spread::Secret(RandomState::new()))
    }

    pub(crate) fn seeded(now: Time, allowance: Allowance, seed: Seed) -> Self {
        Limiter::with(now, allowance, Spread::Drawn(seed))
    }

    fn with(now: Time, allowance: Allowance, spread: Spread) -> Self {
        Limiter { allowance, spread, buckets: vec![Bucket::full(now, allowance); SOURCES] }
    }

    /// Whether one more answer may go there.
    pub(crate) fn take(&mut self, now: Time, source: IpAddr) -> bool {
        // A /24 or a /56 is what one attacker easily has all addresses of.
        let mut network = [0; 8];
        let len = match source {
            IpAddr::V4(v4) => {
                network[..3].copy_from_slice(&v4.octets()[..3]);
                3
            }
            IpAddr::V6(v6) => {
                network[..7].copy_from_slice(&v6.octets()[..7]);
                7
            }
        };
        let hash = match &self.spread {
            Spread::Secret(state) => {
                let mut hasher = state.build_hasher();
                hasher.write(&network[..len]);
                hasher.finish()
            }
            Spread::Drawn(seed) => seed.nth(u64::from_be_bytes(network)).0,
        };
        self.buckets[hash as usize % SOURCES].take(now, self.allowance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_its_burst_and_then_its_rate() {
        let allowance = Allowance { per_second: 10.0, burst: 5.0 };
        let mut limiter = Limiter::new(Time::ZERO, allowance);
        let sources: Vec<IpAddr> = (0..20u8).map(|last| [192, 0, 2, last].into()).collect();
        let at_once = sources.iter().filter(|source| limiter.take(Time::ZERO, **source)).count();
        assert_eq!(at_once, 5, "its hosts share");
        let later = Time::from_millis(201);
        let then = sources.iter().filter(|source| limiter.take(later, **source)).count();
        assert_eq!(then, 2);
    }

    #[test]
    fn a_bucket_says_when_it_can_give_again() {
        let allowance = Allowance { per_second: 2.0, burst: 1.0 };
        let mut bucket = Bucket::full(Time::ZERO, allowance);
        assert_eq!(bucket.ready_at(allowance), Time::ZERO);
        assert!(bucket.take(Time::ZERO, allowance));
        let ready = bucket.ready_at(allowance);
        assert_eq!(ready, Time::from_millis(500));
        assert!(!bucket.take(Time::from_millis(499), allowance) && bucket.take(ready, allowance));
    }
}
