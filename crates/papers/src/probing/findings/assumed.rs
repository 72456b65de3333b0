//! What was assumed beside what else was tried, over all cells; and the cells that are far off.
//!
//! The paper's stack and its error model were one for all cells. So another timer, or another way to decide errors, is judged by all of them:
//! it is nearer only if §4's main results stay and no run fails. Where it helps in one cell alone, it is no cause.
use super::super::chance::within;
use super::super::errors::{Changes, Otherwise, RUNS, Tried};
use super::super::figures::Shows;
use super::super::measured::{Measured, Tables, means_of};
use super::super::paper::{PROTOCOLS, PaperCell, Stated};
use super::text::{faster_than_base, worst};
use super::{agreement, percent};
use shorthaul_observe::{Finding, Summary};
use shorthaul_report::Unit;

pub(super) fn all(tables: &Tables, tried: &Tried) -> Vec<Finding> {
    let mut found = vec![far_off(tables, tried)];
    found.extend(tried.otherwise.iter().map(|other| beside(tables, other)));
    found.extend(far_cells(tables).into_iter().filter_map(|cell| {
        let (ours, stated) = tables.get(cell)?;
        Some(far(tables, cell, ours, *stated, tried))
    }));
    found
}

/// From here on a cell is far off.
const FAR: f64 = 0.5;

fn is_far(time: f64, stated: Stated) -> bool {
    (time / stated.time - 1.0).abs() > FAR
}

/// The cells that are far off.
pub fn far_cells(tables: &Tables) -> Vec<PaperCell> {
    let far = tables.iter().filter(|(_, ours, stated)| is_far(ours.time.mean, *stated));
    far.map(|(cell, ..)| cell).collect()
}

/// How near a way to run all cells comes to the paper.
#[derive(Clone, Copy, Debug)]
struct Fit {
    /// By how much times and overheads are off, the medians.
    time: f64,
    overhead: f64,
    /// Cells that are far off.
    far: usize,
    /// Pairs of 48 in which a probing protocol is faster than its base, from 33 % errors on.
    faster: usize,
    /// How many times faster at 99 % and 4/5 s, the least of four.
    worst: f64,
    /// Cells that were run.
    cells: usize,
    failed: usize,
}

impl Fit {
    fn of(
        tables: &Tables,
        time: &dyn Fn(PaperCell) -> f64,
        overhead: &dyn Fn(PaperCell) -> f64,
        failed: usize,
    ) -> Fit {
        let cells: Vec<PaperCell> =
            tables.iter().map(|(cell, ..)| cell).filter(|cell| !time(*cell).is_nan()).collect();
        let off = |of: &dyn Fn(PaperCell) -> f64, shows| {
            let [ours, papers]: [Vec<f64>; 2] = [
                cells.iter().map(|cell| of(*cell)).collect(),
                cells.iter().map(|cell| tables.paper(*cell, shows)).collect(),
            ];
            agreement::off(&ours, &papers)
        };
        let far = tables.iter().filter(|(cell, _, stated)| is_far(time(*cell), *stated));
        Fit {
            time: off(time, Shows::Time),
            overhead: off(overhead, Shows::Overhead),
            far: far.count(),
            faster: faster_than_base(time).0,
            worst: worst(time).into_iter().map(|(_, times)| times).fold(f64::INFINITY, f64::min),
            cells: cells.len(),
            failed,
        }
    }

    /// Nearer in times, with all that §4 says of high error rates, and all cells run.
    fn is_nearer_than(&self, other: &Fit, paper: &Fit) -> bool {
        let keeps = self.faster >= paper.faster && self.worst >= paper.worst / 2.0;
        let whole = self.failed == 0 && self.cells == paper.cells;
        let not_farther = self.far <= other.far && self.time <= other.time;
        whole && keeps && not_farther && (self.far < other.far || self.time < other.time)
    }
}

