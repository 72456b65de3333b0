//! Parity: our sender against the kernel's own, over the same path.
//!
//! Reading order: `case` (what is compared), `transfer` (one transfer, live), `machine` (was it quiet?),
//! `result`, `show`.
mod case;
mod result;
mod show;
mod transfer;

use std::path::PathBuf;
use std::time::Instant;

use serde_json::json;
use shorthaul_lab::Privilege;
use shorthaul_report::{Console, Manifest, Progress, Unit, make_directory, write_file};
use shorthaul_types::{Bytes, Seed, format_duration};

use crate::error::{Result, While};
use crate::trial::{Judgement, Ran, Trial, run_all, select};
use case::ParityCase;
use result::{Pair, Row};
use shorthaul_os::ProcessorTime;
use transfer::Who;

/// Our sender against the kernel's, with the same congestion control, over the same path.
///
/// The receiver is always the kernel, both senders lose the same packets, and of several pairs of
/// transfers the median counts. Prints a table and writes it (Markdown, CSV, JSON) with a picture. The
/// last line is JSON. Exits with status 0 only if every cell reaches its bound. Needs root, or a kernel
/// that allows user namespaces, and a machine with nothing else to do.
#[derive(clap::Args)]
pub struct Parity {
    /// Three pairs instead of five, of transfers half as long: faster, and less exact.
    #[arg(long)]
    quick: bool,

    /// Pairs of transfers for each cell.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..=99))]
    pairs: Option<u64>,

    /// Where tables and pictures go.
    #[arg(long, value_name = "DIR", default_value = "out/parity")]
    out: PathBuf,

    /// Only the cell of this name, or those whose name contains it. Can be given several times.
    #[arg(long, alias = "cells", value_name = "NAME")]
    only: Vec<String>,

    /// Seed of what the links lose.
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// List the cells, and run nothing.
    #[arg(long)]
    list: bool,
}

impl Parity {
    fn pairs(&self) -> u64 {
        self.pairs.unwrap_or(if self.quick { 3 } else { 5 })
    }

    /// One pair of a cell's; the failure says which it was.
    fn measure(&self, cell: &ParityCase, number: u64) -> Ran<Result<Pair, String>> {
        let seed = Seed(self.seed).derive(&cell.name_of_path()).nth(number);
        match run_undisturbed(cell, cell.amount(self.quick), seed, number) {
            Ok(pair) => {
                let show = |who| Unit::BitsPerSecond.format(pair.by(who).goodput_bit_per_s);
                let how = format!(
                    "{:<28} ours {}, kernel {}: {:.2}",
                    cell.name(),
                    show(Who::Ours),
                    show(Who::Kernel),
                    pair.ratio()
                );
                Ran { outcome: Ok(pair), how, warning: None }
            }
            Err(error) => {
                let failure = format!("pair {number}: {error}");
                let warning = format!("{}: {failure}", cell.name());
                Ran { outcome: Err(failure), how: cell.name(), warning: Some(warning) }
            }
        }
    }

    fn rows(&self, cells: &[ParityCase], console: &dyn Console) -> Vec<Row> {
        let pairs = self.pairs();
        let runs = cells.iter().flat_map(|cell| (0..pairs).map(move |number| (cell, number)));
        let progress = Progress::begin(console, cells.len() * pairs as usize);
        // One at a time: the machine is to have nothing else to do.
        let outcomes = run_all(&progress, 1, runs, |(cell, number)| self.measure(cell, number));
        let mut outcomes = outcomes.into_iter();
        let row = |cell: &ParityCase| {
            let bytes = cell.amount(self.quick).0;
            let mut row = Row { cell: *cell, bytes, pairs: Vec::new(), failure: None };
            for outcome in outcomes.by_ref().take(pairs as usize) {
                match outcome {
                    Ok(pair) => row.pairs.push(pair),
                    Err(failure) => {
                        row.failure.get_or_insert(failure);
                    }
                }
            }
            row
        };
        cells.iter().map(row).collect()
    }

