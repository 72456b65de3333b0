//! `shorthaul bench set-up`: how long it takes until the destination has the first byte, directly and by chains of
//! nodes, on emulated paths of the same length.
//!
//! Reading order: `chain` (hosts, nodes, one session), `verdict` (table, figure, JSON).
mod chain;
mod verdict;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use shorthaul_lab::Privilege;
use shorthaul_relay::Protection;
use shorthaul_relay::request::SetUp;
use shorthaul_report::{Manifest, Terminal};

use chain::{Line, Ready, Way};
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
pub struct SetUpArgs {
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

/// Runs the benchmark.
pub fn run(args: &SetUpArgs) -> Result<()> {
    // First of all, while the process has a single thread: the kernel asks for that.
    Privilege::obtain()?;
    let least = Duration::from_millis(4);
    ensure!(args.rtt >= least, "--rtt is too short to tell set-up from the machine: give 4ms or more");
    std::fs::create_dir_all(&args.out).with_context(|| format!("cannot make {}", args.out.display()))?;
    let mut results = Results { rtt: Vec::new(), measured: Vec::new() };
    for nodes in 0..=NODES {
        let line = Line::start(nodes, args.rtt).context("this machine cannot emulate the path")?;
        results.rtt.push(line.round_trip(args.times)?);
        for way in ways(nodes) {
            let times = line.measure(way, args.times).with_context(|| way.to_string())?;
            let measured = Measured::new(nodes, way, times, results.rtt[nodes]);
            eprintln!("{measured}");
            results.measured.push(measured);
        }
    }
    let arguments = std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned());
    let manifest = Manifest::new("shorthaul", env!("CARGO_PKG_VERSION")).arguments(arguments);
    println!("{}", results.table().render(Terminal::stdout()));
    println!("{}", results.sentence());
    results.csv(&manifest)?.save(&args.out.join("set-up.csv"))?;
    results.figure().save(&args.out.join("set-up"), &manifest)?;
    println!("\nFigure and data: {0}/set-up.svg, set-up.png, set-up.csv", args.out.display());
    println!("{}", results.json(&manifest));
    Ok(())
}

/// Everything that can be measured with so many nodes.
fn ways(nodes: usize) -> Vec<Way> {
    if nodes == 0 {
        return vec![Way { protection: Protection::Plain, set_up: SetUp::Parallel, ready: Ready::Nothing }];
    }
    let mut ways = Vec::new();
    for ready in [Ready::Nothing, Ready::Connections] {
        for protection in [Protection::Plain, Protection::Tls] {
            for set_up in [SetUp::Sequential, SetUp::Parallel] {
                ways.push(Way { protection, set_up, ready });
            }
        }
    }
    ways
}
