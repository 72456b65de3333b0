//! What of this host stands in the way of a bridge, before anything is changed.
use super::{BridgeError, bridge_name};
use crate::Config;
use crate::daemon_error::{DaemonError, system};
use crate::host::running;
use shorthaul_os::netlink::links::{Interface, addresses, list};
use std::net::IpAddr;

/// The two ports, and what joins them already.
#[derive(Clone, Debug)]
pub(crate) struct Ports {
    /// Toward the access side, and toward the rest of the world.
    pub ports: [Interface; 2],
    /// The bridge of which they are the ports; one of them may have left it, or both, if the gateway has made it.
    pub bridge: Option<Interface>,
}

impl Ports {
    /// Those that are no ports of the bridge yet.
    pub fn apart(&self) -> impl Iterator<Item = &Interface> {
        let bridge = self.bridge.as_ref().map(|bridge| bridge.index);
        self.ports.iter().filter(move |port| bridge.is_none() || port.master != bridge)
    }
}

/// Looks at the interfaces that are to be joined.
///
/// # Errors
/// Says what is in the way, and what to do.
pub(crate) fn look(config: &Config, names: &[String; 2]) -> Result<Ports, DaemonError> {
    let present = list().map_err(system("asking for the interfaces"))?;
    let find = |name: &String| {
        present.iter().find(|interface| interface.name == *name).cloned().ok_or_else(|| {
            let names: Vec<&str> = present.iter().map(|interface| interface.name.as_str()).collect();
            DaemonError::NoInterface { name: name.clone(), present: names.join(", ") }
        })
    };
    let ports = [find(&names[0])?, find(&names[1])?];
    for port in &ports {
        let name = port.name.clone();
        if port.ethernet.is_none() || port.is_bridge || name == "lo" {
            return Err(BridgeError::NotEthernet { name }.into());
        }
        if !port.is_up {
            return Err(BridgeError::Down { name }.into());
        }
    }
    let name = bridge_name(config);
    let bridge = joined(&ports, &present, &name)?.cloned();
    if let Some(bridge) = &bridge {
        check_bridge(config, bridge, &ports, &present)?;
    }
    let found = Ports { ports, bridge };
    for port in found.apart() {
        let own = addresses(port.index).map_err(system("asking for addresses"))?;
        if let Some(address) = own.into_iter().find(|address| !is_link_local(*address)) {
            return Err(BridgeError::HasAddress { name: port.name.clone(), address }.into());
        }
    }
    match present.into_iter().find(|interface| interface.name == name) {
        Some(other) if found.bridge.is_none() => Err(BridgeError::OurName { name: other.name }.into()),
        _ => Ok(found),
    }
}

/// The bridge of both, if there is one. The one that a gateway has made, of this name, may have lost one of them or both: an interface that is
/// removed leaves it.
fn joined<'a>(
    ports: &[Interface; 2],
    present: &'a [Interface],
    own: &str,
) -> Result<Option<&'a Interface>, BridgeError> {
    let find = |index: u32| present.iter().find(|interface| interface.index == index);
    let own = present.iter().find(|interface| interface.is_bridge && interface.name == own);
    let is_own = |index: u32| own.is_some_and(|own| own.index == index);
    let is_empty = |bridge: &&Interface| present.iter().all(|other| other.master != Some(bridge.index));
    let part_of = |port: &Interface, index: u32| {
        let of = find(index).map_or_else(|| index.to_string(), |of| of.name.clone());
        Err(BridgeError::PartOf { name: port.name.clone(), of })
    };
    match [ports[0].master, ports[1].master] {
        [None, None] => Ok(own.filter(is_empty)),
        [Some(one), Some(other)] if one == other && find(one).is_some_and(|found| found.is_bridge) => {
            Ok(find(one))
        }
        [Some(one), None] | [None, Some(one)] if is_own(one) => Ok(own),
        [Some(one), _] => part_of(&ports[0], one),
        [None, Some(other)] => part_of(&ports[1], other),
    }
}

/// Whether a gateway can be at the two ports of a bridge that is there.
fn check_bridge(
    config: &Config,
    bridge: &Interface,
    ports: &[Interface; 2],
    present: &[Interface],
) -> Result<(), DaemonError> {
    let name = bridge.name.clone();
    let more = present.iter().find(|interface| {
        interface.master == Some(bridge.index) && ports.iter().all(|port| port.index != interface.index)
    });
    if let Some(more) = more {
        return Err(BridgeError::MorePorts { bridge: name, more: more.name.clone() }.into());
    }
    if bridge.speaks_stp {
        return Err(BridgeError::SpeaksStp { bridge: name }.into());
    }
    if !bridge.is_up {
        return Err(BridgeError::BridgeDown { bridge: name }.into());
    }
    // The name says whose it is.
    let owner = name.strip_prefix("sh-").and_then(|rest| rest.strip_suffix("-b"));
    let others = running().map_err(system("asking for the interfaces"))?;
    match owner.filter(|owner| *owner != config.name.to_string()) {
        Some(owner) if others.iter().any(|other| other == owner) => {
            Err(DaemonError::InterfaceTaken { interface: ports[0].name.clone(), name: owner.to_owned() })
        }
        _ => Ok(()),
    }
}

/// What an interface gives itself when it is switched on (RFC 4291 §2.5.6). Nobody routes to it.
fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(_) => false,
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}
