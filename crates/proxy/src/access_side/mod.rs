//! The access side of a gateway: a tree of bottleneck groups, hosts and flows.
//!
//! What is scheduled together belongs to a [`Group`]: the flows of hosts that share a bottleneck. What is one host's alone
//! belongs to a [`Host`]: its memory, its queue, its uplink. What a flow has of its own there is its [`Place`]. An emulated link
//! is at the node of the tree that it is the path's tail to.
//!
//! A host is a group of its own, but where it is behind a bottleneck that is configured, or where its policy emulates radio cells: the hosts
//! of a bottleneck are a group, and so are those of a cell. A host that has flows of policies with cells and of others is in the tree more
//! than once: it shares with others what its group shares.
//!
//! Only flows whose policy needs any of this have a place here; a plain split does not.
mod bottleneck;
mod groups;
mod host_queue;
mod info;
mod links;
mod place;

pub use bottleneck::{Bottleneck, HostWeight};
pub(crate) use host_queue::{HostQueue, QueuePlace};
pub use info::HostInfo;
pub(crate) use links::LinkPlace;
pub(crate) use place::Place;

use crate::aggregate::{Aggregate, AggregateConfig, HostMemory, Members, Served, Sources, Uplink};
use crate::path_tail::TailScope;
use crate::{HostPrefix, Policy};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;
use links::{Links, Node};
use shorthaul_congestion::{HostClock, Waited};
use shorthaul_tcp::Timers;
use shorthaul_types::Time;
use slab::Slab;

/// At most this many hosts without a connection are remembered: addresses are cheap to invent.
const MOST_REMEMBERED: usize = 1 << 14;
/// At least this many hosts are looked through for old ones.
const FEW: usize = 64;

/// A radio cell of which a policy emulates the link: the policy's tail, and the cell's place there.
type CellKey = (u32, usize);

/// What the hosts of a group have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Common {
    Cell(CellKey),
    /// The place of a bottleneck in the configuration.
    Bottleneck(usize),
}

/// Hosts that share a bottleneck, and what sends to them.
#[derive(Debug)]
pub(crate) struct Group {
    /// What its hosts have in common, if it is no host by itself.
    common: Option<Common>,
    /// Its hosts in the registry.
    pub hosts: Vec<u32>,
    /// The emulated link that they share.
    link: Option<u32>,
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
    /// Its place among the hosts of that.
    in_group: usize,
    /// How many shares it has in its group.
    weight: u32,
    /// Its part in the aggregate of its group.
    pub part: Option<u32>,
    /// The emulated links to it alone, each with the tail that it is of.
    links: Vec<(u32, u32)>,
    /// Flows that have a place here.
    flows: u32,
    /// Since when it has no flows.
    empty_since: Time,
    /// Its aggregated flows.
    pub members: Members,
    /// What is held and promised of them.
    pub memory: HostMemory,
    /// What it sends, if that is limited.
    pub uplink: Option<Uplink>,
    /// Who sends to it, where senders may be held.
    pub sources: Sources,
    /// Its clock, and how long what it sends is on its way.
    pub clock: HostClock,
    /// The same of what has just arrived from it.
    pub waited: Option<Waited>,
    /// What waits for it, of the flows that follow that.
    pub queue: HostQueue,
}

/// All hosts of a gateway that share something among their flows, and their groups.
#[derive(Debug)]
pub(crate) struct AccessSide {
    prefix: HostPrefix,
    bottlenecks: Vec<Bottleneck>,
    /// Hosts by the cell that they are in, if in one, and by their prefix.
    by_prefix: BTreeMap<(Option<CellKey>, IpAddr), u32>,
    /// Groups of hosts that have something in common.
    shared: BTreeMap<Common, u32>,
    hosts: Slab<Host>,
    groups: Slab<Group>,
    /// The emulated links of all levels.
    pub links: Links,
    /// The tail that each policy has emulated, if it has, in the order of the policies.
    tails: Vec<Option<u32>>,
    /// Deadlines of groups.
    pub timers: Timers,
    /// Groups that may have something to send.
    pub ready: VecDeque<u32>,
    next_serial: u64,
    /// What the gateway may hold in all, in bytes.
    pub memory: u64,
    /// From this number of hosts on, those are forgotten that had no connection for long.
    forget_at: usize,
}

