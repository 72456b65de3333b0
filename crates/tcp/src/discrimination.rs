//! Loss discriminators by name.
use crate::discriminator::{Discriminator, EveryLossIsCongestion};
use crate::probing::{ProbedPeer, Probing, ProbingConfig, ProbingRule};
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use shorthaul_types::Time;

/// Which [`Discriminator`] says what the losses of a connection mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Discrimination {
    /// Every loss is congestion (RFC 5681); written `none`.
    #[default]
    EveryLoss,
    /// The path is probed first.
    Probing(ProbingConfig),
}

impl Discrimination {
    /// Written `tahoe-probing`.
    pub const TAHOE_PROBING: Discrimination = Discrimination::Probing(ProbingConfig::new(ProbingRule::Tahoe));
    /// Written `reno-probing`.
    pub const RENO_PROBING: Discrimination = Discrimination::Probing(ProbingConfig::new(ProbingRule::Reno));
    /// Written `adaptive-probing`.
    pub const ADAPTIVE_PROBING: Discrimination =
        Discrimination::Probing(ProbingConfig::new(ProbingRule::Adaptive));
    /// Written `selective-probing`. The paper only says that its thresholds are small.
    pub const SELECTIVE_PROBING: Discrimination =
        Discrimination::Probing(ProbingConfig::new(ProbingRule::Selective {
            round_trips: 8,
            interval: Duration::from_millis(500),
        }));
    /// Written `one-sided-probing`: for peers that know nothing of probes.
    pub const ONE_SIDED_PROBING: Discrimination = Discrimination::Probing(ProbingConfig::ONE_SIDED);

    /// All of them, by name.
    pub const ALL: [(&'static str, Discrimination); 6] = [
        ("none", Discrimination::EveryLoss),
        ("tahoe-probing", Discrimination::TAHOE_PROBING),
        ("reno-probing", Discrimination::RENO_PROBING),
        ("adaptive-probing", Discrimination::ADAPTIVE_PROBING),
        ("selective-probing", Discrimination::SELECTIVE_PROBING),
        ("one-sided-probing", Discrimination::ONE_SIDED_PROBING),
    ];

    /// Whether it offers the probing option: those that work by it do. The one for unmodified peers sends
    /// SYNs as everybody does.
    pub fn probes(&self) -> bool {
        matches!(self, Discrimination::Probing(_)) && *self != Discrimination::ONE_SIDED_PROBING
    }

    /// The discriminator of a connection that begins now, to such a peer.
    pub fn build(&self, now: Time, peer: ProbedPeer) -> Box<dyn Discriminator> {
        match *self {
            Discrimination::EveryLoss => Box::new(EveryLossIsCongestion),
            Discrimination::Probing(config) => Box::new(Probing::new(now, config, peer)),
        }
    }
}

impl fmt::Display for Discrimination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = Discrimination::ALL.iter().find(|(_, discrimination)| discrimination == self);
        f.pad(known.map_or("probing", |(name, _)| name))
    }
}

impl FromStr for Discrimination {
    type Err = UnknownDiscrimination;

    fn from_str(text: &str) -> Result<Self, UnknownDiscrimination> {
        let found = Discrimination::ALL.iter().find(|(name, _)| *name == text.trim());
        found
            .map(|(_, discrimination)| *discrimination)
            .ok_or_else(|| UnknownDiscrimination { name: text.to_string() })
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Discrimination {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(feature = "serde")]
shorthaul_types::written_as!(Discrimination, "LossDiscriminator", |_| {
    shorthaul_types::schema::words(Discrimination::ALL.map(|(name, _)| name))
});

#[cfg(feature = "serde")]
impl serde::Serialize for Discrimination {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

/// No discriminator has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownDiscrimination {
    name: String,
}

impl fmt::Display for UnknownDiscrimination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Discrimination::ALL.map(|(name, _)| name).join(", ");
        write!(f, "`{}` is not a loss discriminator: write one of {names}", self.name)
    }
}

impl core::error::Error for UnknownDiscrimination {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for (name, discrimination) in Discrimination::ALL {
            assert_eq!(discrimination.to_string(), name);
            assert_eq!(name.parse(), Ok(discrimination));
        }
        let error = "probe".parse::<Discrimination>().unwrap_err().to_string();
        assert!(error.contains("`probe`") && error.contains("reno-probing"), "{error}");
    }
}
