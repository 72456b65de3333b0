//! The figures.
use super::bound::{self, Packets};
use shorthaul_report::Unit;
use shorthaul_report::plot::{Axis, Dash, Figure, Hue, Panel, Point, Series};
use shorthaul_scenario::{Metric, Series as Measured, Study, Summary};
use shorthaul_sim::RunRecord;
use shorthaul_types::Bytes;
use std::collections::BTreeMap;

/// The policies, in the order of the legends.
const POLICIES: [(&str, Hue); 10] = [
    ("direct", Hue::Black),
    ("split", Hue::Sky),
    ("path-tail", Hue::Blue),
    ("path-tail-told", Hue::Sky),
    ("path-tail-est", Hue::Green),
    ("agg", Hue::Purple),
    ("clamp", Hue::Vermillion),
    ("constant-queue", Hue::Green),
    ("ack-regulator", Hue::Orange),
    ("m-tcp", Hue::Yellow),
];

fn delivered(records: &[RunRecord], case: &str, seed: u64) -> Vec<(f64, f64)> {
    let record = records.iter().find(|r| r.case.as_deref() == Some(case) && r.seed == seed);
    let series = record.and_then(|record| record.outcome.as_ref()).map(|outcome| &outcome.series);
    let found = series.and_then(|all| all.iter().find(|series| series.series == Measured::Delivered));
    found.map(|series| series.points.clone()).unwrap_or_default()
}

/// Figure 3: what the application has received, over time, and the mobile link's bound.
pub(super) fn fig3(study: &Study, records: &[RunRecord]) -> anyhow::Result<Vec<(&'static str, Figure)>> {
    received(study, records, "figure-3", Packets::of(Bytes(2_000_000), Bytes(1000)))
}

pub(super) fn fig3_live(study: &Study, records: &[RunRecord]) -> anyhow::Result<Vec<(&'static str, Figure)>> {
    received(study, records, "figure-3-live", Packets::of(Bytes(2_000_000), Bytes(1448)))
}

fn received(
    study: &Study,
    records: &[RunRecord],
    name: &'static str,
    packets: Packets,
) -> anyhow::Result<Vec<(&'static str, Figure)>> {
    // the run in the middle: by the time without path tail emulation
    let mut times: Vec<(f64, u64)> = records
        .iter()
        .filter(|record| record.case.as_deref() == Some("without"))
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
        .series(Series::line("with path tail emulation", Hue::Blue).points(delivered(records, "with", seed)))
        .series(Series::line("without", Hue::Vermillion).points(delivered(records, "without", seed)));
    let title = "Figure 3: 2 MB with and without path tail emulation";
    Ok(vec![(name, Figure::new(title).subtitle(&format!("seed {seed}")).panel(panel))])
}

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
fn round_trip(values: &[&str]) -> Option<f64> {
    let one_way = shorthaul_types::parse_duration(values.first()?.trim_matches('"')).ok()?;
    Some(2.0 * one_way.as_secs_f64())
}

/// Throughput, what the gateway holds, and the senders' round trips, by policy over the wired round trip.
pub(super) fn over_round_trip(
    name: &'static str,
    title: &str,
    records: &[RunRecord],
) -> Vec<(&'static str, Figure)> {
    let mut figure = Figure::new(title).columns(2);
    for (metric, label, unit) in [
        (Metric::Goodput, "throughput", Unit::BitsPerSecond),
        (Metric::Held, "held by the gateway, mean", Unit::Bytes),
        (Metric::Rtt, "round trip of the sender", Unit::Seconds),
        (Metric::WindowLimited, "waiting for the window", Unit::Seconds),
    ] {
        let values = by_case(records, metric);
        let mut panel = Panel::new("")
            .x(Axis::new("wired round trip", Unit::Seconds).logarithmic())
            .y(Axis::new(label, unit).from(0.0));
        for (policy, hue) in POLICIES {
            let points = values.iter().filter(|((case, _), _)| *case == policy);
            let mut points: Vec<Point> = points
                .filter_map(|((_, swept), summary)| Some(Point::new(round_trip(swept)?, summary.mean)))
                .collect();
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            if !points.is_empty() {
                panel = panel.series(Series::line(policy, hue).points(points));
            }
        }
        figure = figure.panel(panel);
    }
    vec![(name, figure)]
}

/// Bars of throughput, of the most that was held and of time-outs, by policy.
pub(super) fn by_policy(
    name: &'static str,
    title: &str,
    records: &[RunRecord],
) -> Vec<(&'static str, Figure)> {
    let mut figure = Figure::new(title).columns(1);
    for (metric, label, unit) in [
        (Metric::Goodput, "throughput", Unit::BitsPerSecond),
        (Metric::HeldMost, "held by the gateway, at most", Unit::Bytes),
        (Metric::Timeouts, "time-outs of the sender", Unit::None),
    ] {
        let values = by_case(records, metric);
        let of_policy = |policy: &str| {
            Summary::of(
                values.iter().filter(|((case, _), _)| *case == policy).map(|(_, summary)| summary.mean),
            )
        };
        let shown: Vec<(&str, Summary)> =
            POLICIES.iter().filter_map(|(policy, _)| Some((*policy, of_policy(policy)?))).collect();
        let bars =
            shown.iter().enumerate().map(|(place, (_, summary))| Point::new(place as f64, summary.mean));
        let panel = Panel::new("")
            .x(Axis::categories("", shown.iter().map(|(policy, _)| *policy)))
            .y(Axis::new(label, unit).from(0.0))
            .series(Series::bars("", Hue::Blue).points(bars));
        figure = figure.panel(panel);
    }
    vec![(name, figure)]
}

/// What each flow got, by policy.
pub(super) fn shares(name: &'static str, records: &[RunRecord]) -> Vec<(&'static str, Figure)> {
    let mut panel = Panel::new("")
        .x(Axis::new("flow, by wired round trip: 10, 50, 100, 300 ms", Unit::None))
        .y(Axis::new("throughput", Unit::BitsPerSecond).from(0.0));
    for (policy, hue) in POLICIES {
        let mut flows: Vec<Vec<f64>> = Vec::new();
        for record in records.iter().filter(|record| record.case.as_deref() == Some(policy)) {
            let Some(outcome) = &record.outcome else { continue };
            flows.resize(outcome.flows.len(), Vec::new());
            outcome.flows.iter().zip(&mut flows).for_each(|(flow, all)| all.push(flow.goodput));
        }
        let points = flows
            .into_iter()
            .enumerate()
            .filter_map(|(place, all)| Some(Point::new(place as f64 + 1.0, Summary::of(all)?.mean)));
        let points: Vec<Point> = points.collect();
        if !points.is_empty() {
            panel = panel.series(Series::line(policy, hue).points(points));
        }
    }
    vec![(name, Figure::new("How four flows share 2 Mbit/s").panel(panel))]
}
