//! The results of many runs: as a table, and as files.
use anyhow::Context as _;
use shorthaul_report::{Cell, Column, Csv, Field, Manifest, Table, Terminal, Tone, Unit};
use shorthaul_scenario::{Metric, Summary};
use shorthaul_sim::RunRecord;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

/// What distinguishes a point from the others: the case, and the swept values.
type PointKey = (usize, Option<String>, Vec<(String, String)>);

fn point_of(record: &RunRecord) -> PointKey {
    (record.point, record.case.clone(), record.values.clone())
}

/// Runs by point, in the order of the points.
fn by_point(records: &[RunRecord]) -> BTreeMap<PointKey, Vec<&RunRecord>> {
    let mut points: BTreeMap<PointKey, Vec<&RunRecord>> = BTreeMap::new();
    for record in records {
        points.entry(point_of(record)).or_default().push(record);
    }
    points
}

/// The paths that vary, in the order of the file.
fn paths(records: &[RunRecord]) -> Vec<String> {
    records
        .first()
        .map(|record| record.values.iter().map(|(path, _)| path.clone()).collect())
        .unwrap_or_default()
}

/// The table for people: a row for every point and metric.
pub fn table(records: &[RunRecord]) -> String {
    let paths = paths(records);
    let has_cases = records.iter().any(|record| record.case.is_some());
    let mut columns = Vec::new();
    if has_cases {
        columns.push(Column::left("case"));
    }
    // the last key of a path says enough where no two paths end alike
    let short = |path: &str| path.rsplit('.').next().unwrap_or(path).to_owned();
    let alike = |path: &str| paths.iter().filter(|other| short(other) == short(path)).count() > 1;
    columns
        .extend(paths.iter().map(|path| Column::left(&if alike(path) { path.clone() } else { short(path) })));
    columns.push(Column::left("metric"));
    for name in ["mean", "± 95 %", "sd", "5 %", "median", "95 %", "runs"] {
        columns.push(Column::right(name));
    }
    let mut table = Table::new(columns);
    for ((_, case, values), runs) in by_point(records) {
        let mut labels: Vec<Cell> = Vec::new();
        if has_cases {
            labels.push(case.unwrap_or_default().into());
        }
        labels.extend(values.into_iter().map(|(_, value)| Cell::from(value.trim_matches('"').to_owned())));
        let outcomes = || runs.iter().filter_map(|record| record.outcome.as_ref());
        let mut rows = 0;
        for (metric, name, unit) in Metric::ALL {
            let values = outcomes().filter_map(|outcome| outcome.metrics.get(&metric).copied());
            let Some(summary) = Summary::of(values) else { continue };
            let mut cells = match rows {
                0 => labels.clone(),
                _ => vec![Cell::from(""); labels.len()],
            };
            rows += 1;
            cells.push(name.into());
            let show = |value: f64| format_as(unit, value);
            cells.push(Cell::toned(show(summary.mean), Tone::Strong));
            cells.push(summary.confidence().map_or_else(String::new, show).into());
            cells.push(if summary.count() > 1 { show(summary.std_dev).into() } else { "".into() });
            cells.extend(
                [0.05, 0.5, 0.95].map(|share| Cell::toned(show(summary.percentile(share)), Tone::Quiet)),
            );
            cells.push(summary.count().to_string().into());
            table.row(cells);
        }
        let failed = runs.iter().filter(|record| record.failure.is_some()).count();
        if failed > 0 {
            let mut cells = if rows == 0 { labels } else { vec![Cell::from(""); labels.len()] };
            cells.push(Cell::toned(format!("{failed} runs failed"), Tone::Bad));
            table.row(cells);
        }
    }
    table.render(Terminal::stdout())
}

fn format_as(unit: &str, value: f64) -> String {
    match unit {
        "bit/s" => Unit::BitsPerSecond.format(value),
        "s" => Unit::Seconds.format(value),
        "B" => Unit::Bytes.format(value),
        "%" => Unit::Percent.format(value / 100.0),
        "packets" => Unit::Plain("packets").format(value),
        _ => Unit::None.format(value),
    }
}

