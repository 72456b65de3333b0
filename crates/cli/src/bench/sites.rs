//! Placements among random sites, against simulating every chain.
use super::draw::{Draw, Range};
use super::{ENDS, PlanArgs};
use crate::chain::{Chain, Ends, seconds};
use crate::ledger::Ledger;
use shorthaul_planner::placement::{Question, evaluate, place};
use shorthaul_planner::{Connection, Ends as From, Leg, Limits, Network, Site, Transfer, model};
use shorthaul_types::{BitRate, Bytes, Seed};
use std::time::Duration;

/// What placing relays among random sites came to.
pub(super) struct Placed {
    pub ends: Ends,
    /// Chains that were simulated.
    pub chains: usize,
    /// By how much, as a share, the planner's chain takes longer than the best found by simulating all.
    pub slower: f64,
    /// The same for going direct.
    pub direct_slower: f64,
}

/// Sites that are no ends.
const CANDIDATES: usize = 3;
/// Relays at most.
const RELAYS: usize = 2;
/// Segments of a transfer.
const SEGMENTS: u64 = 20_000;
/// Runs of each chain by which the best is found, and, with other seeds, of the best ones by which they are compared.
/// To choose and compare by the same runs would favour whoever was lucky.
const RUNS: u64 = 12;
/// Of the chains those are compared again that were slower than the best by no more.
const CLOSE: f64 = 1.05;

const BETWEEN: From = From { from: 0, to: 1 };

/// Sites in a square, so that ways by a third site are longer but not by far; loss grows with distance by a random
/// factor, rates are 8 to 64 Mbit/s.
fn network(draw: Draw) -> anyhow::Result<Network> {
    let count = CANDIDATES + 2;
    let at = |site: usize| {
        let draw = draw.nth(site as u64);
        match site {
            0 => (0.0, 0.5),
            1 => (1.0, 0.5),
            _ => (draw.share("x"), draw.uniform("y", Range { from: 0.2, to: 0.8 })),
        }
    };
    let across = draw.decades("rtt", Range { from: 0.04, to: 0.25 });
    let loss = draw.decades("loss", Range { from: 0.001, to: 0.01 });
    let mut network = Network::new((0..count).map(|site| Site { name: site.to_string(), ..Site::default() }));
    for from in 0..count {
        for to in (0..count).filter(|to| *to != from) {
            let draw = draw.derive_leg(from * count + to);
            let (a, b) = (at(from), at(to));
            let distance = (a.0 - b.0).hypot(a.1 - b.1).max(0.05);
            let factor = draw.decades("factor", Range { from: 0.5, to: 2.0 });
            let rate = draw.decades("rate", Range { from: 8e6, to: 64e6 });
            let leg = Leg::new(
                Duration::from_secs_f64(across * distance),
                loss * distance * factor,
                BitRate::from_bits_per_sec(rate as u64),
            );
            network.connect(From { from, to }, Connection { leg, price_per_gb: 0.0 })?;
        }
    }
    Ok(network)
}

impl Draw {
    fn derive_leg(self, leg: usize) -> Draw {
        Draw(self.0.derive("leg")).nth(leg as u64)
    }
}

/// Every chain of at most [`RELAYS`] relays, ends included.
fn chains() -> Vec<Vec<usize>> {
    let mut all = vec![vec![0, 1]];
    for first in 2..CANDIDATES + 2 {
        all.push(vec![0, first, 1]);
        all.extend(
            (2..CANDIDATES + 2).filter(|second| *second != first).map(|second| vec![0, first, second, 1]),
        );
    }
    debug_assert!(all.iter().all(|chain| chain.len() <= RELAYS + 2));
    all
}

/// An instance's chains, each as the planner would equip it with buffers, and which of them it would take.
struct Instance {
    ends: Ends,
    chains: Vec<String>,
    placed: usize,
    first_seed: u64,
}

