//! A gateway's configuration: what is written in its file and given by flags, checked.
mod memory;
mod name;
mod workers;

pub use memory::Memory;
pub use name::Name;
pub use workers::number_of_workers;

use crate::Priority;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Deserializer, Serialize};
use shorthaul_proxy::{
    AggregateConfig, Bottleneck, GatewayConfig, GatewayMode, HostSpec, LegSpec, PolicyError, PolicySpec,
    SenderSpec, Traffic, WrittenPolicies,
};
use shorthaul_types::schema;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use workers::{is_one, workers};

/// A gateway's configuration file, all of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "shorthaul gateway")]
pub struct Config {
    /// Distinguishes several gateways on one host; part of device and file names.
    pub name: Name,
    /// Interfaces toward the access side: the bad link.
    #[serde(alias = "edge")]
    pub access: Vec<String>,
    /// Interfaces toward the rest of the world.
    pub wan: Vec<String>,
    /// Instead of `access` and `wan`: two Ethernet interfaces that are joined by a bridge, the first toward the access side. The host needs
    /// no address and no route then.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [["eth0", "eth1"]]))]
    pub bridge: Option<[String; 2]>,
    /// How packets come to a gateway that routes: `"interface"`, programs at the access interfaces, between these and the host's firewall
    /// and routes (Linux 6.6, Ethernet, CAP_BPF); or `"rules"`, routing rules, which lead each packet through the host twice. Left out, it is
    /// the latter, and the former where something is found that does not go with rules: address translation, a firewall that drops what
    /// no rule names, a routing rule ahead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attach: Option<Attach>,
    /// What one host is on the access side: addresses that agree in their first bits.
    pub hosts: HostSpec,
    /// Links that hosts on the access side share, such as a backhaul: one window for each, and for each host its share of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bottleneck: Vec<Bottleneck>,
    /// What of the traffic toward the access side waits for its turn: connections that are split (`"tcp"`), or all (`"all"`).
    pub traffic: Traffic,
    /// Bounds on what is held.
    pub memory: Memory,
    /// How to send toward the access side.
    #[serde(alias = "to_edge")]
    pub to_access: LegSpec,
    /// How to send toward the rest of the world.
    pub to_wan: LegSpec,
    /// How senders in the wide area network are kept to what the access side can carry.
    pub senders: SenderSpec,
    /// What is done to flows of certain classes, the first that matches. What is outside of this list is for all others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub policy: Vec<PolicySpec>,
    /// A file from which the bandwidth of the emulated links is read, again whenever it changes.
    pub bandwidth_file: Option<PathBuf>,
    /// What is done to all flows that no policy is for. Left out, it is `auto`, unless something is written that is for
    /// connections each by itself: `senders`, or how to send toward the access side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<GatewayMode>,
    /// The parameters of `auto`: how the connections to one host on the access side are served together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aggregate: Option<AggregateConfig>,
    /// The share of flows that are observed instead of split, to compare with: from 0 (nothing is compared) to 0.5. Left out, it is 0.02
    /// in mode `auto`, and 0 in mode `split`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 0.5))]
    pub control_group: Option<f64>,
    /// After this time without a segment, a connection of which nothing is held is stepped out of.
    #[serde(with = "shorthaul_types::serde_duration")]
    #[schemars(with = "schema::Duration")]
    pub idle_timeout: Duration,
    /// How long to wait, when asked to end, for what is held to be delivered.
    #[serde(with = "shorthaul_types::serde_duration")]
    #[schemars(with = "schema::Duration")]
    pub drain_timeout: Duration,
    /// How promptly the loop is run while others keep the processors busy.
    pub priority: Priority,
    /// Event loops, each with a thread of its own: 1 to 64. All packets of a host on the access side are one's, and so are those of a
    /// bottleneck's hosts. Each has an equal part of the memory and of the flows.
    #[serde(deserialize_with = "workers", skip_serializing_if = "is_one")]
    #[schemars(range(min = 1, max = 64), extend("default" = 1))]
    pub workers: usize,
    /// Where the control socket and the crash journal are.
    pub run_dir: PathBuf,
    /// Whether what is held survives a crash, and the gateway can be taken over, by what is written to `run_dir` all the while. Without
    /// that, a crash loses bytes that their senders believe delivered, and the connections fail when their ends find out.
    pub custody: bool,
    /// First of the two routing tables, and priority of the rules.
    #[serde(deserialize_with = "table")]
    #[schemars(range(min = 1, max = 32_764))]
    pub table: u32,
    /// Where metrics, `/metrics`, and the page, `/`, are served over HTTP: a loopback address, such as "127.0.0.1:7090". Left out,
    /// they are not.
    #[serde(deserialize_with = "address")]
    #[schemars(with = "Option<String>", extend("examples" = ["127.0.0.1:7090"]))]
    pub metrics: Option<SocketAddr>,
    /// A file to record everything to.
    pub record: Option<PathBuf>,
}

