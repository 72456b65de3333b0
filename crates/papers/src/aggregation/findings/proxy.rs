//! What the proxy does for short downloads, windows and stalls: Figures 9, 11 and 12.
use super::super::measures::*;
use super::{DOWNLINK, NEAR, percent, seconds};
use shorthaul_observe::{Finding, Outcome, RunRecord};
use shorthaul_report::Unit;
use shorthaul_scenario::Series;

pub(super) fn short_downloads(records: &[RunRecord]) -> Option<Vec<Finding>> {
    let gain = |case: &str, kb| {
        let time = |case| mean(&transfers(records, case, Some(kb)));
        Some(1.0 - time(case)? / time("direct")?)
    };
    let mut found = Vec::new();
    for kb in [5.0, 10.0, 15.0, 17.0, 20.0, 25.0, 30.0] {
        let times = |case| {
            let all = transfers(records, case, Some(kb));
            Some(format!("{} ± {}", seconds(mean(&all)?), seconds(deviation(&all)?)))
        };
        let saved = gain("aggregate", kb)?;
        let what = format!("Fig. 9: {kb} kB, saved of the time of a direct download");
        found.push(Finding::number(what, "clear benefits", saved, Unit::Percent).at_least(0.1).because(
            format!(
                "{} instead of {}; {} with auto",
                times("aggregate")?,
                times("direct")?,
                percent(gain("auto", kb)?)
            ),
        ));
    }
    Some(found)
}

/// The mean share that a case saves of another one's times, over all sizes.
fn saved(records: &[RunRecord], case: &str, of: &str) -> Option<f64> {
    let share = |kb: f64| {
        let time = |case| mean(&transfers(records, case, Some(kb)));
        Some(1.0 - time(case)? / time(of)?)
    };
    mean(&[5.0, 10.0, 15.0, 17.0, 20.0, 25.0, 30.0].into_iter().map(share).collect::<Option<Vec<_>>>()?)
}

/// "Even with the Linux 2.4 receiver, the proxy provides significant performance gains", though "the performance improvement was not
/// better than using Windows 2000 or WinCE clients … due to Linux offering an initial receive window of just 5392 bytes" (§VI-A).
pub(super) fn small_window(records: &[RunRecord]) -> Option<Vec<Finding>> {
    let (small, usual) =
        (saved(records, "small-aggregate", "small-direct")?, saved(records, "aggregate", "direct")?);
    Some(vec![
        Finding::number(
            "Fig. 9, a receive window of 5392 bytes: saved, mean of all sizes",
            "significant gains",
            small,
            Unit::Percent,
        )
        .at_least(0.1)
        .because("here that window does not grow")
        .explained(
            format!(
                "the window, which does not grow here: with one of twice the size {} are saved (cases `twice`)",
                percent(saved(records, "twice-aggregate", "twice-direct").unwrap_or(f64::NAN))
            ),
            saved(records, "twice-aggregate", "twice-direct").is_some_and(|saved| saved >= 0.1),
        ),
        Finding::judged(
            "Fig. 9, a receive window of 5392 bytes: saved, beside that with 64 kB",
            "not better",
            format!("{} and {}", percent(small), percent(usual)),
            small <= usual,
        ),
    ])
}

/// "This benefit is maintained and even enhanced when using HTTP/1.1 persistent TCP connections" (§VI-A).
pub(super) fn persistent_connections(records: &[RunRecord]) -> Option<Vec<Finding>> {
    let share = saved(records, "aggregate", "direct")?;
    Some(vec![
        Finding::number(
            "Fig. 9, text: saved on persistent connections, mean of all sizes",
            "maintained",
            share,
            Unit::Percent,
        )
        .at_least(0.1),
    ])
}

/// The bunching waits of `fig11-knee`, as they are written there.
const WAITS: [&str; 5] = ["100 ms", "300 ms", "600 ms", "900 ms", "1200 ms"];

/// The longest of them at which the link's effective product is the paper's 10 kB.
const PAPER_WAIT: &str = "300 ms";

