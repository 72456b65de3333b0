//! The simulated tables.
use super::figures::Shows;
use super::paper::{PROTOCOLS, PaperCell, Stated};
use crate::error::{Result, While};
use shorthaul_observe::{RunRecord, Summary};
use shorthaul_report::{Csv, Field, Manifest, ReportError};
use shorthaul_scenario::Metric;
use shorthaul_types::Seed;
use std::collections::BTreeMap;

/// What came of a cell.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Task completion time in seconds.
    pub time: Summary,
    /// That of each run.
    pub times: Vec<f64>,
    /// Overhead as the paper counts it, in percent.
    pub overhead: Summary,
    /// That of each run.
    pub overheads: Vec<f64>,
    /// IP bytes that both hosts sent, of which energy is spent.
    pub wire: Summary,
}

/// All cells, with what the paper says of each.
pub struct Tables {
    cells: BTreeMap<PaperCell, (Measured, Stated)>,
    /// Runs that ended in a failed connection, in words.
    pub failures: Vec<String>,
}

impl Tables {
    /// Sorts runs into their cells.
    ///
    /// # Errors
    /// If a cell has no successful run.
    pub fn of(records: &[RunRecord], paper: &BTreeMap<PaperCell, Stated>) -> Result<Tables> {
        let mut runs: BTreeMap<PaperCell, Vec<&RunRecord>> = BTreeMap::new();
        let mut failures = Vec::new();
        for record in records {
            let cell = cell_of(record)?;
            match &record.failure {
                Some(failure) => failures.push(format!("{}, seed {}: {failure}", cell.name(), record.seed)),
                None => runs.entry(cell).or_default().push(record),
            }
        }
        let mut cells = BTreeMap::new();
        for (cell, stated) in paper {
            let runs = runs.get(cell).doing(format!("no run of {} succeeded", cell.name()))?;
            let summary = |metric| {
                let values = runs.iter().filter_map(|record| record.outcome.as_ref()?.metrics.get(&metric));
                Summary::of(values.copied()).doing(format!("{}: no {metric}", cell.name()))
            };
            let each = |metric| -> Vec<f64> {
                let values = runs.iter().filter_map(|record| record.outcome.as_ref()?.metrics.get(&metric));
                values.copied().collect()
            };
            let measured = Measured {
                time: summary(Metric::Completion)?,
                times: each(Metric::Completion),
                overhead: summary(Metric::SenderOverhead)?,
                overheads: each(Metric::SenderOverhead),
                wire: summary(Metric::WireBytes)?,
            };
            cells.insert(*cell, (measured, *stated));
        }
        Ok(Tables { cells, failures })
    }

    /// Every cell.
    pub fn iter(&self) -> impl Iterator<Item = (PaperCell, &Measured, Stated)> {
        self.cells.iter().map(|(cell, (measured, stated))| (*cell, measured, *stated))
    }

    /// Ours and the paper's of one cell.
    pub fn get(&self, cell: PaperCell) -> Option<&(Measured, Stated)> {
        self.cells.get(&cell)
    }

    /// Our mean in a cell; not a number where there is none.
    pub fn ours(&self, cell: PaperCell, shows: Shows) -> f64 {
        self.cells.get(&cell).map_or(f64::NAN, |(measured, stated)| shows.of(measured, stated).0.mean)
    }

    /// The paper's number in a cell; not a number where there is none.
    pub fn paper(&self, cell: PaperCell, shows: Shows) -> f64 {
        self.cells.get(&cell).map_or(f64::NAN, |(measured, stated)| shows.of(measured, stated).1)
    }

    /// Spearman's rank correlation of our times with the paper's.
    pub fn rank_correlation(&self) -> f64 {
        let ours: Vec<f64> = self.iter().map(|(_, measured, _)| measured.time.mean).collect();
        let papers: Vec<f64> = self.iter().map(|(.., stated)| stated.time).collect();
        spearman(&ours, &papers)
    }

    /// A row for each cell.
    ///
    /// # Errors
    /// None for what is here: the columns are as many as the fields.
    pub fn csv(&self, manifest: &Manifest) -> Result<Csv, ReportError> {
        let columns = [
            "on [s]",
            "protocol",
            "error rate [%]",
            "runs",
            "time [s]",
            "time ± 95 % [s]",
            "paper's time [s]",
            "overhead [%]",
            "overhead ± 95 % [%]",
            "paper's overhead [%]",
            "bytes on the wire",
        ];
        let mut csv = Csv::new(manifest, &columns);
        for (cell, measured, stated) in self.iter() {
            let half = |summary: &Summary| summary.confidence().map_or(Field::Missing, Field::Number);
            csv.row([
                Field::Integer(i128::from(cell.on)),
                Field::from(PROTOCOLS[cell.protocol]),
                Field::Integer(i128::from(cell.rate)),
                Field::Integer(measured.time.count() as i128),
                Field::Number(measured.time.mean),
                half(&measured.time),
                Field::Number(stated.time),
                Field::Number(measured.overhead.mean),
                half(&measured.overhead),
                Field::Number(stated.overhead),
                Field::Number(measured.wire.mean),
            ])?;
        }
        Ok(csv)
    }
}

