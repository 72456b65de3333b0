//! Links that stall, with the proxy: Figure 12, and silences after outages of the uplink.
use super::super::measures::*;
use super::{NEAR, having, percent, seconds};
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
                    "swiftly",
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

/// How many packets the phone's link was given beyond those of a transfer without a stall, on average: what was sent again.
fn sent_again(records: &[RunRecord], case: &str, none: f64) -> Option<f64> {
    Some(offered(records, case)? - none)
}

fn offered(records: &[RunRecord], case: &str) -> Option<f64> {
    let of = |(_, outcome): (&RunRecord, &Outcome)| {
        let link = outcome.links.iter().find(|link| link.name == "proxy>phone")?;
        Some(link.offered as f64)
    };
    mean(&outcomes(records, case).filter_map(of).collect::<Vec<_>>())
}

/// "A single retransmission occurs, and then the link recovers swiftly" (§VI-D): what is sent again, and which stall has a single one
/// (`fig12-lengths`). Counted on the link: the gateway's own count is of what hosts and relays retransmit.
pub(super) fn retransmissions(
    records: &[RunRecord],
    causes: &[RunRecord],
    lengths: &[RunRecord],
) -> Option<Vec<Finding>> {
    let none = offered(causes, "aggregate-none")?;
    let is_single = |again: f64| (again - 1.0).abs() <= 0.5;
    let stalls = ["6 s", "8 s", "10 s", "12 s", "15 s", "20 s"];
    let of_length = |lasts: &str| -> Vec<RunRecord> {
        let has = |record: &&RunRecord| {
            record.values.iter().any(|(_, value)| value.contains(&format!("lasts = \"{lasts}\"")))
        };
        having(lengths, "1 min").iter().filter(has).cloned().collect()
    };
    let by_length: Vec<(&str, f64)> = stalls
        .into_iter()
        .filter_map(|lasts| Some((lasts, sent_again(&of_length(lasts), "aggregate", none)?)))
        .collect();
    let said: Vec<String> =
        by_length.iter().map(|(lasts, again)| format!("{again:.1} after {lasts}")).collect();
    let single = by_length.iter().find(|(_, again)| is_single(*again));
    let mut found = Vec::new();
    for (case, what) in
        [("aggregate-held", "a stall of 8 s that delays"), ("aggregate-lost", "a stall of 15 s that loses")]
    {
        found.push(
            Finding::number(format!("Fig. 12: {what}: packets sent again"), "one", sent_again(records, case, none)?, Unit::None)
                .within(0.5, 1.0)
                .explained(
                    format!(
                        "how long the stall is, and what it loses, which the text does not say: where everything waits it is {} (sweep `fig12-lengths`)",
                        said.join(", ")
                    ),
                    single.is_some(),
                ),
        );
    }
    if let Some((lasts, again)) = single {
        let own = of_length(lasts);
        let back = STALLS_AT + lasts.trim_end_matches(" s").parse::<f64>().ok()?;
        found.push(
            Finding::number(
                format!("Fig. 12: a stall of {lasts} that delays, where {again:.1} packets are sent again: round trips until data arrives again"),
                "swiftly",
                resumed_after(&own, "aggregate", back)? / rtt_between(&own, "aggregate", 60.0, 90.0)?,
                Unit::None,
            )
            .at_most(1.5)
            .because(format!("600 kB in {}", seconds(mean(&transfers(&own, "aggregate", None))?))),
        );
    }
    Some(found)
}

/// The outages of `fig12-uplink`: when the way up is back, in seconds.
const UP_AGAIN: [f64; 3] = [22.0, 52.0, 87.0];
/// Times that differ by no more than this are the same.
const AS_LONG: f64 = 1.02;
/// How often a series is sampled there, in seconds.
const SAMPLED: f64 = 0.5;
/// Of the runs of a case: how long no data arrives after the link is back, at most, in each.
fn longest_silences(records: &[RunRecord], case: &str) -> Vec<f64> {
    outcomes(records, case).filter_map(|(_, outcome)| longest_silence(outcome, "file", None)).collect()
}

