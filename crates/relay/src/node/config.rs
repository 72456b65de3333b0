use crate::account::{Limits, is_reserved};
use crate::links::Protection;
use crate::policy::DestinationPolicy;
use crate::proxy_header::ProxyVersion;
use crate::pump::Forwarding;
use crate::route::Endpoint;
use ipnet::IpNet;
use serde::{Deserialize, Deserializer};
use shorthaul_os::confine::Confinement;
use shorthaul_types::{BitRate, Bytes};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// What a node does, and cannot be changed while it runs.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Where sessions are asked for; TLS and plain TCP on the same port.
    pub listen: Vec<SocketAddr>,
    /// Sockets that listen already (systemd's socket activation).
    pub adopted: Vec<Arc<TcpListener>>,
    /// A file to which a line is added for each session that has ended or could not be, in JSON.
    pub access_log: Option<PathBuf>,
    /// Fixed targets.
    pub relays: Vec<RelayConfig>,
    /// What it is called in `Proxy-Status`; its address if there is no name.
    pub name: Option<String>,
    /// Names and addresses that it is reached by besides those that it has: behind a translation of addresses.
    pub reached_by: Vec<Endpoint>,
    /// The network's secret.
    pub secret: Option<PathBuf>,
    /// Its certificate and key, instead of those that the secret gives.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// What an authority has issued to it, instead of all that: read again when asked to.
    pub credential: Option<PathBuf>,
    /// The authority of clients and other nodes, instead of the secret's.
    pub authority: Option<PathBuf>,
    /// What is between this node and the next; by itself, TLS if there is a secret or an authority.
    pub protection: Option<Protection>,
    /// Metrics: `/metrics` for Prometheus, `/status.json`. Loopback addresses only.
    pub metrics: Option<SocketAddr>,
    /// The kernel's congestion control for all legs; the host's own if none is named.
    pub congestion: Option<String>,
    /// Whether the kernel paces what leaves here.
    pub paced: bool,
    /// The most that a session may hold of a direction here.
    pub most_buffer: Bytes,
    /// What it can forward in all, as it tells clients; without it, what its processors were seen to do.
    pub rate: Option<BitRate>,
    /// What all sessions may reserve together; those of one account a quarter of it.
    pub all_buffers: Bytes,
    /// Whether sessions may ask that everything is taken before anything goes on. Fixed targets may have it anyway.
    pub stores: bool,
    /// What may lie in the temporary directory for such sessions; for those of one account a quarter of it.
    pub all_stored: Bytes,
    /// How long such a session waits, and is not read, while there is no room for it; it breaks then.
    pub room_within: Duration,
    /// How long a session may go on on which nothing moves.
    pub idle: Duration,
    /// How long a peer may leave unanswered what the kernel asks it before it counts as gone.
    pub gone_after: Duration,
    /// How long a session that can move may be without a way, until its client comes back; none are taken if it is zero.
    pub moves_within: Duration,
    /// What is kept of a direction of such a session, until the other end has acknowledged it. It counts for `all_buffers`.
    pub window: Bytes,
    /// How long a client of such a session is silent before it says that it is there; a way on which nothing is heard for 36
    /// times as long counts as broken.
    pub quiet: Duration,
    /// The most sessions at once; more are refused, and probes are not answered.
    pub most_sessions: u64,
    /// How long it may take all together until a request is there. Of those who are known, once it has begun.
    pub request_deadline: Duration,
    /// How long a connection of those who are known may be silent before a request: by certificate, by address, or because
    /// they were let in lately.
    pub silence: Duration,
    /// Connections per second from one address (or /64) that may come to nothing; from a /56 twice as many, from a /48
    /// four times.
    pub strangers_per_second: u32,
    /// Connections from one address (or /64) of which it is not known yet whose they are; as above.
    pub strangers_at_once: u32,
    /// The same from everywhere: beyond it, the oldest goes.
    pub all_strangers: usize,
    /// Connections on which nothing was asked yet, of those who are let in by certificate or address: from everywhere; of one
    /// account a quarter of it. Others of theirs are strangers'.
    pub all_idle: usize,
    /// How long sessions may go on when the node is told to stop.
    pub drain: Duration,
    /// Threads; as many as there are cores if nothing is said.
    pub threads: Option<usize>,
    /// What the process gives up once it listens.
    pub confinement: Confinement,
    /// Users, addresses and destinations: read again when asked to.
    pub settings: Option<PathBuf>,
    /// What holds besides what is in the file.
    pub more: Settings,
}

