//! `rtnetlink(7)` in the calling thread's network namespace: interfaces, addresses, routes and rules.
//!
//! [`links`] has what bridges are about, and `lookup` asks which way a packet would go. Messages are those of `netlink-packet-route`. Each request awaits its answer, for all of this is set-up.
pub mod links;
mod lookup;

pub use lookup::Leads;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REQUEST, NetlinkBuffer, NetlinkHeader,
    NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage, AddressScope};
use netlink_packet_route::link::{
    AfSpecInet6, AfSpecUnspec, In6AddrGenMode, InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags,
    LinkInfo, LinkMessage,
};
use netlink_packet_route::route::{
    RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteProtocol, RouteType,
};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use rustix::net::{AddressFamily as SocketFamily, SocketFlags, SocketType, netdevice, socket_with};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// The index of the loopback interface, the first of every namespace.
pub const LOOPBACK: u32 = 1;

/// IPv4 or IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// That of an address.
    pub fn of(address: IpAddr) -> Family {
        if address.is_ipv4() { Family::V4 } else { Family::V6 }
    }

    /// All of its addresses.
    pub fn everything(self) -> IpNet {
        match self {
            Family::V4 => Ipv4Net::default().into(),
            Family::V6 => Ipv6Net::default().into(),
        }
    }
}

impl From<Family> for AddressFamily {
    fn from(family: Family) -> Self {
        match family {
            Family::V4 => AddressFamily::Inet,
            Family::V6 => AddressFamily::Inet6,
        }
    }
}

/// Where packets to a network go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The network.
    pub network: IpNet,
    /// How.
    pub to: NextHop,
    /// The routing table; the main one if not given.
    pub table: Option<u32>,
    /// The largest packets that go this way; the interface's MTU if not given.
    pub mtu: Option<u32>,
    /// The segments that TCP begins with this way; the kernel's number if not given.
    pub initial_window: Option<u32>,
}

impl Route {
    /// A route in the main table, of no particular properties.
    pub fn new(network: IpNet, to: NextHop) -> Self {
        Route { network, to, table: None, mtu: None, initial_window: None }
    }
}

/// How packets go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextHop {
    /// By way of a neighbour.
    Router(IpAddr),
    /// Out by an interface, given by its index.
    Interface(u32),
    /// To this host itself, by its loopback interface, given by its index.
    Local(u32),
    /// Nowhere, and the sender is told "host unreachable" by ICMP.
    Unreachable,
    /// Nowhere, without a word.
    Blackhole,
}

/// A rule of policy routing. It is about packets that have all that it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The address family.
    pub family: Family,
    /// When it is asked.
    pub priority: RulePriority,
    /// The interface that a packet came in by.
    pub interface: Option<String>,
    /// The IP protocol number.
    pub protocol: Option<u8>,
    /// The firewall mark.
    pub mark: Option<u32>,
    /// What becomes of such packets.
    pub action: Action,
}

/// What becomes of the packets of a [`Rule`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// They look into a routing table.
    Table(u32),
    /// They go nowhere.
    Blackhole,
}

/// The priority of a rule: those with smaller numbers are asked first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RulePriority(pub u32);

/// A connection to the kernel's routing tables and interfaces.
pub struct Netlink(Socket);

impl Netlink {
    /// A connection to those of the calling thread's network namespace.
    pub fn open() -> io::Result<Self> {
        Socket::new(NETLINK_ROUTE).map(Netlink)
    }

    /// Makes a pair of interfaces that are one cable: `name` here, `peer_name` in `peer_namespace`.
    pub fn add_veth(&self, name: &str, peer_name: &str, peer_namespace: &OwnedFd) -> io::Result<()> {
        let mut peer = LinkMessage::default();
        peer.attributes = vec![
            LinkAttribute::IfName(peer_name.to_owned()),
            LinkAttribute::NetNsFd(peer_namespace.as_raw_fd()),
        ];
        let data = InfoData::Veth(InfoVeth::Peer(peer));
        let info = vec![LinkInfo::Kind(InfoKind::Veth), LinkInfo::Data(data)];
        let mut link = LinkMessage::default();
        link.attributes = vec![LinkAttribute::IfName(name.to_owned()), LinkAttribute::LinkInfo(info)];
        self.create(RouteNetlinkMessage::NewLink(link))
    }

    /// Switches an interface on.
    pub fn set_up(&self, index: u32) -> io::Result<()> {
        let mut link = LinkMessage::default();
        link.header.index = index;
        (link.header.flags, link.header.change_mask) = (LinkFlags::Up, LinkFlags::Up);
        self.ask(RouteNetlinkMessage::NewLink(link))
    }

