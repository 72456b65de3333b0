//! Discovery (PTS §4): what a client finds on the path of Figure 5, what it chooses of that, and what looking costs and gains.
//!
//! `world` has the code that asks and answers over sockets speak over the links of the scenario. What a transfer takes by way of each relay is
//! simulated for itself; here both are put together.
mod world;

use super::swept;
use shorthaul_observe::{Finding, RunRecord, Summary};
use shorthaul_planner::{Policy, Transfer};
use shorthaul_relay::discovery::{Facts, Ranking, Selection, View, is_worth_probing};
use shorthaul_report::Unit;
use shorthaul_report::plot::{Axis, Dash, Figure, Hue, Mark, Panel, Point, Series};
use shorthaul_scenario::{Metric, Scenario, Study};
use shorthaul_types::{Bytes, Seed, Time};
use std::collections::BTreeMap;
use std::time::Duration;
use world::World;

/// The scenario file.
pub(super) const TEXT: &str = include_str!("../../../../../papers/pts/discovery.toml");
/// The cases.
const CASES: [(&str, &str); 3] = [
    ("quiet", "nobody else"),
    ("crossed", "others on the first half"),
    ("lossy", "1 % of loss on each link"),
];
/// Relays can stand after the first to the seventh hop.
const PLACES: usize = 7;
/// The hops of Figure 5, and its service time in seconds.
const HOPS: f64 = 8.0;
const SERVICE: f64 = 100e-6;
/// Others have sent for so long before a client looks.
const BEFORE: Duration = Duration::from_secs(1);
/// A relay is as good as the best if the transfer takes at most so much longer.
const AS_GOOD: f64 = 1.03;

/// What a client that looks for relays has found and chosen.
#[derive(Clone, Debug)]
struct Found {
    /// Where relays offer themselves, in hops from the source.
    offered: Vec<usize>,
    /// Where those stand whose answers came.
    heard: Vec<usize>,
    /// Where the chosen one stands; none to go direct.
    chosen: Option<usize>,
    /// Where the one stands that is chosen when this one is overloaded.
    otherwise: Option<usize>,
    /// How long looking took at first contact, and with the cookie of then.
    took: [Duration; 2],
    /// The round-trip time to the destination, if it answered.
    rtt: Option<Duration>,
    /// Attempts of the second look.
    tries: u32,
    /// Whether relays were reported although the destination had not answered.
    is_unfounded: bool,
}

/// The scenario of a case, with relays at all places.
fn scenario(case: &str) -> Option<Scenario> {
    let (unswept, _) = TEXT.split_once("[sweep]")?;
    let study = Study::from_toml("discovery.toml", unswept).ok()?;
    let point = study.points().iter().find(|point| point.case.as_deref() == Some(case))?;
    study.scenario(point).ok()
}

/// One to all of the places, drawn from a seed.
fn draw(seed: Seed) -> Vec<usize> {
    let mut places: Vec<usize> = (1..=PLACES).collect();
    // Fisher and Yates.
    for last in (1..PLACES).rev() {
        places.swap(last, seed.nth(last as u64).0 as usize % (last + 1));
    }
    places.truncate(1 + seed.derive("number").0 as usize % PLACES);
    places.sort_unstable();
    places
}

/// Looks twice in the run with this seed: at first contact, and again with the cookie of then.
fn look(scenario: &Scenario, run: u64) -> Option<Found> {
    let seed = Seed(run).derive("discovery");
    let offered = draw(seed.derive("offered"));
    let mut world = World::new(scenario, run, &offered, &[])?;
    world.run_until(Time::ZERO + BEFORE);
    let first = world.look(seed.derive("first"), None);
    let second = world.look(seed.derive("second"), first.findings.cookie);
    let chosen = choose(&world, &second.findings);
    let overloaded: Vec<usize> = chosen.into_iter().collect();
    let mut busy = World::new(scenario, run, &offered, &overloaded)?;
    busy.run_until(Time::ZERO + BEFORE);
    let otherwise = busy.look(seed.derive("otherwise"), first.findings.cookie);
    let is_unfounded = |look: &world::Look| look.findings.rtt.is_none() && !look.findings.relays.is_empty();
    let heard = second.findings.relays.iter().filter_map(|found| world.place_of(found.offer.session));
    Some(Found {
        heard: heard.collect(),
        otherwise: choose(&busy, &otherwise.findings),
        is_unfounded: [&first, &second, &otherwise].into_iter().any(is_unfounded),
        offered,
        chosen,
        took: [first.took, second.took],
        rtt: second.findings.rtt,
        tries: second.findings.tries,
    })
}