/// How packets come to a gateway that routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Attach {
    /// By programs at the access interfaces.
    Interface,
    /// By routing rules.
    Rules,
}

/// A longer file is none of ours.
const LONGEST_FILE: u64 = 4 << 20;

impl Default for Config {
    fn default() -> Self {
        Config {
            name: Name::default(),
            access: Vec::new(),
            wan: Vec::new(),
            bridge: None,
            attach: None,
            hosts: HostSpec::default(),
            bottleneck: Vec::new(),
            traffic: Traffic::default(),
            memory: Memory::default(),
            to_access: LegSpec::default(),
            to_wan: LegSpec::default(),
            senders: SenderSpec::default(),
            policy: Vec::new(),
            bandwidth_file: None,
            mode: None,
            aggregate: None,
            control_group: None,
            idle_timeout: GatewayConfig::default().idle_timeout,
            drain_timeout: Duration::from_secs(30),
            priority: Priority::default(),
            workers: 1,
            run_dir: "/run/shorthaul".into(),
            custody: true,
            table: 7001,
            metrics: None,
            record: None,
        }
    }
}

fn address<'de, D: Deserializer<'de>>(d: D) -> Result<Option<SocketAddr>, D::Error> {
    let text = Option::<String>::deserialize(d)?;
    text.map(|text| shorthaul_types::parse_socket_address(&text))
        .transpose()
        .map_err(serde::de::Error::custom)
}

fn table<'de, D: Deserializer<'de>>(d: D) -> Result<u32, D::Error> {
    routing_table(u32::deserialize(d)?).map_err(serde::de::Error::custom)
}

