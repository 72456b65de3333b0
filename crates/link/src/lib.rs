//! Links as pure values: rate, delay, queue, loss, outages, traces and the rest of what happens to a packet
//! on its way.
//!
//! Reading order: [`Link`] is the one thing that runs; [`LinkConfig`] says what it is like, with
//! [`Distribution`] for random times and [`Trace`] for recorded or generated rates. With the feature `serde`,
//! `LinkSpec` is the form in which people write all this in TOML.
//!
//! ```
//! use core::time::Duration;
//! use shorthaul_link::{Link, LinkConfig, Offered, QueueLimit, Rate};
//! use shorthaul_types::{BitRate, Bytes, Seed, Time};
//!
//! let config = LinkConfig {
//!     rate: Rate::Fixed(BitRate::from_bits_per_sec(12_000_000)),
//!     delay: Duration::from_millis(64),
//!     queue: QueueLimit::Packets(100),
//!     ..LinkConfig::default()
//! };
//! let mut link = Link::new(config, Seed(7));
//! assert_eq!(link.push(Time::ZERO, Bytes(1500), "a packet"), Offered::Queued);
//! assert_eq!(link.next_delivery(), Some(Time::from_millis(65)));
//! assert_eq!(link.pop(Time::from_millis(70)), Some((Time::from_millis(65), "a packet")));
//! ```
//!
//! # Time
//!
//! The crate is `no_std` and owns no clock. The fate of a packet is computed when it is pushed: its departure
//! from the queue follows from the departure of the packet before it, and its delivery from its departure. So
//! deliveries are exact functions of the pushes, a late driver adds no error, and a push or a pop costs a few
//! additions (a heap operation where the link may reorder). Only [`Link::reconfigure`] goes through the queue
//! again.
//!
//! # Randomness
//!
//! Two runs that are to be compared must meet the same faults, though the schemes under test send different
//! packets at different times. Therefore no component draws from a generator that others, or other packets,
//! draw from as well:
//!
//! - every component has a seed of its own, derived by name from the link's seed, so that switching jitter on
//!   does not change which packets are lost;
//! - what happens in time (outages, on/off loss, the phases of the radio) is a function of time alone: the
//!   same whatever is sent, and in whatever order it is asked for;
//! - what happens to packets (independent loss, duplication, jitter, reordering, ARQ) is a hash of the
//!   seed and the packet's number among those pushed, whatever the queue makes of the others;
//! - the Gilbert–Elliott chain is per packet, as its authors have it, and moves once for every packet pushed.
//!   It is the one model in which a sender that sends more sees other bursts; where that matters, take on/off.
//!
//! The numbers come from a counter run through SplitMix64's finalizer and, for distributions, through `libm`,
//! so they are the same on every machine.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod arq;
mod backlog;
mod cell;
mod cellular;
mod config;
mod distribution;
mod draw;
mod gprs;
mod line;
mod link;
mod loss;
mod notation;
mod opportunity;
mod outage;
mod paths;
mod radio;
mod route;
mod selective_repeat;
mod server;
#[cfg(feature = "serde")]
mod spec;
#[cfg(feature = "serde")]
mod spec_parts;
mod stats;
mod trace;
mod validate;
mod words;

pub use cell::{Cell, CellConfig, CellUser, Departure, Scheduler};
#[cfg(feature = "serde")]
pub use cell::{CellNetwork, CellSpec};
pub use cellular::{CellularModel, CellularOutages};
pub use config::{
    Arq, Drx, FrameAggregation, Jitter, LinkConfig, NakRounds, Outage, OutageTimes, Outages, QueueLimit,
    Rate, Reordering,
};
pub use distribution::Distribution;
pub use gprs::{GprsPhone, GprsRadio};
pub use link::{Link, Offered};
pub use loss::LossModel;
pub use notation::{NotationError, parse_probability};
pub use paths::PathsModel;
pub use radio::RadioNetwork;
pub use route::RouteChanges;
#[cfg(feature = "serde")]
pub use spec::{Direction, LinkSpec, LinkSpecError, Preset};
#[cfg(feature = "serde")]
pub use spec_parts::{OutagesSpec, RateSpec};
pub use stats::{DropReason, Dropped, LinkStats};
pub use trace::{Trace, TraceError};
pub use validate::ConfigError;
