//! `shorthaul agreement`: the same scenarios in the simulator and on kernels, and how far apart they are.
use crate::run::conclude;
use anyhow::bail;
use shorthaul_lab::Privilege;
use shorthaul_live::{Bounds, Live};
use shorthaul_observe::EngineName;
use shorthaul_observe::results::{by_point, failure_sentences, format_metric, label, ratio, summary};
use shorthaul_observe::{RunRecord, Summary, run_all, runs_of};
use shorthaul_report::{Cell, Column, Table, Terminal, Tone, Unit};
use shorthaul_scenario::{Metric, Study};
use shorthaul_sim::Simulator;
use std::path::PathBuf;

/// Run scenarios in the simulator and live, and show how far apart the two are
///
/// The table has the goodput in both engines, the ratio of the means with its 95 % confidence interval, and
/// the ratios of round-trip time and retransmitted bytes where the scenario measures them.
#[derive(clap::Args)]
pub struct Args {
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

/// Runs the command; an error if a run failed, or two goodputs are further apart than they may be.
pub fn run(args: &Args) -> anyhow::Result<()> {
    // First of all, while the process has a single thread: the kernel asks for that.
    Privilege::obtain()?;
    let studies = args.files.iter().map(|file| Study::from_file(file)).collect::<Result<Vec<_>, _>>()?;
    let mut table = Table::new([
        Column::left("scenario"),
        Column::left("case"),
        Column::right("goodput").unit("sim"),
        Column::right("goodput").unit("live"),
        Column::right("live / sim"),
        Column::right("± 95 %"),
        Column::right("rtt").unit("live / sim"),
        Column::right("sent again").unit("live / sim"),
        Column::right("runs"),
        Column::left(""),
    ]);
    let (mut all, mut apart) = (Vec::new(), 0);
    for study in &studies {
        let runs = runs_of(study);
        let mut records = run_all(&Simulator::default(), study, &runs, None, |_, _| {})?;
        let live = Live { bounds: args.bounds.clone(), jobs: args.jobs.into() };
        records.extend(run_all(&live, study, &runs, None, |_, _| {})?);
        for sentence in failure_sentences(&records) {
            eprintln!("{}: {sentence}", study.name());
        }
        apart += add_rows(&mut table, study.name(), &records, args);
        all.extend(records);
    }
    print!("{}", table.render(Terminal::stdout()));
    if apart > 0 {
        bail!("{apart} goodputs are more than {} % apart", args.within);
    }
    conclude(&all)
}

/// Adds the points of a study; how many of them are too far apart.
fn add_rows(table: &mut Table, name: &str, records: &[RunRecord], args: &Args) -> usize {
    let mut apart = 0;
    let mut shown = name;
    for ((_, case, values), runs) in by_point(records) {
        let goodput = |engine| summary(&runs, engine, Metric::Goodput);
        let (Some(sim), Some(live)) = (goodput(EngineName::Sim), goodput(EngineName::Live)) else { continue };
        let Some(of_goodput) = ratio(&runs, Metric::Goodput) else { continue };
        let agrees = (of_goodput - 1.0).abs() * 100.0 <= args.within;
        let point = label(case.as_deref(), &values);
        let explained = args.explained.contains(&format!("{name}/{point}"));
        apart += usize::from(!agrees && !explained);
        let share = |of: &Summary| of.confidence().map(|half| half / of.mean);
        // Relative errors of numerator and denominator add up as squares.
        let sure = share(&sim).zip(share(&live)).map(|(a, b)| of_goodput * a.hypot(b));
        let times = |ratio: Option<f64>| ratio.map_or_else(String::new, |ratio| Unit::Times.format(ratio));
        let tone = if agrees { Tone::Strong } else { Tone::Bad };
        table.row([
            Cell::from(std::mem::take(&mut shown)),
            point.into(),
            format_metric(Metric::Goodput, sim.mean).into(),
            format_metric(Metric::Goodput, live.mean).into(),
            Cell::toned(Unit::Times.format(of_goodput), tone),
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
    apart
}
