//! What gateways have done to this host: their rules and devices, told from those of others by their shape.
use crate::Config;
use crate::attach::interfaces_of;
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
    // A gateway at access interfaces has no rules. Its device says where it is.
    let devices = list()?;
    for name in &others {
        let device = devices.iter().find(|device| device.name == format!("sh-{name}-e"));
        let of_theirs = device.map(interfaces_of).unwrap_or_default();
        if let Some(interface) =
            config.access.iter().find(|interface| of_theirs.contains(&interface.as_str()))
        {
            return Ok(Some((interface.clone(), name.clone())));
        }
    }
    let rules = gateway_rules()?.into_iter();
    let mut taken = rules.filter(|(interface, priority, _)| ours(interface) && *priority != config.table);
    Ok(taken.next().map(|(interface, ..)| (interface, others.join("` or `"))))
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
