//! What the paper states and the comparison asks, beside what was measured; and what follows for practice.
use super::bound::{self, Packets};
use super::figures::share_of;
use crate::error::Result;
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
/// What is sent from behind a wired bottleneck may be off by this share of a window in each round trip.
const OF_A_WINDOW: f64 = 0.3;
/// The clamp there, in bytes.
const CLAMP: f64 = 30_000.0;

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
    let mut bounds = Vec::new();
    let scenario = study.scenario(&study.points()[0])?;
    let packets = Packets::of(Bytes(2_000_000), Bytes(1000));
    for seed in study.seeds() {
        let curve = bound::curve(&scenario, "station-mobile", seed, packets)?;
        bounds.extend(curve.last().map(|(at, _)| *at));
    }
    // What no gateway can beat: the slower of the two links, run by run.
    let internet = (packets.count * packets.size.0 * 8) as f64 / 100e3;
    Ok(beside_the_bound(records, &bounds, internet))
}

/// What the mobile link of Figure 3 takes by itself on average: 2000 packets of 1040 bytes at 1 Mbit/s, and 0.5 s for 15 % of them.
fn expected_bound() -> f64 {
    2000.0 * (1040.0 * 8.0 / 1e6 + 0.15 * 0.5)
}

/// Figure 3, beside how long the mobile link takes by itself in each run, and the Internet link in all.
fn beside_the_bound(records: &[RunRecord], bounds: &[f64], internet: f64) -> Vec<Finding> {
    let times = Times {
        what: "Figure 3",
        cases: ["with", "without"],
        most: Some(0.80),
        reason: "recoveries for 15 % of the packets: the paper's rates and times fit together only so",
    };
    let mut found = times.found(records);
    let both = Summary::of(bounds.iter().map(|bound| bound.max(internet)));
    let without = measured(records, "without", None, Metric::Completion);
    if let (Some(both), Some(with), Some(without)) =
        (both, measured(records, "with", None, Metric::Completion), without)
    {
        limited_by_links(&mut found, &both, &with, &without);
        found.push(
            Finding::number(
                "Figure 3: with / the bound of both links",
                "near 1",
                with.mean / both.mean,
                Unit::None,
            )
            .within(NEAR, 1.0)
            .model("1.00: fluid"),
        );
    }
    if let Some(bound) = Summary::of(bounds.iter().copied()) {
        let mobile =
            Finding::number("Figure 3: bound of the mobile link", "about 170 s", bound.mean, Unit::Seconds);
        found.push(
            Finding { ours: seconds(&bound), ..mobile.within(NEAR, 170.0) }
                .model(format!(
                    "{}: packets · (L / rate + 0.15 · 0.5 s)",
                    Unit::Seconds.format(expected_bound())
                ))
                .because(format!("the Internet link alone takes {}", Unit::Seconds.format(internet))),
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

/// Why the share with / without is above the paper's: no gateway is below what the slower of both links takes by itself, and this one
/// is near that.
fn limited_by_links(found: &mut [Finding], both: &Summary, with: &Summary, without: &Summary) {
    let least = both.mean / without.mean;
    for finding in found.iter_mut().filter(|own| own.what.ends_with("with / without")) {
        *finding = finding.clone().explained(
            format!(
                "the links: the slower of both takes {} by itself, run by run, which is {least:.2} of the time without; no gateway is below that, and this one adds {}",
                Unit::Seconds.format(both.mean),
                Unit::Percent.format(with.mean / both.mean - 1.0)
            ),
            least > FIGURE_3[0] / FIGURE_3[1] && with.mean / both.mean <= 1.0 + NEAR,
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

/// A time with the gateway is what the mobile link takes by itself with these seeds, if it is no more than this share above it.
const BOUND: f64 = 0.1;

/// Why a time with the gateway is longer than the paper's: no gateway is faster than the slower of both links.
fn bounded(finding: Finding, bounds: &[f64]) -> Finding {
    let Some(bound) = Summary::of(bounds.iter().copied()) else { return finding };
    let near = finding.value.is_some_and(|time| time / bound.mean - 1.0 <= BOUND);
    finding.explained(
        format!(
            "the seeds: the slower of both links takes {} by itself with these, and the gateway adds no more than a tenth",
            Unit::Seconds.format(bound.mean)
        ),
        near && bound.mean > FIGURE_3[0],
    )
}

pub(super) fn fig3_live(study: &Study, records: &[RunRecord]) -> Result<Vec<Finding>> {
    let packets = Packets::of(Bytes(2_000_000), Bytes(1460));
    let internet = (packets.count * packets.size.0 * 8) as f64 / 100e3;
    let mut bounds = Vec::new();
    if let Some(scenario) = study.points().first().and_then(|point| study.scenario(point).ok()) {
        for seed in study.seeds() {
            let curve = bound::curve(&scenario, "station-mobile", seed, packets)?;
            bounds.extend(curve.last().map(|(at, _)| at.max(internet)));
        }
    }

    let reno = Times {
        what: "Figure 3 between kernels, a sender as the paper's",
        cases: ["reno-with", "reno-without"],
        most: Some(0.80),
        reason: "Reno without SACK, timestamps and F-RTO, a window of 20 packets",
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
    if let (Some(both), Some(with), Some(without)) = (Summary::of(bounds.iter().copied()), with, without) {
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
                Finding::number(
                    format!("mobile bottleneck, {round_trip} wired: path-tail's share of the link"),
                    "≥ 0.95 is asked",
                    goodput / ALL,
                    Unit::Percent,
                )
                .at_least(0.95)
                .model(format!("{}: fluid, a sender as at its bottleneck", Unit::Percent.format(1.0)))
                .because(format!("{} held at most", Unit::Bytes.format(most))),
            );
            found.push(
                Finding::number(
                    format!("mobile bottleneck, {round_trip} wired: path-tail's windows are closed for"),
                    "never: awnd is not used for rate control (§2)",
                    closed,
                    Unit::Seconds,
                )
                .at_most(0.0)
                .model(format!(
                    "{}: the emulated queue overflows before the buffer is full",
                    Unit::Seconds.format(0.0)
                )),
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
            Finding::number(
                format!("wired bottleneck, {round_trip}: path-tail / plain split"),
                "≥ 0.99 is asked",
                tail / split,
                Unit::Percent,
            )
            .at_least(0.99)
            .model(format!("{}: fluid, the Internet link binds both", Unit::Percent.format(1.0))),
        );
        // rate = window / rtt (§2, number 5), with the mobile link's 100 ms in the loop
        let one_way: f64 = one_way.trim_end_matches(" ms").parse().unwrap_or(0.0);
        let round_trip_time = 2.0 * one_way / 1e3 + 0.1;
        let predicted = (CLAMP * 8.0 / round_trip_time).min(split);
        found.push(
            Finding::number(
                format!("§2, number 5: a clamp behind a wired bottleneck of {round_trip}"),
                format!(
                    "{} (rate = cwnd / rtt; within {} is asked)",
                    Unit::BitsPerSecond.format(predicted),
                    Unit::Percent.format(OF_A_WINDOW)
                ),
                clamp,
                Unit::BitsPerSecond,
            )
            .within(OF_A_WINDOW, predicted)
            .model(format!("{}: rate = cwnd / rtt", Unit::BitsPerSecond.format(predicted)))
            .because(format!(
                "it is {} in each round trip, of a window of {}",
                Unit::Bytes.format(clamp * round_trip_time / 8.0),
                Unit::Bytes.format(CLAMP)
            )),
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
        let stated = if is_split { "" } else { "≥ 0.95 is asked" };
        let share =
            Finding::number(format!("{what}: share of the link"), stated, goodput / ALL, Unit::Percent);
        found.push(if is_split { share } else { share.at_least(0.95) });
        let bound = buffer(study, case);
        let asked = bound.map_or(String::new(), |bound| format!("≤ {}", Unit::Bytes.format(bound)));
        let held = Finding::shown(format!("{what}: held at most"), asked, Unit::Bytes.format(most));
        found.push(match bound {
            Some(bound) => held.and(most <= bound),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Having, holds, run};
    use shorthaul_observe::Verdict;

    fn study() -> Study {
        let text = "duration = \"1 s\"\nhosts = { a = {}, b = {} }\nlinks = [{ between = [\"a\", \"b\"], link = {} }]\n\
                    flows = [{ from = \"a\", to = \"b\", bulk = \"1 kB\" }]\n";
        Study::from_toml("s.toml", text).unwrap()
    }

    fn copies(with: f64, without: f64, timeouts: [f64; 2]) -> Vec<RunRecord> {
        [("with", with, timeouts[0]), ("without", without, timeouts[1])]
            .map(|(case, time, timeouts)| {
                run(Some(case), &[]).metric(Metric::Completion, time).metric(Metric::Timeouts, timeouts)
            })
            .to_vec()
    }

    #[test]
    fn figure_3_holds_for_the_papers_times_and_for_no_others() {
        let found =
            |with, without, timeouts| beside_the_bound(&copies(with, without, timeouts), &[170.0], 166.0);
        let papers = found(172.0, 228.0, [1.0, 9.0]);
        assert!(holds(&papers, "Figure 3") && papers.iter().all(|finding| finding.verdict == Verdict::Holds));
        let slow = beside_the_bound(&copies(185.0, 228.0, [1.0, 9.0]), &[178.0], 166.0);
        let share = slow.iter().find(|own| own.what.ends_with("with / without")).unwrap();
        assert!(share.cause.as_ref().is_some_and(|cause| cause.contains("0.78")), "{share:?}");
        let own = beside_the_bound(&copies(185.0, 228.0, [1.0, 9.0]), &[150.0], 100.0);
        assert!(own.iter().all(|own| own.cause.is_none()), "the links allow more: {own:?}");
        let none = found(230.0, 230.0, [9.0, 9.0]);
        for what in ["3: with / without", "bound of both", "RTOs", "3: with"] {
            assert!(!holds(&none, what), "{what}");
        }
        assert!(!holds(&found(172.0, 300.0, [1.0, 9.0]), "3: without"));
        let slow = beside_the_bound(&copies(172.0, 228.0, [1.0, 9.0]), &[300.0], 166.0);
        assert!(!holds(&slow, "bound of the mobile link"));
        assert!(beside_the_bound(&[], &[], 166.0).is_empty(), "nothing was run");
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
    fn shares_of_a_link_are_judged() {
        let bottleneck = |goodput, closed| {
            let tail = run(Some("path-tail"), &[(super::super::figures::DELAY, "\"5 ms\"")])
                .metric(Metric::Goodput, goodput)
                .metric(Metric::HeldMost, 1e5)
                .metric(Metric::WindowLimited, closed)
                .flow("a", goodput, &[], &[]);
            mobile_bottleneck(&study(), &[tail]).unwrap()
        };
        assert!(holds(&bottleneck(1.92e6, 0.0), "path-tail"));
        assert!(!holds(&bottleneck(1.7e6, 0.0), "share") && !holds(&bottleneck(1.92e6, 2.0), "closed"));
        let wired = |tail, clamp| {
            let of = |case, goodput| {
                run(Some(case), &[(super::super::figures::DELAY, "\"150 ms\"")])
                    .metric(Metric::Goodput, goodput)
                    .flow("a", goodput, &[], &[])
            };
            wired_bottleneck(&study(), &[of("split", 1.5e6), of("path-tail", tail), of("clamp", clamp)])
                .unwrap()
        };
        // 30 kB in 300 and 100 ms are 0.6 Mbit/s.
        assert!(holds(&wired(1.5e6, 0.5e6), "wired bottleneck"));
        assert!(!holds(&wired(1.4e6, 0.5e6), "plain split") && !holds(&wired(1.5e6, 1.5e6), "clamp"));
        let clamp = &wired(1.5e6, 0.5e6)[1];
        assert!(clamp.stated.contains("within 30") && clamp.reason.contains("25.0 kB"), "{clamp:?}");
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
    }
}
