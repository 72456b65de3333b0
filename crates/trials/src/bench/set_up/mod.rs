//! Set-up: how long it takes until the destination has the first byte, directly and by chains of
//! nodes, on emulated paths of the same length.
//!
//! Reading order: `chain` (hosts, nodes, one session), `verdict` (table, figure, JSON).
mod chain;
mod verdict;

use std::path::PathBuf;
use std::time::Duration;

use shorthaul_lab::Privilege;
use shorthaul_relay::Protection;
use shorthaul_relay::request;
use shorthaul_report::{Console, Manifest, Progress, make_directory};

use crate::error::{Result, TrialError, While};
use crate::trial::{Judgement, Trial};
use chain::{Line, Ready, SessionKind};
use verdict::{Measured, Results};

/// Most nodes in a chain.
const NODES: usize = 3;

/// Set-up in round trips: by one, two and three nodes, over TLS and plain TCP, told one after the other or all at the
/// same time, with and without connections that are ready, and data right behind the request.
///
/// Time counts from the wish to send until the destination has the first byte. The paths are emulated between network
/// namespaces, all equally long, in equal legs. Needs root, or a host that allows user namespaces. The last line
/// is the result as JSON.
#[derive(clap::Args)]
pub struct SetUp {
    /// The round trip between the ends
    #[arg(long, value_name = "TIME", default_value = "120ms", value_parser = shorthaul_types::parse_duration)]
    rtt: Duration,
    /// Sessions of each kind; their median counts
    #[arg(long, value_name = "NUMBER", default_value_t = 11, value_parser = clap::value_parser!(u32).range(1..=1000))]
    times: u32,
    /// Where results are kept
    #[arg(long, value_name = "DIR", default_value = "out/bench-set-up")]
    out: PathBuf,
}

impl Trial for SetUp {
    fn run(&self, console: &dyn Console) -> Result<Judgement> {
        // First of all, while the process has a single thread: the kernel asks for that.
        Privilege::obtain()?;
        if self.rtt < Duration::from_millis(4) {
            let why = "--rtt is too short to tell set-up from the machine: give 4ms or more";
            return Err(TrialError::asked(why));
        }
        make_directory(&self.out)?;
        let mut results = Results { rtt: Vec::new(), measured: Vec::new() };
        let progress = Progress::begin(console, (0..=NODES).map(|nodes| ways(nodes).len()).sum());
        for nodes in 0..=NODES {
            let line = Line::start(nodes, self.rtt).doing("building the path")?;
            results.rtt.push(line.round_trip(self.times)?);
            for way in ways(nodes) {
                let times = line.measure(way, self.times).doing(way.to_string())?;
                let measured = Measured::new(nodes, way, times, results.rtt[nodes]);
                progress.step(&measured.to_string());
                results.measured.push(measured);
            }
        }
        drop(progress);
        let manifest = Manifest::of_this_command();
        console.table(&results.table());
        console.say(&format!("\n{}", results.sentence()));
        results.csv(&manifest)?.save(&self.out.join("set-up.csv"))?;
        results.figure().save(&self.out.join("set-up"), &manifest)?;
        let out = self.out.display();
        console.say(&format!("\nFigure and data: {out}/set-up.svg, set-up.png, set-up.csv"));
        Ok(Judgement::holds(results.json(&manifest)))
    }
}

/// Everything that can be measured with this many nodes.
fn ways(nodes: usize) -> Vec<SessionKind> {
    if nodes == 0 {
        return vec![SessionKind {
            protection: Protection::Plain,
            set_up: request::SetUp::Parallel,
            ready: Ready::Nothing,
        }];
    }
    let mut ways = Vec::new();
    for ready in [Ready::Nothing, Ready::Connections] {
        for protection in [Protection::Plain, Protection::Tls] {
            for set_up in [request::SetUp::Sequential, request::SetUp::Parallel] {
                ways.push(SessionKind { protection, set_up, ready });
            }
        }
    }
    ways
}
