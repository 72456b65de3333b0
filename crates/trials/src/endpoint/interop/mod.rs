//! Interoperability: our endpoint against the kernel, over whatever path and options.
//!
//! Reading order: `script` (who sends what), `case` (a transfer, drawn), `ours` and `kernel` (the two
//! applications), `transfer` (a transfer, live), `coverage`.
mod case;
mod coverage;
mod kernel;
mod ours;
mod script;
mod transfer;

use std::path::PathBuf;
use std::time::Instant;

use serde_json::json;
use shorthaul_lab::Privilege;
use shorthaul_os::clock::sharpen_timers;
use shorthaul_report::{Console, Progress};
use shorthaul_types::{Bytes, Seed, format_duration};

use crate::error::{Result, TrialError};
use crate::kernel::congestion_controls;
use crate::trial::{Judgement, Ran, Trial, run_all};
use case::Case;
use transfer::Seen;

/// Transfers between our endpoint and the Linux kernel, each over an emulated path of its own.
///
/// Path, options, segment size, scheme, direction and way of closing are drawn from the seed. Every
/// byte is compared, and the SHA-256 of what arrived with that of what was sent. Exits with status 0
/// only if everything arrived. Needs root, or a kernel that allows user namespaces.
#[derive(clap::Args)]
pub struct Interop {
    /// How many.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..))]
    transfers: u64,

    /// What all of them are drawn from.
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Only the transfer of this number. Can be given several times.
    #[arg(long, value_name = "NUMBER")]
    only: Vec<u64>,

    /// How many at a time, each in a network of its own.
    #[arg(long, alias = "lanes", default_value_t = 12, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,

    /// Write the packets at the kernel's end into this file (pcapng); for a single transfer.
    #[arg(long, value_name = "FILE", requires = "only")]
    record: Option<PathBuf>,

    /// Say what would be done, and do nothing.
    #[arg(long)]
    list: bool,
}

/// A transfer and what came of it.
struct Outcome {
    case: Case,
    result: Result<Seen, String>,
}

impl Trial for Interop {
    fn run(&self, console: &dyn Console) -> Result<Judgement> {
        let controls = congestion_controls()?;
        let numbers: Vec<u64> =
            if self.only.is_empty() { (0..self.transfers).collect() } else { self.only.clone() };
        let draw = |&number: &u64| Case::draw(Seed(self.seed), number, &controls);
        let cases: Vec<Case> = numbers.iter().map(draw).collect();
        if self.list {
            for case in &cases {
                console.say(&format!("{:>3}  {case}", case.number));
            }
            let case = |case: &Case| json!({ "number": case.number, "case": case.to_string() });
            return Ok(Judgement::listed(cases.iter().map(case).collect()));
        }
        if self.record.is_some() && cases.len() > 1 {
            return Err(TrialError::asked("only one transfer can be recorded: give --only once"));
        }
        // While the process has a single thread: the kernel asks for that.
        Privilege::obtain()?;
        let started = Instant::now();
        let progress = Progress::begin(console, cases.len());
        let mut outcomes = run_all(&progress, self.jobs.into(), cases, |case| self.transfer(case));
        drop(progress);
        outcomes.sort_by_key(|outcome| outcome.case.number);
        let failed = outcomes.iter().filter(|outcome| outcome.result.is_err()).count();
        console.table(&coverage::table(&outcomes));
        let volume: u64 = outcomes.iter().map(|outcome| transfer::volume(&outcome.case).0).sum();
        console.say(&format!(
            "\n{} transfers, seed {}, {} in {}: {} with the right SHA-256 at both ends, {failed} failed",
            outcomes.len(),
            self.seed,
            Bytes(volume),
            format_duration(started.elapsed()),
            outcomes.len() - failed
        ));
        for Outcome { case, result } in &outcomes {
            if let Err(failure) = result {
                console.say(&format!("\n{failure}\n  {case}\n  again: {}", self.again(case)));
            }
        }
        let summary = json!({
            "transfers": outcomes.len(), "seed": self.seed, "bytes": volume,
            "passed": outcomes.len() - failed, "failed": failed,
        });
        let failure = (failed > 0)
            .then(|| format!("{failed} of {} transfers failed; above is how to repeat them", outcomes.len()));
        Ok(Judgement::holds(summary).unless(failure))
    }
}

impl Interop {
    /// The command that repeats a transfer.
    fn again(&self, case: &Case) -> String {
        format!(
            "shorthaul endpoint interop --seed {} --only {} --record again.pcapng",
            self.seed, case.number
        )
    }

    fn transfer(&self, case: Case) -> Ran<Outcome> {
        sharpen_timers();
        let result = transfer::run(&case, self.record.as_deref());
        let result = result.map_err(|error| format!("transfer {}: {error}", case.number));
        let (how, warning) = match &result {
            Ok(seen) => (format!("{:>3}  {seen}", case.number), None),
            Err(failure) => {
                let warning = format!("{failure}\n  again: {}", self.again(&case));
                (format!("{:>3}  failed", case.number), Some(warning))
            }
        };
        Ran { outcome: Outcome { case, result }, how, warning }
    }
}
