//! The search for settings with Figure 7's curve: one and two nodes about equal, and each further one less.
use super::{ABOUT_EQUAL, value};
use crate::error::Result;
use crate::experiment::{all_sound, records_of};
use shorthaul_observe::{Finding, Run, RunRecord, Store, Summary, runs_of};
use shorthaul_report::{Column, Console, Table, Unit};
use shorthaul_scenario::{Metric, Study};
use shorthaul_sim::Simulator;
use std::collections::BTreeMap;

/// The scenario of the search.
pub(super) const TEXT: &str = include_str!("../../../../papers/pts/fig7-search.toml");

/// How a place that equal spacing gives becomes a whole hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rounding {
    Nearest,
    Down,
}

impl Rounding {
    fn name(self) -> &'static str {
        match self {
            Rounding::Nearest => "to the nearest",
            Rounding::Down => "down",
        }
    }
}

/// The throughputs of a setting, in bit/s, by the number of nodes from none on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Curve {
    /// The case of the scenario.
    pub setting: String,
    pub rounding: Rounding,
    pub goodputs: Vec<f64>,
}

impl Curve {
    /// One node gains, two are about equal to one, and each further one is less than the one before.
    pub fn is_the_papers(&self) -> bool {
        let [none, one, two, more @ ..] = self.goodputs.as_slice() else { return false };
        let falls = more.len() >= 2 && self.goodputs[2..].windows(2).all(|pair| pair[1] < pair[0]);
        one > none && (two / one - 1.0).abs() <= ABOUT_EQUAL && falls
    }

    /// What the most nodes leave of the throughput with two.
    pub fn left(&self) -> f64 {
        self.goodputs.last().zip(self.goodputs.get(2)).map_or(f64::NAN, |(last, two)| last / two)
    }
}

/// Where nodes stand on fourteen hops, equally spaced.
fn places(nodes: usize, rounding: Rounding) -> Vec<u32> {
    let place = |node: usize| {
        let exact = 14.0 * node as f64 / (nodes + 1) as f64;
        match rounding {
            Rounding::Nearest => exact.round() as u32,
            Rounding::Down => exact.floor() as u32,
        }
    };
    (1..=nodes).map(place).collect()
}

fn written(list: &str) -> Vec<u32> {
    list.trim_matches(['[', ']']).split(',').filter_map(|place| place.trim().parse().ok()).collect()
}

/// The curves of a search, by setting, as far as runs go on without a gap.
pub(super) fn curves(records: &[RunRecord]) -> Vec<Curve> {
    let mut settings: BTreeMap<&str, Vec<(Vec<u32>, f64)>> = BTreeMap::new();
    for record in records {
        let goodput = record.outcome.as_ref().and_then(|outcome| outcome.metrics.get(&Metric::Goodput));
        if let (Some(setting), Some(goodput)) = (record.case.as_deref(), goodput) {
            settings.entry(setting).or_default().push((written(value(record)), *goodput));
        }
    }
    let mut found = Vec::new();
    for (setting, runs) in settings {
        for rounding in [Rounding::Nearest, Rounding::Down] {
            let at = |nodes| {
                let meant = places(nodes, rounding);
                let own: Vec<f64> =
                    runs.iter().filter(|(places, _)| *places == meant).map(|(_, goodput)| *goodput).collect();
                (!own.is_empty()).then(|| own.iter().sum::<f64>() / own.len() as f64)
            };
            let goodputs = (0..14).map_while(at).collect();
            found.push(Curve { setting: setting.to_owned(), rounding, goodputs });
        }
    }
    found
}

/// The search as a table: a row for each setting.
pub(super) fn table(records: &[RunRecord]) -> Table {
    let mut table = Table::new([
        Column::left("setting"),
        Column::left("places rounded"),
        Column::left("none, 1, 2, … nodes").unit("Mbit/s"),
        Column::left("as the paper"),
    ]);
    for curve in curves(records) {
        let goodputs: Vec<String> =
            curve.goodputs.iter().map(|goodput| format!("{:.2}", goodput / 1e6)).collect();
        let rounded = curve.rounding.name();
        let judged = if curve.is_the_papers() { "yes" } else { "no" };
        table.row([curve.setting, rounded.to_owned(), goodputs.join(", "), judged.to_owned()]);
    }
    table
}

