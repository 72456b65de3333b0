//! What is simulated: a relay network and who uses it, as a TOML file.
use super::costs::Costs;
use crate::error::{Result, TrialError};
use serde::Deserialize;
use shorthaul_types::{BitRate, Bytes};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Everything that is drawn or counted follows from this. What is not here (intervals, table sizes, limits, lengths of messages, timeouts, tries) is the
/// program's own.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What a message costs, measured: a file beside this one.
    pub costs: PathBuf,
    /// What chance is drawn from.
    pub seed: u64,
    /// How long is counted.
    #[serde(with = "shorthaul_types::serde_duration")]
    pub time: Duration,
    /// How long it goes on before.
    #[serde(with = "shorthaul_types::serde_duration")]
    pub settles: Duration,
    /// The relays.
    pub nodes: Nodes,
    /// Who looks for them.
    pub clients: Clients,
    /// Where sessions go.
    pub destinations: Destinations,
    /// How far all are from each other.
    pub ways: WaysBetween,
    /// How clients come to know nodes.
    pub bootstrap: Bootstrap,
}

/// The relays.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nodes {
    /// How many: 1 to 65,536, which is what a client reads of a directory.
    pub count: usize,
    /// The share that dies in an hour without a word; each is replaced by another one elsewhere. 0 to 10.
    pub changing: f64,
}

/// Who looks for relays.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clients {
    /// How many.
    pub count: usize,
    /// Of so many, the addresses are of one /24: they share what a responder answers to it. 1 to 256.
    pub per_network: usize,
    /// Visits that each makes in an hour, at random.
    pub visits: f64,
    /// Sessions of a visit, on average: one at least.
    pub sessions: f64,
    /// From the beginning of one session to that of the next one of the visit, on average.
    #[serde(with = "shorthaul_types::serde_duration")]
    pub gap: Duration,
    /// What a session is expected to carry; 10 MB at most, as a client looks several times before a longer one.
    pub size: Bytes,
    /// What a client's link carries.
    pub rate: BitRate,
    /// Each that is simulated stands for so many: 1 simulates all. Limits of responders are divided by it.
    #[serde(default = "one")]
    pub thin: usize,
}

/// Where sessions go.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Destinations {
    /// How many: 1 to 1,000,000.
    pub count: usize,
    /// The nth most popular one is visited as often as 1/n to this power: 0 to 3.
    pub popularity: f64,
    /// The share that has a responder.
    pub responders: f64,
}

/// All are somewhere on a sphere; a round trip is as long as the arc.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WaysBetween {
    /// The round trip to the other side of the sphere.
    #[serde(with = "shorthaul_types::serde_duration")]
    pub farthest: Duration,
    /// What each client's own link adds to it.
    #[serde(with = "shorthaul_types::serde_duration")]
    pub access: Duration,
    /// The probability that a datagram is lost.
    pub loss: f64,
}

/// How clients come to know nodes.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bootstrap {
    /// Nodes that a way passes by itself, on average: 0 to 10.
    pub on_path: f64,
    /// Where the others are written down.
    pub directory: DirectoryKind,
    /// In etcd: how long after its end a node vanishes.
    #[serde(default = "lease", with = "shorthaul_types::serde_duration")]
    pub lease: Duration,
    /// A file: how often it is brought up to date.
    #[serde(default = "day", with = "shorthaul_types::serde_duration")]
    pub updated: Duration,
    /// Members of the etcd cluster, over which clients are spread evenly.
    #[serde(default = "one")]
    pub members: usize,
    /// Processors of each member.
    #[serde(default = "one")]
    pub cores: usize,
    /// What each member's link carries.
    #[serde(default = "gigabit")]
    pub rate: BitRate,
}

/// Where relays are written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DirectoryKind {
    /// Nowhere: nodes are found on the way, or not at all.
    None,
    /// In a file that each client has.
    File,
    /// In etcd, where they write themselves.
    Etcd,
}

const fn one() -> usize {
    1
}

const fn lease() -> Duration {
    Duration::from_secs(15)
}

const fn day() -> Duration {
    Duration::from_secs(86_400)
}

const fn gigabit() -> BitRate {
    BitRate::from_bits_per_sec(1_000_000_000)
}

/// Entries that a client reads of etcd at most: 64 pages of 1024.
const MOST_NODES: usize = 65_536;