    /// Sets the MTU in bytes, and how many packets may wait to be sent.
    pub fn configure(&self, index: u32, mtu: u32, queue_length: u32) -> io::Result<()> {
        self.change(index, vec![LinkAttribute::Mtu(mtu), LinkAttribute::TxQueueLen(queue_length)])
    }

    /// Wants no IPv6 address to come of itself. Fails where the kernel has no IPv6.
    pub fn set_no_automatic_address(&self, index: u32) -> io::Result<()> {
        let mode = AfSpecInet6::AddrGenMode(In6AddrGenMode::None);
        self.change(index, vec![LinkAttribute::AfSpecUnspec(vec![AfSpecUnspec::Inet6(vec![mode])])])
    }

    fn change(&self, index: u32, attributes: Vec<LinkAttribute>) -> io::Result<()> {
        let mut link = LinkMessage::default();
        link.header.index = index;
        link.attributes = attributes;
        self.ask(RouteNetlinkMessage::NewLink(link))
    }

    /// Gives an interface an address within its network. It works at once: without duplicate address detection.
    pub fn add_address(&self, index: u32, address: IpNet) -> io::Result<()> {
        self.add_address_in(AddressScope::Universe, index, address)
    }

    /// Gives an interface the IPv4 dummy address, 192.0.0.8 (RFC 7600 §4.8), valid on this host alone: nothing is sent to it or from it, but the
    /// interface is none without an address any more.
    pub fn add_dummy_address(&self, index: u32) -> io::Result<()> {
        let dummy = Ipv4Net::new_assert(Ipv4Addr::new(192, 0, 0, 8), 32);
        self.add_address_in(AddressScope::Host, index, dummy.into())
    }

    fn add_address_in(&self, scope: AddressScope, index: u32, address: IpNet) -> io::Result<()> {
        let family = Family::of(address.addr());
        let mut message = AddressMessage::default();
        message.header.family = family.into();
        message.header.prefix_len = address.prefix_len();
        message.header.index = index;
        message.header.scope = scope;
        if family == Family::V6 {
            message.header.flags = AddressHeaderFlags::Nodad;
        }
        message.attributes =
            vec![AddressAttribute::Local(address.addr()), AddressAttribute::Address(address.addr())];
        self.create(RouteNetlinkMessage::NewAddress(message))
    }

    /// Adds a route.
    pub fn add_route(&self, route: &Route) -> io::Result<()> {
        let mut message = RouteMessage::default();
        message.header.address_family = Family::of(route.network.addr()).into();
        message.header.destination_prefix_length = route.network.prefix_len();
        message.header.protocol = RouteProtocol::Static;
        message.header.kind = match route.to {
            NextHop::Router(_) | NextHop::Interface(_) => RouteType::Unicast,
            NextHop::Local(_) => RouteType::Local,
            NextHop::Unreachable => RouteType::Unreachable,
            NextHop::Blackhole => RouteType::BlackHole,
        };
        if route.network.prefix_len() > 0 {
            message.attributes.push(RouteAttribute::Destination(route.network.network().into()));
        }
        match route.to {
            NextHop::Router(router) => message.attributes.push(RouteAttribute::Gateway(router.into())),
            NextHop::Interface(index) | NextHop::Local(index) => {
                message.attributes.push(RouteAttribute::Oif(index))
            }
            NextHop::Unreachable | NextHop::Blackhole => {}
        }
        match route.table {
            Some(table) => message.attributes.push(RouteAttribute::Table(table)),
            None => message.header.table = RouteHeader::RT_TABLE_MAIN,
        }
        let initial_window = route.initial_window.map(RouteMetric::InitCwnd);
        let metrics: Vec<_> = route.mtu.map(RouteMetric::Mtu).into_iter().chain(initial_window).collect();
        if !metrics.is_empty() {
            message.attributes.push(RouteAttribute::Metrics(metrics));
        }
        self.create(RouteNetlinkMessage::NewRoute(message))
    }

    /// Adds a rule.
    pub fn add_rule(&self, rule: &Rule) -> io::Result<()> {
        let action = match rule.action {
            Action::Table(_) => RuleAction::ToTable,
            Action::Blackhole => RuleAction::Blackhole,
        };
        let mut message = rule_message(rule.family, rule.priority, action);
        if let Action::Table(table) = rule.action {
            message.attributes.push(RuleAttribute::Table(table));
        }
        message.attributes.extend(rule.interface.clone().map(RuleAttribute::Iifname));
        message.attributes.extend(rule.protocol.map(|p| RuleAttribute::IpProtocol(i32::from(p).into())));
        message.attributes.extend(rule.mark.map(RuleAttribute::FwMark));
        self.create(RouteNetlinkMessage::NewRule(message))
    }

