use serde::{Deserialize, Serialize};
use std::fmt;

/// What ran a scenario.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// The deterministic simulator.
    #[default]
    Sim,
    /// Kernels' TCP across emulated links.
    Live,
}

impl Engine {
    /// Its name on the command line and in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Engine::Sim => "sim",
            Engine::Live => "live",
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
