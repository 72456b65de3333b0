use super::Capacity;
use std::time::Duration;

use shorthaul_planner::{Forecast, Path, PlanError, Relay, ThroughputModel, Transfer};
use shorthaul_types::{BitRate, Bytes};

use super::message::Service;
use super::prober::Found;
use super::ranking::Facts;

/// Relays on the way of which chains are made, at most: those nearest to equal distances.
const CANDIDATES: usize = 10;
/// As long as one relay fewer costs no more than this share of time, it is left out: as in the planner's advice.
const NOT_WORTH_A_RELAY: f64 = 0.05;

/// Several relays on the way, one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Chain {
    /// The relays, nearest first.
    pub relays: Vec<Found>,
    /// What the planner expects.
    pub forecast: Forecast,
}

/// What a chain is to carry, and over what.
#[derive(Clone, Copy)]
pub(crate) struct Task<'a> {
    /// The direct round trip.
    pub whole: Duration,
    pub facts: &'a Facts,
    pub model: &'a dyn ThroughputModel,
    pub transfer: &'a Transfer,
}

impl Task<'_> {
    /// The forecast for relays on legs of these round trips, one more than there are relays.
    pub(crate) fn forecast(&self, legs: &[Duration], relays: &[&Found]) -> Result<Forecast, PlanError> {
        let mut path = Path {
            legs: legs.iter().map(|rtt| self.facts.leg(*rtt, self.whole)).collect(),
            relays: Vec::new(),
        };
        for (at, found) in relays.iter().enumerate() {
            // What comes waits for Ts: for a processor, mostly, with all that comes meanwhile. How much it passes in all it says apart from that.
            for leg in &mut path.legs[at..at + 2] {
                leg.rtt += found.offer.service_time;
                if let Some(Capacity { rate, .. }) = found.offer.capacity {
                    leg.capacity = leg.capacity.min(rate.max(BitRate::from_bits_per_sec(1000)));
                }
            }
            let least = u64::from(path.legs[at].framing.mss());
            path.relays.push(Relay { buffer: Some(Bytes(found.offer.buffer.max(least))) });
        }
        path.forecast(self.model, self.transfer)
    }

    /// The best chain of two to `most` relays on the way, if it is worth more than the best single relay, which takes
    /// `single`.
    pub(crate) fn best_chain(
        &self,
        found: &[Found],
        most: usize,
        single: Duration,
    ) -> Result<Option<Chain>, PlanError> {
        let mut on_path: Vec<&Found> = found
            .iter()
            .filter(|found| {
                found.on_path && found.offer.service == Service::Sessions && found.rtt < self.whole
            })
            .collect();
        on_path.sort_by_key(|found| found.rtt);
        let on_path = spread(on_path, self.whole);
        let mut best: Option<Chain> = None;
        let mut to_beat = single.as_secs_f64();
        for length in 2..=most.min(on_path.len()) {
            let mut longest: Option<Chain> = None;
            for relays in combinations(&on_path, length) {
                let forecast = self.forecast(&self.legs(&relays), &relays)?;
                if longest.as_ref().is_none_or(|chain| forecast.time.expected < chain.forecast.time.expected)
                {
                    longest = Some(Chain { relays: relays.into_iter().copied().collect(), forecast });
                }
            }
            let Some(chain) = longest else { break };
            let takes = chain.forecast.time.expected.as_secs_f64();
            if takes < (1.0 - NOT_WORTH_A_RELAY) * to_beat {
                (best, to_beat) = (Some(chain), takes);
            }
        }
        Ok(best)
    }

    /// The round trips between the source, relays on the way, and the destination.
    fn legs(&self, relays: &[&Found]) -> Vec<Duration> {
        let mut so_far = Duration::ZERO;
        let mut legs: Vec<Duration> = relays
            .iter()
            .map(|found| {
                let leg = found.rtt.saturating_sub(so_far);
                so_far = found.rtt.max(so_far);
                leg
            })
            .collect();
        legs.push(self.whole.saturating_sub(so_far));
        legs
    }
}

/// No more than can be tried in all combinations: one nearest to each of this many equal distances.
fn spread(on_path: Vec<&Found>, whole: Duration) -> Vec<&Found> {
    if on_path.len() <= CANDIDATES {
        return on_path;
    }
    let mut chosen: Vec<&Found> = Vec::new();
    for place in 1..=CANDIDATES {
        let ideal = whole.mul_f64(place as f64 / (CANDIDATES + 1) as f64);
        let left = on_path.iter().filter(|found| !chosen.iter().any(|other| std::ptr::eq(*other, **found)));
        chosen.extend(left.min_by_key(|found| found.rtt.abs_diff(ideal)).copied());
    }
    chosen.sort_by_key(|found| found.rtt);
    chosen
}

/// All ways to take `length` of them, in their order.
fn combinations<'a>(all: &[&'a Found], length: usize) -> Vec<Vec<&'a Found>> {
    if length == 0 {
        return vec![Vec::new()];
    }
    let mut found = Vec::new();
    for (at, first) in all.iter().enumerate() {
        for mut rest in combinations(&all[at + 1..], length - 1) {
            rest.insert(0, first);
            found.push(rest);
        }
    }
    found
}
