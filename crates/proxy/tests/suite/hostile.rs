//! Ends that mean harm: what they cost others is bounded.
use crate::by_hand::{MSS, Subject, WINDOW_UNIT, segment};
use shorthaul_proxy::{Gateway, GatewayConfig};
use shorthaul_types::{Bytes, PortId, SeqNum};
use shorthaul_wire::{IpHeader, Machine, TcpFlags, TcpHeader, TxBatch};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

const SERVER: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 1), 80);

/// A client's address and port.
type Client = (Ipv4Addr, u16);

struct World {
    subject: Subject,
    /// Where the ends' sequence numbers begin.
    isn: u32,
    /// What both say of their windows.
    window: u16,
    /// Up to where the server was told that it may send, as an offset of its stream.
    edges: BTreeMap<Client, u32>,
}

impl World {
    fn new(config: GatewayConfig) -> World {
        World { subject: Subject::new(config), isn: 100, window: 60_000, edges: BTreeMap::new() }
    }

    fn wait(&mut self, time: Duration) {
        let out = self.subject.wait(time);
        self.note(&out);
    }

    /// What leaves now.
    fn leaves(&mut self) -> TxBatch {
        let out = self.subject.leaves();
        self.note(&out);
        out
    }

    fn note(&mut self, out: &TxBatch) {
        for (_, packet) in out.iter().filter(|(port, _)| *port == Gateway::WAN) {
            let (IpHeader::V4(ip), Some(segment)) = (packet.ip, packet.as_tcp()) else { continue };
            let header = &segment.header;
            if header.flags.intersects(TcpFlags::SYN | TcpFlags::RST) {
                continue;
            }
            let edge = header.ack.0.wrapping_sub(self.isn) + u32::from(header.window) * WINDOW_UNIT;
            self.edges.insert((ip.src, header.src_port), edge);
        }
    }

    /// A segment from the client, or from the server to it.
    fn says(
        &mut self,
        up: bool,
        client: Client,
        flags: TcpFlags,
        seq: u32,
        ack: u32,
        bytes: usize,
    ) -> TxBatch {
        let (seq, ack) = (SeqNum(seq), SeqNum(ack));
        let header = TcpHeader { seq, ack, flags, window: self.window, ..TcpHeader::default() };
        let ends = [client, SERVER].map(SocketAddr::from);
        let out = self.subject.takes(up, segment(ends, up, self.isn, header, &vec![7; bytes]));
        self.note(&out);
        out
    }

    /// How a connection stands, if it is known.
    fn state(&self, client: Client) -> Option<&'static str> {
        let flow = self.subject.gateway.flows().find(|flow| flow.key.src == SocketAddr::from(client))?;
        Some(flow.state)
    }

    /// Opens a connection, with 50 ms between the segments; whether it was split.
    fn open(&mut self, client: Client) -> bool {
        let before = self.subject.gateway.counters().flows_split;
        let pause = Duration::from_millis(50);
        self.says(true, client, TcpFlags::SYN, 0, 0, 0);
        self.wait(pause);
        self.says(false, client, TcpFlags::SYN | TcpFlags::ACK, 0, 1, 0);
        self.wait(pause);
        self.says(true, client, TcpFlags::ACK, 1, 1, 0);
        self.subject.gateway.counters().flows_split > before
    }
}

fn host(number: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0a00_0000 + number)
}

