//! How people write what a profile is made of.
use crate::AckPolicy;
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;
use shorthaul_types::{exact_duration, parse_duration};

/// Between the delay of an [`AckPolicy`] and the number of segments that come before it.
const AFTER: &str = " after ";
/// Behind that number.
const SEGMENTS: &str = " segments";

impl fmt::Display for AckPolicy {
    /// Writes what [`FromStr`] reads back as the same value, but for [`AckPolicy::ByOwner`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AckPolicy::Immediate => f.pad("immediate"),
            AckPolicy::Delayed { wait, quick: 0 } => f.pad(&format!("delayed {}", exact_duration(*wait))),
            AckPolicy::Delayed { wait, quick } => {
                f.pad(&format!("delayed {}{AFTER}{quick}{SEGMENTS}", exact_duration(*wait)))
            }
            AckPolicy::ByOwner => f.pad("by its owner"),
        }
    }
}

impl FromStr for AckPolicy {
    type Err = UnknownAckPolicy;

    /// `immediate`, `delayed 40 ms` or `delayed 40 ms after 16 segments`.
    fn from_str(text: &str) -> Result<Self, UnknownAckPolicy> {
        let unknown = || UnknownAckPolicy { text: text.to_string() };
        let written = text.trim();
        if written == "immediate" {
            return Ok(AckPolicy::Immediate);
        }
        let delayed = written.strip_prefix("delayed ").ok_or_else(unknown)?;
        let (wait, quick) = match delayed.split_once(AFTER) {
            None => (delayed, 0),
            Some((wait, segments)) => {
                let count = segments.strip_suffix(SEGMENTS).and_then(|count| count.trim().parse().ok());
                (wait, count.ok_or_else(unknown)?)
            }
        };
        let wait = parse_duration(wait).map_err(|_| unknown())?;
        Ok(AckPolicy::Delayed { wait, quick })
    }
}

/// No way to acknowledge is written like this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownAckPolicy {
    text: String,
}

impl fmt::Display for UnknownAckPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is no way to acknowledge: write \"immediate\", \"delayed 40 ms\", or \"delayed 40 ms after 16 segments\"",
            self.text
        )
    }
}

impl core::error::Error for UnknownAckPolicy {}

#[cfg(feature = "serde")]
mod serde_parts {
    use crate::AckPolicy;
    use alloc::string::String;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    impl<'de> Deserialize<'de> for AckPolicy {
        fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
            String::deserialize(d)?.parse().map_err(Error::custom)
        }
    }

    shorthaul_types::written_as!(AckPolicy, "AckPolicy", |_| shorthaul_types::schema::pattern(
        "^\\s*(immediate|delayed .*)$",
        shorthaul_types::schema::text(
            "when received data is acknowledged: at once, or delayed, and then at once for the first segments, if these are given",
            &["immediate", "delayed 40 ms", "delayed 40 ms after 16 segments"]
        )
    ));

    impl Serialize for AckPolicy {
        fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
            s.collect_str(self)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    #[test]
    fn ways_to_acknowledge_are_read_as_they_are_written() {
        let delayed = |ms, quick| AckPolicy::Delayed { wait: Duration::from_millis(ms), quick };
        for (text, policy) in [
            ("immediate", AckPolicy::Immediate),
            ("delayed 40 ms", delayed(40, 0)),
            ("delayed 200 ms after 16 segments", delayed(200, 16)),
        ] {
            assert_eq!(text.parse(), Ok(policy));
            assert_eq!(policy.to_string(), text);
        }
        for wrong in ["delayed", "delayed soon", "delayed 40 ms after dinner", "40 ms", "by its owner"] {
            let error = wrong.parse::<AckPolicy>().unwrap_err().to_string();
            assert!(error.contains(wrong) && error.contains("\"delayed 40 ms\""), "{error}");
        }
    }
}
