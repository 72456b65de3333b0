//! Forecasts on random paths: directly, and by way of random relays.
use super::draw::{Draw, Range};
use super::{ENDS, Plan};
use crate::error::Result;
use shorthaul_observe::Ledger;
use shorthaul_planner::chain::{Chain, Ends};
use shorthaul_planner::{Leg, Path, Relay, Transfer, model};
use shorthaul_report::Console;
use shorthaul_sim::slowest_transfer;
use shorthaul_types::{BitRate, Bytes, Seed};
use std::time::Duration;

/// A random path and a random set of relays, forecast and simulated with one kind of ends.
pub(super) struct Case {
    /// Which of the paths.
    pub number: u64,
    pub ends: Ends,
    pub size: Bytes,
    /// Without relays.
    pub direct: Compared,
    /// By way of the relays.
    pub relayed: Compared,
}

/// A time as forecast by the ends' own model and by Mathis's, and as simulated.
pub(super) struct Compared {
    pub path: Path,
    pub forecast: f64,
    pub mathis: f64,
    pub simulated: f64,
    /// Payload bits.
    pub bits: f64,
}

impl Compared {
    /// Whether the narrowest link was busy for nearly all of the simulated time.
    pub fn is_full(&self) -> bool {
        let ceilings = self.path.legs.iter().map(|leg| leg.ceiling().bits_per_sec());
        self.bits / self.simulated > 0.95 * ceilings.min().unwrap_or_default() as f64
    }

    /// The relative error of the throughput that goes with a time.
    pub fn error(&self, forecast: f64) -> f64 {
        self.simulated / forecast - 1.0
    }
}

/// How many segments a transfer has: enough for a hundred losses and thirty full windows, as far as that is bounded.
const SEGMENTS: Range = Range { from: 2_000.0, to: 30_000.0 };

/// The path between the ends: 5 to 500 ms, 0.001 to 2 % of loss, 0.5 to 256 Mbit/s.
fn direct(draw: Draw) -> Leg {
    let rtt = draw.decades("rtt", Range { from: 0.005, to: 0.5 });
    let loss = draw.decades("loss", Range { from: 1e-5, to: 0.02 });
    let rate = draw.decades("rate", Range { from: 0.5e6, to: 256e6 });
    Leg::new(Duration::from_secs_f64(rtt), loss, BitRate::from_bits_per_sec(rate as u64))
}

/// One to three relays. The way by them is 0.9 to 2.5 times as long as the direct one and loses half to twice as much;
/// each leg has 0.4 to 2.5 times its rate; a relay holds one to eight times what is in flight on both of its sides.
fn relayed(draw: Draw, direct: &Leg) -> Path {
    let legs = 2 + draw.choice("relays", 3);
    let parts: Vec<f64> =
        (0..legs).map(|leg| draw.nth(leg).uniform("part", Range { from: 0.3, to: 1.0 })).collect();
    let whole: f64 = parts.iter().sum();
    let detour = draw.decades("detour", Range { from: 0.9, to: 2.5 });
    let lossier = draw.decades("lossier", Range { from: 0.5, to: 2.0 });
    let legs: Vec<Leg> = (0..legs)
        .zip(&parts)
        .map(|(number, part)| {
            let faster = draw.nth(number).decades("faster", Range { from: 0.4, to: 2.5 });
            let rate = direct.capacity.bits_per_sec() as f64 * faster;
            Leg::new(
                direct.rtt.mul_f64(detour * part / whole),
                direct.loss * lossier * part / whole,
                BitRate::from_bits_per_sec(rate as u64),
            )
        })
        .collect();
    let in_flight =
        |leg: &Leg| (leg.capacity.bits_per_sec() as f64 / 8.0 * leg.rtt.as_secs_f64()).max(20_000.0);
    let relay = |(number, sides): (usize, &[Leg])| {
        let times = draw.nth(number as u64).decades("buffer", Range { from: 1.0, to: 8.0 });
        let bytes = times * sides.iter().map(in_flight).sum::<f64>();
        Relay { buffer: Some(Bytes(bytes as u64)) }
    };
    let relays = legs.windows(2).enumerate().map(relay).collect();
    Path { legs, relays }
}

fn size(direct: &Leg) -> Bytes {
    let mss = f64::from(direct.framing.mss());
    let window = direct.capacity.bits_per_sec() as f64 / 8.0 * direct.rtt.as_secs_f64() / mss;
    let segments = (100.0 / direct.loss).max(30.0 * window).clamp(SEGMENTS.from, SEGMENTS.to);
    Bytes((segments * mss) as u64)
}

/// Draws, simulates and forecasts.
pub(super) fn cases(args: &Plan, ledger: &Ledger, console: &dyn Console) -> Result<Vec<Case>> {
    let draws = (0..args.paths).map(|number| (number, Draw(Seed(args.seed).derive("paths")).nth(number)));
    let drawn: Vec<(u64, Ends, Chain, Chain)> = draws
        .flat_map(|(number, draw)| {
            let leg = direct(draw);
            let transfer = Transfer::new(size(&leg));
            ENDS.map(|ends| {
                let chain = |path| Chain { path, transfer, ends };
                (number, ends, chain(Path::direct(leg)), chain(relayed(draw, &leg)))
            })
        })
        .collect();
    let chains =
        drawn.iter().flat_map(|(number, _, direct, relayed)| [(*number, direct), (*number, relayed)]);
    let jobs = chains.flat_map(|(number, chain)| {
        let scenario = chain.scenario();
        (0..args.repeats).map(move |repeat| (scenario.clone(), first_seed(number) + repeat))
    });
    ledger.fill(jobs.collect::<Vec<_>>(), slowest_transfer, console)?;
    let mathis = model::by_name("mathis")?;
    drawn
        .into_iter()
        .map(|(number, ends, direct, relayed)| {
            let own = model::by_name(ends.model)?;
            let compared = |chain: &Chain| -> Result<Compared> {
                let times = ledger.all(&chain.scenario(), first_seed(number), args.repeats)?;
                Ok(Compared {
                    path: chain.path.clone(),
                    forecast: chain.forecast(&*own)?,
                    mathis: chain.forecast(&*mathis)?,
                    bits: 8.0 * chain.transfer.size.0 as f64,
                    simulated: times.iter().sum::<f64>() / times.len() as f64,
                })
            };
            let (direct, relayed) = (compared(&direct)?, compared(&relayed)?);
            let size = size(&direct.path.legs[0]);
            Ok(Case { number, ends, size, direct, relayed })
        })
        .collect()
}

/// Each path has seeds of its own; both of its ways meet the same.
fn first_seed(number: u64) -> u64 {
    1_000 * (number + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_random_path_can_be_forecast_and_simulated() {
        for number in 0..200 {
            let draw = Draw(Seed(5)).nth(number);
            let leg = direct(draw);
            let path = relayed(draw, &leg);
            path.check().unwrap();
            let chain = Chain { path, transfer: Transfer::new(size(&leg)), ends: ENDS[0] };
            shorthaul_scenario::Study::from_toml("chain", &chain.scenario()).unwrap();
        }
    }
}
