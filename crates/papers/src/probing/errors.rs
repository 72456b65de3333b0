//! Why times differ: the same cells with errors that are decided for each packet, or in slots of another length, and with timeouts that
//! stay doubled otherwise; and what larger windows change.
//!
//! The paper calls its model time-based and says no more. The slots of 200 ms were chosen because all of its tables come out best with them
//! (docs/probing.md), so what they do to single cells has to be told apart from what the protocols do. Nor does it say how long an RTO
//! stays doubled.
use super::TEXT;
use super::measured::{self, Tables};
use super::paper::PaperCell;
use crate::error::{Result, While};
use crate::experiment;
use shorthaul_observe::{Store, Summary, runs_of};
use shorthaul_report::Console;
use shorthaul_scenario::{Metric, Study};
use shorthaul_sim::Simulator;
use std::collections::BTreeMap;

/// What another way changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changes {
    Slots,
    Doubling,
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
const TIMERS: &str = "rto = \"coarse\"";
const WAYS: [Way; 4] = [
    Way { changes: Changes::Slots, how: "for each packet", old: SLOTS, new: "" },
    Way { changes: Changes::Slots, how: "in slots of 20 ms", old: SLOTS, new: ", slot = \"20 ms\"" },
    Way {
        changes: Changes::Doubling,
        how: "stay doubled until something is acknowledged",
        old: TIMERS,
        new: "rto = \"coarse, doubled until acknowledged\"",
    },
    Way {
        changes: Changes::Doubling,
        how: "are never doubled",
        old: TIMERS,
        new: "rto = \"coarse, never doubled\"",
    },
];
/// The window of the scenario, and a larger one (PRB §4, footnote 8).
const WINDOW: &str = "receive_buffer = \"10240 B\"";
/// The larger ones; the paper does not say how large. The first is the one that is judged.
const LARGER: [&str; 4] = ["15 KiB", "20 KiB", "32 KiB", "64 KiB"];
/// Tahoe-Probing and Reno-Probing, and what each is built upon.
const BASES_OF_TWO: [(usize, usize); 2] = [(1, 0), (3, 2)];
/// Where larger windows are looked at: the error rates that are not high.
const MODERATE: [u32; 4] = [1, 10, 20, 33];
/// Runs of each cell, as many as the paper had at least.
pub const RUNS: u32 = 10;
/// Where duplicates are likelier than timeouts, so that the probing protocols can differ (§4.2).
pub const LOW_RATES: [u32; 4] = [1, 10, 20, 33];
pub const SHORT_PHASES: [u32; 2] = [1, 2];
/// Tahoe-Probing, Reno-Probing, Adaptive and Selective.
const PROBING: [usize; 4] = [1, 3, 4, 5];

/// Completion times in another way, in seconds: means by cell.
pub struct Otherwise {
    pub changes: Changes,
    /// In words.
    pub how: &'static str,
    pub times: BTreeMap<PaperCell, f64>,
}

impl Otherwise {
    /// What is different, as the beginning of a sentence.
    pub fn what(&self) -> String {
        match self.changes {
            Changes::Slots => format!("the slots: with errors decided {}", self.how),
            Changes::Doubling => format!("the timer: with RTOs that {}", self.how),
        }
    }

    /// The mean completion time in a cell; not a number where it was not run.
    pub fn time(&self, on: u32, protocol: usize, rate: u32) -> f64 {
        self.times.get(&PaperCell { on, protocol, rate }).copied().unwrap_or(f64::NAN)
    }
}

/// All cells with every other timer: of one that is tried where it helps alone, nobody learns what it spoils. Those that are far off with every other way to
/// decide errors, and for each packet also those in which the protocols are to be told apart.
pub fn run(
    tables: &Tables,
    far: &[PaperCell],
    store: &Store,
    console: &dyn Console,
) -> Result<Vec<Otherwise>> {
    let is_told_apart = |cell: &PaperCell| {
        PROBING.contains(&cell.protocol) && SHORT_PHASES.contains(&cell.on) && LOW_RATES.contains(&cell.rate)
    };
    let cells: Vec<PaperCell> = tables.iter().map(|(cell, ..)| cell).collect();
    let mut all = Vec::new();
    for Way { changes, how, old, new } in WAYS {
        let wanted = |cell: &PaperCell| {
            changes == Changes::Doubling || far.contains(cell) || (new.is_empty() && is_told_apart(cell))
        };
        let cells: Vec<PaperCell> = cells.iter().copied().filter(|cell| wanted(cell)).collect();
        console.say(&format!("Otherwise ({how}): {} cells", cells.len()));
        let times = means(&TEXT.replace(old, new), &cells, Metric::Completion, store, console)?;
        all.push(Otherwise { changes, how, times });
    }
    Ok(all)
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
                let run = |text: &str| means(text, &all, metric, store, console);
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

/// The means of a metric in some cells of a scenario.
fn means(
    text: &str,
    cells: &[PaperCell],
    metric: Metric,
    store: &Store,
    console: &dyn Console,
) -> Result<BTreeMap<PaperCell, f64>> {
    let study = Study::from_toml("errors.toml", text)?.with_seeds(1, RUNS);
    let of_point: Vec<PaperCell> = study
        .points()
        .iter()
        .map(|point| measured::cell(point.case.as_deref(), &point.values))
        .collect::<Result<_>>()?;
    let runs: Vec<_> =
        runs_of(&study).into_iter().filter(|run| cells.contains(&of_point[run.point])).collect();
    let records = experiment::records_of(&Simulator::default(), &study, &runs, Some(store), console)?;
    let mut sums: BTreeMap<PaperCell, (f64, f64)> = BTreeMap::new();
    for record in &records {
        let cell = of_point.get(record.point - 1).copied().doing("a run of no point")?;
        let time = record.outcome.as_ref().and_then(|outcome| outcome.metrics.get(&metric));
        if let Some(time) = time {
            let sum = sums.entry(cell).or_default();
            *sum = (sum.0 + time, sum.1 + 1.0);
        }
    }
    Ok(sums.into_iter().map(|(cell, (sum, count))| (cell, sum / count)).collect())
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
