//! How senders in the wide area network are kept to what the edge can carry: when they are acknowledged,
//! and how much they are invited to send.
use crate::PathTailConfig;
use core::time::Duration;
use shorthaul_types::Bytes;

/// A way to keep senders to the rate of the edge, made of two parts that do not know each other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SenderControl {
    /// When they are acknowledged.
    pub acks: AckRule,
    /// How much they are invited to send.
    pub window: WindowRule,
}

/// When senders in the wide area network are acknowledged.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum AckRule {
    /// As what they send arrives, by the leg's own [`AckPolicy`](shorthaul_tcp::AckPolicy).
    #[default]
    Early,
    /// As behind an emulated link, which drops what does not fit (path tail emulation).
    PathTail(PathTailConfig),
    /// When the host at the edge has acknowledged it. The last byte is kept back while more is under
    /// way, so that there is something to acknowledge when the window has to be closed (M-TCP).
    Delivered,
    /// When the host at the edge has acknowledged it, and the gateway's queue has room for what that will
    /// bring: the acknowledgments wait, and with them the sender (ACK regulator).
    ///
    /// After Chan and Ramjee, "TCP/IP Performance over 3G Wireless Links with Rate and Delay Variation", MobiCom
    /// 2002, as their patent US 8 230 106 claims it (claim 1): when a packet leaves the queue or an
    /// acknowledgment comes, the room is what is free in the queue less what the acknowledgments already released
    /// will still bring. The sender's window is estimated as the distance from the smallest acknowledgment that
    /// waits to the largest data received. While it is below the queue's limit the regulator is conservative: an
    /// acknowledgment may bring two packets (slow start), and room for both is kept. Above it, one is counted
    /// for one, and what congestion avoidance adds may overflow the queue, by one packet a round trip. The paper's
    /// own pseudo-code was not at hand; its reserve in the conservative mode may differ.
    Regulated {
        /// The limit of the queue, in bytes of payload.
        queue: Bytes,
    },
}

/// How much senders in the wide area network are invited to send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WindowRule {
    /// What there is room for (I-TCP, and any plain split).
    #[default]
    Buffer,
    /// What is missing to a fixed amount that may be held and under way together: the product of the
    /// edge's bandwidth and delay.
    Clamp(Bytes),
    /// What keeps the queue of a mobile host at the gateway constant, and its flows' rates equal (CLAMP):
    /// each flow's window w grows by its share, and shrinks by a price p(q) for what it was delivered,
    ///
    /// ```text
    /// dw = (τ − p(q)·μ) dt          μ: the flow's rate, q: the queue of all flows of the host
    /// ```
    ///
    /// (Andrew, Hanly and Mukhtar, "CLAMP: A System to Enhance the Performance of Wireless Access Networks",
    /// GLOBECOM 2003, and technical report CUBIN 2004-02-01.) Verified in their abstracts are the idea, its one
    /// signal (the aggregate queue, and no propagation delays) and its aim (a chosen queue and chosen shares). The
    /// equations were not at hand; the form is that of AGG's equations 1 and 2, which follow the same authors. The
    /// constants are ours: p(q) is q over the queue aimed at, and τ the rate that all flows would have if they had
    /// the same, so that the queue does not grow with the number of flows.
    ConstantQueue {
        /// The queue that is aimed at, of all flows of a host together, in bytes of payload.
        queue: Bytes,
    },
    /// What there is room for, but nothing while the host at the edge is silent (M-TCP).
    Freeze {
        /// For how long it must have been silent while something is under way to it.
        after: Duration,
    },
}

mod edge_queue;
mod gate;
mod invitation;
#[cfg(feature = "serde")]
mod spec;

pub(crate) use edge_queue::{EdgeQueues, EdgeReport, QueuePlace};
pub(crate) use gate::{Gate, Progress};
pub(crate) use invitation::Invitation;
#[cfg(feature = "serde")]
pub use spec::{CellSpec, SenderSpec, SenderSpecError, TailShare};