/// Whether a setting has the curve, by either rounding.
fn has(curves: &[Curve], setting: &str) -> Option<bool> {
    let own: Vec<_> = curves.iter().filter(|curve| curve.setting == setting).collect();
    (!own.is_empty()).then(|| own.iter().any(|curve| curve.is_the_papers()))
}

/// The setting around which the search goes on, and the same with nodes whose windows close, or that serve 100 µs.
const FOUND: &str = "near-base";
const CLOSING: &str = "near-close";
const QUICK: &str = "near-ts100";
const LARGE: &str = "near-c1024";

/// Whether a setting has what the text states elsewhere: 5 or 10 ms a hop, 100 µs and 1024 packets. What is free then is what it does not state: windows,
/// queues, and what a full buffer does.
fn is_of_the_text(setting: &str) -> bool {
    !setting.starts_with("near-") && !setting.contains("-ts")
}

/// The first of the seeds with which what was found is run again, and how many: none of them is one of the search's.
pub(super) const FRESH: u64 = 1001;
pub(super) const AGAIN: u32 = 20;
/// What all confirmations together may do wrong by chance.
const CHANCE: f64 = 0.05;

/// How a service time is written that is the text's, and none at all.
const SERVED: &str = "service_time = \"exponential 100 us\"";
const UNSERVED: &str = "service_time = \"0 us\"";
/// How the cases end that are run without service times.
const WITHOUT: &str = "-unserved";

/// The runs of the search, those of the fresh seeds, and those without service times.
fn apart(records: &[RunRecord]) -> [Vec<RunRecord>; 3] {
    let is_unserved = |record: &RunRecord| record.case.as_deref().is_some_and(|case| case.ends_with(WITHOUT));
    let (unserved, served): (Vec<_>, Vec<_>) = records.iter().cloned().partition(is_unserved);
    let (fresh, search) = served.into_iter().partition(|record| record.seed >= FRESH);
    [search, fresh, unserved]
}

/// What was found is run again with other seeds, and the settings of the text without service times.
pub(super) fn more(
    study: &Study,
    records: &[RunRecord],
    store: &Store,
    console: &dyn Console,
) -> Result<Vec<RunRecord>> {
    let again = found(records);
    console.say(&format!("Again with {AGAIN} other seeds: {}", again.join(", ")));
    let fresh = study.clone().with_seeds(FRESH, AGAIN);
    let mut all = cases_of(&fresh, &|case| again.iter().any(|own| own == case), store, console)?;
    console.say("The settings of the text whose windows close, without service times:");
    let unserved = Study::from_toml("fig7-unserved.toml", &TEXT.replace(SERVED, UNSERVED))?;
    let first = study.seeds().next().unwrap_or(1);
    let unserved = unserved.with_seeds(first, u32::try_from(study.seeds().count()).unwrap_or(u32::MAX));
    // Without service times a node's buffer of 1024 packets never fills: what it does when it is full makes no difference.
    let is_meant = |case: &str| is_of_the_text(case) && !case.ends_with("-drop");
    for mut record in cases_of(&unserved, &is_meant, store, console)? {
        record.case = record.case.map(|case| case + WITHOUT);
        all.push(record);
    }
    Ok(all)
}

/// The runs of those cases of a study.
fn cases_of(
    study: &Study,
    is_meant: &dyn Fn(&str) -> bool,
    store: &Store,
    console: &dyn Console,
) -> Result<Vec<RunRecord>> {
    let points = study.points();
    let is_its = |run: &Run| points[run.point].case.as_deref().is_some_and(is_meant);
    let runs: Vec<Run> = runs_of(study).into_iter().filter(is_its).collect();
    all_sound(records_of(&Simulator::default(), study, &runs, Some(store), console)?)
}

