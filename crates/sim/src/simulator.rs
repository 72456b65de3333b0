use crate::Recording;
use crate::simulate::observe;
use shorthaul_observe::{Engine, EngineError, EngineName, Observations};
use shorthaul_scenario::Scenario;

/// The version of the engine: a hash of the sources that decide what comes of a run, of this crate and of those below.
///
/// With scenario and seed it is all that an outcome depends on, so no change to the engine can be forgotten, and no change
/// elsewhere costs a run.
pub const ENGINE: &str = env!("SHORTHAUL_ENGINE");

/// The simulator as an engine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Simulator {
    /// How many runs at the same time; as many as there are processors if `None`.
    pub jobs: Option<usize>,
}

impl Engine for Simulator {
    fn name(&self) -> EngineName {
        EngineName::Sim
    }

    fn version(&self) -> Option<String> {
        Some(ENGINE.to_owned())
    }

    fn at_once(&self) -> usize {
        self.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
    }

    fn refusals(&self, _scenario: &Scenario) -> Vec<String> {
        Vec::new()
    }

    fn run(
        &self,
        scenario: &Scenario,
        seed: u64,
        reached: &dyn Fn(f64),
    ) -> Result<Observations, EngineError> {
        observe(scenario, seed, Recording::default(), reached).map_err(|error| EngineError::failed(&error))
    }
}
