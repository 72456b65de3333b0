//! Labs, live.

mod lab;
mod vanish;
