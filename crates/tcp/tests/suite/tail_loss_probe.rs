//! Tail loss probes (RFC 8985 §7).
#![allow(clippy::single_range_in_vec_init)] // a list of what was sent, of one item
use crate::trace::{MSS, Trace, WIDE};
use shorthaul_congestion::Algorithm;
use shorthaul_types::Bytes;

#[test]
fn after_two_round_trips_without_an_answer_the_last_segment_is_retransmitted() {
    let mut t = Trace::with_sack(WIDE);
    t.write(5);
    assert_eq!(t.run_until(299), [(200, 4..5)]);
    assert_eq!(t.sender.stats().tail_probes, 1);
}

#[test]
fn the_probe_is_new_data_where_there_is_some() {
    let mut t = Trace::with_sack(Algorithm::Fixed(Bytes(5 * MSS)));
    assert_eq!(t.write(6), [0..5]);
    assert_eq!(t.run_until(299), [(200, 5..6)]);
}

#[test]
fn new_data_beyond_the_window_is_no_probe() {
    let mut t = Trace::with_sack(WIDE);
    t.window(5 * MSS);
    t.write(1);
    t.ack(100, 1, &[]);
    assert_eq!(t.write(6), [1..6]);
    let sent = t.run_until(390);
    assert_eq!(sent.iter().map(|(_, segments)| segments.clone()).collect::<Vec<_>>(), [5..6]);
}

#[test]
fn a_single_segment_may_be_waiting_for_its_delayed_acknowledgment() {
    let mut t = Trace::with_sack(WIDE);
    t.write(1);
    // 2·SRTT and 200 ms more are later than the retransmission timer.
    assert_eq!(t.run_until(350), [(300, 0..1)]);
    assert_eq!((t.sender.stats().tail_probes, t.sender.stats().timeouts), (0, 1));
}

#[test]
fn one_probe_is_outstanding_at_a_time_and_the_timer_follows() {
    let mut t = Trace::with_sack(WIDE);
    t.write(5);
    assert_eq!(t.run_until(600), [(200, 4..5), (500, 0..1)]);
    assert_eq!((t.sender.stats().tail_probes, t.sender.stats().timeouts), (1, 1));
}

#[test]
fn the_probes_answer_uncovers_a_lost_tail_without_a_timeout() {
    let mut t = Trace::with_sack(WIDE);
    t.write(5);
    assert_eq!(t.run_until(200), [(200, 4..5)]);
    // The whole tail was lost, but for the probe.
    assert_eq!(t.ack(300, 1, &[4..5]), [1..4]);
    assert_eq!(t.sender.stats().timeouts, 0);
}

#[test]
fn there_is_no_probe_during_recovery() {
    let mut t = Trace::with_sack(WIDE);
    t.write(10);
    assert_eq!(t.ack(100, 0, &[1..4]), [0..1]);
    t.run_until(399);
    assert_eq!(t.sender.stats().tail_probes, 0);
}

/// Ten segments of which the last was retransmitted as a probe at 200 ms.
fn probed() -> Trace {
    let mut t = Trace::with_sack(Algorithm::Reno);
    assert_eq!(t.write(10), [0..10]);
    assert_eq!(t.run_until(250), [(200, 9..10)]);
    t
}

#[test]
fn a_d_sack_says_that_nothing_was_lost() {
    let mut t = probed();
    t.ack(300, 10, &[9..10]);
    assert_eq!(t.sender.control().ssthresh(), u64::MAX);
}

#[test]
fn an_acknowledgment_up_to_the_probe_alone_says_nothing_yet() {
    let mut t = probed();
    t.ack(290, 10, &[]); // of the original, delayed
    assert_eq!(t.sender.control().ssthresh(), u64::MAX);
    t.ack(300, 10, &[9..10]); // of the probe
    t.write(1);
    t.ack(400, 11, &[]);
    assert_eq!(t.sender.control().ssthresh(), u64::MAX);
}

#[test]
fn a_duplicate_acknowledgment_without_a_d_sack_is_the_probes_too() {
    let mut t = probed();
    t.ack(290, 10, &[]);
    t.ack(300, 10, &[]);
    t.write(1);
    t.ack(400, 11, &[]);
    assert_eq!(t.sender.control().ssthresh(), u64::MAX);
}

#[test]
fn an_acknowledgment_beyond_the_probe_without_a_d_sack_says_that_it_repaired_a_loss() {
    let mut t = probed();
    t.ack(300, 10, &[]);
    t.write(1);
    t.ack(400, 11, &[]);
    assert_eq!(t.sender.control().ssthresh(), 5 * MSS);
    assert_eq!(t.sender.stats().recoveries, 0);
}

#[test]
fn a_probe_of_new_data_repairs_nothing() {
    let mut t = Trace::with_sack(Algorithm::Reno);
    assert_eq!(t.write(11), [0..10]);
    assert_eq!(t.run_until(250), [(200, 10..11)]);
    t.ack(300, 11, &[]);
    assert_eq!(t.sender.control().ssthresh(), u64::MAX);
}
