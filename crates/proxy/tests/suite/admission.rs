//! Which flows a gateway takes, how long it keeps one that is silent, and how large the segments are
//! that it sends.
use crate::pair::{Setup, plain};
use shorthaul_proxy::{
    ExplicitWindow, FlowMatch, Gateway, GatewayConfig, InterceptorKind, LegConfig, Mode, Policy,
};
use shorthaul_tcp::{ConnectionConfig, SenderProfile};
use shorthaul_testkit::packets::{self, filler, syn_options};
use shorthaul_types::{Bytes, PortId, SeqNum, Time};
use shorthaul_wire::{Machine, Packet, TcpFlags, TcpHeader, Timestamps, TxBatch};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

const CLIENT: u8 = 1;
const SERVER: u8 = 2;

/// A segment of the connection of the client's port `client`: sequence numbers begin at 100, and the
/// other end's at 100 too.
fn segment(from: u8, client: u16, offset: u32, flags: TcpFlags, bytes: usize) -> Packet {
    let ends = [CLIENT, SERVER]
        .map(|end| SocketAddr::from(([10, 0, 0, end], if end == CLIENT { client } else { 80 })));
    let [src, dst] = if from == CLIENT { ends } else { [ends[1], ends[0]] };
    let mut header = TcpHeader {
        seq: SeqNum(100 + offset),
        ack: SeqNum(if flags.contains(TcpFlags::ACK) { 101 } else { 0 }),
        flags,
        window: 60_000,
        ..TcpHeader::default()
    };
    if flags.contains(TcpFlags::SYN) {
        header.options = syn_options(8960);
    }
    packets::segment(src, dst, header, filler(bytes))
}

/// Hands a packet in and returns what leaves.
fn pass(gateway: &mut Gateway, now: Time, packet: Packet) -> TxBatch {
    let from =
        if packet.as_tcp().is_some_and(|s| s.header.dst_port == 80) { Gateway::ACCESS } else { Gateway::WAN };
    gateway.handle_timeout(now);
    gateway.handle_packet(now, from, packet);
    poll(gateway, now)
}

fn poll(gateway: &mut Gateway, now: Time) -> TxBatch {
    let mut out = TxBatch::new();
    while gateway.poll_transmit(now, &mut out) {}
    gateway.save(&mut ());
    out
}

fn open(gateway: &mut Gateway, now: Time, client: u16) {
    pass(gateway, now, segment(CLIENT, client, 0, TcpFlags::SYN, 0));
    pass(gateway, now, segment(SERVER, client, 0, TcpFlags::SYN | TcpFlags::ACK, 0));
    pass(gateway, now, segment(CLIENT, client, 1, TcpFlags::ACK, 0));
}

fn secs(seconds: u64) -> Time {
    Time::from_millis(seconds * 1000)
}

/// Calls at each deadline up to `end`; how many there were.
fn run(gateway: &mut Gateway, end: Time) -> usize {
    let mut calls = 0;
    while let Some(deadline) = gateway.poll_timeout().filter(|deadline| deadline.at <= end) {
        gateway.handle_timeout(deadline.at);
        poll(gateway, deadline.at);
        calls += 1;
        assert!(calls < 10_000, "{deadline:?} does not go away");
    }
    calls
}

