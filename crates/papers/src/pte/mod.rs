//! Path tail emulation: Figure 3, and the comparison with other ways to keep senders to a slow access link.
//!
//! Reading order: this file (what is run, in the simulator and live), `bound` (what the mobile link itself allows),
//! `figures`, `findings` (what the paper states, beside ours), `bottlenecks` (on either side), `interruptions` (of a link that is away), `manners` (how every case
//! fared), `matrix` (every policy over all cells), `quality` (what §5 of the paper announces: a radio link protocol, a bandwidth for
//! each flow), `advice` (the page for practitioners).
mod advice;
mod bottlenecks;
mod bound;
mod figures;
mod findings;
mod interruptions;
mod manners;
mod matrix;
mod quality;

use crate::error::{PaperError, Result, While};
use crate::{All, Found, Paper, experiment, fidelity};
use shorthaul_lab::Privilege;
use shorthaul_live::{Bounds, Live};
use shorthaul_observe::{EngineName, Finding, RunRecord, Store, results};
use shorthaul_report::plot::Figure;
use shorthaul_report::{Console, Manifest, Page};
use shorthaul_scenario::Study;
use shorthaul_sim::Simulator;
use std::path::PathBuf;

/// What is run, and where the results go.
#[derive(clap::Args)]
pub struct Pte {
    /// The directory for results and figures
    #[arg(long, default_value = "reproduce-pte")]
    out: PathBuf,
    /// How many seeds each point is run with, instead of the scenarios' own numbers
    #[arg(long)]
    repeats: Option<u32>,
    /// Also on this machine's kernel, in real time: a quarter of an hour with four runs at once
    #[arg(long)]
    live: bool,
    /// How many live runs at once; each moves 2 Mbit/s at most
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,
    /// Only these studies, such as fig3
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    #[command(flatten)]
    bounds: Bounds,
}

/// Draws the figures of a study from its runs, each with its name.
type Draw = fn(&Study, &[RunRecord]) -> Result<Vec<(String, Figure)>>;

/// A scenario file and what is drawn from its runs.
struct Experiment {
    name: &'static str,
    text: &'static str,
    engine: EngineName,
    figures: Draw,
    findings: fn(&Study, &[RunRecord]) -> Result<Vec<Finding>>,
}

macro_rules! scenario {
    ($file:literal) => {
        include_str!(concat!("../../../../papers/pte/", $file, ".toml"))
    };
}

