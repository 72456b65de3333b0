//! A deterministic discrete-event simulator that drives the very machines that the live loop drives.
//!
//! Reading order: [`simulate()`] (a scenario and a seed to an [`Outcome`]); within, `network` (the event
//! loop), [`Agenda`] (who is next), `frame` (what travels), `host` and `application` (endpoints and what
//! they do), `relay` (the node of the proxy transport service), `measure` (numbers and checks). [`run_all`] does
//! all runs of a study, on all cores, with those that are known from a [`Cache`].
//!
//! The same seed gives the same run: every event goes into a hash, in order. Randomness belongs to places
//! and is drawn by number, so schemes that are run with the same seed meet the same faults.
#![forbid(unsafe_code)]

mod agenda;
mod application;
mod build;
mod cache;
mod campaign;
mod cross;
mod endpoint;
mod error;
mod frame;
mod gateway_node;
mod host;
mod measure;
mod network;
mod outcome;
mod pattern;
mod recorder;
mod relay;
mod route;
mod scenario_host;
mod segmentation;
mod simulate;
mod station;
mod trace_hash;

pub use agenda::Agenda;
pub use application::{EndReport, Opening, Transfer};
pub use cache::{Cache, ENGINE};
pub use campaign::{Run, RunRecord, Shard, run_all, runs_of};
pub use cross::CrossSource;
pub use error::SimError;
pub use measure::fairness;
pub use outcome::{Fidelity, FlowOutcome, LinkOutcome, Outcome, TimeSeries};
pub use route::address_of;
pub use scenario_host::ScenarioHost;
pub use simulate::{Recording, simulate};
