//! A mobile link that is away again and again, as in handovers: what is hidden from senders (§2, §3).
use super::findings::mean;
use shorthaul_observe::results::format_metric;
use shorthaul_observe::{Finding, RunRecord};
use shorthaul_report::Unit;
use shorthaul_scenario::Metric;

pub(super) fn interruptions(records: &[RunRecord]) -> Vec<Finding> {
    let mut found = shown(records);
    let timeouts = |case| mean(records, case, None, Metric::Timeouts);
    if let (Some(direct), Some(tail)) = (timeouts("direct"), timeouts("path-tail")) {
        found.push(Finding::judged(
            "§3, interruptions of 1 to 3 s: RTOs with path tail emulation, of those without",
            "varying network conditions are hidden by a PEP",
            format!("{tail:.1} of {direct:.1}"),
            tail < 0.1 * direct,
        ));
    }
    let goodput = |case| mean(records, case, None, Metric::Goodput);
    if let (Some(direct), Some(tail), Some(estimated)) =
        (goodput("direct"), goodput("path-tail"), goodput("path-tail-est"))
    {
        found.push(
            throughput("§3, interruptions of 1 to 3 s: throughput with path tail emulation told 1.5 Mbit/s", [tail, direct]).explained(
                format!(
                    "the bandwidth that is told, which is below what the link carries in most runs: where it is estimated, it is {} of that without, with {} RTOs",
                    Unit::Percent.format(estimated / direct),
                    timeouts("path-tail-est").map_or("?".to_owned(), |count| format!("{count:.1}"))
                ),
                estimated >= LESS * direct,
            ),
        );
    }
    // "Some approaches stop the sender during handover [BS97] … by setting awnd to zero, which leads to the aforementioned difficulty":
    // [BS97] is M-TCP, and the difficulty that windows have to be opened again.
    let closed = |case| mean(records, case, None, Metric::WindowLimited);
    if let (Some(stopped), Some(tail)) = (closed("m-tcp"), closed("path-tail")) {
        let rates = ["path-tail", "path-tail-est", "m-tcp"].map(goodput);
        let words = rates.map(|rate| rate.map_or("?".to_owned(), |rate| Unit::BitsPerSecond.format(rate)));
        found.push(
            Finding::judged(
                "§2, handover: how long windows are closed with path tail emulation while the link is away again and again, of that with M-TCP",
                "the sender is not blocked",
                format!("{} of {}", Unit::Seconds.format(tail), Unit::Seconds.format(stopped)),
                tail < 0.1 * stopped,
            )
            .because(format!("{} told and {} estimated, {} with M-TCP", words[0], words[1], words[2])),
        );
    }
    // What such pauses cost, by the paper: "unwanted pauses in the flow may occur" (§2, number 3).
    if let (Some(stopped), Some(estimated)) = (goodput("m-tcp"), goodput("path-tail-est")) {
        let finding = Finding::number(
            "§2, number 3: throughput with M-TCP, of that with path tail emulation, estimated",
            "less: unwanted pauses may occur (≤ 0.99 is asked)",
            stopped / estimated,
            Unit::None,
        );
        found.push(bridged(records, finding.at_most(LESS)));
    }
    found
}

/// Why pauses cost nothing: window updates come, and what the gateway holds goes on meanwhile. Either alone is enough.
fn bridged(records: &[RunRecord], finding: Finding) -> Finding {
    let of = |case, metric| mean(records, case, None, metric);
    let share = |case, of_case| Some(of(case, Metric::Goodput)? / of(of_case, Metric::Goodput)?);
    let (Some(held), Some(lossy), Some(small), Some(both)) = (
        of("m-tcp", Metric::HeldMost),
        share("m-tcp-lossy", "path-tail-est-lossy"),
        share("m-tcp-small", "path-tail-est"),
        share("m-tcp-small-lossy", "path-tail-est-lossy"),
    ) else {
        return finding;
    };
    finding.explained(
        format!(
            "no window update is lost, and the gateway goes on meanwhile with what it holds, up to {}: with a tenth of the acknowledgments lost and room for 60 kB it is {both:.3}, with these lost alone {lossy:.3}, with this room alone {small:.3}",
            Unit::Bytes.format(held)
        ),
        both <= LESS && lossy > LESS && small > LESS,
    )
}

/// What is less by no more than a hundredth is not less.
pub(super) const LESS: f64 = 0.99;

