//! What the paper states, beside ours.
use super::Runs;
use super::measures::*;
use shorthaul_observe::{Finding, Outcome, RunRecord};
use shorthaul_report::Unit;
use shorthaul_scenario::Series;

/// All that was run has something to say about.
pub(super) fn all(runs: &Runs) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut of = |name: &str, say: fn(&[RunRecord]) -> Option<Vec<Finding>>| {
        found.extend(runs.get(name).and_then(|records| say(records)).unwrap_or_default());
    };
    of("fig1", single_packets);
    of("fig1-directions", directions);
    of("fig2", beginning);
    of("fig3", stall_without_proxy);
    of("fig4", joining_without_proxy);
    of("fig9", short_downloads);
    of("fig9", small_window);
    of("fig9-persistent", persistent_connections);
    of("fig10", joining);
    of("fig11", windows);
    of("fig11-knee", knee_by_bunching);
    of("fig12", stalls);
    found
}

fn seconds(value: f64) -> String {
    Unit::Seconds.format(value)
}

fn percent(share: f64) -> String {
    Unit::Percent.format(share)
}

/// A time that is off by no more than this share agrees.
const NEAR: f64 = 0.05;

fn single_packets(records: &[RunRecord]) -> Option<Vec<Finding>> {
    let all = transfers(records, "", None);
    let of = |share| percentile(&all, share);
    let (least, most) = (of(0.01)?, of(0.99)?);
    let ours = format!("{} to {}, median {}", seconds(least), seconds(most), seconds(of(0.5)?));
    // The sums of the paper's ranges for both directions, and a twentieth.
    let holds = least >= 1.0 * (1.0 - NEAR) && most <= 4.3 * (1.0 + NEAR);
    Some(vec![
        Finding::judged(
            "Fig. 1: a packet of 100 B up and one of 1024 B down, far apart",
            "1 to 4.3 s",
            ours,
            holds,
        )
        .because("down 0.6 to 3 s and up 0.4 to 1.3 s in the paper"),
    ])
}

/// What a packet of Figure 1 takes on the uplink alone, at 1.4 kB/s.
const UPLINK_PACKET: f64 = 1024.0 / 1400.0;

/// The bursts of `fig1-directions`: one packet of this many bytes every so many seconds, as its text says.
const BURST: f64 = 972.0;
const GAP: f64 = 20.0;

/// How long each burst of a flow was on its way, in seconds: the first leaves when the connection is there, which the flow began at `start`,
/// and the others follow each other. Their arrival is known to a sample.
fn times_of_bursts(records: &[RunRecord], flow: &str, start: f64) -> Vec<f64> {
    let of = |(_, outcome): (&RunRecord, &Outcome)| -> Option<Vec<f64>> {
        let begins = start + outcome.flows.iter().find(|own| own.name == flow)?.set_ups.first()?;
        let mut delivered = points(outcome, Series::Delivered, flow)?.iter();
        let arrival = |burst: usize| {
            let (at, _) = delivered.find(|(_, bytes)| *bytes >= BURST * (burst + 1) as f64)?;
            Some(at - begins - GAP * burst as f64)
        };
        Some((0..).map_while(arrival).collect())
    };
    outcomes(records, "").filter_map(of).flatten().collect()
}

/// Figure 1's two ranges: 600 to 3000 ms down and 400 to 1300 ms up, for packets of 1024 bytes.
fn directions(records: &[RunRecord]) -> Option<Vec<Finding>> {
    let range = |flow: &str, start: f64| {
        let all = times_of_bursts(records, flow, start);
        Some([percentile(&all, 0.01)?, percentile(&all, 0.5)?, percentile(&all, 0.99)?])
    };
    let within = |[least, _, most]: [f64; 3], [from, to]: [f64; 2]| {
        least >= from * (1.0 - NEAR) && most <= to * (1.0 + NEAR)
    };
    let words = |[least, median, most]: [f64; 3]| {
        format!("{} to {}, median {}", seconds(least), seconds(most), seconds(median))
    };
    let (down, up) = (range("down", 0.0)?, range("up", 10.0)?);
    let bare = up.map(|time| time - UPLINK_PACKET);
    Some(vec![
        Finding::judged("Fig. 1a: a packet of 1024 B down", "600 to 3000 ms", words(down), within(down, [0.6, 3.0])),
        Finding::judged("Fig. 1b: a packet of 1024 B up", "400 to 1300 ms", words(up), within(up, [0.4, 1.3])).explained(
            format!(
                "at the uplink's 1.4 kB/s such a packet takes {} by itself, so the paper's 400 ms are of a faster uplink; besides that it takes {}",
                seconds(UPLINK_PACKET),
                words(bare)
            ),
            within(bare, [0.4, 1.3]),
        ),
    ])
}

