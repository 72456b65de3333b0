//! Ways that are chosen by what came of former sessions: what is forecast, corrected by what was measured, for a size that
//! is predicted; and what came of this one is remembered for the next.
//!
//! Reading order: `history` (what is remembered, in a file), `remembering` (the thread that writes it), `place` (what sessions to one
//! destination have shown), `loads` (what nodes told of theirs), `knowledge` (what follows from both, without clock or I/O), `routes` (who is
//! asked by a client).
mod history;
mod knowledge;
mod loads;
mod overview;
mod place;
mod remembering;
mod routes;

pub use history::{History, HistoryError, Past, now};
pub use knowledge::{ABOUT_AS_GOOD, ASKING, Candidate, Decision, Knowledge, NEWS, WayKnown};
pub use loads::Loads;
pub use overview::{Destination, Overview, Way};
pub use routes::{LearntRoutes, Source};
