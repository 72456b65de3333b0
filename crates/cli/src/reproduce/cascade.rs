//! What "Cascaded TCP" (Kalim et al.) measured: Table I's matrix, Figures 2 to 5, the window-limited hosts of Table II.
//!
//! Reading order: `cell` (one combination of Table I), `matrix` (which cells, what came of them), `live` (what was measured on
//! kernels), `figures`, `findings` (what the paper states, beside ours), `variants` (Table II, waiting, storing, other places of
//! loss and relay), `page` (all of it as HTML).
mod cell;
mod figures;
mod findings;
mod live;
mod matrix;
mod page;
mod variants;

use anyhow::{Context as _, ensure};
use cell::Cell;
use live::Live;
use matrix::Matrix;
use serde_json::json;
use shorthaul_observe::Ledger;
use shorthaul_report::{Manifest, Terminal};
use shorthaul_sim::ENGINE;
use std::path::PathBuf;

/// Which cells, how often, and where the results go.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Only what the figures and stated results need, with three samples: a few minutes
    #[arg(long)]
    quick: bool,
    /// Samples of each cell [default: 10, with --quick 3]
    #[arg(long)]
    repeats: Option<u64>,
    /// The directory for results and figures
    #[arg(long, default_value = "reproduce-cascade")]
    out: PathBuf,
    /// What the ends and relays use: reno (as in the paper), cubic or bbr
    #[arg(long, value_parser = ["reno", "cubic", "bbr"], default_value = "reno")]
    ends: String,
    /// The `cascade.json` of `shorthaul cascade`: what was measured live is drawn into the figures
    #[arg(long, value_name = "FILE")]
    live: Option<PathBuf>,
    /// Connections that share the size of each transfer
    #[arg(long, default_value_t = 1)]
    streams: u32,
}

/// Runs the experiments, prints the findings, draws the figures.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let repeats = args.repeats.unwrap_or(if args.quick { 3 } else { 10 });
    ensure!(repeats > 0 && args.streams > 0, "--repeats 0 or --streams 0 would run nothing");
    let ends = cell::ends(&args.ends, args.streams).context("there are no such ends")?;
    // First: a mistake here is not to be told after an hour.
    let live = args.live.as_deref().map(Live::read).transpose()?.unwrap_or_default();
    let ledger = Ledger::open(&args.out.join("runs"), ENGINE)?;
    let cells = if args.quick { Cell::in_figures() } else { Cell::all() };
    let matrix = Matrix::run(cells, ends, repeats, &ledger)?;
    let variants = variants::run(ends, repeats, &ledger)?;

    let manifest = Manifest::new("shorthaul", env!("CARGO_PKG_VERSION"))
        .arguments(std::env::args().skip(1))
        .seed(matrix::SEED);
    matrix.csv(&manifest)?.save(&args.out.join("table-1.csv"))?;
    let figures = figures::all(&matrix, &live);
    for (name, figure) in &figures {
        figure.save(&args.out.join(name), &manifest)?;
    }
    let findings = findings::all(&matrix, &variants);
    page::page(&manifest, &matrix, &findings, &figures, &live).save(&args.out.join("report.html"))?;
    print!("{}", findings::table(&findings).render(Terminal::stdout()));
    println!("\n{}", matrix.summary());
    let results = args.out.join("results.json");
    let json = json!({
        "manifest": manifest,
        "repeats": repeats,
        "findings": findings,
        "cells": matrix.cells().collect::<Vec<_>>(),
        "variants": variants,
    });
    std::fs::write(&results, serde_json::to_string_pretty(&json)?)
        .with_context(|| format!("cannot write {}", results.display()))?;
    println!("Results, figures and report.html are in {}.", args.out.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use shorthaul_planner::Transfer;
    use shorthaul_planner::chain::Chain;
    use shorthaul_sim::slowest_transfer;
    use shorthaul_types::Bytes;

    use super::cell::{self, Cell};

    /// Throughput over rate of `size` bytes with 0, 1 and 2 relays, the mean of three seeds.
    fn utilizations(cell: Cell, size: u64) -> [f64; 3] {
        [0, 1, 2].map(|relays| {
            let chain = Cell { relays, ..cell }.chain(cell::ends("reno", 1).unwrap());
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
            let found = utilizations(Cell { kbit, rtt_ms, loss_per_100k: 100, relays: 0 }, 100_000_000);
            assert!((1.8..3.0).contains(&(found[1] / found[0])), "{kbit} kbit/s, {rtt_ms} ms: {found:?}");
            assert!((0.75..0.942).contains(&found[2]), "{kbit} kbit/s, {rtt_ms} ms: {found:?}");
        }
    }

    #[test]
    fn a_small_product_has_no_use_for_relays() {
        // 2 Mbit/s and 16 ms are 4 KB, far below the paper's 32 KB.
        let cell = Cell { kbit: 2_000, rtt_ms: 16, loss_per_100k: 100, relays: 0 };
        let found = utilizations(cell, 10_000_000);
        assert!(found[1] / found[0] < 1.1, "{found:?}");
        assert!(found[0] > 0.85 && found.iter().all(|share| *share < 0.942), "{found:?}");
    }

    #[test]
    fn a_transfer_too_small_to_gain_is_told_to_go_direct() {
        use shorthaul_planner::{Advice, Policy, model};
        let cell = Cell { kbit: 32_000, rtt_ms: 64, loss_per_100k: 100, relays: 1 };
        let reno = model::by_name("reno").unwrap();
        let advised = |size| {
            let forecast = |relays| {
                let path = Cell { relays, ..cell }.path();
                path.forecast(&*reno, &Transfer::new(Bytes(size))).unwrap()
            };
            Advice::new(Some(&forecast(0)), &[forecast(1), forecast(2)], Policy::default()).relays()
        };
        assert_eq!(advised(4_000), 0);
        assert!(advised(100_000_000) > 0);
    }
}
