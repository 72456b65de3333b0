//! The same paths between kernels: a transfer over emulated links, directly and by way of relays, ours and netcat's.
//!
//! Reading order: this file (which cells, how they are measured, what was measured before), `transfer` (one transfer, and its
//! relays), `show` (table, picture, JSON).
mod show;
mod transfer;

use super::cell::PathPoint;
use crate::error::{PaperError, Result};
use serde::Deserialize;
use shorthaul_lab::Privilege;
use shorthaul_observe::in_parallel;
use shorthaul_report::{Console, Manifest, Progress, make_directory, write_file};
use shorthaul_types::{Bytes, Seed};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use show::Measured;
use transfer::Relaying;

/// How cells are measured.
#[derive(Clone, Debug)]
pub(super) struct Measurement {
    /// Congestion control of ends and relays.
    pub congestion: String,
    /// How long a transfer is to take by way of two relays.
    pub aim: Duration,
    /// What a relay may hold.
    pub buffers: Buffers,
    /// Transfers of each kind in each cell; the median counts.
    pub repeats: u64,
    /// Cells that are measured at the same time.
    pub jobs: usize,
    /// Of what the links lose.
    pub seed: Seed,
}

/// What a relay may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffers {
    /// What the planner advises.
    Planned,
    /// What the kernel comes to by itself, in which the two legs often wait for each other.
    Kernel,
    /// This size.
    Of(Bytes),
}

impl FromStr for Buffers {
    type Err = String;

    fn from_str(text: &str) -> Result<Buffers, String> {
        match text {
            "planned" => Ok(Buffers::Planned),
            "kernel" => Ok(Buffers::Kernel),
            size => size
                .parse()
                .map(Buffers::Of)
                .map_err(|error| format!("{error}; or write `planned` or `kernel`")),
        }
    }
}

/// The subset of Table I that is measured live; of the third and the eighth the paper states results.
pub(super) fn cells() -> Vec<PathPoint> {
    const CELLS: [(u64, u64, u64); 14] = [
        (16, 8, 100),
        (16, 64, 100),
        (64, 32, 100),
        (64, 8, 10),
        (64, 8, 100),
        (64, 64, 10),
        (64, 64, 100),
        (256, 8, 100),
        (256, 8, 10),
        (256, 64, 10),
        (256, 64, 100),
        (256, 64, 1_000),
        (64, 32, 1_000),
        (256, 2, 100),
    ];
    let cell =
        |(rtt_ms, mbit, loss_per_100k)| PathPoint { rtt_ms, kbit: mbit * 1_000, loss_per_100k, relays: 0 };
    CELLS.into_iter().map(cell).collect()
}

/// As in tables and on the command line.
pub(super) fn name(cell: PathPoint) -> String {
    format!("{}ms {}Mbit/s {}%", cell.rtt_ms, mbit(cell), loss_percent(cell))
}

fn mbit(cell: PathPoint) -> u64 {
    cell.kbit / 1_000
}

fn loss_percent(cell: PathPoint) -> f64 {
    cell.loss_per_100k as f64 / 1e3
}

impl Measurement {
    /// Measures the cells, tells what came of them, and writes it into the directory `out`.
    ///
    /// # Errors
    /// If there are none, or a transfer failed.
    pub fn run(&self, wanted: Vec<PathPoint>, out: &Path, console: &dyn Console) -> Result<Live> {
        if wanted.is_empty() {
            let names: Vec<String> = cells().into_iter().map(name).collect();
            return Err(PaperError::asked(format!(
                "no cell has such a name; there are: {}",
                names.join(", ")
            )));
        }
        // While the process has a single thread: the kernel asks for that.
        Privilege::obtain()?;
        make_directory(out)?;
        let ways: Vec<Relaying> = Relaying::ALL.into_iter().filter(|way| way.is_installed()).collect();
        if ways.len() < Relaying::ALL.len() {
            console.warn("netcat is not measured: it is not installed (`nc`, of netcat-openbsd)");
        }
        let total = wanted.len() * ways.len() * self.repeats as usize;
        let progress = Progress::begin(console, total);
        let measure = |cell| Ok::<_, Infallible>(self.measure(cell, &ways, &progress));
        let measured = match in_parallel(self.jobs, wanted, measure) {
            Ok(measured) => measured,
            Err(never) => match never {},
        };
        drop(progress);
        let live = self.report(&measured, out, console)?;
        match measured.iter().map(Measured::failures).sum() {
            0 => Ok(live),
            failed => {
                let why = format!("{failed} of {total} transfers failed; the lines above say why");
                Err(PaperError::failed(why))
            }
        }
    }

    fn measure(&self, cell: PathPoint, ways: &[Relaying], progress: &Progress<'_>) -> Measured {
        let mut results = Measured::new(cell, self);
        for repeat in 0..self.repeats {
            let seed = self.seed.derive(&name(cell)).derive(&repeat.to_string());
            for way in ways {
                let result = self.transfer(cell, *way, seed);
                let said = match &result {
                    Ok(rate) => rate.to_string(),
                    Err(error) => format!("failed: {error}"),
                };
                progress.step(&format!("{:24} {:13} {said}", name(cell), way.name()));
                results.add(*way, result);
            }
        }
        results
    }

