//! The parts of a `LinkSpec`: most may be written as one value or as a table.
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;
use core::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, de::DeserializeOwned};
use shorthaul_types::{BitRate, Bytes, schema, serde_duration, written_as};

use crate::spec::one_of;
use crate::{
    Arq, CellularModel, CellularOutages, Distribution, Drx, FrameAggregation, Jitter, NakRounds, Outage,
    OutageTimes, PathsModel, QueueLimit, Rate, Reordering, parse_probability,
};

/// How a rate is written.
#[derive(Clone, Debug, PartialEq)]
pub enum RateSpec {
    /// A rate that needs nothing else.
    Plain(Rate),
    /// The name of a trace file in mahimahi's format.
    TraceFile(String),
    /// A trace to be generated.
    Cellular(CellularModel),
    /// Rates to be generated, of paths that take turns.
    Paths(PathsModel),
}

/// What is wrong with a rate of zero that is for ever.
const CARRIES_NOTHING: &str =
    "a link of 0 bit/s carries nothing, ever; write a rate such as \"10 Mbit/s\", or outages for a while";

/// How outages are written. A random process without a seed of its own is shared by both directions.
#[derive(Clone, Debug, PartialEq)]
pub struct OutagesSpec {
    /// When they happen.
    pub when: OutageTimes,
    /// How long an outage may last before packets are lost.
    pub hold: Duration,
}

/// A single value of a part that may also be a table.
pub(crate) enum Scalar<'a> {
    Text(&'a str),
    Number(f64),
}

/// Reads a part that is a single value, which `scalar` understands, or a table, which becomes a `Table`.
struct ScalarOr<Table, V> {
    expected: &'static str,
    scalar: fn(Scalar<'_>) -> Result<V, String>,
    table: fn(Table) -> Result<V, String>,
    marker: PhantomData<Table>,
}

pub(crate) fn scalar_or_table<'de, D: Deserializer<'de>, Table: DeserializeOwned, V>(
    deserializer: D,
    expected: &'static str,
    scalar: fn(Scalar<'_>) -> Result<V, String>,
    table: fn(Table) -> Result<V, String>,
) -> Result<V, D::Error> {
    deserializer.deserialize_any(ScalarOr { expected, scalar, table, marker: PhantomData })
}

impl<'de, Table: DeserializeOwned, V> Visitor<'de> for ScalarOr<Table, V> {
    type Value = V;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<V, E> {
        (self.scalar)(Scalar::Text(text)).map_err(E::custom)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<V, E> {
        (self.scalar)(Scalar::Number(number)).map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<V, E> {
        self.visit_f64(number as f64)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<V, E> {
        self.visit_f64(number as f64)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V, A::Error> {
        let table = Table::deserialize(MapAccessDeserializer::new(map))?;
        (self.table)(table).map_err(A::Error::custom)
    }
}

/// The text of a value that cannot be a number.
fn text_only<'a>(scalar: Scalar<'a>, wanted: &str) -> Result<&'a str, String> {
    match scalar {
        Scalar::Text(text) => Ok(text),
        Scalar::Number(number) => Err(alloc::format!("`{number}` has no unit; write {wanted}")),
    }
}

fn error_text(error: impl fmt::Display) -> String {
    error.to_string()
}

// --- rate ---------------------------------------------------------------------------------------------

/// A rate that changes: exactly one of `trace`, `schedule`, `cellular` and `paths`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RateTable {
    /// A trace in mahimahi's format; it repeats.
    trace: Option<String>,
    /// One rate after the other.
    schedule: Option<Vec<PhaseTable>>,
    /// Whether the schedule starts over; otherwise the last rate goes on.
    #[serde(default)]
    repeats: bool,
    /// A trace that is generated.
    cellular: Option<CellularTable>,
    /// Paths that take turns, each with a rate of its own.
    paths: Option<PathsTable>,
}

/// Paths that take turns, each with a rate of its own, as of a terminal in a constellation in low orbit.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PathsTable {
    /// The lowest rate.
    least: BitRate,
    /// The highest. The logarithm of a path's rate is drawn evenly between the two.
    most: BitRate,
    /// How long a path stays; 15 s if left out.
    #[serde(default, with = "serde_duration::option")]
    #[schemars(with = "schema::Duration")]
    every: Option<Duration>,
    /// The standard deviation of the rate of a path over its mean; 0.2 if left out.
    variation: Option<f64>,
    /// How long the rate of a path is like itself; 1 s if left out.
    #[serde(default, with = "serde_duration::option")]
    #[schemars(with = "schema::Duration")]
    memory: Option<Duration>,
    /// After this the rates repeat; 10 min if left out.
    #[serde(default, with = "serde_duration::option")]
    #[schemars(with = "schema::Duration")]
    length: Option<Duration>,
}

/// A rate for a time.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PhaseTable {
    /// How long.
    #[serde(with = "serde_duration")]
    #[schemars(with = "schema::Duration")]
    lasts: Duration,
    /// The rate.
    rate: BitRate,
}

/// A generated trace of a cellular link.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CellularTable {
    /// The mean rate.
    mean: BitRate,
    /// The rate's standard deviation over its mean.
    variation: Option<f64>,
    /// How long the rate is like itself.
    #[serde(default, with = "serde_duration::option")]
    #[schemars(with = "schema::Duration")]
    memory: Option<Duration>,
    /// When nothing gets through.
    #[serde(default, deserialize_with = "cellular_outages")]
    #[schemars(schema_with = "none_or_table::<CellularOutagesTable>")]
    outages: Option<Option<CellularOutages>>,
    /// After this the trace repeats.
    #[serde(default, with = "serde_duration::option")]
    #[schemars(with = "schema::Duration")]
    length: Option<Duration>,
}

