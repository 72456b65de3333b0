//! Windows over time, and when a loss is noticed: Figures 2 to 4.
use super::super::{PACKET, TIMERS, of_case, swept, value};
use super::seconds;
use shorthaul_observe::{Finding, RunRecord, Summary, Verdict};
use shorthaul_report::Unit;
use shorthaul_scenario::{Metric, Series};

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
        // Figures 2 to 4 have their node in the middle.
        Some(record.seed) == seed && value_of_relays(record) == if leg == Leg::Direct { "[]" } else { "[4]" }
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

/// The cases of Figures 2 to 4: windows that grow as far as they are filled, and those of ns-2.
const FILLED: &str = "filled";
const NS2: &str = "ns2";

/// What of ns-2's windows is to be said beside a row of the others: whether it is the same. It is where what is judged comes before the threshold.
fn beside_ns2(ours: &str, ns2: &str) -> String {
    match ours == ns2 {
        true => "the same with windows of ns-2".to_owned(),
        false => format!("with windows of ns-2: {ns2}"),
    }
}

pub(in crate::pts) fn fig2(records: &[RunRecord]) -> Vec<Finding> {
    let slow_start = |case: &str| {
        let records = of_case(records, case);
        [Leg::Direct, Leg::First, Leg::Second].map(|leg| reaches(&window(&records, leg), 20.0))
    };
    let [direct, first, second] = slow_start(FILLED);
    let shorter = |leg: Option<f64>| direct.zip(leg).is_some_and(|(direct, leg)| leg < 0.9 * direct);
    let said = |[direct, first, second]: [Option<f64>; 3]| {
        format!("{} directly, {} and {} with a node", seconds(direct), seconds(first), seconds(second))
    };
    let ours = said([direct, first, second]);
    let note = beside_ns2(&ours, &said(slow_start(NS2)));
    let [slow, fast, faster_still] =
        [Leg::Direct, Leg::First, Leg::Second].map(|leg| growth(&window(&of_case(records, NS2), leg)));
    let rate = |growth: Option<f64>| growth.map_or("none".to_owned(), |growth| format!("{growth:.2}"));
    let faster = |leg: Option<f64>| slow.zip(leg).is_some_and(|(slow, leg)| leg > 1.2 * slow);
    vec![
        Finding::judged(
            "Fig. 2, how long until the window has 20 packets",
            "longer for TCP than for either connection of PTS",
            ours,
            shorter(first) && shorter(second),
        )
        .because(note),
        Finding::judged(
            "Fig. 2, packets a second that the window grows by in congestion avoidance, windows of ns-2",
            "larger for PTS: the ACKs arrive faster",
            format!("{} directly, {} and {} with a node", rate(slow), rate(fast), rate(faster_still)),
            faster(fast) && faster(faster_still),
        ),
    ]
}

/// When a window falls, in words.
fn falls(at: Option<f64>) -> String {
    at.map_or("not affected".to_owned(), |at| format!("falls at {at:.2} s"))
}

/// The throughput of a case with its nodes at these places, with the first seed.
fn goodput(records: &[RunRecord], case: &str, nodes: &str) -> Option<f64> {
    let is_meant =
        |record: &&RunRecord| record.case.as_deref() == Some(case) && value_of_relays(record) == nodes;
    records.iter().find(is_meant)?.outcome.as_ref()?.metrics.get(&Metric::Goodput).copied()
}

/// What a burst leaves of the throughput, with nodes at these places.
fn left(records: &[RunRecord], case: &str, nodes: &str) -> f64 {
    let both = goodput(records, case, nodes).zip(goodput(records, "calm", nodes));
    both.map_or(f64::NAN, |(burst, calm)| burst / calm)
}

/// The share of the throughput that may be missing where it is "not affected", and that has to be where it "falls".
const AFFECTED: f64 = 0.05;

