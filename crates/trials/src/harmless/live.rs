//! Cells of the matrix between kernels: direct and through the gateway by turns, judged by the intervals of the pairs.
use super::figures::{self, Figures};
use super::matrix::MatrixCell;
use super::runs::Cell as _;
use super::verdict::{PAGE, THROUGHPUT, longest_queue};
use crate::direct_or_split::DirectOrSplit;
use crate::error::{Result, TrialError, While};
use crate::trial::Judgement;
use serde_json::{Value, json};
use shorthaul_lab::Privilege;
use shorthaul_live::{Bounds, Live};
use shorthaul_observe::{Engine, Summary};
use shorthaul_os::ProcessorTime;
use shorthaul_report::{Column, Console, Progress, Table, TableCell, Tone, Unit};
use shorthaul_scenario::Study;

/// Cells that are run where none are named: the kernel has no `bbr3`, and a lab here carries up to 100 Mbit/s.
pub(super) const CELLS: [&str; 8] = [
    "5g/cubic/bulk",
    "5g/bbr/bulk",
    "lte/cubic/bulk",
    "dsl-shallow/reno/bulk",
    "dsl-deep/cubic/upload",
    "lossy-edge/cubic/bulk",
    "half-way/reno/bulk",
    "beyond-shallow/cubic/pages",
];
/// A pair with a run that is not to be trusted is run again, so often in all.
const TRIES: u32 = 3;

/// A run between kernels.
#[derive(Clone, Debug)]
struct Run {
    figures: Figures,
    /// How late the emulated links delivered, at the 99th percentile; seconds.
    late: f64,
    /// The share of processor time that the host of this virtual machine gave to others.
    steal: f64,
    /// What speaks against trusting it.
    doubts: Vec<String>,
}

/// By how much a bound is kept, on average over the pairs: below 0 it is broken.
#[derive(Clone, Copy, Debug)]
struct Margin {
    mean: f64,
    /// Half of the 95 % interval.
    within: f64,
}

impl Margin {
    fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let summary = Summary::of(values)?;
        Some(Margin { mean: summary.mean, within: summary.confidence()? })
    }

    /// Whether the bound is kept; `None` where it lies within the interval.
    fn is_kept(self) -> Option<bool> {
        let Margin { mean, within } = self;
        if mean - within >= 0.0 {
            return Some(true);
        }
        (mean + within < 0.0).then_some(false)
    }
}

/// The pairs of a cell.
#[derive(Clone, Debug)]
struct Pairs<'a> {
    cell: &'a MatrixCell<'a>,
    direct: Vec<Run>,
    gateway: Vec<Run>,
    /// Why a turn has no pair, though it was tried again.
    failures: Vec<String>,
}