/// Outages of a generated trace.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CellularOutagesTable {
    /// The mean time between two.
    #[serde(with = "serde_duration")]
    #[schemars(with = "schema::Duration")]
    every: Duration,
    /// The mean length of one.
    #[serde(with = "serde_duration")]
    #[schemars(with = "schema::Duration")]
    lasts: Duration,
}

fn cellular_outages<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Option<CellularOutages>>, D::Error> {
    scalar_or_table(
        d,
        "outages such as { every = \"60 s\", lasts = \"1 s\" }, or \"none\"",
        |scalar| none_or(scalar, "{ every = \"60 s\", lasts = \"1 s\" }").map(|_| Some(None)),
        |table: CellularOutagesTable| {
            Ok(Some(Some(CellularOutages { mean_gap: table.every, mean_length: table.lasts })))
        },
    )
}

impl<'de> Deserialize<'de> for RateSpec {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        scalar_or_table(
            d,
            "a rate such as \"32 Mbit/s\", \"unlimited\", or a table with `trace`, `schedule`, `cellular` or `paths`",
            |scalar| match text_only(scalar, "a rate such as \"32 Mbit/s\"")? {
                "unlimited" => Ok(RateSpec::Plain(Rate::Unlimited)),
                text => match text.parse::<BitRate>().map_err(error_text)? {
                    rate if rate.bits_per_sec() == 0 => Err(CARRIES_NOTHING.into()),
                    rate => Ok(RateSpec::Plain(Rate::Fixed(rate))),
                },
            },
            rate_from_table,
        )
    }
}

written_as!(RateSpec, "Rate", |generator| schema::any_of([
    schema::words(["unlimited"]),
    generator.subschema_for::<BitRate>(),
    generator.subschema_for::<RateTable>(),
]));

