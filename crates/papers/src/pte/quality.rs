//! What the paper announces (§5): a generic radio link protocol, and fixed bandwidths of flows.
use super::findings::mean;
use super::interruptions::{LESS, throughput};
use shorthaul_observe::{Finding, Outcome, RunRecord, Summary, jain_index};
use shorthaul_report::Unit;
use shorthaul_scenario::{Metric, Series};

/// `radio.toml`: the rate in bit/s, the round trip without queue in seconds, the window of the gateway in bits, and until a frame is sent again.
const RATE: f64 = 2e6;
const ROUND_TRIP: f64 = 0.1;
const WINDOW: f64 = 60e3 * 8.0;
const AGAIN: f64 = 0.11;
/// How many frames a packet has.
const FRAMES: i32 = 30;
/// Its phases: how long each lasts in seconds, and the share of frames in error.
const PHASES: [(f64, f64); 2] = [(2.0, 0.01), (0.4, 0.5)];
/// Of an IP packet, what is payload.
const PAYLOAD: f64 = 1448.0 / 1500.0;
/// A rate that is off by no more than this share of what was told agrees.
const NEAR: f64 = 0.05;

/// What it carries, in bit/s: in each phase the rate less what is sent again, or a window in the round trip of a packet whose last frame has
/// come. How often the unluckiest of its frames is sent is the mean of the largest of as many geometric variables.
fn carried() -> f64 {
    let of_phase = |(_, error): (f64, f64)| {
        let sent: f64 = (0..100).map(|count| 1.0 - (1.0 - error.powi(count)).powi(FRAMES)).sum();
        f64::min(RATE * (1.0 - error), WINDOW / (ROUND_TRIP + (sent - 1.0) * AGAIN))
    };
    let total: f64 = PHASES.iter().map(|(lasts, _)| lasts).sum();
    PHASES.iter().map(|phase| phase.0 * of_phase(*phase)).sum::<f64>() / total
}

/// "A generic RLP implementation in conjunction with varying radio block error conditions" (§5, 2).
pub(super) fn radio(records: &[RunRecord]) -> Vec<Finding> {
    let of = |case, metric| mean(records, case, None, metric);
    let mut found = Vec::new();
    if let Some(split) = of("split", Metric::Goodput) {
        let carried = carried() * PAYLOAD;
        found.push(
            Finding::number(
                "§5, 2: what a radio link protocol with selective repeat carries, by a plain split",
                format!(
                    "{} (rate less what is sent again, and windows)",
                    Unit::BitsPerSecond.format(carried)
                ),
                split,
                Unit::BitsPerSecond,
            )
            .within(0.1, carried)
            .model(Unit::BitsPerSecond.format(carried)),
        );
    }
    let timeouts = |case| of(case, Metric::Timeouts);
    if let (Some(direct), Some(tail)) = (timeouts("direct"), timeouts("path-tail")) {
        found.push(
            Finding::judged(
                "§5, 2: RTOs over a radio link protocol with selective repeat, with path tail emulation, of those without",
                "varying network conditions are hidden by a PEP",
                format!("{tail:.1} of {direct:.1}"),
                tail <= 0.5 * direct,
            )
            .because("in 200 s"),
        );
    }
    let goodput = |case| of(case, Metric::Goodput);
    if let (Some(direct), Some(tail)) = (goodput("direct"), goodput("path-tail")) {
        let [split, estimated, wide] = ["split", "path-tail-est", "path-tail-wide"].map(goodput);
        let words = |rate: Option<f64>| rate.map_or("?".to_owned(), |rate| Unit::BitsPerSecond.format(rate));
        let what = "§5, 2: throughput over a radio link protocol with selective repeat, with path tail emulation told 1.6 Mbit/s";
        let found_of = throughput(what, [tail, direct]);
        let reason =
            format!("{}; estimated {}, a plain split {}", found_of.reason, words(estimated), words(split));
        found.push(found_of.because(reason).explained(
            format!(
                "the bandwidth that is told, and the gateway's window of 60 kB toward the access side: estimated and with 240 kB it is {}, at the price of {:.1} RTOs",
                words(wide),
                timeouts("path-tail-wide").unwrap_or(f64::NAN)
            ),
            wide.is_some_and(|wide| wide >= LESS * direct),
        ));
    }
    found
}

