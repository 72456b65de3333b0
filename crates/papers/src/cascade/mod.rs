//! What "Cascaded TCP" (Kalim et al.) measured: Table I's matrix, Figures 2 to 5, the window-limited hosts of Table II.
//!
//! Reading order: `cell` (one combination of Table I), `matrix` (which cells, what came of them), `live` (kernels' TCP, our relays
//! and netcat), `figures`, `findings` (what the paper states, beside ours), `variants` (Table II, waiting, storing, other places of
//! loss and relay), `buffers` (a relay's drought and overflow), `fit` (one effective loss for all stated numbers), `cross` (Table II with cross traffic), `page` (all of it as HTML).
mod buffers;
mod cell;
mod cross;
mod figures;
mod findings;
mod fit;
mod live;
mod matrix;
mod page;
mod variants;

use crate::error::{PaperError, Result, While};
use crate::{All, Found, Paper};
use cell::PathPoint;
use live::{Buffers, Live, Measurement};
use matrix::Matrix;
use serde_json::json;
use shorthaul_observe::{EngineName, Finding, Ledger, Store};
use shorthaul_planner::chain::Ends;
use shorthaul_report::{Console, Manifest, make_directory, write_file};
use shorthaul_sim::ENGINE;
use shorthaul_types::Seed;
use std::path::PathBuf;
use std::time::Duration;

/// Which cells, by which engine, how often, and where the results go.
#[derive(clap::Args)]
pub struct Cascade {
    /// What runs it: sim, or live, the kernel's TCP across emulated links, our relays and netcat, 14 cells of Table I; both,
    /// separated by a comma, are drawn into the same figures
    #[arg(long, value_name = "ENGINES", value_delimiter = ',', default_value = "sim", value_parser = engine)]
    engine: Vec<EngineName>,
    /// Simulated: only what the figures and stated results need, with three samples: a few minutes
    #[arg(long)]
    quick: bool,
    /// Samples of each cell [default: 10, with --quick 3, live 3]
    #[arg(long)]
    repeats: Option<u64>,
    /// The directory for results and figures
    #[arg(long, default_value = "reproduce-cascade")]
    out: PathBuf,
    /// What the ends and relays use: reno (as in the paper), cubic or bbr
    #[arg(long, value_parser = ["reno", "cubic", "bbr"], default_value = "reno")]
    ends: String,
    /// The `cascade.json` of a run with `--engine live`: what was measured then is drawn into the figures
    #[arg(long, value_name = "FILE")]
    live: Option<PathBuf>,
    /// Simulated: connections that share the size of each transfer
    #[arg(long, default_value_t = 1)]
    streams: u32,
    /// Live: only cells whose name contains this, such as `64ms` or `32Mbit/s`
    #[arg(long, alias = "cells", value_name = "NAME", default_value = "")]
    only: String,
    /// Live: cells that are measured at the same time
    #[arg(long, alias = "lanes", value_name = "NUMBER", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=16))]
    jobs: u16,
    /// Live: how long a transfer is to take by way of two relays; it takes longer directly
    #[arg(long, value_name = "TIME", default_value = "12s", value_parser = shorthaul_types::parse_duration)]
    aim: Duration,
    /// Live: what each of our relays may hold: `planned` (what the planner advises), `kernel` (what the kernel's own tuning
    /// comes to, as netcat has it), or a size
    #[arg(long, value_name = "SIZE", default_value = "planned")]
    buffer: Buffers,
    /// Live: seed of what the links lose
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// The cell that `reproduce all` measures between kernels, too: the one of which the paper states most.
const LIVE_CELL: &str = "64ms 32Mbit/s 0.1%";

/// The engines that run it.
fn engine(text: &str) -> Result<EngineName, String> {
    match text.parse()? {
        EngineName::Model => Err("the model stands beside each result: write sim, live, or sim,live".into()),
        engine => Ok(engine),
    }
}

impl Paper for Cascade {
    const TITLE: &'static str = "Cascaded TCP";

    fn whole(options: &All) -> Self {
        let out = options.directory("cascade");
        // What was measured between kernels is not measured again.
        let measured = out.join("live/cascade.json");
        let measured = (options.is_live("cascade") && measured.exists()).then_some(measured);
        let engine = match options.is_live("cascade") && measured.is_none() {
            true => vec![EngineName::Sim, EngineName::Live],
            false => vec![EngineName::Sim],
        };
        Cascade {
            engine,
            quick: true,
            repeats: options.repeats().map(u64::from),
            out,
            ends: "reno".to_owned(),
            live: measured,
            streams: 1,
            only: LIVE_CELL.to_owned(),
            jobs: 1,
            aim: Duration::from_secs(12),
            buffer: Buffers::Planned,
            seed: 1,
        }
    }

    fn reproduce(&self, console: &dyn Console) -> Result<Vec<Found>, PaperError> {
        if self.repeats == Some(0) || self.streams == 0 {
            return Err(PaperError::asked("--repeats 0 or --streams 0 would run nothing"));
        }
        let ends = cell::ends(&self.ends, self.streams).doing("there are no such ends")?;
        // First: a mistake here is not to be told after an hour.
        let mut live = self.live.as_deref().map(Live::read).transpose()?.unwrap_or_default();
        if self.engine.contains(&EngineName::Live) {
            live = self.measure(console)?;
        }
        let mut found = Found::by(EngineName::Live, findings::between_kernels(&live));
        if self.engine.contains(&EngineName::Sim) {
            found.extend(Found::by(EngineName::Sim, self.simulate(ends, &live, console)?));
        }
        Ok(found)
    }
}

impl Cascade {
    /// Between kernels; the results are in `live`, below the other results.
    fn measure(&self, console: &dyn Console) -> Result<Live> {
        let measurement = Measurement {
            congestion: self.ends.clone(),
            aim: self.aim,
            buffers: self.buffer,
            repeats: self.repeats.unwrap_or(3),
            jobs: self.jobs.into(),
            seed: Seed(self.seed),
        };
        let cells = live::cells().into_iter().filter(|cell| live::name(*cell).contains(&self.only)).collect();
        measurement.run(cells, &self.out.join("live"), console)
    }

