//! What the connections of a mobile host share: window, losses, stalls, turns and memory.
mod memory;
mod site;
mod slow_acknowledger;
mod tail_probe;

use shorthaul_proxy::{AggregateConfig, Clamp, Class, Gateway};
use shorthaul_types::{Bytes, Time};
use shorthaul_wire::{Packet, Payload, TcpFlags, TcpHeader, TcpSegment};
use site::*;
use std::collections::BTreeMap;

#[test]
fn connections_of_a_host_share_the_window_equally_and_other_hosts_have_their_own() {
    let mut site = Site::clamped(10_000);
    for flow in [A, B, OTHER] {
        site.open(flow);
    }
    for flow in [A, B, OTHER] {
        site.send(flow, 1, 20);
    }
    site.wait(300);
    let sent = site.sent();
    let of = |flow| sent.iter().filter(|s| s.0 == flow).map(|s| u64::from(s.2)).sum::<u64>();
    assert_eq!(of(A) + of(B), 10_000, "no slow start, and no more than the window");
    assert_eq!(of(OTHER), 10_000);
    assert_eq!((site.in_flight(0), site.in_flight(1)), (10_000, 10_000));
    assert!(of(A).abs_diff(of(B)) <= 2_000, "{sent:?}");
    // An acknowledgment lets exactly as much out, of both, whosever it was.
    site.mobile_says(A, TcpFlags::ACK, 2001, &[]);
    site.wait(100);
    let sent = site.sent();
    assert_eq!(sent.iter().map(|s| s.2).sum::<u32>(), 2000, "{sent:?}");
    assert!(sent.iter().any(|s| s.0 == B), "{sent:?}");
}

#[test]
fn the_first_burst_is_spread_over_the_round_trip() {
    let mut site = Site::clamped(20_000);
    site.open(A);
    site.send(A, 1, 40);
    assert!(site.down.len() <= 4, "{} segments at once", site.down.len());
    site.wait(100);
    assert_eq!(site.down.len(), 20);
}

/// Segments that six connections have on their way a round trip after their servers sent twenty each.
fn first_flight(handshake_ms: u64) -> usize {
    let mut site = Site::new(AggregateConfig {
        clamp: Clamp::Auto,
        interactive: Bytes(0),
        ..AggregateConfig::default()
    });
    let flows: Vec<(u16, u16)> = (0..6).map(|i| (1, 5001 + i)).collect();
    for &flow in &flows {
        site.mobile_says(flow, TcpFlags::SYN, 0, &[]);
        site.wait(10);
        site.server_says(flow, TcpFlags::SYN | TcpFlags::ACK, 0, 0);
        site.wait(handshake_ms);
        site.mobile_says(flow, TcpFlags::ACK, 1, &[]);
    }
    for &flow in &flows {
        site.send(flow, 1, 20);
    }
    site.wait(handshake_ms);
    site.sent().len()
}

#[test]
fn each_connection_begins_with_ten_segments_unless_the_link_is_a_slow_one() {
    assert_eq!(first_flight(100), 60);
    assert_eq!(first_flight(1500), 10, "all of them together");
}

#[test]
fn after_an_idle_time_the_window_is_what_it_was() {
    let mut site = Site::clamped(10_000);
    site.open(A);
    site.send(A, 1, 10);
    site.wait(100);
    site.mobile_says(A, TcpFlags::ACK, 10_001, &[]);
    site.wait(60_000);
    site.sent();
    site.send(A, 10_001, 30);
    site.wait(100);
    assert_eq!(site.sent().len(), 10);
}

