//! Which way a packet would go: questions that the kernel answers by its routing tables, rules and `rp_filter`.
use super::{Family, Netlink};
use ipnet::IpNet;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteType};
use std::io;
use std::net::IpAddr;

/// Where the main routing table leads what is sent to a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leads {
    /// The network.
    pub network: IpNet,
    /// The index of the interface by which it is sent; `None` if by several, or nowhere.
    pub interface: Option<u32>,
    /// Of routes to one network that with the least number is taken.
    pub metric: u32,
}

impl Netlink {
    /// The main routing table of a family.
    ///
    /// # Errors
    /// The kernel's.
    pub fn main_table(&self, family: Family) -> io::Result<Vec<Leads>> {
        let mut any = RouteMessage::default();
        any.header.address_family = family.into();
        let answers = self.dump(RouteNetlinkMessage::GetRoute(any))?;
        Ok(answers.into_iter().filter_map(|answer| read_route(family, answer)).collect())
    }

    /// Whether a routing table has a route to everything.
    ///
    /// # Errors
    /// The kernel's.
    pub fn leads_everywhere(&self, family: Family, table: u32) -> io::Result<bool> {
        let mut any = RouteMessage::default();
        any.header.address_family = family.into();
        let answers = self.dump(RouteNetlinkMessage::GetRoute(any))?;
        Ok(answers.into_iter().any(|answer| {
            let RouteNetlinkMessage::NewRoute(route) = answer else { return false };
            let number = route.attributes.iter().find_map(|attribute| match attribute {
                RouteAttribute::Table(number) => Some(*number),
                _ => None,
            });
            route.header.destination_prefix_length == 0
                && number.unwrap_or_else(|| u32::from(route.header.table)) == table
        }))
    }

    /// By which interface, given by its index, this host sends to an address; `None` if by none.
    ///
    /// # Errors
    /// The kernel's; but for that there is no route.
    pub fn interface_toward(&self, address: IpAddr) -> io::Result<Option<u32>> {
        let answers = match self.look_up(vec![RouteAttribute::Destination(address.into())], address) {
            Ok(answers) => answers,
            Err(error) if is_no_route(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let interface = answers.into_iter().find_map(|answer| {
            let RouteNetlinkMessage::NewRoute(route) = answer else { return None };
            route.attributes.into_iter().find_map(|attribute| match attribute {
                RouteAttribute::Oif(interface) => Some(interface),
                _ => None,
            })
        });
        Ok(interface)
    }

    /// Whether this host lets a packet of IPv4 with these addresses come in by an interface, given by its index: whether `rp_filter` of that
    /// interface and the routes speak for its source (RFC 3704 §2.2 and §2.4). It says so of each of IPv6.
    ///
    /// # Errors
    /// The kernel's; but for that there is no route to the destination, which says nothing of the source.
    pub fn accepts(&self, source: IpAddr, destination: IpAddr, interface: u32) -> io::Result<bool> {
        if source.is_ipv6() {
            return Ok(true);
        }
        let attributes = vec![
            RouteAttribute::Source(source.into()),
            RouteAttribute::Destination(destination.into()),
            RouteAttribute::Iif(interface),
        ];
        match self.look_up(attributes, destination) {
            Ok(_) => Ok(true),
            // What `fib_validate_source` says of a source that is elsewhere, and of one that is nobody's.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EXDEV | libc::EINVAL)) => Ok(false),
            Err(error) if is_no_route(&error) => Ok(true),
            Err(error) => Err(error),
        }
    }

    fn look_up(
        &self,
        attributes: Vec<RouteAttribute>,
        address: IpAddr,
    ) -> io::Result<Vec<RouteNetlinkMessage>> {
        let mut message = RouteMessage::default();
        message.header.address_family = Family::of(address).into();
        message.header.destination_prefix_length = if address.is_ipv4() { 32 } else { 128 };
        if attributes.iter().any(|attribute| matches!(attribute, RouteAttribute::Source(_))) {
            message.header.source_prefix_length = message.header.destination_prefix_length;
        }
        message.attributes = attributes;
        self.send(RouteNetlinkMessage::GetRoute(message), netlink_packet_core::NLM_F_ACK)?;
        self.answers()
    }
}

/// A route of the main table.
fn read_route(family: Family, answer: RouteNetlinkMessage) -> Option<Leads> {
    let RouteNetlinkMessage::NewRoute(route) = answer else { return None };
    let mut table = u32::from(route.header.table);
    let mut address = family.everything().addr();
    let (mut interface, mut metric) = (None, 0);
    for attribute in route.attributes {
        match attribute {
            RouteAttribute::Table(number) => table = number,
            RouteAttribute::Destination(RouteAddress::Inet(ip)) => address = ip.into(),
            RouteAttribute::Destination(RouteAddress::Inet6(ip)) => address = ip.into(),
            RouteAttribute::Oif(index) => interface = Some(index),
            RouteAttribute::Priority(number) => metric = number,
            _ => {}
        }
    }
    let is_main = table == u32::from(RouteHeader::RT_TABLE_MAIN);
    let network = IpNet::new(address, route.header.destination_prefix_length).ok().filter(|_| is_main)?;
    // What is unreachable has the loopback interface in IPv6.
    Some(Leads { network, interface: interface.filter(|_| route.header.kind == RouteType::Unicast), metric })
}

fn is_no_route(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EACCES | libc::ECONNREFUSED)
    )
}

#[cfg(test)]
mod tests {
    use super::super::LOOPBACK;
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    #[test]
    fn this_host_is_found_by_the_loopback_interface() {
        let netlink = Netlink::open().unwrap();
        for address in [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()] {
            assert_eq!(netlink.interface_toward(address).unwrap(), Some(LOOPBACK), "{address}");
        }
    }

    #[test]
    fn the_main_table_has_no_local_routes() {
        let netlink = Netlink::open().unwrap();
        for family in [Family::V4, Family::V6] {
            let table = netlink.main_table(family).unwrap();
            assert!(table.iter().all(|leads| Family::of(leads.network.addr()) == family), "{table:?}");
            assert!(table.iter().all(|leads| leads.network.addr() != Ipv4Addr::LOCALHOST), "{table:?}");
        }
    }

    #[test]
    fn a_table_that_nobody_has_leads_nowhere() {
        let netlink = Netlink::open().unwrap();
        assert!(!netlink.leads_everywhere(Family::V4, 4_000_000_000).unwrap());
    }

    #[test]
    fn a_source_that_can_be_nobodys_is_not_accepted() {
        let netlink = Netlink::open().unwrap();
        let host = IpAddr::from([127, 0, 0, 1]);
        assert!(!netlink.accepts([255, 255, 255, 255].into(), host, LOOPBACK).unwrap());
        assert!(netlink.accepts(Ipv6Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into(), LOOPBACK).unwrap());
    }
}
