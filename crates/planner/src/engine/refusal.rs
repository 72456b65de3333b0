//! What the models cannot forecast, each by its name.
use super::FORECAST;
use crate::scenario::{Planned, PlannedLeg, family};
use shorthaul_link::{Direction, LinkConfig, Outages, Rate};
use shorthaul_proxy::{GatewayMode, SenderSpec};
use shorthaul_scenario::{Flow, NodeIndex, Overflow, Role, Scenario, Workload};
use shorthaul_types::Seed;
use std::collections::BTreeSet;

/// Why a scenario has no forecast, a sentence each; empty if it has one.
pub(super) fn refusals(scenario: &Scenario) -> Vec<String> {
    let mut reasons = Vec::new();
    if scenario.flows.is_empty() {
        reasons.push("there are no flows".to_owned());
    }
    for cross in &scenario.cross {
        reasons.push(format!("competing traffic `{}`: no model knows it", cross.name));
    }
    for cell in &scenario.cells {
        reasons.push(format!("cell `{}`: no model knows a channel that several links share", cell.name));
    }
    // One of each family, with what it passes.
    let mut known = BTreeSet::new();
    let flows: Vec<&Flow> = scenario.flows.iter().filter(|flow| known.insert(family(flow))).collect();
    let (mut nodes, mut links, mut senders) = (BTreeSet::new(), Vec::new(), BTreeSet::new());
    for flow in &flows {
        reasons.extend(of_flow(scenario, flow).map(|reason| format!("flow `{}`: {reason}", family(flow))));
        nodes.extend([flow.from, flow.to].into_iter().chain(flow.via.iter().copied()));
        match (Planned { scenario, flow, model: None }).chain(&flow.via) {
            Ok(chain) => senders.extend(chain.legs.iter().flat_map(|leg| of_sender(scenario, leg))),
            Err(error) => reasons.push(error.to_string()),
        }
        for hop in way(scenario, flow) {
            nodes.extend(scenario.links[hop.0].between);
            if !links.contains(&hop) {
                links.push(hop);
            }
        }
    }
    for (at, flow) in flows.iter().enumerate() {
        for other in &flows[at + 1..] {
            let (own, others) = (way(scenario, flow), way(scenario, other));
            if let Some((link, _)) = own.iter().find(|hop| others.contains(hop)) {
                let (one, other, link) = (family(flow), family(other), &scenario.links[*link].name);
                reasons.push(format!(
                    "flows `{one}` and `{other}` share the link `{link}`: the models know flows alike on one way"
                ));
            }
        }
    }
    reasons.extend(senders);
    for node in nodes {
        let name = &scenario.nodes[node.0].name;
        reasons.extend(of_node(scenario, node).into_iter().map(|reason| format!("node `{name}`: {reason}")));
    }
    for (index, direction) in links {
        let link = &scenario.links[index];
        let config = link.config(direction, Seed(0));
        reasons.extend(of_link(&config).into_iter().map(|what| format!("link `{}`: {what}", link.name)));
    }
    let wanted = &scenario.measure.metrics;
    if !wanted.is_empty() && !wanted.iter().any(|metric| FORECAST.contains(metric)) {
        let names: Vec<String> = wanted.iter().map(|metric| format!("`{metric}`")).collect();
        reasons.push(format!("no model forecasts {}", names.join(", ")));
    }
    reasons
}

/// The links that a flow's data passes.
fn way(scenario: &Scenario, flow: &Flow) -> Vec<(usize, Direction)> {
    let stops = [&[flow.from], flow.via.as_slice(), &[flow.to]].concat();
    stops.windows(2).filter_map(|pair| scenario.way(pair[0], pair[1])).flatten().collect()
}

