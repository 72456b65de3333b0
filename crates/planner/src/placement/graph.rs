//! The network as the searches see it: what the model says of each leg, asked once.
use std::cell::OnceCell;
use std::collections::BTreeMap;

use shorthaul_types::Bytes;

use super::{Placement, Question, buffers};
use crate::forecast::{Stage, excess};
use crate::{Connection, Ends, Path, PlanError, Relay};

/// The network of a question, its legs with what the model says of them.
pub(super) struct Graph<'a> {
    pub question: &'a Question<'a>,
    /// Legs by the site that they lead away from.
    out: BTreeMap<usize, Vec<Edge<'a>>>,
}

/// A measured leg.
pub(super) struct Edge<'a> {
    pub to: usize,
    pub connection: &'a Connection,
    /// For the whole transfer: the leg's price and that of the relay it leads to.
    pub price: f64,
    stage: OnceCell<Stage>,
}

impl<'a> Graph<'a> {
    pub fn new(question: &'a Question<'a>) -> Result<Self, PlanError> {
        question.network.check(question.ends)?;
        question.transfer.check()?;
        let gigabytes = question.transfer.size.0 as f64 / 1e9;
        let mut out: BTreeMap<usize, Vec<Edge<'a>>> = BTreeMap::new();
        for (Ends { from, to }, connection) in question.network.connections() {
            // No chain comes back to its source, or goes on from its destination.
            if to == question.ends.from || from == question.ends.to {
                continue;
            }
            let relay = if to == question.ends.to { 0.0 } else { question.network.sites()[to].price_per_gb };
            let price = (connection.price_per_gb + relay) * gigabytes;
            out.entry(from).or_default().push(Edge { to, connection, price, stage: OnceCell::new() });
        }
        Ok(Graph { question, out })
    }

    /// The legs that lead away from `site`.
    pub fn from(&self, site: usize) -> &[Edge<'a>] {
        self.out.get(&site).map_or(&[], Vec::as_slice)
    }

    pub fn edge(&self, from: usize, to: usize) -> Option<&Edge<'a>> {
        self.from(from).iter().find(|edge| edge.to == to)
    }

    /// What the model says of a leg.
    pub fn stage<'g>(&'g self, edge: &'g Edge<'a>) -> &'g Stage {
        edge.stage
            .get_or_init(|| Stage::of(self.question.model, &edge.connection.leg, &self.question.transfer))
    }

    /// Expected seconds over `edges` with unlimited buffers: no chain that begins with them takes less.
    pub fn least_time(&self, edges: &[&Edge<'a>]) -> f64 {
        let Question { model, transfer, .. } = self.question;
        let stages: Vec<&Stage> = edges.iter().map(|edge| self.stage(edge)).collect();
        path_of(edges).combine(model.relative_error(), transfer, &stages).time.expected.as_secs_f64()
    }

    /// The chain over `edges` with the best buffers that memory allows.
    pub fn placement(&self, sites: &[usize], edges: &[&Edge<'a>]) -> Placement {
        let mut path = path_of(edges);
        let most: Vec<Bytes> = sites[1..sites.len() - 1]
            .iter()
            .map(|site| self.question.network.sites()[*site].memory.unwrap_or(Bytes(u64::MAX)))
            // Nobody holds more than there is.
            .map(|memory| memory.min(self.question.transfer.size))
            .collect();
        let Question { model, transfer, limits, .. } = self.question;
        let stages: Vec<&Stage> = edges.iter().map(|edge| self.stage(edge)).collect();
        let flows: Vec<_> = stages.iter().map(|stage| stage.met).collect();
        let excess = excess(&stages, transfer.size.0 as f64);
        buffers::fill(&mut path, &flows, &excess, &most, limits.memory);

        let held_back = path.held_back(&|_| *model, transfer, &stages);
        let stages: Vec<&Stage> = held_back.iter().map(AsRef::as_ref).collect();
        let forecast = path.combine(model.relative_error(), transfer, &stages);
        let price = self.question.network.price_per_gb(sites) * self.question.transfer.size.0 as f64 / 1e9;
        Placement { sites: sites.to_vec(), path, forecast, price }
    }
}

/// Legs with relays of unlimited buffer between them.
fn path_of(edges: &[&Edge<'_>]) -> Path {
    Path {
        legs: edges.iter().map(|edge| edge.connection.leg).collect(),
        relays: vec![Relay::default(); edges.len().saturating_sub(1)],
    }
}