#[test]
fn a_flood_of_syns_keeps_nobody_from_being_split() {
    let mut world = World::new(GatewayConfig::default());
    // 2,500 a second, every other of which the server answers; a hundred seconds.
    let (mut opened, mut split) = (0, 0);
    for i in 0..250_000u32 {
        let stranger = (Ipv4Addr::from_bits(0xc600_0000 + i), 1000);
        world.says(true, stranger, TcpFlags::SYN, 0, 0, 0);
        if i % 2 == 0 {
            world.says(false, stranger, TcpFlags::SYN | TcpFlags::ACK, 0, 1, 0);
        }
        world.subject.now += Duration::from_micros(400);
        if i % 2_500 == 0 {
            // Somebody else's connection, whose round trip takes a fifth of a second.
            let client = (host(i), 5000);
            world.says(true, client, TcpFlags::SYN, 0, 0, 0);
        } else if i % 2_500 == 250 {
            world.says(false, (host(i - 250), 5000), TcpFlags::SYN | TcpFlags::ACK, 0, 1, 0);
        } else if i % 2_500 == 500 {
            opened += 1;
            world.says(true, (host(i - 500), 5000), TcpFlags::ACK, 1, 1, 0);
            split = world.subject.gateway.counters().flows_split;
        }
        assert!(
            world.subject.gateway.flows_known() <= 8_192 + 101,
            "{} entries",
            world.subject.gateway.flows_known()
        );
    }
    assert_eq!((opened, split), (100, 100));
    world.wait(Duration::from_secs(11));
    let left = world.subject.gateway.flows().filter(|flow| flow.state == "opening").count();
    assert!(left <= 4_096, "what was not answered is forgotten after ten seconds: {left}");
}

/// These connections are opened, and the server sends to them what it may for 100 ms, of which they acknowledge nothing; `look` after each turn.
fn read_nothing(world: &mut World, clients: &[Client], look: impl Fn(&World)) {
    for client in clients {
        world.open(*client);
    }
    let mut sent: BTreeMap<Client, u32> = BTreeMap::new();
    for _ in 0..100 {
        for client in clients {
            let at = sent.entry(*client).or_insert(1);
            let edge = world.edges.get(client).copied().unwrap_or(60_000);
            for _ in 0..32 {
                if *at + MSS <= edge {
                    world.says(false, *client, TcpFlags::ACK, *at, 1, MSS as usize);
                    *at += MSS;
                }
            }
            look(world);
        }
        world.subject.now += Duration::from_millis(1);
    }
}

#[test]
fn readers_that_never_read_leave_room_for_others() {
    let memory = 64 << 20;
    let config =
        GatewayConfig { memory: Bytes(memory), flow_buffer: Bytes(4 << 20), ..GatewayConfig::default() };
    let mut world = World::new(config);
    // 300 connections of one host, which acknowledges nothing.
    let greedy: Vec<Client> = (0..300).map(|i| (host(1), 2_000 + i)).collect();
    read_nothing(&mut world, &greedy, |world| {
        let held = world.subject.gateway.allocated() as u64;
        assert!(held <= memory, "{held} bytes held");
    });
    let held = world.subject.gateway.allocated() as u64;
    assert!(held > memory / 4, "they take what they can get: {held}");
    assert!(held <= memory / 8 * 7, "{held} bytes held");
    // Others come, and are served as if nothing were.
    for number in 2..12 {
        let client = (host(number), 4_000);
        assert!(
            world.open(client),
            "{number} is not split, where {} bytes are held",
            world.subject.gateway.allocated()
        );
        let edge = world.edges.get(&client).copied().unwrap_or(0);
        let mut at = 1;
        for _ in 0..200 {
            assert!(world.edges.get(&client).copied().unwrap_or(60_000) >= at + MSS, "at {at} of {edge}");
            world.says(false, client, TcpFlags::ACK, at, 1, MSS as usize);
            at += MSS;
            world.says(true, client, TcpFlags::ACK, 1, at, 0);
        }
        let window = world.edges[&client] - at;
        assert!(window >= 256 * 1024, "{window} bytes are offered to {number}");
    }
    // What was acknowledged is held until it is read, and nothing of it is broken.
    assert_eq!(
        (world.subject.gateway.counters().flows_reset, world.subject.gateway.counters().flows_given_up),
        (0, 0)
    );
}

/// One who has many addresses: so many hosts with 8 connections each.
fn who_has_many_addresses_reads_nothing(world: &mut World, hosts: u32) {
    let greedy: Vec<Client> = (0..8 * hosts).map(|i| (host(1_000 + i / 8), 2_000 + (i % 8) as u16)).collect();
    read_nothing(world, &greedy, |_| {});
}

/// Whether `out` has data for that side, from `at` on of what the other one sends.
fn reaches(out: &TxBatch, side: PortId, isn: u32, at: u32) -> bool {
    out.iter()
        .filter(|(port, _)| *port == side)
        .filter_map(|(_, packet)| packet.as_tcp())
        .any(|segment| segment.header.seq.0.wrapping_sub(isn) == at && !segment.payload.is_empty())
}

