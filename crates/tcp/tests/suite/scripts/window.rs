//! Windows: RFC 9293 §3.8.6 (closed windows, silly windows), §3.7.4 (Nagle).
use super::{Script, plain, plain_but};
use shorthaul_tcp::{ConnectionConfig, Event};
use shorthaul_types::Bytes;

fn small_buffer() -> ConnectionConfig {
    ConnectionConfig { receive_buffer: Bytes(4_000), mss: 1_000, ..plain() }
}

#[test]
fn no_more_is_sent_than_the_peer_advertises() {
    let mut s = Script::established(plain());
    s.inject(". 1:1(0) ack 1 win 2000").write(5_000);
    s.expect(". 1:1001(1000) ack 1").expect(". 1001:2001(1000) ack 1").quiet();
    s.at(100).inject(". 1:1(0) ack 1001 win 2000").expect(". 2001:3001(1000) ack 1").quiet();
}

/// RFC 9293 §3.8.6.1: a closed window is probed, with backoff.
#[test]
fn a_closed_window_is_probed_until_it_opens() {
    let mut s = Script::established(plain());
    s.inject(". 1:1(0) ack 1 win 0").write(1_000).quiet();
    s.expect_at(1_020, ". 0:0(0) ack 1").inject(". 1:1(0) ack 1 win 0").quiet();
    s.expect_at(3_020, ". 0:0(0) ack 1").inject(". 1:1(0) ack 1 win 0").quiet();
    s.expect_at(7_020, ". 0:0(0) ack 1").inject(". 1:1(0) ack 1 win 3000");
    s.expect("P. 1:1001(1000) ack 1").quiet();
}

/// RFC 9293 §3.8.6.1: as long as the peer answers, the connection lives.
#[test]
fn a_closed_window_does_not_end_the_connection() {
    let mut s = Script::established(plain());
    s.inject(". 1:1(0) ack 1 win 0").write(1_000).quiet();
    let mut at = 20;
    for probe in 0..40u32 {
        at += 60_000u64.min(1_000 << probe.min(16));
        s.expect_at(at, ". 0:0(0) ack 1").inject(". 1:1(0) ack 1 win 0").quiet();
    }
    s.no_event();
}

/// RFC 9293 §3.10.7.4: a probe below the window draws an acknowledgment.
#[test]
fn a_window_probe_is_answered() {
    let mut s = Script::established(plain());
    s.at(100).inject(". 0:0(0) ack 1").expect(". 1:1(0) ack 1").quiet();
}

/// Probes of other hosts carry a byte that does not fit.
#[test]
fn a_probe_with_a_byte_is_answered_with_the_closed_window() {
    let mut s = Script::established(small_buffer());
    s.inject(". 1:2001(2000) ack 1").expect(". 1:1(0) ack 2001 win 2000");
    s.inject(". 2001:4001(2000) ack 1").expect(". 1:1(0) ack 4001 win 0").event(Event::Readable);
    s.at(1_000).inject(". 4001:4002(1) ack 1").expect(". 1:1(0) ack 4001 win 0").quiet();
}

/// The application reads: the peer must hear of it, or it will wait for its own probe.
#[test]
fn a_window_that_opens_is_announced() {
    let mut s = Script::established(small_buffer());
    s.inject(". 1:2001(2000) ack 1").expect(". 1:1(0) ack 2001 win 2000");
    s.inject(". 2001:4001(2000) ack 1").expect(". 1:1(0) ack 4001 win 0");
    s.at(500).read_up_to(4_000).expect(". 1:1(0) ack 4001 win 4000").quiet();
}

/// RFC 9293 §3.8.6.2.2: not before a segment, or half the buffer, is free.
#[test]
fn a_window_does_not_open_by_a_few_bytes() {
    let mut s = Script::established(small_buffer());
    s.inject(". 1:2001(2000) ack 1").expect(". 1:1(0) ack 2001 win 2000");
    s.inject(". 2001:4001(2000) ack 1").expect(". 1:1(0) ack 4001 win 0");
    s.at(500).read_up_to(10).quiet().read_up_to(900).quiet();
    s.read_up_to(90).expect(". 1:1(0) ack 4001 win 1000").quiet();
}

#[test]
fn a_reader_who_keeps_up_causes_no_window_updates() {
    let mut s = Script::established(plain());
    for i in 0..20u64 {
        let (from, to) = (1 + 2_000 * i, 1 + 2_000 * (i + 1));
        s.at(100 + 10 * i)
            .inject(&format!(". {from}:{}(1000) ack 1", from + 1_000))
            .read_up_to(1_000)
            .quiet();
        s.inject(&format!(". {}:{to}(1000) ack 1", from + 1_000)).read_up_to(1_000);
        s.expect(&format!(". 1:1(0) ack {to}")).quiet();
    }
}

/// RFC 9293 §3.8.6: the right edge never moves back.
#[test]
fn a_window_shrinks_only_by_what_arrives() {
    let mut s = Script::established(small_buffer());
    s.inject(". 1:1001(1000) ack 1").expect_at(60, ". 1:1(0) ack 1001 win 3000");
    s.inject(". 1001:1501(500) ack 1").expect_at(100, ". 1:1(0) ack 1501 win 2500");
}

