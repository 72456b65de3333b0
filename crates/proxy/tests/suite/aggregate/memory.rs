//! What is promised, what is held, and that nobody goes without.
use super::site::*;
use shorthaul_proxy::{AggregateConfig, GatewayConfig, Policy, UplinkWindow, WindowShareConfig};
use shorthaul_types::Bytes;
use shorthaul_wire::{Chunk, Payload, TcpFlags};
use std::collections::BTreeMap;
use std::sync::Arc;

#[test]
fn connections_whose_readers_do_not_read_leave_room_for_the_others() {
    let flows: Vec<(u16, u16)> = (0..20).map(|i| (1, 5001 + i)).collect();
    let mut site = Site::new(AggregateConfig { host_buffer: Bytes(400_000), ..config(10_000) });
    for &flow in &flows {
        site.open(flow);
    }
    // All but the last close their windows, and their servers send all that they may.
    let (last, paused) = flows.split_last().unwrap();
    for &flow in paused {
        site.mobile_says_with_window(flow, TcpFlags::ACK, 1, &[], 0);
    }
    let mut sent = 1;
    for _ in 0..40 {
        for &flow in paused {
            if site.told.get(&flow).is_none_or(|(_, edge)| sent + MSS <= *edge) {
                site.server_says(flow, TcpFlags::ACK, sent, MSS as usize);
            }
        }
        sent += MSS;
    }
    assert!(site.gateway.hosts().next().unwrap().held <= 400_000);
    let mut at = 1;
    for _ in 0..50 {
        let edge = site.told.get(last).map_or(2001, |(_, edge)| *edge);
        assert!(edge >= at + 2 * MSS, "{} bytes are offered", edge.saturating_sub(at));
        site.send(*last, at, 2);
        at += 2 * MSS;
        site.wait(100);
        site.mobile_says(*last, TcpFlags::ACK, at, &[]);
    }
}

#[test]
fn whoever_comes_when_all_memory_is_promised_has_a_window_all_the_same() {
    let mut site = Site::new(AggregateConfig { host_buffer: Bytes(2_000_000), ..config(1_000_000) });
    for port in 5001..5061 {
        let flow = (1, port);
        site.open(flow);
        // The window that the mobile host advertised in its handshake is sent, and taken when it reads on.
        site.mobile_says_with_window(flow, TcpFlags::ACK, 1, &[], 0);
        site.send(flow, 1, 60);
        for taken in (1..60_000).step_by(10 * MSS as usize) {
            site.mobile_says_with_window(flow, TcpFlags::ACK, taken, &[], 10_000);
            site.wait(100);
        }
        site.mobile_says(flow, TcpFlags::ACK, 60_001, &[]);
        let (acknowledged, edge) = site.told[&flow];
        assert_eq!(acknowledged, 60_001);
        assert!(edge >= 60_001 + 2 * MSS, "{flow:?} is offered {} bytes", edge - 60_001);
    }
}

#[test]
fn what_servers_were_offered_is_never_dropped() {
    let aggregate = AggregateConfig { host_buffer: Bytes(90_000), window_share: None, ..config(10_000) };
    let mut site = Site::new(aggregate);
    let flows = [A, B, (1, 5003)];
    for flow in flows {
        // The phone's window in its handshake is the one that servers begin with.
        site.mobile_says_with_window(flow, TcpFlags::SYN, 0, &[], 3000);
        site.server_says(flow, TcpFlags::SYN | TcpFlags::ACK, 0, 0);
        site.mobile_says_with_window(flow, TcpFlags::ACK, 1, &[], 3000);
    }
    // They all use what they are offered, by turns, and the phone takes nothing.
    let mut sent = BTreeMap::from(flows.map(|flow| (flow, 1)));
    let mut total = 0;
    loop {
        let before = total;
        for flow in flows {
            let offset = sent[&flow];
            let edge = site.told[&flow].1;
            let bytes = edge.saturating_sub(offset).min(MSS);
            if bytes > 0 {
                site.server_says(flow, TcpFlags::ACK, offset, bytes as usize);
                site.wait(50);
                sent.insert(flow, offset + bytes);
                total += bytes;
                assert_eq!(site.told[&flow].0, offset + bytes, "a segment of {flow:?} was not taken");
            }
        }
        if total == before {
            break;
        }
    }
    assert!(total > 30_000, "{total} bytes were offered in all");
    assert!(sent.values().all(|sent| *sent > 4_500), "each has its part: {sent:?}");
}

