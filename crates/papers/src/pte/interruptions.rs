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
    // "Some approaches stop the sender during handover [BS97] … by setting awnd to zero, which leads to the aforementioned difficulty":
    // [BS97] is M-TCP, and the difficulty that windows have to be opened again.
    let closed = |case| mean(records, case, None, Metric::WindowLimited);
    if let (Some(stopped), Some(tail)) = (closed("m-tcp"), closed("path-tail")) {
        found.push(Finding::judged(
            "§2, handover: how long windows are closed with path tail emulation while the link is away again and again, of that with M-TCP",
            "the sender is not blocked",
            format!("{} of {}", Unit::Seconds.format(tail), Unit::Seconds.format(stopped)),
            tail < 0.1 * stopped,
        ));
    }
    found
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
}
