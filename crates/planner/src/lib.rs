//! Closed-form models of TCP, forecasts for chains of relays, and where to put the relays.
//!
//! Reading order: [`Leg`] (one connection's way), [`model`] (how fast TCP goes on it), [`kalim`] (equations 1 to 9 of
//! "Cascaded TCP" as printed), [`buffer`] (what a relay's buffer does), [`Path`] (a chain of legs), [`Forecast`] (what
//! comes of it), [`Advice`] (relay or direct), [`Network`] and [`placement`] (which relays), [`ways`] (which way a session takes, learnt from
//! those before), [`sharing`] (which of several nodes that would do), [`chain`] (the same path for other engines), [`map`] (what
//! simulations of other paths say), [`scenario`] (a flow of a scenario in these terms), [`ModelEngine`] (all of it as an engine).
//!
//! ```
//! use std::time::Duration;
//! use shorthaul_planner::{Leg, Path, Relay, Transfer, model};
//! use shorthaul_types::{BitRate, Bytes};
//!
//! let leg = Leg::new(Duration::from_millis(128), 0.001, BitRate::from_bits_per_sec(32_000_000));
//! let reno = model::by_name("reno")?;
//! let transfer = Transfer::new(Bytes(100_000_000));
//! let direct = Path::direct(leg).forecast(&*reno, &transfer)?;
//! let split = Path::evenly_split(&leg, 1, Relay::default()).forecast(&*reno, &transfer)?;
//! assert!(split.time.expected < direct.time.expected / 2);
//! println!("{split}");
//! # Ok::<(), shorthaul_planner::PlanError>(())
//! ```
#![forbid(unsafe_code)]

mod advice;
pub mod buffer;
pub mod chain;
mod engine;
mod error;
mod forecast;
pub mod kalim;
mod leg;
pub mod map;
pub mod model;
mod network;
mod path;
pub mod placement;
pub mod scenario;
mod sender;
pub mod sharing;
pub mod ways;

pub use advice::{Advice, Policy};
pub use engine::ModelEngine;
pub use error::PlanError;
pub use forecast::{Bottleneck, Estimate, Forecast, RelayForecast, TOLERANCE};
pub use leg::{Framing, Leg};
pub use model::{Limit, Rate, ThroughputModel};
pub use network::{Connection, Ends, Limits, Network, Site};
pub use path::{Forwarding, Path, Relay, SetUp, Transfer};
pub use sender::Unmodelled;
