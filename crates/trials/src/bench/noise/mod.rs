//! Noise: what a gateway passes that is stopped again and again, or whose processors others keep busy.
//!
//! Reading order: `disturbance` (what is done to it), this file (the runs), `verdict` (shares, table, JSON).
mod disturbance;
mod verdict;

use crate::direct_or_split::DirectOrSplit;
use crate::error::{Result, While};
use crate::trial::{Judgement, Trial};
use disturbance::Disturbance;
use shorthaul_congestion::Algorithm;
use shorthaul_dataplane::Config;
use shorthaul_lab::workload::{Amount, Ends, Sender, Transfer};
use shorthaul_lab::{GatewayProcess, Lab, Look, Privilege, Topology};
use shorthaul_os::ProcessorTime;
use shorthaul_proxy::LegSpec;
use shorthaul_report::{Console, Progress, Unit};
use shorthaul_tcp::ProfilePatch;
use shorthaul_types::Seed;
use std::time::Duration;
use verdict::{Compared, LEAST, Run};

/// A path with a gateway half-way.
#[derive(Debug, PartialEq)]
pub struct Path {
    pub name: &'static str,
    /// The links of each half.
    pub half: &'static str,
}

/// Those that are run.
pub const PATHS: [Path; 2] = [
    Path {
        name: "halfway",
        half: "{ rate = \"32 Mbit/s\", delay = \"32 ms\", loss = \"0.05 %\", queue = \"512 kB\" }",
    },
    Path { name: "fast", half: "{ rate = \"100 Mbit/s\", delay = \"10 ms\", queue = \"500 kB\" }" },
];

/// The kernel's congestion controls at the ends; the gateway's is the one of that name.
const ENDS: [(&str, Algorithm); 3] =
    [("reno", Algorithm::Reno), ("cubic", Algorithm::Cubic), ("bbr", Algorithm::Bbr)];

/// A path, and who sends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NoiseCase {
    pub path: &'static Path,
    pub congestion: &'static str,
}