impl std::fmt::Display for Fit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Fit { time, overhead, far, faster, worst, failed, .. } = *self;
        write!(
            f,
            "times off by {}, overheads by {}, {far} cells far off, faster than its base in {faster} of 48, {worst:.1} times at 99 % and 4/5 s",
            percent(time),
            percent(overhead)
        )?;
        match failed {
            0 => Ok(()),
            failed => write!(f, ", {failed} runs failed"),
        }
    }
}

/// The scenario's own cells, by the first of its runs: those whose seeds the other ways have, too.
fn same_seeds(tables: &Tables, cell: PaperCell, shows: Shows) -> f64 {
    let Some((measured, _)) = tables.get(cell) else { return f64::NAN };
    let runs = measured.runs(shows);
    let same = runs.iter().copied().take(RUNS as usize);
    Summary::of(same).map_or(f64::NAN, |all| all.mean)
}

/// Fits of the paper's own tables, the scenario and another way.
fn fits(tables: &Tables, other: &Otherwise) -> [Fit; 3] {
    let of = |time: &dyn Fn(PaperCell) -> f64, overhead: &dyn Fn(PaperCell) -> f64, failed| {
        Fit::of(tables, time, overhead, failed)
    };
    [
        of(&|cell| tables.paper(cell, Shows::Time), &|cell| tables.paper(cell, Shows::Overhead), 0),
        of(
            &|cell| same_seeds(tables, cell, Shows::Time),
            &|cell| same_seeds(tables, cell, Shows::Overhead),
            tables.failures.len(),
        ),
        of(&|cell| other.of(cell, Shows::Time), &|cell| other.of(cell, Shows::Overhead), other.failed),
    ]
}

/// Whether all cells come nearer to the paper in another way.
fn is_nearer(tables: &Tables, other: &Otherwise) -> bool {
    let [paper, own, then] = fits(tables, other);
    then.is_nearer_than(&own, &paper)
}

/// What was assumed, beside another way.
fn beside(tables: &Tables, other: &Otherwise) -> Finding {
    let [_, own, then] = fits(tables, other);
    let (what, stated) = match other.changes {
        Changes::Slots => {
            ("errors in slots of 500 ms", "a time-based model; the rate is the dropping intention (§3)")
        }
        Changes::Timer => (
            "RTOs that stay doubled until something is acknowledged",
            "consecutive timeouts, an extended time-out (§4)",
        ),
    };
    Finding::judged(
        format!("assumed: {what}; with {} all cells come no nearer", other.how),
        stated,
        format!("{own}; otherwise {then}"),
        !is_nearer(tables, other),
    )
    .because(format!(
        "{RUNS} runs of each of {} cells, the same seeds; nearer is what has smaller times and fewer far cells, §4's results at high rates and no failed run",
        then.cells
    ))
}

/// What it costs to decide errors for each packet, where that is said to be a cause: all cells then.
pub(super) fn price(tables: &Tables, other: &Otherwise) -> String {
    let [.., then] = fits(tables, other);
    format!(
        "over all cells, times are off by {} in the median then, and {} are far off",
        percent(then.time),
        then.far
    )
}

