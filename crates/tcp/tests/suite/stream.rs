//! Whatever the link does, the stream arrives whole and in order, and both ends reach CLOSED.
use crate::pair::{Link, Pair};
use proptest::prelude::*;
use shorthaul_tcp::{ConnectionConfig, SenderProfile, State};
use shorthaul_testkit::{draw::Draw, each_seed};
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
#[derive(Debug)]
struct Drawn {
    link: Link,
    configs: [ConnectionConfig; 2],
    totals: [u64; 2],
    appetites: [usize; 2],
}

fn draw(seed: u64) -> Drawn {
    let mut draw = Draw::new(seed);
    let chance = &mut draw.chance;
    let link = Link {
        delay: Duration::from_micros(100 + chance.below(150_000)),
        gap: Duration::from_micros(*chance.pick(&[0, 0, 10, 500])),
        loss: *chance.pick(&[0, 5, 20, 100, 200]),
        reorder: *chance.pick(&[0, 0, 50, 300]),
        duplicate: *chance.pick(&[0, 0, 20, 200]),
        lag: Duration::from_micros(1 + chance.below(60_000)),
    };
    let totals = [0, 1].map(|_| *chance.pick(&[0, 1, 5_000, 100_000, 400_000]));
    let mut appetite = |_| if chance.happens(200) { 1 + chance.below(20_000) as usize } else { usize::MAX };
    let appetites = [0, 1].map(&mut appetite);
    Drawn { link, configs: [draw.end(), draw.end()], totals, appetites }
}

/// Whether everything has arrived, however it ended: a last acknowledgment that was lost is not sent again once TIME-WAIT is over, and a timer that
/// has backed off further finds nobody (RFC 9293 §3.10.7.1).
fn has_arrived(pair: &Pair, totals: [u64; 2]) -> bool {
    pair.apps[1].read == totals[0] && pair.apps[0].read == totals[1]
}

#[test]
fn random_ends_on_random_links_get_through() {
    each_seed(0..500, |seed| {
        let drawn = draw(seed);
        let Drawn { link, configs: [client, server], totals, appetites } = &drawn;
        let mut pair = Pair::new(seed, *link, *totals);
        pair.audit = true;
        pair.apps[0].appetite = appetites[0];
        pair.apps[1].appetite = appetites[1];
        println!("seed {seed}: {drawn:#?}");
        pair.open(client.clone(), server.clone());
        let done = pair.run_until(Duration::from_secs(4 * 3600), Pair::is_done);
        let states = [pair.state(0), pair.state(1)];
        assert!(done || has_arrived(&pair, *totals), "{:?} {states:?} at {}", pair.apps, pair.now);
        assert_eq!(states, [State::Closed; 2]);
    });
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
        prop_assert!(done || has_arrived(&pair, [totals.0, totals.1]), "{:?} {:?}", pair.apps, [pair.state(0), pair.state(1)]);
    }
}
