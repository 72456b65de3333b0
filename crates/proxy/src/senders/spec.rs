//! The form in which people write a [`SenderControl`] in TOML.
use super::{AckRule, SenderControl, WindowRule};
use crate::{Cell, PathTailConfig, TailScope};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;
use serde::{Deserialize, Serialize};
use shorthaul_types::{BitRate, Bytes};

/// How senders in the wide area network are kept to the rate of the edge, by the name of a policy and
/// its parameters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SenderSpec {
    /// `split`, `path-tail`, `clamp`, `constant-queue`, `ack-regulator` or `m-tcp`.
    pub policy: Option<String>,
    /// Of the emulated link.
    pub bandwidth: Option<BitRate>,
    /// Whether the bandwidth follows what is delivered at the edge, from `bandwidth` on.
    pub estimated: Option<bool>,
    /// Of the emulated link; or the queue that a policy aims at.
    pub queue: Option<Bytes>,
    /// What may be held behind one emulated link.
    pub buffer: Option<Bytes>,
    /// Who shares an emulated link.
    pub per: Option<TailShare>,
    /// The cells, where they share one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cells: Vec<CellSpec>,
    /// What a clamp allows to be held and under way together.
    pub window: Option<Bytes>,
    /// After how long a silence of the edge the window is closed.
    #[serde(with = "shorthaul_types::serde_duration::option", skip_serializing_if = "Option::is_none")]
    pub after: Option<Duration>,
}

/// Who shares an emulated link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TailShare {
    /// The hosts of a cell.
    Cell,
    /// The flows of a host.
    Host,
    /// Nobody: each flow has its own.
    Flow,
}

/// A radio cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellSpec {
    /// By what name a radio controller speaks of it.
    pub name: String,
    /// The prefixes of its hosts' addresses, such as `10.1.0.0/16`.
    pub prefixes: Vec<String>,
    /// Its bandwidth, where it is not that of all.
    pub bandwidth: Option<BitRate>,
}

/// What is wrong with a [`SenderSpec`], and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SenderSpecError(String);

impl core::fmt::Display for SenderSpecError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for SenderSpecError {}

/// A policy: the parameters that it has, and the parts that it picks.
struct Policy {
    name: &'static str,
    keys: &'static [&'static str],
    parts: fn(&SenderSpec) -> Result<SenderControl, String>,
}

/// The policies, in the order in which they are listed.
const POLICIES: &[Policy] = &[
    Policy { name: "split", keys: &[], parts: |_| Ok(SenderControl::default()) },
    Policy {
        name: "path-tail",
        keys: &["bandwidth", "estimated", "queue", "buffer", "per", "cells"],
        parts: |spec| {
            Ok(SenderControl { acks: AckRule::PathTail(spec.path_tail()?), ..SenderControl::default() })
        },
    },
    Policy {
        name: "clamp",
        keys: &["window"],
        parts: |spec| {
            let window = wanted(
                spec.window,
                "window",
                "the product of the edge's bandwidth and round trip, such as \"12 kB\"",
            )?;
            Ok(SenderControl { window: WindowRule::Clamp(window), ..SenderControl::default() })
        },
    },
    Policy {
        name: "constant-queue",
        keys: &["queue"],
        parts: |spec| {
            let queue = wanted(spec.queue, "queue", "the queue to keep, such as \"30 kB\"")?;
            Ok(SenderControl { window: WindowRule::ConstantQueue { queue }, ..SenderControl::default() })
        },
    },
    Policy {
        name: "ack-regulator",
        keys: &["queue"],
        parts: |spec| {
            let queue = wanted(spec.queue, "queue", "from where on acknowledgments wait, such as \"60 kB\"")?;
            Ok(SenderControl { acks: AckRule::Regulated { queue }, ..SenderControl::default() })
        },
    },
    Policy {
        name: "m-tcp",
        keys: &["after"],
        parts: |spec| {
            let after =
                wanted(spec.after, "after", "how long a silence means disconnection, such as \"1 s\"")?;
            Ok(SenderControl { acks: AckRule::Delivered, window: WindowRule::Freeze { after } })
        },
    },
];

fn wanted<T>(value: Option<T>, key: &str, what: &str) -> Result<T, String> {
    value.ok_or_else(|| format!("{key}: this policy needs {what}"))
}

