//! How much the sender of a direction is offered: bounds that combine by min.
//!
//! The first bound is what there is memory for ([`Buffer`]); then come those of the flow's policy, and last those of its
//! host's aggregate. A new kind is a file here and a row in [`WINDOW_LIMITS`].
mod clamp;
mod constant_queue;
mod freeze;
mod queue_price;

pub use clamp::ClampedWindow;
pub use constant_queue::ConstantQueue;
pub use freeze::Freeze;
pub use queue_price::QueuePrice;

use crate::ack_release::{Event, Opening};
use crate::policy::{Row, Setting, Subscription, row};
use alloc::boxed::Box;
use alloc::string::String;
use core::fmt::Debug;
use core::time::Duration;
use shorthaul_types::{Bytes, Deadline, Time};

/// What of a direction is here, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occupancy {
    /// Held, until the receiver acknowledges it: bytes of the stream, or half of their packet buffers if that is more.
    pub held: u64,
    /// Of that, what has never left.
    pub unsent: u64,
    /// What came out of order.
    pub early: u64,
}

/// What a sender has to hear at once of the window that it is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowUpdate {
    /// A window of zero from now on, whatever was offered before (RFC 9293 §3.8.6.1).
    Closed,
    /// What the bounds leave.
    Open,
}

/// One bound on what the sender of a direction is offered.
pub trait WindowLimit: Debug + Send {
    /// How much may be offered beyond what has come in order, of the `room` that other bounds leave.
    fn bound(&mut self, occupancy: &Occupancy, room: u64) -> u64;

    /// Something happened. Returns what the sender has to hear of it at once. What it closes stays closed until it opens it.
    fn on_event(&mut self, _now: Time, _event: Event) -> Option<WindowUpdate> {
        None
    }

    /// When it is to be told of [`Event::Timeout`].
    fn poll_timeout(&self) -> Option<Deadline> {
        None
    }
}

/// A kind of bound with its parameters: makes one for each flow.
pub trait WindowLimitKind: Debug + Send + Sync {
    /// The bound of a direction that begins.
    fn open(&self, opening: &Opening) -> Box<dyn WindowLimit>;

    /// What it hears of beyond its own flow.
    fn subscription(&self) -> Subscription<'_> {
        Subscription::FlowAlone
    }

    /// Whether it can work in this setting.
    ///
    /// # Errors
    /// Says which parameter cannot be worked with, or beside what, and what would be right.
    fn check(&self, _setting: &Setting<'_>) -> Result<(), String> {
        Ok(())
    }
}

/// What there is memory for (I-TCP, and any plain split).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buffer {
    /// What may be held, in bytes.
    pub size: u64,
}

impl WindowLimit for Buffer {
    fn bound(&mut self, occupancy: &Occupancy, room: u64) -> u64 {
        room.min(self.size.saturating_sub(occupancy.held))
    }
}

/// How much senders are offered, besides what there is memory for.
pub const WINDOW_LIMITS: &[Row<dyn WindowLimitKind>] = &[
    row!(
        ClampedWindow as WindowLimitKind,
        "clamp",
        "what is missing to a fixed amount held and under way",
        [("window", "the product of the access link's bandwidth and round trip, such as \"12 kB\"")],
        ClampedWindow { window: Bytes(10_000) }
    ),
    row!(
        ConstantQueue as WindowLimitKind,
        "constant-queue",
        "more while the host's queue is shorter, less while it is longer (CLAMP)",
        [("queue", "the queue to keep, such as \"30 kB\"")],
        ConstantQueue { queue: Bytes(10_000) }
    ),
    row!(
        QueuePrice as WindowLimitKind,
        "queue-price",
        "its share more in a round trip, and less by the price of the host's queue (CLAMP's own equations)",
        [
            ("a", "the queue that costs nothing, such as \"30 kB\""),
            ("tau", "by how much a window grows in a round trip, such as \"1500 B\"")
        ],
        QueuePrice { a: Bytes(10_000), b: 1, tau: Bytes(1_000) }
    ),
    row!(
        Freeze as WindowLimitKind,
        "freeze",
        "nothing while the receiver is silent",
        [("after", "how long a silence means disconnection, such as \"1 s\"")],
        Freeze { after: Duration::from_millis(80) }
    ),
];
