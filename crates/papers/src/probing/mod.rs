//! Tables 1 to 4 of "probing devices" (Lahanas and Tsaoussidis), and the figures that are plots of them.
//!
//! Reading order: `paper` (what it says), `measured` (what the simulator says), `chance` (what luck alone has it say), `findings` (what must
//! hold), `figures`, `errors` (what was assumed, otherwise), `forward` (throughput in the forward direction).
mod chance;
mod errors;
mod figures;
mod findings;
mod forward;
mod measured;
mod paper;

use crate::error::{PaperError, Result};
use crate::{All, Found, Paper, experiment, fidelity};
use measured::Tables;
use serde_json::json;
use shorthaul_observe::{EngineName, Finding};
use shorthaul_report::{Column, Console, Manifest, Page, Table, write_file};
use shorthaul_scenario::Study;
use shorthaul_sim::Simulator;
use std::path::PathBuf;

/// The scenario of all 168 cells.
const TEXT: &str = include_str!("../../../../papers/probing/tables.toml");

/// How often, and under which assumptions.
#[derive(clap::Args)]
pub struct Probing {
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

impl Paper for Probing {
    const TITLE: &'static str = "Probing devices";

    fn whole(options: &All) -> Self {
        Probing {
            repeats: options.repeats(),
            out: options.directory("probing"),
            assume: Vec::new(),
            score: false,
        }
    }

    fn reproduce(&self, console: &dyn Console) -> Result<Vec<Found>, PaperError> {
        let mut study = Study::from_toml("probing", &self.text()?)?;
        if let Some(repeats) = self.repeats {
            study = study.with_seeds(1, repeats);
        }
        let store = fidelity::store(&self.out)?;
        let records = experiment::records(&Simulator::default(), &study, Some(&store), console)?;
        let tables = Tables::of(&records, &paper::tables()?)?;
        let tried = match self.score {
            true => errors::Tried::default(),
            false => errors::run(&tables, &findings::far_cells(&tables), &store, console)?,
        };
        let mut findings = findings::all(&tables, &tried);
        if !self.score {
            findings.extend(findings::larger_windows(&errors::larger_windows(&tables, &store, console)?));
            findings.extend(findings::sending_window(&errors::sending_windows(&store, console)?));
            findings.extend(forward::run(self.repeats, &store, console)?);
        }
        console.table(&Finding::table(&findings));
        if self.score {
            return Ok(Found::by(EngineName::Sim, findings));
        }
        let manifest = Manifest::of_this_command().seed(1).scenario(study.name(), study.text());
        tables.csv(&manifest)?.save(&self.out.join("tables.csv"))?;
        self.write_page(&study, &tables, &findings, &manifest)?;
        self.write_json(&tables, &findings, &manifest)?;
        console.say(&format!("Tables, figures and the page report.html are in {}.", self.out.display()));
        Ok(Found::by(EngineName::Sim, findings))
    }
}

impl Probing {
    /// The scenario under the assumptions that were asked for.
    fn text(&self) -> Result<String> {
        let mut text = TEXT.to_owned();
        for change in &self.assume {
            let (old, new) =
                change.split_once("=>").ok_or_else(|| PaperError::asked("write --assume OLD=>NEW"))?;
            if !text.contains(old) {
                return Err(PaperError::asked(format!("there is no `{old}` in the scenario")));
            }
            text = text.replace(old, new);
        }
        Ok(text)
    }

    fn write_page(
        &self,
        study: &Study,
        tables: &Tables,
        findings: &[Finding],
        manifest: &Manifest,
    ) -> Result<()> {
        let mut page = Page::new("TCP with probing devices: Tables 1 to 4", manifest);
        page.text(study.about());
        Finding::show(&mut page, "What must hold", findings);
        for on in 1..=4 {
            page.table(
                &format!(
                    "On/off phases of {on}/5 s: seconds and overhead in percent; the paper's in brackets"
                ),
                &beside(tables, on),
            );
        }
        for (name, figure) in figures::all(tables) {
            figure.save(&self.out.join(name), manifest)?;
            page.figure(&figure);
        }
        if !tables.failures.is_empty() {
            page.heading("Runs whose connection failed, left out").remarks(&tables.failures);
        }
        page.heading("Scenario").source("The scenario file", study.text());
        Ok(page.save(&self.out.join("report.html"))?)
    }

    fn write_json(&self, tables: &Tables, findings: &[Finding], manifest: &Manifest) -> Result<()> {
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
        let json = json!({ "manifest": manifest, "findings": findings, "cells": cells, "failures": tables.failures });
        Ok(write_file(&self.out.join("results.json"), serde_json::to_string_pretty(&json)?)?)
    }
}

/// One of the paper's tables with ours beside each number.
fn beside(tables: &Tables, on: u32) -> Table {
    let rates = paper::RATES.map(|rate| Column::right(&format!("{rate} %")));
    let mut table = Table::new([Column::left("protocol")].into_iter().chain(rates));
    for overhead in [false, true] {
        for (protocol, name) in paper::PROTOCOLS.iter().enumerate() {
            let cell = |rate| {
                let Some((ours, paper)) = tables.get(paper::PaperCell { on, protocol, rate }) else {
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
