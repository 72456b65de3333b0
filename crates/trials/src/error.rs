use shorthaul_lab::LabError;
use shorthaul_lab::workload::TransferError;
use shorthaul_report::ReportError;
use shorthaul_scenario::ScenarioError;
use std::io;

/// What a trial comes to, or why it could not be done.
pub type Result<T, E = TrialError> = std::result::Result<T, E>;

/// Why a trial could not be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrialError {
    /// What was asked for makes no sense: what does not, and what would.
    #[error("{0}")]
    Asked(String),
    /// It did not come to its end: why.
    #[error("{0}")]
    Failed(String),
    /// It was doing something that failed.
    #[error("{doing}: {source}")]
    While {
        /// What it was doing.
        doing: String,
        /// Why that failed.
        source: Box<TrialError>,
    },
    /// A system call failed.
    #[error(transparent)]
    System(#[from] io::Error),
    /// This machine cannot emulate the network.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// Not all that was sent has arrived.
    #[error(transparent)]
    Transfer(#[from] TransferError),
    /// Bytes arrived that were not sent, or an end did not do what it should.
    #[error(transparent)]
    End(#[from] crate::conformance::Failure),
    /// A scenario makes no sense.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// There is no forecast.
    #[error(transparent)]
    Plan(#[from] shorthaul_planner::PlanError),
    /// A topology makes no sense.
    #[error(transparent)]
    Topology(#[from] shorthaul_lab::TopologyError),
    /// A program did not start on a host of the lab.
    #[error(transparent)]
    Child(#[from] shorthaul_lab::ChildError),
    /// Results cannot be kept.
    #[error(transparent)]
    Store(#[from] shorthaul_observe::StoreError),
    /// A simulation failed.
    #[error(transparent)]
    Ledger(#[from] shorthaul_observe::LedgerError),
    /// A report could not be written.
    #[error(transparent)]
    Report(#[from] ReportError),
}

impl TrialError {
    /// Whether what was asked for makes no sense, so that asking again would not help.
    pub fn is_asked(&self) -> bool {
        match self {
            TrialError::Asked(_)
            | TrialError::Scenario(_)
            | TrialError::Topology(_)
            | TrialError::Plan(_) => true,
            TrialError::Lab(error) => error.is_asked(),
            TrialError::While { source, .. } => source.is_asked(),
            _ => false,
        }
    }

    /// What was asked for makes no sense.
    pub(crate) fn asked(why: impl Into<String>) -> Self {
        TrialError::Asked(why.into())
    }

    /// It did not come to its end because another part failed, in that part's words.
    pub(crate) fn of(error: impl std::error::Error) -> Self {
        TrialError::Failed(error.to_string())
    }

    /// It did not come to its end.
    pub(crate) fn failed(why: impl Into<String>) -> Self {
        TrialError::Failed(why.into())
    }
}

shorthaul_observe::say_while!(TrialError);
