//! What the paper states and the comparison asks, beside what was measured; and what follows for practice.
use super::bound::{self, Packets};
use shorthaul_observe::RunRecord;
use shorthaul_observe::Summary;
use shorthaul_observe::results::format_metric;
use shorthaul_report::{Column, Stated, Table, Unit};
use shorthaul_scenario::{Metric, Role, Study};
use shorthaul_types::Bytes;

/// One line of the table of stated numbers.
pub(super) struct Finding {
    what: String,
    /// The paper's number, or what has to hold.
    paper: String,
    ours: String,
    remark: &'static str,
}

impl From<Finding> for Stated {
    fn from(Finding { what, paper, ours, remark }: Finding) -> Stated {
        Stated { what, paper, ours, remark: remark.to_owned() }
    }
}

/// The table as it is printed.
pub(super) fn table(stated: &[Stated]) -> Table {
    let mut table = Table::new([
        Column::left("what"),
        Column::right("paper, or required"),
        Column::right("ours"),
        Column::left("remark"),
    ]);
    for Stated { what, paper, ours, remark } in stated {
        table.row([what, paper, ours, remark].map(String::as_str));
    }
    table
}

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

/// The times of a copy with and without, and their ratio.
fn times(
    what: &str,
    records: &[RunRecord],
    cases: [&str; 2],
    paper: [&str; 3],
    remark: &'static str,
) -> Vec<Finding> {
    let [with, without] = cases.map(|case| measured(records, case, None, Metric::Completion));
    let (Some(with), Some(without)) = (with, without) else { return Vec::new() };
    let [without_paper, with_paper, ratio_paper] = paper.map(str::to_owned);
    vec![
        Finding { what: format!("{what}: without"), paper: without_paper, ours: seconds(&without), remark },
        Finding { what: format!("{what}: with"), paper: with_paper, ours: seconds(&with), remark: "" },
        Finding {
            what: format!("{what}: with / without"),
            paper: ratio_paper,
            ours: format!("{:.2}", with.mean / without.mean),
            remark: "",
        },
    ]
}

pub(super) fn fig3(study: &Study, records: &[RunRecord]) -> anyhow::Result<Vec<Finding>> {
    let mut found = times(
        "Figure 3",
        records,
        ["with", "without"],
        ["230 s", "170 s", "0.74 (≤ 0.80 required)"],
        "recoveries for 15 % of the packets: the paper's rates and times fit together only so",
    );
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
        found.push(Finding {
            what: "Figure 3: with / the bound of both links".into(),
            paper: "near 1".into(),
            ours: format!("{:.2}", with.mean / both.mean),
            remark: "",
        });
    }
    if let Some(bound) = Summary::of(bounds) {
        found.push(Finding {
            what: "Figure 3: bound of the mobile link".into(),
            paper: "about 170 s".into(),
            ours: seconds(&bound),
            remark: "the Internet link alone takes 166 s",
        });
    }
    for case in ["without", "with"] {
        if let Some(timeouts) = mean(records, case, None, Metric::Timeouts) {
            found.push(Finding {
                what: format!("Figure 3: time-outs of the sender, {case}"),
                paper: String::new(),
                ours: format!("{timeouts:.1}"),
                remark: if case == "with" {
                    "of the FIN alone, which waits for the mobile host's own acknowledgment"
                } else {
                    "all in vain: nothing is lost on these links"
                },
            });
        }
    }
    Ok(found)
}

pub(super) fn fig3_live(_: &Study, records: &[RunRecord]) -> anyhow::Result<Vec<Finding>> {
    let mut found = times(
        "Figure 3 between kernels, a sender as the paper's",
        records,
        ["reno-with", "reno-without"],
        ["230 s", "170 s", "0.74 (≤ 0.80 required)"],
        "Reno without SACK, timestamps and F-RTO, a window of 20 packets",
    );
    found.extend(times(
        "Figure 3 between kernels, cubic as it is",
        records,
        ["cubic-with", "cubic-without"],
        ["230 s", "170 s", "0.74"],
        "it undoes a time-out that was a mistake (F-RTO, SACK), which the paper's sender did not: less is left to gain",
    ));
    for case in ["reno-without", "reno-with", "cubic-without", "cubic-with"] {
        if let (Some(timeouts), Some(spurious), Some(most)) = (
            mean(records, case, None, Metric::Timeouts),
            mean(records, case, None, Metric::SpuriousTimeouts),
            mean(records, case, None, Metric::HeldMost),
        ) {
            found.push(Finding {
                what: format!("Figure 3 between kernels: time-outs, {case}"),
                paper: String::new(),
                ours: format!(
                    "{timeouts:.1}, {spurious:.1} of them undone; held at most {}",
                    Unit::Bytes.format(most)
                ),
                remark: "",
            });
        }
    }
    Ok(found)
}

