//! What people and Prometheus see of a running gateway.
//!
//! Nothing of this runs on the thread that has the packets. That thread copies counters, and lists flows a few at a time when it is
//! asked; [`Source`] is how. Reading order: [`Snapshot`] (all that is shown of one moment), [`Sampler`] (what is made of two
//! listings of the flows), [`Monitor`] (when samples are taken), `openmetrics` (as Prometheus reads them), [`Pages`] (the page, live, over
//! HTTP), and with the feature `top` `top` (in a terminal).

#![forbid(unsafe_code)]

mod http;
mod monitor;
mod openmetrics;
mod sampler;
mod snapshot;
#[cfg(feature = "top")]
pub mod top;

pub use http::{PageError, Pages, Request, fetch, metrics, parse, response};
pub use monitor::{Monitor, Source};
pub use openmetrics::metrics_of_everything;
pub use sampler::Sampler;
pub use snapshot::{
    About, Event, FlowRow, GainRow, HalfRow, HostRow, Point, Reason, Snapshot, State, WorkerRow, gain_rows,
    why_whole,
};