#[test]
fn a_stall_is_probed_with_one_segment_at_equal_distances_and_the_first_answer_restores_the_window() {
    let mut site = Site::clamped(10_000);
    site.open(A);
    site.open(B);
    site.send(A, 1, 20);
    site.send(B, 1, 20);
    site.wait(110);
    site.mobile_says(A, TcpFlags::ACK, 1001, &[]);
    site.mobile_says(B, TcpFlags::ACK, 1001, &[]);
    site.wait(300);
    site.sent();
    site.wait(8_000);
    let times: Vec<Time> = site.down.iter().map(|(at, ..)| *at).collect();
    assert!(site.down.iter().all(|(_, _, _, len)| *len == MSS), "one segment at a time: {:?}", site.down);
    let gaps: Vec<u64> = times.windows(2).map(|w| w[1].saturating_since(w[0]).as_millis() as u64).collect();
    let steady = &gaps[..14];
    assert!(steady.iter().all(|gap| (140..=170).contains(gap)), "1.5 round trips of 100 ms: {gaps:?}");
    assert!(site.gateway.hosts().next().unwrap().stalled);
    // While the link is stalled, the servers are offered nothing more.
    let before = site.told[&A].1;
    site.send(A, 20_001, 20);
    assert_eq!(site.told[&A].1, before);
    site.sent();
    // The link is back: it answers the first segment of one of them.
    site.mobile_says(A, TcpFlags::ACK, 2001, &[]);
    site.mobile_says(A, TcpFlags::ACK, 6001, &[]);
    site.wait(150);
    assert!(!site.gateway.hosts().next().unwrap().stalled);
    assert!(site.sent().len() >= 4, "the window is open again");
}

#[test]
fn what_was_only_late_is_not_retransmitted_where_the_ends_have_timestamps() {
    let mut site = Site::clamped(10_000);
    site.stamps = Some((100, 100));
    site.open(A);
    site.send(A, 1, 9);
    site.wait(100);
    let ends: Vec<u32> = site.sent().iter().map(|(_, offset, len)| offset + len).collect();
    assert_eq!(ends.last(), Some(&9001));
    // The server is heard again, so that what is retransmitted is told from what was sent at first.
    site.stamps = Some((200, 100));
    site.server_says(A, TcpFlags::ACK, 9001, 0);
    site.wait(900);
    let probes = site.sent();
    assert!(probes.len() > 2 && probes.iter().all(|(_, offset, _)| *offset == 1), "{probes:?}");
    // Every acknowledgment had been on its way all the time. They arrive one by one, each later than a round trip.
    for ack in ends {
        site.mobile_says(A, TcpFlags::ACK, ack, &[]);
        site.wait(120);
    }
    assert_eq!(site.sent(), [], "everything had arrived");
}

/// What is retransmitted while draining is discarded with all its data by who was acknowledged much more (RFC 5961 §5.2).
#[test]
fn while_draining_the_other_end_s_acknowledgments_are_repeated_and_not_the_gateway_s_own() {
    let mut site = Site::clamped(10_000);
    site.open(A);
    site.send(A, 1, 3);
    site.wait(100);
    assert_eq!(site.sent().len(), 3);
    site.gateway.drain(site.now);
    // The phone sends 50 kB past us meanwhile, which the server acknowledges, and it offers 20 kB more.
    let header = site.header(TcpFlags::ACK, (A.1, 80), 1, 1);
    let segment = TcpSegment { header, payload: Payload::copy_of(&[1; 50_000]).into(), gso_size: None };
    site.hand_in(Gateway::ACCESS, Packet::tcp(ip(address(A.0), SERVER), segment));
    let header = TcpHeader { window: 20_000, ..site.header(TcpFlags::ACK, (80, A.1), 3001, 50_001) };
    let segment = TcpSegment { header, ..TcpSegment::default() };
    site.hand_in(Gateway::WAN, Packet::tcp(ip(SERVER, address(A.0)), segment));
    site.sent();
    site.wait(2_000);
    assert!(!site.sent().is_empty(), "what nobody has acknowledged is retransmitted");
    assert_eq!(site.told_below, (50_001, 70_001));
}

#[test]
fn a_loss_of_one_connection_shows_in_the_deliveries_of_another() {
    let mut site = Site::clamped(10_000);
    site.open(A);
    site.open(B);
    site.send(A, 1, 1);
    site.wait(20);
    site.send(B, 1, 6);
    site.wait(80);
    site.sent();
    // A's only segment is lost: nothing of its own would ever show it.
    for i in 1..=3 {
        site.wait(10);
        site.mobile_says(B, TcpFlags::ACK, 1 + i * 2 * MSS, &[]);
        assert_eq!(site.sent(), [], "its acknowledgment may only be delayed");
    }
    site.wait(250);
    assert_eq!(site.sent(), [(A, 1, MSS)]);
    assert!(!site.gateway.hosts().next().unwrap().stalled, "without a timeout");
}