#[test]
fn a_silent_flow_is_stepped_out_of_and_goes_on_unsplit() {
    let config = GatewayConfig { idle_timeout: Duration::from_secs(640), ..GatewayConfig::default() };
    let mut gateway = Gateway::new(config);
    open(&mut gateway, secs(0), 5000);
    open(&mut gateway, secs(0), 5001);
    assert_eq!((gateway.flows().count(), gateway.counters().flows_split), (2, 2));
    // One of them says something after five minutes, to which the server answers.
    let data = pass(&mut gateway, secs(300), segment(CLIENT, 5001, 1, TcpFlags::ACK, 10));
    assert!(
        data.iter()
            .any(|(port, packet)| *port == Gateway::WAN && packet.as_tcp().unwrap().payload.len() == 10)
    );
    let mut answer = segment(SERVER, 5001, 1, TcpFlags::ACK, 0);
    if let shorthaul_wire::Transport::Tcp(tcp) = &mut answer.transport {
        tcp.header.ack = SeqNum(111);
    }
    pass(&mut gateway, secs(300), answer);

    run(&mut gateway, secs(639));
    assert_eq!(gateway.flows().count(), 2, "both were heard of less than 640 s ago");
    run(&mut gateway, secs(800));
    assert_eq!((gateway.flows().count(), gateway.counters().flows_stepped_out), (1, 1));
    assert!(gateway.flows().all(|flow| flow.key.src.port() == 5001));
    run(&mut gateway, secs(2000));
    assert_eq!(gateway.flows().count(), 0);
    assert!(gateway.poll_timeout().is_none(), "nothing is left to wait for");

    let untouched = segment(CLIENT, 5000, 1, TcpFlags::ACK, 500);
    let out = pass(&mut gateway, secs(2001), untouched.clone());
    assert_eq!(out, [(Gateway::WAN, untouched)], "it goes on directly");
}

#[test]
fn what_is_held_is_never_stepped_out_of() {
    let config = GatewayConfig { idle_timeout: Duration::from_secs(64), ..GatewayConfig::default() };
    let mut gateway = Gateway::new(config);
    open(&mut gateway, secs(0), 5000);
    pass(&mut gateway, secs(1), segment(CLIENT, 5000, 1, TcpFlags::ACK, 1000));
    assert_eq!(gateway.held_flows(), 1);
    run(&mut gateway, secs(200));
    assert_eq!((gateway.held_flows(), gateway.counters().flows_stepped_out), (1, 0), "it is retransmitted");
}

#[test]
fn in_a_full_table_an_idle_flow_makes_room() {
    let mut gateway = Gateway::new(GatewayConfig { max_flows: 2, ..GatewayConfig::default() });
    open(&mut gateway, secs(0), 5000);
    open(&mut gateway, secs(0), 5001);
    open(&mut gateway, secs(10), 5002);
    assert_eq!(
        (gateway.counters().flows_split, gateway.counters().unsplit_overload),
        (2, 1),
        "all are fresh"
    );
    open(&mut gateway, secs(100), 5003);
    assert_eq!(gateway.counters().flows_split, 3);
    assert!(gateway.flows().count() <= 2 && gateway.flows().any(|flow| flow.key.src.port() == 5003));
}

#[test]
fn segments_fit_the_interface_of_the_leg() {
    let wan = LegConfig { mtu: 1500, ..LegConfig::default() };
    let mut gateway = Gateway::new(GatewayConfig::of(Policy { wan, ..Policy::default() }));
    open(&mut gateway, secs(0), 5000);
    let out = pass(&mut gateway, secs(1), segment(CLIENT, 5000, 1, TcpFlags::ACK, 8000));
    let sizes: Vec<usize> = out
        .iter()
        .filter(|(port, _)| *port == Gateway::WAN)
        .filter_map(|(_, packet)| packet.as_tcp())
        .filter(|tcp| !tcp.payload.is_empty())
        .map(|tcp| tcp.gso_size.map_or(tcp.payload.len(), |size| usize::from(size.get())))
        .collect();
    assert_eq!(sizes.first(), Some(&1460), "{sizes:?}");
    assert!(sizes.iter().all(|size| *size <= 1460), "{sizes:?}");
}

