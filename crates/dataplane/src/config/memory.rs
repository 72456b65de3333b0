//! Bounds on what a gateway holds.
use super::ConfigError;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use shorthaul_proxy::GatewayConfig;
use shorthaul_types::{Bytes, schema};
use std::time::Duration;

/// A connection with less than this for both directions stands still.
const LEAST_MEMORY: Bytes = Bytes(64 << 10);
/// The table of so many flows alone takes half a gigabyte.
const MOST_FLOWS: usize = 1 << 24;
/// Bounds on what is held.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Memory {
    /// Of each direction of a flow at most: at least 16 KiB. What a flow's path does not need it does not get. Without: 32 MiB, or all if that is
    /// less.
    #[serde(deserialize_with = "per_flow", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["4 MiB"]))]
    pub per_flow: Option<Bytes>,
    /// In all: at least 64 KiB.
    pub total: Bytes,
    /// Flows at once: at most 16,777,216.
    #[schemars(range(min = 1, max = 16777216))]
    pub max_flows: usize,
    /// A connection that is split and says nothing for this long takes a fraction of its memory until it goes on.
    #[serde(with = "shorthaul_types::serde_duration")]
    #[schemars(with = "schema::Duration")]
    pub put_away: Duration,
}

impl Memory {
    /// What may be held of each direction of a flow.
    pub fn per_flow(&self) -> Bytes {
        self.per_flow.unwrap_or(GatewayConfig::default().flow_buffer.min(self.total))
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let value = |key, why: String| Err(ConfigError::Value { key, why });
        if self.total < LEAST_MEMORY {
            let why = format!("{} carries no connection; write {LEAST_MEMORY} or more", self.total);
            return value("total", why);
        }
        if self.max_flows > MOST_FLOWS {
            let why =
                format!("{} is more than a gateway has room for, which is {MOST_FLOWS}", self.max_flows);
            return value("max_flows", why);
        }
        Ok(())
    }
}

impl Default for Memory {
    fn default() -> Self {
        let GatewayConfig { memory, max_flows, put_away, .. } = GatewayConfig::default();
        Memory { per_flow: None, total: memory, max_flows, put_away: put_away.unwrap_or_default() }
    }
}

fn per_flow<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Bytes>, D::Error> {
    match Bytes::deserialize(d)? {
        Bytes(0..16_384) => Err(serde::de::Error::custom(
            "less than 16 KiB for each direction of a flow holds no window: write a size such as \"4 MiB\"",
        )),
        size => Ok(Some(size)),
    }
}
