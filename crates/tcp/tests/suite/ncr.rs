//! NCR (RFC 4653): a hole is lost only when a window has gone by, and limited transmit goes on until then.
#![allow(clippy::single_range_in_vec_init)] // a list of what was sent, of one item
use crate::trace::{MSS, Trace, WIDE};
use shorthaul_congestion::Algorithm;
use shorthaul_tcp::LossDetection;
use std::ops::Range;

/// Twelve segments have left, of many, and the window is of twelve.
fn twelve(detection: LossDetection) -> Trace {
    let window = Algorithm::Fixed(shorthaul_types::Bytes(12 * MSS));
    let mut t = Trace::with_detection(detection, window);
    let left: Vec<Range<u64>> = t.write(100);
    assert_eq!(left, [0..12]);
    t
}

/// The first segment is missing, and those behind it are SACKed one by one: what leaves for each, until `enough`.
fn sacked_one_by_one(t: &mut Trace, acks: u64) -> Vec<Vec<Range<u64>>> {
    (1..=acks).map(|n| t.ack(100 + n, 0, &[1..n + 1])).collect()
}

/// §3.3, E.2 to E.5.
#[test]
fn careful_limited_transmit_sends_a_segment_for_every_second_that_is_sacked() {
    let mut t = twelve(LossDetection::NCR);
    let sent = sacked_one_by_one(&mut t, 6);
    assert_eq!(sent, [vec![12..13], vec![], vec![13..14], vec![], vec![14..15], vec![]]);
}

#[test]
fn aggressive_limited_transmit_sends_a_segment_for_each() {
    let mut t = twelve(LossDetection::NCR_AGGRESSIVE);
    let sent = sacked_one_by_one(&mut t, 4);
    assert_eq!(sent, [[12..13], [13..14], [14..15], [15..16]]);
}

/// §3.3, E.5: what an acknowledgment SACKs at once counts as if it had come one by one.
#[test]
fn lost_acknowledgments_cost_no_transmission() {
    let mut t = twelve(LossDetection::NCR_AGGRESSIVE);
    assert_eq!(t.ack(100, 0, &[1..5]), [12..16]);
    let mut t = twelve(LossDetection::NCR);
    assert_eq!(t.ack(100, 0, &[1..5]), [12..14]);
}

/// §3.1 step I.3 and §3.3 step E.6: two thirds of a FlightSize that has grown by half, or half of one that has doubled.
#[test]
fn a_hole_is_lost_when_a_window_has_gone_by() {
    for (detection, enough) in [(LossDetection::NCR, 12), (LossDetection::NCR_AGGRESSIVE, 11)] {
        let mut t = twelve(detection);
        let sent = sacked_one_by_one(&mut t, enough);
        let first = sent.iter().position(|segments| segments.contains(&(0..1)));
        assert_eq!(first, Some(enough as usize - 1), "{detection}: {sent:?}");
        assert_eq!(t.sender.stats().recoveries, 1);
    }
}

#[test]
fn of_few_segments_three_are_still_enough() {
    for detection in [LossDetection::NCR, LossDetection::NCR_AGGRESSIVE] {
        let mut t = Trace::with_detection(detection, WIDE);
        assert_eq!(t.write(4), [0..4]);
        assert_eq!(sacked_one_by_one(&mut t, 3)[2], [0..1], "{detection}");
    }
}

/// §3.4: the reduction goes by FlightSize before limited transmit added to it.
#[test]
fn what_limited_transmit_added_does_not_enlarge_the_window() {
    for (detection, enough) in [(LossDetection::NCR, 12), (LossDetection::NCR_AGGRESSIVE, 11)] {
        let mut t = Trace::with_detection(detection, Algorithm::Reno);
        assert_eq!(t.write(100), [0..10]);
        t.ack(50, 2, &[]);
        let flight = t.sender.nxt() - t.sender.una();
        assert_eq!(flight, 12 * MSS, "slow start has opened the window");
        for n in 1..=enough {
            t.ack(100 + n, 2, &[3..n + 3]);
        }
        assert_eq!(t.sender.stats().recoveries, 1, "{detection}");
        assert_eq!(t.sender.control().ssthresh(), 6 * MSS, "{detection}");
    }
}

