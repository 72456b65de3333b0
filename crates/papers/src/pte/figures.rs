//! The figures.
use super::bound::{self, Packets};
use super::findings::FIGURE_3;
use crate::error::Result;
use shorthaul_observe::RunRecord;
use shorthaul_observe::{EngineName, Summary};
use shorthaul_report::Unit;
use shorthaul_report::plot::{Axis, Dash, Figure, Hue, Mark, Marker, Panel, Point, Series};
use shorthaul_scenario::{Metric, Series as Measured, Study};
use shorthaul_types::Bytes;
use std::collections::BTreeMap;

/// The policies, in the order of the legends.
pub(super) const POLICIES: [(&str, Hue, Dash); 10] = [
    ("direct", Hue::Black, Dash::Solid),
    ("split", Hue::Sky, Dash::Solid),
    ("path-tail", Hue::Blue, Dash::Solid),
    ("path-tail-told", Hue::Blue, Dash::Dashed),
    ("path-tail-est", Hue::Blue, Dash::Dotted),
    ("agg", Hue::Purple, Dash::Solid),
    ("clamp", Hue::Vermillion, Dash::Solid),
    ("constant-queue", Hue::Green, Dash::Solid),
    ("ack-regulator", Hue::Orange, Dash::Solid),
    ("m-tcp", Hue::Black, Dash::Dotted),
];

/// What Figure 3 moves, in bytes.
const FILE: f64 = 2e6;

/// What the paper states, laid over ours.
fn the_papers(label: &str, hue: Hue) -> Series {
    Series::dots(label, hue).marker(Marker::Diamond)
}

/// The line of a policy, with a marker that tells it from others where colours do not.
fn of_policy(policy: &str, hue: Hue, dash: Dash) -> Series {
    const MARKERS: [Marker; 4] = [Marker::Circle, Marker::Square, Marker::Triangle, Marker::Diamond];
    let place = POLICIES.iter().position(|(other, ..)| *other == policy).unwrap_or(POLICIES.len());
    Series::new(policy, Mark::LineAndDots, hue).dash(dash).marker(MARKERS[place % MARKERS.len()])
}

fn delivered(records: &[RunRecord], case: &str, seed: u64) -> Vec<(f64, f64)> {
    let record = records.iter().find(|r| r.case.as_deref() == Some(case) && r.seed == seed);
    let series = record.and_then(|record| record.outcome.as_ref()).map(|outcome| &outcome.series);
    let found = series.and_then(|all| all.iter().find(|series| series.series == Measured::Delivered));
    found.map(|series| series.points.clone()).unwrap_or_default()
}

/// Figure 3: what the application has received, over time, and the mobile link's bound.
pub(super) fn fig3(study: &Study, records: &[RunRecord]) -> Result<Vec<(String, Figure)>> {
    received(study, records, "figure-3", ["with", "without"], Packets::of(Bytes(2_000_000), Bytes(1000)))
}

/// The same between kernels, and what the simulator makes of the same file.
pub(super) fn fig3_live(study: &Study, records: &[RunRecord]) -> Result<Vec<(String, Figure)>> {
    let mut figures = Vec::new();
    for (engine, name) in [(EngineName::Live, "figure-3-live"), (EngineName::Sim, "figure-3-live-simulated")]
    {
        let own: Vec<RunRecord> = records.iter().filter(|record| record.engine == engine).cloned().collect();
        for (cases, suffix) in
            [(["reno-with", "reno-without"], ""), (["cubic-with", "cubic-without"], "-cubic")]
        {
            let packets = Packets::of(Bytes(2_000_000), Bytes(1448));
            figures.extend(received(study, &own, &format!("{name}{suffix}"), cases, packets)?);
        }
    }
    Ok(figures)
}