/// RFC 9293 §3.8.6.2.1: a small part of a large window is not used.
#[test]
fn a_sender_does_not_fill_a_silly_window() {
    let mut s = Script::established(plain());
    s.inject(". 1:1(0) ack 1 win 1400").write(4_000).expect(". 1:1001(1000) ack 1").quiet();
    s.at(100).inject(". 1:1(0) ack 1001 win 1400").expect(". 1001:2001(1000) ack 1").quiet();
}

/// RFC 9293 §3.8.6.2.1 (3): half the largest window the peer ever had is worth sending.
#[test]
fn a_peer_with_a_small_buffer_gets_what_it_can_take() {
    let config = plain();
    let mut s = Script::listening(config);
    s.inject("S 0:0(0) win 300 <mss 1000>").expect("S. 0:0(0) ack 1");
    s.inject(". 1:1(0) ack 1 win 300").write(1_000).expect(". 1:301(300) ack 1").quiet();
    s.at(100).inject(". 1:1(0) ack 301 win 200").expect(". 301:501(200) ack 1").quiet();
}

/// RFC 9293 §3.10.7.4: the window of an older segment is not taken.
#[test]
fn an_old_window_is_ignored() {
    let mut s = Script::established(plain());
    s.inject("P. 1:101(100) ack 1 win 5000").expect_at(60, ". 1:1(0) ack 101");
    s.inject(". 101:101(0) ack 1 win 4000");
    s.inject(". 60:60(0) ack 1 win 9000").pass(70).take();
    assert_eq!(s.connection().sender().peer_window(), 4_000);
}

/// The right edge may move back, though it should not (RFC 9293 §3.8.6).
#[test]
fn a_peer_that_takes_its_window_back_is_heeded() {
    let mut s = Script::established(plain());
    s.write(2_000).expect(". 1:1001(1000) ack 1").expect("P. 1001:2001(1000) ack 1");
    s.inject(". 1:1(0) ack 2001 win 0").write(100).quiet();
    assert_eq!(s.connection().sender().peer_window(), 0);
}

/// RFC 9293 §3.7.4.
#[test]
fn nagle_holds_a_small_segment_while_data_is_unacknowledged() {
    let mut s = Script::established(plain_but(|p| p.nagle = true));
    s.write(10).expect("P. 1:11(10) ack 1").write(10).quiet().write(10).quiet();
    s.at(100).inject(". 1:1(0) ack 11").expect("P. 11:31(20) ack 1").quiet();
}

#[test]
fn nagle_sends_full_segments_at_once() {
    let mut s = Script::established(plain_but(|p| p.nagle = true));
    s.write(10).expect("P. 1:11(10) ack 1").write(990).quiet();
    s.write(10).expect("P. 11:1011(1000) ack 1").quiet();
}

#[test]
fn nagle_does_not_hold_the_last_segment() {
    let mut s = Script::established(plain_but(|p| p.nagle = true));
    s.write(10).expect("P. 1:11(10) ack 1").write(10).quiet();
    s.close().expect("FP. 11:21(10) ack 1").quiet();
}

#[test]
fn without_nagle_small_segments_leave_at_once() {
    let mut s = Script::established(plain());
    s.write(10).expect("P. 1:11(10) ack 1").write(10).expect("P. 11:21(10) ack 1").quiet();
}

#[test]
fn a_blocked_writer_hears_when_there_is_room() {
    let mut s = Script::established(ConnectionConfig { send_buffer: Bytes(3_000), ..plain() });
    s.write(5_000).expect(". 1:1001(1000) ack 1").expect(". 1001:2001(1000) ack 1");
    s.expect("P. 2001:3001(1000) ack 1").quiet();
    assert_eq!(s.connection().writable(), 0);
    s.at(100).inject(". 1:1(0) ack 1001").event(Event::Writable).no_event();
    assert_eq!(s.connection().writable(), 1_000);
}

/// A peer that has filled the window, and lost the first of it, stands at the edge.
#[test]
fn an_acknowledgment_at_the_very_edge_of_the_window_counts() {
    let mut s = Script::established(small_buffer());
    s.write(100).expect("P. 1:101(100) ack 1");
    for from in [1_001, 2_001, 3_001] {
        s.inject(&format!(". {from}:{}(1000) ack 1", from + 1_000)).expect(". 101:101(0) ack 1");
    }
    s.inject(". 4001:4001(0) ack 101").quiet();
    assert_eq!(s.connection().sender().una(), 101);
}

/// RFC 9293 §3.10.7.4: the special allowance for a closed window.
#[test]
fn data_for_a_closed_window_still_acknowledges() {
    let mut s = Script::established(small_buffer());
    s.inject(". 1:2001(2000) ack 1").expect(". 1:1(0) ack 2001 win 2000");
    s.inject(". 2001:4001(2000) ack 1").expect(". 1:1(0) ack 4001 win 0");
    s.write(100).expect("P. 1:101(100) ack 4001 win 0");
    s.inject(". 4001:4101(100) ack 101").expect(". 101:101(0) ack 4001 win 0").quiet();
    assert_eq!((s.connection().sender().una(), s.connection().readable()), (101, 4_000));
}

