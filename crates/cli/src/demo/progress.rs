//! How far the demonstration is: a bar a path on a terminal, a line a transfer elsewhere.
use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use shorthaul_report::{Terminal, Unit};

use super::outcome::Outcome;
use super::plan::{Case, Path};

/// Told of every transfer that ends; may be told by several threads at once.
pub enum Progress {
    /// On a terminal.
    Bars(Vec<(&'static str, ProgressBar)>),
    /// Into a file or a pipe.
    Lines { started: Instant, out: Mutex<()> },
}

impl Progress {
    /// For `paths`, each of which has so many transfers before it.
    pub fn new(terminal: Terminal, paths: &[(Path, u64)]) -> Progress {
        if !terminal.interactive {
            return Progress::Lines { started: Instant::now(), out: Mutex::new(()) };
        }
        let template = "{prefix:8} {bar:24} {pos:>2}/{len} {elapsed:>4}  {msg}";
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let style = style.progress_chars("━╸─");
        let all = MultiProgress::new();
        let bar = |(path, transfers): &(Path, u64)| {
            let bar = all.add(ProgressBar::new(*transfers).with_style(style.clone()).with_prefix(path.name));
            bar.enable_steady_tick(Duration::from_millis(250));
            bar.set_message("building the network");
            (path.name, bar)
        };
        Progress::Bars(paths.iter().map(bar).collect())
    }

    /// A transfer begins.
    pub fn began(&self, case: &Case) {
        if let Progress::Bars(bars) = self {
            for (_, bar) in bars.iter().filter(|(name, _)| *name == case.path.name) {
                bar.set_message(name(case));
            }
        }
    }

    /// A transfer has ended.
    pub fn ended(&self, case: &Case, outcome: &Outcome) {
        let line = format!("{}: {}", name(case), result(outcome));
        match self {
            Progress::Bars(bars) => {
                for (_, bar) in bars.iter().filter(|(name, _)| *name == case.path.name) {
                    bar.inc(1);
                    bar.set_message(line.clone());
                }
            }
            Progress::Lines { started, out } => {
                // One line at a time, also from several threads.
                let _alone = out.lock();
                eprintln!("{:5.1} s  {:8} {line}", started.elapsed().as_secs_f64(), case.path.name);
            }
        }
    }

    /// Nothing more will come.
    pub fn finish(&self) {
        if let Progress::Bars(bars) = self {
            for (_, bar) in bars {
                bar.finish_with_message("done");
            }
        }
    }
}

fn name(case: &Case) -> String {
    format!("{} {} {}", case.congestion.name(), case.transfer.name(), case.way.name())
}

fn result(outcome: &Outcome) -> String {
    let time = Unit::Seconds.format(outcome.seconds);
    let rate = Unit::BitsPerSecond.format(outcome.goodput());
    match &outcome.failure {
        Some(failure) => format!("failed: {failure}"),
        None if !outcome.complete() => format!("stopped after {time}, {rate}"),
        None if outcome.verified => format!("{time}, {rate}, hash verified"),
        None => format!("{time}, {rate}"),
    }
}
