use super::cell::{PathPoint, with_queue, with_queue_of_dummynet};
use super::matrix::SEED;
use crate::error::Result;
use serde::Serialize;
use shorthaul_observe::Ledger;
use shorthaul_observe::Summary;
use shorthaul_planner::chain::{Chain, Ends};
use shorthaul_planner::{Forwarding, Leg, Path, Relay, SetUp, Transfer, model};
use shorthaul_report::Console;
use shorthaul_scenario::Metric;
use shorthaul_sim::{measured, slowest_transfer};
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
    /// The share of the time in which the relay had nothing to send though its leg could have carried it, where that is asked.
    pub drought: Option<f64>,
}

/// Names of the experiments that findings refer to.
pub(super) const WINDOW_DIRECT: &str = "Table II: long-haul";
pub(super) const WINDOW_RELAYED: &str = "Table II: one relay";

/// What else was tried for Table II: relays whose own windows, toward the client or from them, are those that would give the paper's row.
pub(super) const SMALL_TOWARD: &str = "Table II: one relay, whose window toward the client is 157 kB";
pub(super) const SMALL_FROM: &str = "Table II: one relay, whose window from it is 238 kB";

/// The reference cell with one relay and with two, where legs do not share the loss: all of it is on the first.
pub(super) const LOSS_ON_FIRST: [&str; 2] = [
    "32 Mbit/s, 64 ms, 0.1 %: one relay, all loss on the first leg",
    "32 Mbit/s, 64 ms, 0.1 %: two relays, all loss on the first leg",
];
/// The same with all of it on each leg, as in equation 6 with equal p.
pub(super) const LOSS_ON_EACH: [&str; 2] = [
    "32 Mbit/s, 64 ms, 0.1 %: one relay, all loss on each leg",
    "32 Mbit/s, 64 ms, 0.1 %: two relays, all loss on each leg",
];
/// The reference cell with a relay that forwards at once, that waits, and that stores.
pub(super) const AT_ONCE: &str = "32 Mbit/s, 64 ms, 0.1 %: one relay, forwarding at once";
pub(super) const WAITING: &str = "32 Mbit/s, 64 ms, 0.1 %: one relay, waiting 16 windows";
pub(super) const STORING: &str = "32 Mbit/s, 64 ms, 0.1 %: one relay, storing first";
/// The same with a relay that is not half-way.
pub(super) const QUARTER: &str = "32 Mbit/s, 64 ms, 0.1 %: one relay at a quarter of the way";
/// A cell whose transfer by a relay is so short that the overrun of slow start costs it much: with the size of the matrix, and ten times that.
pub(super) const SHORT: [&str; 2] = [
    "8 Mbit/s, 32 ms, 0.1 %: one relay, the size of Table I",
    "8 Mbit/s, 32 ms, 0.1 %: one relay, ten times the size",
];
/// Without any loss, directly and with a relay.
pub(super) const NO_LOSS: [&str; 2] =
    ["32 Mbit/s, 256 ms, no loss: long-haul", "32 Mbit/s, 256 ms, no loss: one relay"];
