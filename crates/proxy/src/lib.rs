//! The sequence-preserving splitting gateway, without I/O.
//!
//! The two ends shake hands with each other, through us. Then we step between them: toward each
//! end we speak with the other end's sequence numbers, so nothing is renumbered, and a flow of
//! which we hold no bytes needs us no longer.
//!
//! Reading order: [`GatewayConfig`]; `End` (what we know of an end, to speak in its name);
//! `Handshake` (what was agreed); [`SplitFlow`] (two directions, each a receiver and a sender
//! around one buffer); [`Gateway`] (all flows, as one [`shorthaul_wire::Machine`]);
//! [`SenderControl`] (how senders in the wide area network are kept to the edge's rate);
//! [`CustodyRecord`] (what must survive a crash); [`AggregateConfig`] (mobile hosts whose connections
//! are served together).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod aggregate;
mod config;
mod counters;
mod custody;
mod end;
mod flow_info;
mod gateway;
mod handshake;
mod orphan;
mod path_tail;
mod senders;
mod split_flow;

pub use aggregate::{AggregateConfig, Clamp, Class, HostInfo, Invitations, UplinkWindow};
pub use config::{GatewayConfig, LegConfig};
pub use counters::Counters;
pub use custody::CustodyRecord;
pub use end::Side;
pub use flow_info::{FlowInfo, LegInfo};
pub use gateway::Gateway;
pub use path_tail::{Cell, ParsePrefixError, PathTailConfig, Prefix, TailScope};
pub use senders::{AckRule, SenderControl, WindowRule};
#[cfg(feature = "serde")]
pub use senders::{CellSpec, SenderSpec, SenderSpecError, TailShare};
pub use split_flow::SplitFlow;
