//! The lab of a scenario, and its gateways.
use std::time::Duration;

use shorthaul_dataplane::Config;
use shorthaul_lab::{GatewayProcess, Host, HostDescription, Lab, LinkDescription, LinkKind, Topology};
use shorthaul_link::Direction;
use shorthaul_scenario::{Gateway as GatewayRole, NodeIndex, Relay, Role, Scenario, Stack};
use shorthaul_types::Seed;

use crate::error::LiveError;
use crate::scheme::{KernelScheme, available};

/// What a kernel begins with by itself, in segments.
const LINUX_INITIAL_WINDOW: u32 = 10;

/// A scenario's nodes and links, running.
pub struct Network {
    gateways: Vec<(String, GatewayProcess)>,
    pub lab: Lab,
    /// The names of the nodes in the lab, in the scenario's order.
    names: Vec<String>,
}

impl Network {
    /// Starts everything. The links draw from `seed` as they do in the simulator: the same packet of a link
    /// meets the same fate in both.
    pub fn start(scenario: &Scenario, seed: Seed) -> Result<Network, LiveError> {
        let names = names(scenario);
        let topology = topology(scenario, &names, seed)?;
        let lab = Lab::start(&topology)?;
        let mut network = Network { gateways: Vec::new(), lab, names };
        for (index, node) in scenario.nodes.iter().enumerate() {
            let Role::Gateway(gateway) = &node.role else { continue };
            let config = network.config(scenario, NodeIndex(index), gateway);
            let started = GatewayProcess::start(network.host(NodeIndex(index)), config);
            let gateway = started.map_err(|source| LiveError::Child { node: node.name.clone(), source })?;
            network.gateways.push((node.name.clone(), gateway));
        }
        Ok(network)
    }

    /// The host of a node.
    pub fn host(&self, node: NodeIndex) -> &Host {
        self.lab.host(&self.names[node.0])
    }

    /// How long the gateways have stood waiting for a processor, the one that waited longest.
    pub fn waited(&self) -> Duration {
        self.gateways.iter().map(|(_, gateway)| gateway.waited()).max().unwrap_or_default()
    }

    /// Payload that the gateways hold at this moment.
    pub fn held(&self) -> u64 {
        self.gateways.iter().filter_map(|(_, gateway)| gateway.held()).sum()
    }

    /// Tells the gateways of what a radio controller would tell them, until `ended` is closed.
    pub fn control_radio(&self, scenario: &Scenario, ended: &std::sync::mpsc::Receiver<()>) {
        let began = std::time::Instant::now();
        let mut changes: Vec<(&shorthaul_scenario::BandwidthChange, &GatewayProcess)> = Vec::new();
        for (name, process) in &self.gateways {
            let role = scenario.nodes.iter().find(|node| node.name == *name).map(|node| &node.role);
            let Some(Role::Gateway(role)) = role else { continue };
            changes.extend(role.bandwidth_changes.iter().map(|change| (change, process)));
        }
        changes.sort_by_key(|(change, _)| change.at);
        for (change, gateway) in changes {
            let wait = change.at.saturating_sub(began.elapsed());
            if ended.recv_timeout(wait) != Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                return;
            }
            gateway.tell_bandwidth(change.cell.as_deref(), change.bandwidth);
        }
    }

    /// What has gone wrong with the gateways.
    pub fn problems(&mut self) -> Vec<String> {
        let dead = self.gateways.iter_mut().filter_map(|(name, gateway)| {
            (!gateway.is_running()).then(|| format!("the gateway `{name}` ended before the run did"))
        });
        dead.collect()
    }

    fn config(&self, scenario: &Scenario, node: NodeIndex, gateway: &GatewayRole) -> Config {
        let other = |[a, b]: [NodeIndex; 2]| if a == node { b } else { a };
        let neighbours =
            scenario.links.iter().filter(|link| link.between.contains(&node)).map(|link| other(link.between));
        let (access, wan): (Vec<_>, Vec<_>) = neighbours.partition(|neighbour| *neighbour == gateway.access);
        let interfaces = |nodes: Vec<NodeIndex>| {
            nodes.into_iter().map(|NodeIndex(index)| format!("to-{}", self.names[index])).collect()
        };
        let mut config = Config {
            access: interfaces(access),
            wan: interfaces(wan),
            to_access: gateway.to_access.clone(),
            to_wan: gateway.to_wan.clone(),
            control_group: Some(gateway.control_group),
            senders: gateway.senders_as_written.clone(),
            mode: Some(gateway.mode()),
            hosts: gateway.hosts,
            bottleneck: gateway.bottlenecks.clone(),
            traffic: gateway.traffic,
            aggregate: gateway.aggregate.clone(),
            policy: gateway.policy.clone(),
            ..Config::default()
        };
        config.memory.per_flow = gateway.flow_buffer;
        config
    }
}

/// The nodes' names where a lab takes them, and others where it does not.
fn names(scenario: &Scenario) -> Vec<String> {
    let plain = |name: &str| {
        let character = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        (1..=12).contains(&name.len()) && name.bytes().all(character) && name != "localhost"
    };
    let name = |(index, node): (usize, &shorthaul_scenario::Node)| {
        if plain(&node.name) {
            return node.name.clone();
        }
        let made = format!("n{index}");
        // Somebody may have called a node so.
        if scenario.node(&made).is_some() { format!("node-{index}") } else { made }
    };
    scenario.nodes.iter().enumerate().map(name).collect()
}

fn forwarding() -> HostDescription {
    HostDescription { forward: Some(true), ..HostDescription::default() }
}

fn topology(scenario: &Scenario, names: &[String], seed: Seed) -> Result<Topology, LiveError> {
    let available = available()?;
    // A lab derives the seed of a link from this and the link's name, as the scenario does.
    let mut topology = Topology::new(seed.derive("link"));
    for (node, name) in scenario.nodes.iter().zip(names) {
        let description = match &node.role {
            // Its kernel only carries packets to and from our TCP.
            Role::Host(scheme) if scheme.stack == Some(Stack::Own) => forwarding(),
            Role::Host(scheme) | Role::Relay(Relay { scheme, .. }) => {
                let scheme = KernelScheme::of(scheme, &available)
                    .map_err(|lacking| LiveError::Scheme { node: node.name.clone(), lacking })?;
                HostDescription {
                    congestion: Some(scheme.congestion.to_owned()),
                    sysctl: scheme.settings,
                    initial_window: (scheme.initial_window != LINUX_INITIAL_WINDOW)
                        .then_some(scheme.initial_window),
                    // A relay carries on what is meant for it, and routes the rest.
                    forward: Some(matches!(node.role, Role::Relay(_))),
                    ..HostDescription::default()
                }
            }
            _ => forwarding(),
        };
        topology.hosts.insert(name.clone(), description);
    }
    for link in &scenario.links {
        let [a, b] = link.between.map(|NodeIndex(index)| names[index].as_str());
        let [up, down] = [Direction::Up, Direction::Down].map(|direction| link.config(direction, seed));
        let kind = LinkKind::Emulated { up, down };
        topology.add_link(LinkDescription::new([a, b], kind).with_mtu(link.mtu));
    }
    Ok(topology)
}