/// Throughput with path tail emulation, of that without: what hides a link must not cost what it carries.
pub(super) fn throughput(what: &str, [tail, direct]: [f64; 2]) -> Finding {
    Finding::number(
        format!("{what}, of that without"),
        format!("varying network conditions are hidden (≥ {LESS} is asked)"),
        tail / direct,
        Unit::Percent,
    )
    .at_least(LESS)
    .because(format!("{} and {}", Unit::BitsPerSecond.format(tail), Unit::BitsPerSecond.format(direct)))
}

fn shown(records: &[RunRecord]) -> Vec<Finding> {
    let cases = [
        ("direct", "direct"),
        ("path-tail", "path-tail at 1.5 Mbit/s"),
        ("path-tail-told", "path-tail at 1.76 Mbit/s"),
    ];
    let line = |(case, name): (&str, &str)| {
        let of = |metric| mean(records, case, None, metric);
        Some(
            Finding::shown(
                format!("interruptions: {name}"),
                "",
                format!(
                    "{}, {} RTOs, {} held at most",
                    format_metric(Metric::Goodput, of(Metric::Goodput)?),
                    of(Metric::Timeouts)?,
                    Unit::Bytes.format(of(Metric::HeldMost)?)
                ),
            )
            .because(if case == "path-tail-told" {
                "more than the link carries in some runs: the buffer overflows"
            } else {
                ""
            }),
        )
    };
    cases.into_iter().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Having, holds, run};

    #[test]
    fn what_is_hidden_from_senders_is_judged() {
        let timeouts = |direct, tail| {
            let of = |case, count| run(Some(case), &[]).metric(Metric::Timeouts, count);
            interruptions(&[of("direct", direct), of("path-tail", tail)])
        };
        assert!(holds(&timeouts(10.8, 0.4), "§3") && !holds(&timeouts(0.4, 0.4), "§3"));
        let closed = |stopped, tail| {
            let of = |case, time| run(Some(case), &[]).metric(Metric::WindowLimited, time);
            interruptions(&[of("m-tcp", stopped), of("path-tail", tail)])
        };
        assert!(holds(&closed(60.0, 0.0), "handover") && !holds(&closed(60.0, 30.0), "handover"));
        assert!(!holds(&closed(0.0, 0.0), "handover"), "where nobody is stopped there is nothing to see");
    }

    #[test]
    fn pauses_are_bridged_only_if_they_cost_something_where_nothing_does_that() {
        let cause = |lossy, small, both| {
            let cases = [
                ("m-tcp", 1.66e6),
                ("path-tail-est", 1.66e6),
                ("path-tail-est-lossy", 1.65e6),
                ("m-tcp-lossy", lossy),
                ("m-tcp-small", small),
                ("m-tcp-small-lossy", both),
            ];
            let of = |(case, rate)| {
                run(Some(case), &[]).metric(Metric::Goodput, rate).metric(Metric::HeldMost, 13e6)
            };
            let found = interruptions(&cases.map(of));
            found.into_iter().find(|own| own.what.contains("number 3")).unwrap().cause
        };
        let shown = cause(1.65e6, 1.66e6, 1.6e6);
        assert!(shown.is_some_and(|cause| cause.contains("13.0 MB") && cause.contains("it is 0.970")));
        assert_eq!(cause(1.65e6, 1.66e6, 1.65e6), None, "pauses cost nothing there either");
        assert_eq!(cause(1.65e6, 1.6e6, 1.6e6), None, "it is the room alone");
        assert_eq!(cause(1.6e6, 1.66e6, 1.6e6), None, "it is the losses alone");
    }

    #[test]
    fn what_it_costs_is_judged_too() {
        let found = |told, estimated, stopped| {
            let of = |case, rate| run(Some(case), &[]).metric(Metric::Goodput, rate);
            let cases =
                [("direct", 1.64e6), ("path-tail", told), ("path-tail-est", estimated), ("m-tcp", stopped)];
            interruptions(&cases.map(|(case, rate)| of(case, rate)))
        };
        assert!(holds(&found(1.64e6, 1.66e6, 1.6e6), "throughput"));
        let less = found(1.44e6, 1.66e6, 1.66e6);
        assert!(!holds(&less, "§3") && !holds(&less, "number 3"));
        let cause =
            |found: Vec<Finding>| found.into_iter().find(|own| own.what.starts_with("§3")).unwrap().cause;
        assert!(cause(less).is_some_and(|cause| cause.contains("estimated, it is 101 %")));
        assert_eq!(cause(found(1.44e6, 1.44e6, 1.6e6)), None, "estimated, it costs the same");
    }
}
