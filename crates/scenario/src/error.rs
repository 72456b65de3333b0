use std::fmt;
use std::ops::Range;

/// Why a scenario makes no sense: file, line, what stands there, what is wrong and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    source: String,
    /// The line, from 1, and what is written in it.
    line: Option<(usize, String)>,
    /// The point of the sweep whose values brought it about, where one did.
    point: Option<String>,
    problem: String,
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)?;
        if let Some((number, text)) = &self.line {
            write!(f, ", line {number}: `{text}`")?;
        }
        if let Some(point) = &self.point {
            write!(f, " (with {point})")?;
        }
        write!(f, ": {}", self.problem)
    }
}

impl std::error::Error for ScenarioError {}

impl ScenarioError {
    /// An error that concerns the file as a whole.
    pub(crate) fn whole(source: &str, problem: impl Into<String>) -> Self {
        ScenarioError { source: source.to_owned(), line: None, point: None, problem: problem.into() }
    }

    /// An error about the text at `span`.
    pub(crate) fn at(source: &str, text: &str, span: Range<usize>, problem: impl Into<String>) -> Self {
        let before = &text[..span.start.min(text.len())];
        let number = before.matches('\n').count() + 1;
        let line = text.lines().nth(number - 1).unwrap_or_default().trim().to_owned();
        ScenarioError { line: Some((number, line)), ..Self::whole(source, problem) }
    }

    /// What the TOML reader says, with its line.
    pub(crate) fn of_toml(source: &str, text: &str, error: &toml::de::Error) -> Self {
        let problem = error.message().replace('\n', ", ");
        match error.span() {
            Some(span) => Self::at(source, text, span, problem),
            None => Self::whole(source, problem),
        }
    }

    /// The same, for the values of one point of a sweep.
    pub(crate) fn in_point(mut self, point: &str) -> Self {
        if !point.is_empty() {
            self.point = Some(point.to_owned());
        }
        self
    }
}