pub(super) fn readings(_: &Study, records: &[RunRecord]) -> anyhow::Result<Vec<Finding>> {
    let other = "the other reading: a recovery for every packet";
    let mut found =
        times("every packet, 2 MB", records, ["with", "without"], ["230 s", "170 s", "0.74"], other);
    let small = ["with-2-Mbit", "without-2-Mbit"];
    found.extend(times("every packet, 2 Mbit", records, small, ["230 s", "170 s", "0.74"], other));
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

pub(super) fn mobile_bottleneck(_: &Study, records: &[RunRecord]) -> anyhow::Result<Vec<Finding>> {
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
            found.push(Finding {
                what: format!("mobile bottleneck, {round_trip} wired: path-tail"),
                paper: "≥ 0.95".into(),
                ours: format!(
                    "{:.3}, {} held at most, {closed:.1} s of closed window",
                    goodput / ALL,
                    Unit::Bytes.format(most)
                ),
                remark: "",
            });
        }
        for case in ["clamp", "agg", "constant-queue", "split"] {
            let (Some(goodput), Some(most)) = (of(case, Metric::Goodput), of(case, Metric::HeldMost)) else {
                continue;
            };
            found.push(Finding {
                what: format!("mobile bottleneck, {round_trip} wired: {case}"),
                paper: String::new(),
                ours: format!("{:.3}, {} held at most", goodput / ALL, Unit::Bytes.format(most)),
                remark: "",
            });
        }
    }
    Ok(found)
}

pub(super) fn wired_bottleneck(_: &Study, records: &[RunRecord]) -> anyhow::Result<Vec<Finding>> {
    let records = &single(records);
    let mut found = Vec::new();
    for (one_way, round_trip) in ROUND_TRIPS {
        let goodput = |case: &str| mean(records, case, Some(one_way), Metric::Goodput);
        let (Some(split), Some(tail), Some(clamp)) =
            (goodput("split"), goodput("path-tail"), goodput("clamp"))
        else {
            continue;
        };
        found.push(Finding {
            what: format!("wired bottleneck, {round_trip}: path-tail / plain split"),
            paper: "≥ 0.99".into(),
            ours: format!("{:.3}", tail / split),
            remark: "",
        });
        // rate = window / rtt (§2, number 5), with the mobile link's 100 ms in the loop
        let one_way: f64 = one_way.trim_end_matches(" ms").parse().unwrap_or(0.0);
        let predicted = (30_000.0 * 8.0 / (2.0 * one_way / 1e3 + 0.1)).min(split);
        found.push(Finding {
            what: format!("wired bottleneck, {round_trip}: clamp to the mobile link's product"),
            paper: format!("{} (window / rtt)", Unit::BitsPerSecond.format(predicted)),
            ours: Unit::BitsPerSecond.format(clamp),
            remark: "below: the window moves in steps of a segment or half of it (silly-window rules)",
        });
    }
    Ok(found)
}

pub(super) fn interruptions(_: &Study, records: &[RunRecord]) -> anyhow::Result<Vec<Finding>> {
    let cases = [
        ("direct", "direct"),
        ("path-tail", "path-tail at 1.5 Mbit/s"),
        ("path-tail-told", "path-tail at 1.76 Mbit/s"),
    ];
    let line = |(case, name): (&str, &str)| {
        let of = |metric| mean(records, case, None, metric);
        Some(Finding {
            what: format!("interruptions: {name}"),
            paper: String::new(),
            ours: format!(
                "{}, {} time-outs, {} held at most",
                format_metric(Metric::Goodput, of(Metric::Goodput)?),
                of(Metric::Timeouts)?,
                Unit::Bytes.format(of(Metric::HeldMost)?)
            ),
            remark: if case == "path-tail-told" {
                "more than the link carries in some runs: the buffer overflows"
            } else {
                ""
            },
        })
    };
    Ok(cases.into_iter().filter_map(line).collect())
}

pub(super) fn fairness(_: &Study, records: &[RunRecord]) -> anyhow::Result<Vec<Finding>> {
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
        Some(Finding {
            what: format!("10, 50, 100, 300 ms: {case}"),
            paper: String::new(),
            ours: format!("Jain {index:.3}; {} kbit/s", shares?.join(", ")),
            remark: if case == "direct" {
                "a plain drop-tail router with the queue that is emulated"
            } else {
                ""
            },
        })
    };
    Ok(["direct", "path-tail", "split", "agg", "clamp"].into_iter().filter_map(line).collect())
}

pub(super) fn kernels(study: &Study, records: &[RunRecord]) -> anyhow::Result<Vec<Finding>> {
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
        found.push(Finding {
            what: format!("{what}: share of the link"),
            paper: if is_split { "" } else { "≥ 0.95" }.into(),
            ours: format!("{:.3}", goodput / ALL),
            remark: "",
        });
        found.push(Finding {
            what: format!("{what}: held at most"),
            paper: buffer(study, case)
                .map_or(String::new(), |bound| format!("≤ {}", Unit::Bytes.format(bound))),
            ours: Unit::Bytes.format(most),
            remark: "",
        });
        found.push(Finding {
            what: format!("{what}: the sender"),
            paper: if is_split { "" } else { "no time-outs, no stalls" }.into(),
            ours: format!("{timeouts:.1} time-outs, {closed:.2} s of closed window"),
            remark: "",
        });
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
        Role::Gateway(gateway) => Some(gateway.senders.ack.as_ref()?.emulated_link()?.buffer.0 as f64),
        _ => None,
    })
}