#[test]
fn who_has_many_addresses_leaves_the_reserve_to_others() {
    let memory = 64 << 20;
    let config =
        GatewayConfig { memory: Bytes(memory), flow_buffer: Bytes(4 << 20), ..GatewayConfig::default() };
    let mut world = World::new(config);
    let old = (host(2), 4_000);
    assert!(world.open(old));
    who_has_many_addresses_reads_nothing(&mut world, 64);
    let held = world.subject.gateway.allocated() as u64;
    assert!(held > memory / 2, "they take what they can get: {held}");
    assert!(memory - held >= memory / 8 - 64 * 80 * 1024, "{held} bytes are held");
    for client in [old, (host(3), 4_000)] {
        assert!(client == old || world.open(client), "{client:?} is not split");
        let mut at = 1;
        for _ in 0..200 {
            let out = world.says(false, client, TcpFlags::ACK, at, 1, MSS as usize);
            assert!(reaches(&out, Gateway::ACCESS, world.isn, at), "{client:?} at {at}");
            at += MSS;
            world.says(true, client, TcpFlags::ACK, 1, at, 0);
        }
        assert_eq!(world.state(client), Some("split"));
    }
}

/// With addresses enough there is no memory left. What is split already goes on whole then; nothing stands.
#[test]
fn without_memory_connections_go_on_whole() {
    let memory = 8 << 20;
    let config =
        GatewayConfig { memory: Bytes(memory), flow_buffer: Bytes(1 << 20), ..GatewayConfig::default() };
    let mut world = World::new(config);
    let clients = [(host(2), 4_000), (host(3), 4_001)];
    for client in clients {
        assert!(world.open(client));
        world.says(false, client, TcpFlags::ACK, 1, 1, MSS as usize);
    }
    let [silent, hasty, early] = [(host(4), 4_002), (host(5), 4_003), (host(6), 4_004)];
    assert!(world.open(silent) && world.open(hasty) && world.open(early));
    world.says(false, early, TcpFlags::ACK, 1 + MSS, 1, MSS as usize);
    who_has_many_addresses_reads_nothing(&mut world, 400);
    world.says(true, hasty, TcpFlags::ACK, 1, 1, MSS as usize);
    assert_eq!(world.state(hasty), Some("split"), "memory may be there again in a moment");
    // What is retransmitted to them is remembered, too.
    world.wait(Duration::from_secs(2));
    let held = world.subject.gateway.allocated() as u64;
    assert!(held > memory - u64::from(MSS), "{held} bytes are held");
    assert!(held < memory / 8 * 9, "{held} bytes are held");
    world.says(false, early, TcpFlags::ACK, 1 + MSS, 1, MSS as usize);
    assert_eq!(world.state(early), Some("split"), "what was reported to have come is not forgotten");
    assert_eq!(world.state(silent), Some("split"));
    let out = world.says(true, silent, TcpFlags::ACK, 1, 1, MSS as usize);
    assert!(reaches(&out, Gateway::WAN, world.isn, 1), "what nothing is held of passes at once");
    for client in clients {
        let mut at = 1 + MSS;
        // What was there before is acknowledged only now, and there is no room for what comes with that: it comes again.
        let asks = |world: &mut World| world.says(true, client, TcpFlags::ACK, 1, 1 + MSS, MSS as usize);
        let first = asks(&mut world);
        assert!(!reaches(&first, Gateway::WAN, world.isn, 1), "{client:?}: there was room");
        world.wait(Duration::from_secs(1));
        assert!(reaches(&asks(&mut world), Gateway::WAN, world.isn, 1), "{client:?}");
        for _ in 0..200 {
            let out = world.says(false, client, TcpFlags::ACK, at, 1 + MSS, MSS as usize);
            assert!(reaches(&out, Gateway::ACCESS, world.isn, at), "{client:?} at {at}");
            at += MSS;
            world.says(true, client, TcpFlags::ACK, 1 + MSS, at, 0);
        }
    }
    assert_eq!(
        (world.subject.gateway.counters().flows_reset, world.subject.gateway.counters().flows_given_up),
        (0, 0)
    );
}

