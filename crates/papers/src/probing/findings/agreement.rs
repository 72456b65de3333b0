//! How near the tables' levels and the figures' ratios are: nearer than one number would be for all of their cells.
//!
//! The paper's times are spread so little that 18 s in every cell are off by less than a quarter in the median, and its overheads less still.
//! What a constant has, too, is no reproduction; so each level has to be nearer than the best constant. What a figure is there to show
//! is how protocols compare, so a figure is judged by ratios, beside one ratio for all of its cells.
use super::super::chance::Chance;
use super::super::figures::{FIGURES, Shows};
use super::super::measured::{Tables, apart_by_luck};
use super::super::paper::{PROTOCOLS, PaperCell, RATES};
use super::{by_luck, median, percent};
use shorthaul_observe::{Finding, Summary};
use shorthaul_report::Unit;

pub(super) fn all(tables: &Tables, chance: &Chance) -> Vec<Finding> {
    let level = |on, shows| level(tables, chance, on, shows);
    let mut found = vec![level(None, Shows::Time), ranks(tables), level(None, Shows::Overhead)];
    for on in 1..=4 {
        found.extend([Shows::Time, Shows::Overhead].map(|shows| level(Some(on), shows)));
    }
    found.extend(FIGURES.iter().map(|figure| ratios(tables, chance, figure)));
    found
}

pub(super) fn words(shows: Shows) -> &'static str {
    match shows {
        Shows::Time => "times",
        Shows::Overhead => "overheads",
    }
}

/// By how much numbers are off the paper's, the median, as a share.
pub(super) fn off(ours: &[f64], papers: &[f64]) -> f64 {
    median(ours.iter().zip(papers).map(|(ours, paper)| ours / paper - 1.0))
}

/// Of what a constant is off by, what is nearer may be off by this share: what is off by as much to a hair has nothing of what is stated.
const NEARER: f64 = 0.9;

/// Whether something is nearer than a constant.
pub(super) fn is_nearer(own: f64, of_constant: f64) -> bool {
    own <= NEARER * of_constant
}

/// The number that is off the paper's by least if it stands for all of them, and by how much.
fn best_constant(papers: &[f64]) -> (f64, f64) {
    const STEPS: i32 = 1000;
    let [low, high] = [f64::min, f64::max].map(|of| papers.iter().copied().reduce(of).unwrap_or(f64::NAN));
    let tried = (0..=STEPS).map(|step| low * (high / low).powf(f64::from(step) / f64::from(STEPS)));
    let off = |constant: f64| median(papers.iter().map(|paper| constant / paper - 1.0));
    tried.map(|constant| (constant, off(constant))).min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or_default()
}

/// The cells of a table, or of all.
fn level(tables: &Tables, chance: &Chance, on: Option<u32>, shows: Shows) -> Finding {
    let cells = tables.iter().map(|(cell, ..)| cell).filter(|cell| on.is_none_or(|on| cell.on == on));
    let cells: Vec<PaperCell> = cells.collect();
    let (ours, papers): (Vec<f64>, Vec<f64>) =
        cells.iter().map(|cell| (tables.ours(*cell, shows), tables.paper(*cell, shows))).unzip();
    let (constant, of_constant) = best_constant(&papers);
    let which = match on {
        Some(on) => format!("Table {on}, {} {} with phases of {on}/5 s", papers.len(), words(shows)),
        None => format!("Tables 1 to 4, {} {}", papers.len(), words(shows)),
    };
    let constant = match shows {
        Shows::Time => Unit::Seconds.format(constant),
        Shows::Overhead => format!("{constant:.2} %"),
    };
    let own = off(&ours, &papers);
    let luck = chance.most(&|of| off(&ours, &cells.iter().map(|cell| of(*cell, shows)).collect::<Vec<_>>()));
    let found = Finding::number(
        format!("{which}: the median is off by"),
        format!(
            "0 % (a tenth less than {}, which {constant} in every cell is, is asked)",
            percent(of_constant)
        ),
        own,
        Unit::Percent,
    )
    .and(is_nearer(own, of_constant))
    .because(match shows {
        Shows::Time => String::new(),
        Shows::Overhead => format!(
            "in the median ours is {:.2} of the paper's; luck alone has it off by up to {}",
            Summary::of(ours.iter().zip(&papers).map(|(ours, paper)| ours / paper))
                .map_or(f64::NAN, |all| all.percentile(0.5)),
            percent(luck)
        ),
    });
    let found = by_luck(found, own, luck, percent);
    match shows {
        Shows::Time => found,
        Shows::Overhead => by_rate(found, tables, &cells, of_constant),
    }
}

