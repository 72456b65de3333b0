//! Which relays, in which order, with what buffers.
//!
//! Two searches over the same forecasts. `exact` tries every chain that can still be better than the best found, and is
//! meant for a dozen sites. `labels` carries non-dominated labels over a layered graph, layer by number of relays,
//! and is meant for hundreds; it says how far from the best it can be at most ([`Placements::bound`]).
//! [`place`] takes the first where the chains are few enough to be tried.
mod buffers;
mod exact;
mod graph;
mod labels;

use std::time::Duration;

use shorthaul_types::Bytes;

use crate::{Ends, Forecast, Limits, Network, Path, PlanError, ThroughputModel, Transfer};
use graph::Graph;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// Where relays can be.
    pub network: &'a Network,
    /// From where to where.
    pub ends: Ends,
    /// What is moved, and how.
    pub transfer: Transfer,
    /// What it may cost.
    pub limits: Limits,
    /// How fast TCP is.
    pub model: &'a dyn ThroughputModel,
}

/// A chain of relays and what comes of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// The sites, from source to destination.
    pub sites: Vec<usize>,
    /// Legs and relays with their buffers.
    pub path: Path,
    /// Its forecast.
    pub forecast: Forecast,
    /// What the transfer costs.
    pub price: f64,
}

/// The best chain for each number of relays.
#[derive(Clone, Debug, PartialEq)]
pub struct Placements {
    /// Fewest relays first; a chain stands here only if it is faster than all with fewer relays.
    pub chains: Vec<Placement>,
    /// No chain within the limits is forecast to take less than this.
    pub bound: Duration,
    /// Whether every chain was considered, so that the last of [`chains`](Self::chains) is the best there is.
    pub exact: bool,
}

/// Chains up to this number are all tried.
const TRIED: f64 = 20_000.0;
/// How much time [`place`] lets the search by labels give away, as a share, before the waiting of legs for each other.
pub const PRECISION: f64 = 0.01;

impl Placement {
    /// Relays in the chain.
    pub fn relays(&self) -> usize {
        self.path.relays.len()
    }
}

impl Placements {
    /// The fastest chain.
    pub fn fastest(&self) -> &Placement {
        // Every constructor refuses to be empty.
        &self.chains[self.chains.len() - 1]
    }

    /// The chain without relays, where there is a direct way within the limits.
    pub fn direct(&self) -> Option<&Placement> {
        self.chains.first().filter(|placement| placement.relays() == 0)
    }

    /// By how much, as a share of its time, the fastest chain here may at most be slower than the best there is.
    pub fn gap(&self) -> f64 {
        (self.fastest().forecast.time.expected.as_secs_f64() / self.bound.as_secs_f64() - 1.0).max(0.0)
    }
}

/// The best chains, exactly where that is quick.
///
/// # Errors
/// [`PlanError::NoPath`] where no chain is within the limits; those of [`Network::check`] and of [`Transfer`].
pub fn place(question: &Question<'_>) -> Result<Placements, PlanError> {
    let sites = question.network.sites().len().saturating_sub(2);
    let most = question.limits.relays.min(sites);
    let mut chains = 1.0;
    let mut total = 1.0;
    for k in 0..most {
        chains *= (sites - k) as f64;
        total += chains;
    }
    if total <= TRIED { place_exactly(question) } else { place_by_labels(question, PRECISION) }
}

/// The best chains by branch and bound over all of them.
///
/// A chain's forecast never gets shorter by another leg, so a chain that already takes longer than the best one with as
/// many relays is not followed. The time grows with the number of chains, `n!/(n−k)!` for `k` of `n` sites.
///
/// # Errors
/// Those of [`place`].
pub fn place_exactly(question: &Question<'_>) -> Result<Placements, PlanError> {
    exact::search(&Graph::new(question)?)
}

/// The best chains by label setting on the layered graph.
///
/// A label is a chain from the source, with its slowest leg's time, its own time, its round trip and its price. It is dropped
/// when another to the same site, with no more relays, is as good in all of these within a factor of
/// `(1 + precision)^(1/legs)`; with a limit on round trip or price, these must be as good exactly. So the number of labels at a site
/// is bounded by the number of cells of a geometric grid (Warburton 1987; Tsaggouris and Zaroliagis 2009): with `m` measured legs,
/// `k` relays and `L` labels, at most `k·m·L²` comparisons. Each surviving chain then gets its full forecast.
///
/// # Errors
/// Those of [`place`], and [`PlanError::OutOfRange`] for a precision that is not from 0 to 1.
pub fn place_by_labels(question: &Question<'_>, precision: f64) -> Result<Placements, PlanError> {
    if !(0.0..=1.0).contains(&precision) {
        return Err(PlanError::OutOfRange {
            quantity: "precision",
            found: precision.to_string(),
            wanted: "a share from 0 (all labels) to 1",
        });
    }
    labels::search(&Graph::new(question)?, precision)
}

/// The chain through these sites, ends included, with buffers as they should be, whatever the limits on
/// its length and price.
///
/// # Errors
/// [`PlanError::NoPath`] where two neighbours have not been measured; those of [`place`].
pub fn evaluate(question: &Question<'_>, sites: &[usize]) -> Result<Placement, PlanError> {
    let graph = Graph::new(question)?;
    let stages: Option<Vec<_>> = sites.windows(2).map(|leg| graph.edge(leg[0], leg[1])).collect();
    match stages {
        Some(edges) if !edges.is_empty() => Ok(graph.placement(sites, &edges)),
        _ => Err(PlanError::NoPath),
    }
}

/// Keeps what is faster than everything with fewer relays.
fn staircase(mut chains: Vec<Placement>, bound: f64, exact: bool) -> Result<Placements, PlanError> {
    chains.sort_by_key(|placement| (placement.relays(), placement.forecast.time.expected));
    let mut kept: Vec<Placement> = Vec::new();
    for placement in chains {
        let faster = |last: &Placement| placement.forecast.time.expected < last.forecast.time.expected;
        if kept.last().is_none_or(faster) {
            kept.push(placement);
        }
    }
    let Some(fastest) = kept.last() else { return Err(PlanError::NoPath) };
    let bound = if exact { fastest.forecast.time.expected } else { Duration::from_secs_f64(bound) };
    // A bound computed in floating point can be above the value that it bounds by a rounding.
    let bound = bound.min(fastest.forecast.time.expected);
    Ok(Placements { chains: kept, bound, exact })
}

/// Sum of the buffers of a path's relays.
pub fn memory(path: &Path) -> Bytes {
    Bytes(path.relays.iter().filter_map(|relay| relay.buffer).map(|buffer| buffer.0).sum())
}
