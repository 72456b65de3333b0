//! What the papers measured, run again. A paper is one module and one row below.
//!
//! Reading order: `experiment` (a scenario file of a paper, and its runs), then the papers: [`Pts`](pts::Pts) (proxy transport
//! service), [`Cascade`](cascade::Cascade) (Cascaded TCP), [`Aggregation`](aggregation::Aggregation) (TCP flow aggregation),
//! [`Probing`](probing::Probing) (probing devices), [`Pte`](pte::Pte) (path tail emulation),
//! [`Table2`](table2::Table2) (the rivals of flow aggregation, on the same links). Each has its scenarios, its figures
//! and its [findings](shorthaul_observe::Finding): what it states, beside ours.
//!
//! A paper tells a [`Console`] what it finds, and writes pages and data; it prints nothing itself.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod aggregation;
pub mod cascade;
mod error;
mod experiment;
mod fidelity;
pub mod probing;
pub mod pte;
pub mod pts;
pub mod table2;
#[cfg(test)]
mod testing;

pub use error::PaperError;
pub use fidelity::All;

use serde::Serialize;
use shorthaul_observe::{EngineName, Finding, RunRecord};
use shorthaul_report::Console;

/// A paper whose experiments are run again. Its fields are the options that they are run with.
pub trait Paper: Sized {
    /// What it is called where all papers stand together.
    const TITLE: &'static str;

    /// With the options that `reproduce all` runs it with.
    fn whole(options: &All) -> Self;

    /// Runs the experiments, tells the console what came of them, and writes pages, figures and data. Returns what the paper
    /// states beside what each engine found.
    ///
    /// # Errors
    /// If an experiment could not be run, or its results not be written.
    fn reproduce(&self, console: &dyn Console) -> Result<Vec<Found>, PaperError>;
}

/// A finding, and the engine that it is of.
#[derive(Clone, Debug, Serialize)]
pub struct Found {
    /// What ran the experiment.
    pub engine: EngineName,
    /// What it came to.
    #[serde(flatten)]
    pub finding: Finding,
    /// Runs that it is made of and that are not to be trusted, in words: timers, packets or the machine were later than the bounds allow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doubt: Option<String>,
}

impl Found {
    /// The findings of one engine.
    pub(crate) fn by(engine: EngineName, findings: Vec<Finding>) -> Vec<Found> {
        findings.into_iter().map(|finding| Found { engine, finding, doubt: None }).collect()
    }

    /// The same, made of these runs.
    pub(crate) fn of_runs(engine: EngineName, findings: Vec<Finding>, runs: &[RunRecord]) -> Vec<Found> {
        let doubtful = runs.iter().filter(|run| run.failure.is_some()).count();
        let doubt =
            (doubtful > 0).then(|| format!("{doubtful} of {} runs are not to be trusted", runs.len()));
        findings.into_iter().map(|finding| Found { engine, finding, doubt: doubt.clone() }).collect()
    }
}

/// The papers as commands: a row for each, with its name and its options.
macro_rules! papers {
    ($($(#[doc = $about:literal])* $name:ident($options:ty)),+ $(,)?) => {
        /// Every paper.
        #[derive(clap::Subcommand)]
        pub enum Papers {
            /// All papers, and one table of what they state beside ours: half an hour, and goes on where it stopped
            All(All),
            $($(#[doc = $about])* $name($options)),+
        }

        impl Papers {
            /// Runs it, tells the console what comes of it, and writes pages, figures and data.
            ///
            /// # Errors
            /// If an experiment could not be run, or its results not be written.
            pub fn reproduce(&self, console: &dyn Console) -> Result<Vec<Found>, PaperError> {
                match self {
                    Papers::All(all) => all.reproduce(console),
                    $(Papers::$name(paper) => paper.reproduce(console)),+
                }
            }

            /// Every paper, with what it is called in the table of all of them.
            pub(crate) fn whole(options: &All) -> Vec<(&'static str, Papers)> {
                vec![$((<$options>::TITLE, Papers::$name(<$options>::whole(options)))),+]
            }
        }
    };
}

papers! {
    /// TCP flow aggregation for mobile hosts: Figures 1 to 4 and 9 to 12, and links of today
    Aggregation(aggregation::Aggregation),
    /// Cascaded TCP: Table I's matrix, Figures 2 to 5, and the window-limited hosts of Table II
    Cascade(cascade::Cascade),
    /// Probing devices: Tables 1 to 4 and their figures, beside the paper's values
    Probing(probing::Probing),
    /// Path tail emulation: Figure 3, and the comparison with other ways to keep senders to a slow access link
    Pte(pte::Pte),
    /// Proxy transport service: Figures 2 to 7, and throughput against the buffer of a session
    Pts(pts::Pts),
    /// Table II of the aggregation paper, measured: nineteen systems on the same links, beside what it claims of them
    Table2(table2::Table2),
}
