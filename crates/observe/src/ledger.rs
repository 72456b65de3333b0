//! One number for each scenario and seed, kept so that what was interrupted goes on.
use crate::campaign::in_parallel;
use crate::{Key, Store, StoreError};
use shorthaul_report::{Console, Progress};
use std::collections::BTreeSet;
use std::path::Path;

/// A scenario, as text, and the seed to run it with.
pub type Job = (String, u64);

/// One number for each scenario and seed, such as a time, in a [`Store`].
#[derive(Debug)]
pub struct Ledger {
    store: Store,
    version: String,
}

/// Why a ledger does not have a number.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// A run failed.
    #[error("{problem}; seed {seed} of\n{scenario}")]
    Run {
        /// What it said.
        problem: String,
        /// The seed.
        seed: u64,
        /// The text of the scenario.
        scenario: String,
    },
    /// A run was not done.
    #[error("a run is missing: seed {seed} of\n{scenario}")]
    Missing {
        /// The seed.
        seed: u64,
        /// The text of the scenario.
        scenario: String,
    },
}

impl Ledger {
    /// The numbers in `directory` that this version of an engine has found.
    ///
    /// # Errors
    /// If the directory cannot be made.
    pub fn open(directory: &Path, version: &str) -> Result<Self, StoreError> {
        Ok(Ledger { store: Store::open(directory)?, version: version.to_owned() })
    }

    fn key(&self, scenario: &str, seed: u64) -> Key {
        Key::of([self.version.as_bytes(), scenario.as_bytes(), &seed.to_le_bytes()])
    }

    /// The numbers of a scenario with the seeds from `first` on, `count` of them.
    ///
    /// # Errors
    /// If one of them was not run.
    pub fn all(&self, scenario: &str, first: u64, count: u64) -> Result<Vec<f64>, LedgerError> {
        let of_seed = |seed| {
            let missing = || LedgerError::Missing { seed, scenario: scenario.to_owned() };
            self.store.get(&self.key(scenario, seed)).ok_or_else(missing)
        };
        (first..first + count).map(of_seed).collect()
    }

    /// Does what is not done yet with `run`, on all cores, and keeps each number as it comes.
    ///
    /// # Errors
    /// The first failed run, with its seed and scenario.
    pub fn fill(
        &self,
        jobs: impl IntoIterator<Item = Job>,
        run: impl Fn(&str, u64) -> Result<f64, String> + Sync,
        console: &dyn Console,
    ) -> Result<(), LedgerError> {
        let mut seen = BTreeSet::new();
        let missing: Vec<(Key, Job)> = jobs
            .into_iter()
            .map(|job| (self.key(&job.0, job.1), job))
            .filter(|(key, _)| self.store.get::<f64>(key).is_none())
            .filter(|(key, _)| seen.insert(key.clone()))
            .collect();
        let progress = Progress::begin(console, missing.len());
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        in_parallel(threads, missing, |(key, (scenario, seed))| {
            let number = run(&scenario, seed).map_err(|problem| LedgerError::Run {
                problem,
                seed,
                scenario: scenario.clone(),
            })?;
            self.store.put(&key, &number);
            progress.step("");
            Ok(())
        })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shorthaul_report::Silence;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn what_was_interrupted_goes_on_where_it_was() {
        let directory = std::env::temp_dir().join(format!("shorthaul-ledger-{}", std::process::id()));
        let runs = AtomicUsize::new(0);
        let run = |scenario: &str, seed: u64| {
            runs.fetch_add(1, Ordering::Relaxed);
            if seed == 9 { Err("too slow".to_owned()) } else { Ok(scenario.len() as f64 + seed as f64) }
        };
        let jobs = |seeds: &[u64]| seeds.iter().map(|seed| ("abc".to_owned(), *seed)).collect::<Vec<Job>>();
        let ledger = Ledger::open(&directory, "1").unwrap();
        ledger.fill(jobs(&[1, 2, 2]), run, &Silence).unwrap();
        assert_eq!(runs.load(Ordering::Relaxed), 2, "the same run is done once");
        let again = Ledger::open(&directory, "1").unwrap();
        again.fill(jobs(&[1, 2, 3]), run, &Silence).unwrap();
        assert_eq!(runs.load(Ordering::Relaxed), 3);
        assert_eq!(again.all("abc", 1, 3).unwrap(), [4.0, 5.0, 6.0]);
        assert!(again.all("abd", 1, 1).is_err(), "another scenario is another run");
        let said = again.fill(jobs(&[9]), run, &Silence).unwrap_err().to_string();
        assert!(said.contains("too slow; seed 9"), "{said}");
        let newer = Ledger::open(&directory, "2").unwrap();
        assert!(newer.all("abc", 1, 1).is_err(), "another engine finds other numbers");
        std::fs::remove_dir_all(directory).unwrap();
    }
}
