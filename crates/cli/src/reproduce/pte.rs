//! Path tail emulation: Figure 3, and the comparison with other ways to keep senders to a slow edge.
//!
//! Reading order: this file (what is run, in the simulator and live), `bound` (what the mobile link itself allows),
//! `figures`, `findings` (what the paper states, beside ours), `manners` (how every case fared), `matrix` (every policy over
//! all cells), `advice` (the page for practitioners).
mod advice;
mod bound;
mod figures;
mod findings;
mod manners;
mod matrix;

use anyhow::{Context as _, ensure};
use findings::Finding;
use indicatif::ProgressBar;
use shorthaul_lab::Privilege;
use shorthaul_live::{Bounds, Live};
use shorthaul_observe::EngineName;
use shorthaul_observe::results;
use shorthaul_observe::{RunRecord, run_all, runs_of};
use shorthaul_report::plot::Figure;
use shorthaul_report::{Manifest, Page, Stated, Terminal};
use shorthaul_scenario::Study;
use shorthaul_sim::Simulator;
use std::path::PathBuf;

/// What is run, and where the results go.
#[derive(clap::Args)]
pub(super) struct Args {
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
type Draw = fn(&Study, &[RunRecord]) -> anyhow::Result<Vec<(String, Figure)>>;

/// A scenario file and what is drawn from its runs.
struct Experiment {
    name: &'static str,
    text: &'static str,
    engine: EngineName,
    figures: Draw,
    findings: fn(&Study, &[RunRecord]) -> anyhow::Result<Vec<Finding>>,
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
        findings: findings::mobile_bottleneck,
    },
    Experiment {
        name: "wired-bottleneck",
        text: scenario!("wired-bottleneck"),
        engine: EngineName::Sim,
        figures: |_, records| {
            Ok(figures::over_round_trip("wired-bottleneck", "The Internet is the bottleneck", records))
        },
        findings: findings::wired_bottleneck,
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
        findings: findings::interruptions,
    },
    Experiment {
        name: "radio",
        text: scenario!("radio"),
        engine: EngineName::Sim,
        figures: |_, records| {
            Ok(figures::by_policy("radio", "Radio blocks, errors and retransmissions", records))
        },
        findings: |_, _| Ok(Vec::new()),
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
    stated: Vec<Stated>,
    records: Vec<RunRecord>,
}

/// The studies that `--only` knows.
fn names() -> String {
    EXPERIMENTS.iter().map(|experiment| experiment.name).collect::<Vec<_>>().join(", ")
}

/// Runs the experiments, prints what was found, draws the figures, and writes it all on one page.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let is_wanted = |experiment: &&Experiment| match args.only.as_slice() {
        [] => experiment.engine == EngineName::Sim || args.live,
        only => only.iter().any(|name| name == experiment.name),
    };
    let wanted: Vec<&Experiment> = EXPERIMENTS.iter().filter(is_wanted).collect();
    ensure!(!wanted.is_empty(), "there is no such study; there are {}", names());
    if wanted.iter().any(|experiment| experiment.engine == EngineName::Live) {
        // First of all, while the process has a single thread: the kernel asks for that.
        Privilege::obtain()?;
    }
    let manifest =
        Manifest::new("shorthaul", env!("CARGO_PKG_VERSION")).arguments(std::env::args().skip(1)).seed(1);
    let mut page = Page::new("Path tail emulation: Figure 3, and the comparison", &manifest);
    let mut all: Vec<Done> = Vec::new();
    for experiment in wanted {
        let done = one(experiment, args);
        all.push(done.with_context(|| format!("{} cannot be reproduced", experiment.name))?);
    }
    let stated: Vec<Stated> = all.iter().flat_map(|done| done.stated.iter().cloned()).collect();
    page.heading("What the paper states, and what was measured").stated("", &stated);
    let parts = all.iter().filter(|done| COMPARISON.contains(&done.name));
    let parts: Vec<_> =
        parts.map(|done| matrix::Part { study: &done.study, records: &done.records }).collect();
    if let Some((table, figure)) = matrix::overview(&parts) {
        print!("{}", table.render(Terminal::stdout()));
        figure.save(&args.out.join("comparison"), &manifest)?;
        page.heading("Every policy over all cells of the comparison").table("", &table).figure(&figure);
    }
    for Done { name, figures, records, .. } in &all {
        page.heading(name);
        figures.iter().for_each(|figure| {
            page.figure(figure);
        });
        page.table("", &manners::table(records));
        page.remarks([format!("Every metric of every case, and what each run came to: {name}/report.html")]);
    }
    page.heading("Which policy for which network");
    page.table("", &advice::table()).remarks(advice::REMARKS);
    std::fs::create_dir_all(&args.out).with_context(|| format!("cannot make {}", args.out.display()))?;
    page.save(&args.out.join("index.html"))?;
    print!("{}", findings::table(&stated).render(Terminal::stdout()));
    println!("\nData, figures and index.html are in {}.", args.out.display());
    Ok(())
}

