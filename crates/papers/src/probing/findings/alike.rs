//! What tells protocols apart (§4.1, §4.2). In slots, losses rarely leave enough segments behind them for three duplicates, and without these the
//! probing protocols do the same. What holds because two protocols are one and the same does not hold.
use super::super::chance::{Chance, DRAWS, within};
use super::super::errors::{Otherwise, Tried};
use super::super::figures::Shows;
use super::super::measured::{Tables, apart_by_luck};
use super::super::paper::{PROTOCOLS, PaperCell, RATES};
use super::{assumed, median, percent};
use shorthaul_observe::Finding;
use shorthaul_report::Unit;

/// Where duplicates are likelier than timeouts, so that the probing protocols can differ (§4.2).
const LOW_RATES: [u32; 4] = [1, 10, 20, 33];
const HIGH_RATES: [u32; 2] = [50, 99];
const SHORT_PHASES: [u32; 2] = [1, 2];
/// From this error rate on, in percent, every run meets lossy slots.
const LOSSY: u32 = 10;
/// Two numbers are equal if they are apart by no more than this share.
const EQUAL: f64 = 0.001;

type Of<'a> = &'a dyn Fn(PaperCell) -> f64;

pub(super) fn all(tables: &Tables, tried: &Tried, chance: &Chance) -> Vec<Finding> {
    let said = Said { tables, each_packet: tried.each_packet(), chance };
    let mut found: Vec<Finding> = PAIRS.iter().map(|(pair, names)| said.equal(*pair, names)).collect();
    found.push(said.adaptive_lies_between());
    found.push(said.apart());
    found.extend(OUTPERFORMS.iter().map(|own| said.outperforms(*own)));
    found.extend(SHORT_PHASES.map(|on| said.selective_saves(on)));
    for shows in [Shows::Time, Shows::Overhead] {
        found.extend(SHORT_PHASES.map(|on| said.selective_costs(on, shows)));
    }
    found
}

/// Protocols that the paper has as different ones.
const PAIRS: [((usize, usize), &str); 3] = [
    ((1, 3), "Tahoe-Probing and Reno-Probing"),
    ((4, 5), "Adaptive and Selective"),
    ((0, 2), "Tahoe and Reno"),
];

/// "A-TCP is 13% faster than Tahoe-Probing and is 16% faster than Reno-Probing at 99% error rate. Figure 10) shows A-TCP 8% faster than
/// Reno-Probing and 11% faster than Tahoe-Probing at 33% error rate" (§4.1): the figure, the on phase, the rate, than which, and by how much.
const OUTPERFORMS: [(u32, u32, u32, usize, f64); 4] =
    [(9, 1, 99, 1, 0.13), (9, 1, 99, 3, 0.16), (10, 2, 33, 1, 0.11), (10, 2, 33, 3, 0.08)];

/// The tables, the same with errors that are decided for each packet, and tables that are drawn of our runs.
struct Said<'a> {
    tables: &'a Tables,
    each_packet: Option<&'a Otherwise>,
    chance: &'a Chance,
}