fn rate_from_table(table: RateTable) -> Result<RateSpec, String> {
    let RateTable { trace, schedule, repeats, cellular, paths } = table;
    if repeats && schedule.is_none() {
        return Err("rate: `repeats` belongs to `schedule`; a trace always repeats".to_string());
    }
    match (trace, schedule, cellular, paths) {
        (Some(file), None, None, None) => Ok(RateSpec::TraceFile(file)),
        (None, Some(phases), None, None) => {
            let phases: Vec<_> = phases.into_iter().map(|phase| (phase.lasts, phase.rate)).collect();
            if !phases.is_empty() && phases.iter().all(|(_, rate)| rate.bits_per_sec() == 0) {
                return Err(CARRIES_NOTHING.into());
            }
            Ok(RateSpec::Plain(Rate::Schedule { phases, repeats }))
        }
        (None, None, Some(cellular), None) => {
            let default = CellularModel::default();
            Ok(RateSpec::Cellular(CellularModel {
                mean: cellular.mean,
                variation: cellular.variation.unwrap_or(default.variation),
                memory: cellular.memory.unwrap_or(default.memory),
                outages: cellular.outages.unwrap_or(default.outages),
                length: cellular.length.unwrap_or(default.length),
            }))
        }
        (None, None, None, Some(paths)) => {
            let usual = PathsModel::between(paths.least, paths.most);
            Ok(RateSpec::Paths(PathsModel {
                every: paths.every.unwrap_or(usual.every),
                variation: paths.variation.unwrap_or(usual.variation),
                memory: paths.memory.unwrap_or(usual.memory),
                length: paths.length.unwrap_or(usual.length),
                ..usual
            }))
        }
        _ => Err(one_of("rate", "`trace`, `schedule`, `cellular` and `paths`")),
    }
}

// --- queue and probabilities --------------------------------------------------------------------------

pub(crate) fn queue<'de, D: Deserializer<'de>>(d: D) -> Result<Option<QueueLimit>, D::Error> {
    String::deserialize(d)?.parse().map(Some).map_err(D::Error::custom)
}

/// How a probability is written: `0.001` or `"0.1 %"`.
pub(crate) struct Probability;

written_as!(Probability, "Probability", |_| {
    let number = schemars::json_schema!({ "type": "number", "minimum": 0, "maximum": 1 });
    let percent = schema::text("a share in percent", &["0.1 %"]);
    schema::any_of([number, schema::pattern("^\\s*[0-9.eE+-]+\\s*%?\\s*$", percent)])
});

/// How a part is written that is a table or `"none"`.
pub(crate) fn none_or_table<Table: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    schema::any_of([schema::words(["none"]), generator.subschema_for::<Table>()])
}

/// How a part is written that is a distribution, a table or `"none"`.
pub(crate) fn distribution_or_table<Table: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    schema::any_of([
        schema::words(["none"]),
        generator.subschema_for::<Distribution>(),
        generator.subschema_for::<Table>(),
    ])
}

const PROBABILITY: &str = "a probability such as 0.001 or \"0.1 %\"";

/// No table is possible where a probability is wanted.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NoTable {}

pub(crate) fn probability_from(scalar: Scalar<'_>) -> Result<f64, String> {
    match scalar {
        Scalar::Text(text) => parse_probability(text).map_err(error_text),
        Scalar::Number(number) => parse_probability(&number.to_string()).map_err(error_text),
    }
}

pub(crate) fn probability<'de, D: Deserializer<'de>>(d: D) -> Result<f64, D::Error> {
    scalar_or_table(d, PROBABILITY, probability_from, |_: NoTable| {
        Err(alloc::format!("a table is not {PROBABILITY}"))
    })
}

pub(crate) fn optional_probability<'de, D: Deserializer<'de>>(d: D) -> Result<Option<f64>, D::Error> {
    probability(d).map(Some)
}

fn certain() -> f64 {
    1.0
}

// --- jitter and ARQ ------------------------------------------------------------------------------

pub(crate) fn read_distribution<'de, D: Deserializer<'de>>(d: D) -> Result<Distribution, D::Error> {
    String::deserialize(d)?.parse().map_err(D::Error::custom)
}

/// The text of a value, or `None` if it is `"none"`.
fn none_or_text<'a>(scalar: Scalar<'a>, wanted: &str) -> Result<Option<&'a str>, String> {
    let text = text_only(scalar, wanted)?;
    Ok(Some(text).filter(|text| *text != "none"))
}

