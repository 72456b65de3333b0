//! How good the program's own predictions are.
//!
//! Reading order: `plan` (the planner's forecasts, decisions and placements, against the simulator), `discovery` (relays found
//! and chosen by themselves, live), `noise` (a gateway that is stopped, or on a busy machine, live), `set_up` (how long a chain of nodes takes to the first byte, live),
//! `survive` (what the ends notice when a gateway is killed, or taken over, live).
pub mod discovery;
pub mod noise;
pub mod plan;
pub mod set_up;
pub mod survive;
