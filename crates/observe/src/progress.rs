//! How far a series of runs is: a bar on a terminal, nothing or a line a run elsewhere.
use indicatif::{ProgressBar, ProgressStyle};
use shorthaul_report::Terminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

fn bar(template: &str, runs: u64) -> ProgressBar {
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(runs).with_style(style.progress_chars("━╸─"));
    bar.enable_steady_tick(Duration::from_millis(250));
    bar
}

/// A bar that counts runs on a terminal; hidden elsewhere.
pub fn run_bar(runs: usize) -> ProgressBar {
    match Terminal::stderr().interactive {
        true => bar("{bar:40} {pos}/{len} runs, {elapsed} so far, {eta} left", runs as u64),
        false => ProgressBar::hidden(),
    }
}

/// Told of every run that ends, and by several threads at once: a bar on a terminal, a line a run elsewhere.
pub struct Progress {
    started: Instant,
    bar: Option<ProgressBar>,
    out: Mutex<()>,
}

impl Progress {
    /// For `runs` runs.
    pub fn new(terminal: Terminal, runs: u64) -> Self {
        let bar = terminal.interactive.then(|| bar("{bar:32} {pos:>3}/{len} {elapsed:>4}  {msg}", runs));
        Progress { started: Instant::now(), bar, out: Mutex::new(()) }
    }

    /// A run has ended.
    pub fn ended(&self, line: &str) {
        match &self.bar {
            Some(bar) => {
                bar.inc(1);
                bar.set_message(line.to_owned());
            }
            None => self.print(line),
        }
    }

    /// Something that has to be seen also where a bar is shown.
    pub fn warn(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(line),
            None => self.print(line),
        }
    }

    /// Nothing more will come.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn print(&self, line: &str) {
        // One line at a time, also from several threads.
        let _alone = self.out.lock();
        eprintln!("{:6.1} s  {line}", self.started.elapsed().as_secs_f64());
    }
}
