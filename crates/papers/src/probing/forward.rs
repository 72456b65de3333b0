//! Throughput in the forward direction, which the paper leaves open: "The prototype implementation measures RTTs. Throughput measurements in
//! the forward direction are a subject of ongoing investigation" (§2, footnote 4). Probes say when they arrived, and are judged by how fast
//! they pass instead of by round trips (`forward-probing`): where only errors are in the way, where answers wait on their way back, and
//! beside an ordinary flow.
use crate::error::Result;
use crate::experiment;
use shorthaul_observe::{Finding, RunRecord, Store, Summary, runs_of};
use shorthaul_report::{Console, Unit};
use shorthaul_scenario::Metric;
use shorthaul_sim::Simulator;

const ERRORS: &str = include_str!("../../../../papers/probing/forward.toml");
const BESIDE: &str = include_str!("../../../../papers/probing/beside.toml");

/// By round trips, as in the paper, and by the forward direction.
const RULES: [&str; 2] = ["reno-probing", "forward-probing"];
/// The rate of the uplink: as fast as the downlink, and such that acknowledgments wait.
const UPLINKS: [&str; 2] = ["3400 kbit/s", "500 kbit/s"];
/// What may be slower by chance.
const NEAR: f64 = 1.05;
/// Of what both have where probes are judged by round trips, what has to be left.
const LEFT: f64 = 0.9;
/// Who sends this many times as much again has not answered the losses of a queue.
const MANY: f64 = 3.0;

/// Runs both scenarios, with another number of seeds where one is asked for.
pub fn run(repeats: Option<u32>, store: &Store, console: &dyn Console) -> Result<Vec<Finding>> {
    let study = experiment::study("forward", ERRORS, repeats)?;
    console.say(study.about());
    let errors = experiment::records(&Simulator::default(), &study, Some(store), console)?;
    let study = experiment::study("beside", BESIDE, repeats)?;
    console.say(study.about());
    let is_ours = |case: Option<&str>| case.is_some_and(|case| RULES.contains(&case));
    let points = study.points();
    let runs: Vec<_> =
        runs_of(&study).into_iter().filter(|run| is_ours(points[run.point].case.as_deref())).collect();
    let beside = experiment::records_of(&Simulator::default(), &study, &runs, Some(store), console)?;
    Ok(findings(&errors, &beside))
}

/// How long the data take on average, in a case.
fn time(records: &[RunRecord], case: &str, uplink: &str) -> Option<f64> {
    let is_meant = |record: &&RunRecord| {
        record.case.as_deref() == Some(case)
            && record.values.iter().any(|(_, value)| value.trim_matches('"') == uplink)
    };
    let of_run = |record: &RunRecord| {
        let flow = record.outcome.as_ref()?.flows.iter().find(|flow| flow.name == "data")?;
        flow.transfers.first().copied()
    };
    Summary::of(records.iter().filter(is_meant).filter_map(of_run)).map(|times| times.mean)
}

/// What a flow gets, in bit/s: a sender that probes, or an ordinary one beside it.
fn rate(records: &[RunRecord], case: &str, flow: &str) -> Option<f64> {
    let of_case = records.iter().filter(|record| record.case.as_deref() == Some(case));
    let of_run = |record: &RunRecord| {
        let flow = record.outcome.as_ref()?.flows.iter().find(|own| own.name == flow)?;
        Some(flow.goodput)
    };
    Summary::of(of_case.filter_map(of_run)).map(|rates| rates.mean)
}

/// What both have to send again, in bytes.
fn retransmitted(records: &[RunRecord], case: &str) -> Option<f64> {
    let of_case = records.iter().filter(|record| record.case.as_deref() == Some(case));
    let of_run = |record: &RunRecord| record.outcome.as_ref()?.metrics.get(&Metric::Retransmitted).copied();
    Summary::of(of_case.filter_map(of_run)).map(|bytes| bytes.mean)
}