impl Pairs<'_> {
    /// The pairs that are judged: those whose runs this machine was up to.
    fn each(&self) -> impl Iterator<Item = (&Figures, &Figures)> {
        let trusted =
            |(direct, gateway): &(&Run, &Run)| direct.doubts.is_empty() && gateway.doubts.is_empty();
        self.direct
            .iter()
            .zip(&self.gateway)
            .filter(trusted)
            .map(|(direct, gateway)| (&direct.figures, &gateway.figures))
    }

    fn ratio(&self, of: fn(&Figures) -> f64) -> Option<Margin> {
        Margin::of(self.each().map(|(direct, gateway)| of(gateway) / of(direct)))
    }

    /// By how much the bounds on throughput, pages and queue are kept.
    fn margins(&self) -> Option<[Margin; 3]> {
        let throughput = self.ratio(|figures| figures.throughput)?;
        let page = self.ratio(|figures| figures.page)?;
        let bound = |direct: &Figures| longest_queue(direct.queue, throughput.mean, self.cell.round_trip());
        Some([
            Margin { mean: throughput.mean - THROUGHPUT, ..throughput },
            Margin { mean: PAGE - page.mean, ..page },
            Margin::of(self.each().map(|(direct, gateway)| bound(direct) - gateway.queue))?,
        ])
    }

    /// Whether all bounds are kept; `None` where the pairs leave it open.
    fn holds(&self) -> Option<bool> {
        let kept = self.margins()?.map(Margin::is_kept);
        if kept.contains(&Some(false)) {
            return Some(false);
        }
        kept.iter().all(|kept| *kept == Some(true)).then_some(true)
    }

    fn runs(&self) -> impl Iterator<Item = &Run> {
        self.direct.iter().chain(&self.gateway)
    }

    fn most(&self, of: fn(&Run) -> f64) -> f64 {
        self.runs().map(of).fold(0.0, f64::max)
    }

    fn doubtful(&self) -> usize {
        self.runs().filter(|run| !run.doubts.is_empty()).count()
    }

    fn row(&self) -> [TableCell; 10] {
        let kept = self.margins().map_or([None; 3], |margins| margins.map(Margin::is_kept));
        let tone = |kept| match kept {
            Some(true) => Tone::Good,
            Some(false) => Tone::Bad,
            None => Tone::Plain,
        };
        let ratio = |of: fn(&Figures) -> f64, kept| match self.ratio(of) {
            Some(Margin { mean, within }) => TableCell::toned(format!("{mean:.3} ± {within:.3}"), tone(kept)),
            None => "–".into(),
        };
        let [direct, gateway] = [
            |(direct, _): (&Figures, &Figures)| direct.queue,
            |(_, gateway): (&Figures, &Figures)| gateway.queue,
        ]
        .map(|of| {
            Summary::of(self.each().map(of)).map_or("–".into(), |queue| Unit::Seconds.format(queue.mean))
        });
        let verdict = match self.holds() {
            Some(true) => "holds",
            Some(false) => "breaks a bound",
            None => "open",
        };
        [
            self.cell.name().into(),
            self.each().count().to_string().into(),
            ratio(|figures| figures.throughput, kept[0]),
            ratio(|figures| figures.page, kept[1]),
            direct.into(),
            TableCell::toned(gateway, tone(kept[2])),
            Unit::Seconds.format(self.most(|run| run.late)).into(),
            Unit::Percent.format(self.most(|run| run.steal)).into(),
            self.doubtful().to_string().into(),
            TableCell::toned(verdict.to_owned(), tone(self.holds())),
        ]
    }

    fn json(&self) -> Value {
        let one = |margin: Margin| json!({ "mean": margin.mean, "within": margin.within });
        json!({
            "cell": self.cell.name(),
            "throughput": self.ratio(|figures| figures.throughput).map(one),
            "page": self.ratio(|figures| figures.page).map(one),
            "queue_margin": self.margins().map(|margins| one(margins[2])),
            "holds": self.holds(),
            "pairs": self.each().count(),
            "late_p99": self.most(|run| run.late),
            "steal": self.most(|run| run.steal),
            "doubtful_runs": self.doubtful(),
        })
    }
}

/// What is run, and how it is judged whether this machine was up to it.
pub(super) struct Between<'a> {
    pub with: &'a [String],
    pub seed: u64,
    pub pairs: u64,
    pub bounds: &'a Bounds,
}

