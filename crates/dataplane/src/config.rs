use serde::Deserialize;
use shorthaul_congestion::Algorithm;
use shorthaul_proxy::{GatewayConfig, LegConfig};
use shorthaul_types::Bytes;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A gateway's configuration file, all of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Distinguishes several gateways on one host; part of device and file names (at most 8 letters).
    pub name: String,
    /// Interfaces toward the edge: the bad link.
    pub edge: Vec<String>,
    /// Interfaces toward the rest of the world.
    pub wan: Vec<String>,
    /// Bounds on what is held.
    pub memory: Memory,
    /// How to send toward the edge.
    pub to_edge: Leg,
    /// How to send toward the rest of the world.
    pub to_wan: Leg,
    /// How long to wait, when asked to end, for what is held to be delivered.
    #[serde(with = "shorthaul_types::serde_duration")]
    pub drain_timeout: Duration,
    /// Where the control socket and the crash journal are.
    pub run_dir: PathBuf,
    /// First of the two routing tables, and priority of the rules.
    pub table: u32,
}

/// Bounds on what is held.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Memory {
    /// Of each direction of a flow.
    pub per_flow: Bytes,
    /// In all.
    pub total: Bytes,
    /// Flows at once.
    pub max_flows: usize,
}

/// How to send into a leg.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Leg {
    /// `reno`, `cubic` or `fixed:<size>`.
    pub congestion: String,
    /// Spread bursts over the round trip.
    pub pacing: bool,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            name: "gw".into(),
            edge: Vec::new(),
            wan: Vec::new(),
            memory: Memory::default(),
            to_edge: Leg::default(),
            to_wan: Leg::default(),
            drain_timeout: Duration::from_secs(30),
            run_dir: "/run/shorthaul".into(),
            table: 7001,
        }
    }
}

impl Default for Memory {
    fn default() -> Self {
        let GatewayConfig { flow_buffer, memory, max_flows, .. } = GatewayConfig::default();
        Memory { per_flow: flow_buffer, total: memory, max_flows }
    }
}

impl Default for Leg {
    fn default() -> Self {
        Leg { congestion: "cubic".into(), pacing: true }
    }
}

/// What is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {path}: {error}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The file is not what it should be; the message shows file, line, key and what would be right.
    #[error("{path}: {error}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where and why.
        error: toml::de::Error,
    },
    /// A value is not one that can be worked with.
    #[error("{key}: {why}")]
    Value {
        /// The key.
        key: &'static str,
        /// What is wrong and what to write instead.
        why: String,
    },
}

impl Config {
    /// Reads a configuration file.
    ///
    /// # Errors
    /// Says which line and key are wrong.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| ConfigError::Unreadable { path: path.into(), error })?;
        toml::from_str(&text).map_err(|error| ConfigError::Malformed { path: path.into(), error })
    }

    /// What the machine needs of it, checked.
    ///
    /// # Errors
    /// Names the key and the remedy.
    pub fn gateway(&self, hash_seed: u64) -> Result<GatewayConfig, ConfigError> {
        let value = |key, why: String| Err(ConfigError::Value { key, why });
        if self.name.is_empty()
            || self.name.len() > 8
            || !self.name.bytes().all(|b| b.is_ascii_alphanumeric())
        {
            return value("name", format!("`{}` must be 1 to 8 letters or digits", self.name));
        }
        for (key, list, flag) in [("edge", &self.edge, "--edge"), ("wan", &self.wan, "--wan")] {
            if list.is_empty() {
                return value(
                    key,
                    format!("no interface is named; write {key} = [\"eth0\"] or give {flag} eth0"),
                );
            }
        }
        if let Some(both) = self.edge.iter().find(|name| self.wan.contains(name)) {
            return value("wan", format!("`{both}` is named as edge too; an interface leads to one side"));
        }
        if self.memory.per_flow.0 < 16 * 1024 {
            return value("memory.per_flow", "less than 16 KiB holds no window; write \"4 MiB\"".into());
        }
        let leg = |key, leg: &Leg| -> Result<LegConfig, ConfigError> {
            let congestion: Algorithm = leg
                .congestion
                .parse()
                .map_err(|error| ConfigError::Value { key, why: format!("{error}") })?;
            Ok(LegConfig { congestion, pacing: leg.pacing, ..LegConfig::default() })
        };
        Ok(GatewayConfig {
            flow_buffer: self.memory.per_flow,
            memory: self.memory.total,
            max_flows: self.memory.max_flows,
            edge: leg("to_edge.congestion", &self.to_edge)?,
            wan: leg("to_wan.congestion", &self.to_wan)?,
            hash_seed,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_file_names_line_key_and_remedy() {
        let error =
            toml::from_str::<Config>("edge = [\"eth0\"]\nwann = [\"eth1\"]\n").unwrap_err().to_string();
        assert!(error.contains("line 2") && error.contains("wann") && error.contains("`wan`"), "{error}");
        let error = toml::from_str::<Config>("[memory]\nper_flow = \"4 Mi\"\n").unwrap_err().to_string();
        assert!(error.contains("line 2") && error.contains("4 MiB"), "{error}");
    }

    #[test]
    fn a_configuration_without_interfaces_says_what_to_write() {
        let error = Config::default().gateway(0).unwrap_err().to_string();
        assert!(error.contains("edge") && error.contains("--edge eth0"), "{error}");
    }
}
