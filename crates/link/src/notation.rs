use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use shorthaul_types::{Bytes, parse_duration};

use crate::{Distribution, QueueLimit};

/// Why a written value was not understood: it names what was found and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotationError {
    found: String,
    wanted: &'static str,
}

impl NotationError {
    fn new(found: &str, wanted: &'static str) -> Self {
        NotationError { found: found.to_string(), wanted }
    }
}

impl fmt::Display for NotationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not {}", self.found, self.wanted)
    }
}

impl core::error::Error for NotationError {}

const DISTRIBUTION_WANTED: &str = "a length of time or a distribution of it; write \"64 ms\", \"5 s to 40 s\" \
     (uniform), \"exponential 200 ms\", \"exponential 200 ms up to 2 s\", \"normal 50 ms +- 5 ms\", \
     \"pareto 500 ms\" or \"pareto 500 ms shape 1.5\"";
const QUEUE_WANTED: &str = "a queue limit; write \"100 packets\", \"120 kB\" or \"unlimited\"";
const PROBABILITY_WANTED: &str = "a probability; write 0.001 or \"0.1 %\"";

impl FromStr for Distribution {
    type Err = NotationError;

    /// Reads `64 ms`, `5 s to 40 s`, `exponential 200 ms [up to 2 s]`, `normal 50 ms +- 5 ms` (or `±`) and
    /// `pareto 500 ms [shape 1.5]`.
    fn from_str(text: &str) -> Result<Self, NotationError> {
        let error = || NotationError::new(text, DISTRIBUTION_WANTED);
        let duration = |part: &str| parse_duration(part).map_err(|_| error());
        let trimmed = text.trim();
        let (kind, rest) = trimmed.split_once(' ').unwrap_or((trimmed, ""));
        match kind {
            "exponential" => {
                let (mean, max) = match rest.split_once("up to") {
                    Some((mean, max)) => (duration(mean)?, duration(max)?),
                    None => (duration(rest)?, Duration::MAX),
                };
                Ok(Distribution::Exponential { mean, max })
            }
            "normal" => {
                let (mean, std_dev) =
                    rest.split_once("+-").or_else(|| rest.split_once('±')).ok_or_else(error)?;
                Ok(Distribution::Normal { mean: duration(mean)?, std_dev: duration(std_dev)? })
            }
            "pareto" => match rest.split_once("shape") {
                Some((mean, shape)) => {
                    let shape = shape.trim().parse().map_err(|_| error())?;
                    Ok(Distribution::Pareto { mean: duration(mean)?, shape })
                }
                None => Ok(Distribution::pareto(duration(rest)?)),
            },
            _ => match trimmed.split_once(" to ") {
                Some((min, max)) => Ok(Distribution::Uniform { min: duration(min)?, max: duration(max)? }),
                None => Ok(Distribution::Constant(duration(trimmed)?)),
            },
        }
    }
}

#[cfg(feature = "serde")]
shorthaul_types::written_as!(Distribution, "Distribution", |_| shorthaul_types::schema::text(
    "a time, or a distribution of it",
    &[
        "64 ms",
        "5 s to 40 s",
        "exponential 200 ms",
        "exponential 200 ms up to 2 s",
        "normal 50 ms +- 5 ms",
        "pareto 500 ms",
        "pareto 500 ms shape 1.5"
    ]
));

#[cfg(feature = "serde")]
shorthaul_types::written_as!(QueueLimit, "QueueLimit", |_| shorthaul_types::schema::text(
    "how much may wait: packets or bytes",
    &["100 packets", "120 kB", "unlimited"]
));

impl FromStr for QueueLimit {
    type Err = NotationError;

    /// Reads `100 packets`, `120 kB` and `unlimited`.
    fn from_str(text: &str) -> Result<Self, NotationError> {
        let error = || NotationError::new(text, QUEUE_WANTED);
        let trimmed = text.trim();
        if trimmed == "unlimited" {
            return Ok(QueueLimit::Unlimited);
        }
        if let Some(count) = trimmed.strip_suffix("packets").or_else(|| trimmed.strip_suffix("packet")) {
            return count.trim().parse().map(QueueLimit::Packets).map_err(|_| error());
        }
        // a number alone could mean either
        if trimmed.ends_with(|c: char| c.is_ascii_digit()) {
            return Err(error());
        }
        trimmed.parse::<Bytes>().map(|bytes| QueueLimit::Bytes(bytes.0)).map_err(|_| error())
    }
}

/// Reads a probability: `0.001` or `0.1 %`.
///
/// # Errors
/// If it is neither, or not from 0 to 1.
pub fn parse_probability(text: &str) -> Result<f64, NotationError> {
    let error = || NotationError::new(text, PROBABILITY_WANTED);
    let trimmed = text.trim();
    let value: f64 = match trimmed.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map_err(|_| error())? / 100.0,
        None => trimmed.parse().map_err(|_| error())?,
    };
    if (0.0..=1.0).contains(&value) { Ok(value) } else { Err(error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_are_read_as_people_write_them() {
        let ms = Duration::from_millis;
        let cases = [
            ("64 ms", Distribution::Constant(ms(64))),
            ("5 s to 40 s", Distribution::Uniform { min: ms(5_000), max: ms(40_000) }),
            ("exponential 200 ms", Distribution::Exponential { mean: ms(200), max: Duration::MAX }),
            ("exponential 200 ms up to 2.3 s", Distribution::Exponential { mean: ms(200), max: ms(2_300) }),
            ("normal 50 ms +- 5 ms", Distribution::Normal { mean: ms(50), std_dev: ms(5) }),
            ("normal 50 ms ± 5 ms", Distribution::Normal { mean: ms(50), std_dev: ms(5) }),
            ("pareto 500 ms", Distribution::Pareto { mean: ms(500), shape: 1.5 }),
            ("pareto 0.5 s shape 2.5", Distribution::Pareto { mean: ms(500), shape: 2.5 }),
        ];
        for (text, distribution) in cases {
            assert_eq!(text.parse(), Ok(distribution), "{text}");
        }
        for wrong in ["", "gamma 5 ms", "exponential", "normal 5 ms", "5 to 40 s", "pareto 5 ms shape x"] {
            let error = wrong.parse::<Distribution>().unwrap_err().to_string();
            assert!(
                error.contains(&alloc::format!("`{wrong}`")) && error.contains("pareto 500 ms"),
                "{error}"
            );
        }
    }

    #[test]
    fn queue_limits_and_probabilities_name_their_unit() {
        assert_eq!("100 packets".parse(), Ok(QueueLimit::Packets(100)));
        assert_eq!("1 packet".parse(), Ok(QueueLimit::Packets(1)));
        assert_eq!("120 kB".parse(), Ok(QueueLimit::Bytes(120_000)));
        assert_eq!("unlimited".parse(), Ok(QueueLimit::Unlimited));
        assert!("100".parse::<QueueLimit>().unwrap_err().to_string().contains("100 packets"));
        assert_eq!(parse_probability("0.1 %"), Ok(0.001));
        assert_eq!(parse_probability("0.25"), Ok(0.25));
        assert!(parse_probability("5").unwrap_err().to_string().contains("`5` is not a probability"));
    }
}
