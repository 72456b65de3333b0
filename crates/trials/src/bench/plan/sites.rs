//! Placements among random sites, against simulating every chain.
use super::draw::{Draw, Range};
use super::{ENDS, Plan};
use crate::error::{Result, While};
use shorthaul_observe::{Ledger, Summary};
use shorthaul_planner::chain::{Chain, Ends};
use shorthaul_planner::placement::{Question, evaluate, place};
use shorthaul_planner::{Connection, Ends as From, Leg, Limits, Network, Site, Transfer, model};
use shorthaul_report::Console;
use shorthaul_sim::slowest_transfer;
use shorthaul_types::{BitRate, Bytes, Seed};
use std::time::Duration;

/// What placing relays among random sites came to.
pub(super) struct Placed {
    pub ends: Ends,
    /// Every chain that was simulated.
    pub tried: Vec<Tried>,
    /// By how much, as a share, the planner's chain takes longer than the best found by simulating all.
    pub slower: f64,
    /// Half of the 95 % confidence interval of that.
    pub slower_confidence: f64,
    /// The same for going direct.
    pub direct_slower: f64,
}

/// A chain of an instance, as forecast and as simulated.
pub(super) struct Tried {
    /// Ends included.
    pub sites: Vec<usize>,
    /// Whether it is the planner's choice.
    pub placed: bool,
    /// Seconds, as the planner says.
    pub forecast: f64,
    /// Seconds, the mean of the runs by which the best was found.
    pub simulated: f64,
    /// The standard error of that mean.
    pub error: f64,
    /// How many runs that were.
    pub runs: u64,
}

/// Sites that are no ends.
const CANDIDATES: usize = 3;
/// Relays at most.
const RELAYS: usize = 2;
/// Segments of a transfer.
const SEGMENTS: u64 = 12_000;
/// Runs of each chain, and how many times as many the chains get that are still in the race: a single run's time
/// varies by a tenth and more, so a few of them tell two chains apart that differ by a tenth, but not by three per cent.
const ROUNDS: [u64; 2] = [6, 24];
/// A chain is out of the race when it is behind the leader by this many standard errors of their difference.
const BEHIND: f64 = 3.0;
/// Runs by which the planner's choice and the best are compared in the end, with seeds of their own: who has won a race
/// was also lucky in it.
const JUDGED: u64 = 48;

const BETWEEN: From = From { from: 0, to: 1 };

/// Sites in a square, so that ways by a third site are longer but not by far; loss grows with distance by a random
/// factor, rates are 8 to 64 Mbit/s.
fn network(draw: Draw) -> Result<Network> {
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
    sites: Vec<Vec<usize>>,
    chains: Vec<String>,
    forecasts: Vec<f64>,
    placed: usize,
    first_seed: u64,
}

fn instance(args: &Plan, number: u64) -> Result<Instance> {
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
    let sites = chains();
    let mut scenarios = Vec::new();
    let mut forecasts = Vec::new();
    for chain in &sites {
        let chain = Chain { path: evaluate(&question, chain)?.path, transfer: question.transfer, ends };
        forecasts.push(chain.forecast(&*own)?);
        scenarios.push(chain.scenario());
    }
    Ok(Instance {
        ends,
        placed: sites.iter().position(|chain| *chain == placed).unwrap_or_default(),
        sites,
        chains: scenarios,
        forecasts,
        first_seed: 100_000 * (number + 1),
    })
}

/// The times of some runs.
#[derive(Clone, Copy)]
struct Times {
    mean: f64,
    /// Standard error of the mean.
    error: f64,
    runs: u64,
}