    /// Writes the results in every form.
    fn write(&self, rows: &[Row], manifest: &Manifest) -> Result<()> {
        write_file(&self.out.join("parity.md"), show::markdown(rows, manifest))?;
        write_file(&self.out.join("parity.json"), format!("{:#}\n", show::json(rows, manifest)))?;
        show::csv(rows, manifest)?.save(&self.out.join("parity.csv"))?;
        show::trace(rows, manifest)?.save(&self.out.join("trace.csv"))?;
        show::figure(rows).save(&self.out.join("parity"), manifest)?;
        Ok(())
    }
}

impl Trial for Parity {
    fn run(&self, console: &dyn Console) -> Result<Judgement> {
        let cells = select(ParityCase::all(), &self.only, ParityCase::name)?;
        if self.list {
            for cell in &cells {
                let amount = cell.amount(self.quick).to_string();
                console.say(&format!("{:<28} {amount:>8}, at least {}", cell.name(), cell.bound()));
            }
            let cell = |cell: &ParityCase| json!({ "name": cell.name(), "bytes": cell.amount(self.quick).0, "at_least": cell.bound() });
            return Ok(Judgement::listed(cells.iter().map(cell).collect()));
        }
        // While the process has a single thread: the kernel asks for that.
        Privilege::obtain()?;
        make_directory(&self.out)?;
        let started = Instant::now();
        let rows = self.rows(&cells, console);
        console.table(&show::table(&rows));
        for (row, failure) in rows.iter().filter_map(|row| Some((row, row.failure.as_ref()?))) {
            console.say(&format!("{}: {failure}", row.cell.name()));
        }
        let manifest = Manifest::of_this_command().seed(self.seed).with_machine();
        self.write(&rows, &manifest)?;
        let failing: Vec<String> =
            rows.iter().filter(|row| !row.holds()).map(|row| row.cell.name()).collect();
        console.say(&format!(
            "\n{} of {} cells reach their bound. Tables and pictures: {}/parity.md, .csv, .json, .svg, .png and trace.csv ({})",
            rows.len() - failing.len(),
            rows.len(),
            self.out.display(),
            format_duration(started.elapsed())
        ));
        let failure = (!failing.is_empty())
            .then(|| format!("below the bound, or not measured: {}", failing.join(", ")));
        Ok(Judgement::holds(show::summary(&rows)).with(show::json(&rows, &manifest)).unless(failure))
    }
}

/// How often a pair is repeated because the machine was busy otherwise.
const REPEATS: u32 = 2;

/// The first pair that nobody disturbed, or else the least disturbed of several.
fn run_undisturbed(cell: &ParityCase, bytes: Bytes, seed: Seed, number: u64) -> Result<Pair> {
    let mut best = run_pair(cell, bytes, seed, number)?;
    for _ in 0..REPEATS {
        if !best.is_disturbed() {
            break;
        }
        let pair = run_pair(cell, bytes, seed, number)?;
        if pair.others < best.others {
            best = pair;
        }
    }
    Ok(best)
}

/// Both at once, so that what disturbs the machine disturbs both; one after the other where it could
/// not bear both, beginning with each of them in turn.
fn run_pair(cell: &ParityCase, bytes: Bytes, seed: Seed, number: u64) -> Result<Pair> {
    let before = ProcessorTime::now();
    let run = |who| transfer::run(cell, who, bytes, seed).doing(format!("{} sender", who.name()));
    let (ours, kernel) = if !cell.is_fast() {
        std::thread::scope(|scope| {
            let ours = scope.spawn(|| run(Who::Ours));
            let kernel = run(Who::Kernel);
            (ours.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), kernel)
        })
    } else if number.is_multiple_of(2) {
        (run(Who::Ours), run(Who::Kernel))
    } else {
        let kernel = run(Who::Kernel);
        (run(Who::Ours), kernel)
    };
    let others = before.zip(ProcessorTime::now()).map_or(0.0, |(before, after)| before.others_until(&after));
    Ok(Pair { ours: ours?, kernel: kernel?, others })
}
