//! What is seen when a scenario is run, whichever engine runs it.
//!
//! Reading order: [`Engine`] (what runs), [`Observations`] (what it saw; metrics are formulas over them), [`Outcome`] (what
//! is kept of a run), [`run_all`] (all the runs of a
//! study) to [`RunRecord`]s, [`Store`] (what is done stays done), [`Summary`] (what several runs say),
//! [`results`] (tables, files and pages of records), [`Finding`] (what a paper states, beside ours).
#![forbid(unsafe_code)]

mod campaign;
mod engine;
mod finding;
mod ledger;
mod outcome;
pub mod results;
mod say_while;
mod store;
mod summary;

pub use campaign::{Run, RunRecord, Shard, in_parallel, key_of, run_all, runs_of, telling_runs};
pub use engine::{Engine, EngineError, EngineName};
pub use finding::{Finding, Verdict};
pub use ledger::{Job, Ledger, LedgerError};
pub use outcome::{
    BufferOutcome, Fidelity, FlowOutcome, LinkObservation, LinkOutcome, Mean, Observations, Outcome, Sent,
    TimeSeries, fairness, jain_index,
};
pub use results::ResultsError;
pub use store::{Key, Store, StoreError};
pub use summary::Summary;