/// The throughput of a gateway that is stopped for 10 ms ten times a second, and of one on whose processors others are busy, beside
/// what it passes undisturbed
///
/// Kernel TCP at both ends of two emulated paths, half-way: 32 Mbit/s, 128 ms, 0.1 % loss; and 100 Mbit/s, 40 ms. Each turn runs a cell
/// undisturbed, stopped and busy, and directly, undisturbed and busy, as a control: there is nothing to stop there. The emulated
/// links run before all others; how late they were nevertheless, and how much of the machine its host gave to others, is said
/// of each run. Needs root, or a host that allows user namespaces. The last line is the result as JSON.
#[derive(clap::Args)]
pub struct Noise {
    /// Turns: each runs every cell once in every way
    #[arg(long, value_name = "NUMBER", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    turns: u32,
    /// How long a run lasts
    #[arg(long, value_name = "TIME", default_value = "8s", value_parser = shorthaul_types::parse_duration)]
    time: Duration,
    /// Only this path. Can be given several times
    #[arg(long, value_name = "NAME", value_parser = PATHS.each_ref().map(|path| path.name))]
    path: Vec<String>,
    /// What the gateway asks of the scheduler: real-time, high or normal
    #[arg(long, value_name = "PRIORITY", default_value_t)]
    priority: shorthaul_dataplane::Priority,
    /// Seed of what the links draw by chance, and of the data sent
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Trial for Noise {
    fn run(&self, console: &dyn Console) -> Result<Judgement> {
        // First of all, while the process has a single thread: the kernel asks for that.
        Privilege::obtain()?;
        let kinds = [
            (DirectOrSplit::Split, Disturbance::None),
            (DirectOrSplit::Split, Disturbance::Stopped),
            (DirectOrSplit::Split, Disturbance::Busy),
            (DirectOrSplit::Direct, Disturbance::None),
            (DirectOrSplit::Direct, Disturbance::Busy),
        ];
        let here = crate::kernel::congestion_controls()?;
        let wanted = |path: &&Path| self.path.is_empty() || self.path.iter().any(|name| name == path.name);
        let cells: Vec<(NoiseCase, Algorithm)> = PATHS
            .iter()
            .filter(wanted)
            .flat_map(|path| ENDS.map(|(congestion, algorithm)| (NoiseCase { path, congestion }, algorithm)))
            .filter(|(cell, _)| here.contains(&cell.congestion))
            .collect();
        let progress = Progress::begin(console, cells.len() * kinds.len() * self.turns as usize);
        let mut runs = Vec::new();
        for turn in 1..=self.turns {
            for (cell, algorithm) in &cells {
                for (way, disturbance) in kinds {
                    let plan = Plan { cell: *cell, algorithm: *algorithm, way, disturbance, turn };
                    let run = self.one(&plan).doing(format!("{way}, {disturbance}"))?;
                    progress.step(&format!(
                        "{} {} {way} {disturbance}: {}",
                        cell.path.name,
                        cell.congestion,
                        Unit::BitsPerSecond.format(run.goodput)
                    ));
                    runs.push(run);
                }
            }
        }
        drop(progress);
        let compared = Compared::of(&runs);
        console.table(&verdict::table(&compared));
        let judged = |how| compared.iter().filter(|row| row.counts() && row.holds() == how).count();
        let (short, open) = (judged(Some(false)), judged(None));
        let all = compared.iter().filter(|row| row.counts()).count();
        let failure = (short > 0).then(|| {
            format!("{short} of {all} disturbed cells have less than {LEAST} of what they pass undisturbed")
        });
        let doubt = (open > 0).then(|| {
            format!("of {open} of {all} disturbed cells the interval leaves open whether they pass {LEAST}: give more --turns")
        });
        let json = verdict::json(&compared, &runs, self.turns);
        Ok(Judgement { doubt, ..Judgement::holds(json).unless(failure) })
    }
}

/// What one run is.
struct Plan {
    cell: NoiseCase,
    algorithm: Algorithm,
    way: DirectOrSplit,
    disturbance: Disturbance,
    turn: u32,
}

impl Noise {
    fn one(&self, plan: &Plan) -> Result<Run> {
        let Plan { cell, algorithm, way, disturbance, turn } = *plan;
        let half = cell.path.half;
        let text = format!(
            "[hosts.client]\n[hosts.gateway]\n[hosts.server]\n\
             [[links]]\nbetween = [\"client\", \"gateway\"]\nlink = {half}\n\
             [[links]]\nbetween = [\"gateway\", \"server\"]\nlink = {half}\n"
        );
        let mut topology = Topology::from_toml(cell.path.name, &text)?;
        // What the links draw is the same in all runs of a turn.
        let seed = Seed(self.seed).nth(u64::from(turn));
        topology.seed = seed;
        let lab = Lab::start(&topology)?;
        let gateway = match way {
            DirectOrSplit::Direct => None,
            DirectOrSplit::Split => {
                Some(GatewayProcess::start(lab.host("gateway"), self.gateway(algorithm))?)
            }
        };
        let workload = Transfer {
            sender: Sender::Server,
            amount: Amount::Time(self.time),
            congestion: Ends { client: cell.congestion.into(), server: cell.congestion.into() },
            limit: self.time + Duration::from_secs(10),
            seed,
            ..Transfer::default()
        };
        let handle = match &gateway {
            Some(gateway) => Some(gateway.handle().doing("finding the gateway's process")?),
            None => None,
        };
        let before = ProcessorTime::now();
        let (report, stood) =
            disturbance.during(handle.as_ref(), || workload.run(lab.host("client"), lab.host("server")));
        let report = report?;
        let late = Look::take(&lab).map_or(Duration::ZERO, |look| {
            let late = look.links.iter().flat_map(|link| [link.up.lateness.p99, link.down.lateness.p99]);
            late.max().unwrap_or_default()
        });
        let steal = before.zip(ProcessorTime::now()).map_or(0.0, |(then, now)| then.stolen_until(&now));
        Ok(Run {
            cell,
            way,
            disturbance,
            turn,
            goodput: report.throughput().bits_per_sec() as f64,
            emulator_late: late.as_secs_f64(),
            steal,
            gateway_waited: gateway.as_ref().map_or(Duration::ZERO, GatewayProcess::waited).as_secs_f64(),
            stood: stood.as_secs_f64(),
        })
    }

    fn gateway(&self, algorithm: Algorithm) -> Config {
        let sender = ProfilePatch { congestion: Some(algorithm), ..ProfilePatch::default() };
        let leg = LegSpec { sender, mtu: None };
        Config {
            access: vec!["to-client".into()],
            wan: vec!["to-server".into()],
            to_access: leg.clone(),
            to_wan: leg,
            priority: self.priority,
            // Nothing that is measured here is to stay whole by chance.
            control_group: Some(0.0),
            ..Config::default()
        }
    }
}
