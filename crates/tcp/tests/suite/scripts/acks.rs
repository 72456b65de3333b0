//! When data is acknowledged: RFC 5681 §4.2, RFC 9293 §3.8.6.3.
use super::{Script, plain, plain_but};
use shorthaul_tcp::AckPolicy;
use std::time::Duration;

#[test]
fn a_single_segment_is_acknowledged_after_the_delay() {
    let mut s = Script::established(plain());
    s.at(100).inject("P. 1:1001(1000) ack 1").quiet_until(139).expect_at(140, ". 1:1(0) ack 1001").quiet();
}

/// RFC 5681 §4.2: at least every second full-sized segment.
#[test]
fn every_second_segment_is_acknowledged_at_once() {
    let mut s = Script::established(plain());
    s.at(100).inject(". 1:1001(1000) ack 1").quiet();
    s.at(105).inject(". 1001:2001(1000) ack 1").expect(". 1:1(0) ack 2001").quiet();
    s.inject(". 2001:3001(1000) ack 1").quiet();
    s.inject(". 3001:4001(1000) ack 1").expect(". 1:1(0) ack 4001").quiet();
}

#[test]
fn an_acknowledgment_rides_on_data() {
    let mut s = Script::established(plain());
    s.at(100).inject("P. 1:101(100) ack 1").at(110).write(50).expect("P. 1:51(50) ack 101");
    s.quiet_until(300);
}

/// RFC 5681 §4.2: a gap is reported at once, and so is its repair.
#[test]
fn a_segment_out_of_order_is_acknowledged_at_once() {
    let mut s = Script::established(plain());
    s.at(100).inject(". 1001:2001(1000) ack 1").expect(". 1:1(0) ack 1").quiet();
    s.inject(". 2001:3001(1000) ack 1").expect(". 1:1(0) ack 1").quiet();
    s.inject(". 1:1001(1000) ack 1").expect(". 1:1(0) ack 3001").quiet();
}

#[test]
fn a_duplicate_is_acknowledged_at_once() {
    let mut s = Script::established(plain());
    s.at(100).inject(". 1:1001(1000) ack 1").expect_at(140, ". 1:1(0) ack 1001");
    s.at(200).inject(". 1:1001(1000) ack 1").expect(". 1:1(0) ack 1001").quiet();
}

#[test]
fn a_segment_that_is_half_new_is_taken_by_half() {
    let mut s = Script::established(plain());
    s.at(100).inject(". 1:1001(1000) ack 1").expect_at(140, ". 1:1(0) ack 1001");
    s.at(200).inject(". 501:1501(1000) ack 1").expect(". 1:1(0) ack 1501").quiet();
    assert_eq!(s.connection().readable(), 1_500);
}

#[test]
fn the_first_segments_may_be_acknowledged_one_by_one() {
    let ack = AckPolicy::Delayed { wait: Duration::from_millis(40), quick: 3 };
    let mut s = Script::established(plain_but(|p| p.ack = ack));
    for i in 0..3 {
        let from = 1 + 100 * i;
        s.inject(&format!("P. {from}:{}(100) ack 1", from + 100))
            .expect(&format!(". 1:1(0) ack {}", from + 100));
    }
    s.inject("P. 301:401(100) ack 1").quiet().expect_at(60, ". 1:1(0) ack 401");
}

#[test]
fn an_immediate_policy_acknowledges_each_segment() {
    let mut s = Script::established(plain_but(|p| p.ack = AckPolicy::Immediate));
    s.inject("P. 1:11(10) ack 1").expect(". 1:1(0) ack 11").inject("P. 11:21(10) ack 1");
    s.expect(". 1:1(0) ack 21").quiet();
}

#[test]
fn an_acknowledgment_without_data_is_not_acknowledged() {
    let mut s = Script::established(plain());
    s.at(100).inject(". 1:1(0) ack 1 win 100").inject(". 1:1(0) ack 1 win 200").quiet_until(1_000);
}

/// RFC 9293 §3.8.6.3: full-sized is what the peer sends, not what is usual.
#[test]
fn large_segments_are_acknowledged_by_twos_too() {
    let mut s = Script::established_with(plain(), "mss 1460", "");
    s.at(100).inject(". 1:1401(1400) ack 1").quiet();
    s.inject(". 1401:2801(1400) ack 1").expect(". 1:1(0) ack 2801").quiet();
}
