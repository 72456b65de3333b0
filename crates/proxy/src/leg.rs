//! One side of a gateway: how it sends there, and acknowledges what comes from there.
use shorthaul_tcp::{ProfilePatch, SenderProfile};

/// The largest IP packet that any interface takes.
const LARGEST_MTU: u32 = 65_535;

/// How we send into one leg, and acknowledge what comes from it.
#[derive(Clone, Debug, PartialEq)]
pub struct LegConfig {
    /// The sender into the leg, and when what arrives from the leg is acknowledged. What is offered in a handshake has
    /// no part in it: the two ends agree on that.
    pub sender: SenderProfile,
    /// The largest IP packet that the leg's interface takes, in bytes. What ends beyond it cannot take
    /// either, path MTU discovery tells.
    pub mtu: u32,
}

impl LegConfig {
    /// The same with what a policy says.
    #[must_use]
    pub fn patched(&self, patch: &LegSpec) -> LegConfig {
        LegConfig { sender: self.sender.patched(&patch.sender), mtu: patch.mtu.unwrap_or(self.mtu) }
    }
}

impl Default for LegConfig {
    fn default() -> Self {
        LegConfig { sender: SenderProfile::default(), mtu: LARGEST_MTU }
    }
}

/// What is written about a leg: what is different from the default profile, and the leg's MTU.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct LegSpec {
    /// What is different from [`SenderProfile::default`].
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub sender: ProfilePatch,
    /// The largest IP packet, in bytes. By default what the interfaces take.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub mtu: Option<u32>,
}

impl LegSpec {
    /// The leg, on interfaces that take packets of `mtu` bytes.
    pub fn resolve(&self, mtu: Option<u32>) -> LegConfig {
        LegConfig {
            sender: SenderProfile::default().patched(&self.sender),
            mtu: self.mtu.or(mtu).unwrap_or(LARGEST_MTU),
        }
    }
}

#[cfg(feature = "serde")]
mod serde_parts {
    use super::{LARGEST_MTU, LegSpec};
    use alloc::format;
    use schemars::JsonSchema;
    use serde::de::{Deserialize, Deserializer, Error, MapAccess};
    use shorthaul_tcp::ProfilePatch;
    use shorthaul_types::serde_beside::{self, OtherKeys};
    use shorthaul_types::{schema, written_as};

    /// The smallest packet that every IPv4 host takes (RFC 791 §3.1).
    const SMALLEST_MTU: u32 = 576;

    /// The keys of a leg that are not a sender's.
    #[derive(Default, JsonSchema)]
    struct Beside {
        /// The largest IP packet, in bytes. By default what the interfaces take.
        #[schemars(range(min = SMALLEST_MTU, max = LARGEST_MTU))]
        mtu: Option<u32>,
    }

    /// What the ends of a connection agree on.
    const OF_THE_ENDS: [&str; 4] = ["sack", "timestamps", "window_scaling", "ecn"];

    written_as!(LegSpec, "Leg", |generator| schema::beside::<ProfilePatch, Beside>(generator, |key| {
        OF_THE_ENDS.contains(&key)
    }));

    impl<'de> OtherKeys<'de> for Beside {
        const KEYS: &'static [&'static str] = &["mtu"];

        fn take<A: MapAccess<'de>>(&mut self, _key: &'static str, map: &mut A) -> Result<(), A::Error> {
            self.mtu = map.next_value::<Mtu>()?.0;
            Ok(())
        }

        fn refuse(key: &str) -> Option<&'static str> {
            OF_THE_ENDS.contains(&key).then_some(
                "is for the two ends of a connection to agree on, and a gateway keeps to it: leave it out here",
            )
        }
    }

    struct Mtu(Option<u32>);

    impl<'de> Deserialize<'de> for Mtu {
        fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
            match Option::deserialize(d)? {
                Some(other) if !(SMALLEST_MTU..=LARGEST_MTU).contains(&other) => {
                    Err(D::Error::custom(format!(
                        "packets of {other} bytes: write a number from {SMALLEST_MTU} to {LARGEST_MTU}, such as 1500, or leave it out"
                    )))
                }
                mtu => Ok(Mtu(mtu)),
            }
        }
    }

    impl<'de> Deserialize<'de> for LegSpec {
        fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
            let mut beside = Beside::default();
            let sender = serde_beside::deserialize(d, &mut beside)?;
            Ok(LegSpec { sender, mtu: beside.mtu })
        }
    }
}

#[cfg(all(test, feature = "serde"))]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use shorthaul_congestion::{Algorithm, RttConfig};
    use shorthaul_tcp::{AckPolicy, LossDetection};

    #[test]
    fn a_leg_has_every_key_of_a_sender_that_the_ends_do_not_agree_on() {
        let text = "congestion = \"bbr\"\nrecovery = \"sack\"\narbiter = \"one-sided-probing\"\nf_rto = false\n\
                    black_hole_probing = false\npacing = false\nack = \"immediate\"\nrto = \"coarse\"\n\
                    initial_window = 64\nidle_restart = false\nnagle = true\nmtu = 1400\n";
        let leg = toml::from_str::<LegSpec>(text).unwrap().resolve(Some(9000));
        assert_eq!((leg.sender.congestion, leg.sender.loss_detection), (Algorithm::Bbr, LossDetection::SACK));
        assert_eq!((leg.sender.ack, leg.sender.rto), (AckPolicy::Immediate, RttConfig::COARSE));
        assert_eq!((leg.sender.initial_window, leg.mtu), (64, 1400));
        assert!(leg.sender.nagle && !leg.sender.idle_restart && !leg.sender.pacing && !leg.sender.f_rto);
        let usual = LegSpec::default().resolve(Some(9000));
        assert_eq!(usual, LegConfig { mtu: 9000, ..LegConfig::default() });
    }

    #[test]
    fn what_the_ends_agree_on_is_refused_with_its_line() {
        for key in ["sack", "timestamps", "window_scaling", "ecn"] {
            let text = alloc::format!("pacing = true\n{key} = true\n");
            let error = toml::from_str::<LegSpec>(&text).unwrap_err().to_string();
            assert!(
                error.contains("line 2") && error.contains(key) && error.contains("leave it out"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_wrong_key_or_value_is_answered_with_its_line_and_what_would_be_right() {
        for (text, line, words) in [
            ("pacing = true\ncongestoin = \"reno\"", 2, ["congestoin", "`mtu`, `congestion`"]),
            ("\n\ninitial_window = 1001", 3, ["1001", "1 to 1000"]),
            ("ack = \"later\"", 1, ["`later`", "delayed 40 ms"]),
            ("pacing = 1\n", 1, ["pacing", "boolean"]),
            ("nagle = true\nmtu = 100", 2, ["100 bytes", "576 to 65535"]),
        ] {
            let error = toml::from_str::<LegSpec>(text).unwrap_err().to_string();
            assert!(error.contains(&alloc::format!("line {line}")), "{error}");
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
        }
    }

    #[test]
    fn a_leg_is_read_as_it_was_written() {
        let text =
            "congestion = \"reno\"\nrto = \"1.5 s\"\nack = \"delayed 40 ms after 16 segments\"\nmtu = 1400";
        let leg: LegSpec = toml::from_str(text).unwrap();
        let written = toml::to_string(&leg).unwrap();
        assert_eq!(toml::from_str::<LegSpec>(&written).unwrap(), leg, "{written}");
    }
}
