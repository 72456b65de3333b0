//! What is remembered, for a person to look at.
use super::history::Past;
use super::knowledge::{Knowledge, WayKnown, tells_of_its_way};
use crate::route::{Endpoint, Route};
use shorthaul_planner::ways::Learning;
use shorthaul_types::{Bytes, Time};
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
    /// Seconds, the middle one of what sessions by it took from which something was learnt, each as if it had carried what is predicted.
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
    /// Of sessions in the order in which they ended, as it is now.
    pub fn new(past: &[Past], now: Time) -> Overview {
        let learning = Learning::default();
        let mut knowledge = Knowledge::new(learning);
        let mut of: BTreeMap<&str, Vec<&Past>> = BTreeMap::new();
        let mut errors = Vec::new();
        for past in past {
            let before = of.entry(&past.to).or_default();
            if let Some([_, expected]) = past.forecast
                && before.len() >= LEARNING_TAKES
                && tells_of_its_way(past)
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
            let known = knowledge.ways_at(now, &endpoint, &[], size);
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

/// What sessions by a way took, each as if it had been of this size: longer or shorter by as much as one of this size is expected to take longer or
/// shorter than one of its own. Set-up and slow start do not grow with the size.
fn measured(way: &WayKnown, sessions: &[&Past], size: Bytes) -> Option<f64> {
    let hops: Vec<String> = way.hops.iter().map(Endpoint::to_string).collect();
    let seconds = |size| way.believed.expected(size).seconds;
    let took = |past: &&Past| past.took() * seconds(size) / seconds(past.size());
    let by_it = sessions.iter().copied().filter(|past| past.by == hops && tells_of_its_way(past));
    let mut times: Vec<f64> = by_it.map(|past| took(&past)).collect();
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learning::history;

    /// A session by a node or directly, of so many bytes in so many seconds.
    fn past(at: u32, by: &[&str], received: u64, took: f64) -> Past {
        history::past(at.into(), "10.0.0.1:80", by, received, took)
    }

    fn ways(past: &[Past], now: u64) -> Vec<Way> {
        Overview::new(past, Time::from_secs(now)).destinations.remove(0).ways
    }

    #[test]
    fn what_would_be_taken_now_is_not_what_would_have_been_hours_ago() {
        let mut all: Vec<Past> = (0..10).map(|at| past(at, &[], 1_000_000, 1.0)).collect();
        all.extend((0..10).map(|at| past(at, &["a:7080"], 1_000_000, 10.0)));
        let said = |now| ways(&all, now).iter().map(|way| (way.is_taken, way.now())).collect::<Vec<_>>();
        assert_eq!(said(10), [(true, "taken: no relay gains enough"), (false, "slower than direct")]);
        // Nobody knows any longer, and by round trips alone it gains.
        assert_eq!(said(36_000), [(false, "slower than a relay"), (true, "taken: the fastest")]);
    }

    #[test]
    fn what_small_sessions_took_is_not_made_as_many_times_longer_as_they_were_smaller() {
        let mut all: Vec<Past> = (0..13).map(|at| past(at, &[], 10_000_000, 6.0)).collect();
        all.extend((13..16).map(|at| past(at, &["a:7080"], 20_000, 0.25)));
        // Of these nothing is learnt.
        all.push(past(16, &["b:7080"], 1_000, 60.0));
        all.push(Past { pauses: 99, ..past(17, &["b:7080"], 10_000_000, 600.0) });
        all.push(Past { moved: true, ..past(18, &["b:7080"], 10_000_000, 600.0) });
        let ways = ways(&all, 18);
        let direct = ways[0].measured.unwrap();
        assert!((direct - 6.0).abs() < 1e-6, "{direct}");
        // Set-up and slow start are most of a quarter of a second: in proportion, it would be 125 s.
        let (by_node, expected) = (ways[1].measured.unwrap(), ways[1].known.expected);
        assert!((0.5..2.0).contains(&(by_node / expected)) && by_node < 20.0, "{by_node} {expected}");
        assert_eq!((ways[2].measured, ways[2].known.measured), (None, 0));
    }

    #[test]
    fn forecasts_are_judged_by_sessions_that_tell_of_their_way() {
        let mut all: Vec<Past> = (0..10).map(|at| past(at, &[], 1_000_000, 1.0)).collect();
        let judged = Past { forecast: Some([1.0, 1.5]), ..past(10, &[], 1_000_000, 1.0) };
        all.extend([judged.clone(), Past { moved: true, busy: 9.0, ..judged.clone() }]);
        all.push(Past { pauses: 30, busy: 600.0, ..judged });
        let overview = Overview::new(&all, Time::from_secs(10));
        assert_eq!((overview.judged, overview.median_error), (1, Some(0.5)));
    }
}
