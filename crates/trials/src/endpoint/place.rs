//! A lab with our endpoint on one side of an emulated link and the kernel on the other.
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use shorthaul_dataplane::HostLoop;
use shorthaul_lab::{Guest, Host as LabHost, HostDescription, Lab, LinkDescription, LinkKind, Topology};
use shorthaul_link::LinkConfig;
use shorthaul_tcp::{Host, HostConfig};
use shorthaul_types::Seed;

use crate::error::{Result, While};

/// The host behind whose network our endpoint is.
pub const OURS: &str = "ours";
/// The host whose kernel is the other end.
pub const KERNEL: &str = "kernel";
/// Where our endpoint answers: in the network of the lab's only link.
pub const GUEST: Guest =
    Guest { v4: Ipv4Addr::new(10, 1, 0, 3), v6: Ipv6Addr::new(0xfd00, 1, 0, 0, 0, 0, 0, 3) };

/// What the lab is like.
pub struct Path {
    /// Toward the kernel.
    pub up: LinkConfig,
    /// Toward our endpoint.
    pub down: LinkConfig,
    /// The longest IP packet in both directions, in bytes.
    pub mtu: u32,
    /// Settings of the kernel's TCP.
    pub sysctl: BTreeMap<String, String>,
    /// What the links draw from.
    pub seed: Seed,
}

impl Path {
    /// The two hosts and the link. The kernel of [`OURS`] has the same settings as that of [`KERNEL`]:
    /// for comparison it can be the sender itself.
    pub fn start(&self) -> Result<Lab> {
        let mut topology = Topology::new(self.seed);
        let kind = LinkKind::Emulated { up: self.up.clone(), down: self.down.clone() };
        topology.add_link(LinkDescription::new([OURS, KERNEL], kind).with_mtu(self.mtu));
        for name in [OURS, KERNEL] {
            *topology.host(name) = HostDescription {
                sysctl: self.sysctl.clone(),
                forward: Some(name == OURS),
                ..HostDescription::default()
            };
        }
        Lab::start(&topology).doing("building the network")
    }

    /// Our endpoint, which answers at [`GUEST`] in the lab.
    pub fn endpoint(&self, lab: &Lab, prepare: impl FnOnce(&mut Host)) -> Result<HostLoop> {
        let device = lab.host(OURS).attach(GUEST, self.mtu)?;
        let addresses = vec![IpAddr::V4(GUEST.v4), IpAddr::V6(GUEST.v6)];
        let config =
            HostConfig { addresses, ..HostConfig::new(GUEST.v4.into(), self.seed.derive("endpoint")) };
        let mut host = Host::new(config);
        prepare(&mut host);
        Ok(HostLoop::new(device, host))
    }
}

/// The address of a lab's host in the version of `like`.
pub fn address_of(host: &LabHost, like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => host.address_v4().into(),
        IpAddr::V6(_) => host.address_v6().into(),
    }
}
