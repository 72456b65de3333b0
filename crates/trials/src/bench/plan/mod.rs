//! The planner's forecasts, decisions and placements, against the simulator.
//!
//! Reading order: `draw` (random numbers by name), `paths` (forecasts on random paths), `sites` (placements among random
//! sites), `verdict` (the errors, as a table and as JSON).
pub(super) mod draw;
mod paths;
mod sites;
mod verdict;

use std::path::PathBuf;

use shorthaul_observe::Ledger;
use shorthaul_planner::chain::Ends;
use shorthaul_report::Console;
use shorthaul_sim::ENGINE;

use crate::error::{Result, TrialError};
use crate::trial::{Judgement, Trial};

/// Forecasts against simulations on random paths, and placements against trying every chain.
///
/// What was simulated is written down run by run, so a benchmark that was interrupted goes on where it was.
/// The last line is the result as JSON.
#[derive(clap::Args)]
pub struct Plan {
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
    /// Where results are kept: `runs.jsonl`, and `forecasts.csv` with a row for each forecast
    #[arg(long, default_value = "out/bench-plan")]
    out: PathBuf,
}

/// SACK Reno and CUBIC as the simulator's hosts speak them.
const ENDS: [Ends; 2] = [
    Ends { profile: "sack-reno", differences: "", model: "reno", streams: 1 },
    Ends { profile: "cubic", differences: "", model: "cubic", streams: 1 },
];

impl Trial for Plan {
    fn run(&self, console: &dyn Console) -> Result<Judgement> {
        if self.paths == 0 || self.repeats == 0 {
            return Err(TrialError::asked("--paths 0 or --repeats 0 would measure nothing"));
        }
        let ledger = Ledger::open(&self.out.join("runs"), ENGINE)?;
        let cases = paths::cases(self, &ledger, console)?;
        let placed = sites::instances(self, &ledger, console)?;
        verdict::report(self, &cases, &placed, console)
    }
}
