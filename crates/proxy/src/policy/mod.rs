//! What a gateway does to the flows of a class: a row of parts.
//!
//! Reading order: [`FlowMatch`] (which flows); [`Policy`] (what is done to them); `check` (what cannot be combined);
//! `registry` (the kinds of parts there are, by name); `written` (the form in which people write all this).
mod check;
mod flow_match;
mod registry;
#[cfg(feature = "serde")]
mod written;

pub use check::PolicyError;
pub(crate) use flow_match::Subject;
#[cfg(feature = "serde")]
pub(crate) use flow_match::codepoints;
pub use flow_match::{FlowMatch, HostPrefix, HostSpec};
pub use registry::Row;
#[cfg(feature = "serde")]
pub(crate) use registry::read;
pub(crate) use registry::row;
#[cfg(feature = "serde")]
pub use registry::{Parameters, PartError};
#[cfg(feature = "serde")]
pub use written::{GatewayMode, PartSpec, PolicySpec, SenderSpec, WrittenPolicies};
#[cfg(feature = "serde")]
pub(crate) use written::{Prefix, prefixes};

use crate::ack_release::AckReleaseKind;
use crate::interceptor::InterceptorKind;
use crate::window_limit::WindowLimitKind;
use crate::{AggregateConfig, LegConfig, PathTailConfig};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use shorthaul_types::Bytes;

/// What is done to the flows of a class.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// The class.
    pub matches: FlowMatch,
    /// Whether we stand in them.
    pub mode: Mode,
    /// How we send toward the access side, and acknowledge what comes from there.
    pub access: LegConfig,
    /// The same for the rest of the world.
    pub wan: LegConfig,
    /// How senders in the wide area network are kept to what the access link can carry.
    pub senders: SenderControl,
    /// How the connections to one host are served together; `None` leaves each to itself, with the congestion control
    /// of its leg.
    pub aggregate: Option<Arc<AggregateConfig>>,
    /// What looks into flows that stay whole; the first is the nearest to the access side.
    pub intercept: Vec<Arc<dyn InterceptorKind>>,
    /// The share of flows that are observed instead of split, to compare with, from 0 (nothing is compared) to ½. Where
    /// splitting turns out to make a class of flows slower, these stay whole for a while (`docs/gain.md`).
    pub control_group: f64,
}

/// Whether a gateway stands in a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(rename_all = "lowercase")
)]
pub enum Mode {
    /// It does: the flow is split.
    #[default]
    Split,
    /// The flow stays whole; what passes may go through interceptors.
    Pass,
    /// The flow stays whole; what passes is counted and timed.
    Observe,
}

impl Mode {
    /// All of them.
    pub const ALL: [Mode; 3] = [Mode::Split, Mode::Pass, Mode::Observe];

    /// As in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Split => "split",
            Mode::Pass => "pass",
            Mode::Observe => "observe",
        }
    }
}

/// How senders in the wide area network are kept to the rate of the access link: by parts that do not know each other.
#[derive(Clone, Debug, Default)]
pub struct SenderControl {
    /// When, and up to where, they are acknowledged; `None`: as what they send arrives, by the leg's own
    /// [`AckPolicy`](shorthaul_tcp::AckPolicy).
    pub ack: Option<Arc<dyn AckReleaseKind>>,
    /// How much they are offered, besides what there is memory for: the least of these bounds.
    pub window: Vec<Arc<dyn WindowLimitKind>>,
}

impl SenderControl {
    /// Acknowledges by `kind`.
    pub fn acknowledging(kind: impl AckReleaseKind + 'static) -> Self {
        SenderControl { ack: Some(Arc::new(kind)), window: Vec::new() }
    }

    /// Bounds the advertised window by `kind`, too.
    #[must_use]
    pub fn limited_by(mut self, kind: impl WindowLimitKind + 'static) -> Self {
        self.window.push(Arc::new(kind));
        self
    }

    fn subscriptions(&self) -> impl Iterator<Item = Subscription<'_>> {
        let window = self.window.iter().map(|limit| limit.subscription());
        self.ack.iter().map(|ack| ack.subscription()).chain(window)
    }

    /// Whether any part follows the queue of the host.
    pub(crate) fn follows_host_queue(&self) -> bool {
        self.subscriptions().any(|subscription| matches!(subscription, Subscription::HostQueue))
    }

    /// The emulated link that datagrams are put on, where any part waits for them to come over one.
    pub fn emulated_link(&self) -> Option<&PathTailConfig> {
        self.subscriptions().find_map(|subscription| match subscription {
            Subscription::EmulatedLink(link) => Some(link),
            Subscription::FlowAlone | Subscription::HostQueue => None,
        })
    }

    /// Whether its parts can work in this setting.
    ///
    /// # Errors
    /// In words, with the remedy.
    pub(crate) fn check(&self, setting: &Setting<'_>) -> Result<(), String> {
        self.ack.iter().try_for_each(|ack| ack.check(setting))?;
        self.window.iter().try_for_each(|limit| limit.check(setting))
    }
}

/// What a part hears of beyond its own flow: the registry of the access side gives the flow a place there, and the part is
/// told by events.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Subscription<'a> {
    /// Nothing.
    FlowAlone,
    /// What its deliveries mean in the queue of its host: [`Event::Shared`](crate::ack_release::Event::Shared).
    HostQueue,
    /// When its datagrams have come over an emulated link: [`Event::Carried`](crate::ack_release::Event::Carried).
    EmulatedLink(&'a PathTailConfig),
}

/// What the parts of a policy have to work with.
#[derive(Clone, Copy, Debug)]
pub struct Setting<'a> {
    /// What is held of each direction of a flow at most.
    pub flow_buffer: Bytes,
    /// What serves the connections of a host together, if anything does.
    pub aggregate: Option<&'a AggregateConfig>,
}
