//! Flow aggregation for mobile hosts ("Using TCP Flow-Aggregation to Enhance Data Experience of Cellular
//! Wireless Users", AGG-1 to AGG-12): the connections to one mobile host share one window, one round-trip
//! time, one pacer and one transmission log, and a scheduler says whose turn it is.
//!
//! Reading order: [`AggregateConfig`]; `host` (the control block, and what a connection has of its own);
//! `window` (fixed or found), `stride` (whose turn), `skipack` (losses across connections), `invitation`
//! (what the wired senders are offered), `uplink` (what mobile hosts are). The gateway calls all this from `gateway/aggregation`.
mod config;
mod host;
mod invitation;
mod skipack;
mod stride;
mod uplink;
mod window;

pub use config::{AggregateConfig, Clamp, Class, Invitations, UplinkWindow};
pub(crate) use host::{Expired, Host, Member};
pub(crate) use uplink::{Due, Landing, Uplink, Upload};

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;
use shorthaul_tcp::{Arbiter, LossEvidence, LossSign, Timers, Verdict};
use shorthaul_types::Time;

/// All mobile hosts of a gateway.
#[derive(Debug)]
pub(crate) struct Hosts {
    pub config: AggregateConfig,
    by_prefix: BTreeMap<IpAddr, u32>,
    slots: Vec<Option<Host>>,
    free: Vec<u32>,
    pub timers: Timers,
    /// Those that may have something to send.
    pub ready: VecDeque<u32>,
    next_serial: u64,
    /// With so many hosts, those are forgotten that had no connection for long.
    forget_at: usize,
}

/// So many hosts without a connection are remembered at most: addresses are cheap to invent.
const MOST_REMEMBERED: usize = 1 << 14;
/// So many hosts are looked through for old ones at least.
const FEW: usize = 64;

impl Hosts {
    pub fn new(config: AggregateConfig) -> Self {
        Hosts {
            config,
            by_prefix: BTreeMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            timers: Timers::default(),
            ready: VecDeque::new(),
            next_serial: 0,
            forget_at: FEW,
        }
    }

    pub fn get(&self, host: u32) -> Option<&Host> {
        self.slots.get(host as usize)?.as_ref()
    }

    pub fn get_mut(&mut self, host: u32) -> Option<&mut Host> {
        self.slots.get_mut(host as usize)?.as_mut()
    }

    /// A host to change, beside the configuration.
    pub fn with_config(&mut self, host: u32) -> Option<(&mut Host, &AggregateConfig)> {
        let Hosts { slots, config, .. } = self;
        Some((slots.get_mut(host as usize)?.as_mut()?, config))
    }

    /// A number that no member had before.
    pub fn serial(&mut self) -> u64 {
        self.next_serial += 1;
        self.next_serial
    }

    /// The host with this address, if it is known.
    pub fn find(&self, address: IpAddr) -> Option<&Host> {
        self.get(*self.by_prefix.get(&prefix_of(address, &self.config))?)
    }

    /// The host with this address; a new one if it is not known.
    pub fn of(&mut self, now: Time, address: IpAddr, mss: u32) -> u32 {
        let prefix = prefix_of(address, &self.config);
        if let Some(&slot) = self.by_prefix.get(&prefix) {
            if let Some((host, config)) = self.with_config(slot)
                && host.is_old(now, config.remember)
            {
                let mut new = Host::new(now, prefix, mss, config);
                (new.ready, new.armed) = (host.ready, host.armed);
                *host = new;
            }
            return slot;
        }
        if self.by_prefix.len() >= self.forget_at {
            self.forget_old(now);
        }
        let host = Host::new(now, prefix, mss, &self.config);
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(host);
                slot
            }
            None => {
                self.slots.push(Some(host));
                self.slots.len() as u32 - 1
            }
        };
        self.by_prefix.insert(prefix, slot);
        slot
    }

    /// Forgets hosts that had no connection for long, or all that have none where they are too many. That is done when they
    /// have become twice as many as it left, so that a new host costs the same however many there are.
    fn forget_old(&mut self, now: Time) {
        let Hosts { slots, free, by_prefix, config, .. } = self;
        let empty = slots.iter().flatten().filter(|host| host.members.is_empty()).count();
        let remember = if empty < MOST_REMEMBERED { config.remember } else { Duration::ZERO };
        by_prefix.retain(|_, slot| {
            let Some(host) = &slots[*slot as usize] else { return false };
            let forgotten = host.is_old(now, remember) && !host.ready;
            if forgotten {
                slots[*slot as usize] = None;
                free.push(*slot);
            }
            !forgotten
        });
        self.forget_at = (2 * self.by_prefix.len()).max(FEW);
    }

    /// The host may have something to send.
    pub fn wake(&mut self, slot: u32) {
        if let Some(host) = self.slots.get_mut(slot as usize).and_then(Option::as_mut)
            && !core::mem::replace(&mut host.ready, true)
        {
            self.ready.push_back(slot);
        }
    }

    /// Puts the next deadline of a host into the heap.
    pub fn arm(&mut self, slot: u32) {
        if let Some(host) = self.slots.get_mut(slot as usize).and_then(Option::as_mut)
            && let Some(at) = host.deadline()
            && host.armed.is_none_or(|armed| at < armed)
        {
            host.armed = Some(at);
            self.timers.arm(slot, at);
        }
    }

    /// The next host whose deadline has passed.
    pub fn pop_due(&mut self, now: Time) -> Option<u32> {
        while let Some((at, slot)) = self.timers.pop_due(now) {
            let Some(host) = self.slots[slot as usize].as_mut() else { continue };
            if host.armed != Some(at) {
                continue;
            }
            host.armed = None;
            if host.deadline().is_some_and(|at| at <= now) {
                return Some(slot);
            }
            self.arm(slot);
        }
        None
    }

    /// Every host.
    pub fn iter(&self) -> impl Iterator<Item = &Host> {
        self.slots.iter().flatten()
    }
}

