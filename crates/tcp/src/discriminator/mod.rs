//! The loss discriminators: a file for each, or for each family, and a row here.
mod every_loss;
mod probing;

pub use every_loss::EveryLossIsCongestion;
pub use probing::{ProbeTimer, ProbedPeer, Probing, ProbingConfig, ProbingRule};

use crate::loss_discriminator::Discriminator;
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::str::FromStr;
use core::time::Duration;
use shorthaul_types::Time;

/// A [`Discriminator`] by name: it says what the losses of a connection mean.
#[derive(Clone, Copy)]
pub struct Discrimination {
    name: &'static str,
    offers_option: bool,
    build: fn(Time, ProbedPeer) -> Box<dyn Discriminator>,
}

impl Discrimination {
    /// Every loss is congestion (RFC 5681).
    pub const EVERY_LOSS: Discrimination =
        Discrimination::new("none", |_, _| Box::new(EveryLossIsCongestion));
    /// The path is probed before a loss is answered (PRB §2.1), and what Tahoe does follows.
    pub const TAHOE_PROBING: Discrimination = Discrimination::by_option("tahoe-probing", |now, peer| {
        Box::new(Probing::new(now, ProbingConfig::new(ProbingRule::Tahoe), peer))
    });
    /// The same, with what Reno does.
    pub const RENO_PROBING: Discrimination = Discrimination::by_option("reno-probing", |now, peer| {
        Box::new(Probing::new(now, ProbingConfig::new(ProbingRule::Reno), peer))
    });
    /// The answer depends on how the probes fared.
    pub const ADAPTIVE_PROBING: Discrimination =
        Discrimination::by_option("adaptive-probing", |now, peer| {
            Box::new(Probing::new(now, ProbingConfig::new(ProbingRule::Adaptive), peer))
        });
    /// Probes only where a loss is likely to be no congestion. The paper only says that its thresholds are small.
    pub const SELECTIVE_PROBING: Discrimination =
        Discrimination::by_option("selective-probing", |now, peer| {
            let rule = ProbingRule::Selective { round_trips: 8, interval: Duration::from_millis(500) };
            Box::new(Probing::new(now, ProbingConfig::new(rule), peer))
        });
    /// Answers as Reno-Probing, by how fast probes pass in the forward direction instead of by round trips.
    pub const FORWARD_PROBING: Discrimination = Discrimination::by_option("forward-probing", |now, peer| {
        Box::new(Probing::new(now, ProbingConfig::new(ProbingRule::Forward), peer))
    });
    /// For peers that know nothing of probes.
    pub const ONE_SIDED_PROBING: Discrimination = Discrimination::new("one-sided-probing", |now, peer| {
        Box::new(Probing::new(now, ProbingConfig::ONE_SIDED, peer))
    });

    /// All of them. A row here is all that a discriminator needs to be found by name, and to be tested with the others.
    pub const ALL: &'static [Discrimination] = &[
        Discrimination::EVERY_LOSS,
        Discrimination::TAHOE_PROBING,
        Discrimination::RENO_PROBING,
        Discrimination::ADAPTIVE_PROBING,
        Discrimination::SELECTIVE_PROBING,
        Discrimination::FORWARD_PROBING,
        Discrimination::ONE_SIDED_PROBING,
    ];

    /// A discriminator for any peer.
    const fn new(name: &'static str, build: fn(Time, ProbedPeer) -> Box<dyn Discriminator>) -> Self {
        Discrimination { name, offers_option: false, build }
    }

    /// A discriminator that offers the probing option in its SYN.
    const fn by_option(name: &'static str, build: fn(Time, ProbedPeer) -> Box<dyn Discriminator>) -> Self {
        Discrimination { name, offers_option: true, build }
    }

    /// As in configurations.
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// Whether it offers the probing option. One for unmodified peers sends SYNs as everybody does.
    pub const fn offers_option(self) -> bool {
        self.offers_option
    }

    /// The discriminator of a connection that begins now, to such a peer.
    pub fn build(self, now: Time, peer: ProbedPeer) -> Box<dyn Discriminator> {
        (self.build)(now, peer)
    }
}

impl Default for Discrimination {
    /// [`Discrimination::EVERY_LOSS`].
    fn default() -> Self {
        Discrimination::EVERY_LOSS
    }
}

impl PartialEq for Discrimination {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Discrimination {}

impl Hash for Discrimination {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl fmt::Debug for Discrimination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl fmt::Display for Discrimination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}

impl FromStr for Discrimination {
    type Err = UnknownDiscrimination;

    fn from_str(text: &str) -> Result<Self, UnknownDiscrimination> {
        let found = Discrimination::ALL.iter().find(|discrimination| discrimination.name == text.trim());
        found.copied().ok_or_else(|| UnknownDiscrimination { name: text.to_string() })
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
    shorthaul_types::schema::words(Discrimination::ALL.iter().map(|discrimination| discrimination.name))
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
        let names: Vec<&str> = Discrimination::ALL.iter().map(|discrimination| discrimination.name).collect();
        write!(f, "`{}` is not a loss discriminator: write one of {}", self.name, names.join(", "))
    }
}

impl core::error::Error for UnknownDiscrimination {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for discrimination in Discrimination::ALL {
            assert_eq!(discrimination.to_string(), discrimination.name());
            assert_eq!(discrimination.name().parse(), Ok(*discrimination));
        }
        let error = "probe".parse::<Discrimination>().unwrap_err().to_string();
        assert!(error.contains("`probe`") && error.contains("reno-probing"), "{error}");
    }
}
