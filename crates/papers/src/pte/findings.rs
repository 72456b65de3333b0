//! What the paper states and the comparison asks, beside what was measured; and what follows for practice.
use super::bound::{self, Packets};
use crate::error::Result;
use shorthaul_observe::results::format_metric;
use shorthaul_observe::{Finding, RunRecord, Summary};
use shorthaul_report::Unit;
use shorthaul_scenario::{Metric, Role, Study};
use shorthaul_types::Bytes;

/// A metric over the runs of a case, and of a swept value where one is named.
fn measured(records: &[RunRecord], case: &str, swept: Option<&str>, metric: Metric) -> Option<Summary> {
    let fits = |record: &&RunRecord| {
        record.case.as_deref() == Some(case)
            && swept.is_none_or(|value| record.values.iter().any(|(_, own)| own.trim_matches('"') == value))
    };
    let outcomes = records.iter().filter(fits).filter_map(|record| record.outcome.as_ref());
    Summary::of(outcomes.filter_map(|outcome| outcome.metrics.get(&metric).copied()))
}

fn mean(records: &[RunRecord], case: &str, swept: Option<&str>, metric: Metric) -> Option<f64> {
    measured(records, case, swept, metric).map(|summary| summary.mean)
}

fn seconds(summary: &Summary) -> String {
    let half = summary.confidence().unwrap_or(0.0);
    format!("{} ± {}", Unit::Seconds.format(summary.mean), Unit::Seconds.format(half))
}

