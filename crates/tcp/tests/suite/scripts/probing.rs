//! The probing option between two ends that know it (PRB §2.1).
use super::{Script, plain, plain_but};
use shorthaul_tcp::{Discrimination, LossDetection};

fn probing() -> Script {
    probing_by(Discrimination::RENO_PROBING)
}

fn probing_by(discriminator: Discrimination) -> Script {
    let mut s = Script::listening(plain_but(|p| {
        p.discriminator = discriminator;
        p.loss_detection = LossDetection::NEW_RENO;
    }));
    s.inject("S 0:0(0) win 65535 <mss 1000,probes>").expect("S. 0:0(0) ack 1 <mss 1460,probes>");
    s.at(20).inject(". 1:1(0) ack 1 win 65535");
    s.drain_events();
    s
}

#[test]
fn whoever_offers_probes_is_answered_whatever_our_own_profile() {
    let mut s = Script::listening(plain());
    s.inject("S 0:0(0) win 65535 <mss 1000,probes>").expect("S. 0:0(0) ack 1 <mss 1460,probes>");
    s.at(20).inject(". 1:1(0) ack 1 win 65535");
    s.drain_events();
    s.inject(". 1:1(0) ack 1 win 65535 <probe1 7>").expect(". 1:1(0) ack 1 <probe1ack 7>");
    s.inject(". 1:1(0) ack 1 win 65535 <probe2 8>").expect(". 1:1(0) ack 1 <probe2ack 8>").quiet();
    // When it arrived is said in microseconds since the first probe: nobody reads from it since when this machine runs.
    s.at(45).inject(". 1:1(0) ack 1 win 65535 <timed 9>").expect(". 1:1(0) ack 1 <timedack 9 25000>");
    s.at(50)
        .inject(". 1:1(0) ack 1 win 65535 <timed 10>")
        .expect(". 1:1(0) ack 1 <timedack 10 30000>")
        .quiet();
}

#[test]
fn who_offers_none_is_answered_none_and_asked_without() {
    let mut s = Script::listening(plain_but(|p| p.discriminator = Discrimination::RENO_PROBING));
    s.inject("S 0:0(0) win 65535 <mss 1000>").expect("S. 0:0(0) ack 1 <mss 1460>");
    s.at(20).inject(". 1:1(0) ack 1 win 65535");
    s.drain_events();
    s.write_segments(2);
    // The timer expires; a segment without data, from below the window.
    s.expect_at(1_020, ". 0:0(0) ack 1 <>");
}

#[test]
fn after_a_timeout_probes_leave_until_they_are_answered_and_the_window_stays() {
    let mut s = probing();
    s.write_segments(4);
    s.expect_at(1_020, ". 4001:4001(0) ack 1 <probe1 0>");
    s.quiet_until(1_119).expect_at(1_120, ". 4001:4001(0) ack 1 <probe1 1>");
    s.at(1_140).inject(". 1:1(0) ack 1 win 65535 <probe1ack 1>");
    s.expect(". 4001:4001(0) ack 1 <probe2 2>");
    s.at(1_160).inject(". 1:1(0) ack 1 win 65535 <probe2ack 2>");
    // Immediate recovery: all that was outstanding at once, and the window is as it was.
    for first in [1, 1001, 2001, 3001] {
        let flags = if first == 3001 { "P." } else { "." };
        s.expect(&format!("{flags} {first}:{}(1000) ack 1", first + 1000));
    }
    s.quiet();
    assert!(s.connection().sender().control().window() >= 10_000);
    assert_eq!(s.connection().sender().rtt().backoff(), 0);
}

#[test]
fn round_trips_that_are_no_good_call_for_slow_start() {
    let mut s = probing();
    s.write_segments(4);
    s.expect_at(1_020, ". 4001:4001(0) ack 1 <probe1 0>");
    s.at(1_060).inject(". 1:1(0) ack 1 win 65535 <probe1ack 0>");
    s.expect(". 4001:4001(0) ack 1 <probe2 1>");
    s.at(1_080).inject(". 1:1(0) ack 1 win 65535 <probe2ack 1>");
    s.expect(". 1:1001(1000) ack 1").quiet();
    assert_eq!(s.connection().sender().control().window(), 1_000);
}

#[test]
fn three_duplicates_begin_a_cycle_and_probes_are_no_duplicates() {
    let mut s = probing();
    s.write_segments(6);
    for _ in 0..3 {
        s.at(40).inject(". 1:1(0) ack 1 win 65535");
    }
    s.expect(". 6001:6001(0) ack 1 <probe1 0>").quiet();
    s.at(60).inject(". 1:1(0) ack 1 win 65535 <probe1ack 0>").expect(". 6001:6001(0) ack 1 <probe2 1>");
    s.at(80).inject(". 1:1(0) ack 1 win 65535 <probe2ack 1>").expect(". 1:1001(1000) ack 1").quiet();
    assert!(s.connection().sender().control().window() >= 10_000);
    assert_eq!(s.connection().sender().stats().timeouts, 0);
}

/// A timeout; the first probe is answered after 200 ms, ten times what data had, and the second one as late.
fn timed(second_arrived: u32) -> Script {
    let mut s = probing_by(Discrimination::FORWARD_PROBING);
    s.write_segments(4);
    s.expect_at(1_020, ". 4001:4001(0) ack 1 <timed 0>");
    s.expect_at(1_120, ". 4001:4001(0) ack 1 <timed 1>").expect_at(1_220, ". 4001:4001(0) ack 1 <timed 2>");
    s.at(1_220).inject(". 1:1(0) ack 1 win 65535 <timedack 0 4294967295>");
    s.expect(". 4001:4001(0) ack 1 <timed 3>");
    s.at(1_420).inject(&format!(". 1:1(0) ack 1 win 65535 <timedack 3 {second_arrived}>"));
    s
}

#[test]
fn by_the_forward_direction_late_answers_are_no_congestion() {
    // Sent 200 ms apart, and arrived 250 ms apart, across the end of the peer's clock: as fast as they were sent, or nearly so.
    let mut s = timed(249_999);
    s.expect(". 1:1001(1000) ack 1").expect(". 1001:2001(1000) ack 1");
    assert!(s.connection().sender().control().window() >= 10_000);
}

#[test]
fn by_the_forward_direction_probes_that_are_drawn_apart_are_congestion() {
    let mut s = timed(250_000);
    s.expect(". 1:1001(1000) ack 1").quiet();
    assert_eq!(s.connection().sender().control().window(), 1_000);
}

#[test]
fn whoever_does_not_say_when_probes_arrive_is_judged_by_round_trips() {
    let late = |by: u64| {
        let mut s = Script::listening(plain_but(|p| p.discriminator = Discrimination::FORWARD_PROBING));
        s.inject("S 0:0(0) win 65535 <mss 1000>").expect("S. 0:0(0) ack 1 <mss 1460>");
        s.at(20).inject(". 1:1(0) ack 1 win 65535");
        s.drain_events();
        s.write_segments(2);
        s.expect_at(1_020, ". 0:0(0) ack 1 <>");
        s.at(1_020 + by).inject(". 1:1(0) ack 1 win 65535");
        s.take();
        s.at(1_020 + 2 * by).inject(". 1:1(0) ack 1 win 65535");
        s.connection().sender().control().window()
    };
    assert_eq!((late(20) > 1_000, late(60) > 1_000), (true, false));
}