impl Default for NodeConfig {
    fn default() -> Self {
        NodeConfig {
            listen: Vec::new(),
            adopted: Vec::new(),
            access_log: None,
            relays: Vec::new(),
            name: None,
            reached_by: Vec::new(),
            secret: None,
            certificate: None,
            credential: None,
            authority: None,
            protection: None,
            metrics: None,
            congestion: None,
            paced: false,
            most_buffer: Bytes(16 << 20),
            rate: None,
            all_buffers: Bytes(1 << 30),
            stores: false,
            all_stored: Bytes(1 << 30),
            room_within: Duration::from_secs(10),
            idle: Duration::from_secs(24 * 3600),
            gone_after: Duration::from_secs(600),
            moves_within: Duration::from_secs(60),
            window: Bytes(4 << 20),
            quiet: Duration::from_secs(5),
            most_sessions: 100_000,
            request_deadline: Duration::from_secs(10),
            silence: Duration::from_secs(60),
            strangers_per_second: 100,
            strangers_at_once: 64,
            all_strangers: 4096,
            all_idle: 8192,
            drain: Duration::from_secs(30),
            threads: None,
            confinement: Confinement::default(),
            settings: None,
            more: Settings::default(),
        }
    }
}

/// A fixed target: every connection goes on to it.
#[derive(Clone, Debug)]
pub struct RelayConfig {
    /// Where connections are accepted.
    pub listen: SocketAddr,
    /// Where each goes on to.
    pub to: Endpoint,
    /// How bytes go on.
    pub forwarding: Forwarding,
    /// What the kernel may hold of a direction, in and out together; without, it sizes that itself.
    pub buffer: Option<Bytes>,
    /// A PROXY header that the target gets first.
    pub send_proxy: Option<ProxyVersion>,
}

/// A network such as `10.1.0.0/16`, or one address.
///
/// # Errors
/// It is neither.
pub fn network(text: &str) -> Result<IpNet, String> {
    let address = || text.parse::<IpAddr>().map(IpNet::from);
    text.parse()
        .or_else(|_| address())
        .map_err(|_| format!("`{text}` is no network such as 10.1.0.0/16 or fd00::/8, and no address"))
}

/// Networks in a file, each written as for [`network`].
fn networks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<IpNet>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    texts.iter().map(|text| network(text).map_err(serde::de::Error::custom)).collect()
}

/// Who may do what. Can be read again while the node runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Clients that need not say who they are.
    #[serde(deserialize_with = "networks")]
    pub allow: Vec<IpNet>,
    /// Destinations in ranges that are otherwise closed.
    #[serde(deserialize_with = "networks")]
    pub allow_destinations: Vec<IpNet>,
    /// Destinations that are closed.
    #[serde(deserialize_with = "networks")]
    pub deny_destinations: Vec<IpNet>,
    /// Ports of destinations that are allowed; all but the closed ones if none is named.
    pub allow_ports: Vec<u16>,
    /// Ports of destinations that are closed; 25, where mail is delivered, if nothing is said.
    pub deny_ports: Option<Vec<u16>>,
    /// Certificates that are not believed any more, by serial number or name.
    pub revoked: Vec<String>,
    /// Addresses that speak for others by the PROXY protocol.
    #[serde(deserialize_with = "networks")]
    pub proxies: Vec<IpNet>,
    /// Users by name.
    pub users: BTreeMap<String, User>,
    /// What each member of the network, and each allowed address, may have in all.
    pub others: Limits,
}

/// A user.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct User {
    /// What proves it: at least 16 characters. Without, only a certificate of that name does.
    #[serde(default)]
    pub token: String,
    /// Sessions at once.
    #[serde(default)]
    pub sessions: Option<u64>,
    /// Both directions of all sessions together.
    #[serde(default)]
    pub rate: Option<shorthaul_types::BitRate>,
    /// Both directions of all sessions together, as long as the node runs.
    #[serde(default)]
    pub volume: Option<Bytes>,
}

impl User {
    /// The limits alone.
    pub fn limits(&self) -> Limits {
        Limits { sessions: self.sessions, rate: self.rate, volume: self.volume }
    }
}

/// Why settings are none.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file cannot be read.
    #[error("cannot read {}: {error}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// It is not what it must be.
    #[error("{}: {error}", .path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Where and why.
        error: Box<toml::de::Error>,
    },
    /// A user that cannot be.
    #[error("the user `{0}`: {1}")]
    User(String, &'static str),
}

