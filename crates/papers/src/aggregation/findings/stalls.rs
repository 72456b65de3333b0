//! Links that stall, with the proxy: Figure 12, and silences after outages of the uplink.
use super::super::measures::*;
use super::{NEAR, percent, seconds};
use shorthaul_observe::{Finding, Outcome, RunRecord};
use shorthaul_report::Unit;
use shorthaul_scenario::Series;

/// When the link of Figure 12 stalls, in seconds.
const STALLS_AT: f64 = 90.0;
/// A transfer is significantly quicker if it saves this share of the time.
const SIGNIFICANT: f64 = 0.1;

/// Nothing was sent again if the link carried no more than this share beyond what it carries without a stall.
const AGAIN: f64 = 0.001;

/// Bytes that came to the phone over the link, on average.
fn carried(records: &[RunRecord], case: &str) -> Option<f64> {
    let of = |(_, outcome): (&RunRecord, &Outcome)| {
        let link = outcome.links.iter().find(|link| link.name == "proxy>phone")?;
        Some(link.delivered_bytes as f64)
    };
    mean(&outcomes(records, case).filter_map(of).collect::<Vec<_>>())
}

/// Figures 12 and 3, and the same without a stall and from a sender of then (`fig12-causes`).
pub(super) fn stalls(records: &[RunRecord], causes: &[RunRecord]) -> Option<Vec<Finding>> {
    // When the link is back, in seconds.
    let back = |case: &str| if case.ends_with("held") { 98.0 } else { 105.0 };
    let wait = |case: &str| resumed_after(records, case, back(case));
    let whole = |case: &str| mean(&transfers(records, case, None));
    let alone = mean(&transfers(causes, "aggregate-none", None));
    let sooner = |what: String, with: f64, without: f64| {
        let stated =
            format!("significantly quicker than without proxy (≥ {} is asked)", percent(SIGNIFICANT));
        let ours = format!("{} instead of {}", seconds(with), seconds(without));
        Finding::judged(what, stated, ours, with <= without * (1.0 - SIGNIFICANT))
    };
    let mut found = Vec::new();
    for (case, direct, what) in [
        ("aggregate-held", "direct-held", "a stall of 8 s that delays"),
        ("aggregate-lost", "direct-lost", "a stall of 15 s that loses"),
    ] {
        let (Some(own), Some(without)) = (wait(case), wait(direct)) else { continue };
        // Live, nobody measures the round trips of the gateway's own connection.
        if let Some(round_trip) = rtt_between(records, case, 60.0, 90.0) {
            found.push(
                Finding::number(
                    format!("Fig. 12: {what}: round trips until data arrives again"),
                    "swiftly, by one retransmission",
                    own / round_trip,
                    Unit::None,
                )
                .at_most(1.5)
                .because(format!("{}; 600 kB in {}", seconds(own), seconds(whole(case)?))),
            );
        }
        let soon = sooner(format!("Fig. 12 and 3: {what}: until data arrives again"), own, without);
        found.push(if case.ends_with("held") { nothing_to_recover(soon, records, causes) } else { soon });
        let (own, without) = (whole(case)?, whole(direct)?);
        let all = sooner(format!("Fig. 12 and 3: {what}: the whole transfer"), own, without);
        found.push(match alone {
            Some(alone) => {
                let least = alone + back(case) - STALLS_AT;
                all.explained(
                    format!(
                        "the link: with the proxy and no stall the transfer takes {}, with the stall's own length {}, which is {} of the direct one's time, and {} are added{} (`fig12-causes`)",
                        seconds(alone),
                        seconds(least),
                        percent(least / without),
                        percent(own / least - 1.0),
                        of_then(case, own, causes)
                    ),
                    least > without * (1.0 - SIGNIFICANT) && own <= least * (1.0 + NEAR),
                )
            }
            None => all,
        });
    }
    for (case, what) in [
        ("auto-held", "a stall of 8 s that delays, auto"),
        ("direct-held", "a stall of 8 s that delays, direct"),
        ("auto-lost", "a stall of 15 s that loses, auto"),
        ("direct-lost", "a stall of 15 s that loses, direct"),
    ] {
        let (Some(wait), Some(whole)) = (wait(case), whole(case)) else { continue };
        let ours = format!("{}; 600 kB in {}", seconds(wait), seconds(whole));
        found.push(Finding::shown(format!("Fig. 12: {what}: data arrives again after"), "", ours));
    }
    (!found.is_empty()).then_some(found)
}

