//! Branch and bound over all chains.
use super::graph::{Edge, Graph};
use super::{Placement, Placements, staircase};
use crate::PlanError;

/// A chain that is being tried.
struct Search<'g, 'a> {
    graph: &'g Graph<'a>,
    sites: Vec<usize>,
    edges: Vec<&'g Edge<'a>>,
    /// The best chain for each number of relays.
    best: Vec<Option<Placement>>,
}

pub(super) fn search(graph: &Graph<'_>) -> Result<Placements, PlanError> {
    let question = graph.question;
    let mut search = Search {
        graph,
        sites: vec![question.ends.from],
        edges: Vec::new(),
        best: vec![None; question.limits.relays.min(question.network.sites().len()) + 1],
    };
    search.go_on(0.0, 0.0);
    staircase(search.best.into_iter().flatten().collect(), 0.0, true)
}

impl<'g, 'a> Search<'g, 'a> {
    /// Tries every leg onward from the last site, with what the chain so far costs in money and round trip.
    fn go_on(&mut self, price: f64, round_trip: f64) {
        let question = self.graph.question;
        let here = self.sites[self.sites.len() - 1];
        for edge in self.graph.from(here) {
            let there = edge.to == question.ends.to;
            // This leg's far end would be one relay more.
            let relays = self.edges.len() + usize::from(!there);
            if relays >= self.best.len() || self.sites.contains(&edge.to) {
                continue;
            }
            let price = price + edge.price;
            let round_trip = round_trip + edge.connection.leg.rtt.as_secs_f64();
            if over(question.limits.price, price)
                || over(question.limits.round_trip.map(|limit| limit.as_secs_f64()), round_trip)
            {
                continue;
            }
            self.sites.push(edge.to);
            self.edges.push(edge);
            if there {
                self.consider();
            } else if self.graph.least_time(&self.edges) < self.best_with(relays) {
                self.go_on(price, round_trip);
            }
            self.sites.pop();
            self.edges.pop();
        }
    }

    fn consider(&mut self) {
        let relays = self.edges.len() - 1;
        if self.graph.least_time(&self.edges) >= self.best_with(relays) {
            return;
        }
        let placement = self.graph.placement(&self.sites, &self.edges);
        if placement.forecast.time.expected.as_secs_f64() < self.best_with(relays) {
            self.best[relays] = Some(placement);
        }
    }

    /// The time of the fastest chain with at most this many relays.
    fn best_with(&self, relays: usize) -> f64 {
        let times = self.best[..=relays].iter().flatten().map(|p| p.forecast.time.expected.as_secs_f64());
        times.fold(f64::INFINITY, f64::min)
    }
}

/// Whether `value` is over a limit, by more than rounding.
pub(super) fn over(limit: Option<f64>, value: f64) -> bool {
    limit.is_some_and(|limit| value > limit * (1.0 + 1e-12))
}
