//! Where a long job tells what it has found, and how far it is.
use crate::Table;

/// Where a long job tells what it has found, and how far it is.
///
/// Results go to standard output, progress and warnings to standard error. A job knows neither: so it can be run by a test.
/// May be told by several threads at once.
pub trait Console: Sync {
    /// A result: one line, or several.
    fn say(&self, text: &str);

    /// A result: a table.
    fn table(&self, table: &Table);

    /// What a person who waits should see, also where progress is shown.
    fn warn(&self, text: &str);

    /// A series of steps begins.
    fn begin(&self, steps: usize);

    /// The series has become longer.
    fn extend(&self, steps: usize);

    /// Steps have come further, by this many [`PARTS`] of one.
    fn advance(&self, parts: u64);

    /// What was done last; without words where there is nothing to say.
    fn note(&self, how: &str);

    /// A step has ended, and how.
    fn step(&self, how: &str) {
        self.advance(PARTS);
        self.note(how);
    }

    /// The series is over.
    fn end(&self);
}

/// A step has so many parts.
pub const PARTS: u64 = 1000;

/// A series of steps that a console is told of; over when dropped.
pub struct Progress<'a> {
    console: &'a dyn Console,
}

impl<'a> Progress<'a> {
    /// A series of this many steps.
    pub fn begin(console: &'a dyn Console, steps: usize) -> Self {
        console.begin(steps);
        Progress { console }
    }

    /// There are more steps than were thought of.
    pub fn extend(&self, steps: usize) {
        self.console.extend(steps);
    }

    /// A step has ended, and how; without words where there is nothing to say.
    pub fn step(&self, how: &str) {
        self.console.step(how);
    }

    /// What was done last; without words where there is nothing to say.
    pub fn note(&self, how: &str) {
        self.console.note(how);
    }

    /// Steps have come further, by this many [`PARTS`] of one. All parts of a step end it.
    pub fn advance(&self, parts: u64) {
        self.console.advance(parts);
    }

    /// What a person who waits should see.
    pub fn warn(&self, text: &str) {
        self.console.warn(text);
    }
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        self.console.end();
    }
}

/// Nobody listens.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silence;

impl Console for Silence {
    fn say(&self, _: &str) {}

    fn table(&self, _: &Table) {}

    fn warn(&self, _: &str) {}

    fn begin(&self, _: usize) {}

    fn extend(&self, _: usize) {}

    fn advance(&self, _: u64) {}

    fn note(&self, _: &str) {}

    fn end(&self) {}
}
