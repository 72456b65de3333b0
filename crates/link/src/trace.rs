use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use shorthaul_types::{BitRate, Bytes};

/// The longest trace that is understood: 49 days.
const MAX_MILLIS: u64 = u32::MAX as u64;

/// A recording of a link in mahimahi's format: one line per delivery opportunity, which is a number of
/// milliseconds from the start. Lines do not decrease, several may be equal.
///
/// The semantics are those of mahimahi's `mm-link`. At an opportunity, up to 1500 bytes of what is
/// waiting leave at once. Small packets share one, a big packet takes several, and what nobody needs is
/// wasted. A packet that comes at the very time of an opportunity misses it. The trace repeats; the last
/// line is also the length of a repetition. (mahimahi's source counts 1504 bytes per opportunity, because
/// its packets carry the four bytes of a TUN header; ours do not.)
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    millis: Vec<u32>,
}

impl Trace {
    /// What one delivery opportunity carries.
    pub const OPPORTUNITY: Bytes = Bytes(1500);

    /// A trace of opportunities at these milliseconds.
    ///
    /// # Errors
    /// If they decrease, if there are none, or if all are zero, so that a repetition would take no time.
    pub fn from_millis(millis: Vec<u32>) -> Result<Trace, TraceError> {
        if let Some(i) = millis.windows(2).position(|pair| pair[1] < pair[0]) {
            let problem = TraceProblem::Decreases { before: millis[i].into() };
            return Err(TraceError { line: i + 2, text: millis[i + 1].to_string(), problem });
        }
        match millis.last() {
            None => Err(TraceError { line: 1, text: String::new(), problem: TraceProblem::Empty }),
            Some(0) => {
                Err(TraceError { line: millis.len(), text: "0".to_string(), problem: TraceProblem::NoTime })
            }
            Some(_) => Ok(Trace { millis }),
        }
    }

    /// The opportunities of one repetition, in milliseconds.
    pub fn millis(&self) -> &[u32] {
        &self.millis
    }

    /// How long one repetition takes.
    pub fn period(&self) -> Duration {
        Duration::from_millis(self.period_millis())
    }

    /// The rate of a sender that uses every opportunity fully.
    pub fn mean_rate(&self) -> BitRate {
        let bits = self.millis.len() as u128 * u128::from(Self::OPPORTUNITY.0) * 8;
        let per_sec = bits * 1000 / u128::from(self.period_millis());
        BitRate::from_bits_per_sec(u64::try_from(per_sec).unwrap_or(u64::MAX))
    }

    fn period_millis(&self) -> u64 {
        self.millis.last().copied().map_or(1, u64::from)
    }

    /// When opportunity `number`, counted over all repetitions, comes.
    pub(crate) fn opportunity(&self, number: u64) -> Duration {
        let count = self.millis.len() as u64;
        let within = u64::from(self.millis[(number % count) as usize]);
        Duration::from_millis((number / count).saturating_mul(self.period_millis()).saturating_add(within))
    }

    /// The number of the first opportunity that does not come before `t`.
    pub(crate) fn first_at_or_after(&self, t: Duration) -> u64 {
        let millis = t.as_nanos().div_ceil(1_000_000) as u64;
        let period = self.period_millis();
        // opportunities at the very end of a repetition come before those at zero of the next
        let cycle = millis.saturating_sub(1) / period;
        let within = millis - cycle * period;
        let index = self.millis.partition_point(|&at| u64::from(at) < within);
        cycle * self.millis.len() as u64 + index as u64
    }
}

impl FromStr for Trace {
    type Err = TraceError;

    /// Reads mahimahi's format. White space around a number and empty lines at the end are accepted.
    fn from_str(text: &str) -> Result<Self, TraceError> {
        let mut millis: Vec<u32> = Vec::new();
        let text = text.trim_end();
        for (i, line) in text.lines().enumerate() {
            let error = |problem| TraceError { line: i + 1, text: line.chars().take(40).collect(), problem };
            let at: u64 = line.trim().parse().map_err(|_| error(TraceProblem::NotANumber))?;
            let at = u32::try_from(at).map_err(|_| error(TraceProblem::TooLate))?;
            if let Some(&before) = millis.last().filter(|&&before| before > at) {
                return Err(error(TraceProblem::Decreases { before: before.into() }));
            }
            millis.push(at);
        }
        Trace::from_millis(millis)
    }
}

/// Why a text is not a trace: the line, what it says, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceError {
    line: usize,
    text: String,
    problem: TraceProblem,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum TraceProblem {
    NotANumber,
    TooLate,
    Decreases { before: u64 },
    Empty,
    NoTime,
}

impl TraceError {
    /// The line at fault, counted from 1.
    pub fn line(&self) -> usize {
        self.line
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TraceError { line, text, problem } = self;
        match problem {
            TraceProblem::NotANumber => write!(
                f,
                "line {line}: `{text}` is not a whole number; a trace has one number of milliseconds per line"
            ),
            TraceProblem::TooLate => {
                write!(
                    f,
                    "line {line}: `{text}` is too late; a trace may last {MAX_MILLIS} ms, which is 49 days"
                )
            }
            TraceProblem::Decreases { before } => write!(
                f,
                "line {line}: `{text}` comes after {before}; the milliseconds of a trace must not decrease"
            ),
            TraceProblem::Empty => {
                write!(f, "line {line}: the trace is empty; it needs at least one delivery opportunity")
            }
            TraceProblem::NoTime => write!(
                f,
                "line {line}: the trace ends at 0 ms; its last line is the length of a repetition and must be later"
            ),
        }
    }
}

impl core::error::Error for TraceError {}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn text_is_read() {
        let trace: Trace = "0\n0\n3\n 7 \r\n10\n\n".parse().unwrap();
        assert_eq!(trace.millis(), [0, 0, 3, 7, 10]);
        assert_eq!(trace.period(), Duration::from_millis(10));
        assert_eq!(trace.mean_rate(), BitRate::from_bits_per_sec(6_000_000));
    }

    #[test]
    fn errors_name_the_line_and_the_remedy() {
        let error = |text: &str| text.parse::<Trace>().unwrap_err().to_string();
        assert_eq!(
            error("1\n2\n3.5\n"),
            "line 3: `3.5` is not a whole number; a trace has one number of milliseconds per line"
        );
        assert!(error("1\n\n3\n").starts_with("line 2: `` is not"));
        assert!(error("5\n4\n").starts_with("line 2: `4` comes after 5"));
        assert!(error("99999999999\n").starts_with("line 1: `99999999999` is too late"));
        assert!(error("-1\n").starts_with("line 1"));
        assert!(error("").contains("empty"));
        assert!(error("0\n0\n").contains("ends at 0"));
        assert_eq!(Trace::from_millis(vec![3, 2]).unwrap_err().line(), 2);
    }

    #[test]
    fn the_first_opportunity_is_found_as_a_walk_would() {
        for trace in ["0\n0\n3\n7\n10\n", "4\n", "1\n2\n2\n2\n9\n"] {
            let trace: Trace = trace.parse().unwrap();
            for nanos in (0..35_000_000).step_by(250_000) {
                let t = Duration::from_nanos(nanos);
                let walked = (0..).find(|&number| trace.opportunity(number) >= t).unwrap();
                assert_eq!(trace.first_at_or_after(t), walked, "{trace:?} at {t:?}");
            }
        }
    }
}