/// "Slow-start takes over 6 s to expand the congestion window sufficiently to enable the connection to utilize the full link": until
/// the effective product of 10 kB is in flight.
fn beginning(records: &[RunRecord]) -> Option<Vec<Finding>> {
    let (record, outcome) = outcomes(records, "").next()?;
    let subject = wireless(record, outcome, "file")?;
    let in_flight = points(outcome, Series::InFlight, &subject)?;
    let begins = in_flight.iter().find(|(_, bytes)| *bytes > 0.0)?.0;
    let full = in_flight.iter().find(|(_, bytes)| *bytes >= 10e3).map_or(f64::NAN, |(at, _)| *at);
    Some(vec![
        Finding::number(
            "Fig. 2: until a direct download has 10 kB in flight",
            "over 6 s",
            full - begins,
            Unit::Seconds,
        )
        .at_least(6.0),
    ])
}

fn stall_without_proxy(records: &[RunRecord]) -> Option<Vec<Finding>> {
    Some(vec![
        Finding::number(
            "Fig. 3: round-trip time of a direct transfer of 600 kB",
            "tens of seconds",
            rtt(records, "")?,
            Unit::Seconds,
        )
        .at_least(10.0)
        .because("a window of 64 kB"),
    ])
}

/// Two timeouts of a SYN, of 3 and of 6 s.
const TWO_SYNS: f64 = 9.0;

fn joining_without_proxy(records: &[RunRecord]) -> Option<Vec<Finding>> {
    let set_up = mean(&set_ups(records, "", "second"))?;
    Some(vec![
        Finding::number(
            "Fig. 4: the second flow's connection, direct",
            "two timeouts of a SYN",
            set_up,
            Unit::Seconds,
        )
        .at_least(TWO_SYNS),
        Finding::number(
            "Fig. 4: Jain's index while both run, direct",
            "gross unfairness",
            shared_fairness(records, "")?,
            Unit::None,
        )
        .at_most(0.7),
    ])
}

fn short_downloads(records: &[RunRecord]) -> Option<Vec<Finding>> {
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
fn small_window(records: &[RunRecord]) -> Option<Vec<Finding>> {
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
        .because("here that window does not grow"),
        Finding::judged(
            "Fig. 9, a receive window of 5392 bytes: saved, beside that with 64 kB",
            "not better",
            format!("{} and {}", percent(small), percent(usual)),
            small <= usual,
        ),
    ])
}

