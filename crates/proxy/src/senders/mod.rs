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
    /// When the host at the edge has acknowledged it, but not while more than so much is held: the
    /// acknowledgments wait, and with them the sender (ACK regulator).
    Regulated {
        /// From where on acknowledgments wait, in bytes of payload.
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
    /// What keeps the queue at the gateway constant (CLAMP): the window grows by what was delivered,
    /// times what is missing to the queue, in the queue's own measure.
    ConstantQueue {
        /// The queue that is aimed at, in bytes of payload.
        queue: Bytes,
    },
    /// What there is room for, but nothing while the host at the edge is silent (M-TCP).
    Freeze {
        /// For how long it must have been silent while something is under way to it.
        after: Duration,
    },
}

mod gate;
mod invitation;
#[cfg(feature = "serde")]
mod spec;

pub(crate) use gate::Gate;
pub(crate) use invitation::Invitation;
#[cfg(feature = "serde")]
pub use spec::{CellSpec, SenderSpec, SenderSpecError, TailShare};
