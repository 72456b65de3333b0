//! Silence: keep-alive (RFC 9293 §3.8.4), the user timeout (§3.9.1, RFC 5482), restart after idle
//! times (RFC 5681 §4.1).
use super::{Script, plain, plain_but};
use shorthaul_tcp::{ConnectionConfig, Event, Failure, KeepAlive};
use std::time::Duration;

fn keep_alive() -> ConnectionConfig {
    let keep_alive = KeepAlive { idle: Duration::from_secs(10), interval: Duration::from_secs(2), probes: 3 };
    ConnectionConfig { keep_alive: Some(keep_alive), ..plain() }
}

#[test]
fn an_idle_connection_is_probed() {
    let mut s = Script::established(keep_alive());
    s.expect_at(10_020, ". 0:0(0) ack 1").at(10_040).inject(". 1:1(0) ack 1").quiet();
    s.expect_at(20_040, ". 0:0(0) ack 1").no_event();
}

#[test]
fn a_peer_that_answers_no_probe_is_given_up_with_a_reset() {
    let mut s = Script::established(keep_alive());
    s.expect_at(10_020, ". 0:0(0) ack 1").expect_at(12_020, ". 0:0(0) ack 1");
    s.expect_at(14_020, ". 0:0(0) ack 1");
    s.expect_at(16_020, "R. 1:1(0) ack 1").quiet().event(Event::Failed(Failure::KeepAlive));
}

#[test]
fn traffic_defers_the_probe() {
    let mut s = Script::established(keep_alive());
    s.at(9_000).inject("P. 1:11(10) ack 1").expect_at(9_040, ". 1:1(0) ack 11");
    s.quiet_until(18_999).expect_at(19_000, ". 0:0(0) ack 11");
}

#[test]
fn no_connection_is_probed_unless_it_is_asked_for() {
    let mut s = Script::established(plain());
    s.quiet_until(100_000_000).no_event();
}

#[test]
fn a_probe_of_the_peer_is_answered() {
    let mut s = Script::established(plain());
    s.at(7_200_000).inject(". 0:0(0) ack 1").expect(". 1:1(0) ack 1").quiet();
    s.at(7_275_000).inject(". 0:1(1) ack 1").expect(". 1:1(0) ack 1").quiet();
}

#[test]
fn data_unacknowledged_for_too_long_ends_the_connection() {
    let user_timeout = Some(Duration::from_secs(5));
    let mut s = Script::established(ConnectionConfig { user_timeout, ..plain() });
    s.at(1_000).write(100).expect("P. 1:101(100) ack 1");
    s.expect_at(2_000, "P. 1:101(100) ack 1").expect_at(4_000, "P. 1:101(100) ack 1");
    s.quiet_until(6_000).event(Event::Failed(Failure::UserTimeout));
}

#[test]
fn progress_restarts_the_user_timeout() {
    let user_timeout = Some(Duration::from_secs(5));
    let mut s = Script::established(ConnectionConfig { user_timeout, ..plain() });
    s.at(1_000).write(1_100).expect(". 1:1001(1000) ack 1").expect("P. 1001:1101(100) ack 1");
    s.at(1_900).inject(". 1:1(0) ack 1001");
    s.pass(6_899).no_event().pass(6_900).event(Event::Failed(Failure::UserTimeout));
}

#[test]
fn the_user_timeout_holds_for_the_handshake() {
    let user_timeout = Some(Duration::from_secs(5));
    let mut s = Script::connecting(ConnectionConfig { user_timeout, ..plain() });
    s.expect("S 0:0(0)").expect_at(1_000, "S 0:0(0)").expect_at(3_000, "S 0:0(0)");
    s.quiet_until(5_000).event(Event::Failed(Failure::UserTimeout));
}

/// A window that has grown over what `segments` segments, after a pause.
fn after_a_pause(config: ConnectionConfig) -> usize {
    let mut s = Script::established(config);
    s.write(20_000).at(40).take();
    s.inject(". 1:1(0) ack 10001").at(60).take();
    s.inject(". 1:1(0) ack 20001").quiet();
    s.at(30_000).write(40_000).take().len()
}

/// RFC 5681 §4.1.
#[test]
fn after_an_idle_time_sending_starts_from_the_initial_window() {
    assert_eq!(after_a_pause(plain()), 10);
}

#[test]
fn a_profile_may_keep_its_window() {
    assert!(after_a_pause(plain_but(|p| p.idle_restart = false)) > 10);
}

#[test]
fn while_data_is_unacknowledged_there_are_no_probes() {
    let mut s = Script::established(keep_alive());
    s.write(100).expect("P. 1:101(100) ack 1");
    for at in [1_020, 3_020, 7_020, 15_020, 31_020] {
        s.expect_at(at, "P. 1:101(100) ack 1");
    }
}
