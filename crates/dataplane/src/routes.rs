use crate::sys::{Family, Netlink, Rule, interface_index};
use std::io;

const TCP: u8 = 6;
const ICMP: u8 = 1;

/// Which packets are routed into our devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interception {
    /// Interfaces toward the edge, and toward the rest of the world.
    pub interfaces: [Vec<String>; 2],
    /// Our devices for packets that come in by the former and by the latter.
    pub devices: [String; 2],
    /// The two routing tables that we use.
    pub tables: [u32; 2],
    /// The priority of our rules.
    pub priority: u32,
}

/// Rules and routes that send TCP (and ICMP errors about it) into our devices. They are taken back
/// when this is dropped; if the process dies instead, the devices and so the routes are gone, and
/// the rules find empty tables: traffic flows directly.
pub struct Routes {
    netlink: Netlink,
    interception: Interception,
}

impl Routes {
    /// Sets everything up, in place of what a predecessor may have left.
    ///
    /// # Errors
    /// What the kernel said, and to which step.
    pub fn install(interception: Interception) -> io::Result<Self> {
        let step = |what: &str, error: io::Error| io::Error::new(error.kind(), format!("{what}: {error}"));
        let netlink = Netlink::open().map_err(|e| step("netlink", e))?;
        let routes = Routes { netlink, interception };
        routes.remove_rules();
        let Interception { devices, tables, .. } = &routes.interception;
        for (device, &table) in devices.iter().zip(tables) {
            let index = interface_index(device).map_err(|e| step(device, e))?;
            // Not 1500: what the kernel merged on receipt may be longer, and is cut when it leaves.
            routes.netlink.configure(index, 65_535, 1_000).map_err(|e| step(device, e))?;
            set_sysctl(device, "ipv4", "rp_filter", "2")?;
            routes.netlink.set_up(index).map_err(|e| step(device, e))?;
            routes.netlink.add_default_route(Family::V4, table, index).map_err(|e| step("IPv4 route", e))?;
            if std::path::Path::new("/proc/sys/net/ipv6").exists() {
                routes
                    .netlink
                    .add_default_route(Family::V6, table, index)
                    .map_err(|e| step("IPv6 route", e))?;
            }
        }
        for rule in routes.rules() {
            if let Err(error) = routes.netlink.add_rule(&rule)
                && rule.family == Family::V4
            {
                return Err(step(&format!("routing rule for {}", rule.interface), error));
            }
        }
        Ok(routes)
    }

    fn rules(&self) -> Vec<Rule> {
        let Interception { interfaces, tables, priority, .. } = &self.interception;
        let mut rules = Vec::new();
        for (interfaces, &table) in interfaces.iter().zip(tables) {
            for interface in interfaces {
                // Neighbour discovery is ICMPv6 too, and not ours to delay.
                for (family, protocol) in [(Family::V4, TCP), (Family::V4, ICMP), (Family::V6, TCP)] {
                    let interface = interface.clone();
                    rules.push(Rule { family, interface, protocol, table, priority: *priority });
                }
            }
        }
        rules
    }

    fn remove_rules(&self) {
        for rule in self.rules() {
            // A crash and a restart may have left several; each call removes one.
            while self.netlink.remove_rule(&rule).is_ok() {}
        }
    }
}

impl Drop for Routes {
    fn drop(&mut self) {
        self.remove_rules();
    }
}

/// Whether this host passes packets on from one interface to another.
pub fn is_forwarding() -> bool {
    std::fs::read_to_string("/proc/sys/net/ipv4/ip_forward").is_ok_and(|text| text.trim() == "1")
}

fn set_sysctl(device: &str, family: &str, key: &str, value: &str) -> io::Result<()> {
    let path = format!("/proc/sys/net/{family}/conf/{device}/{key}");
    std::fs::write(&path, value).map_err(|error| io::Error::new(error.kind(), format!("{path}: {error}")))
}
