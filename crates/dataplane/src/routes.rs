use crate::Config;
use crate::attach::{AttachError, Way, choose};
use shorthaul_os::Netlink;
use shorthaul_os::netlink::{Action, Family, NextHop, Route, Rule, RulePriority, interface_index};
use shorthaul_proxy::Traffic;
use std::io;
use std::path::Path;

const TCP: u8 = 6;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
/// Of a packet in fragments the kernel sees, in all but the first, what the fragment header names: where options stand behind
/// that, it is not TCP.
const DESTINATION_OPTIONS: u8 = 60;

/// Not 1500: what the kernel merged on receipt may be longer, and is cut when it leaves.
const MTU: u32 = 65_535;
/// Packets that may wait for us: more than come in while we are busy with a round.
const QUEUE: u32 = 1_000;

/// Which packets are routed into our devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interception {
    /// Interfaces toward the access side, and toward the rest of the world.
    pub interfaces: [Vec<String>; 2],
    /// Our devices for packets that come in by the former and by the latter.
    pub devices: [String; 2],
    /// The two routing tables that we use.
    pub tables: [u32; 2],
    /// The priority of our rules.
    pub priority: RulePriority,
    /// All that comes in from the rest of the world is led into our device, whatever its protocol.
    pub all_from_wan: bool,
    /// They are led there by programs at two ports of a bridge, and not by rules and tables.
    pub is_bridge: bool,
    /// Without a bridge, how they are led there.
    pub way: Way,
}

impl Interception {
    /// That of a gateway with this configuration, by a bridge or by rules.
    pub fn of(config: &Config) -> Self {
        Interception {
            interfaces: config.interfaces(),
            devices: [format!("sh-{}-e", config.name), format!("sh-{}-w", config.name)],
            tables: [config.table, config.table + 1],
            priority: RulePriority(config.table),
            all_from_wan: config.traffic == Traffic::All,
            is_bridge: config.bridge.is_some(),
            way: Way::Rules(None),
        }
    }

    /// The same, by programs at the access interfaces where that is asked for or can be.
    ///
    /// # Errors
    /// It is asked for, and cannot be.
    pub fn chosen(config: &Config, take_over: bool) -> Result<Self, AttachError> {
        let rules = Interception::of(config);
        match rules.is_bridge {
            true => Ok(rules),
            false => Ok(Interception { way: choose(config, take_over)?, ..rules }),
        }
    }

    /// Whether rules and tables lead to the devices.
    pub(crate) fn has_rules(&self) -> bool {
        !self.is_bridge && matches!(self.way, Way::Rules(_))
    }
}

/// Rules and routes that send TCP, and ICMP for the errors about it, into our devices; or all that comes from the rest of the world.
///
/// What we write into a device comes from that device for the kernel, so that no rule leads it back.
/// Packets for this host itself, neighbour discovery among them, are found in the table of local
/// addresses, which is asked before all rules.
///
/// The rules are taken back when this is dropped. If the process dies instead, the devices and so
/// the routes are gone, and the rules find empty tables: traffic flows directly.
pub struct Routes {
    netlink: Netlink,
    interception: Interception,
    /// A successor has them.
    is_left: bool,
}

/// What could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum RouteError {
    /// The table is not empty.
    #[error(
        "the routing table {table} is in use, perhaps by another gateway: give this one another with `table = {}` in its configuration, or --table",
        table + 100
    )]
    TableInUse {
        /// The table.
        table: u32,
    },
    /// The kernel refused.
    #[error("{step}: {error}")]
    Refused {
        /// What was tried.
        step: String,
        /// Why.
        error: io::Error,
    },
}

impl Routes {
    /// Sets everything up, in place of what a predecessor may have left.
    ///
    /// # Errors
    /// What the kernel said, and to which step.
    pub fn install(interception: Interception) -> Result<Self, RouteError> {
        let netlink = Netlink::open().map_err(refused("connecting to the kernel's routing"))?;
        for (device, &table) in interception.devices.iter().zip(&interception.tables) {
            set_up_device(&netlink, device)
                .and_then(|()| set_up_routing(&netlink, device, &interception))
                .map_err(refused(format!("setting up `{device}`")))?;
            add_routes(&netlink, device, table)?;
        }
        // From here on the tables are ours, and with them every rule that leads there.
        let routes = Routes { netlink, interception, is_left: false };
        routes.remove_rules();
        for rule in routes.rules() {
            let step = format!("adding a routing rule for {}", rule.interface.as_deref().unwrap_or_default());
            routes.netlink.add_rule(&rule).map_err(refused(step))?;
        }
        Ok(routes)
    }

    /// Those that a running gateway has set up, which is to hand them over. They are its own until [`Routes::own`].
    ///
    /// # Errors
    /// What the kernel said.
    pub fn handed_over(interception: Interception) -> Result<Self, RouteError> {
        let netlink = Netlink::open().map_err(refused("connecting to the kernel's routing"))?;
        Ok(Routes { netlink, interception, is_left: true })
    }

