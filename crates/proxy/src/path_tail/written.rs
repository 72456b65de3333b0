//! The form in which people write an emulated link, in TOML.
use super::{PathTailCell, PathTailConfig, TailScope};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use ipnet::IpNet;
use schemars::JsonSchema;
use serde::Deserialize;
use shorthaul_types::{BitRate, Bytes};

/// The parameters of path tail emulation.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Written {
    /// Of the emulated link.
    bandwidth: BitRate,
    /// Whether the bandwidth follows what is delivered, from `bandwidth` on.
    #[serde(default)]
    estimated: bool,
    /// Of the emulated link.
    queue: Option<Bytes>,
    /// What may be held behind one emulated link.
    buffer: Option<Bytes>,
    /// Who shares an emulated link.
    per: Option<Share>,
    /// The cells, where they share one.
    #[serde(default)]
    cells: Vec<WrittenCell>,
}

/// Who shares an emulated link.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Share {
    /// The hosts of a cell.
    Cell,
    /// The flows of a host.
    Host,
    /// Nobody: each flow has its own.
    Flow,
}

/// A radio cell.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WrittenCell {
    /// By what name a radio controller speaks of it.
    name: String,
    /// The prefixes of its hosts' addresses, such as `10.1.0.0/16`.
    #[schemars(with = "Vec<crate::policy::Prefix>")]
    prefixes: Vec<String>,
    /// Its bandwidth, where it is not that of all.
    bandwidth: Option<BitRate>,
}

shorthaul_types::written_as!(PathTailConfig, "PathTail", Written::json_schema);

impl TryFrom<Written> for PathTailConfig {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let Written { bandwidth, estimated, queue, buffer, per, cells } = written;
        let usual = PathTailConfig::of(bandwidth);
        let queue = queue.unwrap_or(usual.queue);
        let spare = Bytes(queue.0 + usual.buffer.0 - usual.queue.0);
        let share = per.unwrap_or(if cells.is_empty() { Share::Host } else { Share::Cell });
        let scope = match share {
            Share::Host | Share::Flow if !cells.is_empty() => {
                return Err("cells: they share a link each, so `per` is \"cell\"".into());
            }
            Share::Host => TailScope::Host,
            Share::Flow => TailScope::Flow,
            Share::Cell => {
                TailScope::Cell(cells.into_iter().map(WrittenCell::cell).collect::<Result<_, _>>()?)
            }
        };
        Ok(PathTailConfig {
            bandwidth,
            is_estimated: estimated,
            queue,
            buffer: buffer.unwrap_or(spare),
            scope,
        })
    }
}

impl WrittenCell {
    fn cell(self) -> Result<PathTailCell, String> {
        let WrittenCell { name, prefixes, bandwidth } = self;
        let prefixes = prefixes.iter().map(|text| prefix(text)).collect::<Result<_, _>>();
        let prefixes = prefixes.map_err(|error| format!("cells: {error}"))?;
        Ok(PathTailCell { name, prefixes, bandwidth })
    }
}

/// `10.1.0.0/16`, or an address alone.
///
/// # Errors
/// Says what to write.
pub(crate) fn prefix(text: &str) -> Result<IpNet, String> {
    let text = text.trim();
    let address = || text.parse::<IpAddr>().map(IpNet::from);
    text.parse()
        .or_else(|_| address())
        .map_err(|_| format!("`{text}` is no prefix of addresses: write one such as \"10.1.0.0/16\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_holds_the_addresses_that_begin_with_it() {
        for (written, address, holds) in [
            ("10.1.0.0/16", "10.1.200.3", true),
            ("10.1.0.0/16", "10.2.0.1", false),
            ("0.0.0.0/0", "192.0.2.1", true),
            ("0.0.0.0/0", "::1", false),
            ("10.1.2.3", "10.1.2.3", true),
            ("10.1.2.3", "10.1.2.2", false),
            ("fd00:1::/32", "fd00:1:2::9", true),
            ("fd00:1::/32", "fd00:2::9", false),
        ] {
            let address: IpAddr = address.parse().unwrap();
            assert_eq!(prefix(written).unwrap().contains(&address), holds, "{written} {address}");
        }
        for wrong in ["10.1.0.0/33", "10.1/16", "fd00::/129", "cell"] {
            assert!(prefix(wrong).unwrap_err().contains("10.1.0.0/16"));
        }
    }
}
