use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context as _, Result};
use shorthaul_lab::workload::{Amount, Sender, Transfer};
use shorthaul_lab::{Lab, LinkDescription, Topology};
use shorthaul_link::{LinkConfig, LossModel, QueueLimit, Rate};
use shorthaul_planner::{Forecast, Leg, Path, Relay, model};
use shorthaul_types::{BitRate, Bytes, Seed, format_duration};

use super::chain::{Chain, Way};

/// How the cells of a matrix are measured.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Congestion control of ends and relays.
    pub congestion: String,
    /// How long a transfer is to take by way of two relays.
    pub aim: Duration,
    /// What a relay may hold.
    pub buffers: Buffers,
}

/// What a relay may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffers {
    /// What the planner advises.
    Planned,
    /// What the kernel comes to by itself, in which the two legs often wait for each other.
    Kernel,
    /// So much.
    Of(Bytes),
}

impl FromStr for Buffers {
    type Err = String;

    fn from_str(text: &str) -> Result<Buffers, String> {
        match text {
            "planned" => Ok(Buffers::Planned),
            "kernel" => Ok(Buffers::Kernel),
            size => size
                .parse()
                .map(Buffers::Of)
                .map_err(|error| format!("{error}; or write `planned` or `kernel`")),
        }
    }
}

/// One path of the matrix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// The round trip between the ends, in milliseconds.
    pub rtt_ms: u64,
    /// The rate of every leg.
    pub mbit: u64,
    /// Of the packets toward the receiver, how many are lost in all, in per cent.
    pub loss_percent: f64,
}

const fn cell(rtt_ms: u64, mbit: u64, loss_percent: f64) -> Cell {
    Cell { rtt_ms, mbit, loss_percent }
}

/// The subset of the paper's matrix (Kalim et al., table I) that is measured live; the third and the
/// eighth are those of which it states results.
pub const CELLS: [Cell; 14] = [
    cell(16, 8, 0.1),
    cell(16, 64, 0.1),
    cell(64, 32, 0.1),
    cell(64, 8, 0.01),
    cell(64, 8, 0.1),
    cell(64, 64, 0.01),
    cell(64, 64, 0.1),
    cell(256, 8, 0.1),
    cell(256, 8, 0.01),
    cell(256, 64, 0.01),
    cell(256, 64, 0.1),
    cell(256, 64, 1.0),
    cell(64, 32, 1.0),
    cell(256, 2, 0.1),
];

impl Cell {
    /// As in tables and on the command line.
    pub fn name(&self) -> String {
        format!("{}ms {}Mbit/s {}%", self.rtt_ms, self.mbit, self.loss_percent)
    }

    pub fn rtt(&self) -> Duration {
        Duration::from_millis(self.rtt_ms)
    }

    pub fn rate(&self) -> BitRate {
        BitRate::from_bits_per_sec(self.mbit * 1_000_000)
    }

    fn leg(&self) -> Leg {
        Leg::new(self.rtt(), self.loss_percent / 100.0, self.rate())
    }

    /// How much is moved: the same by every way, so much that it takes about `aim` by two relays.
    pub fn size(&self, aim: Duration) -> Bytes {
        // By the law of Mathis et al. (1997), of a leg when there are three, each with a third of the
        // round trip and of the loss.
        let (rtt, loss) = (self.rtt().as_secs_f64() / 3.0, self.loss_percent / 300.0);
        let rate = (1448.0 * 8.0 * 1.22 / (rtt * loss.sqrt())).min(self.rate().bits_per_sec() as f64);
        Bytes((rate / 8.0 * aim.as_secs_f64()) as u64)
    }

    /// What the planner expects with so many relays.
    pub fn forecast(&self, relays: usize, setting: &Setting) -> Option<BitRate> {
        Some(self.planned(relays, setting)?.1.throughput())
    }

    /// The path with the relays' buffers, as far as they are known, and what the planner says of it.
    fn planned(&self, relays: usize, setting: &Setting) -> Option<(Path, Forecast)> {
        let model = model::by_name(&setting.congestion).ok()?;
        let transfer = shorthaul_planner::Transfer::new(self.size(setting.aim));
        let mut path = Path::evenly_split(&self.leg(), relays, Relay { buffer: None });
        let free = path.forecast(&*model, &transfer).ok()?;
        for (relay, advised) in path.relays.iter_mut().zip(&free.relays) {
            relay.buffer = match setting.buffers {
                Buffers::Planned => Some(advised.needed),
                Buffers::Kernel => None,
                Buffers::Of(size) => Some(size),
            };
        }
        let forecast = path.forecast(&*model, &transfer).ok()?;
        Some((path, forecast))
    }

    /// What each relay is told to hold, from the client's side on; `None` leaves it to the kernel.
    fn buffers(&self, relays: usize, setting: &Setting) -> Vec<Option<Bytes>> {
        let planned = self.planned(relays, setting);
        planned.map_or(vec![None; relays], |(path, _)| path.relays.iter().map(|relay| relay.buffer).collect())
    }

    /// The chain of hosts: the round trip and the loss are shared by the legs.
    fn topology(&self, relays: usize, congestion: &str, seed: Seed) -> Topology {
        let legs = relays as u32 + 1;
        let mut hosts: Vec<String> = (1..=relays).map(|n| format!("relay{n}")).collect();
        hosts.insert(0, "client".into());
        hosts.push("server".into());
        let mut topology = Topology::new(seed);
        for host in &hosts {
            let host = topology.host(host);
            host.congestion = Some(congestion.into());
            // The ends and relays are not to bind: 16 MB of buffer, where the defaults are 4 and 6.
            for setting in ["net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"] {
                host.sysctl.insert(setting.into(), "4096 131072 33554432".into());
            }
        }
        let rtt = self.rtt() / legs;
        // A queue of one bandwidth-delay product, of ten packets at least.
        let queue = QueueLimit::Bytes(self.rate().bytes_in(rtt).0.max(15_000));
        let both =
            LinkConfig { rate: Rate::Fixed(self.rate()), delay: rtt / 2, queue, ..LinkConfig::default() };
        let probability = self.loss_percent / 100.0 / f64::from(legs);
        let there = LinkConfig { loss: LossModel::Bernoulli { probability }, ..both.clone() };
        for pair in hosts.windows(2) {
            let mut link = LinkDescription::symmetric(&pair[0], &pair[1], both.clone());
            if let shorthaul_lab::LinkKind::Emulated { up, .. } = &mut link.kind {
                *up = there.clone();
            }
            topology.add_link(link);
        }
        topology
    }

    /// One transfer from the client to the server; the throughput until the last byte is there.
    pub fn transfer(&self, way: Way, setting: &Setting, seed: Seed) -> Result<BitRate> {
        let topology = self.topology(way.relays(), &setting.congestion, seed);
        let lab = Lab::start(&topology).context("this machine cannot emulate the path")?;
        let transfer = Transfer {
            sender: Sender::Client,
            amount: Amount::Bytes(self.size(setting.aim)),
            limit: setting.aim * 20,
            seed,
            ..Transfer::default()
        }
        .with_congestion(&setting.congestion);
        let buffers = self.buffers(way.relays(), setting);
        let mut chain = Chain::default();
        let report = transfer
            .run_through(lab.host("client"), lab.host("server"), |server| {
                chain.start(way, &lab, server, &setting.congestion, &buffers)
            })
            .with_context(|| format!("{} in {}", way.name(), format_duration(self.rtt())))?;
        Ok(report.throughput())
    }
}
