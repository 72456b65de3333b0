//! With or without a gateway that splits.
use serde::Serialize;
use std::fmt;

/// With or without a gateway that splits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DirectOrSplit {
    /// The ends speak to each other.
    Direct,
    /// A gateway between them splits.
    Split,
}

impl DirectOrSplit {
    /// Both.
    pub const ALL: [DirectOrSplit; 2] = [DirectOrSplit::Direct, DirectOrSplit::Split];

    /// Its name in tables and results.
    pub const fn name(self) -> &'static str {
        match self {
            DirectOrSplit::Direct => "direct",
            DirectOrSplit::Split => "split",
        }
    }
}

impl fmt::Display for DirectOrSplit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
