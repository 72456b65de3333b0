//! The console of a command: results on standard output, progress and warnings on standard error.
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use serde_json::Value;
use shorthaul_report::{Console, PARTS, Table, Terminal};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What a command's results and progress are shown on: a bar on a terminal, and nothing elsewhere, but with `SHORTHAUL_LOG=info`.
pub struct Screen {
    series: Mutex<Option<Series>>,
}

/// A series of steps that is under way.
struct Series {
    began: Instant,
    /// On a terminal.
    bar: Option<ProgressBar>,
}

impl Screen {
    pub const fn new() -> Self {
        Screen { series: Mutex::new(None) }
    }

    /// One line at a time, also where several threads have something to say.
    fn series(&self) -> MutexGuard<'_, Option<Series>> {
        self.series.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes while no bar is drawn.
    fn without_bar(&self, write: impl FnOnce()) {
        match self.series().as_ref().and_then(|series| series.bar.as_ref()) {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }
}

impl Console for Screen {
    fn say(&self, text: &str) {
        self.without_bar(|| println!("{text}"));
    }

    fn table(&self, table: &Table) {
        self.without_bar(|| print!("{}", table.render(Terminal::stdout())));
    }

    fn warn(&self, text: &str) {
        self.without_bar(|| eprintln!("{text}"));
    }

    fn begin(&self, steps: usize) {
        let bar = Terminal::stderr().interactive.then(|| {
            let template = "{bar:32} {steps}, {elapsed} so far, {eta} left  {msg}";
            let style = ProgressStyle::with_template(template);
            let style = style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("━╸─");
            let style = style.with_key("steps", |state: &ProgressState, out: &mut dyn std::fmt::Write| {
                let _ = write!(out, "{:>3}/{}", state.pos() / PARTS, state.len().unwrap_or(0) / PARTS);
            });
            let bar = ProgressBar::new(steps as u64 * PARTS).with_style(style);
            bar.enable_steady_tick(Duration::from_millis(250));
            bar
        });
        *self.series() = Some(Series { began: Instant::now(), bar });
    }

    fn extend(&self, steps: usize) {
        if let Some(Series { bar: Some(bar), .. }) = self.series().as_ref() {
            bar.inc_length(steps as u64 * PARTS);
        }
    }

    fn advance(&self, parts: u64) {
        if let Some(Series { bar: Some(bar), .. }) = self.series().as_ref() {
            bar.inc(parts);
        }
    }

    fn note(&self, how: &str) {
        match self.series().as_ref() {
            Some(Series { bar: Some(bar), .. }) => bar.set_message(how.to_owned()),
            _ if how.is_empty() => {}
            None if Terminal::stderr().interactive => eprintln!("{how}"),
            // Nobody looks: it is for those who asked for it.
            Some(Series { began, .. }) => tracing::info!("{:.1} s: {how}", began.elapsed().as_secs_f64()),
            None => tracing::info!("{how}"),
        }
    }

    fn end(&self) {
        if let Some(Series { bar: Some(bar), .. }) = self.series().take() {
            bar.finish_and_clear();
        }
    }
}

/// For those who asked for JSON: progress and warnings are shown as ever, and of the results tables are kept until all is printed.
pub struct AsJson<'a> {
    screen: &'a Screen,
    tables: Mutex<Vec<Value>>,
}

impl<'a> AsJson<'a> {
    pub const fn new(screen: &'a Screen) -> Self {
        AsJson { screen, tables: Mutex::new(Vec::new()) }
    }

    /// Prints a result, with the tables as one of its keys.
    pub fn print(&self, mut result: Value) {
        let tables = std::mem::take(&mut *self.tables.lock().unwrap_or_else(PoisonError::into_inner));
        if !tables.is_empty()
            && let Some(keys) = result.as_object_mut()
        {
            keys.insert("tables".to_owned(), Value::Array(tables));
        }
        println!("{result:#}");
    }
}

impl Console for AsJson<'_> {
    fn say(&self, _: &str) {}

    fn table(&self, table: &Table) {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner).push(table.to_json());
    }

    fn warn(&self, text: &str) {
        self.screen.warn(text);
    }

    fn begin(&self, steps: usize) {
        self.screen.begin(steps);
    }

    fn extend(&self, steps: usize) {
        self.screen.extend(steps);
    }

    fn advance(&self, parts: u64) {
        self.screen.advance(parts);
    }

    fn note(&self, how: &str) {
        self.screen.note(how);
    }

    fn end(&self) {
        self.screen.end();
    }
}
