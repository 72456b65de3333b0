//! The commands that try out whether something holds.
use crate::console::{AsJson, Screen};
use crate::ending;
use anyhow::bail;
use shorthaul_report::Console as _;
use shorthaul_trials::Trial;
use std::process::ExitCode;

/// Tries it out; the last line on standard output is the result as JSON, or all is, if that was asked for.
pub fn run(trial: &dyn Trial) -> anyhow::Result<ExitCode> {
    let screen = Screen::new();
    let json = AsJson::new(&screen);
    let judgement = if trial.wants_json() { trial.run(&json)? } else { trial.run(&screen)? };
    match (judgement.details, judgement.summary) {
        (details, summary) if trial.wants_json() => json.print(details.or(summary).unwrap_or_default()),
        (_, Some(summary)) => screen.say(&summary.to_string()),
        (_, None) => {}
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
