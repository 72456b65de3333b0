//! What comes of one run: what an engine saw, and the metrics as formulas over it.
mod observations;

use serde::{Deserialize, Serialize};
use shorthaul_scenario::{Metric, Series};
use shorthaul_types::BufferTimes;
use std::collections::BTreeMap;

pub use observations::{LinkObservation, Mean, Observations, Sent, fairness, jain_index};

/// What came out of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// One number for every metric that could be measured; one that has no value (such as the completion
    /// time of transfers of which none ended) is left out.
    pub metrics: BTreeMap<Metric, f64>,
    /// From where to where a metric lies in 95 % of cases, as far as the engine knows that of a single run.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub intervals: BTreeMap<Metric, [f64; 2]>,
    /// How many flows had transfers that had not ended, where the time that these take is measured: [`Metric::Completion`] is of the others.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unended: u64,
    /// What each flow got.
    pub flows: Vec<FlowOutcome>,
    /// What each direction of each link did.
    pub links: Vec<LinkOutcome>,
    /// How long the buffer of each relay, and of each gateway that splits, was empty or full, where drought or overflow is measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub buffers: Vec<BufferOutcome>,
    /// Values over time, as the scenario wants them.
    pub series: Vec<TimeSeries>,
    /// When the run ended, in seconds: when all flows had, or at the scenario's duration.
    pub ended_at: f64,
    /// How many events there were.
    pub events: u64,
    /// A hash over all events in order: equal for equal runs.
    pub trace_hash: u64,
    /// What must not happen and did, in sentences. A run with any is not to be trusted.
    pub problems: Vec<String>,
    /// How true a live run was to what it emulates; a simulation has nothing to say here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fidelity: Option<Fidelity>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// How true a live run was to what it emulates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Fidelity {
    /// 99 % of the packets were delivered at most this long after the time that the link model gave; in
    /// seconds, of the direction of a link where it was worst.
    pub late_p99: f64,
    /// Packets that the emulator dropped without any link model's doing.
    pub dropped: u64,
    /// The busy share of all processors while the run lasted, 0 to 1, without what yields to the run.
    pub busy: f64,
    /// The largest share of its time, 0 to 1, that a program at an end of a flow, or a gateway, stood waiting
    /// for a processor.
    #[serde(default)]
    pub starved: f64,
}

/// What a flow got.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowOutcome {
    /// Its name.
    pub name: String,
    /// Payload delivered to the application, in bytes.
    pub delivered: u64,
    /// Payload after the warm-up by the time that it had; bit/s.
    pub goodput: f64,
    /// How long each transfer took, in seconds.
    pub transfers: Vec<f64>,
    /// How long each connection took to be established end to end, in seconds.
    pub set_ups: Vec<f64>,
    /// Whether it ended within the run.
    pub ended: bool,
}

/// What one direction of a link did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkOutcome {
    /// `from>to`.
    pub name: String,
    /// Packets that came.
    pub offered: u64,
    /// Packets that it delivered.
    pub delivered: u64,
    /// Bytes of them.
    pub delivered_bytes: u64,
    /// Packets that found its queue full.
    pub queue_full: u64,
    /// Packets lost at random.
    pub lost: u64,
    /// Packets lost in outages.
    pub outage: u64,
    /// The most packets that its queue held.
    pub max_queue: u64,
}

/// What became of the buffer between two legs of a flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BufferOutcome {
    /// The flow.
    pub flow: String,
    /// Who has the buffer. Those of a flow are in the order in which its data passes them.
    pub node: String,
    /// How long it was empty, and how long full.
    #[serde(flatten)]
    pub times: BufferTimes,
}

/// One value over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimeSeries {
    /// What.
    pub series: Series,
    /// Of whom: a flow, `flow@relay`, or a link's direction.
    pub subject: String,
    /// Time in seconds, and the value.
    pub points: Vec<(f64, f64)>,
}
