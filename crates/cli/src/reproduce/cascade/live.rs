use super::cell::Cell;
use anyhow::Context as _;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// What `shorthaul cascade` measured on kernels, by cell: medians in bit/s.
#[derive(Debug, Default)]
pub(super) struct Live {
    rates: BTreeMap<Cell, f64>,
    /// One relay of netcat instead of ours.
    netcat: BTreeMap<Cell, f64>,
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
    direct: Way,
    one_relay: Way,
    two_relays: Way,
    netcat: Way,
}

#[derive(Deserialize)]
struct Way {
    bit_s: Option<f64>,
}

impl Live {
    /// Reads the `cascade.json` of `shorthaul cascade`.
    ///
    /// # Errors
    /// If it cannot be read, or is something else.
    pub fn read(path: &Path) -> anyhow::Result<Live> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let found: Measurements = serde_json::from_str(&text).with_context(|| {
            format!("{}: give the cascade.json that `shorthaul cascade` has written", path.display())
        })?;
        let mut live = Live::default();
        for row in found.cells {
            let cell = |relays| Cell {
                rtt_ms: row.rtt_ms,
                kbit: row.mbit_s * 1_000,
                loss_per_100k: (row.loss_percent * 1e3).round() as u64,
                relays,
            };
            let ways = [&row.direct, &row.one_relay, &row.two_relays].into_iter().enumerate();
            live.rates.extend(ways.filter_map(|(relays, way)| Some((cell(relays), way.bit_s?))));
            live.netcat.extend(row.netcat.bit_s.map(|rate| (cell(1), rate)));
        }
        Ok(live)
    }

    /// Bits a second in a cell.
    pub fn rate(&self, cell: Cell) -> Option<f64> {
        self.rates.get(&cell).copied()
    }

    /// How many times as fast as directly.
    pub fn gain(&self, cell: Cell) -> Option<f64> {
        Some(self.rate(cell)? / self.rate(Cell { relays: 0, ..cell })?)
    }

    /// The same with netcat as the relay.
    pub fn netcat_gain(&self, cell: Cell) -> Option<f64> {
        Some(self.netcat.get(&Cell { relays: 1, ..cell })? / self.rate(Cell { relays: 0, ..cell })?)
    }

    /// The cells, without relays.
    pub fn cells(&self) -> impl Iterator<Item = Cell> {
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
            "netcat": {"bit_s": 15e6}}]}"#;
        let path = std::env::temp_dir().join(format!("shorthaul-live-cells-{}.json", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let live = Live::read(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        let cell = Cell { rtt_ms: 64, kbit: 32_000, loss_per_100k: 100, relays: 1 };
        assert_eq!(live.gain(cell), Some(2.0));
        assert_eq!(live.netcat_gain(cell), Some(1.875));
        assert_eq!(live.rate(Cell { relays: 2, ..cell }), None);
        assert_eq!(live.cells().count(), 1);
    }
}
