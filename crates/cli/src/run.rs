//! `shorthaul run`: a scenario file, all of its runs.
use crate::results;
use anyhow::{Context as _, bail, ensure};
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use shorthaul_report::{Manifest, Terminal};
use shorthaul_scenario::{Study, Summary};
use shorthaul_sim::{Cache, Recording, Run, RunRecord, Shard, run_all, runs_of, simulate};
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Run a scenario file: every point of its sweep with every seed
///
/// What was run before with the same program, scenario and seed is not run again, so an interrupted study
/// goes on where it was. The table shows, for every point and metric, the mean with its 95 % confidence
/// interval, standard deviation and percentiles.
#[derive(clap::Args)]
pub struct Args {
    /// The scenario file
    file: PathBuf,
    /// What runs it
    #[arg(long, value_enum, default_value_t = Engine::Sim)]
    engine: Engine,
    /// The first seed, instead of the file's
    #[arg(long)]
    seed: Option<u64>,
    /// How many seeds, instead of the file's number
    #[arg(long)]
    repeats: Option<u32>,
    /// Go on with more seeds until the confidence interval of the first metric is within this share of its
    /// mean to each side, such as 0.05 or "5 %", at every point
    #[arg(long, value_name = "SHARE", value_parser = share, conflicts_with = "shard")]
    confidence: Option<f64>,
    /// With --confidence: how many runs of a point at most
    #[arg(long, default_value_t = 100)]
    at_most: usize,
    /// Run this point of the sweep only, counted from 1
    #[arg(long)]
    point: Option<usize>,
    /// Do one of several machines' part of the runs, such as 2/8; put them together with `shorthaul merge`
    #[arg(long)]
    shard: Option<Shard>,
    /// Write runs.jsonl, results.csv, transfers.csv and series.csv to this directory
    #[arg(long)]
    out: Option<PathBuf>,
    /// Where known outcomes are kept [default: ~/.cache/shorthaul/runs]
    #[arg(long, conflicts_with = "no_cache")]
    cache: Option<PathBuf>,
    /// Run everything anew, and keep nothing
    #[arg(long)]
    no_cache: bool,
    /// How many runs at once [default: as many as there are cores]
    #[arg(long)]
    jobs: Option<usize>,
    /// Record the packets of a link for Wireshark; for a single run
    #[arg(long, value_name = "LINK=FILE")]
    pcap: Vec<String>,
    /// Write every event as a line of JSON to this file; for a single run
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

/// What runs a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Engine {
    /// The deterministic simulator
    Sim,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let Engine::Sim = args.engine;
    let study = Study::from_file(&args.file)?;
    let seed = args.seed.or_else(|| study.seeds().next()).unwrap_or(0);
    let repeats = args.repeats.unwrap_or(study.seeds().count() as u32);
    ensure!(repeats > 0, "--repeats 0 would run nothing");
    let study = study.with_seeds(seed, repeats);
    let runs = chosen(args, &study)?;
    if !args.pcap.is_empty() || args.trace.is_some() {
        return record_one(args, &study, &runs);
    }
    let cache = if args.no_cache { None } else { Some(open_cache(args.cache.as_deref())?) };
    if let Some(jobs) = args.jobs {
        rayon::ThreadPoolBuilder::new().num_threads(jobs).build_global()?;
    }
    let progress = progress(runs.len());
    let mut records = Vec::new();
    let mut next = runs;
    while !next.is_empty() {
        progress.set_length((records.len() + next.len()) as u64);
        records.extend(run_all(&study, &next, cache.as_ref(), |record, _| {
            if let Some(failure) = &record.failure {
                progress.suspend(|| eprintln!("{}", failure_of(args, record, failure)));
            }
            progress.inc(1);
        })?);
        next = match args.confidence {
            Some(share) => more_runs(&study, &records, share, args.at_most)?,
            None => Vec::new(),
        };
    }
    progress.finish_and_clear();
    records.sort_by_key(|record| (record.point, record.seed));
    finish(args, &study, &records)
}

fn share(text: &str) -> Result<f64, String> {
    match shorthaul_link::parse_probability(text) {
        Ok(share) if share > 0.0 => Ok(share),
        _ => Err(format!("`{text}` is no share of the mean: write 0.05 or \"5 %\"")),
    }
}

/// Fewer runs than these can agree by chance.
const FEWEST: usize = 5;

