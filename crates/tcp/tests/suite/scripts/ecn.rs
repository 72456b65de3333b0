//! Explicit congestion notification: RFC 3168 §6.1.
use super::{Script, plain_but};
use shorthaul_tcp::ConnectionConfig;

fn ecn() -> ConnectionConfig {
    plain_but(|p| p.ecn = true)
}

/// A connection that agreed on it.
fn capable() -> Script {
    let mut s = Script::listening(ecn());
    s.inject("SEW 0:0(0) <mss 1000>").expect("S.E 0:0(0) ack 1 [noecn]");
    s.at(20).inject(". 1:1(0) ack 1").quiet();
    s
}

/// §6.1.1.
#[test]
fn a_host_that_connects_asks_for_it() {
    let mut s = Script::connecting(ecn());
    s.expect("SEW 0:0(0) <mss 1460> [noecn]");
    s.at(20).inject("S.E 0:0(0) ack 1 <mss 1000>").expect(". 1:1(0) ack 1 [noecn]");
    s.write(10).expect("P. 1:11(10) ack 1 [ect0]");
}

#[test]
fn a_host_that_does_not_answer_so_gets_none() {
    let mut s = Script::connecting(ecn());
    s.expect("SEW 0:0(0)").inject("S. 0:0(0) ack 1 <mss 1000>").expect(". 1:1(0) ack 1");
    s.write(10).expect("P. 1:11(10) ack 1 [noecn]");
}

/// §6.1.1: a host that reflects both bits does not understand them.
#[test]
fn a_host_that_reflects_the_flags_gets_none() {
    let mut s = Script::connecting(ecn());
    s.expect("SEW 0:0(0)").inject("S.EW 0:0(0) ack 1 <mss 1000>").expect(". 1:1(0) ack 1");
    s.write(10).expect("P. 1:11(10) ack 1 [noecn]");
}

/// §6.1.1.1: the bits themselves may be what does not pass.
#[test]
fn a_syn_that_was_lost_is_retransmitted_without_it() {
    let mut s = Script::connecting(ecn());
    s.expect("SEW 0:0(0)").expect_at(1_000, "S 0:0(0)");
}

#[test]
fn a_host_without_it_does_not_agree() {
    let mut s = Script::listening(plain_but(|p| p.ecn = false));
    s.inject("SEW 0:0(0) <mss 1000>").expect("S. 0:0(0) ack 1");
}

/// §6.1.3: every acknowledgment says so until the peer has slowed down.
#[test]
fn a_mark_is_echoed_until_the_window_is_reduced() {
    let mut s = capable();
    s.inject("P. 1:101(100) ack 1 [ce]").expect(".E 1:1(0) ack 101");
    s.inject("P. 101:201(100) ack 1 [ect0]").expect_at(60, ".E 1:1(0) ack 201");
    s.inject("PW. 201:301(100) ack 1 [ect0]").expect_at(100, ". 1:1(0) ack 301");
}

/// §6.1.2: half the window, once a round trip, and the peer is told.
#[test]
fn an_echo_halves_the_window_and_is_answered() {
    let mut s = capable();
    s.write(10_000).at(40).take();
    s.inject(".E 1:1(0) ack 2001").quiet();
    let half = s.connection().sender().control().window();
    assert!((4_000..=5_000).contains(&half), "{half}");
    s.inject(".E 1:1(0) ack 5001").inject(".E 1:1(0) ack 8001").quiet();
    assert!(s.connection().sender().control().window() >= half, "once a round trip");
    s.write(1_000).expect("PW. 10001:11001(1000) ack 1 [ect0]");
    s.write(1_000).expect("P. 11001:12001(1000) ack 1 [ect0]");
    assert_eq!(s.connection().sender().stats().retransmitted, 0);
}

/// §6.1.5: a router that overflows must not be told that marks help.
#[test]
fn a_retransmission_is_not_capable() {
    let mut s = capable();
    s.write(10).expect("P. 1:11(10) ack 1 [ect0]").expect_at(1_020, "P. 1:11(10) ack 1 [noecn]");
}

/// §6.1.4.
#[test]
fn a_pure_acknowledgment_is_not_capable() {
    let mut s = capable();
    s.inject("P. 1:101(100) ack 1").expect_at(60, ". 1:1(0) ack 101 [noecn]");
}
