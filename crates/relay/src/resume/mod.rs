//! Sessions that survive the nodes on their way: what goes between shorthaul's client and the last node is numbered and
//! acknowledged, so that what the other end has not acknowledged is sent again by another way (docs/relay.md).
//!
//! Reading order: `frame` (what is said), `ends` (the state of one end, without any I/O), `application` and `watch` (whose bytes they are, and who
//! hears of them), `carry` (one end and one way).
mod application;
pub mod carry;
pub mod ends;
pub mod frame;
mod watch;

pub use application::Application;
pub use ends::{Ends, EndsRecord, Memory, Role};
pub use frame::Violation;
pub use watch::{Moved, Unwatched, Watch};
