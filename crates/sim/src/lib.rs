//! A deterministic discrete-event simulator that drives the very machines that the live loop drives.
//!
//! Reading order: [`simulate()`] (a scenario and a seed to an outcome); within, `network` (the event
//! loop), [`Agenda`] (who is next), `frame` (what travels), `host` and `application` (endpoints and what
//! they do), `handled` (what gateways were given, to measure what that costs), `relay` (the node of the proxy transport service), `shaper_node` and `cake` (what people use today, to compare with), `measure` (numbers and checks). [`Simulator`] is
//! this engine among the others.
//!
//! The same seed gives the same run: every event goes into a hash, in order. Randomness belongs to places
//! and is drawn by number, so schemes that are run with the same seed meet the same faults.
#![forbid(unsafe_code)]

mod agenda;
mod application;
mod buffers;
mod build;
mod cake;
mod chain;
mod cross;
mod endpoint;
mod error;
mod frame;
mod gateway_node;
mod handled;
mod host;
mod measure;
mod network;
mod pattern;
mod ping;
mod recorder;
mod relay;
mod relay_service;
mod route;
mod scenario_host;
mod segmentation;
mod shaper_node;
mod simulate;
mod simulator;
mod sleep;
mod station;
mod successor;
mod trace_hash;

pub use agenda::Agenda;
pub use application::{EndReport, Opening, Transfer};
pub use chain::{measured, slowest_transfer};
pub use cross::CrossSource;
pub use error::SimError;
pub use handled::{Again, Handled};
pub use host::port_of;
pub use route::address_of;
pub use scenario_host::ScenarioHost;
pub use simulate::{Recording, simulate, simulate_noting, simulate_watching};
pub use simulator::{ENGINE, Simulator};
