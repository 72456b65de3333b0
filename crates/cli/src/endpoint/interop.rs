//! `shorthaul endpoint interop`: our endpoint against the kernel, over whatever path and options.
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
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use shorthaul_dataplane::sys::sharpen_timers;
use shorthaul_lab::Privilege;
use shorthaul_report::Terminal;
use shorthaul_types::{Bytes, Seed, format_duration};

use case::Case;
use shorthaul_observe::Progress;
use transfer::Seen;

/// Transfers between our endpoint and the Linux kernel, each over an emulated path of its own.
///
/// Path, options, segment size, scheme, direction and way of closing are drawn from the seed. Every
/// byte is compared, and the SHA-256 of what arrived with that of what was sent. Exits with status 0
/// only if everything arrived. Needs root, or a kernel that allows user namespaces.
#[derive(clap::Args)]
pub struct Args {
    /// How many.
    #[arg(long, default_value_t = 500)]
    transfers: u64,

    /// What all of them are drawn from.
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Only the transfer of this number. Can be given several times.
    #[arg(long, value_name = "NUMBER")]
    only: Vec<u64>,

    /// How many at a time, each in a network of its own.
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u64).range(1..=64))]
    lanes: u64,

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

/// Runs the transfers and prints what was covered; an error if one of them failed.
pub fn run(args: &Args) -> Result<()> {
    let controls = congestion_controls()?;
    let numbers: Vec<u64> =
        if args.only.is_empty() { (0..args.transfers).collect() } else { args.only.clone() };
    let draw = |&number: &u64| Case::draw(Seed(args.seed), number, &controls);
    let cases: Vec<Case> = numbers.iter().map(draw).collect();
    if args.list {
        for case in &cases {
            println!("{:>3}  {case}", case.number);
        }
        return Ok(());
    }
    if args.record.is_some() && cases.len() > 1 {
        bail!("only one transfer can be recorded: give --only once");
    }
    // While the process has a single thread: the kernel asks for that.
    Privilege::obtain()?;
    let started = Instant::now();
    let outcomes = run_all(args, cases);
    let failed = outcomes.iter().filter(|outcome| outcome.result.is_err()).count();
    print!("{}", coverage::table(&outcomes).render(Terminal::stdout()));
    let volume: u64 = outcomes.iter().map(|outcome| transfer::volume(&outcome.case).0).sum();
    println!(
        "\n{} transfers, seed {}, {} in {}: {} with the right SHA-256 at both ends, {failed} failed",
        outcomes.len(),
        args.seed,
        Bytes(volume),
        format_duration(started.elapsed()),
        outcomes.len() - failed
    );
    for Outcome { case, result } in &outcomes {
        if let Err(failure) = result {
            println!("\n{}\n  {case}\n  again: {}", failure, again(args.seed, case));
        }
    }
    if failed > 0 {
        bail!("{failed} of {} transfers failed; above is how to repeat them", outcomes.len());
    }
    Ok(())
}

/// The command that repeats a transfer.
fn again(seed: u64, case: &Case) -> String {
    format!("shorthaul endpoint interop --seed {seed} --only {} --record again.pcapng", case.number)
}

fn run_all(args: &Args, cases: Vec<Case>) -> Vec<Outcome> {
    let progress = Progress::new(Terminal::stderr(), cases.len() as u64);
    let next = AtomicU64::new(0);
    let outcomes = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..args.lanes.min(cases.len() as u64) {
            scope.spawn(|| {
                sharpen_timers();
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                    let result = transfer::run(case, args.record.as_deref());
                    let result = result.map_err(|error| format!("transfer {}: {error:#}", case.number));
                    match &result {
                        Ok(seen) => progress.ended(&format!("{:>3}  {seen}", case.number)),
                        Err(failure) => {
                            progress.warn(&format!("{failure}\n  again: {}", again(args.seed, case)));
                            progress.ended(&format!("{:>3}  failed", case.number));
                        }
                    }
                    let outcome = Outcome { case: case.clone(), result };
                    outcomes.lock().expect("no holder of the lock panics").push(outcome);
                }
            });
        }
    });
    progress.finish();
    let mut outcomes = outcomes.into_inner().expect("no holder of the lock panics");
    outcomes.sort_by_key(|outcome| outcome.case.number);
    outcomes
}

/// Those that the kernel has.
fn congestion_controls() -> Result<Vec<&'static str>> {
    const FILE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let available = std::fs::read_to_string(FILE).with_context(|| format!("cannot read {FILE}"))?;
    let has = |name: &&str| available.split_whitespace().any(|word| word == *name);
    let here: Vec<&'static str> = ["reno", "cubic", "bbr"].into_iter().filter(has).collect();
    if here.is_empty() {
        bail!("this kernel has none of reno, cubic and bbr, but only {}", available.trim());
    }
    Ok(here)
}
