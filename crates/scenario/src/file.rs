//! The sections of a scenario file as they are written. What they mean is worked out in `resolve`.
use crate::shaper::ShaperSection;
use crate::spanned::Spanned;
use crate::{Forward, Lateness, Metric, Overflow, Queues, Scheme, Series, Served};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use shorthaul_link::{CellSpec, Distribution, LinkSpec};
use shorthaul_proxy::{AggregateConfig, Clamp, LegSpec, PolicySpec};
use shorthaul_types::{BitRate, Bytes, schema, serde_duration, written_as};
use std::collections::BTreeMap;
use std::time::Duration;

/// A scenario: an experiment as data (docs/scenarios.md).
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "shorthaul scenario")]
pub(crate) struct File {
    /// The name; by default that of the file.
    #[serde(default)]
    pub name: Option<String>,
    /// One sentence.
    #[serde(default)]
    pub about: String,
    /// The seed of the first run.
    #[serde(default)]
    pub seed: u64,
    /// Runs of each point, with consecutive seeds.
    #[serde(default = "one")]
    pub repeats: u32,
    /// How long a run lasts at most.
    #[serde(with = "serde_duration")]
    #[schemars(with = "schema::Duration")]
    pub duration: Duration,
    /// What is not part of goodputs and means.
    #[serde(default, with = "serde_duration")]
    #[schemars(with = "schema::Duration")]
    pub warm_up: Duration,
    /// Nodes with applications.
    #[serde(default)]
    pub hosts: BTreeMap<Spanned<String>, HostSection>,
    /// Nodes that forward.
    #[serde(default)]
    pub routers: Vec<Spanned<String>>,
    /// Nodes that end each session's connection and open the next.
    #[serde(default)]
    pub relays: BTreeMap<Spanned<String>, RelaySection>,
    /// Nodes that split the connections that pass.
    #[serde(default)]
    pub gateways: BTreeMap<Spanned<String>, GatewaySection>,
    /// Nodes that queue with CAKE, to compare with.
    #[serde(default)]
    pub shapers: BTreeMap<Spanned<String>, ShaperSection>,
    /// Links between two nodes.
    #[serde(default)]
    pub links: Vec<LinkSection>,
    /// Rows of equal links, with relays on the way.
    #[serde(default)]
    pub chains: Vec<Spanned<ChainSection>>,
    /// Links that share the channel of a radio cell in one direction.
    #[serde(default)]
    pub cells: Vec<CellSection>,
    /// Application data.
    #[serde(default)]
    pub flows: Vec<Spanned<FlowSection>>,
    /// Datagrams that compete for the links, deaf to congestion.
    #[serde(default)]
    pub cross: Vec<Spanned<CrossSection>>,
    /// What is measured.
    #[serde(default)]
    pub measure: MeasureSection,
    /// What varies: values in the place of those in the file, by their path. Several vary together, each with each.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, Vec<serde_json::Value>>")]
    pub sweep: BTreeMap<Spanned<String>, Spanned<Vec<toml::Value>>>,
    /// Named variations, each with the values that it has in the place of the file's, by their path.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, BTreeMap<String, serde_json::Value>>")]
    pub cases: BTreeMap<Spanned<String>, BTreeMap<Spanned<String>, toml::Value>>,
}

const fn one() -> u32 {
    1
}

/// A node with applications.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct HostSection {
    /// How it speaks TCP.
    pub scheme: Option<Scheme>,
}

/// A relay.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RelaySection {
    /// How it speaks TCP on both legs.
    pub scheme: Option<Scheme>,
    /// What it holds of one session at most: packets of `packet` bytes, or bytes.
    pub buffer: BufferSection,
    /// What becomes of what `buffer` has no room for.
    pub overflow: Overflow,
    /// How long it takes over a packet.
    #[serde(deserialize_with = "distribution")]
    pub service_time: Distribution,
    /// Which packets wait for each other, where they are served after the acknowledgment.
    pub queues: Option<Spanned<Queues>>,
    /// The payload of the packet that `service_time` is meant for.
    pub packet: Bytes,
    /// What the service time of a packet holds up.
    pub served: ServedSection,
    /// When it begins to send on what it has received.
    pub forward: ForwardSection,
}

