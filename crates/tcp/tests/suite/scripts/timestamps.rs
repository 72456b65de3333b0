//! Timestamps: RFC 7323 §3 to §5; a new connection out of TIME-WAIT: RFC 6191.
use super::{Script, plain_but};
use shorthaul_tcp::{ConnectionConfig, Event, State};

fn stamped() -> ConnectionConfig {
    plain_but(|p| p.timestamps = true)
}

fn established() -> Script {
    Script::established_with(stamped(), "mss 1012,TS val 100 ecr 0", "TS val 120 ecr 0")
}

/// §4.1: which of two transmissions arrived, and when it was sent, the echo tells.
#[test]
fn an_echo_measures_the_round_trip_of_what_was_sent_twice() {
    let latest = |ecr: &str| {
        let mut s = established();
        s.at(100).write_segments(1).pass(2_000).take();
        s.inject(&format!(". 1:1(0) ack 1001 <TS val 900 ecr {ecr}>"));
        (s.connection().sender().stats().timeouts > 0, s.connection().sender().rtt().latest())
    };
    let millis = |ms| (true, Some(core::time::Duration::from_millis(ms)));
    assert_eq!(latest("1950"), millis(51), "and a tick, as the clock is no finer");
    assert_eq!(latest("100"), millis(1_901));
    // A time to come was never sent: the sample of the handshake stands.
    assert_eq!(latest("2001"), millis(20));
}

/// RFC 1323 §3.1, as 4.4BSD has it: the round trip of the timer is the echo's, whatever our own clock says. So a base station that echoes a later
/// timestamp hides how long data was with it (W-TCP), which it cannot from a sender that goes by its own clock.
#[test]
fn with_rttm_the_timer_goes_by_the_echo_and_not_by_our_clock() {
    let timer = |rttm: bool| {
        let mut s = Script::established_with(
            plain_but(|p| (p.timestamps, p.rttm) = (true, rttm)),
            "mss 1012,TS val 100 ecr 0",
            "TS val 120 ecr 0",
        );
        // Of 850 ms each segment is in the base station for 800.
        for number in 0..10 {
            let sent = 100 + 900 * number;
            s.at(sent).write_segments(1).take();
            let (ack, now, echo) = (1001 + 1000 * number, sent + 850, sent + 800);
            s.at(now).inject(&format!(". 1:1(0) ack {ack} <TS val {now} ecr {echo}>"));
        }
        let rtt = s.connection().sender().rtt();
        (rtt.latest().unwrap().as_millis(), rtt.srtt().unwrap().as_millis())
    };
    // And a tick, as the clock is no finer.
    let (latest, smoothed) = timer(true);
    assert!(latest == 51 && smoothed <= 51, "{latest} {smoothed}");
    let (latest, smoothed) = timer(false);
    assert!(latest == 850 && smoothed > 500, "{latest} {smoothed}");
}

/// Where there are no timestamps, it is our own clock's all the same.
#[test]
fn with_rttm_but_without_timestamps_the_timer_goes_by_our_clock() {
    let mut s = Script::established(plain_but(|p| p.rttm = true));
    s.at(100).write_segments(1).take();
    s.at(170).inject(". 1:1(0) ack 1001");
    assert_eq!(s.connection().sender().rtt().latest(), Some(core::time::Duration::from_millis(70)));
}

/// RFC 3522 §3.2: an echo from before the repair shows that the timeout was a mistake.
#[test]
fn an_echo_older_than_the_repair_undoes_a_timeout() {
    let undone = |ecr: &str| {
        let mut s = Script::established_with(
            plain_but(|p| (p.timestamps, p.f_rto) = (true, false)),
            "mss 1012,TS val 100 ecr 0",
            "TS val 120 ecr 0",
        );
        s.at(100).write_segments(1).pass(2_000).take();
        s.inject(&format!(". 1:1(0) ack 1001 <TS val 900 ecr {ecr}>"));
        let stats = s.connection().sender().stats();
        (stats.timeouts, stats.undone)
    };
    assert_eq!(undone("100"), (1, 1));
    assert_eq!(undone("1200"), (1, 0));
}

/// §4.3.
#[test]
fn the_timestamp_of_the_segment_at_the_edge_is_echoed() {
    let mut s = established();
    s.at(100).inject("P. 1:101(100) ack 1 <TS val 200 ecr 20>");
    s.expect_at(140, ". 1:1(0) ack 101 <TS val 140 ecr 200>");
}

