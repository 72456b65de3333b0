//! What the demonstration runs: three paths, three congestion controls, two sizes, two ways.
use crate::direct_or_split::DirectOrSplit;
use std::time::Duration;

use serde::Serialize;
use shorthaul_congestion::Algorithm;
use shorthaul_types::Bytes;

/// One of the three paths, with the sizes that fit it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Path {
    /// As on the command line and in file names.
    pub name: &'static str,
    /// As in figures.
    pub title: &'static str,
    /// The scenario file's text.
    pub topology: &'static str,
    /// How much the short transfer moves: about what a web page's larger object has, or on the
    /// slowest path what it moves in a few seconds.
    pub short: Bytes,
    /// How much the long one moves: enough that start-up is not most of it.
    pub long: Bytes,
    /// After this a transfer is stopped where it is.
    pub limit: Duration,
    /// The gateway's first window toward the client, in segments: who runs a link knows what it takes.
    pub initial_window: u32,
    /// How many pairs of transfers, direct and split, run at the same time, each in networks of its own.
    pub lanes: usize,
}

/// The three paths. Sizes and limits are chosen so that all of it, with the three paths side by
/// side and each transfer three times, takes about a minute and a half.
pub const PATHS: [Path; 3] = [
    Path {
        name: "geo",
        title: "GEO, 600 ms",
        topology: include_str!("../../../../topologies/geo.toml"),
        short: Bytes(100_000),
        long: Bytes(12_000_000),
        limit: Duration::from_secs(20),
        initial_window: 64,
        lanes: 2,
    },
    Path {
        name: "halfway",
        title: "Half-way, 0.1 % loss",
        topology: include_str!("../../../../topologies/halfway.toml"),
        short: Bytes(100_000),
        long: Bytes(16_000_000),
        limit: Duration::from_secs(45),
        initial_window: 10,
        lanes: 3,
    },
    Path {
        name: "gprs",
        title: "GPRS, 33 kbit/s",
        topology: include_str!("../../../../topologies/gprs.toml"),
        short: Bytes(12_000),
        long: Bytes(120_000),
        limit: Duration::from_secs(45),
        initial_window: 10,
        lanes: 9,
    },
];

impl Path {
    /// The same with a quarter of the long transfer, in half the time at most.
    pub fn quick(self) -> Path {
        Path { long: Bytes(self.long.0 / 4), limit: self.limit / 2, ..self }
    }
}

/// The congestion control of the kernel that sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Congestion {
    Reno,
    Cubic,
    Bbr,
}

/// Short or long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Transfer {
    Short,
    Long,
}

/// One transfer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Case {
    pub path: Path,
    pub congestion: Congestion,
    pub transfer: Transfer,
    pub way: DirectOrSplit,
    /// Which of the repeats, from 0.
    pub repeat: u64,
}

impl Congestion {
    pub const ALL: [Congestion; 3] = [Congestion::Reno, Congestion::Cubic, Congestion::Bbr];

    /// The kernel's name.
    pub const fn name(self) -> &'static str {
        match self {
            Congestion::Reno => "reno",
            Congestion::Cubic => "cubic",
            Congestion::Bbr => "bbr",
        }
    }

    /// The gateway's own of that name.
    pub const fn algorithm(self) -> Algorithm {
        match self {
            Congestion::Reno => Algorithm::Reno,
            Congestion::Cubic => Algorithm::Cubic,
            Congestion::Bbr => Algorithm::Bbr,
        }
    }

    /// Whether every lost packet makes it slow down.
    pub const fn slows_at_every_loss(self) -> bool {
        !matches!(self, Congestion::Bbr)
    }
}

impl Transfer {
    pub const ALL: [Transfer; 2] = [Transfer::Short, Transfer::Long];

    pub const fn name(self) -> &'static str {
        match self {
            Transfer::Short => "short",
            Transfer::Long => "long",
        }
    }
}

impl Case {
    /// How many bytes are moved.
    pub fn size(&self) -> Bytes {
        match self.transfer {
            Transfer::Short => self.path.short,
            Transfer::Long => self.path.long,
        }
    }
}
