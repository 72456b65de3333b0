//! Whatever the link does, the stream arrives whole and in order, and both ends reach CLOSED.
use crate::pair::{Dice, Link, Pair};
use proptest::prelude::*;
use shorthaul_tcp::{AckPolicy, ConnectionConfig, KeepAlive, LossDetection, SenderProfile, State};
use shorthaul_types::{Bytes, Time};
use shorthaul_wire::Payload;
use std::time::Duration;

#[test]
fn a_clean_transfer_in_both_directions_ends_in_closed() {
    let mut pair = Pair::new(1, Link::default(), [300_000, 100_000]);
    pair.open(ConnectionConfig::default(), ConnectionConfig::default());
    let done = pair.run_until(Duration::from_secs(600), Pair::is_done);
    assert!(done, "{:?} {:?}", pair.apps, [pair.state(0), pair.state(1)]);
    assert_eq!([pair.state(0), pair.state(1)], [State::Closed; 2]);
}

#[test]
fn every_profile_gets_through_a_bad_link() {
    for name in SenderProfile::names() {
        let config = ConnectionConfig { profile: SenderProfile::named(name).unwrap(), ..Default::default() };
        let link = Link { loss: 50, reorder: 50, duplicate: 20, ..Link::default() };
        let mut pair = Pair::new(7, link, [500_000, 200_000]);
        pair.open(config.clone(), config);
        let done = pair.run_until(Duration::from_secs(3600), Pair::is_done);
        assert!(done, "{name}: {:?} {:?}", pair.apps, [pair.state(0), pair.state(1)]);
    }
}

/// How long 20 MB take over a round trip of 100 ms, and how far the window was opened.
fn long_haul(autotuning: bool, timestamps: bool) -> (Duration, u64) {
    let profile = SenderProfile { timestamps, ..SenderProfile::default() };
    let config = ConnectionConfig {
        profile,
        send_buffer: Bytes(8 << 20),
        receive_buffer: Bytes(4 << 20),
        autotuning,
        ..ConnectionConfig::default()
    };
    // 480 Mbit/s.
    let gap = Duration::from_micros(25);
    let link = Link { delay: Duration::from_millis(50), gap, ..Link::default() };
    let mut pair = Pair::new(5, link, [20_000_000, 0]);
    let start = pair.now;
    pair.open(config.clone(), config);
    assert!(pair.run_until(Duration::from_secs(600), |pair| pair.apps[1].read == 20_000_000));
    let server = pair.hosts[1].connection(pair.apps[1].id.unwrap()).unwrap();
    (pair.now.saturating_since(start), server.receive_window_limit())
}

#[test]
fn autotuning_opens_the_window_as_fast_as_the_sender_fills_it() {
    let (at_once, limit) = long_haul(false, true);
    assert_eq!(limit, 4 << 20);
    for timestamps in [true, false] {
        let (tuned, limit) = long_haul(true, timestamps);
        println!("timestamps {timestamps}: {tuned:?} tuned, {at_once:?} at once, window {limit}");
        assert_eq!(limit, 4 << 20, "timestamps {timestamps}");
        assert!(tuned <= at_once + Duration::from_millis(200), "{tuned:?} instead of {at_once:?}");
    }
}

#[test]
fn autotuning_gives_a_slow_stream_no_memory() {
    let mut pair = Pair::new(5, Link { delay: Duration::from_millis(50), ..Link::default() }, [0, 0]);
    pair.manual = true;
    pair.open(ConnectionConfig::default(), ConnectionConfig::default());
    pair.run_until(Duration::from_secs(1), |_| false);
    let (client, server) = (pair.apps[0].id.unwrap(), pair.hosts[1].poll_accept().unwrap());
    for _ in 0..200 {
        pair.hosts[0].connection_mut(client).unwrap().write(Payload::copy_of(&[7; 5_000]));
        pair.settle();
        pair.run_until(Duration::from_millis(100), |_| false);
        let now = pair.now;
        let connection = pair.hosts[1].connection_mut(server).unwrap();
        while !connection.read(now, usize::MAX).is_empty() {}
        pair.settle();
    }
    let connection = pair.hosts[1].connection(server).unwrap();
    assert_eq!((connection.receiver().data_end(), connection.receive_window_limit()), (1_000_001, 64 << 10));
}

