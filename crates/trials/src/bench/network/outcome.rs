//! What came of a simulation: counted while it goes on, and the figures that follow.
use super::round::{Hosts, Round, Traffic};
use super::scenario::{DirectoryKind, Scenario};
use super::world::{NodeId, World};
use super::{costs::Costs, directory::Demand};
use serde::Serialize;
use shorthaul_relay::discovery::{ANSWER_LEN, Found, PROBE_LEN, Rations, Table, View};
use std::net::SocketAddr;

/// Bytes of the headers of IPv4 and UDP.
const HEADERS: f64 = 28.0;
/// A way is taken for the best where it takes no longer than this, beside the best.
const AS_GOOD: f64 = 1.05;

/// How a session came to its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// By a node, at once.
    ByNode,
    /// By another node, or directly, after it had waited for a dead one.
    AfterDead,
    /// Directly: no node had told its way when waiting for one paid no longer.
    GaveUp,
    /// Directly: nothing is known of the way.
    Unknown,
    /// Directly: no node answered.
    NoneAnswered,
    /// Directly: nodes answered, and none knows the way from it to the destination.
    WayUnknown,
    /// Directly: no node that is known gains enough.
    NotWorthIt,
}

/// All ways of coming to one, with their names.
pub const CAME: [(Came, &str); 7] = [
    (Came::ByNode, "by_node"),
    (Came::AfterDead, "after_dead"),
    (Came::Unknown, "unknown"),
    (Came::NoneAnswered, "none_answered"),
    (Came::WayUnknown, "way_unknown"),
    (Came::NotWorthIt, "not_worth_it"),
    (Came::GaveUp, "gave_up"),
];

/// What is counted.
#[derive(Debug)]
pub struct Outcome {
    /// Of each client.
    probes: Vec<u32>,
    answers: Vec<u32>,
    reads: Vec<u32>,
    failed_reads: u64,
    longest_read: f64,
    /// Of each node and destination, before it was counted; then what was counted.
    nodes: Vec<Traffic>,
    destinations: Vec<Option<Traffic>>,
    node_ways: Vec<usize>,
    tables: Vec<usize>,
    sessions_of_slots: Vec<u32>,
    /// Seconds from the death of a node until a client that used it does not any more.
    pub avoided: Vec<f32>,
    pub visits: u64,
    pub looks: u64,
    came: [u64; CAME.len()],
    broken: u64,
    waited: Vec<f32>,
    held_up: u64,
    looked: Vec<f32>,
    samples: Vec<[f32; 3]>,
    pays: u64,
}

/// A quantity of many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    pub mean: f64,
    pub median: f64,
    pub p99: f64,
    pub most: f64,
}

impl Spread {
    /// Of none, all is zero.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Spread {
        let mut all: Vec<f64> = values.into_iter().collect();
        all.sort_by(f64::total_cmp);
        let at =
            |part: f64| all.get((part * all.len() as f64) as usize).or(all.last()).copied().unwrap_or(0.0);
        Spread {
            mean: all.iter().sum::<f64>() / all.len().max(1) as f64,
            median: at(0.5),
            p99: at(0.99),
            most: all.last().copied().unwrap_or(0.0),
        }
    }
}

impl Outcome {
    pub fn new(scenario: &Scenario, world: &World) -> Outcome {
        let clients = scenario.simulated();
        Outcome {
            probes: vec![0; clients],
            answers: vec![0; clients],
            reads: vec![0; clients],
            failed_reads: 0,
            longest_read: 0.0,
            nodes: Vec::new(),
            destinations: Vec::new(),
            node_ways: Vec::new(),
            tables: Vec::new(),
            sessions_of_slots: vec![0; world.slots()],
            avoided: Vec::new(),
            visits: 0,
            looks: 0,
            came: [0; CAME.len()],
            broken: 0,
            waited: Vec::new(),
            held_up: 0,
            looked: Vec::new(),
            samples: Vec::new(),
            pays: 0,
        }
    }

    /// From now on it is counted.
    pub fn begin(&mut self, hosts: &Hosts, tables: &[usize]) {
        self.nodes = hosts.nodes.iter().map(|host| host.traffic).collect();
        self.destinations =
            hosts.destinations.iter().map(|host| host.as_ref().map(|host| host.traffic)).collect();
        self.tables.extend(tables);
        self.node_ways.extend(hosts.nodes.iter().map(super::round::Host::ways));
    }