impl AccessSide {
    /// Nobody is known; these are the bottlenecks and the policies.
    pub fn new(prefix: HostPrefix, bottlenecks: &[Bottleneck], policies: &[Policy]) -> Self {
        let mut links = Links::default();
        AccessSide {
            prefix,
            bottlenecks: bottlenecks.to_vec(),
            by_prefix: BTreeMap::new(),
            shared: BTreeMap::new(),
            hosts: Slab::new(),
            groups: Slab::new(),
            tails: policies.iter().map(|policy| tail_of(policy, &mut links)).collect(),
            links,
            timers: Timers::default(),
            ready: VecDeque::new(),
            next_serial: 0,
            memory: u64::MAX,
            forget_at: FEW,
        }
    }

    /// The policies are these from now on, and behind them those former ones that flows still have.
    pub fn reconfigure(&mut self, policies: &[Policy], still_used: &[bool]) {
        let fresh = policies.iter().map(|policy| tail_of(policy, &mut self.links)).collect();
        for (tail, used) in core::mem::replace(&mut self.tails, fresh).into_iter().zip(still_used) {
            match (tail, used) {
                (tail, true) => self.tails.push(tail),
                (Some(tail), false) => self.links.remove_tail(tail),
                (None, false) => {}
            }
        }
    }

    /// Whether a policy, by its place in the list, has emulated links.
    pub fn has_links(&self, policy: u16) -> bool {
        self.tail(policy).is_some()
    }

    fn tail(&self, policy: u16) -> Option<u32> {
        self.tails.get(usize::from(policy)).copied().flatten()
    }

    pub fn host(&self, host: u32) -> Option<&Host> {
        self.hosts.get(host as usize)
    }

    pub fn host_mut(&mut self, host: u32) -> Option<&mut Host> {
        self.hosts.get_mut(host as usize)
    }

