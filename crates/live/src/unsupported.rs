//! What cannot run live, and what cannot be measured there, each with its reason.
use shorthaul_link::Direction;
use shorthaul_scenario::{Flow, Metric, Overflow, Role, Scenario, Scheme, Series, SetUp, Stack, Workload};

use crate::own::is_own;
use crate::scheme::KernelScheme;

/// The longest request that fits into one segment of any link, as the live engine sends it.
const ONE_SEGMENT: u64 = 1200;

/// Why a scenario cannot run live on a kernel with these congestion controls; empty if it can.
pub fn unsupported(scenario: &Scenario, available: &[String]) -> Vec<String> {
    let mut reasons = Vec::new();
    for node in &scenario.nodes {
        match &node.role {
            Role::Router => {}
            Role::Shaper(_) => {
                reasons
                    .push(format!("shaper `{}`: it is a model, and only simulated: leave it out", node.name));
            }
            Role::Gateway(gateway) => {
                if !gateway.taken_over.is_empty() {
                    let why = "a live run has one process: leave `taken_over` out (`shorthaul bench survive --take-over` has two)";
                    reasons.push(format!("gateway `{}`: {why}", node.name));
                }
                if !gateway.killed.is_empty() {
                    let why =
                        "a live run has one process: leave `killed` out (`shorthaul bench survive` has more)";
                    reasons.push(format!("gateway `{}`: {why}", node.name));
                }
                if gateway.lateness.is_some() {
                    let why = "a live gateway is as late as its machine: leave `lateness` out";
                    reasons.push(format!("gateway `{}`: {why}", node.name));
                }
            }
            Role::Host(scheme) if scheme.stack == Some(Stack::Own) => {}
            Role::Host(scheme) => {
                let lacking = KernelScheme::of(scheme, available).err().unwrap_or_default();
                reasons.extend(lacking.into_iter().map(|lack| format!("host `{}`: {lack}", node.name)));
            }
            Role::Relay(relay) => {
                let lacking = KernelScheme::of(&relay.scheme, available).err().unwrap_or_default();
                reasons.extend(lacking.into_iter().map(|lack| format!("relay `{}`: {lack}", node.name)));
                if relay.scheme.profile.nagle {
                    let why = "a live relay sends small segments at once: leave `nagle` out, or write `nagle = false`";
                    reasons.push(format!("relay `{}`: {why}", node.name));
                }
                if relay.overflow != Overflow::Close {
                    let why = "a live relay's window closes: leave `overflow` out, or write \"close\"";
                    reasons.push(format!("relay `{}`: {why}", node.name));
                }
                if !relay.service_time.mean().is_zero() {
                    let why = "a live relay takes the time that it takes: leave `service_time` out";
                    reasons.push(format!("relay `{}`: {why}", node.name));
                }
            }
        }
    }
    for link in &scenario.links {
        if link.mtu < 1280 {
            let (name, mtu) = (&link.name, link.mtu);
            reasons.push(format!(
                "link `{name}`: its MTU of {mtu} bytes is below the 1280 that Linux asks for IPv6"
            ));
        }
        if link.name.contains('#') {
            reasons.push(format!("link `{}`: a lab has one link between two hosts", link.name));
        }
    }
    for cell in &scenario.cells {
        let name = &cell.name;
        reasons.push(format!("cell `{name}`: only the simulator has a channel that several links share"));
    }
    if scenario.links.len() > 254 {
        reasons.push(format!("{} links: a lab has 254 at most", scenario.links.len()));
    }
    for flow in &scenario.flows {
        reasons.extend(of_flow(scenario, flow, available));
    }
    if scenario.flows.is_empty() {
        reasons.push("there are no flows".into());
    }
    // Several flows alike have the same reasons.
    reasons.dedup();
    reasons
}