/// A server that many ask reads nothing of what some of them send: that is no reason to let go of what it sends to others.
#[test]
fn who_fills_the_share_of_a_server_leaves_downloads_from_it_alone() {
    let memory = 8 << 20;
    let config =
        GatewayConfig { memory: Bytes(memory), flow_buffer: Bytes(1 << 20), ..GatewayConfig::default() };
    let mut world = World::new(config);
    let [reader, writer] = [(host(2), 4_000), (host(3), 4_001)];
    assert!(world.open(reader) && world.open(writer));
    let uploads: Vec<Client> = (0..400).map(|i| (host(100 + i), 2_000)).collect();
    for client in &uploads {
        world.open(*client);
    }
    for at in (0..200).map(|i| 1 + i * MSS) {
        for client in &uploads {
            world.says(true, *client, TcpFlags::ACK, at, 1, MSS as usize);
        }
    }
    who_has_many_addresses_reads_nothing(&mut world, 20);
    for _ in 0..30 {
        world.wait(Duration::from_millis(100));
    }
    let held = world.subject.gateway.allocated() as u64;
    assert!(held > memory / 8 * 7, "{held} bytes are held");
    let mut at = 1;
    for _ in 0..100 {
        world.says(false, reader, TcpFlags::ACK, at, 1, MSS as usize);
        at += MSS;
        world.says(true, reader, TcpFlags::ACK, 1, at, 0);
    }
    // An update of its window, of which nothing waits for the server.
    world.says(true, reader, TcpFlags::ACK, 1, at, 0);
    assert_eq!(world.state(reader), Some("split"));
    // What is for the server itself has no room, and passes.
    let out = world.says(true, writer, TcpFlags::ACK, 1, 1, MSS as usize);
    assert!(reaches(&out, Gateway::WAN, world.isn, 1));
    assert_ne!(world.state(writer), Some("split"));
}

#[test]
fn what_cannot_be_taken_is_not_answered_without_end() {
    let mut world = World::new(GatewayConfig::default());
    let client = (host(1), 5000);
    assert!(world.open(client));
    // Somebody is owed bytes, so that it is not stepped out of.
    world.says(true, client, TcpFlags::ACK, 1, 1, 100);
    let mut answers = 0;
    for i in 0..3_000u32 {
        // Beyond the window, acknowledgments of what was never sent, resets in the window, SYNs, window probes.
        let out = match i % 5 {
            0 => world.says(true, client, TcpFlags::ACK, 900_000_000, 1, 0),
            1 => world.says(true, client, TcpFlags::ACK, 1, 5_000_000, 0),
            2 => world.says(true, client, TcpFlags::RST, 150, 0, 0),
            3 => world.says(true, client, TcpFlags::SYN, 7_777, 0, 0),
            _ => world.says(true, client, TcpFlags::ACK, 900_000_000, 1, 100),
        };
        answers += out.iter().filter(|(port, _)| *port == Gateway::ACCESS).count();
        world.subject.now += Duration::from_micros(100);
    }
    assert!((1..=10).contains(&answers), "{answers} answers in 0.3 s");
    let suppressed =
        world.subject.gateway.counters().named().find(|(name, _)| *name == "challenges_suppressed");
    assert!(suppressed.is_some_and(|(_, count)| count >= 2_900), "{suppressed:?}");
    // The connection lives.
    world.subject.now += Duration::from_secs(5);
    world.says(false, client, TcpFlags::ACK, 1, 101, 0);
    let out = world.says(true, client, TcpFlags::ACK, 101, 1, 100);
    let is_new = |header: &TcpHeader| header.seq == SeqNum(world.isn + 101);
    assert!(
        out.iter().any(|(port, packet)| *port == Gateway::WAN && is_new(&packet.as_tcp().unwrap().header))
    );
}

