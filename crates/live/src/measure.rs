//! From what was seen in a live run to what every engine observes.
use std::time::Duration;

use shorthaul_lab::workload::{TcpSample, TransferReport};
use shorthaul_lab::{DirectionReport, LinkReport, Look, TcpCounters};
use shorthaul_link::{Direction, Rate};
use shorthaul_observe::{
    BufferOutcome, Fidelity, FlowOutcome, LinkObservation, LinkOutcome, Observations, Sent, TimeSeries,
};
use shorthaul_proxy::Mode;
use shorthaul_scenario::{Flow, Gateway, NodeIndex, Role, Scenario, Series, Workload};
use shorthaul_types::Seed;

use crate::flow::{Flown, interval};

/// Everything that was seen of a run.
pub struct Run<'a> {
    pub scenario: &'a Scenario,
    pub seed: u64,
    /// In the scenario's order.
    pub flows: Vec<Flown>,
    /// The links before the first flow, while they went on, and after the last.
    pub before: Look,
    pub looks: Vec<Look>,
    /// What the gateways held: seconds and bytes.
    pub held: Vec<(f64, u64)>,
    pub after: Look,
    /// What the kernels of the hosts that give data counted before and after.
    pub counted: Vec<[TcpCounters; 2]>,
    /// When the last flow had ended, in seconds.
    pub ended_at: f64,
    /// The busy share of the processors.
    pub busy: f64,
    /// How long the gateways stood waiting for a processor.
    pub gateways_waited: Duration,
}

/// One direction of a link, before and after.
struct LinkDirection {
    name: String,
    from: NodeIndex,
    link: usize,
    direction: Direction,
    before: DirectionReport,
    after: DirectionReport,
}

fn direction_of(report: &LinkReport, direction: Direction) -> &DirectionReport {
    match direction {
        Direction::Up => &report.up,
        Direction::Down => &report.down,
    }
}

