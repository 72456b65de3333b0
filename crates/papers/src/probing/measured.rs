//! The simulated tables.
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
            let times =
                runs.iter().filter_map(|record| record.outcome.as_ref()?.metrics.get(&Metric::Completion));
            let measured = Measured {
                time: summary(Metric::Completion)?,
                times: times.copied().collect(),
                overhead: summary(Metric::SenderOverhead)?,
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

    /// Our mean completion time in a cell, in seconds; not a number where there is none.
    pub fn time(&self, on: u32, protocol: usize, rate: u32) -> f64 {
        self.cells.get(&PaperCell { on, protocol, rate }).map_or(f64::NAN, |(measured, _)| measured.time.mean)
    }

    /// The paper's completion time in a cell, in seconds; not a number where there is none.
    pub fn stated(&self, on: u32, protocol: usize, rate: u32) -> f64 {
        self.cells.get(&PaperCell { on, protocol, rate }).map_or(f64::NAN, |(_, stated)| stated.time)
    }

    /// By how much ours differs from the paper's time, as a share of it.
    pub fn differences(&self) -> impl Iterator<Item = (PaperCell, f64)> {
        self.iter().map(|(cell, measured, stated)| (cell, measured.time.mean / stated.time - 1.0))
    }

    /// Spearman's rank correlation of our times with the paper's.
    pub fn rank_correlation(&self) -> f64 {
        let ours: Vec<f64> = self.iter().map(|(_, measured, _)| measured.time.mean).collect();
        let papers: Vec<f64> = self.iter().map(|(.., stated)| stated.time).collect();
        spearman(&ours, &papers)
    }

    /// The median of the absolute differences, as a share.
    pub fn median_difference(&self) -> f64 {
        Summary::of(self.differences().map(|(_, share)| share.abs()))
            .map_or(f64::NAN, |all| all.percentile(0.5))
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
    /// Between which times the means of ten runs lie, 95 % of them: a bootstrap of a thousand draws of ten of ours. That is how far a
    /// run's luck goes where the mean of ten runs is stated.
    pub fn means_of_ten(&self) -> Option<[f64; 2]> {
        if self.times.is_empty() {
            return None;
        }
        let seed = Seed(1).derive("bootstrap");
        let drawn = |number: u64| self.times[(seed.nth(number).0 % self.times.len() as u64) as usize];
        let mean_of_ten = |place: u64| (0..10).map(|run| drawn(10 * place + run)).sum::<f64>() / 10.0;
        let means = Summary::of((0..1000).map(mean_of_ten))?;
        Some([means.percentile(0.025), means.percentile(0.975)])
    }
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
        let of = |times: &[f64]| Measured {
            time: Summary::of(times.iter().copied()).unwrap(),
            times: times.to_vec(),
            overhead: Summary::of([1.0]).unwrap(),
            wire: Summary::of([1.0]).unwrap(),
        };
        assert_eq!(of(&[20.0; 12]).means_of_ten(), Some([20.0, 20.0]));
        // One run of ten takes a hundred seconds longer: ten runs meet none to three or four such.
        let mut times = [20.0; 10];
        times[3] = 120.0;
        let [low, high] = of(&times).means_of_ten().unwrap();
        assert!(low == 20.0 && (45.0..=60.0).contains(&high), "{low} to {high}");
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