impl Said<'_> {
    /// What a value is in the paper, here, and with errors for each packet.
    fn of(&self, shows: Shows, value: &dyn Fn(Of<'_>) -> f64) -> [f64; 3] {
        let then = |cell| self.each_packet.map_or(f64::NAN, |other| other.of(cell, shows));
        [
            value(&|cell| self.tables.paper(cell, shows)),
            value(&|cell| self.tables.ours(cell, shows)),
            value(&then),
        ]
    }

    /// The slots as a cause: with errors for each packet it is as stated. What that costs elsewhere is said, too.
    fn with_each_packet(&self, finding: Finding, then: &str, shown: bool) -> Finding {
        let Some(other) = self.each_packet else { return finding };
        let reason = match finding.reason.as_str() {
            "" => format!("with {}: {then}", other.how),
            reason => format!("{reason}; with {}: {then}", other.how),
        };
        finding.because(reason).explained(
            format!(
                "the slots: after a lossy one too few segments follow for three duplicates; with {} it is {then} ({})",
                other.how,
                assumed::price(self.tables, other)
            ),
            shown,
        )
    }

    /// A run's luck as a cause: our protocols meet the same errors, the paper's did not. Of tables that are drawn of our runs, each protocol
    /// with errors of its own, so many have what is stated that it is nothing unusual.
    fn by_luck(
        &self,
        finding: Finding,
        stated: f64,
        shows: Shows,
        value: &dyn Fn(Of<'_>) -> f64,
        words: &dyn Fn(f64) -> String,
    ) -> Finding {
        let range = self.chance.range(&|of| value(&|cell| of(cell, shows)));
        finding.explained(
            format!(
                "a run's luck: our protocols meet the same errors, the paper's did not; with errors of its own for each it is {} to {} ({DRAWS} tables drawn of our runs, ten a cell; 95 %), and the paper's is {}",
                words(range[0]),
                words(range[1]),
                words(stated)
            ),
            within(stated, range),
        )
    }

    /// Without errors nothing tells protocols apart: the cells are those with some.
    fn equal(&self, (one, other): (usize, usize), names: &str) -> Finding {
        let count_from = |least: u32, time: Of<'_>| {
            let rates = move || with_errors().filter(move |rate| *rate >= least);
            let cells = (1..=4).flat_map(|on| rates().map(move |rate| (on, rate)));
            let apart = cells.map(|(on, rate)| {
                time(PaperCell { on, protocol: one, rate }) / time(PaperCell { on, protocol: other, rate })
                    - 1.0
            });
            // What was not run is not different.
            apart.filter(|apart| apart.abs() <= EQUAL || apart.is_nan()).count() as f64
        };
        let count = |time: Of<'_>| count_from(0, time);
        let [stated, ours, then] = self.of(Shows::Time, &count);
        let found = Finding::number(
            format!("cells of 24 with errors in which {names} take the same time, within {}", percent(EQUAL)),
            format!("{stated} in its tables"),
            ours,
            Unit::None,
        );
        let found = self.with_each_packet(found.at_most(stated), &format!("{then}"), then <= stated);
        let found = self.by_luck(found, stated, Shows::Time, &count, &|cells| format!("{cells:.0}"));
        // At 1 % a run meets no lossy slot as often as not, and what meets none takes the same time.
        let range = self.chance.range(&|of| count_from(LOSSY, &|cell| of(cell, Shows::Time)));
        let then = count_from(LOSSY, &|cell| self.tables.paper(cell, Shows::Time));
        found.explained(
            format!(
                "a run's luck, and the slots: our protocols meet the same errors, the paper's did not; with errors of its own for each it is {:.0} to {:.0} from {LOSSY} % errors on ({DRAWS} tables drawn of our runs, ten a cell; 95 %), where the paper has {then}, and the rest at 1 %, where a slot is rarely lossy",
                range[0], range[1]
            ),
            within(then, range),
        )
    }

    /// "Figures 9, 10, 12 show that the Task Completion Time of A-TCP has an upper and lower limit the time of Tahoe-Probing and
    /// Reno-Probing" (§4.1), within a twentieth: of the 21 cells those that have two limits. Between two numbers that are the same nothing lies.
    fn adaptive_lies_between(&self) -> Finding {
        let between = |time: Of<'_>| {
            let [mut lie, mut limited] = [0.0; 2];
            for (on, rate) in (1..=3).flat_map(|on| RATES.map(|rate| (on, rate))) {
                let [tahoe, reno, adaptive] =
                    [1, 3, 4].map(|protocol| time(PaperCell { on, protocol, rate }));
                if (tahoe / reno - 1.0).abs() > EQUAL {
                    limited += 1.0;
                    lie += f64::from((0.95 * tahoe.min(reno)..=1.05 * tahoe.max(reno)).contains(&adaptive));
                }
            }
            [lie, limited]
        };
        let [lie, limited] = [0, 1].map(|at| self.of(Shows::Time, &|time| between(time)[at]));
        let [of_stated, of_ours, of_then] = [0, 1, 2].map(|place| [lie[place], limited[place]]);
        let words = |[lie, limited]: [f64; 2]| format!("{lie} of {limited}");
        let share = |[lie, limited]: [f64; 2]| lie / limited;
        let as_often = |own| share(own) >= share(of_stated);
        let found = Finding::judged(
            "Figs 9, 10, 12: cells with Tahoe-Probing and Reno-Probing apart in which Adaptive lies between them, within 5 %",
            format!("{} in its tables", words(of_stated)),
            words(of_ours),
            as_often(of_ours),
        );
        let found = self.with_each_packet(found, &words(of_then), as_often(of_then));
        self.by_luck(found, share(of_stated), Shows::Time, &|time| share(between(time)), &percent)
    }

    /// Slow start or fast recovery after a bad cycle is all that tells Tahoe-Probing from Reno-Probing.
    fn apart(&self) -> Finding {
        let distance = |time: Of<'_>| {
            let of = |on, rate| {
                time(PaperCell { on, protocol: 1, rate }) / time(PaperCell { on, protocol: 3, rate }) - 1.0
            };
            median(SHORT_PHASES.into_iter().flat_map(|on| LOW_RATES.map(|rate| of(on, rate))))
        };
        let [stated, ours, then] = self.of(Shows::Time, &distance);
        let found = Finding::number(
            "Figs 2 and 10: Tahoe-Probing and Reno-Probing are apart, 1 to 33 %, phases of 1 and 2 s, in the median",
            format!("{} in its tables (half of that is asked)", percent(stated)),
            ours,
            Unit::Percent,
        )
        .at_least(stated / 2.0);
        let found = self.with_each_packet(found, &percent(then), then >= stated / 2.0);
        let cells =
            SHORT_PHASES.into_iter().flat_map(|on| LOW_RATES.map(|rate| PaperCell { on, protocol: 1, rate }));
        let luck = median(cells.map(|cell| self.luck(cell)));
        found.explained(
            format!(
                "a run's luck: our two protocols meet the same errors, the paper's did not, and two means of ten runs of one and the same protocol are {} apart",
                percent(luck)
            ),
            luck >= stated / 2.0,
        )
    }

    /// How far two means of ten of our runs are apart in a cell, as a share.
    fn luck(&self, cell: PaperCell) -> f64 {
        self.tables.get(cell).map_or(f64::NAN, |(measured, _)| apart_by_luck(&measured.times).exp_m1())
    }

    fn outperforms(&self, (figure, on, rate, than, stated): (u32, u32, u32, usize, f64)) -> Finding {
        let cell = |protocol| PaperCell { on, protocol, rate };
        let faster = |time: Of<'_>| 1.0 - time(cell(4)) / time(cell(than));
        let [_, ours, then] = self.of(Shows::Time, &faster);
        let found = Finding::number(
            format!(
                "§4.1, Fig. {figure}: how much faster Adaptive is than {} at {rate} %, {on}/5 s",
                PROTOCOLS[than]
            ),
            format!("{} (half of that is asked)", percent(stated)),
            ours,
            Unit::Percent,
        )
        .at_least(stated / 2.0);
        let found = self.with_each_packet(found, &percent(then), then >= stated / 2.0);
        let found = self.by_luck(found, stated, Shows::Time, &faster, &percent);
        // "For example Figure 9 shows": an example is chosen among all that a figure has.
        let largest = |time: Of<'_>| {
            let faster = |rate| {
                let cell = |protocol| PaperCell { on, protocol, rate };
                1.0 - time(cell(4)) / time(cell(than))
            };
            with_errors().map(faster).fold(f64::NEG_INFINITY, f64::max)
        };
        let range = self.chance.range(&|of| largest(&|cell| of(cell, Shows::Time)));
        found.explained(
            format!(
                "a run's luck, and a choice: it is an example of the figure's {} cells with errors, and with errors of its own for each protocol the largest of these is {} to {} ({DRAWS} tables drawn of our runs, 95 %)",
                with_errors().count(),
                percent(range[0]),
                percent(range[1])
            ),
            within(stated, range),
        )
    }

    /// Figures 18 and 19: "A-TCP yields worse performance than SP-TCP especially at lower error rates (1%, 10%, 20%, and 33%)".
    fn selective_saves(&self, on: u32) -> Finding {
        let saves = |of: Of<'_>| -selective(of, on, &LOW_RATES);
        let [stated, ours, then] = self.of(Shows::Time, &saves);
        let found = Finding::number(
            format!("Fig. {}: Selective saves of Adaptive's time, 1 to 33 %, phases of {on}/5 s", 17 + on),
            format!("{} in its tables (half of that is asked)", percent(stated)),
            ours,
            Unit::Percent,
        );
        let found = self.with_each_packet(found.at_least(stated / 2.0), &percent(then), then >= stated / 2.0);
        self.by_luck(found, stated, Shows::Time, &saves, &percent)
    }

    /// "This can be seen by the degraded performance of SP-TCP at short error durations and high error rates (50% and 99% error rates - see
    /// figures 18, 19). The degraded time performance is reflected in the overhead also … (see figures 22, 23)" (§4.2).
    fn selective_costs(&self, on: u32, shows: Shows) -> Finding {
        let costs = |of: Of<'_>| selective(of, on, &HIGH_RATES);
        let [stated, ours, then] = self.of(shows, &costs);
        let (figure, what) = match shows {
            Shows::Time => (17 + on, "time"),
            Shows::Overhead => (21 + on, "overhead"),
        };
        let found = Finding::number(
            format!(
                "§4.2, Fig. {figure}: Selective needs more {what} than Adaptive at 50 and 99 %, phases of {on}/5 s"
            ),
            format!("{} in its tables (half of that is asked)", percent(stated)),
            ours,
            Unit::Percent,
        );
        // The paper's own overheads are hardly apart in Figure 22: what is stated is that there is more of it.
        let holds = |value: f64| value >= stated / 2.0 && value > 0.0;
        let found = self.with_each_packet(found.and(holds(ours)), &percent(then), holds(then));
        self.by_luck(found, stated, shows, &costs, &percent)
    }
}