fn received(
    study: &Study,
    records: &[RunRecord],
    name: &str,
    [with, without]: [&str; 2],
    packets: Packets,
) -> Result<Vec<(String, Figure)>> {
    // the run in the middle: by the time without path tail emulation
    let mut times: Vec<(f64, u64)> = records
        .iter()
        .filter(|record| record.case.as_deref() == Some(without))
        .filter_map(|record| Some((record.outcome.as_ref()?.ended_at, record.seed)))
        .collect();
    times.sort_by(|a, b| a.0.total_cmp(&b.0));
    let Some((_, seed)) = times.get(times.len() / 2).copied() else { return Ok(Vec::new()) };
    let scenario = study.scenario(&study.points()[0])?;
    let bound = bound::curve(&scenario, "station-mobile", seed, packets)?;
    let panel = Panel::new("")
        .x(Axis::new("time", Unit::Seconds).from(0.0))
        .y(Axis::new("received by the application", Unit::Bytes).from(0.0))
        .series(Series::line("bound of the mobile link", Hue::Black).dash(Dash::Dashed).points(bound))
        .series(Series::line("with path tail emulation", Hue::Blue).points(delivered(records, with, seed)))
        .series(Series::line("without", Hue::Vermillion).points(delivered(records, without, seed)))
        .series(the_papers("the paper's end, with", Hue::Blue).points([(FIGURE_3[0], FILE)]))
        .series(the_papers("without", Hue::Vermillion).points([(FIGURE_3[1], FILE)]));
    let title = "Figure 3: 2 MB with and without path tail emulation";
    Ok(vec![(
        name.to_owned(),
        Figure::new(title).subtitle(&format!("{with}, {without}; seed {seed}")).panel(panel),
    )])
}

/// The share of packets that need a recovery, where it is swept.
pub(super) fn share_of(record: &RunRecord) -> Option<f64> {
    record.values.iter().find(|(path, _)| path.ends_with(".share")).and_then(|(_, value)| value.parse().ok())
}

/// How long 2 MB take with and without, by the share of packets that need a recovery.
pub(super) fn over_shares(name: &str, records: &[RunRecord]) -> Vec<(String, Figure)> {
    let mut panel = Panel::new("")
        .x(Axis::new("packets that need a recovery", Unit::Percent))
        .y(Axis::new("2 MB take", Unit::Seconds).from(0.0))
        .reference("the paper, without", FIGURE_3[1])
        .reference("the paper, with", FIGURE_3[0]);
    for (case, hue) in [("with", Hue::Blue), ("without", Hue::Vermillion)] {
        let mut times: BTreeMap<u64, (f64, Vec<f64>)> = BTreeMap::new();
        for record in records.iter().filter(|record| record.case.as_deref() == Some(case)) {
            let time = record.outcome.as_ref().and_then(|outcome| outcome.metrics.get(&Metric::Completion));
            if let (Some(share), Some(time)) = (share_of(record), time) {
                // shares are not negative, so their bits are in their order
                times.entry(share.to_bits()).or_insert_with(|| (share, Vec::new())).1.push(*time);
            }
        }
        let points = times.into_values().filter_map(|(share, times)| {
            let summary = Summary::of(times)?;
            let half = summary.confidence().unwrap_or(0.0);
            Some(Point::new(share, summary.mean).within(summary.mean - half, summary.mean + half))
        });
        panel = panel.series(Series::new(case, Mark::LineAndDots, hue).points(points));
    }
    let figure = Figure::new("Figure 3 by the share of packets that need a recovery").panel(panel);
    vec![(name.to_owned(), figure)]
}

/// What is swept to vary the wired round trip.
pub(super) const DELAY: &str = "links.server-station.link.delay";

/// The values of a metric by case, as summaries over the seeds.
fn by_case(records: &[RunRecord], metric: Metric) -> BTreeMap<(&str, Vec<&str>), Summary> {
    let mut values: BTreeMap<(&str, Vec<&str>), Vec<f64>> = BTreeMap::new();
    for record in records {
        let value = record.outcome.as_ref().and_then(|outcome| outcome.metrics.get(&metric));
        if let (Some(case), Some(value)) = (record.case.as_deref(), value) {
            let swept = record.values.iter().map(|(_, value)| value.as_str()).collect();
            values.entry((case, swept)).or_default().push(*value);
        }
    }
    values.into_iter().filter_map(|(key, values)| Some((key, Summary::of(values)?))).collect()
}

/// A one-way delay as it is written, in seconds of round trip.
fn round_trip(value: &str) -> Option<f64> {
    let one_way = shorthaul_types::parse_duration(value.trim_matches('"')).ok()?;
    Some(2.0 * one_way.as_secs_f64())
}

/// What is swept beside the round trip, as it is written: one figure each.
fn others(record: &RunRecord) -> Vec<(&str, &str)> {
    let values = record.values.iter().filter(|(path, _)| path != DELAY);
    values.map(|(path, value)| (path.as_str(), value.as_str())).collect()
}