/// "This benefit is maintained and even enhanced when using HTTP/1.1 persistent TCP connections" (§VI-A).
fn persistent_connections(records: &[RunRecord]) -> Option<Vec<Finding>> {
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

/// At which wait of the uplink for packets to send together the link's effective product is the paper's 10 kB, and what `auto` does there.
fn knee_by_bunching(records: &[RunRecord]) -> Option<Vec<Finding>> {
    let with = |wait: &str| -> Vec<RunRecord> {
        let has =
            |record: &&RunRecord| record.values.iter().any(|(_, value)| value.trim_matches('"') == wait);
        records.iter().filter(has).cloned().collect()
    };
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

fn joining(records: &[RunRecord]) -> Option<Vec<Finding>> {
    let set_up = |case| mean(&set_ups(records, case, "second"));
    let times = |case| mean(&transfers_of(records, case, "second"));
    let instead = |ours: f64, direct: f64| format!("{} instead of {}", seconds(ours), seconds(direct));
    let fairness = shared_fairness(records, "aggregate")?;
    let mut found = vec![
        Finding::judged(
            "Fig. 10: the second flow's connection",
            "quickly, instead of a long time",
            instead(set_up("aggregate")?, set_up("direct")?),
            set_up("aggregate")? < 0.5 * set_up("direct")?,
        ),
        Finding::judged(
            "Fig. 10: 50 kB of the second flow take",
            "its fair share, instead of little progress",
            instead(times("aggregate")?, times("direct")?),
            times("aggregate")? < 0.9 * times("direct")?,
        ),
        Finding::number("Fig. 10: Jain's index while both run, by the proxy", "fair", fairness, Unit::None)
            .at_least(0.95)
            .because(format!("{:.3} directly", shared_fairness(records, "direct")?)),
    ];
    if let Some([alone, shared]) = outstanding_of_first(records, "aggregate") {
        found.push(
            Finding::number(
                "Fig. 10: the first flow's outstanding data beside the second, of that alone",
                "about half",
                shared / alone,
                Unit::Percent,
            )
            .within(0.2, 0.5)
            .because(format!(
                "{}, then {}",
                Unit::Bytes.format(alone),
                Unit::Bytes.format(shared)
            )),
        );
    }
    Some(found)
}

/// How long the paper's 600 kB take with a window that fills the link.
const FULL: f64 = 155.0;

fn windows(records: &[RunRecord]) -> Option<Vec<Finding>> {
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
    for case in ["5kB", "7kB"] {
        found.push(
            Finding::number(
                format!("Fig. 11: 600 kB, {case}"),
                "slower than 155 s",
                time(case)?,
                Unit::Seconds,
            )
            .at_least((1.0 + NEAR) * FULL)
            .because(beside(case)),
        );
    }
    for case in ["10kB", "12kB", "13kB", "14kB", "16kB", "20kB", "32kB", "direct"] {
        found.push(
            Finding::number(format!("Fig. 11: 600 kB, {case}"), "155 s", time(case)?, Unit::Seconds)
                .within(NEAR, FULL)
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
                    .because(remark),
            );
        }
    }
    Some(found)
}

fn stalls(records: &[RunRecord]) -> Option<Vec<Finding>> {
    // When the link is back, in seconds.
    let back = |case: &str| if case.ends_with("held") { 98.0 } else { 105.0 };
    let wait = |case: &str| resumed_after(records, case, back(case));
    let whole = |case: &str| mean(&transfers(records, case, None));
    let mut found = Vec::new();
    for (case, direct, what) in [
        ("aggregate-held", "direct-held", "a stall of 8 s that delays"),
        ("aggregate-lost", "direct-lost", "a stall of 15 s that loses"),
    ] {
        let round_trip = rtt_between(records, case, 60.0, 90.0)?;
        found.push(
            Finding::number(
                format!("Fig. 12: {what}: round trips until data arrives again"),
                "swiftly, by one retransmission",
                wait(case)? / round_trip,
                Unit::None,
            )
            .at_most(1.5)
            .because(format!("{}; 600 kB in {}", seconds(wait(case)?), seconds(whole(case)?))),
        );
        found.push(Finding::judged(
            format!("Fig. 12 and 3: {what}: the whole transfer"),
            "significantly quicker than without proxy",
            format!("{} instead of {}", seconds(whole(case)?), seconds(whole(direct)?)),
            whole(case)? < whole(direct)? * 0.99,
        ));
    }
    for (case, what) in [
        ("auto-held", "a stall of 8 s that delays, auto"),
        ("direct-held", "a stall of 8 s that delays, direct"),
        ("auto-lost", "a stall of 15 s that loses, auto"),
        ("direct-lost", "a stall of 15 s that loses, direct"),
    ] {
        let ours = format!("{}; 600 kB in {}", seconds(wait(case)?), seconds(whole(case)?));
        found.push(Finding::shown(format!("Fig. 12: {what}: data arrives again after"), "", ours));
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Having, holds, run};
    use shorthaul_observe::Verdict;

    fn found(say: fn(&[RunRecord]) -> Option<Vec<Finding>>, records: &[RunRecord]) -> Vec<Finding> {
        say(records).expect("something to say")
    }

    #[test]
    fn the_problem_is_judged() {
        let packets =
            |times: &[f64]| found(single_packets, &[run(None, &[]).flow("single", 1.0, times, &[])]);
        assert!(holds(&packets(&[1.2, 1.8, 4.0]), "Fig. 1") && !holds(&packets(&[0.3, 0.4, 0.5]), "Fig. 1"));
        assert!(!holds(&packets(&[1.2, 1.8, 9.0]), "Fig. 1"));
        let grows = |rate: f64| {
            let curve: Vec<(f64, f64)> = (0..20).map(|at| (f64::from(at), rate * f64::from(at))).collect();
            found(beginning, &[run(None, &[]).series(Series::InFlight, "file", &curve)])
        };
        assert!(
            holds(&grows(1e3), "Fig. 2") && !holds(&grows(9e3), "Fig. 2") && !holds(&grows(0.1), "Fig. 2")
        );
        let trips = |rtt| {
            found(
                stall_without_proxy,
                &[run(None, &[]).series(Series::Rtt, "file", &[(30.0, rtt), (60.0, rtt)])],
            )
        };
        assert!(holds(&trips(14.0), "Fig. 3") && !holds(&trips(2.0), "Fig. 3"));
    }

    /// Two flows, of which the second gets `share` of each second.
    fn two(case: Option<&str>, share: f64, set_up: f64, takes: f64) -> RunRecord {
        let curve = |share: f64| (0..60).map(|at| (f64::from(at), share * f64::from(at))).collect::<Vec<_>>();
        let subject = if case == Some("aggregate") { "first@proxy" } else { "first" };
        let in_flight: Vec<(f64, f64)> =
            (0..60).map(|at| (f64::from(at), if at < 31 { 14e3 } else { 14e3 * (1.0 - share) })).collect();
        run(case, &[])
            .flow("first", 1.0, &[60.0], &[1.0])
            .flow("second", 1.0, &[takes], &[set_up])
            .series(Series::Delivered, "first", &curve(1.0 - share))
            .series(Series::Delivered, "second", &curve(share))
            .series(Series::InFlight, subject, &in_flight)
    }

    #[test]
    fn joining_is_judged_with_and_without_the_proxy() {
        let without = |share, set_up| found(joining_without_proxy, &[two(None, share, set_up, 40.0)]);
        assert!(holds(&without(0.02, 16.0), "Fig. 4"));
        assert!(!holds(&without(0.5, 16.0), "Jain") && !holds(&without(0.02, 1.0), "connection"));
        let with = |share, set_up, takes| {
            found(
                joining,
                &[two(Some("aggregate"), share, set_up, takes), two(Some("direct"), 0.02, 16.0, 44.0)],
            )
        };
        assert!(holds(&with(0.5, 4.0, 31.0), "Fig. 10"));
        assert!(!holds(&with(0.5, 16.0, 31.0), "connection") && !holds(&with(0.5, 4.0, 44.0), "50 kB"));
        assert!(!holds(&with(0.1, 4.0, 31.0), "Jain") && !holds(&with(0.1, 4.0, 31.0), "outstanding"));
    }

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
    fn the_directions_are_judged_apart() {
        let of = |down: &[f64], up: &[f64]| {
            let arrivals = |start: f64, times: &[f64]| -> Vec<(f64, f64)> {
                let at = |(burst, time): (usize, &f64)| {
                    (start + 1.5 + GAP * burst as f64 + time, BURST * (burst + 1) as f64)
                };
                times.iter().enumerate().map(at).collect()
            };
            found(
                directions,
                &[run(None, &[])
                    .flow("down", 1.0, &[], &[1.5])
                    .flow("up", 1.0, &[], &[1.5])
                    .series(Series::Delivered, "down", &arrivals(0.0, down))
                    .series(Series::Delivered, "up", &arrivals(10.0, up))],
            )
        };
        assert!(holds(&of(&[0.7, 1.0, 2.0], &[0.5, 0.6, 1.2]), "Fig. 1"));
        assert!(!holds(&of(&[0.7, 1.0, 4.0], &[0.5, 0.6, 1.2]), "Fig. 1a"));
        let slow = of(&[0.7, 1.0, 2.0], &[1.2, 1.3, 1.9]);
        assert!(!holds(&slow, "Fig. 1b") && slow[1].cause.is_some(), "{slow:#?}");
        let stuck = of(&[0.7, 1.0, 2.0], &[1.2, 1.3, 9.0]);
        assert!(stuck[1].cause.is_none(), "the packet's own time is not why: {stuck:#?}");
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
            found(windows, &CASES.map(of))
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
            found(stalls, &records)
        };
        assert!(holds(&after(1.0, 162.0), "round trips") && holds(&after(1.0, 162.0), "whole transfer"));
        assert!(!holds(&after(9.0, 162.0), "round trips") && !holds(&after(1.0, 180.0), "whole transfer"));
    }
}