fn one(experiment: &Experiment, args: &Args) -> anyhow::Result<Done> {
    let mut study = Study::from_toml(&format!("{}.toml", experiment.name), experiment.text)?;
    if let Some(repeats) = args.repeats {
        study = study.with_seeds(1, repeats);
    }
    println!("\n{}: {}", study.name(), study.about());
    let runs = runs_of(&study);
    let progress = ProgressBar::new(runs.len() as u64);
    // what runs between kernels is simulated too, to stand beside it
    let mut records = run_all(&Simulator::default(), &study, &runs, None, |_, _| progress.inc(1))?;
    if experiment.engine == EngineName::Live {
        progress.reset();
        let live = Live { bounds: args.bounds.clone(), jobs: args.jobs.into() };
        records.extend(run_all(&live, &study, &runs, None, |_, _| progress.inc(1))?);
    }
    progress.finish_and_clear();
    print!("{}", manners::table(&records).render(Terminal::stdout()));
    for failure in records.iter().filter_map(|record| record.failure.as_ref()) {
        println!("{failure}");
    }
    let directory = args.out.join(experiment.name);
    let manifest = Manifest::new("shorthaul", env!("CARGO_PKG_VERSION"))
        .arguments(std::env::args().skip(1))
        .seed(study.seeds().next().unwrap_or(0))
        .scenario(study.name(), study.text());
    let about =
        results::About { title: study.name(), about: study.about(), text: study.text(), remarks: &[] };
    results::write(&directory, &manifest, &about, &records)?;
    let mut figures = Vec::new();
    for (name, figure) in (experiment.figures)(&study, &records)? {
        figure.save(&args.out.join(name), &manifest)?;
        figures.push(figure);
    }
    let stated = stated(experiment, &study, &records)?;
    Ok(Done { name: experiment.name, study, figures, stated, records })
}

/// What was found by the experiment's own engine; beside what is live, what the simulator says.
fn stated(experiment: &Experiment, study: &Study, records: &[RunRecord]) -> anyhow::Result<Vec<Stated>> {
    let of = |engine: EngineName| -> anyhow::Result<Vec<Stated>> {
        let own: Vec<RunRecord> = records.iter().filter(|record| record.engine == engine).cloned().collect();
        Ok((experiment.findings)(study, &own)?.into_iter().map(Stated::from).collect())
    };
    let mut found = of(experiment.engine)?;
    if experiment.engine == EngineName::Live {
        let simulated = of(EngineName::Sim)?;
        for stated in &mut found {
            let Some(same) = simulated.iter().find(|same| same.what == stated.what) else { continue };
            let separator = if stated.remark.is_empty() { "" } else { "; " };
            stated.remark = format!("simulated: {}{separator}{}", same.ours, stated.remark);
        }
    }
    Ok(found)
}