/// A swept value for a reader.
pub(super) fn in_words(path: &str, value: &str) -> String {
    let value = value.trim_matches('"');
    let round_trip = round_trip(value).filter(|_| path == DELAY);
    let period = value.split("lasts = \"").nth(1).and_then(|rest| rest.split('"').next());
    match (round_trip, period) {
        (Some(round_trip), _) => format!("{} wired", Unit::Seconds.format(round_trip)),
        (_, Some(period)) => format!("the rate changes every {period}"),
        _ if path.ends_with(".count") && value == "1" => "one flow".to_owned(),
        _ if path.ends_with(".count") => format!("{value} flows"),
        _ => value.to_owned(),
    }
}

/// The same of all that is swept, and what tells the figure's file from the others.
fn described(others: &[(&str, &str)], place: usize) -> (String, String) {
    let words: Vec<String> = others.iter().map(|(path, value)| in_words(path, value)).collect();
    (words.join(", "), if place == 0 { String::new() } else { format!("-{}", place + 1) })
}

/// Throughput, what the gateway holds, round trips, closed windows, RTOs and fairness, by policy over the
/// wired round trip: a figure for each number of flows and each pattern of the rate.
pub(super) fn over_round_trip(name: &str, title: &str, records: &[RunRecord]) -> Vec<(String, Figure)> {
    let mut kinds: Vec<Vec<(&str, &str)>> = Vec::new();
    for record in records {
        if !kinds.contains(&others(record)) {
            kinds.push(others(record));
        }
    }
    let figure = |(place, kind): (usize, &Vec<(&str, &str)>)| {
        let of_kind: Vec<&RunRecord> = records.iter().filter(|record| others(record) == *kind).collect();
        let (subtitle, suffix) = described(kind, place);
        (format!("{name}{suffix}"), panels(title, &subtitle, &of_kind))
    };
    kinds.iter().enumerate().map(figure).collect()
}

fn panels(title: &str, subtitle: &str, records: &[&RunRecord]) -> Figure {
    let mut figure = Figure::new(title).subtitle(subtitle).columns(2);
    for (metric, label, unit) in [
        (Metric::Goodput, "throughput", Unit::BitsPerSecond),
        (Metric::HeldMost, "held by the gateway, at most", Unit::Bytes),
        (Metric::Rtt, "round trip of the sender", Unit::Seconds),
        (Metric::WindowLimited, "waiting for the window", Unit::Seconds),
        (Metric::Timeouts, "RTOs of the senders", Unit::None),
        (Metric::Fairness, "fairness (Jain)", Unit::None),
    ] {
        if metric == Metric::Fairness && records.iter().all(|record| flows_of(record) < 2) {
            continue;
        }
        let y = match metric {
            // milliseconds with one policy, half a minute with another
            Metric::Rtt => Axis::new(label, unit).logarithmic(),
            Metric::Timeouts => Axis::new(label, unit).from(0.0).counts(),
            _ => Axis::new(label, unit).from(0.0),
        };
        let mut panel = Panel::new("").x(Axis::new("wired round trip", Unit::Seconds).logarithmic()).y(y);
        for (policy, hue, dash) in POLICIES {
            let mut values: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
            for record in records.iter().filter(|record| record.case.as_deref() == Some(policy)) {
                let swept = record.values.iter().find(|(path, _)| path == DELAY);
                let value = record.outcome.as_ref().and_then(|outcome| outcome.metrics.get(&metric));
                if let (Some((_, swept)), Some(value)) = (swept, value) {
                    values.entry(swept).or_default().push(*value);
                }
            }
            let point = |(swept, values): (&str, Vec<f64>)| {
                Some(Point::new(round_trip(swept)?, Summary::of(values)?.mean))
            };
            let mut points: Vec<Point> = values.into_iter().filter_map(point).collect();
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            if !points.is_empty() {
                panel = panel.series(of_policy(policy, hue, dash).points(points));
            }
        }
        figure = figure.panel(panel);
    }
    figure
}

fn flows_of(record: &RunRecord) -> usize {
    record.outcome.as_ref().map_or(0, |outcome| outcome.flows.len())
}

