//! The retransmission timer (RFC 6298) and the persist timer (RFC 9293 §3.8.6.1).
#![allow(clippy::single_range_in_vec_init)] // a list of what was sent, of one item
use crate::trace::{MSS, Trace, WIDE};
use shorthaul_congestion::Algorithm;
use std::time::Duration;

#[test]
fn every_timeout_doubles_the_wait_for_the_next() {
    let mut t = Trace::with_sack(WIDE);
    t.write(1);
    assert_eq!(t.run_until(5_000), [(300, 0..1), (900, 0..1), (2_100, 0..1), (4_500, 0..1)]);
}

#[test]
fn after_a_timeout_the_first_segment_probes_the_path_and_slow_start_follows() {
    let mut t = Trace::without_sack(Algorithm::Reno);
    t.write(10);
    assert_eq!(t.run_until(350), [(300, 0..1)]);
    assert_eq!(t.ack(400, 1, &[]), [1..3]);
    // A segment for each acknowledgment, however much it covers (RFC 3465 §2.3).
    assert_eq!(t.ack(500, 3, &[]), [3..6]);
    assert_eq!(t.sender.control().ssthresh(), 5 * MSS);
}

/// RFC 6298 §5: what was sent twice gives no sample, so the path may really be that slow.
#[test]
fn a_sample_ends_the_backoff_and_nothing_else_does() {
    let mut t = Trace::without_sack(WIDE);
    t.write(1);
    assert_eq!(t.run_until(1_000), [(300, 0..1), (900, 0..1)]);
    t.ack(1_000, 1, &[]);
    t.write(1);
    let due = t.sender.poll_timeout().unwrap();
    assert!(due.at.as_nanos() >= 2_150_000_000, "four times the RTO: {due:?}");
    t.ack(1_100, 2, &[]);
    t.write(1);
    assert_eq!(t.run_until(1_450), [(1_400, 2..3)]);
}

#[test]
fn a_segment_sent_twice_is_no_sample_of_the_round_trip() {
    let mut t = Trace::with_sack(WIDE);
    t.write(1);
    t.run_until(300);
    t.ack(310, 1, &[]); // of the original or of the other? (Karn)
    assert_eq!(t.sender.rtt().srtt(), Some(Duration::from_millis(100)));
    t.write(1);
    t.ack(390, 2, &[]);
    // ⅞ of 100 ms and ⅛ of 80 ms.
    assert_eq!(t.sender.rtt().srtt(), Some(Duration::from_micros(97_500)));
}

/// RFC 7323 §4.1: an echo says which of the two arrived; one without new data says nothing.
#[test]
fn an_echoed_timestamp_measures_what_was_sent_twice() {
    let mut t = Trace::with_sack(WIDE);
    t.write(1);
    t.run_until(300);
    t.echo = Some(Duration::from_millis(180));
    t.ack(310, 0, &[]);
    assert_eq!(t.sender.rtt().latest(), Some(Duration::from_millis(100)), "from the handshake");
    t.ack(310, 1, &[]);
    assert_eq!(t.sender.rtt().latest(), Some(Duration::from_millis(180)));
    // Where there is no doubt, our own clock is the finer one.
    t.write(1);
    t.ack(390, 2, &[]);
    assert_eq!(t.sender.rtt().latest(), Some(Duration::from_millis(80)));
}

#[test]
fn every_acknowledgment_of_new_data_restarts_the_timer() {
    let mut t = Trace::without_sack(WIDE);
    t.write(3);
    assert_eq!(t.ack(100, 1, &[]), []);
    assert_eq!(t.ack(200, 2, &[]), []);
    let due = t.sender.poll_timeout().unwrap();
    assert!(due.at.as_nanos() >= 490_000_000, "{due:?}");
}

#[test]
fn with_nothing_outstanding_no_timer_runs() {
    let mut t = Trace::with_sack(WIDE);
    t.write(3);
    t.ack(100, 3, &[]);
    assert_eq!(t.sender.poll_timeout(), None);
}

#[test]
fn sixteen_timeouts_in_a_row_are_the_end() {
    let mut t = Trace::with_sack(WIDE);
    t.write(1);
    while t.sender.stats().timeouts < 15 {
        let due = t.sender.poll_timeout().unwrap().at;
        t.run_until(due.as_nanos().div_ceil(1_000_000));
    }
    assert!(!t.sender.has_given_up());
    let due = t.sender.poll_timeout().unwrap().at;
    t.run_until(due.as_nanos().div_ceil(1_000_000));
    assert!(t.sender.has_given_up());
}