/// How many losses an error rate comes to as a cause: with one factor for each rate, the same for all phases and protocols, cells are nearer. The
/// factors are fitted, and no result: they say in what the error models differ.
fn by_rate(finding: Finding, tables: &Tables, cells: &[PaperCell], of_constant: f64) -> Finding {
    let share = |cell: &PaperCell| tables.paper(*cell, Shows::Overhead) / tables.ours(*cell, Shows::Overhead);
    let factor = |rate: u32| {
        let all = tables.iter().map(|(cell, ..)| cell).filter(|cell| cell.rate == rate);
        Summary::of(all.map(|cell| share(&cell))).map_or(f64::NAN, |all| all.percentile(0.5))
    };
    let factors = RATES.map(|rate| (rate, factor(rate)));
    let scaled = |cell: &PaperCell| {
        factors
            .iter()
            .find(|(rate, _)| *rate == cell.rate)
            .map_or(f64::NAN, |(_, factor)| factor / share(cell))
    };
    let left = median(cells.iter().map(|cell| scaled(cell) - 1.0));
    let said: Vec<String> = factors.iter().map(|(rate, factor)| format!("{factor:.2} at {rate} %")).collect();
    finding.explained(
        format!(
            "how many losses an error rate comes to, in slots and in the paper's model: with a factor for each rate, the same in all phases and protocols ({}; fitted), it is off by {}",
            said.join(", "),
            percent(left)
        ),
        is_nearer(left, of_constant),
    )
}

fn ranks(tables: &Tables) -> Finding {
    let correlation = tables.rank_correlation();
    Finding::judged(
        "rank correlation of completion time over 168 cells",
        "at least 0.9",
        format!("{correlation:.3}"),
        correlation >= 0.9,
    )
}

/// Which of a figure's protocols are compared with which, by their places in [`PROTOCOLS`].
fn pairs(protocols: &[usize]) -> &'static [(usize, usize)] {
    match protocols {
        [0, ..] => &[(1, 0), (3, 2)],
        [1, ..] => &[(4, 1), (4, 3)],
        _ => &[(5, 4)],
    }
}