/// The runs in which the uplink collects packets for this long before it sends them together.
fn bunched(records: &[RunRecord], wait: &str) -> Vec<RunRecord> {
    let has = |record: &&RunRecord| record.values.iter().any(|(_, value)| value.trim_matches('"') == wait);
    records.iter().filter(has).cloned().collect()
}

/// At which wait of the uplink for packets to send together the link's effective product is the paper's 10 kB, and what `auto` does there.
pub(super) fn knee_by_bunching(records: &[RunRecord]) -> Option<Vec<Finding>> {
    let with = |wait: &str| bunched(records, wait);
    let knee = |wait: &str| {
        let records = with(wait);
        let time = |case: &str| mean(&transfers(&records, case, None));
        let largest = time("32kB")?;
        let enough = |case: &&str| time(case).is_some_and(|time| time <= (1.0 + NEAR) * largest);
        ["5kB", "7kB", "10kB", "12kB", "13kB", "14kB", "32kB"].into_iter().find(enough)
    };
    let knees: Vec<(&str, &str)> = WAITS.into_iter().filter_map(|wait| Some((wait, knee(wait)?))).collect();
    // The longest wait, which is nearest to four at a time.
    let tens = knees.iter().rev().find(|(_, knee)| *knee == "10kB").map(|(wait, _)| *wait);
    let said: Vec<String> = knees.iter().map(|(wait, knee)| format!("{knee} at {wait}")).collect();
    let mut found = vec![Finding::judged(
        "Fig. 11: the window from which 600 kB take no longer, by the wait of the uplink's bunching",
        "10 kB",
        said.join(", "),
        tens.is_some(),
    )];
    if let Some(wait) = tens {
        let records = with(wait);
        let time = |case: &str| mean(&transfers(&records, case, None));
        found.push(
            Finding::number(
                format!("Fig. 11: 600 kB with 10 kB, bunching of {wait}"),
                "155 s",
                time("10kB")?,
                Unit::Seconds,
            )
            .within(NEAR, FULL),
        );
        let best = ["10kB", "12kB", "13kB", "14kB", "32kB"].into_iter().filter_map(time).reduce(f64::min)?;
        found.push(
            Finding::number(
                format!("auto, bunching of {wait}: throughput of the best fixed window"),
                "≥ 0.97 is asked",
                best / time("auto")?,
                Unit::None,
            )
            .at_least(0.97),
        );
        for (case, of) in [("one-segment", "one segment at a time"), ("10kB", "10 kB")] {
            if let (Some(unloaded), Some(auto)) = (rtt(&records, case), rtt(&records, "auto")) {
                found.push(
                    Finding::number(
                        format!("auto, bunching of {wait}: round trip of that of {of}"),
                        "≤ 1.5 is asked",
                        auto / unloaded,
                        Unit::None,
                    )
                    .at_most(1.5),
                );
            }
        }
    }
    Some(found)
}

/// How long the paper's 600 kB take with a window that fills the link.
pub(in crate::aggregation) const FULL: f64 = 155.0;
/// Their size.
const SIZE: f64 = 600e3;

