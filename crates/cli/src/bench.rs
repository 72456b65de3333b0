//! `shorthaul bench`: how good the program's own predictions are.
//!
//! Reading order: `discovery` (relays found and chosen, live), `set_up` (chains of nodes, live); of the planner: `draw` (random numbers by name), `paths` (forecasts on random paths), `sites` (placements among random
//! sites), `verdict` (the errors, as a table and as JSON).
mod discovery;
mod draw;
mod paths;
mod set_up;
mod sites;
mod verdict;

use anyhow::ensure;
use clap::Subcommand;
use shorthaul_observe::Ledger;
use shorthaul_planner::chain::Ends;
use shorthaul_sim::ENGINE;
use std::path::PathBuf;

/// Measure how good the program's predictions are
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// The planner's forecasts, decisions and placements, against the simulator
    Plan(PlanArgs),
    /// Relays found and chosen by themselves, live
    Discovery(discovery::DiscoveryArgs),
    /// How long it takes until a destination has the first byte, by chains of nodes, live
    SetUp(set_up::SetUpArgs),
}

/// Forecasts against simulations on random paths, and placements against trying every chain.
///
/// What was simulated is written down run by run, so a benchmark that was interrupted goes on where it was.
/// The last line is the result as JSON.
#[derive(clap::Args)]
struct PlanArgs {
    /// Random paths, each with a random set of relays
    #[arg(long, default_value_t = 500)]
    paths: u64,
    /// Random sets of sites, in each of which every chain is simulated
    #[arg(long, default_value_t = 50)]
    instances: u64,
    /// Runs of each path; its time is their mean
    #[arg(long, default_value_t = 4)]
    repeats: u64,
    /// What the paths are drawn from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where results are kept: `runs/`, and `forecasts.csv` with a row for each forecast
    #[arg(long, default_value = "out/bench-plan")]
    out: PathBuf,
}

/// SACK Reno and CUBIC as the simulator's hosts speak them.
const ENDS: [Ends; 2] = [
    Ends { profile: "sack-reno", differences: "", model: "reno", streams: 1 },
    Ends { profile: "cubic", differences: "", model: "cubic", streams: 1 },
];

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let args = match &args.what {
        What::Plan(args) => args,
        What::Discovery(args) => return discovery::run(args),
        What::SetUp(args) => return set_up::run(args),
    };
    ensure!(args.paths > 0 && args.repeats > 0, "--paths 0 or --repeats 0 would measure nothing");
    let ledger = Ledger::open(&args.out.join("runs"), ENGINE)?;
    let cases = paths::cases(args, &ledger)?;
    let placed = sites::instances(args, &ledger)?;
    verdict::report(args, &cases, &placed)
}