/// Writes `runs.jsonl` (everything, to be merged), `results.csv` (a row a run) and, where there are any,
/// `series.csv` and `transfers.csv`.
pub fn write(directory: &Path, manifest: &Manifest, records: &[RunRecord]) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    let mut lines = Vec::new();
    for record in records {
        serde_json::to_writer(&mut lines, record)?;
        lines.write_all(b"\n")?;
    }
    let path = directory.join("runs.jsonl");
    std::fs::write(&path, lines).with_context(|| format!("cannot write {}", path.display()))?;
    results_csv(manifest, records)?.save(&directory.join("results.csv"))?;
    if records.iter().filter_map(|record| record.outcome.as_ref()).any(|outcome| !outcome.series.is_empty()) {
        series_csv(manifest, records)?.save(&directory.join("series.csv"))?;
    }
    transfers_csv(manifest, records)?.save(&directory.join("transfers.csv"))?;
    Ok(())
}

/// The columns that say which run a row belongs to.
fn run_columns(records: &[RunRecord]) -> Vec<String> {
    ["point".to_owned(), "case".to_owned()]
        .into_iter()
        .chain(paths(records))
        .chain(["seed".to_owned()])
        .collect()
}

fn run_fields(record: &RunRecord) -> Vec<Field> {
    let mut fields = vec![Field::Integer(record.point as i128)];
    fields.push(record.case.as_deref().map_or(Field::Missing, Field::from));
    fields.extend(record.values.iter().map(|(_, value)| Field::from(value.trim_matches('"'))));
    fields.push(Field::Integer(i128::from(record.seed)));
    fields
}

fn csv_with(manifest: &Manifest, records: &[RunRecord], more: &[String]) -> Csv {
    let columns = run_columns(records);
    let names: Vec<&str> = columns.iter().chain(more).map(String::as_str).collect();
    Csv::new(manifest, &names)
}

fn results_csv(manifest: &Manifest, records: &[RunRecord]) -> anyhow::Result<Csv> {
    let has = |metric: Metric| {
        let mut outcomes = records.iter().filter_map(|record| record.outcome.as_ref());
        outcomes.any(|outcome| outcome.metrics.contains_key(&metric))
    };
    let metrics: Vec<Metric> = Metric::ALL.iter().map(|(metric, ..)| *metric).filter(|m| has(*m)).collect();
    let column = |metric: &Metric| match metric.unit() {
        "" => metric.name().to_owned(),
        unit => format!("{} [{unit}]", metric.name()),
    };
    let mut more: Vec<String> = metrics.iter().map(column).collect();
    more.extend(["events", "trace hash", "failure"].map(str::to_owned));
    let mut csv = csv_with(manifest, records, &more);
    for record in records {
        let outcome = record.outcome.as_ref();
        let mut fields = run_fields(record);
        fields.extend(metrics.iter().map(|metric| {
            outcome
                .and_then(|outcome| outcome.metrics.get(metric))
                .map_or(Field::Missing, |v| Field::Number(*v))
        }));
        fields.push(outcome.map_or(Field::Missing, |outcome| Field::Integer(outcome.events.into())));
        fields.push(outcome.map_or(Field::Missing, |o| Field::from(format!("{:016x}", o.trace_hash))));
        fields.push(record.failure.as_deref().map_or(Field::Missing, Field::from));
        csv.row(fields)?;
    }
    Ok(csv)
}

fn series_csv(manifest: &Manifest, records: &[RunRecord]) -> anyhow::Result<Csv> {
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

fn transfers_csv(manifest: &Manifest, records: &[RunRecord]) -> anyhow::Result<Csv> {
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
pub fn read(path: &Path) -> anyhow::Result<Vec<RunRecord>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let line = |(number, line): (usize, &str)| {
        serde_json::from_str(line).with_context(|| {
            format!(
                "{}, line {}: this is no run; give the runs.jsonl of `shorthaul run --out`",
                path.display(),
                number + 1
            )
        })
    };
    text.lines().enumerate().map(line).collect()
}