impl Instance {
    /// Jobs for the first `runs` of a chain's seeds, counted from `skip`.
    fn jobs(&self, chain: usize, skip: u64, runs: u64) -> impl Iterator<Item = (String, u64)> + '_ {
        let first = self.first_seed + skip;
        (first..first + runs).map(move |seed| (self.chains[chain].clone(), seed))
    }

    fn times(&self, ledger: &Ledger, chain: usize, skip: u64, runs: u64) -> Result<Times> {
        let all = ledger.all(&self.chains[chain], self.first_seed + skip, runs)?;
        let summary = Summary::of(all).doing("no runs")?;
        Ok(Times { mean: summary.mean, error: summary.std_dev / (runs as f64).sqrt(), runs })
    }

    /// The chains of a race that are not clearly behind.
    fn ahead(&self, times: &[Times]) -> Vec<usize> {
        let Some(leader) = times.iter().min_by(|a, b| a.mean.total_cmp(&b.mean)) else { return Vec::new() };
        let in_race = |chain: &usize| {
            times[*chain].mean - leader.mean <= BEHIND * times[*chain].error.hypot(leader.error)
        };
        (0..times.len()).filter(in_race).collect()
    }
}

/// Draws, places, finds the best chain of each instance in a race, and compares it with the planner's.
pub(super) fn instances(args: &Plan, ledger: &Ledger, console: &dyn Console) -> Result<Vec<Placed>> {
    let instances: Vec<Instance> =
        (0..args.instances).map(|number| instance(args, number)).collect::<Result<_>>()?;
    let mut races: Vec<Vec<Times>> =
        instances.iter().map(|i| vec![Times { mean: 0.0, error: 0.0, runs: 0 }; i.chains.len()]).collect();
    for runs in ROUNDS {
        let ahead: Vec<Vec<usize>> = instances.iter().zip(&races).map(|(i, race)| i.ahead(race)).collect();
        let undecided = |ahead: &Vec<usize>| runs == ROUNDS[0] || ahead.len() > 1;
        let pairs = || instances.iter().zip(&ahead).filter(|(_, ahead)| undecided(ahead));
        let jobs = pairs().flat_map(|(i, ahead)| ahead.iter().flat_map(move |chain| i.jobs(*chain, 0, runs)));
        ledger.fill(jobs.collect::<Vec<_>>(), slowest_transfer, console)?;
        for ((instance, race), ahead) in instances.iter().zip(&mut races).zip(&ahead) {
            if undecided(ahead) {
                for chain in ahead {
                    race[*chain] = instance.times(ledger, *chain, 0, runs)?;
                }
            }
        }
    }
    // Of those that are left the quickest; a chain with fewer runs than another was behind it.
    let best = |race: &Vec<Times>| {
        let most = race.iter().map(|times| times.runs).max().unwrap_or_default();
        let last = (0..race.len()).filter(|chain| race[*chain].runs == most);
        last.min_by(|a, b| race[*a].mean.total_cmp(&race[*b].mean)).unwrap_or_default()
    };
    let judged: Vec<[usize; 2]> =
        instances.iter().zip(&races).map(|(i, race)| [best(race), i.placed]).collect();
    let skip = ROUNDS[ROUNDS.len() - 1];
    let differ = instances.iter().zip(&judged).filter(|(_, [best, placed])| best != placed);
    let jobs =
        differ.flat_map(|(i, judged)| judged.iter().flat_map(move |chain| i.jobs(*chain, skip, JUDGED)));
    ledger.fill(jobs.collect::<Vec<_>>(), slowest_transfer, console)?;
    let compare = |((instance, race), judged): ((&Instance, &Vec<Times>), &[usize; 2])| -> Result<Placed> {
        let [best, placed] = *judged;
        let (mut slower, mut slower_confidence) = (0.0, 0.0);
        if best != placed {
            let best = instance.times(ledger, best, skip, JUDGED)?;
            let placed = instance.times(ledger, placed, skip, JUDGED)?;
            slower = placed.mean / best.mean - 1.0;
            slower_confidence = 1.96 * (placed.error / placed.mean).hypot(best.error / best.mean);
        }
        Ok(Placed {
            ends: instance.ends,
            tried: (0..race.len())
                .map(|chain| Tried {
                    sites: instance.sites[chain].clone(),
                    placed: chain == instance.placed,
                    forecast: instance.forecasts[chain],
                    simulated: race[chain].mean,
                    error: race[chain].error,
                    runs: race[chain].runs,
                })
                .collect(),
            slower,
            slower_confidence,
            direct_slower: race[0].mean / race[best].mean - 1.0,
        })
    };
    instances.iter().zip(&races).zip(&judged).map(compare).collect()
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