const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "fig3",
        text: scenario!("fig3"),
        engine: EngineName::Sim,
        figures: figures::fig3,
        findings: findings::fig3,
    },
    Experiment {
        name: "fig3-shares",
        text: scenario!("fig3-shares"),
        engine: EngineName::Sim,
        figures: |_, records| Ok(figures::over_shares("figure-3-shares", records)),
        findings: |_, records| Ok(findings::shares(records)),
    },
    Experiment {
        name: "fig3-readings",
        text: scenario!("fig3-readings"),
        engine: EngineName::Sim,
        figures: |_, _| Ok(Vec::new()),
        findings: findings::readings,
    },
    Experiment {
        name: "mobile-bottleneck",
        text: scenario!("mobile-bottleneck"),
        engine: EngineName::Sim,
        figures: |_, records| {
            Ok(figures::over_round_trip("mobile-bottleneck", "The mobile link is the bottleneck", records))
        },
        findings: bottlenecks::mobile_bottleneck,
    },
    Experiment {
        name: "wired-bottleneck",
        text: scenario!("wired-bottleneck"),
        engine: EngineName::Sim,
        figures: |_, records| {
            Ok(figures::over_round_trip("wired-bottleneck", "The Internet is the bottleneck", records))
        },
        findings: bottlenecks::wired_bottleneck,
    },
    Experiment {
        name: "rate-changes",
        text: scenario!("rate-changes"),
        engine: EngineName::Sim,
        figures: |_, records| {
            Ok(figures::over_round_trip("rate-changes", "A mobile link of changing rate", records))
        },
        findings: |_, _| Ok(Vec::new()),
    },
    Experiment {
        name: "interruptions",
        text: scenario!("interruptions"),
        engine: EngineName::Sim,
        figures: |_, records| {
            Ok(figures::by_policy("interruptions", "A mobile link with interruptions", records))
        },
        findings: |_, records| Ok(interruptions::interruptions(records)),
    },
    Experiment {
        name: "radio",
        text: scenario!("radio"),
        engine: EngineName::Sim,
        figures: |_, records| {
            Ok(figures::by_policy("radio", "A radio link protocol with selective repeat", records))
        },
        findings: |_, records| Ok(quality::radio(records)),
    },
    Experiment {
        name: "cells",
        text: scenario!("cells"),
        engine: EngineName::Sim,
        figures: |_, _| Ok(Vec::new()),
        findings: |_, records| Ok(quality::cells(records)),
    },
    Experiment {
        name: "qos",
        text: scenario!("qos"),
        engine: EngineName::Sim,
        figures: |_, _| Ok(Vec::new()),
        findings: |_, records| Ok(quality::fixed_bandwidths(records)),
    },
    Experiment {
        name: "cell",
        text: scenario!("cell"),
        engine: EngineName::Sim,
        figures: |_, records| Ok(figures::by_scheduler("cell", records)),
        findings: |_, _| Ok(Vec::new()),
    },
    Experiment {
        name: "fairness",
        text: scenario!("fairness"),
        engine: EngineName::Sim,
        figures: |_, records| Ok(figures::shares("fairness", records)),
        findings: findings::fairness,
    },
    Experiment {
        name: "fig3-live",
        text: scenario!("fig3-live"),
        engine: EngineName::Live,
        figures: figures::fig3_live,
        findings: findings::fig3_live,
    },
    Experiment {
        name: "kernels-live",
        text: scenario!("kernels-live"),
        engine: EngineName::Live,
        figures: |_, _| Ok(Vec::new()),
        findings: findings::kernels,
    },
    Experiment {
        name: "fairness-live",
        text: scenario!("fairness-live"),
        engine: EngineName::Live,
        figures: |_, records| Ok(figures::shares("fairness-live", records)),
        findings: findings::fairness,
    },
    Experiment {
        name: "cells-live",
        text: scenario!("cells-live"),
        engine: EngineName::Live,
        figures: |_, _| Ok(Vec::new()),
        findings: |_, records| Ok(quality::cells(records)),
    },
    Experiment {
        name: "matrix-live",
        text: scenario!("matrix-live"),
        engine: EngineName::Live,
        figures: |_, _| Ok(Vec::new()),
        findings: |_, _| Ok(Vec::new()),
    },
    Experiment {
        name: "wired-live",
        text: scenario!("wired-live"),
        engine: EngineName::Live,
        figures: |_, _| Ok(Vec::new()),
        findings: |_, _| Ok(Vec::new()),
    },
];

/// The studies that the comparison of all policies is made of.
const COMPARISON: [&str; 3] = ["mobile-bottleneck", "wired-bottleneck", "rate-changes"];

/// What came of an experiment.
struct Done {
    name: &'static str,
    study: Study,
    figures: Vec<Figure>,
    found: Vec<Found>,
    records: Vec<RunRecord>,
}

impl Done {
    /// What was found by the experiment's own engine; beside what is live, what the simulator says.
    fn findings(&self) -> Vec<Finding> {
        let of = |engine: EngineName| {
            self.found.iter().filter(move |own| own.engine == engine).map(|own| &own.finding)
        };
        if of(EngineName::Live).next().is_none() {
            return of(EngineName::Sim).cloned().collect();
        }
        let beside = |finding: &Finding| {
            let Some(same) = of(EngineName::Sim).find(|same| same.what == finding.what) else {
                return finding.clone();
            };
            let separator = if finding.reason.is_empty() { "" } else { "; " };
            let reason = format!("simulated: {}{separator}{}", same.ours, finding.reason);
            finding.clone().because(reason)
        };
        of(EngineName::Live).map(beside).collect()
    }
}

/// The studies that `--only` knows.
fn names() -> String {
    EXPERIMENTS.iter().map(|experiment| experiment.name).collect::<Vec<_>>().join(", ")
}

impl Paper for Pte {
    const TITLE: &'static str = "Path tail emulation";

    fn whole(options: &All) -> Self {
        Pte {
            out: options.directory("pte"),
            repeats: options.repeats(),
            live: options.is_live("pte"),
            jobs: 4,
            only: Vec::new(),
            bounds: Bounds::default(),
        }
    }

