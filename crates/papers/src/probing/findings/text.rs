//! What the text of §4 says in numbers: what probing saves of time and overhead, at high error rates and at small ones.
use super::super::chance::{Chance, DRAWS, Of, within};
use super::super::errors::{Otherwise, Tried};
use super::super::figures::Shows;
use super::super::measured::Tables;
use super::super::paper::{PROTOCOLS, PaperCell, RATES};
use super::agreement::is_nearer;
use super::{BASES, by_luck, list, percent};
use shorthaul_observe::{Finding, Summary};
use shorthaul_report::Unit;

pub(super) fn all(tables: &Tables, tried: &Tried, chance: &Chance) -> Vec<Finding> {
    let mut found: Vec<Finding> = SAVED.iter().map(|claim| saves(tables, chance, claim)).collect();
    found.push(beats_its_base(tables));
    found.extend(at_the_worst(tables, chance));
    found.extend(costs_little(tables, tried));
    found.push(saved_bytes(tables));
    found
}

/// What the text says that a protocol saves beside its base, in percent.
struct Saved {
    figure: u32,
    on: u32,
    shows: Shows,
    protocols: (usize, usize),
    /// Error rates with what is saved. Where the text has no list, what its tables have from 1 % on.
    at: &'static [(u32, f64)],
    /// How the text says it, where that is not the list.
    says: &'static str,
}

impl Saved {
    const fn list(
        figure: u32,
        on: u32,
        shows: Shows,
        protocols: (usize, usize),
        at: &'static [(u32, f64)],
    ) -> Saved {
        Saved { figure, on, shows, protocols, at, says: "" }
    }
}

const SAVED: [Saved; 8] = [
    Saved::list(2, 1, Shows::Time, (1, 0), &[(1, 2.0), (20, 3.0), (33, 9.0), (50, 24.0), (99, 18.0)]),
    Saved::list(2, 1, Shows::Time, (3, 2), &[(20, 3.5), (33, 1.2), (50, 8.0), (99, 36.0)]),
    // "3 times faster" at 99 %
    Saved::list(3, 3, Shows::Time, (1, 0), &[(10, 2.3), (20, 14.0), (33, 27.0), (50, 62.0), (99, 67.0)]),
    // The text has these five values for four rates, "20%, 33%, 50% and 99%"; its table has them at five. "5.5 times faster" at 99 %
    Saved::list(3, 3, Shows::Time, (3, 2), &[(10, 13.0), (20, 1.5), (33, 20.0), (50, 33.0), (99, 82.0)]),
    Saved::list(5, 1, Shows::Overhead, (1, 0), &[(1, 4.0), (20, 1.0), (33, 6.0), (50, 5.0), (99, 8.0)]),
    Saved::list(5, 1, Shows::Overhead, (3, 2), &[(50, 3.0), (99, 4.0)]),
    Saved { figure: 6, on: 3, shows: Shows::Overhead, protocols: (1, 0), at: &[], says: "from 1 to 18" },
    Saved { figure: 6, on: 3, shows: Shows::Overhead, protocols: (3, 2), at: &[], says: "from 1 to 15" },
];

/// What a protocol saves beside its base, in percent.
fn saved(of: &dyn Fn(PaperCell) -> f64, on: u32, (probing, base): (usize, usize), rate: u32) -> f64 {
    let of = |protocol| of(PaperCell { on, protocol, rate });
    (1.0 - of(probing) / of(base)) * 100.0
}

