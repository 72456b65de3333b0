//! The rate option between two ends that want it: WTCP.
use super::{Script, plain, plain_but};
use shorthaul_congestion::Algorithm;
use shorthaul_tcp::{ConnectionConfig, LossDetection, RateReporting};

fn reporting() -> ConnectionConfig {
    plain_but(|p| {
        p.congestion = Algorithm::Wtcp;
        p.rate_report = RateReporting::WTCP;
        p.loss_detection = LossDetection::SACK; // without probes of the tail
        p.timestamps = true;
        p.sack = true;
        p.pacing = true;
    })
}

/// A connection that the peer opens, whose clock began at 5000 ms when ours began.
fn opened() -> Script {
    let mut s = Script::listening(reporting());
    s.inject("S 0:0(0) win 65535 <mss 1012,sackOK,TS val 5000 ecr 0,rates>")
        .expect("S. 0:0(0) ack 1 <mss 1460,sackOK,TS val 0 ecr 5000,rates>");
    s.at(20).inject(". 1:1(0) ack 1 win 65535 <TS val 5020 ecr 0>");
    s.drain_events();
    s
}

#[test]
fn it_is_used_only_where_both_ends_offer_it_and_have_timestamps() {
    let mut s = Script::listening(reporting());
    s.inject("S 0:0(0) win 65535 <mss 1000,sackOK,TS val 5 ecr 0>")
        .expect("S. 0:0(0) ack 1 <mss 1460,sackOK,TS val 0 ecr 5>");
    let mut s = Script::listening(reporting());
    s.inject("S 0:0(0) win 65535 <mss 1000,sackOK,rates>").expect("S. 0:0(0) ack 1 <mss 1460,sackOK>");
    let mut s = Script::listening(plain());
    s.inject("S 0:0(0) win 65535 <mss 1000,rates>").expect("S. 0:0(0) ack 1 <mss 1460>");
}

/// Two segments that were sent together come 400 ms apart: 1000 bytes in that time.
fn measured() -> Script {
    let mut s = opened();
    s.at(100).inject(". 1:1001(1000) ack 1 win 65535 <TS val 5060 ecr 0>");
    s.expect_at(140, ". 1:1(0) ack 1001 <TS val 140 ecr 5060>");
    s.at(500).inject(". 1001:2001(1000) ack 1 win 65535 <TS val 5060 ecr 0>");
    s.expect_at(540, ". 1:1(0) ack 2001 <TS val 540 ecr 5060,rate 2500>");
    s
}

#[test]
fn a_receiver_reports_what_a_pair_came_apart_by() {
    measured();
}

#[test]
fn beside_a_report_there_is_room_for_two_blocks() {
    let mut s = measured();
    for (first, blocks) in [(3001, "3001:4001"), (5001, "5001:6001 3001:4001"), (7001, "7001:8001 5001:6001")]
    {
        s.inject(&format!(". {first}:{}(1000) ack 1 win 65535 <TS val 5100 ecr 0>", first + 1000));
        s.expect(&format!(". 1:1(0) ack 2001 <TS val 540 ecr 5060,sack {blocks},rate 2500>"));
    }
}

#[test]
fn a_sender_paces_at_the_rate_that_is_reported_and_a_loss_does_not_slow_it_down() {
    let mut s = opened();
    s.write_segments(10);
    // 10 kB a second: a segment each 100 ms, behind two that were saved up.
    s.at(120).inject(". 1:1(0) ack 10001 win 65535 <TS val 5120 ecr 20,rate 10000>");
    let rate = |s: &Script| s.connection().sender().control().pacing_rate().map(|rate| rate.bytes_per_sec());
    assert_eq!(rate(&s), Some(10_000));
    for _ in 0..4 {
        s.write(1000);
    }
    s.expect("P. 10001:11001(1000) ack 1").expect("P. 11001:12001(1000) ack 1").quiet();
    s.expect_at(220, ". 12001:13001(1000) ack 1").expect_at(320, "P. 13001:14001(1000) ack 1");
    for edge in [12001, 13001, 14001] {
        let sacked = format!("sack 11001:{edge}");
        s.at(330).inject(&format!(". 1:1(0) ack 10001 win 65535 <TS val 5330 ecr 120,{sacked}>"));
    }
    s.expect_at(420, ". 10001:11001(1000) ack 1");
    assert_eq!(rate(&s), Some(10_000), "what is lost is sent again, in its turn");
}
