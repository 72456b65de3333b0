//! What gateways have done to this host: their rules and devices, told from those of others by their shape.
use crate::Config;
use crate::attach::interfaces_of;
use crate::config::Attach;
use shorthaul_os::Netlink;
use shorthaul_os::netlink::links::list;
use shorthaul_os::netlink::{Action, Family, Rule, RulePriority, interfaces};
use std::io;

const TCP: u8 = 6;

/// Rules of a gateway's shape on this host: the interface, the rule's priority, and the table.
pub(crate) fn gateway_rules() -> io::Result<Vec<(String, u32, u32)>> {
    let netlink = Netlink::open()?;
    let shape = |rule: Rule| match rule {
        Rule {
            interface: Some(interface),
            protocol: Some(TCP),
            action: Action::Table(table),
            priority,
            ..
        } => {
            // The priority is the number of the first of the two tables.
            let RulePriority(priority) = priority;
            (table == priority || table == priority + 1).then_some((interface, priority, table))
        }
        _ => None,
    };
    Ok(netlink.rules(Family::V4)?.into_iter().filter_map(shape).collect())
}

/// The names of the gateways whose devices are there: those that run.
pub(crate) fn running() -> io::Result<Vec<String>> {
    let name = |(device, _): (String, u32)| Some(device.strip_prefix("sh-")?.strip_suffix("-e")?.to_owned());
    Ok(interfaces()?.into_iter().filter_map(name).collect())
}

/// An interface of this configuration that another gateway has, which runs, and that one's name.
pub(crate) fn taken(config: &Config) -> io::Result<Option<(String, String)>> {
    let own = config.name.to_string();
    let others: Vec<String> = running()?.into_iter().filter(|name| *name != own).collect();
    if others.is_empty() {
        return Ok(None);
    }
    let ours = |interface: &String| config.access.contains(interface) || config.wan.contains(interface);
    // A gateway at access interfaces has no rules. Its devices say where it is.
    let devices = list()?;
    for name in &others {
        let at = |device: &str| {
            let device = devices.iter().find(|found| found.name == format!("sh-{name}-{device}"));
            device.map(interfaces_of).unwrap_or_default()
        };
        if let Some(interface) = shared(config, &at("e"), &at("w")) {
            return Ok(Some((interface.clone(), name.clone())));
        }
    }
    let rules = gateway_rules()?.into_iter();
    let mut taken = rules.filter(|(interface, priority, _)| ours(interface) && *priority != config.table);
    Ok(taken.next().map(|(interface, ..)| (interface, others.join("` or `"))))
}

/// An interface of this configuration that a gateway at the interfaces `access`, with `wan` toward the rest of the world, has too. What comes in
/// by `wan`, that one leaves alone: another one at access interfaces may have it as well.
fn shared<'a>(config: &'a Config, access: &[&str], wan: &[&str]) -> Option<&'a String> {
    let of = |names: &'a [String], theirs: &[&str]| names.iter().find(|name| theirs.contains(&name.as_str()));
    let is_like_them = config.attach == Some(Attach::Interface);
    of(&config.access, access)
        .or_else(|| of(&config.wan, access))
        .or_else(|| of(&config.access, wan))
        .or_else(|| if is_like_them { None } else { of(&config.wan, wan) })
}

/// Removes the rules of this configuration's tables, and says of which interfaces.
pub(crate) fn remove_rules(config: &Config) -> io::Result<Vec<String>> {
    let of_ours = gateway_rules()?.into_iter().filter(|(_, priority, _)| *priority == config.table);
    let said = of_ours.map(|(interface, _, table)| format!("rules from {interface} to table {table}"));
    let said: Vec<String> = said.collect();
    let netlink = Netlink::open()?;
    for table in [config.table, config.table + 1] {
        for family in [Family::V4, Family::V6] {
            netlink.remove_rules(family, RulePriority(config.table), table);
        }
    }
    Ok(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_of_one_gateway_but_for_what_two_at_access_interfaces_have_toward_the_world() {
        let config = |access: &str, wan: &str, attach| Config {
            access: vec![access.into()],
            wan: vec![wan.into()],
            attach,
            ..Config::default()
        };
        let at = Some(Attach::Interface);
        for (access, wan, attach, expected) in [
            ("lan1", "wan1", at, None),
            ("lan0", "wan1", at, Some("lan0")),
            ("lan1", "lan0", at, Some("lan0")),
            ("wan0", "wan1", at, Some("wan0")),
            ("lan1", "wan0", at, None),
            ("lan1", "wan0", None, Some("wan0")),
        ] {
            let config = config(access, wan, attach);
            let found = shared(&config, &["lan0"], &["wan0"]);
            assert_eq!(found.map(String::as_str), expected, "{access} {wan}");
        }
    }
}