/// A list agrees if it is nearer than the best single number for all of its rates.
fn saves(tables: &Tables, chance: &Chance, claim: &Saved) -> Finding {
    let Saved { figure, on, shows, protocols, at, says } = *claim;
    let of_tables = |rate| (rate, saved(&|cell| tables.paper(cell, shows), on, protocols, rate));
    let at: Vec<(u32, f64)> = match at {
        [] => RATES.into_iter().filter(|rate| *rate > 0).map(of_tables).collect(),
        at => at.to_vec(),
    };
    let ours: Vec<f64> =
        at.iter().map(|(rate, _)| saved(&|cell| tables.ours(cell, shows), on, protocols, *rate)).collect();
    let stated: Vec<f64> = at.iter().map(|(_, stated)| *stated).collect();
    let apart = |of: &dyn Fn(usize) -> f64, stated: &[f64]| {
        let points = stated.iter().enumerate().map(|(place, stated)| (of(place) - stated).abs());
        Summary::of(points).map_or(f64::NAN, |all| all.mean)
    };
    let constant = Summary::of(stated.iter().copied()).map_or(f64::NAN, |all| all.percentile(0.5));
    let [own, of_constant] = [apart(&|place| ours[place], &stated), apart(&|_| constant, &stated)];
    let most = chance.most(&|of: Of<'_>| {
        let drawn = at.iter().map(|(rate, _)| saved(&|cell| of(cell, shows), on, protocols, *rate));
        apart(&|place| ours[place], &drawn.collect::<Vec<_>>())
    });
    let what = match shows {
        Shows::Time => "time",
        Shows::Overhead => "overhead",
    };
    let rates = at.iter().map(|(rate, _)| rate.to_string()).collect::<Vec<_>>().join(", ");
    let (probing, base) = protocols;
    let found = Finding::judged(
        format!(
            "§4, text, Fig. {figure}: what {} saves of {}'s {what} at {rates} %, in percent",
            PROTOCOLS[probing], PROTOCOLS[base]
        ),
        match says {
            "" => list(&stated),
            says => format!("{says}; {} in its table", list(&stated)),
        },
        list(&ours),
        is_nearer(own, of_constant),
    )
    .because(format!(
        "apart by {own:.1} points on average; the best single number for all rates is by {of_constant:.1}, and a tenth less is asked"
    ));
    by_luck(found, own, most, |points| format!("{points:.1} points"))
}

/// In how many pairs each probing variant is faster than its base, from 33 % errors on; of how many; and those in which it is not.
pub(super) fn faster_than_base(time: &dyn Fn(PaperCell) -> f64) -> (usize, usize, Vec<String>) {
    let (mut pairs, mut slower) = (0, Vec::new());
    for (probing, base) in BASES {
        for on in 1..=4 {
            for rate in RATES.into_iter().filter(|rate| *rate >= 33) {
                pairs += 1;
                let [own, bases] = [probing, base].map(|protocol| time(PaperCell { on, protocol, rate }));
                // A cell that was not run is not faster.
                if own >= bases || own.is_nan() || bases.is_nan() {
                    let name = PROTOCOLS[probing];
                    slower.push(format!("{name}, {on}/5 s, {rate} %: {own:.1} s, {bases:.1} s"));
                }
            }
        }
    }
    (pairs - slower.len(), pairs, slower)
}

fn beats_its_base(tables: &Tables) -> Finding {
    let (stated, pairs, _) = faster_than_base(&|cell| tables.paper(cell, Shows::Time));
    let (ours, _, slower) = faster_than_base(&|cell| tables.ours(cell, Shows::Time));
    Finding::judged(
        "from 33 % errors on, each probing variant is faster than its base",
        format!("{stated} of {pairs} in its tables"),
        format!("{ours} of {pairs}"),
        ours >= stated,
    )
    .because(slower.join("; "))
}

/// How many times faster than its base each probing protocol is at 99 % and 4/5 s.
pub(super) fn worst(time: &dyn Fn(PaperCell) -> f64) -> Vec<((usize, usize), f64)> {
    let times = |(probing, base): (usize, usize)| {
        let [own, bases] = [probing, base].map(|protocol| time(PaperCell { on: 4, protocol, rate: 99 }));
        bases / own
    };
    BASES.into_iter().map(|pair| (pair, times(pair))).collect()
}

/// What the largest gains may be off by.
const NEAR: f64 = 0.25;

