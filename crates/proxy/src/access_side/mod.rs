//! The access side of a gateway: a tree of bottleneck groups, hosts and flows.
//!
//! What is scheduled together belongs to a [`Group`]: the flows of hosts that share a bottleneck. What is one host's alone
//! belongs to a [`Host`]: its memory, its queue, its uplink. What a flow has of its own there is its [`Place`]. Each host is a
//! group of its own.
//!
//! Only flows whose policy needs any of this have a place here; a plain split does not.
mod host_queue;
mod info;
mod place;

pub(crate) use host_queue::{HostQueue, QueuePlace};
pub use info::HostInfo;
pub(crate) use place::Place;

use crate::HostPrefix;
use crate::aggregate::{Aggregate, AggregateConfig, HostMemory, Served, Uplink};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;
use shorthaul_tcp::Timers;
use shorthaul_types::Time;
use slab::Slab;

/// At most this many hosts without a connection are remembered: addresses are cheap to invent.
const MOST_REMEMBERED: usize = 1 << 14;
/// At least this many hosts are looked through for old ones.
const FEW: usize = 64;

/// Hosts that share a bottleneck, and what sends to them.
#[derive(Debug)]
pub(crate) struct Group {
    /// Its hosts in the registry.
    pub hosts: Vec<u32>,
    /// What serves those of its flows that are aggregated.
    pub aggregate: Option<Box<Aggregate>>,
    /// It is in the queue of groups that may have something to send.
    pub ready: bool,
    /// The deadline that is in the heap, if one is.
    armed: Option<Time>,
}

/// One host.
#[derive(Debug)]
pub(crate) struct Host {
    /// The prefix that its addresses have in common.
    pub prefix: IpAddr,
    /// Its group in the registry.
    pub group: u32,
    /// Flows that have a place here.
    flows: u32,
    /// Since when it has no flows.
    empty_since: Time,
    /// The slots, in the gateway's table, of its aggregated flows.
    pub members: Vec<u32>,
    /// What is held and promised of them.
    pub memory: HostMemory,
    /// What it sends, if that is limited.
    pub uplink: Option<Uplink>,
    /// What waits for it, of the flows that follow that.
    pub queue: HostQueue,
}

/// All hosts of a gateway that share something among their flows, and their groups.
#[derive(Debug)]
pub(crate) struct AccessSide {
    prefix: HostPrefix,
    by_prefix: BTreeMap<IpAddr, u32>,
    hosts: Slab<Host>,
    groups: Slab<Group>,
    /// Deadlines of groups.
    pub timers: Timers,
    /// Groups that may have something to send.
    pub ready: VecDeque<u32>,
    next_serial: u64,
    /// With so many hosts, those are forgotten that had no connection for long.
    forget_at: usize,
}

impl AccessSide {
    pub fn new(prefix: HostPrefix) -> Self {
        AccessSide {
            prefix,
            by_prefix: BTreeMap::new(),
            hosts: Slab::new(),
            groups: Slab::new(),
            timers: Timers::default(),
            ready: VecDeque::new(),
            next_serial: 0,
            forget_at: FEW,
        }
    }

    pub fn host(&self, host: u32) -> Option<&Host> {
        self.hosts.get(host as usize)
    }

    pub fn host_mut(&mut self, host: u32) -> Option<&mut Host> {
        self.hosts.get_mut(host as usize)
    }

    /// The group of a host.
    pub fn group_of(&self, host: u32) -> Option<u32> {
        self.host(host).map(|host| host.group)
    }

    pub fn group_mut(&mut self, group: u32) -> Option<&mut Group> {
        self.groups.get_mut(group as usize)
    }

    /// What serves the aggregated flows of a group.
    pub fn aggregate(&self, group: u32) -> Option<&Aggregate> {
        self.groups.get(group as usize)?.aggregate.as_deref()
    }

    /// The same, to change.
    pub fn aggregate_mut(&mut self, group: u32) -> Option<&mut Aggregate> {
        self.groups.get_mut(group as usize)?.aggregate.as_deref_mut()
    }

