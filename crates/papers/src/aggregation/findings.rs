//! What the paper states, beside ours.
use super::Runs;
use super::measures::*;
use shorthaul_observe::{Finding, RunRecord};
use shorthaul_report::Unit;

/// All that was run has something to say about.
pub(super) fn all(runs: &Runs) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut of = |name: &str, say: fn(&[RunRecord]) -> Option<Vec<Finding>>| {
        found.extend(runs.get(name).and_then(|records| say(records)).unwrap_or_default());
    };
    of("fig1", single_packets);
    of("fig3", stall_without_proxy);
    of("fig4", joining_without_proxy);
    of("fig9", short_downloads);
    of("fig10", joining);
    of("fig11", windows);
    of("fig12", stalls);
    found
}

fn stated(what: &str, paper: &str, ours: String, reason: &str) -> Finding {
    Finding::shown(what, paper, ours).because(reason)
}

fn seconds(value: f64) -> String {
    Unit::Seconds.format(value)
}

fn percent(share: f64) -> String {
    Unit::Percent.format(share)
}

fn single_packets(records: &[RunRecord]) -> Option<Vec<Finding>> {
    let all = transfers(records, "", None);
    let of = |share| percentile(&all, share);
    let ours = format!("{} to {}, median {}", seconds(of(0.01)?), seconds(of(0.99)?), seconds(of(0.5)?));
    Some(vec![stated(
        "Fig. 1: a packet of 100 B up and one of 1024 B down, far apart",
        "1 to 4.3 s",
        ours,
        "down 0.6 to 3 s and up 0.4 to 1.3 s in the paper; a lone packet waits up to 1.2 s for others to share a frame with",
    )])
}

fn stall_without_proxy(records: &[RunRecord]) -> Option<Vec<Finding>> {
    Some(vec![stated(
        "Fig. 3: round-trip time of a direct transfer of 600 kB",
        "tens of seconds",
        seconds(rtt(records, "")?),
        "a window of 64 kB",
    )])
}

fn joining_without_proxy(records: &[RunRecord]) -> Option<Vec<Finding>> {
    Some(vec![
        stated(
            "Fig. 4: the second flow's connection, direct",
            "two RTOs of SYNs",
            seconds(mean(&set_ups(records, "", "second"))?),
            "",
        ),
        stated(
            "Fig. 4: Jain's index while both run, direct",
            "gross unfairness",
            format!("{:.2}", shared_fairness(records, "")?),
            "",
        ),
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
        let ours = format!(
            "{} instead of {}: {} less, {} with auto",
            times("aggregate")?,
            times("direct")?,
            percent(gain("aggregate", kb)?),
            percent(gain("auto", kb)?)
        );
        found.push(stated(&format!("Fig. 9: {kb} kB"), "faster", ours, ""));
    }
    Some(found)
}

fn joining(records: &[RunRecord]) -> Option<Vec<Finding>> {
    let both = |of: &dyn Fn(&str) -> Option<String>| {
        Some(format!("{} instead of {}", of("aggregate")?, of("direct")?))
    };
    let mut found = vec![
        stated(
            "Fig. 10: the second flow's connection",
            "quickly",
            both(&|case| Some(seconds(mean(&set_ups(records, case, "second"))?)))?,
            "",
        ),
        stated(
            "Fig. 10: 50 kB of the second flow take",
            "its fair share",
            both(&|case| Some(seconds(mean(&transfers_of(records, case, "second"))?)))?,
            "",
        ),
        stated(
            "Fig. 10: Jain's index while both run",
            "fair",
            both(&|case| Some(format!("{:.3}", shared_fairness(records, case)?)))?,
            "",
        ),
    ];
    if let Some([alone, shared]) = outstanding_of_first(records, "aggregate") {
        found.push(stated(
            "Fig. 10: the first flow's outstanding data, alone and beside the second",
            "about half",
            format!("{}, then {}", Unit::Bytes.format(alone), Unit::Bytes.format(shared)),
            "",
        ));
    }
    Some(found)
}

fn windows(records: &[RunRecord]) -> Option<Vec<Finding>> {
    let time = |case: &str| mean(&transfers(records, case, None));
    let mut found = Vec::new();
    for (case, paper) in [
        ("5kB", "slower"),
        ("7kB", "slower"),
        ("10kB", "155 s"),
        ("12kB", "155 s"),
        ("13kB", "155 s"),
        ("14kB", "155 s"),
        ("16kB", "155 s"),
        ("20kB", "155 s"),
        ("32kB", "155 s, round trips as without proxy"),
        ("auto", ""),
        ("direct", "155 s"),
    ] {
        let round_trips = rtt(records, case).map(|rtt| format!(", round trips of {}", seconds(rtt)));
        let queue = queue(records, case).map(|queue| format!(", a queue of {}", seconds(queue)));
        let ours = [Some(seconds(time(case)?)), round_trips, queue].into_iter().flatten().collect();
        let remark = match case {
            "10kB" => "the effective product of this model of the link is 14 kB, not 10",
            _ => "",
        };
        found.push(stated(&format!("Fig. 11: 600 kB, {case}"), paper, ours, remark));
    }
    let best = ["14kB", "16kB", "20kB", "32kB"].into_iter().filter_map(time).reduce(f64::min)?;
    let share = best / time("auto")?;
    found.push(Finding::judged(
        "auto: throughput of the best fixed window",
        "≥ 0.97 is asked for",
        format!("{share:.3}"),
        share >= 0.97,
    ));
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
            let times = auto / unloaded;
            let asked = "≤ 1.5 is asked for";
            found.push(Finding::judged(what, asked, format!("{times:.2}"), times <= 1.5).because(remark));
        }
    }
    Some(found)
}

fn stalls(records: &[RunRecord]) -> Option<Vec<Finding>> {
    let mut found = Vec::new();
    for (case, back, what) in [
        ("aggregate-held", 98.0, "a stall of 8 s that delays"),
        ("auto-held", 98.0, "the same, auto"),
        ("direct-held", 98.0, "the same, direct"),
        ("aggregate-lost", 105.0, "a stall of 15 s that loses"),
        ("auto-lost", 105.0, "the same, auto"),
        ("direct-lost", 105.0, "the same, direct"),
    ] {
        let wait = resumed_after(records, case, back)?;
        let round_trips = rtt_between(records, case, 60.0, 90.0).map(|rtt| wait / rtt);
        let round_trips = round_trips.map_or(String::new(), |count| format!(", {count:.1} round trips"));
        let whole = mean(&transfers(records, case, None))?;
        let paper = if case == "aggregate-held" { "swift, one retransmission" } else { "" };
        found.push(stated(
            &format!("Fig. 12: {what}: data arrives again after"),
            paper,
            format!("{}{round_trips}; 600 kB in {}", seconds(wait), seconds(whole)),
            "",
        ));
    }
    Some(found)
}
