//! All that is shown of a gateway at one moment, bounded whatever the gateway carries.
use serde::{Deserialize, Serialize};
use shorthaul_proxy::{GainFigure, GainInfo, HostPrefix};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// What does not change while a gateway runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// Its name.
    pub name: String,
    /// The version of the program.
    pub version: String,
    /// Interfaces toward the access side.
    pub access: Vec<String>,
    /// Interfaces toward the rest of the world.
    pub wan: Vec<String>,
    /// What its policies are called, by their numbers.
    pub policies: Vec<String>,
    /// What one host is.
    #[serde(skip)]
    pub hosts: HostPrefix,
}

/// What only the thread with the packets knows, beside counters and flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Memory that is held for flows, in bytes.
    pub held: u64,
    /// What may be held at most, in bytes.
    pub memory: u64,
    /// The largest lateness of timers in the last one to two seconds.
    pub lateness: Duration,
    /// Flows in the table.
    pub flows: u64,
    /// Flows that the table has room for.
    pub max_flows: u64,
}

/// A gateway at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// What does not change.
    pub about: About,
    /// Unix time in milliseconds.
    pub at_ms: u64,
    /// How long it has been watched, in seconds.
    pub uptime_s: f64,
    /// How far apart this and the last sample are, in seconds.
    pub interval_s: f64,
    /// How long listing all flows took, in milliseconds, with packets in between.
    pub listing_ms: f64,
    /// Flows that are known, by state.
    pub flows: BTreeMap<String, u64>,
    /// Toward the access side, in bits per second, of all that is known by flow.
    pub down: f64,
    /// From the access side.
    pub up: f64,
    /// Memory that is held, in bytes.
    pub held: u64,
    /// What may be held.
    pub memory: u64,
    /// The largest lateness of timers in the last seconds, in microseconds.
    pub lateness_us: u64,
    /// What each worker has, where there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<WorkerRow>,
    /// Everything that is counted, by name.
    pub counters: BTreeMap<String, u64>,
    /// Why flows are not split.
    pub whole: Vec<Reason>,
    /// What splitting gains, what was compared most often first.
    pub gains: Vec<GainRow>,
    /// The access side as a whole over the last minutes.
    pub history: Vec<Point>,
    /// How many hosts at the access side have flows.
    pub hosts_known: usize,
    /// Those of them with the highest rates.
    pub hosts: Vec<HostRow>,
    /// The flows with the highest rates, or those that were asked for.
    pub top_flows: Vec<FlowRow>,
    /// What happened lately, the latest first.
    pub events: Vec<Event>,
}

/// One of several event loops of a gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerRow {
    /// Flows in its table.
    pub flows: u64,
    /// Memory that is held for them, in bytes.
    pub held: u64,
    /// Packets of its hosts.
    pub packets: u64,
    /// Packets of others' hosts that came to it, and that it handed on.
    pub handed_on: u64,
    /// The largest lateness of its timers in the last seconds, in microseconds.
    pub lateness_us: u64,
}

/// Why flows are not split, and how many.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reason {
    /// In words.
    pub why: String,
    /// Flows that are there now.
    pub now: u64,
    /// Flows since the gateway began.
    pub ever: u64,
}

/// The access side at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Unix time in milliseconds.
    pub at_ms: u64,
    /// Toward the access side, in bits per second.
    pub down: f64,
    /// From there.
    pub up: f64,
    /// The median of the queueing delays of busy hosts, in milliseconds; `None` while no host is busy.
    pub queue_ms: Option<f64>,
    /// That of the twentieth that waits longest.
    pub queue95_ms: Option<f64>,
}

/// A host at the access side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostRow {
    /// What its addresses have in common.
    pub host: IpAddr,
    /// Its flows.
    pub flows: u64,
    /// Those of them that are split.
    pub split: u64,
    /// In bits per second.
    pub down: f64,
    /// In bits per second.
    pub up: f64,
    /// Held for it, in bytes.
    pub held: u64,
    /// The round trip to it, in milliseconds.
    pub rtt_ms: Option<f64>,
    /// How much of that is queueing, in milliseconds.
    pub queue_ms: Option<f64>,
    /// Rates down and queueing delays of the last samples.
    pub history: Vec<(f64, f64)>,
}

