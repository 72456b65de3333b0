//! What was assumed, otherwise: the same cells with errors that are decided for each packet, or in slots of another length, and with timeouts
//! that stay doubled for longer, or are not doubled at all; what larger windows change; and many runs of cells that are far off.
//!
//! The paper calls its model time-based and says no more. The slots of 200 ms were chosen because its times come out well with them
//! (docs/probing.md), so what they do has to be told apart from what the protocols do. RTOs are doubled in it ("consecutive timeouts",
//! "an extended time-out", §4), but when that ends it does not say.
use super::TEXT;
use super::figures::Shows;
use super::measured::{self, Tables};
use super::paper::PaperCell;
use crate::error::{Result, While};
use crate::experiment;
use shorthaul_observe::{RunRecord, Store, Summary, runs_of};
use shorthaul_report::Console;
use shorthaul_scenario::{Metric, Study};
use shorthaul_sim::Simulator;
use std::collections::BTreeMap;

/// What another way changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changes {
    Slots,
    Timer,
}

/// Another way: what it changes, in words, and what stands in the scenario for it, in the place of what.
struct Way {
    changes: Changes,
    how: &'static str,
    old: &'static str,
    new: &'static str,
}

/// How the scenario decides errors, and how its timers are.
const SLOTS: &str = ", slot = \"200 ms\"";
const TIMERS: &str = "rto = \"coarse, doubled until acknowledged\"";
const WAYS: [Way; 5] = [
    Way { changes: Changes::Slots, how: "errors for each packet", old: SLOTS, new: "" },
    Way { changes: Changes::Slots, how: "errors in slots of 20 ms", old: SLOTS, new: ", slot = \"20 ms\"" },
    Way { changes: Changes::Slots, how: "errors in slots of 500 ms", old: SLOTS, new: ", slot = \"500 ms\"" },
    Way {
        changes: Changes::Timer,
        how: "RTOs that stay doubled until new data give a round trip (RFC 6298)",
        old: TIMERS,
        new: "rto = \"coarse\"",
    },
    Way {
        changes: Changes::Timer,
        how: "RTOs that are never doubled",
        old: TIMERS,
        new: "rto = \"coarse, never doubled\"",
    },
];
/// The window of the scenario, and larger ones (PRB §4, footnote 8); the paper does not say how large.
const WINDOW: &str = "receive_buffer = \"10240 B\"";
const LARGER: [&str; 4] = ["15 KiB", "20 KiB", "32 KiB", "64 KiB"];
/// Tahoe-Probing and Reno-Probing, and what each is built upon.
const BASES_OF_TWO: [(usize, usize); 2] = [(1, 0), (3, 2)];
/// Where larger windows are looked at: the error rates that are not high.
const MODERATE: [u32; 4] = [1, 10, 20, 33];
/// Runs of each cell, as many as the paper had at least.
pub const RUNS: u32 = 10;
/// Runs of a cell that is far off.
const MANY: u32 = 100;

/// Times and overheads in another way: means by cell, of the runs that succeeded.
pub struct Otherwise {
    pub changes: Changes,
    /// In words.
    pub how: &'static str,
    pub times: BTreeMap<PaperCell, f64>,
    pub overheads: BTreeMap<PaperCell, f64>,
    /// Runs whose connection failed. A mean of what is left is no mean of the cell.
    pub failed: usize,
}

impl Otherwise {
    /// The mean in a cell; not a number where it was not run.
    pub fn of(&self, cell: PaperCell, shows: Shows) -> f64 {
        let means = match shows {
            Shows::Time => &self.times,
            Shows::Overhead => &self.overheads,
        };
        means.get(&cell).copied().unwrap_or(f64::NAN)
    }
}

/// What was tried besides the tables.
#[derive(Default)]
pub struct Tried {
    pub otherwise: Vec<Otherwise>,
    /// Times of many runs of the cells that are far off.
    pub many: BTreeMap<PaperCell, Vec<f64>>,
}

impl Tried {
    /// With errors that are decided for each packet by itself.
    pub fn each_packet(&self) -> Option<&Otherwise> {
        self.otherwise.iter().find(|other| other.how == WAYS[0].how)
    }
}

/// All cells in every other way: of what is tried where it helps alone, nobody learns what it spoils. And the cells that are far off, many times.
pub fn run(tables: &Tables, far: &[PaperCell], store: &Store, console: &dyn Console) -> Result<Tried> {
    let cells: Vec<PaperCell> = tables.iter().map(|(cell, ..)| cell).collect();
    let mut otherwise = Vec::new();
    for Way { changes, how, old, new } in WAYS {
        console.say(&format!("Otherwise, with {how}: {} cells", cells.len()));
        let records = records(&TEXT.replace(old, new), &cells, RUNS, store, console)?;
        otherwise.push(Otherwise {
            changes,
            how,
            times: means(&records, Metric::Completion),
            overheads: means(&records, Metric::SenderOverhead),
            failed: records.iter().filter(|(_, record)| record.failure.is_some()).count(),
        });
    }
    console.say(&format!("{} cells that are far off, {MANY} runs each", far.len()));
    let mut many: BTreeMap<PaperCell, Vec<f64>> = BTreeMap::new();
    for (cell, record) in records(TEXT, far, MANY, store, console)? {
        many.entry(cell).or_default().extend(value(&record, Metric::Completion));
    }
    Ok(Tried { otherwise, many })
}

