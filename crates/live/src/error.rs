use shorthaul_lab::{ChildError, LabError};
use shorthaul_sim::SimError;
use std::io;

/// Why a live run did not come to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LiveError {
    /// This machine cannot emulate the network.
    #[error("this machine cannot emulate the network")]
    Lab(#[from] LabError),
    /// A gateway or relay did not start.
    #[error("node `{node}`")]
    Child {
        /// Where it was to run.
        node: String,
        /// Why it did not.
        source: ChildError,
    },
    /// A host does not speak TCP as its scheme says.
    #[error("node `{node}`: {}", lacking.join("; "))]
    Scheme {
        /// The host or relay.
        node: String,
        /// What the kernel lacks, a sentence each.
        lacking: Vec<String>,
    },
    /// A host with our own TCP cannot be made.
    #[error("host `{node}`")]
    Own {
        /// The host.
        node: String,
        /// Why not.
        source: SimError,
    },
    /// The system refuses something.
    #[error("{doing}")]
    Io {
        /// What was being done.
        doing: String,
        /// What the system said.
        source: io::Error,
    },
    /// A link of the lab is gone.
    #[error("a link of the lab is gone")]
    LinkGone,
}

impl LiveError {
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> LiveError {
        let doing = doing.into();
        move |source| LiveError::Io { doing, source }
    }
}
