//! The commands that try out whether something holds.
use crate::console::Screen;
use crate::ending;
use anyhow::bail;
use shorthaul_report::Console as _;
use shorthaul_trials::Trial;
use std::process::ExitCode;

/// Tries it out; the last line on standard output is the result as JSON.
pub fn run(trial: &dyn Trial) -> anyhow::Result<ExitCode> {
    let screen = Screen::new();
    let judgement = trial.run(&screen)?;
    if let Some(summary) = judgement.summary {
        screen.say(&summary.to_string());
    }
    if let Some(failure) = judgement.failure {
        bail!(failure);
    }
    if let Some(doubt) = judgement.doubt {
        screen.warn(&doubt);
        return Ok(ExitCode::from(ending::DOUBTFUL));
    }
    Ok(ExitCode::SUCCESS)
}
