//! What was assumed, otherwise: the same cells with errors that are decided for each packet, or in slots of another length, and with timeouts
//! that stay doubled for longer, or are not doubled at all; what larger windows change; and many runs of cells that are far off.
//!
//! The paper calls its model time-based and says no more. The slots of 500 ms were chosen because its times come out best with them
//! (docs/probing.md), so what they do has to be told apart from what the protocols do. RTOs are doubled in it ("consecutive timeouts",
//! "an extended time-out", §4), but when that ends it does not say.
use super::TEXT;
use super::chance::{Chance, Of};
use super::figures::Shows;
use super::measured::{self, Tables};
use super::paper::PaperCell;
use crate::error::{Result, While};
use crate::experiment;
use shorthaul_observe::{RunRecord, Store, Summary, runs_of};
use shorthaul_report::Console;
use shorthaul_scenario::{Metric, Series, Study};
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
    replaced: &'static [(&'static str, &'static str)],
}

impl Way {
    fn text(&self) -> String {
        self.replaced.iter().fold(TEXT.to_owned(), |text, (old, new)| text.replace(old, new))
    }
}

/// How the scenario decides errors, and how its timers are.
const SLOTS: &str = ", slot = \"500 ms\"";
const TIMERS: &str = "rto = \"coarse, doubled until acknowledged\"";
const WAYS: [Way; 6] = [
    Way { changes: Changes::Slots, how: "errors for each packet", replaced: &[(SLOTS, "")] },
    Way {
        changes: Changes::Slots,
        how: "errors in slots of 20 ms",
        replaced: &[(SLOTS, ", slot = \"20 ms\"")],
    },
    Way {
        changes: Changes::Slots,
        how: "errors in slots of 200 ms",
        replaced: &[(SLOTS, ", slot = \"200 ms\"")],
    },
    Way { changes: Changes::Slots, how: "errors in slots of 1 s", replaced: &[(SLOTS, ", slot = \"1 s\"")] },
    Way {
        changes: Changes::Timer,
        how: "RTOs that stay doubled until new data give a round trip (RFC 6298)",
        replaced: &[(TIMERS, "rto = \"coarse\"")],
    },
    Way {
        changes: Changes::Timer,
        how: "RTOs that are never doubled",
        replaced: &[(TIMERS, "rto = \"coarse, never doubled\"")],
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
    /// Time and overhead of each of them.
    pub runs: BTreeMap<PaperCell, Vec<[f64; 2]>>,
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
    for way in &WAYS {
        let Way { changes, how, .. } = *way;
        console.say(&format!("Otherwise, with {how}: {} cells", cells.len()));
        let records = records(&way.text(), &cells, RUNS, store, console)?;
        otherwise.push(Otherwise {
            changes,
            how,
            times: means(&records, Metric::Completion),
            overheads: means(&records, Metric::SenderOverhead),
            runs: runs(&records),
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
    /// Between which values 95 % have it of what the larger window drops beside these protocols, were ten of our runs drawn in each cell.
    pub by_luck: [[f64; 2]; 2],
    pub cells: usize,
}

const BOTH: [Shows; 2] = [Shows::Time, Shows::Overhead];

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
    let of_base = |of: Of<'_>, shows| mean(&|cell| Some(of(*cell, shows) / of(base_of(cell)?, shows)));
    let mut found = Vec::with_capacity(LARGER.len());
    for window in LARGER {
        console.say(&format!("With a window of {window}: {} cells", all.len()));
        let both = |slots: &str| -> Result<[BTreeMap<PaperCell, Vec<[f64; 2]>>; 2]> {
            let text = TEXT.replace(SLOTS, slots);
            let larger = text.replace(WINDOW, &format!("receive_buffer = \"{window}\""));
            let run = |text: &str| -> Result<_> { Ok(runs(&records(text, &all, RUNS, store, console)?)) };
            Ok([run(&text)?, run(&larger)?])
        };
        let [usual, larger] = both(SLOTS)?;
        let [usual_alone, larger_alone] = both("")?;
        let drawn = [Chance::named("usual", &usual), Chance::named("larger", &larger)];
        let left = |[usual, larger]: [&BTreeMap<PaperCell, Vec<[f64; 2]>>; 2], shows| {
            mean(&|cell| Some(mean_of(larger, *cell, shows) / mean_of(usual, *cell, shows)))
        };
        found.push(LargerWindow {
            window,
            left: BOTH.map(|shows| left([&usual, &larger], shows)),
            each_packet: BOTH.map(|shows| left([&usual_alone, &larger_alone], shows)),
            of_base: BOTH.map(|shows| of_base(&|cell, shows| mean_of(&larger, cell, shows), shows)),
            usual_of_base: BOTH.map(|shows| of_base(&|cell, shows| mean_of(&usual, cell, shows), shows)),
            by_luck: BOTH.map(|shows| drawn[0].less(&drawn[1], &|of| of_base(of, shows))),
            cells: cells.len(),
        });
    }
    Ok(found)
}

/// The mean sending window: the congestion window, but no more than the receiver's, in whole segments.
pub struct SendingWindow {
    /// The receiver's, as it is written.
    pub window: &'static str,
    /// In bytes.
    pub mean: f64,
}

/// How large the window of the scenario is, and that of x-kernel's TCP if nobody sets another: `TCP_BUFFER_SPACE` in `sb.h` of its version 3.3.
const RECEIVERS: [(&str, f64); 2] = [("10240 B", 10_240.0), ("4096 B", 4_096.0)];
/// The payload of the scenario's segments.
const SEGMENT: f64 = 1420.0;
/// "We measured the average sending window at this stage to be 2KB" (§4): at small error rates with phases of 3 s.
const SMALL_RATES: [u32; 2] = [1, 10];

/// The mean sending windows of Tahoe, Reno and what is built upon them, where the paper measured them.
pub fn sending_windows(store: &Store, console: &dyn Console) -> Result<Vec<SendingWindow>> {
    const EVERY: &str = "every = \"10 s\"";
    let cells: Vec<PaperCell> = SMALL_RATES
        .into_iter()
        .flat_map(|rate| (0..4).map(move |protocol| PaperCell { on: 3, protocol, rate }))
        .collect();
    console.say(&format!("Sending windows: {} cells", cells.len()));
    let of = |(window, most): (&'static str, f64)| -> Result<SendingWindow> {
        let text = TEXT.replace(EVERY, "every = \"50 ms\"\nseries = [\"cwnd\"]");
        let text = text.replace(WINDOW, &format!("receive_buffer = \"{window}\""));
        let mut values = Vec::new();
        for (_, record) in records(&text, &cells, RUNS, store, console)? {
            let Some(outcome) = &record.outcome else { continue };
            let own = outcome.series.iter().find(|own| own.series == Series::Cwnd);
            let whole = |cwnd: &f64| (cwnd.min(most) / SEGMENT).floor() * SEGMENT;
            values.extend(own.into_iter().flat_map(|own| &own.points).map(|(_, cwnd)| whole(cwnd)));
        }
        Ok(SendingWindow { window, mean: Summary::of(values).map_or(f64::NAN, |all| all.mean) })
    };
    RECEIVERS.into_iter().map(of).collect()
}

/// The mean of some runs in a cell; not a number without any.
fn mean_of(runs: &BTreeMap<PaperCell, Vec<[f64; 2]>>, cell: PaperCell, shows: Shows) -> f64 {
    let place = match shows {
        Shows::Time => 0,
        Shows::Overhead => 1,
    };
    let values = runs.get(&cell).into_iter().flatten().map(|run| run[place]);
    Summary::of(values).map_or(f64::NAN, |all| all.mean)
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

/// Time and overhead of each run that succeeded, by cell.
fn runs(records: &[(PaperCell, RunRecord)]) -> BTreeMap<PaperCell, Vec<[f64; 2]>> {
    let mut runs: BTreeMap<PaperCell, Vec<[f64; 2]>> = BTreeMap::new();
    for (cell, record) in records.iter().filter(|(_, record)| record.failure.is_none()) {
        let both = [Metric::Completion, Metric::SenderOverhead].map(|metric| value(record, metric));
        if let [Some(time), Some(overhead)] = both {
            runs.entry(*cell).or_default().push([time, overhead]);
        }
    }
    runs
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
        let window =
            Way { changes: Changes::Slots, how: "", replaced: &[(WINDOW, "receive_buffer = \"15 KiB\"")] };
        for way in WAYS.iter().chain([&window]) {
            let text = way.text();
            assert!(way.replaced.iter().all(|(old, _)| TEXT.contains(old)) && text != TEXT, "{}", way.how);
            assert_eq!(Study::from_toml("errors.toml", &text).unwrap().points().len(), 168, "{}", way.how);
        }
    }
}
