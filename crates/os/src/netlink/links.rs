//! Interfaces that are joined by a bridge of the kernel's.
use super::{Netlink, local_addresses_of};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    BridgeStpState, InfoBridge, InfoBridgePort, InfoData, InfoKind, InfoPortData, InfoPortKind,
    LinkAttribute, LinkFlags, LinkInfo, LinkLayerType, LinkMessage,
};
use rustix::ioctl::{Opcode, Updater, ioctl};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::io;
use std::net::IpAddr;

/// Which frames to the addresses 01:80:c2:00:00:0x a port forwards: all (LLDP, LACP, 802.1X) but MAC pause, which the kernel keeps back
/// whatever it is told. Those of STP go by the bridge's own rule: it speaks no STP, and so passes them.
const ALL_LINK_LOCAL: u16 = 0xfffd;

/// An interface, as far as gateways are concerned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its index.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// The largest packet that it takes, in bytes.
    pub mtu: u32,
    /// Its hardware address, if that is one of Ethernet.
    pub ethernet: Option<[u8; 6]>,
    /// It is switched on.
    pub is_up: bool,
    /// The index of the interface whose part it is: a bridge, a bond.
    pub master: Option<u32>,
    /// The index of the interface that it sends by: that of a VLAN, of a macvlan.
    pub below: Option<u32>,
    /// It is a VRF.
    pub is_vrf: bool,
    /// It is a bridge.
    pub is_bridge: bool,
    /// It is a bridge that speaks STP.
    pub speaks_stp: bool,
    /// What its maker says of it.
    pub alias: Option<String>,
}

/// The interfaces in the calling thread's network namespace.
///
/// # Errors
/// The kernel's.
pub fn list() -> io::Result<Vec<Interface>> {
    let links = Netlink::open()?.dump(RouteNetlinkMessage::GetLink(LinkMessage::default()))?;
    Ok(links.into_iter().filter_map(read).collect())
}

fn read(answer: RouteNetlinkMessage) -> Option<Interface> {
    let RouteNetlinkMessage::NewLink(link) = answer else { return None };
    let is_ethernet = link.header.link_layer_type == LinkLayerType::Ether;
    let mut read = Interface {
        index: link.header.index,
        is_up: link.header.flags.contains(LinkFlags::Up),
        ..Interface::default()
    };
    // Of a pair of cables' ends, the number is that of the other one, of another namespace perhaps.
    let (mut link_index, mut is_above) = (None, false);
    for attribute in link.attributes {
        match attribute {
            LinkAttribute::IfName(name) => read.name = name,
            LinkAttribute::IfAlias(alias) => read.alias = Some(alias).filter(|alias| !alias.is_empty()),
            LinkAttribute::Mtu(mtu) => read.mtu = mtu,
            LinkAttribute::Controller(master) => read.master = Some(master).filter(|master| *master != 0),
            LinkAttribute::Link(index) => link_index = Some(index),
            LinkAttribute::Address(bytes) if is_ethernet => read.ethernet = bytes.try_into().ok(),
            LinkAttribute::LinkInfo(all) => {
                for info in all {
                    match info {
                        LinkInfo::Kind(InfoKind::Bridge) => read.is_bridge = true,
                        LinkInfo::Kind(InfoKind::Vrf) => read.is_vrf = true,
                        LinkInfo::Kind(InfoKind::Vlan | InfoKind::MacVlan) => is_above = true,
                        LinkInfo::Data(InfoData::Bridge(all)) => {
                            let stp = |info: &InfoBridge| matches!(info, InfoBridge::StpState(state) if *state != BridgeStpState::Disabled);
                            read.speaks_stp = all.iter().any(stp);
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    read.below = link_index.filter(|_| is_above);
    Some(read)
}

/// The addresses of an interface, given by its index.
///
/// # Errors
/// The kernel's.
pub fn addresses(index: u32) -> io::Result<Vec<IpAddr>> {
    local_addresses_of(|of| of == index)
}

/// Whether an interface merges segments on receipt (`ethtool -k`: generic-receive-offload).
///
/// # Errors
/// The kernel's.
pub fn merges_on_receipt(name: &str) -> io::Result<bool> {
    /// `SIOCETHTOOL`, and what it is asked.
    const ASK: Opcode = 0x8946;
    const GENERIC_RECEIVE_OFFLOAD: u32 = 0x2b;
    let any = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // `struct ethtool_value`: a question, and room for the answer.
    let mut value = [GENERIC_RECEIVE_OFFLOAD, 0];
    // SAFETY: all zeros is a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the interface name is too long"));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: SIOCETHTOOL reads one ifreq, and reads and writes what that leads to: one ethtool_value, which outlives the call.
    unsafe { ioctl(&any, Updater::<ASK, _>::new(&mut request)) }?;
    Ok(value[1] != 0)
}

impl Netlink {
    /// Makes a bridge that forwards all that its ports do, without STP and without looking at who wants which multicast, and switches it
    /// on. It has no address.
    pub fn add_bridge(&self, name: &str) -> io::Result<()> {
        let data = vec![InfoBridge::StpState(BridgeStpState::Disabled), InfoBridge::MulticastSnooping(false)];
        let info = vec![LinkInfo::Kind(InfoKind::Bridge), LinkInfo::Data(InfoData::Bridge(data))];
        let mut link = LinkMessage::default();
        link.attributes = vec![LinkAttribute::IfName(name.to_owned()), LinkAttribute::LinkInfo(info)];
        self.create(RouteNetlinkMessage::NewLink(link))
    }

    /// Makes an interface a port of a bridge, both given by their indices. All that the kernel lets a port forward, it does.
    pub fn join(&self, port: u32, bridge: u32) -> io::Result<()> {
        self.change(port, vec![LinkAttribute::Controller(bridge)])?;
        let data = InfoPortData::BridgePort(vec![InfoBridgePort::GroupFwdMask(ALL_LINK_LOCAL)]);
        let info = vec![LinkInfo::PortKind(InfoPortKind::Bridge), LinkInfo::PortData(data)];
        self.change(port, vec![LinkAttribute::LinkInfo(info)])
    }

    /// Says something of an interface, for whoever lists them: at most 255 bytes.
    pub fn describe(&self, index: u32, alias: &str) -> io::Result<()> {
        self.change(index, vec![LinkAttribute::IfAlias(alias.to_owned())])
    }

    /// Makes an interface a port of nothing.
    pub fn part(&self, port: u32) -> io::Result<()> {
        self.change(port, vec![LinkAttribute::Controller(0)])
    }

    /// Removes an interface that was made: its ports, if it is a bridge, are by themselves again.
    pub fn remove(&self, index: u32) -> io::Result<()> {
        let mut link = LinkMessage::default();
        link.header.index = index;
        self.ask(RouteNetlinkMessage::DelLink(link))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whether_an_interface_merges_segments_is_asked_of_the_kernel() {
        merges_on_receipt("lo").unwrap();
        let gone = merges_on_receipt("no-such-if").unwrap_err();
        assert_eq!(gone.raw_os_error(), Some(libc::ENODEV));
        assert!(merges_on_receipt("a-name-that-is-too-long").is_err());
    }
}