/// Which relay is chosen, by the paper's rank: nothing is known of loss and rate. None to go direct.
fn choose(world: &World, findings: &shorthaul_relay::discovery::Findings) -> Option<usize> {
    let view = View { rtt: findings.rtt, relays: findings.relays.clone() };
    let one = Selection { relays: 1, ..Selection::default() };
    let ranking = Ranking::new(&view, &facts(), &Transfer::new(Bytes(1_000_000)), one).ok()?;
    world.place_of(ranking.chosen().first()?.offer.session)
}

/// What a client knows of the way before it looks: its own and its peer's windows.
fn facts() -> Facts {
    Facts { window: Some(Bytes(20_000)), model: "reno".into(), ..Facts::default() }
}

/// What was found, and how long transfers took.
struct Runs {
    /// By case and seed.
    found: BTreeMap<(String, u64), Found>,
    /// Completion in seconds, by case, size in bytes, seed and place; place 0 is the direct way.
    times: BTreeMap<(String, u64, u64), BTreeMap<usize, f64>>,
    /// How long a connection took to be established end to end, with nobody else: in seconds, by seed and place.
    set_ups: BTreeMap<u64, BTreeMap<usize, f64>>,
}

impl Runs {
    fn of(records: &[RunRecord]) -> Runs {
        let mut times: BTreeMap<_, BTreeMap<usize, f64>> = BTreeMap::new();
        let mut set_ups: BTreeMap<u64, BTreeMap<usize, f64>> = BTreeMap::new();
        for record in records {
            let set_up =
                record.outcome.as_ref().and_then(|outcome| outcome.metrics.get(&Metric::SetUp).copied());
            let completion =
                record.outcome.as_ref().and_then(|outcome| outcome.metrics.get(&Metric::Completion).copied());
            let size = swept(record, ".bulk").and_then(|size| size.parse::<Bytes>().ok());
            let place =
                swept(record, ".relays").map(|list| list.trim_matches(['[', ']']).parse().unwrap_or(0));
            if let (Some(time), Some(size), Some(place), Some(case)) = (completion, size, place, &record.case)
            {
                times.entry((case.clone(), size.0, record.seed)).or_default().insert(place, time);
                if let Some(time) = set_up.filter(|_| case == "quiet") {
                    set_ups.entry(record.seed).or_default().insert(place, time);
                }
            }
        }
        let scenarios: BTreeMap<&str, Scenario> =
            CASES.into_iter().filter_map(|(case, _)| Some((case, scenario(case)?))).collect();
        let keys: std::collections::BTreeSet<(String, u64)> =
            times.keys().map(|(case, _, seed)| (case.clone(), *seed)).collect();
        let found = keys.into_iter().filter_map(|(case, seed)| {
            let found = look(scenarios.get(case.as_str())?, seed)?;
            Some(((case, seed), found))
        });
        Runs { found: found.collect(), times, set_ups }
    }

    fn looks<'a>(&'a self, case: &'a str) -> impl Iterator<Item = &'a Found> {
        self.found.iter().filter(move |((own, _), _)| own == case).map(|(_, found)| found)
    }

    fn sizes(&self) -> Vec<u64> {
        let sizes: std::collections::BTreeSet<u64> = self.times.keys().map(|(_, size, _)| *size).collect();
        sizes.into_iter().collect()
    }

    /// How long transfers of a size take by way of each place, the mean over the seeds: which place is the best is not to be this run's luck.
    fn by_place(&self, case: &str, size: u64) -> BTreeMap<usize, f64> {
        let runs = self.times.iter().filter(|((own, bytes, _), _)| own == case && *bytes == size);
        let mut all: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
        for (place, time) in runs.flat_map(|(_, times)| times) {
            all.entry(*place).or_default().push(*time);
        }
        all.into_iter().filter_map(|(place, times)| Some((place, Summary::of(times)?.mean))).collect()
    }

