//! What luck alone makes of a claim: were the paper's runs ours, what would it state?
//!
//! The paper's numbers are means of ten runs, each with errors of its own. Tables are drawn of our runs in the same way, and of each it is asked what was
//! found of the paper's. What those drawn tables have as often as not is no difference between the paper and the simulation.
use super::figures::Shows;
use super::measured::Tables;
use super::paper::{PaperCell, Stated};
use shorthaul_observe::Summary;
use shorthaul_types::Seed;
use std::collections::BTreeMap;

/// How many tables are drawn.
pub const DRAWS: u64 = 400;
/// Runs of each cell: as many as the paper had.
const RUNS: u64 = 10;

/// What a table has in a cell.
pub type Of<'a> = &'a dyn Fn(PaperCell, Shows) -> f64;

/// Tables that the paper would have with our runs.
pub struct Chance {
    drawn: Vec<BTreeMap<PaperCell, Stated>>,
}

impl Chance {
    /// Drawn of the runs of the tables.
    pub fn of(tables: &Tables) -> Chance {
        let runs = |(cell, measured, _): (PaperCell, &super::measured::Measured, Stated)| {
            let both = measured.times.iter().zip(&measured.overheads);
            (cell, both.map(|(time, overhead)| [*time, *overhead]).collect::<Vec<_>>())
        };
        Chance::of_runs(&tables.iter().map(runs).collect())
    }

    /// Drawn of runs: time and overhead of each. Every cell has draws of its own, so no two protocols meet the same errors.
    pub fn of_runs(runs: &BTreeMap<PaperCell, Vec<[f64; 2]>>) -> Chance {
        Chance::named("chance", runs)
    }

    /// The same, with draws of their own by this name.
    pub fn named(name: &str, runs: &BTreeMap<PaperCell, Vec<[f64; 2]>>) -> Chance {
        Chance { drawn: (0..DRAWS).map(|table| drawn(Seed(1).derive(name), runs, table)).collect() }
    }

    /// What a claim comes to in each of the tables.
    fn each(&self, value: &dyn Fn(Of<'_>) -> f64) -> Vec<f64> {
        let of_table = |table: &BTreeMap<PaperCell, Stated>| {
            value(&|cell, shows| match (table.get(&cell), shows) {
                (Some(stated), Shows::Time) => stated.time,
                (Some(stated), Shows::Overhead) => stated.overhead,
                (None, _) => f64::NAN,
            })
        };
        self.drawn.iter().map(of_table).collect()
    }

    /// Between which values 95 % of the tables have it. Not numbers where one has none.
    pub fn range(&self, value: &dyn Fn(Of<'_>) -> f64) -> [f64; 2] {
        middle(self.each(value))
    }

    /// The same of what these tables have more of than others, one by one.
    pub fn less(&self, others: &Chance, value: &dyn Fn(Of<'_>) -> f64) -> [f64; 2] {
        let both = self.each(value).into_iter().zip(others.each(value));
        middle(both.map(|(own, other)| own - other).collect())
    }

    /// What 95 % of the tables have at most. Not a number where one has none.
    pub fn most(&self, value: &dyn Fn(Of<'_>) -> f64) -> f64 {
        whole(self.each(value)).map_or(f64::NAN, |all| all.percentile(0.95))
    }
}

/// All values, if each is a number.
fn whole(values: Vec<f64>) -> Option<Summary> {
    match values.iter().any(|value| value.is_nan()) {
        true => None,
        false => Summary::of(values),
    }
}

/// Between which values 95 % of them lie.
fn middle(values: Vec<f64>) -> [f64; 2] {
    whole(values).map_or([f64::NAN; 2], |all| [all.percentile(0.025), all.percentile(0.975)])
}

/// Whether a number lies in a range.
pub fn within(value: f64, [low, high]: [f64; 2]) -> bool {
    low <= value && value <= high
}

/// The means of ten runs in each cell, with as many digits as the paper has.
fn drawn(seed: Seed, runs: &BTreeMap<PaperCell, Vec<[f64; 2]>>, table: u64) -> BTreeMap<PaperCell, Stated> {
    let of_cell = |(cell, runs): (&PaperCell, &Vec<[f64; 2]>)| {
        let seed = seed.derive(&cell.name());
        let picks = (0..RUNS).map(|run| (seed.nth(RUNS * table + run).0 % runs.len() as u64) as usize);
        let [time, overhead] =
            picks.fold([0.0; 2], |[time, overhead], at| [time + runs[at][0], overhead + runs[at][1]]);
        let digits = |sum: f64, scale: f64| (sum / RUNS as f64 * scale).round() / scale;
        (*cell, Stated { time: digits(time, 10.0), overhead: digits(overhead, 100.0) })
    };
    runs.iter().filter(|(_, runs)| !runs.is_empty()).map(of_cell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CELLS: [PaperCell; 2] =
        [PaperCell { on: 1, protocol: 0, rate: 50 }, PaperCell { on: 1, protocol: 1, rate: 50 }];

    fn chance(runs: &[[f64; 2]]) -> Chance {
        Chance::of_runs(&CELLS.into_iter().map(|cell| (cell, runs.to_vec())).collect())
    }

    fn time(of: Of<'_>) -> f64 {
        of(CELLS[0], Shows::Time)
    }

    #[test]
    fn runs_that_are_all_the_same_have_no_luck() {
        let same = chance(&[[20.04, 1.8149]; 20]);
        assert_eq!(same.range(&time), [20.0, 20.0], "with the digits of the tables");
        assert_eq!(same.most(&|of| of(CELLS[1], Shows::Overhead)), 1.81);
    }

    #[test]
    fn two_protocols_of_the_same_runs_are_apart_by_luck() {
        // Half of the runs take 10 s and half 30: means of ten scatter by 3.2 s, and two of them are 4.5 s apart.
        let runs: Vec<[f64; 2]> = (0..20).map(|run| [10.0 + 20.0 * f64::from(run % 2), 1.8]).collect();
        let chance = chance(&runs);
        let [low, high] = chance.range(&time);
        assert!((12.0..15.0).contains(&low) && (25.0..28.0).contains(&high), "{low} to {high}");
        let apart = chance.range(&|of| of(CELLS[0], Shows::Time) - of(CELLS[1], Shows::Time));
        assert!(within(0.0, apart) && within(6.0, apart) && !within(14.0, apart), "{apart:?}");
        assert_eq!(chance.less(&chance, &time), [0.0, 0.0], "the same draws");
        let others = Chance::named("others", &CELLS.into_iter().map(|cell| (cell, runs.clone())).collect());
        assert!(within(6.0, chance.less(&others, &time)) && !within(14.0, chance.less(&others, &time)));
    }

    #[test]
    fn what_a_table_lacks_is_not_explained() {
        let none = Chance::of_runs(&BTreeMap::from([(CELLS[0], Vec::new())]));
        assert!(none.most(&time).is_nan() && !within(1.0, none.range(&time)));
    }
}