/// Eight uploads to a server that takes nothing: what they were offered is taken, and a host that is written to has its memory beside them.
#[test]
fn what_a_host_was_offered_for_its_uploads_is_never_dropped() {
    const MEMORY: u64 = 600_000;
    let mut site = Site::new(AggregateConfig {
        host_buffer: Bytes(MEMORY),
        uplink: UplinkWindow::None,
        ..config(1_000_000)
    });
    // The server's window in its handshake is the one that the host begins with.
    site.server_window = 3_000;
    let flows: Vec<(u16, u16)> = (5001..5009).map(|port| (1, port)).collect();
    let mut sent = BTreeMap::new();
    for &flow in &flows {
        site.open(flow);
        site.mobile_sends(flow, 1, 3_000);
        sent.insert(flow, site.told_below);
    }
    // In super-segments, by turns, as far as the window goes.
    let mut total = 0;
    loop {
        let before = total;
        for &flow in &flows {
            let (offset, edge) = sent[&flow];
            let bytes = edge.saturating_sub(offset).min(60_000);
            if bytes == 0 {
                continue;
            }
            site.mobile_sends(flow, offset, bytes as usize);
            site.wait(1);
            let (acknowledged, edge) = site.told_below;
            assert_eq!(acknowledged, offset + bytes, "of {flow:?}, after {total} bytes of all");
            sent.insert(flow, (acknowledged, edge));
            total += u64::from(bytes);
        }
        let held = site.gateway.hosts().next().unwrap().held;
        assert!(held <= MEMORY, "{held} bytes are held of one host");
        if total == before {
            break;
        }
    }
    assert!(total > 150_000, "{total} bytes were offered in all");
}

#[test]
fn a_thousand_hosts_with_ten_connections_each_stay_within_their_memory_when_every_link_stalls() {
    const BOUND: u64 = 64_000;
    let aggregate = AggregateConfig { host_buffer: Bytes(BOUND), ..config(10_000) };
    let policy = Policy { aggregate: Some(Arc::new(aggregate)), ..Policy::default() };
    let mut site = Site::with(GatewayConfig { memory: Bytes(40 << 20), ..GatewayConfig::of(policy) });
    let flows: Vec<(u16, u16)> =
        (0..1000).flat_map(|host| (0..10).map(move |port| (host, 5000 + port))).collect();
    for &flow in &flows {
        site.mobile_says(flow, TcpFlags::SYN, 0, &[]);
        site.server_says(flow, TcpFlags::SYN | TcpFlags::ACK, 0, 0);
        site.mobile_says(flow, TcpFlags::ACK, 1, &[]);
    }
    // Every server fills its window, and no mobile host ever answers.
    let mut offered: BTreeMap<(u16, u16), u32> = BTreeMap::new();
    for _ in 0..3 {
        for &flow in &flows {
            let from = offered.get(&flow).copied().unwrap_or(1);
            let edge = site.told.get(&flow).map_or(20_001, |(_, edge)| *edge).min(from + 20 * MSS);
            for offset in (from..edge.saturating_sub(MSS)).step_by(MSS as usize) {
                site.server_says(flow, TcpFlags::ACK, offset, MSS as usize);
                offered.insert(flow, offset + MSS);
            }
        }
        site.wait(500);
        let most = site.gateway.hosts().map(|host| host.held).max().unwrap();
        assert!(most <= BOUND, "{most} bytes for one host");
        assert!(site.gateway.allocated() <= 40 << 20, "{}", site.gateway.allocated());
    }
    assert_eq!(site.gateway.hosts().count(), 1000);
    site.sent();
    site.wait(1_000);
    let probes = site.sent().len();
    assert!(probes <= 1000 * 100, "one probe a host at a time: {probes}");
}

/// The window that they were offered once cannot be taken back, but not all of them begin at once.
#[test]
fn connections_that_are_idle_do_not_keep_the_memory_of_those_that_are_not() {
    after_so_many_idle_ones_a_busy_one_has_its_window(60);
}

