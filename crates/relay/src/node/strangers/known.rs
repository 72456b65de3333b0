//! Sources of which somebody was let in lately.
use super::Network;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

/// How long a source is known of which somebody was let in.
pub const KNOWN_FOR: Duration = Duration::from_secs(600);
/// Most of them. Of more, those of which somebody was let in longest ago are strangers again.
pub const MOST: usize = 16_384;
/// The same of a customer's network: one that is let in has 65,536 hosts, if a /48 is its own.
pub const MOST_OF_NETWORK: usize = 256;

/// All of them, numbered in the order in which somebody was let in.
#[derive(Debug, Default)]
pub struct Known {
    hosts: HashMap<Network, u64>,
    by_age: BTreeMap<u64, Host>,
    of_networks: HashMap<Network, BTreeSet<u64>>,
    next: u64,
}

#[derive(Debug)]
struct Host {
    address: Network,
    /// The customer's network that it is of.
    network: Network,
    since: Instant,
}

impl Known {
    /// Whether a host is.
    pub fn contains(&self, host: &Network, now: Instant) -> bool {
        let found = self.hosts.get(host).and_then(|number| self.by_age.get(number));
        found.is_some_and(|host| now.saturating_duration_since(host.since) < KNOWN_FOR)
    }

    /// Somebody of a host, which is of a customer's network, was let in.
    pub fn add(&mut self, host: Network, network: Network, now: Instant) {
        if let Some(number) = self.hosts.get(&host).copied() {
            self.remove(number);
        }
        self.next += 1;
        let number = self.next;
        self.hosts.insert(host, number);
        self.by_age.insert(number, Host { address: host, network, since: now });
        let of_network = self.of_networks.entry(network).or_default();
        of_network.insert(number);
        if of_network.len() > MOST_OF_NETWORK
            && let Some(oldest) = of_network.first().copied()
        {
            self.remove(oldest);
        }
        while let Some((&oldest, host)) = self.by_age.first_key_value()
            && (self.by_age.len() > MOST || now.saturating_duration_since(host.since) >= KNOWN_FOR)
        {
            self.remove(oldest);
        }
    }

    fn remove(&mut self, number: u64) {
        let Some(host) = self.by_age.remove(&number) else { return };
        self.hosts.remove(&host.address);
        if let Some(of_network) = self.of_networks.get_mut(&host.network) {
            of_network.remove(&number);
            if of_network.is_empty() {
                self.of_networks.remove(&host.network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    fn host(number: u32) -> Network {
        (IpAddr::from(number.to_be_bytes()), 32)
    }

    #[test]
    fn who_was_let_in_longest_ago_is_a_stranger_again() {
        let (mut known, now) = (Known::default(), Instant::now());
        for number in 0..MOST as u32 {
            known.add(host(number), host(number), now);
        }
        // Again: the first is the newest now.
        known.add(host(0), host(0), now);
        known.add(host(u32::MAX), host(u32::MAX), now);
        assert!(known.contains(&host(0), now) && known.contains(&host(u32::MAX), now));
        assert!(!known.contains(&host(1), now) && known.contains(&host(2), now));
        let sizes = [known.hosts.len(), known.by_age.len(), known.of_networks.len()];
        assert_eq!(sizes, [MOST; 3]);
        // What was long ago makes room by itself.
        let later = now + KNOWN_FOR;
        assert!(!known.contains(&host(2), later));
        known.add(host(1), host(1), later);
        assert_eq!([known.hosts.len(), known.by_age.len(), known.of_networks.len()], [1; 3]);
    }
}
