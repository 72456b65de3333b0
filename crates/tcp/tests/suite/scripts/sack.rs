//! Selective acknowledgments: RFC 2018, RFC 2883, RFC 8985.
use super::{Script, plain_but};
use shorthaul_tcp::ConnectionConfig;

fn sack() -> ConnectionConfig {
    plain_but(|p| p.sack = true)
}

fn established() -> Script {
    Script::established_with(sack(), "mss 1000,sackOK", "")
}

/// RFC 2018 §4.
#[test]
fn what_lies_behind_a_gap_is_reported() {
    let mut s = established();
    s.inject(". 1001:2001(1000) ack 1").expect(". 1:1(0) ack 1 <sack 1001:2001>");
    s.inject(". 2001:3001(1000) ack 1").expect(". 1:1(0) ack 1 <sack 1001:3001>").quiet();
}

/// RFC 2018 §4: the block with the newest segment comes first.
#[test]
fn the_newest_block_comes_first() {
    let mut s = established();
    s.inject(". 1001:2001(1000) ack 1").expect(". 1:1(0) ack 1 <sack 1001:2001>");
    s.inject(". 3001:4001(1000) ack 1").expect(". 1:1(0) ack 1 <sack 3001:4001 1001:2001>");
    s.inject(". 5001:6001(1000) ack 1").expect(". 1:1(0) ack 1 <sack 5001:6001 3001:4001 1001:2001>");
    s.inject(". 2001:3001(1000) ack 1").expect(". 1:1(0) ack 1 <sack 1001:4001 5001:6001>");
}

/// RFC 2018 §3: four blocks, three beside timestamps.
#[test]
fn beside_timestamps_there_is_room_for_three_blocks() {
    let config = plain_but(|p| (p.sack, p.timestamps) = (true, true));
    let mut s = Script::established_with(config, "mss 1012,sackOK,TS val 1 ecr 0", "TS val 2 ecr 0");
    for (i, block) in [2, 4, 6, 8, 10].into_iter().enumerate() {
        let from = block * 100;
        s.inject(&format!(". {from}:{}(100) ack 1 <TS val {} ecr 0>", from + 100, 3 + i));
    }
    let sent = s.take();
    assert!(sent.last().unwrap().starts_with(". 1:1(0) ack 1"), "{sent:?}");
    s.inject(". 1200:1300(100) ack 1 <TS val 9 ecr 0>");
    s.expect(". 1:1(0) ack 1 <TS val 20 ecr 2,sack 1200:1300 1000:1100 800:900>");
}

#[test]
fn without_agreement_nothing_is_reported() {
    let mut s = Script::established(sack());
    s.inject(". 1001:2001(1000) ack 1").expect(". 1:1(0) ack 1 <>");
}

/// RFC 2883 §4.1.1: a full segment that comes twice.
#[test]
fn a_duplicate_segment_is_reported() {
    let mut s = established();
    s.inject(". 1:1001(1000) ack 1").inject(". 1001:2001(1000) ack 1").expect(". 1:1(0) ack 2001 <>");
    s.inject(". 1:1001(1000) ack 1").expect(". 1:1(0) ack 2001 <sack 1:1001>");
    s.inject(". 2001:3001(1000) ack 1").expect_at(60, ". 1:1(0) ack 3001 <>");
}

/// RFC 2883 §4.1.2: behind a gap, the duplicate first, then its block.
#[test]
fn a_duplicate_behind_a_gap_is_reported_with_its_block() {
    let mut s = established();
    s.inject(". 1001:2001(1000) ack 1").expect(". 1:1(0) ack 1 <sack 1001:2001>");
    s.inject(". 2001:3001(1000) ack 1").expect(". 1:1(0) ack 1 <sack 1001:3001>");
    s.inject(". 1001:2001(1000) ack 1").expect(". 1:1(0) ack 1 <sack 1001:2001 1001:3001>");
}

/// RFC 2883 §4.2: a part of a segment.
#[test]
fn a_partial_duplicate_is_reported() {
    let mut s = established();
    s.inject(". 1:1001(1000) ack 1").expect_at(60, ". 1:1(0) ack 1001 <>");
    s.inject(". 501:1501(1000) ack 1").expect(". 1:1(0) ack 1501 <sack 501:1001>");
}

/// Data leaves with the blocks where they fit beside it (RFC 6691 §3).
#[test]
fn blocks_ride_on_data_only_where_there_is_room() {
    let mut s = established();
    s.inject(". 1001:2001(1000) ack 1").expect(". 1:1(0) ack 1 <sack 1001:2001>");
    s.write(100).expect("P. 1:101(100) ack 1 <sack 1001:2001>");
    s.write(1_000).expect("P. 101:1101(1000) ack 1 <>").quiet();
    s.write(988).expect("P. 1101:2089(988) ack 1 <sack 1001:2001>");
}

/// RFC 8985 §6.2, RFC 6675: three segments beyond it were delivered.
#[test]
fn a_hole_is_filled_when_three_segments_beyond_it_have_arrived() {
    let mut s = established();
    s.write_segments(5);
    s.at(40).inject(". 1:1(0) ack 1 <sack 1001:2001>").quiet();
    s.inject(". 1:1(0) ack 1 <sack 1001:3001>").quiet();
    s.inject(". 1:1(0) ack 1 <sack 1001:4001>").expect(". 1:1001(1000) ack 1").quiet();
    s.at(60).inject(". 1:1(0) ack 5001").quiet();
    assert_eq!(s.connection().sender().stats().retransmitted, 1_000);
}

#[test]
fn only_the_holes_are_filled() {
    let mut s = established();
    s.write_segments(8);
    s.at(40).inject(". 1:1(0) ack 1 <sack 1001:2001 3001:4001 5001:8001>");
    s.expect(". 1:1001(1000) ack 1")
        .expect(". 2001:3001(1000) ack 1")
        .expect(". 4001:5001(1000) ack 1")
        .quiet();
}

/// RFC 8985 §7.3: the last segment is retransmitted before the retransmission timer.
#[test]
fn a_lost_tail_is_probed() {
    let mut s = established();
    s.write_segments(3);
    // Two round trips of 20 ms, measured in the handshake.
    s.expect_at(60, "P. 2001:3001(1000) ack 1").quiet();
    s.at(80).inject(". 1:1(0) ack 1 <sack 2001:3001>");
    s.pass(90);
    assert_eq!(s.take(), [". 1:1001(1000) ack 1", ". 1001:2001(1000) ack 1"]);
}

/// RFC 8985 §6: in time rather than by count: a reordered segment is waited for.
#[test]
fn two_segments_beyond_a_hole_are_waited_on_for_a_quarter_of_a_round_trip() {
    let mut s = established();
    s.write_segments(3);
    s.at(40).inject(". 1:1(0) ack 1 <sack 1001:3001>").quiet();
    s.quiet_until(44).expect_at(45, ". 1:1001(1000) ack 1");
}

/// RFC 2018 §8: a receiver may discard what it reported; after a timeout all is retransmitted.
#[test]
fn a_receiver_that_reneges_gets_everything_again() {
    let mut s = established();
    s.write_segments(2);
    s.at(40).inject(". 1:1(0) ack 1 <sack 1001:2001>");
    s.pass(60);
    s.take();
    s.at(70).inject(". 1:1(0) ack 1001").quiet();
    s.pass(1_500);
    assert_eq!(s.take(), ["P. 1001:2001(1000) ack 1"]);
}