/// What service times cost further nodes in a setting, as a share of what they have of two without, where they cost the most.
fn cost(served: &Curve, unserved: &Curve) -> Option<f64> {
    let of_two = |curve: &Curve| -> Option<Vec<f64>> {
        let two = *curve.goodputs.get(2)?;
        Some(curve.goodputs.get(3..)?.iter().map(|goodput| goodput / two).collect())
    };
    let (served, unserved) = (of_two(served)?, of_two(unserved)?);
    served.iter().zip(&unserved).map(|(with, without)| 1.0 - with / without).reduce(f64::max)
}

/// A cost below this is none.
const NOTHING: f64 = 0.05;

/// What service times cost in the median setting, and of how many.
fn costs(of_the_text: &[&Vec<Curve>], unserved: &[RunRecord]) -> Option<(f64, usize)> {
    let unserved = curves(unserved);
    let of = |served: &Curve| {
        let name = format!("{}{WITHOUT}", served.setting);
        cost(served, unserved.iter().find(|own| own.setting == name && own.rounding == served.rounding)?)
    };
    let all: Vec<f64> = of_the_text.iter().flat_map(|own| own.iter().filter_map(of)).collect();
    Some((Summary::of(all.iter().copied())?.percentile(0.5), all.len()))
}

/// The settings, of which those that came to the same throughputs are one: what tells them apart does nothing there. By its first name, each has
/// a curve for each rounding.
fn distinct(curves: Vec<Curve>) -> Vec<Vec<Curve>> {
    let mut found: Vec<Vec<Curve>> = Vec::new();
    for pair in curves.chunk_by(|a, b| a.setting == b.setting) {
        let same = |own: &Vec<Curve>| {
            own.len() == pair.len() && own.iter().zip(pair).all(|(own, other)| own.goodputs == other.goodputs)
        };
        if !found.iter().any(same) {
            found.push(pair.to_vec());
        }
    }
    found
}

/// What was found with the seeds of the search: it is run again with others.
pub(super) fn found(records: &[RunRecord]) -> Vec<String> {
    let [search, ..] = apart(records);
    let has_it = |own: &Vec<Curve>| own.iter().any(Curve::is_the_papers);
    distinct(curves(&search)).into_iter().filter(has_it).map(|own| own[0].setting.clone()).collect()
}

/// What a setting does not have again, by the same rounding; nothing where the curve is confirmed. Asked is the curve on average over the fresh
/// seeds, and each step of it beyond chance: one node is more than none, and each beyond two less than one fewer, by a sign test over the seeds, at
/// `chance`. All steps are asked, so that only how many settings are asked has to be allowed for.
fn not_again(fresh: &[RunRecord], found: &Curve, chance: f64) -> Vec<String> {
    let nodes = found.goodputs.len();
    // As far as the curve goes that is looked for.
    let own = |records: &[RunRecord]| {
        let is_meant = |curve: &Curve| curve.setting == found.setting && curve.rounding == found.rounding;
        let mut own = curves(records).into_iter().find(is_meant)?;
        own.goodputs.truncate(nodes);
        Some(own)
    };
    let of_seed = |seed: u64| {
        let records: Vec<_> = fresh.iter().filter(|record| record.seed == seed).cloned().collect();
        own(&records).filter(|curve| curve.goodputs.len() == nodes)
    };
    let by_seed: Vec<Curve> = (FRESH..FRESH + u64::from(AGAIN)).filter_map(of_seed).collect();
    if by_seed.len() < AGAIN as usize {
        return vec!["it was not run again".to_owned()];
    }
    let is_chance = |less: usize, more: usize| {
        let times = by_seed.iter().filter(|curve| curve.goodputs[less] < curve.goodputs[more]).count();
        by_chance(times, by_seed.len()) > chance
    };
    let steps = [(0, 1)].into_iter().chain((3..nodes).map(|node| (node, node - 1)));
    let mut missing: Vec<String> = steps
        .filter(|(less, more)| is_chance(*less, *more))
        .map(|(less, more)| format!("{less} nodes are not less than {more} beyond chance"))
        .collect();
    if missing.is_empty() && !own(fresh).is_some_and(|curve| curve.is_the_papers()) {
        missing.push("the mean has another curve".to_owned());
    }
    missing
}

