//! Live runs take as long as what they measure. So each is written down when it is done, and what was interrupted goes on.
use crate::live::{self, Bounds};
use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use shorthaul_report::Manifest;
use shorthaul_scenario::Study;
use shorthaul_sim::{Run, RunRecord};
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// How live runs are done, and where they are kept.
#[derive(Clone, Debug)]
pub(super) struct Live<'a> {
    /// A file of JSON lines for each scenario.
    pub directory: PathBuf,
    /// So many at once: as the machine can bear without being late.
    pub jobs: usize,
    pub bounds: &'a Bounds,
}

/// A run of a scenario, which its text names: another text is another scenario.
#[derive(Serialize, Deserialize)]
struct Line {
    sha256: String,
    record: RunRecord,
}

impl Live<'_> {
    /// Does those of the runs that are not kept yet, and calls `done` after each.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub fn run_all(
        &self,
        name: &str,
        study: &Study,
        runs: &[Run],
        done: impl Fn() + Sync,
    ) -> anyhow::Result<Vec<RunRecord>> {
        let path = self.directory.join(format!("{name}.jsonl"));
        let manifest = Manifest::new("shorthaul", env!("CARGO_PKG_VERSION")).scenario(name, study.text());
        let sha256 = manifest.scenarios[0].sha256.clone();
        let mut records = read(&path, &sha256)?;
        let is_missing = |run: &&Run| !records.iter().any(|r| r.point == run.point + 1 && r.seed == run.seed);
        let missing: Vec<Run> = runs.iter().filter(is_missing).copied().collect();
        (missing.len()..runs.len()).for_each(|_| done());
        let cannot = || format!("cannot write {}", path.display());
        std::fs::create_dir_all(&self.directory).with_context(cannot)?;
        let file = OpenOptions::new().create(true).append(true).open(&path).with_context(cannot)?;
        let file = Mutex::new(file);
        let failed = Mutex::new(None);
        let keep = |record: &RunRecord| {
            done();
            if record.outcome.is_none() {
                return; // it may work the next time
            }
            let written = append(&file, &Line { sha256: sha256.clone(), record: record.clone() });
            if let (Err(error), Ok(mut failed)) = (written, failed.lock()) {
                failed.get_or_insert(error);
            }
        };
        records.extend(live::run_all(study, &missing, self.jobs, self.bounds, keep)?);
        if let Some(error) = failed.into_inner().ok().flatten() {
            return Err(error.context(cannot()));
        }
        records.retain(|r| runs.iter().any(|run| r.point == run.point + 1 && r.seed == run.seed));
        records.sort_by_key(|record| (record.point, record.seed));
        Ok(records)
    }
}

/// What is kept of the scenario with this hash. The last line may be cut off by an interruption: it is left out.
fn read(path: &Path, sha256: &str) -> anyhow::Result<Vec<RunRecord>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
    Ok(lines.filter(|line| line.sha256 == sha256).map(|line| line.record).collect())
}

fn append(file: &Mutex<std::fs::File>, line: &Line) -> anyhow::Result<()> {
    let mut text = serde_json::to_string(line)?;
    text.push('\n');
    // A thread that panicked while it wrote has at worst left half a line, which is left out when read.
    let mut file = file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    Ok(file.write_all(text.as_bytes())?)
}