/// On interfaces such as loopback, one segment is as much as a super-segment may have.
#[test]
fn segments_may_be_as_large_as_packets_can_be() {
    for mss in [65_415, 65_440, 65_495] {
        let plain = plain();
        let profile = SenderProfile { window_scaling: true, ..plain.profile.clone() };
        let end = ConnectionConfig { profile, mss, mtu: 65_535, receive_buffer: Bytes(1 << 20), ..plain };
        let setup = Setup { configs: [end.clone(), end], ..Setup::new(1, [500_000, 700_000]) };
        let mut world = setup.behind(Policy::default());
        assert!(world.run_until(|world| world.is_whole(0)), "{mss}: {}", world.describe());
        assert_eq!(world.gateway.counters().flows_split, 1);
    }
}

#[test]
fn data_that_overtakes_the_handshake_is_not_passed_on() {
    let mut gateway = Gateway::new(GatewayConfig::default());
    let payload_to_server = |out: &TxBatch| -> usize {
        let to_server = out.iter().filter(|(port, _)| *port == Gateway::WAN);
        to_server.filter_map(|(_, packet)| packet.as_tcp()).map(|segment| segment.payload.len()).sum()
    };
    pass(&mut gateway, secs(0), segment(CLIENT, 5000, 0, TcpFlags::SYN, 0));
    pass(&mut gateway, secs(0), segment(SERVER, 5000, 0, TcpFlags::SYN | TcpFlags::ACK, 0));
    // The second segment of data comes first. Passed on, the server would acknowledge what the gateway,
    // stepping in a moment later, does not know to have been sent.
    let early = pass(&mut gateway, secs(0), segment(CLIENT, 5000, 501, TcpFlags::ACK, 500));
    assert_eq!(payload_to_server(&early), 0);
    let first = pass(&mut gateway, secs(0), segment(CLIENT, 5000, 1, TcpFlags::ACK, 500));
    assert_eq!((payload_to_server(&first), gateway.counters().flows_split), (500, 1));
    // Retransmitted, it goes the way of all data.
    let again = pass(&mut gateway, secs(1), segment(CLIENT, 5000, 501, TcpFlags::ACK, 500));
    assert_eq!(payload_to_server(&again), 500);
}

/// The same as [`segment`], with this TSval.
fn stamped(from: u8, client: u16, offset: u32, flags: TcpFlags, bytes: usize, val: u32) -> Packet {
    let mut packet = segment(from, client, offset, flags, bytes);
    if let shorthaul_wire::Transport::Tcp(tcp) = &mut packet.transport {
        tcp.header.options.timestamps = Some(Timestamps { val, ecr: 1 });
    }
    packet
}

/// The client begins to send at once, and all that it sends first is lost in a full queue. Its answer to the repeated SYN-ACK stands behind that,
/// and opens the server.
#[test]
fn a_flow_of_which_all_is_lost_that_is_sent_first_is_split() {
    let mut gateway = Gateway::new(GatewayConfig::default());
    let syn_ack = TcpFlags::SYN | TcpFlags::ACK;
    pass(&mut gateway, secs(0), stamped(CLIENT, 5000, 0, TcpFlags::SYN, 0, 10));
    pass(&mut gateway, secs(0), stamped(SERVER, 5000, 0, syn_ack, 0, 20));
    pass(&mut gateway, secs(1), stamped(SERVER, 5000, 0, syn_ack, 0, 1020));
    for (from, offset, val) in [(CLIENT, 1501, 1010), (SERVER, 1, 1030)] {
        let opened = stamped(from, 5000, offset, TcpFlags::ACK, 0, val);
        assert_eq!(pass(&mut gateway, secs(1), opened.clone())[0].1, opened, "it passes as it comes");
    }
    assert_eq!(gateway.counters().flows_split, 0, "the gateway does not know yet what was sent first");
    let out = pass(&mut gateway, secs(2), stamped(CLIENT, 5000, 1, TcpFlags::ACK, 500, 2010));
    let to = |port: PortId| {
        let mut segments = out.iter().filter(|(at, _)| *at == port).filter_map(|(_, packet)| packet.as_tcp());
        segments.next().unwrap()
    };
    assert_eq!((gateway.counters().flows_split, to(Gateway::WAN).payload.len()), (1, 500));
    let acknowledged = &to(Gateway::ACCESS).header;
    assert_eq!(acknowledged.ack, SeqNum(601));
    let val = acknowledged.options.timestamps.map(|stamps| stamps.val);
    assert_eq!(val, Some(1030), "an older one would be taken for a duplicate of before");
}