/// A cell that is far off, and whether the luck of ten runs can be why.
fn far(tables: &Tables, cell: PaperCell, ours: &Measured, stated: Stated, tried: &Tried) -> Finding {
    let many = tried.many.get(&cell).map_or(ours.times.as_slice(), Vec::as_slice);
    let [low, high] = means_of(many, 10).unwrap_or([f64::NAN; 2]);
    let ten = format!("{} to {}", Unit::Seconds.format(low), Unit::Seconds.format(high));
    let mut notes = vec![format!("means of ten of {} runs: {ten}", many.len())];
    let like = its_like(tables, cell);
    notes.extend(like.map(|other| {
        format!(
            "{} does the same there: {} here, {} in the paper",
            PROTOCOLS[other.protocol],
            Unit::Seconds.format(tables.ours(other, Shows::Time)),
            Unit::Seconds.format(tables.paper(other, Shows::Time))
        )
    }));
    let nearer = tried.otherwise.iter().filter(|other| is_nearer(tables, other));
    notes.extend(nearer.map(|other| {
        format!(
            "{} with {}, which come nearer in all cells",
            Unit::Seconds.format(other.of(cell, Shows::Time)),
            other.how
        )
    }));
    let found = Finding::number(cell.name(), Unit::Seconds.format(stated.time), ours.time.mean, Unit::Seconds)
        .within(FAR, stated.time)
        .because(notes.join("; "))
        .explained(
            format!("a run's luck: of ten of our {} runs, 95 % of the means lie within {ten} (bootstrap), and the paper's number does", many.len()),
            within(stated.time, [low, high]),
        );
    let Some(other) = like else { return found };
    // Two that do the same are one with twice the runs.
    let twenty = means_of(many, 20).unwrap_or([f64::NAN; 2]);
    let both = (stated.time + tables.paper(other, Shows::Time)) / 2.0;
    found.explained(
        format!(
            "a run's luck: {} does the same there, the paper's two numbers are {} in the mean, and of twenty of our {} runs 95 % of the means lie within {} to {} (bootstrap)",
            PROTOCOLS[other.protocol],
            Unit::Seconds.format(both),
            many.len(),
            Unit::Seconds.format(twenty[0]),
            Unit::Seconds.format(twenty[1])
        ),
        within(both, twenty),
    )
}

/// The same cell of the protocol that does the same: Tahoe and Reno where there are timeouts alone.
fn its_like(tables: &Tables, cell: PaperCell) -> Option<PaperCell> {
    let protocol =
        [0, 2].into_iter().find(|other| [0, 2].contains(&cell.protocol) && *other != cell.protocol)?;
    let other = PaperCell { protocol, ..cell };
    let alike = tables.ours(other, Shows::Time) / tables.ours(cell, Shows::Time) - 1.0;
    (alike.abs() <= 0.02).then_some(other)
}

/// How many cells are off by more than half: one in twenty would be by chance.
fn far_off(tables: &Tables, tried: &Tried) -> Finding {
    let far: Vec<PaperCell> = far_cells(tables);
    let by_luck = far
        .iter()
        .filter_map(|cell| {
            tables.get(*cell).map(|(ours, stated)| self::far(tables, *cell, ours, *stated, tried))
        })
        .filter(|finding| finding.cause.is_some())
        .count();
    let cells = tables.iter().count() as f64;
    Finding::number("cells off by more than 50 %, of 168", "none (≤ 8 are asked)", far.len() as f64, Unit::None)
        .and(cells > 0.0)
        .at_most(0.05 * cells)
        .because(format!("in {by_luck} of them the paper's number lies within the means of ten of our runs"))
        .explained(
            format!("a run's luck: in each of {by_luck} the paper's number lies within the means of ten of our runs (bootstrap)"),
            by_luck == far.len(),
        )
}

#[cfg(test)]
mod tests {
    use super::super::tests::{otherwise, tables};
    use super::*;
    use crate::testing::holds;
    use shorthaul_observe::Verdict;
    use std::collections::BTreeMap;

    /// Tahoe takes twice its time.
    fn slow(cell: PaperCell, [time, overhead]: [f64; 2]) -> [f64; 2] {
        [if cell.protocol == 0 { 2.0 * time } else { time }, overhead]
    }

    #[test]
    fn what_all_cells_come_nearer_with_was_not_the_right_assumption() {
        let with = |other: Otherwise| {
            let tried = Tried { otherwise: vec![other], ..Tried::default() };
            holds(&all(&tables(slow), &tried), "assumed")
        };
        assert!(!with(otherwise(|_, stated| stated)), "the paper's own times are nearer");
        assert!(with(otherwise(|_, [time, overhead]| [1.6 * time, overhead])), "all are farther");
        // Nearer, but what probing is for is gone; or a run has failed; or a cell was left out.
        let no_gain = |cell: PaperCell, [time, overhead]: [f64; 2]| {
            [if cell.rate == 99 && cell.on == 4 { 50.0 } else { time }, overhead]
        };
        assert!(with(otherwise(no_gain)));
        assert!(with(Otherwise { failed: 1, ..otherwise(|_, stated| stated) }));
        let mut part = otherwise(|_, stated| stated);
        part.times.retain(|cell, _| cell.protocol == 0);
        assert!(with(part), "what is tried where it helps alone");
    }

