//! Recovery without selective acknowledgments (RFC 6582).
#![allow(clippy::single_range_in_vec_init)] // a list of what was sent, of one item
use crate::trace::{MSS, Trace, WIDE};
use shorthaul_congestion::Algorithm;
use shorthaul_wire::Payload;

#[test]
fn the_third_duplicate_acknowledgment_repairs_the_first_segment() {
    let mut t = Trace::without_sack(WIDE);
    t.write(10);
    assert_eq!(t.ack(100, 0, &[]), []);
    assert_eq!(t.ack(101, 0, &[]), []);
    assert_eq!(t.ack(102, 0, &[]), [0..1]);
    assert_eq!(t.ack(103, 0, &[]), []);
}

#[test]
fn a_partial_acknowledgment_shows_the_next_hole() {
    let mut t = Trace::without_sack(WIDE);
    t.write(10);
    (0..2).for_each(|i| assert_eq!(t.ack(100 + i, 0, &[]), []));
    assert_eq!(t.ack(102, 0, &[]), [0..1]);
    assert_eq!(t.ack(200, 4, &[]), [4..5]);
    assert_eq!(t.ack(300, 7, &[]), [7..8]);
    assert_eq!(t.sender.stats().recoveries, 1);
}

#[test]
fn a_full_acknowledgment_ends_recovery() {
    let mut t = Trace::without_sack(Algorithm::Reno);
    t.write(10);
    (100..103).for_each(|at| drop(t.ack(at, 0, &[])));
    t.ack(200, 10, &[]);
    // Half of ten, and one more for a whole window that was acknowledged.
    assert_eq!((t.sender.control().ssthresh(), t.congestion_window()), (5 * MSS, 6));
    // Three duplicates repair the next loss at once.
    assert_eq!(t.write(5), [10..15]);
    (300..302).for_each(|at| assert_eq!(t.ack(at, 10, &[]), []));
    assert_eq!(t.ack(302, 10, &[]), [10..11]);
    assert_eq!(t.sender.stats().recoveries, 2);
}

#[test]
fn partial_acknowledgments_do_not_reduce_the_window_again() {
    let mut t = Trace::without_sack(Algorithm::Reno);
    t.write(10);
    (100..103).for_each(|at| drop(t.ack(at, 0, &[])));
    t.ack(200, 4, &[]);
    t.ack(300, 7, &[]);
    assert_eq!(t.sender.control().ssthresh(), 5 * MSS);
}

#[test]
fn segments_with_data_are_no_duplicates() {
    let mut t = Trace::without_sack(WIDE);
    t.write(10);
    (100..110).for_each(|at| assert_eq!(t.ack_with_data(at, 0), []));
}

#[test]
fn window_updates_are_no_duplicates() {
    let mut t = Trace::without_sack(WIDE);
    t.write(10);
    for at in 100..110 {
        t.window(at * MSS);
        assert_eq!(t.ack(at, 0, &[]), []);
    }
}

#[test]
fn duplicates_of_what_was_retransmitted_after_a_timeout_are_no_loss() {
    let mut t = Trace::without_sack(Algorithm::Reno);
    t.write(10);
    t.run_until(5_000);
    let timeouts = t.sender.stats().timeouts;
    assert!(timeouts > 0);
    // Everything had arrived but the first: what is retransmitted behind it comes back as duplicates.
    t.ack(5_001, 10, &[]);
    t.write(5);
    (5_002..5_007).for_each(|at| drop(t.ack(at, 10, &[])));
    assert_eq!((t.sender.stats().recoveries, t.sender.stats().timeouts), (0, timeouts));
    // Duplicates of what comes after that are a loss again.
    t.ack(5_100, 11, &[]);
    (5_101..5_104).for_each(|at| drop(t.ack(at, 11, &[])));
    assert_eq!(t.sender.stats().recoveries, 1);
}

/// A congestion manager probes with the head as often as it takes. Then the original's acknowledgment arrives, that had waited somewhere.
#[test]
fn nothing_more_is_retransmitted_when_an_original_is_acknowledged_after_several_probes() {
    for timestamps in [true, false] {
        let mut t = Trace::managed_with_sack(100);
        assert_eq!(t.write(10), [0..10]);
        for ms in [400, 550, 700] {
            assert_eq!(t.manager_expires(ms), [0..1]);
        }
        t.sent_before = timestamps.then_some(400);
        let again = t.ack(850, 2, &[]);
        if timestamps {
            assert_eq!(again, []);
            assert_eq!(t.sender.stats().spurious_timeouts, 1);
        } else {
            assert_eq!(again, [2..4], "it may have been a probe that arrived: two segments find out");
        }
    }
}

/// After an outage the first to arrive is a probe, of what had arrived before: the acknowledgments were lost. The queue has drained meanwhile,
/// so its answer comes sooner than any before.
#[test]
fn what_is_missing_is_repaired_at_once_when_a_probe_comes_as_a_duplicate() {
    for probes in [1, 2] {
        let mut t = Trace::managed_with_sack(100);
        t.write(2);
        t.ack(300, 2, &[]);
        assert_eq!(t.write(10), [2..12]);
        for ms in (0..probes).map(|probe| 1_000 + 500 * probe) {
            assert_eq!(t.manager_expires(ms), [2..3]);
        }
        t.sender.queue_mut().push(Payload::copy_of(&[7; 5 * MSS as usize]));
        // Three had arrived, and now the probe.
        assert_eq!(t.ack(1_050 + 500 * (probes - 1), 5, &[2..3]), [5..12, 12..17], "{probes} probes");
        assert_eq!(t.sender.stats().spurious_timeouts, 0);
    }
}

/// Duplicates may outnumber what else was on its way, as when that had been sent twice; the repair of the first is on its way all the same, and
/// a manager that saw nothing there would stop its timer.
#[test]
fn duplicates_never_stand_for_the_first_segment_of_a_managed_sender() {
    let mut t = Trace::managed_without_sack(10);
    assert_eq!(t.write(4), [0..4]);
    for duplicate in 0..6 {
        t.ack(100 + duplicate, 0, &[]);
        assert!(
            t.sender.in_flight() >= MSS,
            "{} bytes after {} duplicates",
            t.sender.in_flight(),
            duplicate + 1
        );
    }
}
