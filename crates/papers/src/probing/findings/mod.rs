//! What must hold, and whether it does: the tables and figures (`agreement`), what was assumed and the cells that are far off (`assumed`), what
//! the text of §4 says in numbers (`text`), what tells protocols apart (`alike`), and larger windows (`windows`).
mod agreement;
mod alike;
mod assumed;
mod text;
mod windows;

pub use assumed::far_cells;
pub use windows::{larger_windows, sending_window};

use super::chance::{Chance, DRAWS};
use super::errors::Tried;
use super::measured::Tables;
use shorthaul_observe::{Finding, Summary};
use shorthaul_report::Unit;

/// A probing protocol and what it is built upon, by their places in [`PROTOCOLS`](super::paper::PROTOCOLS).
const BASES: [(usize, usize); 4] = [(1, 0), (3, 2), (4, 2), (5, 2)];

/// All of them.
pub fn all(tables: &Tables, tried: &Tried) -> Vec<Finding> {
    let chance = Chance::of(tables);
    let mut found = agreement::all(tables, &chance);
    found.extend(assumed::all(tables, tried));
    found.extend(text::all(tables, tried, &chance));
    found.extend(alike::all(tables, tried, &chance));
    found
}

/// A run's luck as a cause: what is off the paper's tables by `own` is off tables that are drawn of our own runs by as much.
fn by_luck(finding: Finding, own: f64, most: f64, words: impl Fn(f64) -> String) -> Finding {
    finding.explained(
        format!(
            "a run's luck: were the paper's runs ours, ten in each cell and each protocol with errors of its own, it would be off by up to {} ({DRAWS} drawn tables, 95 %)",
            words(most)
        ),
        own <= most,
    )
}

/// The median of the absolute differences, as a share; not a number where there is nothing to compare.
fn median(differences: impl Iterator<Item = f64>) -> f64 {
    Summary::of(differences.map(f64::abs)).map_or(f64::NAN, |all| all.percentile(0.5))
}

fn percent(share: f64) -> String {
    Unit::Percent.format(share)
}

fn list(values: &[f64]) -> String {
    values.iter().map(|value| format!("{value:.1}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::errors::{Changes, Otherwise};
    use super::super::figures::Shows;
    use super::super::paper::{self, PROTOCOLS, PaperCell, Stated};
    use super::*;
    use crate::testing::{Having, run};
    use shorthaul_observe::{RunRecord, Verdict};
    use shorthaul_scenario::Metric;

    /// Tables whose times and overheads are the paper's, but for a change.
    pub(super) fn tables(change: impl Fn(PaperCell, [f64; 2]) -> [f64; 2]) -> Tables {
        tables_of(|cell, stated, seed| if seed == 1 { change(cell, stated) } else { [f64::NAN; 2] })
    }

    /// The same with as many runs as there are values, for the seeds from 1 on, twenty at most.
    pub(super) fn tables_of(value: impl Fn(PaperCell, [f64; 2], u64) -> [f64; 2]) -> Tables {
        let stated = paper::tables().unwrap();
        let record = |cell: &PaperCell, stated: &Stated, seed: u64| {
            let (on, rate) = (format!("\"{} s\"", cell.on), (f64::from(cell.rate) / 100.0).to_string());
            let values = [
                ("links.source-sink.link.loss.on", on.as_str()),
                ("links.source-sink.link.loss.rate", &rate),
            ];
            let [time, overhead] = value(*cell, [stated.time, stated.overhead], seed);
            let record = run(Some(PROTOCOLS[cell.protocol]), &values).metric(Metric::Completion, time);
            let record = record.metric(Metric::SenderOverhead, overhead).metric(Metric::WireBytes, 5e6);
            (!time.is_nan()).then_some(RunRecord { seed, ..record })
        };
        let records: Vec<_> = stated
            .iter()
            .flat_map(|(cell, stated)| {
                (1..=20).filter_map(|seed| record(cell, stated, seed)).collect::<Vec<_>>()
            })
            .collect();
        Tables::of(&records, &stated).unwrap()
    }

    /// All cells with errors for each packet: the paper's, but for a change.
    pub(super) fn otherwise(change: impl Fn(PaperCell, [f64; 2]) -> [f64; 2]) -> Otherwise {
        let stated = paper::tables().unwrap();
        let of = |place: usize| {
            stated.iter().map(|(cell, own)| (*cell, change(*cell, [own.time, own.overhead])[place])).collect()
        };
        Otherwise {
            changes: Changes::Slots,
            how: "errors for each packet",
            times: of(0),
            overheads: of(1),
            runs: stated
                .iter()
                .map(|(cell, own)| (*cell, vec![change(*cell, [own.time, own.overhead])]))
                .collect(),
            failed: 0,
        }
    }

    /// All that the paper's tables have of one kind.
    pub(super) fn papers(shows: Shows) -> Vec<f64> {
        let of = |stated: Stated| match shows {
            Shows::Time => stated.time,
            Shows::Overhead => stated.overhead,
        };
        paper::tables().unwrap().into_values().map(of).collect()
    }

    #[test]
    fn the_papers_own_tables_have_all_that_is_asked() {
        let found = all(&tables(|_, stated| stated), &Tried::default());
        let off: Vec<_> = found.iter().filter(|own| own.verdict != Verdict::Holds).collect();
        assert!(off.is_empty(), "{off:#?}");
    }

    /// The same time and overhead everywhere reproduces nothing; only that no cell is far off could be said of it, and is not.
    #[test]
    fn every_finding_can_fail() {
        let found = all(&tables(|_, _| [18.0, 1.8]), &Tried::default());
        let held: Vec<_> =
            found.iter().filter(|own| own.verdict == Verdict::Holds).map(|own| &own.what).collect();
        assert_eq!(held, ["§4: the largest cost of probing at 0 and 1 % errors"]);
    }
}