    fn report(&self, measured: &[Measured], out: &Path, console: &dyn Console) -> Result<Live> {
        let manifest = Manifest::of_this_command().seed(self.seed.0);
        console.table(&show::table(measured));
        console.say("");
        show::sentences(measured).iter().for_each(|sentence| console.say(sentence));
        let json = show::json(measured, &manifest);
        write_file(&out.join("cascade.json"), format!("{json:#}\n"))?;
        show::csv(measured, &manifest)?.save(&out.join("cascade.csv"))?;
        show::figure(measured, &self.congestion).save(&out.join("cascade"), &manifest)?;
        let directory = out.display();
        console.say(&format!(
            "\nFigure and data: {directory}/cascade.svg, cascade.png, cascade.csv, cascade.json"
        ));
        Ok(Live::of(serde_json::from_value(json)?))
    }
}

/// What was measured on kernels, by cell: medians in bit/s.
#[derive(Debug, Default)]
pub(super) struct Live {
    rates: BTreeMap<PathPoint, f64>,
    /// Netcat instead of our relays, one and two of them.
    netcat: BTreeMap<PathPoint, f64>,
    /// One relay that waits.
    waiting: BTreeMap<PathPoint, f64>,
}

#[derive(Deserialize)]
struct Measurements {
    cells: Vec<MeasuredCell>,
}

/// A row of `cascade.json`.
#[derive(Deserialize)]
struct MeasuredCell {
    rtt_ms: u64,
    mbit_s: u64,
    loss_percent: f64,
    direct: MeasuredWay,
    one_relay: MeasuredWay,
    two_relays: MeasuredWay,
    waiting: MeasuredWay,
    netcat: MeasuredWay,
    two_netcats: MeasuredWay,
}

#[derive(Deserialize)]
struct MeasuredWay {
    bit_s: Option<f64>,
}

impl Live {
    /// Reads the `cascade.json` of a measurement.
    ///
    /// # Errors
    /// If it cannot be read, or is something else.
    pub fn read(path: &Path) -> Result<Live> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| PaperError::asked(format!("cannot read {}: {error}", path.display())))?;
        serde_json::from_str(&text).map(Live::of).map_err(|error| {
            PaperError::asked(format!(
                "{}: {error}: give the cascade.json that `shorthaul reproduce cascade --engine live` has written",
                path.display()
            ))
        })
    }

    fn of(found: Measurements) -> Live {
        let mut live = Live::default();
        for row in found.cells {
            let cell = |relays| PathPoint {
                rtt_ms: row.rtt_ms,
                kbit: row.mbit_s * 1_000,
                loss_per_100k: (row.loss_percent * 1e3).round() as u64,
                relays,
            };
            let ways = [&row.direct, &row.one_relay, &row.two_relays].into_iter().enumerate();
            live.rates.extend(ways.filter_map(|(relays, way)| Some((cell(relays), way.bit_s?))));
            live.waiting.extend(row.waiting.bit_s.map(|rate| (cell(1), rate)));
            let netcats = [(1, &row.netcat), (2, &row.two_netcats)];
            live.netcat
                .extend(netcats.into_iter().filter_map(|(relays, way)| Some((cell(relays), way.bit_s?))));
        }
        live
    }

    /// What these cells of a `cascade.json` say.
    #[cfg(test)]
    pub fn of_cells(cells: serde_json::Value) -> Live {
        Live::of(serde_json::from_value(serde_json::json!({ "cells": cells })).unwrap())
    }

    /// Bits a second in a cell.
    pub fn rate(&self, cell: PathPoint) -> Option<f64> {
        self.rates.get(&cell).copied()
    }

    /// How many times as fast as directly.
    pub fn gain(&self, cell: PathPoint) -> Option<f64> {
        Some(self.rate(cell)? / self.rate(PathPoint { relays: 0, ..cell })?)
    }

    /// The same with netcat as each relay of the cell.
    pub fn netcat_gain(&self, cell: PathPoint) -> Option<f64> {
        Some(self.netcat.get(&cell)? / self.rate(PathPoint { relays: 0, ..cell })?)
    }

    /// What a relay that waits has of the throughput of one that does not.
    pub fn waiting(&self, cell: PathPoint) -> Option<f64> {
        let cell = PathPoint { relays: 1, ..cell };
        Some(self.waiting.get(&cell)? / self.rate(cell)?)
    }

    /// The cells, without relays.
    pub fn cells(&self) -> impl Iterator<Item = PathPoint> {
        self.rates.keys().copied().filter(|cell| cell.relays == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_live_is_found_by_its_cell() {
        let text = r#"{"manifest": {}, "cells": [{"rtt_ms": 64, "mbit_s": 32, "loss_percent": 0.1, "bytes": 1,
            "congestion": "reno", "direct": {"bit_s": 8e6}, "one_relay": {"bit_s": 16e6}, "two_relays": {"bit_s": null},
            "waiting": {"bit_s": 12e6}, "netcat": {"bit_s": 15e6}, "two_netcats": {"bit_s": 20e6}}]}"#;
        let path = std::env::temp_dir().join(format!("shorthaul-live-cells-{}.json", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let live = Live::read(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        let cell = PathPoint { rtt_ms: 64, kbit: 32_000, loss_per_100k: 100, relays: 1 };
        assert_eq!(live.gain(cell), Some(2.0));
        assert_eq!(live.netcat_gain(cell), Some(1.875));
        assert_eq!(live.netcat_gain(PathPoint { relays: 2, ..cell }), Some(2.5));
        assert_eq!(live.waiting(cell), Some(0.75));
        assert_eq!(live.rate(PathPoint { relays: 2, ..cell }), None);
        assert_eq!(live.cells().count(), 1);
    }
}
