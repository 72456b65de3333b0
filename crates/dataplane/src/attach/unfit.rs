//! What of a router does not go together with programs at its access interfaces.
use super::obstacle::{legacy, ruleset};
use crate::Config;
use serde_json::Value;
use shorthaul_os::netlink::links::{Interface, list};
use shorthaul_os::netlink::local_addresses;
use std::fs::read_to_string;

/// So many access interfaces at most: programs ask about each of them.
pub(super) const MOST: usize = 64;
/// A set of addresses has room for so many, whichever they are.
const MOST_ADDRESSES: usize = 512;

/// The access interfaces, if nothing is in the way; otherwise what it is, and what to do.
pub(super) fn access_interfaces(config: &Config) -> Result<Vec<Interface>, String> {
    let count = config.access.len();
    if count > MOST {
        return Err(format!(
            "there are {count} access interfaces, and programs are for {MOST} at most: name a bridge of them"
        ));
    }
    let addresses = local_addresses().map_err(|error| error.to_string())?.len();
    if addresses > MOST_ADDRESSES {
        return Err(format!(
            "this host has {addresses} addresses, and programs know {MOST_ADDRESSES} at most"
        ));
    }
    let present = list().map_err(|error| error.to_string())?;
    let access = find(&config.access, &present)?;
    let rules = ruleset();
    if let Some(bridge) =
        access.iter().find(|interface| interface.is_bridge && is_seen_by_netfilter(interface))
    {
        let translates = rules.as_ref().map_or_else(legacy, translates_destinations);
        if translates {
            return Err(translated_before(&bridge.name));
        }
    }
    match rules.and_then(|rules| flow_table_below(&rules, &access, &present)) {
        Some((name, of)) => Err(format!(
            "a flow table of nftables has `{name}`, which is a part of `{of}`: it forwards packets past that; take `{name}` out of it"
        )),
        None => Ok(access),
    }
}

fn find(names: &[String], present: &[Interface]) -> Result<Vec<Interface>, String> {
    let fits = |name: &String| {
        let interface = present.iter().find(|interface| interface.name == *name);
        let interface = interface.ok_or_else(|| format!("there is no `{name}`"))?;
        if interface.is_vrf {
            return Err(format!("`{name}` is a VRF: name interfaces that are not in one"));
        }
        if interface.ethernet.is_none() {
            return Err(format!("`{name}` is no Ethernet interface"));
        }
        let Some(master) = interface.master else { return Ok(interface.clone()) };
        let of = present.iter().find(|other| other.index == master);
        let named = of.map_or_else(|| master.to_string(), |of| of.name.clone());
        Err(match of.is_some_and(|of| of.is_vrf) {
            // It shows all of its interfaces' packets as come in by itself: which side they are from is not to be seen.
            true => format!("`{name}` is in the VRF `{named}`"),
            false => format!("`{name}` is a part of `{named}`: name that instead"),
        })
    };
    names.iter().map(fits).collect()
}

/// Whether the host's netfilter sees packets at the ports of a bridge already (`br_netfilter`).
fn is_seen_by_netfilter(bridge: &Interface) -> bool {
    let families = ["iptables", "ip6tables"].into_iter().flat_map(|family| {
        [
            format!("/proc/sys/net/bridge/bridge-nf-call-{family}"),
            format!("/sys/class/net/{}/bridge/nf_call_{family}", bridge.name),
        ]
    });
    families.into_iter().any(|path| read_to_string(path).is_ok_and(|text| text.trim() == "1"))
}

fn translated_before(bridge: &str) -> String {
    format!(
        "the firewall translates destination addresses (dnat or redirect), and does so at the ports of the bridge `{bridge}` already, before \
         programs there see a packet: run `sysctl -w net.bridge.bridge-nf-call-iptables=0 net.bridge.bridge-nf-call-ip6tables=0`, if nothing \
         needs them"
    )
}

