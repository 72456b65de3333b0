//! From a network that runs to numbers.
use crate::application::{EndReport, Opening, Transfer, seconds};
use crate::buffers::{Seen, buffers, gateway_buffers};
use crate::cake::Cake;
use crate::host::flow_of_port;
use crate::network::{DirectionState, Network, NodeState};
use crate::station::Station;
use shorthaul_link::{LinkStats, QueueLimit, Rate};
use shorthaul_observe::{FlowOutcome, LinkObservation, LinkOutcome, Mean, Observations, Sent, TimeSeries};
use shorthaul_proxy::{FlowInfo, Gateway, LegInfo};
use shorthaul_scenario::{Flow, Metric, Role, Scenario, Series, Workload};
use shorthaul_tcp::{Connection, SenderStats};
use shorthaul_types::Time;
use std::collections::BTreeMap;

/// Looks at the network at regular times.
pub(crate) struct Probe<'a> {
    scenario: &'a Scenario,
    series: BTreeMap<(Series, String), Vec<(f64, f64)>>,
    warm_up: Time,
    wants_rtt: bool,
    wants_queues: bool,
    wants_percentile: bool,
    wants_held: bool,
    wants_limited: bool,
    wants_buffers: bool,
    /// Of buffers of gateways, by flow, gateway and connection: what was seen last, for a flow that has ended is gone.
    of_gateways: Seen,
    /// Payload held by gateways.
    held: Mean,
    held_most: f64,
    /// Seconds that senders were limited by their windows.
    limited: f64,
    /// The smallest window that one of them was offered.
    smallest_window: Option<u64>,
    rtt: Mean,
    /// Of every way: packets and seconds in its queue.
    queues: Vec<(Mean, Mean)>,
    /// What a packet would have waited in all queues, there and back, in seconds.
    waits: Vec<f64>,
}

/// The simulator's hosts speak IPv4 without options.
const IPV4_HEADER: u64 = 20;

impl<'a> Probe<'a> {
    pub fn new(scenario: &'a Scenario) -> Self {
        let wants = |metrics: &[Metric]| metrics.iter().any(|m| scenario.measure.metrics.contains(m));
        Probe {
            scenario,
            series: BTreeMap::new(),
            warm_up: Time::ZERO + scenario.warm_up,
            wants_rtt: wants(&[Metric::Rtt]),
            wants_queues: wants(&[Metric::QueueLength, Metric::QueueDelay]),
            wants_percentile: wants(&[Metric::QueueDelay95]),
            wants_held: wants(&[Metric::Held, Metric::HeldMost]),
            wants_limited: wants(&[Metric::WindowLimited, Metric::SmallestWindow]),
            wants_buffers: scenario.measure.wants_buffers(),
            of_gateways: Seen::new(),
            held: Mean::default(),
            held_most: 0.0,
            limited: 0.0,
            smallest_window: None,
            rtt: Mean::default(),
            queues: vec![(Mean::default(), Mean::default()); 2 * scenario.links.len()],
            waits: Vec::new(),
        }
    }

    /// Takes a sample of everything that is wanted.
    pub fn sample(&mut self, network: &Network) {
        let now = network.now;
        if now >= self.warm_up {
            if self.wants_queues {
                for (way, (packets, delay)) in network.ways.iter().zip(&mut self.queues) {
                    packets.add(network.queue_len(way) as f64);
                    delay.add(network.queue_delay(way));
                }
            }
            if self.wants_percentile {
                let links = network.ways.iter().map(|way| network.queue_delay(way)).sum::<f64>();
                let shapers = shaper_queues(self.scenario, network).map(|(_, queue)| queue.wait());
                self.waits.push(links + shapers.sum::<std::time::Duration>().as_secs_f64());
            }
            if self.wants_held {
                let held = held_by_gateways(network) as f64;
                self.held.add(held);
                self.held_most = self.held_most.max(held);
            }
            if self.wants_limited {
                let limited = host_senders(network).filter(|(_, connection)| is_window_limited(connection));
                self.limited += limited.count() as f64 * self.scenario.measure.every.as_secs_f64();
                let sending = host_senders(network).map(|(_, connection)| connection.sender());
                let windows =
                    sending.filter(|sender| sender.in_flight() > 0).map(|sender| sender.peer_window());
                self.smallest_window = self.smallest_window.into_iter().chain(windows).min();
            }
            if self.wants_rtt {
                for (_, connection) in host_senders(network) {
                    self.rtt.add(connection.sender().rtt().srtt().map_or(0.0, |srtt| srtt.as_secs_f64()));
                }
            }
        }
        if self.wants_buffers {
            self.of_gateways.extend(gateway_buffers(self.scenario, network));
        }
        for index in 0..self.scenario.measure.series.len() {
            self.sample_series(self.scenario.measure.series[index], network);
        }
    }