    /// A host with what serves its aggregated flows.
    pub fn served(&mut self, host: u32) -> Option<Served<'_>> {
        let host = self.hosts.get_mut(host as usize)?;
        let aggregate = self.groups.get_mut(host.group as usize)?.aggregate.as_deref_mut()?;
        Some(Served { aggregate, host })
    }

    /// The slots of the aggregated flows of a group.
    pub fn members_of(&self, group: u32) -> Vec<u32> {
        let hosts = self.groups.get(group as usize).into_iter().flat_map(|group| &group.hosts);
        hosts.filter_map(|host| self.host(*host)).flat_map(|host| &host.members).copied().collect()
    }

    /// A number that no member had before.
    pub fn serial(&mut self) -> u64 {
        self.next_serial += 1;
        self.next_serial
    }

    /// The host with this address, if it is known.
    pub fn find(&self, address: IpAddr) -> Option<&Host> {
        self.host(*self.by_prefix.get(&self.prefix.of(address))?)
    }

    /// A flow to this address begins: its host, a new one if it is not known.
    pub fn join(&mut self, now: Time, address: IpAddr) -> u32 {
        let prefix = self.prefix.of(address);
        let host = match self.by_prefix.get(&prefix) {
            Some(&host) => {
                self.forget_if_old(now, host);
                host
            }
            None => {
                if self.by_prefix.len() >= self.forget_at {
                    self.forget_old(now);
                }
                let group = Group { hosts: Vec::new(), aggregate: None, ready: false, armed: None };
                let group = self.groups.insert(group) as u32;
                let host = self.hosts.insert(Host::new(now, prefix, group)) as u32;
                self.groups[group as usize].hosts.push(host);
                self.by_prefix.insert(prefix, host);
                host
            }
        };
        self.hosts[host as usize].flows += 1;
        host
    }

    /// An aggregated flow to this host, with segments of `mss` bytes, begins.
    pub fn aggregate_for(
        &mut self,
        now: Time,
        host: u32,
        mss: u32,
        config: &Arc<AggregateConfig>,
    ) -> Option<Served<'_>> {
        let known = self.hosts.get_mut(host as usize)?;
        let group = self.groups.get_mut(known.group as usize)?;
        if group.aggregate.is_none() {
            known.uplink = Uplink::new(now, mss, config);
            group.aggregate = Some(Box::new(Aggregate::new(now, mss, Arc::clone(config))));
        }
        self.served(host)
    }

    /// A flow of this host has ended. A host without flows is forgotten, at once where nothing is to be remembered of it.
    pub fn leave(&mut self, now: Time, host: u32) {
        let Some(known) = self.hosts.get_mut(host as usize) else { return };
        known.flows -= 1;
        known.empty_since = now;
        let (flows, group) = (known.flows, known.group);
        if flows == 0 && self.aggregate(group).is_none() {
            self.by_prefix.remove(&self.hosts[host as usize].prefix);
            self.remove(host);
        }
    }

    fn remove(&mut self, host: u32) {
        let Host { group, .. } = self.hosts.remove(host as usize);
        let known = &mut self.groups[group as usize];
        known.hosts.retain(|other| *other != host);
        if known.hosts.is_empty() {
            self.groups.remove(group as usize);
        }
    }

    /// How long a host without flows is remembered.
    fn remember(&self, host: &Host) -> Duration {
        self.aggregate(host.group).map_or(Duration::ZERO, |aggregate| aggregate.config.remember)
    }

    /// Of a host that had no flow for long, nothing is known any more.
    fn forget_if_old(&mut self, now: Time, index: u32) {
        let Some(host) = self.host(index) else { return };
        if host.is_old(now, self.remember(host)) {
            let (prefix, group) = (host.prefix, host.group);
            self.hosts[index as usize] = Host::new(now, prefix, group);
            let group = &mut self.groups[group as usize];
            if group.hosts.len() == 1 {
                group.aggregate = None;
            }
        }
    }

    /// Forgets hosts that had no connection for long, or all that have none where they are too many. That is done when they
    /// have become twice as many as it left, so that a new host costs the same however many there are.
    fn forget_old(&mut self, now: Time) {
        let empty = self.hosts.iter().filter(|(_, host)| host.flows == 0).count();
        let too_many = empty >= MOST_REMEMBERED;
        let is_old = |host: &Host| {
            let remember = if too_many { Duration::ZERO } else { self.remember(host) };
            host.is_old(now, remember) && !self.groups[host.group as usize].ready
        };
        let old: Vec<(IpAddr, u32)> = self
            .by_prefix
            .iter()
            .filter(|(_, host)| self.host(**host).is_none_or(is_old))
            .map(|(prefix, host)| (*prefix, *host))
            .collect();
        for (prefix, host) in old {
            self.by_prefix.remove(&prefix);
            self.remove(host);
        }
        self.forget_at = (2 * self.by_prefix.len()).max(FEW);
    }

    /// The group may have something to send.
    pub fn wake(&mut self, index: u32) {
        if let Some(group) = self.groups.get_mut(index as usize)
            && !core::mem::replace(&mut group.ready, true)
        {
            self.ready.push_back(index);
        }
    }

    /// Puts the next deadline of a group into the heap.
    pub fn arm(&mut self, index: u32) {
        if let Some(group) = self.groups.get_mut(index as usize)
            && let Some(at) = group.aggregate.as_ref().and_then(|aggregate| aggregate.deadline())
            && group.armed.is_none_or(|armed| at < armed)
        {
            group.armed = Some(at);
            self.timers.arm(index, at);
        }
    }

    /// The next group whose deadline has passed.
    pub fn pop_due(&mut self, now: Time) -> Option<u32> {
        while let Some((at, index)) = self.timers.pop_due(now) {
            let Some(group) = self.groups.get_mut(index as usize) else { continue };
            if group.armed != Some(at) {
                continue;
            }
            group.armed = None;
            let deadline = group.aggregate.as_ref().and_then(|aggregate| aggregate.deadline());
            if deadline.is_some_and(|at| at <= now) {
                return Some(index);
            }
            self.arm(index);
        }
        None
    }

    /// Every host, with what serves its aggregated flows.
    pub fn aggregated(&self) -> impl Iterator<Item = (&Host, &Aggregate)> {
        self.hosts.iter().filter_map(|(_, host)| Some((host, self.aggregate(host.group)?)))
    }
}