/// Two gateways one behind the other, of which each has seen another connection with these ports: what the one says is beyond
/// the other's window.
#[test]
fn two_gateways_do_not_answer_each_other_for_ever() {
    let mut near = World::new(GatewayConfig::default());
    let mut far = World { isn: 0x2000_0000, ..World::new(GatewayConfig::default()) };
    let client = (host(1), 5000);
    assert!(near.open(client) && far.open(client));
    // Both owe bytes to somebody who is silent, so that they do not step out.
    near.says(true, client, TcpFlags::ACK, 1, 1, 100);
    far.says(true, client, TcpFlags::ACK, 1, 1, 100);
    let mut toward_near = far.says(true, client, TcpFlags::ACK, 900_000_000, 1, 0);
    let mut rounds = 0;
    while !toward_near.is_empty() && rounds < 1_000 {
        rounds += 1;
        for (port, packet) in std::mem::take(&mut toward_near) {
            assert_eq!(port, Gateway::ACCESS);
            near.subject.gateway.handle_packet(near.subject.now, Gateway::WAN, packet);
        }
        for (port, packet) in near.leaves() {
            assert_eq!(port, Gateway::WAN);
            far.subject.gateway.handle_packet(far.subject.now, Gateway::ACCESS, packet);
        }
        toward_near = far.leaves();
    }
    assert!((2..=10).contains(&rounds), "they talk for {rounds} rounds");
}

/// Each end was sent one reset, and both were lost: the ends would ask each other for ever.
#[test]
fn an_end_that_did_not_hear_that_its_flow_was_given_up_is_told_again() {
    let mut world = World::new(GatewayConfig::default());
    let client = (host(1), 5000);
    assert!(world.open(client));
    world.says(false, client, TcpFlags::ACK, 1, 1, MSS as usize);
    world.wait(Duration::from_secs(1_800));
    assert_eq!(world.subject.gateway.counters().flows_given_up, 1, "nobody acknowledged for half an hour");
    let resets = |out: &TxBatch| -> Vec<(bool, u32)> {
        let segments =
            out.iter().map(|(port, packet)| (*port, packet.as_tcp().expect("a segment").header.clone()));
        let resets = segments.filter(|(_, header)| header.flags == TcpFlags::RST);
        resets.map(|(port, header)| (port == Gateway::ACCESS, header.seq.0)).collect()
    };
    let isn = world.isn;
    // Wherever it is by its own account, its reset stands there, and the other end hears nothing.
    let out = world.says(true, client, TcpFlags::ACK, 1, 700, 10);
    assert_eq!((out.len(), resets(&out)), (1, vec![(true, isn + 700)]));
    let out = world.says(false, client, TcpFlags::ACK, 9_000, 11, MSS as usize);
    assert_eq!((out.len(), resets(&out)), (1, vec![(false, isn + 11)]));
    // No more often than challenges, and resets are not answered.
    let flood: usize = (0..1_000).map(|_| world.says(true, client, TcpFlags::ACK, 1, 700, 10).len()).sum();
    assert!(flood <= 8, "{flood} answers");
    assert_eq!(
        resets(&world.says(true, client, TcpFlags::RST, 1, 0, 0)),
        vec![(false, isn + 1)],
        "it passes"
    );
    // Another connection with these ports is its own.
    assert!(world.open(client));
    let out = world.says(true, client, TcpFlags::ACK, 1, 1, 10);
    assert!(resets(&out).is_empty(), "{out:?}");
}

/// Who does not answer may be many.
#[test]
fn few_flows_that_were_given_up_are_remembered_and_not_for_long() {
    let mut world = World::new(GatewayConfig::default());
    for number in 0..5_000u32 {
        let client = (host(1 + number / 1_000), 1_000 + (number % 1_000) as u16);
        world.says(true, client, TcpFlags::SYN, 0, 0, 0);
        world.says(false, client, TcpFlags::SYN | TcpFlags::ACK, 0, 1, 0);
        world.says(true, client, TcpFlags::ACK, 1, 1, 0);
        world.says(false, client, TcpFlags::ACK, 1, 1, 10);
    }
    let given_up = |world: &World| world.subject.gateway.counters().flows_given_up;
    for _ in 0..60 {
        if given_up(&world) == 5_000 {
            break;
        }
        world.wait(Duration::from_secs(30));
    }
    assert_eq!(given_up(&world), 5_000);
    let answered = |world: &mut World, number: u32| {
        let client = (host(1 + number / 1_000), 1_000 + (number % 1_000) as u16);
        let before = world.subject.gateway.counters().resets_repeated;
        world.says(true, client, TcpFlags::ACK, 1, 1, 10);
        world.subject.gateway.counters().resets_repeated - before
    };
    let first: u64 = (0..5_000).map(|number| answered(&mut world, number)).sum();
    assert_eq!(first, 4_096);
    world.wait(Duration::from_secs(901));
    let later: u64 = (0..5_000).map(|number| answered(&mut world, number)).sum();
    assert_eq!(later, 0);
}