    fn sample_series(&mut self, series: Series, network: &Network) {
        let at = network.now.as_secs_f64();
        let flows = &self.scenario.flows;
        let mut put = |subject: String, value: f64| {
            self.series.entry((series, subject)).or_default().push((at, value));
        };
        match series {
            Series::Queue => {
                for way in &network.ways {
                    put(way.name.clone(), network.queue_len(way) as f64);
                }
                for (name, queue) in shaper_queues(self.scenario, network) {
                    put(name, queue.len() as f64);
                }
            }
            Series::QueueDelay => {
                for way in &network.ways {
                    put(way.name.clone(), network.queue_delay(way));
                }
                for (name, queue) in shaper_queues(self.scenario, network) {
                    put(name, queue.wait().as_secs_f64());
                }
            }
            Series::Delivered => {
                for (flow, end) in ends(network).filter(|(_, gives, _)| !gives).map(|(f, _, end)| (f, end)) {
                    put(flows[flow as usize].name.clone(), end.delivered as f64);
                }
            }
            Series::Buffer => {
                for (node, state) in self.scenario.nodes.iter().zip(&network.nodes) {
                    if let Station::Gateway(gateway) = &state.station {
                        put(node.name.clone(), held(&gateway.gateway) as f64);
                    }
                }
                for (node, state) in self.scenario.nodes.iter().zip(&network.nodes) {
                    let Station::Relay(relay) = &state.station else { continue };
                    for (flow, held) in relay.held() {
                        put(format!("{}@{}", flows[flow as usize].name, node.name), held as f64);
                    }
                }
            }
            Series::Cwnd
            | Series::Ssthresh
            | Series::Sequence
            | Series::Acknowledged
            | Series::Rtt
            | Series::InFlight => {
                for (flow, connection) in host_senders(network) {
                    if let Some(value) = value_of(series, connection) {
                        put(flows[flow as usize].name.clone(), value);
                    }
                }
                for (flow, node, leg) in gateway_legs(self.scenario, network) {
                    if let Some(value) = leg_value(series, &leg) {
                        put(format!("{}@{node}", flows[flow].name), value);
                    }
                }
                for (node, state) in self.scenario.nodes.iter().zip(&network.nodes) {
                    let Station::Relay(relay) = &state.station else { continue };
                    for (flow, connection) in relay.senders() {
                        let has_sent = connection.sender().nxt() > 1;
                        if let Some(value) = value_of(series, connection).filter(|_| has_sent) {
                            put(format!("{}@{}", flows[flow as usize].name, node.name), value);
                        }
                    }
                }
            }
        }
    }

    /// What was seen of the run, which has ended.
    pub fn observations(self, scenario: &Scenario, network: &mut Network) -> Observations {
        let flows = flow_outcomes(scenario, network);
        check(scenario, network);
        let total = total_sent(network);
        let sent = Sent {
            by_hosts: Some(sum_of(network, |station| matches!(station, Station::Host(_)))),
            by_relays: Some(sum_of(network, |station| matches!(station, Station::Relay(_)))),
            tcp_by_senders: Some(tcp_bytes_of_senders(scenario, network)),
            retransmitted: Some(total.retransmitted),
            timeouts: Some(total.timeouts.into()),
            spurious_timeouts: Some(total.spurious_timeouts.into()),
            undone: Some(total.undone.into()),
        };
        let wants_use = scenario.measure.metrics.contains(&Metric::Utilization);
        let until = network.now;
        let buffers =
            if self.wants_buffers { buffers(scenario, network, &self.of_gateways) } else { Vec::new() };
        let links = network.ways.iter().zip(self.queues);
        let series = self.series.into_iter();
        Observations {
            flows,
            links: links
                .map(|(way, queue)| link_observation(network, way, queue, wants_use.then_some(until)))
                .collect(),
            buffers,
            series: series
                .map(|((series, subject), points)| TimeSeries { series, subject, points })
                .collect(),
            sent,
            rtt: self.rtt,
            window_limited: Some(self.limited),
            smallest_window: self.smallest_window,
            queue_delay_95: percentile_95(self.waits),
            held: self.held,
            held_most: Some(self.held_most),
            harm_verdicts: Some(harm_verdicts(network)),
            relay_drops: Some(relay_drops(network)),
            ended_at: network.now.as_secs_f64(),
            events: network.events,
            trace_hash: network.hash.value(),
            problems: network.problems.sentences(),
            fidelity: None,
            bounds: None,
        }
    }
}