    #[test]
    fn another_way_is_no_cause_in_single_cells() {
        let tried = Tried { otherwise: vec![otherwise(|_, stated| stated)], ..Tried::default() };
        let found = all(&tables(slow), &tried);
        let tahoe: Vec<_> = found.iter().filter(|own| own.what.starts_with("Tahoe, ")).collect();
        assert_eq!(tahoe.len(), 28);
        assert!(
            tahoe.iter().all(|own| own.cause.is_none() && own.reason.contains("nearer in all cells")),
            "{tahoe:#?}"
        );
        let off = found.iter().find(|own| own.what.starts_with("cells off")).unwrap();
        assert!(off.verdict == Verdict::Differs && off.cause.is_none(), "{off:?}");
    }

    #[test]
    fn luck_is_the_cause_only_where_the_runs_scatter_so_far() {
        let cell = PaperCell { on: 4, protocol: 0, rate: 50 };
        let with = |runs: &[f64]| {
            let tried = Tried { many: BTreeMap::from([(cell, runs.to_vec())]), ..Tried::default() };
            let found = all(&tables(slow), &tried);
            found.into_iter().find(|own| own.what == cell.name()).unwrap()
        };
        // The paper has 50.7 s.
        let scattered = [20.0, 20.0, 25.0, 30.0, 30.0, 40.0, 40.0, 60.0, 150.0, 385.0];
        assert!(with(&scattered).cause.is_some_and(|cause| cause.starts_with("a run's luck")));
        let found = with(&[80.0; 100]);
        assert!(
            found.cause.is_none() && found.reason.starts_with("means of ten of 100 runs: 80"),
            "{found:?}"
        );
    }

    #[test]
    fn two_that_do_the_same_are_one_with_twice_the_runs() {
        // The paper has 33.1 s of Reno and 67.7 s of Tahoe, 50.4 s in the mean. Here both take so long.
        let with = |runs: [f64; 2], reno: f64| {
            let cell = PaperCell { on: 3, protocol: 2, rate: 50 };
            let mean = (runs[0] + runs[1]) / 2.0;
            let time = |own: PaperCell, [time, overhead]: [f64; 2]| {
                let both = [0, 2].contains(&own.protocol) && (own.on, own.rate) == (3, 50);
                let scale = if own.protocol == 2 { reno } else { 1.0 };
                [if both { scale * mean } else { time }, overhead]
            };
            let many = BTreeMap::from([(cell, [runs[0], runs[1]].repeat(50))]);
            let found = all(&tables(time), &Tried { many, ..Tried::default() });
            found.into_iter().find(|own| own.what == cell.name()).unwrap()
        };
        // Means of ten scatter by 4.4 s and those of twenty by 3.1 s, about 55 s.
        let found = with([41.0, 69.0], 1.0);
        assert!(found.cause.as_ref().is_some_and(|cause| cause.contains("50.4 s in the mean")), "{found:?}");
        assert_eq!(with([54.0, 56.0], 1.0).cause, None, "runs that hardly scatter");
        assert_eq!(with([41.0, 69.0], 1.1).cause, None, "Reno does something else here");
    }

    #[test]
    fn few_cells_may_be_far_off() {
        let count = |rate: u32| {
            let far = |cell: PaperCell, [time, overhead]: [f64; 2]| {
                [if cell.protocol == 0 && cell.rate >= rate { 2.0 * time } else { time }, overhead]
            };
            holds(&all(&tables(far), &Tried::default()), "cells off")
        };
        assert!(count(50) && !count(33), "eight and twelve");
    }
}
