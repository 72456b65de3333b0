//! What the paper says of each figure, beside what the runs say.
use super::{
    LARGE_WINDOW, PACKET, SMALL_WINDOW, goodputs, number_of, packets, place, service_time_of, value,
};
use shorthaul_observe::{Finding, RunRecord};
use shorthaul_report::Unit;
use shorthaul_report::plot::Point;
use shorthaul_scenario::Series;

fn seconds(time: Option<f64>) -> String {
    time.map_or("never".to_owned(), |time| Unit::Seconds.format(time))
}

fn percent(share: f64) -> String {
    Unit::Percent.format(share)
}

/// Which connection: directly, or the first or second of a session.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leg {
    Direct,
    First,
    Second,
}

/// The congestion window of a connection over time, in packets, with the first seed.
fn window(records: &[RunRecord], leg: Leg) -> Vec<(f64, f64)> {
    let seed = records.first().map(|record| record.seed);
    let is_meant =
        |record: &&RunRecord| Some(record.seed) == seed && (value(record) == "[]") == (leg == Leg::Direct);
    let series = records
        .iter()
        .filter(is_meant)
        .flat_map(|record| &record.outcome)
        .flat_map(|outcome| &outcome.series);
    let mut of_leg = series.filter(|series| {
        series.series == Series::Cwnd && series.subject.contains('@') == (leg == Leg::Second)
    });
    of_leg.next().map_or_else(Vec::new, |series| {
        series.points.iter().map(|(time, bytes)| (*time, bytes / PACKET)).collect()
    })
}

/// When a window first has `packets`.
fn reaches(window: &[(f64, f64)], packets: f64) -> Option<f64> {
    window.iter().find(|(_, size)| *size >= packets).map(|(time, _)| *time)
}

/// When a window that had ten packets falls to one, as Tahoe's does at a loss.
fn notices_loss(window: &[(f64, f64)]) -> Option<f64> {
    let grown = reaches(window, 10.0)?;
    window.iter().find(|(time, size)| *time > grown && *size <= 2.0).map(|(time, _)| *time)
}

/// The throughput at a place, number or size.
fn at(points: &[Point], x: f64) -> f64 {
    points.iter().find(|point| point.x == x).map_or(f64::NAN, |point| point.y)
}

pub(super) fn fig2(records: &[RunRecord]) -> Vec<Finding> {
    let time = |leg| seconds(reaches(&window(records, leg), 20.0));
    vec![Finding::shown(
        "Fig. 2, how long until the window has 20 packets",
        "longer for TCP than for either connection of PTS",
        format!("{} directly, {} and {} with a node", time(Leg::Direct), time(Leg::First), time(Leg::Second)),
    )]
}

pub(super) fn fig3(records: &[RunRecord]) -> Vec<Finding> {
    let second = notices_loss(&window(records, Leg::Second));
    vec![Finding::shown(
        "Fig. 3, the second connection's window with a loss on the first half",
        "not affected",
        second.map_or("not affected".to_owned(), |at| format!("falls at {at:.2} s")),
    )]
}

pub(super) fn fig4(records: &[RunRecord]) -> Vec<Finding> {
    let noticed = |leg| notices_loss(&window(records, leg));
    let earlier = noticed(Leg::Direct).zip(noticed(Leg::First)).map(|(direct, first)| direct - first);
    vec![Finding::shown("Fig. 4, how much earlier the loss is noticed", "almost 1 s", seconds(earlier))]
}

pub(super) fn fig5(records: &[RunRecord]) -> Vec<Finding> {
    let points = goodputs(records, place);
    let Some(best) = points.iter().max_by(|a, b| a.y.total_cmp(&b.y)) else { return Vec::new() };
    vec![
        Finding::shown(
            "Fig. 5, the best place",
            "the middle of eight hops",
            format!("after {} hops", best.x),
        ),
        Finding::shown(
            "Fig. 5, a node fixed after 6 hops",
            "below the best",
            format!("{} of the best", percent(at(&points, 6.0) / best.y)),
        ),
        Finding::shown(
            "Fig. 5, no node",
            "below any",
            format!("{} of the best", percent(at(&points, 0.0) / best.y)),
        ),
    ]
}

pub(super) fn fig6(records: &[RunRecord]) -> Vec<Finding> {
    let direct = goodputs(records, |record| (record.case.as_deref() == Some("direct")).then_some(0.0));
    let direct = direct.first().map_or(f64::NAN, |point| point.y);
    let served = |prefix: &str, what: &str| {
        let points = goodputs(records, |record| service_time_of(record, prefix));
        let better = points.iter().filter(|point| point.y > direct).map(|point| point.x).reduce(f64::max);
        let worse = points.iter().filter(|point| point.y <= direct).map(|point| point.x).reduce(f64::min);
        Finding::shown(
            format!("Fig. 6, up to which service time a node is better than none, {what}"),
            "while it is far below the second leg's round trip (80 ms)",
            format!("better up to {}, no better from {}", seconds(better), seconds(worse)),
        )
    };
    vec![
        served("ts-", "one packet served after the other"),
        served("late-", "all served at once, acknowledged after"),
    ]
}

pub(super) fn fig7(records: &[RunRecord]) -> Vec<Finding> {
    let with = |case: &str, window: &str| {
        let points = goodputs(records, |record| number_of(record, case));
        let compared = |a: f64, b: f64| percent(at(&points, a) / at(&points, b));
        let last = points.last().map_or(0.0, |point| point.x);
        [
            Finding::shown(
                format!("Fig. 7, two nodes, {window}"),
                "about as one",
                format!("{} of one", compared(2.0, 1.0)),
            ),
            Finding::shown(
                format!("Fig. 7, more nodes, {window}"),
                "falling",
                format!(
                    "three {}, four {}, {last} {} of two",
                    compared(3.0, 2.0),
                    compared(4.0, 2.0),
                    compared(last, 2.0)
                ),
            ),
        ]
    };
    [with(SMALL_WINDOW, "window of 20 packets"), with(LARGE_WINDOW, "window of 220 packets")].concat()
}

pub(super) fn buffer(records: &[RunRecord]) -> Vec<Finding> {
    let points = goodputs(records, packets);
    let Some(most) = points.iter().max_by(|a, b| a.y.total_cmp(&b.y)) else { return Vec::new() };
    let enough = points.iter().find(|point| point.y > 0.99 * most.y).map_or(0.0, |point| point.x);
    vec![Finding::shown(
        "abstract, the effect of the buffer",
        "named, not shown",
        format!("none from {enough} packets on"),
    )]
}
