//! `shorthaul run`: a scenario file, all of its runs.
use crate::console::Screen;
use crate::ending::{self, asked};
use anyhow::{Context as _, bail};
use shorthaul_lab::{Privilege, Topology};
use shorthaul_live::{Bounds, Live};
use shorthaul_observe::results::{self, Soundness};
use shorthaul_observe::{
    Engine, EngineName, Run, RunRecord, Shard, Store, Summary, run_all, runs_of, telling_runs,
};
use shorthaul_planner::ModelEngine;
use shorthaul_report::{Console as _, Progress, make_directory};
use shorthaul_scenario::{ScenarioError, Study};
use shorthaul_sim::{Recording, Simulator, simulate};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard};

/// Run a scenario file: every point of its sweep with every seed
///
/// What was run before with the same program, scenario and seed is not run again, so an interrupted study
/// goes on where it was. The table shows, for every point and metric, the mean with its 95 % confidence
/// interval, standard deviation and percentiles.
#[derive(clap::Args)]
pub struct Args {
    /// The scenario file
    file: PathBuf,
    /// What runs it: model, closed-form models of TCP; sim, the deterministic simulator; live, the kernel's TCP
    /// across emulated links in namespaces. Several, such as model,sim,live, are shown side by side
    #[arg(long, value_name = "ENGINES", value_delimiter = ',', default_value = "sim")]
    engine: Vec<EngineName>,
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
    /// Write report.html, figures (SVG, PNG), results.json, results.csv, transfers.csv, series.csv and
    /// runs.jsonl to this directory
    #[arg(long)]
    out: Option<PathBuf>,
    /// Print JSON and nothing else: what results.json has
    #[arg(long)]
    json: bool,
    /// Where known outcomes are kept [default: ~/.cache/shorthaul/runs]
    #[arg(long, conflicts_with = "no_cache")]
    cache: Option<PathBuf>,
    /// Run everything anew, and keep nothing
    #[arg(long)]
    no_cache: bool,
    /// How many runs at once [default: as many as there are cores, but live runs one by one]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: Option<u16>,
    /// Record the packets of a link for Wireshark; for a single run
    #[arg(long, value_name = "LINK=FILE")]
    pcap: Vec<String>,
    /// Write every event as a line of JSON to this file; for a single run
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    #[command(flatten)]
    bounds: Bounds,
}

/// A topology lies beside scenarios and looks like one: whoever runs it is told what it is.
fn of_topology(args: &Args, error: ScenarioError) -> anyhow::Error {
    match Topology::from_file(&args.file) {
        Ok(_) => asked!(
            "{0} is a topology, which `shorthaul lab run {0}` builds; a scenario has `duration` and `[[flows]]` besides: docs/scenarios.md",
            args.file.display()
        )
        .into(),
        Err(_) => error.into(),
    }
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let wants = |engine| args.engine.contains(&engine);
    if wants(EngineName::Live) {
        // First of all, while the process has a single thread: the kernel asks for that.
        Privilege::obtain()?;
    }
    let study = Study::from_file(&args.file).map_err(|error| of_topology(args, error))?;
    let seed = args.seed.or_else(|| study.seeds().next()).unwrap_or(0);
    let repeats = args.repeats.unwrap_or(study.seeds().count() as u32);
    if repeats == 0 {
        return Err(asked!("--repeats 0 would run nothing").into());
    }
    let study = study.with_seeds(seed, repeats);
    if let Some(problem) = study.too_many_runs() {
        return Err(asked!("{}: {problem}", args.file.display()).into());
    }
    let runs = chosen(args, &study)?;
    if !args.pcap.is_empty() || args.trace.is_some() {
        if wants(EngineName::Live) {
            return Err(asked!("--pcap and --trace are of the simulator: give --engine sim").into());
        }
        return record_one(args, &study, &runs);
    }
    let store = if args.no_cache { None } else { Some(open_store(args.cache.as_deref())?) };
    // Before anything is run, not after all of it.
    if let Some(out) = &args.out {
        make_directory(out)?;
    }
    let screen = Screen::new();
    let progress = Progress::begin(&screen, runs.len() * args.engine.len());
    // What is the same for all seeds is said once.
    let said = Mutex::new(BTreeSet::new());
    let done = |record: &RunRecord| {
        if let Some(failure) = &record.failure {
            let new = |mut said: MutexGuard<'_, BTreeSet<_>>| {
                said.insert((record.engine, record.point, failure.clone()))
            };
            if said.lock().map_or(true, new) {
                progress.warn(&failure_of(args, record, failure));
            }
        }
    };
    let (mut remarks, mut all) = (Vec::new(), Vec::new());
    // In their order: live runs after the simulations, which would take the processors away.
    for (name, ..) in EngineName::ALL.into_iter().filter(|(name, ..)| wants(*name)) {
        let engine = engine_of(args, name);
        if let Some(first) = runs.first() {
            let unmeasured = engine.unmeasured(&study.scenario(&study.points()[first.point])?);
            unmeasured.iter().for_each(|remark| progress.warn(remark));
            remarks.extend(unmeasured);
        }
        // What runs in real time is run anew each time.
        let store = store.as_ref().filter(|_| name != EngineName::Live);
        let mut records = Vec::new();
        let mut next = telling_runs(&*engine, &runs);
        while !next.is_empty() {
            records.extend(run_all(&*engine, &study, &next, store, &progress, done)?);
            next = match args.confidence {
                Some(share) if engine.draws() => more_runs(&study, &records, share, args.at_most)?,
                _ => Vec::new(),
            };
            progress.extend(next.len());
        }
        records.sort_by_key(|record| (record.point, record.seed));
        records.iter_mut().for_each(|record| record.part = args.shard);
        all.extend(records);
    }
    drop(progress);
    finish(args, &study, &all, &remarks)
}

