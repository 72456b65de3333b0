//! What all trials have in common: cases that are chosen by name, run this many at a time, and judged.
use crate::error::{Result, TrialError};
use serde_json::Value;
use shorthaul_observe::in_parallel;
use shorthaul_report::{Console, Progress};
use std::convert::Infallible;

/// Something that has to hold, and how it is tried out. Its fields are the options that it is run with.
pub trait Trial {
    /// Tries it out, tells the console what came of it, and says whether it holds.
    ///
    /// # Errors
    /// If it could not be tried out.
    fn run(&self, console: &dyn Console) -> Result<Judgement>;

    /// Whether it was asked that the result be told as JSON, and nothing else.
    fn wants_json(&self) -> bool {
        false
    }
}

// A trial as a command, with the option that all have: what it is for, its own words say.
#[derive(clap::Args)]
#[expect(missing_docs, reason = "words here would stand in the help instead of the trial's own")]
pub struct Tried<T: clap::Args> {
    #[command(flatten)]
    trial: T,
    /// Print JSON and nothing else: the result, and tables cell by cell
    #[arg(long)]
    json: bool,
}

impl<T: Trial + clap::Args> Trial for Tried<T> {
    fn run(&self, console: &dyn Console) -> Result<Judgement> {
        self.trial.run(console)
    }

    fn wants_json(&self) -> bool {
        self.json
    }
}

/// What a trial came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// The result in one line of JSON, for programs: it is the last line of what is said.
    pub summary: Option<Value>,
    /// What is told instead where JSON was asked for: all that the summary has no room for.
    pub details: Option<Value>,
    /// What does not hold, in a sentence.
    pub failure: Option<String>,
    /// Everything was run, but how well this machine kept up speaks against trusting some of it: why.
    pub doubt: Option<String>,
}

impl Judgement {
    /// It holds, or nothing was to be judged.
    pub fn holds(summary: Value) -> Self {
        Judgement { summary: Some(summary), details: None, failure: None, doubt: None }
    }

    /// It holds if there is no `failure`; a line would not hold what came of it.
    pub fn of(details: Value, failure: Option<String>) -> Self {
        Judgement { summary: None, details: Some(details), failure, doubt: None }
    }

    /// Nothing was tried out: what could be was listed.
    pub fn listed(list: Value) -> Self {
        Judgement::of(list, None)
    }

    /// It was a part of something that another process judges.
    pub fn nothing() -> Self {
        Judgement { summary: None, details: None, failure: None, doubt: None }
    }

    /// With more than the summary has room for.
    #[must_use]
    pub fn with(self, details: Value) -> Self {
        Judgement { details: Some(details), ..self }
    }

    /// It does not hold if there is a `failure`.
    #[must_use]
    pub fn unless(self, failure: Option<String>) -> Self {
        Judgement { failure, ..self }
    }
}

/// Those of `cases` whose name is one of `names` or, where no name is, contains one of them; all if there are no `names`.
///
/// # Errors
/// If none has such a name.
pub(crate) fn select<C>(
    mut cases: Vec<C>,
    names: &[String],
    name_of: impl Fn(&C) -> String,
) -> Result<Vec<C>> {
    if names.is_empty() {
        return Ok(cases);
    }
    let is_whole = |name: &String| cases.iter().any(|case| name_of(case) == *name);
    let wanted: Vec<(&String, bool)> = names.iter().map(|name| (name, is_whole(name))).collect();
    cases.retain(|case| {
        let own = name_of(case);
        let fits = |(name, whole): &(&String, bool)| if *whole { own == **name } else { own.contains(*name) };
        wanted.iter().any(fits)
    });
    if cases.is_empty() {
        let names = names.join("` or `");
        return Err(TrialError::asked(format!(
            "nothing has a name that contains `{names}`; `--list` shows all"
        )));
    }
    Ok(cases)
}

/// What came of one run of a case, and what the console is told of it.
pub(crate) struct Ran<T> {
    /// What came of it.
    pub outcome: T,
    /// How it went, in a line.
    pub how: String,
    /// What went wrong, and how to see it again.
    pub warning: Option<String>,
}

/// Does the runs in their order, `lanes` at a time, and tells of each; what came of them, in the same order.
pub(crate) fn run_all<J: Send, T: Send>(
    progress: &Progress<'_>,
    lanes: usize,
    jobs: impl IntoIterator<Item = J>,
    run: impl Fn(J) -> Ran<T> + Sync,
) -> Vec<T> {
    in_lanes(lanes, jobs, |job| {
        let Ran { outcome, how, warning } = run(job);
        if let Some(warning) = warning {
            progress.warn(&warning);
        }
        progress.step(&how);
        outcome
    })
}

/// Does jobs in their order, `lanes` at a time; what came of them, in the same order.
pub(crate) fn in_lanes<J: Send, T: Send>(
    lanes: usize,
    jobs: impl IntoIterator<Item = J>,
    run: impl Fn(J) -> T + Sync,
) -> Vec<T> {
    match in_parallel(lanes, jobs, |job| Ok::<T, Infallible>(run(job))) {
        Ok(outcomes) => outcomes,
        Err(never) => match never {},
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shorthaul_report::Silence;

    #[test]
    fn a_whole_name_selects_its_case_and_part_of_one_all_that_contain_it() {
        let chosen = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            select(vec!["rst", "rst-late", "close"], &names, |name| (*name).to_owned())
        };
        assert_eq!(chosen(&[]).unwrap().len(), 3);
        assert_eq!(chosen(&["rst"]).unwrap(), ["rst"]);
        assert_eq!(chosen(&["rs", "close"]).unwrap(), ["rst", "rst-late", "close"]);
        let error = chosen(&["fin"]).unwrap_err().to_string();
        assert!(error.contains("`fin`") && error.contains("--list"), "{error}");
    }

    #[test]
    fn outcomes_come_in_the_order_of_the_jobs_whatever_lane_they_were_done_in() {
        let progress = Progress::begin(&Silence, 100);
        // The first jobs wait for each other, so that no lane can do them all.
        let together = std::sync::Barrier::new(4);
        let outcomes = run_all(&progress, 4, 0..100_u32, |job| {
            if job < 4 {
                together.wait();
            }
            Ran { outcome: job * 2, how: String::new(), warning: None }
        });
        assert_eq!(outcomes, (0..100).map(|job| job * 2).collect::<Vec<_>>());
    }
}