/// What a flow got between two times, in bit/s.
fn rate(outcome: &Outcome, flow: &str, [from, to]: [f64; 2]) -> Option<f64> {
    let mut series = outcome.series.iter();
    let own = series.find(|own| own.series == Series::Delivered && own.subject == flow)?;
    let at = |time: f64| own.points.iter().rev().find(|(at, _)| *at <= time).map_or(0.0, |(_, sum)| *sum);
    Some((at(to) - at(from)) * 8.0 / (to - from))
}

/// "Path tail emulation allows allocating a fixed bandwidth to a flow" (§5, 3c).
pub(super) fn fixed_bandwidths(records: &[RunRecord]) -> Vec<Finding> {
    let got = |case: &str, flow: &str, times| {
        let of_case = records.iter().filter(|record| record.case.as_deref() == Some(case));
        let rates = of_case.filter_map(|record| rate(record.outcome.as_ref()?, flow, times));
        Summary::of(rates).map(|rates| rates.mean)
    };
    let line = |(what, case, flow, times, told): (&str, &str, &str, [f64; 2], f64)| {
        let stated = told * PAYLOAD;
        let found = Finding::number(
            format!("§5, 3c: {what}"),
            format!("{} of payload", Unit::BitsPerSecond.format(stated)),
            got(case, flow, times)?,
            Unit::BitsPerSecond,
        );
        Some(found.within(NEAR, stated).model(Unit::BitsPerSecond.format(stated)))
    };
    const WHOLE: [f64; 2] = [20.0, 200.0];
    const BEFORE: [f64; 2] = [20.0, 110.0];
    const AFTER: [f64; 2] = [120.0, 200.0];
    [
        ("a flow that is told 1.2 Mbit/s of 2 Mbit/s", "fixed", "gold", WHOLE, 1.2e6),
        ("a flow that is told 0.6 Mbit/s beside it", "fixed", "silver", WHOLE, 0.6e6),
        ("told 1.2 Mbit/s, before that is changed", "changed", "gold", BEFORE, 1.2e6),
        ("then told 0.9 Mbit/s while it runs", "changed", "gold", AFTER, 0.9e6),
        ("the other, from 0.6 to 0.9 Mbit/s", "changed", "silver", AFTER, 0.9e6),
    ]
    .into_iter()
    .filter_map(line)
    .collect()
}

/// The flows of the two cells of `cells.toml`.
const CELLS: [&str; 2] = ["north", "south"];

