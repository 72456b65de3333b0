//! The table on the terminal, in Markdown, as CSV and JSON, and as a picture.
use std::fmt::Write as _;

use serde_json::{Value, json};
use shorthaul_report::plot::{Axis, Figure, Hue, Panel, Point, Series, Share};
use shorthaul_report::{Column, Csv, Manifest, ReportError, Table, TableCell, Tone, Unit};

use super::case::{Control, ParityCase};
use super::result::{Pair, Row};
use super::transfer::Who;

fn rate(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), |value| Unit::BitsPerSecond.format(value))
}

/// A row a cell, for the terminal.
pub fn table(rows: &[Row]) -> Table {
    let mut table = Table::new([
        Column::left("control"),
        Column::left("path"),
        Column::left("trouble"),
        Column::right("kernel").unit("median"),
        Column::right("ours").unit("median"),
        Column::right("ratio").unit("median"),
        Column::right("range"),
        Column::left("emulation"),
    ]);
    for (number, row) in rows.iter().enumerate() {
        if number > 0 && rows[number - 1].cell.control != row.cell.control {
            table.rule();
        }
        let tone = if row.holds() { Tone::Good } else { Tone::Bad };
        let ratio = row.ratio().map_or_else(|| "failed".to_owned(), |ratio| format!("{ratio:.2}"));
        let range = row.range().map(|(low, high)| format!("{low:.2}…{high:.2}"));
        table.row([
            TableCell::from(row.cell.control.profile()),
            row.cell.path_label().into(),
            row.cell.trouble.label().into(),
            rate(row.goodput(Who::Kernel)).into(),
            rate(row.goodput(Who::Ours)).into(),
            TableCell::toned(ratio, tone),
            TableCell::toned(range.unwrap_or_default(), Tone::Quiet),
            emulation(row),
        ]);
    }
    table
}

fn emulation(row: &Row) -> TableCell {
    let late = Unit::Seconds.format(row.late_s());
    match (row.is_exact(), row.missed()) {
        (true, _) => TableCell::toned("exact", Tone::Quiet),
        (false, 0) if row.pairs.iter().any(Pair::is_disturbed) => {
            TableCell::toned(format!("others took {:.0} % of the machine", row.others() * 100.0), Tone::Bad)
        }
        (false, 0) => TableCell::toned(format!("late by {late}"), Tone::Bad),
        (false, missed) => TableCell::toned(format!("{missed} packets missed"), Tone::Bad),
    }
}

/// A row a path and trouble, with both controls side by side.
pub fn markdown(rows: &[Row], manifest: &Manifest) -> String {
    let mut text = String::from("| path | trouble |");
    for control in Control::ALL {
        let name = control.profile();
        let _ = write!(text, " kernel `{}` | our `{name}` | ratio |", control.kernel());
    }
    text.push_str("\n|---|---|---:|---:|---:|---:|---:|---:|\n");
    let mut paths: Vec<&ParityCase> = Vec::new();
    for row in rows {
        let known = paths.iter().any(|c| c.name_of_path() == row.cell.name_of_path());
        if !known {
            paths.push(&row.cell);
        }
    }
    for cell in paths {
        let _ = write!(text, "| {} | {} |", cell.path_label(), cell.trouble.label());
        for control in Control::ALL {
            let row = rows
                .iter()
                .find(|row| row.cell.control == control && row.cell.name_of_path() == cell.name_of_path());
            let ratio =
                row.and_then(Row::ratio).map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}"));
            let remark = if row.is_some_and(|row| !row.is_exact()) { " (disturbed)" } else { "" };
            let goodput = |who| rate(row.and_then(|row| row.goodput(who)));
            let _ = write!(text, " {} | {} | {ratio}{remark} |", goodput(Who::Kernel), goodput(Who::Ours));
        }
        text.push('\n');
    }
    let _ = writeln!(text, "\n<!--\n{}\n-->", manifest.lines().join("\n"));
    text
}

/// A row a transfer.
pub fn csv(rows: &[Row], manifest: &Manifest) -> Result<Csv, ReportError> {
    let mut csv = Csv::new(
        manifest,
        &[
            "cell",
            "pair",
            "sender",
            "bytes",
            "seconds",
            "goodput_bit_per_s",
            "retransmitted_bytes",
            "packets_lost",
            "packets_overflowed",
            "packets_missed",
            "emulation_late_p99_s",
            "other_programs_share",
        ],
    );
    for row in rows {
        for (number, pair) in row.pairs.iter().enumerate() {
            for who in Who::BOTH {
                let measured = pair.by(who);
                csv.row([
                    row.cell.name().into(),
                    (number as u64).into(),
                    who.name().into(),
                    row.bytes.into(),
                    measured.seconds.into(),
                    measured.goodput_bit_per_s.into(),
                    measured.retransmitted_bytes.into(),
                    measured.lost.into(),
                    measured.overflowed.into(),
                    measured.missed.into(),
                    measured.late_s.into(),
                    pair.others.into(),
                ])?;
            }
        }
    }
    Ok(csv)
}

/// How the senders stood, every tenth of a second.
pub fn trace(rows: &[Row], manifest: &Manifest) -> Result<Csv, ReportError> {
    let columns = [
        "cell",
        "pair",
        "sender",
        "seconds",
        "window_bytes",
        "in_flight_bytes",
        "round_trip_s",
        "acked_bytes",
    ];
    let mut csv = Csv::new(manifest, &columns);
    for row in rows {
        for (number, pair) in row.pairs.iter().enumerate() {
            for who in Who::BOTH {
                for sample in &pair.by(who).samples {
                    csv.row([
                        row.cell.name().into(),
                        (number as u64).into(),
                        who.name().into(),
                        sample.seconds.into(),
                        sample.window_bytes.into(),
                        sample.in_flight_bytes.into(),
                        sample.round_trip_s.into(),
                        sample.acked_bytes.into(),
                    ])?;
                }
            }
        }
    }
    Ok(csv)
}