    /// It is over.
    pub fn end(&mut self, hosts: &Hosts, tables: &[usize]) {
        for (before, host) in self.nodes.iter_mut().zip(&hosts.nodes) {
            *before = since(&host.traffic, before);
        }
        for (before, host) in self.destinations.iter_mut().zip(&hosts.destinations) {
            *before = host.as_ref().zip(*before).map(|(host, before)| since(&host.traffic, &before));
        }
        self.tables.extend(tables);
        self.node_ways.extend(hosts.nodes.iter().map(super::round::Host::ways));
    }

    pub fn on_round(&mut self, client: u32, round: &Round) {
        self.probes[client as usize] += round.probes;
        self.answers[client as usize] += round.answers;
    }

    /// A client has read the directory, or tried to.
    pub fn on_read(&mut self, client: u32, read: bool, took: f64) {
        self.reads[client as usize] += 1;
        self.failed_reads += u64::from(!read);
        self.longest_read = self.longest_read.max(took);
    }

    /// A session waited until nodes were looked for, of which `reading` was the directory.
    pub fn on_wait(&mut self, waited: f64, reading: f64) {
        self.held_up += u64::from(reading > 0.1);
        self.looked.push(waited as f32);
    }

    pub fn on_session(&mut self, world: &World, node: Option<NodeId>, came: Came, waited: f64, breaks: bool) {
        let at = CAME.iter().position(|(one, _)| *one == came).unwrap_or(0);
        self.came[at] += 1;
        self.broken += u64::from(breaks);
        self.waited.push(waited as f32);
        if let Some(node) = node {
            self.sessions_of_slots[world.nodes[node as usize].slot as usize] += 1;
        }
    }

    /// A session beside the direct way and the best one.
    pub fn on_sample(&mut self, taken: f64, direct: f64, best: f64, pays: bool) {
        self.samples.push([taken as f32, direct as f32, best as f32]);
        self.pays += u64::from(pays);
    }