impl Settings {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or not understood.
    pub fn read(path: &Path) -> Result<Settings, SettingsError> {
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| SettingsError::Read { path: path.into(), error })?;
        let syntax = |error| SettingsError::Syntax { path: path.into(), error: Box::new(error) };
        let settings: Settings = toml::from_str(&text).map_err(syntax)?;
        settings.check()?;
        Ok(settings)
    }

    fn check(&self) -> Result<(), SettingsError> {
        for (name, user) in &self.users {
            let wrong = |reason| Err(SettingsError::User(name.clone(), reason));
            if name.is_empty() || !name.bytes().all(|c| c.is_ascii_alphanumeric() || b"-_.@".contains(&c)) {
                return wrong("a name is letters, digits, `-`, `_`, `.` and `@`");
            }
            if is_reserved(name) {
                return wrong("this name stands for those who have no account of their own");
            }
            if user.token.is_empty() {
                continue;
            }
            if user.token.len() < 16 {
                return wrong("a token has at least 16 characters");
            }
            if self.users.iter().any(|(other, with)| other != name && with.token == user.token) {
                return wrong("another user has the same token");
            }
        }
        Ok(())
    }

    /// With more of everything.
    #[must_use]
    pub fn with(mut self, more: &Settings) -> Settings {
        self.allow.extend(&more.allow);
        self.allow_destinations.extend(&more.allow_destinations);
        self.deny_destinations.extend(&more.deny_destinations);
        self.allow_ports.extend(&more.allow_ports);
        self.deny_ports = self.deny_ports.or_else(|| more.deny_ports.clone());
        self.proxies.extend(&more.proxies);
        self.revoked.extend(more.revoked.iter().cloned());
        self.users.extend(more.users.iter().map(|(name, user)| (name.clone(), user.clone())));
        let Limits { sessions, rate, volume } = self.others;
        self.others = Limits {
            sessions: sessions.or(more.others.sessions),
            rate: rate.or(more.others.rate),
            volume: volume.or(more.others.volume),
        };
        self
    }

    /// Where it may be connected to. `own` are addresses of the node that its interfaces do not have.
    pub fn destinations(&self, own: Vec<IpAddr>) -> DestinationPolicy {
        DestinationPolicy {
            allowed: self.allow_destinations.clone(),
            denied: self.deny_destinations.clone(),
            ports: self.allow_ports.clone(),
            closed_ports: self.deny_ports.clone().unwrap_or_else(|| vec![25]),
            own,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_say_what_is_wrong_with_them() {
        let good =
            "allow = [\"10.0.0.0/8\"]\n[users.alice]\ntoken = \"0123456789abcdef\"\nrate = \"10 Mbit/s\"\n";
        let settings: Settings = toml::from_str(good).unwrap();
        settings.check().unwrap();
        assert_eq!(settings.users["alice"].limits().rate.unwrap().bits_per_sec(), 10_000_000);
        let short: Settings = toml::from_str("[users.alice]\ntoken = \"short\"\n").unwrap();
        assert!(short.check().unwrap_err().to_string().contains("16 characters"));
        let taken: Settings = toml::from_str("[users.members]\ntoken = \"0123456789abcdef\"\n").unwrap();
        assert!(taken.check().unwrap_err().to_string().contains("`members`"));
        let one: Settings = toml::from_str("allow = [\"192.0.2.7\", \"::1\"]\n").unwrap();
        assert_eq!(one.allow, ["192.0.2.7/32".parse().unwrap(), "::1/128".parse().unwrap()]);
        let wrong = toml::from_str::<Settings>("proxies = [\"10.1.0.0/40\"]\n").unwrap_err().to_string();
        assert!(wrong.contains("`10.1.0.0/40` is no network"), "{wrong}");
        assert!(toml::from_str::<Settings>("alow = []\n").unwrap_err().to_string().contains("alow"));
    }

    /// The file of the package, and what stands in it behind a `#`.
    #[test]
    fn the_settings_of_the_package_are_settings() {
        let file = include_str!("../../../../packaging/node.toml");
        let settings: Settings = toml::from_str(file).unwrap();
        settings.check().unwrap();
        assert!(
            settings.allow.iter().all(|own| own.addr().is_loopback()),
            "this host alone may ask: {settings:?}"
        );
        for line in
            file.lines().filter_map(|line| line.strip_prefix('#')).filter(|line| line.contains(" = ["))
        {
            toml::from_str::<Settings>(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
    }
}
