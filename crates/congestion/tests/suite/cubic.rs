//! CUBIC against the closed forms of RFC 9438.
use std::time::Duration;

use crate::path::{MSS, ack, build, params, round};
use shorthaul_congestion::{AckSample, CongestionEvent, Control, ControlParams, Cubic};
use shorthaul_types::Time;

const START: Time = Time::from_secs(1);

/// A CUBIC that met a loss with a window of `segments`, at [`START`].
fn after_loss(segments: u64) -> Cubic {
    let mut cubic = Cubic::new(ControlParams { initial_window: segments * MSS, ..params() });
    cubic.on_congestion(START, CongestionEvent::Loss, segments * MSS);
    cubic.on_recovered(START);
    cubic
}

/// Runs rounds of `rtt`, each window acknowledged in even steps, and gives the time since `start`
/// in seconds and the window in segments after each.
fn grow(cubic: &mut Cubic, start: Time, rtt: Duration, rounds: u32) -> Vec<(f64, f64)> {
    let mut grown = Vec::new();
    for n in 0..rounds {
        let acks = u32::try_from(cubic.window() / MSS).unwrap();
        for i in 0..acks {
            let now = start + rtt * n + rtt * i / acks;
            let sample = AckSample { rtt: Some(rtt), ..ack(cubic, now, MSS) };
            cubic.on_ack(&sample);
        }
        grown.push(((rtt * (n + 1)).as_secs_f64(), cubic.window() as f64 / MSS as f64));
    }
    grown
}

/// Equation 1, in segments.
fn w_cubic(t: f64, w_max: f64, cwnd_epoch: f64) -> f64 {
    let k = ((w_max - cwnd_epoch) / 0.4).cbrt();
    0.4 * (t - k).powi(3) + w_max
}

#[test]
fn a_loss_leaves_seven_tenths() {
    let cubic = after_loss(1000);
    assert_eq!((cubic.window(), cubic.ssthresh()), (700 * MSS, 700 * MSS));
}

#[test]
fn the_window_follows_the_cubic_function_of_time() {
    // K is 9.09 s: concave up to it, convex beyond.
    let mut cubic = after_loss(1000);
    for (t, window) in grow(&mut cubic, START, Duration::from_millis(100), 180) {
        let expected = w_cubic(t, 1000.0, 700.0);
        assert!((window - expected).abs() < 0.01 * expected, "{window} at {t} s, not {expected}");
    }
}

#[test]
fn growth_does_not_depend_on_the_round_trip_time() {
    let mut short = after_loss(4000);
    let mut long = after_loss(4000);
    let short = grow(&mut short, START, Duration::from_millis(50), 160).pop().unwrap();
    let long = grow(&mut long, START, Duration::from_millis(400), 20).pop().unwrap();
    assert_eq!(short.0, long.0);
    assert!((short.1 / long.1 - 1.0).abs() < 0.02, "{short:?} {long:?}");
}

#[test]
fn a_small_window_grows_as_reno_does() {
    // At 20 segments and 10 ms, K is 2.5 s, but Reno regains the window in 12 round trips.
    let mut cubic = after_loss(20);
    let alpha = 3.0 * 0.3 / 1.7;
    let mut w_est: f64 = 14.0;
    for (t, window) in grow(&mut cubic, START, Duration::from_millis(10), 60) {
        w_est += if w_est >= 20.0 { 1.0 } else { alpha };
        assert!((window - w_est).abs() < 1.6, "{window} at {t} s, not {w_est}");
    }
    assert!(cubic.window() > 65 * MSS, "one segment a round trip from 20 on: {}", cubic.window());
}

#[test]
fn a_flow_that_did_not_regain_its_window_makes_room() {
    let mut cubic = after_loss(1000);
    grow(&mut cubic, START, Duration::from_millis(100), 20);
    let at_loss = cubic.window() as f64 / MSS as f64;
    assert!((800.0..950.0).contains(&at_loss));
    let start = START + Duration::from_secs(2);
    cubic.on_congestion(start, CongestionEvent::Loss, cubic.window());
    cubic.on_recovered(start);
    for (t, window) in grow(&mut cubic, start, Duration::from_millis(100), 100) {
        let expected = w_cubic(t, 0.85 * at_loss, 0.7 * at_loss);
        assert!((window - expected).abs() < 0.01 * expected, "{window} at {t} s, not {expected}");
    }
}

#[test]
fn after_a_timeout_the_curve_starts_at_its_plateau() {
    let mut cubic = after_loss(1000);
    cubic.on_timeout(START, 1000 * MSS);
    assert_eq!((cubic.window(), cubic.ssthresh()), (MSS, 490 * MSS));
    cubic.on_timeout(START, 1000 * MSS);
    assert_eq!(cubic.ssthresh(), 490 * MSS, "the same data");
    cubic.on_recovered(START);
    while cubic.in_slow_start() {
        round(&mut cubic, START, MSS);
    }
    let first = cubic.window() as f64 / MSS as f64;
    for (t, window) in grow(&mut cubic, START, Duration::from_millis(100), 120) {
        // α is 0.53 a round trip while below cwnd_prior, so Reno leads at first.
        let expected = (w_cubic(t, first, first)).max(first + 5.3 * t);
        assert!((window - expected).abs() < 0.01 * expected, "{window} at {t} s, not {expected}");
    }
}