    /// In how many of how many looks the place that `of` names is as good, for the largest size, as the best of those that `offered` says.
    fn as_good(
        &self,
        case: &str,
        of: impl Fn(&Found) -> Option<usize>,
        offered: impl Fn(&Found) -> Vec<usize>,
    ) -> (usize, usize) {
        let Some(size) = self.sizes().last().copied() else { return (0, 0) };
        let times = self.by_place(case, size);
        let is_good = |found: &Found| {
            let best = offered(found).into_iter().chain([0]).filter_map(|place| times.get(&place).copied());
            Some(times.get(&of(found).unwrap_or(0))? <= &(AS_GOOD * best.reduce(f64::min)?))
        };
        let all: Vec<bool> = self.looks(case).filter_map(is_good).collect();
        (all.iter().filter(|good| **good).count(), all.len())
    }

    /// Set-up in round trips, the medians over the seeds with nobody else: directly, by the chosen node after looking, and directly after looking;
    /// and, by the paper's formula, that by the chosen node.
    fn set_ups(&self) -> Option<[f64; 4]> {
        let of = |((case, seed), found): (&(String, u64), &Found)| {
            let times = self.set_ups.get(seed).filter(|_| case == "quiet")?;
            let rtt = found.rtt?.as_secs_f64();
            let [direct, node] = [0, found.chosen?].map(|place| times.get(&place).map(|time| time / rtt));
            let (direct, looking) = (direct?, found.took[1].as_secs_f64() / rtt);
            // 2 rtt + 1/2 rttX + ts, where X of the eight hops are before the node.
            let stated = 2.0 + 0.5 * found.chosen? as f64 / HOPS + SERVICE / rtt;
            Some([direct, looking + node?, looking + direct, stated])
        };
        let all: Vec<[f64; 4]> = self.found.iter().filter_map(of).collect();
        let median = |at: usize| Some(Summary::of(all.iter().map(|own| own[at]))?.percentile(0.5));
        Some([median(0)?, median(1)?, median(2)?, median(3)?])
    }

    /// Means over the seeds of a case, of transfers of a size: directly, after looking, and where a client looks only if that can pay.
    fn mean_times(&self, case: &str, size: u64) -> Option<[f64; 3]> {
        let looks = is_worth_probing(Bytes(size), &facts(), Policy::default());
        let of = |((own, seed), found): (&(String, u64), &Found)| {
            let times = self.times.get(&(own.clone(), size, *seed)).filter(|_| own == case)?;
            let direct = *times.get(&0)?;
            let looked = found.took[1].as_secs_f64() + times.get(&found.chosen.unwrap_or(0))?;
            Some([direct, looked, if looks { looked } else { direct }])
        };
        let all: Vec<[f64; 3]> = self.found.iter().filter_map(of).collect();
        let mean = |at: usize| Summary::of(all.iter().map(|times| times[at])).map(|own| own.mean);
        Some([mean(0)?, mean(1)?, mean(2)?])
    }
}

/// In round trips, the median; not a number if nobody answered.
fn round_trips<'a>(found: impl Iterator<Item = &'a Found>, look: usize) -> f64 {
    let of = |found: &Found| Some(found.took[look].as_secs_f64() / found.rtt?.as_secs_f64());
    Summary::of(found.filter_map(of)).map_or(f64::NAN, |all| all.percentile(0.5))
}

/// What the paper states of discovery, beside ours.
pub(super) fn findings(records: &[RunRecord]) -> Vec<Finding> {
    judged(&Runs::of(records))
}