impl Run<'_> {
    pub fn observations(&self) -> Observations {
        let ways = self.ways();
        let flows = self.scenario.flows.iter().zip(&self.flows);
        let last = || self.flows.iter().flat_map(Flown::last_samples);
        let window =
            |sample: &TcpSample| sample.peer_window.filter(|_| sample.unacked > 0).map(|window| window.0);
        Observations {
            flows: flows.map(|(flow, flown)| self.flow(flow, flown)).collect(),
            links: ways.iter().map(|way| self.link(way)).collect(),
            series: self.series(&ways),
            sent: self.sent(&ways),
            rtt: self.samples().map(|sample| sample.rtt.as_secs_f64()).collect(),
            window_limited: Some(last().map(|sample| sample.window_limited.as_secs_f64()).sum()),
            smallest_window: self.samples().filter_map(window).min(),
            queue_delay_95: None,
            held: self.held().collect(),
            held_most: self.held().reduce(f64::max),
            harm_verdicts: None,
            relay_drops: None,
            buffers: self.buffers(),
            ended_at: self.ended_at,
            events: 0,
            trace_hash: 0,
            problems: self.problems(),
            fidelity: Some(self.fidelity(&ways)),
            bounds: None,
        }
    }

    fn ways(&self) -> Vec<LinkDirection> {
        let mut ways = Vec::new();
        for (index, link) in self.scenario.links.iter().enumerate() {
            for direction in [Direction::Up, Direction::Down] {
                let [first, second] = link.between;
                let (from, to) = if direction == Direction::Up { (first, second) } else { (second, first) };
                let name = |NodeIndex(index): NodeIndex| self.scenario.nodes[index].name.as_str();
                ways.push(LinkDirection {
                    name: format!("{}>{}", name(from), name(to)),
                    from,
                    link: index,
                    direction,
                    before: *direction_of(&self.before.links[index], direction),
                    after: *direction_of(&self.after.links[index], direction),
                });
            }
        }
        ways
    }

    fn warm_up(&self) -> f64 {
        self.scenario.warm_up.as_secs_f64()
    }

    fn flow(&self, flow: &Flow, flown: &Flown) -> FlowOutcome {
        let interval = interval(self.scenario);
        let (mut delivered, mut measured) = (0, 0);
        for (begun, report) in &flown.transfers {
            delivered += report.received.0;
            for (slot, bytes) in report.arrivals.iter().enumerate() {
                let arrived = *begun + interval * (slot as u32 + 1);
                if arrived > self.scenario.warm_up {
                    measured += bytes.0;
                }
            }
        }
        let begun = flown.transfers.first().map_or(self.ended_at, |(begun, _)| begun.as_secs_f64());
        let ended = flown.transfers.last().filter(|_| flown.ended);
        let until = ended.map_or(self.ended_at, |(begun, report)| (*begun + report.completed).as_secs_f64());
        let time = until - begun.max(self.warm_up());
        let cut_short = usize::from(!flown.ended && flown.failure.is_none());
        let complete = flown.transfers.len().saturating_sub(cut_short);
        FlowOutcome {
            name: flow.name.clone(),
            delivered,
            goodput: if time > 0.0 { measured as f64 * 8.0 / time } else { 0.0 },
            transfers: match flow.workload {
                Workload::Requests { .. } => {
                    flown.transfers.iter().flat_map(|(_, report)| responses(report)).collect()
                }
                _ => flown.transfers[..complete].iter().map(|(_, r)| r.completed.as_secs_f64()).collect(),
            },
            set_ups: flown
                .transfers
                .iter()
                .map(|(_, report)| report.accepted.max(report.connected).as_secs_f64())
                .collect(),
            ended: flown.ended,
        }
    }

    /// What the gateways held after the warm-up, in bytes.
    fn held(&self) -> impl Iterator<Item = f64> + '_ {
        self.held.iter().filter(|(at, _)| *at >= self.warm_up()).map(|(_, bytes)| *bytes as f64)
    }

    /// All samples of all senders after the warm-up.
    fn samples(&self) -> impl Iterator<Item = &TcpSample> {
        let transfers = self.flows.iter().flat_map(|flown| &flown.transfers);
        transfers.flat_map(|(begun, report)| {
            report.samples.iter().filter(|sample| *begun + sample.at >= self.scenario.warm_up)
        })
    }

    /// What the kernels of the hosts that give data counted under these names.
    fn counted(&self, names: &[&str]) -> Option<u64> {
        let grown = |[before, after]: &[TcpCounters; 2]| -> Option<u64> {
            names.iter().map(|name| after.grown(before, name)).sum()
        };
        self.counted.iter().map(grown).sum()
    }

    fn sent(&self, ways: &[LinkDirection]) -> Sent {
        let last = || self.flows.iter().flat_map(Flown::last_samples);
        let by = |sends: &dyn Fn(NodeIndex) -> bool, of: fn(&LinkDirection) -> u64| -> Option<u64> {
            Some(ways.iter().filter(|way| sends(way.from)).map(of).sum())
        };
        let role = |node: NodeIndex| &self.scenario.nodes[node.0].role;
        Sent {
            by_hosts: by(&|node| matches!(role(node), Role::Host(_)), LinkDirection::offered_bytes),
            by_relays: by(&|node| matches!(role(node), Role::Relay(_)), LinkDirection::offered_bytes),
            tcp_by_senders: by(
                &|node| self.scenario.flows.iter().any(|flow| flow.from == node),
                LinkDirection::offered_tcp_bytes,
            ),
            retransmitted: Some(last().map(|sample| sample.retransmitted.0).sum()),
            timeouts: last().map(|sample| sample.timeouts.map(u64::from)).sum(),
            spurious_timeouts: self.counted(&["TcpExt.TCPLossUndo"]),
            undone: self.counted(&[
                "TcpExt.TCPLossUndo",
                "TcpExt.TCPFullUndo",
                "TcpExt.TCPPartialUndo",
                "TcpExt.TCPDSACKUndo",
            ]),
        }
    }

    fn link(&self, way: &LinkDirection) -> LinkObservation {
        let looks = || {
            let looks = self.looks.iter().filter(|look| look.seconds >= self.warm_up());
            looks.map(|look| direction_of(&look.links[way.link], way.direction))
        };
        let rate = match self.scenario.links[way.link].config(way.direction, Seed(self.seed)).rate {
            Rate::Fixed(rate) => Some(rate),
            _ => None,
        };
        LinkObservation {
            outcome: way.outcome(),
            rate,
            capacity: None,
            queue_packets: looks().map(|way| way.queue_packets as f64).collect(),
            queue_delay: looks().map(|way| way.queue_delay.as_secs_f64()).collect(),
        }
    }

    /// How long the buffers of relays were empty and full, as they wrote it: of each flow, in the order in which its data passes them.
    fn buffers(&self) -> Vec<BufferOutcome> {
        let mut all = Vec::new();
        for (flow, flown) in self.scenario.flows.iter().zip(&self.flows) {
            for (node, times) in flow.via.iter().zip(&flown.buffers) {
                if !times.watched.is_zero() {
                    let node = self.scenario.nodes[node.0].name.clone();
                    all.push(BufferOutcome { flow: flow.name.clone(), node, times: *times });
                }
            }
        }
        all
    }

    fn series(&self, ways: &[LinkDirection]) -> Vec<TimeSeries> {
        let mut all = Vec::new();
        for &series in &self.scenario.measure.series {
            let of_queue: Option<fn(&DirectionReport) -> f64> = match series {
                Series::Queue => Some(|way| way.queue_packets as f64),
                Series::QueueDelay => Some(|way| way.queue_delay.as_secs_f64()),
                _ => None,
            };
            if let Some(of_queue) = of_queue {
                for way in ways {
                    let value = |look: &Look| of_queue(direction_of(&look.links[way.link], way.direction));
                    let points = self.looks.iter().map(|look| (look.seconds, value(look))).collect();
                    all.push(TimeSeries { series, subject: way.name.clone(), points });
                }
                continue;
            }
            if series == Series::Buffer && !self.held.is_empty() {
                let points = self.held.iter().map(|(at, bytes)| (*at, *bytes as f64)).collect();
                all.push(TimeSeries { series, subject: "gateways".into(), points });
                continue;
            }
            for (flow, flown) in self.scenario.flows.iter().zip(&self.flows) {
                let points = match series {
                    Series::Delivered => self.delivered(flown),
                    _ => sampled(series, flown),
                };
                if !points.is_empty() {
                    all.push(TimeSeries { series, subject: flow.name.clone(), points });
                }
            }
        }
        all
    }

    fn delivered(&self, flown: &Flown) -> Vec<(f64, f64)> {
        let interval = interval(self.scenario);
        let mut sum = 0;
        let mut points = Vec::new();
        for (begun, report) in &flown.transfers {
            for (slot, bytes) in report.arrivals.iter().enumerate() {
                sum += bytes.0;
                points.push(((*begun + interval * (slot as u32 + 1)).as_secs_f64(), sum as f64));
            }
        }
        points
    }

    fn fidelity(&self, ways: &[LinkDirection]) -> Fidelity {
        let missed = |look: &Look| look.links.iter().map(|link| link.missed).sum::<u64>();
        let refused: u64 = ways.iter().map(|way| way.after.refused - way.before.refused).sum();
        Fidelity {
            late_p99: ways.iter().map(|way| way.after.lateness.p99.as_secs_f64()).fold(0.0, f64::max),
            dropped: refused + missed(&self.after).saturating_sub(missed(&self.before)),
            busy: self.busy,
            starved: self.starved(),
        }
    }

    /// The largest share of its time that a program of the run stood waiting for a processor.
    fn starved(&self) -> f64 {
        let transfers = self.flows.iter().flat_map(|flown| &flown.transfers).map(|(_, report)| {
            report.waited.as_secs_f64() / report.completed.as_secs_f64().max(f64::MIN_POSITIVE)
        });
        transfers.fold(self.gateways_waited.as_secs_f64() / self.ended_at, f64::max)
    }

    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for (flow, flown) in self.scenario.flows.iter().zip(&self.flows) {
            problems.extend(flown.failure.as_ref().map(|why| format!("flow `{}` failed: {why}", flow.name)));
            if let Some(expected) = self.first_leg(flow) {
                // What a kernel measures on the first leg is nearer to that leg than to the whole way.
                let min = flown.last_samples().map(|sample| sample.min_rtt).min();
                if min.is_some_and(|min| min > expected) {
                    problems.push(format!(
                        "flow `{}`: the gateway passed the connection on without splitting it",
                        flow.name
                    ));
                }
            }
        }
        problems
    }

    /// Where a gateway that answers at once stands in the way of a flow: the round trip that is half-way between that to the
    /// gateway and that to the far end. `None` where there is no gateway, the two differ too little, or other
    /// flows fill the queues, behind which a round trip to the gateway may look like one to the far end.
    fn first_leg(&self, flow: &Flow) -> Option<Duration> {
        if self.scenario.flows.len() > 1 {
            return None;
        }
        let (mut here, mut leg, mut whole) = (flow.from, None, Duration::ZERO);
        for (index, direction) in self.scenario.way(flow.from, flow.to)? {
            if matches!(&self.scenario.nodes[here.0].role, Role::Gateway(gateway) if answers_at_once(gateway))
            {
                leg = leg.or(Some(whole));
            }
            let link = &self.scenario.links[index];
            whole += [Direction::Up, Direction::Down]
                .map(|way| link.config(way, Seed(self.seed)).delay)
                .iter()
                .sum::<Duration>();
            here = link.between[usize::from(direction == Direction::Up)];
        }
        let leg = leg?;
        (whole - leg > Duration::from_millis(4)).then(|| (whole + leg) / 2)
    }
}