#[test]
fn two_acknowledgments_are_not_enough() {
    let mut site = Site::clamped(10_000);
    site.open(A);
    site.open(B);
    site.send(A, 1, 1);
    site.wait(20);
    site.send(B, 1, 6);
    site.wait(80);
    site.sent();
    site.mobile_says(B, TcpFlags::ACK, 1 + 2 * MSS, &[]);
    site.mobile_says(B, TcpFlags::ACK, 1 + 4 * MSS, &[]);
    site.wait(250);
    assert_eq!(site.sent(), []);
}

#[test]
fn what_is_reported_is_not_retransmitted_and_the_window_stays() {
    let mut site = Site::clamped(10_000);
    site.open(A);
    site.send(A, 1, 30);
    site.wait(100);
    site.sent();
    // The first and the third are lost; four others arrive.
    site.mobile_says(A, TcpFlags::ACK, 1, &[(1001, 2001)]);
    site.mobile_says(A, TcpFlags::ACK, 1, &[(3001, 5001), (1001, 2001)]);
    site.mobile_says(A, TcpFlags::ACK, 1, &[(3001, 6001), (1001, 2001)]);
    site.wait(60);
    let again: Vec<u32> = site.sent().iter().filter(|s| s.1 < 10_001).map(|s| s.1).collect();
    assert_eq!(again, [1, 2001]);
    assert_eq!(
        site.in_flight(0),
        10_000,
        "what is lost is no longer in flight, and new data takes its place"
    );
}

#[test]
fn a_small_receive_window_is_never_overrun() {
    let mut site = Site::clamped(50_000);
    site.mobile_says_with_window(A, TcpFlags::SYN, 0, &[], 5_392);
    site.wait(10);
    site.server_says(A, TcpFlags::SYN | TcpFlags::ACK, 0, 0);
    site.wait(100);
    site.mobile_says_with_window(A, TcpFlags::ACK, 1, &[], 5_392);
    site.send(A, 1, 30);
    site.wait(100);
    let end = site.sent().iter().map(|s| s.1 + s.2).max().unwrap();
    assert!((5_001..=5_393).contains(&end), "{end}");
}

#[test]
fn an_abort_drops_what_is_queued_and_gives_its_part_of_the_window_to_the_others() {
    let mut site = Site::clamped(10_000);
    site.open(A);
    site.open(B);
    site.send(A, 1, 30);
    site.wait(100);
    site.send(B, 1, 20);
    site.wait(20);
    site.sent();
    let held = site.gateway.allocated();
    site.mobile_says(A, TcpFlags::RST | TcpFlags::ACK, 1, &[]);
    assert_eq!(site.resets, 1, "the server is told");
    assert!(site.gateway.allocated() + 25_000 < held, "{} of {held}", site.gateway.allocated());
    site.wait(100);
    let sent = site.sent();
    assert_eq!(sent.len(), 10, "{sent:?}");
    assert!(sent.iter().all(|s| s.0 == B));
}

#[test]
fn small_writes_that_wait_leave_in_full_segments() {
    let mut site = Site::clamped(3_000);
    site.open(A);
    site.send(A, 1, 3);
    for i in 0..20 {
        site.server_says(A, TcpFlags::ACK, 3_001 + 100 * i, 100);
    }
    site.wait(100);
    site.sent();
    site.mobile_says(A, TcpFlags::ACK, 3_001, &[]);
    site.wait(100);
    let lengths: Vec<u32> = site.sent().iter().map(|s| s.2).collect();
    assert_eq!(lengths, [1000, 1000], "twenty writes of 100 bytes");
}