/// The next seeds of the points of which the first metric is not yet known to `share` of its mean.
fn more_runs(study: &Study, records: &[RunRecord], share: f64, at_most: usize) -> anyhow::Result<Vec<Run>> {
    let mut runs = Vec::new();
    let batch = study.seeds().count().max(2);
    for (point, description) in study.points().iter().enumerate() {
        let of_point: Vec<&RunRecord> = records.iter().filter(|record| record.point == point + 1).collect();
        let Some(last) = of_point.iter().map(|record| record.seed).max() else { continue };
        let metric = study.scenario(description)?.measure.metrics.first().copied();
        let outcomes = of_point.iter().filter_map(|record| record.outcome.as_ref());
        let values = outcomes.filter_map(|outcome| outcome.metrics.get(&metric?).copied());
        // what was never measured, more runs will not measure either
        let Some(summary) = Summary::of(values) else { continue };
        let is_known = summary.count() >= FEWEST
            && summary.confidence().is_some_and(|half| half <= share * summary.mean.abs());
        let room = at_most.saturating_sub(of_point.len()).min(batch);
        if !is_known {
            runs.extend((1..=room as u64).map(|n| Run { point, seed: last.wrapping_add(n) }));
        }
    }
    Ok(runs)
}

fn chosen(args: &Args, study: &Study) -> anyhow::Result<Vec<Run>> {
    let mut runs = runs_of(study);
    if let Some(point) = args.point {
        let points = study.points().len();
        ensure!((1..=points).contains(&point), "--point {point}: the points of this file are 1 to {points}");
        runs.retain(|run| run.point + 1 == point);
    }
    Ok(match args.shard {
        Some(shard) => shard.choose(runs),
        None => runs,
    })
}

fn open_cache(directory: Option<&Path>) -> anyhow::Result<Cache> {
    let directory = match directory {
        Some(directory) => directory.to_owned(),
        None => {
            let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
            let home = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
            home.context("neither XDG_CACHE_HOME nor HOME is set: give --cache or --no-cache")?
                .join("shorthaul/runs")
        }
    };
    Cache::open(&directory).with_context(|| {
        format!("cannot keep outcomes in {}: give --cache or --no-cache", directory.display())
    })
}

fn progress(runs: usize) -> ProgressBar {
    if !Terminal::stderr().interactive {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} runs, {elapsed} so far, {eta} left");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("━╸─");
    let bar = ProgressBar::new(runs as u64).with_style(style);
    bar.enable_steady_tick(Duration::from_millis(250));
    bar
}

fn failure_of(args: &Args, record: &RunRecord, failure: &str) -> String {
    format!(
        "seed {} of point {} failed: {failure}\n  again: shorthaul run {} --engine sim --point {} --seed {} --repeats 1 --no-cache",
        record.seed,
        record.point,
        args.file.display(),
        record.point,
        record.seed
    )
}

fn finish(args: &Args, study: &Study, records: &[RunRecord]) -> anyhow::Result<()> {
    print!("{}", results::table(records));
    if let Some(out) = &args.out {
        let manifest = Manifest::new("shorthaul", env!("CARGO_PKG_VERSION"))
            .arguments(std::env::args().skip(1))
            .seed(study.seeds().next().unwrap_or(0))
            .scenario(study.name(), study.text());
        results::write(out, &manifest, records)?;
    }
    match records.iter().filter(|record| record.failure.is_some()).count() {
        0 => Ok(()),
        failed => bail!("{failed} of {} runs failed", records.len()),
    }
}

/// A single run with recordings, which are not kept with the outcomes.
fn record_one(args: &Args, study: &Study, runs: &[Run]) -> anyhow::Result<()> {
    let [run] = runs else {
        bail!("recordings are of a single run, and these are {}: give --point and --repeats 1", runs.len());
    };
    let create = |path: &Path| -> anyhow::Result<Box<BufWriter<File>>> {
        let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Box::new(BufWriter::new(file)))
    };
    let mut recording = Recording::default();
    for pcap in &args.pcap {
        let Some((link, file)) = pcap.split_once('=') else {
            bail!("--pcap {pcap}: write LINK=FILE, such as client-server=packets.pcapng");
        };
        recording = recording.capture(link, create(Path::new(file))?);
    }
    if let Some(path) = &args.trace {
        recording = recording.trace(create(path)?);
    }
    let point = &study.points()[run.point];
    let outcome = simulate(&study.scenario(point)?, run.seed, recording)?;
    let failure = (!outcome.problems.is_empty()).then(|| outcome.problems.join("; "));
    let record = RunRecord {
        scenario: study.name().to_owned(),
        point: run.point + 1,
        case: point.case.clone(),
        values: point.values.clone(),
        seed: run.seed,
        outcome: Some(outcome),
        failure,
    };
    finish(args, study, &[record])
}
