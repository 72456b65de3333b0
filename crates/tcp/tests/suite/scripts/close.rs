//! Closing: RFC 9293 §3.6.
use super::{Script, plain};
use shorthaul_tcp::{ConnectionConfig, Event, State};
use std::time::Duration;

/// RFC 9293 figure 12, from the end that closes first.
#[test]
fn a_normal_close_goes_through_fin_wait_and_time_wait() {
    let mut s = Script::established(plain());
    s.at(100).close().expect("F. 1:1(0) ack 1").quiet();
    assert_eq!(s.connection().state(), State::FinWait1);
    s.at(110).inject(". 1:1(0) ack 2").quiet();
    assert_eq!(s.connection().state(), State::FinWait2);
    s.at(120).inject("F. 1:1(0) ack 2").expect(". 2:2(0) ack 2").quiet().event(Event::PeerClosed);
    assert_eq!(s.connection().state(), State::TimeWait);
    s.quiet_until(60_119).no_event();
    s.quiet_until(60_120).event(Event::Closed);
    assert!(s.is_forgotten());
}

/// RFC 9293 figure 12, from the other end.
#[test]
fn the_end_that_closes_second_has_no_time_wait() {
    let mut s = Script::established(plain());
    s.at(100).inject("F. 1:1(0) ack 1").expect(". 1:1(0) ack 2").quiet().event(Event::PeerClosed);
    assert_eq!(s.connection().state(), State::CloseWait);
    s.at(110).close().expect("F. 1:1(0) ack 2").quiet();
    assert_eq!(s.connection().state(), State::LastAck);
    s.at(120).inject(". 2:2(0) ack 2").quiet().event(Event::Closed);
    assert!(s.is_forgotten());
}

/// RFC 9293 figure 13.
#[test]
fn both_ends_may_close_at_once() {
    let mut s = Script::established(plain());
    s.at(100).close().expect("F. 1:1(0) ack 1");
    s.at(110).inject("F. 1:1(0) ack 1").expect(". 2:2(0) ack 2").quiet().event(Event::PeerClosed);
    assert_eq!(s.connection().state(), State::Closing);
    s.at(120).inject(". 2:2(0) ack 2").quiet();
    assert_eq!(s.connection().state(), State::TimeWait);
    s.quiet_until(60_120).event(Event::Closed);
}

/// A FIN that acknowledges ours leads from FIN-WAIT-1 straight to TIME-WAIT.
#[test]
fn a_fin_that_acknowledges_ours_ends_both_directions() {
    let mut s = Script::established(plain());
    s.at(100).close().expect("F. 1:1(0) ack 1");
    s.at(110).inject("F. 1:1(0) ack 2").expect(". 2:2(0) ack 2").quiet();
    assert_eq!(s.connection().state(), State::TimeWait);
}

#[test]
fn after_our_fin_the_peer_may_go_on_sending() {
    let mut s = Script::established(plain());
    s.at(100).close().expect("F. 1:1(0) ack 1").inject(". 1:1(0) ack 2");
    s.at(200).inject("P. 1:1001(1000) ack 2").event(Event::Readable);
    s.expect_at(240, ". 2:2(0) ack 1001").read_up_to(1_000);
    s.at(300).inject("FP. 1001:1501(500) ack 2").expect(". 2:2(0) ack 1502");
    s.event(Event::Readable).event(Event::PeerClosed);
    assert_eq!(s.connection().readable(), 500);
}

#[test]
fn after_the_peer_s_fin_we_may_go_on_sending() {
    let mut s = Script::established(plain());
    s.at(100).inject("F. 1:1(0) ack 1").expect(". 1:1(0) ack 2");
    s.at(200).write(700).expect("P. 1:701(700) ack 2");
    s.at(220).inject(". 2:2(0) ack 701").close().expect("F. 701:701(0) ack 2");
    s.at(240).inject(". 2:2(0) ack 702").event(Event::PeerClosed).event(Event::Closed);
}

#[test]
fn the_fin_follows_what_was_written() {
    let mut s = Script::established(plain());
    s.write(1_500).expect(". 1:1001(1000) ack 1").expect("P. 1001:1501(500) ack 1");
    s.close().expect("F. 1501:1501(0) ack 1").quiet();
}

#[test]
fn the_last_data_takes_the_fin_along() {
    let mut s = Script::established_with(plain(), "mss 1000", "");
    s.inject(". 1:1(0) ack 1 win 0").write(400).close().quiet();
    s.at(100).inject(". 1:1(0) ack 1 win 5000").expect("FP. 1:401(400) ack 1").quiet();
}

#[test]
fn nothing_can_be_written_after_close() {
    let mut s = Script::established(plain());
    s.close().expect("F. 1:1(0) ack 1").write(100).quiet();
    assert_eq!(s.connection().writable(), 0);
}

/// RFC 9293 §3.10.7.4: TIME-WAIT begins anew, because the peer has not got our acknowledgment.
#[test]
fn a_fin_that_comes_again_is_acknowledged_again() {
    let mut s = Script::established(plain());
    s.at(100).close().expect("F. 1:1(0) ack 1");
    s.inject("F. 1:1(0) ack 2").expect(". 2:2(0) ack 2").event(Event::PeerClosed);
    s.at(1_100).inject("F. 1:1(0) ack 2").expect(". 2:2(0) ack 2").quiet();
    s.quiet_until(61_099).no_event().quiet_until(61_100).event(Event::Closed);
}

#[test]
fn time_wait_lasts_as_long_as_it_is_told() {
    let mut s = Script::established(ConnectionConfig { time_wait: Duration::from_secs(5), ..plain() });
    s.at(100).close().expect("F. 1:1(0) ack 1");
    s.inject("F. 1:1(0) ack 2").expect(". 2:2(0) ack 2").event(Event::PeerClosed);
    s.quiet_until(5_099).no_event().quiet_until(5_100).event(Event::Closed);
}

#[test]
fn a_fin_that_is_lost_is_retransmitted() {
    let mut s = Script::established(plain());
    s.at(100).close().expect("F. 1:1(0) ack 1");
    s.expect_at(1_100, "F. 1:1(0) ack 1").expect_at(3_100, "F. 1:1(0) ack 1");
    s.inject(". 1:1(0) ack 2").quiet();
    assert_eq!(s.connection().state(), State::FinWait2);
}

#[test]
fn a_fin_ahead_of_missing_data_waits_for_it() {
    let mut s = Script::established(plain());
    s.at(100).inject("F. 1001:1501(500) ack 1").expect(". 1:1(0) ack 1").no_event();
    s.at(110).inject(". 1:1001(1000) ack 1").expect(". 1:1(0) ack 1502");
    s.event(Event::Readable).event(Event::PeerClosed);
    assert_eq!(s.connection().state(), State::CloseWait);
}

/// What was received stays readable when both directions are closed.
#[test]
fn data_can_be_read_after_the_end() {
    let mut s = Script::established(plain());
    s.inject("FP. 1:301(300) ack 1").expect(". 1:1(0) ack 302").close().expect("F. 1:1(0) ack 302");
    s.inject(". 302:302(0) ack 2");
    s.event(Event::Readable).event(Event::PeerClosed).event(Event::Closed);
    assert_eq!((s.connection().state(), s.connection().readable()), (State::Closed, 300));
    s.read_up_to(300);
    assert!(s.is_forgotten());
}