/// The error rates of the tables, but for none.
fn with_errors() -> impl Iterator<Item = u32> {
    RATES.into_iter().filter(|rate| *rate > 0)
}

/// What Selective has of Adaptive's, less one, over some rates.
fn selective(of: Of<'_>, on: u32, rates: &[u32]) -> f64 {
    let sum = |protocol| rates.iter().map(|rate| of(PaperCell { on, protocol, rate: *rate })).sum::<f64>();
    sum(5) / sum(4) - 1.0
}

#[cfg(test)]
mod tests {
    use super::super::tests::{otherwise, tables, tables_of};
    use super::*;
    use crate::testing::holds;
    use shorthaul_observe::Verdict;

    fn all(tables: &Tables, tried: &Tried) -> Vec<Finding> {
        super::all(tables, tried, &Chance::of(tables))
    }

    /// The paper's number of another protocol in the same place.
    fn as_protocol(protocol: usize, cell: PaperCell) -> [f64; 2] {
        let stated = super::super::super::paper::tables().unwrap()[&PaperCell { protocol, ..cell }];
        [stated.time, stated.overhead]
    }

    fn with(change: impl Fn(PaperCell, [f64; 2]) -> [f64; 2]) -> Vec<Finding> {
        all(&tables(change), &Tried::default())
    }