/// `"after the acknowledgment"`, `"before the acknowledgment"` or `"all at once"`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ServedSection(pub Served);

const SERVED: [(&str, Served); 3] = [
    ("after the acknowledgment", Served::AfterAcknowledgment),
    ("before the acknowledgment", Served::BeforeAcknowledgment),
    ("all at once", Served::AllAtOnce),
];

written_as!(ServedSection, "Served", |_| schema::words(SERVED.map(|(words, _)| words)));

impl<'de> Deserialize<'de> for ServedSection {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        let found = SERVED.iter().find(|(words, _)| *words == text);
        found.map(|(_, served)| ServedSection(*served)).ok_or_else(|| {
            serde::de::Error::custom(format!(
                "`{text}` is no way to serve: write \"after the acknowledgment\", \"before the acknowledgment\" or \"all at once\""
            ))
        })
    }
}

/// How the relays of a session are set up.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SetUpSection {
    /// A relay opens its next leg as soon as it is opened itself.
    #[default]
    Parallel,
    /// Before that, the opener triggers one relay after the other.
    Sequential,
}

/// `"at once"`, `"when complete"` or `"after 16 round trips"`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ForwardSection(pub Forward);

written_as!(ForwardSection, "Forward", |_| schema::pattern(
    "^(at once|when complete|after [0-9]+ round trips)$",
    schema::text("when a relay begins to send on", &["at once", "after 16 round trips", "when complete"])
));

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
            overflow: Overflow::default(),
            queues: None,
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

written_as!(BufferSection, "SessionBuffer", |_| schema::text("packets or bytes", &["1024 packets", "1 MB"]));

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

/// A transparent gateway between two links.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GatewaySection {
    /// The neighbour on the side of the bad link.
    #[serde(alias = "edge")]
    pub access: Spanned<String>,
    /// Whether it splits; without, it forwards like a router, to compare with.
    #[serde(default = "yes")]
    pub split: bool,
    /// How it sends toward the access side.
    #[serde(alias = "to_edge")]
    pub to_access: Option<Spanned<LegSpec>>,
    /// How it sends toward the rest of the network.
    #[serde(default)]
    pub to_wan: LegSpec,
    /// What it holds of each direction of a flow at most.
    pub flow_buffer: Option<Bytes>,
    /// What is done to flows that no policy is for; `auto` if nothing is written.
    pub mode: Option<shorthaul_proxy::GatewayMode>,
    /// How senders in the rest of the network are kept to what the access side can carry.
    pub senders: Option<Spanned<shorthaul_proxy::SenderSpec>>,
    /// What a radio controller tells it during a run.
    #[serde(default)]
    pub bandwidth_changes: Vec<Spanned<BandwidthSection>>,
    /// What one host is on the access side: addresses that agree in their first bits.
    #[serde(default)]
    pub hosts: shorthaul_proxy::HostSpec,
    /// Links that hosts on the access side share.
    #[serde(default)]
    pub bottleneck: Vec<shorthaul_proxy::Bottleneck>,
    /// What of the traffic toward the access side waits for its turn.
    #[serde(default)]
    pub traffic: shorthaul_proxy::Traffic,
    /// How the connections to one host on the access side are served together.
    pub aggregate: Option<AggregateSection>,
    /// How late it looks at what happens; in time if left out. Simulated alone.
    pub lateness: Option<Lateness>,
    /// When another process takes over from it, as `shorthaul gateway --take-over` does, without a moment in between. Simulated alone.
    #[serde(default)]
    pub taken_over: Vec<Spanned<TakeOverSection>>,
    /// When its process is killed, and another one begins later with what survives that. Meanwhile traffic passes as it comes.
    /// Simulated alone.
    #[serde(default)]
    pub killed: Vec<Spanned<KillSection>>,
    /// The share of flows that are observed instead of split, to compare with; none if left out, so that an experiment is about
    /// what is split.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 0.5))]
    pub control_group: f64,
    /// What is done to flows of certain classes, the first that matches; docs/gateway.md.
    #[serde(default)]
    pub policy: Vec<Spanned<PolicySpec>>,
}