/// The figure with the model's own link, and what `auto` does where the uplink bunches less (`fig11-knee`).
pub(super) fn windows(records: &[RunRecord], bunching: &[RunRecord]) -> Option<Vec<Finding>> {
    let time = |case: &str| mean(&transfers(records, case, None));
    let beside = |case: &str| {
        let round_trips = rtt(records, case).map(|rtt| format!("round trips of {}", seconds(rtt)));
        let queue = queue(records, case).map(|queue| format!("a queue of {}", seconds(queue)));
        [round_trips, queue].into_iter().flatten().collect::<Vec<_>>().join(", ")
    };
    let mut found = Vec::new();
    // Where the knee is on this model of the link: the smallest window that takes no longer than the largest.
    let largest = time("32kB")?;
    let knee = ["10kB", "12kB", "13kB", "14kB", "16kB"]
        .into_iter()
        .find(|case| time(case).is_some_and(|time| time <= (1.0 + NEAR) * largest));
    // A window a round trip, or the link's rate: round trips as they are with one segment.
    let alone = rtt(records, "one-segment");
    let model = |case: &str| {
        let window =
            if case == "direct" { 64.0 } else { case.trim_end_matches("kB").parse().unwrap_or(f64::NAN) };
        alone.map_or("none: no round trip was measured".to_owned(), |alone| {
            seconds(SIZE / f64::min(1e3 * window / alone, DOWNLINK))
        })
    };
    for case in ["5kB", "7kB"] {
        found.push(
            Finding::number(
                format!("Fig. 11: 600 kB, {case}"),
                "slower than 155 s",
                time(case)?,
                Unit::Seconds,
            )
            .at_least((1.0 + NEAR) * FULL)
            .model(model(case))
            .because(beside(case)),
        );
    }
    for case in ["10kB", "12kB", "13kB", "14kB", "16kB", "20kB", "32kB", "direct"] {
        found.push(
            Finding::number(format!("Fig. 11: 600 kB, {case}"), "155 s", time(case)?, Unit::Seconds)
                .within(NEAR, FULL)
                .model(model(case))
                .because(beside(case))
                .explained(
                    format!(
                        "the link model's effective product is {} where the paper measured 10 kB: from there on the time is that of larger windows (sweep `fig11`)",
                        knee.unwrap_or("none")
                    ),
                    knee.is_some_and(|knee| knee != "10kB" && time(knee) < time(case)),
                ),
        );
    }
    if let (Some(large), Some(direct)) = (rtt(records, "32kB"), rtt(records, "direct")) {
        found.push(
            Finding::number("Fig. 11: round trips of 32 kB, of those without proxy", "approaching", large / direct, Unit::Percent)
                .at_least(0.75)
                .model(format!("{}: queues go with windows", percent(0.5)))
                .because(format!("{} and {}: a direct connection has a window of 64 kB here", seconds(large), seconds(direct)))
                .explained(
                    "a queue is as long as the window: the direct connection's is 64 kB, and round trips go with the windows (sweep `fig11`)",
                    // Half of the window, half of the round trip; within a fifth.
                    (large / direct - 0.5).abs() <= 0.1,
                ),
        );
    }
    let best = ["14kB", "16kB", "20kB", "32kB"].into_iter().filter_map(time).reduce(f64::min)?;
    found.push(
        Finding::number(
            "auto: throughput of the best fixed window",
            "≥ 0.97 is asked",
            best / time("auto")?,
            Unit::None,
        )
        .at_least(0.97),
    );
    // With the longest wait of the uplink at which the product is the paper's.
    let paper_like = bunched(bunching, PAPER_WAIT);
    let there =
        rtt(&paper_like, "auto").zip(rtt(&paper_like, "one-segment")).map(|(auto, alone)| auto / alone);
    for (window, name, remark) in [
        (
            "one-segment",
            "one segment at a time",
            "of the fixed windows, only that of 9 segments (13 kB) does both",
        ),
        (
            "5kB",
            "three segments, which leave two thirds of the link idle",
            "aggregated acknowledgments, no queue",
        ),
    ] {
        if let (Some(unloaded), Some(auto)) = (rtt(records, window), rtt(records, "auto")) {
            let what = format!("auto: round trip of that of {name}");
            found.push(
                Finding::number(what, "≤ 1.5 is asked", auto / unloaded, Unit::None)
                    .at_most(1.5)
                    .because(remark)
                    .explained(
                        format!(
                            "acknowledgments that the uplink keeps back for 900 ms, which a single segment does not meet: where it keeps them back for {PAPER_WAIT}, the ratio is {:.2} (sweep `fig11-knee`)",
                            there.unwrap_or(f64::NAN)
                        ),
                        there.is_some_and(|ratio| ratio <= 1.5),
                    ),
            );
        }
    }
    Some(found)
}

