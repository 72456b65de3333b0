//! Forecasts by closed-form models.
use crate::value_error;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use shorthaul_planner::map::{Ends, FEATURES, Map, MapPoint, MapTime, Way};
use shorthaul_planner::{Advice, Forecast, Forwarding, Leg, Path, Policy, Relay, SetUp, Transfer, model};
use shorthaul_types::{BitRate, Bytes};
use std::time::Duration;

/// The names of the throughput models, each with its source.
#[pyfunction]
pub fn models() -> Vec<(&'static str, &'static str)> {
    model::all().iter().map(|model| (model.name(), model.source())).collect()
}

/// A transfer over one path, in units of Python: seconds, bits a second, bytes.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Question {
    rtt: f64,
    loss: f64,
    rate: f64,
    size: u64,
    streams: u32,
    queue: f64,
    window: Option<u64>,
    model: String,
    buffer: Option<u64>,
    wait: u32,
    store: bool,
    sequential: bool,
    position: Option<f64>,
}

impl Question {
    fn leg(&self) -> PyResult<Leg> {
        let rtt =
            Duration::try_from_secs_f64(self.rtt).map_err(|error| value_error(format!("rtt: {error}")))?;
        if !(1.0..=1e15).contains(&self.rate) {
            return Err(value_error(format!("rate: {} bit/s is out of range: 1 to 1e15", self.rate)));
        }
        let capacity = BitRate::from_bits_per_sec(self.rate as u64);
        let window_limit = self.window.map(Bytes);
        let leg = Leg { queue_bdp: self.queue, window_limit, ..Leg::new(rtt, self.loss, capacity) };
        leg.check().map_err(value_error)?;
        Ok(leg)
    }

    fn transfer(&self) -> PyResult<Transfer> {
        if self.store && self.wait > 0 {
            return Err(value_error(
                "relays either store everything first or wait for round trips: give one of them",
            ));
        }
        let forwarding = match self.store {
            true => Forwarding::Stored,
            false => Forwarding::Pipelined { wait_windows: self.wait },
        };
        let set_up = if self.sequential { SetUp::Sequential } else { SetUp::Parallel };
        let transfer = Transfer { size: Bytes(self.size), forwarding, set_up, streams: self.streams };
        transfer.check().map_err(value_error)?;
        Ok(transfer)
    }
}

/// What is forecast with each of these numbers of relays, and which of them is advised at a gain of at least `least_gain`: a list
/// of dictionaries, and a sentence.
#[pyfunction]
pub fn forecast<'py>(
    py: Python<'py>,
    question: Question,
    relays: Vec<usize>,
    least_gain: f64,
) -> PyResult<(Vec<Bound<'py, PyDict>>, String)> {
    const MOST: usize = 64;
    if let Some(relays) = relays.iter().find(|relays| **relays > MOST) {
        return Err(value_error(format!("relays: {relays} are more than {MOST}")));
    }
    let (leg, transfer) = (question.leg()?, question.transfer()?);
    let model = model::by_name(&question.model).map_err(value_error)?;
    let relay = Relay { buffer: question.buffer.map(Bytes) };
    let path = |relays: usize| match (question.position, relays) {
        (Some(position), 1) => Path::split_at(&leg, position, relay),
        _ => Ok(Path::evenly_split(&leg, relays, relay)),
    };
    let ways = py.detach(|| {
        let of = |relays: usize| path(relays)?.forecast_as_needed(&*model, &transfer);
        relays.into_iter().map(of).collect::<Result<Vec<Forecast>, _>>()
    });
    let ways = ways.map_err(value_error)?;
    let direct = ways.iter().find(|way| way.legs == 1);
    let relayed: Vec<Forecast> = ways.iter().filter(|way| way.legs > 1).cloned().collect();
    let advice = Advice::new(direct, &relayed, Policy::Gain(least_gain));
    let rows = ways.iter().map(|way| row(py, way, direct, advice.relays() + 1 == way.legs));
    Ok((rows.collect::<PyResult<_>>()?, advice.to_string()))
}

