//! From a scenario to a network that runs.
use crate::SimError;
use crate::application::{EndReport, FlowEnd};
use crate::cross::CrossSource;
use crate::endpoint::{Buffers, connection_config};
use crate::gateway_node::GatewayNode;
use crate::host::{AppHost, port_of};
use crate::network::{CellState, DirectionState, Network, NodeState};
use crate::pattern::Pattern;
use crate::relay::{NextHop, RelayNode};
use crate::relay_service::Service;
use crate::route::{Routes, address_of};
use crate::shaper_node::ShaperNode;
use crate::sleep::Sleep;
use crate::station::Station;
use shorthaul_link::{Cell, Direction, Link};
use shorthaul_proxy::{Gateway, GatewayConfig};
use shorthaul_scenario::{CellDescription, Flow, NodeIndex, Overflow, Relay, Role, Scenario, Scheme, SetUp};
use shorthaul_tcp::{ConnectionConfig, Host, HostConfig};
use shorthaul_types::{PortId, Seed, Time};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// Puts the network of a scenario together.
pub(crate) fn build(scenario: &Scenario, seed: Seed) -> Network {
    let builder = Builder { scenario, seed, starts: scenario.starts(seed), address: &address_of };
    let mut ways = builder.ways();
    let cells = builder.cells(&mut ways);
    let mut patterns = BTreeMap::new();
    let mut nodes = Vec::with_capacity(scenario.nodes.len());
    for (index, routes) in Routes::of(scenario).into_iter().enumerate() {
        let station = builder.station(NodeIndex(index), &mut patterns);
        nodes.push(NodeState { station, routes, sent_bytes: 0, sent_packets: 0 });
    }
    let cross = scenario.cross.iter().map(|cross| CrossSource::new(cross, seed)).collect();
    Network::new(ways, nodes, cross, cells)
}

/// The rings of bytes that applications send, by the length of their pieces.
type Patterns = BTreeMap<u32, Arc<Pattern>>;

/// Puts a host of a scenario together with its applications, where nodes have other addresses.
pub(crate) fn build_host(
    scenario: &Scenario,
    seed: Seed,
    node: NodeIndex,
    address: &dyn Fn(NodeIndex) -> IpAddr,
) -> Result<AppHost, SimError> {
    let builder = Builder { scenario, seed, starts: scenario.starts(seed), address };
    match &scenario.nodes[node.0].role {
        Role::Host(scheme) => Ok(builder.app_host(node, scheme, &mut BTreeMap::new())),
        _ => Err(SimError::NoHost { name: scenario.nodes[node.0].name.clone() }),
    }
}

struct Builder<'a> {
    scenario: &'a Scenario,
    seed: Seed,
    starts: Vec<std::time::Duration>,
    address: &'a dyn Fn(NodeIndex) -> IpAddr,
}

