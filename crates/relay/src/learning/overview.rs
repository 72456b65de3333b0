//! What is remembered, for a person to look at.
use super::history::Past;
use super::knowledge::{Knowledge, WayKnown};
use crate::route::{Endpoint, Route};
use shorthaul_planner::ways::Learning;
use shorthaul_types::Bytes;
use std::collections::BTreeMap;

/// Before so many sessions to a destination, forecasts are not judged.
const LEARNING_TAKES: usize = 10;

/// All that is known.
#[derive(Clone, Debug, PartialEq)]
pub struct Overview {
    /// Destinations, by name.
    pub destinations: Vec<Destination>,
    /// The middle one of how far corrected forecasts were off, as a share of what was measured: of sessions that were expected after ten others to the same destination.
    pub median_error: Option<f64>,
    /// How many sessions that says something of.
    pub judged: usize,
}

/// What is known of a destination.
#[derive(Clone, Debug, PartialEq)]
pub struct Destination {
    /// `host:port`.
    pub name: String,
    /// What the next session is expected to carry.
    pub size: Bytes,
    /// The ways, the direct one first.
    pub ways: Vec<Way>,
}

/// A way that was taken.
#[derive(Clone, Debug, PartialEq)]
pub struct Way {
    /// What is known of it.
    pub known: WayKnown,
    /// Seconds, the middle one of what sessions by it took, each as if it had carried what is predicted.
    pub measured: Option<f64>,
    /// Whether it would be taken now if nothing was tried out, and how many times as fast as the direct way it is expected to be.
    pub is_taken: bool,
    gain: f64,
}

impl Way {
    /// The nodes on it, or `direct`.
    pub fn name(&self) -> String {
        Route::via(self.known.hops.clone()).to_string()
    }

    /// Why it is taken now, or is not.
    pub fn now(&self) -> &'static str {
        match (self.is_taken, self.known.hops.is_empty()) {
            (true, true) => "taken: no relay gains enough",
            (true, false) => "taken: the fastest",
            (false, false) if self.gain < 1.0 => "slower than direct",
            (false, false) => "gains too little, or less than another",
            (false, true) => "slower than a relay",
        }
    }
}

impl Overview {
    /// Of sessions in the order in which they ended.
    pub fn new(past: &[Past]) -> Overview {
        let learning = Learning::default();
        let mut knowledge = Knowledge::new(learning);
        let mut of: BTreeMap<&str, Vec<&Past>> = BTreeMap::new();
        let mut errors = Vec::new();
        for past in past {
            let before = of.entry(&past.to).or_default();
            if let Some([_, expected]) = past.forecast
                && before.len() >= LEARNING_TAKES
                && past.took() > 0.0
            {
                errors.push((expected / past.took() - 1.0).abs());
            }
            before.push(past);
            knowledge.learn(past);
        }
        let destinations = of.into_iter().filter_map(|(name, sessions)| {
            let endpoint: Endpoint = name.parse().ok()?;
            let size = knowledge.predicted(&endpoint)?;
            let known = knowledge.ways(&endpoint, &[], size);
            let direct = known.iter().find(|way| way.hops.is_empty()).map(|way| way.expected);
            let fastest = known.iter().map(|way| way.expected).fold(f64::INFINITY, f64::min);
            let stays = direct.is_some_and(|direct| direct < fastest * learning.least_gain);
            let ways = known.into_iter().map(|known| Way {
                measured: measured(&known, &sessions, size),
                is_taken: if stays { known.hops.is_empty() } else { known.expected <= fastest },
                gain: direct.unwrap_or(known.expected) / known.expected,
                known,
            });
            Some(Destination { name: name.to_owned(), size, ways: ways.collect() })
        });
        let destinations = destinations.collect();
        errors.sort_by(f64::total_cmp);
        Overview { destinations, median_error: errors.get(errors.len() / 2).copied(), judged: errors.len() }
    }
}

/// What sessions by a way took, as if each had been of this size: in proportion, where they were of another.
fn measured(way: &WayKnown, sessions: &[&Past], size: Bytes) -> Option<f64> {
    let is_by =
        |past: &Past| past.by.iter().eq(way.hops.iter().map(Endpoint::to_string).collect::<Vec<_>>().iter());
    let took = |past: &&Past| past.set_up + past.busy * size.0 as f64 / past.size().0.max(1) as f64;
    let mut times: Vec<f64> =
        sessions.iter().copied().filter(|past| is_by(past) && !past.moved).map(|past| took(&past)).collect();
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied()
}
