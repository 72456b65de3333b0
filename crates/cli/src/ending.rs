//! How a command ends: what it says when it could not do what was asked, and its exit status.
use shorthaul_dataplane::{ConfigError, DaemonError, ReplayError};
use shorthaul_monitor::PageError;
use shorthaul_relay::discovery::KeyError;
use shorthaul_relay::{LinkError, NodeError, SecretError, SettingsError};
use std::error::Error;
use std::io::Write as _;
use std::process::ExitCode;

/// What was asked for makes no sense: the command line, or a file that it names. Says what would.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Asked(pub String);

/// An error of who asked.
macro_rules! asked {
    ($($sentence:tt)+) => {
        $crate::ending::Asked(format!($($sentence)+))
    };
}
pub(crate) use asked;

/// A line of a service on standard output, if that takes one: a disk that is full, or a reader that is gone, is no reason not to serve.
macro_rules! say {
    ($($sentence:tt)+) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stdout(), $($sentence)+);
    }};
}
/// The same on standard error.
macro_rules! report {
    ($($sentence:tt)+) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($sentence)+);
    }};
}
pub(crate) use {report, say};

/// The exit status when something failed.
pub const FAILED: u8 = 1;
/// The exit status when the command line, a configuration or a scenario makes no sense: that of clap, too.
const SENSELESS: u8 = 2;
/// The exit status when everything was run, and something live is not to be trusted.
#[cfg(feature = "study")]
pub const DOUBTFUL: u8 = 3;

/// The exit status when nobody reads the output any more: that of a program that SIGPIPE ended.
const UNREAD: i32 = 128 + 13;

/// From now on, output that nobody reads any more, as of `shorthaul ... | head`, ends the program without a word, and output that cannot be
/// written, as on a full disk, with one.
pub fn end_when_unread() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        // This is how `println!` fails.
        let said = panic.payload().downcast_ref::<String>();
        if said.is_some_and(|said| said.starts_with("failed printing to std") && said.contains("Broken pipe"))
        {
            std::process::exit(UNREAD);
        }
        if let Some(why) = said.and_then(|said| said.strip_prefix("failed printing to stdout: ")) {
            tell_unwritten(&why);
            std::process::exit(i32::from(FAILED));
        }
        usual(panic);
    }));
}

/// Says why, in one paragraph; the exit status.
pub fn failed(error: &anyhow::Error) -> ExitCode {
    eprintln!("{}", paragraph(error));
    ExitCode::from(if is_asked(error) { SENSELESS } else { FAILED })
}

/// The error and its causes. A cause that an error has told already is not told again.
fn paragraph(error: &anyhow::Error) -> String {
    let mut text = String::from("error");
    for cause in error.chain() {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    let text = in_words(&text);
    let lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("\n")
}

/// What readers of files say they expected, by the names of types, for people.
pub fn in_words(text: &str) -> String {
    const WORDS: [(&str, &str); 7] = [
        ("expected u8", "expected a whole number from 0 to 255"),
        ("expected u16", "expected a whole number from 0 to 65535"),
        ("expected u32", "expected a whole number from 0 on"),
        ("expected u64", "expected a whole number from 0 on"),
        ("expected usize", "expected a whole number from 0 on"),
        ("expected a sequence", "expected a list, such as [\"a\", \"b\"]"),
        ("expected a boolean", "expected true or false"),
    ];
    WORDS.iter().fold(text.to_owned(), |text, (types, words)| text.replace(types, words))
}

/// The same in one line, for a journal, without the line of the file that readers of files show: they say which it is.
pub fn in_one_line(text: &str) -> String {
    // The mark below a line, and the line itself: `3 | memry = 5`.
    let is_shown = |line: &str| {
        let rest = line.trim_start_matches(|sign: char| sign.is_ascii_digit() || sign == ' ');
        rest.starts_with('|')
    };
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !is_shown(line));
    in_words(&lines.collect::<Vec<_>>().join(": "))
}

/// Whether what was asked for makes no sense, so that asking again would not help.
fn is_asked(error: &anyhow::Error) -> bool {
    error.chain().any(is_of_who_asked)
}

