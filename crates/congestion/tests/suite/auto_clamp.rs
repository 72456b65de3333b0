//! A window that finds its own size, in a loop with one link that nobody else uses.
use shorthaul_congestion::{AutoClamp, AutoClampConfig, Delivery};
use shorthaul_types::Time;
use std::collections::VecDeque;

const MSS: u64 = 1448;
const MS: u64 = 1_000_000;

/// What came out of a run.
struct Outcome {
    /// Delivered bytes over what the link could carry.
    utilization: f64,
    /// Of 95 % of the segments, the time in the queue is below this; in seconds.
    queue_p95: f64,
    /// The same, of the segments sent in the last quarter.
    settled: f64,
}

/// Sends all the time into a link whose rate (bit/s) and one-way delay (ns) are functions of time (ns), and whose
/// queue drops nothing.
fn run(seconds: u64, rate: impl Fn(u64) -> f64, delay: impl Fn(u64) -> u64) -> Outcome {
    run_with(seconds, rate, delay, u64::MAX)
}

/// The same, with a sender that never has more than `most` bytes on their way, whatever the window is.
fn run_with(seconds: u64, rate: impl Fn(u64) -> f64, delay: impl Fn(u64) -> u64, most: u64) -> Outcome {
    run_from(0, seconds, rate, delay, most)
}

/// The same, where queues count from `from` seconds on.
fn run_from(
    from: u64,
    seconds: u64,
    rate: impl Fn(u64) -> f64,
    delay: impl Fn(u64) -> u64,
    most: u64,
) -> Outcome {
    let config = AutoClampConfig { mss: MSS as u32, initial: 10 * MSS, headroom: 15_000 };
    run_of(AutoClamp::new(Time::ZERO, config), (from, seconds), rate, delay, most)
}

/// The same of this window, where queues count from `from` seconds on.
fn run_of(
    mut clamp: AutoClamp,
    (from, seconds): (u64, u64),
    rate: impl Fn(u64) -> f64,
    delay: impl Fn(u64) -> u64,
    most: u64,
) -> Outcome {
    let end = seconds * 1000 * MS;
    let (mut now, mut free, mut last, mut in_flight, mut delivered) = (0, 0u64, 0, 0, 0);
    let mut flight: VecDeque<(u64, u64)> = VecDeque::new();
    let mut queues = Vec::new();
    while now < end {
        while in_flight + MSS <= clamp.window().min(most) {
            clamp.on_send(Time::from_nanos(now), in_flight);
            in_flight += MSS;
            let begins = free.max(now);
            queues.push((now, (begins - now) as f64 / 1e9));
            free = begins + (MSS as f64 * 8.0 / rate(begins) * 1e9) as u64;
            last = last.max(free + 2 * delay(now));
            flight.push_back((last, now));
        }
        if in_flight + MSS > clamp.window() {
            clamp.on_full();
        } else {
            clamp.on_limited(in_flight);
        }
        let (at, sent) = flight.pop_front().expect("the window is never empty");
        now = now.max(at);
        in_flight -= MSS;
        delivered += MSS;
        let rtt = std::time::Duration::from_nanos(now - sent);
        let (now, sent_at) = (Time::from_nanos(now), Time::from_nanos(sent));
        clamp.on_delivery(Delivery { now, bytes: MSS, sent_at, rtt: Some(rtt) });
    }
    let possible: f64 = (0..seconds * 1000).map(|ms| rate(ms * MS) / 8e3).sum();
    let p95 = |from: u64| {
        let mut of: Vec<f64> = queues.iter().filter(|(at, _)| *at >= from).map(|(_, queue)| *queue).collect();
        of.sort_by(f64::total_cmp);
        of[of.len() * 95 / 100]
    };
    Outcome {
        utilization: delivered as f64 / possible,
        queue_p95: p95(from * 1000 * MS),
        settled: p95(end / 4 * 3),
    }
}

#[test]
fn steady_links_are_full_and_their_queues_short() {
    for (rate, delay_ms) in [(50e6, 15), (20e6, 275), (2e6, 30), (300e6, 5)] {
        let outcome = run(60, |_| rate, |_| delay_ms * MS);
        let rtt = 2.0 * delay_ms as f64 / 1e3 + MSS as f64 * 8.0 / rate;
        let (found, queue) = (outcome.utilization, outcome.settled);
        assert!(found > 0.9, "{rate} bit/s, {delay_ms} ms: {found}");
        assert!(queue < 0.5 * rtt, "{rate} bit/s, {delay_ms} ms: a queue of {queue} s beside {rtt} s");
    }
}

