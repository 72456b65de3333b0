use shorthaul_lab::workload::TransferError;
use shorthaul_lab::{ChildError, LabError};
use shorthaul_observe::{LedgerError, ResultsError, StoreError};
use shorthaul_report::ReportError;
use shorthaul_scenario::ScenarioError;
use std::io;

/// What an experiment comes to, or why it could not be run.
pub(crate) type Result<T, E = PaperError> = std::result::Result<T, E>;

/// Why a paper could not be reproduced.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PaperError {
    /// What was asked for makes no sense: what does not, and what would.
    #[error("{0}")]
    Asked(String),
    /// A run failed, or what a paper needs is not there.
    #[error("{0}")]
    Failed(String),
    /// It was doing something that failed.
    #[error("{doing}: {source}")]
    While {
        /// What it was doing.
        doing: String,
        /// Why that failed.
        source: Box<PaperError>,
    },
    /// A file cannot be read or written.
    #[error(transparent)]
    System(#[from] io::Error),
    /// A file is not the JSON that it should be.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// A scenario makes no sense.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// There is no forecast.
    #[error(transparent)]
    Plan(#[from] shorthaul_planner::PlanError),
    /// This machine cannot emulate the network.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// A relay did not start.
    #[error(transparent)]
    Child(#[from] ChildError),
    /// Not all that was sent has arrived.
    #[error(transparent)]
    Transfer(#[from] TransferError),
    /// Results cannot be kept.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A simulation failed.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// Results cannot be written.
    #[error(transparent)]
    Results(#[from] ResultsError),
    /// A report cannot be written.
    #[error(transparent)]
    Report(#[from] ReportError),
}

impl PaperError {
    /// Whether what was asked for makes no sense, so that asking again would not help.
    pub fn is_asked(&self) -> bool {
        match self {
            PaperError::Asked(_) | PaperError::Scenario(_) | PaperError::Plan(_) => true,
            PaperError::Lab(error) => error.is_asked(),
            PaperError::While { source, .. } => source.is_asked(),
            _ => false,
        }
    }

    /// What was asked for makes no sense.
    pub(crate) fn asked(why: impl Into<String>) -> Self {
        PaperError::Asked(why.into())
    }

    /// A run failed, or what a paper needs is not there.
    pub(crate) fn failed(why: impl Into<String>) -> Self {
        PaperError::Failed(why.into())
    }
}

shorthaul_observe::say_while!(PaperError);