/// When the link of Figure 12 stalls, in seconds.
const STALLS_AT: f64 = 90.0;
/// A transfer is significantly quicker if it saves this share of the time.
const SIGNIFICANT: f64 = 0.1;

/// Nothing was sent again if the link carried no more than this share beyond what it carries without a stall.
const AGAIN: f64 = 0.001;

/// Bytes that came to the phone over the link, on average.
fn carried(records: &[RunRecord], case: &str) -> Option<f64> {
    let of = |(_, outcome): (&RunRecord, &Outcome)| {
        let link = outcome.links.iter().find(|link| link.name == "proxy>phone")?;
        Some(link.delivered_bytes as f64)
    };
    mean(&outcomes(records, case).filter_map(of).collect::<Vec<_>>())
}

/// Figures 12 and 3, and the same without a stall and from a sender of then (`fig12-causes`).
pub(super) fn stalls(records: &[RunRecord], causes: &[RunRecord]) -> Option<Vec<Finding>> {
    // When the link is back, in seconds.
    let back = |case: &str| if case.ends_with("held") { 98.0 } else { 105.0 };
    let wait = |case: &str| resumed_after(records, case, back(case));
    let whole = |case: &str| mean(&transfers(records, case, None));
    let alone = mean(&transfers(causes, "aggregate-none", None));
    let sooner = |what: String, with: f64, without: f64| {
        let stated =
            format!("significantly quicker than without proxy (≥ {} is asked)", percent(SIGNIFICANT));
        let ours = format!("{} instead of {}", seconds(with), seconds(without));
        Finding::judged(what, stated, ours, with <= without * (1.0 - SIGNIFICANT))
    };
    let mut found = Vec::new();
    for (case, direct, what) in [
        ("aggregate-held", "direct-held", "a stall of 8 s that delays"),
        ("aggregate-lost", "direct-lost", "a stall of 15 s that loses"),
    ] {
        let (Some(own), Some(without)) = (wait(case), wait(direct)) else { continue };
        // Live, nobody measures the round trips of the gateway's own connection.
        if let Some(round_trip) = rtt_between(records, case, 60.0, 90.0) {
            found.push(
                Finding::number(
                    format!("Fig. 12: {what}: round trips until data arrives again"),
                    "swiftly, by one retransmission",
                    own / round_trip,
                    Unit::None,
                )
                .at_most(1.5)
                .because(format!("{}; 600 kB in {}", seconds(own), seconds(whole(case)?))),
            );
        }
        let soon = sooner(format!("Fig. 12 and 3: {what}: until data arrives again"), own, without);
        found.push(if case.ends_with("held") { nothing_to_recover(soon, records, causes) } else { soon });
        let (own, without) = (whole(case)?, whole(direct)?);
        let all = sooner(format!("Fig. 12 and 3: {what}: the whole transfer"), own, without);
        found.push(match alone {
            Some(alone) => {
                let least = alone + back(case) - STALLS_AT;
                all.explained(
                    format!(
                        "the link: with the proxy and no stall the transfer takes {}, with the stall's own length {}, which is {} of the direct one's time, and {} are added{} (`fig12-causes`)",
                        seconds(alone),
                        seconds(least),
                        percent(least / without),
                        percent(own / least - 1.0),
                        of_then(case, own, causes)
                    ),
                    least > without * (1.0 - SIGNIFICANT) && own <= least * (1.0 + NEAR),
                )
            }
            None => all,
        });
    }
    for (case, what) in [
        ("auto-held", "a stall of 8 s that delays, auto"),
        ("direct-held", "a stall of 8 s that delays, direct"),
        ("auto-lost", "a stall of 15 s that loses, auto"),
        ("direct-lost", "a stall of 15 s that loses, direct"),
    ] {
        let (Some(wait), Some(whole)) = (wait(case), whole(case)) else { continue };
        let ours = format!("{}; 600 kB in {}", seconds(wait), seconds(whole));
        found.push(Finding::shown(format!("Fig. 12: {what}: data arrives again after"), "", ours));
    }
    (!found.is_empty()).then_some(found)
}

