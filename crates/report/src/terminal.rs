use std::io::IsTerminal;

/// What the place that text goes to can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terminal {
    /// Whether colours and weights may be used.
    pub color: bool,
    /// Whether a person is looking (as opposed to a file or a pipe).
    pub interactive: bool,
}

impl Terminal {
    /// A file or a pipe: no colour.
    pub const PLAIN: Terminal = Terminal { color: false, interactive: false };

    /// What standard output can show: colour only on a terminal, and not where `NO_COLOR` is set
    /// (<https://no-color.org>) or `TERM` is `dumb`.
    pub fn stdout() -> Self {
        Terminal::of(std::io::stdout().is_terminal())
    }

    /// The same for standard error, where progress is shown.
    pub fn stderr() -> Self {
        Terminal::of(std::io::stderr().is_terminal())
    }

    fn of(interactive: bool) -> Self {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|value| value == "dumb");
        Terminal { color: interactive && !refused, interactive }
    }
}
