//! What an experiment is, as data: one TOML file for every engine.
//!
//! Reading order: [`Study`] (a file: points of a sweep, seeds), [`Scenario`] (one point, worked out),
//! [`Node`], [`LinkDescription`], [`Scheme`], [`Flow`] and [`Workload`], [`Metric`] and [`Series`].
//!
//! A file that makes no sense is refused with its name, the line, what is wrong and what would be right.
#![forbid(unsafe_code)]

mod error;
mod explain;
mod file;
mod lateness;
mod metric;
mod resolve;
mod scenario;
mod schema;
mod scheme;
mod shaper;
mod spanned;
mod study;
mod sweep;

pub use error::ScenarioError;
pub use file::Arrivals;
pub use lateness::{Lateness, ParseLatenessError};
pub use metric::{Metric, Series};
pub use scenario::{
    BandwidthChange, CellDescription, Cross, Flow, Forward, Gateway, Kill, LinkDescription, Measure, Node,
    NodeIndex, Overflow, Queues, Relay, Role, Scenario, Served, SetUp, Workload,
};
pub use schema::schema;
pub use scheme::{Scheme, Stack};
pub use shaper::{Autorate, CakeConfig, Isolation, RateRange, Shaper};
pub use study::Study;
pub use sweep::Point;
