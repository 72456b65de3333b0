//! A scenario, worked out: every name is known, every link has an index.
use crate::{Arrivals, Lateness, Metric, Scheme, Series};
use schemars::JsonSchema;
use serde::Deserialize;
use shorthaul_link::{CellConfig, Direction, Distribution, LinkConfig, LinkSpec, Trace};
use shorthaul_proxy::{GatewayConfig, GatewayMode, Policy, PolicyError, PolicySpec, WrittenPolicies};
use shorthaul_types::{BitRate, Bytes, Seed};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// One experiment, without seed and without anything that varies: what an engine runs.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The name: as the file says, or the file's own.
    pub name: String,
    /// How long the run lasts at most.
    pub duration: Duration,
    /// What happens before this is not part of goodputs and means.
    pub warm_up: Duration,
    /// The nodes; links, flows and competing traffic name them by their place here.
    pub nodes: Vec<Node>,
    /// The links.
    pub links: Vec<LinkDescription>,
    /// Links that share the channel of a radio cell.
    pub cells: Vec<CellDescription>,
    /// The flows, each of them one (a section with `count` stands for several).
    pub flows: Vec<Flow>,
    /// Competing traffic.
    pub cross: Vec<Cross>,
    /// What to measure.
    pub measure: Measure,
}

/// A node by its place in [`Scenario::nodes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIndex(pub usize);

/// Something that links end at.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// What it does.
    pub role: Role,
}

/// What a node does.
#[derive(Clone, Debug)]
pub enum Role {
    /// It forwards. Its queues are those of its links.
    Router,
    /// It has applications.
    Host(Scheme),
    /// A node of the proxy transport service: it ends each session's connection and opens the next.
    Relay(Relay),
    /// A transparent gateway: it splits the connections that pass.
    Gateway(Box<Gateway>),
    /// A box that queues with CAKE.
    Shaper(Box<crate::Shaper>),
}

/// A node of the proxy transport service (PTS §3).
#[derive(Clone, Debug)]
pub struct Relay {
    /// How it speaks TCP on both legs.
    pub scheme: Scheme,
    /// Cmax: what it holds of one session at most, from the first leg's receive buffer to the second
    /// leg's last unacknowledged byte.
    pub buffer: Bytes,
    /// What becomes of what the buffer has no room for.
    pub overflow: Overflow,
    /// Ts: how long it takes over a packet.
    pub service_time: Distribution,
    /// Which packets wait for each other.
    pub queues: Queues,
    /// The payload of the packet that `service_time` is meant for; more bytes take more packets' time.
    pub packet: Bytes,
    /// What `service_time` holds up.
    pub served: Served,
    /// When it begins to send on what comes from the side that opened the session.
    pub forward: Forward,
}

/// What a relay does with what its buffer of a session has no room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Overflow {
    /// It never comes: the first leg's window is no wider than the room that is left.
    #[default]
    Close,
    /// It is dropped before TCP sees it, and its sender finds out (PTS §1: "segments will be dropped at the PTS node"). The first leg's
    /// window is the scheme's receive buffer. What is out of order must leave room for what is missing before it.
    Drop,
}

/// Which packets wait for each other at a relay's processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum Queues {
    /// Those of all sessions: one queue, one packet after the other.
    #[default]
    #[serde(rename = "one")]
    One,
    /// A queue for each session, and one processor that takes a packet of each in turn.
    #[serde(rename = "per session")]
    PerSession,
    /// A queue for each session, each with a processor of its own.
    #[serde(rename = "per session, served at once")]
    PerSessionServedAtOnce,
}

/// What a packet's service time at a relay holds up; its text does not say which of these PTS simulated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Served {
    /// Its way on: TCP has acknowledged it on arrival, and one packet is served after the other.
    #[default]
    AfterAcknowledgment,
    /// Its acknowledgment too: one packet is served after the other before TCP sees it.
    BeforeAcknowledgment,
    /// Its acknowledgment too, but not the packets behind it: all are served at once, and leave in order.
    AllAtOnce,
}