/// The same with queues of 50 packets, Dummynet's where it is not told otherwise, by the size.
pub(super) const NO_LOSS_DUMMYNET: [(&str, [&str; 2]); 3] = [
    (
        "20 MB",
        [
            "32 Mbit/s, 256 ms, no loss, queues of 50 packets, 20 MB: long-haul",
            "32 Mbit/s, 256 ms, no loss, queues of 50 packets, 20 MB: one relay",
        ],
    ),
    (
        "60 MB",
        [
            "32 Mbit/s, 256 ms, no loss, queues of 50 packets, 60 MB: long-haul",
            "32 Mbit/s, 256 ms, no loss, queues of 50 packets, 60 MB: one relay",
        ],
    ),
    (
        "217 MB",
        [
            "32 Mbit/s, 256 ms, no loss, queues of 50 packets, 217 MB: long-haul",
            "32 Mbit/s, 256 ms, no loss, queues of 50 packets, 217 MB: one relay",
        ],
    ),
];
/// The sizes of these.
const DUMMYNET_SIZES: [u64; 3] = [20_000_000, 60_000_000, 217_000_000];
/// The cell of the paper's anomaly (Figure 3) with one relay and with two, with queues of 50 packets.
pub(super) const ANOMALY_DUMMYNET: [&str; 2] = [
    "32 Mbit/s, 128 ms, 0.01 %, queues of 50 packets: one relay",
    "32 Mbit/s, 128 ms, 0.01 %, queues of 50 packets: two relays",
];
/// Long-haul connections whose losses bind, with queues of 50 packets, by the capacity: each has twice that of the one before.
pub(super) const CAPACITIES_DUMMYNET: [(u64, &str); 4] = [
    (16_000, "16 Mbit/s, 128 ms, 0.1 %, queues of 50 packets: long-haul"),
    (32_000, "32 Mbit/s, 128 ms, 0.1 %, queues of 50 packets: long-haul"),
    (64_000, "64 Mbit/s, 128 ms, 0.1 %, queues of 50 packets: long-haul"),
    (128_000, "128 Mbit/s, 128 ms, 0.1 %, queues of 50 packets: long-haul"),
];
/// The cells whose utilization the paper states, with four connections.
pub(super) const FOUR_32: &str = "32 Mbit/s, 64 ms, 0.1 %: two relays, four connections";
pub(super) const FOUR_64: &str = "64 Mbit/s, 64 ms, 0.1 %: one relay, four connections";
pub(super) const FOUR_128: &str = "128 Mbit/s, 32 ms, 0.1 %: one relay, four connections";
/// A transfer that set-up makes longer: relays triggered in parallel, and in sequence.
pub(super) const SMALL: [&str; 2] = [
    "32 Mbit/s, 64 ms, 0.1 %: 15 kB, two relays, set up in parallel",
    "32 Mbit/s, 64 ms, 0.1 %: 15 kB, two relays, set up one after the other",
];

/// What the experiments are called.
#[cfg(test)]
pub(super) fn names() -> Vec<&'static str> {
    let Some(ends) = super::cell::ends("reno", 1) else { return Vec::new() };
    chains(ends).into_iter().map(|(name, ..)| name).collect()
}

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
    // Windows that carry 6.44 Mbit/s in the round trip of one of the legs.
    let small = |rtt_us: u64| Leg {
        window_limit: Some(Bytes((6.44e6 / 8.0 * rtt_us as f64 / 1e6) as u64)),
        ..limited(rtt_us)
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
    let no_loss = |relays| {
        let cell = PathPoint { rtt_ms: 256, kbit: 32_000, loss_per_100k: 1, relays };
        let mut chain = cell.chain(ends);
        chain.path.legs.iter_mut().for_each(|leg| leg.loss = 0.0);
        chain
    };
    let short_queues = |mut chain: Chain| {
        chain.path.legs.iter_mut().for_each(|leg| *leg = with_queue_of_dummynet(*leg));
        chain
    };
    let dummynet = |relays, size| {
        let chain = short_queues(no_loss(relays));
        Chain { transfer: Transfer { size: Bytes(size), ..chain.transfer }, ..chain }
    };
    let anomaly = |relays| PathPoint { rtt_ms: 128, kbit: 32_000, loss_per_100k: 10, relays }.chain(ends);
    let long_haul = |kbit| PathPoint { rtt_ms: 128, kbit, loss_per_100k: 100, relays: 0 }.chain(ends);
    let on_each_leg = |mut chain: Chain| {
        chain.path.legs.iter_mut().for_each(|leg| leg.loss = one.long_haul().loss);
        chain
    };
    let short = PathPoint { rtt_ms: 32, kbit: 8_000, loss_per_100k: 100, relays: 1 }.chain(ends);
    let longer = Chain {
        transfer: Transfer { size: Bytes(10 * short.transfer.size.0), ..short.transfer },
        ..short.clone()
    };
    let four = |kbit, rtt_ms, relays| {
        PathPoint { rtt_ms, kbit, loss_per_100k: 100, relays }.chain(Ends { streams: 4, ..ends })
    };
    let little = |chain: &Chain| Chain {
        transfer: Transfer { size: Bytes(15_000), ..chain.transfer },
        ..chain.clone()
    };
    let mut all = vec![
        (WINDOW_DIRECT, table_2(vec![limited(448_070)]), Some(5.85e6)),
        (WINDOW_RELAYED, table_2(vec![limited(194_740), limited(295_060)]), Some(6.44e6)),
        (SMALL_TOWARD, table_2(vec![small(194_740), limited(295_060)]), None),
        (SMALL_FROM, table_2(vec![limited(194_740), small(295_060)]), None),
        (NO_LOSS[0], no_loss(0), None),
        (NO_LOSS[1], no_loss(1), None),
        (FOUR_32, four(32_000, 64, 2), None),
        (FOUR_64, four(64_000, 64, 1), None),
        (FOUR_128, four(128_000, 32, 1), None),
        (SMALL[0], little(&two), None),
        (SMALL[1], little(&sequential), None),
        (AT_ONCE, at_once.clone(), None),
        (WAITING, forwarding(Forwarding::Pipelined { wait_windows: 16 }), None),
        (STORING, forwarding(Forwarding::Stored), None),
        ("32 Mbit/s, 64 ms, 0.1 %: two relays", two.clone(), None),
        ("32 Mbit/s, 64 ms, 0.1 %: two relays, set up one after the other", sequential, None),
        (QUARTER, shares(0.25), None),
        (LOSS_ON_FIRST[0], on_first_leg(at_once.clone()), None),
        (LOSS_ON_FIRST[1], on_first_leg(two.clone()), None),
        (LOSS_ON_EACH[0], on_each_leg(at_once), None),
        (LOSS_ON_EACH[1], on_each_leg(two), None),
        (SHORT[0], short, None),
        (SHORT[1], longer, None),
        (ANOMALY_DUMMYNET[0], short_queues(anomaly(1)), None),
        (ANOMALY_DUMMYNET[1], short_queues(anomaly(2)), None),
    ];
    all.extend(CAPACITIES_DUMMYNET.map(|(kbit, name)| (name, short_queues(long_haul(kbit)), None)));
    for ((_, names), size) in NO_LOSS_DUMMYNET.into_iter().zip(DUMMYNET_SIZES) {
        all.extend([0, 1].map(|relays| (names[relays], dummynet(relays, size), None)));
    }
    all
}