/// Whether a gateway splits whatever passes, and acknowledges it as it arrives: then the first leg is all that a sender measures.
fn answers_at_once(gateway: &Gateway) -> bool {
    let policies = gateway.policies([None; 2]).unwrap_or_default();
    policies.iter().all(|policy| policy.mode == Mode::Split && policy.senders.ack.is_none())
}

impl LinkDirection {
    fn offered_bytes(&self) -> u64 {
        self.after.link.offered_bytes.0 - self.before.link.offered_bytes.0
    }

    /// Without the headers of IPv4, which the simulated and the live hosts speak.
    fn offered_tcp_bytes(&self) -> u64 {
        let packets = self.after.link.offered - self.before.link.offered;
        self.offered_bytes().saturating_sub(20 * packets)
    }

    fn outcome(&self) -> LinkOutcome {
        let (before, after) = (&self.before.link, &self.after.link);
        LinkOutcome {
            name: self.name.clone(),
            offered: after.offered - before.offered,
            delivered: after.delivered - before.delivered,
            delivered_bytes: after.delivered_bytes.0 - before.delivered_bytes.0,
            queue_full: after.dropped.queue_full - before.dropped.queue_full,
            lost: after.dropped.loss - before.dropped.loss,
            outage: after.dropped.outage - before.dropped.outage,
            max_queue: after.max_queue as u64,
        }
    }
}

