//! Path MTU discovery from ICMP: RFC 1191, RFC 8201, with the checks of RFC 5927.
use super::{Script, plain, plain_but};
use shorthaul_wire::IcmpErrorKind;

const fn too_big(mtu: u32) -> IcmpErrorKind {
    IcmpErrorKind::PacketTooBig { mtu }
}

#[test]
fn a_segment_that_was_too_big_is_retransmitted_in_smaller_ones() {
    let mut s = Script::established_with(plain(), "mss 1460", "");
    s.write(1_460).expect("P. 1:1461(1460) ack 1");
    s.at(30).inject_icmp(1, too_big(1_040));
    s.expect(". 1:1001(1000) ack 1").expect("P. 1001:1461(460) ack 1").quiet();
    assert_eq!(s.connection().sender().mss(), 1_000);
}

/// RFC 8201 §5.3: what a router told grows old.
#[test]
fn after_ten_minutes_the_full_size_is_tried_again() {
    let mut s = Script::established_with(plain(), "mss 1460", "");
    s.write(1_460).expect("P. 1:1461(1460) ack 1").at(30).inject_icmp(1, too_big(1_040));
    s.expect(". 1:1001(1000) ack 1").expect("P. 1001:1461(460) ack 1");
    s.at(60).inject(". 1:1(0) ack 1461");
    s.at(600_029).write(1_200).expect(". 1461:2461(1000) ack 1").expect("P. 2461:2661(200) ack 1");
    s.at(600_030).inject(". 1:1(0) ack 2661");
    s.write(1_460).expect("P. 2661:4121(1460) ack 1").inject_icmp(2_661, too_big(1_040));
    s.expect(". 2661:3661(1000) ack 1").expect("P. 3661:4121(460) ack 1");
}

#[test]
fn options_are_deducted_from_the_path_mtu() {
    let config = plain_but(|p| p.timestamps = true);
    let mut s = Script::established_with(config, "mss 1460,TS val 1 ecr 0", "TS val 2 ecr 0");
    s.write(1_448).expect("P. 1:1449(1448) ack 1").inject_icmp(1, too_big(1_240));
    assert_eq!(s.connection().sender().mss(), 1_188);
}

/// RFC 5927 §4.1: an error about something that cannot be on the way is forged.
#[test]
fn an_error_about_nothing_in_flight_is_ignored() {
    let mut s = Script::established_with(plain(), "mss 1460", "");
    s.inject_icmp(1, too_big(600)).quiet();
    s.write(1_460).expect("P. 1:1461(1460) ack 1").inject_icmp(5_000, too_big(600)).quiet();
    assert_eq!(s.connection().sender().mss(), 1_460);
}

#[test]
fn a_path_mtu_below_the_floor_is_not_believed() {
    let mut s = Script::established_with(plain(), "mss 1460", "");
    s.write(1_460).expect("P. 1:1461(1460) ack 1").inject_icmp(1, too_big(68));
    assert_eq!(s.connection().sender().mss(), 512);
}

/// RFC 1191 §7: the next lower size that real links have.
#[test]
fn an_old_router_that_says_no_size_means_the_next_plateau() {
    let mut s = Script::established_with(plain(), "mss 1460", "");
    s.write(1_460).expect("P. 1:1461(1460) ack 1").inject_icmp(1, too_big(0));
    assert_eq!(s.connection().sender().mss(), 1_452);
}

#[test]
fn a_larger_mtu_changes_nothing() {
    let mut s = Script::established(plain());
    s.write(1_000).expect("P. 1:1001(1000) ack 1").inject_icmp(1, too_big(9_000)).quiet();
    assert_eq!(s.connection().sender().mss(), 1_000);
}

/// RFC 5927 §5.2: an established connection survives "unreachable".
#[test]
fn an_unreachable_peer_does_not_end_an_established_connection() {
    let mut s = Script::established(plain());
    s.write(10).expect("P. 1:11(10) ack 1");
    s.inject_icmp(1, IcmpErrorKind::Unreachable { code: 3 }).quiet().no_event();
    s.inject(". 1:1(0) ack 11").quiet().no_event();
}