/// Two ends and a link, drawn from a seed.
fn draw(seed: u64) -> (Link, [ConnectionConfig; 2], [u64; 2], [usize; 2]) {
    let mut dice = Dice(seed);
    let link = Link {
        delay: Duration::from_micros(100 + dice.below(150_000)),
        gap: Duration::from_micros([0, 0, 10, 500][dice.below(4) as usize]),
        loss: [0, 5, 20, 100, 200][dice.below(5) as usize],
        reorder: [0, 0, 50, 300][dice.below(4) as usize],
        duplicate: [0, 0, 20, 200][dice.below(4) as usize],
        lag: Duration::from_micros(1 + dice.below(60_000)),
    };
    let names: Vec<&str> = SenderProfile::names().collect();
    let controls: Vec<_> = crate::model::controls().collect();
    let configs = [0, 1].map(|_| {
        let profile = SenderProfile::named(names[dice.below(names.len() as u64) as usize]).unwrap();
        let mtu = [576, 1280, 1500, 1500, 9000][dice.below(5) as usize];
        ConnectionConfig {
            profile: SenderProfile {
                congestion: controls[dice.below(controls.len() as u64) as usize],
                loss_detection: LossDetection::ALL[dice.below(LossDetection::ALL.len() as u64) as usize],
                f_rto: dice.happens(500),
                black_hole_probing: dice.happens(500),
                sack: dice.happens(700),
                timestamps: dice.happens(600),
                window_scaling: dice.happens(700),
                ecn: dice.happens(300),
                nagle: dice.happens(300),
                pacing: dice.happens(500),
                idle_restart: dice.happens(700),
                initial_window: 1 + dice.below(10) as u32,
                ack: if dice.happens(300) { AckPolicy::Immediate } else { profile.ack },
                ..profile
            },
            send_buffer: Bytes(1 << (11 + dice.below(10))),
            receive_buffer: Bytes(1 << (11 + dice.below(10))),
            autotuning: dice.happens(700),
            window_shift: dice.happens(300).then(|| dice.below(15) as u8),
            mss: mtu - 40,
            mtu,
            super_segments: dice.happens(300),
            keep_alive: dice.happens(200).then(KeepAlive::default),
            syn_retries: 12,
            ..ConnectionConfig::default()
        }
    });
    let totals = [0, 1].map(|_| [0, 1, 5_000, 100_000, 400_000][dice.below(5) as usize]);
    let appetites =
        [0, 1].map(|_| if dice.happens(200) { 1 + dice.below(20_000) as usize } else { usize::MAX });
    (link, configs, totals, appetites)
}

fn swarm(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let (link, [client, server], totals, appetites) = draw(seed);
        let mut pair = Pair::new(seed, link, totals);
        pair.audit = true;
        pair.apps[0].appetite = appetites[0];
        pair.apps[1].appetite = appetites[1];
        let context = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            pair.open(client.clone(), server.clone());
            pair.run_until(Duration::from_secs(4 * 3600), Pair::is_done)
        }));
        let state = || [pair.state(0), pair.state(1)];
        match context {
            Ok(true) => assert_eq!(state(), [State::Closed; 2], "seed {seed}"),
            Ok(false) => panic!(
                "seed {seed}: {:?} {:?} at {}\n{link:?}\n{client:?}\n{server:?}",
                pair.apps,
                state(),
                pair.now
            ),
            Err(cause) => {
                eprintln!("seed {seed}: {link:?}\n{client:?}\n{server:?}");
                std::panic::resume_unwind(cause);
            }
        }
    }
}

#[test]
fn a_swarm_of_ends_and_links_gets_through() {
    swarm(0..500);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_lost_reordered_or_duplicated_the_stream_arrives(
        seed: u64,
        loss in 0u64..250,
        reorder in 0u64..500,
        duplicate in 0u64..300,
        totals in (0u64..60_000, 0u64..60_000),
        isn_time in 0u64..20_000_000,
    ) {
        let link = Link { loss, reorder, duplicate, ..Link::default() };
        let mut pair = Pair::new(seed, link, [totals.0, totals.1]);
        // The clock decides the sequence numbers: they wrap in some of the cases.
        pair.now = Time::from_millis(isn_time);
        let config = ConnectionConfig { syn_retries: 12, ..ConnectionConfig::default() };
        pair.open(config.clone(), config);
        let done = pair.run_until(Duration::from_secs(4 * 3600), Pair::is_done);
        prop_assert!(done, "{:?} {:?}", pair.apps, [pair.state(0), pair.state(1)]);
    }
}
