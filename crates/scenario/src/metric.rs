use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What is measured of a run as one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Payload that reached the application after the warm-up, per second of the time from the warm-up to
    /// the end of the flow (or of the run); bit/s, summed over the flows.
    Goodput,
    /// From the start of a transfer to its last byte at the receiving application; seconds, mean over the
    /// transfers that ended. Runs with others are counted beside it.
    Completion,
    /// From the start of a connection until it is established end to end; seconds, mean over the flows.
    SetUp,
    /// IP bytes that end hosts and relays sent, headers, acknowledgments and retransmissions included.
    WireBytes,
    /// What was sent beyond the payload delivered, as a share of that payload; percent.
    Overhead,
    /// TCP bytes, headers included, that the hosts that give data sent beyond the payload delivered, as a share of
    /// that payload; percent. It is the overhead of "probing devices" (PRB §3).
    SenderOverhead,
    /// Payload bytes retransmitted, by hosts and relays.
    Retransmitted,
    /// Expiries of the retransmission timer (RTOs), of hosts and relays.
    Timeouts,
    /// Smoothed round-trip time of the senders at the samples; seconds, mean.
    Rtt,
    /// Packets in the fullest queue; the mean over the samples.
    QueueLength,
    /// The same as time at the link's rate; seconds.
    QueueDelay,
    /// What a packet waits in the queues of all links and shapers, there and back: 95 of 100 samples are not longer; seconds, simulated
    /// only.
    #[serde(rename = "queue-delay-95")]
    QueueDelay95,
    /// Jain's index over the goodputs of the flows: 1 when all are equal.
    Fairness,
    /// Bytes that the busiest link carried, as a share of what it could have; percent.
    Utilization,
    /// Transfers that did not end before the run did.
    Unfinished,
    /// RTOs that their sender itself found to have been mistakes (by F-RTO, timestamps or D-SACKs: RFC 5682,
    /// 3522, 3708): nothing was lost. Live, the kernel's `TCPLossUndo` of the hosts that give data.
    SpuriousTimeouts,
    /// Reductions of the window that their sender itself found to have been mistakes, those after RTOs included.
    Undone,
    /// How long senders were kept waiting by a closed window though they had data and credit; seconds,
    /// summed over the flows.
    WindowLimited,
    /// The smallest window that a sender with data under way was offered, at the samples after the warm-up; bytes.
    SmallestWindow,
    /// What gateways hold: payload of the flows that they split, and packets that interceptors keep of others; bytes, mean over the samples.
    Held,
    /// The same at the sample with the most.
    HeldMost,
    /// How often a gateway found that splitting makes a class of flows slower, by its control group; simulated only.
    HarmVerdicts,
    /// Segments that relays dropped, since the buffer of their session had no room for them; simulated only.
    RelayDrops,
    /// How long a relay, or a gateway that splits, had nothing to send on though the leg behind it could have carried a segment more,
    /// as a share of its time with the flow; percent, the largest of the buffers on the way.
    Drought,
    /// How long it had no room for another segment, so that the leg before it might not send; percent, likewise.
    Overflow,
}

impl Metric {
    /// Every metric, with what it is.
    pub const ALL: [(Metric, &'static str, &'static str); 25] = [
        (Metric::Goodput, "goodput", "bit/s"),
        (Metric::Completion, "completion", "s"),
        (Metric::SetUp, "set-up", "s"),
        (Metric::WireBytes, "wire-bytes", "B"),
        (Metric::Overhead, "overhead", "%"),
        (Metric::SenderOverhead, "sender-overhead", "%"),
        (Metric::Retransmitted, "retransmitted", "B"),
        (Metric::Timeouts, "timeouts", ""),
        (Metric::Rtt, "rtt", "s"),
        (Metric::QueueLength, "queue-length", "packets"),
        (Metric::QueueDelay, "queue-delay", "s"),
        (Metric::QueueDelay95, "queue-delay-95", "s"),
        (Metric::Fairness, "fairness", ""),
        (Metric::Utilization, "utilization", "%"),
        (Metric::Unfinished, "unfinished", ""),
        (Metric::SpuriousTimeouts, "spurious-timeouts", ""),
        (Metric::Undone, "undone", ""),
        (Metric::WindowLimited, "window-limited", "s"),
        (Metric::SmallestWindow, "smallest-window", "B"),
        (Metric::Held, "held", "B"),
        (Metric::HeldMost, "held-most", "B"),
        (Metric::HarmVerdicts, "harm-verdicts", ""),
        (Metric::RelayDrops, "relay-drops", ""),
        (Metric::Drought, "drought", "%"),
        (Metric::Overflow, "overflow", "%"),
    ];

    /// Its name in scenario files and tables.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(metric, ..)| *metric == self).map_or("", |(_, name, _)| name)
    }

    /// Its unit, empty for a plain number.
    pub fn unit(self) -> &'static str {
        Self::ALL.iter().find(|(metric, ..)| *metric == self).map_or("", |(.., unit)| unit)
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What is measured over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Series {
    /// The congestion window of every sending connection, in bytes.
    Cwnd,
    /// The slow-start threshold of the same, in bytes.
    Ssthresh,
    /// The offset behind the highest byte sent, in bytes from the start of the stream.
    Sequence,
    /// Payload that the sender was told has arrived, in bytes from the start of the stream.
    Acknowledged,
    /// The smoothed round-trip time, in seconds.
    Rtt,
    /// Bytes in flight.
    InFlight,
    /// Payload delivered to the application so far, in bytes.
    Delivered,
    /// Packets in the queue of every link.
    Queue,
    /// How long a packet would wait in the queue of every link, in seconds.
    QueueDelay,
    /// Bytes held by every session of a relay, and by every gateway.
    Buffer,
}

impl Series {
    /// Its name in scenario files and column headings.
    pub const fn name(self) -> &'static str {
        match self {
            Series::Cwnd => "cwnd",
            Series::Ssthresh => "ssthresh",
            Series::Sequence => "sequence",
            Series::Acknowledged => "acknowledged",
            Series::Rtt => "rtt",
            Series::InFlight => "in-flight",
            Series::Delivered => "delivered",
            Series::Queue => "queue",
            Series::QueueDelay => "queue-delay",
            Series::Buffer => "buffer",
        }
    }
}

impl fmt::Display for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