/// Whoever has heard of something of the streams that did not go by the gateway's books is left alone.
#[test]
fn a_flow_of_which_something_has_passed_is_not_split() {
    for (offset, flags, bytes) in
        [(1, TcpFlags::ACK, 100), (101, TcpFlags::ACK, 0), (1, TcpFlags::ACK | TcpFlags::FIN, 0)]
    {
        let mut gateway = Gateway::new(GatewayConfig::default());
        pass(&mut gateway, secs(0), segment(CLIENT, 5000, 0, TcpFlags::SYN, 0));
        pass(&mut gateway, secs(0), segment(SERVER, 5000, 0, TcpFlags::SYN | TcpFlags::ACK, 0));
        pass(&mut gateway, secs(1), segment(CLIENT, 5000, 1501, TcpFlags::ACK, 0));
        pass(&mut gateway, secs(1), segment(SERVER, 5000, offset, flags, bytes));
        pass(&mut gateway, secs(2), segment(CLIENT, 5000, 1, TcpFlags::ACK, 500));
        assert_eq!(gateway.counters().flows_split, 0, "{offset}, {flags:?}, {bytes}");
    }
}

/// Connections to port 80 are treated by `mode`; those of the client's port 6000 not at all, and all others are split.
fn classes(mode: Mode) -> GatewayConfig {
    let class = |ports: &[u16]| FlowMatch { ports: ports.into(), ..FlowMatch::default() };
    let intercept: Vec<Arc<dyn InterceptorKind>> = match mode {
        Mode::Pass => vec![Arc::new(ExplicitWindow { window: Bytes(20_000) })],
        _ => Vec::new(),
    };
    let untouched = Policy { matches: class(&[6000]), mode: Mode::Pass, ..Policy::default() };
    let policies = vec![
        untouched,
        Policy { matches: class(&[80]), mode, intercept, ..Policy::default() },
        Policy::default(),
    ];
    let config =
        GatewayConfig { policies, idle_timeout: Duration::from_secs(640), ..GatewayConfig::default() };
    config.check().unwrap();
    config
}

#[test]
fn the_first_policy_that_matches_holds() {
    for (mode, state) in [(Mode::Split, "split"), (Mode::Observe, "observed"), (Mode::Pass, "passed")] {
        let mut gateway = Gateway::new(classes(mode));
        open(&mut gateway, secs(0), 5000);
        open(&mut gateway, secs(0), 6000);
        let states: Vec<_> = gateway.flows().map(|flow| (flow.key.src.port(), flow.state)).collect();
        assert_eq!(states, [(5000, state)], "nothing is known of what is not to be touched");
        let out = pass(&mut gateway, secs(1), segment(CLIENT, 6000, 1, TcpFlags::ACK, 10));
        assert_eq!(out, [(Gateway::WAN, segment(CLIENT, 6000, 1, TcpFlags::ACK, 10))]);
    }
}

#[test]
fn a_flow_that_stays_whole_is_forgotten_when_it_is_silent_and_goes_on() {
    let mut gateway = Gateway::new(classes(Mode::Pass));
    open(&mut gateway, secs(0), 5000);
    let window = |out: &TxBatch| out[0].1.as_tcp().unwrap().header.window;
    let ack = || segment(CLIENT, 5000, 1, TcpFlags::ACK, 0);
    assert_eq!(window(&pass(&mut gateway, secs(300), ack())), 20_000, "an interceptor lowers it");
    run(&mut gateway, secs(900));
    assert_eq!(gateway.flows().count(), 1, "it was heard of less than 640 s ago");
    run(&mut gateway, secs(1200));
    assert_eq!(gateway.flows().count(), 0);
    assert!(gateway.poll_timeout().is_none(), "nothing is left to wait for");
    assert_eq!(window(&pass(&mut gateway, secs(1201), ack())), 60_000, "it passes as it comes");
}

