//! A host with many connections.
use crate::pair::{Link, PORT, Pair, address};
use shorthaul_tcp::{Addresses, ConnectError, ConnectionConfig, ConnectionId, Event, Failure, Host, State};
use shorthaul_types::{PortId, Time};
use shorthaul_wire::{Machine, Packet, Payload, TcpFlags, TxBatch};
use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::Duration;

fn path(local: u16, remote: u16) -> Addresses {
    Addresses { local: SocketAddr::new(address(0), local), remote: SocketAddr::new(address(1), remote) }
}

/// Two hosts without applications; side 1 listens.
fn quiet_pair() -> Pair {
    let mut pair = Pair::new(3, Link::default(), [0, 0]);
    pair.manual = true;
    pair.hosts[1].listen(PORT, ConnectionConfig::default());
    pair
}

fn connect(pair: &mut Pair, count: usize) -> (Vec<ConnectionId>, Vec<ConnectionId>) {
    let config = std::sync::Arc::new(ConnectionConfig::default());
    let ids = (0..count).map(|_| pair.hosts[0].connect(pair.now, path(0, PORT), config.clone()).unwrap());
    let ids: Vec<_> = ids.collect();
    let mut accepted = Vec::new();
    pair.settle();
    pass(pair, 1_000);
    while let Some(id) = pair.hosts[1].poll_accept() {
        accepted.push(id);
    }
    while let Some((_, event)) = pair.hosts[0].poll_event() {
        assert_eq!(event, Event::Connected);
    }
    while pair.hosts[1].poll_event().is_some() {}
    pair.settle();
    (ids, accepted)
}

/// Lets this many milliseconds pass.
fn pass(pair: &mut Pair, millis: u64) {
    pair.run_until(Duration::from_millis(millis), |_| false);
}

fn events(host: &mut Host) -> Vec<(ConnectionId, Event)> {
    std::iter::from_fn(|| host.poll_event()).collect()
}

#[test]
fn an_event_costs_the_same_however_many_connections_are_idle() {
    let cost = |count: usize| {
        let mut pair = quiet_pair();
        let (ids, accepted) = connect(&mut pair, count);
        assert_eq!(accepted.len(), count.min(128));
        pass(&mut pair, 10_000);
        let before = pair.hosts[1].stats().polled;
        pair.hosts[0].connection_mut(ids[0]).unwrap().write(Payload::copy_of(&[1; 100]));
        pair.settle();
        pass(&mut pair, 10_000);
        pair.hosts[1].stats().polled - before
    };
    assert_eq!(cost(1), cost(120));
}

#[test]
fn more_than_the_backlog_is_not_answered() {
    let mut pair = quiet_pair();
    let (_, accepted) = connect(&mut pair, 200);
    assert_eq!(accepted.len(), 128);
    assert!(pair.hosts[1].stats().overflowed >= 72);
    // Now that the queue is empty again, the SYNs that come again are answered.
    pass(&mut pair, 3_000);
    let later = std::iter::from_fn(|| pair.hosts[1].poll_accept()).count();
    assert_eq!(later, 72);
}

#[test]
fn every_connection_has_a_port_and_a_sequence_number_of_its_own() {
    let mut pair = quiet_pair();
    pair.trace = Some(Vec::new());
    let (ids, _) = connect(&mut pair, 100);
    let ports: HashSet<u16> =
        ids.iter().map(|&id| pair.hosts[0].connection(id).unwrap().path().local.port()).collect();
    assert_eq!(ports.len(), 100);
    assert!(ports.iter().all(|&port| port >= 49_152));
    let syns: HashSet<u32> = pair
        .trace
        .unwrap()
        .iter()
        .filter_map(|(_, side, packet)| {
            let header = &packet.as_tcp()?.header;
            (*side == 0 && header.flags.contains(TcpFlags::SYN)).then_some(header.seq.0)
        })
        .collect();
    assert_eq!(syns.len(), 100);
}

/// RFC 6528: for the same two ends the numbers go on with the clock, a quarter million a second.
#[test]
fn sequence_numbers_of_the_same_ends_follow_the_clock() {
    let isn = |at: Time| {
        let mut pair = quiet_pair();
        pair.now = at;
        pair.hosts[0].connect(at, path(5_000, PORT), ConnectionConfig::default()).unwrap();
        let mut out = TxBatch::new();
        while pair.hosts[0].poll_transmit(at, &mut out) {}
        out[0].1.as_tcp().unwrap().header.seq
    };
    assert_eq!(isn(Time::from_secs(2)).diff(isn(Time::from_secs(1))), 250_000);
}

#[test]
fn what_cannot_be_connected_says_why() {
    let mut pair = quiet_pair();
    let config = ConnectionConfig::default;
    let now = pair.now;
    let host = &mut pair.hosts[0];
    host.connect(now, path(5_000, PORT), config()).unwrap();
    assert_eq!(host.connect(now, path(5_000, PORT), config()), Err(ConnectError::InUse(path(5_000, PORT))));
    let elsewhere = Addresses { local: SocketAddr::new(address(1), 1), ..path(0, PORT) };
    assert_eq!(host.connect(now, elsewhere, config()), Err(ConnectError::NotOurs(address(1))));
    let mixed = Addresses { remote: "[::1]:80".parse().unwrap(), ..path(0, PORT) };
    let error = host.connect(now, mixed, config()).unwrap_err();
    assert!(error.to_string().contains("IP version"), "{error}");
}

