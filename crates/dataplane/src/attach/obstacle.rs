//! What of a router does not go together with routing rules, which lead each packet through its kernel twice: as two packets of other
//! interfaces.
use super::firewall::drops_what_it_forwards;
use crate::Config;
use serde_json::Value;
use shorthaul_os::Netlink;
use shorthaul_os::netlink::{Action, Family};
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};

/// Is there where the kernel tracks connections, without which it translates no addresses.
const CONNECTIONS: &str = "/proc/sys/net/netfilter/nf_conntrack_count";
/// The kernel's own table.
const LOCAL: u32 = 255;

/// What was found, in sentences, as far as it can be seen.
pub(crate) fn obstacles(config: &Config) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(rules) = ruleset() {
        if translates(&rules) {
            found.push(
                "the firewall translates source addresses (masquerade or snat), which is decided on before the packet leaves by the \
                 interface that is meant: new connections would leave with their own addresses"
                    .into(),
            );
        }
        if drops_what_it_forwards(&rules, config) {
            found.push(format!(
                "the firewall drops what it forwards unless a rule accepts it: rules that name interfaces have to name `sh-{}-e` and \
                 `sh-{0}-w`, too",
                config.name
            ));
        }
    } else if Path::new(CONNECTIONS).exists() {
        found.push(
            "the firewall cannot be seen (`nft` is missing, or may not list it): it may translate source addresses, or drop what it forwards"
                .into(),
        );
    }
    if legacy() {
        found.push("there may be rules of the older iptables, which cannot be seen here: MASQUERADE, SNAT, or a policy of DROP in FORWARD keep new connections from working".into());
    }
    found.extend(earlier_rule(config));
    found
}

/// The firewall's rules, if the program that lists them is there and may.
pub(super) fn ruleset() -> Option<Value> {
    let said = Command::new("nft").args(["-j", "list", "ruleset"]).stdin(Stdio::null()).output().ok()?;
    if said.status.success() { serde_json::from_slice(&said.stdout).ok() } else { None }
}

/// Whether some rule translates source addresses.
fn translates(ruleset: &Value) -> bool {
    let objects = ruleset["nftables"].as_array().into_iter().flatten();
    let mut expressions = objects.flat_map(|object| object["rule"]["expr"].as_array().into_iter().flatten());
    expressions.any(|expression| {
        // What iptables has put there has a name of its own.
        let target = expression["xt"]["name"].as_str().unwrap_or_default();
        expression.get("masquerade").is_some()
            || expression.get("snat").is_some()
            || matches!(target, "MASQUERADE" | "SNAT")
    })
}

/// Whether there are tables of the older iptables, or this process may not know.
pub(super) fn legacy() -> bool {
    match std::fs::read_to_string("/proc/net/ip_tables_names") {
        Ok(names) => names.lines().any(|name| matches!(name, "nat" | "filter")),
        Err(error) => error.kind() == ErrorKind::PermissionDenied,
    }
}

/// A rule that is asked before ours, and may answer.
fn earlier_rule(config: &Config) -> Option<String> {
    let netlink = Netlink::open().ok()?;
    let rules = [Family::V4, Family::V6].into_iter().filter_map(|family| netlink.rules(family).ok());
    // One of another gateway is for other interfaces.
    let is_ours = |name: &String| config.access.contains(name) || config.wan.contains(name);
    let mut earlier = rules.flatten().filter(|rule| {
        rule.priority.0 < config.table
            && !matches!(rule.action, Action::Table(LOCAL))
            && rule.priority.0 > 0
            && rule.interface.as_ref().is_none_or(is_ours)
    });
    let rule = earlier.next()?;
    let Action::Table(table) = rule.action else { return None };
    Some(format!(
        "a routing rule of priority {} is asked before the gateway's, and looks into table {table}: give the gateway a lower number with \
         --table",
        rule.priority.0
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_translation_of_sources_is_found_in_the_rules_of_a_firewall() {
        for (expr, expected) in [
            (json!({"masquerade": null}), true),
            (json!({"snat": {"addr": "192.0.2.1"}}), true),
            (json!({"xt": {"type": "target", "name": "MASQUERADE"}}), true),
            (json!({"dnat": {"addr": "192.0.2.1"}}), false),
            (json!({"accept": null}), false),
        ] {
            let rules = json!({"nftables": [
                {"metainfo": {"version": "1.1"}},
                {"rule": {"family": "ip", "expr": [{"match": {}}, expr]}},
            ]});
            assert_eq!(translates(&rules), expected, "{rules}");
        }
    }
}
