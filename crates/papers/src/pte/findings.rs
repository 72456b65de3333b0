//! What the paper states and the comparison asks, beside what was measured; and what follows for practice.
use super::bound::{self, Packets};
use super::figures::share_of;
use crate::error::Result;
use shorthaul_observe::{Finding, RunRecord, Summary};
use shorthaul_report::Unit;
use shorthaul_scenario::{Metric, Study};
use shorthaul_types::Bytes;
use std::time::Duration;

/// A metric over the runs of a case, and of a swept value where one is named.
fn measured(records: &[RunRecord], case: &str, swept: Option<&str>, metric: Metric) -> Option<Summary> {
    let fits = |record: &&RunRecord| {
        record.case.as_deref() == Some(case)
            && swept.is_none_or(|value| record.values.iter().any(|(_, own)| own.trim_matches('"') == value))
    };
    let outcomes = records.iter().filter(fits).filter_map(|record| record.outcome.as_ref());
    Summary::of(outcomes.filter_map(|outcome| outcome.metrics.get(&metric).copied()))
}

pub(super) fn mean(records: &[RunRecord], case: &str, swept: Option<&str>, metric: Metric) -> Option<f64> {
    measured(records, case, swept, metric).map(|summary| summary.mean)
}

fn seconds(summary: &Summary) -> String {
    let half = summary.confidence().unwrap_or(0.0);
    format!("{} ± {}", Unit::Seconds.format(summary.mean), Unit::Seconds.format(half))
}

/// Two times that the paper states, and what is asked of their ratio.
struct Times {
    what: &'static str,
    /// With the gateway, and without.
    cases: [&'static str; 2],
    /// What the ratio may be at most; none where the scenario is not the paper's, and is only shown.
    most: Option<f64>,
    /// What the times are of.
    reason: &'static str,
}

/// What the paper states of Figure 3, in seconds: with the gateway, and without.
pub(super) const FIGURE_3: [f64; 2] = [170.0, 230.0];
/// A time that is off by no more than this share agrees.
const NEAR: f64 = 0.1;
/// What a gateway may add to what both links take by themselves.
const OF_THE_BOUND: f64 = 0.05;

impl Times {
    /// The times of a copy with and without, and their ratio.
    fn found(&self, records: &[RunRecord]) -> Vec<Finding> {
        let what = self.what;
        let [with, without] = self.cases.map(|case| measured(records, case, None, Metric::Completion));
        let (Some(with), Some(without), Some(ratios)) = (with, without, self.ratios(records)) else {
            return Vec::new();
        };
        let share = with.mean / without.mean;
        let Some(most) = self.most else {
            return vec![
                Finding::shown(format!("{what}: without"), "", seconds(&without)).because(self.reason),
                Finding::shown(format!("{what}: with"), "", seconds(&with)),
                Finding::shown(format!("{what}: with / without"), "", format!("{share:.2}")),
            ];
        };
        let time = |of: &str, time: &Summary, stated: f64| {
            let found =
                Finding::number(format!("{what}: {of}"), format!("{stated} s"), time.mean, Unit::Seconds);
            Finding { ours: seconds(time), ..found.within(NEAR, stated) }
        };
        vec![
            time("without", &without, FIGURE_3[1]).because(self.reason),
            time("with", &with, FIGURE_3[0]),
            Finding::number(
                format!("{what}: with / without"),
                format!("0.74 (≤ {most:.2} is asked)"),
                share,
                Unit::None,
            )
            .at_most(most)
            .explained(
                format!(
                    "the mean weighs runs whose long recoveries come late: of the runs' own ratios the median is {:.2}",
                    ratios.percentile(0.5)
                ),
                ratios.percentile(0.5) <= most,
            ),
        ]
    }

