//! Throughput against where nodes are, how long they serve, how many there are, and what they hold: Figures 5 to 7.
use super::super::{
    ABOUT_EQUAL, LARGE_WINDOW, QUEUES, SMALL_WINDOW, goodputs, number_of, of_case, packets, place,
    service_time_of, swept,
};
use super::seconds;
use shorthaul_observe::{Finding, RunRecord};
use shorthaul_report::Unit;
use shorthaul_report::plot::Point;

fn percent(share: f64) -> String {
    Unit::Percent.format(share)
}

/// The throughput at a place, number or size.
fn at(points: &[Point], x: f64) -> f64 {
    points.iter().find(|point| point.x == x).map_or(f64::NAN, |point| point.y)
}

/// Throughput with a node of that without, by the service time, with this many sessions.
pub(in crate::pts) fn gains(records: &[RunRecord], sessions: &str) -> Vec<(f64, f64)> {
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
pub(in crate::pts) fn fig6_sessions(records: &[RunRecord]) -> Vec<Finding> {
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

/// The hops of Figures 5 and 6.
const HOPS: f64 = 8.0;

/// Hops of the longer leg with a node behind this many of eight: its round trip bounds the rate of a window.
fn longest_leg(place: u32) -> f64 {
    let place = f64::from(place);
    place.max(HOPS - place)
}

pub(in crate::pts) fn fig5(records: &[RunRecord]) -> Vec<Finding> {
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
    if ["late-", "fixed-"].contains(&prefix) { SECOND_LEG } else { 2.0 * SECOND_LEG / WINDOW }
}

/// Why a node that serves all at once loses its gain before the model says so: with the same service time for all packets it does not.
fn beside_the_model(worse: Option<f64>, model: f64, fixed: Option<f64>) -> Option<String> {
    let (worse, fixed) = worse.zip(fixed)?;
    (worse < model && fixed >= model).then(|| {
        format!(
            "sooner than by the model, since packets leave in order, and wait for the longest of several exponential times: with the same time for all, a node is better up to {} (cases `fixed`)",
            seconds(Some(fixed))
        )
    })
}

pub(in crate::pts) fn fig6(records: &[RunRecord]) -> Vec<Finding> {
    let direct = goodputs(records, |record| (record.case.as_deref() == Some("direct")).then_some(0.0));
    let direct = direct.first().map_or(f64::NAN, |point| point.y);
    let equally = goodputs(records, |record| service_time_of(record, "fixed-"));
    let fixed = equally.iter().filter(|point| point.y > direct).map(|point| point.x).reduce(f64::max);
    let served = |prefix: &str, what: &str| {
        let points = goodputs(records, |record| service_time_of(record, prefix));
        let better = points.iter().filter(|point| point.y > direct).map(|point| point.x).reduce(f64::max);
        let worse = points.iter().filter(|point| point.y <= direct).map(|point| point.x).reduce(f64::min);
        let small: Vec<_> = points.iter().filter(|point| point.x <= SECOND_LEG / 10.0).collect();
        let ends = points.first().zip(points.last());
        let found = Finding::judged(
            format!("Fig. 6, up to which service time a node is better than none, {what}"),
            "while it is far below the second leg's round trip (80 ms)",
            format!("better up to {}, no better from {}", seconds(better), seconds(worse)),
            !small.is_empty() && small.iter().all(|point| point.y > direct) && worse.is_some(),
        )
        .model(format!("better up to {}", seconds(Some(worth_it(prefix)))));
        [
            match beside_the_model(worse, worth_it(prefix), fixed) {
                Some(note) if prefix == "late-" => found.because(note),
                _ => found,
            },
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
        served("before-", "one packet served after the other, acknowledged after"),
        served("late-", "all served at once, acknowledged after"),
    ]
    .concat()
}

pub(in crate::pts) fn fig7(records: &[RunRecord]) -> Vec<Finding> {
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
                .within(ABOUT_EQUAL, 1.0)
                .model(if case == SMALL_WINDOW {
                    // Fourteen hops: legs of seven, and of five at most.
                    format!("{}: a window in the round trip of the longest leg", percent(7.0 / 5.0))
                } else {
                    format!("{}: the link binds", percent(1.0))
                })
                .explained(
                    format!("the longest leg is shorter with two nodes, and a window of that size does not fill it: without service times, two have {} of one", percent(at(&free, 2.0) / at(&free, 1.0))),
                    (at(&free, 2.0) / at(&free, 1.0) - 1.0).abs() > ABOUT_EQUAL,
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

/// "Large buffer space will be required for this session. Otherwise segments will be dropped at the PTS node leading to poor TCP throughput" (§1); and
/// the abstract names the effect of the buffer's size. Judged is a buffer of a window, which a session that sends nothing ahead would not miss.
pub(in crate::pts) fn buffer(records: &[RunRecord]) -> Vec<Finding> {
    let of = |case: &str, what: &str, stated: &str| {
        let points = goodputs(&of_case(records, case), packets);
        let most = points.iter().map(|point| point.y).reduce(f64::max)?;
        let enough = points.iter().find(|point| point.y > 0.99 * most).map_or(0.0, |point| point.x);
        let least = points.first()?;
        let found = Finding::number(
            what,
            format!("{stated} (≤ 90.0 % is asked)"),
            at(&points, WINDOW) / most,
            Unit::Percent,
        );
        Some(found.at_most(0.9).because(format!(
            "{} with {} packets; none is lost from {enough} packets on",
            percent(least.y / most),
            least.x
        )))
    };
    let found = [
        of(
            "close",
            "abstract, throughput with a buffer of a window (20 packets), of the best, windows that close",
            "has an effect",
        ),
        of(
            "drop",
            "§1, throughput with a buffer of a window (20 packets), of the best, nodes that drop",
            "poor: large buffers are required",
        ),
    ];
    found.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Having, holds, run};
    use shorthaul_observe::Verdict;
    use shorthaul_scenario::Metric;

    const NODES: &str = "chains.0.relays";

    fn with(nodes: &str, goodput: f64) -> RunRecord {
        run(None, &[(NODES, nodes)]).metric(Metric::Goodput, goodput)
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
        let alone = include_str!("../../../../../papers/pts/fig6.toml").split("[cases.late").next().unwrap();
        let sessions = include_str!("../../../../../papers/pts/fig6-sessions.toml");
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
            for prefix in ["ts", "before", "late"] {
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
        let text = include_str!("../../../../../papers/pts/fig6.toml");
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
        let sizes = |case: &str, goodputs: [f64; 3]| -> Vec<RunRecord> {
            let of = |(size, goodput): (&str, f64)| {
                run(Some(case), &[("chains.0.relay.buffer", size)]).metric(Metric::Goodput, goodput)
            };
            ["\"2 packets\"", "\"20 packets\"", "\"64 packets\""].into_iter().zip(goodputs).map(of).collect()
        };
        let found = buffer(&[sizes("close", [0.1, 1.0, 2.0]), sizes("drop", [0.1, 1.9, 2.0])].concat());
        assert!(holds(&found, "windows that close") && !holds(&found, "nodes that drop"), "{found:#?}");
        assert!(found[0].reason.contains("5.00 % with 2 packets; none is lost from 64"), "{found:#?}");
        let other = buffer(&[sizes("close", [2.0, 2.0, 2.0]), sizes("drop", [0.1, 1.0, 2.0])].concat());
        assert!(!holds(&other, "windows that close") && holds(&other, "nodes that drop"), "{other:#?}");
        assert!(buffer(&[]).is_empty());
    }

    #[test]
    fn the_draws_are_why_the_gain_is_lost_sooner_only_where_equal_times_keep_it() {
        let note = |fixed: f64| {
            let case = |name: &str, goodput| run(Some(name), &[]).metric(Metric::Goodput, goodput);
            let mut records = vec![case("direct", 1.0)];
            for (micros, goodput) in [(1000, 2.0), (40_000, 0.9)] {
                records.push(case(&format!("late-{micros}us"), goodput));
            }
            records.extend([case("fixed-40000us", 1.5), case("fixed-80000us", fixed)]);
            let found = fig6(&records);
            found
                .into_iter()
                .find(|own| own.what.contains("up to which") && own.what.contains("all served"))
                .unwrap()
                .reason
        };
        assert!(note(1.1).contains("better up to 80.0 ms"), "{}", note(1.1));
        assert_eq!(note(0.9), "");
    }
}