/// A value of the sender's TCP over time.
fn sampled(series: Series, flown: &Flown) -> Vec<(f64, f64)> {
    let value = |sample: &TcpSample| {
        let bytes = |segments: u32| f64::from(segments) * sample.mss.0 as f64;
        match series {
            Series::Cwnd => Some(bytes(sample.cwnd)),
            // The kernel's way to say that there is none yet.
            Series::Ssthresh => (sample.ssthresh < u32::MAX >> 1).then(|| bytes(sample.ssthresh)),
            Series::Sequence => Some(sample.acked.0 as f64 + bytes(sample.unacked)),
            Series::Acknowledged => Some(sample.acked.0 as f64),
            Series::Rtt => (!sample.rtt.is_zero()).then_some(sample.rtt.as_secs_f64()),
            Series::InFlight => Some(bytes(sample.unacked)),
            Series::Delivered | Series::Queue | Series::QueueDelay | Series::Buffer => None,
        }
    };
    let transfers = flown.transfers.iter();
    let points = transfers.flat_map(|(begun, report)| {
        let point = |sample: &TcpSample| Some(((*begun + sample.at).as_secs_f64(), value(sample)?));
        report.samples.iter().filter_map(point)
    });
    points.collect()
}

/// How long each response of a connection took, from its request on.
fn responses(report: &TransferReport) -> impl Iterator<Item = f64> {
    report.responses.iter().map(|(asked, came)| (*came - *asked).as_secs_f64())
}
