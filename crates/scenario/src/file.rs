//! The sections of a scenario file as they are written. What they mean is worked out in `resolve`.
use crate::{Forward, Metric, Scheme, Series, Served};
use serde::{Deserialize, Deserializer};
use shorthaul_link::{CellSpec, Distribution, LinkSpec};
use shorthaul_proxy::{AggregateConfig, Clamp, LegSpec, PolicySpec};
use shorthaul_types::{BitRate, Bytes, serde_duration};
use std::collections::BTreeMap;
use std::time::Duration;
use toml::Spanned;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub about: String,
    #[serde(default)]
    pub seed: u64,
    #[serde(default = "one")]
    pub repeats: u32,
    #[serde(with = "serde_duration")]
    pub duration: Duration,
    #[serde(default, with = "serde_duration")]
    pub warm_up: Duration,
    #[serde(default)]
    pub hosts: BTreeMap<Spanned<String>, HostSection>,
    #[serde(default)]
    pub routers: Vec<Spanned<String>>,
    #[serde(default)]
    pub relays: BTreeMap<Spanned<String>, RelaySection>,
    #[serde(default)]
    pub gateways: BTreeMap<Spanned<String>, GatewaySection>,
    #[serde(default)]
    pub links: Vec<LinkSection>,
    #[serde(default)]
    pub chains: Vec<Spanned<ChainSection>>,
    #[serde(default)]
    pub cells: Vec<CellSection>,
    #[serde(default)]
    pub flows: Vec<Spanned<FlowSection>>,
    #[serde(default)]
    pub cross: Vec<Spanned<CrossSection>>,
    #[serde(default)]
    pub measure: MeasureSection,
    #[serde(default)]
    pub sweep: BTreeMap<Spanned<String>, Spanned<Vec<toml::Value>>>,
    #[serde(default)]
    pub cases: BTreeMap<String, BTreeMap<Spanned<String>, toml::Value>>,
}

const fn one() -> u32 {
    1
}

#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct HostSection {
    pub scheme: Option<Scheme>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RelaySection {
    pub scheme: Option<Scheme>,
    pub buffer: BufferSection,
    #[serde(deserialize_with = "distribution")]
    pub service_time: Distribution,
    pub packet: Bytes,
    pub served: ServedSection,
    pub forward: ForwardSection,
}

/// `"after the acknowledgment"`, `"before the acknowledgment"` or `"all at once"`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ServedSection(pub Served);

impl<'de> Deserialize<'de> for ServedSection {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        match text.as_str() {
            "after the acknowledgment" => Ok(ServedSection(Served::AfterAcknowledgment)),
            "before the acknowledgment" => Ok(ServedSection(Served::BeforeAcknowledgment)),
            "all at once" => Ok(ServedSection(Served::AllAtOnce)),
            _ => Err(serde::de::Error::custom(format!(
                "`{text}` is no way to serve: write \"after the acknowledgment\", \"before the acknowledgment\" or \"all at once\""
            ))),
        }
    }
}

/// `"parallel"` or `"sequential"`.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SetUpSection {
    #[default]
    Parallel,
    Sequential,
}

/// `"at once"`, `"when complete"` or `"after 16 round trips"`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ForwardSection(pub Forward);

impl<'de> Deserialize<'de> for ForwardSection {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        let round_trips = || text.strip_prefix("after ")?.strip_suffix(" round trips")?.trim().parse().ok();
        let forward = match text.as_str() {
            "at once" => Some(Forward::AtOnce),
            "when complete" => Some(Forward::WhenComplete),
            _ => round_trips().map(Forward::AfterRoundTrips),
        };
        forward.map(ForwardSection).ok_or_else(|| {
            serde::de::Error::custom(format!(
                "`{text}` is no way to forward: write \"at once\", \"after 16 round trips\" or \"when complete\""
            ))
        })
    }
}