/// All cells with their pairs.
pub fn json(rows: &[Row], manifest: &Manifest) -> Value {
    let row = |row: &Row| {
        json!({
            "cell": row.cell.name(),
            "profile": row.cell.control.profile(),
            "kernel_control": row.cell.control.kernel(),
            "rate_bit_per_s": row.cell.rate.bits_per_sec(),
            "round_trip_s": row.cell.round_trip.as_secs_f64(),
            "trouble": row.cell.trouble.label(),
            "bytes": row.bytes,
            "ours_bit_per_s": row.goodput(Who::Ours),
            "kernel_bit_per_s": row.goodput(Who::Kernel),
            "ratio": row.ratio(),
            "bound": row.cell.bound(),
            "holds": row.holds(),
            "emulation_exact": row.is_exact(),
            "failure": row.failure,
            "pairs": row.pairs,
        })
    };
    json!({ "manifest": manifest, "cells": rows.iter().map(row).collect::<Vec<_>>() })
}

/// One line for programs: how each cell stands.
pub fn summary(rows: &[Row]) -> Value {
    let ratios: serde_json::Map<String, Value> =
        rows.iter().map(|row| (row.cell.name(), json!(row.ratio()))).collect();
    json!({
        "cells": rows.len(),
        "hold": rows.iter().filter(|row| row.holds()).count(),
        "inexact": rows.iter().filter(|row| !row.is_exact()).count(),
        "ratios": ratios,
    })
}

/// The ratio of every cell, a panel a path.
pub fn figure(rows: &[Row]) -> Figure {
    let mut figure = Figure::new("Our sender and the Linux kernel's over the same path")
        .subtitle("Goodput of ours over that of the kernel's with the same congestion control")
        .caption(
            "Median of paired transfers that lost the same packets, to the same kernel receiver; the intervals \
             reach from the smallest ratio to the largest. Queue of one bandwidth-delay product.",
        )
        .columns(2)
        .share_y(Share::All);
    for path in rows_by_path(rows) {
        let mut troubles: Vec<String> = Vec::new();
        for row in &path {
            let label = row.cell.trouble.label();
            if !troubles.contains(&label) {
                troubles.push(label);
            }
        }
        let bound = path[0].cell.bound();
        let mut panel = Panel::new(&path[0].cell.path_label())
            .x(Axis::categories("", troubles.clone()))
            .y(Axis::new("ours / kernel", Unit::Times).from(0.0))
            .reference(&format!("{bound}"), bound);
        for (control, hue) in Control::ALL.into_iter().zip([Hue::Blue, Hue::Vermillion]) {
            let points = path.iter().filter(|row| row.cell.control == control).filter_map(|row| {
                let place = troubles.iter().position(|label| *label == row.cell.trouble.label())?;
                let (ratio, (low, high)) = (row.ratio()?, row.range()?);
                Some(Point::new(place as f64, ratio).within(low, high).text(format!("{ratio:.2}")))
            });
            panel = panel.series(Series::bars(control.profile(), hue).points(points));
        }
        figure = figure.panel(panel);
    }
    figure
}

fn rows_by_path(rows: &[Row]) -> Vec<Vec<&Row>> {
    let mut paths: Vec<Vec<&Row>> = Vec::new();
    for row in rows {
        match paths.iter_mut().find(|path| path[0].cell.path_label() == row.cell.path_label()) {
            Some(path) => path.push(row),
            None => paths.push(vec![row]),
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::super::result::tests::invented;
    use super::*;
    use shorthaul_report::Terminal;

    fn rows() -> Vec<Row> {
        ParityCase::all().into_iter().map(|cell| invented(cell, &[0.9, 0.97, 1.1])).collect()
    }

    #[test]
    fn every_form_has_every_cell() {
        let rows = rows();
        let manifest = Manifest::new("shorthaul", "0");
        let text = table(&rows).render(Terminal::PLAIN);
        assert_eq!(text.matches("0.97").count(), rows.len(), "{text}");
        let markdown = markdown(&rows, &manifest);
        assert_eq!(markdown.matches("| 0.97 |").count(), rows.len(), "{markdown}");
        let lines = markdown.lines().take_while(|line| line.starts_with('|'));
        assert_eq!(lines.count(), 2 + rows.len() / 2, "{markdown}");
        let csv = csv(&rows, &manifest).unwrap().text().into_owned();
        assert_eq!(csv.lines().filter(|line| !line.starts_with('#')).count(), 1 + rows.len() * 3 * 2);
        let json = json(&rows, &manifest);
        assert_eq!(json["cells"].as_array().unwrap().len(), rows.len());
        assert_eq!(json["cells"][0]["holds"], true);
        assert_eq!(summary(&rows)["hold"], rows.len());
        let svg = figure(&rows).to_svg(&manifest);
        assert!(svg.contains("1 Gbit/s") && svg.contains("sack-reno"));
    }

    #[test]
    fn a_cell_that_could_not_be_measured_is_seen_to_be_missing() {
        let mut rows = rows();
        rows[0].pairs.clear();
        rows[0].failure = Some("refused".to_owned());
        let manifest = Manifest::new("shorthaul", "0");
        assert!(table(&rows).render(Terminal::PLAIN).contains("failed"));
        assert!(markdown(&rows, &manifest).contains("| – | – | – |"));
        assert_eq!(summary(&rows)["hold"], rows.len() - 1);
        assert_eq!(json(&rows, &manifest)["cells"][0]["failure"], "refused");
    }
}