fn of_flow(scenario: &Scenario, flow: &Flow) -> impl Iterator<Item = String> {
    let application = match &flow.workload {
        Workload::Bulk(_) | Workload::Unlimited(_) | Workload::Downloads { .. } => None,
        Workload::Requests { .. } => Some("requests"),
        Workload::OnOff { .. } => Some("on_off"),
        Workload::Persistent { .. } => Some("persistent"),
    };
    let application = application.map(|name| format!("no model knows what `{name}` does between its bursts"));
    let alike = Planned { scenario, flow, model: None }.alike();
    let spaced = alike > 1 && !flow.spacing.mean().is_zero();
    let spaced = spaced.then(|| "flows alike that start one after the other (`spacing`)".to_owned());
    let repeated = alike > 1 && matches!(flow.workload, Workload::Downloads { .. });
    let repeated = repeated.then(|| "downloads of several flows meet by chance (`count`)".to_owned());
    application.into_iter().chain(spaced).chain(repeated)
}

fn of_sender<'l>(scenario: &'l Scenario, leg: &'l PlannedLeg) -> impl Iterator<Item = String> + use<'l> {
    let name = &scenario.nodes[leg.from.0].name;
    leg.unmodelled.iter().map(move |unmodelled| match leg.key {
        Some(key) => format!("node `{name}`: `{key}`: {}", unmodelled.why),
        None => format!("node `{name}`: {}", unmodelled.why),
    })
}

fn of_node(scenario: &Scenario, node: NodeIndex) -> Vec<String> {
    match &scenario.nodes[node.0].role {
        Role::Router | Role::Host(_) => Vec::new(),
        Role::Shaper(_) => vec!["no model knows a shaper: leave it out".to_owned()],
        Role::Relay(relay) => {
            let serves = !relay.service_time.mean().is_zero();
            let drops = relay.overflow == Overflow::Drop;
            let reasons = [
                serves.then(|| "the models know no `service_time`".to_owned()),
                drops.then(|| "the models' relays drop nothing (`overflow`)".to_owned()),
            ];
            reasons.into_iter().flatten().collect()
        }
        Role::Gateway(gateway) => {
            let mut reasons = Vec::new();
            if !gateway.policy.is_empty() {
                reasons.push("no model knows policies for classes of flows (`policy`)".to_owned());
            }
            if gateway.mode() == GatewayMode::Auto {
                reasons.push("no model knows the mode `auto`: write mode = \"split\"".to_owned());
            }
            if gateway.senders_as_written != SenderSpec::default() {
                let policy = gateway.senders_as_written.policy.as_deref().unwrap_or("senders");
                reasons.push(format!("no model knows the policy `{policy}`"));
            }
            if gateway.control_group > 0.0 {
                reasons.push(
                    "no model knows flows that stay whole beside split ones: leave `control_group` out"
                        .to_owned(),
                );
            }
            if gateway.lateness.is_some() {
                reasons.push("the models know no `lateness`".to_owned());
            }
            reasons
        }
    }
}

/// What of a link has no part in the models.
fn of_link(config: &LinkConfig) -> Vec<&'static str> {
    // Without `..`: what is forgotten here would have no effect, and nobody would be told.
    let LinkConfig {
        rate,
        overhead: _, // in the framing of a leg, as are the next two
        queue: _,
        delay: _,
        jitter: _, // its mean is in the round trip
        route_changes,
        loss,
        duplicate,
        arq,
        outages,
        reordering,
        aggregation,
        drx,
    } = config;
    let unknown = [
        (!matches!(rate, Rate::Fixed(_) | Rate::Unlimited), "a rate that changes"),
        (*outages != Outages::default(), "outages"),
        (!loss.is_independent(), "losses that come in bursts"),
        (*duplicate > 0.0, "duplicates"),
        (arq.is_some(), "link-layer ARQ"),
        (route_changes.is_some(), "paths that take turns"),
        (reordering.is_some(), "reordering"),
        (aggregation.is_some(), "frame aggregation"),
        (drx.is_some(), "DRX: a penalty after idle times"),
    ];
    unknown.into_iter().filter(|(found, _)| *found).map(|(_, what)| what).collect()
}
