//! One transfer between kernels, and the relays that it goes by.
use super::super::cell::PathPoint;
use super::{Buffers, Measurement, loss_percent};
use crate::error::{Result, While};
use shorthaul_lab::workload::{Amount, Sender, Transfer};
use shorthaul_lab::{
    Child, Host, Lab, LinkDescription, LinkKind, Ready, RelayChain, RelaySettings, Topology, is_installed,
};
use shorthaul_link::{LinkConfig, LossModel, QueueLimit, Rate};
use shorthaul_planner::{Forecast, Leg, Path, Relay, model};
use shorthaul_scenario::Forward;
use shorthaul_types::{BitRate, Bytes, Seed, format_duration};
use std::io;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

/// The port that relays listen at.
const PORT: u16 = 7001;
/// How many windows equation 6 has a relay wait.
const WAIT_WINDOWS: u32 = 16;
/// How long a relay may take to begin.
const LIMIT: Duration = Duration::from_secs(10);

/// How a transfer gets from the client to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Relaying {
    Direct,
    OneRelay,
    TwoRelays,
    /// One relay that waits as equation 6 has it: sixteen windows of its next leg, a window a round trip.
    Waiting,
    /// The paper's own relay.
    Netcat,
    /// Two of them.
    TwoNetcats,
}

impl Relaying {
    pub const ALL: [Relaying; 6] = [
        Relaying::Direct,
        Relaying::OneRelay,
        Relaying::TwoRelays,
        Relaying::Waiting,
        Relaying::Netcat,
        Relaying::TwoNetcats,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Relaying::Direct => "direct",
            Relaying::OneRelay => "one relay",
            Relaying::TwoRelays => "two relays",
            Relaying::Waiting => "waiting relay",
            Relaying::Netcat => "netcat",
            Relaying::TwoNetcats => "two netcats",
        }
    }

    pub const fn relays(self) -> usize {
        match self {
            Relaying::Direct => 0,
            Relaying::OneRelay | Relaying::Waiting | Relaying::Netcat => 1,
            Relaying::TwoRelays | Relaying::TwoNetcats => 2,
        }
    }

    /// Whether what it takes is there.
    pub fn is_installed(self) -> bool {
        !self.is_netcat() || is_installed("nc")
    }

    fn is_netcat(self) -> bool {
        matches!(self, Relaying::Netcat | Relaying::TwoNetcats)
    }

    /// When relays of ours begin to forward.
    fn forward(self) -> Forward {
        match self {
            Relaying::Waiting => Forward::AfterRoundTrips(WAIT_WINDOWS),
            _ => Forward::AtOnce,
        }
    }
}

/// The relays of a transfer; end with it.
#[derive(Default)]
pub struct Chain {
    ours: Option<RelayChain>,
    netcats: Vec<Child>,
}

impl Chain {
    /// Starts relays from the server's side on, each with its buffer (the first is that next to the client); where the
    /// client is to connect.
    pub fn start(
        &mut self,
        way: Relaying,
        lab: &Lab,
        server: SocketAddr,
        congestion: &str,
        buffers: &[Option<Bytes>],
    ) -> io::Result<SocketAddr> {
        if way.is_netcat() {
            let mut next = server;
            for number in (1..=way.relays()).rev() {
                let host = lab.host(&format!("relay{number}"));
                let listen = SocketAddr::new(host.address_v4().into(), PORT);
                self.netcat(host, listen, next)?;
                next = listen;
            }
            return Ok(next);
        }
        let relays = (1..=way.relays()).map(|number| {
            let buffer = buffers.get(number - 1).copied().flatten();
            let settings = RelaySettings {
                congestion: congestion.to_owned(),
                paced: false,
                buffer,
                forward: way.forward(),
            };
            (lab.host(&format!("relay{number}")), settings)
        });
        let chain = RelayChain::start(relays, PORT, server).map_err(io::Error::other)?;
        Ok(self.ours.insert(chain).entrance)
    }