#[test]
fn a_reader_with_plenty_of_window_left_causes_no_update() {
    let mut s = Script::established(plain());
    for from in (1..10_000).step_by(2_000) {
        let (middle, to) = (from + 1_000, from + 2_000);
        s.inject(&format!(". {from}:{middle}(1000) ack 1")).inject(&format!(". {middle}:{to}(1000) ack 1"));
        s.expect(&format!(". 1:1(0) ack {to}"));
    }
    s.read_up_to(10_000).quiet();
}

/// RFC 7323 §2.2: also for whoever sends first.
#[test]
fn the_window_of_a_syn_ack_is_not_scaled() {
    let mut s = Script::connecting(plain_but(|p| p.window_scaling = true));
    s.expect("S 0:0(0)").write(2_000);
    s.inject("S. 0:0(0) ack 1 win 500 <mss 1000,wscale 3>");
    s.expect(". 1:501(500) ack 1").quiet();
}

/// A host whose retransmission timer stops when the window shrinks to nothing.
fn persisting() -> ConnectionConfig {
    plain_but(|profile| profile.persist_on_shrink = true)
}

/// RFC 9293 §3.8.6 (SHLD-16): what is outstanding is sent again though the window has shrunk, and one segment follows.
#[test]
fn without_persist_a_window_that_shrinks_to_nothing_stops_no_timer() {
    let mut s = Script::established(plain());
    s.write(4_000).expect(". 1:1001(1000) ack 1").expect(". 1001:2001(1000) ack 1");
    s.expect(". 2001:3001(1000) ack 1").expect("P. 3001:4001(1000) ack 1");
    s.at(100).inject(". 1:1(0) ack 1000 win 0").quiet();
    s.expect_at(1_100, ". 1000:2000(1000) ack 1");
}

/// M-TCP, as its authors have the supervisor host do it: all but the last byte that was delivered is acknowledged; when the mobile host is
/// away, that byte is acknowledged with a window of zero. The sender persists: no RTO, and probes that are farther and farther apart. When the
/// host is back the window opens, and all that is outstanding leaves at once, for the congestion window is what it was.
#[test]
fn a_sender_that_persists_is_stopped_by_a_closed_window_and_goes_on_with_its_window() {
    let mut s = Script::established(persisting());
    s.write(4_000).expect(". 1:1001(1000) ack 1").expect(". 1001:2001(1000) ack 1");
    s.expect(". 2001:3001(1000) ack 1").expect("P. 3001:4001(1000) ack 1");
    s.at(100).inject(". 1:1(0) ack 1000 win 8000").quiet();
    s.at(600).inject(". 1:1(0) ack 1001 win 0").quiet();
    s.expect_at(1_600, ". 1000:1000(0) ack 1").inject(". 1:1(0) ack 1001 win 0").quiet();
    s.expect_at(3_600, ". 1000:1000(0) ack 1").inject(". 1:1(0) ack 1001 win 0").quiet();
    s.at(5_000).inject(". 1:1(0) ack 1001 win 8000");
    s.expect(". 1001:2001(1000) ack 1").expect(". 2001:3001(1000) ack 1");
    s.expect("P. 3001:4001(1000) ack 1").quiet();
    // The RTO was not doubled either.
    s.expect_at(6_000, ". 1001:2001(1000) ack 1");
}

/// What arrives while the window is closed need not be sent again.
#[test]
fn a_sender_that_persists_repeats_only_what_is_still_outstanding() {
    let mut s = Script::established(persisting());
    s.write(4_000).expect(". 1:1001(1000) ack 1").expect(". 1001:2001(1000) ack 1");
    s.expect(". 2001:3001(1000) ack 1").expect("P. 3001:4001(1000) ack 1");
    s.at(100).inject(". 1:1(0) ack 1 win 0").quiet();
    s.at(200).inject(". 1:1(0) ack 3001 win 0").quiet();
    s.at(300).inject(". 1:1(0) ack 3001 win 8000").expect("P. 3001:4001(1000) ack 1").quiet();
    s.at(400).inject(". 1:1(0) ack 4001 win 0").quiet();
    s.at(120_000).quiet();
}

/// Duplicates of a closed window are no sign of a loss.
#[test]
fn a_sender_that_persists_takes_no_duplicates_for_a_loss() {
    let mut s = Script::established(persisting());
    s.write(4_000).expect(". 1:1001(1000) ack 1").expect(". 1001:2001(1000) ack 1");
    s.expect(". 2001:3001(1000) ack 1").expect("P. 3001:4001(1000) ack 1");
    for ms in [100, 110, 120, 130, 140] {
        s.at(ms).inject(". 1:1(0) ack 1 win 0").quiet();
    }
}