    /// With and without, of the same seed.
    fn ratios(&self, records: &[RunRecord]) -> Option<Summary> {
        let time = |case: &str, seed: u64| {
            let is_meant = |record: &&RunRecord| record.case.as_deref() == Some(case) && record.seed == seed;
            let outcome = records.iter().find(is_meant)?.outcome.as_ref()?;
            outcome.metrics.get(&Metric::Completion).copied()
        };
        let seeds: std::collections::BTreeSet<u64> = records.iter().map(|record| record.seed).collect();
        let [with, without] = self.cases;
        Summary::of(seeds.into_iter().filter_map(|seed| Some(time(with, seed)? / time(without, seed)?)))
    }
}

pub(super) fn fig3(study: &Study, records: &[RunRecord]) -> Result<Vec<Finding>> {
    // The bounds need no run. Where nothing was run there is nothing beside them.
    if records.is_empty() {
        return Ok(Vec::new());
    }
    let bounds = Bounds::of(study, Packets::of(Bytes(2_000_000), Bytes(1000)))?;
    Ok(beside_the_bound(records, &bounds))
}

/// The rate of the Internet link of Figure 3, in bit/s.
const INTERNET: f64 = 100e3;

/// What the links of Figure 3 take by themselves.
struct Bounds {
    /// The mobile link, run by run, in seconds.
    mobile: Vec<f64>,
    /// Both, one behind the other, run by run: what no gateway can beat.
    both: Vec<f64>,
    /// The Internet link alone.
    internet: f64,
}

impl Bounds {
    fn of(study: &Study, packets: Packets) -> Result<Bounds> {
        let apart = packets.size.0 as f64 * 8.0 / INTERNET;
        let mut bounds =
            Bounds { mobile: Vec::new(), both: Vec::new(), internet: packets.count as f64 * apart };
        let Some(point) = study.points().first() else { return Ok(bounds) };
        let scenario = study.scenario(point)?;
        for seed in study.seeds() {
            let mobile = bound::curve(&scenario, "station-mobile", seed, packets)?;
            let both =
                bound::behind(&scenario, "station-mobile", seed, packets, Duration::from_secs_f64(apart))?;
            bounds.mobile.extend(mobile.last().map(|(at, _)| *at));
            bounds.both.extend(both.last().map(|(at, _)| *at));
        }
        Ok(bounds)
    }
}

/// What the mobile link of Figure 3 takes by itself on average: 2000 packets of 1040 bytes at 1 Mbit/s, and 0.5 s for 15 % of them.
fn expected_bound() -> f64 {
    2000.0 * (1040.0 * 8.0 / 1e6 + 0.15 * 0.5)
}

/// Figure 3, beside how long its links take by themselves.
fn beside_the_bound(records: &[RunRecord], bounds: &Bounds) -> Vec<Finding> {
    let times = Times {
        what: "Figure 3",
        cases: ["with", "without"],
        most: Some(0.80),
        reason: "recoveries for 15 % of the packets, which is assumed: with 13 to 16 % the paper's rates and times fit together (sweep `fig3-shares`)",
    };
    let mut found = times.found(records);
    let both = Summary::of(bounds.both.iter().copied());
    let without = measured(records, "without", None, Metric::Completion);
    if let (Some(both), Some(with), Some(without)) =
        (both, measured(records, "with", None, Metric::Completion), without)
    {
        limited_by_links(&mut found, &both, &with, &without);
        found.push(
            Finding::number(
                "Figure 3: with / the bound of both links, one behind the other",
                format!("not stated (within {} of 1 is asked)", Unit::Percent.format(OF_THE_BOUND)),
                with.mean / both.mean,
                Unit::None,
            )
            .within(OF_THE_BOUND, 1.0)
            .model("1.00: fluid")
            .because(late_recoveries(bounds, with.mean)),
        );
    }
    if let Some(bound) = Summary::of(bounds.mobile.iter().copied()) {
        let mobile = Finding::number(
            "Figure 3: bound of the mobile link, the straight line",
            "not stated; near the 170 s with the gateway is asked",
            bound.mean,
            Unit::Seconds,
        );
        found.push(
            Finding { ours: seconds(&bound), ..mobile.within(NEAR, FIGURE_3[0]) }
                .model(format!(
                    "{}: packets · (L / rate + 0.15 · 0.5 s)",
                    Unit::Seconds.format(expected_bound())
                ))
                .because(format!("the Internet link alone takes {}", Unit::Seconds.format(bounds.internet))),
        );
    }
    let timeouts = |case| mean(records, case, None, Metric::Timeouts);
    if let (Some(with), Some(without)) = (timeouts("with"), timeouts("without")) {
        found.push(Finding::judged(
            "Figure 3: RTOs of the sender, with, of those without",
            "the varying latencies are hidden from it",
            format!("{with:.1} of {without:.1}"),
            with < 0.5 * without,
        ));
    }
    found
}

/// What late recoveries cost: both links one behind the other take longer than the slower of them, because what the Internet link has not
/// brought when a recovery begins waits until it ends, and the mobile link cannot make up for it afterwards.
fn late_recoveries(bounds: &Bounds, with: f64) -> String {
    let slower = bounds.mobile.iter().map(|mobile| mobile.max(bounds.internet));
    let [slower, both] = [Summary::of(slower), Summary::of(bounds.both.iter().copied())]
        .map(|all| all.map_or(f64::NAN, |all| all.mean));
    format!(
        "the slower of both links takes {} by itself, both one behind the other {}, the copy {}",
        Unit::Seconds.format(slower),
        Unit::Seconds.format(both),
        Unit::Seconds.format(with)
    )
}

/// Why the share with / without is above the paper's: no gateway is below what both links take one behind the other, and this one is near
/// that.
fn limited_by_links(found: &mut [Finding], both: &Summary, with: &Summary, without: &Summary) {
    let least = both.mean / without.mean;
    for finding in found.iter_mut().filter(|own| own.what.ends_with("with / without")) {
        *finding = finding.clone().explained(
            format!(
                "the links: one behind the other they take {} by themselves, run by run, which is {least:.2} of the time without; no gateway is below that, and this one adds {}",
                Unit::Seconds.format(both.mean),
                Unit::Percent.format(with.mean / both.mean - 1.0)
            ),
            least > FIGURE_3[0] / FIGURE_3[1] && with.mean / both.mean <= 1.0 + OF_THE_BOUND,
        );
    }
}

/// "Figure 3 shows a typical result": for which share of recoveries most runs have both of its times, within a tenth.
pub(super) fn shares(records: &[RunRecord]) -> Vec<Finding> {
    let time = |record: &RunRecord| record.outcome.as_ref()?.metrics.get(&Metric::Completion).copied();
    let is_near =
        |time: Option<f64>, stated: f64| time.is_some_and(|time| (time / stated - 1.0).abs() <= NEAR);
    let mut runs: std::collections::BTreeMap<u64, (f64, [f64; 2])> = std::collections::BTreeMap::new();
    for with in records.iter().filter(|record| record.case.as_deref() == Some("with")) {
        let Some(share) = share_of(with) else { continue };
        let same = |other: &&RunRecord| {
            other.case.as_deref() == Some("without") && other.seed == with.seed && other.values == with.values
        };
        let without = records.iter().find(same).and_then(time);
        let (_, [both, all]) = runs.entry(share.to_bits()).or_insert((share, [0.0; 2]));
        *all += 1.0;
        if is_near(time(with), FIGURE_3[0]) && is_near(without, FIGURE_3[1]) {
            *both += 1.0;
        }
    }
    let best = runs.into_values().max_by(|a, b| (a.1[0] / a.1[1]).total_cmp(&(b.1[0] / b.1[1])));
    let line = |(share, [both, all]): (f64, [f64; 2])| {
        Finding::number(
            "Figure 3: runs that have both of its times within a tenth, at the best share of recoveries",
            "a typical result",
            both / all,
            Unit::Percent,
        )
        .at_least(0.25)
        .because(format!(
            "{both} of {all} runs, recoveries for {} of the packets (sweep `fig3-shares`)",
            Unit::Percent.format(share)
        ))
    };
    best.into_iter().map(line).collect()
}

/// Why a time with the gateway is longer than the paper's: no gateway is faster than both links one behind the other.
fn bounded(finding: Finding, bounds: &Bounds) -> Finding {
    let Some(bound) = Summary::of(bounds.both.iter().copied()) else { return finding };
    let near = finding.value.is_some_and(|time| time / bound.mean - 1.0 <= NEAR);
    finding.explained(
        format!(
            "the seeds: both links, one behind the other, take {} by themselves with these, and the gateway adds no more than a tenth",
            Unit::Seconds.format(bound.mean)
        ),
        near && bound.mean > FIGURE_3[0],
    )
}

pub(super) fn fig3_live(study: &Study, records: &[RunRecord]) -> Result<Vec<Finding>> {
    let bounds = Bounds::of(study, Packets::of(Bytes(2_000_000), Bytes(1460)))?;
    let reno = Times {
        what: "Figure 3 between kernels, a sender as the paper's",
        cases: ["reno-with", "reno-without"],
        most: Some(0.80),
        reason: "Reno without SACK, timestamps and F-RTO, a window of 20 packets; three seeds, of which recoveries alone make 20 % of difference",
    };
    let cubic = Times {
        what: "Figure 3 between kernels, cubic as it is",
        cases: ["cubic-with", "cubic-without"],
        most: None,
        reason: "it undoes an RTO that was a mistake (F-RTO, SACK), which the paper's sender did not: less is left to gain",
    };
    let mut found = reno.found(records);
    for finding in found.iter_mut().filter(|own| own.what.ends_with(": with")) {
        *finding = bounded(finding.clone(), &bounds);
    }
    let [with, without] = reno.cases.map(|case| measured(records, case, None, Metric::Completion));
    let both = Summary::of(bounds.both.iter().copied());
    if let (Some(both), Some(with), Some(without)) = (both, with, without) {
        limited_by_links(&mut found, &both, &with, &without);
    }
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
        most: None,
        reason: "the other reading: a recovery for every packet",
    };
    let cases = [("2 MB", ["with", "without"]), ("2 Mbit", ["with-2-Mbit", "without-2-Mbit"])];
    let mut found = Vec::new();
    for (size, cases) in cases {
        let name = if size == "2 MB" { "every packet, 2 MB" } else { "every packet, 2 Mbit" };
        found.extend(reading(name, cases).found(records));
        let [with, without] = cases.map(|case| measured(records, case, None, Metric::Completion));
        let (Some(with), Some(without)) = (with, without) else { continue };
        let fits = [(&with, FIGURE_3[0]), (&without, FIGURE_3[1])];
        let fits = fits.iter().all(|(time, stated)| (time.mean / stated - 1.0).abs() <= NEAR);
        found.push(
            Finding::judged(
                format!("Figure 3 as worded, a recovery for every packet, {size}"),
                "230 s without, 170 s with",
                format!("{} without, {} with", seconds(&without), seconds(&with)),
                fits,
            )
            .explained(
                "0.5 s for every packet of 1000 bytes are 16 kbit/s: the copy takes as long as the mobile link, with or without (`fig3-readings`)",
                (with.mean / without.mean - 1.0).abs() < 0.1,
            ),
        );
    }
    Ok(found)
}

