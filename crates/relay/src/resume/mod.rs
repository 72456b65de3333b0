//! Sessions that survive the nodes on their way: what goes between shorthaul's client and the last node is numbered and
//! acknowledged, so that what the other end has not acknowledged is sent again by another way (docs/relay.md).
//!
//! Reading order: `frame` (what is said), `ends` (the state of one end, without any I/O), `carry` (one end and one way).
pub mod carry;
pub mod ends;
pub mod frame;

pub use carry::Application;
pub use ends::{Ends, EndsRecord, Memory, Role};
pub use frame::Violation;
