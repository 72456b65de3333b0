//! Reno against the numbers of RFC 5681 and RFC 3465.
use std::time::Duration;

use crate::path::{MSS, ack, build, params, round};
use shorthaul_congestion::{
    AckSample, Algorithm, ByteCounting, CongestionEvent, Control, ControlParams, Reno,
};
use shorthaul_types::Time;

const NOW: Time = Time::from_millis(1);

/// A Reno in congestion avoidance with a window of `segments`.
fn avoiding(segments: u64) -> Box<dyn Control> {
    let params = ControlParams { initial_window: 2 * segments * MSS, ..params() };
    let mut reno = Reno::new(params);
    reno.on_congestion(NOW, CongestionEvent::Loss, 2 * segments * MSS);
    reno.on_recovered(NOW);
    assert_eq!((reno.window(), reno.in_slow_start()), (segments * MSS, false));
    Box::new(reno)
}

#[test]
fn slow_start_doubles_the_window_every_round_trip() {
    for per_ack in [MSS, 2 * MSS] {
        let mut reno = build("reno");
        for expected in [20, 40, 80, 160] {
            round(reno.as_mut(), NOW, per_ack);
            assert_eq!(reno.window(), expected * MSS, "with ACKs of {per_ack} bytes");
        }
    }
}

#[test]
fn one_ack_adds_at_most_two_segments_unless_the_sender_paces() {
    let mut unpaced = Reno::new(ControlParams { paced: false, ..params() });
    unpaced.on_ack(&ack(&unpaced, NOW, 8 * MSS));
    assert_eq!(unpaced.window(), 12 * MSS);
    let mut paced = Reno::new(ControlParams { paced: true, ..params() });
    paced.on_ack(&ack(&paced, NOW, 8 * MSS));
    assert_eq!(paced.window(), 18 * MSS);
}

#[test]
fn congestion_avoidance_adds_one_segment_a_round_trip_however_acks_are_cut() {
    for per_ack in [MSS / 3, MSS, 2 * MSS, 7 * MSS, 100 * MSS] {
        let mut reno = avoiding(20);
        for _ in 0..10 {
            round(reno.as_mut(), NOW, per_ack);
        }
        assert_eq!(reno.window(), 30 * MSS, "with ACKs of {per_ack} bytes");
    }
}

#[test]
fn slow_start_stops_at_the_threshold_and_the_rest_counts_for_avoidance() {
    let mut reno = avoiding(20);
    reno.on_timeout(NOW, 20 * MSS);
    reno.on_recovered(NOW);
    assert_eq!((reno.window(), reno.ssthresh()), (MSS, 10 * MSS));
    reno.on_ack(&ack(reno.as_ref(), NOW, 19 * MSS));
    // Nine segments fill the gap to ssthresh; ten more are one window's worth.
    assert_eq!((reno.window(), reno.in_slow_start()), (11 * MSS, false));
}

#[test]
fn a_loss_halves_the_flight_and_growth_waits_for_the_end_of_recovery() {
    let mut reno = build("reno");
    round(reno.as_mut(), NOW, MSS);
    // Limited transmit sent two more segments, which do not count.
    reno.on_congestion(NOW, CongestionEvent::Loss, 22 * MSS);
    assert_eq!((reno.window(), reno.ssthresh()), (10 * MSS, 10 * MSS));
    let recovering = AckSample { in_recovery: true, ..ack(reno.as_ref(), NOW, 20 * MSS) };
    reno.on_ack(&recovering);
    assert_eq!(reno.window(), 10 * MSS);
    reno.on_recovered(NOW);
    round(reno.as_mut(), NOW, MSS);
    assert_eq!(reno.window(), 11 * MSS);
}

#[test]
fn an_unused_window_does_not_count_when_it_is_halved() {
    let mut reno = build("reno");
    reno.on_congestion(NOW, CongestionEvent::EcnEcho, 6 * MSS);
    assert_eq!(reno.window(), 3 * MSS);
    reno.on_congestion(NOW, CongestionEvent::Loss, MSS);
    assert_eq!((reno.window(), reno.ssthresh()), (2 * MSS, 2 * MSS), "two segments are the floor");
}

#[test]
fn only_the_first_timeout_of_the_same_data_lowers_the_threshold() {
    let mut reno = avoiding(20);
    reno.on_timeout(NOW, 20 * MSS);
    assert_eq!((reno.window(), reno.ssthresh()), (MSS, 10 * MSS));
    reno.on_timeout(NOW, MSS);
    assert_eq!((reno.window(), reno.ssthresh()), (MSS, 10 * MSS));
    // Progress: a further RTO is of other data.
    reno.on_ack(&ack(reno.as_ref(), NOW, MSS));
    reno.on_timeout(NOW, 20 * MSS);
    assert_eq!((reno.window(), reno.ssthresh()), (MSS, 2 * MSS));
}