    #[test]
    fn the_papers_own_tables_have_what_its_text_says() {
        let found = with(|_, stated| stated);
        assert!(
            holds(&found, ""),
            "{:#?}",
            found.iter().filter(|own| own.verdict != Verdict::Holds).collect::<Vec<_>>()
        );
        assert_eq!(found.len(), 3 + 1 + 1 + 4 + 2 + 4);
    }

    #[test]
    fn protocols_that_are_one_and_the_same_have_nothing_of_it() {
        let found = with(|cell, stated| match cell.protocol {
            1.. if cell.protocol != 2 => as_protocol(1, cell),
            2 => as_protocol(0, cell),
            _ => stated,
        });
        let held: Vec<_> =
            found.iter().filter(|own| own.verdict == Verdict::Holds).map(|own| &own.what).collect();
        assert_eq!(held, Vec::<&String>::new());
    }

    #[test]
    fn each_can_fail_by_itself() {
        let found =
            with(|cell, [time, overhead]| [if cell.protocol == 4 { 2.0 * time } else { time }, overhead]);
        assert!(
            !holds(&found, "lies between")
                && !holds(&found, "§4.1, Fig. 9")
                && holds(&found, "Figs 2 and 10")
        );
        let found = with(|cell, stated| if cell.protocol == 3 { as_protocol(1, cell) } else { stated });
        assert!(
            !holds(&found, "are apart") && !holds(&found, "Tahoe-Probing and Reno-Probing take the same")
        );
        let found = with(|cell, stated| if cell.protocol == 5 { as_protocol(4, cell) } else { stated });
        for what in ["Fig. 18: Sel", "Fig. 19: Sel", "Fig. 18: Selective needs", "Fig. 22", "Fig. 23"] {
            assert!(!holds(&found, what), "{what}");
        }
    }

