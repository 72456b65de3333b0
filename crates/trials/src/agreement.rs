//! Agreement: the same scenarios in the simulator and on kernels, and how far apart they are.
use crate::error::Result;
use crate::trial::{Judgement, Trial};
use serde_json::json;
use shorthaul_lab::Privilege;
use shorthaul_live::{Bounds, Live};
use shorthaul_observe::results::{
    Soundness, by_point, failure_sentences, format_metric, label, ratio, summary,
};
use shorthaul_observe::{Engine, EngineName, RunRecord, Summary, run_all, runs_of};
use shorthaul_report::{Column, Console, Progress, Table, TableCell, Tone, Unit};
use shorthaul_scenario::{Metric, Study};
use shorthaul_sim::Simulator;
use std::path::PathBuf;

/// Run scenarios in the simulator and live, and show how far apart the two are
///
/// The table has the goodput in both engines, the ratio of the means with its 95 % confidence interval, and
/// the ratios of round-trip time and retransmitted bytes where the scenario measures them.
#[derive(clap::Args)]
pub struct Agreement {
    /// The scenario files
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// How far apart the goodputs may be, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 10.0)]
    within: f64,
    /// A scenario's point whose difference has a known reason, and is no error
    #[arg(long, value_name = "SCENARIO/POINT")]
    explained: Vec<String>,
    /// How many live runs at once
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,
    #[command(flatten)]
    bounds: Bounds,
}

/// What the points of all studies came to.
#[derive(Default)]
struct Found {
    points: usize,
    apart: usize,
    records: Vec<RunRecord>,
}

impl Trial for Agreement {
    fn run(&self, console: &dyn Console) -> Result<Judgement> {
        // First of all, while the process has a single thread: the kernel asks for that.
        Privilege::obtain()?;
        let studies = self.files.iter().map(|file| Study::from_file(file)).collect::<Result<Vec<_>, _>>()?;
        let mut table = Table::new([
            Column::left("scenario"),
            Column::left("case"),
            Column::right("goodput").unit("sim"),
            Column::right("goodput").unit("live"),
            Column::right("live / sim"),
            Column::right("± 95 %"),
            Column::right("rtt").unit("live / sim"),
            Column::right("retransmitted").unit("live / sim"),
            Column::right("runs"),
            Column::left(""),
        ]);
        let mut found = Found::default();
        let live = Live { jobs: self.jobs.into(), bounds: self.bounds.clone() };
        let engines: [&dyn Engine; 2] = [&Simulator::default(), &live];
        for study in &studies {
            let records = self.records(study, engines, console)?;
            for sentence in failure_sentences(&records) {
                console.warn(&format!("{}: {sentence}", study.name()));
            }
            self.add_rows(&mut table, study.name(), &records, &mut found);
            found.records.extend(records);
        }
        console.table(&table);
        Ok(self.judge(&found))
    }
}

impl Agreement {
    fn records(
        &self,
        study: &Study,
        engines: [&dyn Engine; 2],
        console: &dyn Console,
    ) -> Result<Vec<RunRecord>> {
        let runs = runs_of(study);
        let mut records = Vec::new();
        let progress = Progress::begin(console, engines.len() * runs.len());
        for engine in engines {
            records.extend(run_all(engine, study, &runs, None, &progress, |record| {
                let point = label(record.case.as_deref(), &record.values);
                progress.note(&format!("{}/{point}, seed {}, {}", study.name(), record.seed, record.engine));
            })?);
        }
        Ok(records)
    }

    /// A failed run fails the trial; so does a goodput that is further off than it may be. A live run that the machine was
    /// not up to leaves a doubt.
    fn judge(&self, found: &Found) -> Judgement {
        let summary = json!({
            "points": found.points, "apart": found.apart, "within_percent": self.within, "runs": found.records.len(),
        });
        let (failure, doubt) = match Soundness::of(&found.records) {
            Soundness::Failed(why) => (Some(why), None),
            Soundness::Doubtful(why) => (None, Some(why)),
            Soundness::Sound => (None, None),
        };
        let apart = format!("{} goodputs are more than {} % apart", found.apart, self.within);
        let failure = if found.apart > 0 { Some(apart) } else { failure };
        Judgement { doubt, ..Judgement::holds(summary).unless(failure) }
    }

    /// Adds the points of a study.
    fn add_rows(&self, table: &mut Table, name: &str, records: &[RunRecord], found: &mut Found) {
        let mut shown = name;
        for ((_, case, values), runs) in by_point(records) {
            let goodput = |engine| summary(&runs, engine, Metric::Goodput);
            let (Some(sim), Some(live)) = (goodput(EngineName::Sim), goodput(EngineName::Live)) else {
                continue;
            };
            let Some(of_goodput) = ratio(&runs, Metric::Goodput) else { continue };
            let agrees = (of_goodput - 1.0).abs() * 100.0 <= self.within;
            let point = label(case.as_deref(), &values);
            let explained = self.explained.contains(&format!("{name}/{point}"));
            found.points += 1;
            found.apart += usize::from(!agrees && !explained);
            let share = |of: &Summary| of.confidence().map(|half| half / of.mean);
            // Relative errors of numerator and denominator add up as squares.
            let sure = share(&sim).zip(share(&live)).map(|(a, b)| of_goodput * a.hypot(b));
            let times =
                |ratio: Option<f64>| ratio.map_or_else(String::new, |ratio| Unit::Times.format(ratio));
            let tone = if agrees { Tone::Strong } else { Tone::Bad };
            table.row([
                TableCell::from(std::mem::take(&mut shown)),
                point.into(),
                format_metric(Metric::Goodput, sim.mean).into(),
                format_metric(Metric::Goodput, live.mean).into(),
                TableCell::toned(Unit::Times.format(of_goodput), tone),
                sure.map_or_else(String::new, |sure| format!("{sure:.2}")).into(),
                times(ratio(&runs, Metric::Rtt)).into(),
                times(ratio(&runs, Metric::Retransmitted)).into(),
                format!("{} + {}", sim.count(), live.count()).into(),
                (if agrees {
                    ""
                } else if explained {
                    "apart, explained"
                } else {
                    "apart"
                })
                .into(),
            ]);
        }
    }
}
