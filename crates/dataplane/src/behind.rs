//! Which hosts are behind an interface toward the access side: those to which this host's main routing table leads by it.
//!
//! A packet of our device does not say by which interface it came or will leave, but its host's address does: the routes are asked once, and
//! what they say becomes prefixes. The most specific route holds (RFC 1812 §5.2.4.3), so a network is without those in it that
//! another interface has.
use crate::daemon_error::{DaemonError, system};
use crate::{Config, ConfigError};
use ipnet::IpNet;
use shorthaul_os::Netlink;
use shorthaul_os::netlink::{Family, Leads, links};
use shorthaul_proxy::Bottleneck;
use std::collections::BTreeMap;

/// More are no network of hosts but a part of the Internet's table, and each new host would be looked for among them.
const MOST_PREFIXES: usize = 1024;

/// Gives each bottleneck of an interface the prefixes of the hosts behind it.
///
/// # Errors
/// Names the bottleneck, and what to write instead.
pub(crate) fn name_hosts(config: &mut Config) -> Result<(), DaemonError> {
    let [access, _] = config.interfaces();
    let mut table = None;
    for bottleneck in &mut config.bottleneck {
        let Some(interface) = bottleneck.interface.take() else { continue };
        let wrong = |why: String| {
            let why = format!("`{}`: {why}", bottleneck.name);
            DaemonError::from(ConfigError::Value { key: "bottleneck", why })
        };
        if !access.contains(&interface) {
            return Err(wrong(format!(
                "`{interface}` is no interface toward the access side; write one of these: {}",
                access.join(", ")
            )));
        }
        if !bottleneck.hosts.is_empty() {
            return Err(wrong("write `interface` or `hosts`, not both".into()));
        }
        // All hosts are behind the only one.
        if access.len() == 1 {
            continue;
        }
        // A gateway that runs is confined: its reading again may open no socket but netlink's.
        let present = links::list().map_err(system("asking for the interfaces"))?;
        let Some(index) = present.iter().find(|known| known.name == interface).map(|known| known.index)
        else {
            let present: Vec<&str> = present.iter().map(|known| known.name.as_str()).collect();
            return Err(wrong(format!("`{interface}` is not there; this host has {}", present.join(", "))));
        };
        let table = match &mut table {
            Some(table) => table,
            None => table.insert(main_table().map_err(system("asking for the routes"))?),
        };
        let hosts = behind(table, index).ok_or_else(|| {
            wrong(format!(
                "more than {MOST_PREFIXES} prefixes are behind `{interface}`; write the prefixes of its hosts: hosts = [\"10.1.0.0/16\"]"
            ))
        })?;
        if hosts.is_empty() {
            return Err(wrong(format!(
                "no route of this host's main table leads to `{interface}`, so nobody is known to be behind it; give it an address or a \
                 route, or write the prefixes of its hosts: hosts = [\"10.1.0.0/16\"]"
            )));
        }
        bottleneck.hosts = hosts;
    }
    Ok(())
}

/// Each bottleneck as a line for people: its hosts, behind which interface, and its rate.
pub(crate) fn describe(written: &[Bottleneck], named: &[Bottleneck]) -> Vec<String> {
    let line = |(number, (written, named)): (usize, (&Bottleneck, &Bottleneck))| {
        let hosts: Vec<String> = named.hosts.iter().map(IpNet::to_string).collect();
        let whose = match (hosts.is_empty(), number) {
            (true, 0) => "all hosts".into(),
            (true, _) => "all other hosts".into(),
            (false, _) => hosts.join(", "),
        };
        let behind = written.interface.as_ref().map(|interface| format!(", behind {interface}"));
        let rate = named.rate.map_or_else(|| "its rate is measured".into(), |rate| format!("at most {rate}"));
        format!("bottleneck {}: {whose}{}; {rate}", named.name, behind.unwrap_or_default())
    };
    written.iter().zip(named).enumerate().map(line).collect()
}

