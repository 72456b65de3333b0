//! How good the program's own predictions are.
//!
//! Reading order: `plan` (the planner's forecasts, decisions and placements, against the simulator), `discovery` (relays found
//! and chosen by themselves, live), `noise` (a gateway that is stopped, or on a busy machine, live), `set_up` (how long a chain of nodes takes to the first byte, live),
//! `ways` (which way clients take, against who knows all links), `share` (how they share nodes), `service` (what they gain by a node
//! against its service time, live), `network` (discovery among very many),
//! `survive` (what the ends notice when a gateway is killed, or taken over, live), `attack` (what others notice of an attacker, live),
//! `outlive` (what becomes of downloads when their relays are killed, live), `soak` (what becomes of a gateway's memory, live),
//! `scale` (what idle connections take of it, live), `page` (what looking at it takes, live), `siege` (what others notice of attacks on a relay, live).
pub mod attack;
pub mod discovery;
pub mod network;
pub(crate) mod nodes;
pub mod noise;
pub mod outlive;
pub mod page;
pub mod plan;
pub mod scale;
pub mod service;
pub mod set_up;
pub mod share;
pub mod siege;
pub mod soak;
pub mod survive;
pub mod ways;