/// From a time on, what a radio controller says the access side carries.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BandwidthSection {
    /// When, from the start of the run.
    #[serde(with = "serde_duration")]
    #[schemars(with = "schema::Duration")]
    pub at: Duration,
    /// Of which cell; of all if left out.
    pub cell: Option<String>,
    /// The bandwidth from then on.
    pub bandwidth: BitRate,
}

/// One process takes over from another.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TakeOverSection {
    /// When, from the start of the run.
    #[serde(with = "serde_duration")]
    #[schemars(with = "schema::Duration")]
    pub at: Duration,
}

/// The process of a gateway is killed.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KillSection {
    /// When, from the start of the run.
    #[serde(with = "serde_duration")]
    #[schemars(with = "schema::Duration")]
    pub at: Duration,
    /// How long it takes until the next one is there.
    #[serde(with = "serde_duration")]
    #[schemars(with = "schema::Duration")]
    pub gone: Duration,
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

written_as!(AggregateSection, "Aggregate", |generator| schema::any_of([
    schema::words(["none", "off"]),
    generator.subschema_for::<Clamp>(),
    generator.subschema_for::<AggregateConfig>(),
]));

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

/// A link between two nodes.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LinkSection {
    /// Its ends; `down` leads to the first, `up` to the second.
    pub between: Spanned<[String; 2]>,
    /// What it is like.
    pub link: Spanned<LinkSpec>,
    /// The longest IP packet that passes, in bytes.
    #[serde(default = "ethernet")]
    #[schemars(range(min = 256, max = 65535))]
    pub mtu: Spanned<u32>,
}

fn ethernet() -> Spanned<u32> {
    Spanned::new(0..0, 1500)
}

/// Links that share the channel of a radio cell in one direction.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CellSection {
    /// Its name, from which its randomness comes.
    pub name: Option<String>,
    /// The node that sends.
    pub from: Spanned<String>,
    /// The nodes that share the channel; each has a link with it.
    pub users: Vec<Spanned<String>>,
    /// The channel.
    pub channel: Spanned<CellSpec>,
}

/// A row of equal links.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChainSection {
    /// The hosts at its ends.
    pub between: Spanned<[String; 2]>,
    /// How many links.
    pub hops: Spanned<u32>,
    /// What each is like.
    pub link: Spanned<LinkSpec>,
    /// The longest IP packet that passes, in bytes.
    #[serde(default = "ethernet")]
    #[schemars(range(min = 256, max = 65535))]
    pub mtu: Spanned<u32>,
    /// After which hops a relay stands; routers stand behind the others.
    #[serde(default)]
    pub relays: Vec<Spanned<u32>>,
    /// What the relays are like.
    #[serde(default)]
    pub relay: RelaySection,
    /// What other hops are like, by number.
    #[serde(default)]
    pub hop: BTreeMap<Spanned<String>, Spanned<LinkSpec>>,
}

/// Application data from one host to another: `bulk`, `unlimited`, `downloads`, `requests`, `on_off` or `persistent`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FlowSection {
    /// What it is called.
    pub name: Option<String>,
    /// The host that sends the data.
    pub from: Spanned<String>,
    /// The host that receives it.
    pub to: Spanned<String>,
    /// The host that opens the connection; by default the one that receives.
    pub opened_by: Option<Spanned<String>>,
    /// The relays of the session.
    pub via: Option<Spanned<ViaSection>>,
    /// How the relays of a session are set up.
    #[serde(default)]
    pub set_up: SetUpSection,
    /// When it starts.
    #[serde(default, with = "serde_duration")]
    #[schemars(with = "schema::Duration")]
    pub start: Duration,
    /// How many are alike.
    #[serde(default = "one")]
    pub count: u32,
    /// The time between their starts.
    #[serde(default = "zero_time", deserialize_with = "distribution")]
    pub spacing: Distribution,
    /// How its ends speak TCP, where not as the hosts do.
    pub scheme: Option<Scheme>,
    /// This many bytes, then the end.
    pub bulk: Option<Bytes>,
    /// As much as goes through in this time, then the end.
    #[serde(default, with = "serde_duration::option")]
    #[schemars(with = "schema::Duration")]
    pub unlimited: Option<Duration>,
    /// One connection after the other: a request, the file, the end.
    pub downloads: Option<DownloadsSection>,
    /// One connection with a request and a response after the other.
    pub requests: Option<RequestsSection>,
    /// Data at a rate, while it is on.
    pub on_off: Option<OnOffSection>,
    /// One connection with bursts, and silence between them.
    pub persistent: Option<PersistentSection>,
}

