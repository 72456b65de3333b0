//! What looks into flows that stay whole: packets of both directions pass an interceptor, which may change them, keep
//! them back, drop them, or put in others.
//!
//! A new kind is a file here and a row in [`INTERCEPTORS`].
mod adapted_window;
mod delayed_duplicates;
mod explicit_window;
mod fda;
mod freeze_tcp;
mod regulated_acks;
mod snoop;

pub use adapted_window::AdaptedWindow;
pub use delayed_duplicates::DelayedDuplicates;
pub use explicit_window::ExplicitWindow;
pub use fda::Fda;
pub use freeze_tcp::{Fade, FreezeTcp};
pub use snoop::Snoop;

use crate::ack_release::Regulated;
use crate::end::Side;
use crate::policy::{Row, row};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt::Debug;
use core::time::Duration;
use shorthaul_types::{Bytes, Deadline, Time};
use shorthaul_wire::Packet;

/// Stands in the way of one flow that stays whole. It is there from the SYN on.
///
/// Of several, the first is the nearest to the access side. What one puts in does not pass the others.
pub trait Interceptor: Debug + Send {
    /// A packet comes from `side`. Returns what goes on: the packet as it came, or changed (then without
    /// [`Packet::original`]); `None` if it is dropped, or kept to be put in again.
    fn on_packet(&mut self, now: Time, side: Side, packet: Packet) -> Option<Packet>;

    /// The next packet that it puts in now, with the side that it goes to.
    fn poll_packet(&mut self, _now: Time) -> Option<(Side, Packet)> {
        None
    }

    /// When it has to be asked again what it puts in.
    fn poll_timeout(&self) -> Option<Deadline> {
        None
    }

    /// The memory of the packets that it keeps, in bytes. It counts as what the flow holds.
    fn memory(&self) -> usize {
        0
    }

    /// Memory is short: what it keeps only to put in once more goes.
    fn forget(&mut self) {}

    /// The gateway steps out of the flow: what is kept back is to be put in now.
    fn step_out(&mut self) {}
}

/// A kind of interceptor with its parameters: makes one for each flow.
pub trait InterceptorKind: Debug + Send + Sync {
    /// The interceptor of a flow that begins, of which the end at `access` is at the access side.
    fn open(&self, access: Side) -> Box<dyn Interceptor>;
}

/// What looks into flows that stay whole.
pub const INTERCEPTORS: &[Row<dyn InterceptorKind>] = &[
    row!(
        ExplicitWindow as InterceptorKind,
        "explicit-window",
        "lowers the windows that the access side advertises to a fixed amount",
        [("window", "what a sender may have under way, such as \"32 kB\"")],
        ExplicitWindow { window: Bytes(12_000) }
    ),
    row!(
        AdaptedWindow as InterceptorKind,
        "adapted-window",
        "lowers the windows that the access side advertises by the room that is free before its link",
        [
            ("buffer", "what may wait and be under way behind the gateway, such as \"40 kB\""),
            ("every", "how often the window is adapted to the queue, such as \"100 ms\"")
        ],
        AdaptedWindow { buffer: Bytes(40_000), every: Duration::from_millis(100) }
    ),
    row!(
        Snoop as InterceptorKind,
        "snoop",
        "sends again from here what is lost behind the gateway, and hides the loss from the sender",
        [],
        Snoop::default()
    ),
    row!(
        Fda as InterceptorKind,
        "fda",
        "tells a sender by duplicate acknowledgments that too much waits for the access side",
        [("queue", "from how much on, such as \"20 kB\"")],
        Fda { queue: Bytes(8_000) }
    ),
    row!(
        DelayedDuplicates as InterceptorKind,
        "delayed-duplicates",
        "lets duplicate acknowledgments wait while the link repairs what was lost",
        [("delay", "how long they wait, such as \"50 ms\"")],
        DelayedDuplicates { delay: Duration::from_millis(50) }
    ),
    row!(
        Regulated as InterceptorKind,
        "ack-regulator",
        "lets acknowledgments wait until the queue has room for what they bring",
        [("queue", "what may wait and be under way behind the gateway, such as \"60 kB\"")],
        Regulated { queue: Bytes(10_000) }
    ),
    row!(
        FreezeTcp as InterceptorKind,
        "freeze-tcp",
        "closes the window before a fade, and opens it with three copies of the acknowledgment after it",
        [
            ("fades", "when, such as [{ at = \"5 s\", lasts = \"2 s\" }]"),
            ("warning", "how long before a fade it is known, such as \"100 ms\"")
        ],
        FreezeTcp {
            fades: Vec::from([Fade { at: Duration::from_millis(300), lasts: Duration::from_millis(200) }]),
            warning: Duration::from_millis(100)
        }
    ),
];
