//! The simulator on whole scenarios.

mod aggregation;
mod agreement;
mod probing;
mod pts;
mod runs;
mod swarm;