/// What 95 of 100 values do not exceed.
fn percentile_95(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get((values.len() * 95 / 100).min(values.len().saturating_sub(1))).copied()
}

/// What a gateway holds: payload of the flows that it splits, and the packets that interceptors keep of others.
fn held(gateway: &Gateway) -> u64 {
    let of = |flow: FlowInfo| {
        let legs = flow.legs.iter().flatten().map(|leg| leg.buffered).sum::<u64>();
        legs + flow.observed.map_or(0, |observed| observed.kept)
    };
    gateway.flows().map(of).sum()
}

fn harm_verdicts(network: &Network) -> u64 {
    let of = |node: &NodeState| match &node.station {
        Station::Gateway(gateway) => gateway.gateway.counters().gain_harms,
        _ => 0,
    };
    network.nodes.iter().map(of).sum()
}

fn relay_drops(network: &Network) -> u64 {
    let of = |node: &NodeState| match &node.station {
        Station::Relay(relay) => relay.dropped,
        _ => 0,
    };
    network.nodes.iter().map(of).sum()
}

fn held_by_gateways(network: &Network) -> u64 {
    let of = |node: &NodeState| match &node.station {
        Station::Gateway(gateway) => held(&gateway.gateway),
        _ => 0,
    };
    network.nodes.iter().map(of).sum()
}

/// Whether data waits that congestion control would let go and the receiver's window does not.
pub fn is_window_limited(connection: &Connection) -> bool {
    connection.sender().is_blocked()
}

/// A value of a sender; `None` for a round-trip time that is not yet known.
fn value_of(series: Series, connection: &Connection) -> Option<f64> {
    let sender = connection.sender();
    Some(match series {
        Series::Cwnd => sender.control().window() as f64,
        Series::Ssthresh => sender.control().ssthresh() as f64,
        Series::Sequence => sender.nxt().saturating_sub(1) as f64,
        Series::Acknowledged => sender.una().saturating_sub(1) as f64,
        Series::Rtt => sender.rtt().srtt()?.as_secs_f64(),
        _ => sender.in_flight() as f64,
    })
}

/// The same of what a gateway sends.
fn leg_value(series: Series, leg: &LegInfo) -> Option<f64> {
    Some(match series {
        Series::Cwnd => leg.window as f64,
        Series::Ssthresh => leg.ssthresh as f64,
        Series::Sequence => (leg.delivered + leg.in_flight) as f64,
        Series::Acknowledged => leg.delivered as f64,
        Series::Rtt => leg.srtt?.as_secs_f64(),
        _ => leg.in_flight as f64,
    })
}

/// Of every flow that a gateway splits: its number, the gateway, and the leg in the direction of the data.
fn gateway_legs<'a>(
    scenario: &'a Scenario,
    network: &'a Network,
) -> impl Iterator<Item = (usize, &'a str, LegInfo)> {
    scenario.nodes.iter().zip(&network.nodes).flat_map(move |(node, state)| {
        let legs: Vec<_> = match &state.station {
            Station::Gateway(gateway) => {
                let leg = |info: FlowInfo| {
                    let flow =
                        flow_of_port(info.key.dst.port()).filter(|flow| *flow < scenario.flows.len())?;
                    let [to_server, to_client] = info.legs?;
                    Some((flow, if scenario.flows[flow].sender_opens { to_server } else { to_client }))
                };
                gateway.gateway.flows().filter_map(leg).collect()
            }
            _ => Vec::new(),
        };
        legs.into_iter().map(|(flow, leg)| (flow, node.name.as_str(), leg))
    })
}