/// Accepts `"none"` only, for parts that are tables otherwise.
pub(crate) fn none_or(scalar: Scalar<'_>, wanted: &str) -> Result<(), String> {
    match scalar {
        Scalar::Text("none") => Ok(()),
        Scalar::Text(text) => Err(alloc::format!("`{text}` is not understood; write {wanted}, or \"none\"")),
        Scalar::Number(number) => {
            Err(alloc::format!("`{number}` is not understood; write {wanted}, or \"none\""))
        }
    }
}

/// Random delay, in order or not.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct JitterTable {
    /// A distribution. A time alone stands for anywhere from zero to it.
    #[serde(deserialize_with = "read_distribution")]
    delay: Distribution,
    /// Whether packets may overtake each other.
    #[serde(default)]
    order: Order,
}

/// Whether packets may overtake each other.
#[derive(Default, Deserialize, JsonSchema, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Order {
    #[default]
    /// They may not.
    Kept,
    /// They may.
    Free,
}

/// A bare length of time means that the jitter lies anywhere from zero to it.
fn jitter_distribution(distribution: Distribution) -> Distribution {
    match distribution {
        Distribution::Constant(max) => Distribution::Uniform { min: Duration::ZERO, max },
        other => other,
    }
}

pub(crate) fn jitter<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Option<Jitter>>, D::Error> {
    scalar_or_table(
        d,
        "a jitter such as \"5 ms\" or { delay = \"5 ms\", order = \"free\" }, or \"none\"",
        |scalar| match none_or_text(scalar, "a jitter such as \"5 ms\"")? {
            None => Ok(Some(None)),
            Some(text) => {
                let distribution = jitter_distribution(text.parse().map_err(error_text)?);
                Ok(Some(Some(Jitter { distribution, keeps_order: true })))
            }
        },
        |table: JitterTable| {
            let distribution = jitter_distribution(table.delay);
            Ok(Some(Some(Jitter { distribution, keeps_order: table.order == Order::Kept })))
        },
    )
}

/// What ARQ, the link layer's own retransmission, costs, in time at the head of the queue.
#[derive(Deserialize, JsonSchema)]
#[serde(tag = "model", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum ArqTable {
    /// A random time for a share of the packets.
    Delay {
        /// The time.
        #[serde(deserialize_with = "read_distribution")]
        delay: Distribution,
        /// The share of packets, 0 to 1.
        #[serde(default = "certain", deserialize_with = "probability")]
        #[schemars(with = "Probability")]
        share: f64,
    },
    /// Blocks that are retransmitted until they come through (PTE §4).
    RadioBlocks {
        /// The size of a block.
        block: Bytes,
        /// The time until a block in error is retransmitted.
        #[serde(with = "serde_duration")]
        #[schemars(with = "schema::Duration")]
        retry: Duration,
        /// How often at most; without end if left out.
        retries: Option<u32>,
        /// The share of blocks in error in the good phase.
        #[serde(deserialize_with = "probability")]
        #[schemars(with = "Probability")]
        error_good: f64,
        /// The share of blocks in error in the bad phase.
        #[serde(deserialize_with = "probability")]
        #[schemars(with = "Probability")]
        error_bad: f64,
        /// The mean length of the good phase.
        #[serde(with = "serde_duration")]
        #[schemars(with = "schema::Duration")]
        good: Duration,
        /// The mean length of the bad phase.
        #[serde(with = "serde_duration")]
        #[schemars(with = "schema::Duration")]
        bad: Duration,
    },
    /// A radio link protocol whose receiver asks for the frames that are missing, while those behind are sent.
    SelectiveRepeat {
        /// The size of a frame.
        frame: Bytes,
        /// The time from the end of a frame in error until it is sent again.
        #[serde(with = "serde_duration")]
        #[schemars(with = "schema::Duration")]
        round_trip: Duration,
        /// How many copies each round of requests brings, such as `[1, 2, 3]`; what is missing after the last is given up.
        #[serde(default = "usual_rounds")]
        rounds: Vec<u8>,
        /// How many frames may be under way that have not been delivered in order; without limit if left out.
        window: Option<u32>,
        /// The share of frames in error in the good phase.
        #[serde(deserialize_with = "probability")]
        #[schemars(with = "Probability")]
        error_good: f64,
        /// The share of frames in error in the bad phase.
        #[serde(deserialize_with = "probability")]
        #[schemars(with = "Probability")]
        error_bad: f64,
        /// The mean length of the good phase.
        #[serde(with = "serde_duration")]
        #[schemars(with = "schema::Duration")]
        good: Duration,
        /// The mean length of the bad phase.
        #[serde(with = "serde_duration")]
        #[schemars(with = "schema::Duration")]
        bad: Duration,
    },
}