/// What an address has in common with all others of its host.
fn prefix_of(address: IpAddr, config: &AggregateConfig) -> IpAddr {
    match address {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(config.prefix_v4.min(32))).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(ip.to_bits() & mask))
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(config.prefix_v6.min(128))).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & mask))
        }
    }
}

/// What there is to know of a mobile host, for people.
#[derive(Clone, Debug)]
pub struct HostInfo {
    /// The prefix that its addresses have in common.
    pub prefix: IpAddr,
    /// Its connections.
    pub flows: usize,
    /// The shared window, in bytes.
    pub window: u64,
    /// The window that its uploads share, in bytes, where they do.
    pub uplink: Option<u64>,
    /// Bytes in flight to it.
    pub in_flight: u64,
    /// Memory that is held for it, in bytes.
    pub held: u64,
    /// The smoothed round-trip time.
    pub srtt: Option<Duration>,
    /// The link is believed to carry nothing now.
    pub stalled: bool,
}

impl HostInfo {
    pub(crate) fn of(host: &Host) -> Self {
        HostInfo {
            prefix: host.prefix,
            flows: host.members.len(),
            window: host.window(),
            uplink: host.uplink.as_ref().map(Uplink::size),
            in_flight: host.in_flight(),
            held: host.held() as u64,
            srtt: host.srtt(),
            stalled: host.is_stalled(),
        }
    }
}

/// What a loss on the wireless link means to one of the connections: nothing. The window is the host's, and
/// what is lost is sent again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkLost;

impl Arbiter for LinkLost {
    fn judge(&mut self, _now: Time, evidence: &LossEvidence) -> Verdict {
        match evidence.sign {
            LossSign::Acknowledgments => Verdict::Transient,
            // The probe: one segment, and then what its answer says.
            LossSign::Timeout => Verdict::Severe,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_prefix_are_one_host() {
        let mut hosts = Hosts::new(AggregateConfig { prefix_v4: 24, ..AggregateConfig::default() });
        let mut of = |address: &str| hosts.of(Time::ZERO, address.parse().unwrap(), 1000);
        assert_eq!(of("10.0.0.1"), of("10.0.0.200"));
        assert_ne!(of("10.0.0.1"), of("10.0.1.1"));
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        let all = AggregateConfig { prefix_v4: 0, prefix_v6: 0, ..AggregateConfig::default() };
        assert_eq!(prefix_of("1.2.3.4".parse().unwrap(), &all), IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    }

    #[test]
    fn a_host_without_connections_is_remembered_and_then_forgotten() {
        let mut hosts = Hosts::new(AggregateConfig::default());
        let first = hosts.of(Time::ZERO, "10.0.0.1".parse().unwrap(), 1000);
        assert_eq!(hosts.of(Time::from_secs(500), "10.0.0.1".parse().unwrap(), 1000), first);
        hosts.of(Time::from_secs(599), "10.0.0.2".parse().unwrap(), 1000);
        assert_eq!(hosts.iter().count(), 2);
        // Of the first one nothing is known any more, …
        let mut window_of = |at, address: &str| {
            let slot = hosts.of(Time::from_secs(at), address.parse().unwrap(), 1000);
            let host = hosts.get_mut(slot).unwrap();
            (host.window(), core::mem::replace(&mut host.empty_since, Time::from_secs(at)))
        };
        assert_eq!(window_of(601, "10.0.0.1").1, Time::from_secs(601));
        assert_eq!(window_of(602, "10.0.0.2").1, Time::from_secs(599), "and of the second it is");
        // … and when there are many, it takes no room either.
        for i in 0..200u32 {
            hosts.of(Time::from_secs(2000), Ipv4Addr::from_bits(i << 8).into(), 1000);
        }
        assert!(hosts.iter().count() <= 200, "{}", hosts.iter().count());
        assert!(hosts.find("10.0.0.1".parse().unwrap()).is_none());
    }

    #[test]
    fn invented_addresses_do_not_add_up() {
        let mut hosts = Hosts::new(AggregateConfig::default());
        for i in 0..300_000u32 {
            let address = Ipv4Addr::from_bits(i).into();
            hosts.of(Time::from_millis(u64::from(i) / 10), address, 1000);
        }
        assert!(hosts.iter().count() <= 4 * MOST_REMEMBERED, "{}", hosts.iter().count());
    }
}
