//! What the paper says of each figure, beside what the runs say.
use super::{
    LARGE_WINDOW, PACKET, QUEUES, SMALL_WINDOW, TIMERS, WINDOWS, goodputs, number_of, of_case, packets,
    place, service_time_of, swept, value,
};
use shorthaul_observe::{Finding, RunRecord, Summary, Verdict};
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
    let is_meant = |record: &&RunRecord| {
        Some(record.seed) == seed && (value_of_relays(record) == "[]") == (leg == Leg::Direct)
    };
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

/// The places of the nodes, wherever they stand among the swept values.
fn value_of_relays(record: &RunRecord) -> &str {
    swept(record, ".relays").unwrap_or_else(|| value(record))
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

/// By how many packets a second a window grows from its twentieth packet to the end of its run, without a loss.
fn growth(window: &[(f64, f64)]) -> Option<f64> {
    let (from, to) = (window.iter().find(|(_, size)| *size >= 20.0)?, window.last()?);
    (to.0 > from.0).then(|| (to.1 - from.1) / (to.0 - from.0))
}

pub(super) fn fig2(records: &[RunRecord]) -> Vec<Finding> {
    let slow_start = |(case, windows): (&str, &str)| {
        let records = of_case(records, case);
        let [direct, first, second] =
            [Leg::Direct, Leg::First, Leg::Second].map(|leg| reaches(&window(&records, leg), 20.0));
        let shorter = |leg: Option<f64>| direct.zip(leg).is_some_and(|(direct, leg)| leg < 0.9 * direct);
        Finding::judged(
            format!("Fig. 2, how long until the window has 20 packets{windows}"),
            "longer for TCP than for either connection of PTS",
            format!("{} directly, {} and {} with a node", seconds(direct), seconds(first), seconds(second)),
            shorter(first) && shorter(second),
        )
    };
    let [direct, first, second] =
        [Leg::Direct, Leg::First, Leg::Second].map(|leg| growth(&window(&of_case(records, "ns2"), leg)));
    let rate = |growth: Option<f64>| growth.map_or("none".to_owned(), |growth| format!("{growth:.2}"));
    let faster = |leg: Option<f64>| direct.zip(leg).is_some_and(|(direct, leg)| leg > 1.2 * direct);
    let mut found: Vec<Finding> = WINDOWS.into_iter().map(slow_start).collect();
    found.push(Finding::judged(
        "Fig. 2, packets a second that the window grows by in congestion avoidance, windows of ns-2",
        "larger for PTS: the ACKs arrive faster",
        format!("{} directly, {} and {} with a node", rate(direct), rate(first), rate(second)),
        faster(first) && faster(second),
    ));
    found
}

pub(super) fn fig3(records: &[RunRecord]) -> Vec<Finding> {
    let with = |(case, windows): (&str, &str)| {
        let records = of_case(records, case);
        let [direct, first, second] =
            [Leg::Direct, Leg::First, Leg::Second].map(|leg| notices_loss(&window(&records, leg)));
        let falls =
            |at: Option<f64>| at.map_or("not affected".to_owned(), |at| format!("falls at {at:.2} s"));
        [
            Finding::judged(
                format!("Fig. 3, the sources' windows with a loss on the first half{windows}"),
                "both set to 1",
                format!("directly {}, with a node {}", falls(direct), falls(first)),
                direct.is_some() && first.is_some(),
            ),
            Finding::judged(
                format!("Fig. 3, the second connection's window with a loss on the first half{windows}"),
                "not affected",
                falls(second),
                // Without a loss on the first half there is nothing to be unaffected by.
                first.is_some() && second.is_none(),
            ),
        ]
    };
    WINDOWS.into_iter().flat_map(with).collect()
}

/// "If the congestion were to be in the second part of the PTS connection then the PTS node will set its cwnd to 1 causing the TCP
/// throughput to fall."
pub(super) fn fig3_second(records: &[RunRecord]) -> Vec<Finding> {
    let [first, second] = [Leg::First, Leg::Second].map(|leg| notices_loss(&window(records, leg)));
    let falls = |at: Option<f64>| at.map_or("not affected".to_owned(), |at| format!("falls at {at:.2} s"));
    vec![Finding::judged(
        "Fig. 3, text: the node's window with a loss on the second half",
        "set to 1",
        format!("{}; the source's {}", falls(second), falls(first)),
        second.is_some(),
    )]
}

/// A burst whose loss is noticed with a node and without. Times are in seconds.
pub(super) struct Burst {
    pub lasts: String,
    pub begins: f64,
    /// When the direct connection notices, and the first one of a session.
    direct: f64,
    first: f64,
}

impl Burst {
    /// How much earlier with a node.
    pub(super) fn earlier(&self) -> f64 {
        self.direct - self.first
    }
}

/// The bursts of a case that both notice, by how long they last and when they begin.
pub(super) fn bursts(records: &[RunRecord], case: &str) -> Vec<Burst> {
    let of_case = || records.iter().filter(|record| record.case.as_deref() == Some(case));
    let noticed = |record: &RunRecord, leg| notices_loss(&window(std::slice::from_ref(record), leg));
    let mut found = Vec::new();
    for direct in of_case().filter(|record| swept(record, ".relays") == Some("[]")) {
        let (Some(lasts), Some(start)) = (swept(direct, ".lasts"), swept(direct, ".start")) else { continue };
        let same = |other: &&RunRecord| {
            swept(other, ".relays") != Some("[]")
                && swept(other, ".lasts") == Some(lasts)
                && swept(other, ".start") == Some(start)
        };
        let Some(split) = of_case().find(same) else { continue };
        let begins = shorthaul_types::parse_duration(start).map(|start| start.as_secs_f64());
        if let (Ok(begins), Some(direct), Some(first)) =
            (begins, noticed(direct, Leg::Direct), noticed(split, Leg::First))
        {
            found.push(Burst { lasts: lasts.to_owned(), begins, direct, first });
        }
    }
    found.sort_by(|a, b| {
        let lasts = a.lasts.len().cmp(&b.lasts.len()).then(a.lasts.cmp(&b.lasts));
        lasts.then(a.begins.total_cmp(&b.begins))
    });
    found
}

/// From here on it is "almost 1 s".
const ALMOST_A_SECOND: f64 = 0.8;

pub(super) fn fig4_burst(records: &[RunRecord]) -> Vec<Finding> {
    let by_timer = |(case, timer): (&str, &str)| {
        let found = bursts(records, case);
        let all = found.len();
        let median = Summary::of(found.iter().map(Burst::earlier))?.percentile(0.5);
        let most = found.iter().max_by(|a, b| a.earlier().total_cmp(&b.earlier()))?;
        let count = |is_meant: &dyn Fn(&Burst) -> bool| found.iter().filter(|own| is_meant(own)).count();
        let (almost, later) =
            (count(&|own| own.earlier() >= ALMOST_A_SECOND), count(&|own| own.earlier() < 0.0));
        // Nothing is so much earlier than a direct connection that notices by then, or with a first one that needs as long.
        let soon = count(&|own| own.direct - own.begins < ALMOST_A_SECOND);
        let node_waits = count(&|own| own.first - own.begins >= ALMOST_A_SECOND);
        let what =
            format!("Fig. 4 as worded, a burst at the same time: noticed earlier by, in the median, {timer}");
        Some(
            Finding::number(what, "almost 1 s", median, Unit::Seconds)
                .within(0.15, 0.95)
                .because(format!(
                    "{almost} of {all} bursts that both notice by {ALMOST_A_SECOND} s or more, {later} later with a node; at most {}, a burst of {} at {:.2} s",
                    Unit::Seconds.format(most.earlier()),
                    most.lasts,
                    most.begins
                ))
                .explained(
                    format!(
                        "when it is noticed: {soon} of {all} bursts by the direct connection itself within {ALMOST_A_SECOND} s, {node_waits} by the first connection with a node only after that (sweep `fig4-burst`)"
                    ),
                    median < ALMOST_A_SECOND
                        && 2 * count(&|own| {
                            own.direct - own.begins < ALMOST_A_SECOND
                                || own.first - own.begins >= ALMOST_A_SECOND
                        }) > all,
                ),
        )
    };
    TIMERS.into_iter().filter_map(by_timer).collect()
}

/// Throughput with a node of that without, by the service time, with this many sessions.
pub(super) fn gains(records: &[RunRecord], sessions: &str) -> Vec<(f64, f64)> {
    let goodputs = |with_node: bool| {
        goodputs(records, |record| {
            let is_meant = swept(record, ".count") == Some(sessions)
                && (swept(record, ".relays") != Some("[]")) == with_node;
            let time = swept(record, ".service_time")?.strip_prefix("exponential ")?;
            is_meant.then(|| shorthaul_types::parse_duration(time).ok())?.map(|time| time.as_secs_f64())
        })
    };
    let direct = goodputs(false);
    goodputs(true).iter().map(|point| (point.x, point.y / at(&direct, point.x))).collect()
}

/// "In presence of multiple sessions competing for the CPU resources on the PTS node, a packet may have to wait longer".
pub(super) fn fig6_sessions(records: &[RunRecord]) -> Vec<Finding> {
    let with = |(case, queues): (&str, &str)| {
        let records = of_case(records, case);
        let gains = ["1", "4"].map(|sessions| gains(&records, sessions));
        let [one, four] = gains.each_ref().map(|gains| {
            let lost = gains.iter().filter(|(_, gain)| *gain < 1.05).map(|(time, _)| *time);
            lost.reduce(f64::min)
        });
        // The sweep ends somewhere: what is not lost by then is not therefore never lost.
        let said = |lost: Option<f64>, gains: &[(f64, f64)]| match lost {
            Some(time) => Unit::Seconds.format(time),
            None => match gains.iter().map(|(time, _)| *time).reduce(f64::max) {
                Some(end) => format!("not up to {}", Unit::Seconds.format(end)),
                None => "not run".to_owned(),
            },
        };
        let what = format!(
            "Fig. 6, text: the service time from which a node gains nothing, one session and four, {queues}"
        );
        let ours = format!("{} and {}", said(one, &gains[0]), said(four, &gains[1]));
        // With processors of their own, sessions do not compete for one.
        match case {
            "session-alone" => Finding::shown(what, "", ours),
            _ => Finding::judged(
                what,
                "less with several sessions",
                ours,
                four.is_some_and(|four| one.is_none_or(|one| four < one)),
            ),
        }
    };
    QUEUES.into_iter().map(with).collect()
}

pub(super) fn fig4(records: &[RunRecord]) -> Vec<Finding> {
    let with = |(case, windows): (&str, &str)| {
        let records = of_case(records, case);
        let noticed = |leg| notices_loss(&window(&records, leg));
        let earlier = noticed(Leg::Direct).zip(noticed(Leg::First)).map(|(direct, first)| direct - first);
        let what = format!("Fig. 4, how much earlier the loss is noticed{windows}");
        match earlier {
            Some(earlier) => Finding::number(what, "almost 1 s", earlier, Unit::Seconds).within(0.15, 0.95),
            None => Finding::judged(what, "almost 1 s", "never", false),
        }
    };
    WINDOWS.into_iter().map(with).collect()
}

/// The hops of Figures 5 and 6.
const HOPS: f64 = 8.0;

/// Hops of the longer leg with a node behind this many of eight: its round trip bounds the rate of a window.
fn longest_leg(place: u32) -> f64 {
    let place = f64::from(place);
    place.max(HOPS - place)
}

/// What one experiment says of another: why Figure 4 differs, by bursts that come at the same time with and without a node.
pub(super) fn beside_each_other(found: Vec<Finding>) -> Vec<Finding> {
    let worded = |own: &&Finding| own.what.starts_with("Fig. 4 as worded") && own.verdict == Verdict::Holds;
    let Some((burst, timer)) = found.iter().find(worded).and_then(|own| {
        let (_, timer) = TIMERS.into_iter().find(|(_, timer)| own.what.ends_with(timer))?;
        Some((own.ours.clone(), timer))
    }) else {
        return found;
    };
    let explained = |own: Finding| {
        match own.what.as_str() {
        what if what.starts_with("Fig. 4, how much earlier") => own.explained(
            format!("each has its congestion at another time: with bursts at the same time it is {burst} in the median, with {timer} (sweep `fig4-burst`)"),
            true,
        ),
        what if what.starts_with("Fig. 4 as worded") => {
            own.explained(format!("the timer: it is {burst} with {timer} (sweep `fig4-burst`)"), true)
        }
        _ => own,
    }
    };
    found.into_iter().map(explained).collect()
}

pub(super) fn fig5(records: &[RunRecord]) -> Vec<Finding> {
    let points = goodputs(records, place);
    let Some(best) = points.iter().max_by(|a, b| a.y.total_cmp(&b.y)) else { return Vec::new() };
    let least = points.iter().filter(|point| point.x > 0.0).map(|point| point.y).fold(f64::MAX, f64::min);
    vec![
        Finding::number("Fig. 5, the best place, in hops of eight", "the middle", best.x, Unit::None)
            .within(0.0, 4.0)
            .model("4.00: where the longest leg is the shortest"),
        Finding::number(
            "Fig. 5, a node fixed after 6 hops, of the best",
            "below",
            at(&points, 6.0) / best.y,
            Unit::Percent,
        )
        .at_most(0.97)
        .model(format!(
            "{}: a window in the round trip of the longest leg",
            percent(longest_leg(4) / longest_leg(6))
        )),
        Finding::number(
            "Fig. 5, no node, of the worst place of one",
            "below any",
            at(&points, 0.0) / least,
            Unit::Percent,
        )
        .at_most(0.97)
        .model(format!("{}: a window in the round trip of the longest leg", percent(longest_leg(7) / HOPS))),
    ]
}

/// The round trip of Figure 6's second leg: four hops of 10 ms there and back.
const SECOND_LEG: f64 = 0.080;
/// The window of Figures 5 and 6, in packets.
const WINDOW: f64 = 20.0;

/// The service time up to which a node is better than none: one that serves packet after packet must not be slower than a window in both
/// legs' round trips; one that serves all at once makes the first leg's round trip longer, up to that of both.
fn worth_it(prefix: &str) -> f64 {
    if prefix == "late-" { SECOND_LEG } else { 2.0 * SECOND_LEG / WINDOW }
}

pub(super) fn fig6(records: &[RunRecord]) -> Vec<Finding> {
    let direct = goodputs(records, |record| (record.case.as_deref() == Some("direct")).then_some(0.0));
    let direct = direct.first().map_or(f64::NAN, |point| point.y);
    let served = |prefix: &str, what: &str| {
        let points = goodputs(records, |record| service_time_of(record, prefix));
        let better = points.iter().filter(|point| point.y > direct).map(|point| point.x).reduce(f64::max);
        let worse = points.iter().filter(|point| point.y <= direct).map(|point| point.x).reduce(f64::min);
        let small: Vec<_> = points.iter().filter(|point| point.x <= SECOND_LEG / 10.0).collect();
        let ends = points.first().zip(points.last());
        [
            Finding::judged(
                format!("Fig. 6, up to which service time a node is better than none, {what}"),
                "while it is far below the second leg's round trip (80 ms)",
                format!("better up to {}, no better from {}", seconds(better), seconds(worse)),
                !small.is_empty() && small.iter().all(|point| point.y > direct) && worse.is_some(),
            )
            .model(format!("better up to {}", seconds(Some(worth_it(prefix))))),
            Finding::number(
                format!(
                    "Fig. 6, throughput with the longest service time, of that with the shortest, {what}"
                ),
                "falls",
                ends.map_or(f64::NAN, |(first, last)| last.y / first.y),
                Unit::Percent,
            )
            .at_most(0.9),
        ]
    };
    [
        served("ts-", "one packet served after the other"),
        served("late-", "all served at once, acknowledged after"),
    ]
    .concat()
}

pub(super) fn fig7(records: &[RunRecord]) -> Vec<Finding> {
    let with = |case: &str, window: &str| {
        let points = goodputs(records, |record| number_of(record, case));
        let compared = |a: f64, b: f64| at(&points, a) / at(&points, b);
        let more: Vec<f64> = points.iter().filter(|point| point.x >= 2.0).map(|point| point.y).collect();
        let falls = more.len() > 2 && more.windows(2).all(|pair| pair[1] < pair[0]);
        let shares = points.iter().filter(|point| point.x > 2.0).map(|point| point.y / at(&points, 2.0));
        // What nodes cost by their service times: the same without any.
        let free = goodputs(records, |record| number_of(record, &format!("{case}-unserved")));
        let without = |nodes: f64| compared(nodes, 2.0) / (at(&free, nodes) / at(&free, 2.0));
        let cost =
            free.iter().filter(|point| point.x > 2.0).map(|point| 1.0 - without(point.x)).reduce(f64::max);
        [
            Finding::number(format!("Fig. 7, two nodes, of one, {window}"), "about equal", compared(2.0, 1.0), Unit::Percent)
                .within(0.05, 1.0)
                .model(if case == SMALL_WINDOW {
                    // Fourteen hops: legs of seven, and of five at most.
                    format!("{}: a window in the round trip of the longest leg", percent(7.0 / 5.0))
                } else {
                    format!("{}: the link binds", percent(1.0))
                })
                .explained(
                    format!("the longest leg is shorter with two nodes, and a window of that size does not fill it: without service times, two have {} of one", percent(at(&free, 2.0) / at(&free, 1.0))),
                    (at(&free, 2.0) / at(&free, 1.0) - 1.0).abs() > 0.05,
                ),
            Finding::judged(
                format!("Fig. 7, three nodes and more, of two, {window}"),
                "each further one less",
                shares.map(percent).collect::<Vec<_>>().join(", "),
                falls,
            )
            .model("none: of a window that fills no leg, further nodes gain by each shorter leg; queues are in no closed form")
            .explained(
                format!("service times cost {} at most here: without them (`{case}-unserved`) further nodes do as much", percent(cost.unwrap_or(f64::NAN))),
                cost.is_some_and(|cost| cost < 0.05),
            ),
        ]
    };
    [with(SMALL_WINDOW, "window of 20 packets"), with(LARGE_WINDOW, "window of 220 packets")].concat()
}

pub(super) fn buffer(records: &[RunRecord]) -> Vec<Finding> {
    let points = goodputs(records, packets);
    let Some(most) = points.iter().max_by(|a, b| a.y.total_cmp(&b.y)) else { return Vec::new() };
    let least = points.iter().map(|point| point.y).fold(f64::MAX, f64::min);
    let enough = points.iter().find(|point| point.y > 0.99 * most.y).map_or(0.0, |point| point.x);
    vec![
        Finding::number(
            "abstract, the smallest buffer's throughput, of the best",
            "has an effect",
            least / most.y,
            Unit::Percent,
        )
        .at_most(0.9)
        .because(format!("none from {enough} packets on")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Having, holds, run};
    use shorthaul_scenario::{Metric, Series};

    const NODES: &str = "chains.0.relays";

    fn with(nodes: &str, goodput: f64) -> RunRecord {
        run(None, &[(NODES, nodes)]).metric(Metric::Goodput, goodput)
    }

    /// Windows that grow by twenty packets a second, and fall to one at these times; the first connection's name has no `@`.
    fn windows(falls: [Option<f64>; 3], rates: [f64; 3]) -> Vec<RunRecord> {
        let curve = |falls: Option<f64>, rate: f64| -> Vec<(f64, f64)> {
            let at = |time: f64| {
                (time, PACKET * if falls.is_some_and(|at| time >= at) { 1.0 } else { 1.0 + rate * time })
            };
            (0..100).map(|step| at(f64::from(step) / 20.0)).collect()
        };
        let split = run(None, &[(NODES, "[4]")])
            .series(Series::Cwnd, "ftp", &curve(falls[1], rates[1]))
            .series(Series::Cwnd, "ftp@relay", &curve(falls[2], rates[2]));
        vec![run(None, &[(NODES, "[]")]).series(Series::Cwnd, "ftp", &curve(falls[0], rates[0])), split]
    }

    /// The same as a case.
    fn case(case: &str, mut records: Vec<RunRecord>) -> Vec<RunRecord> {
        records.iter_mut().for_each(|record| record.case = Some(case.to_owned()));
        records
    }

    /// The same with either kind of window.
    fn both(records: &[RunRecord]) -> Vec<RunRecord> {
        WINDOWS.map(|(name, _)| case(name, records.to_vec())).concat()
    }

    #[test]
    fn bursts_are_why_figure_4_differs_only_if_they_have_what_is_stated() {
        let number = |what: &str, value: f64| {
            Finding::number(what, "almost 1 s", value, Unit::Seconds).within(0.15, 0.95)
        };
        let causes = |burst: f64| {
            let found = vec![
                number("Fig. 4, how much earlier the loss is noticed", 0.74),
                number("Fig. 4 as worded, timers of RFC 6298", burst),
                number("Fig. 4 as worded, timers that tick every 500 ms", 1.2),
            ];
            beside_each_other(found).into_iter().map(|own| own.cause).collect::<Vec<_>>()
        };
        let shown = causes(0.9);
        assert_eq!([&shown[0], &shown[1], &shown[2]].map(Option::is_some), [true, false, true]);
        assert!(
            shown[2].as_ref().is_some_and(|cause| cause.contains("with timers of RFC 6298")),
            "{shown:?}"
        );
        assert_eq!(causes(0.2), [None, None, None]);
    }

    #[test]
    fn windows_over_time_are_judged() {
        let rates = |rates| fig2(&both(&windows([None; 3], rates)));
        assert!(holds(&rates([10.0, 20.0, 20.0]), "Fig. 2"));
        let equal = rates([20.0; 3]);
        assert!(
            !holds(&equal, "how long until") && !holds(&equal, "congestion avoidance"),
            "equal is not longer"
        );
        let filled = fig2(&case("filled", windows([None; 3], [10.0, 20.0, 20.0])));
        assert!(!holds(&filled, "congestion avoidance"), "that was not run");
        let at = |second| fig3(&both(&windows([Some(4.0), Some(4.0), second], [20.0; 3])));
        assert!(holds(&at(None), "Fig. 3"));
        assert!(!holds(&at(Some(4.2)), "second connection"));
        let nothing = fig3(&both(&windows([None; 3], [20.0; 3])));
        assert!(
            !holds(&nothing, "second connection") && !holds(&nothing, "sources"),
            "no loss shows nothing"
        );
        let earlier = |direct| fig4(&both(&windows([direct, Some(2.0), None], [20.0; 3])));
        assert!(holds(&earlier(Some(2.95)), "Fig. 4"));
        assert!(!holds(&earlier(Some(2.5)), "Fig. 4") && !holds(&earlier(None), "Fig. 4"));
    }

    #[test]
    fn a_loss_on_the_second_half_is_the_nodes() {
        assert!(holds(&fig3_second(&windows([None, None, Some(4.0)], [20.0; 3])), "Fig. 3"));
        assert!(!holds(&fig3_second(&windows([None, Some(4.0), None], [20.0; 3])), "Fig. 3"));
    }

    #[test]
    fn bursts_are_compared_with_the_same_burst() {
        let pair = |case: &str, start: &str, falls: [Option<f64>; 2]| {
            let mut pair = windows([falls[0], falls[1], None], [20.0; 3]);
            for record in &mut pair {
                record.case = Some(case.to_owned());
                record.values.push(("cross.burst.lasts".into(), "\"60 ms\"".into()));
                record.values.push(("cross.burst.start".into(), format!("\"{start}\"")));
            }
            pair
        };
        let mut records = pair("rfc6298", "4000 ms", [Some(3.0), Some(3.5)]);
        records.extend(pair("rfc6298", "4020 ms", [Some(4.0), Some(3.1)]));
        records.extend(pair("coarse", "4000 ms", [Some(4.0), Some(4.0)]));
        records.extend(pair("coarse", "4020 ms", [Some(4.0), None]));
        let found = bursts(&records, "rfc6298");
        assert_eq!(found.iter().map(|own| (own.earlier() * 10.0).round()).collect::<Vec<_>>(), [-5.0, 9.0]);
        let judged = |records: &[RunRecord]| fig4_burst(records).swap_remove(0);
        let two = judged(&records);
        assert!(two.reason.contains("1 of 2 bursts that both notice by 0.8 s or more, 1 later"), "{two:?}");
        assert!(two.reason.contains("at most 900 ms"), "{two:?}");
        // One burst of three with what is stated is not the median.
        records.extend(pair("rfc6298", "4040 ms", [Some(4.9), Some(4.9)]));
        assert_eq!(judged(&records).verdict, Verdict::Differs);
        records.extend(pair("rfc6298", "4060 ms", [Some(4.95), Some(4.0)]));
        records.extend(pair("rfc6298", "4080 ms", [Some(4.95), Some(4.0)]));
        assert_eq!(judged(&records).verdict, Verdict::Holds);
    }

    #[test]
    fn what_bursts_do_is_a_cause_only_where_most_can_be_no_earlier() {
        let of = |falls: [f64; 2]| {
            let mut pair = windows([Some(falls[0]), Some(falls[1]), None], [20.0; 3]);
            for record in &mut pair {
                record.case = Some("fine".to_owned());
                record.values.push(("cross.burst.lasts".into(), "\"60 ms\"".into()));
                record.values.push(("cross.burst.start".into(), "\"3000 ms\"".into()));
            }
            fig4_burst(&pair).swap_remove(0)
        };
        assert!(of([3.4, 3.2]).cause.is_some_and(|cause| cause.contains("1 of 1")), "it notices by itself");
        assert!(of([4.2, 4.1]).cause.is_some(), "both wait");
        let between = of([3.9, 3.6]);
        assert!(between.verdict == Verdict::Differs && between.cause.is_none(), "{between:?}");
    }

    #[test]
    fn sessions_must_lose_the_gain_sooner() {
        let with = |queues: &str, four: f64| {
            let of = |count: &str, nodes: &str, time: &str, goodput| {
                let time = format!("\"exponential {time}\"");
                run(
                    Some(queues),
                    &[("flows.ftp.count", count), (NODES, nodes), ("chains.0.relay.service_time", &time)],
                )
                .metric(Metric::Goodput, goodput)
            };
            let mut records = Vec::new();
            for (count, gain) in [("1", 2.0), ("4", four)] {
                for (time, factor) in [("1000 us", gain), ("5000 us", 0.5)] {
                    records.push(of(count, "[]", time, 1.0));
                    records.push(of(count, "[4]", time, factor));
                }
            }
            fig6_sessions(&records)
        };
        for (case, name) in &QUEUES[..2] {
            assert!(holds(&with(case, 1.0), name) && !holds(&with(case, 2.0), name), "{case}");
        }
        let never = with(QUEUES[0].0, 2.0);
        let lost = with(QUEUES[0].0, 1.0);
        assert!(never[0].ours == "5.00 ms and 5.00 ms" && lost[0].ours == "5.00 ms and 1.00 ms", "{lost:?}");
        assert!(fig6_sessions(&[]).iter().any(|found| found.verdict == Verdict::Shown));
    }

    #[test]
    fn a_gain_that_the_sweep_does_not_lose_is_lost_nowhere_up_to_its_end() {
        let of = |count: &str, nodes: &str, goodput| {
            run(
                Some(QUEUES[0].0),
                &[
                    ("flows.ftp.count", count),
                    (NODES, nodes),
                    ("chains.0.relay.service_time", "\"exponential 5000 us\""),
                ],
            )
            .metric(Metric::Goodput, goodput)
        };
        let found = fig6_sessions(&[
            of("1", "[]", 1.0),
            of("1", "[4]", 2.0),
            of("4", "[]", 1.0),
            of("4", "[4]", 0.5),
        ]);
        assert_eq!(found[0].ours, "not up to 5.00 ms and 5.00 ms");
    }

    #[test]
    fn sessions_are_tried_with_service_times_as_long_as_those_of_the_figure() {
        let longest = |text: &str| {
            let times = text.split("exponential ").skip(1).filter_map(|rest| rest.split(" us\"").next());
            times.filter_map(|time| time.parse::<u32>().ok()).max()
        };
        // Alone, one packet served after the other.
        let alone = include_str!("../../../../papers/pts/fig6.toml").split("[cases.late").next().unwrap();
        let sessions = include_str!("../../../../papers/pts/fig6-sessions.toml");
        assert!(longest(alone).is_some() && longest(sessions) == longest(alone), "{:?}", longest(sessions));
    }

    #[test]
    fn the_place_of_a_node_is_judged() {
        let places = |goodputs: [f64; 4]| {
            fig5(&[
                with("[]", goodputs[0]),
                with("[2]", goodputs[1]),
                with("[4]", goodputs[2]),
                with("[6]", goodputs[3]),
            ])
        };
        assert!(holds(&places([1.0, 1.5, 2.0, 1.5]), "Fig. 5"));
        let flat = places([2.0, 2.0, 2.0, 2.0]);
        assert!(!holds(&flat, "fixed") && !holds(&flat, "no node"));
        assert!(!holds(&places([1.0, 1.5, 2.0, 2.5]), "best place"));
    }

    #[test]
    fn service_times_are_judged() {
        let times = |goodputs: [f64; 3]| {
            let case = |name: &str, goodput| run(Some(name), &[]).metric(Metric::Goodput, goodput);
            let mut records = vec![case("direct", 1.0)];
            for prefix in ["ts", "late"] {
                for (micros, goodput) in [100, 5000, 50_000].into_iter().zip(goodputs) {
                    records.push(case(&format!("{prefix}-{micros}us"), goodput));
                }
            }
            fig6(&records)
        };
        assert!(holds(&times([2.0, 1.9, 0.5]), "Fig. 6"));
        assert!(!holds(&times([2.0, 2.0, 2.0]), "up to which") && !holds(&times([2.0, 2.0, 2.0]), "longest"));
        assert!(!holds(&times([2.0, 0.9, 0.5]), "up to which"));
    }

    #[test]
    fn the_second_legs_round_trip_is_that_of_the_scenario() {
        let text = include_str!("../../../../papers/pts/fig6.toml");
        let study = shorthaul_scenario::Study::from_toml("fig6.toml", text).unwrap();
        let scenario = study.scenario(&study.points()[1]).unwrap();
        let delay = |index: usize| {
            scenario.links[index]
                .config(shorthaul_link::Direction::Up, shorthaul_types::Seed(1))
                .delay
                .as_secs_f64()
        };
        let second: f64 = (4..8).map(delay).sum();
        assert!((2.0 * second - SECOND_LEG).abs() < 1e-9 && scenario.links.len() == 8);
    }

    #[test]
    fn the_number_of_nodes_is_judged_and_its_cause_must_be_shown() {
        let nodes = |served: [f64; 5], unserved: [f64; 5]| {
            let lists = ["[]", "[7]", "[5, 9]", "[4, 7, 11]", "[3, 6, 8, 11]"];
            let mut records = Vec::new();
            for case in [SMALL_WINDOW, LARGE_WINDOW] {
                for (place, list) in lists.iter().enumerate() {
                    records.push(run(Some(case), &[(NODES, list)]).metric(Metric::Goodput, served[place]));
                    let case = format!("{case}-unserved");
                    records.push(run(Some(&case), &[(NODES, list)]).metric(Metric::Goodput, unserved[place]));
                }
            }
            fig7(&records)
        };
        assert!(holds(&nodes([1.0, 2.0, 2.02, 1.8, 1.6], [1.0, 2.0, 2.0, 2.0, 2.0]), "Fig. 7"));
        let rising = [1.0, 2.0, 3.0, 4.0, 5.0];
        let found = nodes(rising, rising);
        assert!(!holds(&found, "two nodes") && !holds(&found, "three nodes"));
        assert!(found.iter().all(|finding| finding.cause.is_some()), "{found:#?}");
        // Where service times do cost much, they are the cause, and nothing else is shown.
        let found = nodes([1.0, 2.0, 2.0, 1.8, 1.9], [1.0, 2.0, 2.0, 2.2, 2.4]);
        let more = found.iter().find(|finding| finding.what.contains("three nodes")).unwrap();
        assert!(more.verdict == shorthaul_observe::Verdict::Differs && more.cause.is_none(), "{more:#?}");
        assert!(!holds(&nodes([1.0, 2.0, 2.0, 2.0, 2.0], rising), "three nodes"), "equal is not less");
    }

    #[test]
    fn a_buffer_that_makes_no_difference_has_no_effect() {
        let sizes = |goodputs: [f64; 2]| {
            let of = |size: &str, goodput| {
                run(None, &[("chains.0.relay.buffer", size)]).metric(Metric::Goodput, goodput)
            };
            buffer(&[of("\"2 packets\"", goodputs[0]), of("\"64 packets\"", goodputs[1])])
        };
        assert!(holds(&sizes([1.0, 2.0]), "abstract"));
        assert!(!holds(&sizes([2.0, 2.0]), "abstract"));
    }
}
