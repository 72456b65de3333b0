//! Opening: RFC 9293 §3.5, RFC 7323 §2, RFC 2018 §2, RFC 3168 §6.1.1, RFC 6298 §5.
use super::{Script, plain, plain_but};
use shorthaul_tcp::{ConnectionConfig, Event, Failure, State};
use shorthaul_types::Bytes;
use shorthaul_wire::IcmpErrorKind;

/// RFC 9293 figure 6, seen from the end that listens.
#[test]
fn a_syn_is_answered_and_its_answer_acknowledged() {
    let mut s = Script::listening(plain());
    s.inject("S 0:0(0) win 1000 <mss 1000>");
    s.expect("S. 0:0(0) ack 1 win 65535 <mss 1460>").quiet();
    s.no_event().at(20).inject(". 1:1(0) ack 1").quiet();
    s.event(Event::Connected);
    assert_eq!(s.connection().state(), State::Established);
}

/// RFC 9293 figure 6, seen from the end that opens.
#[test]
fn a_connection_is_opened_with_three_segments() {
    let mut s = Script::connecting(plain());
    s.expect("S 0:0(0) win 65535 <mss 1460>").quiet();
    s.at(20).inject("S. 0:0(0) ack 1 <mss 1000>");
    s.expect(". 1:1(0) ack 1").quiet().event(Event::Connected).no_event();
    assert_eq!(s.connection().state(), State::Established);
}

/// RFC 9293 figure 7: both SYNs cross.
#[test]
fn two_syns_that_cross_open_one_connection() {
    let mut s = Script::connecting(plain());
    s.expect("S 0:0(0)");
    s.at(10).inject("S 0:0(0) win 1000 <mss 1000>");
    s.expect("S. 0:0(0) ack 1").quiet().no_event();
    assert_eq!(s.connection().state(), State::SynReceived);
    s.at(20).inject("S. 0:0(0) ack 1 <mss 1000>");
    s.expect(". 1:1(0) ack 1").quiet().event(Event::Connected);
    assert_eq!(s.connection().state(), State::Established);
}

/// RFC 9293 figure 8: an old SYN gets an answer that its sender rejects with a reset.
#[test]
fn an_old_duplicate_syn_is_given_up_by_its_reset() {
    let mut s = Script::listening(plain());
    s.inject("S 0:0(0) <mss 1000>").expect("S. 0:0(0) ack 1");
    s.at(20).inject("R 1:1(0)").quiet().no_event();
    assert_eq!(s.host.connections().count(), 0);
    assert!(s.host.is_listening(super::script::PORT));
}

/// RFC 9293 figure 9: the peer crashed; our half-open connection finds out.
#[test]
fn a_half_open_connection_answers_a_syn_and_is_reset() {
    let mut s = Script::established(plain());
    s.at(100).inject("S 500:500(0) <mss 1000>");
    s.expect(". 1:1(0) ack 1").quiet();
    s.at(110).inject("R 1:1(0)").quiet().event(Event::Failed(Failure::Reset)).no_event();
    assert!(s.is_forgotten());
}

/// RFC 9293 figure 10: data on a half-open connection draws a reset from the end that forgot it.
#[test]
fn data_for_no_connection_is_reset() {
    let mut s = Script::listening(plain());
    s.inject("P. 1:11(10) ack 300").expect("R 300:300(0)").quiet();
    assert_eq!(s.host.stats().refused, 1);
}

/// RFC 9293 §3.10.7.1: without an acknowledgment the reset acknowledges what came.
#[test]
fn a_syn_to_a_closed_port_is_refused() {
    let mut s = Script::listening(plain());
    s.host.stop_listening(super::script::PORT);
    s.inject("S 0:0(0) <mss 1000>").expect("R. 0:0(0) ack 1").quiet();
}

#[test]
fn a_reset_to_nobody_is_not_answered() {
    let mut s = Script::listening(plain());
    s.inject("R 1:1(0)").quiet();
    s.inject("R. 1:1(0) ack 5").quiet();
}

#[test]
fn a_refused_connection_says_so() {
    let mut s = Script::connecting(plain());
    s.expect("S 0:0(0)");
    s.at(20).inject("R. 0:0(0) ack 1").quiet().event(Event::Failed(Failure::Refused));
    assert!(s.is_forgotten());
}

/// RFC 9293 §3.10.7.3: a reset counts only if it acknowledges our SYN.
#[test]
fn a_blind_reset_does_not_refuse_a_connection() {
    let mut s = Script::connecting(plain());
    s.expect("S 0:0(0)");
    s.at(20).inject("R 0:0(0)").quiet().inject("R. 0:0(0) ack 7").quiet().no_event();
    assert_eq!(s.connection().state(), State::SynSent);
}