/// What a silence may last after the link is back: a round trip and a half of the same window on a link without outages (`fig11`), and a sample.
fn resumes(undisturbed: &[RunRecord], case: &str) -> Option<f64> {
    let window = if case == "auto" { "auto" } else { "14kB" };
    Some(1.5 * rtt(undisturbed, window)? + SAMPLED)
}

fn most(silences: &[f64]) -> f64 {
    silences.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

/// Outages of the uplink alone: in how many runs no data arrives for long after the link is back.
pub(super) fn silences(records: &[RunRecord], undisturbed: &[RunRecord]) -> Option<Vec<Finding>> {
    let of_case = |case: &str| {
        let (silences, held) =
            (longest_silences(records, case), longest_silences(records, &format!("{case}-held")));
        let bound = resumes(undisturbed, case)?;
        let is_long = |silence: &&f64| **silence > bound;
        let longest = (!silences.is_empty()).then(|| most(&silences))?;
        Some(
            Finding::number(
                format!("outages of the uplink alone, {case}: runs that stay silent for more than a round trip and a half"),
                "none is asked",
                silences.iter().filter(is_long).count() as f64,
                Unit::None,
            )
            .at_most(0.0)
            .because(format!("of {} runs, longer than {}; the longest silence lasts {}", silences.len(), seconds(bound), seconds(longest)))
            .explained(
                format!(
                    "the acknowledgments of a whole window are lost, and who asks for them is later, a tail loss probe after two round trips or the first timer: of {} runs the longest silence after the link is back lasts {}; where the link layer holds them, {} (cases `held`)",
                    silences.len(),
                    seconds(longest),
                    seconds(most(&held)),
                ),
                !held.is_empty() && !held.iter().any(|silence| is_long(&silence)),
            ),
        )
    };
    Some(["aggregate", "auto"].into_iter().filter_map(of_case).collect())
}

/// The same outages without the gateway, with one that splits and does not aggregate, and with two downloads (`fig12-uplink-beside`).
pub(super) fn silences_beside(
    records: &[RunRecord],
    aggregates: &[RunRecord],
    undisturbed: &[RunRecord],
) -> Option<Vec<Finding>> {
    let time = |records: &[RunRecord], case: &str| {
        mean(&outcomes(records, case).flat_map(|(_, outcome)| flow(outcome, "file")).collect::<Vec<_>>())
    };
    let direct = time(records, "direct")?;
    let mut found = Vec::new();
    for case in ["aggregate", "auto"] {
        let Some(own) = time(aggregates, case) else { continue };
        let mut finding = Finding::judged(
            format!("outages of the uplink alone, {case}: 400 kB take"),
            "no longer than directly is asked",
            format!("{} instead of {}", seconds(own), seconds(direct)),
            own <= direct,
        );
        if let Some((held, wide)) = time(aggregates, &format!("{case}-held")).zip(time(records, "wide-held"))
        {
            finding = finding.because(format!(
                "where the link layer holds acknowledgments it is {}, and directly {} (cases `held`)",
                seconds(held),
                seconds(time(records, "direct-held").unwrap_or(direct))
            ));
            finding = finding.explained(
                format!(
                    "the window: what is under way lasts for 3.5 s, and the link has nothing to carry for the rest of an outage; with the 64 kB of a direct download, and the \
                     queue that those make, it is {} (case `wide-held`)",
                    seconds(wide)
                ),
                wide <= AS_LONG * direct,
            );
        }
        found.push(finding);
    }
    // Both by what the proxy may take: their own round trips are longer, by queues of their own.
    if let Some(bound) = resumes(undisturbed, "aggregate") {
        for (case, name) in [("direct", "directly"), ("split", "split without aggregation")] {
            let (Some(whole), silences) = (time(records, case), longest_silences(records, case)) else {
                continue;
            };
            found.push(
                Finding::number(
                    format!("outages of the uplink alone, {name}: runs that stay silent for longer than the proxy's round trip and a half"),
                    "none is asked",
                    silences.iter().filter(|silence| **silence > bound).count() as f64,
                    Unit::None,
                )
                .at_most(0.0)
                .because(format!(
                    "of {} runs, longer than {}; the longest silence lasts {}, 400 kB take {}",
                    silences.len(),
                    seconds(bound),
                    seconds(most(&silences)),
                    seconds(whole)
                )),
            );
        }
    }
    for (case, name) in [("two-aggregate", "aggregate"), ("two-auto", "auto")] {
        let Some(bound) = resumes(undisturbed, name) else { continue };
        let alone = |outcome: &Outcome| {
            let one = longest_silence(outcome, "file", Some("other"));
            let other = longest_silence(outcome, "other", Some("file"));
            [one, other].into_iter().flatten().reduce(f64::max)
        };
        let (mut runs, mut silent) = (0, Vec::new());
        for (_, outcome) in outcomes(records, case) {
            runs += 1;
            silent.extend(alone(outcome).filter(|silence| *silence > bound));
        }
        found.push(
            Finding::number(
                format!("outages of the uplink alone, {name}, two downloads: runs in which one stays silent for more than a round trip and a half and the other goes on"),
                "none is asked",
                silent.len() as f64,
                Unit::None,
            )
            .at_most(0.0)
            .because(match silent.is_empty() {
                true => format!("of {runs} runs, longer than {}", seconds(bound)),
                false => format!("of {runs} runs, longer than {}; the longest lasts {}", seconds(bound), seconds(most(&silent))),
            }),
        );
    }
    Some(found)
}

/// How long the transfers of a flow took.
fn flow(outcome: &Outcome, name: &str) -> Vec<f64> {
    outcome.flows.iter().filter(|flow| flow.name == name).flat_map(|flow| flow.transfers.clone()).collect()
}

/// The longest time after an outage without data of a flow, if its transfer went on; beside another one, only if that one got data meanwhile.
fn longest_silence(outcome: &Outcome, flow: &str, other: Option<&str>) -> Option<f64> {
    let delivered = points(outcome, Series::Delivered, flow)?;
    let beside = other.map(|other| points(outcome, Series::Delivered, other));
    let whole = delivered.last()?.1;
    let after = |back: f64| {
        let before = delivered.iter().rev().find(|(at, _)| *at <= back)?.1;
        let until = delivered.iter().find(|(at, sum)| *at > back && *sum > before).map(|(at, _)| *at);
        let until = until.unwrap_or(f64::INFINITY);
        let went_on = beside
            .is_none_or(|beside| beside.is_some_and(|beside| gain(beside, back, until - SAMPLED) > 0.0));
        (before < whole && went_on).then_some(until - back)
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

    /// Transfers on a link without outages, with round trips of 3 s.
    fn undisturbed() -> [RunRecord; 2] {
        ["14kB", "auto"]
            .map(|case| run(Some(case), &[]).series(Series::Rtt, "file@proxy", &[(30.0, 3.0), (60.0, 3.0)]))
    }

    #[test]
    fn a_silence_after_an_outage_of_the_uplink_is_counted() {
        let of = |wait: f64, held: f64| {
            let case = |name: &str, wait: f64| {
                let delivered = [(1.0, 1e3), (21.0, 9e4), (22.0 + wait, 1e5), (51.0, 2e5), (53.0, 3e5)];
                run(Some(name), &[]).series(Series::Delivered, "file", &delivered)
            };
            found(|records| silences(records, &undisturbed()), &[case("auto", wait), case("auto-held", held)])
        };
        assert!(holds(&of(2.0, 1.0), "uplink") && !holds(&of(9.0, 1.0), "uplink"));
        assert!(
            of(9.0, 1.0)[0].cause.as_ref().is_some_and(|cause| cause.contains("1 runs")),
            "{:?}",
            of(9.0, 1.0)
        );
        assert_eq!(of(9.0, 9.0)[0].cause, None, "what was held was late, too");
    }

    #[test]
    fn what_is_sent_again_is_counted_on_the_link() {
        let of = |case: &str, values: &[(&str, &str)], offered: u64, wait: f64| {
            let delivered = [(10.0, 1e4), (89.0, 1e5), (105.0 + wait, 2e5)];
            let mut record = run(Some(case), values)
                .flow("file", 1.0, &[169.0], &[])
                .series(Series::Delivered, "file", &delivered)
                .series(Series::Rtt, "file@proxy", &[(70.0, 2.0), (80.0, 2.0)]);
            record.outcome.as_mut().unwrap().links.push(shorthaul_observe::LinkOutcome {
                name: "proxy>phone".into(),
                offered,
                delivered: 0,
                delivered_bytes: 0,
                queue_full: 0,
                lost: 0,
                outage: 0,
                max_queue: 0,
            });
            record
        };
        let with = |held: u64, long: u64, wait: f64| {
            let values = [("hold", "\"1 min\""), ("list", "[{ at = \"90 s\", lasts = \"15 s\" }]")];
            let lengths = [of("aggregate", &values, 431 + long, wait)];
            let none = [of("aggregate-none", &[], 431, 0.0)];
            let records = [of("aggregate-held", &[], 431 + held, 0.0), of("aggregate-lost", &[], 440, 0.0)];
            found(|records| retransmissions(records, &none, &lengths), &records)
        };
        assert!(holds(&with(1, 1, 1.0), "8 s that delays: packets"));
        let none = with(0, 1, 1.0);
        assert!(!holds(&none, "8 s that delays: packets") && none[0].cause.is_some(), "{none:#?}");
        assert!(!holds(&none, "loses") && holds(&none, "where 1.0"));
        assert!(!holds(&with(0, 1, 9.0), "where 1.0"), "late");
        assert!(with(0, 7, 1.0).iter().all(|own| own.cause.is_none()), "no stall has a single one");
    }

    #[test]
    fn outages_of_the_uplink_are_judged_beside_direct_downloads_and_for_two() {
        let case = |name: &str, takes: f64, wait: f64, other: f64| {
            let delivered = [(1.0, 1e3), (21.0, 9e4), (22.0 + wait, 1e5), (51.0, 2e5), (53.0, 3e5)];
            let beside =
                [(1.0, 1e3), (21.0, 9e4), (23.0, 9e4 + other), (31.0, 1e5), (51.0, 2e5), (53.0, 3e5)];
            run(Some(name), &[])
                .flow("file", 1.0, &[takes], &[])
                .series(Series::Delivered, "file", &delivered)
                .series(Series::Delivered, "other", &beside)
        };
        let of = |aggregate: f64, wide: f64, direct_wait: f64, other: f64| {
            let aggregates =
                [case("aggregate", aggregate, 9.0, 0.0), case("aggregate-held", 120.0, 1.0, 0.0)];
            let beside = [
                case("direct", 107.0, direct_wait, 0.0),
                case("direct-held", 107.0, 1.0, 0.0),
                case("wide-held", wide, 1.0, 0.0),
                case("two-aggregate", 110.0, 9.0, other),
            ];
            found(|records| silences_beside(records, &aggregates, &undisturbed()), &beside)
        };
        assert!(holds(&of(105.0, 105.0, 1.0, 0.0), "outages"));
        let late = of(131.0, 105.0, 1.0, 1e3);
        assert!(!holds(&late, "400 kB take") && late[0].cause.is_some(), "{late:#?}");
        assert_eq!(of(131.0, 120.0, 1.0, 0.0)[0].cause, None, "a short window is not why");
        assert!(!holds(&late, "two downloads"), "the other one went on");
        assert!(!holds(&of(105.0, 105.0, 9.0, 0.0), "directly: runs"));
    }
}