impl SenderSpec {
    /// The names of all policies.
    pub fn policies() -> impl Iterator<Item = &'static str> {
        POLICIES.iter().map(|policy| policy.name)
    }

    /// What it means, checked, for a gateway that holds `flow_buffer` of each direction of a flow.
    ///
    /// # Errors
    /// Names the key and the remedy.
    pub fn resolve(&self, flow_buffer: Bytes) -> Result<SenderControl, SenderSpecError> {
        let name = self.policy.as_deref().unwrap_or("split");
        let policy = POLICIES.iter().find(|policy| policy.name == name).ok_or_else(|| {
            let names: Vec<&str> = Self::policies().collect();
            SenderSpecError(format!("policy: `{name}` is none; write one of {}", names.join(", ")))
        })?;
        if let Some(key) = self.keys().find(|key| !policy.keys.contains(key)) {
            let has = if policy.keys.is_empty() { "nothing".to_string() } else { policy.keys.join(", ") };
            return Err(SenderSpecError(format!(
                "{key}: the policy `{name}` has no such parameter, but {has}"
            )));
        }
        let control = (policy.parts)(self).map_err(SenderSpecError)?;
        if let AckRule::PathTail(tail) = &control.acks {
            tail.check(flow_buffer).map_err(|why| SenderSpecError(why.to_string()))?;
        }
        Ok(control)
    }

    /// The parameters that are given.
    fn keys(&self) -> impl Iterator<Item = &'static str> {
        [
            ("bandwidth", self.bandwidth.is_some()),
            ("estimated", self.estimated.is_some()),
            ("queue", self.queue.is_some()),
            ("buffer", self.buffer.is_some()),
            ("per", self.per.is_some()),
            ("cells", !self.cells.is_empty()),
            ("window", self.window.is_some()),
            ("after", self.after.is_some()),
        ]
        .into_iter()
        .filter_map(|(key, given)| given.then_some(key))
    }

    fn path_tail(&self) -> Result<PathTailConfig, String> {
        let bandwidth =
            wanted(self.bandwidth, "bandwidth", "the edge's average throughput, such as \"1 Mbit/s\"")?;
        let usual = PathTailConfig::of(bandwidth);
        let queue = self.queue.unwrap_or(usual.queue);
        let spare = Bytes(queue.0 + usual.buffer.0 - usual.queue.0);
        let share = self.per.unwrap_or(if self.cells.is_empty() { TailShare::Host } else { TailShare::Cell });
        let scope = match share {
            TailShare::Host | TailShare::Flow if !self.cells.is_empty() => {
                return Err("cells: they share a link each, so `per` is \"cell\"".into());
            }
            TailShare::Host => TailScope::Host,
            TailShare::Flow => TailScope::Flow,
            TailShare::Cell => {
                TailScope::Cell(self.cells.iter().map(CellSpec::cell).collect::<Result<_, _>>()?)
            }
        };
        let is_estimated = self.estimated.unwrap_or(false);
        Ok(PathTailConfig { bandwidth, is_estimated, queue, buffer: self.buffer.unwrap_or(spare), scope })
    }
}

impl CellSpec {
    fn cell(&self) -> Result<Cell, String> {
        let CellSpec { name, prefixes, bandwidth } = self;
        let prefixes = prefixes.iter().map(|prefix| prefix.parse());
        let prefixes = prefixes.collect::<Result<_, _>>().map_err(|error| format!("cells: {error}"))?;
        Ok(Cell { name: name.clone(), prefixes, bandwidth: *bandwidth })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(text: &str) -> Result<SenderControl, String> {
        let spec: SenderSpec = toml::from_str(text).map_err(|error| error.to_string())?;
        spec.resolve(Bytes(4 << 20)).map_err(|error| error.to_string())
    }

    #[test]
    fn every_policy_is_a_row_of_parts() {
        for (text, control) in [
            ("", SenderControl::default()),
            (
                "policy = \"clamp\"\nwindow = \"12 kB\"",
                SenderControl { window: WindowRule::Clamp(Bytes(12_000)), ..SenderControl::default() },
            ),
            (
                "policy = \"m-tcp\"\nafter = \"1 s\"",
                SenderControl {
                    acks: AckRule::Delivered,
                    window: WindowRule::Freeze { after: Duration::from_secs(1) },
                },
            ),
        ] {
            assert_eq!(resolve(text), Ok(control), "{text}");
        }
        let tail = resolve(
            "policy = \"path-tail\"\nbandwidth = \"1 Mbit/s\"\nqueue = \"60 kB\"\ncells = [{ name = \"a\", prefixes = [\"10.0.0.0/8\"] }]",
        );
        let AckRule::PathTail(tail) = tail.unwrap().acks else { panic!() };
        assert_eq!((tail.queue, tail.buffer), (Bytes(60_000), Bytes(310_000)));
        assert!(matches!(tail.scope, TailScope::Cell(cells) if cells.len() == 1));
    }

    #[test]
    fn what_is_wrong_is_named_with_the_remedy() {
        for (text, words) in [
            ("policy = \"pathtail\"", ["policy", "path-tail"]),
            ("policy = \"path-tail\"", ["bandwidth", "1 Mbit/s"]),
            ("policy = \"clamp\"\nwindow = \"1 kB\"\nqueue = \"1 kB\"", ["queue", "window"]),
            ("window = \"1 kB\"", ["window", "nothing"]),
            ("policy = \"path-tail\"\nbandwidth = \"1 Mbit/s\"\nbuffer = \"9 MB\"", ["buffer", "half"]),
            (
                "policy = \"path-tail\"\nbandwidth = \"1 Mbit/s\"\ncells = [{ name = \"a\", prefixes = [\"x\"] }]",
                ["cells", "10.1.0.0/16"],
            ),
        ] {
            let said = resolve(text).unwrap_err();
            assert!(words.iter().all(|word| said.contains(word)), "{said}");
        }
    }
}