/// A stall that the link layer bridges: what was under way arrives, with the proxy and without. That is the cause where the link carries no byte more than
/// without a stall, and where the proxy is significantly quicker after one that loses.
fn nothing_to_recover(soon: Finding, records: &[RunRecord], causes: &[RunRecord]) -> Finding {
    let again = |with: &str, without: &str| Some(carried(records, with)? / carried(causes, without)? - 1.0);
    let lost = |case: &str| resumed_after(records, case, 105.0);
    let (Some(own), Some(direct), Some(after), Some(after_directly)) = (
        again("aggregate-held", "aggregate-none"),
        again("direct-held", "direct-none"),
        lost("aggregate-lost"),
        lost("direct-lost"),
    ) else {
        return soon;
    };
    soon.explained(
        format!(
            "nothing is lost, and the link carries as much as without a stall ({} more with the proxy, {} directly): there is nothing to recover; after a stall that loses it is {} instead of {} (`fig12-causes`)",
            percent(own.max(0.0)),
            percent(direct.max(0.0)),
            seconds(after),
            seconds(after_directly)
        ),
        own <= AGAIN && direct <= AGAIN && after <= after_directly * (1.0 - SIGNIFICANT),
    )
}

/// What the proxy saves beside a sender whose timers are of the paper's time, in words, where that was tried.
fn of_then(case: &str, own: f64, causes: &[RunRecord]) -> String {
    match mean(&transfers(causes, "direct-lost-then", None)) {
        Some(then) if case.ends_with("lost") => {
            format!(
                "; beside a sender with the timers of then, which takes {}, it saves {}",
                seconds(then),
                percent(1.0 - own / then)
            )
        }
        _ => String::new(),
    }
}

/// The outages of `fig12-uplink`: when the way up is back, in seconds.
const UP_AGAIN: [f64; 3] = [22.0, 52.0, 87.0];
/// How often a series is sampled there, in seconds.
const SAMPLED: f64 = 0.5;
/// A round trip and a half of that link, with a window of 14 kB: what a silence may last after the link is back.
const RESUMES: f64 = 1.5 * 3.3;

/// Outages of the uplink alone: how long no data arrives after the link is back, in each run, and how many runs are silent for long.
pub(super) fn silences(records: &[RunRecord]) -> Option<Vec<Finding>> {
    let all = |case: &str| -> Vec<f64> {
        outcomes(records, case).filter_map(|(_, outcome)| longest_silence(outcome)).collect()
    };
    let is_long = |silence: &&f64| **silence > RESUMES + SAMPLED;
    let of_case = |case: &str| {
        let (silences, held) = (all(case), all(&format!("{case}-held")));
        let most = silences.iter().copied().reduce(f64::max)?;
        let most_held = held.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Some(
            Finding::number(
                format!("outages of the uplink alone, {case}: runs that stay silent for more than a round trip and a half"),
                "none is asked",
                silences.iter().filter(is_long).count() as f64,
                Unit::None,
            )
            .at_most(0.0)
            .because(format!("{} runs; the longest silence after the link is back lasts {}", silences.len(), seconds(most)))
            .explained(
                format!(
                    "all acknowledgments of a window are lost, and the first timer, longer than that of RFC 6298, has to expire, at most {} after the link is back: where the link layer holds them, no silence is longer than {} ({} runs, cases `held`)",
                    seconds(most),
                    seconds(most_held),
                    held.len()
                ),
                !held.is_empty() && !held.iter().any(|silence| is_long(&silence)),
            ),
        )
    };
    Some(["aggregate", "auto"].into_iter().filter_map(of_case).collect())
}