fn is_of_who_asked(error: &(dyn Error + 'static)) -> bool {
    #[cfg(feature = "study")]
    if is_of_study(error) {
        return true;
    }
    if let Some(error) = error.downcast_ref::<DaemonError>() {
        return matches!(
            error,
            DaemonError::Config(_)
                | DaemonError::NoInterface { .. }
                | DaemonError::Pages(PageError::Public(_))
        );
    }
    if let Some(error) = error.downcast_ref::<NodeError>() {
        use NodeError::{Open, PublicMetrics, Secret, Settings};
        return matches!(error, Open(_) | PublicMetrics(_) | Settings(_) | Secret(_));
    }
    error.is::<Asked>()
        || error.is::<ConfigError>()
        || error.is::<SettingsError>()
        || error.is::<SecretError>()
        || error.is::<LinkError>()
        || error.is::<KeyError>()
        || error.is::<ReplayError>()
}

/// The same of the errors of what studies and proves.
#[cfg(feature = "study")]
fn is_of_study(error: &(dyn Error + 'static)) -> bool {
    use crate::plan::SitesError;
    use shorthaul_lab::{LabError, TopologyError};
    use shorthaul_observe::ResultsError;
    use shorthaul_papers::PaperError;
    use shorthaul_planner::PlanError;
    use shorthaul_scenario::ScenarioError;
    use shorthaul_trials::TrialError;
    if let Some(error) = error.downcast_ref::<TrialError>() {
        return error.is_asked();
    }
    if let Some(error) = error.downcast_ref::<PaperError>() {
        return error.is_asked();
    }
    if let Some(error) = error.downcast_ref::<LabError>() {
        return error.is_asked();
    }
    if let Some(error) = error.downcast_ref::<ResultsError>() {
        return matches!(error, ResultsError::NoRun { .. } | ResultsError::File { what: "read", .. });
    }
    error.is::<ScenarioError>()
        || error.is::<PlanError>()
        || error.is::<SitesError>()
        || error.is::<TopologyError>()
        || error.is::<shorthaul_lab::PlanError>()
}

/// What clap says, without its blank lines; the exit status. Help and version are no errors.
pub fn refused(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        return shown(error.print().and_then(|()| std::io::stdout().flush()));
    }
    if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        error.exit();
    }
    let text = error.render().to_string();
    let lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty());
    eprintln!("{}", lines.collect::<Vec<_>>().join("\n"));
    ExitCode::from(SENSELESS)
}

/// The exit status of what a library has written to standard output.
fn shown(written: std::io::Result<()>) -> ExitCode {
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(UNREAD),
        Err(error) => {
            tell_unwritten(&error);
            ExitCode::from(FAILED)
        }
    }
}

/// Standard output takes nothing.
fn tell_unwritten(why: &dyn std::fmt::Display) {
    report!("error: cannot write to standard output: {why}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;

    #[test]
    fn an_error_is_one_paragraph_and_says_nothing_twice() {
        let cause = std::io::Error::other("no such file");
        let error =
            Err::<(), _>(cause).context("a.toml: no such file\n\n").context("cannot run").unwrap_err();
        assert_eq!(paragraph(&error), "error: cannot run: a.toml: no such file");
    }

    #[test]
    fn what_is_wrong_with_a_file_is_one_line_of_a_journal() {
        let said = "gw.toml: TOML parse error at line 4, column 11\n  |\n4 | workers = \"many\"\n  |           ^^^^^^\ninvalid type: string \"many\", expected u64\n";
        let line = in_one_line(said);
        assert_eq!(
            line,
            "gw.toml: TOML parse error at line 4, column 11: invalid type: string \"many\", expected a whole number from 0 on"
        );
        assert_eq!(in_one_line("workers: 3 is odd"), "workers: 3 is odd");
    }

    #[test]
    fn who_asked_is_told_apart_from_what_failed() {
        let wrong = anyhow::Error::new(asked!("--repeats {}", 0)).context("cannot run");
        assert!(is_asked(&wrong));
        assert!(!is_asked(&anyhow::anyhow!("the disk is full")));
    }

    #[cfg(feature = "study")]
    #[test]
    fn the_same_of_studies() {
        use shorthaul_trials::TrialError;
        let scenario = shorthaul_scenario::Study::from_toml("a.toml", "[[").map(drop);
        assert!(is_asked(&scenario.context("cannot run").unwrap_err()));
        let trial = TrialError::Asked("nothing has that name".into());
        assert!(is_asked(&trial.into()));
        assert!(!is_asked(&TrialError::Failed("late".into()).into()));
    }
}
