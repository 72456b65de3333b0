use super::cell::{PathPoint, with_queue};
use super::matrix::SEED;
use crate::error::Result;
use serde::Serialize;
use shorthaul_observe::Ledger;
use shorthaul_observe::Summary;
use shorthaul_planner::chain::{Chain, Ends};
use shorthaul_planner::{Forwarding, Leg, Path, Relay, SetUp, Transfer, model};
use shorthaul_report::Console;
use shorthaul_sim::slowest_transfer;
use shorthaul_types::{BitRate, Bytes};
use std::time::Duration;

/// One experiment beside the matrix; rates in bit/s of payload.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Variant {
    pub name: &'static str,
    pub throughput: f64,
    /// Half of the 95 % confidence interval; none for a single sample.
    pub confidence: Option<f64>,
    pub forecast: f64,
    /// What the paper measured, where it says.
    pub paper: Option<f64>,
}

/// Names of the experiments that findings refer to.
pub(super) const WINDOW_DIRECT: &str = "Table II: long-haul";
pub(super) const WINDOW_RELAYED: &str = "Table II: one relay";

/// Table II's hosts, and the reference cell (32 Mbit/s, 64 ms, 0.1 %) with one relay in other ways.
fn chains(ends: Ends) -> Vec<(&'static str, Chain, Option<f64>)> {
    // The window follows from what was measured without relay: 5.85 Mbit/s in 448.07 ms.
    let window = Bytes((5.85e6 / 8.0 * 0.44807) as u64);
    let limited = |rtt_us| {
        let leg = Leg::new(Duration::from_micros(rtt_us), 0.0, BitRate::from_bits_per_sec(100_000_000));
        with_queue(Leg { window_limit: Some(window), initial_window: 3, ..leg })
    };
    let table_2 = |legs: Vec<Leg>| {
        let relays = vec![Relay::default(); legs.len() - 1];
        Chain { path: Path { legs, relays }, transfer: Transfer::new(Bytes(60_000_000)), ends }
    };
    let one = PathPoint { rtt_ms: 64, kbit: 32_000, loss_per_100k: 100, relays: 1 };
    let at_once = one.chain(ends);
    let forwarding =
        |forwarding| Chain { transfer: Transfer { forwarding, ..at_once.transfer }, ..at_once.clone() };
    let on_first_leg = |mut chain: Chain| {
        let whole = one.long_haul().loss;
        for (number, leg) in chain.path.legs.iter_mut().enumerate() {
            leg.loss = if number == 0 { whole } else { 0.0 };
        }
        chain
    };
    let shares = |first: f64| {
        let legs = [first, 1.0 - first].map(|part| with_queue(one.long_haul().share(part)));
        Chain { path: Path { legs: legs.to_vec(), relays: vec![Relay::default()] }, ..at_once.clone() }
    };
    let two = PathPoint { relays: 2, ..one }.chain(ends);
    let sequential =
        Chain { transfer: Transfer { set_up: SetUp::Sequential, ..two.transfer }, ..two.clone() };
    vec![
        (WINDOW_DIRECT, table_2(vec![limited(448_070)]), Some(5.85e6)),
        (WINDOW_RELAYED, table_2(vec![limited(194_740), limited(295_060)]), Some(6.44e6)),
        ("one relay, forwarding at once", at_once.clone(), None),
        ("one relay, waiting 16 windows", forwarding(Forwarding::Pipelined { wait_windows: 16 }), None),
        ("one relay, storing first", forwarding(Forwarding::Stored), None),
        ("two relays", two.clone(), None),
        ("two relays, set up one after the other", sequential, None),
        ("one relay at a quarter of the way", shares(0.25), None),
        ("one relay, all loss on the first leg", on_first_leg(at_once.clone()), None),
        ("two relays, all loss on the first leg", on_first_leg(two), None),
    ]
}

/// Simulates and forecasts them.
pub(super) fn run(ends: Ends, repeats: u64, ledger: &Ledger, console: &dyn Console) -> Result<Vec<Variant>> {
    let chains = chains(ends);
    let jobs = chains.iter().flat_map(|(_, chain, _)| {
        let scenario = chain.scenario();
        (SEED..SEED + repeats).map(move |seed| (scenario.clone(), seed))
    });
    ledger.fill(jobs.collect::<Vec<_>>(), slowest_transfer, console)?;
    let model = model::by_name(ends.model)?;
    let variant = |(name, chain, paper): (&'static str, Chain, Option<f64>)| -> Result<Variant> {
        let bits = chain.transfer.size.0 as f64 * 8.0;
        let times = ledger.all(&chain.scenario(), SEED, repeats)?;
        let rates = Summary::of(times.into_iter().map(|time| bits / time));
        let (throughput, confidence) = rates.map_or((0.0, None), |rates| (rates.mean, rates.confidence()));
        Ok(Variant { name, throughput, confidence, forecast: bits / chain.forecast(&*model)?, paper })
    };
    chains.into_iter().map(variant).collect()
}