/// Hosts a tenth of a millisecond apart: with a fifth of that as surplus, a machine that is woken late would idle.
#[test]
fn on_a_short_path_the_queue_is_what_nobody_notices() {
    let outcome = run(2, |_| 1e9, |_| MS / 20);
    assert!(outcome.utilization > 0.95, "{}", outcome.utilization);
    assert!((0.001..0.003).contains(&outcome.settled), "{}", outcome.settled);
}

#[test]
fn a_rate_that_changes_tenfold_within_seconds_is_followed_both_ways() {
    let outcome = run(60, |at| if (at / (3000 * MS)).is_multiple_of(2) { 20e6 } else { 2e6 }, |_| 25 * MS);
    assert!(outcome.utilization > 0.9, "{}", outcome.utilization);
    // the fast link's window is 600 ms of the slow one; what is on its way when the rate falls cannot be helped
    assert!(outcome.queue_p95 < 0.25, "{}", outcome.queue_p95);
}

#[test]
fn a_longer_path_after_a_handover_is_learned_and_a_shorter_one_too() {
    for (before, after) in [(15, 60), (60, 15)] {
        let delay = |at: u64| if at < 20_000 * MS { before * MS } else { after * MS };
        let outcome = run(60, |_| 20e6, delay);
        assert!(outcome.utilization > 0.9, "{before} to {after} ms: {}", outcome.utilization);
        assert!(
            outcome.settled < 0.6 * 2.0 * after as f64 / 1e3,
            "{before} to {after} ms: {}",
            outcome.settled
        );
    }
}

/// The window doubles to 3.7 MB, and the sender has 2.9 MB: it never fills the window, and always the link, whose product
/// is 1.4 MB.
#[test]
fn a_sender_that_fills_the_link_and_not_the_window_ends_the_start() {
    let outcome = run_with(60, |_| 20e6, |_| 275 * MS, 2_900_000);
    assert!(outcome.settled < 0.25, "{}", outcome.settled);
    assert!(outcome.utilization > 0.9, "{}", outcome.utilization);
}

/// As soon as round trips are long, not when the round is over in which they were.
#[test]
fn the_queue_of_the_start_is_over_within_two_round_trips() {
    let outcome = run_from(4, 5, |_| 20e6, |_| 275 * MS, u64::MAX);
    assert!(outcome.queue_p95 < 0.25, "{}", outcome.queue_p95);
}

/// Whether a window still starts after a round in which its sender used three quarters of it, and round trips took `rtt_ms`
/// instead of 500 ms.
fn starts_after_a_round_of(rtt_ms: u64) -> bool {
    let config = AutoClampConfig { mss: MSS as u32, initial: 10 * MSS, headroom: 15_000 };
    let mut clamp = AutoClamp::new(Time::ZERO, config);
    let mut at = 0;
    let mut round = |rtt_ms: u64, part: u64, limited: bool| {
        let segments = clamp.window() / MSS * part / 4;
        for i in 0..segments {
            clamp.on_send(Time::from_millis(at), i * MSS);
        }
        if limited {
            clamp.on_full();
        }
        let sent_at = Time::from_millis(at);
        at += rtt_ms;
        for i in 0..segments {
            let now = Time::from_nanos(at * MS + i * 1000);
            let rtt = Some(now.saturating_since(sent_at));
            clamp.on_delivery(Delivery { now, bytes: MSS, sent_at, rtt });
        }
        at += 1;
        clamp.is_starting()
    };
    assert!((0..6).all(|_| round(500, 4, true)), "the window doubles");
    round(rtt_ms, 3, false);
    round(rtt_ms, 3, false) // by its first delivery, the round before is over
}

#[test]
fn a_queue_as_long_as_the_path_ends_the_start_in_one_round() {
    assert!(starts_after_a_round_of(500));
    assert!(starts_after_a_round_of(700), "it may pass");
    assert!(!starts_after_a_round_of(1300));
}

/// What the start leaves on its way holds sending up for a round trip, and what is measured across that is not the link's doing.
#[test]
fn the_start_is_not_taken_for_a_link_that_varies() {
    let outcome = run_from(8, 20, |_| 20e6, |_| 275 * MS, u64::MAX);
    assert!(outcome.queue_p95 < 0.26, "{}", outcome.queue_p95);
}