fn at_the_worst(tables: &Tables, chance: &Chance) -> Vec<Finding> {
    let papers = worst(&|cell| tables.paper(cell, Shows::Time));
    let ours = worst(&|cell| tables.ours(cell, Shows::Time));
    let seconds = |protocol| tables.ours(PaperCell { on: 4, protocol, rate: 99 }, Shows::Time);
    papers
        .into_iter()
        .zip(ours)
        .map(|(((probing, base), stated), (_, times))| {
            let cell = |protocol| PaperCell { on: 4, protocol, rate: 99 };
            let luck = chance.range(&|of| of(cell(base), Shows::Time) / of(cell(probing), Shows::Time));
            Finding::number(
                format!(
                    "how many times as fast {} is as {} at 99 %, 4/5 s",
                    PROTOCOLS[probing], PROTOCOLS[base]
                ),
                format!("{stated:.1} in its table (within {} is asked)", percent(NEAR)),
                times,
                Unit::None,
            )
            .within(NEAR, stated)
            .because(format!("{:.0} s and {:.1} s", seconds(base), seconds(probing)))
            .explained(
                format!(
                    "a run's luck: of tables that are drawn of our runs, ten a cell, 95 % have {:.1} to {:.1} ({DRAWS} drawn tables)",
                    luck[0], luck[1]
                ),
                within(stated, luck),
            )
        })
        .collect()
}

/// "For small error rates … probing mechanisms might cause a slight increase on the protocol task completion time and overhead" (§4).
fn costs_little(tables: &Tables, tried: &Tried) -> Vec<Finding> {
    const SLIGHT: f64 = 0.05;
    let largest = |time: &dyn Fn(PaperCell) -> f64| {
        let mut worst = (f64::NEG_INFINITY, String::new());
        for (probing, base) in BASES {
            for (on, rate) in (1..=4).flat_map(|on| [(on, 0), (on, 1)]) {
                let [own, bases] = [probing, base].map(|protocol| time(PaperCell { on, protocol, rate }));
                let cost = own / bases - 1.0;
                // What was not run is no cost, and not known to be none.
                if cost.is_nan() || cost > worst.0 {
                    worst = (cost, format!("{}, {on}/5 s, {rate} %", PROTOCOLS[probing]));
                }
                if cost.is_nan() {
                    return worst;
                }
            }
        }
        worst
    };
    let (stated, _) = largest(&|cell| tables.paper(cell, Shows::Time));
    let row = |how: &str, time: &dyn Fn(PaperCell) -> f64| {
        let (cost, cell) = largest(time);
        Finding::number(
            format!("§4: the largest cost of probing at 0 and 1 % errors{how}"),
            format!("slight; {} in its tables (≤ {} is asked)", percent(stated), percent(SLIGHT)),
            cost,
            Unit::Percent,
        )
        .at_most(SLIGHT)
        .because(cell)
    };
    let mut found = vec![row("", &|cell| tables.ours(cell, Shows::Time))];
    found.extend(tried.each_packet().map(|other| {
        let found = row(&format!(", with {}", other.how), &|cell| other.of(cell, Shows::Time));
        let own = found.value.unwrap_or(f64::NAN);
        let most = of_nothing(other).most(&|of| largest(&|cell| of(cell, Shows::Time)).0);
        found.explained(
            format!(
                "a run's luck: where each protocol has the runs of the one that it is built upon, so that probing costs nothing, the largest of these is up to {} ({DRAWS} drawn tables, 95 %)",
                percent(most)
            ),
            own <= most,
        )
    }));
    found
}

/// Tables that are drawn where probing costs nothing: each protocol has the runs of the one that it is built upon.
fn of_nothing(other: &Otherwise) -> Chance {
    let mut runs = other.runs.clone();
    for (cell, own) in &mut runs {
        let base = BASES.iter().find(|(probing, _)| *probing == cell.protocol).map(|(_, base)| *base);
        let of_base = base.and_then(|protocol| other.runs.get(&PaperCell { protocol, ..*cell }));
        *own = of_base.unwrap_or(own).clone();
    }
    Chance::of_runs(&runs)
}

