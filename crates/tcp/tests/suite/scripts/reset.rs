//! Resets and blind attacks: RFC 9293 §3.5.2 and §3.10, RFC 5961, RFC 2525.
use super::{Script, plain};
use shorthaul_tcp::{Event, Failure, State};

/// RFC 5961 §3.2 (1).
#[test]
fn a_reset_in_the_right_place_resets() {
    let mut s = Script::established(plain());
    s.at(100).inject("R 1:1(0)").quiet().event(Event::Failed(Failure::Reset));
    assert!(s.is_forgotten());
}

/// RFC 5961 §3.2 (2): a real peer answers the challenge with a reset in the right place.
#[test]
fn a_reset_elsewhere_in_the_window_is_challenged() {
    let mut s = Script::established(plain());
    s.at(100).inject("R 2:2(0)").expect(". 1:1(0) ack 1").quiet().no_event();
    s.at(110).inject("R 1:1(0)").quiet().event(Event::Failed(Failure::Reset));
}

/// RFC 5961 §3.2 (3).
#[test]
fn a_reset_outside_the_window_is_ignored() {
    let mut s = Script::established(plain());
    s.at(100).inject("R 70000:70000(0)").quiet().inject("R 0:0(0)").quiet().no_event();
    assert_eq!(s.connection().state(), State::Established);
}

/// RFC 5961 §4.2: whatever its sequence number.
#[test]
fn a_syn_on_a_connection_is_challenged() {
    let mut s = Script::established(plain());
    s.at(100).inject("S 1:1(0) <mss 1000>").expect(". 1:1(0) ack 1").quiet();
    s.at(200).inject("S 900000:900000(0) <mss 1000>").expect(". 1:1(0) ack 1").quiet().no_event();
}

/// RFC 5961 §5.2: an acknowledgment of what was never sent.
#[test]
fn an_acknowledgment_from_the_future_is_challenged() {
    let mut s = Script::established(plain());
    s.at(100).inject("P. 1:11(10) ack 500").expect(". 1:1(0) ack 1").quiet().no_event();
    assert_eq!(s.connection().readable(), 0, "its data may be forged, too");
}

/// RFC 5961 §5.2: older than any window that the peer ever had open.
#[test]
fn an_acknowledgment_from_the_distant_past_is_challenged() {
    let mut s = Script::listening(plain());
    s.inject("S 0:0(0) win 2000 <mss 1000>").expect("S. 0:0(0) ack 1");
    s.inject(". 1:1(0) ack 1 win 2000").event(Event::Connected);
    for sent in [2_000, 4_000, 6_000] {
        s.write(2_000).take();
        s.inject(&format!(". 1:1(0) ack {} win 2000", sent + 1)).quiet();
    }
    s.at(100).inject("P. 1:11(10) ack 4000 win 2000").expect(". 6001:6001(0) ack 1").quiet().no_event();
    s.at(200).inject("P. 1:11(10) ack 4001 win 2000").event(Event::Readable);
}

/// RFC 5961 §7: ten in five seconds.
#[test]
fn challenges_are_limited() {
    let mut s = Script::established(plain());
    s.at(10_000);
    for _ in 0..10 {
        s.inject("S 5:5(0) <mss 1000>").expect(". 1:1(0) ack 1");
    }
    for _ in 0..100 {
        s.inject("S 5:5(0) <mss 1000>").quiet();
    }
    s.at(15_000).inject("S 5:5(0) <mss 1000>").expect(". 1:1(0) ack 1").quiet();
}

/// RFC 9293 §3.10.5.
#[test]
fn an_abort_resets_the_peer() {
    let mut s = Script::established(plain());
    s.write(100).expect("P. 1:101(100) ack 1");
    s.abort().expect("R. 101:101(0) ack 1").quiet().event(Event::Failed(Failure::Aborted));
    assert!(s.is_forgotten());
}

#[test]
fn an_abort_before_the_handshake_needs_no_reset() {
    let mut s = Script::connecting(plain());
    s.expect("S 0:0(0)").abort().quiet().event(Event::Failed(Failure::Aborted));
}

/// After an abort the connection is unknown; what still comes is reset.
#[test]
fn data_after_an_abort_is_reset() {
    let mut s = Script::established(plain());
    s.abort().expect("R. 1:1(0) ack 1");
    s.inject("P. 1:11(10) ack 1").expect("R 1:1(0)").quiet();
}

/// RFC 9293 §3.10.7.4: below the window, so an acknowledgment and nothing else.
#[test]
fn a_segment_outside_the_window_is_answered_and_dropped() {
    let mut s = Script::established(plain());
    s.at(100).inject("P. 70000:70010(10) ack 1").expect(". 1:1(0) ack 1").quiet().no_event();
}

#[test]
fn a_segment_without_acknowledgment_is_dropped() {
    let mut s = Script::established(plain());
    s.at(100).inject("P 1:11(10)").quiet().no_event();
    assert_eq!(s.connection().readable(), 0);
}

/// RFC 1337 warns of it, RFC 9293 §3.10.7.4 asks for it.
#[test]
fn a_reset_ends_time_wait() {
    let mut s = Script::established(plain());
    s.close().expect("F. 1:1(0) ack 1").inject("F. 1:1(0) ack 2").expect(". 2:2(0) ack 2");
    s.event(Event::PeerClosed).at(100).inject("R 2:2(0)").quiet().event(Event::Closed);
}

/// RFC 9293 §3.10.7.4 ends LAST-ACK without error: right for a FIN alone, and not for data that may never have arrived.
#[test]
fn a_reset_in_last_ack_is_a_failure_if_data_is_unacknowledged() {
    let mut s = Script::established(plain());
    s.at(100).inject("F. 1:1(0) ack 1").expect(". 1:1(0) ack 2").event(Event::PeerClosed);
    s.at(110).write(10).expect("P. 1:11(10) ack 2").close().expect("F. 11:11(0) ack 2").quiet();
    assert_eq!(s.connection().state(), State::LastAck);
    s.at(120).inject("R 2:2(0)").event(Event::Failed(Failure::Reset));
    let mut s = Script::established(plain());
    s.at(100).inject("F. 1:1(0) ack 1").expect(". 1:1(0) ack 2").event(Event::PeerClosed);
    s.at(110).write(10).expect("P. 1:11(10) ack 2").close().expect("F. 11:11(0) ack 2").quiet();
    s.at(120).inject(". 2:2(0) ack 11").inject("R 2:2(0)").event(Event::Closed);
}