/// §3.2: an acknowledgment that fills the hole ends limited transmit; what it lets leave at once is a segment, as in (T.1).
#[test]
fn a_late_segment_is_no_loss_and_sets_off_no_burst() {
    let mut t = twelve(LossDetection::NCR);
    sacked_one_by_one(&mut t, 8);
    let before = t.sender.nxt();
    let in_flight = t.sender.in_flight();
    assert_eq!(t.ack(110, 9, &[]), [16..17]);
    assert_eq!((before, in_flight), (1 + 16 * MSS, 8 * MSS));
    assert_eq!((t.sender.stats().recoveries, t.sender.stats().retransmitted), (0, 0));
    // (T.2): slow start leads back to the window, two segments for each that arrives.
    assert_eq!(t.ack(111, 10, &[]), [17..19]);
    assert_eq!(t.ack(112, 11, &[]), [19..21]);
    assert_eq!(t.ack(113, 12, &[]), [21..23]);
    assert_eq!(t.sender.in_flight(), 11 * MSS);
    assert_eq!(t.ack(114, 13, &[]), [23..25]);
    assert_eq!(t.sender.in_flight(), 12 * MSS);
    assert_eq!(t.ack(115, 14, &[]), [25..26], "the window is open as before");
}

/// §3.2, (T.4): with another hole behind the first it goes on, by the FlightSize that it began with.
#[test]
fn another_hole_goes_on_with_limited_transmit() {
    let mut t = twelve(LossDetection::NCR_AGGRESSIVE);
    assert_eq!(t.ack(101, 0, &[1..4]), [12..15]);
    // The first is late; the fifth is missing, too.
    assert_eq!(t.ack(102, 4, &[5..6]), [15..17]);
    assert_eq!(t.sender.in_flight(), 12 * MSS);
    assert_eq!(t.sender.stats().recoveries, 0);
    // FlightSize is thirteen and grows by one with each: lost at the twelfth SACKed segment.
    let sent: Vec<_> = (6..=16).map(|n| t.ack(100 + n, 4, &[5..n + 1])).collect();
    let first = sent.iter().position(|segments| segments.contains(&(4..5))).expect("a repair");
    assert_eq!(first, 9, "with segments 5 to 15 SACKed: {sent:?}");
}

/// §3.4: RFC 6675 governs what follows.
#[test]
fn loss_recovery_goes_by_three_segments() {
    let mut t = twelve(LossDetection::NCR);
    let sent = sacked_one_by_one(&mut t, 12);
    assert!(sent[11].contains(&(0..1)), "{sent:?}");
    // A segment that was sent by limited transmit is missing, too: three behind it are enough.
    let repairs = |segments: Vec<Range<u64>>| segments.contains(&(13..14));
    assert!(!repairs(t.ack(150, 0, &[1..13, 14..15])));
    assert!(!repairs(t.ack(151, 0, &[1..13, 14..16])));
    assert!(repairs(t.ack(152, 0, &[1..13, 14..17])));
}

/// §3.1: an acknowledgment without SACK that moves SND.UNA makes ready for the next hole, also where it ends a recovery.
#[test]
fn the_first_hole_after_a_recovery_is_waited_for_as_any_other() {
    let mut t = twelve(LossDetection::NCR_AGGRESSIVE);
    let sent = sacked_one_by_one(&mut t, 11);
    assert!(sent[10].contains(&(0..1)), "{sent:?}");
    let end = t.sender.nxt();
    let next = (end - 1) / MSS;
    t.ack(200, next, &[]);
    assert_eq!(t.sender.stats().recoveries, 1);
    // Three behind a hole were enough for RFC 6675.
    for n in 1..=3 {
        assert_eq!(t.ack(300 + n, next, &[next + 1..next + 1 + n]).len(), 1, "limited transmit, {n}");
    }
    assert_eq!((t.sender.stats().recoveries, t.sender.stats().retransmitted), (1, MSS));
}

#[test]
fn without_reordering_it_sends_what_the_window_allows() {
    let mut t = twelve(LossDetection::NCR);
    for next in 1..40 {
        assert_eq!(t.ack(100 + next, next, &[]), [next + 11..next + 12]);
    }
}
