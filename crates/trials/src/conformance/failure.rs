use shorthaul_os::Errno;
use std::fmt;
use std::io;

/// Why a case failed: one sentence for a person, with the numbers in it.
#[derive(Clone, Debug)]
pub struct Failure(String);

impl Failure {
    /// A failure that `sentence` describes.
    pub fn new(sentence: impl Into<String>) -> Self {
        Failure(sentence.into())
    }

    /// The same failure, seen in a larger context: "`context`: what went wrong".
    pub fn within(self, context: impl fmt::Display) -> Self {
        Failure(format!("{context}: {}", self.0))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

impl From<shorthaul_lab::ChildError> for Failure {
    fn from(error: shorthaul_lab::ChildError) -> Self {
        Failure(error.to_string())
    }
}

/// Turns the error of a system call into a [`Failure`] that says who did what.
pub(crate) trait While<T> {
    /// "`doing`: the system's message".
    fn doing(self, doing: impl fmt::Display) -> Result<T, Failure>;
}

impl<T> While<T> for io::Result<T> {
    fn doing(self, doing: impl fmt::Display) -> Result<T, Failure> {
        self.map_err(|error| Failure(format!("{doing}: {}", name_of(&error))))
    }
}

/// The error as programmers know it, `ECONNRESET (connection reset by peer)`.
pub(crate) fn name_of(error: &io::Error) -> String {
    let name = match Errno::from_io_error(error) {
        Some(Errno::CONNRESET) => "ECONNRESET",
        Some(Errno::CONNREFUSED) => "ECONNREFUSED",
        Some(Errno::PIPE) => "EPIPE",
        Some(Errno::TIMEDOUT) => "ETIMEDOUT",
        Some(Errno::HOSTUNREACH) => "EHOSTUNREACH",
        Some(Errno::NETUNREACH) => "ENETUNREACH",
        Some(Errno::AGAIN) => "EAGAIN",
        Some(Errno::INPROGRESS) => "EINPROGRESS",
        _ => return error.to_string(),
    };
    let text = error.to_string();
    format!("{name} ({})", text.split(" (os error").next().unwrap_or(&text).to_lowercase())
}

/// Fails with a sentence unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($sentence:tt)+) => {
        if !$condition {
            return Err($crate::conformance::failure::Failure::new(format!($($sentence)+)));
        }
    };
}
pub(crate) use ensure;
