//! The results of many runs: as a table, as files, and as a page.
mod buffers;
mod figures;
mod page;
mod table;
mod unended;

use crate::{EngineName, RunRecord, Summary};
use shorthaul_report::{Csv, Field, Manifest, ReportError, Unit};
use shorthaul_scenario::Metric;
use shorthaul_scenario::Study;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub use buffers::{Buffer, buffer_table, buffers};
pub use page::About;
pub use table::{ratio, ratio_between, table};
pub use unended::{unended, unended_sentences};

/// Why results could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    /// A file or directory cannot be read or written.
    #[error("cannot {what} {path}: {source}")]
    File {
        /// What was tried.
        what: &'static str,
        /// With what.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A figure, table or page cannot be written.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// A result cannot be put in JSON.
    #[error("a result cannot be put in JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// A line of a file is no run.
    #[error("{path}, line {line}: this is no run; give the runs.jsonl of `shorthaul run --out`")]
    NoRun {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
}

impl ResultsError {
    fn file(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| ResultsError::File { what, path, source }
    }
}

/// A point of a study: its place, the case, and the swept values.
pub type PointKey = (usize, Option<String>, Vec<(String, String)>);

/// Runs by point, in the order of the points.
pub fn by_point(records: &[RunRecord]) -> BTreeMap<PointKey, Vec<&RunRecord>> {
    let mut points: BTreeMap<PointKey, Vec<&RunRecord>> = BTreeMap::new();
    for record in records {
        let key = (record.point, record.case.clone(), record.values.clone());
        points.entry(key).or_default().push(record);
    }
    points
}

/// What distinguishes a point from the others, in one line.
pub fn label(case: Option<&str>, values: &[(String, String)]) -> String {
    let values = values.iter().map(|(path, value)| format!("{} {}", short(path), value.trim_matches('"')));
    case.map(str::to_owned).into_iter().chain(values).collect::<Vec<_>>().join(", ")
}

/// The last key of a path, which mostly says enough.
fn short(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

/// The engines that have run anything, in order.
pub fn engines(records: &[RunRecord]) -> Vec<EngineName> {
    let mut engines: Vec<EngineName> = records.iter().map(|record| record.engine).collect();
    engines.sort();
    engines.dedup();
    engines
}

/// What runs of one engine say of a metric.
pub fn summary(runs: &[&RunRecord], engine: EngineName, metric: Metric) -> Option<Summary> {
    let runs = runs.iter().filter(|record| record.engine == engine);
    let outcomes = runs.filter_map(|record| record.outcome.as_ref());
    Summary::of(outcomes.filter_map(|outcome| outcome.metrics.get(&metric).copied()))
}

/// The 95 % interval of a metric: of the mean of several runs, or as an engine knows it of a single one.
pub fn interval(runs: &[&RunRecord], engine: EngineName, metric: Metric) -> Option<[f64; 2]> {
    let summary = summary(runs, engine, metric)?;
    if let Some(half) = summary.confidence() {
        return Some([summary.mean - half, summary.mean + half]);
    }
    let run = runs.iter().find(|record| record.engine == engine)?;
    run.outcome.as_ref()?.intervals.get(&metric).copied()
}

/// The metrics that any run has, in the order of their list.
fn metrics(records: &[RunRecord]) -> Vec<Metric> {
    let has = |metric: Metric| {
        let mut outcomes = records.iter().filter_map(|record| record.outcome.as_ref());
        outcomes.any(|outcome| outcome.metrics.contains_key(&metric))
    };
    Metric::ALL.iter().map(|(metric, ..)| *metric).filter(|metric| has(*metric)).collect()
}

/// How many runs came to no outcome, and how many have one that is not to be trusted.
pub fn failures<'a>(records: impl IntoIterator<Item = &'a RunRecord>) -> (usize, usize) {
    let (mut failed, mut doubtful) = (0, 0);
    for record in records {
        match (&record.failure, &record.outcome) {
            (Some(_), None) => failed += 1,
            (Some(_), Some(_)) => doubtful += 1,
            (None, _) => {}
        }
    }
    (failed, doubtful)
}

/// What went wrong, in sentences: once for all seeds where it is the same.
pub fn failure_sentences(records: &[RunRecord]) -> Vec<String> {
    let mut seeds: BTreeMap<(usize, EngineName, &str), (String, Vec<String>)> = BTreeMap::new();
    for record in records {
        let Some(failure) = &record.failure else { continue };
        let key = (record.point, record.engine, failure.as_str());
        let label = label(record.case.as_deref(), &record.values);
        seeds.entry(key).or_insert_with(|| (label, Vec::new())).1.push(record.seed.to_string());
    }
    let sentence =
        |((_, engine, failure), (label, seeds)): ((usize, EngineName, &str), (String, Vec<String>))| {
            let label = if label.is_empty() { String::new() } else { format!("{label}, ") };
            format!("{label}{engine}, seed {}: {failure}", seeds.join(", "))
        };
    seeds.into_iter().map(sentence).collect()
}

/// A metric's value with its unit.
pub fn format_metric(metric: Metric, value: f64) -> String {
    unit_of(metric).1.format(value * unit_of(metric).0)
}

/// The unit of a metric, and what its values are multiplied with to be in it.
fn unit_of(metric: Metric) -> (f64, Unit) {
    match metric.unit() {
        "bit/s" => (1.0, Unit::BitsPerSecond),
        "s" => (1.0, Unit::Seconds),
        "B" => (1.0, Unit::Bytes),
        "%" => (0.01, Unit::Percent),
        "packets" => (1.0, Unit::Plain("packets")),
        _ => (1.0, Unit::None),
    }
}

/// Writes `report.html`, `results.json` (a summary of every point and metric), `results.csv` (a row a run),
/// `transfers.csv`, `runs.jsonl` (everything, to be merged), figures as SVG and PNG and, where there are any,
/// `series.csv`.
///
/// # Errors
/// If a file cannot be written.
pub fn write(
    directory: &Path,
    manifest: &Manifest,
    about: &About<'_>,
    records: &[RunRecord],
) -> Result<(), ResultsError> {
    std::fs::create_dir_all(directory).map_err(ResultsError::file("make", directory))?;
    let mut lines = Vec::new();
    for record in records {
        serde_json::to_writer(&mut lines, record)?;
        lines.push(b'\n');
    }
    let path = directory.join("runs.jsonl");
    std::fs::write(&path, lines).map_err(ResultsError::file("write", &path))?;
    results_csv(manifest, records)?.save(&directory.join("results.csv"))?;
    if records.iter().filter_map(|record| record.outcome.as_ref()).any(|outcome| !outcome.series.is_empty()) {
        series_csv(manifest, records)?.save(&directory.join("series.csv"))?;
    }
    transfers_csv(manifest, records)?.save(&directory.join("transfers.csv"))?;
    let path = directory.join("results.json");
    let json = format!("{:#}\n", json(manifest, records)?);
    std::fs::write(&path, json).map_err(ResultsError::file("write", &path))?;
    let figures = figures::all(records);
    for (name, figure) in &figures {
        figure.save(&directory.join(name), manifest)?;
    }
    page::page(manifest, about, records, &figures).save(&directory.join("report.html"))?;
    Ok(())
}

/// A summary of every point, engine and metric, as `results.json` has it. Everything is in base units: seconds, bytes, bits per second;
/// percent as percent.
///
/// # Errors
/// None are known.
pub fn json(manifest: &Manifest, records: &[RunRecord]) -> Result<serde_json::Value, ResultsError> {
    let mut results = Vec::new();
    for ((point, case, values), runs) in by_point(records) {
        for engine in engines(records) {
            let mut measured = serde_json::Map::new();
            for metric in metrics(records) {
                let Some(summary) = summary(&runs, engine, metric) else { continue };
                let value = serde_json::json!({
                    "unit": metric.unit(), "runs": summary.count(), "mean": summary.mean,
                    "confidence_95": summary.confidence(), "interval_95": interval(&runs, engine, metric), "standard_deviation": summary.std_dev,
                    "p5": summary.percentile(0.05), "median": summary.percentile(0.5),
                    "p95": summary.percentile(0.95),
                });
                measured.insert(metric.name().to_owned(), value);
            }
            let of_engine: Vec<&&RunRecord> = runs.iter().filter(|record| record.engine == engine).collect();
            let fidelity: Vec<_> =
                of_engine.iter().filter_map(|record| record.outcome.as_ref()?.fidelity).collect();
            let failures: Vec<_> = of_engine
                .iter()
                .filter_map(|record| {
                    let failure = record.failure.as_ref()?;
                    let has_outcome = record.outcome.is_some();
                    Some(serde_json::json!({ "seed": record.seed, "failure": failure, "has_outcome": has_outcome }))
                })
                .collect();
            let [unended, _] = unended(&runs, engine);
            results.push(serde_json::json!({
                "point": point, "case": case, "values": values.iter().cloned().collect::<BTreeMap<_, _>>(),
                "engine": engine, "metrics": measured, "failures": failures, "fidelity": fidelity,
                "runs_with_unended_transfers": unended,
            }));
        }
    }
    let manifest: serde_json::Value = serde_json::from_str(&manifest.to_json())?;
    let remarks = unended_sentences(records);
    Ok(
        serde_json::json!({ "manifest": manifest, "results": results, "buffers": buffers(records), "remarks": remarks }),
    )
}

/// The paths that vary, in the order of the file.
fn paths(records: &[RunRecord]) -> Vec<String> {
    records
        .first()
        .map(|record| record.values.iter().map(|(path, _)| path.clone()).collect())
        .unwrap_or_default()
}

/// The columns that say which run a row belongs to.
fn run_columns(records: &[RunRecord]) -> Vec<String> {
    ["point".to_owned(), "case".to_owned()]
        .into_iter()
        .chain(paths(records))
        .chain(["seed".to_owned(), "engine".to_owned()])
        .collect()
}

fn run_fields(record: &RunRecord) -> Vec<Field> {
    let mut fields = vec![Field::Integer(record.point as i128)];
    fields.push(record.case.as_deref().map_or(Field::Missing, Field::from));
    fields.extend(record.values.iter().map(|(_, value)| Field::from(value.trim_matches('"'))));
    fields.push(Field::Integer(i128::from(record.seed)));
    fields.push(record.engine.name().into());
    fields
}

fn csv_with(manifest: &Manifest, records: &[RunRecord], more: &[String]) -> Csv {
    let columns = run_columns(records);
    let names: Vec<&str> = columns.iter().chain(more).map(String::as_str).collect();
    Csv::new(manifest, &names)
}

fn results_csv(manifest: &Manifest, records: &[RunRecord]) -> Result<Csv, ResultsError> {
    let metrics = metrics(records);
    let column = |metric: &Metric| match metric.unit() {
        "" => metric.name().to_owned(),
        unit => format!("{} [{unit}]", metric.name()),
    };
    let mut more: Vec<String> = metrics.iter().map(column).collect();
    let live = ["late p99 [s]", "emulator drops", "busy", "starved"];
    more.extend(["events", "trace hash"].into_iter().chain(live).chain(["failure"]).map(str::to_owned));
    let mut csv = csv_with(manifest, records, &more);
    for record in records {
        let outcome = record.outcome.as_ref();
        let mut fields = run_fields(record);
        fields.extend(metrics.iter().map(|metric| {
            outcome
                .and_then(|outcome| outcome.metrics.get(metric))
                .map_or(Field::Missing, |v| Field::Number(*v))
        }));
        // Events are the simulator's, fidelity is that of live runs.
        let simulated = outcome.filter(|_| record.engine == EngineName::Sim);
        fields.push(simulated.map_or(Field::Missing, |outcome| Field::Integer(outcome.events.into())));
        fields.push(simulated.map_or(Field::Missing, |o| Field::from(format!("{:016x}", o.trace_hash))));
        fields.extend(match outcome.and_then(|outcome| outcome.fidelity) {
            Some(f) => [
                Field::Number(f.late_p99),
                Field::Integer(f.dropped.into()),
                Field::Number(f.busy),
                Field::Number(f.starved),
            ],
            None => [Field::Missing, Field::Missing, Field::Missing, Field::Missing],
        });
        fields.push(record.failure.as_deref().map_or(Field::Missing, Field::from));
        csv.row(fields)?;
    }
    Ok(csv)
}

fn series_csv(manifest: &Manifest, records: &[RunRecord]) -> Result<Csv, ResultsError> {
    let more = ["series", "of", "time [s]", "value"].map(str::to_owned);
    let mut csv = csv_with(manifest, records, &more);
    for record in records {
        for series in record.outcome.iter().flat_map(|outcome| &outcome.series) {
            for (time, value) in &series.points {
                let mut fields = run_fields(record);
                fields.push(series.series.name().into());
                fields.push(series.subject.as_str().into());
                fields.extend([Field::Number(*time), Field::Number(*value)]);
                csv.row(fields)?;
            }
        }
    }
    Ok(csv)
}

fn transfers_csv(manifest: &Manifest, records: &[RunRecord]) -> Result<Csv, ResultsError> {
    let more = ["flow", "number", "completion [s]"].map(str::to_owned);
    let mut csv = csv_with(manifest, records, &more);
    for record in records {
        for flow in record.outcome.iter().flat_map(|outcome| &outcome.flows) {
            for (number, time) in flow.transfers.iter().enumerate() {
                let mut fields = run_fields(record);
                fields.push(flow.name.as_str().into());
                fields.extend([Field::Integer(number as i128 + 1), Field::Number(*time)]);
                csv.row(fields)?;
            }
        }
    }
    Ok(csv)
}

/// Reads a `runs.jsonl`.
///
/// # Errors
/// If it cannot be read, or a line of it is no run.
pub fn read(path: &Path) -> Result<Vec<RunRecord>, ResultsError> {
    let text = std::fs::read_to_string(path).map_err(ResultsError::file("read", path))?;
    let line = |(number, line): (usize, &str)| {
        serde_json::from_str(line)
            .map_err(|_| ResultsError::NoRun { path: path.to_owned(), line: number + 1 })
    };
    text.lines().enumerate().map(line).collect()
}

/// What produced the records, with what matters to live runs if there are any.
pub fn manifest(study: &Study, records: &[RunRecord]) -> Manifest {
    let first = study.seeds().next().unwrap_or(0);
    let manifest = Manifest::of_this_command().seed(first).scenario(study.name(), study.text());
    let is_live = records.iter().any(|record| record.engine == EngineName::Live);
    if is_live { manifest.with_machine() } else { manifest }
}

/// What is to be thought of all the runs together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Soundness {
    /// Every run came to an outcome that is to be trusted.
    Sound,
    /// Every run came to an outcome, and some live ones are not to be trusted: in a sentence.
    Doubtful(String),
    /// Some runs failed: in a sentence.
    Failed(String),
}

impl Soundness {
    /// Of these records.
    pub fn of(records: &[RunRecord]) -> Self {
        let (failed, doubtful) = failures(records);
        // A simulation has no excuse: what must not happen has happened.
        let (_, wrong) = failures(records.iter().filter(|record| record.engine != EngineName::Live));
        if failed + wrong > 0 {
            return Soundness::Failed(format!("{} of {} runs failed", failed + wrong, records.len()));
        }
        if doubtful > 0 {
            return Soundness::Doubtful(format!(
                "{doubtful} of {} runs are not to be trusted",
                records.len()
            ));
        }
        Soundness::Sound
    }
}
