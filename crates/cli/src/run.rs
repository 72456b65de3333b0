//! `shorthaul run`: a scenario file, all of its runs.
use crate::live::{self, Bounds};
use crate::results;
use anyhow::{Context as _, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use shorthaul_lab::Privilege;
use shorthaul_report::{Manifest, Terminal};
use shorthaul_scenario::{Engine, Study, Summary};
use shorthaul_sim::{Cache, Recording, Run, RunRecord, Shard, run_all, runs_of, simulate};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
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
    /// What runs it: sim, the deterministic simulator, or live, the kernel's TCP across emulated links in
    /// namespaces; both, separated by a comma, are shown side by side
    #[arg(long, value_name = "ENGINES", value_delimiter = ',', default_value = "sim", value_parser = engine)]
    engine: Vec<Engine>,
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

fn engine(text: &str) -> Result<Engine, String> {
    [Engine::Sim, Engine::Live]
        .into_iter()
        .find(|engine| engine.name() == text)
        .ok_or_else(|| format!("there is no engine `{text}`: write sim, live, or sim,live"))
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let wants = |engine| args.engine.contains(&engine);
    if wants(Engine::Live) {
        // First of all, while the process has a single thread: the kernel asks for that.
        Privilege::obtain()?;
    }
    let study = Study::from_file(&args.file)?;
    let seed = args.seed.or_else(|| study.seeds().next()).unwrap_or(0);
    let repeats = args.repeats.unwrap_or(study.seeds().count() as u32);
    ensure!(repeats > 0, "--repeats 0 would run nothing");
    let study = study.with_seeds(seed, repeats);
    let runs = chosen(args, &study)?;
    if !args.pcap.is_empty() || args.trace.is_some() {
        ensure!(!wants(Engine::Live), "--pcap and --trace are of the simulator: give --engine sim");
        return record_one(args, &study, &runs);
    }
    let cache = if args.no_cache { None } else { Some(open_cache(args.cache.as_deref())?) };
    if let Some(jobs) = args.jobs {
        rayon::ThreadPoolBuilder::new().num_threads(jobs.into()).build_global()?;
    }
    let progress = progress(runs.len() * args.engine.len());
    // What is the same for all seeds is said once.
    let said = Mutex::new(BTreeSet::new());
    let done = |record: &RunRecord| {
        if let Some(failure) = &record.failure {
            let new = |mut said: MutexGuard<'_, BTreeSet<_>>| said.insert((record.point, failure.clone()));
            if said.lock().map_or(true, new) {
                progress.suspend(|| eprintln!("{}", failure_of(args, record, failure)));
            }
        }
        progress.inc(1);
    };
    let mut remarks = Vec::new();
    if wants(Engine::Live)
        && let Some(first) = runs.first()
    {
        let scenario = study.scenario(&study.points()[first.point])?;
        remarks = live::unmeasured(&scenario);
        remarks.iter().for_each(|remark| progress.suspend(|| eprintln!("{remark}")));
    }
    let mut all = Vec::new();
    // Live runs after the simulations, which would take the processors away.
    for engine in [Engine::Sim, Engine::Live].into_iter().filter(|engine| wants(*engine)) {
        let mut records = Vec::new();
        let mut next = runs.clone();
        while !next.is_empty() {
            records.extend(match engine {
                Engine::Sim => run_all(&study, &next, cache.as_ref(), |record, _| done(record))?,
                Engine::Live => {
                    let jobs = args.jobs.unwrap_or(1).into();
                    live::run_all(&study, &next, jobs, &args.bounds, done)?
                }
            });
            next = match args.confidence {
                Some(share) => more_runs(&study, &records, share, args.at_most)?,
                None => Vec::new(),
            };
            progress.inc_length(next.len() as u64);
        }
        records.sort_by_key(|record| (record.point, record.seed));
        all.extend(records);
    }
    progress.finish_and_clear();
    finish(args, &study, &all, &remarks)
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
    let what =
        if record.outcome.is_some() && record.engine == Engine::Live { "is doubtful" } else { "failed" };
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

fn finish(args: &Args, study: &Study, records: &[RunRecord], remarks: &[String]) -> anyhow::Result<()> {
    print!("{}", results::table(records).render(Terminal::stdout()));
    if let Some(out) = &args.out {
        let about = results::About { title: study.name(), about: study.about(), text: study.text(), remarks };
        results::write(out, &manifest(study, records), &about, records)?;
    }
    conclude(records)
}

/// What produced the records, with what matters to live runs if there are any.
pub fn manifest(study: &Study, records: &[RunRecord]) -> Manifest {
    let mut manifest = Manifest::new("shorthaul", env!("CARGO_PKG_VERSION"))
        .arguments(std::env::args().skip(1))
        .seed(study.seeds().next().unwrap_or(0))
        .scenario(study.name(), study.text());
    if records.iter().any(|record| record.engine == Engine::Live) {
        if let Ok(kernel) = std::fs::read_to_string("/proc/sys/kernel/osrelease") {
            manifest = manifest.fact("kernel", kernel.trim());
        }
        if let Ok(cores) = std::thread::available_parallelism() {
            manifest = manifest.fact("cores", &cores.to_string());
        }
    }
    manifest
}

/// The exit status when everything was run, and something live is not to be trusted.
const NOT_TO_BE_TRUSTED: i32 = 3;

/// Ends as the records ask for.
///
/// # Errors
/// If a run failed, or could not be done.
pub fn conclude(records: &[RunRecord]) -> anyhow::Result<()> {
    let (failed, doubtful) = results::failures(records);
    // A simulation has no excuse: what must not happen has happened.
    let wrong = records.iter().filter(|record| record.engine == Engine::Sim);
    let (_, wrong) = results::failures(wrong);
    if failed + wrong > 0 {
        bail!("{} of {} runs failed", failed + wrong, records.len());
    }
    if doubtful > 0 {
        eprintln!("{doubtful} of {} runs are not to be trusted", records.len());
        std::process::exit(NOT_TO_BE_TRUSTED);
    }
    Ok(())
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
        engine: Engine::Sim,
        outcome: Some(outcome),
        failure,
    };
    finish(args, study, &[record], &[])
}
