use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use shorthaul_types::{Bytes, schema, serde_duration};

use super::{CellConfig, Scheduler};
use crate::{RadioNetwork, spec_parts};

/// A cell's channel as people write it in TOML: a network by name, and what is different from what is usual
/// there.
///
/// ```toml
/// network = "umts"                  # or "gprs", "lte"
/// scheduler = "proportional-fair"   # or "round-robin"; or "proportional-fair over 500 slots"
/// block = "896 B"                   # in one slot, to one user
/// slot = "2 ms"
/// retry = "12 ms"                   # a block in error is retransmitted after this
/// retries = 10                      # at most; without end if it is 0
/// error_good = "2 %"                # of the blocks, in the good phase of a user's channel
/// error_bad = "50 %"
/// good = "4 s"                      # mean length
/// bad = "400 ms"
/// coding = [1.0, 0.5]               # of each user: the share of a block that carries data
/// ```
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CellSpec {
    /// What is taken for the keys that are left out.
    pub network: CellNetwork,
    /// Who sends next: `round-robin`, `proportional-fair` or `proportional-fair over 500 slots`. Round robin if it is left out.
    pub scheduler: Option<String>,
    /// What one slot carries to one user.
    pub block: Option<Bytes>,
    /// The length of a slot.
    #[serde(default, with = "serde_duration::option")]
    #[schemars(with = "schema::Duration")]
    pub slot: Option<Duration>,
    /// The time until a block in error is retransmitted.
    #[serde(default, with = "serde_duration::option")]
    #[schemars(with = "schema::Duration")]
    pub retry: Option<Duration>,
    /// How often at most; 0 is for as often as it takes.
    pub retries: Option<u32>,
    /// The share of blocks in error in the good phase of a user's channel, of all users.
    #[serde(default, deserialize_with = "spec_parts::optional_probability")]
    #[schemars(with = "spec_parts::Probability")]
    pub error_good: Option<f64>,
    /// The share of blocks in error in the bad phase, of all users.
    #[serde(default, deserialize_with = "spec_parts::optional_probability")]
    #[schemars(with = "spec_parts::Probability")]
    pub error_bad: Option<f64>,
    /// The mean length of the good phase, of all users.
    #[serde(default, with = "serde_duration::option")]
    #[schemars(with = "schema::Duration")]
    pub good: Option<Duration>,
    /// The mean length of the bad phase, of all users.
    #[serde(default, with = "serde_duration::option")]
    #[schemars(with = "schema::Duration")]
    pub bad: Option<Duration>,
    /// The share of a block that carries data, one for each user.
    #[serde(default)]
    pub coding: Vec<f64>,
}

/// A kind of radio network with a shared downlink; see [`CellConfig::of`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CellNetwork {
    /// Four time slots of GPRS.
    Gprs,
    /// UMTS with HSDPA.
    Umts,
    /// LTE-like.
    Lte,
}

impl CellSpec {
    /// The cell with this many `users`.
    ///
    /// # Errors
    /// Names the key and the remedy.
    pub fn resolve(&self, users: usize) -> Result<CellConfig, String> {
        let network = match self.network {
            CellNetwork::Gprs => RadioNetwork::Gprs,
            CellNetwork::Umts => RadioNetwork::Umts,
            CellNetwork::Lte => RadioNetwork::Lte,
        };
        if !self.coding.is_empty() && self.coding.len() != users {
            return Err(format!("coding: {} shares for {users} users; give each one", self.coding.len()));
        }
        let mut config = CellConfig::of(network, users);
        config.scheduler = self.scheduler.as_deref().map_or(Ok(config.scheduler), scheduler)?;
        config.block = self.block.unwrap_or(config.block);
        config.slot = self.slot.unwrap_or(config.slot);
        config.retry = self.retry.unwrap_or(config.retry);
        config.retries = self.retries.map_or(config.retries, |most| (most > 0).then_some(most));
        for (number, user) in config.users.iter_mut().enumerate() {
            user.coding = self.coding.get(number).copied().unwrap_or(user.coding);
            user.error_good = self.error_good.unwrap_or(user.error_good);
            user.error_bad = self.error_bad.unwrap_or(user.error_bad);
            user.good = self.good.unwrap_or(user.good);
            user.bad = self.bad.unwrap_or(user.bad);
        }
        config.check().map_err(ToString::to_string)?;
        Ok(config)
    }
}

fn scheduler(text: &str) -> Result<Scheduler, String> {
    let text = text.trim();
    let slots = text.strip_prefix("proportional-fair over ").and_then(|rest| rest.strip_suffix(" slots"));
    match (text, slots.and_then(|slots| slots.trim().parse().ok())) {
        ("round-robin", _) => Ok(Scheduler::RoundRobin),
        ("proportional-fair", _) => Ok(Scheduler::ProportionalFair { slots: 1000 }),
        (_, Some(slots)) => Ok(Scheduler::ProportionalFair { slots }),
        _ => Err(format!(
            "scheduler: `{text}` is none; write \"round-robin\", \"proportional-fair\" or \"proportional-fair over 500 slots\""
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(text: &str, users: usize) -> Result<CellConfig, String> {
        let spec: CellSpec = toml::from_str(text).map_err(|error| error.to_string())?;
        spec.resolve(users)
    }

    #[test]
    fn what_is_written_stands_over_what_is_usual() {
        let usual = resolve("network = \"umts\"", 2).unwrap();
        assert_eq!(usual, CellConfig::of(RadioNetwork::Umts, 2));
        let own = "network = \"lte\"\nscheduler = \"proportional-fair over 500 slots\"\nblock = \"1 kB\"\n\
                   retries = 0\nerror_good = \"1 %\"\ncoding = [1.0, 0.5]";
        let own = resolve(own, 2).unwrap();
        assert_eq!(own.scheduler, Scheduler::ProportionalFair { slots: 500 });
        assert_eq!((own.block, own.retries, own.slot), (Bytes(1000), None, Duration::from_millis(1)));
        assert_eq!((own.users[1].coding, own.users[1].error_good), (0.5, 0.01));
    }

    #[test]
    fn what_is_wrong_is_named_with_the_remedy() {
        for (text, words) in [
            ("network = \"umts\"\nscheduler = \"fair\"", ["scheduler", "round-robin"]),
            ("network = \"umts\"\ncoding = [1.0]", ["coding", "2 users"]),
            ("network = \"umts\"\ncoding = [1.0, 2.0]", ["coding", "up to 1"]),
            ("network = \"wimax\"", ["wimax", "lte"]),
            ("network = \"gprs\"\nslot = \"0 s\"", ["slot", "more than nothing"]),
        ] {
            let said = resolve(text, 2).unwrap_err();
            assert!(words.iter().all(|word| said.contains(word)), "{said}");
        }
    }
}