/// In which order a session's connections are made (CAS-5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetUp {
    /// A relay opens its next leg as soon as it is opened itself: the first payload takes 1.5 round trips between the
    /// ends.
    #[default]
    Parallel,
    /// Before that, the opener triggers one relay after the other but the last, 1.5 round trips to each.
    Sequential,
}

/// When a relay begins to send on what it has received (CAS-1, CAS-2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Forward {
    /// As it comes.
    #[default]
    AtOnce,
    /// As it comes, but this many round trips of its next leg after the first byte, so that its buffer does not run dry.
    AfterRoundTrips(u32),
    /// When the sender has closed. The buffer must hold the whole transfer.
    WhenComplete,
}

/// A transparent gateway between two links.
#[derive(Clone, Debug)]
pub struct Gateway {
    /// The neighbour on the access side; everything else is the wide area network.
    pub access: NodeIndex,
    /// How it sends toward the access side.
    pub to_access: shorthaul_proxy::LegSpec,
    /// How it sends toward the wide area network.
    pub to_wan: shorthaul_proxy::LegSpec,
    /// What it holds of each direction of a flow at most; `None` for the gateway's own default.
    pub flow_buffer: Option<Bytes>,
    /// What it does to flows that no policy is for, if that is written.
    pub mode: Option<GatewayMode>,
    /// How it keeps senders in the wide area network to what the access side can carry.
    pub senders_as_written: shorthaul_proxy::SenderSpec,
    /// What a radio controller tells it during a run, in order of time.
    pub bandwidth_changes: Vec<BandwidthChange>,
    /// How the connections to one host on the access side are served together, if that is written.
    pub aggregate: Option<shorthaul_proxy::AggregateConfig>,
    /// What one host is on the access side.
    pub hosts: shorthaul_proxy::HostSpec,
    /// Links that hosts on the access side share.
    pub bottlenecks: Vec<shorthaul_proxy::Bottleneck>,
    /// What of the traffic toward the access side waits for its turn.
    pub traffic: shorthaul_proxy::Traffic,
    /// The share of flows that it observes instead of splitting them, to compare with.
    pub control_group: f64,
    /// What it does to flows of certain classes, the first that matches; the rest is for all others.
    pub policy: Vec<PolicySpec>,
    /// How late it is served; in time if `None`.
    pub lateness: Option<Lateness>,
    /// When another process takes over from it, from the start of the run, in order.
    pub taken_over: Vec<Duration>,
    /// When its process is killed, in order.
    pub killed: Vec<Kill>,
}

/// The process of a gateway is killed, and another goes on with what survives that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kill {
    /// When, from the start of the run.
    pub at: Duration,
    /// How long it takes until the next one is there.
    pub gone: Duration,
}

impl Gateway {
    fn written(&self) -> WrittenPolicies<'_> {
        WrittenPolicies {
            listed: &self.policy,
            to_access: &self.to_access,
            to_wan: &self.to_wan,
            mode: self.mode,
            senders: &self.senders_as_written,
            aggregate: self.aggregate.as_ref(),
            control_group: Some(self.control_group),
            flow_buffer: self.flow_buffer.unwrap_or(GatewayConfig::default().flow_buffer),
        }
    }

    /// What it does to flows that no policy is for.
    pub fn mode(&self) -> GatewayMode {
        self.written().mode()
    }

    /// What it does to which flows, on links that take packets of `mtus` bytes: toward the access side, and elsewhere.
    ///
    /// # Errors
    /// Says what cannot be combined, which the scenario's reader has ruled out.
    pub fn policies(&self, mtus: [Option<u32>; 2]) -> Result<Vec<Policy>, PolicyError> {
        self.written().resolve(mtus)
    }
}

/// From a time on, the bandwidth that a gateway emulates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BandwidthChange {
    /// When, counted from the start of the run.
    pub at: Duration,
    /// Of which cell; of all if `None`.
    pub cell: Option<String>,
    /// The bandwidth.
    pub bandwidth: BitRate,
}

