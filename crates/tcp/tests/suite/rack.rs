//! RACK (RFC 8985 §6): what was sent long enough before something that was delivered is lost.
#![allow(clippy::single_range_in_vec_init)] // a list of what was sent, of one item
use crate::trace::{Trace, WIDE};

#[test]
fn a_gap_is_given_a_quarter_of_the_round_trip_to_close() {
    let mut t = Trace::with_sack(WIDE);
    assert_eq!(t.write(10), [0..10]);
    assert_eq!(t.ack(100, 0, &[1..2]), []);
    assert_eq!(t.run_until(200), [(125, 0..1)]);
}

#[test]
fn a_gap_that_closes_in_time_was_no_loss() {
    let mut t = Trace::with_sack(WIDE);
    t.write(10);
    t.ack(100, 0, &[1..2]);
    assert_eq!(t.ack(120, 2, &[]), []);
    assert_eq!(t.ack(130, 10, &[]), []);
    assert_eq!(t.sender.stats().recoveries, 0);
}

#[test]
fn three_sacked_segments_end_the_wait_where_nothing_was_ever_reordered() {
    let mut t = Trace::with_sack(WIDE);
    t.write(10);
    assert_eq!(t.ack(100, 0, &[1..2]), []);
    assert_eq!(t.ack(100, 0, &[1..3]), []);
    assert_eq!(t.ack(100, 0, &[1..4]), [0..1]);
}

#[test]
fn once_reordering_was_seen_three_sacked_segments_are_not_enough() {
    let mut t = Trace::with_sack(WIDE);
    t.write(5);
    t.ack(100, 0, &[1..2]);
    assert_eq!(t.ack(110, 2, &[]), []); // the first came late, not again
    assert_eq!(t.ack(120, 5, &[]), []);
    assert_eq!(t.write(10), [5..15]);
    assert_eq!(t.ack(220, 5, &[6..9]), []);
    assert_eq!(t.run_until(300), [(245, 5..6)]);
}

/// One spurious retransmission of segment 0, that a D-SACK tells of, until 200 ms.
fn with_one_needless_retransmission() -> Trace {
    let mut t = Trace::with_sack(WIDE);
    t.write(10);
    assert_eq!(t.ack(100, 0, &[1..4]), [0..1]);
    assert_eq!(t.ack(105, 10, &[]), []);
    assert_eq!(t.ack(200, 10, &[0..1]), []);
    t
}

#[test]
fn a_needless_retransmission_doubles_reo_wnd() {
    let mut t = with_one_needless_retransmission();
    assert_eq!(t.write(10), [10..20]);
    assert_eq!(t.ack(300, 10, &[11..12]), []);
    assert_eq!(t.run_until(400), [(350, 10..11)]);
}

#[test]
fn several_duplicates_in_a_round_trip_count_once() {
    let mut t = with_one_needless_retransmission();
    assert_eq!(t.write(10), [10..20]);
    assert_eq!(t.ack(210, 10, &[2..3]), []);
    assert_eq!(t.ack(300, 11, &[3..4]), []); // the next round: it counts
    assert_eq!(t.ack(301, 11, &[12..13]), []);
    // Three quarters of the shortest round trip, after a round trip of 101 ms.
    assert_eq!(t.run_until(400), [(376, 11..12)]);
}

#[test]
fn reo_wnd_is_a_round_trip_at_most() {
    let mut t = with_one_needless_retransmission();
    for round in 1..8 {
        let first = 10 * round;
        t.write(10);
        assert_eq!(t.ack(100 + 100 * (round + 1), first + 10, &[first..first + 1]), []);
    }
    let sent_at = 900;
    t.write(10);
    assert_eq!(t.ack(sent_at + 100, 80, &[81..82]), []);
    let sent = t.run_until(sent_at + 290);
    assert_eq!(sent.len(), 1);
    assert!((sent_at + 195..=sent_at + 205).contains(&sent[0].0), "{sent:?}");
}

#[test]
fn a_lost_retransmission_is_found_by_what_was_sent_after_it() {
    let mut t = Trace::with_sack(WIDE);
    t.write(10);
    assert_eq!(t.ack(100, 0, &[1..4]), [0..1]);
    assert_eq!(t.write(1), [10..11]);
    assert_eq!(t.ack(200, 0, &[1..11]), [0..1]);
}

#[test]
fn an_answer_sooner_than_any_round_trip_is_that_of_the_original() {
    let mut t = Trace::with_sack(WIDE);
    t.write(10);
    assert_eq!(t.ack(100, 0, &[2..5]), [0..2]);
    // Segment 0 itself arrives late. It says nothing of the retransmission of segment 1, which left
    // at the same time.
    assert_eq!(t.ack(110, 1, &[2..5]), []);
    assert_eq!(t.ack(120, 10, &[]), []);
    assert_eq!(t.sender.stats().retransmitted, 2_000);
}