/// Simulates and forecasts them.
pub(super) fn run(ends: Ends, repeats: u64, ledger: &Ledger, console: &dyn Console) -> Result<Vec<Variant>> {
    let chains = chains(ends);
    let jobs = chains.iter().flat_map(|(_, chain, _)| {
        let scenario = chain.scenario();
        (SEED..SEED + repeats).map(move |seed| (scenario.clone(), seed))
    });
    ledger.fill(jobs.collect::<Vec<_>>(), slowest_transfer, console)?;
    let is_asked = |name: &str| [AT_ONCE, WAITING].contains(&name);
    let of_drought =
        |chain: &Chain| format!("{}metrics = [\"{}\"]\n", chain.scenario_without_metrics(), Metric::Drought);
    let jobs = chains.iter().filter(|(name, ..)| is_asked(name)).flat_map(|(_, chain, _)| {
        let scenario = of_drought(chain);
        (SEED..SEED + repeats).map(move |seed| (scenario.clone(), seed))
    });
    ledger.fill(jobs.collect::<Vec<_>>(), measured, console)?;
    let model = model::by_name(ends.model)?;
    let variant = |(name, chain, paper): (&'static str, Chain, Option<f64>)| -> Result<Variant> {
        let bits = chain.transfer.size.0 as f64 * 8.0;
        let times = ledger.all(&chain.scenario(), SEED, repeats)?;
        let rates = Summary::of(times.into_iter().map(|time| bits / time));
        let (throughput, confidence) = rates.map_or((0.0, None), |rates| (rates.mean, rates.confidence()));
        let drought = match is_asked(name) {
            true => {
                let percents = ledger.all(&of_drought(&chain), SEED, repeats)?;
                Summary::of(percents.into_iter().map(|percent| percent / 100.0)).map(|shares| shares.mean)
            }
            false => None,
        };
        let forecast = bits / chain.forecast(&*model)?;
        Ok(Variant { name, throughput, confidence, forecast, paper, drought })
    };
    chains.into_iter().map(variant).collect()
}