/// The longest time after an outage without data, if the transfer went on.
fn longest_silence(outcome: &Outcome) -> Option<f64> {
    let delivered = points(outcome, Series::Delivered, "file")?;
    let whole = delivered.last()?.1;
    let after = |back: f64| {
        let before = delivered.iter().rev().find(|(at, _)| *at <= back)?.1;
        let next = delivered.iter().find(|(at, sum)| *at > back && *sum > before);
        (before < whole).then(|| next.map_or(f64::INFINITY, |(at, _)| at - back))
    };
    UP_AGAIN.into_iter().filter_map(after).reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;
    use crate::testing::{Having, holds, run};
    use shorthaul_observe::Verdict;

    #[test]
    fn short_downloads_are_judged_size_by_size() {
        let of = |share: f64| {
            let mut records = Vec::new();
            for kb in [5, 10, 15, 17, 20, 25, 30] {
                let size = format!("\"{kb} kB\"");
                for (case, time) in [("direct", 10.0), ("aggregate", 10.0 * share), ("auto", 10.0 * share)] {
                    records.push(run(Some(case), &[("size", &size)]).flow(
                        "file",
                        1.0,
                        &[time, time + 0.1],
                        &[],
                    ));
                }
            }
            found(short_downloads, &records)
        };
        assert!(holds(&of(0.7), "Fig. 9") && !holds(&of(1.0), "Fig. 9") && of(0.7).len() == 7);
    }

    #[test]
    fn small_windows_and_persistent_connections_are_judged() {
        let of = |small: f64, usual: f64| {
            let mut records = Vec::new();
            for kb in [5, 10, 15, 17, 20, 25, 30] {
                let size = format!("\"{kb} kB\"");
                for (case, time) in [
                    ("direct", 10.0),
                    ("small-direct", 10.0),
                    ("aggregate", 10.0 * (1.0 - usual)),
                    ("small-aggregate", 10.0 * (1.0 - small)),
                ] {
                    records.push(run(Some(case), &[("size", &size)]).flow("file", 1.0, &[time], &[]));
                }
            }
            records
        };
        let small = |small, usual| found(small_window, &of(small, usual));
        assert!(
            holds(&small(0.2, 0.3), "5392")
                && !holds(&small(0.0, 0.3), "mean")
                && !holds(&small(0.4, 0.3), "beside")
        );
        let persistent = |usual| found(persistent_connections, &of(0.0, usual));
        assert!(holds(&persistent(0.3), "persistent") && !holds(&persistent(0.05), "persistent"));
    }

    #[test]
    fn the_knee_is_looked_for_by_the_bunching() {
        let at = |knee_of: &dyn Fn(&str) -> f64, auto: f64| {
            let mut records = Vec::new();
            for wait in WAITS {
                for (case, window) in [
                    ("one-segment", 1.4),
                    ("5kB", 5.0),
                    ("7kB", 7.0),
                    ("10kB", 10.0),
                    ("12kB", 12.0),
                    ("14kB", 14.0),
                    ("32kB", 32.0),
                    ("auto", auto),
                ] {
                    let knee = knee_of(wait);
                    let trip = 2.0 * f64::max(window / knee, 1.0);
                    records.push(
                        run(Some(case), &[("wait", &format!("\"{wait}\""))])
                            .flow("file", 1.0, &[155.0 * f64::max(knee / window, 1.0)], &[])
                            .series(Series::Rtt, "file@proxy", &[(30.0, trip)]),
                    );
                }
            }
            found(knee_by_bunching, &records)
        };
        let moving = |wait: &str| if wait == "600 ms" { 10.0 } else { 14.0 };
        let good = at(&moving, 10.0);
        assert!(holds(&good, "no longer") && holds(&good, "auto, bunching of 600 ms"), "{good:#?}");
        assert!(!holds(&at(&moving, 32.0), "round trip of that of 10 kB"), "a queue of three windows");
        assert!(!holds(&at(&moving, 5.0), "throughput"));
        let never = at(&|_| 14.0, 14.0);
        assert!(!holds(&never, "no longer") && never.len() == 1, "{never:#?}");
    }

    #[test]
    fn windows_are_judged_and_the_knee_is_a_cause_only_where_there_is_one() {
        const CASES: [(&str, f64); 12] = [
            ("5kB", 5.0),
            ("7kB", 7.0),
            ("10kB", 10.0),
            ("12kB", 12.0),
            ("13kB", 13.0),
            ("14kB", 14.0),
            ("16kB", 16.0),
            ("20kB", 20.0),
            ("32kB", 32.0),
            ("auto", 14.0),
            ("direct", 64.0),
            ("one-segment", 1.4),
        ];
        let with = |knee: f64, full: f64| {
            let of = |(case, window): (&str, f64)| {
                let trip = (window / knee).max(1.0) * 2.0;
                run(Some(case), &[]).flow("file", 1.0, &[full * (knee / window).max(1.0)], &[]).series(
                    Series::Rtt,
                    if case == "direct" { "file" } else { "file@proxy" },
                    &[(30.0, trip)],
                )
            };
            found(|records| windows(records, &[]), &CASES.map(of))
        };
        let papers = with(10.0, 155.0);
        for case in ["5kB", "10kB", "14kB", "32kB", "direct", "best fixed"] {
            assert!(holds(&papers, case), "{case}");
        }
        let later = with(14.0, 155.0);
        let ten = later.iter().find(|own| own.what.ends_with("10kB")).unwrap();
        assert!(
            ten.verdict == Verdict::Differs && ten.cause.as_ref().is_some_and(|cause| cause.contains("14kB")),
            "{ten:?}"
        );
        let slow = with(10.0, 200.0);
        let ten = slow.iter().find(|own| own.what.ends_with("10kB")).unwrap();
        assert!(ten.verdict == Verdict::Differs && ten.cause.is_none(), "{ten:?}");
        assert!(!holds(&with(4.0, 155.0), "5kB"), "no slower");
    }

    #[test]
    fn stalls_are_judged() {
        let after = |wait: f64, whole: f64| {
            let of = |case: &str, back: f64, wait: f64, whole: f64| {
                let delivered = [(10.0, 1e4), (89.0, 1e5), (back + wait, 2e5)];
                let subject = if case.starts_with("direct") { "file" } else { "file@proxy" };
                run(Some(case), &[])
                    .flow("file", 1.0, &[whole], &[])
                    .series(Series::Delivered, "file", &delivered)
                    .series(Series::Rtt, subject, &[(70.0, 2.0), (80.0, 2.0)])
            };
            let mut records = Vec::new();
            for (kind, back) in [("held", 98.0), ("lost", 105.0)] {
                records.push(of(&format!("aggregate-{kind}"), back, wait, whole));
                records.push(of(&format!("auto-{kind}"), back, wait, whole));
                records.push(of(&format!("direct-{kind}"), back, 12.0, 180.0));
            }
            found(|records| stalls(records, &[]), &records)
        };
        assert!(holds(&after(1.0, 162.0), "round trips") && holds(&after(1.0, 162.0), "whole transfer"));
        assert!(!holds(&after(9.0, 162.0), "round trips") && !holds(&after(1.0, 180.0), "whole transfer"));
        assert!(!holds(&after(1.0, 173.0), "whole transfer"), "4 % are not significant");
        assert!(
            !holds(&after(11.5, 162.0), "8 s that delays: until data"),
            "4 % are not significant here, either"
        );
    }

    #[test]
    fn what_a_stall_costs_is_the_links_only_where_no_proxy_could_be_sooner() {
        let link = |bytes| shorthaul_observe::LinkOutcome {
            name: "proxy>phone".into(),
            offered: 0,
            delivered: 0,
            delivered_bytes: bytes,
            queue_full: 0,
            lost: 0,
            outage: 0,
            max_queue: 0,
        };
        let of = |case: &str, whole: f64, back: f64, wait: f64, bytes: u64| {
            let delivered = [(10.0, 1e4), (89.0, 1e5), (back + wait, 2e5)];
            let mut record = run(Some(case), &[]).flow("file", 1.0, &[whole], &[]).series(
                Series::Delivered,
                "file",
                &delivered,
            );
            record.outcome.as_mut().unwrap().links.push(link(bytes));
            record
        };
        let causes = |alone: f64| {
            [
                of("aggregate-none", alone, 105.0, 0.0, 622_000),
                of("direct-none", 157.0, 105.0, 0.0, 622_000),
                of("direct-lost-then", 199.0, 105.0, 16.0, 628_000),
            ]
        };
        let with = |alone: f64, own: f64, again: u64, lost: f64| {
            let records = [
                of("aggregate-held", own, 98.0, 1.05, 622_000 + again),
                of("direct-held", 165.0, 98.0, 1.0, 622_000),
                of("aggregate-lost", own + 10.0, 105.0, lost, 624_000),
                of("direct-lost", 184.0, 105.0, 12.7, 624_000),
            ];
            found(|records| stalls(records, &causes(alone)), &records)
        };
        let cause = |found: &[Finding], what: &str| {
            found.iter().find(|own| own.what.contains(what)).and_then(|own| own.cause.clone())
        };
        let (soon, whole) = ("8 s that delays: until data", "8 s that delays: the whole");
        let good = with(154.0, 162.0, 0, 4.25);
        assert!(cause(&good, soon).is_some_and(|cause| cause.contains("12.7 s")), "{good:#?}");
        assert!(cause(&good, whole).is_some_and(|cause| cause.contains("98.2 %")), "{good:#?}");
        assert!(cause(&good, "15 s that loses: the whole").is_some_and(|cause| cause.contains("199 s")));
        assert_eq!(cause(&with(100.0, 162.0, 0, 4.25), whole), None, "a better proxy could have been sooner");
        assert_eq!(cause(&with(154.0, 175.0, 0, 4.25), whole), None, "it adds more than the link takes");
        assert_eq!(cause(&with(154.0, 162.0, 9_000, 4.25), soon), None, "something was sent again");
        assert_eq!(cause(&with(154.0, 162.0, 0, 12.7), soon), None, "losses are not recovered sooner either");
    }

    #[test]
    fn stalls_between_kernels_are_judged_without_the_gateways_round_trips() {
        let live = |proxy: f64, direct: f64| {
            let of = |case: &str, back: f64, wait: f64| {
                let delivered = [(10.0, 1e4), (89.0, 1e5), (back + wait, 2e5)];
                let mut record = run(Some(case), &[]).flow("file", 1.0, &[170.0], &[]).series(
                    Series::Delivered,
                    "file",
                    &delivered,
                );
                record.engine = shorthaul_observe::EngineName::Live;
                record
            };
            let mut records = Vec::new();
            for (kind, back) in [("held", 98.0), ("lost", 105.0)] {
                records.extend([
                    of(&format!("aggregate-{kind}"), back, proxy),
                    of(&format!("direct-{kind}"), back, direct),
                ]);
            }
            found(|records| stalls(records, &[]), &records)
        };
        let what = "Fig. 12 and 3: a stall of 15 s that loses: until data arrives again";
        assert!(holds(&live(4.25, 12.3), what) && !holds(&live(7.55, 6.2), what));
        assert!(live(7.55, 6.2).iter().all(|own| !own.what.contains("round trips")));
    }

    #[test]
    fn a_silence_after_an_outage_of_the_uplink_is_counted() {
        let of = |wait: f64, held: f64| {
            let case = |name: &str, wait: f64| {
                let delivered = [(1.0, 1e3), (21.0, 9e4), (22.0 + wait, 1e5), (51.0, 2e5), (53.0, 3e5)];
                run(Some(name), &[]).series(Series::Delivered, "file", &delivered)
            };
            found(silences, &[case("auto", wait), case("auto-held", held)])
        };
        assert!(holds(&of(2.0, 1.0), "uplink") && !holds(&of(9.0, 1.0), "uplink"));
        assert!(
            of(9.0, 1.0)[0].cause.as_ref().is_some_and(|cause| cause.contains("1 runs")),
            "{:?}",
            of(9.0, 1.0)
        );
        assert_eq!(of(9.0, 9.0)[0].cause, None, "what was held was late, too");
    }
}