    /// Takes back all rules of this priority that look into `table`, whoever made them.
    pub fn remove_rules(&self, family: Family, priority: RulePriority, table: u32) {
        let mut any = rule_message(family, priority, RuleAction::ToTable);
        any.attributes.push(RuleAttribute::Table(table));
        // Each request removes one; after the last one, there is none to be found.
        while self.ask(RouteNetlinkMessage::DelRule(any.clone())).is_ok() {}
    }

    /// The rules of a family that look into a table, in the order in which they are asked.
    ///
    /// # Errors
    /// The kernel's.
    pub fn rules(&self, family: Family) -> io::Result<Vec<Rule>> {
        let mut any = RuleMessage::default();
        any.header.family = family.into();
        let answers = self.dump(RouteNetlinkMessage::GetRule(any))?;
        let mut rules: Vec<Rule> =
            answers.into_iter().filter_map(|answer| read_rule(family, answer)).collect();
        rules.sort_by_key(|rule| rule.priority.0);
        Ok(rules)
    }

    /// Makes something that must not be there yet.
    fn create(&self, message: RouteNetlinkMessage) -> io::Result<()> {
        self.send(message, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL)?;
        self.answers().map(drop)
    }

    fn ask(&self, message: RouteNetlinkMessage) -> io::Result<()> {
        self.send(message, NLM_F_ACK)?;
        self.answers().map(drop)
    }

    fn dump(&self, message: RouteNetlinkMessage) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.send(message, NLM_F_DUMP)?;
        self.answers()
    }

    fn send(&self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(message));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.0.send(&bytes, 0).map(drop)
    }

    /// What the kernel says to one request, up to its acknowledgment or the end of its list.
    fn answers(&self) -> io::Result<Vec<RouteNetlinkMessage>> {
        let mut answers = Vec::new();
        loop {
            let (bytes, _) = self.0.recv_from_full()?;
            let mut rest = bytes.as_slice();
            while !rest.is_empty() {
                let len = NetlinkBuffer::new_checked(rest).map_err(io::Error::other)?.length() as usize;
                match NetlinkMessage::deserialize(rest).map(|message| message.payload) {
                    Ok(NetlinkPayload::Done(_)) => return Ok(answers),
                    Ok(NetlinkPayload::Error(error)) if error.code.is_some() => return Err(error.to_io()),
                    Ok(NetlinkPayload::Error(_)) => return Ok(answers),
                    Ok(NetlinkPayload::InnerMessage(message)) => answers.push(message),
                    // Of a list, what this program does not understand is no concern of it.
                    Ok(_) | Err(_) => {}
                }
                rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
            }
        }
    }
}

/// A rule that looks into a table; of others there is nothing to be said here.
fn read_rule(family: Family, answer: RouteNetlinkMessage) -> Option<Rule> {
    let RouteNetlinkMessage::NewRule(message) = answer else { return None };
    if message.header.action != RuleAction::ToTable {
        return None;
    }
    let action = Action::Table(u32::from(message.header.table));
    let mut rule =
        Rule { family, priority: RulePriority(0), interface: None, protocol: None, mark: None, action };
    for attribute in message.attributes {
        match attribute {
            RuleAttribute::Priority(priority) => rule.priority = RulePriority(priority),
            RuleAttribute::Iifname(name) => rule.interface = Some(name),
            RuleAttribute::IpProtocol(protocol) => rule.protocol = u8::try_from(i32::from(protocol)).ok(),
            RuleAttribute::FwMark(mark) => rule.mark = Some(mark),
            RuleAttribute::Table(table) => rule.action = Action::Table(table),
            _ => {}
        }
    }
    Some(rule)
}

fn rule_message(family: Family, RulePriority(priority): RulePriority, action: RuleAction) -> RuleMessage {
    let mut message = RuleMessage::default();
    message.header.family = family.into();
    message.header.action = action;
    message.attributes = vec![RuleAttribute::Priority(priority)];
    message
}

/// Interfaces, addresses, routes and rules of a network namespace, while they change.
pub struct Changes(Socket);