fn findings(errors: &[RunRecord], beside: &[RunRecord]) -> Vec<Finding> {
    let name =
        |what: &str| format!("§2, footnote 4, probes judged by throughput in the forward direction: {what}");
    let seconds = |time: f64| Unit::Seconds.format(time);
    let mut found = Vec::new();
    for (what, uplink) in
        ["5 MB over errors alone", "the same while acknowledgments wait in a queue"].into_iter().zip(UPLINKS)
    {
        let [Some(by_round_trips), Some(forward)] = RULES.map(|case| time(errors, case, uplink)) else {
            continue;
        };
        let reno = time(errors, "reno", uplink)
            .map_or(String::new(), |time| format!(", {} without probes", seconds(time)));
        found.push(
            Finding::number(
                name(&format!("{what}, time of that by round trips")),
                "under investigation; no slower is asked",
                forward / by_round_trips,
                Unit::Percent,
            )
            .at_most(NEAR)
            .because(format!("{} and {}{reno}", seconds(forward), seconds(by_round_trips))),
        );
    }
    let again = RULES.map(|case| retransmitted(beside, case).unwrap_or(f64::NAN));
    for (what, flow) in [
        ("what an ordinary flow keeps beside it", "ordinary"),
        ("what it has beside an ordinary flow", "prober"),
    ] {
        let [Some(by_round_trips), Some(forward)] = RULES.map(|case| rate(beside, case, flow)) else {
            continue;
        };
        let [of_round_trips, of_forward] = again.map(|bytes| Unit::Bytes.format(bytes));
        found.push(
            Finding::number(
                name(&format!("{what}, of that by round trips")),
                "under investigation; 0.9 is asked",
                forward / by_round_trips,
                Unit::Percent,
            )
            .at_least(LEFT)
            .because(format!(
                "{} and {}",
                Unit::BitsPerSecond.format(forward),
                Unit::BitsPerSecond.format(by_round_trips)
            ))
            .explained(
                format!("a queue that stands, and does not grow, draws no probes apart: the window stays where it overflows, and {of_forward} are sent again, {of_round_trips} by round trips"),
                again[1] >= MANY * again[0],
            ),
        );
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Having, holds, run};
    use shorthaul_scenario::Study;

    #[test]
    fn both_scenarios_have_what_is_looked_at() {
        let cases = |text: &str| -> Vec<(Option<String>, String)> {
            let study = Study::from_toml("forward.toml", text).unwrap();
            let value =
                |values: &[(String, String)]| values.first().map_or("", |(_, value)| value).to_owned();
            study.points().iter().map(|point| (point.case.clone(), value(&point.values))).collect()
        };
        for case in RULES {
            assert!(cases(BESIDE).iter().any(|(own, _)| own.as_deref() == Some(case)), "{case}");
            for uplink in UPLINKS {
                let is_there = |(own, value): &(Option<String>, String)| {
                    own.as_deref() == Some(case) && value.trim_matches('"') == uplink
                };
                assert!(cases(ERRORS).iter().any(is_there), "{case}, {uplink}");
            }
        }
    }

    #[test]
    fn each_finding_can_fail() {
        let found = |times: [f64; 2],
                     behind_others: [f64; 2],
                     kept: [f64; 2],
                     own: [f64; 2],
                     again: [f64; 2]| {
            let mut errors = Vec::new();
            for (place, case) in RULES.into_iter().enumerate() {
                for (uplink, times) in UPLINKS.into_iter().zip([times, behind_others]) {
                    errors.push(run(Some(case), &[("rate", uplink)]).flow("data", 1e6, &[times[place]], &[]));
                }
            }
            let beside = (0..2).map(|place| {
                let record = run(Some(RULES[place]), &[]).metric(Metric::Retransmitted, again[place]);
                record.flow("ordinary", kept[place], &[], &[]).flow("prober", own[place], &[], &[])
            });
            findings(&errors, &beside.collect::<Vec<_>>())
        };
        let (few, many) = ([4e5, 5e5], [4e5, 6e6]);
        let good = found([20.0, 20.0], [40.0, 25.0], [5e6, 4.8e6], [4e6, 4e6], few);
        assert!(good.len() == 4 && holds(&good, "footnote 4"), "{good:#?}");
        let fails = |found: Vec<Finding>, what: &str| assert!(!holds(&found, what), "{what}");
        fails(found([20.0, 22.0], [40.0, 25.0], [5e6, 5e6], [4e6; 2], few), "errors alone");
        fails(found([20.0, 20.0], [40.0, 45.0], [5e6, 5e6], [4e6; 2], few), "wait in a queue");
        fails(found([20.0, 20.0], [40.0, 25.0], [5e6, 3e6], [4e6; 2], few), "keeps beside it");
        let starved = |again| {
            let found = found([20.0; 2], [40.0; 2], [5e6; 2], [4e6, 3e5], again);
            let own = found.into_iter().find(|own| own.what.contains("what it has beside")).unwrap();
            assert!(!holds(std::slice::from_ref(&own), "what it has"));
            own.cause
        };
        assert!(starved(many).is_some_and(|cause| cause.contains("6.00 MB")));
        assert_eq!(starved(few), None, "what is sent again is no more than usual: another cause");
    }
}
