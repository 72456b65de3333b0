//! The table for people: a row for every point, metric and engine.
use crate::{EngineName, RunRecord, Summary};
use shorthaul_report::{Column, Table, TableCell, Tone, Unit};
use shorthaul_scenario::Metric;

use super::{by_point, engines, failures, format_metric, metrics, paths, short, summary, unended};

/// How many times the simulator's mean the live mean is; `None` where either is missing or zero.
pub fn ratio(runs: &[&RunRecord], metric: Metric) -> Option<f64> {
    ratio_between(runs, metric, [EngineName::Live, EngineName::Sim])
}

/// How many times the second engine's mean that of the first is; `None` where either is missing or zero.
pub fn ratio_between(runs: &[&RunRecord], metric: Metric, engines: [EngineName; 2]) -> Option<f64> {
    let [over, under] = engines.map(|engine| summary(runs, engine, metric).map(|summary| summary.mean));
    let (over, under) = (over?, under?);
    (over > 0.0 && under > 0.0).then(|| over / under)
}

/// The engine that the others are compared with: the simulator where it is one of several.
fn reference(engines: &[EngineName]) -> Option<EngineName> {
    let first =
        engines.iter().copied().find(|engine| *engine == EngineName::Sim).or(engines.first().copied());
    first.filter(|_| engines.len() > 1)
}

/// The table, with the engines below each other where there are several.
pub fn table(records: &[RunRecord]) -> Table {
    let (paths, engines) = (paths(records), engines(records));
    let has_cases = records.iter().any(|record| record.case.is_some());
    let several = engines.len() > 1;
    let mut columns = Vec::new();
    if has_cases {
        columns.push(Column::left("case"));
    }
    let alike = |path: &str| paths.iter().filter(|other| short(other) == short(path)).count() > 1;
    columns.extend(paths.iter().map(|path| Column::left(if alike(path) { path } else { short(path) })));
    columns.push(Column::left("metric"));
    if several {
        columns.push(Column::left("engine"));
    }
    columns.push(Column::right("mean"));
    // Of the mean, and not of the runs: it is named, so that nobody takes it for a percentile.
    columns.push(Column::right("±").unit("95 % confidence"));
    columns.push(Column::right("deviation").unit("standard"));
    columns.extend(["5th", "50th", "95th"].map(|nth| Column::right(nth).unit("percentile")));
    columns.push(Column::right("runs"));
    let reference = reference(&engines);
    if let Some(reference) = reference {
        let others: Vec<&str> =
            engines.iter().filter(|engine| **engine != reference).map(|engine| engine.name()).collect();
        columns.push(Column::right(&format!("{} / {reference}", others.join(", "))));
    }
    let mut table = Table::new(columns);
    for ((_, case, values), runs) in by_point(records) {
        let mut labels: Vec<TableCell> = Vec::new();
        if has_cases {
            labels.push(case.unwrap_or_default().into());
        }
        labels
            .extend(values.into_iter().map(|(_, value)| TableCell::from(value.trim_matches('"').to_owned())));
        // The labels stand in the first row of a point, and the metric in the first of its rows.
        let blank = vec![TableCell::from(""); labels.len()];
        let mut next_labels = || std::mem::replace(&mut labels, blank.clone());
        for metric in metrics(records) {
            let mut name = metric.name();
            for &engine in &engines {
                let Some(summary) = summary(&runs, engine, metric) else { continue };
                let mut cells = next_labels();
                cells.push(std::mem::take(&mut name).into());
                if several {
                    cells.push(engine.name().into());
                }
                cells.extend(numbers(&summary, metric));
                let other = reference.filter(|reference| *reference != engine);
                let times = other.and_then(|other| ratio_between(&runs, metric, [engine, other]));
                cells.extend(times.map(|times| Unit::Times.format(times).into()));
                table.row(cells);
            }
        }
        for &engine in &engines {
            let (failed, doubtful) = failures(runs.iter().copied().filter(|run| run.engine == engine));
            let [cut, all] = unended(&runs, engine);
            for (count, what) in [
                (failed, format!("{failed} runs failed")),
                (doubtful, format!("{doubtful} runs not to be trusted")),
                (cut, format!("{cut} of {all} runs not ended")),
            ] {
                if count > 0 {
                    let mut cells = next_labels();
                    cells.push(TableCell::toned(what, Tone::Bad));
                    cells.push(TableCell::toned(if several { engine.name() } else { "" }, Tone::Bad));
                    table.row(cells);
                }
            }
        }
    }
    table
}

fn numbers(summary: &Summary, metric: Metric) -> Vec<TableCell> {
    let show = |value: f64| format_metric(metric, value);
    let mut cells = vec![TableCell::toned(show(summary.mean), Tone::Strong)];
    cells.push(summary.confidence().map_or_else(String::new, show).into());
    cells.push(if summary.count() > 1 { show(summary.std_dev).into() } else { "".into() });
    cells.extend(
        [0.05, 0.5, 0.95].map(|share| TableCell::toned(show(summary.percentile(share)), Tone::Quiet)),
    );
    cells.push(summary.count().to_string().into());
    cells
}