impl Host {
    fn new(now: Time, prefix: IpAddr, group: u32) -> Self {
        Host {
            prefix,
            group,
            flows: 0,
            empty_since: now,
            members: Vec::new(),
            memory: HostMemory::default(),
            uplink: None,
            queue: HostQueue::new(now),
        }
    }

    /// Whether it has no flows, and had none for longer than that.
    fn is_old(&self, now: Time, remember: Duration) -> bool {
        self.flows == 0 && now.saturating_since(self.empty_since) >= remember
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;

    fn access_side() -> AccessSide {
        AccessSide::new(HostPrefix::default())
    }

    /// An aggregated flow to `address` begins and ends.
    fn visit(access: &mut AccessSide, now: Time, address: IpAddr) -> u32 {
        let host = access.join(now, address);
        access.aggregate_for(now, host, 1000, &Arc::new(AggregateConfig::default())).unwrap();
        access.leave(now, host);
        host
    }

    #[test]
    fn addresses_of_one_prefix_are_one_host() {
        let mut access = AccessSide::new(HostPrefix { v4: 24, ..HostPrefix::default() });
        let mut of = |address: &str| access.join(Time::ZERO, address.parse().unwrap());
        assert_eq!(of("10.0.0.1"), of("10.0.0.200"));
        assert_ne!(of("10.0.0.1"), of("10.0.1.1"));
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
    }

    #[test]
    fn a_host_of_which_nothing_is_shared_any_more_is_forgotten_at_once() {
        let mut access = access_side();
        let host = access.join(Time::ZERO, "10.0.0.1".parse().unwrap());
        access.join(Time::ZERO, "10.0.0.1".parse().unwrap());
        access.leave(Time::from_secs(1), host);
        assert!(access.find("10.0.0.1".parse().unwrap()).is_some(), "it has another flow");
        access.leave(Time::from_secs(1), host);
        assert!(access.find("10.0.0.1".parse().unwrap()).is_none());
        assert!(access.hosts.is_empty() && access.groups.is_empty());
    }

    #[test]
    fn an_aggregated_host_without_connections_is_remembered_and_then_forgotten() {
        let mut access = access_side();
        let [one, two]: [IpAddr; 2] = ["10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap()];
        let first = visit(&mut access, Time::ZERO, one);
        assert_eq!(access.join(Time::from_secs(500), one), first);
        assert!(access.aggregate(access.group_of(first).unwrap()).is_some(), "its window is known still");
        access.leave(Time::from_secs(500), first);
        visit(&mut access, Time::from_secs(599), two);
        assert_eq!(access.hosts.len(), 2);
        // Of the first one nothing is known any more, …
        let mut is_known = |at, address: IpAddr| {
            let host = access.join(Time::from_secs(at), address);
            let known = access.group_of(host).and_then(|group| access.aggregate(group)).is_some();
            access.leave(Time::from_secs(at), host);
            known
        };
        assert!(!is_known(1101, one));
        assert!(is_known(1102, two), "and of the second it is");
        // … and when there are many, it takes no room either.
        for i in 0..200u32 {
            visit(&mut access, Time::from_secs(3000), Ipv4Addr::from_bits(i << 8).into());
        }
        assert!(access.hosts.len() <= 200, "{}", access.hosts.len());
        assert!(access.find(two).is_none());
    }

    #[test]
    fn invented_addresses_do_not_add_up() {
        let mut access = access_side();
        for i in 0..300_000u32 {
            visit(&mut access, Time::from_millis(u64::from(i) / 10), Ipv4Addr::from_bits(i).into());
        }
        assert!(access.hosts.len() <= 4 * MOST_REMEMBERED, "{}", access.hosts.len());
    }
}
