//! The simulator on whole scenarios.

mod aggregation;
mod agreement;
mod interceptors;
mod late;
mod probing;
mod profiles;
mod pts;
mod random_scenarios;
mod runs;