#[test]
fn packets_for_others_are_ignored() {
    let mut pair = quiet_pair();
    let mut out = TxBatch::new();
    pair.hosts[0].connect(pair.now, path(0, PORT), ConnectionConfig::default()).unwrap();
    while pair.hosts[0].poll_transmit(pair.now, &mut out) {}
    let (_, packet): (PortId, Packet) = out.remove(0);
    pair.hosts[0].handle_packet(pair.now, PortId(0), packet);
    while pair.hosts[0].poll_transmit(pair.now, &mut out) {}
    assert!(out.is_empty(), "{out:?}");
}

/// RFC 9293 figure 7, between two hosts of ours.
#[test]
fn two_hosts_may_connect_to_each_other_at_once() {
    for loss in [0, 300] {
        let mut pair = Pair::new(loss, Link { loss, ..Link::default() }, [0, 0]);
        pair.manual = true;
        let config = || ConnectionConfig { syn_retries: 12, ..ConnectionConfig::default() };
        let one = pair.hosts[0].connect(pair.now, path(5_000, 6_000), config()).unwrap();
        let back = Addresses { local: path(5_000, 6_000).remote, remote: path(5_000, 6_000).local };
        let two = pair.hosts[1].connect(pair.now, back, config()).unwrap();
        pair.settle();
        let opened = |pair: &Pair| {
            [(0, one), (1, two)].into_iter().all(|(side, id)| {
                pair.hosts[side].connection(id).is_some_and(|c| c.state() == State::Established)
            })
        };
        assert!(pair.run_until(Duration::from_secs(100), opened), "with {loss} ‰ loss");
        pair.hosts[0].connection_mut(one).unwrap().write(Payload::copy_of(b"hello"));
        pair.settle();
        let arrived = |pair: &Pair| pair.hosts[1].connection(two).is_some_and(|c| c.readable() == 5);
        assert!(pair.run_until(Duration::from_secs(100), arrived), "with {loss} ‰ loss");
    }
}

#[test]
fn an_id_outlives_its_connection_and_names_no_other() {
    let mut pair = quiet_pair();
    let (ids, _) = connect(&mut pair, 1);
    pair.hosts[0].connection_mut(ids[0]).unwrap().abort(pair.now);
    pair.settle();
    assert_eq!(events(&mut pair.hosts[0]), [(ids[0], Event::Failed(Failure::Aborted))]);
    pair.settle();
    let (again, _) = connect(&mut pair, 1);
    assert_ne!(ids[0], again[0]);
    assert!(pair.hosts[0].connection(ids[0]).is_none());
    assert!(pair.hosts[0].connection(again[0]).is_some());
}

#[test]
fn a_released_connection_closes_by_itself_and_is_forgotten() {
    let mut pair = quiet_pair();
    let (ids, accepted) = connect(&mut pair, 1);
    pair.hosts[0].connection_mut(ids[0]).unwrap().write(Payload::copy_of(&[7; 5_000]));
    pair.hosts[0].release(pair.now, ids[0]);
    pair.settle();
    pass(&mut pair, 1_000);
    assert_eq!(pair.hosts[1].connection(accepted[0]).unwrap().readable(), 5_000);
    assert_eq!(pair.hosts[1].connection(accepted[0]).unwrap().state(), State::CloseWait);
    pair.hosts[1].release(pair.now, accepted[0]);
    pair.settle();
    pass(&mut pair, 120_000);
    assert_eq!(pair.hosts[0].connections().count(), 0);
    assert_eq!(events(&mut pair.hosts[0]), []);
}

/// RFC 2525 §2.17.
#[test]
fn data_that_nobody_will_read_is_reset() {
    let mut pair = quiet_pair();
    let (ids, accepted) = connect(&mut pair, 1);
    pair.hosts[1].release(pair.now, accepted[0]);
    pair.hosts[0].connection_mut(ids[0]).unwrap().write(Payload::copy_of(&[7; 100]));
    pair.settle();
    pass(&mut pair, 1_000);
    assert!(events(&mut pair.hosts[0]).contains(&(ids[0], Event::Failed(Failure::Reset))));
    assert_eq!(pair.hosts[1].connections().count(), 0);
}

/// A peer that never closes cannot make us remember for ever.
#[test]
fn a_released_connection_does_not_wait_for_ever() {
    let mut pair = quiet_pair();
    let (ids, accepted) = connect(&mut pair, 1);
    pair.hosts[1].release(pair.now, accepted[0]);
    pair.settle();
    pass(&mut pair, 59_000);
    assert_eq!(pair.hosts[1].connections().count(), 1);
    pass(&mut pair, 2_000);
    assert_eq!(pair.hosts[1].connections().count(), 0);
    assert_eq!(pair.hosts[0].connection(ids[0]).unwrap().state(), State::CloseWait);
}

#[test]
fn a_connection_that_nobody_has_taken_is_announced_before_its_events() {
    let mut pair = quiet_pair();
    pair.hosts[0].connect(pair.now, path(0, PORT), ConnectionConfig::default()).unwrap();
    pair.settle();
    pass(&mut pair, 100);
    assert_eq!(events(&mut pair.hosts[1]), []);
    let id = pair.hosts[1].poll_accept().unwrap();
    assert_eq!(events(&mut pair.hosts[1]), [(id, Event::Connected)]);
}