/// A stall that the link layer bridges: what was under way arrives, with the proxy and without. That is the cause where the link carries no byte more than
/// without a stall, and where the proxy is significantly quicker after one that loses.
fn nothing_to_recover(soon: Finding, records: &[RunRecord], causes: &[RunRecord]) -> Finding {
    let again = |with: &str, without: &str| Some(carried(records, with)? / carried(causes, without)? - 1.0);
    let lost = |case: &str| resumed_after(records, case, 105.0);
    let (Some(own), Some(direct), Some(after), Some(after_directly)) = (
        again("aggregate-held", "aggregate-none"),
        again("direct-held", "direct-none"),
        lost("aggregate-lost"),
        lost("direct-lost"),
    ) else {
        return soon;
    };
    soon.explained(
        format!(
            "nothing is lost, and the link carries as much as without a stall ({} more with the proxy, {} directly): there is nothing to recover; after a stall that loses it is {} instead of {} (`fig12-causes`)",
            percent(own.max(0.0)),
            percent(direct.max(0.0)),
            seconds(after),
            seconds(after_directly)
        ),
        own <= AGAIN && direct <= AGAIN && after <= after_directly * (1.0 - SIGNIFICANT),
    )
}

/// What the proxy saves beside a sender whose timers are of the paper's time, in words, where that was tried.
fn of_then(case: &str, own: f64, causes: &[RunRecord]) -> String {
    match mean(&transfers(causes, "direct-lost-then", None)) {
        Some(then) if case.ends_with("lost") => {
            format!(
                "; beside a sender with the timers of then, which takes {}, it saves {}",
                seconds(then),
                percent(1.0 - own / then)
            )
        }
        _ => String::new(),
    }
}

/// The outages of `fig12-uplink`: when the way up is back, in seconds.
const UP_AGAIN: [f64; 3] = [22.0, 52.0, 87.0];
/// How often a series is sampled there, in seconds.
const SAMPLED: f64 = 0.5;
/// A round trip and a half of that link, with a window of 14 kB: what a silence may last after the link is back.
const RESUMES: f64 = 1.5 * 3.3;

/// Outages of the uplink alone: how long no data arrives after the link is back, in each run, and how many runs are silent for long.
pub(super) fn silences(records: &[RunRecord]) -> Option<Vec<Finding>> {
    let all = |case: &str| -> Vec<f64> {
        outcomes(records, case).filter_map(|(_, outcome)| longest_silence(outcome)).collect()
    };
    let is_long = |silence: &&f64| **silence > RESUMES + SAMPLED;
    let of_case = |case: &str| {
        let (silences, held) = (all(case), all(&format!("{case}-held")));
        let most = silences.iter().copied().reduce(f64::max)?;
        let most_held = held.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Some(
            Finding::number(
                format!("outages of the uplink alone, {case}: runs that stay silent for more than a round trip and a half"),
                "none is asked",
                silences.iter().filter(is_long).count() as f64,
                Unit::None,
            )
            .at_most(0.0)
            .because(format!("{} runs; the longest silence after the link is back lasts {}", silences.len(), seconds(most)))
            .explained(
                format!(
                    "all acknowledgments of a window are lost, and whatever asks for them is later: a tail loss probe after two round trips, or the first timer, longer than that of RFC 6298; data is there {} after the link is back at most. Where the link layer holds them, no silence is longer than {} ({} runs, cases `held`)",
                    seconds(most),
                    seconds(most_held),
                    held.len()
                ),
                !held.is_empty() && !held.iter().any(|silence| is_long(&silence)),
            ),
        )
    };
    Some(["aggregate", "auto"].into_iter().filter_map(of_case).collect())
}