/// "Tahoe-Probing has … 8% less overhead at 99% error rate (see Figure 5). In absolute terms the latter represents 8908 bytes" (§4).
fn saved_bytes(tables: &Tables) -> Finding {
    const TASK: f64 = 5_242_880.0;
    const STATED: f64 = 8908.0;
    const NEAR: f64 = 0.1;
    let overhead = |protocol| tables.ours(PaperCell { on: 1, protocol, rate: 99 }, Shows::Overhead);
    let saved = (overhead(0) - overhead(1)) / 100.0 * TASK;
    Finding::number(
        "§4, energy: bytes that Tahoe-Probing sends less than Tahoe at 99 %, 1/5 s",
        format!("8908 (within {} is asked)", percent(NEAR)),
        saved,
        Unit::None,
    )
    .within(NEAR, STATED)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{otherwise, tables, tables_of};
    use super::*;
    use crate::testing::holds;

    type Change = fn(PaperCell, [f64; 2]) -> [f64; 2];

    fn all(tables: &Tables, tried: &Tried) -> Vec<Finding> {
        super::all(tables, tried, &Chance::of(tables))
    }

    fn with(change: Change) -> Vec<Finding> {
        all(&tables(change), &Tried::default())
    }

    fn fails(what: &str, change: Change) {
        assert!(!holds(&with(change), what), "{what}");
    }

    #[test]
    fn the_papers_own_tables_hold_what_its_text_says() {
        let found = with(|_, stated| stated);
        assert!(holds(&found, ""), "{found:#?}");
        let base = found.iter().find(|own| own.what.contains("faster than its base")).unwrap();
        assert!(base.stated.starts_with("44 of 48") && base.ours == "44 of 48", "{base:?}");
        // 2.00 and 1.83 % of 5,242,880 bytes in its Table 1
        let bytes = found.iter().find(|own| own.what.contains("energy")).unwrap();
        assert!((bytes.value.unwrap() - 8913.0).abs() < 1.0, "{bytes:?}");
    }

    #[test]
    fn one_number_for_all_cells_saves_nothing() {
        let found = with(|_, _| [18.0, 1.8]);
        for what in ["§4, text", "faster than its base", "how many times", "energy"] {
            let held =
                found.iter().filter(|own| own.what.contains(what) && holds(std::slice::from_ref(own), what));
            assert_eq!(held.count(), 0, "{what}");
        }
    }

    #[test]
    fn each_can_fail() {
        fails("what Tahoe-Probing saves of Tahoe's time", |cell, [time, overhead]| {
            [if cell.protocol == 1 { 1.6 * time } else { time }, overhead]
        });
        fails("Fig. 3: what Reno-Probing saves", |cell, [time, overhead]| {
            [if cell.protocol == 3 { 1.6 * time } else { time }, overhead]
        });
        fails("Fig. 5: what Tahoe-Probing saves", |cell, [time, overhead]| {
            [time, if cell.protocol == 1 { 1.06 * overhead } else { overhead }]
        });
        fails("Fig. 6: what Reno-Probing saves", |cell, [time, overhead]| {
            [time, if cell.protocol == 3 { 1.15 * overhead } else { overhead }]
        });
        fails("faster than its base", |cell, [time, overhead]| {
            [if cell.protocol == 1 { 20.0 * time } else { time }, overhead]
        });
        fails("how many times as fast Adaptive-TCP", |cell, [time, overhead]| {
            [if cell.protocol == 4 { 1.5 * time } else { time }, overhead]
        });
        fails("how many times as fast Adaptive-TCP", |cell, [time, overhead]| {
            [if cell.protocol == 4 { 0.5 * time } else { time }, overhead]
        });
        fails("largest cost", |cell, [time, overhead]| {
            [if cell.protocol == 3 && cell.rate < 2 { 1.2 * time } else { time }, overhead]
        });
        // A hundredth of the overhead of 99 % more, and a fifth of the bytes are gone.
        fails("energy", |cell, [time, overhead]| {
            [time, if cell.protocol == 1 && cell.rate == 99 { 1.02 * overhead } else { overhead }]
        });
    }

    #[test]
    fn what_probing_costs_where_packets_are_lost_one_by_one_is_a_row_of_its_own() {
        let costly = |cell: PaperCell, [time, overhead]: [f64; 2]| {
            [if cell.protocol == 4 && cell.rate == 1 { 1.2 * time } else { time }, overhead]
        };
        let tried = Tried { otherwise: vec![otherwise(costly)], ..Tried::default() };
        let found = all(&tables(|_, stated| stated), &tried);
        assert!(!holds(&found, "0 and 1 % errors, with errors for each packet"), "{found:#?}");
        let own = found.iter().find(|own| own.what.ends_with("0 and 1 % errors")).unwrap();
        assert!(
            holds(std::slice::from_ref(own), "largest cost") && own.reason.starts_with("Adaptive"),
            "{own:?}"
        );
    }

    #[test]
    fn the_largest_gain_is_luck_only_as_far_as_the_runs_scatter() {
        // Reno takes half as long again as in the paper, and as much more or less from run to run.
        let cause = |scatter: f64| {
            let tables = tables_of(move |cell, [time, overhead], seed| {
                let scale = if seed % 2 == 0 { 1.0 - scatter } else { 1.0 + scatter };
                [if cell.protocol == 2 { 1.4 * scale * time } else { time }, overhead]
            });
            let found = all(&tables, &Tried::default());
            found.into_iter().find(|own| own.what.contains("as fast Reno-Probing")).unwrap().cause
        };
        assert!(cause(0.7).is_some_and(|cause| cause.starts_with("a run's luck")));
        assert_eq!(cause(0.1), None);
    }

    #[test]
    fn a_list_is_explained_by_luck_only_as_far_as_that_goes() {
        // What Tahoe-Probing has of overhead scatters by a tenth from run to run, and is more than the paper's by a share.
        let with = |more: f64| {
            let wide = move |cell: PaperCell, [time, overhead]: [f64; 2], seed: u64| {
                let scale = if seed.is_multiple_of(2) { 0.9 } else { 1.1 };
                [time, if cell.protocol == 1 { overhead * scale * more } else { overhead }]
            };
            let tables = tables_of(wide);
            let found = all(&tables, &Tried::default());
            found.into_iter().find(|own| own.what.contains("Fig. 5: what Tahoe-Probing")).unwrap()
        };
        assert!(with(1.025).cause.is_some_and(|cause| cause.starts_with("a run's luck")));
        assert_eq!(with(1.2).cause, None);
    }

    #[test]
    fn what_probing_costs_is_luck_only_if_two_of_the_same_cost_as_much() {
        let costly = |cell: PaperCell, [time, overhead]: [f64; 2]| {
            [if cell.protocol == 4 && cell.rate == 1 { 1.2 * time } else { time }, overhead]
        };
        let cause = |scatter: f64| {
            let mut other = otherwise(costly);
            for (cell, runs) in &mut other.runs {
                let [time, overhead] = [other.times[cell], other.overheads[cell]];
                *runs = vec![[time * (1.0 - scatter), overhead], [time * (1.0 + scatter), overhead]];
            }
            let tried = Tried { otherwise: vec![other], ..Tried::default() };
            let found = all(&tables(|_, stated| stated), &tried);
            found.into_iter().find(|own| own.what.ends_with("errors for each packet")).unwrap().cause
        };
        assert_eq!((cause(0.0), cause(0.05)), (None, None));
        assert!(cause(0.4).is_some_and(|cause| cause.starts_with("a run's luck")));
    }
}
