//! Loss: the retransmission timer (RFC 6298), fast retransmit and recovery (RFC 5681, RFC 6582), the
//! initial window (RFC 6928).
use super::{Script, plain, plain_but};
use shorthaul_tcp::{Event, Failure};

/// RFC 6928 §2.
#[test]
fn ten_segments_leave_before_the_first_acknowledgment() {
    let mut s = Script::established(plain());
    s.write(30_000);
    assert_eq!(s.take().len(), 10);
}

/// RFC 5681 §3.1.
#[test]
fn a_profile_says_how_many_segments_leave_first() {
    for segments in [1, 2, 3, 4] {
        let mut s = Script::established(plain_but(|p| p.initial_window = segments));
        s.write(30_000);
        assert_eq!(s.take().len(), segments as usize);
    }
}

/// RFC 5681 §3.1: slow start; each segment acknowledged lets two leave.
#[test]
fn slow_start_doubles_the_window() {
    let mut s = Script::established(plain_but(|p| p.initial_window = 2));
    s.write(60_000);
    assert_eq!(s.take().len(), 2);
    s.at(40).inject(". 1:1(0) ack 2001");
    assert_eq!(s.take().len(), 4);
    s.at(60).inject(". 1:1(0) ack 4001").inject(". 1:1(0) ack 6001");
    assert_eq!(s.take().len(), 8);
}

/// RFC 6298 §5: the first segment again, and the time doubles.
#[test]
fn the_timer_sends_the_first_segment_again_with_backoff() {
    let mut s = Script::established(plain());
    s.write(3_000);
    assert_eq!(s.take().len(), 3);
    s.expect_at(1_020, ". 1:1001(1000) ack 1").expect_at(3_020, ". 1:1001(1000) ack 1");
    s.expect_at(7_020, ". 1:1001(1000) ack 1");
}

/// RFC 5681 §3.1: after a timeout sending starts from one segment.
#[test]
fn after_a_timeout_slow_start_begins_anew() {
    let mut s = Script::established(plain());
    s.write(4_000);
    assert_eq!(s.take().len(), 4);
    s.expect_at(1_020, ". 1:1001(1000) ack 1");
    s.at(1_040).inject(". 1:1(0) ack 1001");
    s.expect(". 1001:2001(1000) ack 1").expect(". 2001:3001(1000) ack 1").quiet();
    s.at(1_060).inject(". 1:1(0) ack 4001").quiet();
}

/// RFC 6298 §5.3: an acknowledgment of new data restarts the timer.
#[test]
fn progress_restarts_the_timer() {
    let mut s = Script::established(plain());
    s.write(2_000);
    assert_eq!(s.take().len(), 2);
    s.at(520).inject(". 1:1(0) ack 1001").quiet_until(1_519);
    s.pass(1_600);
    assert_eq!(s.take(), ["P. 1001:2001(1000) ack 1"]);
}

/// RFC 6298 §5.2.
#[test]
fn when_all_is_acknowledged_the_timer_is_off() {
    let mut s = Script::established(plain());
    s.write(100).expect("P. 1:101(100) ack 1").at(40).inject(". 1:1(0) ack 101").quiet_until(100_000);
}

/// RFC 9293 §3.8.3: at last the peer is taken for dead.
#[test]
fn a_peer_that_never_answers_is_given_up() {
    let mut s = Script::established(plain());
    s.write(100).expect("P. 1:101(100) ack 1").pass(3_600_000).take();
    s.event(Event::Failed(Failure::TimedOut));
    assert!(s.is_forgotten());
}

/// RFC 5681 §3.2: the third duplicate.
#[test]
fn the_third_duplicate_acknowledgment_sends_the_hole_again() {
    let mut s = Script::established(plain());
    s.write(6_000);
    assert_eq!(s.take().len(), 6);
    s.at(40).inject(". 1:1(0) ack 1001").quiet();
    s.inject(". 1:1(0) ack 1001").quiet().inject(". 1:1(0) ack 1001").quiet();
    s.inject(". 1:1(0) ack 1001").expect(". 1001:2001(1000) ack 1").quiet();
    s.at(60).inject(". 1:1(0) ack 6001").quiet();
    assert_eq!(s.connection().sender().stats().recoveries, 1);
}

/// RFC 6582 §3.2: a partial acknowledgment shows the next hole.
#[test]
fn a_partial_acknowledgment_sends_the_next_hole() {
    let mut s = Script::established(plain());
    s.write(8_000);
    assert_eq!(s.take().len(), 8);
    s.at(40);
    for _ in 0..4 {
        s.inject(". 1:1(0) ack 1001");
    }
    s.expect(". 1001:2001(1000) ack 1").quiet();
    s.at(60).inject(". 1:1(0) ack 3001").expect(". 3001:4001(1000) ack 1").quiet();
    s.at(80).inject(". 1:1(0) ack 8001").quiet();
    assert_eq!(s.connection().sender().stats().recoveries, 1);
}

/// RFC 5681 §2: what carries data, or moves the window, is no duplicate.
#[test]
fn segments_with_news_are_no_duplicate_acknowledgments() {
    let mut s = Script::established(plain());
    s.write(3_000);
    assert_eq!(s.take().len(), 3);
    for (i, window) in [65_000, 64_000, 63_000, 62_000].into_iter().enumerate() {
        s.inject(&format!("P. {}:{}(10) ack 1 win {window}", 1 + 10 * i, 11 + 10 * i));
    }
    s.quiet_until(59);
    assert_eq!(s.connection().sender().stats().retransmitted, 0);
}

/// RFC 5681 equation 4: half of what was in flight.
#[test]
fn a_loss_halves_the_window() {
    let mut s = Script::established(plain());
    s.write(10_000);
    assert_eq!(s.take().len(), 10);
    s.at(40);
    for _ in 0..3 {
        s.inject(". 1:1(0) ack 1");
    }
    s.take();
    assert_eq!(s.connection().sender().control().ssthresh(), 5_000);
    s.at(60).inject(". 1:1(0) ack 10001");
    // Congestion avoidance has begun: one segment for what this acknowledgment covers.
    assert_eq!(s.connection().sender().control().window(), 6_000);
}
