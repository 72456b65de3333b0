//! When, and up to where, the sender of a direction is acknowledged.
//!
//! A release is told what happens to the direction ([`Event`]) and says up to where the sender may be acknowledged now.
//! A direction without one is acknowledged as its bytes arrive, by the leg's own
//! [`AckPolicy`](shorthaul_tcp::AckPolicy). A new kind is a file here and a row in
//! [`ACK_RELEASES`].
mod delivered;
mod later;
mod regulated;
mod released;
mod without_residence;

pub use delivered::Delivered;
pub use regulated::Regulated;
pub use without_residence::WithoutResidence;

use crate::PathTailConfig;
use crate::policy::{Row, Setting, Subscription, row};
use alloc::boxed::Box;
use alloc::string::String;
use arrayvec::ArrayVec;
use core::fmt::Debug;
use core::time::Duration;
use later::Later;
use shorthaul_types::{BitRate, Bytes, Deadline, Time};

/// Ranges of a stream for a SACK option, start and end, the newest first.
pub type SackRanges = ArrayVec<(u64, u64), 4>;

/// What happens to a direction of a flow. Positions are offsets of its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The sender has brought this many bytes that are in order now.
    Received {
        /// How many.
        bytes: u64,
        /// Up to where everything has come.
        in_order: u64,
        /// The timestamp to echo if that were acknowledged now (RFC 7323 §4.3).
        ts_recent: Option<u32>,
        /// There is a gap, or something came twice: a receiver tells of that at once (RFC 5681 §4.2).
        gap: bool,
    },
    /// What had come out of order was given up for want of memory, and has to come again (RFC 2018 §8).
    Reneged,
    /// A datagram has come over the emulated link that it was put on ([`Subscription::EmulatedLink`]).
    Carried(Extent),
    /// The receiver has acknowledged more.
    Delivered(Progress),
    /// The receiver has acknowledged the FIN, and so everything up to here.
    Finished(u64),
    /// The flow had its turn; whether something of the direction is under way to the receiver.
    Polled {
        /// Unacknowledged bytes have left.
        under_way: bool,
    },
    /// What the flow's deliveries mean in the queue of its host ([`Subscription::HostQueue`]).
    Shared(QueueShare),
    /// An acknowledgment left toward the sender; with data it is no duplicate for its receiver.
    AckSent {
        /// It carries data.
        with_data: bool,
    },
    /// The window that the sender was offered is closed (only ACK releases are told): an acknowledgment that says so leaves now.
    WindowClosed,
    /// A deadline may have passed.
    Timeout,
}

/// What a datagram had of the stream, and its timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Its first byte.
    pub start: u64,
    /// Behind its last byte.
    pub end: u64,
    /// Its TSval.
    pub ts_val: Option<u32>,
}

/// How a direction stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Up to where the receiver has acknowledged.
    pub delivered: u64,
    /// Up to where everything has come from the sender.
    pub received: u64,
    /// Bytes that are still to be delivered.
    pub held: u64,
}

/// What a flow is told of its host's queue when it has delivered something, in bytes of payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueShare {
    /// What it delivered since it was told last.
    pub delivered: u64,
    /// What each flow would have delivered in that time if all had the same rate.
    pub fair: u64,
    /// What all flows delivered in that time.
    pub all: u64,
    /// What waits at the gateway, or is under way to the host, of all flows.
    pub queue: u64,
}

/// How a direction begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The time.
    pub now: Time,
    /// The first offset that is still to be acknowledged.
    pub next: u64,
    /// Payload of a full segment, in bytes.
    pub mss: u32,
    /// The timestamp to echo.
    pub ts_recent: Option<u32>,
}

/// What the options of an acknowledgment say of a direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AckOptions {
    /// What has come out of order, the newest first; what has come twice before all (RFC 2018, RFC 2883).
    pub sack: SackRanges,
    /// The timestamp to echo (RFC 7323 §4.3).
    pub ts_recent: Option<u32>,
}

impl AckOptions {
    /// The same, where everything has come up to `in_order`, and only what lies before `released` is acknowledged.
    /// What waits to be released has come too: a sender that hears of a gap behind it must not repair it.
    #[must_use]
    pub fn held_back(mut self, released: u64, in_order: u64) -> Self {
        if released < in_order && !self.sack.is_empty() {
            if self.sack.is_full() {
                self.sack.pop();
            }
            self.sack.push((released, in_order));
        }
        self
    }
}

/// Says up to where the sender of one direction may be acknowledged.
pub trait AckRelease: Debug + Send {
    /// Something happened.
    fn on_event(&mut self, now: Time, event: Event);

    /// Up to where to acknowledge, as far as it has been received.
    fn released(&self) -> u64;

    /// Whether an acknowledgment is due.
    fn wants_ack(&self) -> bool;

    /// What the options of an acknowledgment say, where `received` is what they would say if nothing were held back, and
    /// everything up to `in_order` has come.
    fn options(&self, received: AckOptions, in_order: u64) -> AckOptions {
        received.held_back(self.released(), in_order)
    }

    /// When it is to be told of [`Event::Timeout`].
    fn poll_timeout(&self) -> Option<Deadline> {
        None
    }
}

/// A kind of release with its parameters: makes one for each flow.
pub trait AckReleaseKind: Debug + Send + Sync {
    /// The release of a direction that begins.
    fn open(&self, opening: &Opening) -> Box<dyn AckRelease>;

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

/// When senders are acknowledged, where not as what they send arrives.
pub const ACK_RELEASES: &[Row<dyn AckReleaseKind>] = &[
    row!(
        PathTailConfig as AckReleaseKind,
        "path-tail",
        "after queueing and serialization on an emulated link",
        [("bandwidth", "the access link's average throughput, such as \"1 Mbit/s\"")],
        PathTailConfig {
            queue: Bytes(12_000),
            buffer: Bytes(25_000),
            ..PathTailConfig::of(BitRate::from_bits_per_sec(2_000_000))
        }
    ),
    row!(
        Regulated as AckReleaseKind,
        "ack-regulator",
        "when delivered, and the queue has room for what that brings",
        [("queue", "from where on acknowledgments wait, such as \"60 kB\"")],
        Regulated { queue: Bytes(10_000) }
    ),
    row!(Delivered as AckReleaseKind, "delivered", "when delivered, but for the last byte", [], Delivered {}),
    row!(
        WithoutResidence as AckReleaseKind,
        "without-residence",
        "when delivered, with timestamps that hide how long the data was here (W-TCP)",
        [],
        WithoutResidence {}
    ),
    row!(
        Later as AckReleaseKind,
        "later",
        "a fixed time after it has come",
        [("after", "how much later, such as \"20 ms\"")],
        Later { after: Duration::from_millis(30) }
    ),
];
