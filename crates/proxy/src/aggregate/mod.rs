//! Flow aggregation for mobile hosts ("Using TCP Flow-Aggregation to Enhance Data Experience of Cellular
//! Wireless Users", AGG-1 to AGG-12): the connections to one mobile host share one window, one round-trip
//! time, one pacer and one transmission log, and a scheduler says whose turn it is.
//!
//! Reading order: [`AggregateConfig`]; `control_block` (what the connections of a group share); `member` (what each has of
//! its own); `control_block/turns` (what leaves next); `served` (a host, served by the control block of its group); `part` (what hosts have of their own
//! in the aggregate, and whose turn it is among them); `memory` (how a host's memory is shared out);
//! `window` (fixed or found), `losses` (those that last), `competition` (a window beside others that
//! fill the queue), `elasticity` (whether there are any), `rivals` (when that is asked), `joined` (hosts that lost too much without), `stride` (whose turn), `skipack` (losses across connections), `window_share`
//! (what the wired senders are offered), `uplink` (what mobile hosts are), `beyond` (what wired senders are whose queue stands
//! beyond the gateway). The registry of hosts and groups is
//! `access_side`; the gateway calls all this from `gateway/aggregation`.
mod allotted;
mod beyond;
mod competition;
mod config;
mod control_block;
mod elasticity;
mod handover;
mod joined;
mod link_lost;
mod losses;
mod member;
mod members;
mod memory;
mod off_link;
mod part;
mod rivals;
mod served;
mod skipack;
mod stride;
mod uplink;
mod window;
mod window_share;

pub(crate) use allotted::AllottedWindow;
pub(crate) use beyond::{Changed, Source, Sources};
pub use config::{AggregateConfig, Clamp, Class, UplinkWindow, WindowShareConfig};
pub(crate) use control_block::{Aggregate, Expired, Patience};
pub(crate) use joined::Joined;
pub(crate) use link_lost::LinkLost;
pub(crate) use member::Member;
pub(crate) use members::Members;
pub(crate) use memory::HostMemory;
pub(crate) use served::{Joining, Served, Shared};
pub(crate) use stride::{Turn, advance};
pub(crate) use uplink::{Due, Landing, Uplink, Upload};