#[test]
fn repairing_a_timeout_counts_one_segment_an_ack() {
    let mut reno = avoiding(100);
    reno.on_timeout(NOW, 100 * MSS);
    // The retransmission filled a hole before thirty segments that had arrived.
    reno.on_ack(&ack(reno.as_ref(), NOW, 31 * MSS));
    assert_eq!(reno.window(), 2 * MSS);
    reno.on_recovered(NOW);
    reno.on_ack(&ack(reno.as_ref(), NOW, 2 * MSS));
    assert_eq!(reno.window(), 4 * MSS);
}

#[test]
fn a_timeout_ends_fast_recovery_and_a_loss_ends_the_repair_of_a_timeout() {
    let mut reno = avoiding(20);
    reno.on_congestion(NOW, CongestionEvent::Loss, 20 * MSS);
    reno.on_timeout(NOW, 20 * MSS);
    // A sender that still calls this recovery must not be left with one segment for ever.
    let recovering = AckSample { in_recovery: true, ..ack(reno.as_ref(), NOW, MSS) };
    reno.on_ack(&recovering);
    assert_eq!(reno.window(), 2 * MSS);
    reno.on_congestion(NOW, CongestionEvent::Loss, 2 * MSS);
    for _ in 0..10 {
        reno.on_ack(&recovering);
    }
    assert_eq!(reno.window(), 2 * MSS);
}

#[test]
fn a_spurious_answer_is_undone() {
    let mut reno = avoiding(20);
    reno.on_timeout(NOW, 20 * MSS);
    reno.on_timeout(NOW, 20 * MSS);
    reno.on_ack(&ack(reno.as_ref(), NOW, MSS));
    reno.on_spurious(NOW);
    assert_eq!((reno.window(), reno.ssthresh()), (20 * MSS, 20 * MSS));

    reno.on_congestion(NOW, CongestionEvent::Loss, 20 * MSS);
    reno.on_spurious(NOW);
    assert_eq!((reno.window(), reno.ssthresh()), (20 * MSS, 20 * MSS));
    reno.on_spurious(NOW);
    assert_eq!(reno.window(), 20 * MSS, "there is nothing left to undo");
}

#[test]
fn a_window_that_is_not_used_does_not_grow() {
    let mut reno = avoiding(20);
    for _ in 0..100 {
        let idle =
            AckSample { cwnd_limited: false, in_flight_before: 5 * MSS, ..ack(reno.as_ref(), NOW, 5 * MSS) };
        reno.on_ack(&idle);
    }
    assert_eq!(reno.window(), 20 * MSS);

    let mut reno = build("reno");
    for _ in 0..100 {
        let idle =
            AckSample { cwnd_limited: false, in_flight_before: 8 * MSS, ..ack(reno.as_ref(), NOW, MSS) };
        reno.on_ack(&idle);
    }
    assert_eq!(reno.window(), 16 * MSS, "twice what was in flight");
}

#[test]
fn an_idle_sender_starts_again_from_the_initial_window() {
    let mut reno = build("reno");
    reno.on_congestion(NOW, CongestionEvent::Loss, 8 * MSS);
    for _ in 0..40 {
        round(reno.as_mut(), NOW, MSS);
    }
    assert_eq!(reno.window(), 44 * MSS);
    reno.on_idle_restart(NOW);
    assert_eq!((reno.window(), reno.ssthresh()), (10 * MSS, 33 * MSS));
}

#[test]
fn byte_counting_can_be_limited_though_the_sender_paces() {
    for (byte_counting, paced, segments) in [
        (ByteCounting::Conservative, true, 1),
        (ByteCounting::Aggressive, true, 2),
        (ByteCounting::ByPacing, true, 8),
        (ByteCounting::Conservative, false, 1),
        (ByteCounting::ByPacing, false, 2),
    ] {
        for algorithm in [Algorithm::Reno, Algorithm::Westwood, Algorithm::Vegas, Algorithm::Hybla] {
            let mut control = algorithm.build(ControlParams { byte_counting, paced, ..params() });
            let rtt = Some(Duration::from_millis(10));
            // Vegas sees a round begin first.
            let nothing = AckSample { rtt, ..ack(control.as_ref(), NOW, 0) };
            control.on_ack(&nothing);
            let one_for_eight = AckSample { rtt, ..ack(control.as_ref(), NOW, 8 * MSS) };
            control.on_ack(&one_for_eight);
            let grown = (control.window() - 10 * MSS) / MSS;
            assert_eq!(grown, segments, "{algorithm} with {byte_counting:?}, paced: {paced}");
        }
    }
}