fn judged(runs: &Runs) -> Vec<Finding> {
    let mut found = Vec::new();
    for (case, words) in CASES {
        let (good, all) = runs.as_good(case, |found| found.chosen, |found| found.offered.clone());
        let (of_heard, _) = runs.as_good(case, |found| found.chosen, |found| found.heard.clone());
        let is_most = |good: usize| all > 0 && good as f64 >= 0.9 * all as f64;
        found.push(
            Finding::judged(
                format!("§4, {words}: the node that is chosen is as good as the best of those on offer"),
                "higher the rank, better the suitability",
                format!("{good} of {all}"),
                is_most(good),
            )
            .because("of 1 to 7 nodes, drawn for each seed; within 3 % of the best, by the mean times of 1 MB")
            .explained(
                format!("answers that are lost: it is as good as the best of those whose answers came in {of_heard} of {all}"),
                is_most(of_heard),
            ),
        );
    }
    let except = |found: &Found| -> Vec<usize> {
        found.offered.iter().copied().filter(|place| Some(*place) != found.chosen).collect()
    };
    let (good, all) = runs.as_good("quiet", |found| found.otherwise, except);
    found.push(Finding::judged(
        "§4: with that node overloaded, the one that is chosen is as good as the best of the others",
        "an overloaded node keeps silent",
        format!("{good} of {all}"),
        all > 0
            && good as f64 >= 0.9 * all as f64
            && runs.looks("quiet").all(|own| own.otherwise.is_none() || own.otherwise != own.chosen),
    ));
    let known = round_trips(runs.looks("quiet"), 1);
    found.push(
        Finding::number("§4: looking takes, in round trips to the destination", "1", known, Unit::None)
            .within(0.1, 1.0)
            .because(format!(
                "and a sixteenth for answers that were overtaken; at first contact, with a challenge, {:.2}",
                round_trips(runs.looks("quiet"), 0)
            )),
    );
    let lossy: Vec<&Found> = runs.looks("lossy").collect();
    let answered = lossy.iter().filter(|own| own.rtt.is_some()).count();
    let again = lossy.iter().filter(|own| own.tries > 1).count();
    found.push(Finding::judged(
        "§4, 1 % of loss on each link: looks to which the destination answered in three attempts",
        "the probe is sent again, and what was collected is discarded",
        format!("{answered} of {}, {again} of them after sending again", lossy.len()),
        answered == lossy.len() && again > 0 && lossy.iter().all(|own| !own.is_unfounded),
    ));
    found.extend(set_up(runs));
    found.extend(sizes(runs));
    found
}

/// "Setup time comparison with direct TCP" (§4).
fn set_up(runs: &Runs) -> Vec<Finding> {
    let Some([direct, node, looked, formula]) = runs.set_ups() else { return Vec::new() };
    let stated = |formula: &str, value: f64| format!("{formula} = {value:.2}");
    let of = |what: &str, words: String, expected: f64, value: f64| {
        Finding::number(format!("§4: set-up in round trips, {what}"), words, value, Unit::None)
            .within(0.1, expected)
            .model(format!("{expected:.2}: the paper's own formula"))
    };
    // What a node leaves of the set-up of a connection, which both have without looking.
    let by_node = node - (looked - direct);
    vec![
        of("directly", stated("3/2", 1.5), 1.5, direct),
        of("looked first, then directly", stated("5/2", 2.5), 2.5, looked),
        of("looked first, then by the chosen node", stated("2 + 1/2 rttX + ts", formula), formula, node).explained(
            format!(
                "our node calls on only when the first connection is established: without looking, set-up by it takes {by_node:.2} round trips and directly {direct:.2}; the paper's node calls on when the request arrives"
            ),
            (by_node / direct - 1.0).abs() < 0.02,
        ),
    ]
}

/// "Use of PTS for short sessions … is not justified" if nodes are looked for first (§4).
fn sizes(runs: &Runs) -> Vec<Finding> {
    let means: Vec<(u64, [f64; 3])> =
        runs.sizes().into_iter().filter_map(|size| Some((size, runs.mean_times("quiet", size)?))).collect();
    let pays = means.iter().find(|(_, [direct, looked, _])| looked < direct).map(|(size, _)| *size);
    let (Some((_, shortest)), Some((_, longest))) = (means.first(), means.last()) else { return Vec::new() };
    let size = |size: Option<u64>| size.map_or("no size".to_owned(), |size| Bytes(size).to_string());
    // Where it does not look it goes direct, and takes as long: that says nothing.
    let looks = |size: u64| is_worth_probing(Bytes(size), &facts(), Policy::default());
    let asked = runs.sizes().into_iter().filter(|size| looks(*size));
    let all = asked.flat_map(|size| CASES.map(|(case, _)| (size, case)));
    let ratios: Vec<f64> = all
        .filter_map(|(size, case)| runs.mean_times(case, size))
        .map(|[direct, _, rule]| rule / direct)
        .collect();
    let costs = ratios.iter().copied().fold(f64::NAN, f64::max);
    vec![
        Finding::judged(
            "§4: the size from which looking and then going by a node is faster than direct",
            "not justified for short sessions",
            size(pays),
            shortest[1] > shortest[0] && longest[1] < longest[0],
        )
        .because(format!(
            "the shortest takes {:.2} times as long, the longest {:.2} times",
            shortest[1] / shortest[0],
            longest[1] / longest[0]
        )),
        Finding::number(
            "§4: a client that looks only where that can pay takes, where it looks, of the time of direct, at most",
            "never worse is asked",
            costs,
            Unit::Times,
        )
        .at_most(1.0)
        .and(longest[2] < 0.9 * longest[0])
        .because(format!(
            "{} of sizes and cases in which it looks; {:.2} for the longest",
            ratios.len(),
            longest[2] / longest[0]
        )),
    ]
}