#[test]
fn priorities_are_strict_and_tickets_are_shares() {
    let class = |name: &str, priority, tickets, port| Class {
        name: name.into(),
        priority,
        tickets,
        ports: vec![port],
        dscp: Vec::new(),
    };
    let classes = vec![class("first", 0, 1, 5001), class("three", 1, 3, 5002), class("one", 1, 1, 5003)];
    let mut site = Site::new(AggregateConfig { classes, ..config(8_000) });
    let flows = [(1, 5001), (1, 5002), (1, 5003)];
    flows.into_iter().for_each(|flow| site.open(flow));
    site.send(flows[1], 1, 40);
    site.send(flows[2], 1, 40);
    site.wait(200);
    site.send(flows[0], 1, 4);
    site.sent();
    // Each full window is acknowledged; what comes next is looked at.
    let mut acked: BTreeMap<(u16, u16), u32> = flows.into_iter().map(|flow| (flow, 1)).collect();
    let mut order = Vec::new();
    for _ in 0..4 {
        for flow in flows {
            let next = acked[&flow] + 2 * MSS;
            acked.insert(flow, next);
            if flow != flows[0] {
                site.mobile_says(flow, TcpFlags::ACK, next, &[]);
            }
            site.wait(30);
            order.extend(site.sent().into_iter().map(|s| s.0));
        }
    }
    assert!(order[..4].iter().all(|flow| *flow == flows[0]), "{order:?}");
    let count = |flow| order.iter().filter(|f| **f == flow).count();
    assert!(count(flows[1]) >= 2 * count(flows[2]), "{order:?}");
}

#[test]
fn the_beginning_of_a_response_goes_before_a_bulk_transfer() {
    let mut site = Site::new(AggregateConfig { interactive: Bytes(2_000), ..config(4_000) });
    site.open(A);
    site.send(A, 1, 40);
    site.wait(100);
    site.open(B);
    site.send(B, 1, 1);
    site.sent();
    site.mobile_says(A, TcpFlags::ACK, 1001, &[]);
    site.wait(50);
    assert_eq!(site.sent(), [(B, 1, MSS)], "the very next segment is the new connection's");
}

#[test]
fn a_fin_is_acknowledged_when_the_mobile_host_has_acknowledged_it() {
    let mut site = Site::clamped(10_000);
    site.open(A);
    site.server_says(A, TcpFlags::ACK | TcpFlags::FIN, 1, 500);
    site.wait(50);
    assert_eq!(site.told[&A].0, 501, "the data is acknowledged early, and the FIN is not");
    site.mobile_says(A, TcpFlags::ACK, 501, &[]);
    assert_eq!(site.told[&A].0, 501);
    site.mobile_says(A, TcpFlags::ACK, 502, &[]);
    assert_eq!(site.told[&A].0, 502);
}

#[test]
fn a_congestion_mark_narrows_the_window_for_a_while_once_a_round_trip() {
    let mut site = Site::clamped(10_000);
    site.ecn = true;
    site.open(A);
    let (mut server, mut windows) = (1, Vec::new());
    while server + MSS <= site.told.get(&A).map_or(10_001, |told| told.1) {
        site.send(A, server, 1);
        server += MSS;
    }
    for round in 0..30 {
        site.wait(110);
        let end = site.sent().iter().map(|s| s.1 + s.2).max().expect("something was sent");
        let flags = if round < 3 { TcpFlags::ACK | TcpFlags::ECE } else { TcpFlags::ACK };
        // Two acknowledgments tell of the same mark.
        site.mobile_says(A, flags, end - MSS, &[]);
        site.mobile_says(A, flags, end, &[]);
        windows.push(site.gateway.hosts().next().unwrap().window);
        while server + MSS <= site.told[&A].1 {
            site.send(A, server, 1);
            server += MSS;
        }
    }
    assert_eq!(windows[..3], [8_000, 6_400, 5_120]);
    assert!(windows[3..].windows(2).all(|w| w[1] >= w[0]), "{windows:?}");
    assert_eq!(*windows.last().unwrap(), 10_000, "{windows:?}");
}

#[test]
fn a_path_that_never_carried_a_full_segment_is_probed_with_smaller_ones() {
    let mut site = Site::clamped(20_000);
    site.mss = 1400;
    site.open(A);
    for i in 0..10 {
        site.server_says(A, TcpFlags::ACK, 1 + i * 1400, 1400);
    }
    site.wait(5_000);
    let lengths: Vec<u32> = site.sent().iter().map(|s| s.2).collect();
    assert!(
        lengths.contains(&1400) && lengths.contains(&1208) && lengths.last() == Some(&536),
        "{lengths:?}"
    );
    // One that did is not: it is an outage.
    let mut site = Site::clamped(20_000);
    site.mss = 1400;
    site.open(A);
    for i in 0..10 {
        site.server_says(A, TcpFlags::ACK, 1 + i * 1400, 1400);
    }
    site.wait(200);
    site.mobile_says(A, TcpFlags::ACK, 2801, &[]);
    site.wait(5_000);
    assert!(site.sent().iter().all(|s| s.2 == 1400));
}