/// The scheme that RLP has if nothing else is agreed upon.
fn usual_rounds() -> Vec<u8> {
    Vec::from([1, 2, 3])
}

pub(crate) fn arq<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Option<Arq>>, D::Error> {
    scalar_or_table(
        d,
        "an ARQ delay such as \"pareto 500 ms\", or { model = \"delay\", delay = \"pareto 500 ms\", \
         share = 0.05 }, or a table with model = \"radio-blocks\" or \"selective-repeat\", or \"none\"",
        |scalar| match none_or_text(scalar, "an ARQ delay such as \"pareto 500 ms\"")? {
            None => Ok(Some(None)),
            Some(text) => {
                let distribution = text.parse().map_err(error_text)?;
                Ok(Some(Some(Arq::Delay { distribution, share: 1.0 })))
            }
        },
        |table| {
            Ok(Some(Some(match table {
                ArqTable::SelectiveRepeat {
                    frame,
                    round_trip,
                    rounds,
                    window,
                    error_good,
                    error_bad,
                    good,
                    bad,
                } => {
                    let rounds = NakRounds::new(&rounds).ok_or_else(|| {
                        alloc::format!(
                            "arq.rounds: {rounds:?} is no scheme of requests; write at most {} rounds of one copy at least, such as [1, 2, 3]",
                            NakRounds::MOST
                        )
                    })?;
                    Arq::SelectiveRepeat {
                        frame,
                        round_trip,
                        rounds,
                        window,
                        error_good,
                        error_bad,
                        good,
                        bad,
                    }
                }
                ArqTable::Delay { delay, share } => Arq::Delay { distribution: delay, share },
                ArqTable::RadioBlocks { block, retry, retries, error_good, error_bad, good, bad } => {
                    Arq::RadioBlocks { block, retry, retries, error_good, error_bad, good, bad }
                }
            })))
        },
    )
}

// --- outages, reordering, aggregation, DRX -----------------------------------------------------------

/// Times during which nothing gets through: a list, `every` and `lasts`, or `period` and `lasts`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OutagesTable {
    /// One by one, in order of time.
    list: Option<Vec<OutageTable>>,
    /// The mean time between two.
    #[serde(default, with = "serde_duration::option")]
    #[schemars(with = "schema::Duration")]
    every: Option<Duration>,
    /// The time from the beginning of one to that of the next, which is always the same; the first begins so long after the start.
    #[serde(default, with = "serde_duration::option")]
    #[schemars(with = "schema::Duration")]
    period: Option<Duration>,
    /// The length of one.
    #[serde(default, deserialize_with = "optional_distribution")]
    lasts: Option<Distribution>,
    /// How long one may last before packets are lost; for ever if left out.
    #[serde(default, with = "serde_duration::option")]
    #[schemars(with = "schema::Duration")]
    hold: Option<Duration>,
}

fn optional_distribution<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Distribution>, D::Error> {
    read_distribution(d).map(Some)
}

