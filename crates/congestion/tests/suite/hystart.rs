//! HyStart++ (RFC 9406) as CUBIC uses it, on a path with a bottleneck.
use std::time::Duration;

use crate::path::{MSS, Path, build, params};
use shorthaul_congestion::{ControlParams, Cubic};
use shorthaul_types::{BitRate, Time};

const RATE: BitRate = BitRate::from_bits_per_sec(32_000_000);
const RTT: Duration = Duration::from_millis(100);

#[test]
fn slow_start_ends_when_the_queue_begins_to_grow() {
    let mut path = Path::new(build("cubic"), RATE, RTT);
    assert_eq!(path.bdp(), 400 * MSS);
    while path.control.in_slow_start() {
        path.step(Duration::ZERO);
        assert!(path.now < Time::from_secs(10), "slow start never ended");
    }
    let window = path.control.window();
    assert!(window >= path.bdp(), "{window} does not fill the path");
    assert_eq!(path.control.ssthresh(), window);

    // Reno has nothing but the loss to stop it, and is far beyond by now.
    let mut reno = Path::new(build("reno"), RATE, RTT);
    reno.run_until(path.now);
    assert!(reno.control.in_slow_start() && reno.control.window() > 2 * window);
}

#[test]
fn without_a_rise_of_the_delay_slow_start_doubles_on() {
    let mut path = Path::new(build("cubic"), BitRate::from_bits_per_sec(100_000_000_000), RTT);
    path.run_until(Time::from_millis(801));
    assert!(path.control.in_slow_start() && path.control.window() >= (10 * MSS) << 8);
}

/// The window in segments after each ACK on a path without a queue, where `extra(n)` lengthens
/// the round-trip time that the `n`th ACK measures, counted from one.
///
/// Rounds end with the ACKs 10, 28, 64 and, while the window doubles, 136: each lasts for what was
/// in flight when the one before it ended.
fn windows(extra: impl Fn(usize) -> Duration, acks: usize) -> Vec<u64> {
    let mut path = Path::new(build("cubic"), BitRate::from_bits_per_sec(100_000_000_000), RTT);
    let mut windows = vec![path.control.window() / MSS];
    for n in 1..=acks {
        path.step(extra(n));
        windows.push(path.control.window() / MSS);
    }
    windows
}

#[test]
fn jitter_of_one_round_trip_only_slows_the_growth_down_for_that_long() {
    let windows = windows(|n| Duration::from_millis(if (29..=64).contains(&n) { 20 } else { 0 }), 300);
    // Eight samples tell that the delay has risen; the seven before grow the window in full.
    assert_eq!((windows[28], windows[35]), (38, 45));
    // From then on four ACKs give a segment, until eight samples of the next round tell otherwise.
    assert_eq!((windows[39], windows[63], windows[71]), (46, 52, 54));
    for n in 72..=300 {
        assert_eq!(windows[n], windows[n - 1] + 1, "at ACK {n}");
    }
}

#[test]
fn a_lasting_rise_ends_slow_start_after_five_rounds() {
    let windows = windows(|n| Duration::from_millis(if n >= 29 { 20 } else { 0 }), 2000);
    // The round in which the rise was seen counts, so a quarter is added in this one's rest and
    // four more.
    let mut end = 64;
    for _ in 0..4 {
        let next = end + windows[end] as usize - 1;
        let growth = windows[next] as f64 / windows[end] as f64;
        assert!((1.22..1.26).contains(&growth), "by {growth} from ACK {end} to {next}");
        end = next;
    }
    // Then congestion avoidance.
    let next = end + windows[end] as usize;
    assert!((1..5).contains(&(windows[next] - windows[end])), "{} to {}", windows[end], windows[next]);
}

#[test]
fn a_rise_below_the_threshold_is_ignored() {
    // An eighth of 100 ms is 12.5 ms.
    let below = windows(|n| Duration::from_millis(if n >= 29 { 12 } else { 0 }), 200);
    assert_eq!(below[200], 210);
    let above = windows(|n| Duration::from_millis(if n >= 29 { 13 } else { 0 }), 200);
    assert!(above[200] < 100, "{}", above[200]);
}

#[test]
fn eight_samples_are_needed() {
    let seven = windows(|n| Duration::from_millis(if (29..=35).contains(&n) { 20 } else { 0 }), 64);
    assert_eq!(seven[64], 74);
}

#[test]
fn an_unpaced_sender_counts_eight_segments_an_ack() {
    let mut cubic = Cubic::new(ControlParams { paced: false, initial_window: 100 * MSS, ..params() });
    use shorthaul_congestion::Control;
    let sample = crate::path::ack(&cubic, Time::from_millis(1), 40 * MSS);
    cubic.on_ack(&sample);
    assert_eq!(cubic.window(), 108 * MSS);
}