    /// The figures.
    pub fn figures(&self, scenario: &Scenario, costs: &Costs) -> Figures {
        let (seconds, thin) = (scenario.time.as_secs_f64(), scenario.clients.thin as f64);
        let [probe, answer] = [PROBE_LEN, ANSWER_LEN].map(|len| len as f64 + HEADERS);
        let sums = |hosts: &mut dyn Iterator<Item = &Traffic>| {
            hosts.fold(Traffic::default(), |mut all, one| {
                all.add(one);
                all
            })
        };
        let nodes = sums(&mut self.nodes.iter());
        let destinations = sums(&mut self.destinations.iter().flatten());
        let part = |of: u64, all: u64| of as f64 / all.max(1) as f64;
        let reads = self.reads.iter().map(|reads| u64::from(*reads)).sum::<u64>() as f64 * thin / seconds;
        let demand = Demand::of(scenario, costs);
        let sessions: u64 = self.came.iter().sum();
        let per_second = |count: f64| count * thin / seconds;
        let relays = shorthaul_relay::discovery::ASKED_MAX;
        let listed = match scenario.bootstrap.directory {
            DirectoryKind::None => 0.0,
            DirectoryKind::Etcd | DirectoryKind::File => {
                scenario.nodes.count as f64 * size_of::<SocketAddr>() as f64
            }
        };
        let destination_bytes = (Table::<View>::DESTINATION_BYTES + relays * size_of::<Found>()) as f64;
        let count = |of: &dyn Fn(&[f32; 3]) -> bool| {
            part(self.samples.iter().filter(|one| of(one)).count() as u64, self.samples.len() as u64)
        };
        let gain = |at: usize| Spread::of(self.samples.iter().map(|one| f64::from(one[1] / one[at]))).mean;
        let is_best = |one: &[f32; 3]| f64::from(one[0]) <= AS_GOOD * f64::from(one[2]);
        let is_direct = |one: &[f32; 3]| (one[0] - one[1]).abs() < 1e-6;
        let is_wrong = |one: &[f32; 3]| f64::from(one[0]) > AS_GOOD * f64::from(one[1]);
        let spread_of =
            |values: &[usize], bytes: f64| Spread::of(values.iter().map(|value| *value as f64 * bytes));
        Figures {
            clients: scenario.clients.count,
            nodes: scenario.nodes.count,
            thin: scenario.clients.thin,
            seconds,
            visits: per_second(self.visits as f64) * 3600.0 / scenario.clients.count as f64,
            looks: per_second(self.looks as f64) / scenario.clients.count as f64,
            probes_of_client: Spread::of(self.probes.iter().map(|probes| f64::from(*probes) / seconds)),
            bytes_of_client: Spread::of(self.probes.iter().zip(&self.answers).map(|(probes, answers)| {
                (f64::from(*probes) * probe + f64::from(*answers) * answer) / seconds
            })),
            probes_a_look: self.probes.iter().map(|probes| u64::from(*probes)).sum::<u64>() as f64
                / self.looks.max(1) as f64,
            probes_of_node: Spread::of(self.nodes.iter().map(|node| per_second(node.probes as f64))),
            bytes_of_node: Spread::of(
                self.nodes
                    .iter()
                    .map(|node| per_second(node.probes as f64 * probe + node.answers as f64 * answer)),
            ),
            probes_of_responder: Spread::of(
                self.destinations.iter().flatten().map(|one| per_second(one.probes as f64)),
            ),
            sessions_of_node: Spread::of(
                self.sessions_of_slots.iter().map(|count| per_second(f64::from(*count))),
            ),
            measured_of_node: Spread::of(self.nodes.iter().map(|node| per_second(node.measured as f64))),
            wanted_of_node: Spread::of(
                self.nodes.iter().map(|node| per_second((node.measured + node.unmeasured) as f64)),
            ),
            unknown: part(nodes.unknown, nodes.asked),
            unmeasured: part(nodes.unmeasured, nodes.unknown),
            too_often: part(nodes.too_often + destinations.too_often, nodes.probes + destinations.probes),
            too_often_at_busiest: self
                .destinations
                .iter()
                .flatten()
                .chain(&self.nodes)
                .filter(|one| one.probes > 1000)
                .map(|one| part(one.too_often, one.probes))
                .fold(0.0, f64::max),
            unproven: part(nodes.unproven + destinations.unproven, nodes.probes + destinations.probes),
            unchallenged: part(
                nodes.unchallenged + destinations.unchallenged,
                nodes.unproven + destinations.unproven,
            ),
            challenges_of_busiest: self
                .nodes
                .iter()
                .chain(self.destinations.iter().flatten())
                .map(|one| per_second(one.unproven as f64))
                .fold(0.0, f64::max),
            reads,
            reads_of_client: Spread::of(self.reads.iter().map(|reads| f64::from(*reads) / seconds)),
            bytes_read: reads * demand.bytes,
            bytes_of_reading: demand.bytes,
            failed_reads: part(self.failed_reads, self.reads.iter().map(|reads| u64::from(*reads)).sum()),
            longest_read: self.longest_read,
            directory_processors: reads * demand.processor + demand.writing,
            destinations_of_client: spread_of(&self.tables, 1.0),
            table_bytes_of_client: spread_of(&self.tables, destination_bytes),
            list_bytes_of_client: listed,
            ways_of_node: spread_of(&self.node_ways, thin),
            table_bytes_of_node: {
                let Spread { mean, median, p99, most } =
                    spread_of(&self.node_ways, thin * Rations::WAY_BYTES as f64);
                let [mean, median, p99, most] =
                    [mean, median, p99, most].map(|bytes| bytes + Rations::BYTES as f64);
                Spread { mean, median, p99, most }
            },
            avoided: Spread::of(self.avoided.iter().map(|seconds| f64::from(*seconds))),
            avoided_count: self.avoided.len(),
            sessions: per_second(sessions as f64),
            came: self.came.map(|count| part(count, sessions)),
            hurt: per_second(self.came[1] as f64) * 3600.0,
            broken: per_second(self.broken as f64) * 3600.0,
            waited: Spread::of(self.waited.iter().map(|seconds| f64::from(*seconds))),
            held_up: part(self.held_up, sessions),
            looked: Spread::of(self.looked.iter().map(|seconds| f64::from(*seconds))),
            samples: self.samples.len(),
            best: count(&is_best),
            worse: count(&|one| !is_best(one) && !is_direct(one) && !is_wrong(one)),
            missed: count(&|one| !is_best(one) && is_direct(one)),
            wrong: count(&is_wrong),
            pays: part(self.pays, self.samples.len() as u64),
            gain: gain(0),
            gain_of_best: gain(2),
        }
    }
}