/// Bars of throughput, of the most that was held and of RTOs, by policy.
pub(super) fn by_policy(name: &str, title: &str, records: &[RunRecord]) -> Vec<(String, Figure)> {
    let mut figure = Figure::new(title).columns(1);
    for (metric, label, unit) in [
        (Metric::Goodput, "throughput", Unit::BitsPerSecond),
        (Metric::HeldMost, "held by the gateway, at most", Unit::Bytes),
        (Metric::Timeouts, "RTOs of the sender", Unit::None),
    ] {
        let values = by_case(records, metric);
        let of_policy = |policy: &str| {
            Summary::of(
                values.iter().filter(|((case, _), _)| *case == policy).map(|(_, summary)| summary.mean),
            )
        };
        let shown: Vec<(&str, Summary)> =
            POLICIES.iter().filter_map(|(policy, ..)| Some((*policy, of_policy(policy)?))).collect();
        let bars =
            shown.iter().enumerate().map(|(place, (_, summary))| Point::new(place as f64, summary.mean));
        let y = Axis::new(label, unit).from(0.0);
        let panel = Panel::new("")
            .x(Axis::categories("", shown.iter().map(|(policy, _)| *policy)))
            .y(if metric == Metric::Timeouts { y.counts() } else { y })
            .series(Series::bars("", Hue::Blue).points(bars));
        figure = figure.panel(panel);
    }
    vec![(name.to_owned(), figure)]
}

/// What each flow got, by policy; a panel for each engine.
pub(super) fn shares(name: &str, records: &[RunRecord]) -> Vec<(String, Figure)> {
    let mut figure = Figure::new("How four flows share 2 Mbit/s").columns(2);
    for (engine, title) in [(EngineName::Sim, "simulated"), (EngineName::Live, "between kernels")] {
        let own: Vec<&RunRecord> = records.iter().filter(|record| record.engine == engine).collect();
        if !own.is_empty() {
            figure = figure.panel(each_flow(title, "wired round trip of the flow", &ROUND_TRIPS, &own));
        }
    }
    vec![(name.to_owned(), figure)]
}

/// What the users of a cell got each, by policy; a panel for each scheduler.
pub(super) fn by_scheduler(name: &str, records: &[RunRecord]) -> Vec<(String, Figure)> {
    let mut figure = Figure::new("Four users of one cell, one of them far from the mast").columns(2);
    let mut schedulers: Vec<&str> = Vec::new();
    for (_, value) in records.iter().flat_map(|record| &record.values) {
        if !schedulers.contains(&value.as_str()) {
            schedulers.push(value);
        }
    }
    for scheduler in schedulers {
        let is_own = |record: &&RunRecord| record.values.iter().any(|(_, value)| value == scheduler);
        let own: Vec<&RunRecord> = records.iter().filter(is_own).collect();
        figure = figure.panel(each_flow(scheduler.trim_matches('"'), "user", &USERS, &own));
    }
    vec![(name.to_owned(), figure)]
}

/// The flows of the studies of fairness, and the users of the cell.
const ROUND_TRIPS: [&str; 4] = ["10 ms", "50 ms", "100 ms", "300 ms"];
const USERS: [&str; 4] = ["near a", "near b", "near c", "far"];

/// The throughput of each flow, a line for each policy.
fn each_flow(title: &str, flows: &str, names: &[&str], records: &[&RunRecord]) -> Panel {
    let mut panel = Panel::new(title).x(Axis::categories(flows, names.iter().copied())).y(Axis::new(
        "throughput",
        Unit::BitsPerSecond,
    )
    .from(0.0));
    for (policy, hue, dash) in POLICIES.into_iter().chain([("per-host", Hue::Sky, Dash::Dashed)]) {
        let mut flows: Vec<Vec<f64>> = Vec::new();
        let of_case = records.iter().filter(|record| record.case.as_deref() == Some(policy));
        for outcome in of_case.filter_map(|record| record.outcome.as_ref()) {
            flows.resize(outcome.flows.len(), Vec::new());
            outcome.flows.iter().zip(&mut flows).for_each(|(flow, all)| all.push(flow.goodput));
        }
        let point = |(place, all): (usize, Vec<f64>)| Some(Point::new(place as f64, Summary::of(all)?.mean));
        let points: Vec<Point> = flows.into_iter().enumerate().filter_map(point).collect();
        if !points.is_empty() {
            panel = panel.series(of_policy(policy, hue, dash).points(points));
        }
    }
    panel
}
