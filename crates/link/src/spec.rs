use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use shorthaul_types::{Bytes, Seed, schema};

use crate::spec_parts::{self, OutagesSpec, RateSpec};
use crate::{
    Arq, ConfigError, Drx, FrameAggregation, GprsPhone, GprsRadio, Jitter, LinkConfig, LossModel,
    OutageTimes, Outages, QueueLimit, RadioNetwork, Rate, Reordering, RouteChanges, Trace,
};

/// A link as people write it in TOML. Every key may be left out; what is left out comes from the preset, or
/// does nothing. The units are written with the numbers.
///
/// ```toml
/// preset = "gprs"                    # or "gprs-4+1", "gprs-moving", "gprs-4+1-moving",
///                                    # "radio-gprs", "radio-umts", "radio-lte", "starlink"
/// rate = "32 Mbit/s"                 # or "unlimited", or a table:
/// # rate = { trace = "lte.down" }    # mahimahi's format
/// # rate = { cellular = { mean = "10 Mbit/s", variation = 0.7 } }
/// # rate = { paths = { least = "20 Mbit/s", most = "250 Mbit/s" } }      # another every 15 s
/// # rate = { schedule = [{ lasts = "10 s", rate = "1 Mbit/s" }, { lasts = "5 s", rate = "8 Mbit/s" }], repeats = true }
/// overhead = "38 B"                  # per packet
/// queue = "100 packets"              # or "120 kB", "unlimited"
/// delay = "64 ms"
/// jitter = "5 ms"                    # 0 to 5 ms, order kept; or { delay = "normal 20 ms +- 5 ms", order = "free" }
/// route_changes = { every = "15 s", delay = "0 ms to 20 ms" }   # another path, as in a constellation in low orbit
/// loss = 0.001                       # or "0.1 %", or { model = "on-off", on = "1 s", off = "5 s", rate = 0.33 },
///                                    # { model = "gilbert-elliott", to_bad = 0.01, to_good = 0.2, loss_bad = 0.5 },
///                                    # { model = "bit-errors", rate = 1e-6 }
/// duplicate = 0.0001
/// arq = "pareto 500 ms"              # or { model = "delay", delay = "pareto 500 ms", share = 0.05 },
///                                    # { model = "radio-blocks", block = "50 B", retry = "20 ms", … } at the head of the queue, or
///                                    # { model = "selective-repeat", frame = "50 B", round_trip = "110 ms", rounds = [1, 2, 3], … }
/// outages = { every = "2 min", lasts = "5 s to 40 s", hold = "10 s" }    # or { list = [{ at = "10 s", lasts = "5 s" }] }, or at
///                                                                        # regular times { period = "15 s", lasts = "40 ms to 140 ms" }
/// reorder = { share = 0.01, by = "10 ms" }
/// aggregation = { size = 4, wait = "500 ms" }
/// drx = { idle = "100 ms", penalty = "100 ms to 200 ms" }
///
/// [up]                               # what is different in one direction
/// rate = "5 Mbit/s"
/// ```
///
/// A distribution of time is written `64 ms`, `5 s to 40 s` (uniform), `exponential 200 ms up to 2 s`,
/// `normal 50 ms +- 5 ms` or `pareto 500 ms shape 1.5`. `"none"` switches off a part that the preset has.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LinkSpec {
    /// What is taken for the keys that are left out.
    pub preset: Option<Preset>,
    /// How fast packets are serialized, one after the other.
    pub rate: Option<RateSpec>,
    /// Bytes that every packet takes on the link beyond its size: link-layer header, trailer, gaps.
    pub overhead: Option<Bytes>,
    /// How much may wait for serialization; what does not fit is dropped at the tail.
    #[serde(deserialize_with = "spec_parts::queue")]
    #[schemars(with = "QueueLimit")]
    pub queue: Option<QueueLimit>,
    /// Propagation delay, added after serialization.
    #[serde(deserialize_with = "shorthaul_types::serde_duration::option::deserialize")]
    #[schemars(with = "schema::Duration")]
    pub delay: Option<Duration>,
    /// Random delay in addition to `delay`. A time alone stands for anywhere from zero to it. `"none"` switches it off.
    #[serde(deserialize_with = "spec_parts::jitter")]
    #[schemars(schema_with = "spec_parts::distribution_or_table::<spec_parts::JitterTable>")]
    pub jitter: Option<Option<Jitter>>,
    /// Paths that take turns, each with a delay in addition to `delay`. `"none"` switches them off.
    #[serde(deserialize_with = "crate::route::written::read")]
    #[schemars(schema_with = "crate::route::written::schema")]
    pub route_changes: Option<Option<RouteChanges>>,
    /// Random loss: a probability for every packet, or a model.
    #[serde(deserialize_with = "crate::loss::read")]
    #[schemars(schema_with = "crate::loss::written")]
    pub loss: Option<LossModel>,
    /// The probability that a packet is sent twice.
    #[serde(deserialize_with = "spec_parts::optional_probability")]
    #[schemars(with = "spec_parts::Probability")]
    pub duplicate: Option<f64>,
    /// Time that ARQ, the link layer's own retransmission, spends on a packet; order is kept. `"none"` switches it off.
    #[serde(alias = "recovery", deserialize_with = "spec_parts::arq")]
    #[schemars(schema_with = "spec_parts::distribution_or_table::<spec_parts::ArqTable>")]
    pub arq: Option<Option<Arq>>,
    /// Times during which nothing gets through. `"none"` switches them off.
    #[serde(deserialize_with = "spec_parts::outages")]
    #[schemars(schema_with = "spec_parts::none_or_table::<spec_parts::OutagesTable>")]
    pub outages: Option<Option<OutagesSpec>>,
    /// Packets held back so that later ones overtake them. `"none"` switches it off.
    #[serde(deserialize_with = "spec_parts::reorder")]
    #[schemars(schema_with = "spec_parts::none_or_table::<spec_parts::ReorderTable>")]
    pub reorder: Option<Option<Reordering>>,
    /// Frame aggregation: packets that come out in groups. `"none"` switches it off.
    #[serde(alias = "bunching", deserialize_with = "spec_parts::aggregation")]
    #[schemars(schema_with = "spec_parts::none_or_table::<spec_parts::FrameAggregationTable>")]
    pub aggregation: Option<Option<FrameAggregation>>,
    /// DRX, discontinuous reception: a delay of the first packet after silence. `"none"` switches it off.
    #[serde(alias = "wakeup", deserialize_with = "spec_parts::drx")]
    #[schemars(schema_with = "spec_parts::none_or_table::<spec_parts::DrxTable>")]
    pub drx: Option<Option<Drx>>,
    /// What is different from the second end of the link to the first. Where the first is the access side, whoever downloads, this is the way down.
    pub down: Option<Box<LinkSpec>>,
    /// What is different from the first end of the link to the second.
    pub up: Option<Box<LinkSpec>>,
}