fn since(now: &Traffic, before: &Traffic) -> Traffic {
    Traffic {
        probes: now.probes - before.probes,
        answers: now.answers - before.answers,
        too_often: now.too_often - before.too_often,
        unproven: now.unproven - before.unproven,
        unchallenged: now.unchallenged - before.unchallenged,
        asked: now.asked - before.asked,
        unknown: now.unknown - before.unknown,
        measured: now.measured - before.measured,
        unmeasured: now.unmeasured - before.unmeasured,
    }
}

impl Figures {
    /// The share of sessions that went directly as no node was known in time, or none answered.
    pub fn without_nodes(&self) -> f64 {
        let is_one = |came: &Came| matches!(came, Came::Unknown | Came::NoneAnswered | Came::GaveUp);
        CAME.iter().zip(self.came).filter(|((came, _), _)| is_one(came)).map(|(_, share)| share).sum()
    }
}

/// What a simulation says. Where nothing else is said, numbers are per second, and sizes bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    pub clients: usize,
    pub nodes: usize,
    pub thin: usize,
    pub seconds: f64,
    /// Of a client, in an hour.
    pub visits: f64,
    /// Of a client: times that it looked at the way to a destination.
    pub looks: f64,
    pub probes_of_client: Spread,
    /// Both directions, with the headers of IPv4 and UDP.
    pub bytes_of_client: Spread,
    /// All that a look sends, and what is sent when nodes are asked for their load.
    pub probes_a_look: f64,
    pub probes_of_node: Spread,
    pub bytes_of_node: Spread,
    pub probes_of_responder: Spread,
    pub sessions_of_node: Spread,
    /// Ways to targets that a node measures, and those that it was to measure.
    pub measured_of_node: Spread,
    pub wanted_of_node: Spread,
    /// Of questions for a way, that it was not known.
    pub unknown: f64,
    /// Of that: that it could not be measured either.
    pub unmeasured: f64,
    /// Of all probes: those whose network asks too often; and at the host where that is so most.
    pub too_often: f64,
    pub too_often_at_busiest: f64,
    /// Of all probes: those without a cookie. Of these: those that were not challenged.
    pub unproven: f64,
    pub unchallenged: f64,
    pub challenges_of_busiest: f64,
    /// Readings of the directory, of all clients and of one.
    pub reads: f64,
    pub reads_of_client: Spread,
    pub bytes_read: f64,
    pub bytes_of_reading: f64,
    /// The share of readings that failed, and the longest, in seconds.
    pub failed_reads: f64,
    pub longest_read: f64,
    /// Processors that all readings and writings would take.
    pub directory_processors: f64,
    pub destinations_of_client: Spread,
    pub table_bytes_of_client: Spread,
    pub list_bytes_of_client: f64,
    pub ways_of_node: Spread,
    pub table_bytes_of_node: Spread,
    /// Seconds from the death of a node until a client that used it does not any more.
    pub avoided: Spread,
    pub avoided_count: usize,
    pub sessions: f64,
    /// Shares of sessions, in the order of [`CAME`].
    pub came: [f64; CAME.len()],
    /// Sessions an hour that waited for a dead node, and those whose node died meanwhile.
    pub hurt: f64,
    pub broken: f64,
    /// Seconds that sessions waited before they began.
    pub waited: Spread,
    /// The share of sessions that waited for the directory for more than a tenth of a second.
    pub held_up: f64,
    /// Seconds that sessions waited until nodes were looked for, of those that did.
    pub looked: Spread,
    /// Sessions that were held beside the best node of all: shares of those that took one within 5 % of the best, a worse one that is no worse than direct,
    /// that went directly though one was better, and that took longer than directly.
    pub samples: usize,
    pub best: f64,
    pub worse: f64,
    pub missed: f64,
    pub wrong: f64,
    /// The share of them for which the best node gains enough.
    pub pays: f64,
    /// Times as fast as directly: what was taken, and the best.
    pub gain: f64,
    pub gain_of_best: f64,
}
