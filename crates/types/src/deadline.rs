use crate::Time;

/// When a machine wants to be called, and which timer asked for it (for traces and for people).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// The time of the call; one that lies in the past means "now".
    pub at: Time,
    /// The timer, in the words of its RFC: `"rto"`, `"rack"`, `"persist"`, `"delayed-ack"`, …
    pub timer: &'static str,
}

impl Deadline {
    /// The earlier of two deadlines, where there are any.
    pub fn earliest(a: Option<Deadline>, b: Option<Deadline>) -> Option<Deadline> {
        match (a, b) {
            (Some(a), Some(b)) => Some(if b.at < a.at { b } else { a }),
            (a, b) => a.or(b),
        }
    }
}