/// "BS should implement the path tail emulation algorithm for each cell individually to achieve a fair share of resources within each
/// cell" (§5, 3b).
pub(super) fn cells(records: &[RunRecord]) -> Vec<Finding> {
    // The less fair of the cells.
    let index = |case: &str| {
        let of_case = records.iter().filter(|record| record.case.as_deref() == Some(case));
        let of_run = |record: &RunRecord| {
            let flows = &record.outcome.as_ref()?.flows;
            let of_cell = |cell: &str| {
                jain_index(flows.iter().filter(|flow| flow.name.starts_with(cell)).map(|flow| flow.goodput))
            };
            CELLS.into_iter().map(of_cell).collect::<Option<Vec<f64>>>()?.into_iter().reduce(f64::min)
        };
        Summary::of(of_case.filter_map(of_run)).map(|indices| indices.mean)
    };
    let mut found = Vec::new();
    if let (Some(each), Some(direct)) = (index("each"), index("direct")) {
        found.push(
            Finding::number(
                "§5, 3b: Jain's index within two cells that are emulated one by one, the less fair of them",
                "a fair share of resources within each cell",
                each,
                Unit::None,
            )
            .at_least(0.95)
            .because(format!("{direct:.3} behind a router")),
        );
    }
    let timeouts = |case| mean(records, case, None, Metric::Timeouts);
    if let (Some(each), Some(one)) = (timeouts("each"), timeouts("one")) {
        found.push(Finding::judged(
            "§5, 3b: RTOs of the senders with each cell by itself, of those with both as one link",
            "the algorithm is for each cell individually",
            format!("{each:.1} of {one:.1}"),
            each < 0.1 * one,
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Having, holds, run};
    use shorthaul_observe::Verdict;

    #[test]
    fn a_radio_link_protocol_is_judged_by_what_it_carries_and_hides() {
        let found = |goodput, direct, tail| {
            let of = |case, goodput, timeouts| {
                run(Some(case), &[]).metric(Metric::Goodput, goodput).metric(Metric::Timeouts, timeouts)
            };
            radio(&[of("split", goodput, 0.0), of("direct", goodput, direct), of("path-tail", goodput, tail)])
        };
        assert!(holds(&found(1.75e6, 8.0, 1.0), "§5"));
        let told = |direct, tail, wide| {
            let of = |case, rate| run(Some(case), &[]).metric(Metric::Goodput, rate);
            let all = radio(&[of("direct", direct), of("path-tail", tail), of("path-tail-wide", wide)]);
            all.into_iter().find(|own| own.what.contains("told")).unwrap()
        };
        assert!(told(1.7e6, 1.69e6, 1.7e6).verdict == Verdict::Holds);
        assert!(told(1.7e6, 1.53e6, 1.7e6).cause.is_some_and(|cause| cause.contains("it is 1.70 Mbit/s")));
        assert_eq!(told(1.7e6, 1.53e6, 1.6e6).cause, None, "that is not all of it");
        // Stop and wait carries half of that.
        assert!(!holds(&found(0.9e6, 8.0, 1.0), "carries") && !holds(&found(1.75e6, 8.0, 8.0), "RTOs"));
    }

    #[test]
    fn bandwidths_are_judged_flow_by_flow_and_after_a_change() {
        let found = |rates: [f64; 2], after: [f64; 2]| {
            let case = |name: &str, after: [f64; 2]| {
                let curve = |flow: usize| {
                    let sum = |at: u32| {
                        let at = f64::from(at);
                        (rates[flow] * at.min(110.0) + after[flow] * (at - 110.0).max(0.0)) / 8.0 * PAYLOAD
                    };
                    (0..=200).map(|at| (f64::from(at), sum(at))).collect::<Vec<_>>()
                };
                run(Some(name), &[]).series(Series::Delivered, "gold", &curve(0)).series(
                    Series::Delivered,
                    "silver",
                    &curve(1),
                )
            };
            fixed_bandwidths(&[case("fixed", rates), case("changed", after)])
        };
        let good = found([1.2e6, 0.6e6], [0.9e6; 2]);
        assert!(holds(&good, "§5") && good.len() == 5, "{good:#?}");
        assert!(!holds(&found([0.9e6; 2], [0.9e6; 2]), "1.2 Mbit/s of 2"), "a link that is shared");
        assert!(!holds(&found([1.2e6, 0.6e6], [1.2e6, 0.6e6]), "while it runs"));
    }

    #[test]
    fn cells_are_judged_one_by_one() {
        let found = |rates: [f64; 4], timeouts: [f64; 2]| {
            let case = |name: &str, timeouts: f64| {
                let names = ["north-1", "north-2", "south-1", "south-2"];
                let record = run(Some(name), &[]).metric(Metric::Timeouts, timeouts);
                names.iter().zip(rates).fold(record, |record, (name, rate)| record.flow(name, rate, &[], &[]))
            };
            cells(&[case("each", timeouts[0]), case("one", timeouts[1]), case("direct", 0.0)])
        };
        // Different cells may have different shares.
        assert!(holds(&found([5e5, 5e5, 9e5, 9e5], [0.0, 60.0]), "§5"));
        assert!(!holds(&found([5e5, 5e5, 15e5, 3e5], [0.0, 60.0]), "Jain"));
        assert!(!holds(&found([5e5, 5e5, 9e5, 9e5], [60.0, 60.0]), "RTOs"));
    }
}