/// The queues of all shapers, with names such as `router:down`.
fn shaper_queues<'a>(
    scenario: &'a Scenario,
    network: &'a Network,
) -> impl Iterator<Item = (String, &'a Cake)> {
    scenario.nodes.iter().zip(&network.nodes).flat_map(|(node, state)| {
        let queues = match &state.station {
            Station::Shaper(shaper) => Some(&shaper.queues),
            _ => None,
        };
        let named = |(queue, way): (&'a Cake, &str)| (format!("{}:{way}", node.name), queue);
        queues.into_iter().flat_map(move |queues| queues.iter().zip(["down", "up"]).map(named))
    })
}

/// The ends of all flows: the flow's number, whether it gives, and what it has seen.
fn ends(network: &Network) -> impl Iterator<Item = (u32, bool, &EndReport)> {
    network.nodes.iter().flat_map(|node| match &node.station {
        Station::Host(host) => host.ends.iter().map(|end| (end.flow, end.gives, &end.report)).collect(),
        _ => Vec::new(),
    })
}

fn host_senders(network: &Network) -> impl Iterator<Item = (u32, &Connection)> {
    network.nodes.iter().flat_map(|node| match &node.station {
        Station::Host(host) => host.senders().collect(),
        _ => Vec::new(),
    })
}

fn total_sent(network: &Network) -> SenderStats {
    let mut sum = SenderStats::default();
    for node in &network.nodes {
        match &node.station {
            Station::Host(host) => crate::application::add(&mut sum, host.sent()),
            Station::Relay(relay) => crate::application::add(&mut sum, relay.sent()),
            _ => {}
        }
    }
    sum
}

fn sum_of(network: &Network, which: impl Fn(&Station) -> bool) -> u64 {
    network.nodes.iter().filter(|node| which(&node.station)).map(|node| node.sent_bytes).sum()
}

/// What the hosts that data comes from have sent, IP headers left out.
fn tcp_bytes_of_senders(scenario: &Scenario, network: &Network) -> u64 {
    let sends = |index: usize| scenario.flows.iter().any(|flow| flow.from.0 == index);
    let senders = network.nodes.iter().enumerate().filter(|(index, _)| sends(*index));
    senders.map(|(_, node)| node.sent_bytes - IPV4_HEADER * node.sent_packets).sum()
}

fn flow_outcomes(scenario: &Scenario, network: &Network) -> Vec<FlowOutcome> {
    let mut reports: Vec<[Option<&EndReport>; 2]> = vec![[None; 2]; scenario.flows.len()];
    for (flow, gives, report) in ends(network) {
        reports[flow as usize][usize::from(gives)] = Some(report);
    }
    let outcome = |(flow, reports): (&Flow, &[Option<&EndReport>; 2])| {
        let [Some(receiver), Some(sender)] = *reports else { return None };
        let began = sender.connections.iter().chain(&receiver.connections).map(|opening| opening.begun).min();
        let from = began.unwrap_or(network.now).max(Time::ZERO + scenario.warm_up);
        let until = if receiver.done { receiver.last_delivery.unwrap_or(network.now) } else { network.now };
        let time = seconds(from, until);
        let (opener, listener) = if flow.sender_opens { (sender, receiver) } else { (receiver, sender) };
        let set_up = |(opened, accepted): (&Opening, &Opening)| {
            Some(seconds(opened.begun, opened.established?.max(accepted.established?)))
        };
        // A transfer that has a connection of its own begins with the first SYN, though its receiver may not have sent that.
        let begun = |number: usize, transfer: &Transfer| match flow.workload {
            Workload::Requests { .. } => transfer.started,
            _ => opener.connections.get(number).map_or(transfer.started, |opening| opening.begun),
        };
        let transfers = receiver.transfers.iter().enumerate();
        Some(FlowOutcome {
            name: flow.name.clone(),
            delivered: receiver.delivered,
            goodput: if time > 0.0 { receiver.measured as f64 * 8.0 / time } else { 0.0 },
            transfers: transfers.map(|(number, t)| seconds(begun(number, t), t.ended)).collect(),
            set_ups: opener.connections.iter().zip(&listener.connections).filter_map(set_up).collect(),
            ended: receiver.done,
        })
    };
    scenario.flows.iter().zip(&reports).filter_map(outcome).collect()
}

fn link_observation(
    network: &Network,
    way: &DirectionState,
    (packets, delay): (Mean, Mean),
    used_until: Option<Time>,
) -> LinkObservation {
    let stats = way.link.stats();
    // what the cell before it dropped never came to the link
    let cell = network.cell_stats(way).copied().unwrap_or_default();
    let outcome = LinkOutcome {
        name: way.name.clone(),
        offered: if way.cell.is_some() { cell.offered } else { stats.offered },
        delivered: stats.delivered,
        delivered_bytes: stats.delivered_bytes.0,
        queue_full: stats.dropped.queue_full + cell.dropped.queue_full,
        lost: stats.dropped.loss + cell.dropped.loss,
        outage: stats.dropped.outage,
        max_queue: stats.max_queue.max(cell.max_queue) as u64,
    };
    let config = way.link.config();
    let rate = match config.rate {
        Rate::Fixed(rate) => Some(rate),
        _ => None,
    };
    let varies = matches!(config.rate, Rate::Schedule { .. } | Rate::Trace(_));
    let capacity = used_until.filter(|_| varies).and_then(|until| way.link.capacity(until));
    let capacity = capacity.map(|bytes| bytes.0);
    LinkObservation { outcome, rate, capacity, queue_packets: packets, queue_delay: delay }
}

/// Whether more was in a queue than its limit allows.
fn exceeds(stats: &LinkStats, limit: QueueLimit) -> bool {
    match limit {
        QueueLimit::Unlimited => false,
        QueueLimit::Packets(limit) => stats.max_queue > limit,
        QueueLimit::Bytes(limit) => stats.max_queue_bytes.0 > limit,
    }
}

/// What must hold whatever the scenario: nothing lost or made up, in order, within bounds.
fn check(scenario: &Scenario, network: &mut Network) {
    let mut under_way = 0;
    for way in &network.ways {
        let (stats, inside) = (way.link.stats(), way.link.len() as u64);
        under_way += inside;
        let out = stats.delivered + stats.dropped.total() + inside;
        if stats.offered + stats.duplicated != out {
            network
                .problems
                .add("packets not conserved", || format!("{}: {stats:?}, {inside} inside", way.name));
        }
        if exceeds(stats, way.link.config().queue) {
            network.problems.add("a queue above its limit", || way.name.clone());
        }
    }
    for (name, stats, inside, limit) in network.cell_queues() {
        under_way += inside;
        if stats.offered != stats.delivered + stats.dropped.total() + inside {
            network
                .problems
                .add("packets not conserved", || format!("cell to {name}: {stats:?}, {inside} inside"));
        }
        if exceeds(&stats, limit) {
            network.problems.add("a queue above its limit", || format!("cell to {name}"));
        }
    }
    if network.packets.len() as u64 > under_way {
        let left = network.packets.len();
        network.problems.add("packets forgotten", || format!("{left} known, {under_way} inside links"));
    }
    let mut found: Vec<(&'static str, String)> = Vec::new();
    for (flow, gives, report) in ends(network) {
        let flow = &scenario.flows[flow as usize];
        if let Some(corrupt) = &report.corrupt {
            found.push(("data not as it was sent", format!("{}: {corrupt}", flow.name)));
        }
        for failure in &report.failures {
            found.push(("a connection failed", format!("{}: {failure}", flow.name)));
        }
        let complete = promised(&flow.workload).is_none_or(|promised| promised == report.delivered);
        if !gives && report.done && report.failures.is_empty() && !complete {
            found.push(("bytes not conserved", format!("{}: {} delivered", flow.name, report.delivered)));
        }
    }
    for (node, state) in scenario.nodes.iter().zip(&network.nodes) {
        let (Station::Relay(relay), Role::Relay(spec)) = (&state.station, &node.role) else { continue };
        for (flow, held) in relay.overfull() {
            let flow = &scenario.flows[flow as usize].name;
            found.push((
                "a relay above its Cmax",
                format!("{flow} at {}: {held} of {}", node.name, spec.buffer),
            ));
        }
        for failure in &relay.failures {
            found.push(("a relay's connection failed", format!("{}: {failure}", node.name)));
        }
    }
    for (kind, example) in found {
        network.problems.add(kind, || example);
    }
}

/// How many bytes a workload delivers if it ends.
fn promised(workload: &Workload) -> Option<u64> {
    match workload {
        Workload::Bulk(size) => Some(size.0),
        Workload::Downloads { size, repeats, .. } => Some(size.0 * u64::from(*repeats)),
        Workload::Requests { response, count, .. } => Some(response.0 * u64::from(*count)),
        Workload::Persistent { burst, count, .. } => Some(burst.0 * u64::from(*count)),
        Workload::Unlimited(_) | Workload::OnOff { .. } => None,
    }
}