impl Default for RelaySection {
    fn default() -> Self {
        RelaySection {
            scheme: None,
            buffer: BufferSection::Packets(1024),
            service_time: Distribution::Constant(Duration::ZERO),
            packet: Bytes(1000),
            served: ServedSection::default(),
            forward: ForwardSection::default(),
        }
    }
}

/// `"1024 packets"` or `"1 MB"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BufferSection {
    Packets(u64),
    Bytes(Bytes),
}

impl<'de> Deserialize<'de> for BufferSection {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        let wrong = || {
            serde::de::Error::custom(format!(
                "`{text}` is no buffer of a session: write \"1024 packets\" or \"1 MB\""
            ))
        };
        let trimmed = text.trim();
        let buffer = match trimmed.strip_suffix("packets").or_else(|| trimmed.strip_suffix("packet")) {
            Some(count) => BufferSection::Packets(count.trim().parse().map_err(|_| wrong())?),
            None => BufferSection::Bytes(trimmed.parse().map_err(|_| wrong())?),
        };
        match buffer {
            BufferSection::Packets(0) | BufferSection::Bytes(Bytes(0)) => Err(wrong()),
            buffer => Ok(buffer),
        }
    }
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GatewaySection {
    pub edge: Spanned<String>,
    #[serde(default = "yes")]
    pub split: bool,
    pub to_edge: Option<Spanned<LegSpec>>,
    #[serde(default)]
    pub to_wan: LegSpec,
    pub flow_buffer: Option<Bytes>,
    pub senders: Option<Spanned<shorthaul_proxy::SenderSpec>>,
    #[serde(default)]
    pub bandwidth_changes: Vec<BandwidthSection>,
    pub aggregate: Option<AggregateSection>,
    #[serde(default)]
    pub policy: Vec<Spanned<PolicySpec>>,
}

/// From a time on, what a radio controller says the edge carries.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BandwidthSection {
    #[serde(with = "serde_duration")]
    pub at: Duration,
    pub cell: Option<String>,
    pub bandwidth: BitRate,
}

const fn yes() -> bool {
    true
}

/// `"none"`, `"auto"`, `"10 kB"`, or a table of the aggregate's configuration.
#[derive(Clone)]
pub(crate) enum AggregateSection {
    Off,
    Clamp(Clamp),
    Whole(Box<AggregateConfig>),
}

impl<'de> Deserialize<'de> for AggregateSection {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AggregateWritten)
    }
}

/// Reads an [`AggregateSection`]: by hand, so that what is wrong within the table is said.
struct AggregateWritten;