fn instance(args: &PlanArgs, number: u64) -> anyhow::Result<Instance> {
    let ends = ENDS[(number % 2) as usize];
    let network = network(Draw(Seed(args.seed).derive("sites")).nth(number))?;
    let own = model::by_name(ends.model)?;
    let question = Question {
        network: &network,
        ends: BETWEEN,
        transfer: Transfer::new(Bytes(SEGMENTS * 1448)),
        limits: Limits { relays: RELAYS, ..Limits::default() },
        model: &*own,
    };
    let placed = place(&question)?.fastest().sites.clone();
    let all = chains();
    let scenario = |sites: &Vec<usize>| -> anyhow::Result<String> {
        let path = evaluate(&question, sites)?.path;
        Ok(Chain { path, transfer: question.transfer, ends }.scenario())
    };
    Ok(Instance {
        ends,
        placed: all.iter().position(|chain| *chain == placed).unwrap_or_default(),
        chains: all.iter().map(scenario).collect::<anyhow::Result<_>>()?,
        first_seed: 100_000 * (number + 1),
    })
}

/// Draws, places, simulates every chain, and the best ones again.
pub(super) fn instances(args: &PlanArgs, ledger: &mut Ledger) -> anyhow::Result<Vec<Placed>> {
    let instances: Vec<Instance> =
        (0..args.instances).map(|number| instance(args, number)).collect::<anyhow::Result<_>>()?;
    let runs = |scenario: &String, first: u64| -> Vec<(String, u64)> {
        (first..first + RUNS).map(|seed| (scenario.clone(), seed)).collect()
    };
    let all = instances.iter().flat_map(|i| i.chains.iter().flat_map(|s| runs(s, i.first_seed)));
    ledger.fill(all.collect::<Vec<_>>(), seconds)?;
    let mut close: Vec<Vec<usize>> = Vec::new();
    for instance in &instances {
        let times = means(instance, ledger, 0, &(0..instance.chains.len()).collect::<Vec<_>>())?;
        let best = times.iter().copied().fold(f64::INFINITY, f64::min);
        let mut chosen: Vec<usize> = (0..times.len()).filter(|chain| times[*chain] <= CLOSE * best).collect();
        chosen.extend([instance.placed, 0]); // the planner's, and the direct one
        close.push(chosen);
    }
    let again = instances.iter().zip(&close).flat_map(|(instance, chosen)| {
        chosen.iter().flat_map(|chain| runs(&instance.chains[*chain], instance.first_seed + RUNS))
    });
    ledger.fill(again.collect::<Vec<_>>(), seconds)?;
    let compare = |(instance, chosen): (&Instance, &Vec<usize>)| -> anyhow::Result<Placed> {
        // The best is who was best in the first runs; how much better it is, the second runs say.
        let first = means(instance, ledger, 0, chosen)?;
        let best = (0..chosen.len()).min_by(|a, b| first[*a].total_cmp(&first[*b])).unwrap_or_default();
        let times = means(instance, ledger, RUNS, chosen)?;
        let slower = |place: usize| times[place] / times[best] - 1.0;
        Ok(Placed {
            ends: instance.ends,
            chains: instance.chains.len(),
            slower: slower(chosen.len() - 2),
            direct_slower: slower(chosen.len() - 1),
        })
    };
    instances.iter().zip(&close).map(compare).collect()
}

/// The mean times of some of an instance's chains, from the seeds that begin `skip` after its first.
fn means(instance: &Instance, ledger: &Ledger, skip: u64, chains: &[usize]) -> anyhow::Result<Vec<f64>> {
    let mean = |chain: &usize| {
        let times = ledger.all(&instance.chains[*chain], instance.first_seed + skip, RUNS)?;
        Ok(times.iter().sum::<f64>() / times.len() as f64)
    };
    chains.iter().map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_chains_are_tried_once() {
        let all = chains();
        assert_eq!(all.len(), 1 + 3 + 3 * 2);
        let different: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
        assert!(all.iter().all(|chain| chain.first() == Some(&0) && chain.last() == Some(&1)));
    }
}
