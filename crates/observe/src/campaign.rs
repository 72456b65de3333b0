//! All the runs of a study by one engine, with results that are kept.
use crate::{Engine, EngineName, Key, Outcome, Store};
use serde::{Deserialize, Serialize};
use shorthaul_report::{PARTS, Progress};
use shorthaul_scenario::{ScenarioError, Study};
use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

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
    pub engine: EngineName,
    /// What it came to.
    pub outcome: Option<Outcome>,
    /// Why there is no outcome, or why it is not to be trusted.
    pub failure: Option<String>,
    /// The part of the runs that it belongs to, where several machines share them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<Shard>,
}

/// Which part of the runs one of several machines does: part `number` (from 1) of `of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Shard {
    number: usize,
    of: usize,
}

impl TryFrom<String> for Shard {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Shard> for String {
    fn from(shard: Shard) -> String {
        shard.to_string()
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
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

    /// The parts of which none of these runs is, in order, one by one: a file may speak of any number. A part of which nothing is there may also be one that had nothing to do: more machines than runs.
    pub fn missing(records: &[RunRecord]) -> impl Iterator<Item = Shard> + use<> {
        let there: BTreeSet<Shard> = records.iter().filter_map(|record| record.part).collect();
        let wholes: BTreeSet<usize> = there.iter().map(|part| part.of).collect();
        let parts = wholes.into_iter().flat_map(|of| (1..=of).map(move |number| Shard { number, of }));
        parts.filter(move |part| !there.contains(part))
    }
}

/// Every run of a study, in order: point by point, and for each the seeds.
pub fn runs_of(study: &Study) -> Vec<Run> {
    let points = 0..study.points().len();
    points.flat_map(|point| study.seeds().map(move |seed| Run { point, seed })).collect()
}

impl RunRecord {
    /// What came of a run of the study by an engine.
    pub fn of(study: &Study, run: Run, engine: EngineName, result: Result<Outcome, String>) -> Self {
        let (outcome, failure) = match result {
            Ok(outcome) => {
                let failure = (!outcome.problems.is_empty()).then(|| outcome.problems.join("; "));
                (Some(outcome), failure)
            }
            Err(error) => (None, Some(error)),
        };
        let point = &study.points()[run.point];
        RunRecord {
            scenario: study.name().to_owned(),
            point: run.point + 1,
            case: point.case.clone(),
            values: point.values.clone(),
            seed: run.seed,
            engine,
            outcome,
            failure,
            part: None,
        }
    }
}

/// Those of the runs that tell something: of an engine that gives expected values, the first of each point.
pub fn telling_runs(engine: &dyn Engine, runs: &[Run]) -> Vec<Run> {
    let mut telling = runs.to_vec();
    if !engine.draws() {
        let mut points = std::collections::BTreeSet::new();
        telling.retain(|run| points.insert(run.point));
    }
    telling
}

/// Does the runs, as many at once as the engine says. A run is a step of `progress`, which is told how far it
/// is; `done` is told of its record. The records come in the order of `runs`.
///
/// # Errors
/// If a point makes no sense; not for the study's own points.
pub fn run_all(
    engine: &dyn Engine,
    study: &Study,
    runs: &[Run],
    store: Option<&Store>,
    progress: &Progress<'_>,
    done: impl Fn(&RunRecord) + Sync,
) -> Result<Vec<RunRecord>, ScenarioError> {
    in_parallel(engine.at_once(), runs.iter().copied(), |run| {
        let told = AtomicU64::new(0);
        let reached = |share: f64| {
            let parts = (share.clamp(0.0, 1.0) * PARTS as f64) as u64;
            let before = told.fetch_max(parts, Ordering::Relaxed);
            if parts > before {
                progress.advance(parts - before);
            }
        };
        let record = do_run(engine, study, run, store, &reached)?;
        reached(1.0);
        done(&record);
        Ok(record)
    })
}

/// Calls `task` for each of `items` on this many threads, begun in their order.
///
/// # Errors
/// The first failure; after it nothing more is begun.
pub fn in_parallel<I: Send, T: Send, E: Send>(
    threads: usize,
    items: impl IntoIterator<Item = I>,
    task: impl Fn(I) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let items: VecDeque<(usize, I)> = items.into_iter().enumerate().collect();
    let threads = threads.clamp(1, items.len().max(1));
    let results: Mutex<Vec<(usize, Result<T, E>)>> = Mutex::new(Vec::with_capacity(items.len()));
    let waiting = Mutex::new(items);
    // A poisoned lock means that a task has panicked; the scope passes that on.
    let next = || waiting.lock().ok().and_then(|mut items| items.pop_front());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((place, item)) = next() {
                    let result = task(item);
                    let failed = result.is_err();
                    let Ok(mut results) = results.lock() else { return };
                    results.push((place, result));
                    drop(results);
                    if failed && let Ok(mut items) = waiting.lock() {
                        items.clear();
                    }
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    results.sort_by_key(|(place, _)| *place);
    results.into_iter().map(|(_, result)| result).collect()
}

/// What the outcome of a run is kept by: engine, its version, what decides about the point's outcome, and the seed. `None`
/// for an engine whose outcomes are not worth keeping.
///
/// # Errors
/// If the point makes no sense; not for the study's own points.
pub fn key_of(engine: &dyn Engine, study: &Study, run: Run) -> Result<Option<Key>, ScenarioError> {
    let Some(version) = engine.version() else { return Ok(None) };
    let fingerprint = study.fingerprint(&study.points()[run.point])?;
    let name = engine.name().name();
    Ok(Some(Key::of([name.as_bytes(), version.as_bytes(), fingerprint.as_bytes(), &run.seed.to_le_bytes()])))
}

fn do_run(
    engine: &dyn Engine,
    study: &Study,
    run: Run,
    store: Option<&Store>,
    reached: &dyn Fn(f64),
) -> Result<RunRecord, ScenarioError> {
    let point = &study.points()[run.point];
    let name = engine.name();
    let key = match store {
        Some(_) => key_of(engine, study, run)?,
        None => None,
    };
    if let Some(outcome) = store.zip(key.as_ref()).and_then(|(store, key)| store.get::<Outcome>(key)) {
        return Ok(RunRecord::of(study, run, name, Ok(outcome)));
    }
    let scenario = study.scenario(point)?;
    // A mistake in the program ends this run, not the others.
    let result = catch_unwind(AssertUnwindSafe(|| engine.run(&scenario, run.seed, reached)));
    let result = match result {
        Ok(Ok(seen)) => Ok(seen.outcome_of(&scenario, run.seed)),
        Ok(Err(error)) => Err(error.to_string()),
        Err(panic) => Err(message_of(name, &*panic)),
    };
    if let (Ok(outcome), Some(store), Some(key)) = (&result, store, &key) {
        store.put(key, outcome);
    }
    Ok(RunRecord::of(study, run, name, result))
}

fn message_of(engine: EngineName, panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    format!(
        "the engine `{engine}` failed: {text}; this is a mistake in shorthaul, please report it with the scenario and the seed"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EngineError, Observations};
    use shorthaul_report::{Console, Table};
    use shorthaul_scenario::Scenario;
    use std::sync::atomic::AtomicUsize;

    /// How far it was said to be.
    #[derive(Default)]
    struct Told(Mutex<Vec<u64>>);

    impl Console for Told {
        fn advance(&self, parts: u64) {
            self.0.lock().unwrap().push(parts);
        }

        fn say(&self, _: &str) {}
        fn table(&self, _: &Table) {}
        fn warn(&self, _: &str) {}
        fn begin(&self, _: usize) {}
        fn extend(&self, _: usize) {}
        fn note(&self, _: &str) {}
        fn end(&self) {}
    }

    /// Tells that it has come further, and once that it has gone back.
    struct Stepwise;

    impl Engine for Stepwise {
        fn name(&self) -> EngineName {
            EngineName::Sim
        }

        fn version(&self) -> Option<String> {
            None
        }

        fn refusals(&self, _: &Scenario) -> Vec<String> {
            Vec::new()
        }

        fn run(&self, _: &Scenario, _: u64, reached: &dyn Fn(f64)) -> Result<Observations, EngineError> {
            [0.25, 0.7, 0.5, 0.7].into_iter().for_each(reached);
            Ok(Observations::default())
        }
    }

    #[test]
    fn what_a_run_has_reached_is_told_and_makes_a_whole_step_at_its_end() {
        let text = "duration = \"1 s\"\nhosts = { a = {}, b = {} }\nlinks = [{ between = [\"a\", \"b\"], link = {} }]\n\
                    flows = [{ from = \"a\", to = \"b\", bulk = \"1 kB\" }]\n";
        let study = Study::from_toml("s.toml", text).unwrap();
        let told = Told::default();
        let progress = Progress::begin(&told, 1);
        let records = run_all(&Stepwise, &study, &runs_of(&study), None, &progress, |_| ()).unwrap();
        assert_eq!(records.len(), 1);
        drop(progress);
        let parts = told.0.into_inner().unwrap();
        assert_eq!(parts, [PARTS / 4, 7 * PARTS / 10 - PARTS / 4, 3 * PARTS / 10]);
    }

    #[test]
    fn however_many_parts_there_are_said_to_be_some_are_named() {
        let text = "duration = \"1 s\"\nhosts = { a = {}, b = {} }\nlinks = [{ between = [\"a\", \"b\"], link = {} }]\n\
                    flows = [{ from = \"a\", to = \"b\", bulk = \"1 kB\" }]\n";
        let study = Study::from_toml("s.toml", text).unwrap();
        let of = |part: &str| {
            let part = Some(part.parse::<Shard>().unwrap());
            let record = RunRecord::of(&study, runs_of(&study)[0], EngineName::Sim, Err("none".into()));
            RunRecord { part, ..record }
        };
        let named = |records: &[RunRecord]| {
            Shard::missing(records).take(3).map(|part| part.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(
            named(&[of("2/1000000000000")]),
            ["1/1000000000000", "3/1000000000000", "4/1000000000000"]
        );
        assert_eq!(named(&[of("1/2"), of("2/3")]), ["2/2", "1/3", "3/3"]);
        assert_eq!(named(&[of("1/2"), of("2/2")]), [""; 0]);
    }

    #[test]
    fn results_come_in_the_order_of_the_items() {
        let items: Vec<u64> = (0..50).collect();
        let doubled = in_parallel(4, &items, |item| Ok::<_, ()>(item * 2)).unwrap();
        assert_eq!(doubled, items.iter().map(|item| item * 2).collect::<Vec<_>>());
        assert_eq!(in_parallel(4, [], |item: u64| Ok::<_, ()>(item)), Ok(Vec::new()));
    }

    #[test]
    fn after_a_failure_nothing_more_is_begun() {
        let begun = AtomicUsize::new(0);
        let items: Vec<u64> = (0..50).collect();
        let result = in_parallel(1, &items, |item| {
            begun.fetch_add(1, Ordering::Relaxed);
            if *item == 3 { Err("three") } else { Ok(()) }
        });
        assert_eq!(result, Err("three"));
        assert_eq!(begun.load(Ordering::Relaxed), 4);
    }
}