/// One host keeps as many connections busy as the table has places: others are split all the same.
#[test]
fn a_host_that_fills_the_table_leaves_places_for_others() {
    let config = GatewayConfig { max_flows: 400, ..GatewayConfig::default() };
    let mut world = World::new(config);
    let mut split = 0;
    for port in 0..500 {
        let client = (host(1), 2_000 + port);
        split += u32::from(world.open(client));
        // Of each, something is held for good: nobody steps out of it.
        world.says(false, client, TcpFlags::ACK, 1, 1, 100);
    }
    assert!((300..=400).contains(&split), "nearly all places are its own while nobody else asks: {split}");
    assert!((0..50).all(|i| world.open((host(100 + i), 5000))), "others are split");
    assert!(world.subject.gateway.counters().unsplit_overload >= 100);
}

/// What is idle makes room, whoever asks, and however many flows it has.
#[test]
fn a_full_table_of_idle_connections_has_places_for_all() {
    let config = GatewayConfig { max_flows: 400, ..GatewayConfig::default() };
    let mut world = World::new(config);
    assert!((0..400).all(|number| world.open((host(number), 2_000))));
    world.wait(Duration::from_secs(61));
    assert!((0..200).all(|port| world.open((host(1), 4_000 + port))));
}

/// Somebody who speaks for both ends shows a handshake of a connection that is older than the gateway.
#[test]
fn a_forged_handshake_does_not_part_the_ends_of_a_connection() {
    let mut world = World::new(GatewayConfig::default());
    let client = (host(1), 5000);
    assert!(world.open(client), "a stranger at either side");
    world.isn = 0x2000_0000;
    let mut heard = [0; 2];
    // What is lost is sent again, a few times.
    for _ in 0..4 {
        for up in [true, false] {
            let (seq, ack) = if up { (501, 901) } else { (901, 501) };
            let out = world.says(up, client, TcpFlags::ACK | TcpFlags::PSH, seq, ack, 100);
            let far = if up { Gateway::WAN } else { Gateway::ACCESS };
            let arrives = |packet: &shorthaul_wire::Packet| {
                let segment = packet.as_tcp().unwrap();
                segment.header.seq == SeqNum(world.isn + seq) && segment.payload.len() == 100
            };
            heard[usize::from(up)] +=
                out.iter().filter(|(port, packet)| *port == far && arrives(packet)).count();
            world.wait(Duration::from_millis(200));
        }
    }
    assert!(heard.iter().all(|heard| *heard > 0), "{heard:?}");
    assert_eq!(world.subject.gateway.counters().flows_stepped_out, 1);
}

#[test]
fn who_answers_a_syn_from_the_side_that_it_came_from_is_not_believed() {
    let mut world = World::new(GatewayConfig::default());
    let client = (host(1), 5000);
    let ends = [client, SERVER].map(SocketAddr::from);
    world.says(true, client, TcpFlags::SYN, 0, 0, 0);
    let header = TcpHeader {
        ack: SeqNum(1),
        flags: TcpFlags::SYN | TcpFlags::ACK,
        window: 60_000,
        ..TcpHeader::default()
    };
    world.subject.takes(true, segment(ends, false, world.isn, header, &[]));
    world.says(true, client, TcpFlags::ACK, 1, 1, 0);
    assert_eq!(world.subject.gateway.counters().flows_split, 0);
    assert_eq!(world.subject.gateway.flows_known(), 0);
}