/// A ready-made link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum Preset {
    /// A 3+1 GPRS phone in ideal radio conditions; see [`LinkConfig::gprs_downlink`].
    #[serde(rename = "gprs")]
    Gprs,
    /// A 4+1 GPRS phone in ideal radio conditions.
    #[serde(rename = "gprs-4+1")]
    Gprs4Plus1,
    /// A 3+1 GPRS phone with outages.
    #[serde(rename = "gprs-moving")]
    GprsMoving,
    /// A 4+1 GPRS phone with outages.
    #[serde(rename = "gprs-4+1-moving")]
    Gprs4Plus1Moving,
    /// GPRS by its radio blocks; see [`LinkConfig::radio_downlink`].
    #[serde(rename = "radio-gprs")]
    RadioGprs,
    /// UMTS by its radio blocks.
    #[serde(rename = "radio-umts")]
    RadioUmts,
    /// An LTE-like network by its transport blocks.
    #[serde(rename = "radio-lte")]
    RadioLte,
    /// A terminal in a constellation in low orbit: another path every 15 s; see [`LinkConfig::starlink_downlink`].
    #[serde(rename = "starlink")]
    Starlink,
}

/// One of the two directions of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Toward the access side: to the phone, the client, the one who downloads.
    Down,
    /// From the access side.
    Up,
}

impl Direction {
    const fn name(self) -> &'static str {
        match self {
            Direction::Down => "down",
            Direction::Up => "up",
        }
    }
}

/// Why a [`LinkSpec`] does not make a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkSpecError {
    /// A trace could not be loaded.
    Trace {
        /// The file as the specification names it.
        file: String,
        /// What the loader says.
        problem: String,
    },
    /// A value makes no sense.
    Config(ConfigError),
    /// A direction within a direction.
    NestedDirection,
}

impl fmt::Display for LinkSpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkSpecError::Trace { file, problem } => write!(f, "rate.trace: {file}: {problem}"),
            LinkSpecError::Config(error) => error.fmt(f),
            LinkSpecError::NestedDirection => f.write_str(
                "`up` or `down` stands inside `up` or `down`; put it beside the other keys of the link",
            ),
        }
    }
}

impl core::error::Error for LinkSpecError {}

impl From<ConfigError> for LinkSpecError {
    fn from(error: ConfigError) -> Self {
        LinkSpecError::Config(error)
    }
}

impl LinkSpec {
    /// The link in one direction.
    ///
    /// `link_seed` is the seed of the whole link, the same for both directions: random outages hit both at
    /// once, and generated traces come from it. `load_trace` is given the name of a trace file as it is
    /// written and says what is wrong with it, if anything.
    ///
    /// # Errors
    /// If a trace cannot be loaded, or a value makes no sense.
    pub fn resolve(
        &self,
        direction: Direction,
        link_seed: Seed,
        mut load_trace: impl FnMut(&str) -> Result<Arc<Trace>, String>,
    ) -> Result<LinkConfig, LinkSpecError> {
        let over = match direction {
            Direction::Down => self.down.as_deref(),
            Direction::Up => self.up.as_deref(),
        };
        if [&self.up, &self.down].into_iter().flatten().any(|spec| spec.up.is_some() || spec.down.is_some()) {
            return Err(LinkSpecError::NestedDirection);
        }
        let preset = over.and_then(|over| over.preset).or(self.preset);
        let mut config =
            preset.map_or_else(LinkConfig::default, |preset| preset.config(direction, link_seed));
        for spec in [Some(self), over].into_iter().flatten() {
            if let Some(rate) = &spec.rate {
                config.rate = rate_of(rate, direction, link_seed, &mut load_trace)?;
            }
            spec.apply(&mut config, link_seed);
        }
        config.validate()?;
        Ok(config)
    }