/// Ratios between a figure's protocols, by their logarithms: twice and half are equally far from one. The best constant is their median.
fn ratios(
    tables: &Tables,
    chance: &Chance,
    &(number, on, protocols, shows): &(u32, u32, &[usize], Shows),
) -> Finding {
    let pairs = pairs(protocols);
    let cells = || pairs.iter().flat_map(|pair| RATES.map(|rate| (*pair, rate)));
    let log = |of: &dyn Fn(PaperCell) -> f64, ((one, other), rate): ((usize, usize), u32)| {
        let of = |protocol| of(PaperCell { on, protocol, rate });
        (of(one) / of(other)).ln()
    };
    let mean = |values: &mut dyn Iterator<Item = f64>| {
        Summary::of(values.map(f64::abs)).map_or(f64::NAN, |all| all.mean)
    };
    let papers: Vec<f64> = cells().map(|at| log(&|cell| tables.paper(cell, shows), at)).collect();
    let constant = Summary::of(papers.iter().copied()).map_or(f64::NAN, |all| all.percentile(0.5));
    let of_constant = mean(&mut papers.iter().map(|paper| paper - constant));
    let ours: Vec<f64> = cells().map(|at| log(&|cell| tables.ours(cell, shows), at)).collect();
    let apart = |stated: &dyn Fn(PaperCell) -> f64| {
        mean(&mut cells().zip(&ours).map(|(at, ours)| ours - log(stated, at)))
    };
    let own = apart(&|cell| tables.paper(cell, shows));
    let most = chance.most(&|of| apart(&|cell| of(cell, shows)));
    let luck = mean(&mut cells().map(|((protocol, _), rate)| {
        let measured = tables.get(PaperCell { on, protocol, rate });
        measured.map_or(f64::NAN, |(measured, _)| apart_by_luck(measured.runs(shows)))
    }));
    let as_share = |log: f64| percent(log.exp_m1());
    let compared = pairs
        .iter()
        .map(|(one, other)| format!("{} / {}", PROTOCOLS[*one], PROTOCOLS[*other]))
        .collect::<Vec<_>>()
        .join(" and ");
    let found = Finding::number(
        format!("Fig. {number}, {} with phases of {on}/5 s: {compared} is off on average by", words(shows)),
        format!(
            "0 % (a tenth less than {}, which a ratio of {:.2} in every cell is, is asked)",
            as_share(of_constant),
            constant.exp()
        ),
        own.exp_m1(),
        Unit::Percent,
    )
    .and(is_nearer(own, of_constant))
    .because(format!("means of ten runs of one and the same protocol are {} apart here by luck", as_share(luck)))
    .explained(
        format!(
            "a run's luck: two means of ten of our runs of one and the same protocol are {} apart in these cells (bootstrap), which is no less than what there is to reproduce",
            as_share(luck)
        ),
        luck >= of_constant,
    );
    by_luck(found, own, most, as_share)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{papers, tables, tables_of};
    use super::*;
    use crate::testing::holds;
    use shorthaul_observe::Verdict;

    fn all(tables: &Tables) -> Vec<Finding> {
        super::all(tables, &Chance::of(tables))
    }

    /// What of these names holds.
    fn held(found: &[Finding], what: &str) -> usize {
        found.iter().filter(|own| own.what.starts_with(what) && own.verdict == Verdict::Holds).count()
    }

    #[test]
    fn the_papers_own_tables_agree_with_themselves() {
        let found = all(&tables(|_, stated| stated));
        assert!(found.iter().all(|own| own.verdict == Verdict::Holds), "{found:#?}");
        assert_eq!(found.len(), 3 + 8 + 22);
    }

    #[test]
    fn one_number_for_all_cells_reproduces_nothing() {
        let constant = |_, _| [18.0, 1.8];
        let found = all(&tables(constant));
        assert_eq!(
            (held(&found, "Table"), held(&found, "Fig"), held(&found, "rank")),
            (0, 0, 0),
            "{found:#?}"
        );
        // Nor does the best of them, or what makes all protocols alike.
        let best = all(&tables(|_, _| {
            [best_constant(&papers(Shows::Time)).0, best_constant(&papers(Shows::Overhead)).0]
        }));
        assert_eq!((held(&best, "Table"), held(&best, "Fig")), (0, 0), "{best:#?}");
        let stated = super::super::super::paper::tables().unwrap();
        let alike = all(&tables(|cell, _| {
            let tahoe = stated[&PaperCell { protocol: 0, ..cell }];
            [tahoe.time, tahoe.overhead]
        }));
        assert_eq!(held(&alike, "Fig"), 0, "{alike:#?}");
    }

    #[test]
    fn what_is_as_near_as_a_constant_to_a_hair_is_not_nearer() {
        assert!(is_nearer(0.09, 0.1) && !is_nearer(0.0999, 0.1) && !is_nearer(f64::NAN, 0.1));
    }

    #[test]
    fn the_best_constant_is_nearer_than_its_neighbours() {
        // Half of the numbers lie within a tenth of 1.1.
        let (constant, off) = best_constant(&[1.0, 1.2, 5.0, 9.0, 1.1]);
        assert!((0.99..=1.21).contains(&constant) && off <= 0.1, "{constant}, {off}");
        assert_eq!(best_constant(&[2.0, 2.0]), (2.0, 0.0));
    }

    #[test]
    fn each_can_fail_by_itself() {
        let with = |change: fn(PaperCell, [f64; 2]) -> [f64; 2]| all(&tables(change));
        let found = with(
            |cell, [time, overhead]| if cell.on == 3 { [1.4 * time, overhead] } else { [time, overhead] },
        );
        assert!(!holds(&found, "Table 3, 42 times") && holds(&found, "Table 3, 42 overheads"));
        assert!(holds(&found, "Fig. 3,"), "ratios do not see what all have");
        let found = with(
            |cell, [time, overhead]| if cell.on == 4 { [time, 1.2 * overhead] } else { [time, overhead] },
        );
        assert!(!holds(&found, "Table 4, 42 overheads"));
        let found = with(
            |cell, [time, overhead]| {
                if cell.protocol == 1 { [1.5 * time, overhead] } else { [time, overhead] }
            },
        );
        assert!(!holds(&found, "Fig. 2,") && holds(&found, "Fig. 5,"));
        assert!(!holds(&with(|_, [time, overhead]| [1.0 / time, overhead]), "rank correlation"));
    }

    #[test]
    fn luck_is_a_cause_where_it_is_as_large_as_what_is_stated() {
        let alike = |_, _| [18.0, 1.8];
        let cause = |found: Vec<Finding>| {
            found.into_iter().find(|own| own.what.starts_with("Fig. 12")).and_then(|own| own.cause)
        };
        assert_eq!(cause(all(&tables(alike))), None, "runs that are all the same have no luck");
        let scattered = tables_of(|_, _, seed| [18.0 * if seed % 2 == 0 { 0.7 } else { 1.3 }, 1.8]);
        assert!(cause(all(&scattered)).is_some_and(|cause| cause.starts_with("a run's luck")));
    }

    #[test]
    fn a_factor_for_each_rate_explains_what_goes_by_the_rate_alone() {
        let cause = |more: fn(PaperCell) -> f64| {
            let found = all(&tables(|cell, [time, overhead]| [time, overhead * more(cell)]));
            let own =
                found.into_iter().find(|own| own.what.starts_with("Tables 1 to 4, 168 overheads")).unwrap();
            assert_eq!(own.verdict, Verdict::Differs);
            own.cause.unwrap_or_default()
        };
        let by_rate = cause(|cell| if cell.rate > 20 { 1.2 } else { 0.8 });
        assert!(by_rate.starts_with("how many losses") && by_rate.contains("0.83 at 99 %"), "{by_rate}");
        assert_eq!(cause(|cell| if cell.on > 2 { 1.2 } else { 0.8 }), "", "by the phases");
        assert_eq!(cause(|cell| if cell.protocol % 2 == 0 { 1.2 } else { 0.8 }), "", "by the protocols");
    }

    #[test]
    fn drawn_tables_explain_what_they_are_off_by_and_no_more() {
        // Half of the runs have 40 % more, and half as much less: overheads of ten runs are off by a tenth.
        let scattered = |more: f64| {
            let wide = move |cell: PaperCell, [time, overhead]: [f64; 2], seed: u64| {
                let scale = if seed.is_multiple_of(2) { 0.6 } else { 1.4 };
                [time, overhead * scale * if cell.on == 3 { more } else { 1.0 }]
            };
            let found = all(&tables_of(wide));
            found.into_iter().find(|own| own.what.starts_with("Table 3, 42 overheads")).unwrap()
        };
        let near = scattered(1.08);
        assert!(near.cause.is_some_and(|cause| cause.starts_with("a run's luck")), "{}", near.reason);
        let far = scattered(1.5);
        assert!(far.verdict == Verdict::Differs && far.cause.is_none(), "{far:?}");
    }
}