    fn reproduce(&self, console: &dyn Console) -> Result<Vec<Found>, PaperError> {
        let is_wanted = |experiment: &&Experiment| match self.only.as_slice() {
            [] => experiment.engine == EngineName::Sim || self.live,
            only => only.iter().any(|name| name == experiment.name),
        };
        let wanted: Vec<&Experiment> = EXPERIMENTS.iter().filter(is_wanted).collect();
        if wanted.is_empty() {
            return Err(PaperError::asked(format!("there is no such study; there are {}", names())));
        }
        if wanted.iter().any(|experiment| experiment.engine == EngineName::Live) {
            // First of all, while the process has a single thread: the kernel asks for that.
            Privilege::obtain()?;
        }
        let store = fidelity::store(&self.out)?;
        let mut all: Vec<Done> = Vec::new();
        for experiment in wanted {
            let done = self.run(experiment, &store, console);
            all.push(done.doing(format!("{} cannot be reproduced", experiment.name))?);
        }
        let found: Vec<Found> = all.iter().flat_map(|done| done.found.iter().cloned()).collect();
        let findings: Vec<Finding> = all.iter().flat_map(Done::findings).collect();
        self.write_page(&all, &findings, console)?;
        console.table(&Finding::table(&findings));
        console.say(&format!("\nData, figures and index.html are in {}.", self.out.display()));
        Ok(found)
    }
}

impl Pte {
    fn run(&self, experiment: &Experiment, store: &Store, console: &dyn Console) -> Result<Done> {
        let study = experiment::study(experiment.name, experiment.text, self.repeats)?;
        console.say(&format!("\n{}: {}", study.name(), study.about()));
        // What runs between kernels is simulated too, to stand beside it.
        let mut records = experiment::records(&Simulator::default(), &study, Some(store), console)?;
        if experiment.engine == EngineName::Live {
            let live = Live { bounds: self.bounds.clone(), jobs: self.jobs.into() };
            records.extend(experiment::records(&live, &study, Some(store), console)?);
        }
        console.table(&manners::table(&records));
        for failure in records.iter().filter_map(|record| record.failure.as_ref()) {
            console.say(failure);
        }
        let about =
            results::About { title: study.name(), about: study.about(), text: study.text(), remarks: &[] };
        let manifest = experiment::manifest(&study);
        results::write(&self.out.join(experiment.name), &manifest, &about, &records)?;
        let mut figures = Vec::new();
        for (name, figure) in (experiment.figures)(&study, &records)? {
            figure.save(&self.out.join(name), &manifest)?;
            figures.push(figure);
        }
        let mut found = Vec::new();
        for engine in [EngineName::Sim, EngineName::Live] {
            let own: Vec<RunRecord> =
                records.iter().filter(|record| record.engine == engine).cloned().collect();
            found.extend(Found::of_runs(engine, (experiment.findings)(&study, &own)?, &own));
        }
        Ok(Done { name: experiment.name, study, figures, found, records })
    }

    fn write_page(&self, all: &[Done], findings: &[Finding], console: &dyn Console) -> Result<()> {
        let manifest = Manifest::of_this_command().seed(1);
        let mut page = Page::new("Path tail emulation: Figure 3, and the comparison", &manifest);
        page.heading("What the paper states, and what was measured");
        Finding::show(&mut page, "", findings);
        let parts = all.iter().filter(|done| COMPARISON.contains(&done.name));
        let parts: Vec<_> =
            parts.map(|done| matrix::Part { study: &done.study, records: &done.records }).collect();
        let scores = matrix::scores(&parts);
        if let Some((table, figure)) = matrix::overview(&scores) {
            console.table(&table);
            figure.save(&self.out.join("comparison"), &manifest)?;
            page.heading("Every policy over all cells of the comparison").table("", &table).figure(&figure);
        }
        for Done { name, figures, records, .. } in all {
            page.heading(name);
            for figure in figures {
                page.figure(figure);
            }
            page.table("", &manners::table(records));
            page.remarks([format!(
                "Every metric of every case, and what each run came to: {name}/report.html"
            )]);
        }
        if !scores.is_empty() {
            page.heading("Which policy for what");
            page.table("Of those that have 0.95 of a split's throughput on average, over all cells of the comparison", &advice::table(&scores));
            page.remarks(advice::REMARKS);
        }
        Ok(page.save(&self.out.join("index.html"))?)
    }
}