#[test]
fn a_whole_flow_makes_room_in_a_full_table_and_ends_with_another_on_its_ports() {
    let mut gateway = Gateway::new(GatewayConfig { max_flows: 1, ..classes(Mode::Observe) });
    open(&mut gateway, secs(0), 5000);
    open(&mut gateway, secs(10), 5001);
    assert_eq!(gateway.counters().unobserved_overload, 1);
    open(&mut gateway, secs(100), 5002);
    assert_eq!(gateway.counters().flows_observed, 2, "the first was silent for a minute");
    // A connection between the same ends, with other sequence numbers: what ended the first was not seen.
    let mut again = segment(CLIENT, 5002, 0, TcpFlags::SYN, 0);
    if let shorthaul_wire::Transport::Tcp(tcp) = &mut again.transport {
        tcp.header.seq = SeqNum(5);
    }
    pass(&mut gateway, secs(101), again.clone());
    assert_eq!(gateway.counters().flows_observed, 3);
    pass(&mut gateway, secs(102), again);
    assert_eq!(gateway.counters().flows_observed, 3, "a SYN that comes twice is one connection");
    assert_eq!(gateway.flows().next().unwrap().age, Duration::from_secs(1));
}

/// The client of `client` fetches 40 kB, which takes `ms` from its SYN on, and closes nothing.
fn fetch(gateway: &mut Gateway, start: Time, client: u16, ms: u64, mut look: impl FnMut(&Gateway)) {
    open(gateway, start, client);
    for n in 0..40 {
        pass(gateway, start, segment(SERVER, client, 1 + 1000 * n, TcpFlags::ACK, 1000));
        let mut ack = segment(CLIENT, client, 1, TcpFlags::ACK, 0);
        if let shorthaul_wire::Transport::Tcp(tcp) = &mut ack.transport {
            tcp.header.ack = SeqNum(100 + 1 + 1000 * (n + 1));
        }
        pass(gateway, start + Duration::from_millis(ms * u64::from(n + 1) / 40), ack);
        look(gateway);
    }
}

/// Splitting makes a fetch last 700 ms, and without it takes 300 ms.
#[test]
fn where_splitting_does_harm_flows_stay_whole_and_running_ones_are_stepped_out_of() {
    let policies = vec![Policy { control_group: 0.3, ..Policy::default() }];
    let config = GatewayConfig { policies, hash_seed: 11, ..GatewayConfig::default() };
    config.check().unwrap();
    let mut gateway = Gateway::new(config);
    let mut states = Vec::new();
    let of_many = |gateway: &Gateway| {
        gateway.flows().filter(|flow| flow.key.src.port() >= 20_000 && flow.state == "split").count()
    };
    (20_000..22_000).for_each(|client| open(&mut gateway, secs(2), client));
    assert_eq!(of_many(&gateway), 2_000, "a second has one group");
    let (mut end, mut left_at_once) = (secs(0), None);
    for n in 0..200 {
        let (start, client) = (secs(10 + n), 5000 + n as u16);
        end = start + Duration::from_secs(1);
        open(&mut gateway, start, 9999);
        let control = gateway.flows().any(|flow| flow.key.src.port() == 9999 && flow.state == "control");
        let reset = segment(CLIENT, 9999, 1, TcpFlags::RST, 0);
        pass(&mut gateway, start, reset);
        fetch(&mut gateway, start, client, if control { 300 } else { 700 }, |gateway| {
            if gateway.counters().gain_harms > 0 {
                left_at_once.get_or_insert(of_many(gateway));
            }
        });
        let state = gateway.flows().find(|flow| flow.key.src.port() == client).map(|flow| flow.state);
        assert!(control || state != Some("control"), "a second has one group");
        states.push(state);
        if gateway.counters().gain_harms > 0 {
            break;
        }
    }
    assert_eq!(
        gateway.counters().gain_harms,
        1,
        "with this server and with all, at once: {:?}",
        gateway.gains()
    );
    assert!(states.contains(&Some("split")) && states.contains(&Some("control")), "{states:?}");
    // Packets do not wait until all are found.
    assert!(left_at_once.is_some_and(|left| (1_000..2_000).contains(&left)), "{left_at_once:?}");
    for millis in 0..10 {
        gateway.handle_timeout(end + Duration::from_millis(millis));
    }
    assert_eq!(of_many(&gateway), 0);
    assert!(gateway.flows().all(|flow| flow.state == "control"), "nothing was held of those that were split");
    // One host is all that was seen.
    assert!(gateway.gains().iter().all(|gain| gain.harmed_hosts.len() == 1), "{:?}", gateway.gains());
    let later = secs(10 + states.len() as u64 + 5);
    open(&mut gateway, later, 4000);
    assert!(gateway.flows().any(|flow| flow.key.src.port() == 4000 && flow.state == "withdrawn"));
    assert_eq!(gateway.counters().flows_withdrawn, 1);
}

