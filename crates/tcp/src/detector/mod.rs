//! The loss detectors: a file for each, and a row here.
mod duplicate_acks;
mod ncr;
mod newreno;
mod rack;
mod rack_tlp;
mod reno;
mod sack;
mod tahoe;
mod tail_loss_probe;

use crate::LossDetector;
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::str::FromStr;

/// Duplicate-ACK threshold (RFC 5681 §3.2).
pub(crate) const DUP_THRESH: u64 = 3;

/// A [`LossDetector`] by name.
#[derive(Clone, Copy)]
pub struct LossDetection {
    name: &'static str,
    /// Without SACK, NewReno takes its place.
    needs_sack: bool,
    build: fn() -> Box<dyn LossDetector>,
}

impl LossDetection {
    /// Three duplicate ACKs make it begin anew at SND.UNA with a window of one segment, as after an RTO (Jacobson 1988).
    pub const TAHOE: LossDetection = LossDetection::new("tahoe", || Box::new(tahoe::Tahoe::default()));
    /// Fast retransmit and fast recovery, which the first new ACK ends, a partial one too (RFC 2001).
    pub const RENO: LossDetection = LossDetection::new("reno", || Box::new(reno::Reno::default()));
    /// A partial ACK shows the next hole, and recovery lasts until all that was outstanding has arrived (RFC 6582).
    pub const NEW_RENO: LossDetection =
        LossDetection::new("newreno", || Box::new(newreno::NewReno::default()));
    /// Holes are lost when enough is SACKed above them (RFC 6675), and the window shrinks by proportional rate reduction
    /// (RFC 6937).
    pub const SACK: LossDetection = LossDetection::by_sack("sack", || Box::new(sack::Sack));
    /// What was sent long enough before something delivered is lost, and a probe finds the loss of a tail (RFC 8985). The
    /// window shrinks by proportional rate reduction (RFC 6937).
    pub const RACK_TLP: LossDetection =
        LossDetection::by_sack("rack", || Box::new(rack_tlp::RackTlp::default()));
    /// A hole is lost when about a window is SACKed above it, for paths that reorder (RFC 4653). Until then, a segment leaves
    /// for every second that is SACKed.
    pub const NCR: LossDetection = LossDetection::by_sack("ncr", || Box::new(ncr::Ncr::careful()));
    /// As [`LossDetection::NCR`], with a segment for each that is SACKed.
    pub const NCR_AGGRESSIVE: LossDetection =
        LossDetection::by_sack("ncr-aggressive", || Box::new(ncr::Ncr::aggressive()));

    /// All of them. A row here is all that a detector needs to be found by name, and to be tested with the others.
    pub const ALL: &'static [LossDetection] = &[
        LossDetection::TAHOE,
        LossDetection::RENO,
        LossDetection::NEW_RENO,
        LossDetection::SACK,
        LossDetection::RACK_TLP,
        LossDetection::NCR,
        LossDetection::NCR_AGGRESSIVE,
    ];

    /// A detector for any peer.
    const fn new(name: &'static str, build: fn() -> Box<dyn LossDetector>) -> Self {
        LossDetection { name, needs_sack: false, build }
    }

    /// A detector for peers with SACK.
    const fn by_sack(name: &'static str, build: fn() -> Box<dyn LossDetector>) -> Self {
        LossDetection { name, needs_sack: true, build }
    }

    /// As in configurations.
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// Whether it goes by selective acknowledgments (RFC 2018).
    pub const fn uses_sack(self) -> bool {
        self.needs_sack
    }

    /// The detection that works with a peer that offers SACK or does not: without, [`LossDetection::NEW_RENO`] in the place
    /// of those that go by it.
    pub const fn for_peer(self, sack: bool) -> LossDetection {
        if self.needs_sack && !sack { LossDetection::NEW_RENO } else { self }
    }

    /// A detector for a connection that begins.
    pub fn build(self) -> Box<dyn LossDetector> {
        (self.build)()
    }
}

impl Default for LossDetection {
    /// [`LossDetection::RACK_TLP`].
    fn default() -> Self {
        LossDetection::RACK_TLP
    }
}

impl PartialEq for LossDetection {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for LossDetection {}

impl Hash for LossDetection {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl fmt::Debug for LossDetection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl fmt::Display for LossDetection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}

impl FromStr for LossDetection {
    type Err = UnknownLossDetection;

    fn from_str(text: &str) -> Result<Self, UnknownLossDetection> {
        let found = LossDetection::ALL.iter().find(|detection| detection.name == text.trim());
        found.copied().ok_or_else(|| UnknownLossDetection { name: text.to_string() })
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for LossDetection {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(feature = "serde")]
shorthaul_types::written_as!(LossDetection, "LossDetector", |_| {
    shorthaul_types::schema::words(LossDetection::ALL.iter().map(|detection| detection.name))
});

#[cfg(feature = "serde")]
impl serde::Serialize for LossDetection {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

/// No loss detection has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownLossDetection {
    name: String,
}

impl fmt::Display for UnknownLossDetection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = LossDetection::ALL.iter().map(|detection| detection.name).collect();
        write!(f, "`{}` is not a loss detection: write one of {}", self.name, names.join(", "))
    }
}

impl core::error::Error for UnknownLossDetection {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written_and_no_two_are_alike() {
        for detection in LossDetection::ALL {
            assert_eq!(detection.to_string().parse(), Ok(*detection));
            assert_eq!(LossDetection::ALL.iter().filter(|other| *other == detection).count(), 1);
        }
        let error = "fack".parse::<LossDetection>().unwrap_err().to_string();
        assert!(error.contains("`fack`") && error.contains("newreno"), "{error}");
    }

    #[test]
    fn without_sack_every_detection_is_one_that_needs_none() {
        for detection in LossDetection::ALL {
            assert!(!detection.for_peer(false).uses_sack(), "{detection}");
            assert_eq!(detection.for_peer(true), *detection);
        }
    }
}