/// §4.3 (A): a delayed acknowledgment echoes the earliest segment that it covers.
#[test]
fn a_delayed_acknowledgment_echoes_the_first_segment() {
    let mut s = established();
    s.at(100).inject(". 1:1001(1000) ack 1 <TS val 200 ecr 20>").quiet();
    s.at(110).inject(". 1001:2001(1000) ack 1 <TS val 210 ecr 20>");
    s.expect(". 1:1(0) ack 2001 <TS val 110 ecr 200>");
}

/// §4.3 (B): while there is a gap, the last segment before it is echoed.
#[test]
fn a_segment_behind_a_gap_is_not_echoed() {
    let mut s = established();
    s.at(100).inject("P. 1:101(100) ack 1 <TS val 200 ecr 20>").expect_at(140, ". 1:1(0) ack 101");
    s.at(150).inject("P. 201:301(100) ack 1 <TS val 250 ecr 20>");
    s.expect(". 1:1(0) ack 101 <TS val 150 ecr 200>");
}

/// §4.3 (C): the segment that fills the gap is.
#[test]
fn the_segment_that_fills_the_gap_is_echoed() {
    let mut s = established();
    s.at(150)
        .inject("P. 101:201(100) ack 1 <TS val 250 ecr 20>")
        .expect(". 1:1(0) ack 1 <TS val 150 ecr 120>");
    s.at(160)
        .inject("P. 1:101(100) ack 1 <TS val 260 ecr 20>")
        .expect(". 1:1(0) ack 201 <TS val 160 ecr 260>");
}

/// §5.3 R1.
#[test]
fn an_old_timestamp_makes_an_old_duplicate() {
    let mut s = established();
    s.at(100).inject("P. 1:101(100) ack 1 <TS val 119 ecr 20>").expect(". 1:1(0) ack 1").quiet().no_event();
    s.inject("P. 1:101(100) ack 1 <TS val 120 ecr 20>").event(Event::Readable);
}

/// As in Linux: an acknowledgment from below the window may just have been overtaken. With an octet of data it is answered.
#[test]
fn an_old_acknowledgment_with_an_old_timestamp_draws_nothing() {
    let mut s = established();
    s.at(100).inject("P. 1:101(100) ack 1 <TS val 120 ecr 20>").event(Event::Readable);
    s.expect_at(140, ". 1:1(0) ack 101 <TS val 140 ecr 120>");
    s.at(200).inject(". 1:1(0) ack 1 <TS val 119 ecr 20>").quiet().no_event();
    s.inject("P. 1:2(1) ack 1 <TS val 119 ecr 20>").expect(". 1:1(0) ack 101").no_event();
}

/// §5.2: the clock wraps.
#[test]
fn timestamps_compare_across_the_wrap() {
    let edge = 0xffff_fff0u32;
    let mut s = Script::established_with(
        stamped(),
        &format!("mss 1012,TS val {edge} ecr 0"),
        &format!("TS val {} ecr 0", edge + 4),
    );
    s.inject("P. 1:101(100) ack 1 <TS val 5 ecr 20>").event(Event::Readable);
    s.inject(&format!("P. 101:201(100) ack 1 <TS val {edge} ecr 20>")).expect(". 1:1(0) ack 101").no_event();
}

/// §5.3: a reset has no timestamp that counts.
#[test]
fn a_reset_is_not_checked() {
    let mut s = established();
    s.at(100).inject("R 1:1(0) <TS val 1 ecr 0>").quiet();
    assert!(s.is_forgotten());
}

/// §3.2: once agreed on, they are in every segment.
#[test]
fn a_segment_without_timestamps_is_dropped() {
    let mut s = established();
    s.at(100).inject("P. 1:101(100) ack 1").quiet().no_event();
    s.inject("R 1:1(0)").quiet();
    assert!(s.is_forgotten());
}