fn row<'py>(
    py: Python<'py>,
    way: &Forecast,
    direct: Option<&Forecast>,
    advised: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let row = PyDict::new(py);
    let seconds = way.time.expected.as_secs_f64();
    row.set_item("relays", way.legs - 1)?;
    row.set_item("seconds", seconds)?;
    row.set_item("seconds_low", way.time.low.as_secs_f64())?;
    row.set_item("seconds_high", way.time.high.as_secs_f64())?;
    row.set_item("set_up_seconds", way.set_up.as_secs_f64())?;
    row.set_item("goodput", way.throughput().bits_per_sec())?;
    row.set_item("long_run", way.steady.bits_per_sec())?;
    row.set_item("gain", direct.map(|direct| direct.time.expected.as_secs_f64() / seconds))?;
    row.set_item("buffers", way.relays.iter().map(|relay| relay.needed.0).collect::<Vec<u64>>())?;
    row.set_item("drought", way.relays.iter().map(|relay| relay.drought).fold(0.0, f64::max))?;
    row.set_item("overflow", way.relays.iter().map(|relay| relay.overflow).fold(0.0, f64::max))?;
    row.set_item("binding_leg", way.bottleneck.leg)?;
    row.set_item("binding_limit", way.bottleneck.limit.to_string())?;
    row.set_item("advised", advised)?;
    row.set_item("sentence", way.to_string())?;
    Ok(row)
}

/// A point of the map of paths: `shorthaul.pathmap.PathPoint`.
#[derive(FromPyObject)]
pub struct PathPoint {
    rate: f64,
    rtt: f64,
    loss: f64,
    burst: f64,
    queue: f64,
    ends: String,
    position: f64,
    size: f64,
}

impl PathPoint {
    fn point(&self) -> PyResult<MapPoint> {
        let ends = Ends::ALL.iter().find(|(name, _)| *name == self.ends);
        let names = || Ends::ALL.map(|(name, _)| name).join(", ");
        let (_, ends) =
            ends.ok_or_else(|| value_error(format!("ends: `{}` is none of {}", self.ends, names())))?;
        let Self { rate, rtt, loss, burst, queue, position, size, .. } = *self;
        Ok(MapPoint { rate, rtt, loss, burst, queue, ends: *ends, position, size })
    }
}

/// The names of the features of a point.
#[pyfunction]
pub fn map_feature_names() -> Vec<&'static str> {
    FEATURES.to_vec()
}

/// The names of the ways, those with less in them first.
#[pyfunction]
pub fn map_ways() -> Vec<&'static str> {
    Way::ALL.map(Way::name).to_vec()
}

/// What a surrogate is told of each way over the path.
#[pyfunction]
pub fn map_features(point: PathPoint) -> PyResult<Vec<Vec<f64>>> {
    let point = point.point()?;
    let of = |way: Way| point.features(way).map(|features| features.to_vec()).map_err(value_error);
    Way::ALL.into_iter().map(of).collect()
}

/// The way to take and, for each way, seconds and the interval of 95 %: by the map in `text`, or else by the one that comes with
/// this package.
#[pyfunction]
#[pyo3(signature = (point, text = None))]
pub fn map_best(point: PathPoint, text: Option<&str>) -> PyResult<(&'static str, Vec<(f64, f64, f64)>)> {
    let own;
    let map = match text {
        Some(text) => {
            own = Map::read(text).map_err(value_error)?;
            &own
        }
        None => Map::built_in().map_err(value_error)?,
    };
    let (best, times) = map.best(&point.point()?).map_err(value_error)?;
    Ok((best.name(), told(&times)))
}

/// The way to take among these, and seconds and the interval of 95 % of all: by the map that comes with this package. The way is the
/// first of them that the fastest is less than `least_gain` times as fast as.
#[pyfunction]
pub fn map_plan(
    point: PathPoint,
    ways: Vec<String>,
    least_gain: f64,
) -> PyResult<(&'static str, Vec<(f64, f64, f64)>)> {
    let ways: Vec<Way> =
        Way::ALL.into_iter().filter(|way| ways.iter().any(|name| name == way.name())).collect();
    let map = Map::built_in().map_err(value_error)?;
    let (best, times) = map.best_of(&point.point()?, &ways, least_gain).map_err(value_error)?;
    Ok((best.name(), told(&times)))
}

fn told(times: &[MapTime]) -> Vec<(f64, f64, f64)> {
    times.iter().map(|time| (time.seconds, time.interval[0], time.interval[1])).collect()
}
