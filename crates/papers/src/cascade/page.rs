//! All of it on one HTML page.
use super::cell::PathPoint;
use super::live::Live;
use super::matrix::Matrix;
use shorthaul_observe::Finding;
use shorthaul_report::plot::Figure;
use shorthaul_report::{Column, Manifest, Page, Table, Unit};

/// What of the matrix is in the page's table; all of it is in `table-1.csv`.
const LOSS_IN_TABLE: u64 = 100;

pub(super) fn page(
    manifest: &Manifest,
    matrix: &Matrix,
    findings: &[Finding],
    figures: &[(&'static str, Figure)],
    live: &Live,
) -> Page {
    let mut page = Page::new("Cascaded TCP, reproduced", manifest);
    page.text(
        "Kalim, Gardner, Brown and Feng, Cascaded TCP: Applying Pipelining to TCP for Efficient Communication over \
         Wide-Area Networks. Simulated: mean of the samples with its 95 % confidence interval. Model: the planner's.",
    );
    page.text(&matrix.summary());
    let (stated, others): (Vec<_>, Vec<_>) = findings.iter().partition(|finding| !finding.stated.is_empty());
    page.heading("What the paper states");
    Finding::show(&mut page, "", &stated.into_iter().map(with_model).collect::<Vec<_>>());
    page.heading("Figures");
    for (_, figure) in figures {
        page.figure(figure);
    }
    if live.cells().next().is_some() {
        page.heading("Live").table(
            "Kernel TCP on emulated links, medians; how many times as fast as directly",
            &measured(matrix, live),
        );
    }
    if !others.is_empty() {
        let mut table =
            Table::new([Column::left("what"), Column::right("simulated"), Column::right("model")]);
        for finding in others {
            let model = finding.model.as_deref().unwrap_or_default();
            table.row([finding.what.as_str(), &finding.ours, model]);
        }
        page.heading("Variants").table("", &table);
    }
    page.heading("Table I").table(
        &format!(
            "Utilization at {} of loss; the other losses are in table-1.csv",
            Unit::Percent.format(LOSS_IN_TABLE as f64 / 1e5)
        ),
        &utilizations(matrix),
    );
    page.heading("Remarks").remarks([
        "The loss of a cell is that between the ends, shared by the legs (equation 8); acknowledgments are not lost.",
        "Time runs from the first SYN until the destination has the last byte.",
        "Transfers are so long that slow start takes a tenth at most and, where losses bind, a hundred are met; those that would \
         have more than 150 000 segments are cut short and marked in table-1.csv.",
    ]);
    page
}

fn with_model(finding: &Finding) -> Finding {
    match &finding.model {
        Some(model) => Finding { ours: format!("{}; model {model}", finding.ours), ..finding.clone() },
        None => finding.clone(),
    }
}

/// Gains live, simulated and by the model.
fn measured(matrix: &Matrix, live: &Live) -> Table {
    let mut table = Table::new(
        [Column::right("round trip"), Column::right("rate"), Column::right("loss")].into_iter().chain(
            [
                "one relay",
                "netcat",
                "simulated",
                "model",
                "two relays",
                "two netcats",
                "simulated",
                "model",
                "waiting, of one relay",
            ]
            .map(Column::right),
        ),
    );
    let times = |gain: Option<f64>| gain.map_or("–".to_owned(), |gain| Unit::Times.format(gain));
    for cell in live.cells() {
        let with = |relays| PathPoint { relays, ..cell };
        let forecast = |relays| Some(matrix.get(with(relays))?.forecast / matrix.get(cell)?.forecast);
        table.row([
            format!("{} ms", cell.rtt_ms),
            format!("{} Mbit/s", cell.kbit as f64 / 1e3),
            Unit::Percent.format(cell.loss_per_100k as f64 / 1e5),
            times(live.gain(with(1))),
            times(live.netcat_gain(with(1))),
            times(matrix.gain(with(1))),
            times(forecast(1)),
            times(live.gain(with(2))),
            times(live.netcat_gain(with(2))),
            times(matrix.gain(with(2))),
            times(forecast(2)),
            times(live.waiting(cell)),
        ]);
    }
    table
}

/// One row for each rate and round trip, with 0, 1 and 2 relays.
fn utilizations(matrix: &Matrix) -> Table {
    let mut table = Table::new(
        ["rate", "round trip", "long-haul", "model", "one relay", "model", "two relays", "model"]
            .map(Column::right),
    );
    let mut cells: Vec<PathPoint> = matrix.cells().map(|measured| measured.cell).collect();
    cells.retain(|cell| cell.relays == 0 && cell.loss_per_100k == LOSS_IN_TABLE);
    cells.sort_by_key(|cell| (cell.kbit, cell.rtt_ms));
    for cell in cells {
        let mut row = vec![format!("{} Mbit/s", cell.kbit as f64 / 1e3), format!("{} ms", cell.rtt_ms)];
        for relays in 0..=2 {
            let found = matrix.get(PathPoint { relays, ..cell });
            row.push(found.map_or("–".to_owned(), |found| {
                let (share, half) = (found.utilization(), found.utilization_confidence());
                format!("{} ± {}", Unit::Percent.format(share), Unit::Percent.format(half))
            }));
            row.push(
                found.map_or("–".to_owned(), |found| Unit::Percent.format(found.forecast_utilization())),
            );
        }
        table.row(row);
    }
    table
}
