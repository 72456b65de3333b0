use crate::plan::PlanError;
use crate::topology_file::TopologyError;
use std::io;

/// Why there is no lab.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// The topology could not be read.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// The topology makes no sense.
    #[error("the topology cannot be built: {0}")]
    Plan(#[from] PlanError),
    /// The machine does not allow or have what a lab needs.
    #[error("a lab needs {need}, but {problem}; {remedy}")]
    Missing {
        /// What it needs.
        need: &'static str,
        /// What stands against it.
        problem: String,
        /// What to do about it.
        remedy: String,
    },
    /// A system call failed while something was set up.
    #[error("host `{host}`: {doing}: {error}")]
    Host {
        /// The host.
        host: String,
        /// What was being done.
        doing: String,
        /// What the kernel said.
        error: io::Error,
    },
    /// A link could not be set up, or is gone.
    #[error("link `{link}`: {doing}: {error}")]
    Link {
        /// The link.
        link: String,
        /// What was being done.
        doing: String,
        /// What the kernel said.
        error: io::Error,
    },
}

impl LabError {
    /// Whether what was asked for makes no sense, so that asking again would not help.
    pub fn is_asked(&self) -> bool {
        matches!(self, LabError::Topology(_) | LabError::Plan(_))
    }
}

impl LabError {
    pub(crate) fn host(host: &str, doing: &str) -> impl FnOnce(io::Error) -> LabError + use<> {
        let (host, doing) = (host.to_owned(), doing.to_owned());
        move |error| LabError::Host { host, doing, error }
    }

    pub(crate) fn link(link: &str, doing: &str) -> impl FnOnce(io::Error) -> LabError + use<> {
        let (link, doing) = (link.to_owned(), doing.to_owned());
        move |error| LabError::Link { link, doing, error }
    }
}
