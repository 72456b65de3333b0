//! A scenario file of a paper, and its runs.
use crate::error::{PaperError, Result};
use shorthaul_observe::{Engine, Run, RunRecord, Store, run_all, runs_of};
use shorthaul_report::{Console, Manifest, Progress};
use shorthaul_scenario::Study;

/// The study of a paper's scenario file, with another number of seeds where one is asked for.
pub(crate) fn study(name: &str, text: &str, repeats: Option<u32>) -> Result<Study> {
    let study = Study::from_toml(&format!("{name}.toml"), text)?;
    let first = study.seeds().next().unwrap_or(1);
    Ok(match repeats {
        Some(repeats) => study.with_seeds(first, repeats),
        None => study,
    })
}

/// What produced the results of a study.
pub(crate) fn manifest(study: &Study) -> Manifest {
    let first = study.seeds().next().unwrap_or(1);
    Manifest::of_this_command().seed(first).scenario(study.name(), study.text())
}

/// All the runs of a study by an engine. Those in the store are not done again.
pub(crate) fn records(
    engine: &dyn Engine,
    study: &Study,
    store: Option<&Store>,
    console: &dyn Console,
) -> Result<Vec<RunRecord>> {
    records_of(engine, study, &runs_of(study), store, console)
}

/// The same for some of the runs.
pub(crate) fn records_of(
    engine: &dyn Engine,
    study: &Study,
    runs: &[Run],
    store: Option<&Store>,
    console: &dyn Console,
) -> Result<Vec<RunRecord>> {
    let progress = Progress::begin(console, runs.len());
    Ok(run_all(engine, study, runs, store, &progress, |_| ())?)
}

/// The records, unless one of the runs failed.
pub(crate) fn all_sound(records: Vec<RunRecord>) -> Result<Vec<RunRecord>> {
    match records.iter().find_map(|record| Some((record, record.failure.as_ref()?))) {
        Some((RunRecord { point, seed, .. }, failure)) => {
            Err(PaperError::failed(format!("point {point}, seed {seed}: {failure}")))
        }
        None => Ok(records),
    }
}