fn main_table() -> std::io::Result<Vec<Leads>> {
    let netlink = Netlink::open()?;
    let mut table = netlink.main_table(Family::V4)?;
    // A kernel without IPv6 has no routes of it, and says that it does not know what is asked.
    table.extend(netlink.main_table(Family::V6).unwrap_or_default());
    Ok(table)
}

/// The prefixes of the addresses that are sent by an interface; `None` if there are too many.
fn behind(table: &[Leads], interface: u32) -> Option<Vec<IpNet>> {
    // Nothing that has only a local meaning is a host to us: no router forwards it.
    let is_forwarded = |network: &IpNet| match network {
        IpNet::V4(network) => !network.addr().is_link_local() && !network.addr().is_multicast(),
        IpNet::V6(network) => !network.addr().is_unicast_link_local() && !network.addr().is_multicast(),
    };
    let mut best: BTreeMap<IpNet, &Leads> = BTreeMap::new();
    for leads in table.iter().filter(|leads| is_forwarded(&leads.network)) {
        let known = best.entry(leads.network.trunc()).or_insert(leads);
        if leads.metric < known.metric {
            *known = leads;
        }
    }
    let routes: Vec<(IpNet, bool)> =
        best.into_iter().map(|(network, leads)| (network, leads.interface == Some(interface))).collect();
    let mut found = Vec::new();
    for family in [Family::V4, Family::V6] {
        let own: Vec<_> =
            routes.iter().copied().filter(|(network, _)| Family::of(network.addr()) == family).collect();
        collect(family.everything(), false, &own, &mut found)?;
    }
    Some(found)
}