#[test]
fn time_in_which_the_application_was_the_limit_does_not_count() {
    let rtt = Duration::from_millis(100);
    let mut steady = after_loss(1000);
    let mut paused = after_loss(1000);
    grow(&mut steady, START, rtt, 30);
    grow(&mut paused, START, rtt, 30);
    let mut now = START + rtt * 30;
    for _ in 0..1000 {
        now += rtt;
        let trickle = AckSample { cwnd_limited: false, in_flight_before: MSS, ..ack(&paused, now, MSS) };
        paused.on_ack(&trickle);
    }
    assert_eq!(paused.window(), steady.window());
    let steady = grow(&mut steady, START + rtt * 30, rtt, 30).pop().unwrap().1;
    let paused = grow(&mut paused, now, rtt, 30).pop().unwrap().1;
    assert!((steady - paused).abs() < 2.0, "{paused} after a pause, {steady} without");
}

#[test]
fn silence_with_nothing_in_flight_does_not_count() {
    let rtt = Duration::from_millis(100);
    let mut steady = after_loss(1000);
    let mut silent = after_loss(1000);
    grow(&mut steady, START, rtt, 30);
    grow(&mut silent, START, rtt, 30);
    let now = START + rtt * 30 + Duration::from_secs(30);
    silent.on_transmit_start(now);
    let steady = grow(&mut steady, START + rtt * 30, rtt, 30).pop().unwrap().1;
    let silent = grow(&mut silent, now, rtt, 30).pop().unwrap().1;
    assert!((steady - silent).abs() < 2.0, "{silent} after a silence, {steady} without");
}

#[test]
fn after_a_timeout_reno_is_matched_gently_up_to_the_window_before() {
    let mut cubic = Cubic::new(ControlParams { initial_window: 100 * MSS, ..params() });
    cubic.on_timeout(START, 20 * MSS);
    cubic.on_recovered(START);
    while cubic.in_slow_start() {
        round(&mut cubic, START, MSS);
    }
    // The rest of the round that met ssthresh has already counted for congestion avoidance.
    let first = cubic.window() as f64 / MSS as f64;
    let last = grow(&mut cubic, START, Duration::from_millis(1), 40).pop().unwrap().1;
    let a_round = (last - first) / 40.0;
    assert!((0.5..0.56).contains(&a_round), "{a_round} segments a round trip");
}

#[test]
fn one_round_trip_adds_at_most_half_a_window() {
    let mut cubic = after_loss(100);
    let mut before = cubic.window() as f64;
    for (_, window) in grow(&mut cubic, START, Duration::from_secs(30), 4) {
        let window = window * MSS as f64;
        assert!(window <= 1.65 * before, "from {before} to {window}");
        before = window;
    }
}

#[test]
fn marks_may_lower_the_window_to_one_segment_but_losses_only_to_two() {
    let mut cubic = after_loss(10);
    for _ in 0..10 {
        cubic.on_congestion(START, CongestionEvent::Loss, cubic.window());
    }
    assert_eq!((cubic.window(), cubic.ssthresh()), (2 * MSS, 2 * MSS));
    for _ in 0..10 {
        cubic.on_congestion(START, CongestionEvent::EcnEcho, cubic.window());
    }
    assert_eq!((cubic.window(), cubic.ssthresh()), (MSS, 2 * MSS));
}

#[test]
fn a_spurious_answer_is_undone_and_the_curve_goes_on() {
    let rtt = Duration::from_millis(100);
    let mut cubic = after_loss(1000);
    grow(&mut cubic, START, rtt, 50);
    let before = (cubic.window(), cubic.ssthresh());
    let now = START + rtt * 50;
    cubic.on_congestion(now, CongestionEvent::Loss, cubic.window());
    assert!(cubic.window() < before.0);
    cubic.on_spurious(now);
    assert_eq!((cubic.window(), cubic.ssthresh()), before);
    for (t, window) in grow(&mut cubic, now, rtt, 100) {
        let expected = w_cubic(t + 5.0, 1000.0, 700.0);
        assert!((window - expected).abs() < 0.01 * expected, "{window} at {t} s, not {expected}");
    }
}

#[test]
fn a_timeout_in_slow_start_that_was_spurious_restores_the_infinite_threshold() {
    let mut cubic = build("cubic");
    round(cubic.as_mut(), START, MSS);
    cubic.on_timeout(START, 20 * MSS);
    cubic.on_spurious(START);
    assert_eq!((cubic.window(), cubic.ssthresh()), (20 * MSS, u64::MAX));
}