/// A link between two nodes. [`Direction::Up`] goes from the first to the second.
#[derive(Clone, Debug)]
pub struct LinkDescription {
    /// Its ends.
    pub between: [NodeIndex; 2],
    /// `first-second`; a second link between the same nodes has `#2` behind it.
    pub name: String,
    /// What it is like.
    pub spec: LinkSpec,
    /// The longest IP packet that passes, in bytes.
    pub mtu: u32,
    /// The traces that the specification names, by file.
    pub(crate) traces: BTreeMap<String, Arc<Trace>>,
}

impl LinkDescription {
    /// Both directions, and what they are called: `a to b`.
    pub(crate) fn directions(&self, nodes: &[Node]) -> [(String, Direction); 2] {
        let [first, second] = self.between.map(|index| nodes[index.0].name.as_str());
        [(format!("{first} to {second}"), Direction::Up), (format!("{second} to {first}"), Direction::Down)]
    }

    /// What the link is like in one direction, in a run with `seed`.
    ///
    /// The seed of a link depends on the run and on its name alone: two schemes that are run with the same
    /// seed meet the same outages, the same loss phases and the same fate of the *n*th packet of a link.
    ///
    /// # Panics
    /// If the specification does not resolve, which the scenario's reader has ruled out.
    pub fn config(&self, direction: Direction, seed: Seed) -> LinkConfig {
        let load = |file: &str| self.traces.get(file).cloned().ok_or_else(|| "not loaded".to_owned());
        match self.spec.resolve(direction, self.seed(seed), load) {
            Ok(config) => config,
            Err(error) => panic!("link {} was checked and is wrong nevertheless: {error}", self.name),
        }
    }

    /// The seed of this link, the same for both directions.
    pub fn seed(&self, run: Seed) -> Seed {
        run.derive("link").derive(&self.name)
    }
}

/// A radio cell: in one direction each, links share a channel that takes the place of their own rate.
#[derive(Clone, Debug)]
pub struct CellDescription {
    /// Its name, from which its randomness comes.
    pub name: String,
    /// The links to its users, each with the direction that leads there.
    pub ways: Vec<(usize, Direction)>,
    /// The channel, with the users in the order of `ways`; their queues are those of the links.
    pub channel: CellConfig,
}

/// One flow of application data from one host to another.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Its name.
    pub name: String,
    /// Who gives the data.
    pub from: NodeIndex,
    /// Who takes it.
    pub to: NodeIndex,
    /// Whether the sender opens the connection; otherwise the receiver does.
    pub sender_opens: bool,
    /// The relays that a session goes through, in order from the sender to the receiver.
    pub via: Vec<NodeIndex>,
    /// How its connections are made.
    pub set_up: SetUp,
    /// The earliest start, counted from the start of the run; see [`Scenario::starts`].
    pub start: Duration,
    /// Random delay of the start in addition, one draw for each of several alike, added up.
    pub spacing: Distribution,
    /// Which of several alike, from 0.
    pub number: u32,
    /// A scheme other than that of the hosts.
    pub scheme: Option<Scheme>,
    /// What the application does.
    pub workload: Workload,
}

/// What an application does.
#[derive(Clone, Debug, PartialEq)]
pub enum Workload {
    /// This many bytes, then the end.
    Bulk(Bytes),
    /// As much as goes through in this time, then the end.
    Unlimited(Duration),
    /// One connection after the other: a request, the file, the end.
    Downloads {
        /// The size of a file.
        size: Bytes,
        /// How many.
        repeats: u32,
        /// The pause before each but the first.
        pause: Distribution,
        /// The size of a request.
        request: Bytes,
    },
    /// One connection with a request and a response after the other.
    Requests {
        /// The size of a request.
        request: Bytes,
        /// The size of a response.
        response: Bytes,
        /// How many.
        count: u32,
        /// The pause between a response and the next request.
        pause: Distribution,
    },
    /// Data at a rate, while it is on.
    OnOff {
        /// The rate while on.
        rate: BitRate,
        /// How long it is on.
        on: Distribution,
        /// How long it is off.
        off: Distribution,
        /// How long all this lasts.
        lasts: Duration,
    },
    /// One connection with bursts and idle times between them.
    Persistent {
        /// The size of a burst.
        burst: Bytes,
        /// The time from a burst's last byte written to the next burst.
        idle: Distribution,
        /// How many bursts.
        count: u32,
    },
}