/// Adds the parts of a network that are sent by the interface, where `is_ours` is what holds for all of it that no route is more specific about.
fn collect(network: IpNet, is_ours: bool, routes: &[(IpNet, bool)], found: &mut Vec<IpNet>) -> Option<()> {
    let is_ours = routes.iter().find(|(of, _)| *of == network).map_or(is_ours, |(_, own)| *own);
    let within: Vec<_> =
        routes.iter().copied().filter(|(of, _)| *of != network && network.contains(of)).collect();
    if within.iter().all(|(_, own)| *own == is_ours) {
        if is_ours {
            found.push(network);
        }
        return (found.len() <= MOST_PREFIXES).then_some(());
    }
    let halves = network.subnets(network.prefix_len() + 1).ok()?;
    halves.into_iter().try_for_each(|half| collect(half, is_ours, &within, found))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(routes: &[(&str, Option<u32>, u32)]) -> Vec<Leads> {
        let leads = |(network, interface, metric): &(&str, Option<u32>, u32)| Leads {
            network: network.parse().unwrap(),
            interface: *interface,
            metric: *metric,
        };
        routes.iter().map(leads).collect()
    }

    fn names(table: &[Leads], interface: u32) -> Vec<String> {
        behind(table, interface).unwrap().iter().map(IpNet::to_string).collect()
    }

    #[test]
    fn the_most_specific_route_says_behind_which_interface_a_host_is() {
        let table = table(&[
            ("0.0.0.0/0", Some(9), 0),
            ("10.1.0.0/16", Some(2), 0),
            ("10.1.128.0/18", Some(3), 0),
            ("10.1.160.0/24", Some(2), 0),
            ("10.2.0.0/16", Some(3), 100),
            ("10.2.0.0/16", Some(2), 50),
            ("10.3.0.0/16", None, 0),
            ("169.254.0.0/16", Some(2), 0),
            ("fe80::/64", Some(2), 256),
            ("fd00:1::/64", Some(2), 256),
            ("fd00:1::7/128", Some(3), 256),
        ]);
        let second = names(&table, 2);
        assert_eq!(second[..4], ["10.1.0.0/17", "10.1.160.0/24", "10.1.192.0/18", "10.2.0.0/16"]);
        assert_eq!(second.len(), 4 + 64, "all of a network of 64 bits but one host: {second:?}");
        let holds = |list: &[String], host: &str| {
            let host: std::net::IpAddr = host.parse().unwrap();
            list.iter().any(|network| network.parse::<IpNet>().unwrap().contains(&host))
        };
        assert!(holds(&second, "fd00:1::6") && holds(&second, "fd00:1::8") && !holds(&second, "fd00:1::7"));
        let third = names(&table, 3);
        for (host, whose) in [
            ("10.1.0.1", [true, false]),
            ("10.1.130.1", [false, true]),
            ("10.1.160.1", [true, false]),
            ("10.1.161.1", [false, true]),
            ("10.1.200.1", [true, false]),
            ("10.2.0.1", [true, false]),
            ("10.3.0.1", [false, false]),
            ("8.8.8.8", [false, false]),
        ] {
            assert_eq!([holds(&second, host), holds(&third, host)], whose, "{host}");
        }
        assert_eq!(names(&table, 7), [""; 0]);
    }

    #[test]
    fn a_default_route_leads_to_all_that_others_do_not() {
        let table = table(&[("0.0.0.0/0", Some(2), 0), ("128.0.0.0/1", Some(9), 0), ("::/0", Some(2), 0)]);
        assert_eq!(names(&table, 2), ["0.0.0.0/1", "::/0"]);
    }

    #[test]
    fn a_table_of_the_internet_is_not_taken_for_hosts() {
        let odd = (0..2 * MOST_PREFIXES as u32).map(|number| Leads {
            network: IpNet::new(std::net::Ipv4Addr::from_bits(number << 9).into(), 24).unwrap(),
            interface: Some(2),
            metric: 0,
        });
        assert_eq!(behind(&odd.collect::<Vec<_>>(), 2), None);
    }

    #[test]
    fn each_bottleneck_is_a_line() {
        let text = "access = [\"lo\"]\nwan = [\"w\"]\n[[bottleneck]]\nname = \"ship\"\nhosts = [\"10.1.0.0/16\", \"fd00:1::/32\"]\nrate = \"30 Mbit/s\"\n\
                    [[bottleneck]]\nname = \"rest\"\ninterface = \"lo\"\n";
        let written: Config = toml::from_str(text).unwrap();
        let mut named = written.clone();
        name_hosts(&mut named).unwrap();
        assert_eq!(
            describe(&written.bottleneck, &named.bottleneck),
            [
                "bottleneck ship: 10.1.0.0/16, fd00:1::/32; at most 30 Mbit/s",
                "bottleneck rest: all other hosts, behind lo; its rate is measured"
            ]
        );
    }

    #[test]
    fn what_is_wrong_with_the_interface_of_a_bottleneck_is_said() {
        let said = |access: &str, bottleneck: &str| {
            let text =
                format!("access = [{access}]\nwan = [\"w\"]\n[[bottleneck]]\nname = \"ship\"\n{bottleneck}");
            let mut config: Config = toml::from_str(&text).unwrap();
            name_hosts(&mut config).map(|()| config.bottleneck).map_err(|error| error.to_string())
        };
        for (access, bottleneck, words) in [
            ("\"lo\", \"b\"", "interface = \"w\"", ["`w`", "lo, b"]),
            ("\"lo\", \"b\"", "interface = \"lo\"\nhosts = [\"10.0.0.0/8\"]", ["`ship`", "not both"]),
            ("\"lo\", \"b\"", "interface = \"b\"", ["`b`", "this host has"]),
            ("\"lo\", \"b\"", "interface = \"lo\"", ["no route", "hosts = [\"10.1.0.0/16\"]"]),
        ] {
            let error = said(access, bottleneck).unwrap_err();
            assert!(error.starts_with("bottleneck: "), "{error}");
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
        }
        let only = said("\"lo\"", "interface = \"lo\"").unwrap();
        assert_eq!((only[0].hosts.len(), &only[0].interface), (0, &None), "all hosts");
    }
}