pub(in crate::pts) fn fig3(records: &[RunRecord]) -> Vec<Finding> {
    let noticed = |case: &str| {
        let records = of_case(records, case);
        [Leg::Direct, Leg::First, Leg::Second].map(|leg| notices_loss(&window(&records, leg)))
    };
    let [direct, first, second] = noticed(FILLED);
    let sources = |direct: Option<f64>, first: Option<f64>| {
        format!("directly {}, with a node {}", falls(direct), falls(first))
    };
    let ns2 = noticed(NS2);
    let ahead = left(records, FILLED, "[3]");
    let percent = |share: f64| Unit::Percent.format(share);
    vec![
        Finding::judged(
            "Fig. 3, the sources' windows with a loss on the first half",
            "both set to 1",
            sources(direct, first),
            direct.is_some() && first.is_some(),
        )
        .because(beside_ns2(&sources(direct, first), &sources(ns2[0], ns2[1]))),
        Finding::judged(
            "Fig. 3, the second connection's window with a loss on the first half",
            "not affected",
            falls(second),
            // Without a loss on the first half there is nothing to be unaffected by.
            first.is_some() && second.is_none(),
        )
        .because(beside_ns2(&falls(second), &falls(ns2[2]))),
        Finding::number(
            "Fig. 3, text: throughput with a momentary loss on the first half, of that without, with a node",
            "not affected (≥ 95.0 % is asked)",
            left(records, FILLED, "[4]"),
            Unit::Percent,
        )
        .at_least(1.0 - AFFECTED)
        .because(format!("{} directly", percent(left(records, FILLED, "[]"))))
        .explained(
            format!(
                "the node has nothing unsent to go on with: in the middle both legs are equally fast; after three hops, where the first leg is faster, the buffer fills, and {} are left (`fig3`)",
                percent(ahead)
            ),
            ahead >= 1.0 - AFFECTED,
        ),
    ]
}

/// How long a window that fell takes until it has twenty packets again.
fn recovers(window: &[(f64, f64)]) -> Option<f64> {
    let fell = notices_loss(window)?;
    let again = window.iter().find(|(time, size)| *time > fell && *size >= 20.0)?;
    Some(again.0 - fell)
}