/// How likely so many heads or more are of so many throws.
fn by_chance(heads: usize, throws: usize) -> f64 {
    let mut ways = 1.0;
    let mut sum = 0.0;
    for count in 0..=throws {
        if count >= heads {
            sum += ways;
        }
        ways *= (throws - count) as f64 / (count + 1) as f64;
    }
    sum / 2f64.powi(throws as i32)
}

/// How many of the curves would fall with each further node if the order of their throughputs were chance.
fn falling_by_chance(curves: &[Curve]) -> f64 {
    let orders =
        |curve: &Curve| (1..curve.goodputs.len().saturating_sub(1)).map(|n| n as f64).product::<f64>();
    curves.iter().filter(|curve| curve.goodputs.len() > 4).map(|curve| 1.0 / orders(curve)).sum()
}

pub(super) fn findings(records: &[RunRecord]) -> Vec<Finding> {
    let [search, fresh, unserved] = apart(records);
    let all = curves(&search);
    let settings = distinct(all.clone());
    let [of_the_text, beyond]: [Vec<&Vec<Curve>>; 2] = [true, false]
        .map(|text| settings.iter().filter(|own| is_of_the_text(&own[0].setting) == text).collect());
    let has_it = |own: &&&Vec<Curve>| own.iter().any(Curve::is_the_papers);
    let [in_text, outside] = [&of_the_text, &beyond].map(|own| own.iter().filter(has_it).count());
    // Each rounding of each that was found is a question of its own.
    let like: Vec<&Curve> = settings.iter().flatten().filter(|curve| curve.is_the_papers()).collect();
    let chance = CHANCE / like.len().max(1) as f64;
    let again: Vec<(&Curve, Vec<String>)> =
        like.into_iter().map(|curve| (curve, not_again(&fresh, curve, chance))).collect();
    let confirmed: Vec<&Curve> =
        again.iter().filter(|(_, missing)| missing.is_empty()).map(|(curve, _)| *curve).collect();
    let missing: Vec<String> = again
        .iter()
        .filter(|(_, missing)| !missing.is_empty())
        .map(|(curve, missing)| {
            format!("`{}`, places rounded {}: {}", curve.setting, curve.rounding.name(), missing.join(", "))
        })
        .collect();
    // What has the curve again but for its last step.
    let but_the_last: Vec<Curve> = again
        .iter()
        .filter(|(curve, missing)| !missing.is_empty() && curve.goodputs.len() > 5)
        .map(|(curve, _)| Curve {
            goodputs: curve.goodputs[..curve.goodputs.len() - 1].to_vec(),
            ..(*curve).clone()
        })
        .filter(|curve| not_again(&fresh, curve, chance).is_empty())
        .collect();
    let mut names: Vec<&str> = confirmed.iter().map(|curve| curve.setting.as_str()).collect();
    names.dedup();
    let outside_again = names.iter().filter(|name| !is_of_the_text(name)).count();
    let listed = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let deepest = confirmed.iter().min_by(|a, b| a.left().total_cmp(&b.left()));
    let without = |setting: &str, what: &str| match has(&all, setting) {
        Some(false) => Some(format!("not {what} (`{setting}`)")),
        _ => None,
    };
    let needs = [
        without(CLOSING, "where windows close instead"),
        without(QUICK, "with 100 µs"),
        without(LARGE, "with buffers of 1024 packets"),
    ];
    let needs = needs.into_iter().flatten().collect::<Vec<_>>().join(", ");
    let service = costs(&of_the_text, &unserved);
    let expected = format!(
        "of {} curves {:.1} would fall with each further node by chance",
        settings.iter().map(Vec::len).sum::<usize>(),
        falling_by_chance(&settings.concat())
    );
    vec![
        Finding::judged(
            "Fig. 7, settings in which two nodes are about equal to one and each further one is less, of those with the text's delay, service time and buffer",
            "the curve of the figure (most are asked)",
            format!("{in_text} of {}", of_the_text.len()),
            2 * in_text > of_the_text.len(),
        )
        .because("windows, queues and what a full buffer does are free; settings with the same throughputs are one")
        .explained(
            format!("another service time and buffer, which the text does not state of this figure: {listed} {} the curve, with {AGAIN} other seeds, too (sweep `fig7-search`)", if names.len() == 1 { "has" } else { "have" }),
            outside_again > 0,
        )
        .explained(
            format!(
                "service times of 100 µs are too short to add up, as the text has it: in the median of {} curves they cost further nodes {} where they cost the most, beside the same settings without any",
                service.map_or(0, |(_, count)| count),
                Unit::Percent.format(service.map_or(f64::NAN, |(median, _)| median.max(0.0))),
            ),
            service.is_some_and(|(median, _)| median < NOTHING),
        ),
        Finding::judged(
            format!("Fig. 7, the same of those with others, found with one seed and again with {AGAIN} others"),
            "the curve of the figure (one that is found again is asked)",
            format!("{outside_again} of {outside} found among {}", beyond.len()),
            outside_again > 0,
        )
        .because(match deepest {
            Some(curve) => format!(
                "{listed}: nodes that drop what their buffers have no room for; the most nodes leave {} of what two have (`{}`){}{needs}; {expected}, so what is found has to be found again, each step by a sign test at 5 % for all together",
                Unit::Percent.format(curve.left()),
                curve.setting,
                if needs.is_empty() { "" } else { "; around `near-base`, " },
            ),
            None if missing.is_empty() => expected,
            None => format!("{}; {expected}", missing.join("; ")),
        })
        .and(has(&all, FOUND).is_some())
        .explained(
            format!(
                "the last step: {}, with {AGAIN} other seeds, too, each step beyond chance; how many nodes the figure has is not in the text",
                but_the_last
                    .iter()
                    .map(|curve| {
                        let (nodes, rounded) = (curve.goodputs.len() - 1, curve.rounding.name());
                        format!("`{}`, places rounded {rounded}, has the curve up to {nodes} nodes", curve.setting)
                    })
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
            !but_the_last.is_empty(),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Having, holds, run};

    fn setting(name: &str, goodputs: &[f64]) -> Vec<RunRecord> {
        let lists = ["[]", "[7]", "[5, 9]", "[4, 7, 11]", "[3, 6, 8, 11]"];
        let of = |(list, goodput): (&&str, &f64)| {
            run(Some(name), &[("chains.0.relays", list)]).metric(Metric::Goodput, *goodput)
        };
        lists.iter().zip(goodputs).map(of).collect()
    }

    #[test]
    fn the_papers_curve_is_told_from_others() {
        let is = |goodputs: &[f64]| curves(&setting("x", goodputs))[0].is_the_papers();
        assert!(is(&[1.0, 2.0, 2.1, 1.9, 1.5]));
        for other in [
            [1.0, 2.0, 2.4, 1.9, 1.5], // two are more than one
            [1.0, 2.0, 2.0, 1.8, 1.9], // falls, then rises
            [3.0, 2.0, 2.0, 1.8, 1.5], // nodes lose
            [1.0, 2.0, 2.0, 2.0, 1.5], // equal is not less
        ] {
            assert!(!is(&other), "{other:?}");
        }
        assert!(!is(&[1.0, 2.0, 2.0]), "nothing further");
    }

    #[test]
    fn places_are_those_of_the_scenario_by_either_rounding() {
        assert_eq!(places(2, Rounding::Nearest), [5, 9]);
        assert_eq!(places(2, Rounding::Down), [4, 9]);
        let mut records = setting("x", &[1.0, 2.0, 2.1]);
        records.push(run(Some("x"), &[("chains.0.relays", "[4, 9]")]).metric(Metric::Goodput, 7.0));
        let [nearest, down] = &curves(&records)[..] else { panic!("two curves") };
        assert_eq!((nearest.goodputs.last(), down.goodputs.last()), (Some(&2.1), Some(&7.0)));
    }

    const FALL: [f64; 5] = [1.0, 2.0, 2.1, 1.9, 1.5];
    const RISE: [f64; 5] = [1.0, 2.0, 2.1, 2.2, 2.5];

    /// The same with the fresh seeds, of which so many have this curve, and the others one that rises.
    fn with_fresh(name: &str, curve: &[f64], so_many: u64) -> Vec<RunRecord> {
        let of = |nth: u64| {
            let goodputs = if nth < so_many { curve } else { &RISE };
            setting(name, goodputs).into_iter().map(move |record| RunRecord { seed: FRESH + nth, ..record })
        };
        (0..u64::from(AGAIN)).flat_map(of).collect()
    }

    #[test]
    fn a_search_without_the_curve_differs() {
        let both = [setting(FOUND, &FALL), setting(CLOSING, &RISE), with_fresh(FOUND, &FALL, 20)].concat();
        let found = findings(&both);
        assert!(holds(&found, "with others") && found[1].ours == "1 of 1 found among 2", "{found:#?}");
        assert!(
            found[1].reason.contains("71.4 %") && found[1].reason.contains("where windows close"),
            "{found:#?}"
        );
        assert!(!holds(&findings(&setting(FOUND, &RISE)), "with others"));
    }

    #[test]
    fn one_setting_of_many_is_not_the_papers_curve() {
        // With the text's own numbers it is asked of most, whatever is found elsewhere.
        let text = |falls: usize| {
            let of = |nth: usize| {
                let goodputs = if nth < falls { FALL } else { RISE };
                setting(&format!("w{nth}"), &goodputs.map(|goodput| goodput + nth as f64 / 1e3))
            };
            let found = [setting(FOUND, &FALL), with_fresh(FOUND, &FALL, 20)];
            findings(&(0..10).flat_map(of).chain(found.concat()).collect::<Vec<_>>())
        };
        assert!(!holds(&text(1), "the text's") && !holds(&text(5), "the text's"));
        assert!(holds(&text(6), "the text's"));
        assert!(
            text(0)[0].cause.as_ref().is_some_and(|cause| cause.contains("`near-base`")),
            "{:?}",
            text(0)
        );
    }

    #[test]
    fn what_is_found_has_to_be_found_again() {
        let again = |so_many| {
            findings(&[setting(FOUND, &FALL), with_fresh(FOUND, &FALL, so_many)].concat())[1].ours.clone()
        };
        assert_eq!(again(20), "1 of 1 found among 1");
        // Half of the seeds have it: the mean does not, and chance would do as much.
        assert_eq!(again(10), "0 of 1 found among 1");
        // The mean has it, by one seed that is far off.
        let one = setting(FOUND, &[1.0, 2.0, 2.1, 1.9, 1.5].map(|goodput| 100.0 * goodput));
        let one = one.into_iter().map(|record| RunRecord { seed: FRESH + 99, ..record });
        let records = [setting(FOUND, &FALL), with_fresh(FOUND, &FALL, 0), one.collect()].concat();
        assert_eq!(findings(&records)[1].ours, "0 of 1 found among 1");
        // Without fresh seeds nothing is confirmed.
        assert!(!holds(&findings(&setting(FOUND, &FALL)), "with others"));
        assert_eq!(found(&setting(FOUND, &FALL)), [FOUND]);
    }

    #[test]
    fn the_last_step_is_the_cause_only_where_all_others_are_there_again() {
        // One node more than the other tests have.
        let lists = ["[]", "[7]", "[5, 9]", "[4, 7, 11]", "[3, 6, 8, 11]", "[2, 5, 7, 9, 12]"];
        let with = |seed: u64, goodputs: [f64; 6]| -> Vec<RunRecord> {
            let of = |(list, goodput): (&&str, f64)| {
                let record = run(Some(FOUND), &[("chains.0.relays", list)]).metric(Metric::Goodput, goodput);
                RunRecord { seed, ..record }
            };
            lists.iter().zip(goodputs).map(of).collect()
        };
        let found = |again: [f64; 6]| {
            let mut records = with(1, [1.0, 2.0, 2.1, 1.9, 1.5, 1.4]);
            (0..u64::from(AGAIN)).for_each(|nth| records.extend(with(FRESH + nth, again)));
            findings(&records).remove(1)
        };
        let last = found([1.0, 2.0, 2.1, 1.9, 1.5, 1.6]);
        assert!(last.ours == "0 of 1 found among 1", "{last:?}");
        assert!(last.cause.is_some_and(|cause| cause.contains("up to 4 nodes")));
        assert_eq!(found([1.0, 2.0, 2.1, 2.2, 1.5, 1.6]).cause, None, "another step is missing, too");
        assert_eq!(found([1.0, 2.0, 2.1, 1.9, 1.5, 1.4]).cause, None, "it is all there");
    }

    #[test]
    fn service_times_are_the_cause_only_where_nothing_else_falls_without_them() {
        let cause = |without: &[f64]| {
            findings(&[setting("w20", &RISE), setting("w20-unserved", without)].concat())[0].cause.clone()
        };
        assert!(cause(&RISE).is_some_and(|cause| cause.contains("1 curves") && cause.contains("0 %")));
        assert_eq!(cause(&[1.0, 2.0, 2.1, 2.6, 3.5]), None, "they cost much");
        assert_eq!(findings(&setting("w20", &RISE))[0].cause, None, "that was not run");
        // Without service times a setting is none of the search's.
        assert_eq!(findings(&setting("w20-unserved", &FALL))[0].ours, "0 of 0");
    }

    #[test]
    fn the_settings_of_the_text_can_be_run_without_service_times() {
        let study = Study::from_toml("x.toml", &TEXT.replace(SERVED, UNSERVED)).unwrap();
        let own: Vec<_> =
            study.points().iter().filter(|point| point.case.as_deref().is_some_and(is_of_the_text)).collect();
        assert!(!own.is_empty());
        for point in own {
            assert!(study.scenario(point).is_ok());
        }
        assert_eq!(TEXT.matches(SERVED).count(), 1);
    }

    #[test]
    fn every_window_and_queue_is_tried_with_both_delays_and_both_ways_to_be_full() {
        let study = Study::from_toml("x.toml", TEXT).unwrap();
        let mut names: Vec<String> = study
            .points()
            .iter()
            .filter_map(|point| point.case.clone())
            .filter(|case| is_of_the_text(case))
            .collect();
        names.dedup();
        let is_plain = |name: &&String| name.starts_with('w') && !name.ends_with("-drop");
        let plain: Vec<&String> = names.iter().filter(is_plain).collect();
        assert_eq!((plain.len(), names.len()), (16, 64));
        for name in plain {
            for other in [format!("{name}-drop"), format!("ld5-{name}"), format!("ld5-{name}-drop")] {
                assert!(names.contains(&other), "{other}");
            }
        }
    }

    #[test]
    fn settings_with_the_same_throughputs_are_one() {
        let twins = [setting(FOUND, &FALL), setting("near-q20", &FALL), setting("near-w50", &RISE)].concat();
        let found = findings(&twins);
        assert_eq!(found[1].ours, "0 of 1 found among 2", "{found:#?}");
        assert_eq!(self::found(&twins), [FOUND]);
    }

    #[test]
    fn chance_is_that_of_throws() {
        assert!((by_chance(2, 2) - 0.25).abs() < 1e-12 && (by_chance(0, 9) - 1.0).abs() < 1e-12);
        // 190 + 20 + 1 of 2^20.
        assert!((by_chance(18, 20) - 211.0 / 1_048_576.0).abs() < 1e-12);
        // Two, three and four nodes have six orders, by either rounding of places that have both.
        assert!((falling_by_chance(&curves(&setting("x", &FALL))[..1]) - 1.0 / 6.0).abs() < 1e-12);
    }

    #[test]
    fn settings_of_the_text_change_none_of_its_numbers() {
        for case in TEXT.split("\n[cases.").skip(1) {
            let (name, changes) = case.split_once(']').unwrap();
            let changes = changes.split("\n[").next().unwrap();
            let is_other_delay =
                changes.contains("link.delay") && !changes.contains("link.delay\" = \"5 ms\"");
            let is_changed =
                is_other_delay || ["service_time", "relay.buffer"].iter().any(|key| changes.contains(key));
            assert_eq!(is_of_the_text(name), !is_changed, "{name}");
        }
    }
}
