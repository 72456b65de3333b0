//! A configuration that is read again while the gateway runs.
use crate::config::Memory;
use crate::{Config, ConfigError};
use serde_json::{Map, Value};

/// What becomes of it.
#[derive(Debug)]
pub(crate) struct Reread {
    /// What holds from now on.
    pub config: Config,
    /// Keys with another value than before.
    pub changed: Vec<String>,
    /// Keys that were written differently, and cannot change before the gateway is started again.
    pub fixed: Vec<String>,
}

impl Reread {
    /// What `read` makes of a gateway that runs with `running`.
    ///
    /// # Errors
    /// It cannot be worked with. What is wrong with a value, [`Config::gateway`] says.
    pub fn of(running: &Config, read: Config) -> Result<Self, ConfigError> {
        let (hosts, former) = (read.gateway(0)?.hosts, running.gateway(0)?.hosts);
        if hosts != former {
            let why = "what one host is (prefix_v4, prefix_v6) cannot change while the gateway runs: start it again";
            return Err(ConfigError::Value { key: "hosts", why: why.into() });
        }
        let before = keys(running);
        let wanted = keys(&read);
        let config = Config {
            // Devices, files and routes have these names.
            name: running.name.clone(),
            access: running.access.clone(),
            wan: running.wan.clone(),
            bridge: running.bridge.clone(),
            attach: running.attach,
            run_dir: running.run_dir.clone(),
            custody: running.custody,
            table: running.table,
            priority: running.priority,
            workers: running.workers,
            metrics: running.metrics,
            // What is known of hosts is sorted by it.
            bottleneck: running.bottleneck.clone(),
            // The rules are made at the start.
            traffic: running.traffic,
            record: running.record.clone(),
            // The journal has a slot for each.
            memory: Memory { max_flows: running.memory.max_flows, ..read.memory },
            ..read
        };
        let now = keys(&config);
        let differ = |a: &Map<String, Value>, b: &Map<String, Value>| {
            let all = a.keys().chain(b.keys().filter(|key| !a.contains_key(*key)));
            all.filter(|key| a.get(*key) != b.get(*key)).cloned().collect::<Vec<_>>()
        };
        Ok(Reread { changed: differ(&before, &now), fixed: differ(&wanted, &now), config })
    }
}

/// The configuration by its keys, those of the memory by themselves.
fn keys(config: &Config) -> Map<String, Value> {
    let Ok(Value::Object(mut keys)) = serde_json::to_value(config) else { return Map::new() };
    if let Some(Value::Object(memory)) = keys.remove("memory") {
        keys.extend(memory.into_iter().map(|(key, value)| (format!("memory.{key}"), value)));
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        toml::from_str(&format!("access = [\"a\"]\nwan = [\"b\"]\n{text}")).unwrap()
    }

    #[test]
    fn what_can_change_changes_and_what_cannot_is_named() {
        let running = config("");
        let read = config(
            "name = \"x\"\nworkers = 2\ntable = 9000\ncustody = false\nidle_timeout = \"5 min\"\n[memory]\ntotal = \"64 MiB\"\nmax_flows = 7\n\
             [[policy]]\nmatch = { ports = [443] }\nmode = \"observe\"\n",
        );
        let Reread { config: now, mut changed, mut fixed } = Reread::of(&running, read.clone()).unwrap();
        changed.sort();
        fixed.sort();
        assert_eq!(changed, ["idle_timeout", "memory.total", "policy"]);
        assert_eq!(fixed, ["custody", "memory.max_flows", "name", "table", "workers"]);
        assert_eq!((&now.policy, now.idle_timeout), (&read.policy, read.idle_timeout));
        assert_eq!((now.table, now.memory.max_flows), (running.table, running.memory.max_flows));
        assert!(Reread::of(&running, running.clone()).unwrap().changed.is_empty());
    }

    #[test]
    fn what_cannot_be_worked_with_is_refused() {
        let error = Reread::of(&config(""), config("[[policy]]\n[aggregate]\n")).unwrap_err().to_string();
        assert!(error.starts_with("policy 1"), "{error}");
        let other_hosts = "[hosts]\nprefix_v4 = 24\n";
        let error = Reread::of(&config("[aggregate]\n"), config(other_hosts)).unwrap_err().to_string();
        assert!(error.contains("prefix_v4") && error.contains("start it again"), "{error}");
    }
}