#[test]
fn a_connection_whose_peer_is_gone_holds_nobody_up() {
    let mut site = Site::clamped(10_000);
    site.open(A);
    site.open(B);
    // A's peer never answers; when B has something to send, the link seems to carry nothing.
    site.send(A, 1, 10);
    site.wait(8_000);
    assert!(site.gateway.hosts().next().unwrap().stalled);
    site.sent();
    site.send(B, 1, 10);
    site.wait(160);
    assert!(site.sent().contains(&(B, 1, MSS)), "it probes the link within 1.5 round trips");
    site.mobile_says(B, TcpFlags::ACK, 1001, &[]);
    assert!(!site.gateway.hosts().next().unwrap().stalled);
    // Soon the window is B's.
    let (mut end, mut server, mut rounds) = (1001, 10_001, Vec::new());
    for _ in 0..40 {
        while server + MSS <= site.told[&B].1 {
            site.send(B, server, 1);
            server += MSS;
        }
        site.wait(150);
        let sent = site.sent();
        rounds.push(sent.iter().filter(|s| s.0 == B).count());
        end = sent.iter().filter(|s| s.0 == B).map(|s| s.1 + s.2).max().unwrap_or(end).max(end);
        site.mobile_says(B, TcpFlags::ACK, end - MSS, &[]);
        site.mobile_says(B, TcpFlags::ACK, end, &[]);
    }
    assert!(rounds[20..].iter().all(|count| *count == 10), "{rounds:?}");
    while end < server {
        site.wait(150);
        let sent = site.sent();
        end = sent.iter().filter(|s| s.0 == B).map(|s| s.1 + s.2).max().expect("there is more");
        site.mobile_says(B, TcpFlags::ACK, end, &[]);
    }
    assert!(!site.gateway.hosts().next().unwrap().stalled);
    // A is asked all the same, less and less often, …
    site.wait(30_000);
    let of_a = std::mem::take(&mut site.down);
    assert!(of_a.iter().all(|s| s.1 == A && s.2 == 1 && s.3 <= MSS), "{of_a:?}");
    let gaps: Vec<u64> = of_a.windows(2).map(|w| w[1].0.saturating_since(w[0].0).as_secs()).collect();
    assert!(
        !gaps.is_empty() && gaps.windows(2).all(|w| w[1] >= w[0]) && gaps.iter().all(|gap| *gap >= 4),
        "{gaps:?}"
    );
    // … and when it answers, it has its part of the window again.
    site.mobile_says(A, TcpFlags::ACK, 1001, &[]);
    site.mobile_says(A, TcpFlags::ACK, 10_001, &[]);
    site.send(A, 10_001, 10);
    site.wait(150);
    let sent = site.sent();
    let bytes: u32 = sent.iter().filter(|s| s.0 == A).map(|s| s.2).sum();
    assert!(bytes >= 9 * MSS, "{sent:?}");
}

#[test]
fn a_connection_that_was_silent_for_a_quarter_of_an_hour_is_reset_and_the_others_live() {
    let mut site = Site::clamped(10_000);
    site.open(A);
    site.open(B);
    site.send(A, 1, 10);
    site.wait(3_000);
    for i in 0..200 {
        site.send(B, 1 + i * MSS, 1);
        site.wait(5_000);
        site.mobile_says(B, TcpFlags::ACK, 1 + (i + 1) * MSS, &[]);
    }
    assert_eq!(site.resets, 2, "both ends of A are told");
    assert_eq!(site.gateway.hosts().next().unwrap().flows, 1);
}