#[test]
fn a_queue_of_its_own_is_never_taken_for_the_path_however_long_it_runs() {
    let outcome = run(600, |_| 5e6, |_| 20 * MS);
    assert!(outcome.settled < 0.03, "{}", outcome.settled);
    assert!(outcome.utilization > 0.97, "{}", outcome.utilization);
}

/// The reserve for such a link is a queue where the rate is low. It is not taken for a longer path, again and again, and drained.
#[test]
fn a_rate_that_is_another_one_all_the_time_is_used_and_its_reserve_is_no_longer_path() {
    // This many milliseconds at each rate, between 1 and 16 Mbit/s; 95 % wait this many seconds at most.
    for (ms, most) in [(200, 0.9), (400, 0.3), (800, 0.1)] {
        let rate = |at: u64| 1e6 * f64::from(1 << ((((at / (ms * MS)) * 2_654_435_761) >> 7) % 5));
        let Outcome { utilization, queue_p95, .. } = run(120, rate, |_| 20 * MS);
        println!("{ms} ms: {utilization:.3} used, {queue_p95:.3} s");
        assert!(utilization > 0.93, "{ms} ms: {utilization}");
        assert!(queue_p95 < most, "{ms} ms: {queue_p95} s");
    }
}

/// Its segments take a third of the round trip, and were measured when they took a thirtieth.
#[test]
fn a_link_that_becomes_ten_times_as_slow_is_as_full_as_one_that_always_was() {
    let outcome = run(60, |at| if at < 5_000 * MS { 10e6 } else { 1e6 }, |_| 15 * MS);
    assert!(outcome.utilization > 0.99, "{}", outcome.utilization);
    assert!(outcome.settled < 0.02, "{}", outcome.settled);
}

/// 100 Mbit/s over 4 ms, and each round trip waits for 6 ms more behind what the other direction sends. Where that is told, the
/// link is full; where it is taken for a queue of the window's own, the rate falls with the window.
#[test]
fn a_queue_of_the_other_direction_takes_nothing_of_the_rate_where_it_is_told() {
    let used = |told: bool| {
        let config = AutoClampConfig { mss: MSS as u32, initial: 10 * MSS, headroom: 15_000 };
        let mut clamp = AutoClamp::new(Time::ZERO, config);
        let beside = std::time::Duration::from_millis(6);
        let (mut now, mut free, mut delivered) = (0, 0u64, 0);
        let mut flight: VecDeque<(u64, u64)> = VecDeque::new();
        while now < 4000 * MS {
            while (flight.len() as u64 + 1) * MSS <= clamp.window() {
                clamp.on_send(Time::from_nanos(now), flight.len() as u64 * MSS);
                free = free.max(now) + MSS * 80;
                // The other direction's queue is there from the second second on.
                let waits = if now < 1000 * MS { 0 } else { 6 * MS };
                flight.push_back((free + 4 * MS + waits, now));
            }
            clamp.on_full();
            let (at, sent) = flight.pop_front().unwrap();
            now = now.max(at);
            let waits = if sent < 1000 * MS { std::time::Duration::ZERO } else { beside };
            delivered += if now >= 2000 * MS { MSS } else { 0 };
            let rtt = std::time::Duration::from_nanos(now - sent);
            let own = if told { rtt - waits } else { rtt };
            clamp.set_beside(if told { waits } else { std::time::Duration::ZERO });
            let (now, sent_at) = (Time::from_nanos(now), Time::from_nanos(sent));
            clamp.on_delivery(Delivery { now, bytes: MSS, sent_at, rtt: Some(own) });
        }
        delivered as f64 / 25e6
    };
    let (told, taken) = (used(true), used(false));
    assert!(told > 0.97, "{told}");
    assert!(taken < 0.9, "{taken}: the test would show nothing");
}

/// Round trips that wait for long beside a short path: a window that grows by a fifth of the path's product alone hardly grows in one.
#[test]
fn while_there_is_no_queue_of_its_own_the_window_grows_by_a_fifth_of_what_is_under_way() {
    let grown = |growing: bool| {
        let (path, beside) = (40 * MS, std::time::Duration::from_millis(400));
        let config = AutoClampConfig { mss: MSS as u32, initial: 10 * MSS, headroom: 0 };
        let clamp = AutoClamp::new(Time::ZERO, config);
        let mut clamp = if growing { clamp.growing_beside() } else { clamp };
        let (mut now, mut free, mut flight) = (0, 0, VecDeque::new());
        while now < 6000 * MS {
            while (flight.len() as u64 + 1) * MSS <= clamp.window() {
                clamp.on_send(Time::from_nanos(now), flight.len() as u64 * MSS);
                // As the pacer spaces them.
                free = now.max(free) + 440 * MS * MSS / clamp.window();
                flight.push_back(free);
            }
            clamp.on_full();
            let sent = flight.pop_front().unwrap();
            now = sent + 440 * MS;
            clamp.set_beside(beside);
            let rtt = Some(std::time::Duration::from_nanos(path));
            let (at, sent_at) = (Time::from_nanos(now), Time::from_nanos(sent));
            clamp.on_delivery(Delivery { now: at, bytes: MSS, sent_at, rtt });
            clamp.on_queue(at); // the start is over
        }
        clamp.window() / MSS
    };
    let (all, product) = (grown(true), grown(false));
    assert!(all >= 3 * product && all >= 50, "{all} segments, {product} by the product");
}