/// RFC 9293 §3.10.7.3: an acknowledgment of something that was never sent is reset.
#[test]
fn a_wrong_acknowledgment_of_the_syn_is_reset() {
    let mut s = Script::connecting(plain());
    s.expect("S 0:0(0)");
    s.at(20).inject("S. 0:0(0) ack 2 <mss 1000>").expect("R 2:2(0)").quiet();
    s.inject(". 1:1(0) ack 9").expect("R 9:9(0)").quiet();
    s.at(30).inject("S. 0:0(0) ack 1 <mss 1000>").expect(". 1:1(0) ack 1");
}

/// RFC 9293 §3.10.7.4: and so it is of the SYN-ACK.
#[test]
fn a_wrong_acknowledgment_of_the_syn_ack_is_reset() {
    let mut s = Script::listening(plain());
    s.inject("S 0:0(0) <mss 1000>").expect("S. 0:0(0) ack 1");
    s.inject(". 1:1(0) ack 99").expect("R 99:99(0)").quiet().no_event();
    s.inject(". 1:1(0) ack 1").quiet().event(Event::Connected);
}

/// RFC 6298 §5: the timer doubles.
#[test]
fn a_syn_is_retransmitted_with_backoff_until_the_peer_is_given_up() {
    let mut s = Script::connecting(ConnectionConfig { syn_retries: 3, ..plain() });
    s.expect("S 0:0(0)");
    s.expect_at(1_000, "S 0:0(0)").expect_at(3_000, "S 0:0(0)").expect_at(7_000, "S 0:0(0)");
    s.quiet_until(15_000).event(Event::Failed(Failure::TimedOut));
}

#[test]
fn a_syn_ack_is_retransmitted_and_then_forgotten_in_silence() {
    let mut s = Script::listening(ConnectionConfig { syn_retries: 3, ..plain() });
    s.inject("S 0:0(0) <mss 1000>").expect("S. 0:0(0) ack 1");
    s.expect_at(1_000, "S. 0:0(0) ack 1").expect_at(3_000, "S. 0:0(0) ack 1");
    s.quiet_until(20_000).no_event();
    assert_eq!(s.host.connections().count(), 0);
}

#[test]
fn a_syn_that_comes_again_is_answered_again() {
    let mut s = Script::listening(plain());
    s.inject("S 0:0(0) <mss 1000>").expect("S. 0:0(0) ack 1");
    s.at(500).inject("S 0:0(0) <mss 1000>").expect("S. 0:0(0) ack 1").quiet();
    assert_eq!(s.host.connections().count(), 1);
}

#[test]
fn a_syn_ack_that_comes_again_is_acknowledged_again() {
    let mut s = Script::connecting(plain());
    s.expect("S 0:0(0)").inject("S. 0:0(0) ack 1 <mss 1000>").expect(". 1:1(0) ack 1");
    s.at(1_000).inject("S. 0:0(0) ack 1 <mss 1000>").expect(". 1:1(0) ack 1").quiet();
}

/// RFC 9293 §3.10.7.4: the first data may come with the acknowledgment of the SYN-ACK.
#[test]
fn the_third_segment_may_carry_data() {
    let mut s = Script::listening(plain());
    s.inject("S 0:0(0) <mss 1000>").expect("S. 0:0(0) ack 1");
    s.at(20).inject("P. 1:501(500) ack 1").event(Event::Connected).event(Event::Readable);
    assert_eq!(s.connection().readable(), 500);
    s.expect_at(60, ". 1:1(0) ack 501");
}

#[test]
fn data_in_the_syn_ack_is_taken() {
    let mut s = Script::connecting(plain());
    s.expect("S 0:0(0)").inject("S. 0:300(300) ack 1 <mss 1000>");
    s.expect(". 1:1(0) ack 301").event(Event::Connected).event(Event::Readable);
}

/// Data in a SYN is not acknowledged; its sender retransmits it (RFC 9293 §3.4 leaves that open).
#[test]
fn data_in_a_syn_waits_for_the_handshake() {
    let mut s = Script::listening(plain());
    s.inject("S 0:10(10) <mss 1000>").expect("S. 0:0(0) ack 1");
    s.inject("P. 1:11(10) ack 1").event(Event::Connected).event(Event::Readable);
    assert_eq!(s.connection().readable(), 10);
}

/// RFC 9293 §3.7.1: 536 bytes where the peer says nothing.
#[test]
fn a_peer_without_a_segment_size_gets_536_bytes() {
    let mut s = Script::established_with(plain(), "", "");
    s.write(1_000).expect(". 1:537(536) ack 1").expect("P. 537:1001(464) ack 1").quiet();
}

#[test]
fn the_segment_size_is_the_smaller_of_the_peer_s_and_the_link_s() {
    let mut s = Script::established_with(ConnectionConfig { mtu: 1_240, ..plain() }, "mss 8960", "");
    s.write(2_000).expect(". 1:1201(1200) ack 1").expect("P. 1201:2001(800) ack 1").quiet();
}