/// `RTMGRP_LINK`, `RTMGRP_IPV4_IFADDR` and `RTMGRP_IPV6_IFADDR`.
const OF_ADDRESSES: u32 = 1 | 0x10 | 0x100;
/// `RTMGRP_IPV4_ROUTE` and `RTMGRP_IPV6_ROUTE`; of rules and of `rp_filter` there are the numbers of the groups alone: `RTNLGRP_IPV4_RULE`,
/// `RTNLGRP_IPV6_RULE`, `RTNLGRP_IPV4_NETCONF`.
const OF_ROUTES: u32 = 0x40 | 0x400 | 1 << (8 - 1) | 1 << (19 - 1) | 1 << (24 - 1);

impl Changes {
    /// Those of the calling thread's namespace, from now on.
    ///
    /// # Errors
    /// The kernel's.
    pub fn watch() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind(&SocketAddr::new(0, OF_ADDRESSES | OF_ROUTES))?;
        socket.set_non_blocking(true)?;
        Ok(Changes(socket))
    }

    /// Whether there were any since the last time. What they are, is to be asked for.
    ///
    /// # Errors
    /// The kernel's. That it had no room for one (`ENOBUFS`) is a change, too.
    pub fn were_any(&self) -> io::Result<bool> {
        let mut any = false;
        loop {
            match self.0.recv_from_full() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(any),
                Err(error) if error.raw_os_error() != Some(libc::ENOBUFS) => return Err(error),
                _ => any = true,
            }
        }
    }
}

impl AsFd for Changes {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The index of an interface in the calling thread's network namespace.
pub fn interface_index(name: &str) -> io::Result<u32> {
    let any = socket_with(SocketFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    Ok(netdevice::name_to_index(&any, name)?)
}

/// The interfaces in the calling thread's network namespace: their names, and the largest packet in bytes that
/// each takes.
pub fn interfaces() -> io::Result<Vec<(String, u32)>> {
    let links = Netlink::open()?.dump(RouteNetlinkMessage::GetLink(LinkMessage::default()))?;
    let describe = |answer| {
        let RouteNetlinkMessage::NewLink(link) = answer else { return None };
        let (mut name, mut mtu) = (None, None);
        for attribute in link.attributes {
            match attribute {
                LinkAttribute::IfName(found) => name = Some(found),
                LinkAttribute::Mtu(found) => mtu = Some(found),
                _ => {}
            }
        }
        name.zip(mtu)
    };
    Ok(links.into_iter().filter_map(describe).collect())
}

/// The addresses of the interfaces in the calling thread's network namespace.
pub fn local_addresses() -> io::Result<Vec<IpAddr>> {
    local_addresses_of(|_| true)
}

/// Those of the interfaces whose indices are meant.
fn local_addresses_of(is_meant: impl Fn(u32) -> bool) -> io::Result<Vec<IpAddr>> {
    let found = Netlink::open()?.dump(RouteNetlinkMessage::GetAddress(AddressMessage::default()))?;
    let own = |answer| {
        let RouteNetlinkMessage::NewAddress(message) = answer else { return None };
        if !is_meant(message.header.index) {
            return None;
        }
        let mut own = None;
        for attribute in message.attributes {
            match attribute {
                AddressAttribute::Local(address) => own = Some(address),
                // On a link of two, this is the other's, if there is a local one beside it.
                AddressAttribute::Address(address) => own = own.or(Some(address)),
                _ => {}
            }
        }
        own
    };
    Ok(found.into_iter().filter_map(own).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_ours() {
        assert!(local_addresses().unwrap().contains(&std::net::Ipv4Addr::LOCALHOST.into()));
        assert_eq!(interface_index("lo").unwrap(), LOOPBACK);
        assert!(interfaces().unwrap().iter().any(|(name, mtu)| name == "lo" && *mtu >= 1500));
    }

    #[test]
    fn the_kernels_own_rules_are_listed() {
        let rules = Netlink::open().unwrap().rules(Family::V4).unwrap();
        let local = rules.first().unwrap();
        assert_eq!((local.priority, local.action), (RulePriority(0), Action::Table(255)));
        assert!(rules.iter().any(|rule| rule.action == Action::Table(254)), "{rules:?}");
    }

    #[test]
    fn the_kernels_refusal_is_an_error_of_its_number() {
        let refused = Netlink::open().unwrap().set_up(u32::MAX >> 1).unwrap_err();
        let known = [libc::ENODEV, libc::EPERM];
        assert!(refused.raw_os_error().is_some_and(|number| known.contains(&number)), "{refused}");
        assert_eq!(interface_index("no such thing").unwrap_err().raw_os_error(), Some(libc::ENODEV));
    }
}
