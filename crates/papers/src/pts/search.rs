//! The search for settings with Figure 7's curve: one and two nodes about equal, and each further one less.
use super::value;
use shorthaul_observe::{Finding, RunRecord};
use shorthaul_report::{Column, Table, Unit};
use shorthaul_scenario::Metric;
use std::collections::BTreeMap;

/// How a place that equal spacing gives becomes a whole hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rounding {
    Nearest,
    Down,
}

/// The throughputs of a setting, in bit/s, by the number of nodes from none on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Curve {
    /// The case of the scenario.
    pub setting: String,
    pub rounding: Rounding,
    pub goodputs: Vec<f64>,
}

/// How far two nodes may be from one and be about equal to it.
const ABOUT_EQUAL: f64 = 0.1;

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
        let rounded = if curve.rounding == Rounding::Nearest { "to the nearest" } else { "down" };
        let judged = if curve.is_the_papers() { "yes" } else { "no" };
        table.row([curve.setting, rounded.to_owned(), goodputs.join(", "), judged.to_owned()]);
    }
    table
}

/// Whether nodes of a setting drop what does not fit their buffers: its name says so, or it is near the one that does.
fn has(curves: &[Curve], setting: &str) -> Option<bool> {
    let own: Vec<_> = curves.iter().filter(|curve| curve.setting == setting).collect();
    (!own.is_empty()).then(|| own.iter().any(|curve| curve.is_the_papers()))
}

/// The setting around which the search goes on, and the same with nodes whose windows close, or that serve 100 µs.
const FOUND: &str = "near-base";
const CLOSING: &str = "near-close";
const QUICK: &str = "near-ts100";
const LARGE: &str = "near-c1024";

pub(super) fn findings(records: &[RunRecord]) -> Vec<Finding> {
    let curves = curves(records);
    let settings = curves.iter().filter(|curve| curve.rounding == Rounding::Nearest).count();
    let like: Vec<&Curve> = curves.iter().filter(|curve| curve.is_the_papers()).collect();
    let mut names: Vec<&str> = like.iter().map(|curve| curve.setting.as_str()).collect();
    names.dedup();
    let deepest = like.iter().min_by(|a, b| a.left().total_cmp(&b.left()));
    let without = |setting: &str, what: &str| match has(&curves, setting) {
        Some(false) => Some(format!("not {what} (`{setting}`)")),
        _ => None,
    };
    let needs = [
        without(CLOSING, "where windows close instead"),
        without(QUICK, "with 100 µs"),
        without(LARGE, "with buffers of 1024 packets"),
    ];
    let needs = needs.into_iter().flatten().collect::<Vec<_>>().join(", ");
    vec![
        Finding::judged(
            "Fig. 7, settings in which two nodes are about equal to one and each further one is less, of those searched",
            "the curve of the figure",
            format!("{} of {settings}", names.len()),
            !names.is_empty(),
        )
        .because(match deepest {
            Some(curve) => format!(
                "nodes that drop what their buffers have no room for; the most nodes leave {} of what two have (`{}`){}{needs}",
                Unit::Percent.format(curve.left()),
                curve.setting,
                if needs.is_empty() { "" } else { "; around `near-base`, " },
            ),
            None => String::new(),
        })
        .and(has(&curves, FOUND).is_some()),
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

    #[test]
    fn a_search_without_the_curve_differs() {
        let fall = [1.0, 2.0, 2.1, 1.9, 1.5];
        let rise = [1.0, 2.0, 2.1, 2.2, 2.5];
        let both = [setting(FOUND, &fall), setting(CLOSING, &rise)].concat();
        let found = findings(&both);
        assert!(holds(&found, "Fig. 7") && found[0].ours == "1 of 2", "{found:#?}");
        assert!(
            found[0].reason.contains("71.4 %") && found[0].reason.contains("where windows close"),
            "{found:#?}"
        );
        assert!(!holds(&findings(&setting(FOUND, &rise)), "Fig. 7"));
    }
}