    fn netcat(&mut self, host: &Host, listen: SocketAddr, to: SocketAddr) -> io::Result<()> {
        let script = format!(
            "exec 2>/dev/null; nc -l {} {} | nc -N {} {}",
            listen.ip(),
            listen.port(),
            to.ip(),
            to.port()
        );
        let mut command = Command::new("sh");
        command.args(["-c", &script]);
        let child = Child::start("netcat", host, &mut command, Ready::RunsFor(Duration::ZERO));
        self.netcats.push(child.map_err(io::Error::other)?);
        // It has no way to say that it listens; and a connection to find out would be its only one.
        let asked = std::time::Instant::now();
        while !host.run(|| listens(listen.port())) {
            if asked.elapsed() > LIMIT {
                return Err(io::Error::other("netcat did not begin to listen"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

/// Whether something listens at a TCP port of the calling thread's namespace.
fn listens(port: u16) -> bool {
    let table = std::fs::read_to_string("/proc/thread-self/net/tcp").unwrap_or_default();
    let wanted = format!(":{port:04X}");
    table.lines().any(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields.get(1).is_some_and(|local| local.ends_with(&wanted)) && fields.get(3) == Some(&"0A")
    })
}

fn rtt(cell: PathPoint) -> Duration {
    Duration::from_millis(cell.rtt_ms)
}

fn rate(cell: PathPoint) -> BitRate {
    BitRate::from_bits_per_sec(cell.kbit * 1_000)
}

impl Measurement {
    /// How much is moved: the same by every way, so much that it takes about `aim` by two relays.
    pub fn size(&self, cell: PathPoint) -> Bytes {
        // By the law of Mathis et al. (1997), of a leg when there are three, each with a third of the
        // round trip and of the loss.
        let (rtt, loss) = (rtt(cell).as_secs_f64() / 3.0, loss_percent(cell) / 300.0);
        let rate = (1448.0 * 8.0 * 1.22 / (rtt * loss.sqrt())).min(rate(cell).bits_per_sec() as f64);
        Bytes((rate / 8.0 * self.aim.as_secs_f64()) as u64)
    }

    /// What the planner expects with this many relays.
    pub fn forecast(&self, cell: PathPoint, relays: usize) -> Option<BitRate> {
        Some(self.planned(cell, relays)?.1.throughput())
    }

    /// The path with the relays' buffers, as far as they are known, and what the planner says of it.
    fn planned(&self, cell: PathPoint, relays: usize) -> Option<(Path, Forecast)> {
        let leg = Leg::new(rtt(cell), loss_percent(cell) / 100.0, rate(cell));
        let model = model::by_name(&self.congestion).ok()?;
        let transfer = shorthaul_planner::Transfer::new(self.size(cell));
        let mut path = Path::evenly_split(&leg, relays, Relay { buffer: None });
        let free = path.forecast(&*model, &transfer).ok()?;
        for (relay, advised) in path.relays.iter_mut().zip(&free.relays) {
            relay.buffer = match self.buffers {
                Buffers::Planned => Some(advised.needed),
                Buffers::Kernel => None,
                Buffers::Of(size) => Some(size),
            };
        }
        let forecast = path.forecast(&*model, &transfer).ok()?;
        Some((path, forecast))
    }

    /// What each relay is told to hold, from the client's side on; `None` leaves it to the kernel.
    fn relay_buffers(&self, cell: PathPoint, relays: usize) -> Vec<Option<Bytes>> {
        let planned = self.planned(cell, relays);
        planned.map_or(vec![None; relays], |(path, _)| path.relays.iter().map(|relay| relay.buffer).collect())
    }

    /// The chain of hosts: the round trip and the loss are shared by the legs.
    fn topology(&self, cell: PathPoint, relays: usize, seed: Seed) -> Topology {
        let legs = relays as u32 + 1;
        let mut hosts: Vec<String> = (1..=relays).map(|n| format!("relay{n}")).collect();
        hosts.insert(0, "client".into());
        hosts.push("server".into());
        let mut topology = Topology::new(seed);
        for host in &hosts {
            let host = topology.host(host);
            host.congestion = Some(self.congestion.clone());
            // The ends and relays are not to bind: 16 MB of buffer, where the defaults are 4 and 6.
            for setting in ["net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"] {
                host.sysctl.insert(setting.into(), "4096 131072 33554432".into());
            }
        }
        let rtt = rtt(cell) / legs;
        // A queue of one bandwidth-delay product, of ten packets at least.
        let queue = QueueLimit::Bytes(rate(cell).bytes_in(rtt).0.max(15_000));
        let both =
            LinkConfig { rate: Rate::Fixed(rate(cell)), delay: rtt / 2, queue, ..LinkConfig::default() };
        let probability = loss_percent(cell) / 100.0 / f64::from(legs);
        let there = LinkConfig { loss: LossModel::Bernoulli { probability }, ..both.clone() };
        for pair in hosts.windows(2) {
            let mut link = LinkDescription::symmetric(&pair[0], &pair[1], both.clone());
            if let LinkKind::Emulated { up, .. } = &mut link.kind {
                *up = there.clone();
            }
            topology.add_link(link);
        }
        topology
    }

    /// One transfer from the client to the server; the throughput until the last byte is there.
    pub fn transfer(&self, cell: PathPoint, way: Relaying, seed: Seed) -> Result<BitRate> {
        let topology = self.topology(cell, way.relays(), seed);
        let lab = Lab::start(&topology).doing("building the path")?;
        let transfer = Transfer {
            sender: Sender::Client,
            amount: Amount::Bytes(self.size(cell)),
            limit: self.aim * 20,
            seed,
            ..Transfer::default()
        }
        .with_congestion(&self.congestion);
        let buffers = self.relay_buffers(cell, way.relays());
        let mut chain = Chain::default();
        let report = transfer
            .run_through(lab.host("client"), lab.host("server"), |server| {
                chain.start(way, &lab, server, &self.congestion, &buffers)
            })
            .doing(format!("{} in {}", way.name(), format_duration(rtt(cell))))?;
        Ok(report.throughput())
    }
}