/// "If the congestion were to be in the second part of the PTS connection then the PTS node will set its cwnd to 1 causing the TCP
/// throughput to fall … Due to shorter rtt PTS node will recover its steady state transmission rate for this session much faster."
pub(in crate::pts) fn fig3_second(records: &[RunRecord]) -> Vec<Finding> {
    const BURST: &str = "burst";
    let burst = of_case(records, BURST);
    let of = |leg| window(&burst, leg);
    let [first, second] = [Leg::First, Leg::Second].map(|leg| notices_loss(&of(leg)));
    let [direct, node] = [Leg::Direct, Leg::Second].map(|leg| recovers(&of(leg)));
    vec![
        Finding::judged(
            "Fig. 3, text: the node's window with a loss on the second half",
            "set to 1",
            format!("{}; the source's {}", falls(second), falls(first)),
            second.is_some(),
        ),
        Finding::number(
            "Fig. 3, text: throughput with a loss on the second half, of that without, with a node",
            "falls (≤ 95.0 % is asked)",
            left(records, BURST, "[4]"),
            Unit::Percent,
        )
        .at_most(1.0 - AFFECTED)
        .because(format!("{} directly", Unit::Percent.format(left(records, BURST, "[]")))),
        Finding::judged(
            "Fig. 3, text: how long until the window has 20 packets again after a loss on the second half",
            "much faster than a direct connection (≤ 0.75 of its time is asked)",
            format!("{} with a node, {} directly", seconds(node), seconds(direct)),
            direct.zip(node).is_some_and(|(direct, node)| node <= 0.75 * direct),
        ),
    ]
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

/// From here on it is "almost 1 s".
const ALMOST_A_SECOND: f64 = 0.8;

/// The bursts of a case. Those that begin at the same time and come to the same losses are one: the queue is full by then, and what comes later is
/// dropped anyway.
fn different_bursts(records: &[RunRecord], case: &str) -> Vec<Burst> {
    let mut found: Vec<Burst> = Vec::new();
    for own in bursts(records, case) {
        let same =
            |other: &Burst| (other.begins, other.direct, other.first) == (own.begins, own.direct, own.first);
        if !found.iter().any(same) {
            found.push(own);
        }
    }
    found
}

/// A figure shows one burst. What this share of bursts has may be what it shows.
const EXAMPLE: f64 = 0.05;

/// Why no burst is noticed almost a second earlier, or why the median burst is not.
fn why_not(finding: Finding, found: &[Burst], others: &[(&str, usize, usize)]) -> Finding {
    let soon = direct_soon(found);
    // The timer under which the direct connection itself is the latest.
    let asked = others.iter().filter(|(_, _, of)| *of > 0);
    let latest = asked.min_by(|a, b| (a.1 * b.2).cmp(&(b.1 * a.2)));
    let (timer, few, of) = latest.copied().unwrap_or(("no other timer", 0, 0));
    let almost = found.iter().filter(|own| own.earlier() >= ALMOST_A_SECOND).count();
    finding
        .explained(
            format!(
                "the timer: the direct connection notices all of {} bursts within {ALMOST_A_SECOND} s by itself, and nothing is so much earlier than that; with {timer} it is {few} of {of} (sweep `fig4-burst`)",
                found.len()
            ),
            !found.is_empty() && soon == found.len() && few < of,
        )
        .explained(
            format!(
                "the figure shows one burst, and {almost} of {} different ones are as it shows; the median is what is asked here (sweep `fig4-burst`)",
                found.len()
            ),
            almost as f64 >= EXAMPLE * found.len() as f64 && almost > 0,
        )
}

/// How many bursts the direct connection notices too soon for anything to be almost a second earlier.
fn direct_soon(found: &[Burst]) -> usize {
    found.iter().filter(|own| own.direct - own.begins < ALMOST_A_SECOND).count()
}

pub(in crate::pts) fn fig4_burst(records: &[RunRecord]) -> Vec<Finding> {
    let soon_with: Vec<(&str, usize, usize)> = TIMERS
        .into_iter()
        .map(|(case, timer)| {
            let found = different_bursts(records, case);
            (timer, direct_soon(&found), found.len())
        })
        .collect();
    let by_timer = |(case, timer): (&str, &str)| {
        let found = different_bursts(records, case);
        let all = found.len();
        let median = Summary::of(found.iter().map(Burst::earlier))?.percentile(0.5);
        let most = found.iter().max_by(|a, b| a.earlier().total_cmp(&b.earlier()))?;
        let count = |is_meant: &dyn Fn(&Burst) -> bool| found.iter().filter(|own| is_meant(own)).count();
        let (almost, later) =
            (count(&|own| own.earlier() >= ALMOST_A_SECOND), count(&|own| own.earlier() < 0.0));
        // Nothing is so much earlier than a direct connection that notices by then, or with a first one that needs as long.
        let soon = direct_soon(&found);
        let node_waits = count(&|own| own.first - own.begins >= ALMOST_A_SECOND);
        let what =
            format!("Fig. 4 as worded, a burst at the same time: noticed earlier by, in the median, {timer}");
        let own =
            Finding::number(what, "almost 1 s", median, Unit::Seconds).within(NEAR_A_SECOND, ABOUT).because(
                format!(
                    "{almost} of {all} different bursts that both notice by {ALMOST_A_SECOND} s or more, {later} later with a node; at most {}, a burst of {} at {:.2} s; the direct connection notices {soon} within {ALMOST_A_SECOND} s by itself, and the first one with a node {node_waits} only after that",
                    Unit::Seconds.format(most.earlier()),
                    most.lasts,
                    most.begins
                ),
            );
        Some(why_not(own, &found, &soon_with))
    };
    TIMERS.into_iter().filter_map(by_timer).collect()
}

pub(in crate::pts) fn fig4(records: &[RunRecord]) -> Vec<Finding> {
    let earlier = |case: &str| {
        let records = of_case(records, case);
        let noticed = |leg| notices_loss(&window(&records, leg));
        Some(noticed(Leg::Direct)? - noticed(Leg::First)?)
    };
    let note = beside_ns2(&seconds(earlier(FILLED)), &seconds(earlier(NS2)));
    vec![match earlier(FILLED) {
        Some(earlier) => Finding::number(FIG_4, "almost 1 s", earlier, Unit::Seconds)
            .within(NEAR_A_SECOND, ABOUT)
            .because(note),
        None => Finding::judged(FIG_4, "almost 1 s", "never", false),
    }]
}

/// What the rows are called of Figure 4, and of the same by the queue.
const FIG_4: &str = "Fig. 4, how much earlier the loss is noticed";
const BY_QUEUE: &str = "Fig. 4, how much earlier, by the queue, which the text does not state";

/// By how much earlier a node's source notices its loss with each length of the queue, in packets. It is only shown: the text states none, and to take
/// the one that comes to what is stated would be to fit it.
pub(in crate::pts) fn fig4_queue(records: &[RunRecord]) -> Vec<Finding> {
    let mut queues: Vec<u32> = records
        .iter()
        .filter_map(|record| swept(record, ".queue")?.strip_suffix(" packets")?.parse().ok())
        .collect();
    queues.sort_unstable();
    queues.dedup();
    let said = |case: &str| {
        let earlier = |packets: &u32| {
            let written = format!("{packets} packets");
            let of_queue = |record: &RunRecord| swept(record, ".queue") == Some(written.as_str());
            let own: Vec<RunRecord> =
                of_case(records, case).into_iter().filter(|record| of_queue(record)).collect();
            let noticed = |leg| notices_loss(&window(&own, leg));
            let time = noticed(Leg::Direct)? - noticed(Leg::First)?;
            Some(format!("{} with {packets}", seconds(Some(time))))
        };
        queues.iter().filter_map(earlier).collect::<Vec<_>>().join(", ")
    };
    let ours = said(FILLED);
    let note = beside_ns2(&ours, &said(NS2));
    vec![Finding::shown(BY_QUEUE, "almost 1 s", ours).because(note)]
}

/// What one experiment says of another: Figure 4 beside the same by the queue, and beside bursts that come at the same time with and without a node.
pub(in crate::pts) fn beside_each_other(found: Vec<Finding>) -> Vec<Finding> {
    let by_queue = found.iter().find(|own| own.what == BY_QUEUE).map(|own| own.ours.clone());
    let with_queue = |own: Finding| match &by_queue {
        Some(queues) if own.what == FIG_4 => {
            let tried = format!(
                "tried: other queues than ns-2's 50 packets, {queues}; the text states none, so to take one would be to fit it"
            );
            let reason = if own.reason.is_empty() { tried } else { format!("{}; {tried}", own.reason) };
            own.because(reason)
        }
        _ => own,
    };
    by_bursts(found.into_iter().map(with_queue).collect())
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
        [FILLED, NS2].map(|name| case(name, records.to_vec())).concat()
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
    fn a_queue_that_has_what_is_stated_is_no_cause() {
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
        let found = of(0.9);
        assert!(found[0].verdict == Verdict::Differs && found[0].cause.is_none(), "{found:#?}");
        assert!(found[0].reason.contains("900 ms with 100"), "what was tried is said: {found:#?}");
        assert!(found[1].what == BY_QUEUE && found[1].verdict == Verdict::Shown, "{found:#?}");
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
        assert!(holds(&at(None), "second connection") && holds(&at(None), "sources"));
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
    fn what_is_the_same_with_windows_of_ns_2_is_one_row_that_says_so() {
        let of = |ns2: f64| {
            let filled = case(FILLED, windows([Some(2.7), Some(2.0), None], [20.0; 3]));
            let ns2 = case(NS2, windows([Some(ns2), Some(2.0), None], [20.0; 3]));
            fig4(&[filled, ns2].concat()).swap_remove(0).reason
        };
        assert_eq!(of(2.7), "the same with windows of ns-2");
        assert_eq!(of(2.9), "with windows of ns-2: 900 ms");
    }

    /// Runs with these throughputs, by case and places of nodes.
    fn throughputs(of: &[(&str, &str, f64)]) -> Vec<RunRecord> {
        let record = |(case, nodes, goodput): &(&str, &str, f64)| {
            run(Some(case), &[(NODES, nodes)]).metric(Metric::Goodput, *goodput)
        };
        of.iter().map(record).collect()
    }

    #[test]
    fn what_a_loss_on_the_first_half_leaves_is_judged_and_its_cause_must_be_shown() {
        let of = |left: f64, ahead: f64| {
            let found = fig3(&throughputs(&[
                ("calm", "[4]", 2.0),
                ("filled", "[4]", 2.0 * left),
                ("calm", "[3]", 1.5),
                ("filled", "[3]", 1.5 * ahead),
            ]));
            found.into_iter().find(|own| own.what.contains("throughput")).unwrap()
        };
        assert_eq!(of(0.98, 1.0).verdict, Verdict::Holds);
        let lost = of(0.9, 1.0);
        assert!(lost.cause.is_some_and(|cause| cause.contains("the buffer fills, and 100 % are left")));
        let both = of(0.9, 0.9);
        assert!(both.verdict == Verdict::Differs && both.cause.is_none(), "{both:?}");
    }

    #[test]
    fn a_loss_on_the_second_half_is_the_nodes() {
        let of = |falls, rates| fig3_second(&case("burst", windows(falls, rates)));
        assert!(holds(&of([None, None, Some(4.0)], [20.0; 3]), "the node's window"));
        assert!(!holds(&of([None, Some(4.0), None], [20.0; 3]), "the node's window"));
        let left = |burst: f64| fig3_second(&throughputs(&[("calm", "[4]", 2.0), ("burst", "[4]", burst)]));
        assert!(holds(&left(1.6), "throughput") && !holds(&left(1.99), "throughput"));
    }

    #[test]
    fn who_has_its_window_again_sooner_recovers_faster() {
        // A fall, and a rise to twenty packets after so many seconds.
        let curve = |again: f64| -> Vec<(f64, f64)> {
            vec![(0.0, 0.0), (1.0, 20.0 * PACKET), (2.0, PACKET), (2.0 + again, 20.0 * PACKET)]
        };
        let of = |direct: f64, node: f64| {
            let split = run(Some("burst"), &[(NODES, "[4]")]).series(Series::Cwnd, "ftp", &[]).series(
                Series::Cwnd,
                "ftp@relay",
                &curve(node),
            );
            fig3_second(&[
                run(Some("burst"), &[(NODES, "[]")]).series(Series::Cwnd, "ftp", &curve(direct)),
                split,
            ])
        };
        assert!(holds(&of(2.0, 1.0), "how long until"));
        assert!(!holds(&of(2.0, 1.9), "how long until"), "hardly faster is not much faster");
        assert!(!holds(&fig3_second(&[]), "how long until"));
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
        assert!(
            two.reason.contains("1 of 2 different bursts that both notice by 0.8 s or more, 1 later"),
            "{two:?}"
        );
        assert!(two.reason.contains("at most 900 ms"), "{two:?}");
        // One burst of three with what is stated is not the median.
        records.extend(pair("rfc6298", "4040 ms", [Some(4.9), Some(4.9)]));
        assert_eq!(judged(&records).verdict, Verdict::Differs);
        records.extend(pair("rfc6298", "4060 ms", [Some(4.95), Some(4.0)]));
        records.extend(pair("rfc6298", "4080 ms", [Some(4.95), Some(4.0)]));
        assert_eq!(judged(&records).verdict, Verdict::Holds);
    }

    #[test]
    fn bursts_that_come_to_the_same_losses_are_one() {
        let pair = |lasts: &str, direct: f64| {
            let mut pair = case("fine", windows([Some(direct), Some(3.2), None], [20.0; 3]));
            for record in &mut pair {
                record.values.push(("cross.burst.lasts".into(), format!("\"{lasts}\"")));
                record.values.push(("cross.burst.start".into(), "\"3000 ms\"".into()));
            }
            pair
        };
        let of =
            |longer: f64| fig4_burst(&[pair("60 ms", 3.4), pair("90 ms", longer)].concat()).swap_remove(0);
        assert!(of(3.4).reason.contains("of 1 different bursts"), "{:?}", of(3.4));
        assert!(of(3.9).reason.contains("of 2 different bursts"), "{:?}", of(3.9));
        assert_eq!(of(3.4).cause, None, "the runs themselves are no cause");
    }

    #[test]
    fn a_timer_is_a_cause_beside_another_and_an_example_where_there_is_one() {
        let burst = |case: &str, start: &str, falls: [f64; 2]| {
            let mut pair = windows([Some(falls[0]), Some(falls[1]), None], [20.0; 3]);
            for record in &mut pair {
                record.case = Some(case.to_owned());
                record.values.push(("cross.burst.lasts".into(), "\"60 ms\"".into()));
                record.values.push(("cross.burst.start".into(), format!("\"{start}\"")));
            }
            pair
        };
        let of = |records: &[RunRecord], timer: &str| {
            let found = fig4_burst(records);
            found.into_iter().find(|own| own.what.ends_with(timer)).and_then(|own| own.cause)
        };
        let fine = [burst("fine", "3000 ms", [3.4, 3.2]), burst("fine", "3020 ms", [3.5, 3.3])].concat();
        assert_eq!(of(&fine, "timers of 100 ms at least"), None, "no other timer was run");
        let slow = [fine.clone(), burst("rfc6298", "3000 ms", [4.5, 4.3])].concat();
        let cause = of(&slow, "timers of 100 ms at least").unwrap();
        assert!(cause.contains("all of 2 bursts") && cause.contains("it is 0 of 1"), "{cause}");
        let one_later = [slow.clone(), burst("fine", "3040 ms", [4.0, 3.8])].concat();
        assert_eq!(of(&one_later, "timers of 100 ms at least"), None, "it has one in which it could be");
        assert_eq!(of(&slow, "timers of RFC 6298"), None, "none is as in the figure");
        let example = [slow, burst("rfc6298", "3020 ms", [4.5, 3.6])].concat();
        let cause = of(&example, "timers of RFC 6298").unwrap();
        assert!(cause.starts_with("the figure shows one burst, and 1 of 2"), "{cause}");
    }
}