/// Two times that the paper states, and what it asks of their ratio.
struct Times {
    what: &'static str,
    /// With the gateway, and without.
    cases: [&'static str; 2],
    /// Without, with, and their ratio, in the paper's words.
    paper: [&'static str; 3],
    /// What the ratio may be at most, where that is asked.
    most: Option<f64>,
    /// What the times are of.
    reason: &'static str,
}

impl Times {
    /// The times of a copy with and without, and their ratio.
    fn found(&self, records: &[RunRecord]) -> Vec<Finding> {
        let Times { what, paper, .. } = self;
        let [with, without] = self.cases.map(|case| measured(records, case, None, Metric::Completion));
        let (Some(with), Some(without)) = (with, without) else { return Vec::new() };
        let share = with.mean / without.mean;
        let ratio = Finding::shown(format!("{what}: with / without"), paper[2], format!("{share:.2}"));
        vec![
            Finding::shown(format!("{what}: without"), paper[0], seconds(&without)).because(self.reason),
            Finding::shown(format!("{what}: with"), paper[1], seconds(&with)),
            self.most.map_or(ratio.clone(), |most| ratio.and(share <= most)),
        ]
    }
}

/// What the paper states of Figure 3.
const FIGURE_3: [&str; 3] = ["230 s", "170 s", "0.74"];
/// And what is asked.
const FIGURE_3_ASKED: [&str; 3] = ["230 s", "170 s", "0.74 (≤ 0.80 required)"];

pub(super) fn fig3(study: &Study, records: &[RunRecord]) -> Result<Vec<Finding>> {
    let times = Times {
        what: "Figure 3",
        cases: ["with", "without"],
        paper: FIGURE_3_ASKED,
        most: Some(0.80),
        reason: "recoveries for 15 % of the packets: the paper's rates and times fit together only so",
    };
    let mut found = times.found(records);
    let scenario = study.scenario(&study.points()[0])?;
    let mut bounds = Vec::new();
    for seed in study.seeds() {
        let curve =
            bound::curve(&scenario, "station-mobile", seed, Packets::of(Bytes(2_000_000), Bytes(1000)))?;
        bounds.extend(curve.last().map(|(at, _)| *at));
    }
    // What no gateway can beat: the slower of the two links, run by run.
    let internet = Packets::of(Bytes(2_000_000), Bytes(1000));
    let internet = (internet.count * internet.size.0 * 8) as f64 / 100e3;
    let both = Summary::of(bounds.iter().map(|bound| bound.max(internet)));
    if let (Some(both), Some(with)) = (both, measured(records, "with", None, Metric::Completion)) {
        found.push(Finding::shown(
            "Figure 3: with / the bound of both links",
            "near 1",
            format!("{:.2}", with.mean / both.mean),
        ));
    }
    if let Some(bound) = Summary::of(bounds) {
        found.push(
            Finding::shown("Figure 3: bound of the mobile link", "about 170 s", seconds(&bound))
                .because("the Internet link alone takes 166 s"),
        );
    }
    for case in ["without", "with"] {
        if let Some(timeouts) = mean(records, case, None, Metric::Timeouts) {
            found.push(
                Finding::shown(format!("Figure 3: RTOs of the sender, {case}"), "", format!("{timeouts:.1}"))
                    .because(if case == "with" {
                        "of the FIN alone, which waits for the mobile host's own acknowledgment"
                    } else {
                        "all in vain: nothing is lost on these links"
                    }),
            );
        }
    }
    Ok(found)
}

pub(super) fn fig3_live(_: &Study, records: &[RunRecord]) -> Result<Vec<Finding>> {
    let reno = Times {
        what: "Figure 3 between kernels, a sender as the paper's",
        cases: ["reno-with", "reno-without"],
        paper: FIGURE_3_ASKED,
        most: Some(0.80),
        reason: "Reno without SACK, timestamps and F-RTO, a window of 20 packets",
    };
    let cubic = Times {
        what: "Figure 3 between kernels, cubic as it is",
        cases: ["cubic-with", "cubic-without"],
        paper: FIGURE_3,
        most: None,
        reason: "it undoes an RTO that was a mistake (F-RTO, SACK), which the paper's sender did not: less is left to gain",
    };
    let mut found = reno.found(records);
    found.extend(cubic.found(records));
    for case in ["reno-without", "reno-with", "cubic-without", "cubic-with"] {
        if let (Some(timeouts), Some(spurious), Some(most)) = (
            mean(records, case, None, Metric::Timeouts),
            mean(records, case, None, Metric::SpuriousTimeouts),
            mean(records, case, None, Metric::HeldMost),
        ) {
            found.push(Finding::shown(
                format!("Figure 3 between kernels: RTOs, {case}"),
                "",
                format!(
                    "{timeouts:.1}, {spurious:.1} of them undone; held at most {}",
                    Unit::Bytes.format(most)
                ),
            ));
        }
    }
    Ok(found)
}

pub(super) fn readings(_: &Study, records: &[RunRecord]) -> Result<Vec<Finding>> {
    let reading = |what, cases| Times {
        what,
        cases,
        paper: FIGURE_3,
        most: None,
        reason: "the other reading: a recovery for every packet",
    };
    let mut found = reading("every packet, 2 MB", ["with", "without"]).found(records);
    found.extend(reading("every packet, 2 Mbit", ["with-2-Mbit", "without-2-Mbit"]).found(records));
    Ok(found)
}

const ROUND_TRIPS: [(&str, &str); 4] =
    [("5 ms", "10 ms"), ("25 ms", "50 ms"), ("50 ms", "100 ms"), ("150 ms", "300 ms")];

/// The runs with a single flow.
fn single(records: &[RunRecord]) -> Vec<RunRecord> {
    let is_single =
        |record: &&RunRecord| record.outcome.as_ref().is_some_and(|outcome| outcome.flows.len() == 1);
    records.iter().filter(is_single).cloned().collect()
}

pub(super) fn mobile_bottleneck(_: &Study, records: &[RunRecord]) -> Result<Vec<Finding>> {
    let records = &single(records);
    // payload of the packets that 2 Mbit/s carry
    const ALL: f64 = 2e6 * 1448.0 / 1500.0;
    let mut found = Vec::new();
    for (one_way, round_trip) in ROUND_TRIPS {
        let of = |case: &str, metric| mean(records, case, Some(one_way), metric);
        if let (Some(goodput), Some(most), Some(closed)) = (
            of("path-tail", Metric::Goodput),
            of("path-tail", Metric::HeldMost),
            of("path-tail", Metric::WindowLimited),
        ) {
            found.push(
                Finding::shown(
                    format!("mobile bottleneck, {round_trip} wired: path-tail"),
                    "≥ 0.95",
                    format!(
                        "{:.3}, {} held at most, {closed:.1} s of closed window",
                        goodput / ALL,
                        Unit::Bytes.format(most)
                    ),
                )
                .and(goodput / ALL >= 0.95),
            );
        }
        for case in ["clamp", "agg", "constant-queue", "split"] {
            let (Some(goodput), Some(most)) = (of(case, Metric::Goodput), of(case, Metric::HeldMost)) else {
                continue;
            };
            found.push(Finding::shown(
                format!("mobile bottleneck, {round_trip} wired: {case}"),
                "",
                format!("{:.3}, {} held at most", goodput / ALL, Unit::Bytes.format(most)),
            ));
        }
    }
    Ok(found)
}

pub(super) fn wired_bottleneck(_: &Study, records: &[RunRecord]) -> Result<Vec<Finding>> {
    let records = &single(records);
    let mut found = Vec::new();
    for (one_way, round_trip) in ROUND_TRIPS {
        let goodput = |case: &str| mean(records, case, Some(one_way), Metric::Goodput);
        let (Some(split), Some(tail), Some(clamp)) =
            (goodput("split"), goodput("path-tail"), goodput("clamp"))
        else {
            continue;
        };
        found.push(
            Finding::shown(
                format!("wired bottleneck, {round_trip}: path-tail / plain split"),
                "≥ 0.99",
                format!("{:.3}", tail / split),
            )
            .and(tail / split >= 0.99),
        );
        // rate = window / rtt (§2, number 5), with the mobile link's 100 ms in the loop
        let one_way: f64 = one_way.trim_end_matches(" ms").parse().unwrap_or(0.0);
        let predicted = (30_000.0 * 8.0 / (2.0 * one_way / 1e3 + 0.1)).min(split);
        found.push(
            Finding::shown(
                format!("wired bottleneck, {round_trip}: clamp to the mobile link's product"),
                format!("{} (window / rtt)", Unit::BitsPerSecond.format(predicted)),
                Unit::BitsPerSecond.format(clamp),
            )
            .because("below: the window moves in steps of a segment or half of it (silly-window rules)"),
        );
    }
    Ok(found)
}

pub(super) fn interruptions(_: &Study, records: &[RunRecord]) -> Result<Vec<Finding>> {
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
    Ok(cases.into_iter().filter_map(line).collect())
}

pub(super) fn fairness(_: &Study, records: &[RunRecord]) -> Result<Vec<Finding>> {
    let line = |case: &str| {
        let index = mean(records, case, None, Metric::Fairness)?;
        let outcomes: Vec<_> = records
            .iter()
            .filter(|record| record.case.as_deref() == Some(case))
            .filter_map(|record| record.outcome.as_ref())
            .collect();
        let flows = outcomes.first()?.flows.len();
        let share = |flow: usize| {
            let all = outcomes.iter().filter_map(|outcome| Some(outcome.flows.get(flow)?.goodput));
            Some(format!("{:.0}", Summary::of(all)?.mean / 1e3))
        };
        let shares: Option<Vec<String>> = (0..flows).map(share).collect();
        Some(
            Finding::shown(
                format!("10, 50, 100, 300 ms: {case}"),
                "",
                format!("Jain {index:.3}; {} kbit/s", shares?.join(", ")),
            )
            .because(if case == "direct" {
                "a plain drop-tail router with the queue that is emulated"
            } else {
                ""
            }),
        )
    };
    Ok(["direct", "path-tail", "split", "agg", "clamp"].into_iter().filter_map(line).collect())
}

pub(super) fn kernels(study: &Study, records: &[RunRecord]) -> Result<Vec<Finding>> {
    const ALL: f64 = 2e6 * 1448.0 / 1500.0;
    let mut found = Vec::new();
    for case in ["reno", "cubic", "bbr", "split-cubic"] {
        let of = |metric| mean(records, case, None, metric);
        let (Some(goodput), Some(most), Some(timeouts), Some(closed)) = (
            of(Metric::Goodput),
            most(records, case, Metric::HeldMost),
            of(Metric::Timeouts),
            of(Metric::WindowLimited),
        ) else {
            continue;
        };
        let is_split = case == "split-cubic";
        let what = match is_split {
            true => "kernel's cubic before a plain split".to_owned(),
            false => format!("kernel's {case} before an emulated tail"),
        };
        let share = Finding::shown(
            format!("{what}: share of the link"),
            if is_split { "" } else { "≥ 0.95" },
            format!("{:.3}", goodput / ALL),
        );
        found.push(if is_split { share } else { share.and(goodput / ALL >= 0.95) });
        let bound = buffer(study, case);
        let asked = bound.map_or(String::new(), |bound| format!("≤ {}", Unit::Bytes.format(bound)));
        let held = Finding::shown(format!("{what}: held at most"), asked, Unit::Bytes.format(most));
        found.push(match bound {
            Some(bound) => held.and(most <= bound),
            None => held,
        });
        found.push(Finding::shown(
            format!("{what}: the sender"),
            if is_split { "" } else { "no RTOs, no stalls" },
            format!("{timeouts:.1} RTOs, {closed:.2} s of closed window"),
        ));
    }
    Ok(found)
}

/// The largest value of a metric over the runs of a case.
fn most(records: &[RunRecord], case: &str, metric: Metric) -> Option<f64> {
    let of_case = records.iter().filter(|record| record.case.as_deref() == Some(case));
    let values = of_case.filter_map(|record| record.outcome.as_ref()?.metrics.get(&metric).copied());
    values.reduce(f64::max)
}

/// What a case's gateway may hold behind its emulated link, if it has one.
fn buffer(study: &Study, case: &str) -> Option<f64> {
    let point = study.points().iter().find(|point| point.case.as_deref() == Some(case))?;
    let scenario = study.scenario(point).ok()?;
    scenario.nodes.iter().find_map(|node| match &node.role {
        Role::Gateway(gateway) => {
            let policies = gateway.policies([None; 2]).ok()?;
            Some(policies.last()?.senders.emulated_link()?.buffer.0 as f64)
        }
        _ => None,
    })
}
