//! Probing devices in whole networks: after outages, against errors in phases, and through a gateway.
use shorthaul_observe::Outcome;
use shorthaul_scenario::{Metric, Point, Series, Study};
use shorthaul_sim::{Recording, simulate};

const OUTAGE: &str = include_str!("../../../../papers/probing/outage.toml");
const TABLES: &str = include_str!("../../../../papers/probing/tables.toml");

fn run(study: &Study, point: &Point, seed: u64) -> Outcome {
    let outcome = simulate(&study.scenario(point).unwrap(), seed, Recording::default()).unwrap();
    assert!(outcome.problems.is_empty(), "{}, seed {seed}: {:?}", point.label(), outcome.problems);
    outcome
}

/// How long after the end of the outage, at 5 s, the first byte was delivered, in seconds.
fn resumed(study: &Study, case: &str, lasts: f64) -> f64 {
    let point = study.points().iter().find(|point| point.case.as_deref() == Some(case)).expect(case);
    let outcome = run(study, point, 1);
    let delivered =
        outcome.series.iter().find(|series| series.series == Series::Delivered).expect("a series");
    let end = 5.0 + lasts;
    let value_at =
        |time: f64| delivered.points.iter().rfind(|(at, _)| *at <= time).map_or(0.0, |point| point.1);
    let before = value_at(end);
    let first = delivered.points.iter().find(|(at, bytes)| *at > end && *bytes > before);
    first.map_or(f64::INFINITY, |(at, _)| at - end)
}

#[test]
fn the_gateway_resumes_within_two_round_trips_of_a_links_return() {
    let study = Study::from_toml("outage.toml", OUTAGE).unwrap();
    for lasts in [5, 20, 40] {
        let waited = resumed(&study, &format!("gateway-one-sided-{lasts}s"), f64::from(lasts));
        // A round trip of 98 ms, and the 10 ms between two samples.
        assert!(waited <= 0.21, "{waited} s after {lasts} s");
        let without = resumed(&study, &format!("gateway-{lasts}s"), f64::from(lasts));
        assert!(without > 1.0, "the timer alone takes {without} s after {lasts} s");
    }
}

#[test]
fn in_long_phases_of_heavy_errors_probing_is_four_times_as_fast() {
    let study = Study::from_toml("tables.toml", TABLES).unwrap();
    let seconds = |protocol: &str| -> f64 {
        let wanted = |point: &&Point| {
            let has = |value: &str| point.values.iter().any(|(_, given)| given == value);
            point.case.as_deref() == Some(protocol) && has("\"4 s\"") && has("0.99")
        };
        let point = study.points().iter().find(wanted).expect(protocol);
        (1..=5).map(|seed| run(&study, point, seed).metrics[&Metric::Completion]).sum::<f64>() / 5.0
    };
    for (probing, base) in [("Tahoe-Probing", "Tahoe"), ("Reno-Probing", "Reno")] {
        let (probing_time, base_time) = (seconds(probing), seconds(base));
        assert!(4.0 * probing_time < base_time, "{probing}: {probing_time} s, {base}: {base_time} s");
    }
}