/// A gateway that acknowledges what has been delivered beyond it answers each retransmission with a D-SACK: whoever answers is
/// not dead, however long the rest of the way is down.
#[test]
fn a_peer_that_answers_with_d_sacks_is_not_given_up() {
    let mut t = Trace::with_sack(WIDE);
    t.write(1);
    for _ in 0..40 {
        let due = t.sender.poll_timeout().unwrap().at.as_nanos().div_ceil(1_000_000);
        assert_eq!(t.run_until(due).len(), 1);
        t.ack(due + 20, 0, &[0..1, 0..1]);
    }
    let stats = t.sender.stats();
    assert!(stats.timeouts >= 20 && stats.undone >= 20, "{stats:?}");
    assert!(!t.sender.has_given_up());
}

/// A sender that has more to say than the receiver, after one segment, wants to hear.
fn shut_out() -> Trace {
    let mut t = Trace::with_sack(WIDE);
    t.write(1);
    t.window(0);
    t.ack(100, 1, &[]);
    assert_eq!(t.write(2), []);
    t
}

#[test]
fn a_closed_window_is_probed_less_and_less_often() {
    let mut t = shut_out();
    let rto = t.sender.rtt().rto().as_millis() as u64;
    let probes: Vec<u64> = t.run_until(100 + 20 * rto).into_iter().map(|(at, _)| at - 100).collect();
    assert_eq!(probes, [rto, 3 * rto, 7 * rto, 15 * rto]);
}

#[test]
fn a_probe_lies_below_the_window_and_carries_nothing() {
    let mut t = shut_out();
    let due = t.sender.poll_timeout().unwrap();
    assert_eq!(due.timer, "persist");
    t.sender.on_timeout(due.at);
    let probe = t.sender.poll_segment(due.at).unwrap();
    assert_eq!((probe.offset, probe.payload.len()), (MSS, 0)); // 1 + MSS is expected
    assert!(t.sender.poll_segment(due.at).is_none());
}

#[test]
fn probes_are_a_minute_apart_at_most() {
    let mut t = shut_out();
    let mut answered = 100;
    let mut longest = 0;
    for _ in 0..14 {
        let due = t.sender.poll_timeout().unwrap().at.as_nanos().div_ceil(1_000_000);
        longest = longest.max(due - answered);
        t.run_until(due);
        answered = due;
    }
    assert_eq!(longest, 60_000);
}

#[test]
fn whoever_answers_probes_is_alive_however_long_its_window_stays_closed() {
    let mut t = shut_out();
    for _ in 0..40 {
        let due = t.sender.poll_timeout().unwrap().at.as_nanos().div_ceil(1_000_000);
        t.run_until(due);
        assert_eq!(t.ack(due, 1, &[]), []);
    }
    assert!(!t.sender.has_given_up());
}

#[test]
fn whoever_does_not_answer_probes_is_taken_for_dead() {
    let mut t = shut_out();
    t.run_until(3_600_000);
    assert!(t.sender.has_given_up());
}

#[test]
fn an_opened_window_is_used_at_once() {
    let mut t = shut_out();
    t.window(100 * MSS);
    assert_eq!(t.ack(150, 1, &[]), [1..3]);
}

#[test]
fn a_window_below_a_segment_is_not_filled_while_more_is_outstanding() {
    let mut t = Trace::with_sack(WIDE);
    t.write(10);
    t.window(8 * MSS + 500); // 500 bytes beyond the ten segments
    assert_eq!(t.ack(100, 2, &[]), []);
    assert_eq!(t.write(5), []);
    t.window(7 * MSS + 500); // one segment more
    assert_eq!(t.ack(110, 4, &[]), [10..11]);
}

#[test]
fn a_small_window_is_filled_when_nothing_else_comes_for_a_timeout() {
    let mut t = shut_out();
    t.window(300);
    assert_eq!(t.ack(150, 1, &[]), [], "the receiver may be about to open more");
    let due = t.sender.poll_timeout().unwrap();
    assert_eq!(due.timer, "persist");
    t.sender.on_timeout(due.at);
    let part = t.sender.poll_segment(due.at).unwrap();
    assert_eq!((part.offset, part.payload.len()), (1 + MSS, 300));
}

#[test]
fn an_older_segment_does_not_take_the_window_back() {
    let mut t = Trace::with_sack(WIDE);
    t.write(1);
    t.ack_with_data(100, 1);
    let edge = t.sender.peer_window();
    t.window(0);
    let old = shorthaul_tcp::Ack {
        ack: 1 + MSS,
        window: 0,
        seq: 0,
        sack: &[],
        has_data: false,
        ecn_echo: false,
        echo: None,
        sent_before: None,
        waited: None,
        reported: None,
    };
    t.sender.on_ack(shorthaul_types::Time::from_millis(101), &old);
    assert_eq!(t.sender.peer_window(), edge);
}