    /// A host with what serves its aggregated flows.
    pub fn served(&mut self, host: u32) -> Option<Served<'_>> {
        let memory = self.memory;
        let host = self.hosts.get_mut(host as usize)?;
        let aggregate = self.groups.get_mut(host.group as usize)?.aggregate.as_deref_mut()?;
        Some(Served { aggregate, host, memory })
    }

    /// A number that no member had before.
    pub fn serial(&mut self) -> u64 {
        self.next_serial += 1;
        self.next_serial
    }

    /// What the addresses of a host have in common.
    pub fn prefix_of(&self, address: IpAddr) -> IpAddr {
        self.prefix.of(address)
    }

    /// The host with this address, if it is known.
    pub fn find(&self, address: IpAddr) -> Option<&Host> {
        self.host(*self.by_prefix.get(&(None, self.prefix.of(address)))?)
    }

    /// Whether a host with this address is behind a bottleneck that is configured.
    pub fn is_behind_bottleneck(&self, address: IpAddr) -> bool {
        self.bottlenecks.iter().any(|bottleneck| bottleneck.holds(address))
    }

    /// A flow of this policy to this address begins: its host, a new one if it is not known.
    pub fn join(&mut self, now: Time, address: IpAddr, policy: u16) -> u32 {
        let prefix = self.prefix.of(address);
        let tail = self.tail(policy);
        let cell = tail.and_then(|tail| Some((tail, self.links.tail(tail)?.cell_of(address)?)));
        let host = match self.by_prefix.get(&(cell, prefix)) {
            Some(&host) => {
                self.forget_if_old(now, host);
                host
            }
            None => {
                if self.by_prefix.len() >= self.forget_at {
                    self.forget_old(now);
                }
                let bottleneck = self.bottlenecks.iter().position(|bottleneck| bottleneck.holds(address));
                let group = self.group_for(cell.map(Common::Cell).or(bottleneck.map(Common::Bottleneck)));
                let weight = bottleneck.map_or(1, |place| self.bottlenecks[place].weight_of(address));
                let host = self.hosts.insert(Host { weight, ..Host::new(now, prefix, group) }) as u32;
                let hosts = &mut self.groups[group as usize].hosts;
                self.hosts[host as usize].in_group = hosts.len();
                hosts.push(host);
                self.by_prefix.insert((cell, prefix), host);
                host
            }
        };
        self.hosts[host as usize].flows += 1;
        host
    }

    /// A flow of this policy with this number, to this host, takes its place behind an emulated link where the policy has one;
    /// `delivered` was delivered of it so far.
    pub fn join_link(
        &mut self,
        now: Time,
        host: u32,
        policy: u16,
        (number, delivered): (u64, u64),
    ) -> Option<LinkPlace> {
        let tail = self.tail(policy)?;
        let links = &mut self.links;
        let known = self.hosts.get_mut(host as usize)?;
        let index = match links.tail(tail)?.scope() {
            TailScope::Flow => links.insert(now, tail, Node::Flow, None),
            TailScope::Host => match known.links.iter().find(|(of, _)| *of == tail) {
                Some((_, link)) => *link,
                None => {
                    let link = links.insert(now, tail, Node::Host(host), None);
                    known.links.push((tail, link));
                    link
                }
            },
            TailScope::Cell(_) => {
                let group = self.groups.get_mut(known.group as usize)?;
                let cell = match group.common {
                    Some(Common::Cell((_, place))) => Some(place),
                    _ => None,
                };
                *group.link.get_or_insert_with(|| links.insert(now, tail, Node::Group(known.group), cell))
            }
        };
        Some(links.join(index, number, delivered))
    }

    /// A flow has left its place behind an emulated link.
    pub fn leave_link(&mut self, place: &LinkPlace) {
        match self.links.leave(place) {
            Some(Node::Group(group)) => {
                if let Some(group) = self.groups.get_mut(group as usize) {
                    group.link = None;
                }
            }
            Some(Node::Host(host)) => {
                if let Some(host) = self.hosts.get_mut(host as usize) {
                    host.links.retain(|(_, link)| *link != place.index);
                }
            }
            Some(Node::Flow) | None => {}
        }
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
        if known.part.is_none() {
            known.uplink = Uplink::new(now, mss, config);
        }
        if group.aggregate.is_none() {
            let mut aggregate = Aggregate::new(now, mss, Arc::clone(config));
            if let Some(Common::Bottleneck(place)) = group.common {
                aggregate.set_most(self.bottlenecks.get(place).and_then(|bottleneck| bottleneck.rate));
            }
            group.aggregate = Some(Box::new(aggregate));
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
            self.remove(host);
        }
    }

    fn remove(&mut self, host: u32) {
        let Host { group, prefix, in_group, part, .. } = self.hosts.remove(host as usize);
        let known = &mut self.groups[group as usize];
        let common = known.common;
        if let (Some(aggregate), Some(part)) = (&mut known.aggregate, part) {
            aggregate.parts.remove(part);
        }
        known.hosts.swap_remove(in_group);
        let (moved, is_empty) = (known.hosts.get(in_group).copied(), known.hosts.is_empty());
        let cell = match common {
            Some(Common::Cell(cell)) => Some(cell),
            _ => None,
        };
        self.by_prefix.remove(&(cell, prefix));
        if let Some(moved) = moved {
            self.hosts[moved as usize].in_group = in_group;
        }
        if is_empty {
            self.groups.remove(group as usize);
            if let Some(common) = common {
                self.shared.remove(&common);
            }
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
            let Host { prefix, group, in_group, weight, part, .. } = *host;
            self.hosts[index as usize] = Host { in_group, weight, ..Host::new(now, prefix, group) };
            let group = &mut self.groups[group as usize];
            if group.hosts.len() == 1 {
                group.aggregate = None;
            } else if let (Some(aggregate), Some(part)) = (&mut group.aggregate, part) {
                aggregate.parts.remove(part);
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
        let old = self.by_prefix.values().copied().filter(|host| self.host(*host).is_some_and(is_old));
        let old: Vec<u32> = old.collect();
        for host in old {
            self.remove(host);
        }
        self.forget_at = (2 * self.by_prefix.len()).max(FEW);
    }

    /// Every host, with what serves its aggregated flows.
    pub fn aggregated(&self) -> impl Iterator<Item = (&Host, &Aggregate)> {
        self.hosts.iter().filter_map(|(_, host)| Some((host, self.aggregate(host.group)?)))
    }
}

/// The tail that a policy has emulated, if it has.
fn tail_of(policy: &Policy, links: &mut Links) -> Option<u32> {
    Some(links.add_tail(policy.senders.emulated_link()?))
}

impl Host {
    fn new(now: Time, prefix: IpAddr, group: u32) -> Self {
        Host {
            prefix,
            group,
            in_group: 0,
            weight: 1,
            part: None,
            links: Vec::new(),
            flows: 0,
            empty_since: now,
            members: Members::default(),
            memory: HostMemory::default(),
            uplink: None,
            sources: Sources::default(),
            clock: HostClock::default(),
            waited: None,
            queue: HostQueue::new(now),
        }
    }

    /// Its part in the aggregate of its group.
    pub fn part_in(&mut self, now: Time, aggregate: &mut Aggregate) -> u32 {
        let weight = self.weight;
        *self.part.get_or_insert_with(|| aggregate.parts.insert(now, weight))
    }

    /// Whether it has no flows, and had none for longer than that.
    fn is_old(&self, now: Time, remember: Duration) -> bool {
        self.flows == 0 && now.saturating_since(self.empty_since) >= remember
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SenderControl;
    use crate::ack_release::Extent;
    use crate::path_tail::{AckToken, PathTailCell, PathTailConfig};
    use alloc::vec;
    use core::net::Ipv4Addr;
    use shorthaul_types::{BitRate, Bytes};

    fn access_side() -> AccessSide {
        AccessSide::new(HostPrefix::default(), &[], &[])
    }

    /// An aggregated flow to `address` begins and ends.
    fn visit(access: &mut AccessSide, now: Time, address: IpAddr) -> u32 {
        let host = access.join(now, address, 0);
        access.aggregate_for(now, host, 1000, &Arc::new(AggregateConfig::default())).unwrap();
        access.leave(now, host);
        host
    }

    #[test]
    fn addresses_of_one_prefix_are_one_host() {
        let mut access = AccessSide::new(HostPrefix { v4: 24, ..HostPrefix::default() }, &[], &[]);
        let mut of = |address: &str| access.join(Time::ZERO, address.parse().unwrap(), 0);
        assert_eq!(of("10.0.0.1"), of("10.0.0.200"));
        assert_ne!(of("10.0.0.1"), of("10.0.1.1"));
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
    }

    /// Policies with emulated links for whom these say.
    fn emulating<const N: usize>(scopes: [TailScope; N]) -> AccessSide {
        let bandwidth = BitRate::from_bits_per_sec(1_000_000);
        let of = |scope| PathTailConfig { scope, ..PathTailConfig::of(bandwidth) };
        let senders = scopes.map(|scope| SenderControl::acknowledging(of(scope)));
        let policies = senders.map(|senders| Policy { senders, ..Policy::default() });
        AccessSide::new(HostPrefix::default(), &[], &policies)
    }

    /// A flow to a host begins: the host's node, and the flow's place behind a link.
    fn begin(access: &mut AccessSide, address: &str, policy: u16) -> (u32, LinkPlace) {
        let host = access.join(Time::ZERO, address.parse().unwrap(), policy);
        (host, access.join_link(Time::ZERO, host, policy, (0, 0)).unwrap())
    }

    fn cells() -> TailScope {
        let cell = |name: &str, prefix: &str, bandwidth| PathTailCell {
            name: name.into(),
            prefixes: vec![prefix.parse().unwrap()],
            bandwidth,
        };
        let half = Some(BitRate::from_bits_per_sec(500_000));
        TailScope::Cell(vec![cell("all", "10.0.0.0/8", None), cell("second", "10.2.0.0/16", half)])
    }

    #[test]
    fn hosts_flows_and_cells_share_a_link_as_they_are_told() {
        for (scope, same) in [
            (TailScope::Host, [false, false, true]),
            (TailScope::Flow, [false, false, false]),
            (cells(), [true, false, true]),
        ] {
            let mut access = emulating([scope.clone()]);
            let flows = ["10.1.0.7", "10.1.0.8", "10.2.0.9", "10.1.0.7"].map(|a| begin(&mut access, a, 0));
            let links = flows.map(|(_, place)| place.index);
            assert_eq!([1, 2, 3].map(|other| links[other] == links[0]), same, "{scope:?}");
            if let TailScope::Cell(_) = scope {
                let token = AckToken { slot: 0, flow: 0, extent: Extent { start: 1, end: 2, ts_val: None } };
                assert!(access.links.offer(Time::ZERO, links[2], Bytes(1500), token));
                let at = access.links.poll_timeout().map(|deadline| deadline.at);
                assert_eq!(at, Some(Time::from_millis(24)), "half the rate");
            }
            for (host, place) in flows {
                access.leave_link(&place);
                access.leave(Time::ZERO, host);
            }
            assert!(access.hosts.is_empty() && access.groups.is_empty() && access.shared.is_empty());
        }
    }

    #[test]
    fn the_hosts_of_a_cell_are_a_group_for_flows_of_its_policy_alone() {
        let mut access = emulating([cells(), TailScope::Host]);
        let [one, two] = ["10.1.0.7", "10.1.0.8"].map(|address| begin(&mut access, address, 0));
        let elsewhere = begin(&mut access, "10.1.0.7", 1);
        let group = |access: &AccessSide, (host, _): (u32, LinkPlace)| access.group_of(host).unwrap();
        assert_eq!(group(&access, one), group(&access, two));
        assert_ne!(group(&access, one), group(&access, elsewhere));
        assert_ne!(one.1.index, elsewhere.1.index, "each policy has links of its own");
        assert!(access.aggregate_for(Time::ZERO, elsewhere.0, 1000, &Arc::default()).is_some());
        assert!(access.aggregate(group(&access, two)).is_none(), "what is another group's");
        // The first host goes, and the second stays where it is.
        access.leave_link(&one.1);
        access.leave(Time::ZERO, one.0);
        assert_eq!(access.groups[group(&access, two) as usize].hosts, [two.0]);
        access.leave_link(&two.1);
        access.leave(Time::ZERO, two.0);
        assert!(access.shared.is_empty());
    }

    #[test]
    fn former_links_go_on_under_another_configuration() {
        let mut access = emulating([TailScope::Host]);
        let former = begin(&mut access, "10.1.0.7", 0);
        let policies: Vec<Policy> = Vec::from([Policy::default()]);
        access.reconfigure(&policies, &[true]);
        assert_eq!([0, 1].map(|policy| access.has_links(policy)), [false, true]);
        assert_eq!(begin(&mut access, "10.1.0.7", 1).1.index, former.1.index);
        access.reconfigure(&policies, &[false, false]);
        assert!(!access.has_links(1));
    }

    #[test]
    fn a_host_of_which_nothing_is_shared_any_more_is_forgotten_at_once() {
        let mut access = access_side();
        let host = access.join(Time::ZERO, "10.0.0.1".parse().unwrap(), 0);
        access.join(Time::ZERO, "10.0.0.1".parse().unwrap(), 0);
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
        assert_eq!(access.join(Time::from_secs(500), one, 0), first);
        assert!(access.aggregate(access.group_of(first).unwrap()).is_some(), "its window is known still");
        access.leave(Time::from_secs(500), first);
        visit(&mut access, Time::from_secs(599), two);
        assert_eq!(access.hosts.len(), 2);
        // Of the first one nothing is known any more, …
        let mut is_known = |at, address: IpAddr| {
            let host = access.join(Time::from_secs(at), address, 0);
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