    fn simulate(&self, ends: Ends, live: &Live, console: &dyn Console) -> Result<Vec<Finding>> {
        let repeats = self.repeats.unwrap_or(if self.quick { 3 } else { 10 });
        let ledger = Ledger::open(&self.out.join("runs"), ENGINE)?;
        let mut cells = if self.quick { PathPoint::in_figures() } else { PathPoint::all() };
        cells.extend(PathPoint::without_loss());
        let matrix = Matrix::run(cells, ends, repeats, &ledger, console)?;
        let variants = variants::run(ends, repeats, &ledger, console)?;
        let buffered = buffers::run(ends, repeats, &ledger, console)?;
        let fits = fit::run(ends, repeats, &ledger, console)?;
        let store = Store::open(&self.out.join("cross"))?;
        let beside =
            cross::run(&store, self.repeats.and_then(|repeats| u32::try_from(repeats).ok()), console)?;

        let manifest = Manifest::of_this_command().seed(matrix::SEED);
        matrix.csv(&manifest)?.save(&self.out.join("table-1.csv"))?;
        let mut figures = figures::all(&matrix, live);
        figures.push(("buffers", buffers::figure(&buffered)));
        for (name, figure) in &figures {
            figure.save(&self.out.join(name), &manifest)?;
        }
        let mut findings: Vec<Finding> = findings::all(&matrix, &variants)
            .into_iter()
            .map(|finding| match finding.what == findings::TABLE_2 {
                true => cross::explains(finding, &beside),
                false => finding,
            })
            .collect();
        findings.extend(cross::findings(&beside));
        findings.extend(fit::finding(&fits));
        page::page(&manifest, &matrix, &findings, &figures, live).save(&self.out.join("report.html"))?;
        console.table(&findings::table(&findings));
        console.say(&format!("\n{}", matrix.summary()));
        let json = json!({
            "manifest": manifest,
            "repeats": repeats,
            "findings": findings,
            "cells": matrix.cells().collect::<Vec<_>>(),
            "variants": variants,
            "buffers": buffered,
            "fits": fits,
        });
        make_directory(&self.out)?;
        write_file(&self.out.join("results.json"), serde_json::to_string_pretty(&json)?)?;
        console.say(&format!("Results, figures and report.html are in {}.", self.out.display()));
        Ok(findings)
    }
}

#[cfg(test)]
mod tests {
    use shorthaul_planner::Transfer;
    use shorthaul_planner::chain::Chain;
    use shorthaul_sim::slowest_transfer;
    use shorthaul_types::Bytes;

    use super::cell::{self, PathPoint};

    /// Throughput over rate of `size` bytes with 0, 1 and 2 relays, the mean of three seeds.
    fn utilizations(cell: PathPoint, size: u64) -> [f64; 3] {
        [0, 1, 2].map(|relays| {
            let chain = PathPoint { relays, ..cell }.chain(cell::ends("reno", 1).unwrap());
            let scenario = Chain { transfer: Transfer::new(Bytes(size)), ..chain }.scenario();
            let rate = |seed| {
                8.0 * size as f64 / slowest_transfer(&scenario, seed).unwrap() / (cell.kbit as f64 * 1e3)
            };
            (1..=3).map(rate).sum::<f64>() / 3.0
        })
    }

    #[test]
    fn one_relay_doubles_and_two_nearly_fill_the_link() {
        // "With latencies of 256 ms at 8 Mbps, Cascaded TCP continues to be twice as efficient"; "the same is observed for
        // ... 32 Mbps and latencies 64 ms". "Approximately 90 % utilization" with two relays; headers leave 94 %.
        for (kbit, rtt_ms) in [(8_000, 256), (32_000, 64)] {
            let found = utilizations(PathPoint { kbit, rtt_ms, loss_per_100k: 100, relays: 0 }, 100_000_000);
            assert!((1.8..3.0).contains(&(found[1] / found[0])), "{kbit} kbit/s, {rtt_ms} ms: {found:?}");
            assert!((0.75..0.942).contains(&found[2]), "{kbit} kbit/s, {rtt_ms} ms: {found:?}");
        }
    }

    #[test]
    fn a_small_product_has_no_use_for_relays() {
        // 2 Mbit/s and 16 ms are 4 KB, far below the paper's 32 KB.
        let cell = PathPoint { kbit: 2_000, rtt_ms: 16, loss_per_100k: 100, relays: 0 };
        let found = utilizations(cell, 10_000_000);
        assert!(found[1] / found[0] < 1.1, "{found:?}");
        assert!(found[0] > 0.85 && found.iter().all(|share| *share < 0.942), "{found:?}");
    }

    #[test]
    fn a_transfer_too_small_to_gain_is_told_to_go_direct() {
        use shorthaul_planner::{Advice, Policy, model};
        let cell = PathPoint { kbit: 32_000, rtt_ms: 64, loss_per_100k: 100, relays: 1 };
        let reno = model::by_name("reno").unwrap();
        let advised = |size| {
            let forecast = |relays| {
                let path = PathPoint { relays, ..cell }.path();
                path.forecast(&*reno, &Transfer::new(Bytes(size))).unwrap()
            };
            Advice::new(Some(&forecast(0)), &[forecast(1), forecast(2)], Policy::default()).relays()
        };
        assert_eq!(advised(4_000), 0);
        assert!(advised(100_000_000) > 0);
    }
}