/// RFC 7323 §2.2: both must offer it, and the window of a SYN is not scaled.
#[test]
fn windows_are_scaled_if_both_ends_say_so() {
    let config = ConnectionConfig {
        receive_buffer: Bytes(1 << 20),
        autotuning: false,
        ..plain_but(|p| p.window_scaling = true)
    };
    let mut s = Script::listening(config);
    s.inject("S 0:0(0) win 500 <mss 1000,wscale 3>");
    s.expect("S. 0:0(0) ack 1 win 65535 <mss 1460,wscale 5>");
    // Now all of the buffer can be offered.
    s.inject(". 1:1(0) ack 1 win 500").expect(". 1:1(0) ack 1 win 32768");
    assert_eq!(s.connection().sender().peer_window(), 4_000);
    s.inject("P. 1:101(100) ack 1 win 500").expect_at(40, ". 1:1(0) ack 101 win 32764");
}

#[test]
fn windows_are_not_scaled_if_the_peer_does_not() {
    let mut s = Script::listening(plain_but(|p| p.window_scaling = true));
    s.inject("S 0:0(0) win 500 <mss 1000>").expect("S. 0:0(0) ack 1 win 65535 <mss 1460>");
    s.inject(". 1:1(0) ack 1 win 500");
    assert_eq!(s.connection().sender().peer_window(), 500);
}

/// RFC 7323 §2.3: a shift above 14 counts as 14.
#[test]
fn the_largest_shift_is_14() {
    let mut s = Script::listening(plain_but(|p| p.window_scaling = true));
    s.inject("S 0:0(0) win 1 <mss 1000,wscale 15>").expect("S. 0:0(0) ack 1");
    s.inject(". 1:1(0) ack 1 win 3");
    assert_eq!(s.connection().sender().peer_window(), 3 << 14);
}

#[test]
fn a_connecting_host_offers_what_its_profile_says() {
    let mut s = Script::connecting(ConnectionConfig { profile: Default::default(), ..plain() });
    s.expect("S 0:0(0) win 65535 <mss 1460,sackOK,TS val 0 ecr 0,wscale 7>");
    s.at(20).inject("S. 0:0(0) ack 1 <mss 1460,sackOK,TS val 900 ecr 0,wscale 2>");
    s.expect(". 1:1(0) ack 1 <TS val 20 ecr 900>");
}

#[test]
fn an_answer_holds_only_what_was_offered() {
    let mut s = Script::listening(ConnectionConfig { profile: Default::default(), ..plain() });
    s.inject("S 0:0(0) <mss 1460,TS val 7 ecr 0>").expect("S. 0:0(0) ack 1 <mss 1460,TS val 0 ecr 7>");
}

/// RFC 9293 §3.10.4 lets a close before the connection wait for it.
#[test]
fn what_was_written_before_the_handshake_is_sent_after_it() {
    let mut s = Script::connecting(plain());
    s.expect("S 0:0(0)").write(100).close().quiet();
    s.at(20).inject("S. 0:0(0) ack 1 <mss 1000>");
    s.expect("FP. 1:101(100) ack 1").quiet();
    assert_eq!(s.connection().state(), State::FinWait1);
}

#[test]
fn a_close_before_anything_was_written_ends_it() {
    let mut s = Script::connecting(plain());
    s.expect("S 0:0(0)").close().quiet().event(Event::Closed);
    assert!(s.is_forgotten());
}

/// RFC 9293 §3.9.2.2: nobody will ever answer at that port.
#[test]
fn a_hard_icmp_error_ends_an_attempt_to_connect() {
    let mut s = Script::connecting(plain());
    s.expect("S 0:0(0)").at(5).inject_icmp(0, IcmpErrorKind::Unreachable { code: 3 });
    s.quiet().event(Event::Failed(Failure::Unreachable));
}

/// RFC 9293 §3.9.2.2: the path may heal; but the reason is kept.
#[test]
fn a_soft_icmp_error_is_only_remembered() {
    let mut s = Script::connecting(ConnectionConfig { syn_retries: 1, ..plain() });
    s.expect("S 0:0(0)").at(5).inject_icmp(0, IcmpErrorKind::Unreachable { code: 1 });
    s.quiet().no_event().expect_at(1_000, "S 0:0(0)");
    s.quiet_until(3_000).event(Event::Failed(Failure::Unreachable));
}

/// RFC 6928 §2: one lost SYN is no sign of congestion, two are.
#[test]
fn the_initial_window_is_one_segment_after_two_lost_syns() {
    let mut s = Script::connecting(plain());
    s.expect("S 0:0(0)").expect_at(1_000, "S 0:0(0)").expect_at(3_000, "S 0:0(0)");
    s.at(3_020).inject("S. 0:0(0) ack 1 <mss 1000>").expect(". 1:1(0) ack 1");
    s.write(5_000).expect(". 1:1001(1000) ack 1").quiet();
}
