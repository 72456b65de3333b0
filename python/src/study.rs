//! Scenario files and their runs.
use crate::{EngineError, ScenarioError, value_error};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pythonize::pythonize;
use shorthaul_observe::{Engine, EngineName, Key, Outcome, Run, key_of};
use shorthaul_planner::ModelEngine;
use shorthaul_scenario as scenario;
use shorthaul_sim::Simulator;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;

/// The JSON schema of scenario files, for editors.
#[pyfunction]
pub fn schema() -> String {
    serde_json::Value::from(scenario::schema()).to_string()
}

/// The names of all metrics, each with its unit; an empty one for a plain number.
#[pyfunction]
pub fn metric_units() -> Vec<(&'static str, &'static str)> {
    scenario::Metric::ALL.map(|(_, name, unit)| (name, unit)).to_vec()
}

/// A scenario file that has been read and checked: points of a sweep, each to be run with several seeds.
#[pyclass(frozen, module = "shorthaul._shorthaul")]
pub struct Study(scenario::Study);

/// Python wants the run to end.
struct Interrupted(PyErr);

fn scenario_error(error: scenario::ScenarioError) -> PyErr {
    ScenarioError::new_err(error.to_string())
}

fn engine(name: &str) -> PyResult<Box<dyn Engine>> {
    match name.parse::<EngineName>().map_err(value_error)? {
        EngineName::Sim => Ok(Box::new(Simulator { jobs: Some(1) })),
        EngineName::Model => Ok(Box::new(ModelEngine)),
        EngineName::Live => Err(value_error(
            "live runs need namespaces of the kernel and a process of their own: shorthaul run FILE --engine live",
        )),
    }
}

#[pymethods]
impl Study {
    /// Reads a scenario. `name` is what errors call it; `directory` is where trace files are looked for.
    #[new]
    #[pyo3(signature = (text, name = "scenario", directory = None))]
    fn new(py: Python<'_>, text: &str, name: &str, directory: Option<PathBuf>) -> PyResult<Self> {
        let study = py.detach(|| match directory {
            Some(directory) => scenario::Study::in_directory(name, text, &directory),
            None => scenario::Study::from_toml(name, text),
        });
        study.map(Study).map_err(scenario_error)
    }

    /// The name of the scenario.
    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    /// The points: the case, or None, and the swept values by path, as they stand in the file.
    #[getter]
    fn points(&self) -> Vec<(Option<String>, Vec<(String, String)>)> {
        self.0.points().iter().map(|point| (point.case.clone(), point.values.clone())).collect()
    }

    /// The seeds of the runs of each point.
    #[getter]
    fn seeds(&self) -> Vec<u64> {
        self.0.seeds().collect()
    }

    /// What would be run, in words.
    fn explain(&self) -> String {
        self.0.explain()
    }

    /// The scenario at a point, counted from 0, as a file of its own: with the point's values, without sweep and cases.
    fn text_at(&self, point: usize) -> PyResult<String> {
        let text = self.0.text_at(self.point(point)?).map_err(scenario_error)?;
        let mut table: toml::Table = text.parse().map_err(value_error)?;
        table.remove("sweep");
        table.remove("cases");
        Ok(table.to_string())
    }

    /// What the outcome of a run is kept by: a hash of engine, version, scenario and seed. None for an engine whose outcomes
    /// are not worth keeping.
    fn key(&self, point: usize, seed: u64, engine_name: &str) -> PyResult<Option<String>> {
        self.point(point)?;
        let key = key_of(&*engine(engine_name)?, &self.0, Run { point, seed }).map_err(scenario_error)?;
        Ok(key.map(|key| key.to_string()))
    }

    /// What `key` says for each of these seeds. What they have in common, which is most of the work, is done once.
    fn keys(&self, point: usize, seeds: Vec<u64>, engine_name: &str) -> PyResult<Option<Vec<String>>> {
        let point = self.point(point)?;
        let engine = engine(engine_name)?;
        let Some(version) = engine.version() else { return Ok(None) };
        let fingerprint = self.0.fingerprint(point).map_err(scenario_error)?;
        let name = engine.name().name();
        // The parts are those of `key_of`: a test compares them.
        let of = |seed: u64| {
            Key::of([name.as_bytes(), version.as_bytes(), fingerprint.as_bytes(), &seed.to_le_bytes()])
                .to_string()
        };
        Ok(Some(seeds.into_iter().map(of).collect()))
    }

    /// Runs a point, counted from 0, with a seed.
    fn run<'py>(
        &self,
        py: Python<'py>,
        point: usize,
        seed: u64,
        engine_name: &str,
    ) -> PyResult<Bound<'py, PyDict>> {
        let scenario = self.0.scenario(self.point(point)?).map_err(scenario_error)?;
        let engine = engine(engine_name)?;
        let outcome = py.detach(|| outcome_of(&*engine, &scenario, seed))?;
        // Of 64 bits, more than JSON's numbers hold everywhere: as everywhere else, in hexadecimal digits.
        let hash = format!("{:016x}", outcome.trace_hash);
        let dict = pythonize(py, &outcome)?.cast_into::<PyDict>()?;
        dict.set_item("trace_hash", hash)?;
        Ok(dict)
    }
}

impl Study {
    fn point(&self, point: usize) -> PyResult<&scenario::Point> {
        let points = self.0.points();
        points
            .get(point)
            .ok_or_else(|| value_error(format!("point {point}: there are {}, from 0", points.len())))
    }
}

/// Runs a scenario. Python is asked now and then whether it wants to go on.
fn outcome_of(engine: &dyn Engine, scenario: &scenario::Scenario, seed: u64) -> PyResult<Outcome> {
    // An engine has no way to be told to end but this: what it holds is dropped on the way out.
    let reached = |_| {
        if let Err(interrupt) = Python::attach(|py| py.check_signals()) {
            resume_unwind(Box::new(Interrupted(interrupt)));
        }
    };
    let run = catch_unwind(AssertUnwindSafe(|| engine.run(scenario, seed, &reached)));
    match run {
        Ok(Ok(seen)) => Ok(seen.outcome(seed, &scenario.measure.metrics)),
        Ok(Err(error)) => Err(EngineError::new_err(error.to_string())),
        Err(panic) => Err(error_of(panic)),
    }
}

fn error_of(panic: Box<dyn Any + Send>) -> PyErr {
    let panic = match panic.downcast::<Interrupted>() {
        Ok(interrupted) => return interrupted.0,
        Err(panic) => panic,
    };
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    EngineError::new_err(format!(
        "the engine failed: {text}; this is a mistake in shorthaul, please report it with the scenario and the seed"
    ))
}
