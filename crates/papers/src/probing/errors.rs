//! Why times differ: the same cells with errors that are decided for each packet, or in slots of another length.
//!
//! The paper calls its model time-based and says no more. The slots of 200 ms were chosen because all of its tables come out best with them
//! (docs/probing.md), so what they do to single cells has to be told apart from what the protocols do.
use super::TEXT;
use super::measured::{self, Tables};
use super::paper::PaperCell;
use crate::error::{Result, While};
use crate::experiment;
use shorthaul_observe::{Store, runs_of};
use shorthaul_report::Console;
use shorthaul_scenario::{Metric, Study};
use shorthaul_sim::Simulator;
use std::collections::BTreeMap;

/// How the scenario decides errors.
const SLOTS: &str = ", slot = \"200 ms\"";
/// The other ways, with what the scenario says for them.
const WAYS: [(&str, &str); 2] = [("for each packet", ""), ("in slots of 20 ms", ", slot = \"20 ms\"")];
/// Runs of each cell, as many as the paper had at least.
const RUNS: u32 = 10;
/// Where duplicates are likelier than timeouts, so that the probing protocols can differ (§4.2).
pub const LOW_RATES: [u32; 4] = [1, 10, 20, 33];
pub const SHORT_PHASES: [u32; 2] = [1, 2];
/// Tahoe-Probing, Reno-Probing, Adaptive and Selective.
const PROBING: [usize; 4] = [1, 3, 4, 5];

/// Completion times with errors that are decided in another way, in seconds: means by cell.
pub struct Otherwise {
    /// In words.
    pub how: &'static str,
    pub times: BTreeMap<PaperCell, f64>,
}

impl Otherwise {
    /// The mean completion time in a cell; not a number where it was not run.
    pub fn time(&self, on: u32, protocol: usize, rate: u32) -> f64 {
        self.times.get(&PaperCell { on, protocol, rate }).copied().unwrap_or(f64::NAN)
    }
}

/// The cells that are far off in every other way, and for each packet also those in which the protocols are to be told apart.
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
    for (how, slot) in WAYS {
        let wanted = |cell: &PaperCell| far.contains(cell) || (slot.is_empty() && is_told_apart(cell));
        let cells: Vec<PaperCell> = cells.iter().copied().filter(|cell| wanted(cell)).collect();
        console.say(&format!("Errors {how}: {} cells", cells.len()));
        all.push(Otherwise { how, times: times(slot, &cells, store, console)? });
    }
    Ok(all)
}

fn times(
    slot: &str,
    cells: &[PaperCell],
    store: &Store,
    console: &dyn Console,
) -> Result<BTreeMap<PaperCell, f64>> {
    let study = Study::from_toml("errors.toml", &TEXT.replace(SLOTS, slot))?.with_seeds(1, RUNS);
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
        let time = record.outcome.as_ref().and_then(|outcome| outcome.metrics.get(&Metric::Completion));
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
    fn the_scenario_has_the_slots_that_are_replaced() {
        assert_eq!(TEXT.matches(SLOTS).count(), 1);
        for (how, slot) in WAYS {
            let text = TEXT.replace(SLOTS, slot);
            assert_eq!(Study::from_toml("errors.toml", &text).unwrap().points().len(), 168, "{how}");
        }
    }
}
