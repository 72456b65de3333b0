//! The paper's figures, drawn from our runs.
use super::Runs;
use super::findings::proxy::FULL;
use super::measures::*;
use shorthaul_observe::RunRecord;
use shorthaul_report::Unit;
use shorthaul_report::plot::{Axis, Figure, Hue, Mark, Marker, Panel, Point, Series, Share};
use shorthaul_scenario::Series as Measured;

/// File names and figures of what was run.
pub(super) fn all(runs: &Runs) -> Vec<(&'static str, Figure)> {
    let draw = |name: &'static str, file, figure: fn(&[RunRecord]) -> Figure| {
        runs.get(name).map(|records| (file, figure(records)))
    };
    [
        draw("fig1", "figure-1", single_packets),
        draw("fig2", "figure-2", |records| {
            // "About 6 s ... to ramp the congestion window up to the effective link BDP", which is 10 kB (§III).
            let stated = [(Measured::InFlight, (6.0, 10e3))];
            over_time(records, "Figure 2: the beginning of a direct download", &[""], &stated)
        }),
        draw("fig3", "figure-3", |records| {
            over_time(records, "Figure 3: 600 kB directly, with a stall that loses", &[""], &[])
        }),
        draw("fig4", "figure-4", |records| {
            two_flows(records, "Figure 4: a direct download that joins another", &[""])
        }),
        draw("fig9", "figure-9", short_downloads),
        draw("fig10", "figure-10", |records| {
            two_flows(
                records,
                "Figure 10: a download that joins another after 30 s",
                &["direct", "aggregate"],
            )
        }),
        draw("fig11", "figure-11", windows),
        draw("fig12", "figure-12", |records| {
            over_time(
                records,
                "Figure 12: a stall of 8 s after 90 s",
                &["direct-held", "aggregate-held"],
                &[],
            )
        }),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn single_packets(records: &[RunRecord]) -> Figure {
    let mut times = transfers(records, "", None);
    times.sort_by(f64::total_cmp);
    let count = times.len() as f64;
    let points = times.iter().enumerate().map(|(i, time)| (*time, (i + 1) as f64 / count));
    let panel = Panel::new("")
        .x(Axis::new("time for 100 B up and 1024 B down", Unit::Seconds).from(0.0))
        .y(Axis::new("share of the packets", Unit::Percent).from(0.0))
        .series(Series::line("single packets", Hue::Blue).points(points));
    Figure::new("Figure 1: delays of single packets over GPRS").panel(panel)
}

fn short_downloads(records: &[RunRecord]) -> Figure {
    let mut panel = Panel::new("").x(Axis::new("size", Unit::Bytes).from(0.0)).y(Axis::new(
        "transfer time",
        Unit::Seconds,
    )
    .from(0.0));
    for (case, label, hue) in [
        ("direct", "direct", Hue::Vermillion),
        ("aggregate", "aggregate, 14 kB", Hue::Blue),
        ("auto", "aggregate, auto", Hue::Green),
    ] {
        let points = [5.0, 10.0, 15.0, 17.0, 20.0, 25.0, 30.0].into_iter().filter_map(|kb| {
            let times = transfers(records, case, Some(kb));
            let (mean, deviation) = (mean(&times)?, deviation(&times)?);
            Some(Point::new(kb * 1e3, mean).within(mean - deviation, mean + deviation))
        });
        panel = panel.series(Series::new(label, Mark::LineAndDots, hue).points(points));
    }
    Figure::new("Figure 9: short downloads over GPRS")
        .caption("Mean and standard deviation of 25 downloads.")
        .panel(panel)
}

/// What the paper states, laid over ours.
fn the_papers() -> Series {
    Series::dots("the paper", Hue::Black).marker(Marker::Diamond)
}

/// A row of panels: what is measured, how the axis is called, and its unit.
type Quantity = (Measured, &'static str, Unit);

/// What the paper states of a quantity: its value at a time.
type Stated = (Measured, (f64, f64));

/// The points of a flow in the first run of a case: of what it delivers, or of who sends it over the wireless link.
fn curve<'a>(records: &'a [RunRecord], case: &'a str, of: Measured, flow: &str) -> Option<&'a [(f64, f64)]> {
    let (record, outcome) = outcomes(records, case).next()?;
    let subject = if of == Measured::Delivered { flow.to_owned() } else { wireless(record, outcome, flow)? };
    points(outcome, of, &subject)
}

/// A row for each quantity that is known of all cases, a column for each case.
fn rows(
    records: &[RunRecord],
    title: &str,
    cases: &[&str],
    flows: &[(&str, &str, Hue)],
    quantities: &[Quantity],
    stated: &[Stated],
) -> Figure {
    let mut figure = Figure::new(title).columns(cases.len()).share_x(Share::All).share_y(Share::Row);
    for &(of, label, unit) in quantities {
        if cases.iter().any(|case| curve(records, case, of, flows[0].0).is_none()) {
            continue; // live, what the gateway has in flight is not known
        }
        for case in cases {
            let mut panel = Panel::new(case)
                .x(Axis::new("time", Unit::Seconds).from(0.0))
                .y(Axis::new(label, unit).from(0.0));
            for &(flow, label, hue) in flows {
                let points = curve(records, case, of, flow).unwrap_or_default();
                panel = panel.series(Series::line(label, hue).points(points.iter().copied()));
            }
            let stated: Vec<(f64, f64)> =
                stated.iter().filter(|(what, _)| *what == of).map(|(_, at)| *at).collect();
            if !stated.is_empty() {
                panel = panel.series(the_papers().points(stated));
            }
            figure = figure.panel(panel);
        }
    }
    figure
}

/// What each of two flows delivers over time, and what is in flight of it over the wireless link; the first seed.
fn two_flows(records: &[RunRecord], title: &str, cases: &[&str]) -> Figure {
    let flows = [("first", "first", Hue::Blue), ("second", "second", Hue::Vermillion)];
    let quantities =
        [(Measured::Delivered, "delivered", Unit::Bytes), (Measured::InFlight, "in flight", Unit::Bytes)];
    rows(records, title, cases, &flows, &quantities, &[])
}

/// Data in flight and round-trip time of one flow over the wireless link, and what it has delivered; the first seed.
fn over_time(records: &[RunRecord], title: &str, cases: &[&str], stated: &[Stated]) -> Figure {
    let quantities = [
        (Measured::InFlight, "in flight", Unit::Bytes),
        (Measured::Rtt, "round-trip time", Unit::Seconds),
        (Measured::Delivered, "delivered", Unit::Bytes),
    ];
    rows(records, title, cases, &[("file", "", Hue::Blue)], &quantities, stated)
}

fn windows(records: &[RunRecord]) -> Figure {
    const CASES: [(&str, f64); 9] = [
        ("5kB", 5e3),
        ("7kB", 7e3),
        ("10kB", 10e3),
        ("12kB", 12e3),
        ("13kB", 13e3),
        ("14kB", 14e3),
        ("16kB", 16e3),
        ("20kB", 20e3),
        ("32kB", 32e3),
    ];
    let mut time = Panel::new("")
        .x(Axis::new("window", Unit::Bytes).from(0.0))
        .y(Axis::new("600 kB take", Unit::Seconds).from(0.0))
        .series(Series::new("fixed", Mark::LineAndDots, Hue::Blue).points(
            CASES.iter().filter_map(|(case, window)| Some((*window, mean(&transfers(records, case, None))?))),
        ))
        .series(the_papers().points(
            // "The transfer takes 155 s with any window size greater than equal to 10 kB" (§VI-C).
            CASES.iter().filter(|(_, window)| *window >= 10e3).map(|(_, window)| (*window, FULL)),
        ));
    let mut waits = Panel::new("")
        .x(Axis::new("window", Unit::Bytes).from(0.0))
        .y(Axis::new("mean queue of the link", Unit::Seconds).from(0.0))
        .series(
            Series::new("fixed", Mark::LineAndDots, Hue::Blue)
                .points(CASES.iter().filter_map(|(case, window)| Some((*window, queue(records, case)?)))),
        );
    for case in ["auto", "direct"] {
        if let (Some(seconds), Some(queue)) = (mean(&transfers(records, case, None)), queue(records, case)) {
            time = time.reference(case, seconds);
            waits = waits.reference(case, queue);
        }
    }
    Figure::new("Figure 11: 600 kB by the size of the shared window").panel(time).panel(waits)
}