/// The first of our two routing tables, if both can be ours: the kernel's own are 0 and 253 to 255, and the priority of the rules is
/// before its own, 32766.
///
/// # Errors
/// What to write instead.
pub fn routing_table(number: u32) -> Result<u32, String> {
    match number {
        1..253 | 256..32_765 => Ok(number),
        other => Err(format!(
            "{other} and {} cannot be our routing tables: write a number from 256 to 32764, such as 7001",
            u64::from(other) + 1
        )),
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
    /// What file and flags say together is not something that can be worked with.
    #[error("{key}: {why}")]
    Value {
        /// The key.
        key: &'static str,
        /// What is wrong and what to write instead.
        why: String,
    },
    /// Policies cannot be worked with, or not together.
    #[error(transparent)]
    Policy(#[from] PolicyError),
}

impl Config {
    /// The JSON schema (draft 2020-12) of configuration files. Editors that know it complete and check keys.
    pub fn schema() -> Schema {
        schema::document::<Config>()
    }

    /// Reads a configuration file.
    ///
    /// # Errors
    /// Says which line and key are wrong, and what would be right.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let unreadable = |error| ConfigError::Unreadable { path: path.into(), error };
        let length = std::fs::metadata(path).map_err(unreadable)?.len();
        if length > LONGEST_FILE {
            let why = format!("it has {length} bytes, and no configuration is longer than {LONGEST_FILE}");
            return Err(unreadable(std::io::Error::new(std::io::ErrorKind::FileTooLarge, why)));
        }
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        toml::from_str(&text).map_err(|error| ConfigError::Malformed { path: path.into(), error })
    }

    /// What is written of policies.
    pub fn policies(&self) -> WrittenPolicies<'_> {
        WrittenPolicies {
            listed: &self.policy,
            to_access: &self.to_access,
            to_wan: &self.to_wan,
            mode: self.mode,
            senders: &self.senders,
            aggregate: self.aggregate.as_ref(),
            control_group: self.control_group,
            flow_buffer: self.share().per_flow(),
        }
    }

    /// The interfaces toward the access side, and toward the rest of the world.
    pub fn interfaces(&self) -> [Vec<String>; 2] {
        match &self.bridge {
            Some([access, wan]) => [vec![access.clone()], vec![wan.clone()]],
            None => [self.access.clone(), self.wan.clone()],
        }
    }

    /// Whether each side has interfaces of its own.
    fn check_interfaces(&self) -> Result<(), ConfigError> {
        let value = |key, why: String| Err(ConfigError::Value { key, why });
        if let Some([access, wan]) = &self.bridge {
            if !self.access.is_empty() || !self.wan.is_empty() {
                let why =
                    "`access` and `wan` are for a gateway that routes: leave them out, or leave `bridge` out";
                return value("bridge", why.into());
            }
            if self.attach.is_some() {
                let why = "it is for a gateway that routes: leave it out, or leave `bridge` out";
                return value("attach", why.into());
            }
            if access == wan {
                let why = format!(
                    "`{access}` is named twice: write the interfaces of both sides, such as bridge = [\"eth0\", \"eth1\"]"
                );
                return value("bridge", why);
            }
            return Ok(());
        }
        for (key, list, flag) in [("access", &self.access, "--access"), ("wan", &self.wan, "--wan")] {
            if list.is_empty() {
                let why = format!("no interface is named; write {key} = [\"eth0\"] or give {flag} eth0");
                return value(key, why);
            }
        }
        for (key, list) in [("access", &self.access), ("wan", &self.wan)] {
            if let Some((_, twice)) =
                list.iter().enumerate().find(|(index, name)| list[..*index].contains(name))
            {
                return value(key, format!("`{twice}` is named twice; once is enough"));
            }
        }
        match self.access.iter().find(|name| self.wan.contains(name)) {
            Some(both) => {
                value("wan", format!("`{both}` is named in `access` too; an interface leads to one side"))
            }
            None => Ok(()),
        }
    }

    /// What the machine of a worker needs of it, checked.
    ///
    /// # Errors
    /// Names the key and the remedy.
    pub fn gateway(&self, hash_seed: u64) -> Result<GatewayConfig, ConfigError> {
        let value = |key, why: String| Err(ConfigError::Value { key, why });
        self.check_interfaces()?;
        self.memory.check()?;
        let policies = match self.policies().resolve([None; 2]) {
            Ok(policies) => policies,
            Err(PolicyError { policy: None, key, why }) => return value(key, why),
            Err(error) => return Err(error.into()),
        };
        let share = self.share();
        let config = GatewayConfig {
            flow_buffer: share.per_flow(),
            memory: share.total,
            max_flows: share.max_flows,
            idle_timeout: self.idle_timeout,
            put_away: Some(self.memory.put_away),
            hosts: self.hosts.resolve(&policies),
            bottlenecks: self.bottleneck.clone(),
            traffic: self.traffic,
            policies,
            hash_seed,
            watches_buffers: false,
        };
        self.check_workers(&config)?;
        match config.check() {
            Ok(()) => Ok(config),
            // What is outside of the list is known by its key alone.
            Err(PolicyError { policy, key, why })
                if policy.is_none_or(|policy| policy >= self.policy.len()) =>
            {
                value(key, why)
            }
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shorthaul_congestion::Algorithm;
    use shorthaul_proxy::Mode;
    use shorthaul_tcp::{AckPolicy, LossDetection};
    use shorthaul_types::Bytes;

    /// What a person is told about a file with this text.
    fn complaint(text: &str) -> String {
        let error = toml::from_str(text).map(|_: Config| ()).expect_err(text);
        ConfigError::Malformed { path: "gateway.toml".into(), error }.to_string()
    }

    #[test]
    fn a_wrong_file_names_file_line_key_and_remedy() {
        for (text, line, words) in [
            ("access = [\"eth0\"]\nwann = [\"eth1\"]\n", 2, ["wann", "`wan`"]),
            ("[memory]\nper_flow = \"4 Mi\"\n", 2, ["per_flow", "4 MiB"]),
            ("[memory]\n\nper_flow = \"4 KiB\"\n", 3, ["per_flow", "\"4 MiB\""]),
            ("[to_access]\ncongestion = \"tornado\"\n", 2, ["congestion", "\"cubic\""]),
            ("\nname = \"my gateway\"\n", 2, ["name", "letters or digits"]),
            ("\n[hosts]\nprefix_v4 = 33\n", 3, ["prefix_v4", "0 to 32"]),
            ("hosts = { prefix = 24 }\n", 1, ["prefix", "`prefix_v4`"]),
            ("[to_access]\ninitial_window = 0\n", 2, ["initial_window", "1 to 1000"]),
            ("[to_access]\npacing = true\nsack = false\n", 3, ["sack", "leave it out"]),
            ("[to_wan]\npaceing = true\n", 2, ["paceing", "`pacing`"]),
            ("[to_wan]\npacing = true\nmtu = 100\n", 3, ["mtu", "576 to 65535"]),
            ("access = [\"a\"]\n[senders]\npolicy = \"clamp\"\nwindow = \"much\"\n", 2, ["window", "120 kB"]),
            ("\n[senders]\npolicy = \"clamp\"\nqueue = \"1 kB\"\n", 2, ["queue", "`window`"]),
            ("[[policy]]\nmatch = { hosts = [\"ten\"] }\n", 2, ["match", "10.1.0.0/16"]),
            ("[[policy]]\nmode = \"watch\"\n", 2, ["mode", "observe"]),
            ("[[policy]]\n\nwindow = [{ kind = \"clamp\" }]\n", 3, ["window", "12 kB"]),
            ("[[policy]]\nack = \"late\"\n", 2, ["ack", "path-tail"]),
            ("[[policy]]\nack = { kind = \"ack-regulator\", que = \"1 kB\" }\n", 2, ["`que`", "`queue`"]),
            (
                "[[policy]]\nintercept = [{ kind = \"explicit-window\", window = \"x\" }]\n",
                2,
                ["window", "120 kB"],
            ),
            ("[[policy]]\nto_access = { initial_window = 0 }\n", 2, ["initial_window", "1 to 1000"]),
            ("table = 254\n", 1, ["table", "7001"]),
            ("workers = 0\n", 1, ["workers", "1 to 64"]),
            ("workers = 65\n", 1, ["65 workers", "1 to 64"]),
            ("drain_timeout = \"soon\"\n", 1, ["drain_timeout", "1.5 s"]),
            ("drain_timeout = 30\n", 1, ["`30`", "1.5 s"]),
            ("[memory]\ntotal = 30\n", 2, ["`30`", "4 MiB"]),
        ] {
            let said = complaint(text);
            assert!(said.starts_with("gateway.toml: "), "{said}");
            assert!(said.contains(&format!("line {line}")), "{said}");
            assert!(words.iter().all(|word| said.contains(word)), "{said}");
        }
    }

    #[test]
    fn what_several_workers_cannot_share_is_refused_by_name() {
        let ours = "access = [\"a\"]\nwan = [\"b\"]\n";
        let said = |workers: usize, text: &str| {
            let config: Config = toml::from_str(&format!("{ours}workers = {workers}\n{text}")).unwrap();
            config.gateway(0).map(|_| ()).map_err(|error| error.to_string())
        };
        for (text, key, words) in [
            ("[aggregate]\nfind_bottlenecks = true\n", "find_bottlenecks", ["[[bottleneck]]", "workers = 1"]),
            ("[memory]\ntotal = \"6 MiB\"\nper_flow = \"4 MiB\"\n", "workers", ["per_flow", "`total`"]),
            ("[memory]\nmax_flows = 1\n", "workers", ["max_flows", "fewer"]),
            ("[[bottleneck]]\nname = \"ship\"\n", "bottleneck", ["`ship`", "name its hosts"]),
            (
                "[[bottleneck]]\nname = \"ship\"\nhosts = [\"2001:db8::/96\"]\n",
                "bottleneck",
                ["2001:db8::/96", "64 bits or less"],
            ),
            (
                "[senders]\npolicy = \"path-tail\"\nbandwidth = \"1 Mbit/s\"\ncells = [{ name = \"n\", prefixes = [\"10.1.0.0/16\"] }]\n",
                "cells",
                ["emulated cell", "workers = 1"],
            ),
        ] {
            let error = said(2, text).expect_err(text);
            assert!(error.starts_with(key) && words.iter().all(|word| error.contains(word)), "{error}");
            assert_eq!(said(1, text), Ok(()));
        }
        assert_eq!(
            said(2, "[memory]\ntotal = \"6 MiB\"\n"),
            Ok(()),
            "what is not written is no more than a part"
        );
        let of_its_own =
            "[[bottleneck]]\nname = \"ship\"\nhosts = [\"10.1.0.0/16\"]\n[[bottleneck]]\nname = \"rest\"\n";
        assert_eq!(said(2, of_its_own), Ok(()));
        let idle = said(4, of_its_own).expect_err("two workers would have no hosts");
        for words in
            ["bottleneck", "`rest`", "all other hosts", "2 of 4 none", "name its hosts", "workers = 2"]
        {
            assert!(idle.contains(words), "{idle}");
        }
    }

    #[test]
    fn more_workers_than_processors_are_said_to_be() {
        let of = |workers| Config { workers, ..Config::default() };
        assert_eq!([1, 2].map(|workers| of(workers).idle_workers(2)), [None, None]);
        let said = of(8).idle_workers(2).expect("six have nothing to run on");
        assert!(said.contains("8 workers have 2 processors") && said.contains("`workers = 2`"), "{said}");
    }

    #[test]
    fn workers_share_memory_and_flows() {
        let text =
            "access = [\"a\"]\nwan = [\"b\"]\nworkers = 3\n[memory]\ntotal = \"90 MB\"\nmax_flows = 1000\n";
        let config: Config = toml::from_str(text).unwrap();
        let machine = config.gateway(0).unwrap();
        assert_eq!((machine.memory, machine.max_flows), (Bytes(30_000_000), 333));
        assert!(toml::to_string(&config).unwrap().contains("workers = 3\n"));
        assert!(!toml::to_string(&Config::default()).unwrap().contains("workers"), "as it was without them");
        let schema = serde_json::to_value(Config::schema()).unwrap();
        assert_eq!(schema.pointer("/properties/workers/default"), Some(&1.into()));
    }

    #[test]
    fn a_configuration_without_interfaces_says_what_to_write() {
        let error = Config::default().gateway(0).unwrap_err().to_string();
        assert!(error.contains("access") && error.contains("--access eth0"), "{error}");
    }

    #[test]
    fn an_interface_leads_to_one_side() {
        let config =
            Config { access: vec!["a".into(), "b".into()], wan: vec!["b".into()], ..Config::default() };
        let error = config.gateway(0).unwrap_err().to_string();
        assert!(error.starts_with("wan: `b`"), "{error}");
        let config =
            Config { access: vec!["a".into(), "a".into()], wan: vec!["b".into()], ..Config::default() };
        let error = config.gateway(0).unwrap_err().to_string();
        assert!(error.starts_with("access: `a` is named twice"), "{error}");
    }

    /// A configuration with this text behind its interfaces.
    fn gateway(text: &str) -> Result<GatewayConfig, String> {
        let text = format!("access = [\"a\"]\nwan = [\"b\"]\n{text}");
        let config: Config = toml::from_str(&text).map_err(|error| error.to_string())?;
        config.gateway(0).map_err(|error| error.to_string())
    }

    #[test]
    fn policies_are_parts_for_classes_and_what_is_outside_of_the_list_is_for_the_rest() {
        let config = gateway(
            r#"
            [to_access]
            initial_window = 20
            [senders]
            policy = "m-tcp"
            after = "2 s"
            [[policy]]
            match = { ports = [443], servers = ["192.0.2.0/24"] }
            to_access = { congestion = "bbr" }
            window = [{ kind = "clamp", window = "12 kB" }, { kind = "freeze", after = "1 s" }]
            [[policy]]
            match = { hosts = ["10.1.0.0/16"], dscp = [46] }
            mode = "pass"
            intercept = [{ kind = "explicit-window", window = "16 kB" }]
            [[policy]]
            match = { hosts = ["10.2.0.0/16"] }
            mode = "observe"
            "#,
        );
        let config = config.unwrap();
        let [web, voice, watched, rest] = &config.policies[..] else { panic!("{config:?}") };
        assert_eq!((web.access.sender.congestion, web.access.sender.initial_window), (Algorithm::Bbr, 20));
        assert_eq!((web.senders.window.len(), rest.senders.window.len()), (2, 1));
        assert!(web.senders.ack.is_none() && rest.senders.ack.is_some() && rest.matches.matches_all());
        assert_eq!((voice.mode, voice.intercept.len(), watched.mode), (Mode::Pass, 1, Mode::Observe));
    }

    #[test]
    fn the_old_names_of_the_access_side_are_read() {
        let text = "wan = [\"b\"]\naccess = [\"a\"]\n[to_access]\npacing = false\n[[policy]]\nto_access = { nagle = true }\n";
        let config = toml::from_str::<Config>(text).unwrap();
        let old = text.replace("access", "edge");
        assert!(old.contains("to_edge") && !config.access.is_empty());
        assert_eq!(toml::from_str::<Config>(&old).unwrap(), config);
    }

    #[test]
    fn a_combination_that_makes_no_sense_is_refused() {
        for (text, words) in [
            (
                "[aggregate]\n[senders]\npolicy = \"path-tail\"\nbandwidth = \"1 Mbit/s\"\n",
                ["aggregate:", "emulated link"],
            ),
            ("[memory]\nper_flow = \"4 MiB\"\ntotal = \"2 MiB\"\n", ["per_flow:", "`total`"]),
            ("[memory]\nmax_flows = 0\n", ["max_flows:", "at least 1"]),
            ("[memory]\nmax_flows = 4294967296\n", ["max_flows:", "16777216"]),
            ("[memory]\ntotal = \"0 B\"\n", ["total:", "65.5 kB"]),
            ("idle_timeout = \"0 s\"\n", ["idle_timeout:", "7440 s"]),
            ("[aggregate]\nprefix_v4 = 33\n", ["prefix_v4:", "0 to 32"]),
            (
                "hosts = { prefix_v4 = 24 }\n[aggregate]\nprefix_v4 = 28\n",
                ["prefix_v4:", "hosts = { prefix_v4 = 24 }"],
            ),
            ("[aggregate]\nprefix_v6 = 129\n", ["prefix_v6:", "0 to 128"]),
            ("[[policy]]\n[aggregate]\n", ["policy 1: match:", "`aggregate`"]),
            (
                "[[policy]]\nmatch = { ports = [1] }\nintercept = [{ kind = \"explicit-window\", window = \"9 kB\" }]\n",
                ["policy 1: intercept:", "mode = \"pass\""],
            ),
            ("[[policy]]\nmode = \"observe\"\nto_wan = { pacing = false }\n", ["policy 1: to_wan:", "split"]),
            (
                "[[policy]]\nack = \"early\"\nsenders = { policy = \"m-tcp\", after = \"1 s\" }\n",
                ["policy 1: senders:", "`ack`"],
            ),
            (
                "[[policy]]\nmatch = { ports = [1] }\naggregate = { clamp = \"10 kB\" }\n[aggregate]\n",
                ["aggregate:", "policy 1"],
            ),
        ] {
            let said = gateway(text).unwrap_err();
            assert!(words.iter().all(|word| said.contains(word)), "{said}");
        }
    }

    #[test]
    fn a_leg_picks_every_part_of_its_sender() {
        let text =
            "access = [\"a\"]\nwan = [\"b\"]\n[to_wan]\nloss_detection = \"newreno\"\nack = \"immediate\"\n";
        let gateway = toml::from_str::<Config>(text).unwrap().gateway(0).unwrap();
        let policy = &gateway.policies[0];
        assert_eq!(policy.wan.sender.loss_detection, LossDetection::NEW_RENO);
        assert_eq!(
            (policy.wan.sender.ack, policy.access.sender.ack),
            (AckPolicy::Immediate, AckPolicy::default())
        );
    }

    #[test]
    fn an_aggregate_finds_its_own_losses() {
        let text = "access = [\"a\"]\nwan = [\"b\"]\n[to_access]\nloss_detection = \"reno\"\n[aggregate]\n";
        let error = toml::from_str::<Config>(text).unwrap().gateway(0).unwrap_err().to_string();
        assert!(error.starts_with("to_access: ") && error.contains("`loss_detection`"), "{error}");
    }

    #[test]
    fn a_configuration_survives_being_written_into_a_recording() {
        let policy =
            "match = { ports = [443] }\nack = \"delivered\"\nto_access = { pacing = false }\nsenders = {}\n";
        let policy = vec![toml::from_str(policy).unwrap()];
        let mut config =
            Config { record: Some("x".into()), access: vec!["eth0".into()], policy, ..Config::default() };
        config.to_access.sender.initial_window = Some(64);
        let text = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<Config>(&text).unwrap(), config);
    }
}
