//! The runs of cells: each direct and through the gateway with the same seeds, kept so that none is made twice.
use crate::direct_or_split::DirectOrSplit;
use crate::error::{Result, TrialError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use shorthaul_observe::{Key, Store, in_parallel};
use shorthaul_report::{Console, Progress};
use shorthaul_scenario::Study;
use shorthaul_sim::ENGINE;

/// A cell: two scenarios that differ in nothing but the gateway, and what of a run counts.
pub(super) trait Cell: Sync {
    /// What counts.
    type Figures: Serialize + DeserializeOwned + Clone;
    /// What figures are made of: another one makes all runs anew.
    const VERSION: &'static str;

    /// Such as `lte/cubic/bulk`.
    fn name(&self) -> String;

    /// Whether there is a gateway is all that differs, and `with` is what it is told.
    fn scenario(&self, way: DirectOrSplit, with: &[String], seed: u64) -> String;

    /// Runs a scenario of it.
    ///
    /// # Errors
    /// What is wrong with it, or went wrong in it.
    fn run(&self, text: &str, seed: u64) -> Result<Self::Figures, String>;

    /// Whether its scenarios make sense.
    fn check(&self, with: &[String]) -> Result<()> {
        for way in [DirectOrSplit::Direct, DirectOrSplit::Split] {
            Study::from_toml(&self.name(), &self.scenario(way, with, 1))?;
        }
        Ok(())
    }
}

/// What came of a cell, and whether it is what was asked for.
pub(super) trait Verdict {
    /// Whether other seeds might say otherwise.
    fn is_in_doubt(&self) -> bool;
}

/// The runs of a cell, seed by seed.
#[derive(Clone, Debug)]
pub(super) struct Compared<F> {
    pub direct: Vec<F>,
    pub gateway: Vec<F>,
}

/// Which runs are made, and where they are kept.
pub(super) struct Runs<'a> {
    pub with: &'a [String],
    /// The first seed, how many there are of every cell, and at most of one that is near to a bound.
    pub seed: u64,
    pub seeds: u64,
    pub most: u64,
    pub jobs: usize,
    pub store: &'a Store,
    pub console: &'a dyn Console,
}

impl Runs<'_> {
    /// Runs what is to be run, first all cells with few seeds, then those in doubt with more.
    pub fn judge<'c, C: Cell, V: Verdict>(
        &self,
        cells: &'c [C],
        verdict: impl Fn(&'c C, Compared<C::Figures>) -> V,
    ) -> Result<Vec<V>> {
        let progress = Progress::begin(self.console, 0);
        let mut seeds = vec![self.seeds; cells.len()];
        loop {
            self.fill(cells.iter().zip(&seeds), &progress)?;
            let judged: Vec<V> = cells
                .iter()
                .zip(&seeds)
                .map(|(cell, seeds)| Ok(verdict(cell, self.compared(cell, *seeds)?)))
                .collect::<Result<_>>()?;
            let mut more = false;
            for (judged, seeds) in judged.iter().zip(&mut seeds) {
                if judged.is_in_doubt() && *seeds < self.most {
                    *seeds = (2 * *seeds).min(self.most);
                    more = true;
                }
            }
            if !more {
                return Ok(judged);
            }
        }
    }

    fn key<C: Cell>(text: &str, seed: u64) -> Key {
        Key::of([ENGINE.as_bytes(), C::VERSION.as_bytes(), text.as_bytes(), &seed.to_le_bytes()])
    }

    /// Makes the runs that were not made yet.
    fn fill<'c, C: Cell + 'c>(
        &self,
        cells: impl Iterator<Item = (&'c C, &'c u64)>,
        progress: &Progress<'_>,
    ) -> Result<()> {
        let mut missing = Vec::new();
        for (cell, seeds) in cells {
            for way in [DirectOrSplit::Direct, DirectOrSplit::Split] {
                for seed in self.seed..self.seed + seeds {
                    let text = cell.scenario(way, self.with, seed);
                    let key = Self::key::<C>(&text, seed);
                    if self.store.get::<C::Figures>(&key).is_none() {
                        missing.push((key, text, seed, cell));
                    }
                }
            }
        }
        progress.extend(missing.len());
        in_parallel(self.jobs, missing, |(key, text, seed, cell)| {
            let figures = cell
                .run(&text, seed)
                .map_err(|why| TrialError::Failed(format!("{}, seed {seed}: {why}", cell.name())))?;
            self.store.put(&key, &figures);
            progress.step("");
            Ok::<(), TrialError>(())
        })?;
        Ok(())
    }

    fn compared<C: Cell>(&self, cell: &C, seeds: u64) -> Result<Compared<C::Figures>> {
        let figures = |way| {
            let of = |seed| self.store.get(&Self::key::<C>(&cell.scenario(way, self.with, seed), seed));
            let all = (self.seed..self.seed + seeds).map(of);
            let lost = || TrialError::Failed("what was run is not where it was kept".into());
            all.collect::<Option<Vec<_>>>().ok_or_else(lost)
        };
        Ok(Compared { direct: figures(DirectOrSplit::Direct)?, gateway: figures(DirectOrSplit::Split)? })
    }
}