/// The longest time after an outage without data, if the transfer went on.
fn longest_silence(outcome: &Outcome) -> Option<f64> {
    let delivered = points(outcome, Series::Delivered, "file")?;
    let whole = delivered.last()?.1;
    let after = |back: f64| {
        let before = delivered.iter().rev().find(|(at, _)| *at <= back)?.1;
        let next = delivered.iter().find(|(at, sum)| *at > back && *sum > before);
        (before < whole).then(|| next.map_or(f64::INFINITY, |(at, _)| at - back))
    };
    UP_AGAIN.into_iter().filter_map(after).reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;
    use crate::testing::{Having, holds, run};

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
            found(|records| stalls(records, &[]), &records)
        };
        assert!(holds(&after(1.0, 162.0), "round trips") && holds(&after(1.0, 162.0), "whole transfer"));
        assert!(!holds(&after(9.0, 162.0), "round trips") && !holds(&after(1.0, 180.0), "whole transfer"));
        assert!(!holds(&after(1.0, 173.0), "whole transfer"), "4 % are not significant");
        assert!(
            !holds(&after(11.5, 162.0), "8 s that delays: until data"),
            "4 % are not significant here, either"
        );
    }

    #[test]
    fn what_a_stall_costs_is_the_links_only_where_no_proxy_could_be_sooner() {
        let link = |bytes| shorthaul_observe::LinkOutcome {
            name: "proxy>phone".into(),
            offered: 0,
            delivered: 0,
            delivered_bytes: bytes,
            queue_full: 0,
            lost: 0,
            outage: 0,
            max_queue: 0,
        };
        let of = |case: &str, whole: f64, back: f64, wait: f64, bytes: u64| {
            let delivered = [(10.0, 1e4), (89.0, 1e5), (back + wait, 2e5)];
            let mut record = run(Some(case), &[]).flow("file", 1.0, &[whole], &[]).series(
                Series::Delivered,
                "file",
                &delivered,
            );
            record.outcome.as_mut().unwrap().links.push(link(bytes));
            record
        };
        let causes = |alone: f64| {
            [
                of("aggregate-none", alone, 105.0, 0.0, 622_000),
                of("direct-none", 157.0, 105.0, 0.0, 622_000),
                of("direct-lost-then", 199.0, 105.0, 16.0, 628_000),
            ]
        };
        let with = |alone: f64, own: f64, again: u64, lost: f64| {
            let records = [
                of("aggregate-held", own, 98.0, 1.05, 622_000 + again),
                of("direct-held", 165.0, 98.0, 1.0, 622_000),
                of("aggregate-lost", own + 10.0, 105.0, lost, 624_000),
                of("direct-lost", 184.0, 105.0, 12.7, 624_000),
            ];
            found(|records| stalls(records, &causes(alone)), &records)
        };
        let cause = |found: &[Finding], what: &str| {
            found.iter().find(|own| own.what.contains(what)).and_then(|own| own.cause.clone())
        };
        let (soon, whole) = ("8 s that delays: until data", "8 s that delays: the whole");
        let good = with(154.0, 162.0, 0, 4.25);
        assert!(cause(&good, soon).is_some_and(|cause| cause.contains("12.7 s")), "{good:#?}");
        assert!(cause(&good, whole).is_some_and(|cause| cause.contains("98.2 %")), "{good:#?}");
        assert!(cause(&good, "15 s that loses: the whole").is_some_and(|cause| cause.contains("199 s")));
        assert_eq!(cause(&with(100.0, 162.0, 0, 4.25), whole), None, "a better proxy could have been sooner");
        assert_eq!(cause(&with(154.0, 175.0, 0, 4.25), whole), None, "it adds more than the link takes");
        assert_eq!(cause(&with(154.0, 162.0, 9_000, 4.25), soon), None, "something was sent again");
        assert_eq!(cause(&with(154.0, 162.0, 0, 12.7), soon), None, "losses are not recovered sooner either");
    }

    #[test]
    fn stalls_between_kernels_are_judged_without_the_gateways_round_trips() {
        let live = |proxy: f64, direct: f64| {
            let of = |case: &str, back: f64, wait: f64| {
                let delivered = [(10.0, 1e4), (89.0, 1e5), (back + wait, 2e5)];
                let mut record = run(Some(case), &[]).flow("file", 1.0, &[170.0], &[]).series(
                    Series::Delivered,
                    "file",
                    &delivered,
                );
                record.engine = shorthaul_observe::EngineName::Live;
                record
            };
            let mut records = Vec::new();
            for (kind, back) in [("held", 98.0), ("lost", 105.0)] {
                records.extend([
                    of(&format!("aggregate-{kind}"), back, proxy),
                    of(&format!("direct-{kind}"), back, direct),
                ]);
            }
            found(|records| stalls(records, &[]), &records)
        };
        let what = "Fig. 12 and 3: a stall of 15 s that loses: until data arrives again";
        assert!(holds(&live(4.25, 12.3), what) && !holds(&live(7.55, 6.2), what));
        assert!(live(7.55, 6.2).iter().all(|own| !own.what.contains("round trips")));
    }

    #[test]
    fn a_silence_after_an_outage_of_the_uplink_is_counted() {
        let of = |wait: f64, held: f64| {
            let case = |name: &str, wait: f64| {
                let delivered = [(1.0, 1e3), (21.0, 9e4), (22.0 + wait, 1e5), (51.0, 2e5), (53.0, 3e5)];
                run(Some(name), &[]).series(Series::Delivered, "file", &delivered)
            };
            found(silences, &[case("auto", wait), case("auto-held", held)])
        };
        assert!(holds(&of(2.0, 1.0), "uplink") && !holds(&of(9.0, 1.0), "uplink"));
        assert!(
            of(9.0, 1.0)[0].cause.as_ref().is_some_and(|cause| cause.contains("1 runs")),
            "{:?}",
            of(9.0, 1.0)
        );
        assert_eq!(of(9.0, 9.0)[0].cause, None, "what was held was late, too");
    }
}