fn of_flow(scenario: &Scenario, flow: &Flow, available: &[String]) -> Vec<String> {
    let reasons = match (is_own(scenario, flow.from), is_own(scenario, flow.to)) {
        (true, true) => between_own(flow),
        (false, false) => between_kernels(scenario, flow, available),
        _ => {
            let why =
                "the ends of a flow have one kind of TCP: give both hosts `stack = \"own\"`, or neither";
            vec![why.to_owned()]
        }
    };
    let family = if flow.number > 0 || flow.name.ends_with(".1") {
        flow.name.rsplit_once('.').map_or(flow.name.as_str(), |(family, _)| family)
    } else {
        &flow.name
    };
    reasons.into_iter().map(|reason| format!("flow `{family}`: {reason}")).collect()
}

/// Of a flow between hosts that speak our own TCP.
fn between_own(flow: &Flow) -> Vec<String> {
    let mut reasons = Vec::new();
    if !flow.via.is_empty() {
        reasons
            .push("live relays are for hosts with the kernel's TCP: leave `via` or `stack` out".to_owned());
    }
    if flow.scheme.as_ref().is_some_and(|scheme| scheme.stack == Some(Stack::Kernel)) {
        reasons.push("its hosts speak our own TCP: leave `stack` out of its scheme".to_owned());
    }
    reasons
}

fn between_kernels(scenario: &Scenario, flow: &Flow, available: &[String]) -> Vec<String> {
    let mut reasons = Vec::new();
    match &flow.workload {
        Workload::Bulk(_) | Workload::Unlimited(_) => {}
        Workload::Requests { .. } | Workload::OnOff { .. } | Workload::Persistent { .. } => {}
        Workload::Downloads { request, .. } if request.0 <= ONE_SEGMENT => {}
        Workload::Downloads { .. } => {
            reasons.push(format!("a request of a download is one segment, {ONE_SEGMENT} B at most"));
        }
    }
    if flow.set_up == SetUp::Sequential && flow.via.len() > 1 {
        reasons.push("a live relay connects on when it is connected to: leave `set_up` out".into());
    }
    if let Some(scheme) = &flow.scheme {
        for end in [flow.from, flow.to] {
            let Role::Host(of_host) = &scenario.nodes[end.0].role else { continue };
            let (own, host) = (KernelScheme::of(scheme, available), KernelScheme::of(of_host, available));
            match (own, host) {
                (Err(lacking), _) => reasons.extend(lacking),
                (Ok(own), Ok(host))
                    if (&own.settings, own.initial_window) != (&host.settings, host.initial_window) =>
                {
                    reasons.push(
                    "connections of one host differ in congestion control and pacing only; everything else is the host's".into(),
                    );
                }
                _ => {}
            }
        }
        reasons.dedup();
    }
    reasons
}

/// The scheme of a flow at one of its ends.
pub fn scheme_at<'a>(scenario: &'a Scenario, flow: &'a Flow, gives: bool) -> Option<&'a Scheme> {
    let end = if gives { flow.from } else { flow.to };
    match (&flow.scheme, &scenario.nodes[end.0].role) {
        (Some(scheme), _) | (None, Role::Host(scheme)) => Some(scheme),
        _ => None,
    }
}

/// What a scenario wants measured and live runs do not measure, in sentences.
pub fn unmeasured(scenario: &Scenario) -> Vec<String> {
    let mut remarks = Vec::new();
    let has_gateway = scenario.nodes.iter().any(|node| matches!(node.role, Role::Gateway(_)));
    if scenario.measure.series.contains(&Series::Buffer) && !has_gateway {
        remarks.push("live runs have no series `buffer` without a gateway: it is that of relays".into());
    }
    let rates = scenario.links.iter().flat_map(|link| {
        [Direction::Up, Direction::Down].map(|way| link.config(way, shorthaul_types::Seed(0)).rate)
    });
    let fixed = rates.into_iter().any(|rate| matches!(rate, shorthaul_link::Rate::Fixed(_)));
    if scenario.measure.metrics.contains(&Metric::Utilization) && !fixed {
        remarks.push("`utilization` is that of links with a fixed rate, and there is none".into());
    }
    remarks
}
