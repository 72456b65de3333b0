//! Traffic that is not split: UDP and what runs over it, IPsec, connections that stay whole. Toward the access side its packets wait
//! in queues of their own, a queue a flow, for the turns that flows which are split wait for, too.
//!
//! Reading order: [`FlowId`] (what a flow is here); [`Queues`] (what waits); `codel` (what is dropped or marked, RFC 8289);
//! `under_way` (what of it a bottleneck group has under way); `unmeasured` (hosts of which nothing is acknowledged, and whose queue they share). The gateway calls all this from `gateway/unsplit`.
mod codel;
mod flow_id;
mod queues;
mod under_way;
mod unmeasured;

pub use codel::codel_spacing;
pub use flow_id::FlowId;
pub(crate) use queues::{Next, Queues};
pub(crate) use under_way::UnderWay;
pub(crate) use unmeasured::{Found, Shown, Unmeasured};

/// What of the traffic toward the access side waits for its turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(rename_all = "lowercase")
)]
pub enum Traffic {
    /// Connections that are split. All else passes as it comes.
    #[default]
    Tcp,
    /// All.
    All,
}