impl Measured {
    /// The values that a figure shows, of each run.
    pub fn runs(&self, shows: Shows) -> &[f64] {
        match shows {
            Shows::Time => &self.times,
            Shows::Overhead => &self.overheads,
        }
    }
}

/// A thousand means of so many runs that are drawn of these: a bootstrap. That is how far a run's luck goes where the mean of as many is stated.
fn draws(runs: &[f64], count: u64) -> Vec<f64> {
    let seed = Seed(1).derive("bootstrap");
    let drawn = |number: u64| runs[(seed.nth(number).0 % runs.len() as u64) as usize];
    let mean = |place: u64| (0..count).map(|run| drawn(count * place + run)).sum::<f64>() / count as f64;
    match runs.is_empty() {
        true => Vec::new(),
        false => (0..1000).map(mean).collect(),
    }
}

/// Between which values 95 % of the means of so many runs lie.
pub fn means_of(runs: &[f64], count: u64) -> Option<[f64; 2]> {
    let means = Summary::of(draws(runs, count))?;
    Some([means.percentile(0.025), means.percentile(0.975)])
}

/// How far two means of ten runs of one and the same cell are apart, as the logarithm of their ratio: the mean of 500 pairs of draws. Not a
/// number without runs.
pub fn apart_by_luck(runs: &[f64]) -> f64 {
    let draws = draws(runs, 10);
    let (one, other) = draws.split_at(draws.len() / 2);
    let pairs = one.iter().zip(other).map(|(one, other)| (one / other).ln().abs());
    Summary::of(pairs).map_or(f64::NAN, |all| all.mean)
}

fn cell_of(record: &RunRecord) -> Result<PaperCell> {
    cell(record.case.as_deref(), &record.values)
}

/// Which cell a case with these swept values is.
pub fn cell(case: Option<&str>, values: &[(String, String)]) -> Result<PaperCell> {
    let value = |key: &str| {
        let found = values.iter().find(|(path, _)| path.ends_with(key)).map(|(_, value)| value);
        found.doing(format!("a run without `{key}`"))
    };
    let case = case.unwrap_or_default();
    let protocol = PROTOCOLS.iter().position(|known| *known == case).doing("a run of no protocol")?;
    let number = |key: &str| {
        let text = value(key)?.trim_matches('"').trim_end_matches(" s");
        text.parse::<f64>().ok().doing(format!("a run whose `{key}` is `{text}`"))
    };
    let (on, rate) = (number(".on")? as u32, number(".rate")?);
    Ok(PaperCell { on, protocol, rate: (rate * 100.0).round() as u32 })
}

/// Spearman's rank correlation: that of Pearson between the ranks, of which equal values share the mean.
fn spearman(a: &[f64], b: &[f64]) -> f64 {
    let (a, b) = (ranks(a), ranks(b));
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (mean_a, mean_b) = (mean(&a), mean(&b));
    let both: f64 = a.iter().zip(&b).map(|(x, y)| (x - mean_a) * (y - mean_b)).sum();
    let squares = |values: &[f64], mean: f64| values.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
    both / (squares(&a, mean_a) * squares(&b, mean_b)).sqrt()
}

fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    for equal in order.chunk_by(|a, b| values[*a] == values[*b]) {
        let below = values.iter().filter(|value| **value < values[equal[0]]).count();
        for index in equal {
            ranks[*index] = below as f64 + (equal.len() - 1) as f64 / 2.0;
        }
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_luck_of_ten_runs_is_as_wide_as_their_spread() {
        assert_eq!(means_of(&[20.0; 12], 10), Some([20.0, 20.0]));
        assert_eq!((means_of(&[], 10), apart_by_luck(&[20.0; 12])), (None, 0.0));
        // One run of ten takes a hundred seconds longer: ten runs meet none to three or four such.
        let mut times = [20.0; 10];
        times[3] = 120.0;
        let [low, high] = means_of(&times, 10).unwrap();
        assert!(low == 20.0 && (45.0..=60.0).contains(&high), "{low} to {high}");
        let [_, of_twenty] = means_of(&times, 20).unwrap();
        assert!((35.0..=45.0).contains(&of_twenty) && of_twenty < high, "{of_twenty}, {high} of ten");
        // Of a normal variable that scatters by a tenth, means of ten scatter by 3.2 %, and two of them are 3.6 % apart on average.
        let runs: Vec<f64> = (1..1000).map(|at| 1.0 + 0.1 * f64::sin(f64::from(at)) * 2f64.sqrt()).collect();
        assert!((0.03..0.042).contains(&apart_by_luck(&runs)), "{}", apart_by_luck(&runs));
    }

    #[test]
    fn ranks_do_not_see_how_much() {
        assert!((spearman(&[1.0, 2.0, 3.0, 400.0], &[10.0, 20.0, 21.0, 22.0]) - 1.0).abs() < 1e-12);
        assert!((spearman(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0]) + 1.0).abs() < 1e-12);
        assert_eq!(ranks(&[5.0, 1.0, 5.0]), [1.5, 0.0, 1.5]);
        // Worked by hand: differences of ranks 1, 1, 0, 0 give 1 - 6·2/(4·15).
        assert!((spearman(&[1.0, 2.0, 3.0, 4.0], &[2.0, 1.0, 3.0, 4.0]) - 0.8).abs() < 1e-12);
    }
}