impl Scenario {
    /// Reads a scenario, and the costs that it names.
    ///
    /// # Errors
    /// One of the files cannot be read, or says something that cannot be.
    pub fn read(path: &Path) -> Result<(Scenario, Costs)> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| TrialError::asked(format!("cannot read {}: {error}", path.display())))?;
        let named = |error: String| TrialError::asked(format!("{}: {error}", path.display()));
        let scenario = Scenario::parse(&text).map_err(named)?;
        let costs = path.parent().unwrap_or(Path::new("")).join(&scenario.costs);
        Ok((scenario, Costs::read(&costs)?))
    }

    /// Reads the text of a scenario.
    ///
    /// # Errors
    /// What is wrong with it, and what would be right.
    pub fn parse(text: &str) -> Result<Scenario, String> {
        let scenario: Scenario = toml::from_str(text).map_err(|error| error.to_string())?;
        scenario.check()?;
        Ok(scenario)
    }

    /// Clients that are simulated.
    pub fn simulated(&self) -> usize {
        self.clients.count.div_ceil(self.clients.thin)
    }

    /// Seconds from the last session of a visit to the first of the next, on average.
    pub fn between_visits(&self) -> f64 {
        3600.0 / self.clients.visits - (self.clients.sessions - 1.0) * self.clients.gap.as_secs_f64()
    }

    /// # Errors
    /// What cannot be simulated.
    pub fn check(&self) -> Result<(), String> {
        let within = |name: &str, value: f64, range: std::ops::RangeInclusive<f64>| {
            let (from, to) = (range.start(), range.end());
            // What is not a number is in no range.
            if range.contains(&value) {
                Ok(())
            } else {
                Err(format!("{name} is {value}: it must be {from} to {to}"))
            }
        };
        let seconds = |duration: Duration| duration.as_secs_f64();
        within("nodes.count", self.nodes.count as f64, 1.0..=MOST_NODES as f64)?;
        within("nodes.changing", self.nodes.changing, 0.0..=10.0)?;
        within("clients.count", self.clients.count as f64, 1.0..=100e6)?;
        within("clients.per_network", self.clients.per_network as f64, 1.0..=256.0)?;
        within("clients.visits", self.clients.visits, 0.001..=1000.0)?;
        within("clients.sessions", self.clients.sessions, 1.0..=1000.0)?;
        within("clients.gap, in seconds,", seconds(self.clients.gap), 0.001..=3600.0)?;
        within("clients.size, in bytes,", self.clients.size.0 as f64, 1.0..=10e6)?;
        within("clients.rate, in bit/s,", self.clients.rate.bits_per_sec() as f64, 1e4..=1e12)?;
        within("clients.thin", self.clients.thin as f64, 1.0..=1000.0)?;
        within(
            "the number of clients that are simulated, clients.count / clients.thin,",
            self.simulated() as f64,
            1.0..=10e6,
        )?;
        within("destinations.count", self.destinations.count as f64, 1.0..=1e6)?;
        within("destinations.popularity", self.destinations.popularity, 0.0..=3.0)?;
        within("destinations.responders", self.destinations.responders, 0.0..=1.0)?;
        within("ways.farthest, in seconds,", seconds(self.ways.farthest), 0.001..=2.0)?;
        within("ways.access, in seconds,", seconds(self.ways.access), 0.0..=1.0)?;
        within("ways.loss", self.ways.loss, 0.0..=0.5)?;
        within("bootstrap.on_path", self.bootstrap.on_path, 0.0..=10.0)?;
        within("bootstrap.lease, in seconds,", seconds(self.bootstrap.lease), 1.0..=86_400.0)?;
        within("bootstrap.updated, in seconds,", seconds(self.bootstrap.updated), 1.0..=1e7)?;
        within("bootstrap.members", self.bootstrap.members as f64, 1.0..=100.0)?;
        within("bootstrap.cores", self.bootstrap.cores as f64, 1.0..=1000.0)?;
        within("bootstrap.rate, in bit/s,", self.bootstrap.rate.bits_per_sec() as f64, 1e4..=1e13)?;
        within("time, in seconds,", seconds(self.time), 60.0..=86_400.0)?;
        within("settles, in seconds,", seconds(self.settles), 0.0..=86_400.0)?;
        if self.between_visits() <= 0.0 {
            return Err("clients.visits, clients.sessions and clients.gap: visits would last longer than an hour in an hour".into());
        }
        if self.bootstrap.directory == DirectoryKind::None && self.bootstrap.on_path == 0.0 {
            return Err(
                "bootstrap.on_path is 0 and bootstrap.directory is `none`: nobody would find a node".into()
            );
        }
        Ok(())
    }
}
