//! Closed-form models of TCP, forecasts for chains of relays, and where to put the relays.
#![forbid(unsafe_code)]

mod error;
mod leg;
pub mod model;

pub use error::PlanError;
pub use leg::{Framing, Leg};
pub use model::{Limit, Rate, ThroughputModel};