    #[test]
    fn errors_for_each_packet_are_a_cause_only_if_they_have_what_is_stated() {
        let causes = |then: fn(PaperCell, [f64; 2]) -> [f64; 2]| {
            let tried = Tried { otherwise: vec![otherwise(then)], ..Tried::default() };
            let found = all(
                &tables(|cell, _| as_protocol(if cell.protocol > 2 { 1 } else { cell.protocol }, cell)),
                &tried,
            );
            found
                .into_iter()
                .filter(|own| own.cause.as_ref().is_some_and(|cause| cause.starts_with("the slots")))
                .count()
        };
        assert!(causes(|_, stated| stated) > 10);
        assert_eq!(causes(|_, _| [18.0, 1.8]), 0);
    }

    /// All protocols are one and the same, and meet the same errors.
    fn alike(scatter: f64) -> Vec<Finding> {
        let time = move |cell: PaperCell, _: [f64; 2], seed: u64| {
            let scale = if cell.rate == 0 { 0.0 } else { scatter };
            let own = 1.0 + scale * (seed as f64 - 10.5) / 5.766;
            [20.0 * own, 1.8 * own]
        };
        all(&tables_of(time), &Tried::default())
    }

    #[test]
    fn what_the_paper_has_by_luck_is_explained_by_it_and_nothing_else_is() {
        let causes = |found: Vec<Finding>, what: &str| -> Vec<bool> {
            let own = found.into_iter().filter(|own| own.what.contains(what));
            own.map(|own| own.cause.is_some_and(|cause| cause.starts_with("a run's luck"))).collect()
        };
        // Runs that scatter by a fifth: means of ten are 9 % apart, and no two are the same. Runs that are all the same are.
        assert_eq!(causes(alike(0.2), "take the same time"), [true; 3]);
        assert_eq!(causes(alike(0.0), "take the same time"), [false; 3]);
        assert_eq!(causes(alike(0.2), "how much faster Adaptive"), [true; 4]);
        assert_eq!(causes(alike(0.02), "how much faster Adaptive"), [false; 4]);
        let costs = |scatter| causes(alike(scatter), "§4.2, Fig. 18: Selective needs more time");
        assert_eq!((costs(0.2), costs(0.02)), (vec![true], vec![false]));
        let between = |scatter| causes(alike(scatter), "in which Adaptive lies between");
        assert_eq!((between(0.1), between(0.0)), (vec![true], vec![false]));
    }

    #[test]
    fn an_example_may_be_the_largest_of_its_figure() {
        // One cell in which probing protocols scatter hardly, and five in which they scatter by 14 %.
        let time = |cell: PaperCell, _: [f64; 2], seed: u64| {
            let scatter = if cell.rate == 99 || cell.rate == 0 { 0.001 } else { 0.14 };
            let own = 1.0 + scatter * (seed as f64 - 10.5) / 5.766;
            [20.0 * own, 1.8]
        };
        let found = all(&tables_of(time), &Tried::default());
        let own = found.iter().find(|own| own.what.contains("than Tahoe-Probing at 99 %")).unwrap();
        assert!(own.cause.as_ref().is_some_and(|cause| cause.contains("an example")), "{own:?}");
    }

    #[test]
    fn what_each_packet_costs_elsewhere_is_said() {
        let tried = Tried {
            otherwise: vec![otherwise(|_, [time, overhead]| [1.6 * time, overhead])],
            ..Tried::default()
        };
        let alike = |cell: PaperCell, _| as_protocol(if cell.protocol > 2 { 1 } else { cell.protocol }, cell);
        let found = all(&tables(alike), &tried);
        let cause = found.iter().find_map(|own| own.cause.clone()).unwrap();
        assert!(cause.contains("off by 60.0 % in the median then, and 168 are far off"), "{cause}");
    }
}
