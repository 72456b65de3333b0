//! Headlines that hold, and that do not.
use super::*;
use crate::testing::{Having, holds, run};
use shorthaul_observe::Verdict;
use shorthaul_scenario::Series;

fn of(scenario: &str) -> Headline {
    all().into_iter().find(|own| own.scenario == scenario).unwrap()
}

#[test]
fn every_headline_is_of_a_system_and_its_scenario_has_the_cases_that_are_judged() {
    for own in all() {
        assert!(row(own.row).is_some(), "{}", own.row);
        let study = study(own.scenario, own.text, Some(1))
            .unwrap_or_else(|error| panic!("{}: {error}", own.scenario));
        // A run of every point, with numbers that may be any: each judgement finds all that it asks for.
        let records: Vec<RunRecord> = study
            .points()
            .iter()
            .map(|point| {
                let scenario =
                    study.scenario(point).unwrap_or_else(|error| panic!("{}: {error}", own.scenario));
                let mut record = run(point.case.as_deref(), &[]);
                record.values = point.values.clone();
                for metric in [
                    Metric::Goodput,
                    Metric::Completion,
                    Metric::Timeouts,
                    Metric::Rtt,
                    Metric::Fairness,
                    Metric::Held,
                ] {
                    record = record.metric(metric, 1.0);
                }
                for flow in &scenario.flows {
                    record = record.flow(&flow.name, 1.0, &[2.0, 1.0, 1.0], &[]);
                }
                record.series(Series::QueueDelay, "station>phone", &[(0.0, 0.1), (1.0, 0.2)])
            })
            .collect();
        let found = own.findings(&records);
        assert!(!found.is_empty() && found.iter().all(|own| own.verdict != Verdict::Shown), "{found:?}");
        assert!(found.iter().all(|finding| finding.what.contains("its own headline")), "{found:?}");
        let none = own.findings(&[]);
        assert!(none.len() == 1 && none[0].verdict == Verdict::Shown, "nothing was run: {none:?}");
    }
}

#[test]
fn fast_start_halves_the_time_or_does_not() {
    let found = |gain: f64| {
        let runs =
            |kind: &str, time: f64| -> Vec<RunRecord> {
                ["5kB", "10kB", "20kB", "40kB", "80kB", "160kB"]
                    .iter()
                    .map(|size| {
                        run(Some(&format!("{kind}-{size}")), &[])
                            .flow("new", 0.0, &[9.0, time, time], &[])
                            .flow("after-pause", 0.0, &[9.0, time, time], &[])
                    })
                    .collect()
            };
        of("fast-start").findings(&[runs("slow", gain), runs("fast", 1.0)].concat())
    };
    assert!(holds(&found(2.5), "new connection") && holds(&found(2.5), "after a pause"));
    assert!(!holds(&found(1.2), "new connection") && !holds(&found(5.0), "after a pause"));
}

#[test]
fn a_window_that_is_stale_harms_or_does_not() {
    let found =
        |page: f64, others: f64| {
            let mut records = Vec::new();
            for bulk in ["1", "3"] {
                for (case, [time, goodput]) in [("slow", [1.0, 1.0]), ("fast", [page, others])] {
                    records.push(
                        run(Some(case), &[("flows.bulk.count", bulk)])
                            .flow("page", 0.0, &[1.0, time], &[])
                            .flow("bulk1", goodput, &[], &[]),
                    );
                }
            }
            of("fast-start-stale").findings(&records)
        };
    assert!(holds(&found(0.8, 1.0), "filled since") && holds(&found(0.8, 1.0), "the others"));
    assert!(!holds(&found(1.2, 1.0), "filled since") && !holds(&found(1.0, 0.8), "the others"));
}

#[test]
fn a_gain_that_grows_with_the_time_away_is_told_from_one_that_does_not() {
    let found = |gains: [f64; 3], best: &str| {
        let mut records = Vec::new();
        for (away, gain) in ["1s", "4s", "8s"].iter().zip(gains) {
            records.push(run(Some(&format!("whole-{away}")), &[]).metric(Metric::Completion, 100.0));
            let frozen = format!("frozen-250ms-{away}");
            records.push(run(Some(&frozen), &[]).metric(Metric::Completion, 100.0 * (1.0 - gain)));
        }
        for warning in ["0ms", "100ms", "500ms", "2s"] {
            let time = if warning == best { 50.0 } else { 99.5 };
            records.push(run(Some(&format!("frozen-{warning}-1s")), &[]).metric(Metric::Completion, time));
        }
        of("freeze-tcp").findings(&records)
    };
    let right = found([0.02, 0.05, 0.16], "500ms");
    assert!(holds(&right, "by the time away") && holds(&right, "warning is best"));
    assert!(!holds(&found([0.16, 0.05, 0.02], "500ms"), "by the time away"));
    assert!(!holds(&found([0.02, 0.05, 0.16], "2s"), "warning is best"));
}

#[test]
fn westwood_gains_with_the_loss_or_not_and_the_queue_of_clamp_is_near_its_equations_or_not() {
    let westwood = |gains: [f64; 4]| {
        let mut records = Vec::new();
        for (loss, gain) in ["0.5 %", "1 %", "2 %", "5 %"].iter().zip(gains) {
            for (sender, goodput) in [("sack-reno", 1.0), ("westwood-2001", gain)] {
                let values = [("hosts.server.scheme", sender), ("links.server-phone.link.loss", *loss)];
                records.push(run(None, &values).metric(Metric::Goodput, goodput));
            }
        }
        of("westwood").findings(&records)
    };
    assert!(holds(&westwood([1.05, 1.2, 1.5, 2.1]), "random loss"));
    assert!(!holds(&westwood([1.05, 1.2, 1.1, 2.1]), "random loss"));
    let clamp = |ten: f64| {
        let held = [("1", 30.5e3), ("2", 31e3), ("5", 32.5e3), ("10", ten)];
        let runs = held.map(|(count, held)| {
            run(Some("queue-price"), &[("flows.flow.count", count)]).metric(Metric::Held, held)
        });
        of("clamp").findings(&runs)
    };
    assert!(holds(&clamp(34e3), "the queue") && !holds(&clamp(45e3), "the queue"));
}