/// A flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowRow {
    /// Who opened it.
    pub client: String,
    /// Who was called.
    pub server: String,
    /// What its host's addresses have in common.
    pub host: IpAddr,
    /// Its state.
    pub state: String,
    /// The policy that it has.
    pub policy: String,
    /// Why it is not split, if it is not.
    pub why: Option<String>,
    /// How long it is known, in seconds.
    pub age_s: f64,
    /// In bits per second.
    pub down: f64,
    /// In bits per second.
    pub up: f64,
    /// Between the gateway and the host at the access side.
    pub access: Option<HalfRow>,
    /// Between the gateway and the other end.
    pub wan: Option<HalfRow>,
    /// How long what is held now waits for the access side, at the present rate, in milliseconds.
    pub wait_ms: Option<f64>,
}

impl FlowRow {
    /// Held for it in both directions, in bytes.
    pub fn held(&self) -> u64 {
        [&self.access, &self.wan].into_iter().flatten().map(|half| half.held).sum()
    }
}

/// What is sent on one half of a flow's path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HalfRow {
    /// Congestion control; empty where nothing is sent by us.
    pub control: String,
    /// Congestion window in bytes.
    pub window: u64,
    /// In flight, in bytes.
    pub in_flight: u64,
    /// Held, in bytes.
    pub held: u64,
    /// Round trip in milliseconds.
    pub rtt_ms: Option<f64>,
    /// The shortest of late.
    pub min_rtt_ms: Option<f64>,
    /// Delivered, in bytes.
    pub delivered: u64,
    /// Retransmitted, in bytes.
    pub retransmitted: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
}

impl HalfRow {
    /// What the round trip has above its shortest: time in queues, in milliseconds.
    pub fn queue_ms(&self) -> Option<f64> {
        Some((self.rtt_ms? - self.min_rtt_ms?).max(0.0))
    }
}

/// What splitting gains for the first bytes of a class of flows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GainRow {
    /// The policy's number, counted from 0.
    pub policy: u16,
    /// Hosts at the access side.
    pub access: String,
    /// Servers; `None`: all.
    pub servers: Option<String>,
    /// `open`, `gains`, `harms` or `probation`.
    pub verdict: String,
    /// Whether toward the access side.
    pub down: bool,
    /// How many bytes.
    pub bytes: u64,
    /// The mean time of split flows, in seconds.
    pub split_s: Option<f64>,
    /// That of the control group.
    pub whole_s: Option<f64>,
    /// How many flows: split, not split.
    pub flows: [u32; 2],
    /// How many times as fast.
    pub gain: Option<f64>,
    /// With 95 % confidence at all times at once.
    pub interval: Option<(f64, f64)>,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Unix time in milliseconds.
    pub at_ms: u64,
    /// What.
    pub what: String,
}

/// The gains as rows, of at most `most` classes.
pub fn gain_rows(gains: &[GainInfo], most: usize) -> Vec<GainRow> {
    let row = |gain: &GainInfo, figure: &GainFigure| GainRow {
        policy: gain.policy,
        access: gain.access.to_string(),
        servers: gain.server.map(|server| server.to_string()),
        verdict: gain.verdict.name().into(),
        down: figure.to_host,
        bytes: figure.bytes,
        split_s: figure.split.map(|time| time.as_secs_f64()),
        whole_s: figure.control.map(|time| time.as_secs_f64()),
        flows: figure.flows,
        gain: figure.gain,
        interval: figure.interval,
    };
    gains.iter().take(most).flat_map(|gain| gain.figures.iter().map(|figure| row(gain, figure))).collect()
}

/// Why a flow in this state is not split; `None` if it is.
pub fn why_whole(state: &str) -> Option<&'static str> {
    match state {
        "control" => Some("it is in the control group, which split flows are compared with"),
        "withdrawn" => Some("splitting was found to make flows like it slower"),
        "observed" => Some("its policy says `observe`"),
        "passed" => Some("its policy says `pass`"),
        "opening" => Some("its handshake is not complete yet"),
        _ => None,
    }
}
