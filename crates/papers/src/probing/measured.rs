//! The simulated tables.
use super::paper::{PROTOCOLS, PaperCell, Stated};
use crate::error::{Result, While};
use shorthaul_observe::{RunRecord, Summary};
use shorthaul_report::{Csv, Field, Manifest, ReportError};
use shorthaul_scenario::Metric;
use std::collections::BTreeMap;

/// What came of a cell.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Task completion time in seconds.
    pub time: Summary,
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
            let measured = Measured {
                time: summary(Metric::Completion)?,
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

/// Which cell a run belongs to.
fn cell_of(record: &RunRecord) -> Result<PaperCell> {
    let value = |key: &str| {
        let found = record.values.iter().find(|(path, _)| path.ends_with(key)).map(|(_, value)| value);
        found.doing(format!("a run without `{key}`"))
    };
    let case = record.case.as_deref().unwrap_or_default();
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
    fn ranks_do_not_see_how_much() {
        assert!((spearman(&[1.0, 2.0, 3.0, 400.0], &[10.0, 20.0, 21.0, 22.0]) - 1.0).abs() < 1e-12);
        assert!((spearman(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0]) + 1.0).abs() < 1e-12);
        assert_eq!(ranks(&[5.0, 1.0, 5.0]), [1.5, 0.0, 1.5]);
        // Worked by hand: differences of ranks 1, 1, 0, 0 give 1 - 6·2/(4·15).
        assert!((spearman(&[1.0, 2.0, 3.0, 4.0], &[2.0, 1.0, 3.0, 4.0]) - 0.8).abs() < 1e-12);
    }
}
