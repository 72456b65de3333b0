//! What a receiver measures of what comes, and reports to its sender in an option: the rate at which to send. A file for each kind,
//! and a row here.
mod wtcp;

pub use wtcp::Wtcp;

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::{self, Debug};
use core::hash::{Hash, Hasher};
use core::str::FromStr;
use shorthaul_types::{BitRate, Time};

/// A segment with data has come. Offsets are of the peer's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When.
    pub now: Time,
    /// Its first byte.
    pub start: u64,
    /// Behind its last byte.
    pub end: u64,
    /// Payload of a full segment, in bytes.
    pub mss: u32,
    /// When it was sent, in milliseconds of the sender's clock (TSval).
    pub sent: u32,
    /// When we sent, by our clock, what the sender had heard of us by then; `None` where that cannot be told.
    pub heard: Option<Time>,
}

/// Measures what comes, and says at which rate it should be sent.
pub trait RateMeter: Debug + Send {
    /// A segment with data has come.
    fn on_segment(&mut self, arrival: &Arrival);

    /// At which rate the sender should send; `None` before that is known.
    fn rate(&self) -> Option<BitRate>;
}

/// A [`RateMeter`] by name, as one end has it and offers it in its SYN. Both ends have to, and have to have timestamps.
#[derive(Clone, Copy)]
pub struct RateReporting {
    name: &'static str,
    build: fn() -> Option<Box<dyn RateMeter>>,
}

impl RateReporting {
    /// Nothing is measured, and nothing offered.
    pub const NONE: RateReporting = RateReporting { name: "none", build: || None };
    /// By the ratio of the gaps between packets here and where they were sent (WTCP).
    pub const WTCP: RateReporting = RateReporting { name: "wtcp", build: || Some(Box::new(Wtcp::default())) };

    /// All of them. A row here is all that a kind needs to be found by name, and to be tested with the others.
    pub const ALL: &'static [RateReporting] = &[RateReporting::NONE, RateReporting::WTCP];

    /// As in configurations.
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// Whether it offers the rate option.
    pub fn offers_option(self) -> bool {
        self != RateReporting::NONE
    }

    /// What measures a connection that begins; none, where nothing is to be measured.
    pub fn build(self) -> Option<Box<dyn RateMeter>> {
        (self.build)()
    }
}

impl Default for RateReporting {
    /// [`RateReporting::NONE`].
    fn default() -> Self {
        RateReporting::NONE
    }
}

impl PartialEq for RateReporting {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for RateReporting {}

impl Hash for RateReporting {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl Debug for RateReporting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl fmt::Display for RateReporting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}

impl FromStr for RateReporting {
    type Err = UnknownRateReporting;

    fn from_str(text: &str) -> Result<Self, UnknownRateReporting> {
        let found = RateReporting::ALL.iter().find(|reporting| reporting.name == text.trim());
        found.copied().ok_or_else(|| UnknownRateReporting { name: text.to_string() })
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for RateReporting {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(feature = "serde")]
shorthaul_types::written_as!(RateReporting, "RateReporting", |_| {
    shorthaul_types::schema::words(RateReporting::ALL.iter().map(|reporting| reporting.name))
});

#[cfg(feature = "serde")]
impl serde::Serialize for RateReporting {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

/// Nothing that reports rates has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownRateReporting {
    name: String,
}

impl fmt::Display for UnknownRateReporting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = RateReporting::ALL.iter().map(|reporting| reporting.name).collect();
        write!(f, "`{}` reports no rates: write one of {}", self.name, names.join(", "))
    }
}

impl core::error::Error for UnknownRateReporting {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for reporting in RateReporting::ALL {
            assert_eq!(reporting.to_string().parse(), Ok(*reporting));
            assert_eq!(reporting.build().is_some(), reporting.offers_option());
        }
        let error = "tfrc".parse::<RateReporting>().unwrap_err().to_string();
        assert!(error.contains("`tfrc`") && error.contains("wtcp"), "{error}");
    }
}
