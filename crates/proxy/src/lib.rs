//! The sequence-preserving splitting gateway, without I/O.
//!
//! The two ends shake hands with each other, through us. Then we step between them: toward each
//! end we speak with the other end's sequence numbers, so nothing is renumbered, and a flow of
//! which we hold no bytes needs us no longer.
//!
//! Reading order: [`GatewayConfig`], [`Policy`] (what is done to which flows) and [`LegConfig`]; `End` (what we know of an
//! end, to speak in its name); `Handshake` (what was agreed); [`SplitFlow`] (two directions, each a receiver and a sender
//! around one buffer); [`AckRelease`] and [`WindowLimit`] (when senders are acknowledged, and how much they are offered);
//! `WholeFlow` and [`Interceptor`] (flows that we do not stand in); [`Traffic`] (what of the rest waits for its turn); `shared_bottleneck` (which hosts share a queue, as `recent_round_trips` show); `access_side` (bottleneck groups, hosts, and the places of flows there); [`Gateway`] (all flows, as one
//! [`shorthaul_wire::Machine`]); [`Custody`] (what must survive a crash); `put_away` (what is kept of a flow that says nothing); [`AggregateConfig`] (mobile hosts whose
//! connections are served together).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod access_side;
mod ack_release;
mod aggregate;
mod common_drain;
mod config;
mod counters;
mod custody;
mod end;
mod flow_info;
mod fragments;
mod gain;
mod gateway;
mod handshake;
mod interceptor;
mod leg;
mod path_tail;
mod policy;
mod put_away;
mod recent_round_trips;
mod shared_bottleneck;
mod shares;
mod split_flow;
mod unsplit;
mod whole_flow;
mod window_limit;

pub use access_side::{Bottleneck, HostInfo, HostWeight};
pub use ack_release::{
    ACK_RELEASES, AckOptions, AckRelease, AckReleaseKind, Delivered, Event, Extent, Opening, Progress,
    QueueShare, Regulated, SackRanges, WithoutResidence,
};
pub use aggregate::{AggregateConfig, Clamp, Class, UplinkWindow, WindowShareConfig};
pub use config::GatewayConfig;
pub use counters::Counters;
pub use custody::{Custody, Encoded, FlowMomentum, FlowRecord, Held, Holding, Inherited};
pub use end::Side;
pub use flow_info::{FlowInfo, LegInfo};
pub use gain::{GainFigure, GainInfo, GainVerdict, KnownGains};
pub use gateway::{Brief, Gateway};
pub use interceptor::{
    AdaptedWindow, DelayedDuplicates, ExplicitWindow, Fade, Fda, FreezeTcp, INTERCEPTORS, Interceptor,
    InterceptorKind, Snoop,
};
pub use leg::{LegConfig, LegSpec};
pub use path_tail::{PathTailCell, PathTailConfig, TailScope};
pub use policy::{
    FlowMatch, HostPrefix, HostSpec, Mode, Policy, PolicyError, Row, SenderControl, Setting, Subscription,
};
#[cfg(feature = "serde")]
pub use policy::{GatewayMode, Parameters, PartError, PartSpec, PolicySpec, SenderSpec, WrittenPolicies};
pub use split_flow::SplitFlow;
pub use unsplit::{FlowId, Traffic, codel_spacing};
pub use whole_flow::{Observed, ObservedDirection};
pub use window_limit::{
    ClampedWindow, ConstantQueue, Freeze, Occupancy, QueuePrice, WINDOW_LIMITS, WindowLimit, WindowLimitKind,
    WindowUpdate,
};