/// The engine of this name, as the arguments want it.
fn engine_of(args: &Args, name: EngineName) -> Box<dyn Engine> {
    let jobs = args.jobs.map(usize::from);
    match name {
        EngineName::Live => Box::new(Live { bounds: args.bounds.clone(), jobs: jobs.unwrap_or(1) }),
        EngineName::Model => Box::new(ModelEngine),
        EngineName::Sim => Box::new(Simulator { jobs }),
    }
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
        if !(1..=points).contains(&point) {
            return Err(asked!("--point {point}: the points of this file are 1 to {points}").into());
        }
        runs.retain(|run| run.point + 1 == point);
    }
    Ok(match args.shard {
        Some(shard) => shard.choose(runs),
        None => runs,
    })
}

fn open_store(directory: Option<&Path>) -> anyhow::Result<Store> {
    let directory = match directory {
        Some(directory) => directory.to_owned(),
        None => {
            let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
            let home = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
            home.ok_or_else(|| asked!("neither XDG_CACHE_HOME nor HOME is set: give --cache or --no-cache"))?
                .join("shorthaul/runs")
        }
    };
    Store::open(&directory).context("give --cache or --no-cache")
}

fn failure_of(args: &Args, record: &RunRecord, failure: &str) -> String {
    let what =
        if record.outcome.is_some() && record.engine == EngineName::Live { "is doubtful" } else { "failed" };
    format!(
        "seed {} of point {} {what}: {failure}\n  again: shorthaul run {} --engine {} --point {} --seed {} --repeats 1 --no-cache",
        record.seed,
        record.point,
        args.file.display(),
        record.engine,
        record.point,
        record.seed
    )
}

fn finish(args: &Args, study: &Study, records: &[RunRecord], remarks: &[String]) -> anyhow::Result<ExitCode> {
    let manifest = results::manifest(study, records);
    if args.json {
        println!("{:#}", results::json(&manifest, records)?);
    } else {
        Screen::new().table(&results::table(records));
        if let Some(buffers) = results::buffer_table(records) {
            Screen::new().table(&buffers);
        }
    }
    for remark in results::unended_sentences(records) {
        eprintln!("{remark}");
    }
    if let Some(out) = &args.out {
        let about = results::About { title: study.name(), about: study.about(), text: study.text(), remarks };
        results::write(out, &manifest, &about, records)?;
    }
    match Soundness::of(records) {
        Soundness::Sound => Ok(ExitCode::SUCCESS),
        Soundness::Doubtful(sentence) => {
            eprintln!("{sentence}");
            Ok(ExitCode::from(ending::DOUBTFUL))
        }
        Soundness::Failed(sentence) => bail!(sentence),
    }
}

/// A single run with recordings, which are not kept with the outcomes.
fn record_one(args: &Args, study: &Study, runs: &[Run]) -> anyhow::Result<ExitCode> {
    let [run] = runs else {
        let count = runs.len();
        return Err(asked!(
            "recordings are of a single run, and these are {count}: give --point and --repeats 1"
        )
        .into());
    };
    let create = |path: &Path| -> anyhow::Result<Box<BufWriter<File>>> {
        let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Box::new(BufWriter::new(file)))
    };
    let scenario = study.scenario(&study.points()[run.point])?;
    let links: Vec<&str> = scenario.links.iter().map(|link| link.name.as_str()).collect();
    let mut recording = Recording::default();
    for pcap in &args.pcap {
        let Some((link, file)) = pcap.split_once('=') else {
            return Err(asked!("--pcap {pcap}: write LINK=FILE, such as client-server=packets.pcapng").into());
        };
        // A file that is there is not to be emptied for nothing.
        if !links.contains(&link) {
            return Err(
                asked!("--pcap {pcap}: there is no link `{link}`; there are: {}", links.join(", ")).into()
            );
        }
        recording = recording.capture(link, create(Path::new(file))?);
    }
    if let Some(path) = &args.trace {
        recording = recording.trace(create(path)?);
    }
    let outcome = simulate(&scenario, run.seed, recording)?;
    let record = RunRecord::of(study, *run, EngineName::Sim, Ok(outcome));
    finish(args, study, &[record], &[])
}
