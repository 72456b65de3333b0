//! The congestion controls: a file for each, and a row here. A row is all that one needs to be found by name, to be an
//! endpoint's profile, and to be tested with the others.
mod bbr;
mod bbr3;
mod cubic;
mod fixed;
mod hybla;
mod illinois;
mod reno;
mod vegas;
mod westwood;
mod westwood_2001;
mod wtcp;

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use shorthaul_types::Bytes;

use crate::{Control, ControlParams};

pub use bbr::Bbr;
pub use bbr3::Bbr3;
pub use cubic::Cubic;
pub use fixed::Fixed;
pub use hybla::Hybla;
pub use reno::Reno;
pub use vegas::Vegas;
pub use westwood::WestwoodPlus;

/// The registry: each row is a name, and what it builds from [`ControlParams`].
macro_rules! algorithms {
    ($($(#[$about:meta])* $row:ident = $name:literal => $control:ty,)*) => {
        /// Which congestion control a sender uses, as configurations name it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Algorithm {
            $(
                $(#[$about])*
                #[doc = concat!("Written `", $name, "`.")]
                $row,
            )*
            /// A window that congestion does not move; written `fixed:64 kB`.
            Fixed(Bytes),
        }

        impl Algorithm {
            /// Those that are written as a bare name.
            pub const NAMED: &'static [Algorithm] = &[$(Algorithm::$row),*];

            /// What it is called, without parameters: [`Control::name`] of what it builds.
            pub const fn name(&self) -> &'static str {
                match self {
                    $(Algorithm::$row => $name,)*
                    Algorithm::Fixed(_) => "fixed",
                }
            }

            /// A fresh state of this algorithm.
            pub fn build(&self, params: ControlParams) -> Box<dyn Control> {
                match *self {
                    $(Algorithm::$row => Box::new(<$control>::new(params)),)*
                    Algorithm::Fixed(window) => Box::new(Fixed::new(params, window)),
                }
            }
        }
    };
}

algorithms! {
    /// RFC 5681.
    Reno = "reno" => Reno,
    /// RFC 9438 with HyStart++.
    Cubic = "cubic" => Cubic,
    /// BBR version 1: pacing at the measured bandwidth.
    Bbr = "bbr" => Bbr,
    /// BBR version 3, which also heeds loss above 2 %.
    Bbr3 = "bbr3" => Bbr3,
    /// Reno that sets its window after a loss by the measured bandwidth.
    Westwood = "westwood" => WestwoodPlus,
    /// The same as first published, which measures the bandwidth with every acknowledgment.
    Westwood2001 = "westwood-2001" => westwood_2001::Westwood2001,
    /// Few segments in the queue, by delay.
    Vegas = "vegas" => Vegas,
    /// Growth as over a path of 25 ms, however long it is.
    Hybla = "hybla" => Hybla,
    /// Growth and shrinking by the delay, when to shrink by loss.
    Illinois = "illinois" => illinois::Illinois,
    /// The rate that the receiver reports; Reno where it reports none.
    Wtcp = "wtcp" => wtcp::Wtcp,
}

/// Why a written algorithm was not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseAlgorithmError {
    reason: String,
}

impl fmt::Display for ParseAlgorithmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl core::error::Error for ParseAlgorithmError {}

impl FromStr for Algorithm {
    type Err = ParseAlgorithmError;

    fn from_str(text: &str) -> Result<Self, ParseAlgorithmError> {
        let name = text.trim();
        if let Some(size) = name.strip_prefix("fixed:") {
            let window: Bytes = size.parse().map_err(|e| ParseAlgorithmError {
                reason: format!("in the congestion control `{text}`, the window {e}"),
            })?;
            if window == Bytes(0) {
                let reason = format!("`{text}` would never send: write a window of one segment or more");
                return Err(ParseAlgorithmError { reason });
            }
            return Ok(Algorithm::Fixed(window));
        }
        Algorithm::NAMED.iter().copied().find(|algorithm| algorithm.name() == name).ok_or_else(|| {
            let known: Vec<String> =
                Algorithm::NAMED.iter().map(|algorithm| format!("\"{}\"", algorithm.name())).collect();
            let reason = format!(
                "`{text}` is not a congestion control: write {} or a fixed window such as \"fixed:64 kB\"",
                known.join(", ")
            );
            ParseAlgorithmError { reason }
        })
    }
}

