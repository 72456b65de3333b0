//! A conformance suite for transparent TCP gateways.
//!
//! A gateway that stands between two hosts without their knowledge must not change what TCP
//! promises them. This suite finds out whether it does: it builds a small network, puts the gateway
//! into it, and lets the Linux kernel's own TCP talk through it from both sides. It knows nothing
//! of how the gateway works, so it can be run against any; and against none, which is the control.
//!
//! Reading order: a [`Case`] says what must hold; [`cases()`] lists them all, by topic; a [`Suite`]
//! runs them, each in a site (client, gateway, server) with or without [`Fault`]s; the [`Report`]
//! says how each went; [`Conformance`] is the trial, with its options.
//!
//! Every stream is a seeded pattern: each byte is compared with the one that belongs at its place,
//! and the SHA-256 of what arrived with that of what was sent. [`End`], [`Pattern`] and [`Tape`] are
//! for other live trials too.

mod case;
mod cases;
mod context;
mod end;
mod failure;
mod gateway;
mod outcome;
mod pattern;
mod place;
mod site;
mod suite;
mod trial;

pub use case::{Case, Family, Fault};
pub use cases::cases;
pub use end::{End, Incoming, Outgoing, Sent};
pub use failure::Failure;
pub use gateway::{ACCESS, Gateway, WAN};
pub use outcome::{CaseVerdict, Outcome, Report};
pub use pattern::{CHUNK, Pattern, Tape};
pub use suite::Suite;
pub use trial::Conformance;