impl<'de> serde::de::Visitor<'de> for AggregateWritten {
    type Value = AggregateSection;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("\"none\", \"auto\", a window such as \"10 kB\", or a table such as { clamp = \"auto\", interactive = \"4 kB\" }")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<AggregateSection, E> {
        match text {
            "none" | "off" => Ok(AggregateSection::Off),
            _ => text.parse().map(AggregateSection::Clamp).map_err(E::custom),
        }
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<AggregateSection, A::Error> {
        let table = serde::de::value::MapAccessDeserializer::new(map);
        Ok(AggregateSection::Whole(Box::new(AggregateConfig::deserialize(table)?)))
    }
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LinkSection {
    pub between: Spanned<[String; 2]>,
    pub link: Spanned<LinkSpec>,
    #[serde(default = "ethernet")]
    pub mtu: Spanned<u32>,
}

fn ethernet() -> Spanned<u32> {
    Spanned::new(0..0, 1500)
}

/// Links that share the channel of a radio cell in one direction.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CellSection {
    pub name: Option<String>,
    pub from: Spanned<String>,
    pub users: Vec<Spanned<String>>,
    pub channel: Spanned<CellSpec>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChainSection {
    pub between: Spanned<[String; 2]>,
    pub hops: Spanned<u32>,
    pub link: Spanned<LinkSpec>,
    #[serde(default = "ethernet")]
    pub mtu: Spanned<u32>,
    #[serde(default)]
    pub relays: Vec<Spanned<u32>>,
    #[serde(default)]
    pub relay: RelaySection,
    #[serde(default)]
    pub hop: BTreeMap<Spanned<String>, Spanned<LinkSpec>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FlowSection {
    pub name: Option<String>,
    pub from: Spanned<String>,
    pub to: Spanned<String>,
    pub opened_by: Option<Spanned<String>>,
    pub via: Option<Spanned<ViaSection>>,
    #[serde(default)]
    pub set_up: SetUpSection,
    #[serde(default, with = "serde_duration")]
    pub start: Duration,
    #[serde(default = "one")]
    pub count: u32,
    #[serde(default = "zero_time", deserialize_with = "distribution")]
    pub spacing: Distribution,
    pub scheme: Option<Scheme>,
    pub bulk: Option<Bytes>,
    #[serde(default, with = "serde_duration::option")]
    pub unlimited: Option<Duration>,
    pub downloads: Option<DownloadsSection>,
    pub requests: Option<RequestsSection>,
    pub on_off: Option<OnOffSection>,
    pub persistent: Option<PersistentSection>,
}

const fn zero_time() -> Distribution {
    Distribution::Constant(Duration::ZERO)
}

/// `"all"`, or the names of relays in order.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "`via` is \"all\", or a list of relays in the order of the way, such as [\"r1\", \"r2\"]"
)]
pub(crate) enum ViaSection {
    All(AllRelays),
    Listed(Vec<String>),
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AllRelays {
    All,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DownloadsSection {
    pub size: Bytes,
    #[serde(default = "one")]
    pub repeats: u32,
    #[serde(default = "zero_time", deserialize_with = "distribution")]
    pub pause: Distribution,
    #[serde(default = "hundred_bytes")]
    pub request: Bytes,
}

const fn hundred_bytes() -> Bytes {
    Bytes(100)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RequestsSection {
    #[serde(default = "hundred_bytes")]
    pub request: Bytes,
    pub response: Bytes,
    #[serde(default = "one")]
    pub count: u32,
    #[serde(default = "zero_time", deserialize_with = "distribution")]
    pub pause: Distribution,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OnOffSection {
    pub rate: BitRate,
    #[serde(deserialize_with = "distribution")]
    pub on: Distribution,
    #[serde(deserialize_with = "distribution")]
    pub off: Distribution,
    #[serde(with = "serde_duration")]
    pub lasts: Duration,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PersistentSection {
    pub burst: Bytes,
    #[serde(deserialize_with = "distribution")]
    pub idle: Distribution,
    #[serde(default = "one")]
    pub count: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CrossSection {
    pub name: Option<String>,
    pub from: Spanned<String>,
    pub to: Spanned<String>,
    pub rate: BitRate,
    #[serde(default = "thousand_bytes")]
    pub packet: Bytes,
    #[serde(default)]
    pub arrivals: Arrivals,
    #[serde(default, with = "serde_duration")]
    pub start: Duration,
    #[serde(default, with = "serde_duration::option")]
    pub lasts: Option<Duration>,
}

const fn thousand_bytes() -> Bytes {
    Bytes(1000)
}

/// How the packets of competing traffic follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// Independently: exponential gaps.
    #[default]
    Poisson,
    /// At equal distances.
    Constant,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct MeasureSection {
    pub metrics: Vec<Metric>,
    pub series: Vec<Series>,
    #[serde(with = "serde_duration")]
    pub every: Duration,
}

impl Default for MeasureSection {
    fn default() -> Self {
        MeasureSection {
            metrics: vec![Metric::Goodput, Metric::Completion],
            series: Vec::new(),
            every: Duration::from_millis(100),
        }
    }
}

fn distribution<'de, D: Deserializer<'de>>(d: D) -> Result<Distribution, D::Error> {
    let text = String::deserialize(d)?;
    let distribution: Distribution = text.parse().map_err(serde::de::Error::custom)?;
    distribution.check().map_err(|problem| serde::de::Error::custom(format!("`{text}`: {problem}")))?;
    Ok(distribution)
}
