//! Windows over time, and when a loss is noticed: Figures 2 to 4.
use super::super::{PACKET, TIMERS, WINDOWS, of_case, swept, value};
use super::seconds;
use shorthaul_observe::{Finding, RunRecord, Summary, Verdict};
use shorthaul_report::Unit;
use shorthaul_scenario::Series;

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

/// By how many packets a second a window grows from its twentieth packet to the end of its run, without a loss.
fn growth(window: &[(f64, f64)]) -> Option<f64> {
    let (from, to) = (window.iter().find(|(_, size)| *size >= 20.0)?, window.last()?);
    (to.0 > from.0).then(|| (to.1 - from.1) / (to.0 - from.0))
}

pub(in crate::pts) fn fig2(records: &[RunRecord]) -> Vec<Finding> {
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

pub(in crate::pts) fn fig3(records: &[RunRecord]) -> Vec<Finding> {
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
pub(in crate::pts) fn fig3_second(records: &[RunRecord]) -> Vec<Finding> {
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
pub(in crate::pts) struct Burst {
    pub lasts: String,
    pub begins: f64,
    /// When the direct connection notices, and the first one of a session.
    direct: f64,
    first: f64,
}

impl Burst {
    /// How much earlier with a node.
    pub(in crate::pts) fn earlier(&self) -> f64 {
        self.direct - self.first
    }
}

/// The bursts of a case that both notice, by how long they last and when they begin.
pub(in crate::pts) fn bursts(records: &[RunRecord], case: &str) -> Vec<Burst> {
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

/// What "almost 1 s" is, and how far from it a time may be, as a share.
const ABOUT: f64 = 0.95;
const NEAR_A_SECOND: f64 = 0.15;

fn is_almost_a_second(time: f64) -> bool {
    (time / ABOUT - 1.0).abs() <= NEAR_A_SECOND
}

/// From here on it is "almost 1 s".
const ALMOST_A_SECOND: f64 = 0.8;

pub(in crate::pts) fn fig4_burst(records: &[RunRecord]) -> Vec<Finding> {
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
                .within(NEAR_A_SECOND, ABOUT)
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

pub(in crate::pts) fn fig4(records: &[RunRecord]) -> Vec<Finding> {
    let with = |(case, windows): (&str, &str)| {
        let records = of_case(records, case);
        let noticed = |leg| notices_loss(&window(&records, leg));
        let earlier = noticed(Leg::Direct).zip(noticed(Leg::First)).map(|(direct, first)| direct - first);
        let what = format!("{FIG_4}{windows}");
        match earlier {
            Some(earlier) => {
                Finding::number(what, "almost 1 s", earlier, Unit::Seconds).within(NEAR_A_SECOND, ABOUT)
            }
            None => Finding::judged(what, "almost 1 s", "never", false),
        }
    };
    WINDOWS.into_iter().map(with).collect()
}

/// What the rows are called of Figure 4, and of the same by the queue.
const FIG_4: &str = "Fig. 4, how much earlier the loss is noticed";
const BY_QUEUE: &str = "Fig. 4, how much earlier, by the queue, which the text does not state";

/// By how much earlier a node's source notices its loss with each length of the queue, in packets. With both kinds of windows.
pub(in crate::pts) fn fig4_queue(records: &[RunRecord]) -> Vec<Finding> {
    let mut queues: Vec<u32> = records
        .iter()
        .filter_map(|record| swept(record, ".queue")?.strip_suffix(" packets")?.parse().ok())
        .collect();
    queues.sort_unstable();
    queues.dedup();
    let with = |(case, windows): (&str, &str)| {
        let earlier = |packets: u32| {
            let written = format!("{packets} packets");
            let of_queue = |record: &RunRecord| swept(record, ".queue") == Some(written.as_str());
            let own: Vec<RunRecord> =
                of_case(records, case).into_iter().filter(|record| of_queue(record)).collect();
            let noticed = |leg| notices_loss(&window(&own, leg));
            Some((packets, noticed(Leg::Direct)? - noticed(Leg::First)?))
        };
        let all: Vec<(u32, f64)> = queues.iter().filter_map(|packets| earlier(*packets)).collect();
        let said: Vec<String> =
            all.iter().map(|(packets, time)| format!("{} with {packets}", seconds(Some(*time)))).collect();
        Finding::judged(
            format!("{BY_QUEUE}{windows}"),
            "almost 1 s",
            said.join(", "),
            all.iter().any(|(_, time)| is_almost_a_second(*time)),
        )
    };
    WINDOWS.into_iter().map(with).collect()
}

/// What one experiment says of another: why Figure 4 differs, by the queue, or by bursts that come at the same time with and without a node.
pub(in crate::pts) fn beside_each_other(found: Vec<Finding>) -> Vec<Finding> {
    let by_queue = |own: &Finding| -> Option<String> {
        let windows = own.what.strip_prefix(FIG_4)?;
        let is_meant = |other: &&Finding| other.what == format!("{BY_QUEUE}{windows}");
        let shown = found.iter().find(is_meant).filter(|other| other.verdict == Verdict::Holds)?;
        Some(format!(
            "the queue, which the text does not state; here it is that of ns-2, 50 packets: {} (sweep `fig4-queue`)",
            shown.ours
        ))
    };
    let queues: Vec<Option<String>> = found.iter().map(by_queue).collect();
    let explained = |(own, queue): (Finding, Option<String>)| match queue {
        Some(cause) => own.explained(cause, true),
        None => own,
    };
    by_bursts(found.into_iter().zip(queues).map(explained).collect())
}

/// Why Figure 4 differs, by bursts that come at the same time with and without a node.
fn by_bursts(found: Vec<Finding>) -> Vec<Finding> {
    let worded = |own: &&Finding| own.what.starts_with("Fig. 4 as worded") && own.verdict == Verdict::Holds;
    let Some((burst, timer)) = found.iter().find(worded).and_then(|own| {
        let (_, timer) = TIMERS.into_iter().find(|(_, timer)| own.what.ends_with(timer))?;
        Some((own.ours.clone(), timer))
    }) else {
        return found;
    };
    let explained = |own: Finding| {
        match own.what.as_str() {
        what if what.starts_with(FIG_4) => own.explained(
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Having, holds, run};

    const NODES: &str = "chains.0.relays";

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
    fn the_queue_is_why_figure_4_differs_only_where_another_has_what_is_stated() {
        let of = |long: f64| {
            let pair = |queue: &str, earlier: f64| {
                let mut pair = both(&windows([Some(2.0 + earlier), Some(2.0), None], [20.0; 3]));
                for record in &mut pair {
                    record.values.push(("chains.0.link.queue".into(), format!("\"{queue}\"")));
                }
                pair
            };
            let mut found = fig4(&both(&windows([Some(2.7), Some(2.0), None], [20.0; 3])));
            found.extend(fig4_queue(&[pair("50 packets", 0.7), pair("100 packets", long)].concat()));
            beside_each_other(found)
        };
        let shown = of(0.9);
        assert!(holds(&shown, BY_QUEUE) && !holds(&shown, FIG_4), "{shown:#?}");
        let cause = |found: &[Finding]| found[0].cause.clone();
        assert!(cause(&shown).is_some_and(|cause| cause.contains("900 ms with 100")), "{shown:#?}");
        assert_eq!(cause(&of(0.7)), None);
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
}
