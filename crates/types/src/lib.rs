//! The words that every crate of shorthaul speaks: time, sizes, rates, sequence numbers,
//! flow keys, deadlines and seeds.
//!
//! Reading order: [`Time`], the units [`Bytes`] and [`BitRate`], [`SeqNum`] and [`SeqSpace`],
//! [`FlowKey`], [`Deadline`], [`Seed`], [`BufferTimes`]; [`Keep`] (what a part knows, as numbers).
//!
//! The crate is `no_std` and owns no clock and no random source: time comes in as an argument
//! and randomness comes from a named [`Seed`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod address;
mod buffer_times;
mod deadline;
mod flow;
mod keep;
mod seed;
mod seq;
mod time;
mod units;

pub use address::parse_socket_address;
pub use buffer_times::{BufferTimes, BufferWatch, Level, binding_leg, lost_by_legs};
pub use deadline::Deadline;
pub use flow::{FlowKey, PortId};
pub use keep::{Blank, Keep, Numbers};
pub use seed::Seed;
pub use seq::{SeqNum, SeqSpace};
pub use time::Time;
pub use units::{BitRate, Bytes, ParseUnitError, exact_duration, format_duration, parse_duration};

#[cfg(feature = "serde")]
pub mod schema;
#[cfg(feature = "serde")]
pub mod serde_beside;
#[cfg(feature = "serde")]
pub mod serde_duration;
