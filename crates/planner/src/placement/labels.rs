//! Label setting with (1 + ε)-dominance over a layered graph.
use super::exact::over;
use super::graph::{Edge, Graph};
use super::{Placement, Placements, staircase};
use crate::PlanError;
use crate::buffer::{Flow, waiting};
use crate::forecast::Stage;
use crate::{Forwarding, Transfer};

/// A chain from the source to a site, as far as its continuation depends on it.
#[derive(Clone, Copy, Debug)]
struct Label {
    site: usize,
    /// The label that it continues.
    before: Option<usize>,
    legs: usize,
    /// Seconds that the transfer takes on the slowest leg alone, slow start included.
    slowest: f64,
    /// That leg's long run.
    flow: Flow,
    /// Seconds that legs wait for each other; where relays store first, the other legs' time.
    waiting: f64,
    /// Seconds of all legs' round trips.
    round_trip: f64,
    price: f64,
}

impl Label {
    /// Seconds that the transfer takes so far, without set-up.
    fn moving(&self) -> f64 {
        self.slowest + self.waiting
    }

    /// Seconds that no chain beginning so stays below.
    fn bound(&self) -> f64 {
        1.5 * self.round_trip + self.slowest
    }
}

/// By which factors a label may be worse than another without being dropped: 1 where a limit must hold exactly.
struct Slack {
    time: f64,
    round_trip: f64,
    price: Option<f64>,
}

impl Slack {
    /// Whether `a` does for whatever `b` would have been good for.
    fn covers(&self, a: &Label, b: &Label) -> bool {
        a.legs <= b.legs
            && a.slowest <= b.slowest * self.time
            && a.moving() <= b.moving() * self.time
            && a.round_trip <= b.round_trip * self.round_trip
            && self.price.is_none_or(|factor| a.price <= b.price * factor)
    }
}

pub(super) fn search(graph: &Graph<'_>, precision: f64) -> Result<Placements, PlanError> {
    let question = graph.question;
    let limits = question.limits;
    let most_relays = limits.relays.min(question.network.sites().len());
    let factor = (1.0 + precision).powf(1.0 / (most_relays + 1) as f64);
    let slack = Slack {
        time: factor,
        round_trip: if limits.round_trip.is_some() { 1.0 } else { factor },
        // Money is no object unless it is limited.
        price: limits.price.map(|_| 1.0),
    };
    let mut labels = vec![Label {
        site: question.ends.from,
        before: None,
        legs: 0,
        slowest: 0.0,
        flow: Flow::steady(f64::INFINITY),
        waiting: 0.0,
        round_trip: 0.0,
        price: 0.0,
    }];
    // Which labels stand at each site, and which of them are to be continued in this layer.
    let mut at = vec![Vec::new(); question.network.sites().len()];
    let mut layer = vec![0];
    while !layer.is_empty() {
        let mut next = Vec::new();
        for from in layer {
            let label = labels[from];
            for edge in graph.from(label.site) {
                let there = edge.to == question.ends.to;
                if label.legs + usize::from(!there) > most_relays || visited(&labels, from, edge.to) {
                    continue;
                }
                let round_trip = label.round_trip + edge.connection.leg.rtt.as_secs_f64();
                let price = label.price + edge.price;
                if over(limits.price, price)
                    || over(limits.round_trip.map(|limit| limit.as_secs_f64()), round_trip)
                {
                    continue;
                }
                let longer = continued(&label, from, edge, graph.stage(edge), &question.transfer);
                if at[edge.to].iter().any(|other: &usize| slack.covers(&labels[*other], &longer)) {
                    continue;
                }
                // Exactly dominated labels are of no more use; those that are merely covered may be covering others.
                at[edge.to].retain(|other| !exactly_dominated(&labels[*other], &longer));
                at[edge.to].push(labels.len());
                if !there {
                    next.push(labels.len());
                }
                labels.push(longer);
            }
        }
        layer = next;
        layer.retain(|label| at[labels[*label].site].contains(label));
    }
    let arrived = &at[question.ends.to];
    let least = arrived.iter().map(|label| labels[*label].bound()).fold(f64::INFINITY, f64::min);
    let chains: Vec<Placement> = arrived.iter().map(|label| placement(graph, &labels, *label)).collect();
    staircase(chains, least / (1.0 + precision), false)
}

/// `label` with one more leg.
fn continued(label: &Label, from: usize, edge: &Edge<'_>, stage: &Stage, transfer: &Transfer) -> Label {
    let alone = stage.alone();
    let waited = match transfer.forwarding {
        _ if label.legs == 0 => 0.0,
        Forwarding::Stored => alone.min(label.slowest),
        Forwarding::Pipelined { wait_windows } => {
            waiting(label.flow, stage.met, transfer.size.0 as f64)
                + f64::from(wait_windows) * edge.connection.leg.rtt.as_secs_f64()
        }
    };
    Label {
        site: edge.to,
        before: Some(from),
        legs: label.legs + 1,
        slowest: label.slowest.max(alone),
        flow: if stage.met.rate < label.flow.rate { stage.met } else { label.flow },
        waiting: label.waiting + waited,
        round_trip: label.round_trip + edge.connection.leg.rtt.as_secs_f64(),
        price: label.price + edge.price,
    }
}

/// Whether `a` is no better than `b` in anything.
fn exactly_dominated(a: &Label, b: &Label) -> bool {
    b.legs <= a.legs
        && b.slowest <= a.slowest
        && b.moving() <= a.moving()
        && b.round_trip <= a.round_trip
        && b.price <= a.price
}

fn visited(labels: &[Label], mut label: usize, site: usize) -> bool {
    loop {
        if labels[label].site == site {
            return true;
        }
        match labels[label].before {
            Some(before) => label = before,
            None => return false,
        }
    }
}

/// The chain that a label stands for, with its full forecast.
fn placement(graph: &Graph<'_>, labels: &[Label], label: usize) -> Placement {
    let mut sites = vec![labels[label].site];
    let mut at = label;
    while let Some(before) = labels[at].before {
        sites.push(labels[before].site);
        at = before;
    }
    sites.reverse();
    let edges: Vec<&Edge<'_>> = sites.windows(2).filter_map(|leg| graph.edge(leg[0], leg[1])).collect();
    graph.placement(&sites, &edges)
}