    /// Whether its preset makes it matter which of its ends is the access side: it has a downlink and an uplink.
    pub fn has_preset_directions(&self) -> bool {
        let differs =
            |preset: Preset| preset.config(Direction::Down, Seed(0)) != preset.config(Direction::Up, Seed(0));
        self.preset.is_some_and(differs)
    }

    /// Writes the keys that are there over `config`, except the rate.
    fn apply(&self, config: &mut LinkConfig, link_seed: Seed) {
        fn set<T: Clone>(to: &mut T, from: &Option<T>) {
            if let Some(value) = from {
                to.clone_from(value);
            }
        }
        set(&mut config.overhead, &self.overhead);
        set(&mut config.queue, &self.queue);
        set(&mut config.delay, &self.delay);
        set(&mut config.jitter, &self.jitter);
        set(&mut config.route_changes, &self.route_changes);
        set(&mut config.loss, &self.loss);
        set(&mut config.duplicate, &self.duplicate);
        set(&mut config.arq, &self.arq);
        set(&mut config.reordering, &self.reorder);
        set(&mut config.aggregation, &self.aggregation);
        set(&mut config.drx, &self.drx);
        if let Some(outages) = &self.outages {
            config.outages = match outages {
                Some(spec) => Outages { when: outage_times(spec, link_seed), hold: spec.hold },
                None => Outages::default(),
            };
        }
    }
}

fn outage_times(spec: &OutagesSpec, link_seed: Seed) -> OutageTimes {
    match &spec.when {
        OutageTimes::Random { mean_gap, lasts, shared } => OutageTimes::Random {
            mean_gap: *mean_gap,
            lasts: *lasts,
            shared: Some(shared.unwrap_or(link_seed)),
        },
        OutageTimes::Regular { every, lasts, shared } => {
            OutageTimes::Regular { every: *every, lasts: *lasts, shared: Some(shared.unwrap_or(link_seed)) }
        }
        when => when.clone(),
    }
}

fn rate_of(
    spec: &RateSpec,
    direction: Direction,
    link_seed: Seed,
    load_trace: &mut impl FnMut(&str) -> Result<Arc<Trace>, String>,
) -> Result<Rate, LinkSpecError> {
    match spec {
        RateSpec::Plain(rate) => Ok(rate.clone()),
        RateSpec::TraceFile(file) => load_trace(file)
            .map(Rate::Trace)
            .map_err(|problem| LinkSpecError::Trace { file: file.clone(), problem }),
        RateSpec::Cellular(model) => {
            let trace = Trace::cellular(link_seed.derive(direction.name()), model)?;
            Ok(Rate::Trace(Arc::new(trace)))
        }
        RateSpec::Paths(model) => Ok(model.rate(link_seed.derive(direction.name()))?),
    }
}

impl Preset {
    fn config(self, direction: Direction, link_seed: Seed) -> LinkConfig {
        let (phone, radio) = match self {
            Preset::Gprs => (GprsPhone::ThreePlusOne, GprsRadio::Ideal),
            Preset::Gprs4Plus1 => (GprsPhone::FourPlusOne, GprsRadio::Ideal),
            Preset::GprsMoving => (GprsPhone::ThreePlusOne, GprsRadio::Outages(link_seed)),
            Preset::Gprs4Plus1Moving => (GprsPhone::FourPlusOne, GprsRadio::Outages(link_seed)),
            Preset::RadioGprs => return radio(RadioNetwork::Gprs, direction),
            Preset::RadioUmts => return radio(RadioNetwork::Umts, direction),
            Preset::RadioLte => return radio(RadioNetwork::Lte, direction),
            Preset::Starlink => {
                return match direction {
                    Direction::Down => LinkConfig::starlink_downlink(link_seed),
                    Direction::Up => LinkConfig::starlink_uplink(link_seed),
                };
            }
        };
        match direction {
            Direction::Down => LinkConfig::gprs_downlink(phone, radio),
            Direction::Up => LinkConfig::gprs_uplink(phone, radio),
        }
    }
}

fn radio(network: RadioNetwork, direction: Direction) -> LinkConfig {
    match direction {
        Direction::Down => LinkConfig::radio_downlink(network),
        Direction::Up => LinkConfig::radio_uplink(network),
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Says which of several keys are there, for errors.
pub(crate) fn one_of(part: &str, wanted: &str) -> String {
    format!("{part}: give exactly one of {wanted}")
}