impl Workload {
    /// Whether it ends with its last byte, so that it has a completion time; otherwise it ends when its time is over.
    pub fn has_a_size(&self) -> bool {
        match self {
            Workload::Bulk(_)
            | Workload::Downloads { .. }
            | Workload::Requests { .. }
            | Workload::Persistent { .. } => true,
            Workload::Unlimited(_) | Workload::OnOff { .. } => false,
        }
    }
}

/// Datagrams that compete for the links, deaf to congestion.
#[derive(Clone, Debug)]
pub struct Cross {
    /// Its name, from which its randomness comes.
    pub name: String,
    /// Where they enter.
    pub from: NodeIndex,
    /// Where they leave.
    pub to: NodeIndex,
    /// How much, IP headers included.
    pub rate: BitRate,
    /// The size of one, IP header included.
    pub packet: Bytes,
    /// How they follow each other.
    pub arrivals: Arrivals,
    /// The first one's time.
    pub start: Duration,
    /// How long they go on; to the end of the run if `None`.
    pub lasts: Option<Duration>,
}

/// What to measure.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    /// One number a run each.
    pub metrics: Vec<Metric>,
    /// Values over time.
    pub series: Vec<Series>,
    /// How often they are sampled.
    pub every: Duration,
}

impl Measure {
    /// Whether it is to be seen how long buffers between legs are empty and full.
    pub fn wants_buffers(&self) -> bool {
        self.metrics.iter().any(|metric| matches!(metric, Metric::Drought | Metric::Overflow))
    }
}

impl Scenario {
    /// When each flow starts in a run with `seed`, counted from the start of the run.
    pub fn starts(&self, seed: Seed) -> Vec<Duration> {
        let mut delay = Duration::ZERO;
        let start = |flow: &Flow| {
            delay = match (flow.number, flow.name.rsplit_once('.')) {
                (number @ 1.., Some((family, _))) => {
                    let seed = seed.derive("starts").derive(family);
                    delay.saturating_add(flow.spacing.draw(seed, u64::from(number)))
                }
                _ => Duration::ZERO,
            };
            flow.start.saturating_add(delay)
        };
        self.flows.iter().map(start).collect()
    }

    /// The node `name`.
    pub fn node(&self, name: &str) -> Option<NodeIndex> {
        self.nodes.iter().position(|node| node.name == name).map(NodeIndex)
    }

    /// The links of the way from `a` to `b` with the fewest hops, each with the direction in which it is
    /// passed; of several such ways, the one whose links stand first. `None` if there is none.
    pub fn way(&self, a: NodeIndex, b: NodeIndex) -> Option<Vec<(usize, Direction)>> {
        let mut came_by: Vec<Option<(usize, Direction)>> = vec![None; self.nodes.len()];
        let mut frontier = std::collections::VecDeque::from([a]);
        let mut seen = vec![false; self.nodes.len()];
        seen[a.0] = true;
        while let Some(node) = frontier.pop_front() {
            // only routers and gateways, and the end itself, are passed
            if node != a && node != b && matches!(self.nodes[node.0].role, Role::Host(_)) {
                continue;
            }
            for (index, link) in self.links.iter().enumerate() {
                let [first, second] = link.between;
                let (next, direction) = match node {
                    n if n == first => (second, Direction::Up),
                    n if n == second => (first, Direction::Down),
                    _ => continue,
                };
                if !std::mem::replace(&mut seen[next.0], true) {
                    came_by[next.0] = Some((index, direction));
                    frontier.push_back(next);
                }
            }
        }
        let mut way = Vec::new();
        let mut at = b;
        while at != a {
            let (index, direction) = came_by[at.0]?;
            way.push((index, direction));
            let [first, second] = self.links[index].between;
            at = if direction == Direction::Up { first } else { second };
        }
        way.reverse();
        Some(way)
    }
}