/// One outage.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OutageTable {
    /// When it begins.
    #[serde(with = "serde_duration")]
    #[schemars(with = "schema::Duration")]
    at: Duration,
    /// How long it lasts.
    #[serde(with = "serde_duration")]
    #[schemars(with = "schema::Duration")]
    lasts: Duration,
}

pub(crate) fn outages<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Option<OutagesSpec>>, D::Error> {
    const WANTED: &str = "{ every = \"2 min\", lasts = \"5 s to 40 s\", hold = \"10 s\" }, \
         { period = \"15 s\", lasts = \"40 ms to 140 ms\" } or { list = [{ at = \"10 s\", lasts = \"5 s\" }] }";
    scalar_or_table(
        d,
        "outages such as { every = \"2 min\", lasts = \"5 s to 40 s\", hold = \"10 s\" }, or \"none\"",
        |scalar| none_or(scalar, WANTED).map(|()| Some(None)),
        |table: OutagesTable| {
            let when = match (table.list, table.every, table.period, table.lasts) {
                (Some(list), None, None, None) => OutageTimes::Listed(
                    list.iter().map(|&OutageTable { at, lasts }| Outage { at, lasts }).collect(),
                ),
                (None, Some(mean_gap), None, Some(lasts)) => {
                    OutageTimes::Random { mean_gap, lasts, shared: None }
                }
                (None, None, Some(every), Some(lasts)) => OutageTimes::Regular { every, lasts, shared: None },
                _ => return Err(alloc::format!("outages: write {WANTED}")),
            };
            Ok(Some(Some(OutagesSpec { when, hold: table.hold.unwrap_or(Duration::MAX) })))
        },
    )
}

/// Packets that are held back, so that later ones overtake them.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReorderTable {
    /// The share of packets, 0 to 1.
    #[serde(deserialize_with = "probability")]
    #[schemars(with = "Probability")]
    share: f64,
    /// For how long.
    #[serde(with = "serde_duration")]
    #[schemars(with = "schema::Duration")]
    by: Duration,
}

pub(crate) fn reorder<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Option<Reordering>>, D::Error> {
    scalar_or_table(
        d,
        "reordering such as { share = 0.01, by = \"10 ms\" }, or \"none\"",
        |scalar| none_or(scalar, "{ share = 0.01, by = \"10 ms\" }").map(|()| Some(None)),
        |table: ReorderTable| Ok(Some(Some(Reordering { share: table.share, by: table.by }))),
    )
}

/// Packets that come out in groups.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FrameAggregationTable {
    /// How many make a group.
    size: usize,
    /// How long the first waits for the others at most.
    #[serde(with = "serde_duration")]
    #[schemars(with = "schema::Duration")]
    wait: Duration,
}

pub(crate) fn aggregation<'de, D: Deserializer<'de>>(
    d: D,
) -> Result<Option<Option<FrameAggregation>>, D::Error> {
    scalar_or_table(
        d,
        "frame aggregation such as { size = 4, wait = \"500 ms\" }, or \"none\"",
        |scalar| none_or(scalar, "{ size = 4, wait = \"500 ms\" }").map(|()| Some(None)),
        |table: FrameAggregationTable| {
            Ok(Some(Some(FrameAggregation { size: table.size, wait: table.wait })))
        },
    )
}

/// A delay of the first packet after silence.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DrxTable {
    /// How long the silence must have been.
    #[serde(with = "serde_duration")]
    #[schemars(with = "schema::Duration")]
    idle: Duration,
    /// The delay.
    #[serde(deserialize_with = "read_distribution")]
    penalty: Distribution,
}

pub(crate) fn drx<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Option<Drx>>, D::Error> {
    scalar_or_table(
        d,
        "DRX such as { idle = \"100 ms\", penalty = \"100 ms to 200 ms\" }, or \"none\"",
        |scalar| none_or(scalar, "{ idle = \"100 ms\", penalty = \"150 ms\" }").map(|()| Some(None)),
        |table: DrxTable| Ok(Some(Some(Drx { idle: table.idle, penalty: table.penalty }))),
    )
}