/// A radio keeps the order of packets of which each is late by up to 40 ms: under load all are as late as the latest. A window that takes that
/// for its queue becomes smaller, and the rate with it; one that looks, with less under way, sees that it is none.
#[test]
fn a_path_that_is_longer_under_load_is_filled_and_a_queue_is_not_taken_for_one() {
    let used = |rate: f64, looks: bool, late_ms: u64| {
        let config = AutoClampConfig { mss: MSS as u32, initial: 10 * MSS, headroom: 15_000 };
        let clamp = AutoClamp::new(Time::ZERO, config);
        let clamp = if looks { clamp.looking() } else { clamp };
        // Half of it each way, drawn anew for each time of sending (SplitMix64).
        let late = |now: u64| {
            let mut drawn = now.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            drawn = (drawn ^ (drawn >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            (drawn ^ (drawn >> 31)) % (late_ms * MS / 2).max(1)
        };
        run_of(clamp, (10, 60), |_| rate, |now| 2 * MS + late(now), u64::MAX)
    };
    for rate in [10e6, 25e6, 100e6] {
        let (blind, looking) = (used(rate, false, 40), used(rate, true, 40));
        println!("{rate}: {:.3} and {:.3}, {:.3} s", blind.utilization, looking.utilization, looking.settled);
        assert!(blind.utilization < 0.7, "{rate} bit/s: {}: the test would show nothing", blind.utilization);
        assert!(looking.utilization > 0.93, "{rate} bit/s: {}", looking.utilization);
        assert!(looking.settled < 0.07, "{rate} bit/s: a queue of {} s", looking.settled);
        // Without jitter looks change nothing.
        let (blind, looking) = (used(rate, false, 0), used(rate, true, 0));
        assert!(
            (looking.utilization - blind.utilization).abs() < 0.01,
            "{rate} bit/s: {}",
            looking.utilization
        );
        assert!(looking.settled < 1.25 * blind.settled, "{rate} bit/s: {} s", looking.settled);
    }
}

/// 3 Mbit/s over 50 ms are 13 segments, which six connections that begin after silence would fill five times over. Where the link was never
/// full, nothing is known, and each begins as it would by itself (RFC 6928).
#[test]
fn what_begins_after_silence_is_no_more_than_twice_what_a_known_path_asked_for() {
    let begins = |is_known: bool| {
        let config = AutoClampConfig { mss: MSS as u32, initial: 10 * MSS, headroom: 15_000 };
        let mut clamp = AutoClamp::new(Time::ZERO, config);
        let (mut now, mut free, mut flight) = (0, 0u64, VecDeque::new());
        while is_known && now < 5000 * MS {
            while (flight.len() as u64 + 1) * MSS <= clamp.window() {
                clamp.on_send(Time::from_nanos(now), flight.len() as u64 * MSS);
                free = free.max(now) + MSS * 8 * 1000 / 3;
                flight.push_back((free + 50 * MS, now));
            }
            clamp.on_full();
            let (at, sent) = flight.pop_front().unwrap();
            now = at;
            let rtt = Some(std::time::Duration::from_nanos(now - sent));
            let (now, sent_at) = (Time::from_nanos(now), Time::from_nanos(sent));
            clamp.on_delivery(Delivery { now, bytes: MSS, sent_at, rtt });
        }
        let before = clamp.window() / MSS;
        clamp.on_send(Time::from_nanos(now + 2000 * MS), 0);
        clamp.set_connections(6, 60 * MSS);
        (before, clamp.window() / MSS)
    };
    let (before, known) = begins(true);
    assert!((12..=20).contains(&before), "{before}");
    assert!((before + 1..=2 * before + 1).contains(&known), "{known} after {before}");
    assert_eq!(begins(false).1, 60);
}