/// How long transfers take against their size: directly, after looking, and looking only where it can pay.
pub(super) fn figure(records: &[RunRecord]) -> Figure {
    let runs = Runs::of(records);
    let mut figure = Figure::new("Discovery: time from the wish until the last byte, of that of going direct")
        .caption("Relays offer themselves at one to seven of the hops, drawn for each seed; the one that is chosen by the paper's rank is used.")
        .columns(1);
    for (case, title) in CASES {
        let mut panel = Panel::new(title)
            .x(Axis::new("size", Unit::Bytes).logarithmic())
            .y(Axis::new("of the time of direct", Unit::Times).from(0.0))
            .reference("direct", 1.0);
        let lines = [
            ("looks, and goes by the node that it chose", Hue::Blue, Dash::Solid, 1),
            ("looks only where that can pay", Hue::Green, Dash::Dashed, 2),
        ];
        for (label, hue, dash, at) in lines {
            let points = runs.sizes().into_iter().filter_map(|size| {
                let means = runs.mean_times(case, size)?;
                Some(Point::new(size as f64, means[at] / means[0]))
            });
            panel = panel.series(Series::new(label, Mark::LineAndDots, hue).dash(dash).points(points));
        }
        figure = figure.panel(panel);
    }
    figure
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quiet() -> Scenario {
        scenario("quiet").unwrap()
    }

    #[test]
    fn the_node_in_the_middle_is_found_and_chosen_in_a_round_trip() {
        let mut world = World::new(&quiet(), 1, &[2, 4, 7], &[]).unwrap();
        let first = world.look(Seed(1), None);
        let second = world.look(Seed(2), first.findings.cookie);
        let hops: Vec<_> = second.findings.relays.iter().map(|found| found.hops).collect();
        assert_eq!(hops, [Some(2), Some(4), Some(7)]);
        assert_eq!(choose(&world, &second.findings), Some(4));
        let rtt = second.findings.rtt.unwrap();
        assert!(rtt >= Duration::from_millis(80) && rtt < Duration::from_millis(84), "{rtt:?}");
        assert!(second.took >= rtt && second.took < rtt * 9 / 8, "{:?}", second.took);
        assert!(first.took >= 2 * rtt, "the first contact is challenged: {:?}", first.took);
    }

    #[test]
    fn an_overloaded_node_is_not_found() {
        let mut world = World::new(&quiet(), 1, &[4, 6], &[4]).unwrap();
        let cookie = world.look(Seed(1), None).findings.cookie;
        let found = world.look(Seed(2), cookie).findings;
        assert_eq!(found.relays.len(), 1);
        assert_eq!(choose(&world, &found), Some(6));
    }

    #[test]
    fn others_make_the_way_longer() {
        let crossed = scenario("crossed").unwrap();
        let longest = |scenario: &Scenario| {
            let mut world = World::new(scenario, 3, &[4], &[]).unwrap();
            world.run_until(Time::ZERO + BEFORE);
            (0..20).map(|n| world.look(Seed(n), None).findings.rtt.unwrap()).max().unwrap()
        };
        assert!(longest(&crossed) > longest(&quiet()), "nobody waits behind them");
    }

    #[test]
    fn findings_can_fail() {
        use crate::testing::{Having, holds, run};
        // Transfers whose times are those of the place's longer part, or for which the place does not matter.
        let records = |time: &dyn Fn(usize) -> f64| -> Vec<RunRecord> {
            let record = |(size, place): (&str, usize)| {
                let list = if place == 0 { "[]".to_owned() } else { format!("[{place}]") };
                run(Some("quiet"), &[("flows.ftp.bulk", size), ("chains.0.relays", &list)])
                    .metric(Metric::Completion, time(place) * size.parse::<Bytes>().unwrap().0 as f64 / 1e6)
            };
            let sizes = ["\"3 kB\"", "\"1 MB\""].map(|size| size.trim_matches('"'));
            sizes
                .into_iter()
                .flat_map(|size| (0..=PLACES).map(move |place| (size, place)))
                .map(record)
                .collect()
        };
        let longer = |place: usize| if place == 0 { 8.0 } else { place.max(8 - place) as f64 };
        let good = findings(&records(&longer));
        for what in [
            "nobody else: the node that is chosen",
            "looking takes",
            "the size from which",
            "looks only where",
        ] {
            assert!(holds(&good, what), "{what}: {good:?}");
        }
        let bad = findings(&records(&|place| 10.0 - longer(place)));
        for what in ["nobody else: the node that is chosen", "the size from which"] {
            assert!(!holds(&bad, what), "{what}: {bad:?}");
        }
        assert!(!holds(&findings(&[]), "looking takes"));
    }

    /// A look that took a round trip of 80 ms, and found nodes after two and four hops.
    fn looked() -> Found {
        Found {
            offered: vec![2, 4],
            heard: vec![2, 4],
            chosen: Some(4),
            otherwise: Some(2),
            took: [Duration::from_millis(160), Duration::from_millis(80)],
            rtt: Some(Duration::from_millis(80)),
            tries: 1,
            is_unfounded: false,
        }
    }

    /// Runs of a case, of which all looks came to the same.
    fn of_looks(case: &str, looks: Vec<Found>, times: &[(usize, f64)]) -> Runs {
        let found = (1..).zip(looks).map(|(seed, found)| ((case.to_owned(), seed), found)).collect();
        let all: BTreeMap<usize, f64> = times.iter().copied().collect();
        Runs {
            found,
            times: [((case.to_owned(), 1_000_000, 1), all.clone())].into(),
            set_ups: [(1, all)].into(),
        }
    }

    #[test]
    fn an_overloaded_node_that_is_chosen_all_the_same_fails() {
        use crate::testing::holds;
        let of = |otherwise| {
            let found = Found { otherwise, ..looked() };
            judged(&of_looks("quiet", vec![found], &[(0, 2.0), (2, 1.5), (4, 1.0)]))
        };
        assert!(holds(&of(Some(2)), "overloaded"));
        assert!(!holds(&of(Some(4)), "overloaded"), "it does not keep silent");
        assert!(!holds(&of(None), "overloaded"), "direct is slower than the other node");
    }

    #[test]
    fn a_look_that_believes_nodes_without_the_destination_fails() {
        use crate::testing::holds;
        let of = |looks| judged(&of_looks("lossy", looks, &[(0, 2.0), (2, 1.5), (4, 1.0)]));
        let again = || Found { tries: 2, ..looked() };
        assert!(holds(&of(vec![looked(), again()]), "in three attempts"));
        assert!(!holds(&of(vec![looked()]), "in three attempts"), "nothing was sent again");
        let silent = Found { rtt: None, ..again() };
        assert!(!holds(&of(vec![again(), silent]), "in three attempts"), "one was not answered");
        let unfounded = Found { is_unfounded: true, ..again() };
        assert!(!holds(&of(vec![unfounded]), "in three attempts"), "what was collected was not discarded");
    }

    #[test]
    fn set_up_is_compared_with_the_papers_formulas() {
        use crate::testing::holds;
        use shorthaul_observe::Verdict;
        let of = |direct: f64, node: f64| {
            set_up(&of_looks("quiet", vec![looked()], &[(0, 0.08 * direct), (2, 1.0), (4, 0.08 * node)]))
        };
        let good = of(1.5, 1.25);
        for what in ["in round trips, directly", "then directly", "chosen node"] {
            assert!(holds(&good, what), "{what}: {good:?}");
        }
        let late = of(1.5, 1.5);
        assert!(late[2].verdict == Verdict::Differs && late[2].cause.is_some(), "{late:?}");
        let other = of(2.0, 1.7);
        assert!(!holds(&other, "in round trips, directly") && !holds(&other, "then directly"));
        assert_eq!(other[2].cause, None, "it is neither the paper's nor that of a connection");
        assert!(set_up(&of_looks("lossy", vec![looked()], &[(0, 0.1)])).is_empty());
    }
}
