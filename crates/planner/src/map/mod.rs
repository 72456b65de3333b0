//! The map of paths: what simulations of thousands of paths say of one that was not simulated.
//!
//! Closed forms do not know slow start on short transfers, bursts of losses, queues that overflow, or what a transparent gateway
//! does. The simulator knows, and takes a while. The map stands between: trees, fitted by gradient boosting (Friedman 2001) to simulated times
//! of paths that fill the space evenly. A forecast by closed forms is one of the features, so the trees learn by what factor it
//! is wrong, and where.
//!
//! The data are `map.json`, which `shorthaul.pathmap` of the Python package makes. What a feature is, is written here alone: the package asks
//! this module.
mod point;
mod trees;

use std::sync::OnceLock;

use crate::PlanError;

pub use point::{Ends, FEATURES, MapPoint, Way};
pub use trees::Trees;

/// What was fitted, and how well.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Map {
    /// The names of the features that it was fitted with, in their order.
    features: Vec<String>,
    /// To how many paths it was fitted.
    pub points: u32,
    /// The median relative error of its times against simulations of paths that it was not fitted to.
    pub median_error: f64,
    /// Of all choices there between the direct way and one of the others: the share that is right in simulation, or costs a tenth at most.
    pub decisions_right: f64,
    /// In 95 % of those, the simulated time is within this factor of what it says, to both sides.
    pub spread: f64,
    trees: Trees,
}

/// What the map says of a way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MapTime {
    /// Expected, in seconds.
    pub seconds: f64,
    /// The interval that holds 95 % of simulations, in seconds.
    pub interval: [f64; 2],
}

impl Map {
    /// The map that the program comes with.
    ///
    /// # Errors
    /// If it does not fit this program: not as it is built.
    pub fn built_in() -> Result<&'static Map, PlanError> {
        static MAP: OnceLock<Result<Map, PlanError>> = OnceLock::new();
        MAP.get_or_init(|| Map::read(include_str!("map.json"))).as_ref().map_err(Clone::clone)
    }

    /// Reads a map as the Python package writes it.
    ///
    /// # Errors
    /// If it is none, or made for other features than this program's.
    pub fn read(text: &str) -> Result<Map, PlanError> {
        let map: Map = serde_json::from_str(text).map_err(|error| PlanError::Map(error.to_string()))?;
        if map.features != FEATURES {
            let problem =
                "it was made for other features; make it anew with this version of the Python package";
            return Err(PlanError::Map(problem.into()));
        }
        map.trees.check(FEATURES.len()).map_err(PlanError::Map)?;
        Ok(map)
    }

    /// How long the transfer takes by this way.
    ///
    /// # Errors
    /// [`PlanError::OutOfRange`] for a point outside the space that was simulated.
    pub fn time(&self, point: &MapPoint, way: Way) -> Result<MapTime, PlanError> {
        let features = point.features(way)?;
        let seconds = point.ideal() * self.trees.value(&features).exp();
        Ok(MapTime { seconds, interval: [seconds / self.spread, seconds * self.spread] })
    }

    /// The way to take, with the times of all: the first of [`Way::ALL`] that takes hardly longer than the fastest.
    ///
    /// # Errors
    /// Those of [`time`](Map::time).
    pub fn best(&self, point: &MapPoint) -> Result<(Way, [MapTime; Way::ALL.len()]), PlanError> {
        self.best_of(point, &Way::ALL, HARDLY_LONGER)
    }

    /// The same of these ways alone: the first that the fastest of them is less than `least_gain` times as fast as. With 1 it is the fastest.
    ///
    /// # Errors
    /// Those of [`time`](Map::time).
    pub fn best_of(
        &self,
        point: &MapPoint,
        ways: &[Way],
        least_gain: f64,
    ) -> Result<(Way, [MapTime; Way::ALL.len()]), PlanError> {
        let mut times = [MapTime { seconds: 0.0, interval: [0.0; 2] }; Way::ALL.len()];
        for (time, way) in times.iter_mut().zip(Way::ALL) {
            *time = self.time(point, way)?;
        }
        let seconds = |way: Way| times[way as usize].seconds;
        let least = ways.iter().map(|way| seconds(*way)).fold(f64::INFINITY, f64::min);
        let best = ways.iter().copied().find(|way| seconds(*way) <= least_gain.max(1.0) * least);
        Ok((best.unwrap_or(Way::Direct), times))
    }
}

/// A way with less in it is taken if it takes no longer than this, in times of the fastest.
const HARDLY_LONGER: f64 = 1.1;

#[cfg(test)]
mod tests {
    use super::*;

    fn long_and_lossy() -> MapPoint {
        MapPoint {
            rate: 20e6,
            rtt: 0.2,
            loss: 0.003,
            burst: 1.0,
            queue: 1.0,
            ends: Ends::Reno,
            position: 0.2,
            size: 20e6,
        }
    }

    #[test]
    fn the_map_that_comes_with_the_program_fits_it() {
        let map = Map::built_in().unwrap();
        assert!(map.points > 1000 && map.spread > 1.0, "{} points, spread {}", map.points, map.spread);
        let (best, times) = map.best(&long_and_lossy()).unwrap();
        assert_ne!(best, Way::Direct);
        assert!(times[0].seconds > 1.5 * times[1].seconds, "{times:?}");
        assert!(times.iter().all(|time| time.interval[0] < time.seconds && time.seconds < time.interval[1]));
        let clean = MapPoint { loss: 0.0, rtt: 0.02, size: 1e6, ends: Ends::Cubic, ..long_and_lossy() };
        assert_eq!(map.best(&clean).unwrap().0, Way::Direct);
    }

    #[test]
    fn the_best_is_one_of_those_that_there_are_and_gains_what_is_asked() {
        let (map, point) = (Map::built_in().unwrap(), long_and_lossy());
        let best = |ways: &[Way], gain| map.best_of(&point, ways, gain).unwrap().0;
        assert_eq!(best(&[Way::Direct], 1.1), Way::Direct);
        assert_eq!(best(&[Way::Direct, Way::Gateway], 1.1), Way::Gateway);
        assert_eq!(best(&[Way::Relay, Way::TwoRelays], 100.0), Way::Relay);
        assert_eq!(best(&Way::ALL, 100.0), Way::Direct);
        let (_, times) = map.best(&point).unwrap();
        let fastest = Way::ALL
            .into_iter()
            .min_by(|a, b| times[*a as usize].seconds.total_cmp(&times[*b as usize].seconds));
        assert_eq!(Some(best(&Way::ALL, 1.0)), fastest);
    }

    #[test]
    fn what_was_not_simulated_is_refused_by_name() {
        let map = Map::built_in().unwrap();
        let refused = |point: MapPoint| map.time(&point, Way::Direct).unwrap_err().to_string();
        assert!(refused(MapPoint { rtt: 3.0, ..long_and_lossy() }).contains("round-trip time"));
        assert!(refused(MapPoint { loss: 0.3, ..long_and_lossy() }).contains("loss"));
        assert!(refused(MapPoint { size: f64::NAN, ..long_and_lossy() }).contains("size"));
    }

    #[test]
    fn a_map_of_another_program_is_no_map() {
        let text = include_str!("map.json").replacen("log rate", "log speed", 1);
        assert!(Map::read(&text).unwrap_err().to_string().contains("other features"));
        assert!(Map::read("{}").is_err());
    }
}