/// Whether some rule translates destination addresses.
fn translates_destinations(ruleset: &Value) -> bool {
    let objects = ruleset["nftables"].as_array().into_iter().flatten();
    let expressions = objects.flat_map(|object| object["rule"]["expr"].as_array().into_iter().flatten());
    expressions.into_iter().any(|expression| {
        // What iptables has put there has a name of its own.
        let target = expression["xt"]["name"].as_str().unwrap_or_default();
        expression.get("dnat").is_some()
            || expression.get("redirect").is_some()
            || matches!(target, "DNAT" | "REDIRECT" | "NETMAP")
    })
}

/// A part of an access interface that a flow table has, and that interface.
fn flow_table_below(
    ruleset: &Value,
    access: &[Interface],
    present: &[Interface],
) -> Option<(String, String)> {
    let objects = ruleset["nftables"].as_array().into_iter().flatten();
    let devices = objects.flat_map(|object| match &object["flowtable"]["dev"] {
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect::<Vec<_>>(),
    });
    for name in devices {
        let Some(device) = present.iter().find(|interface| interface.name == name) else { continue };
        let is_above =
            |above: &&Interface| device.master == Some(above.index) || above.below == Some(device.index);
        if let Some(above) = access.iter().find(is_above) {
            return Some((name.to_owned(), above.name.clone()));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn interface(index: u32, name: &str) -> Interface {
        Interface { index, name: name.into(), ethernet: Some([2; 6]), ..Interface::default() }
    }

    #[test]
    fn an_interface_that_cannot_be_one_is_told_with_what_to_do() {
        let present = [
            Interface { is_bridge: true, ..interface(1, "br0") },
            Interface { master: Some(1), ..interface(2, "eth0") },
            Interface { is_vrf: true, ..interface(3, "blue") },
            Interface { master: Some(3), ..interface(4, "eth1") },
            Interface { ethernet: None, ..interface(5, "ppp0") },
            interface(6, "eth2"),
        ];
        for (name, expected) in [
            ("br0", None),
            ("eth2", None),
            ("eth0", Some("part of `br0`")),
            ("blue", Some("is a VRF")),
            ("eth1", Some("in the VRF `blue`")),
            ("ppp0", Some("no Ethernet")),
            ("eth9", Some("there is no `eth9`")),
        ] {
            let found = find(&[name.to_owned()], &present);
            match expected {
                None => assert_eq!(found.unwrap()[0].name, name),
                Some(words) => assert!(found.as_ref().is_err_and(|why| why.contains(words)), "{found:?}"),
            }
        }
    }

    #[test]
    fn destinations_that_are_translated_are_found_in_the_rules_of_a_firewall() {
        for (expression, expected) in [
            (json!({"dnat": {"addr": "192.0.2.1"}}), true),
            (json!({"redirect": {"port": 8080}}), true),
            (json!({"redirect": null}), true),
            (json!({"xt": {"type": "target", "name": "DNAT"}}), true),
            (json!({"masquerade": null}), false),
            (json!({"accept": null}), false),
        ] {
            let rules = json!({"nftables": [{"chain": {}}, {"rule": {"expr": [{"match": {}}, expression]}}]});
            assert_eq!(translates_destinations(&rules), expected, "{rules}");
        }
    }

    #[test]
    fn a_flow_table_that_has_what_is_below_an_access_interface_is_found() {
        let bridge = Interface { is_bridge: true, ..interface(1, "br0") };
        let vlan = Interface { below: Some(3), ..interface(4, "eth1.5") };
        let access = [bridge.clone(), vlan.clone(), interface(5, "eth2")];
        let port = Interface { master: Some(1), ..interface(2, "eth0") };
        let present = [bridge, port, interface(3, "eth1"), vlan, interface(5, "eth2")];
        for (devices, expected) in [
            (json!(["eth2", "wan0"]), None),
            (json!(["br0", "wan0"]), None),
            (json!(["wan0", "eth0"]), Some("eth0 br0")),
            (json!("eth1"), Some("eth1 eth1.5")),
            (Value::Null, None),
        ] {
            let rules = json!({"nftables": [{"table": {}}, {"flowtable": {"name": "f", "dev": devices}}]});
            let found = flow_table_below(&rules, &access, &present);
            assert_eq!(found.map(|(name, of)| format!("{name} {of}")).as_deref(), expected, "{rules}");
        }
    }
}