pub(super) fn fairness(study: &Study, records: &[RunRecord]) -> Result<Vec<Finding>> {
    let mut found = shown_fairness(study, records)?;
    let index = |case| mean(records, case, None, Metric::Fairness);
    if let (Some(direct), Some(tail)) = (index("direct"), index("path-tail")) {
        found.push(
            Finding::number(
                "§5, 3a: Jain's index of four flows behind an emulated tail, of that behind a router",
                "1: equivalent to other shared media",
                tail / direct,
                Unit::None,
            )
            .within(0.1, 1.0),
        );
    }
    Ok(found)
}

fn shown_fairness(_: &Study, records: &[RunRecord]) -> Result<Vec<Finding>> {
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

/// What a gateway with an emulated tail may hold of what a plain split does.
const OF_A_SPLIT: f64 = 0.1;

pub(super) fn kernels(_: &Study, records: &[RunRecord]) -> Result<Vec<Finding>> {
    const ALL: f64 = 2e6 * 1448.0 / 1500.0;
    let mut found = Vec::new();
    let whole = most(records, "split-cubic", Metric::HeldMost);
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
        let stated = if is_split { "" } else { "≥ 0.95 is asked" };
        let share =
            Finding::number(format!("{what}: share of the link"), stated, goodput / ALL, Unit::Percent);
        found.push(if is_split { share } else { share.at_least(0.95) });
        let held = Finding::shown(format!("{what}: held at most"), "", Unit::Bytes.format(most));
        found.push(match whole.filter(|_| !is_split) {
            Some(whole) => Finding {
                stated: format!("≤ {} of a plain split's is asked", Unit::Percent.format(OF_A_SPLIT)),
                ..held
                    .and(most <= OF_A_SPLIT * whole)
                    .because(format!("a plain split holds {}", Unit::Bytes.format(whole)))
            },
            None => held,
        });
        let sender = format!("{timeouts:.1} RTOs, {closed:.2} s of closed window");
        found.push(match is_split {
            true => Finding::shown(format!("{what}: the sender"), "", sender),
            false => Finding::judged(
                format!("{what}: the sender"),
                "no RTOs, no stalls is asked",
                sender,
                timeouts < 0.5 && closed < 0.1,
            ),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Having, holds, run, study};
    use shorthaul_observe::Verdict;

    fn copies(with: f64, without: f64, timeouts: [f64; 2]) -> Vec<RunRecord> {
        [("with", with, timeouts[0]), ("without", without, timeouts[1])]
            .map(|(case, time, timeouts)| {
                run(Some(case), &[]).metric(Metric::Completion, time).metric(Metric::Timeouts, timeouts)
            })
            .to_vec()
    }

    #[test]
    fn figure_3_holds_for_the_papers_times_and_for_no_others() {
        let with_bounds = |copies: &[RunRecord], both: f64, mobile: f64| {
            beside_the_bound(copies, &Bounds { mobile: vec![mobile], both: vec![both], internet: 166.0 })
        };
        let found = |with, without, timeouts| with_bounds(&copies(with, without, timeouts), 170.0, 168.0);
        let papers = found(172.0, 228.0, [1.0, 9.0]);
        assert!(holds(&papers, "Figure 3") && papers.iter().all(|finding| finding.verdict == Verdict::Holds));
        let slow = with_bounds(&copies(185.0, 228.0, [1.0, 9.0]), 178.0, 168.0);
        let share = slow.iter().find(|own| own.what.ends_with("with / without")).unwrap();
        assert!(share.cause.as_ref().is_some_and(|cause| cause.contains("0.78")), "{share:?}");
        let bound = slow.iter().find(|own| own.what.contains("one behind the other")).unwrap();
        assert!(bound.reason.contains("takes 168 s by itself, both one behind the other 178 s"), "{bound:?}");
        let own = with_bounds(&copies(185.0, 228.0, [1.0, 9.0]), 150.0, 168.0);
        assert!(own.iter().all(|own| own.cause.is_none()), "the links allow more: {own:?}");
        let none = found(230.0, 230.0, [9.0, 9.0]);
        for what in ["3: with / without", "bound of both", "RTOs", "3: with"] {
            assert!(!holds(&none, what), "{what}");
        }
        assert!(!holds(&found(172.0, 300.0, [1.0, 9.0]), "3: without"));
        assert!(!holds(&found(180.0, 228.0, [1.0, 9.0]), "bound of both"), "6 % above it");
        let slow = with_bounds(&copies(172.0, 228.0, [1.0, 9.0]), 170.0, 300.0);
        assert!(!holds(&slow, "bound of the mobile link"));
        let none = Bounds { mobile: Vec::new(), both: Vec::new(), internet: 166.0 };
        assert!(beside_the_bound(&[], &none).is_empty(), "nothing was run");
    }

    #[test]
    fn what_the_links_of_figure_3_take_is_what_its_rates_and_recoveries_come_to() {
        let text = include_str!("../../../../papers/pte/fig3.toml");
        let study = Study::from_toml("fig3.toml", text).unwrap().with_seeds(1, 200);
        let bounds = Bounds::of(&study, Packets::of(Bytes(2_000_000), Bytes(1000))).unwrap();
        // 2000 packets of 1040 bytes at 100 kbit/s.
        assert!((bounds.internet - 166.4).abs() < 0.01, "{}", bounds.internet);
        let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len() as f64;
        assert!((mean(&bounds.mobile) / expected_bound() - 1.0).abs() < 0.05, "{}", mean(&bounds.mobile));
        for (mobile, both) in bounds.mobile.iter().zip(&bounds.both) {
            assert!(*both >= mobile.max(bounds.internet), "{both}: {mobile}");
        }
    }

    #[test]
    fn between_kernels_figure_3_is_judged_beside_what_its_links_take_with_the_same_seeds() {
        let text = include_str!("../../../../papers/pte/fig3-live.toml");
        let study = Study::from_toml("fig3-live.toml", text).unwrap();
        let found = |with: f64, without: f64| {
            let of = |case, time| run(Some(case), &[]).metric(Metric::Completion, time);
            fig3_live(&study, &[of("reno-with", with), of("reno-without", without)]).unwrap()
        };
        assert!(holds(&found(171.0, 229.0), "as the paper's"));
        let none = found(229.0, 229.0);
        assert!(!holds(&none, "as the paper's: with / without") && !holds(&none, "as the paper's: with"));
        assert!(none.iter().all(|own| own.cause.is_none()), "the links allow more: {none:#?}");
        assert!(fig3_live(&study, &[]).unwrap().is_empty());
    }

    #[test]
    fn a_time_has_its_bound_as_the_cause_only_near_it_and_above_the_papers() {
        let cause = |time: f64, both: f64| {
            let bounds = Bounds { mobile: Vec::new(), both: vec![both], internet: 166.0 };
            let finding = Finding::number("with", "170 s", time, Unit::Seconds).within(NEAR, 170.0);
            bounded(finding, &bounds).cause.is_some()
        };
        assert!(cause(190.0, 180.0) && !cause(210.0, 180.0) && !cause(190.0, 169.0));
        assert!(!cause(172.0, 171.0), "what holds needs none");
        assert!(!cause(140.0, 130.0), "it is shorter than the paper's");
    }

    #[test]
    fn where_nothing_was_run_figure_3_says_nothing() {
        let text = include_str!("../../../../papers/pte/fig3.toml");
        let study = Study::from_toml("fig3.toml", text).unwrap().with_seeds(1, 1);
        assert_eq!(fig3(&study, &[]).unwrap(), []);
        assert!(!fig3(&study, &copies(172.0, 228.0, [1.0, 9.0])).unwrap().is_empty());
    }

    #[test]
    fn a_typical_result_has_both_times_in_one_run() {
        let pair = |share: &str, seed: u64, times: [f64; 2]| {
            [("with", times[0]), ("without", times[1])].map(|(case, time)| {
                let path = "links.station-mobile.link.up.arq.share";
                RunRecord { seed, ..run(Some(case), &[(path, share)]).metric(Metric::Completion, time) }
            })
        };
        let found = |runs: &[[RunRecord; 2]]| shares(&runs.concat());
        let typical = [
            pair("0.15", 1, [171.0, 228.0]),
            pair("0.15", 2, [200.0, 228.0]),
            pair("0.2", 1, [300.0, 400.0]),
        ];
        assert!(holds(&found(&typical), "Figure 3"));
        assert!(found(&typical)[0].ours.starts_with("50"), "{:?}", found(&typical));
        // Each time is met, but never in the same run.
        assert!(!holds(
            &found(&[pair("0.15", 1, [171.0, 400.0]), pair("0.15", 2, [300.0, 228.0])]),
            "Figure 3"
        ));
    }

    #[test]
    fn the_other_reading_differs_for_a_reason_that_its_runs_show() {
        let found = |with, without| {
            readings(&study(), &copies(with, without, [0.0; 2]))
                .unwrap()
                .into_iter()
                .find(|own| own.what.contains("as worded"))
                .unwrap()
        };
        assert!(found(1037.0, 1054.0).cause.is_some());
        assert_eq!(found(1037.0, 2000.0).cause, None, "that would not be the mobile link's own time");
        assert_eq!(found(171.0, 229.0).verdict, Verdict::Holds);
    }

    #[test]
    fn fairness_and_kernels_are_judged() {
        let index = |direct, tail| {
            let of = |case, index| run(Some(case), &[]).metric(Metric::Fairness, index);
            fairness(&study(), &[of("direct", direct), of("path-tail", tail)]).unwrap()
        };
        assert!(holds(&index(0.93, 0.98), "§5") && !holds(&index(0.93, 0.5), "§5"));
        let kernel = |goodput, timeouts| {
            let record =
                run(Some("reno"), &[]).metric(Metric::Goodput, goodput).metric(Metric::Timeouts, timeouts);
            let record = record.metric(Metric::HeldMost, 1e5).metric(Metric::WindowLimited, 0.0);
            kernels(&study(), &[record]).unwrap()
        };
        assert!(holds(&kernel(1.92e6, 0.0), "share") && holds(&kernel(1.92e6, 0.0), "the sender"));
        assert!(!holds(&kernel(1.7e6, 0.0), "share") && !holds(&kernel(1.92e6, 3.0), "the sender"));
        let held = |most| {
            let of = |case, most| {
                let record =
                    run(Some(case), &[]).metric(Metric::Goodput, 1.9e6).metric(Metric::HeldMost, most);
                record.metric(Metric::Timeouts, 0.0).metric(Metric::WindowLimited, 0.0)
            };
            kernels(&study(), &[of("cubic", most), of("split-cubic", 4e6)]).unwrap()
        };
        assert!(
            holds(&held(2e5), "cubic before an emulated tail: held") && !holds(&held(5e5), "held at most")
        );
    }
}