const fn zero_time() -> Distribution {
    Distribution::Constant(Duration::ZERO)
}

/// `"all"`, or the names of relays in order.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "`via` is \"all\", or a list of relays in the order of the way, such as [\"r1\", \"r2\"]"
)]
pub(crate) enum ViaSection {
    All(AllRelays),
    Listed(Vec<String>),
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AllRelays {
    All,
}

/// Files, one after the other.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DownloadsSection {
    /// The size of a file.
    pub size: Bytes,
    /// How many.
    #[serde(default = "one")]
    pub repeats: u32,
    /// The pause before each but the first.
    #[serde(default = "zero_time", deserialize_with = "distribution")]
    pub pause: Distribution,
    /// The size of a request.
    #[serde(default = "hundred_bytes")]
    pub request: Bytes,
}

const fn hundred_bytes() -> Bytes {
    Bytes(100)
}

/// Requests and responses.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RequestsSection {
    /// The size of a request.
    #[serde(default = "hundred_bytes")]
    pub request: Bytes,
    /// The size of a response.
    pub response: Bytes,
    /// How many.
    #[serde(default = "one")]
    pub count: u32,
    /// The pause between a response and the next request.
    #[serde(default = "zero_time", deserialize_with = "distribution")]
    pub pause: Distribution,
}

/// Data that comes and goes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OnOffSection {
    /// The rate while it is on.
    pub rate: BitRate,
    /// How long it is on.
    #[serde(deserialize_with = "distribution")]
    pub on: Distribution,
    /// How long it is off.
    #[serde(deserialize_with = "distribution")]
    pub off: Distribution,
    /// How long all of this lasts.
    #[serde(with = "serde_duration")]
    #[schemars(with = "schema::Duration")]
    pub lasts: Duration,
}

/// Bursts.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PersistentSection {
    /// The size of a burst.
    pub burst: Bytes,
    /// The time from a burst's last byte to the next burst.
    #[serde(deserialize_with = "distribution")]
    pub idle: Distribution,
    /// How many.
    #[serde(default = "one")]
    pub count: u32,
}

/// Datagrams that compete for the links.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CrossSection {
    /// Its name, from which its randomness comes.
    pub name: Option<String>,
    /// The node where they enter.
    pub from: Spanned<String>,
    /// The node where they leave.
    pub to: Spanned<String>,
    /// How much, IP headers included.
    pub rate: BitRate,
    /// The size of one, IP header included.
    #[serde(default = "thousand_bytes")]
    pub packet: Bytes,
    /// How they follow each other.
    #[serde(default)]
    pub arrivals: Arrivals,
    /// When the first is sent.
    #[serde(default, with = "serde_duration")]
    #[schemars(with = "schema::Duration")]
    pub start: Duration,
    /// How long they go on; to the end of the run if left out.
    #[serde(default, with = "serde_duration::option")]
    #[schemars(with = "schema::Duration")]
    pub lasts: Option<Duration>,
}

const fn thousand_bytes() -> Bytes {
    Bytes(1000)
}

/// How the packets of competing traffic follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// Independently: exponential gaps.
    #[default]
    Poisson,
    /// At equal distances.
    Constant,
}

/// What is measured.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct MeasureSection {
    /// One number a run each.
    pub metrics: Vec<Metric>,
    /// Values over time.
    pub series: Vec<Series>,
    /// How often they are sampled.
    #[serde(with = "serde_duration")]
    #[schemars(with = "schema::Duration")]
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