impl Between<'_> {
    /// Runs the cells, turn by turn, and judges them.
    pub fn kernels(&self, cells: &[MatrixCell<'_>], console: &dyn Console) -> Result<Judgement> {
        // While the process has a single thread: the kernel asks for that.
        Privilege::obtain()?;
        let live = Live { bounds: self.bounds.clone(), jobs: 1 };
        for cell in cells {
            let refusals = live.refusals(&self.scenario(cell, DirectOrSplit::Split, self.seed)?);
            if !refusals.is_empty() {
                return Err(TrialError::asked(format!("{}: {}", cell.name(), refusals.join("; "))));
            }
        }
        let progress = Progress::begin(console, cells.len() * self.pairs as usize * 2);
        let mut all: Vec<Pairs<'_>> = cells
            .iter()
            .map(|cell| Pairs { cell, direct: Vec::new(), gateway: Vec::new(), failures: Vec::new() })
            .collect();
        for turn in 0..self.pairs {
            for pairs in &mut all {
                match self.pair(pairs.cell, turn, &live, &progress) {
                    Ok([direct, gateway]) => {
                        pairs.direct.push(direct);
                        pairs.gateway.push(gateway);
                    }
                    // The others took half an hour: they are told all the same.
                    Err(error) => {
                        progress.warn(&format!(
                            "{} has no pair of turn {}: {error}",
                            pairs.cell.name(),
                            turn + 1
                        ));
                        pairs.failures.push(error.to_string());
                    }
                }
            }
        }
        drop(progress);
        Ok(report(&all, console))
    }

    fn scenario(
        &self,
        cell: &MatrixCell<'_>,
        way: DirectOrSplit,
        seed: u64,
    ) -> Result<shorthaul_scenario::Scenario> {
        let study = Study::from_toml(&cell.name(), &cell.scenario(way, self.with, seed))?;
        Ok(study.scenario(&study.points()[0])?)
    }

    /// The two runs of a turn, made again where this machine was not up to one of them.
    fn pair(
        &self,
        cell: &MatrixCell<'_>,
        turn: u64,
        live: &Live,
        progress: &Progress<'_>,
    ) -> Result<[Run; 2]> {
        // Who begins changes from turn to turn.
        let mut ways = [DirectOrSplit::Direct, DirectOrSplit::Split];
        ways.rotate_left(turn as usize % 2);
        let mut tries = 1;
        loop {
            let mut runs = ways.map(|way| self.one(cell, way, self.seed + turn, live));
            runs.rotate_right(turn as usize % 2);
            let [direct, gateway] = runs;
            let runs = match direct.and_then(|direct| Ok([direct, gateway?])) {
                Ok(runs) => runs,
                Err(error) if tries < TRIES => {
                    progress.warn(&format!("{}: again: {error}", cell.name()));
                    tries += 1;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let doubt = runs.iter().flat_map(|run| &run.doubts).next();
            match doubt {
                Some(doubt) if tries < TRIES => progress.warn(&format!("{}: again: {doubt}", cell.name())),
                _ => {
                    for run in &runs {
                        let rate = Unit::BitsPerSecond.format(run.figures.throughput);
                        progress.step(&format!("{}: {rate}", cell.name()));
                    }
                    return Ok(runs);
                }
            }
            tries += 1;
        }
    }

    fn one(&self, cell: &MatrixCell<'_>, way: DirectOrSplit, seed: u64, live: &Live) -> Result<Run> {
        let doing = || format!("{}, {}", cell.name(), way.name());
        let scenario = self.scenario(cell, way, seed)?;
        let before = ProcessorTime::now();
        let seen = live.run(&scenario, seed, &|_| {});
        let steal = before.zip(ProcessorTime::now()).map_or(0.0, |(then, now)| then.stolen_until(&now));
        let outcome =
            seen.map_err(|error| TrialError::Failed(error.to_string())).doing(doing())?.outcome(seed, &[]);
        let fidelity = outcome.fidelity.unwrap_or_default();
        let doubts = self.bounds.judge(&fidelity);
        if let Some(problem) = outcome.problems.iter().find(|problem| !doubts.contains(problem)) {
            return Err(TrialError::Failed(problem.clone())).doing(doing());
        }
        Ok(Run { figures: figures::of(&scenario, seed, &outcome), late: fidelity.late_p99, steal, doubts })
    }
}

fn report(all: &[Pairs<'_>], console: &dyn Console) -> Judgement {
    let mut table = Table::new([
        Column::left("cell"),
        Column::right("pairs"),
        Column::right("throughput").unit("of direct"),
        Column::right("a page").unit("of direct"),
        Column::right("queue").unit("direct"),
        Column::right("queue").unit("gateway"),
        Column::right("links late"),
        Column::right("steal"),
        Column::right("doubtful runs"),
        Column::left("bounds"),
    ]);
    for row in all.iter().map(Pairs::row) {
        table.row(row);
    }
    console.table(&table);
    let count = |how| all.iter().filter(|pairs| pairs.holds() == how).count();
    let (failing, open, cells) = (count(Some(false)), count(None), all.len());
    let doubtful: usize = all.iter().map(Pairs::doubtful).sum();
    let failed: usize = all.iter().map(|pairs| pairs.failures.len()).sum();
    let summary = json!({
        "cells": all.iter().map(Pairs::json).collect::<Vec<_>>(),
        "failing": failing,
        "open": open,
        "doubtful_runs": doubtful,
        "failed_pairs": failed,
    });
    let failure = match (failing, failed) {
        (0, 0) => None,
        (0, _) => Some(format!(
            "{failed} pairs failed: {}",
            all.iter().flat_map(|pairs| &pairs.failures).next().map_or("", String::as_str)
        )),
        _ => Some(format!("{failing} of {cells} cells break a bound")),
    };
    let doubt = if open > 0 {
        Some(format!("the pairs leave {open} of {cells} cells open: give more --pairs"))
    } else {
        (doubtful > 0).then(|| format!("this machine was not up to {doubtful} of the runs"))
    };
    Judgement { doubt, ..Judgement::holds(summary).unless(failure) }
}

#[cfg(test)]
mod tests {
    use super::super::matrix;
    use super::*;

    fn run(throughput: f64, page: f64, queue: f64) -> Run {
        Run { figures: Figures { throughput, page, queue }, late: 0.0, steal: 0.0, doubts: Vec::new() }
    }

    /// Whether `lte/cubic/bulk`, whose round trip is 60 ms, keeps its bounds with these pairs of direct and gateway.
    fn holds(pairs: &[(Run, Run)]) -> Option<bool> {
        let paths = matrix::own().unwrap();
        let cells = matrix::cells(&paths);
        let cell = cells.iter().find(|cell| cell.name() == "lte/cubic/bulk").unwrap();
        let (direct, gateway) = pairs.iter().cloned().unzip();
        Pairs { cell, direct, gateway, failures: Vec::new() }.holds()
    }

    #[test]
    fn a_bound_within_the_interval_leaves_the_cell_open() {
        let direct = || run(100.0, 1.0, 0.1);
        assert_eq!(
            holds(&[(direct(), run(100.0, 0.5, 0.02)), (direct(), run(100.01, 0.5, 0.02))]),
            Some(true)
        );
        assert_eq!(holds(&[(direct(), run(90.0, 0.5, 0.02)), (direct(), run(90.1, 0.5, 0.02))]), Some(false));
        assert_eq!(holds(&[(direct(), run(90.0, 0.5, 0.02)), (direct(), run(105.0, 0.5, 0.02))]), None);
        assert_eq!(
            holds(&[(direct(), run(100.0, 1.1, 0.02)), (direct(), run(100.0, 1.1, 0.02))]),
            Some(false)
        );
        assert_eq!(holds(&[(direct(), run(100.0, 1.0, 0.2)), (direct(), run(100.0, 1.0, 0.2))]), Some(false));
        assert_eq!(holds(&[(direct(), run(100.0, 1.0, 0.02))]), None, "one pair has no interval");
    }

    #[test]
    fn what_this_machine_was_not_up_to_is_not_judged() {
        let direct = || run(100.0, 1.0, 0.1);
        let late = || Run { doubts: vec!["late".into()], ..run(50.0, 9.0, 2.0) };
        let good = || (direct(), run(100.0, 0.5, 0.02));
        assert_eq!(holds(&[good(), (direct(), late()), good(), (late(), run(100.0, 0.5, 0.02))]), Some(true));
        assert_eq!(holds(&[good(), (direct(), late()), (direct(), late())]), None);
    }

    #[test]
    fn the_cells_that_are_run_unasked_are_cells_of_the_matrix() {
        let paths = matrix::own().unwrap();
        let names: Vec<String> = matrix::cells(&paths).iter().map(MatrixCell::name).collect();
        assert!(CELLS.iter().all(|cell| names.iter().any(|name| name == cell)));
    }
}