    /// They are this process's from now on: they are taken back when this is dropped.
    pub fn own(&mut self) {
        self.is_left = false;
    }

    /// They are a successor's from now on.
    pub fn leave(mut self) {
        self.is_left = true;
    }

    fn rules(&self) -> Vec<Rule> {
        let Interception { interfaces, tables, priority, all_from_wan, .. } = &self.interception;
        let mut rules = Vec::new();
        for ((interfaces, &table), is_wan) in interfaces.iter().zip(tables).zip([false, true]) {
            for interface in interfaces {
                let [v4, v6]: [&[Option<u8>]; 2] = match *all_from_wan && is_wan {
                    true => [&[None]; 2],
                    false => {
                        [&[Some(TCP), Some(ICMP)], &[Some(TCP), Some(ICMPV6), Some(DESTINATION_OPTIONS)]]
                    }
                };
                let protocols = [(Family::V4, v4), (Family::V6, v6)];
                for (family, protocols) in protocols.into_iter().filter(|(family, _)| exists(*family)) {
                    rules.extend(protocols.iter().map(|&protocol| Rule {
                        family,
                        priority: *priority,
                        interface: Some(interface.clone()),
                        protocol,
                        mark: None,
                        action: Action::Table(table),
                    }));
                }
            }
        }
        rules
    }

    fn remove_rules(&self) {
        let Interception { tables, priority, .. } = &self.interception;
        for &table in tables {
            for family in [Family::V4, Family::V6] {
                self.netlink.remove_rules(family, *priority, table);
            }
        }
    }
}

impl Drop for Routes {
    fn drop(&mut self) {
        if !self.is_left {
            self.remove_rules();
        }
    }
}

/// Gives a device of ours its sizes, and no address. It is switched on.
pub(crate) fn set_up_device(netlink: &Netlink, device: &str) -> io::Result<()> {
    let index = interface_index(device)?;
    netlink.configure(index, MTU, QUEUE)?;
    if exists(Family::V6) {
        netlink.set_no_automatic_address(index)?;
    }
    netlink.set_up(index)
}

/// Has the kernel route what we write into a device.
pub(crate) fn set_up_routing(netlink: &Netlink, device: &str, interception: &Interception) -> io::Result<()> {
    let index = interface_index(device)?;
    // The larger of this and the value for all interfaces holds: 0 would not undo a 1 there, 2 does.
    // The way back that is looked for leads through the other device, or through none.
    set_sysctl(device, "rp_filter", "2")?;
    // What comes from the access side is not ours, unless it is TCP: then a way back is found that is another, and that is not
    // granted to an interface without an address.
    if interception.all_from_wan {
        netlink.add_dummy_address(index)?;
    }
    set_sysctl(device, "forwarding", "1")
}

fn add_routes(netlink: &Netlink, device: &str, table: u32) -> Result<(), RouteError> {
    let index = interface_index(device).map_err(refused(format!("finding `{device}`")))?;
    for family in [Family::V4, Family::V6] {
        if family == Family::V6 && !has_v6(device) {
            continue;
        }
        let everything = Route::new(family.everything(), NextHop::Interface(index));
        netlink.add_route(&Route { table: Some(table), ..everything }).map_err(|error| {
            match error.kind() {
                io::ErrorKind::AlreadyExists => RouteError::TableInUse { table },
                _ => refused(format!("adding a route to table {table}"))(error),
            }
        })?;
    }
    Ok(())
}

fn refused(step: impl Into<String>) -> impl FnOnce(io::Error) -> RouteError {
    move |error| RouteError::Refused { step: step.into(), error }
}

/// Whether this kernel has the family at all.
pub(crate) fn exists(family: Family) -> bool {
    family == Family::V4 || Path::new("/proc/sys/net/ipv6").exists()
}

/// Whether the device takes IPv6: it may be switched off for all interfaces.
fn has_v6(device: &str) -> bool {
    let path = format!("/proc/sys/net/ipv6/conf/{device}/disable_ipv6");
    std::fs::read_to_string(path).is_ok_and(|text| text.trim() == "0")
}

/// Whether this host passes packets of a family on from one interface to another.
pub(crate) fn is_forwarding(family: Family) -> bool {
    let path = match family {
        Family::V4 => "/proc/sys/net/ipv4/ip_forward",
        Family::V6 => "/proc/sys/net/ipv6/conf/all/forwarding",
    };
    std::fs::read_to_string(path).is_ok_and(|text| text.trim() == "1")
}

fn set_sysctl(device: &str, key: &str, value: &str) -> io::Result<()> {
    let path = format!("/proc/sys/net/ipv4/conf/{device}/{key}");
    std::fs::write(&path, value).map_err(|error| io::Error::new(error.kind(), format!("{path}: {error}")))
}