/// RFC 9768 §3.1.2: a server that is offered classic ECN answers so, and a client that offered more takes it.
#[test]
fn of_a_flow_that_is_split_accurate_ecn_is_not_offered() {
    let accurate = TcpFlags::AE | TcpFlags::CWR | TcpFlags::ECE;
    let mut gateway = Gateway::new(GatewayConfig::default());
    for _ in 0..2 {
        // Retransmitted, it is the same.
        let out = pass(&mut gateway, secs(1), segment(CLIENT, 5000, 0, TcpFlags::SYN | accurate, 0));
        let flags = out[0].1.as_tcp().unwrap().header.flags;
        assert_eq!(flags, TcpFlags::SYN | TcpFlags::CWR | TcpFlags::ECE);
    }
    pass(&mut gateway, secs(1), segment(SERVER, 5000, 0, TcpFlags::SYN | TcpFlags::ACK | TcpFlags::ECE, 0));
    pass(&mut gateway, secs(1), segment(CLIENT, 5000, 1, TcpFlags::ACK, 0));
    assert_eq!(gateway.counters().flows_split, 1);

    let whole = Policy { mode: Mode::Pass, ..Policy::default() };
    let mut gateway = Gateway::new(GatewayConfig::of(whole));
    let out = pass(&mut gateway, secs(1), segment(CLIENT, 5000, 0, TcpFlags::SYN | accurate, 0));
    assert!(out[0].1.as_tcp().unwrap().header.flags.contains(accurate), "what stays whole is as it was");
}

/// RFC 7413: a cookie that is asked for, and none that is used, is between the ends.
#[test]
fn who_asks_for_a_fast_open_cookie_is_split_and_who_uses_one_is_not() {
    for (bytes, split) in [(0, 1), (100, 0)] {
        let mut gateway = Gateway::new(GatewayConfig::default());
        let mut syn = segment(CLIENT, 5000, 0, TcpFlags::SYN, bytes);
        if let shorthaul_wire::Transport::Tcp(segment) = &mut syn.transport {
            segment.header.options.unknown.try_extend_from_slice(&[34, 2]).unwrap();
        }
        let out = pass(&mut gateway, secs(1), syn.clone());
        assert_eq!(out[0].1, syn, "and it passes as it came");
        pass(&mut gateway, secs(1), segment(SERVER, 5000, 0, TcpFlags::SYN | TcpFlags::ACK, 0));
        pass(&mut gateway, secs(1), segment(CLIENT, 5000, 1, TcpFlags::ACK, 0));
        assert_eq!(gateway.counters().flows_split, split);
    }
}
