//! Flows that say nothing are put away and brought back, and nobody can tell: every [`World`] has a second gateway that puts away whatever
//! says nothing, and all that leaves must be the same (`shorthaul_testkit::Twin`). Here connections pause.
use shorthaul_congestion::Algorithm;
use shorthaul_proxy::{AggregateConfig, Gateway, GatewayConfig, LegConfig, Mode, Policy};
use shorthaul_tcp::ConnectionConfig;
use shorthaul_testkit::{Faults, Opening, World, draw::Draw, each_seed};
use shorthaul_types::{Bytes, Time};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// The congestion controls that can be put away.
fn controls() -> Vec<Algorithm> {
    let all = [Algorithm::Cubic, Algorithm::Reno, Algorithm::Bbr, Algorithm::Bbr3];
    all.into_iter().chain([Algorithm::Fixed(Bytes(40_000))]).collect()
}

/// A gateway of which flows can be put away.
fn gateway(draw: &mut Draw) -> GatewayConfig {
    let frame = GatewayConfig {
        flow_buffer: Bytes(*draw.chance.pick(&[20_000, 100_000, 1 << 20])),
        ..GatewayConfig::default()
    };
    let leg = |draw: &mut Draw| {
        let mut leg: LegConfig = draw.leg();
        leg.sender.congestion = *draw.chance.pick(&controls());
        leg
    };
    loop {
        let mut policy = Policy { mode: Mode::Split, access: leg(draw), wan: leg(draw), ..Policy::default() };
        if draw.chance.happens(700) {
            policy.access = LegConfig::default();
            policy.aggregate = Some(Arc::new(match draw.chance.below(3) {
                0 => draw.aggregate(),
                _ => AggregateConfig::default(),
            }));
        }
        if draw.chance.once_in(4) {
            policy.control_group = 0.1;
        }
        let config = GatewayConfig { policies: vec![policy], ..frame.clone() };
        if config.check().is_ok() {
            return config;
        }
    }
}

/// Connections of two hosts that speak now and then, over links that may lose. Returns how often one was put away, and brought back.
fn speaks_now_and_then(seed: u64) -> (u64, u64) {
    let mut draw = Draw::new(seed);
    let config = gateway(&mut draw);
    println!("{config:#?}");
    let mut world = World::new(seed, config.clone());
    let stations = [(Gateway::ACCESS, 1), (Gateway::ACCESS, 2), (Gateway::WAN, 3), (Gateway::WAN, 4)]
        .map(|(port, host)| world.add_station(port, IpAddr::from([10, 0, 0, host])));
    let run = |world: &mut World, time: Duration| {
        let end = world.now + time;
        while world.now < end {
            world.step(end);
        }
    };
    let flows = 1 + draw.chance.below(8);
    for _ in 0..flows {
        let [near, far] =
            [stations[draw.chance.below(2) as usize], stations[2 + draw.chance.below(2) as usize]];
        let ends = if draw.chance.happens(800) { [near, far] } else { [far, near] };
        let mut end = || {
            let end = draw.end();
            ConnectionConfig { mss: end.mss.min(1460), mtu: end.mtu.min(1500), ..end }
        };
        let configs = [end(), end()];
        let flow = world.open(Opening { stations: ends, port: 80, configs, totals: [0, 0] });
        world.flows[flow].apps.iter_mut().for_each(|app| app.keeps_open = true);
        run(&mut world, Duration::from_millis(draw.chance.below(200)));
    }
    let loss = *draw.chance.pick(&[0, 0, 20]);
    world.faults = Faults::of(loss, draw.chance.below(30), draw.chance.below(20));
    let (mut away, mut back) = (0, 0);
    for _ in 0..40 {
        let flow = draw.chance.below(flows) as usize;
        let end = draw.chance.below(2) as usize;
        world.flows[flow].apps[end].total += *draw.chance.pick(&[1, 300, 300, 4_000, 60_000]);
        world.settle();
        let pauses = [10, 300, 2_500, 6_000, 15_000, 200_000];
        run(&mut world, Duration::from_millis(1 + *draw.chance.pick(&pauses)));
        if draw.chance.once_in(20) {
            let before = world.gateway.put_away_so_far();
            (away, back) = (away + before.0, back + before.1);
            world.take_over(config.clone());
        }
    }
    world.faults = Faults::default();
    for app in world.flows.iter_mut().flat_map(|flow| &mut flow.apps) {
        app.keeps_open = false;
    }
    world.settle();
    let mut steps = 0;
    while !(0..world.flows.len()).all(|flow| world.is_whole(flow)) {
        steps += 1;
        assert!(world.step(Time::MAX) && steps < 300_000, "stuck: {}", world.describe());
    }
    let last = world.gateway.put_away_so_far();
    (away + last.0, back + last.1)
}

#[test]
fn whoever_speaks_now_and_then_is_put_away_meanwhile_and_cannot_tell() {
    let (mut away, mut back) = (0, 0);
    each_seed(0..200, |seed| {
        let (put_away, brought_back) = speaks_now_and_then(seed);
        println!("put away {put_away}, brought back {brought_back}");
        (away, back) = (away + put_away, back + brought_back);
    });
    if std::env::var_os("SEEDS").is_none() {
        assert!(away > 1_000 && back > 800, "put away {away}, brought back {back}");
    }
}