impl fmt::Display for Algorithm {
    /// Writes what [`FromStr`] reads back as the same value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Algorithm::Fixed(window) => {
                // Sizes are shown rounded; where that would lose bytes, they are counted out.
                let mut size = window.to_string();
                if size.parse() != Ok(*window) {
                    size = format!("{} B", window.0);
                }
                f.pad(&format!("fixed:{size}"))
            }
            named => f.pad(named.name()),
        }
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Algorithm {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(feature = "serde")]
shorthaul_types::written_as!(Algorithm, "CongestionControl", |_| {
    use shorthaul_types::schema;
    let fixed = "a window that congestion does not move";
    schema::any_of([
        schema::words(Algorithm::NAMED.iter().map(Algorithm::name)),
        schema::pattern("^fixed:", schema::text(fixed, &["fixed:64 kB"])),
    ])
});

#[cfg(feature = "serde")]
impl serde::Serialize for Algorithm {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn algorithms_are_read_by_name() {
        assert_eq!("reno".parse(), Ok(Algorithm::Reno));
        assert_eq!(" cubic ".parse(), Ok(Algorithm::Cubic));
        assert_eq!("fixed:64 kB".parse(), Ok(Algorithm::Fixed(Bytes(64_000))));
        assert_eq!("fixed:64 KiB".parse::<Algorithm>().unwrap().to_string(), "fixed:65536 B");
        assert_eq!(Algorithm::Fixed(Bytes(64_000)).to_string(), "fixed:64 kB");
    }

    #[test]
    fn a_wrong_name_tells_what_would_be_right() {
        let error = "vegas2".parse::<Algorithm>().unwrap_err().to_string();
        assert!(error.contains("`vegas2`") && error.contains("fixed:64 kB"), "{error}");
        for &known in Algorithm::NAMED {
            assert!(error.contains(&format!("\"{known}\"")), "{error}");
        }
        let error = "fixed:64 kbyte".parse::<Algorithm>().unwrap_err().to_string();
        assert!(error.contains("64 kbyte") && error.contains("120 kB"), "{error}");
        assert!("fixed:0 B".parse::<Algorithm>().is_err());
    }

    proptest! {
        #[test]
        fn names_survive_being_written(bytes in 1u64..1 << 40) {
            let algorithm = Algorithm::Fixed(Bytes(bytes));
            prop_assert_eq!(algorithm.to_string().parse(), Ok(algorithm));
        }
    }

    #[test]
    fn every_name_is_read_back_and_is_what_the_control_says() {
        let params = ControlParams::new(1000, shorthaul_types::Time::ZERO);
        for algorithm in Algorithm::NAMED.iter().copied().chain([Algorithm::Fixed(Bytes(1))]) {
            assert_eq!(algorithm.to_string().parse(), Ok(algorithm));
            assert_eq!(algorithm.build(params).name(), algorithm.name());
        }
    }

    #[cfg(feature = "serde")]
    #[test]
    fn algorithms_are_strings_in_files() {
        let fixed: Algorithm = serde_json::from_str("\"fixed:10 kB\"").unwrap();
        assert_eq!(fixed, Algorithm::Fixed(Bytes(10_000)));
        assert_eq!(serde_json::to_string(&fixed).unwrap(), "\"fixed:10 kB\"");
        for &algorithm in Algorithm::NAMED {
            let written = serde_json::to_string(&algorithm).unwrap();
            assert_eq!(serde_json::from_str::<Algorithm>(&written).unwrap(), algorithm);
        }
    }
}