/// What an end has acknowledged, and a window more after it, cannot be what it expects next (RFC 5961 §5): half of all numbers would do for one
/// who guesses.
#[test]
fn data_with_an_acknowledgment_from_long_ago_is_not_taken() {
    // Of 100 kB.
    let mut world = World { window: 100, ..World::new(GatewayConfig::default()) };
    let client = (host(1), 5000);
    assert!(world.open(client));
    let sent_to = |world: &World, out: &TxBatch| {
        let up =
            out.iter().filter(|(port, _)| *port == Gateway::WAN).filter_map(|(_, packet)| packet.as_tcp());
        up.map(|segment| (segment.header.seq.0 - world.isn) + segment.payload.len() as u32).max()
    };
    let (mut seq, mut acked) = (1, 1);
    // Ten times the window that the server offers.
    while acked < 1_000_000 {
        let mut sent = world.says(true, client, TcpFlags::ACK, seq, 1, 20_000);
        seq += 20_000;
        while acked < seq {
            acked = sent_to(&world, &sent).unwrap_or(acked).max(acked);
            sent = world.says(false, client, TcpFlags::ACK, 1, acked, 0);
            world.wait(Duration::from_millis(10));
        }
    }
    let taken = |out: &TxBatch| {
        let down = out.iter().filter(|(port, _)| *port == Gateway::ACCESS);
        down.filter_map(|(_, packet)| packet.as_tcp()).map(|segment| segment.payload.len()).sum::<usize>()
    };
    let out = world.says(false, client, TcpFlags::ACK, 1, 1, 100);
    assert_eq!(taken(&out), 0, "forged");
    let out = world.says(false, client, TcpFlags::ACK, 1, acked, 100);
    assert_eq!(taken(&out), 100, "the server's own");
}

#[test]
fn who_takes_tiny_segments_is_not_split() {
    let mut world = World::new(GatewayConfig::default());
    let client = (host(1), 5000);
    let ends = [client, SERVER].map(SocketAddr::from);
    let header = TcpHeader { flags: TcpFlags::SYN, window: 60_000, ..TcpHeader::default() };
    let mut syn = segment(ends, true, world.isn, header, &[]);
    if let shorthaul_wire::Transport::Tcp(segment) = &mut syn.transport {
        segment.header.options.mss = Some(64);
    }
    world.subject.takes(true, syn);
    assert_eq!(world.subject.gateway.counters().unsplit_options, 1);
}

/// One host alone, whose SYNs a server far away answers, but it never goes on: others' handshakes take 600 ms.
#[test]
fn the_half_open_connections_of_one_host_leave_others_their_time() {
    let config = GatewayConfig { max_flows: 1_024, ..GatewayConfig::default() };
    let mut world = World::new(config);
    let (mut opened, mut split) = (0, 0);
    for i in 0..40_000u32 {
        world.says(true, (host(1), (1_024 + i % 60_000) as u16), TcpFlags::SYN, 0, 0, 0);
        world.subject.now += Duration::from_micros(500);
        let other = |round: u32| (host(2 + round), 5000);
        match i % 2_000 {
            0 => drop(world.says(true, other(i / 2_000), TcpFlags::SYN, 0, 0, 0)),
            600 => drop(world.says(false, other(i / 2_000), TcpFlags::SYN | TcpFlags::ACK, 0, 1, 0)),
            1_200 => {
                opened += 1;
                world.says(true, other(i / 2_000), TcpFlags::ACK, 1, 1, 0);
                split = world.subject.gateway.counters().flows_split;
            }
            _ => {}
        }
    }
    assert_eq!((opened, split), (20, 20));
}

/// Connections that stay whole count as open once a server has answered.
#[test]
fn who_opens_connections_without_a_server_fills_no_table() {
    let policy = shorthaul_proxy::Policy { mode: shorthaul_proxy::Mode::Observe, ..Default::default() };
    let mut world = World::new(GatewayConfig { max_flows: 1_024, ..GatewayConfig::of(policy) });
    for i in 0..10_000u32 {
        let stranger = (Ipv4Addr::from_bits(0xc600_0000 + i), 1_000);
        world.says(true, stranger, TcpFlags::SYN, 0, 0, 0);
        world.says(true, stranger, TcpFlags::ACK, 1, 1, 0);
    }
    assert!(world.subject.gateway.flows_known() <= 1_024 / 8, "{}", world.subject.gateway.flows_known());
    assert_eq!(world.subject.gateway.counters().unobserved_overload, 0);
}
