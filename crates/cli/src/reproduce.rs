//! `shorthaul reproduce`: the figures of a paper, from its scenario files to plots.
use anyhow::Context as _;
use clap::Subcommand;
use indicatif::ProgressBar;
use shorthaul_observe::results;
use shorthaul_observe::{RunRecord, run_all, runs_of};
use shorthaul_report::plot::Figure;
use shorthaul_report::{Manifest, Page, Stated, Terminal};
use shorthaul_scenario::Study;
use shorthaul_sim::Simulator;
use std::path::{Path, PathBuf};

mod aggregation;
mod cascade;
mod probing;
mod pte;
mod pts;

/// Run what a paper has measured, and draw its figures from the results
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    paper: Paper,
}

#[derive(Subcommand)]
enum Paper {
    /// TCP flow aggregation for mobile hosts: Figures 1 to 4 and 9 to 12, and links of today
    Aggregation(aggregation::Args),
    /// Cascaded TCP: Table I's matrix, Figures 2 to 5, and the window-limited hosts of Table II
    Cascade(cascade::Args),
    /// Probing devices: Tables 1 to 4 and their figures, beside the paper's values
    Probing(probing::Args),
    /// Path tail emulation: Figure 3, and the comparison with other ways to keep senders to a slow edge
    Pte(pte::Args),
    /// Proxy transport service: Figures 2 to 7, and throughput against the buffer of a session
    Pts {
        /// The directory for data and figures
        #[arg(long, default_value = "reproduce-pts")]
        out: PathBuf,
        /// How many seeds each point is run with, instead of the scenarios' own numbers
        #[arg(long)]
        repeats: Option<u32>,
    },
}

/// A scenario of a paper, and the figures that are drawn from its runs.
struct Experiment {
    /// Name of the scenario, its data and its directory.
    name: &'static str,
    /// The scenario file.
    text: &'static str,
    /// File name and description of each figure.
    figures: fn(&[RunRecord]) -> Vec<(&'static str, Figure)>,
    /// What the paper states, beside ours.
    stated: fn(&[RunRecord]) -> Vec<Stated>,
    /// How ours compares, and why.
    remark: &'static str,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let (out, repeats) = match &args.paper {
        Paper::Aggregation(args) => return aggregation::run(args),
        Paper::Cascade(args) => return cascade::run(args),
        Paper::Probing(args) => return probing::run(args),
        Paper::Pte(args) => return pte::run(args),
        Paper::Pts { out, repeats } => (out, repeats),
    };
    let manifest = Manifest::new("shorthaul", env!("CARGO_PKG_VERSION")).arguments(std::env::args().skip(1));
    let mut page = Page::new("Proxy transport service, reproduced", &manifest);
    for experiment in pts::EXPERIMENTS {
        reproduce(experiment, out, *repeats, &mut page)
            .with_context(|| format!("{} cannot be reproduced", experiment.name))?;
    }
    page.save(&out.join("report.html"))?;
    println!("\nData, figures and report.html are in {}.", out.display());
    Ok(())
}

fn reproduce(
    experiment: &Experiment,
    out: &Path,
    repeats: Option<u32>,
    page: &mut Page,
) -> anyhow::Result<()> {
    let mut study = Study::from_toml(&format!("{}.toml", experiment.name), experiment.text)?;
    if let Some(repeats) = repeats {
        let seed = study.seeds().next().unwrap_or(0);
        study = study.with_seeds(seed, repeats);
    }
    println!("\n{}: {}", study.name(), study.about());
    let runs = runs_of(&study);
    let progress = ProgressBar::new(runs.len() as u64); // on a terminal only: it draws to standard error
    let records = run_all(&Simulator::default(), &study, &runs, None, |_, _| progress.inc(1))?;
    progress.finish_and_clear();
    if let Some(record) = records.iter().find(|record| record.failure.is_some()) {
        let failure = record.failure.as_deref().unwrap_or_default();
        anyhow::bail!("point {}, seed {}: {failure}", record.point, record.seed);
    }
    print!("{}", results::table(&records).render(Terminal::stdout()));
    println!("{}", experiment.remark);
    let manifest = Manifest::new("shorthaul", env!("CARGO_PKG_VERSION"))
        .arguments(std::env::args().skip(1))
        .seed(study.seeds().next().unwrap_or(0))
        .scenario(study.name(), study.text());
    let about = results::About {
        title: study.name(),
        about: study.about(),
        text: study.text(),
        remarks: &[experiment.remark.to_owned()],
    };
    results::write(&out.join(experiment.name), &manifest, &about, &records)?;
    page.heading(&format!("{}: {}", study.name(), study.about()));
    for (name, figure) in (experiment.figures)(&records) {
        let figure = figure.caption(experiment.remark);
        figure.save(&out.join(name), &manifest)?;
        page.figure(&figure);
    }
    page.stated("What the paper states", &(experiment.stated)(&records));
    page.text(experiment.remark);
    page.table("Means with half the width of their 95 % confidence interval", &results::table(&records));
    page.source(study.text());
    Ok(())
}