/// A household behind one address keeps hundreds open.
#[test]
fn a_thousand_idle_connections_of_a_host_do_not_keep_the_memory_of_another() {
    after_so_many_idle_ones_a_busy_one_has_its_window(1000);
}

fn after_so_many_idle_ones_a_busy_one_has_its_window(idle: u16) {
    let mut site = Site::new(config(2_000_000));
    let last = 5000 + idle;
    for port in 5001..=last {
        let flow = (1, port);
        site.open(flow);
        site.send(flow, 1, 3);
        site.wait(100);
        site.mobile_says(flow, TcpFlags::ACK, 3001, &[]);
        let (acknowledged, edge) = site.told[&flow];
        assert!(edge >= acknowledged + 50 * MSS, "{flow:?} is offered {} bytes", edge - acknowledged);
        // … and then it has nothing more to say.
    }
    let flow = (1, last);
    for round in 0..4u32 {
        let at = 3001 + round * 40 * MSS;
        site.send(flow, at, 40);
        site.wait(150);
        site.mobile_says(flow, TcpFlags::ACK, at + 40 * MSS, &[]);
        let (acknowledged, edge) = site.told[&flow];
        assert!(edge >= acknowledged + 50 * MSS, "round {round}: {} bytes", edge - acknowledged);
    }
}

#[test]
fn those_who_come_later_find_the_bound_where_it_was() {
    const BOUND: u64 = 64_000;
    let mut site = Site::new(AggregateConfig { host_buffer: Bytes(BOUND), ..config(10_000) });
    for port in 5001..5021 {
        // The phone's own window is 60 kB, and its reader takes nothing.
        let flow = (1, port);
        site.open(flow);
        site.mobile_says_with_window(flow, TcpFlags::ACK, 1, &[], 0);
        site.send(flow, 1, 60);
        let held = site.gateway.hosts().next().unwrap().held;
        let segments = 2 * u64::from(MSS) * u64::from(port - 5000);
        assert!(held <= BOUND + segments, "{held} bytes are held of {} connections", port - 5000);
        assert!(site.told[&flow].0 > 1, "{flow:?}: not one segment was taken");
    }
}

/// Its acknowledgment said that there is no room, for nothing of it had left. The phone has nothing to do with that.
#[test]
fn room_that_comes_of_sending_is_offered_at_once() {
    // A share of the window that the first segments take up.
    let share = WindowShareConfig { surplus: 1.2, ..WindowShareConfig::default() };
    let mut site = Site::new(AggregateConfig { window_share: Some(share), ..config(10_000) });
    site.mobile_says_with_window(A, TcpFlags::SYN, 0, &[], 14_000);
    site.wait(10);
    site.server_says(A, TcpFlags::SYN | TcpFlags::ACK, 0, 0);
    site.wait(100);
    site.mobile_says_with_window(A, TcpFlags::ACK, 1, &[], 14_000);
    let at = site.now;
    site.server_says(A, TcpFlags::ACK, 1, 14_000);
    assert_eq!(site.told[&A], (14_001, 14_001), "no room");
    site.wait(95);
    assert_eq!(site.now.saturating_since(at).as_millis(), 95, "the phone's answer takes longer");
    let (acknowledged, edge) = site.told[&A];
    assert!(edge >= acknowledged + MSS, "{}", edge - acknowledged);
}

/// The kernel hands over two segments at once in a buffer of 16 KiB, and there is memory for the two.
#[test]
fn what_servers_were_offered_is_taken_however_it_is_put_together() {
    let mut site = Site::new(AggregateConfig { host_buffer: Bytes(100_000), ..config(10_000) });
    let flows: Vec<(u16, u16)> = (0..12).map(|i| (1, 5001 + i)).collect();
    for &flow in &flows {
        site.open(flow);
        site.mobile_says_with_window(flow, TcpFlags::ACK, 1, &[], 0);
    }
    for &flow in &flows {
        let mut chunk = Chunk::new(16_384);
        chunk.append(&vec![7; 2 * MSS as usize]);
        let payload = Payload::new(Arc::new(chunk), 0..2 * MSS as usize);
        site.server_says_in(flow, 1, payload);
        assert_eq!(site.told[&flow].0, 1 + 2 * MSS, "{flow:?}");
    }
    let held = site.gateway.hosts().next().unwrap().held;
    assert!(held <= 100_000, "{held}");
}