#[test]
fn a_host_that_does_not_answer_for_a_quarter_of_an_hour_is_given_up() {
    let mut site = Site::clamped(10_000);
    site.open(A);
    site.send(A, 1, 10);
    site.wait(1_000_000);
    assert_eq!(site.gateway.hosts().next().unwrap().flows, 0);
    assert_eq!(site.resets, 2);
    // When it is there again, it has what it had.
    site.open(B);
    site.send(B, 1, 10);
    site.wait(150);
    assert_eq!(site.sent().iter().filter(|s| s.0 == B).count(), 10);
}

/// Who has nothing on its way owes no answer, and who has just begun to wait has time: a laptop that sleeps loses the connection that waits for it, and finds the
/// others as it left them.
#[test]
fn a_host_that_does_not_answer_loses_no_connection_that_owes_nothing_or_has_just_begun() {
    const IDLE: (u16, u16) = (1, 5003);
    let mut site = Site::clamped(10_000);
    for flow in [A, B, IDLE] {
        site.open(flow);
    }
    site.send(A, 1, 10);
    site.wait(900_000);
    site.send(B, 1, 1);
    site.wait(100_000);
    assert_eq!(site.resets, 2, "A's two ends alone");
    let host = site.gateway.hosts().next().unwrap();
    assert_eq!(host.flows, 2);
    // When it is there again, both go on.
    site.sent();
    site.mobile_says(B, TcpFlags::ACK, 1 + MSS, &[]);
    site.send(IDLE, 1, 3);
    site.wait(300);
    assert_eq!(site.sent().iter().filter(|sent| sent.0 == IDLE).map(|sent| sent.2).sum::<u32>(), 3 * MSS);
    // B was asked in its turn, and is given up when its own time is over.
    site.mobile_says(IDLE, TcpFlags::ACK, 1 + 3 * MSS, &[]);
    site.send(B, 1 + MSS, 1);
    site.wait(1_000_000);
    assert_eq!((site.resets, site.gateway.hosts().next().unwrap().flows), (4, 1));
}

/// A probe of a window smaller than a segment carries what fits, without a turn. When it is lost, and what the phone says of a
/// larger window too, nobody else's timer is there.
#[test]
fn a_probe_of_a_small_window_that_is_lost_is_retransmitted() {
    let mut site = Site::clamped(10_000);
    site.open(A);
    site.mobile_says_with_window(A, TcpFlags::ACK, 1, &[], 500);
    site.send(A, 1, 3);
    site.wait(20_000);
    let first = site.sent();
    assert_eq!(first.first(), Some(&(A, 1, 500)), "{first:?}");
    site.wait(60_000);
    let again = site.sent();
    assert!(again.len() >= 2 && again.iter().all(|sent| sent.1 == 1), "{again:?}");
    // Its answer ends that.
    site.mobile_says(A, TcpFlags::ACK, 501, &[]);
    site.wait(200);
    assert!(site.sent().iter().map(|sent| sent.2).sum::<u32>() >= 2500);
}

/// A receiver may keep its window closed for as long as it likes (RFC 9293 §3.8.6.1), and is no witness for the link.
#[test]
fn a_reader_that_pauses_neither_ends_a_stall_nor_is_given_up() {
    let mut site = Site::clamped(10_000);
    site.open(A);
    site.open(B);
    site.send(A, 1, 2);
    site.wait(150);
    site.mobile_says_with_window(A, TcpFlags::ACK, 2001, &[], 0);
    site.send(A, 2001, 5);
    site.send(B, 1, 5);
    site.wait(3_000);
    assert!(site.gateway.hosts().next().unwrap().stalled);
    let probes = site.sent();
    assert!(probes.iter().skip(5).all(|sent| sent.0 == B), "only B has anything to probe with: {probes:?}");
    // B is gone, and A answers every probe of its window, for half an hour.
    site.server_says(B, TcpFlags::RST | TcpFlags::ACK, 5001, 0);
    for _ in 0..180 {
        site.wait(10_000);
        site.mobile_says_with_window(A, TcpFlags::ACK, 2001, &[], 0);
    }
    assert_eq!(site.resets, 1, "B's alone");
    assert!(!site.gateway.hosts().next().unwrap().stalled);
    site.sent();
    site.mobile_says(A, TcpFlags::ACK, 2001, &[]);
    site.wait(150);
    assert_eq!(site.sent().iter().map(|sent| sent.2).sum::<u32>(), 5000);
}