impl Builder<'_> {
    fn ways(&self) -> Vec<DirectionState> {
        let mut ways = Vec::with_capacity(2 * self.scenario.links.len());
        for link in &self.scenario.links {
            let names = link.between.map(|NodeIndex(index)| self.scenario.nodes[index].name.as_str());
            for direction in [Direction::Up, Direction::Down] {
                let [from, to] = match direction {
                    Direction::Up => [0, 1],
                    Direction::Down => [1, 0],
                };
                let config = link.config(direction, self.seed);
                let seed = link.seed(self.seed).derive(match direction {
                    Direction::Up => "up",
                    Direction::Down => "down",
                });
                ways.push(DirectionState {
                    may_duplicate: config.duplicate > 0.0,
                    link: Link::new(config, seed),
                    name: format!("{}>{}", names[from], names[to]),
                    to: link.between[to],
                    port: self.port(link.between[to], link.between[from]),
                    mtu: link.mtu,
                    cell: None,
                });
            }
        }
        ways
    }

    /// The cells, with the `ways` to their users told of them.
    fn cells(&self, ways: &mut [DirectionState]) -> Vec<CellState> {
        let cell = |(index, cell): (usize, &CellDescription)| {
            let number =
                |(link, direction): (usize, Direction)| 2 * link + usize::from(direction == Direction::Down);
            let own: Vec<usize> = cell.ways.iter().copied().map(number).collect();
            for (user, way) in own.iter().enumerate() {
                ways[*way].cell = Some((index, user));
            }
            let seed = self.seed.derive("cell").derive(&cell.name);
            let channel = Cell::starting_at(Time::ZERO, cell.channel.clone(), seed);
            CellState { cell: channel, ways: own.into_iter().map(|way| way as u32).collect() }
        };
        self.scenario.cells.iter().enumerate().map(cell).collect()
    }

    /// The port of the machine at `node` that leads to its neighbour `from`.
    fn port(&self, node: NodeIndex, from: NodeIndex) -> PortId {
        match &self.scenario.nodes[node.0].role {
            Role::Gateway(gateway) if gateway.access == from => Gateway::ACCESS,
            Role::Gateway(_) => Gateway::WAN,
            Role::Shaper(shaper) if shaper.access == from => ShaperNode::ACCESS,
            Role::Shaper(_) => ShaperNode::WAN,
            _ => PortId(0),
        }
    }

    fn mtu(&self, node: NodeIndex) -> u32 {
        let mtus =
            self.scenario.links.iter().filter(|link| link.between.contains(&node)).map(|link| link.mtu);
        mtus.min().unwrap_or(1500)
    }

    /// The longest packet that all links of `node` to the neighbours that `which` chooses take.
    fn mtu_toward(&self, node: NodeIndex, which: impl Fn(NodeIndex) -> bool) -> u32 {
        let other = |between: [NodeIndex; 2]| if between[0] == node { between[1] } else { between[0] };
        let links = self.scenario.links.iter().filter(|link| link.between.contains(&node));
        links.filter(|link| which(other(link.between))).map(|link| link.mtu).min().unwrap_or(1500)
    }

    fn host(&self, node: NodeIndex) -> Host {
        let seed = self.seed.derive("host").derive(&self.scenario.nodes[node.0].name);
        let mut config = HostConfig::new((self.address)(node), seed);
        // a simulated host is never too small for its scenario
        config.backlog = usize::MAX;
        Host::new(config)
    }

    fn config(&self, node: NodeIndex, scheme: &Scheme, buffers: Buffers) -> Arc<ConnectionConfig> {
        connection_config(scheme, self.mtu(node), buffers)
    }

    fn station(&self, node: NodeIndex, patterns: &mut Patterns) -> Station {
        match &self.scenario.nodes[node.0].role {
            Role::Router => Station::Router,
            Role::Host(scheme) => Station::Host(Box::new(self.app_host(node, scheme, patterns))),
            Role::Relay(relay) => Station::Relay(Box::new(self.relay(node, relay))),
            Role::Shaper(shaper) => {
                let reflectors = shaper.autorate.iter().flat_map(|autorate| &autorate.reflectors);
                let reflectors = reflectors.map(|reflector| (self.address)(*reflector)).collect();
                let seed = self.seed.derive("shaper").derive(&self.scenario.nodes[node.0].name);
                Station::Shaper(Box::new(ShaperNode::new(shaper, (self.address)(node), reflectors, seed)))
            }
            Role::Gateway(gateway) => {
                let default = GatewayConfig::default();
                let toward_access = self.mtu_toward(node, |from| from == gateway.access);
                let toward_wan = self.mtu_toward(node, |from| from != gateway.access);
                let policies = gateway.policies([Some(toward_access), Some(toward_wan)]);
                let policies = policies.unwrap_or_else(|error| {
                    panic!("the policies were checked and are wrong nevertheless: {error}")
                });
                let config = GatewayConfig {
                    flow_buffer: gateway.flow_buffer.unwrap_or(default.flow_buffer),
                    hosts: gateway.hosts.resolve(&policies),
                    bottlenecks: gateway.bottlenecks.clone(),
                    traffic: gateway.traffic,
                    policies,
                    max_flows: default.max_flows.max(self.scenario.flows.len()),
                    hash_seed: self.seed.derive("gateway").0,
                    watches_buffers: self.scenario.measure.wants_buffers(),
                    ..default
                };
                let changes = gateway.bandwidth_changes.clone();
                let seed = self.seed.derive("lateness").derive(&self.scenario.nodes[node.0].name);
                let sleep = gateway.lateness.map(|lateness| Sleep::new(lateness, seed));
                let node = GatewayNode::new(config, changes, sleep)
                    .taken_over(&gateway.taken_over)
                    .killed(&gateway.killed);
                Station::Gateway(Box::new(node))
            }
        }
    }

    fn app_host(&self, node: NodeIndex, scheme: &Scheme, patterns: &mut Patterns) -> AppHost {
        let mut ends = Vec::new();
        // flows mostly have the scheme of their host: one configuration for all of them
        let shared = self.config(node, scheme, Buffers::of(scheme));
        for (number, flow) in self.scenario.flows.iter().enumerate() {
            for gives in [true, false] {
                if node != if gives { flow.from } else { flow.to } {
                    continue;
                }
                let config = match &flow.scheme {
                    Some(scheme) => self.config(node, scheme, Buffers::of(scheme)),
                    None => shared.clone(),
                };
                let unit = self.segment(flow);
                let pattern = patterns.entry(unit).or_insert_with(|| Arc::new(Pattern::new(unit))).clone();
                ends.push(FlowEnd {
                    flow: number as u32,
                    gives,
                    opens: (gives == flow.sender_opens).then(|| self.first_hop(number, flow)),
                    config,
                    pattern,
                    workload: flow.workload.clone(),
                    start: Time::ZERO + self.starts[number],
                    triggering: self.triggering(flow),
                    warm_up: Time::ZERO + self.scenario.warm_up,
                    seed: self.seed.derive("flow").derive(&flow.name),
                    report: EndReport::default(),
                });
            }
        }
        let wanted = self.scenario.measure.wants_buffers();
        AppHost::new(self.host(node), (self.address)(node), ends).watching(wanted)
    }

    /// The payload of a flow's full segments, as its sender sends them: both ends must know the same bytes.
    fn segment(&self, flow: &Flow) -> u32 {
        let scheme = match (&flow.scheme, &self.scenario.nodes[flow.from.0].role) {
            (Some(scheme), _) | (None, Role::Host(scheme)) => scheme,
            _ => return 1460,
        };
        let config = self.config(flow.from, scheme, Buffers::of(scheme));
        let timestamps = if config.profile.timestamps { 12 } else { 0 };
        config.mss.min(config.mtu.saturating_sub(40)).saturating_sub(timestamps)
    }

    /// The nodes that end the connections of a flow, in the order in which they are opened.
    fn stops(flow: &Flow) -> Vec<NodeIndex> {
        let mut stops: Vec<NodeIndex> =
            [flow.from].into_iter().chain(flow.via.iter().copied()).chain([flow.to]).collect();
        if !flow.sender_opens {
            stops.reverse();
        }
        stops
    }

    /// How long the opener of a flow takes to trigger its relays one after the other, all but the last: 1.5 round trips to
    /// each (CAS-3).
    fn triggering(&self, flow: &Flow) -> Duration {
        let stops = Self::stops(flow);
        if flow.set_up == SetUp::Parallel || stops.len() < 4 {
            return Duration::ZERO;
        }
        let round_trip = |relay: &NodeIndex| {
            let way = self.scenario.way(stops[0], *relay).unwrap_or_default();
            let both = |link: usize| {
                let link = &self.scenario.links[link];
                link.config(Direction::Up, self.seed).delay + link.config(Direction::Down, self.seed).delay
            };
            way.iter().map(|(link, _)| both(*link)).sum::<Duration>()
        };
        stops[1..stops.len() - 2].iter().map(round_trip).sum::<Duration>().mul_f64(1.5)
    }

    fn first_hop(&self, number: usize, flow: &Flow) -> SocketAddr {
        SocketAddr::new((self.address)(Self::stops(flow)[1]), port_of(number as u32))
    }

    fn relay(&self, node: NodeIndex, relay: &Relay) -> RelayNode {
        // both legs' buffers are bounded by Cmax: the first by the window that the relay sets, the
        // second because nothing else gets in; the scheme may bound the window further
        let receive = match relay.overflow {
            Overflow::Close => relay.buffer.min(relay.scheme.receive_buffer),
            // its window says nothing of the room
            Overflow::Drop => relay.scheme.receive_buffer,
        };
        let buffers = Buffers { send: relay.buffer, receive };
        let shared = self.config(node, &relay.scheme, buffers);
        let mut hops = Vec::new();
        for (number, flow) in self.scenario.flows.iter().enumerate() {
            let stops = Self::stops(flow);
            let Some(at) = stops[..stops.len() - 1].iter().skip(1).position(|stop| *stop == node) else {
                continue;
            };
            let config = match &flow.scheme {
                Some(scheme) => self.config(node, scheme, buffers),
                None => shared.clone(),
            };
            let hop =
                NextHop { flow: number as u32, to: (self.address)(stops[at + 2]), config: config.clone() };
            hops.push((hop, config));
        }
        let seed = self.seed.derive("service").derive(&self.scenario.nodes[node.0].name);
        let service = Service::new(relay, seed);
        RelayNode::new(self.host(node), (self.address)(node), hops, relay, service)
            .watching(self.scenario.measure.wants_buffers())
    }
}
