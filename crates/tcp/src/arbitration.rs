//! Arbiters by name.
use crate::arbiter::{Arbiter, EveryLossIsCongestion};
use crate::probing::{ProbedPeer, Probing, ProbingConfig, ProbingRule};
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use shorthaul_types::Time;

/// Which [`Arbiter`] rules what the losses of a connection mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Arbitration {
    /// Every loss is congestion (RFC 5681); written `none`.
    #[default]
    EveryLoss,
    /// The path is probed first.
    Probing(ProbingConfig),
}

impl Arbitration {
    /// Written `tahoe-probing`.
    pub const TAHOE_PROBING: Arbitration = Arbitration::Probing(ProbingConfig::new(ProbingRule::Tahoe));
    /// Written `reno-probing`.
    pub const RENO_PROBING: Arbitration = Arbitration::Probing(ProbingConfig::new(ProbingRule::Reno));
    /// Written `adaptive-probing`.
    pub const ADAPTIVE_PROBING: Arbitration = Arbitration::Probing(ProbingConfig::new(ProbingRule::Adaptive));
    /// Written `selective-probing`. The paper only says that its thresholds are small.
    pub const SELECTIVE_PROBING: Arbitration =
        Arbitration::Probing(ProbingConfig::new(ProbingRule::Selective {
            round_trips: 8,
            interval: Duration::from_millis(500),
        }));
    /// Written `one-sided-probing`: for peers that know nothing of probes.
    pub const ONE_SIDED_PROBING: Arbitration = Arbitration::Probing(ProbingConfig::ONE_SIDED);

    /// All of them, by name.
    pub const ALL: [(&'static str, Arbitration); 6] = [
        ("none", Arbitration::EveryLoss),
        ("tahoe-probing", Arbitration::TAHOE_PROBING),
        ("reno-probing", Arbitration::RENO_PROBING),
        ("adaptive-probing", Arbitration::ADAPTIVE_PROBING),
        ("selective-probing", Arbitration::SELECTIVE_PROBING),
        ("one-sided-probing", Arbitration::ONE_SIDED_PROBING),
    ];

    /// Whether it offers the probing option: those that work by it do. The one for unmodified peers sends
    /// SYNs as everybody does.
    pub fn probes(&self) -> bool {
        matches!(self, Arbitration::Probing(_)) && *self != Arbitration::ONE_SIDED_PROBING
    }

    /// The arbiter of a connection that begins now, to such a peer.
    pub fn build(&self, now: Time, peer: ProbedPeer) -> Box<dyn Arbiter> {
        match *self {
            Arbitration::EveryLoss => Box::new(EveryLossIsCongestion),
            Arbitration::Probing(config) => Box::new(Probing::new(now, config, peer)),
        }
    }
}

impl fmt::Display for Arbitration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = Arbitration::ALL.iter().find(|(_, arbitration)| arbitration == self);
        f.pad(known.map_or("probing", |(name, _)| name))
    }
}

impl FromStr for Arbitration {
    type Err = UnknownArbitration;

    fn from_str(text: &str) -> Result<Self, UnknownArbitration> {
        let found = Arbitration::ALL.iter().find(|(name, _)| *name == text.trim());
        found
            .map(|(_, arbitration)| *arbitration)
            .ok_or_else(|| UnknownArbitration { name: text.to_string() })
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Arbitration {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Arbitration {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

/// No arbiter has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownArbitration {
    name: String,
}

impl fmt::Display for UnknownArbitration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Arbitration::ALL.map(|(name, _)| name).join(", ");
        write!(f, "`{}` is not an arbiter: write one of {names}", self.name)
    }
}

impl core::error::Error for UnknownArbitration {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for (name, arbitration) in Arbitration::ALL {
            assert_eq!(arbitration.to_string(), name);
            assert_eq!(name.parse(), Ok(arbitration));
        }
        let error = "probe".parse::<Arbitration>().unwrap_err().to_string();
        assert!(error.contains("`probe`") && error.contains("reno-probing"), "{error}");
    }
}
