//! A box that shapes with CAKE, and what adjusts its rates: what people use today, to compare with.
use crate::NodeIndex;
use crate::spanned::Spanned;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use shorthaul_types::{BitRate, Bytes, schema, serde_duration, written_as};
use std::time::Duration;

/// A box between two links that queues with CAKE.
#[derive(Clone, Debug)]
pub struct Shaper {
    /// The neighbour on the access side; everything else is the wide area network.
    pub access: NodeIndex,
    /// The queue toward the access side.
    pub down: CakeConfig,
    /// The queue toward the wide area network.
    pub up: CakeConfig,
    /// What adjusts the rates of both, if anything does.
    pub autorate: Option<Autorate>,
}

/// How CAKE is set up, in one direction: the options of tc-cake(8).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CakeConfig {
    /// How much leaves at most; without, all leaves as it comes.
    pub rate: Option<BitRate>,
    /// Who gets equal parts.
    pub isolation: Isolation,
    /// The round trip for which its queue management is set: what is dropped within it is not looked for.
    pub rtt: Duration,
    /// Bytes that a packet takes beyond its size.
    pub overhead: Bytes,
    /// Whether the bottleneck is before it, so that what it drops has used the link already.
    pub ingress: bool,
}

impl Default for CakeConfig {
    fn default() -> Self {
        CakeConfig {
            rate: None,
            isolation: Isolation::default(),
            rtt: Duration::from_millis(100),
            overhead: Bytes(0),
            ingress: false,
        }
    }
}

/// Who gets equal parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// Flows.
    Flows,
    /// The hosts that packets come from, and the flows of each.
    DualSrchost,
    /// The hosts that packets go to, and the flows of each.
    DualDsthost,
    /// Both: a flow shares with those of the busier of its hosts.
    #[default]
    TripleIsolate,
}

/// cake-autorate: rates that follow load and one-way delays to reflectors.
#[derive(Clone, Debug, PartialEq)]
pub struct Autorate {
    /// Hosts whose answers tell the delay.
    pub reflectors: Vec<NodeIndex>,
    /// The rates toward the access side.
    pub down: RateRange,
    /// The rates toward the wide area network.
    pub up: RateRange,
    /// A delay so much above its baseline is one (`owd_delta_delay_thr`).
    pub delay_threshold: Duration,
    /// The mean delay above its baseline at which the rate falls most (`avg_owd_delta_max_adjust_down_thr`).
    pub falls_most_at: Duration,
}

/// Between which rates it may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RateRange {
    /// The lowest.
    pub min: BitRate,
    /// To this it returns while little is sent.
    pub base: BitRate,
    /// The highest.
    pub max: BitRate,
}

/// A rate, or `"unlimited"`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ShaperRate(pub Option<BitRate>);

written_as!(ShaperRate, "ShaperRate", |generator| schema::any_of([
    schema::words(["unlimited"]),
    generator.subschema_for::<BitRate>(),
]));

impl<'de> Deserialize<'de> for ShaperRate {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        match text.as_str() {
            "unlimited" => Ok(ShaperRate(None)),
            text => match text.parse::<BitRate>() {
                Ok(rate) if rate.bits_per_sec() > 0 => Ok(ShaperRate(Some(rate))),
                _ => Err(serde::de::Error::custom(format!(
                    "`{text}` is no rate of a shaper: write \"18 Mbit/s\" or \"unlimited\""
                ))),
            },
        }
    }
}

/// A box between two links that queues with CAKE. Simulated alone.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShaperSection {
    /// The neighbour on the access side.
    pub access: Spanned<String>,
    /// The queue toward the access side.
    #[serde(default)]
    pub down: CakeSection,
    /// The queue toward the wide area network.
    #[serde(default)]
    pub up: CakeSection,
    /// What adjusts the rates of both.
    pub autorate: Option<Spanned<AutorateSection>>,
}

/// CAKE in one direction.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct CakeSection {
    /// How much leaves at most; `"unlimited"` if left out: then all leaves as it comes.
    pub rate: ShaperRate,
    /// Who gets equal parts.
    pub isolation: Isolation,
    /// The round trip for which its queue management is set; 100 ms if left out.
    #[serde(with = "serde_duration::option")]
    #[schemars(with = "schema::Duration")]
    pub rtt: Option<Duration>,
    /// Bytes that a packet takes beyond its size.
    pub overhead: Bytes,
    /// Whether the bottleneck is before it, so that what it drops has used the link already.
    pub ingress: bool,
}

impl CakeSection {
    pub fn config(&self) -> CakeConfig {
        let usual = CakeConfig::default();
        CakeConfig {
            rate: self.rate.0,
            isolation: self.isolation,
            rtt: self.rtt.filter(|rtt| !rtt.is_zero()).unwrap_or(usual.rtt),
            overhead: self.overhead,
            ingress: self.ingress,
        }
    }
}

/// cake-autorate.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AutorateSection {
    /// Whether it adjusts anything; without, the rates stay as they are.
    #[serde(default = "yes")]
    pub adjust: bool,
    /// Hosts whose answers to timestamp requests tell the delay; six are asked by turns, each every 300 ms.
    pub reflectors: Vec<Spanned<String>>,
    /// The rates toward the access side.
    pub down: RateRange,
    /// The rates toward the wide area network.
    pub up: RateRange,
    /// A delay so much above its baseline is one; 30 ms if left out.
    #[serde(default, with = "serde_duration::option")]
    #[schemars(with = "schema::Duration")]
    pub delay_threshold: Option<Duration>,
    /// The mean delay above its baseline at which the rate falls most; 60 ms if left out.
    #[serde(default, with = "serde_duration::option")]
    #[schemars(with = "schema::Duration")]
    pub falls_most_at: Option<Duration>,
}

const fn yes() -> bool {
    true
}

impl AutorateSection {
    /// What is wrong with it, if anything is.
    pub fn problem(&self) -> Option<String> {
        if self.reflectors.is_empty() {
            return Some("`reflectors` names nobody: name a host that answers".to_owned());
        }
        let wrong = |range: &RateRange| {
            range.min.bits_per_sec() == 0 || range.base < range.min || range.max < range.base
        };
        [self.down, self.up]
            .iter()
            .any(wrong)
            .then(|| "`min` is above zero, `base` not below it, and `max` not below that".to_owned())
    }

    pub fn autorate(&self, reflectors: Vec<NodeIndex>) -> Autorate {
        Autorate {
            reflectors,
            down: self.down,
            up: self.up,
            delay_threshold: self.delay_threshold.unwrap_or(Duration::from_millis(30)),
            falls_most_at: self.falls_most_at.unwrap_or(Duration::from_millis(60)),
        }
    }
}
