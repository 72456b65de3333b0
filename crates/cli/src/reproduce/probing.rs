//! Tables 1 to 4 of "probing devices" (Lahanas and Tsaoussidis), and the figures that are plots of them.
//!
//! Reading order: `paper` (what it says), `measured` (what the simulator says), `findings` (what must hold),
//! `figures`.
mod figures;
mod findings;
mod measured;
mod paper;

use anyhow::{Context as _, ensure};
use indicatif::ProgressBar;
use measured::Tables;
use serde_json::json;
use shorthaul_observe::{RunRecord, run_all, runs_of};
use shorthaul_report::{Column, Manifest, Page, Stated, Table, Terminal};
use shorthaul_scenario::Study;
use shorthaul_sim::Simulator;
use std::path::PathBuf;

/// The scenario of all 168 cells.
const TEXT: &str = include_str!("../../../../papers/probing/tables.toml");

/// How often, and under which assumptions.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Runs of each cell, instead of the scenario's 20
    #[arg(long)]
    repeats: Option<u32>,
    /// The directory for results and figures
    #[arg(long, default_value = "reproduce-probing")]
    out: PathBuf,
    /// Replace a part of the scenario file, such as "delay = \"2 ms\"=>delay = \"5 ms\"", to see what an
    /// assumption does (repeat for several)
    #[arg(long, value_name = "OLD=>NEW")]
    assume: Vec<String>,
    /// Only say how well the tables agree
    #[arg(long)]
    score: bool,
}

/// Runs the experiments, prints the findings, draws the figures.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let mut text = TEXT.to_owned();
    for change in &args.assume {
        let (old, new) = change.split_once("=>").context("write --assume OLD=>NEW")?;
        ensure!(text.contains(old), "there is no `{old}` in the scenario");
        text = text.replace(old, new);
    }
    let mut study = Study::from_toml("probing", &text)?;
    if let Some(repeats) = args.repeats {
        study = study.with_seeds(1, repeats);
    }
    let records = simulate(&study)?;
    let tables = Tables::of(&records, &paper::tables()?)?;
    let findings = findings::all(&tables);
    let stated: Vec<Stated> = findings.iter().map(Stated::from).collect();
    print!("{}", table(&stated).render(Terminal::stdout()));
    if args.score {
        return Ok(());
    }
    let manifest = Manifest::new("shorthaul", env!("CARGO_PKG_VERSION"))
        .arguments(std::env::args().skip(1))
        .seed(1)
        .scenario(study.name(), study.text());
    tables.csv(&manifest)?.save(&args.out.join("tables.csv"))?;
    let mut page = Page::new("TCP with probing devices: Tables 1 to 4", &manifest);
    page.text(study.about()).stated("What must hold", &stated);
    for on in 1..=4 {
        page.table(
            &format!("On/off phases of {on}/5 s: seconds and overhead in percent; the paper's in brackets"),
            &beside(&tables, on),
        );
    }
    for (name, figure) in figures::all(&tables) {
        figure.save(&args.out.join(name), &manifest)?;
        page.figure(&figure);
    }
    if !tables.failures.is_empty() {
        page.heading("Runs whose connection failed, left out").remarks(&tables.failures);
    }
    page.heading("Scenario").source(study.text());
    page.save(&args.out.join("report.html"))?;
    let cells: Vec<_> = tables
        .iter()
        .map(|(cell, measured, stated)| {
            json!({
                "cell": cell, "protocol": paper::PROTOCOLS[cell.protocol], "paper": stated,
                "runs": measured.time.count(), "time": measured.time.mean,
                "time_confidence_95": measured.time.confidence(), "overhead": measured.overhead.mean,
                "wire_bytes": measured.wire.mean,
            })
        })
        .collect();
    let json =
        json!({ "manifest": manifest, "findings": findings, "cells": cells, "failures": tables.failures });
    let path = args.out.join("results.json");
    std::fs::write(&path, serde_json::to_string_pretty(&json)?)
        .with_context(|| format!("cannot write {}", path.display()))?;
    println!("Tables, figures and the page report.html are in {}.", args.out.display());
    Ok(())
}

fn simulate(study: &Study) -> anyhow::Result<Vec<RunRecord>> {
    let runs = runs_of(study);
    let progress = ProgressBar::new(runs.len() as u64); // on a terminal only: it draws to standard error
    let records = run_all(&Simulator::default(), study, &runs, None, |_, _| progress.inc(1))?;
    progress.finish_and_clear();
    Ok(records)
}

fn table(stated: &[Stated]) -> Table {
    let columns =
        [Column::left("what"), Column::right("asked"), Column::right("ours"), Column::left("remark")];
    let mut table = Table::new(columns);
    for Stated { what, paper, ours, remark } in stated {
        table.row([what, paper, ours, remark].map(String::as_str));
    }
    table
}

/// One of the paper's tables with ours beside each number.
fn beside(tables: &Tables, on: u32) -> Table {
    let rates = paper::RATES.map(|rate| Column::right(&format!("{rate} %")));
    let mut table = Table::new([Column::left("protocol")].into_iter().chain(rates));
    for overhead in [false, true] {
        for (protocol, name) in paper::PROTOCOLS.iter().enumerate() {
            let cell = |rate| {
                let Some((ours, paper)) = tables.get(paper::Cell { on, protocol, rate }) else {
                    return String::new();
                };
                if overhead {
                    format!("{:.2} % ({:.2})", ours.overhead.mean, paper.overhead)
                } else {
                    format!("{:.1} s ({:.1})", ours.time.mean, paper.time)
                }
            };
            let row: Vec<String> =
                std::iter::once((*name).to_owned()).chain(paper::RATES.map(cell)).collect();
            table.row(row.iter().map(String::as_str));
        }
        table.rule();
    }
    table
}