/// §5.5: 24 days are for a clock of milliseconds. One of microseconds, as Linux has it, goes half round in 2147 s.
#[test]
fn a_timestamp_does_not_outlive_half_a_turn_of_the_fastest_clock() {
    let mut s = established();
    s.at(2_146_000).inject("P. 1:101(100) ack 1 <TS val 7 ecr 0>").expect(". 1:1(0) ack 1").no_event();
    s.at(2_148_000).inject("P. 1:101(100) ack 1 <TS val 7 ecr 0>").event(Event::Readable);
    let then = 2_148_040;
    s.expect_at(then, &format!(". 1:1(0) ack 101 <TS val {then} ecr 7>"));
}

/// §3.2: they take 12 bytes of the segment.
#[test]
fn a_segment_makes_room_for_its_timestamps() {
    let mut s = established();
    s.write(2_000)
        .expect(". 1:1001(1000) ack 1 <TS val 20 ecr 120>")
        .expect("P. 1001:2001(1000) ack 1")
        .quiet();
}

/// §4: a timestamp tells which SYN was answered.
#[test]
fn the_round_trip_is_known_though_the_syn_was_sent_twice() {
    let mut s = Script::connecting(stamped());
    s.expect("S 0:0(0) <mss 1460,TS val 0 ecr 0>").expect_at(1_000, "S 0:0(0) <mss 1460,TS val 1000 ecr 0>");
    s.at(1_300).inject("S. 0:0(0) ack 1 <mss 1012,TS val 9 ecr 1000>").expect(". 1:1(0) ack 1");
    assert_eq!(s.connection().sender().rtt().srtt().unwrap().as_millis(), 300);
}

fn time_wait() -> Script {
    let mut s = established();
    s.at(100).close().expect("F. 1:1(0) ack 1").inject("F. 1:1(0) ack 2 <TS val 200 ecr 100>");
    s.expect(". 2:2(0) ack 2").event(Event::PeerClosed);
    assert_eq!(s.connection().state(), State::TimeWait);
    s
}

/// RFC 6191 §2: a later timestamp shows that it is no old duplicate, whatever its number.
#[test]
fn a_syn_with_a_later_timestamp_ends_time_wait() {
    let mut s = time_wait();
    s.at(500).inject("S -5000:-5000(0) <mss 1012,TS val 300 ecr 0>");
    s.expect("S. 0:0(0) ack -4999").quiet().event(Event::Closed);
    s.inject(". -4999:-4999(0) ack 1 <TS val 310 ecr 500>").event(Event::Connected);
    assert_eq!((s.host.stats().reused, s.host.connections().count()), (1, 1));
}

/// RFC 6191 §2: an earlier one does not.
#[test]
fn a_syn_with_an_earlier_timestamp_does_not() {
    let mut s = time_wait();
    s.at(500).inject("S 9000:9000(0) <mss 1012,TS val 150 ecr 0>").expect(". 2:2(0) ack 2").quiet();
    assert_eq!((s.host.stats().reused, s.connection().state()), (0, State::TimeWait));
}

/// RFC 9293 §3.6.1: without timestamps a sequence number beyond the old ones shows it.
#[test]
fn without_timestamps_the_sequence_number_decides() {
    let mut s = Script::established(plain_but(|_| {}));
    s.at(100).close().expect("F. 1:1(0) ack 1").inject("F. 1:1(0) ack 2").expect(". 2:2(0) ack 2");
    s.at(500).inject("S -9:-9(0) <mss 1000>").expect(". 2:2(0) ack 2").quiet();
    s.at(600).inject("S 3:3(0) <mss 1000>").expect("S. 0:0(0) ack 4").quiet();
    assert_eq!(s.host.stats().reused, 1);
}

/// RFC 9293 §3.6.1: our numbers, too, begin beyond the old ones, though the clock has not come so far.
#[test]
fn the_sequence_numbers_of_a_successor_begin_above_the_old_ones() {
    let mut s = established();
    let old = s.own_isn();
    for sent in 1..=30 {
        s.write(10_000).take();
        s.inject(&format!(". 1:1(0) ack {} <TS val 120 ecr 20>", 10_000 * sent + 1)).take();
    }
    s.close().expect("F. 300001:300001(0) ack 1");
    s.inject("F. 1:1(0) ack 300002 <TS val 121 ecr 20>").expect(". 300002:300002(0) ack 2");
    s.at(30).inject("S 50:50(0) <mss 1012,TS val 130 ecr 0>").expect("S. 0:0(0) ack 51");
    assert!(s.own_isn().after(old + 300_002), "{:?} after {old:?}", s.own_isn());
}