/// What a larger window leaves of time and overhead, each the mean over the cells of Tahoe-Probing and Reno-Probing at moderate error rates.
pub struct LargerWindow {
    /// How large.
    pub window: &'static str,
    /// Of the same protocol's with the usual window, as errors are decided in the scenario.
    pub left: [f64; 2],
    /// The same with errors that are decided for each packet, with both windows.
    pub each_packet: [f64; 2],
    /// Of those of the protocol that it is built upon, with the larger window, too.
    pub of_base: [f64; 2],
    /// Of the same with the usual window.
    pub usual_of_base: [f64; 2],
    pub cells: usize,
}

pub fn larger_windows(tables: &Tables, store: &Store, console: &dyn Console) -> Result<Vec<LargerWindow>> {
    let base_of = |cell: &PaperCell| {
        let (_, protocol) = *BASES_OF_TWO.iter().find(|(probing, _)| *probing == cell.protocol)?;
        Some(PaperCell { protocol, ..*cell })
    };
    let is_base = |cell: &PaperCell| BASES_OF_TWO.iter().any(|(_, base)| *base == cell.protocol);
    let moderate = tables.iter().map(|(cell, ..)| cell).filter(|cell| MODERATE.contains(&cell.rate));
    let all: Vec<PaperCell> = moderate.filter(|cell| is_base(cell) || base_of(cell).is_some()).collect();
    let cells: Vec<PaperCell> = all.iter().copied().filter(|cell| base_of(cell).is_some()).collect();
    let mean = |share: &dyn Fn(&PaperCell) -> Option<f64>| {
        Summary::of(cells.iter().filter_map(share)).map_or(f64::NAN, |all| all.mean)
    };
    let mut found = Vec::with_capacity(LARGER.len());
    for window in LARGER {
        console.say(&format!("With a window of {window}: {} cells", all.len()));
        let [left, each_packet, of_base, usual_of_base] = [[f64::NAN; 2]; 4];
        let cells = cells.len();
        let mut one = LargerWindow { window, left, each_packet, of_base, usual_of_base, cells };
        for (at, metric) in [Metric::Completion, Metric::SenderOverhead].into_iter().enumerate() {
            let both = |slots: &str| -> Result<[BTreeMap<PaperCell, f64>; 2]> {
                let text = TEXT.replace(SLOTS, slots);
                let larger = text.replace(WINDOW, &format!("receive_buffer = \"{window}\""));
                let run = |text: &str| -> Result<_> {
                    Ok(means(&records(text, &all, RUNS, store, console)?, metric))
                };
                Ok([run(&text)?, run(&larger)?])
            };
            let [usual, larger] = both(SLOTS)?;
            one.left[at] = mean(&|cell| Some(larger.get(cell)? / usual.get(cell)?));
            one.of_base[at] = mean(&|cell| Some(larger.get(cell)? / larger.get(&base_of(cell)?)?));
            one.usual_of_base[at] = mean(&|cell| Some(usual.get(cell)? / usual.get(&base_of(cell)?)?));
            let [usual, larger] = both("")?;
            one.each_packet[at] = mean(&|cell| Some(larger.get(cell)? / usual.get(cell)?));
        }
        found.push(one);
    }
    Ok(found)
}

/// The runs of some cells of a scenario, each with its cell.
fn records(
    text: &str,
    cells: &[PaperCell],
    seeds: u32,
    store: &Store,
    console: &dyn Console,
) -> Result<Vec<(PaperCell, RunRecord)>> {
    let study = Study::from_toml("errors.toml", text)?.with_seeds(1, seeds);
    let of_point: Vec<PaperCell> = study
        .points()
        .iter()
        .map(|point| measured::cell(point.case.as_deref(), &point.values))
        .collect::<Result<_>>()?;
    let runs: Vec<_> =
        runs_of(&study).into_iter().filter(|run| cells.contains(&of_point[run.point])).collect();
    let records = experiment::records_of(&Simulator::default(), &study, &runs, Some(store), console)?;
    let of_record =
        |record: RunRecord| Ok((of_point.get(record.point - 1).copied().doing("a run of no point")?, record));
    records.into_iter().map(of_record).collect()
}

fn value(record: &RunRecord, metric: Metric) -> Option<f64> {
    record.outcome.as_ref()?.metrics.get(&metric).copied()
}

/// The mean of a metric in each cell, of the runs that succeeded.
fn means(records: &[(PaperCell, RunRecord)], metric: Metric) -> BTreeMap<PaperCell, f64> {
    let mut sums: BTreeMap<PaperCell, (f64, f64)> = BTreeMap::new();
    for (cell, record) in records.iter().filter(|(_, record)| record.failure.is_none()) {
        if let Some(value) = value(record, metric) {
            let sum = sums.entry(*cell).or_default();
            *sum = (sum.0 + value, sum.1 + 1.0);
        }
    }
    sums.into_iter().map(|(cell, (sum, count))| (cell, sum / count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scenario_has_what_is_replaced() {
        for (old, new) in
            WAYS.iter().map(|way| (way.old, way.new)).chain([(WINDOW, "receive_buffer = \"15 KiB\"")])
        {
            let text = TEXT.replace(old, new);
            assert!(TEXT.contains(old) && text != TEXT, "{old}");
            assert_eq!(Study::from_toml("errors.toml", &text).unwrap().points().len(), 168, "{new}");
        }
    }
}
