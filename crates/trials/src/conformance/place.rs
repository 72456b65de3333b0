use crate::conformance::case::Family;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The client's host.
pub(crate) const CLIENT: &str = "client";
/// The second client's.
pub(crate) const NEIGHBOUR: &str = "neighbour";
/// The router of the clients.
pub(crate) const ACCESS: &str = "access";
/// The host of the gateway under test.
pub(crate) const GATEWAY: &str = "gateway";
/// The server's host.
pub(crate) const SERVER: &str = "server";

/// The links, in the order in which the laboratory numbers them.
pub(crate) const LINKS: [[&str; 2]; 4] =
    [[CLIENT, ACCESS], [NEIGHBOUR, ACCESS], [ACCESS, GATEWAY], [GATEWAY, SERVER]];

/// What fits through the narrow places, in bytes: a little more than IPv6 guarantees.
pub(crate) const NARROW_MTU: u32 = 1300;

/// A host at which connections begin or end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Client,
    /// A second client.
    Neighbour,
    Server,
}

impl Place {
    /// The name of its host.
    pub(crate) fn host(self) -> &'static str {
        match self {
            Place::Client => CLIENT,
            Place::Neighbour => NEIGHBOUR,
            Place::Server => SERVER,
        }
    }

    /// The address that it uses where nothing else is said.
    pub(crate) fn address(self, family: Family) -> IpAddr {
        let neighbour = if self == Place::Server { GATEWAY } else { ACCESS };
        next_hop(self.host(), neighbour, family)
    }

    /// Another address, which packets reach through a link of [`NARROW_MTU`] that is on this host's
    /// side of the gateway.
    pub(crate) fn narrow_address(self, family: Family) -> IpAddr {
        let host = self as u8 + 1;
        match family {
            Family::V4 => Ipv4Addr::new(203, 0, 113, host).into(),
            Family::V6 => Ipv6Addr::new(0x2001, 0xdb8, 3, 0, 0, 0, 0, host.into()).into(),
        }
    }

    /// Another address of a server over IPv4, on the way to which a router in front of the gateway cuts packets of more than
    /// [`NARROW_MTU`] into fragments, where it may.
    pub(crate) fn fragmenting_address() -> IpAddr {
        Ipv4Addr::new(203, 0, 113, 30).into()
    }
}

/// The address of the host `to` on its link with the host `from`.
///
/// The laboratory gives link number `n` (from one) the networks `10.n.0.0/24` and `fd00:n::/64`, in
/// which its ends are numbers one and two.
pub(crate) fn next_hop(to: &str, from: &str, family: Family) -> IpAddr {
    let joins = |link: &[&str; 2]| link.contains(&to) && link.contains(&from);
    let index = LINKS.iter().position(joins).expect("the hosts are neighbours");
    let end = if LINKS[index][0] == to { 1 } else { 2 };
    let link = index as u8 + 1;
    match family {
        Family::V4 => Ipv4Addr::new(10, link, 0, end).into(),
        Family::V6 => Ipv6Addr::new(0xfd00, link.into(), 0, 0, 0, 0, 0, end.into()).into(),
    }
}

/// An address for which the last router answers "host unreachable".
pub(crate) fn unreachable(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::new(192, 0, 2, 1).into(),
        Family::V6 => Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 1).into(),
    }
}

/// An address from which nothing ever comes back.
pub(crate) fn silent(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::new(198, 51, 100, 1).into(),
        Family::V6 => Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 1).into(),
    }
}
