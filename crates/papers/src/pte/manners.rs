//! How every case of a study fared, and what it cost its senders: one line each.
use super::figures::in_words;
use shorthaul_observe::RunRecord;
use shorthaul_observe::results::format_metric;
use shorthaul_observe::{EngineName, Summary};
use shorthaul_report::{Column, Table};
use shorthaul_scenario::Metric;

/// What is shown of each case, with the words for it; only what the study has measured.
const SHOWN: [(Metric, &str); 11] = [
    (Metric::Completion, "time"),
    (Metric::Goodput, "throughput"),
    (Metric::Fairness, "Jain"),
    (Metric::Rtt, "round trip of the sender"),
    (Metric::HeldMost, "held at most"),
    (Metric::Timeouts, "RTOs"),
    (Metric::SpuriousTimeouts, "found spurious"),
    (Metric::Undone, "undone"),
    (Metric::WindowLimited, "closed window"),
    (Metric::SmallestWindow, "smallest window"),
    (Metric::Retransmitted, "retransmitted"),
];

/// What tells a line of the table from the others.
type LineKey<'a> = (EngineName, &'a str, &'a [(String, String)]);

fn cell(record: &RunRecord) -> LineKey<'_> {
    (record.engine, record.case.as_deref().unwrap_or_default(), &record.values)
}

/// A line for each case, swept values and engine, with means over the seeds; throughput also as a share of a plain split's in the
/// same place, where there is one.
pub(super) fn table(records: &[RunRecord]) -> Table {
    let mut cells: Vec<LineKey> = Vec::new();
    for record in records {
        if !cells.contains(&cell(record)) {
            cells.push(cell(record));
        }
    }
    let mean = |wanted: LineKey, metric: Metric| {
        let outcomes = records.iter().filter(|record| cell(record) == wanted);
        let values = outcomes.filter_map(|record| record.outcome.as_ref()?.metrics.get(&metric).copied());
        Summary::of(values).map(|summary| summary.mean)
    };
    let shown: Vec<(Metric, &str)> = SHOWN
        .into_iter()
        .filter(|(metric, _)| cells.iter().any(|wanted| mean(*wanted, *metric).is_some()))
        .collect();
    let left = ["engine", "case", "with"].map(Column::left);
    let right = ["of a split's"].into_iter().chain(shown.iter().map(|(_, words)| *words)).map(Column::right);
    let mut table = Table::new(left.into_iter().chain(right));
    for wanted in cells {
        let (engine, case, values) = wanted;
        let values: Vec<String> = values.iter().map(|(path, value)| in_words(path, value)).collect();
        let share = mean(wanted, Metric::Goodput).zip(mean((engine, "split", wanted.2), Metric::Goodput));
        let share = share.map_or("–".to_owned(), |(own, split)| format!("{:.3}", own / split));
        let metrics = shown.iter().map(|(metric, _)| {
            mean(wanted, *metric).map_or("–".to_owned(), |value| format_metric(*metric, value))
        });
        let row: Vec<String> = [engine.name().to_owned(), case.to_owned(), values.join(", "), share]
            .into_iter()
            .chain(metrics)
            .collect();
        table.row(row.iter().map(String::as_str));
    }
    table
}
