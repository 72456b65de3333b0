//! Runs that are done stay done: one line for each in a file, so that what was interrupted goes on.
use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressStyle};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use shorthaul_report::{Manifest, Terminal};
use shorthaul_sim::ENGINE;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

/// A scenario, as text, and the seed to run it with.
pub type Job = (String, u64);

/// The results of runs, by scenario and seed, in a file of JSON lines.
///
/// A simulation of the same scenario and seed gives the same result for ever, unless the simulator changes: a hash of its
/// code is part of the key, so what another engine found is done again.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    known: BTreeMap<(String, u64), f64>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    scenario: String,
    seed: u64,
    seconds: f64,
}

/// A short name for a scenario's text and the engine that runs it.
fn key(scenario: &str) -> String {
    let manifest = Manifest::new("shorthaul", ENGINE).scenario("chain", &format!("{ENGINE}\n{scenario}"));
    manifest.scenarios[0].sha256[..24].to_owned()
}

impl Ledger {
    /// The results in the file at `path`, which need not be there yet.
    ///
    /// # Errors
    /// If it cannot be read. The last line may be cut off by an interruption: it is left out.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let mut known = BTreeMap::new();
        if path.exists() {
            let text =
                std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
            let lines = text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
            known.extend(lines.map(|line| ((line.scenario, line.seed), line.seconds)));
        }
        Ok(Ledger { path: path.to_owned(), known })
    }

    /// Results of a scenario with the seeds from `first` on, `count` of them.
    ///
    /// # Errors
    /// If one of them was not run.
    pub fn all(&self, scenario: &str, first: u64, count: u64) -> anyhow::Result<Vec<f64>> {
        let key = key(scenario);
        (first..first + count)
            .map(|seed| self.known.get(&(key.clone(), seed)).copied().context("a run is missing"))
            .collect()
    }

    /// Does what is not done yet with `run`, on all cores, and writes down each result as it comes.
    ///
    /// # Errors
    /// The first failed run, with its seed and scenario; and if the file cannot be written.
    pub fn fill(
        &mut self,
        jobs: impl IntoIterator<Item = Job>,
        run: impl Fn(&str, u64) -> Result<f64, String> + Sync,
    ) -> anyhow::Result<()> {
        let mut seen = BTreeSet::new();
        let missing: Vec<(String, Job)> = jobs
            .into_iter()
            .map(|job| (key(&job.0), job))
            .filter(|(key, (_, seed))| !self.known.contains_key(&(key.clone(), *seed)))
            .filter(|(key, (_, seed))| seen.insert((key.clone(), *seed)))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let cannot = || format!("cannot write {}", self.path.display());
        if let Some(parent) = self.path.parent() {
            std::fs::create_dir_all(parent).with_context(cannot)?;
        }
        let file = OpenOptions::new().create(true).append(true).open(&self.path).with_context(cannot)?;
        let file = Mutex::new(file);
        let progress = progress(missing.len());
        let found: Vec<((String, u64), f64)> = missing
            .par_iter()
            .map(|(key, (scenario, seed))| {
                let seconds = run(scenario, *seed)
                    .map_err(|problem| anyhow::anyhow!("{problem}; seed {seed} of\n{scenario}"))?;
                append(&file, &Line { scenario: key.clone(), seed: *seed, seconds })?;
                progress.inc(1);
                Ok(((key.clone(), *seed), seconds))
            })
            .collect::<anyhow::Result<_>>()?;
        progress.finish_and_clear();
        self.known.extend(found);
        Ok(())
    }
}

fn append(file: &Mutex<File>, line: &Line) -> anyhow::Result<()> {
    let mut text = serde_json::to_string(line)?;
    text.push('\n');
    // A thread that panicked while it wrote has at worst left half a line, which is left out when read.
    let mut file = file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    Ok(file.write_all(text.as_bytes())?)
}

fn progress(runs: usize) -> ProgressBar {
    if !Terminal::stderr().interactive {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} runs, {elapsed} so far, {eta} left");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("━╸─");
    let bar = ProgressBar::new(runs as u64).with_style(style);
    bar.enable_steady_tick(Duration::from_millis(250));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn what_was_interrupted_goes_on_where_it_was() {
        let directory = std::env::temp_dir().join(format!("shorthaul-ledger-{}", std::process::id()));
        let path = directory.join("runs.jsonl");
        let runs = AtomicUsize::new(0);
        let run = |scenario: &str, seed: u64| {
            runs.fetch_add(1, Ordering::Relaxed);
            if seed == 9 { Err("too slow".to_owned()) } else { Ok(scenario.len() as f64 + seed as f64) }
        };
        let jobs = |seeds: &[u64]| seeds.iter().map(|seed| ("abc".to_owned(), *seed)).collect::<Vec<Job>>();
        let mut ledger = Ledger::open(&path).unwrap();
        ledger.fill(jobs(&[1, 2, 2]), run).unwrap();
        assert_eq!(runs.load(Ordering::Relaxed), 2, "the same run is done once");
        // Half a line, as an interruption leaves it, costs that run alone.
        let mut text = std::fs::read_to_string(&path).unwrap();
        text.truncate(text.len() - 4);
        std::fs::write(&path, text + "\n").unwrap();
        let mut again = Ledger::open(&path).unwrap();
        again.fill(jobs(&[1, 2, 3]), run).unwrap();
        assert_eq!(runs.load(Ordering::Relaxed), 4);
        assert_eq!(again.all("abc", 1, 3).unwrap(), [4.0, 5.0, 6.0]);
        assert!(again.all("abd", 1, 1).is_err(), "another scenario is another run");
        let said = again.fill(jobs(&[9]), run).unwrap_err().to_string();
        assert!(said.contains("too slow; seed 9"), "{said}");
        std::fs::remove_dir_all(directory).unwrap();
    }
}
