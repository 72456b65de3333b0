//! What the tests of several crates share. It is a dependency of tests only.
//!
//! Reading order: [`Chance`] and [`each_seed`] (all randomness of tests); [`packets`]; [`draw`] (configurations made of what is
//! registered, so that a new row of a registry is tested without being listed); [`App`] (what an end of a connection
//! does); [`World`] (hosts on both sides of a gateway, and links with faults); [`adversity`] (all that may go wrong there).
#![forbid(unsafe_code)]

pub mod adversity;
mod app;
mod chance;
pub mod draw;
pub mod packets;
mod vault;
mod world;

pub use app::{App, pattern};
pub use chance::{Chance, each_seed, seeds};
pub use vault::Vault;
pub use world::{DELAY, Faults, Flow, Opening, Station, Twin, World};
