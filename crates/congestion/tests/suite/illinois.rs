//! TCP-Illinois by the rules of its paper.
use crate::path::{MSS, ack, build};
use shorthaul_congestion::{AckSample, CongestionEvent, Control};
use shorthaul_types::Time;
use std::time::Duration;

/// Illinois in congestion avoidance with a window of `segments`, after a loss over a path whose round-trip times went
/// from 100 to 200 ms.
fn avoiding(segments: u64) -> Box<dyn Control> {
    let mut control = build("illinois");
    let mut now = Time::ZERO;
    while control.window() < 2 * segments * MSS {
        now += Duration::from_millis(100);
        round(control.as_mut(), now, 100);
    }
    round(control.as_mut(), now, 200);
    round(control.as_mut(), now, 200);
    control.on_congestion(now, CongestionEvent::Loss, 2 * segments * MSS);
    control.on_recovered(now);
    assert_eq!(control.window(), segments * MSS, "the longest queue: half");
    control
}

/// Acknowledges a window, a segment at a time, with round trips of this many milliseconds.
fn round(control: &mut dyn Control, now: Time, rtt: u64) {
    for _ in 0..control.window() / MSS {
        let sample = AckSample { rtt: Some(Duration::from_millis(rtt)), ..ack(control, now, MSS) };
        control.on_ack(&sample);
    }
}

/// By how many segments the window grows in each of this many rounds.
fn growth(control: &mut dyn Control, rtt: u64, rounds: usize) -> Vec<u64> {
    let grow = |_| {
        let before = control.window();
        round(control, Time::from_secs(9), rtt);
        (control.window() - before) / MSS
    };
    (0..rounds).map(grow).collect()
}

#[test]
fn the_longer_the_queue_the_slower_it_grows() {
    let in_ten = |rtt| growth(avoiding(40).as_mut(), rtt, 10)[2..].iter().sum::<u64>();
    let (full, half, quarter) = (in_ten(199), in_ten(150), in_ten(125));
    assert!(full < half && half < quarter, "{full}, {half}, {quarter}");
    assert!((2..=4).contains(&full), "0.3 segments a round: {full}");
}

#[test]
fn a_queue_must_stay_empty_for_five_rounds_before_it_grows_fast() {
    let mut control = avoiding(40);
    growth(control.as_mut(), 199, 6);
    let seen = growth(control.as_mut(), 100, 16);
    let fast = seen.iter().position(|grown| *grown >= 9).expect("it is let go at last");
    assert!((5..=8).contains(&fast), "five rounds, and those that had begun: {seen:?}");
    assert!(seen[fast..].iter().all(|grown| (9..=12).contains(grown)), "{seen:?}");
    // One long round trip, and it must wait again.
    growth(control.as_mut(), 190, 2);
    let after = growth(control.as_mut(), 100, 4);
    assert!(after.iter().all(|grown| *grown <= 2), "{after:?}");
}

#[test]
fn a_loss_without_a_queue_costs_an_eighth_and_with_one_a_half() {
    for (rtt, least, most) in [(100, 0.86, 0.89), (145, 0.67, 0.71), (199, 0.49, 0.51)] {
        let mut control = avoiding(80);
        growth(control.as_mut(), rtt, 8);
        let before = control.window();
        control.on_congestion(Time::from_secs(9), CongestionEvent::Loss, before);
        let kept = control.window() as f64 / before as f64;
        assert!((least..=most).contains(&kept), "{rtt} ms: {kept}");
    }
}

#[test]
fn a_small_window_is_renos() {
    let mut control = build("illinois");
    let now = Time::from_secs(1);
    control.on_congestion(now, CongestionEvent::Loss, 10 * MSS);
    control.on_recovered(now);
    // Whatever the delay, below 15 segments it grows by one a round trip and gives up half.
    for rtt in [100, 200, 200, 100] {
        let before = control.window();
        growth(control.as_mut(), rtt, 2);
        let grown = (control.window() - before) / MSS;
        assert!((1..=3).contains(&grown), "{rtt} ms: {grown}");
    }
    let before = control.window();
    assert!(before < 15 * MSS, "{before}");
    control.on_congestion(now, CongestionEvent::Loss, before);
    assert!(control.window().abs_diff(before / 2) <= MSS);
}

#[test]
fn an_rto_halves_the_threshold_and_a_spurious_one_is_undone() {
    let mut control = avoiding(80);
    growth(control.as_mut(), 100, 8);
    let before = control.window();
    control.on_timeout(Time::from_secs(9), before);
    assert_eq!((control.window(), control.ssthresh()), (MSS, before / 2));
    control.on_spurious(Time::from_secs(9));
    assert_eq!(control.window(), before);
}
