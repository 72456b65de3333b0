use crate::Observations;
use serde::{Deserialize, Serialize};
use shorthaul_scenario::Scenario;
use std::fmt;

/// Which engine ran a scenario.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineName {
    /// Closed-form models.
    Model,
    /// The deterministic simulator.
    #[default]
    Sim,
    /// Kernels' TCP across emulated links.
    Live,
}

impl EngineName {
    /// Every engine, with its name on the command line and in tables, and what it is.
    pub const ALL: [(EngineName, &'static str, &'static str); 3] = [
        (EngineName::Model, "model", "closed-form models of TCP"),
        (EngineName::Sim, "sim", "the deterministic simulator"),
        (EngineName::Live, "live", "the kernel's TCP across emulated links in namespaces"),
    ];

    /// Its name on the command line and in tables.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(engine, ..)| *engine == self).map_or("", |(_, name, _)| name)
    }
}

impl fmt::Display for EngineName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl std::str::FromStr for EngineName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(_, name, _)| *name == text).map(|(engine, ..)| *engine);
        found.ok_or_else(|| {
            let known: Vec<&str> = Self::ALL.iter().map(|(_, name, _)| *name).collect();
            format!("there is no engine `{text}`: write one of {}, or several with commas", known.join(", "))
        })
    }
}

/// What runs scenarios.
pub trait Engine: Sync {
    /// Which engine it is.
    fn name(&self) -> EngineName;

    /// What an outcome depends on besides scenario and seed: another version gives another outcome. `None` if outcomes
    /// are not worth keeping.
    fn version(&self) -> Option<String>;

    /// How many runs it does at the same time.
    fn at_once(&self) -> usize {
        std::thread::available_parallelism().map_or(1, usize::from)
    }

    /// Whether runs with different seeds differ. If not, one run of a point says it all.
    fn draws(&self) -> bool {
        true
    }

    /// What of the scenario it cannot run: a sentence each, which names what.
    fn refusals(&self, scenario: &Scenario) -> Vec<String>;

    /// What the scenario wants measured and this engine does not measure: a sentence each, which names what.
    fn unmeasured(&self, _scenario: &Scenario) -> Vec<String> {
        Vec::new()
    }

    /// Runs a scenario once. `reached` is told now and then how much of it is done, from 0 to 1.
    ///
    /// # Errors
    /// If the scenario is one that it [refuses](Engine::refusals), or the run fails.
    fn run(&self, scenario: &Scenario, seed: u64, reached: &dyn Fn(f64))
    -> Result<Observations, EngineError>;
}

/// Why a run has no outcome.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The engine does not have what the scenario asks for.
    #[error("{engine} cannot run this: {}", reasons.join("; "))]
    Refused {
        /// The engine.
        engine: EngineName,
        /// What it lacks, a sentence each.
        reasons: Vec<String>,
    },
    /// The run did not come to its end.
    #[error("{0}")]
    Failed(String),
}

impl EngineError {
    /// A run that did not come to its end, with the error and what caused it.
    pub fn failed(error: &dyn std::error::Error) -> Self {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            text.push_str(&format!(": {cause}"));
            source = cause.source();
        }
        EngineError::Failed(text)
    }
}
