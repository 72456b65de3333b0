//! All the runs of a study: on all cores, with results that are kept.
use crate::cache::Cache;
use crate::{Outcome, Recording, simulate};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use shorthaul_scenario::{Engine, Point, ScenarioError, Study};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// One run of a study: a point, by its place in [`Study::points`], and a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Run {
    /// The point.
    pub point: usize,
    /// The seed.
    pub seed: u64,
}

/// A run that was done, with its outcome or what went wrong. As JSON it is one line of a results file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// The name of the scenario.
    pub scenario: String,
    /// The place of the point among the study's, from 1, as `--point` takes it.
    pub point: usize,
    /// The listed case, where there is one.
    pub case: Option<String>,
    /// The swept values by path.
    pub values: Vec<(String, String)>,
    /// The seed.
    pub seed: u64,
    /// What ran it.
    #[serde(default)]
    pub engine: Engine,
    /// What it came to.
    pub outcome: Option<Outcome>,
    /// Why there is no outcome, or why it is not to be trusted.
    pub failure: Option<String>,
}

/// Which part of the runs one of several machines does: part `number` (from 1) of `of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    number: usize,
    of: usize,
}

impl std::str::FromStr for Shard {
    type Err = String;

    /// Reads `2/8`.
    fn from_str(text: &str) -> Result<Self, String> {
        let parts =
            text.split_once('/').and_then(|(a, b)| Some((a.trim().parse().ok()?, b.trim().parse().ok()?)));
        match parts {
            Some((number, of)) if (1..=of).contains(&number) => Ok(Shard { number, of }),
            _ => Err(format!("`{text}` is no part of a whole: write 1/8 to 8/8 for eight machines")),
        }
    }
}

impl Shard {
    /// The runs that are this part's: every `of`th.
    pub fn choose(self, runs: Vec<Run>) -> Vec<Run> {
        runs.into_iter().skip(self.number - 1).step_by(self.of).collect()
    }
}

/// Every run of a study, in order: point by point, and for each the seeds.
pub fn runs_of(study: &Study) -> Vec<Run> {
    let points = 0..study.points().len();
    points.flat_map(|point| study.seeds().map(move |seed| Run { point, seed })).collect()
}

/// Does the runs, on as many threads as rayon's pool has, and calls `done` after each with whether its
/// outcome was known already. The records come in the order of `runs`.
///
/// # Errors
/// If a point makes no sense; not for the study's own points.
pub fn run_all(
    study: &Study,
    runs: &[Run],
    cache: Option<&Cache>,
    done: impl Fn(&RunRecord, bool) + Sync,
) -> Result<Vec<RunRecord>, ScenarioError> {
    let one = |run: &Run| {
        let (record, was_known) = do_run(study, *run, cache)?;
        done(&record, was_known);
        Ok(record)
    };
    runs.par_iter().map(one).collect()
}

fn do_run(study: &Study, run: Run, cache: Option<&Cache>) -> Result<(RunRecord, bool), ScenarioError> {
    let point = &study.points()[run.point];
    let key = match cache {
        Some(cache) => Some(cache.key(&study.fingerprint(point)?, run.seed)),
        None => None,
    };
    let known = cache.zip(key.as_deref()).and_then(|(cache, key)| cache.get(key));
    if let Some(outcome) = known {
        return Ok((record(study, point, run, Ok(outcome)), true));
    }
    let scenario = study.scenario(point)?;
    // a mistake in the program ends this run, not the others
    let result = catch_unwind(AssertUnwindSafe(|| simulate(&scenario, run.seed, Recording::default())));
    let result = match result {
        Ok(Ok(outcome)) => Ok(outcome),
        Ok(Err(error)) => Err(error.to_string()),
        Err(panic) => Err(message_of(&*panic)),
    };
    if let (Ok(outcome), Some(cache), Some(key)) = (&result, cache, &key) {
        cache.put(key, outcome);
    }
    Ok((record(study, point, run, result), false))
}

fn message_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    format!("the simulator failed: {text}; please report it with the scenario and the seed")
}

fn record(study: &Study, point: &Point, run: Run, result: Result<Outcome, String>) -> RunRecord {
    let (outcome, failure) = match result {
        Ok(outcome) => {
            let failure = (!outcome.problems.is_empty()).then(|| outcome.problems.join("; "));
            (Some(outcome), failure)
        }
        Err(error) => (None, Some(error)),
    };
    RunRecord {
        scenario: study.name().to_owned(),
        point: run.point + 1,
        case: point.case.clone(),
        values: point.values.clone(),
        seed: run.seed,
        engine: Engine::Sim,
        outcome,
        failure,
    }
}
