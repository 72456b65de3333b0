//! One direction of TCP, cut in the middle: a [`Receiver`] that faces whoever sends the bytes and
//! a [`Sender`] that faces whoever is to have them.
//!
//! Reading order: [`ByteQueue`] (bytes held), [`Reassembly`] (bytes that came too early),
//! [`Receiver`] (what to acknowledge and how much to invite), [`Scoreboard`] (what became of each
//! transmission), [`Sender`] (what to send next, and when to give up waiting).
//!
//! Everything is counted in `u64` stream offsets (see [`shorthaul_types::SeqSpace`]): 0 is the
//! SYN, 1 the first byte. `no_std`, no clock, no randomness.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod byte_queue;
mod prr;
mod rack;
mod reassembly;
mod receiver;
mod scoreboard;
mod sender;

pub use byte_queue::ByteQueue;
pub use reassembly::Reassembly;
pub use receiver::{AckPolicy, Receiver, Segment};
pub use scoreboard::{Record, Scoreboard};
pub use sender::{Ack, Outgoing, Sender, SenderConfig, SenderStats};
