//! Segments that do not come as plain packets: in fragments, behind options and extension headers. What of a split connection
//! passed the gateway unseen would be acknowledged by the far end, and no segment of that end would be taken any more.
use shorthaul_proxy::{Gateway, GatewayConfig};
use shorthaul_types::{PortId, SeqNum, Time};
use shorthaul_wire::{
    ChecksumMode, Datagram, Fragment, IpHeader, Ipv4Header, Ipv6Header, Machine, Offload, Packet, Payload,
    TcpFlags, TcpHeader, TcpOptions, TcpSegment, Transport, TxBatch, parse, to_datagram,
};
use std::time::Duration;

const CLIENT: u8 = 1;
const SERVER: u8 = 2;

struct World {
    gateway: Gateway,
    now: Time,
    v6: bool,
    id: u32,
}

impl World {
    /// A gateway with one connection, which is open.
    fn new(v6: bool) -> World {
        Self::with(v6, GatewayConfig::default())
    }

    fn with(v6: bool, config: GatewayConfig) -> World {
        let mut world = World { gateway: Gateway::new(config), now: Time::from_secs(1), v6, id: 0 };
        for (from, flags) in
            [(CLIENT, TcpFlags::SYN), (SERVER, TcpFlags::SYN | TcpFlags::ACK), (CLIENT, TcpFlags::ACK)]
        {
            let offset = u32::from(!flags.contains(TcpFlags::SYN));
            let packet = world.segment(from, offset, 1, flags, 0);
            world.pass(from, packet);
        }
        assert_eq!(world.gateway.counters().flows_split, 1);
        world
    }

    fn ip(&self, from: u8) -> IpHeader {
        let to = CLIENT + SERVER - from;
        if self.v6 {
            IpHeader::V6(Ipv6Header {
                src: [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, from].into(),
                dst: [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, to].into(),
                traffic_class: 0,
                hop_limit: 64,
                flow_label: 0,
            })
        } else {
            IpHeader::V4(Ipv4Header {
                src: [10, 0, 0, from].into(),
                dst: [10, 0, 0, to].into(),
                tos: 0,
                ttl: 64,
                id: 0,
                dont_fragment: false,
            })
        }
    }

    fn segment(&self, from: u8, offset: u32, ack: u32, flags: TcpFlags, bytes: usize) -> Packet {
        let ports = if from == CLIENT { (5000, 80) } else { (80, 5000) };
        let mut header = TcpHeader {
            src_port: ports.0,
            dst_port: ports.1,
            seq: SeqNum(100 + offset),
            ack: SeqNum(if flags.contains(TcpFlags::ACK) { 100 + ack } else { 0 }),
            flags,
            window: 60_000,
            ..TcpHeader::default()
        };
        if flags.contains(TcpFlags::SYN) {
            header.options = TcpOptions { mss: Some(8960), sack_permitted: true, ..TcpOptions::default() };
        }
        let payload: Vec<u8> = (0..bytes).map(|i| (offset as usize + i) as u8).collect();
        Packet::tcp(
            self.ip(from),
            TcpSegment { header, payload: Payload::copy_of(&payload).into(), gso_size: None },
        )
    }

    fn pass(&mut self, from: u8, packet: Packet) -> TxBatch {
        self.now += Duration::from_millis(1);
        self.gateway.handle_timeout(self.now);
        self.gateway.handle_packet(
            self.now,
            if from == CLIENT { Gateway::ACCESS } else { Gateway::WAN },
            packet,
        );
        let mut out = TxBatch::new();
        while self.gateway.poll_transmit(self.now, &mut out) {}
        out
    }

    /// Hands bytes in, as a device does.
    fn pass_bytes(&mut self, from: u8, bytes: &[u8]) -> TxBatch {
        let datagram = Datagram { bytes: Payload::copy_of(bytes), offload: Offload::default() };
        let packet = parse(datagram).expect("it is a packet");
        self.pass(from, packet)
    }

    /// A packet as fragments of `size` bytes.
    fn fragments(&mut self, packet: &Packet, size: usize) -> Vec<Vec<u8>> {
        self.id += 1;
        let bytes = to_datagram(packet, ChecksumMode::Full).bytes;
        let body = bytes.slice(packet.ip.len()..bytes.len());
        let count = body.len().div_ceil(size);
        let fragment = |i: usize| {
            let fragment =
                Fragment { id: self.id, offset: (i * size) as u16, more: i + 1 < count, protocol: 6 };
            let payload = body.slice(i * size..((i + 1) * size).min(body.len()));
            let part = Packet {
                ip: packet.ip,
                transport: Transport::Fragment { fragment, payload },
                original: None,
            };
            to_datagram(&part, ChecksumMode::Full).bytes.as_slice().to_vec()
        };
        (0..count).map(fragment).collect()
    }

    fn count(&self, name: &str) -> u64 {
        self.gateway.counters().named().find(|(known, _)| *known == name).map_or(0, |(_, count)| count)
    }
}

/// The payload that goes out by `port`, and the last acknowledgment there.
fn toward(out: &TxBatch, port: PortId) -> (Vec<u8>, Option<u32>) {
    let segments = out.iter().filter(|(to, _)| *to == port).filter_map(|(_, packet)| packet.as_tcp());
    let mut bytes = Vec::new();
    let mut ack = None;
    for segment in segments {
        for slice in segment.payload.slices() {
            bytes.extend_from_slice(slice.as_slice());
        }
        ack = Some(segment.header.ack.0 - 100);
    }
    (bytes, ack)
}

fn pattern(offset: u32, len: usize) -> Vec<u8> {
    (0..len).map(|i| (offset as usize + i) as u8).collect()
}

/// The connection lives: the client, which has `have` bytes, asks for the next and is answered.
fn goes_on(world: &mut World, have: u32) {
    let ask = world.segment(CLIENT, 1, have + 1, TcpFlags::ACK, 10);
    let out = world.pass(CLIENT, ask);
    assert_eq!(toward(&out, Gateway::WAN).0, pattern(1, 10), "what the client says is believed");
    let answer = world.segment(SERVER, have + 1, 11, TcpFlags::ACK, 20);
    let out = world.pass(SERVER, answer);
    assert_eq!(toward(&out, Gateway::ACCESS).0, pattern(have + 1, 20));
}

#[test]
fn a_segment_in_fragments_is_taken_like_any_other() {
    for v6 in [false, true] {
        for order in [[0, 1, 2], [2, 0, 1], [1, 2, 0]] {
            let mut world = World::new(v6);
            let packet = world.segment(SERVER, 1, 1, TcpFlags::ACK, 3000);
            let parts = world.fragments(&packet, 1480);
            assert_eq!(parts.len(), 3);
            let mut out = TxBatch::new();
            for i in order {
                assert!(out.is_empty(), "nothing leaves before all are there");
                out = world.pass_bytes(SERVER, &parts[i]);
            }
            assert_eq!(toward(&out, Gateway::ACCESS).0, pattern(1, 3000));
            assert_eq!(toward(&out, Gateway::WAN).1, Some(3001), "and acknowledged");
            assert_eq!((world.count("segments_reassembled"), world.gateway.allocated() > 0), (1, true));
            goes_on(&mut world, 3000);
        }
    }
}

#[test]
fn fragments_that_disagree_are_dropped_and_the_segment_comes_again() {
    let mut world = World::new(false);
    let packet = world.segment(SERVER, 1, 1, TcpFlags::ACK, 3000);
    let mut parts = world.fragments(&packet, 1480);
    world.pass_bytes(SERVER, &parts[0]);
    world.pass_bytes(SERVER, &parts[0].clone());
    assert_eq!(world.count("fragment-duplicate"), 1, "a copy is harmless");
    // The same place with another byte: one of the two is a lie (RFC 5722).
    *parts[0].last_mut().unwrap() ^= 1;
    world.pass_bytes(SERVER, &parts[0]);
    for part in &parts[1..] {
        let out = world.pass_bytes(SERVER, part);
        assert!(out.is_empty(), "{out:?}");
    }
    assert_eq!(world.count("fragment-overlap"), 3);
    let again = world.fragments(&packet, 1480);
    let out: TxBatch = again.iter().flat_map(|part| world.pass_bytes(SERVER, part)).collect();
    assert_eq!(toward(&out, Gateway::ACCESS).0, pattern(1, 3000));
}

#[test]
fn fragments_of_other_connections_pass_as_they_came() {
    let mut world = World::new(true);
    let mut packet = world.segment(SERVER, 1, 1, TcpFlags::ACK, 3000);
    if let Transport::Tcp(segment) = &mut packet.transport {
        segment.header.dst_port = 5001;
    }
    let parts = world.fragments(&packet, 1480);
    let out: TxBatch = parts.iter().rev().flat_map(|part| world.pass_bytes(SERVER, part)).collect();
    let bytes: Vec<_> =
        out.iter().map(|(port, packet)| (*port, to_datagram(packet, ChecksumMode::Full).bytes)).collect();
    let expected: Vec<_> = parts.iter().rev().map(|part| (Gateway::ACCESS, Payload::copy_of(part))).collect();
    assert_eq!(bytes, expected);
    assert_eq!(world.count("passed-fragment"), 3);
}

#[test]
fn a_flood_of_fragments_is_bounded_and_takes_nobody_elses_room() {
    let mut world = World::new(false);
    let mut most = 0;
    for i in 0..20_000u32 {
        let mut packet = world.segment(SERVER, 1, 1, TcpFlags::ACK, 1472);
        if let IpHeader::V4(ip) = &mut packet.ip {
            ip.src = (0x0b00_0000 + i / 4).into(); // strangers
        }
        let first = world.fragments(&packet, 1480 - 8).swap_remove(0);
        world.pass_bytes(SERVER, &first);
        most = most.max(world.gateway.allocated());
        if i == 15_000 {
            let packet = world.segment(SERVER, 1, 1, TcpFlags::ACK, 3000);
            let parts = world.fragments(&packet, 1480);
            let out: TxBatch = parts.iter().flat_map(|part| world.pass_bytes(SERVER, part)).collect();
            assert_eq!(toward(&out, Gateway::ACCESS).0, pattern(1, 3000), "in the midst of it");
        }
    }
    assert!(most <= (4 << 20) + 8_000, "{most} bytes held"); // with what the connection holds
    // One source alone fills its share, no more; and who speaks in its name keeps nothing of it from being put together.
    let before = world.count("fragment-evicted");
    for i in 0..2_000 {
        let packet = world.segment(SERVER, 1, 1, TcpFlags::ACK, 1472);
        let first = world.fragments(&packet, 1480 - 8).swap_remove(0);
        world.pass_bytes(SERVER, &first);
        if i == 1_500 {
            let ack = world.segment(CLIENT, 1, 3_001, TcpFlags::ACK, 0);
            world.pass(CLIENT, ack);
            let packet = world.segment(SERVER, 3_001, 1, TcpFlags::ACK, 3000);
            let parts = world.fragments(&packet, 1480);
            let out: TxBatch = parts.iter().flat_map(|part| world.pass_bytes(SERVER, part)).collect();
            assert_eq!(toward(&out, Gateway::ACCESS).0, pattern(3_001, 3000), "in the midst of its own");
        }
    }
    assert!(world.count("fragment-evicted") > before + 1_000);
    world.now += Duration::from_secs(6);
    world.gateway.handle_timeout(world.now);
    assert!(world.gateway.allocated() < 4_000, "what does not come in time is forgotten");
    assert!(world.count("fragment-incomplete") > 0);
}

/// What is refused is remembered, and that takes memory, too.
#[test]
fn datagrams_that_were_refused_are_bounded_like_others() {
    // Then fragments may hold 256 KiB.
    let memory = shorthaul_types::Bytes(1 << 20);
    let mut world = World::with(false, GatewayConfig { memory, ..GatewayConfig::default() });
    for i in 0..40_000u32 {
        let mut packet = world.segment(SERVER, 1, 1, TcpFlags::ACK, 40);
        if let IpHeader::V4(ip) = &mut packet.ip {
            ip.src = (0x0b00_0000 + i).into();
        }
        let mut first = world.fragments(&packet, 48).swap_remove(0);
        world.pass_bytes(SERVER, &first);
        *first.last_mut().unwrap() ^= 1;
        world.pass_bytes(SERVER, &first);
    }
    // With 256 bytes each.
    let kept = (256 << 10) / 256;
    assert!(
        world.count("fragment-overlap") == 40_000 && world.count("fragment-evicted") >= 40_000 - kept - 100
    );
}

/// The bytes of a packet with IPv4 options, or IPv6 destination options.
fn with_options(packet: &Packet) -> Vec<u8> {
    let mut bytes = to_datagram(packet, ChecksumMode::Full).bytes.as_slice().to_vec();
    if packet.ip.len() == 40 {
        bytes.splice(40..40, [6, 0, 1, 4, 0, 0, 0, 0]);
        bytes[6] = 60;
        let len = (bytes.len() - 40) as u16;
        bytes[4..6].copy_from_slice(&len.to_be_bytes());
    } else {
        bytes.splice(20..20, [148, 4, 0, 0]); // router alert
        bytes[0] = 0x46;
        let len = bytes.len() as u16;
        bytes[2..4].copy_from_slice(&len.to_be_bytes());
        bytes[10..12].fill(0);
        let sum = shorthaul_wire::checksum::of(&bytes[..24]);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    bytes
}

#[test]
fn options_and_extension_headers_in_mid_stream_do_not_hide_a_segment() {
    for v6 in [false, true] {
        let mut world = World::new(v6);
        let packet = world.segment(SERVER, 1, 1, TcpFlags::ACK, 1000);
        let out = world.pass_bytes(SERVER, &with_options(&packet));
        assert_eq!(toward(&out, Gateway::ACCESS).0, pattern(1, 1000));
        assert_eq!(toward(&out, Gateway::WAN).1, Some(1001));
        goes_on(&mut world, 1000);
    }
}

#[test]
fn a_connection_that_opens_with_ip_options_stays_whole() {
    for v6 in [false, true] {
        for from in [CLIENT, SERVER] {
            let mut world = World::new(v6);
            let other = |mut packet: Packet| {
                if let Transport::Tcp(TcpSegment { header, .. }) = &mut packet.transport {
                    let port = if from == CLIENT { 6000 } else { 6001 };
                    *(if header.dst_port == 80 { &mut header.src_port } else { &mut header.dst_port }) = port;
                }
                packet
            };
            for (side, flags) in
                [(CLIENT, TcpFlags::SYN), (SERVER, TcpFlags::SYN | TcpFlags::ACK), (CLIENT, TcpFlags::ACK)]
            {
                let offset = u32::from(!flags.contains(TcpFlags::SYN));
                let packet = other(world.segment(side, offset, 1, flags, 0));
                let bytes = if side == from && flags.contains(TcpFlags::SYN) {
                    with_options(&packet)
                } else {
                    to_datagram(&packet, ChecksumMode::Full).bytes.as_slice().to_vec()
                };
                let out = world.pass_bytes(side, &bytes);
                assert_eq!(out.len(), 1);
                assert_eq!(
                    out[0].1.original.as_ref().unwrap().bytes.as_slice(),
                    bytes,
                    "it passes as it came"
                );
            }
            assert_eq!((world.gateway.counters().flows_split, world.count("unsplit_options")), (1, 1));
        }
    }
}

/// RFC 8200 §4.2: what its first two bits say of an option that is not known is for the destination, which is at none of these.
#[test]
fn destination_options_that_are_not_known_pass_as_they_came() {
    for action in [0x00, 0x40, 0x80, 0xc0] {
        let mut world = World::new(true);
        let dressed = |world: &World, from, offset, flags, bytes| {
            let mut packet = world.segment(from, offset, 1, flags, bytes);
            if let Transport::Tcp(TcpSegment { header, .. }) = &mut packet.transport {
                *(if from == CLIENT { &mut header.src_port } else { &mut header.dst_port }) = 6000;
            }
            let mut bytes = with_options(&packet);
            bytes[42] = action | 0x1e; // RFC 4727 §8: for experiments
            bytes
        };
        for (from, offset, flags, bytes) in [
            (CLIENT, 0, TcpFlags::SYN, 0),
            (SERVER, 0, TcpFlags::SYN | TcpFlags::ACK, 0),
            (CLIENT, 1, TcpFlags::ACK, 100),
            (SERVER, 1, TcpFlags::ACK, 1000),
        ] {
            let bytes = dressed(&world, from, offset, flags, bytes);
            let out = world.pass_bytes(from, &bytes);
            assert_eq!(out.len(), 1, "{action:#x}: nothing is said of it");
            assert_eq!(out[0].1.original.as_ref().unwrap().bytes.as_slice(), bytes, "{action:#x}");
        }
        assert_eq!((world.gateway.counters().flows_split, world.count("unsplit_options")), (1, 1));
    }
}

#[test]
fn a_repeated_option_does_not_hide_a_segment() {
    let mut world = World::new(false);
    let packet = world.segment(SERVER, 1, 1, TcpFlags::ACK, 100);
    let mut bytes = to_datagram(&packet, ChecksumMode::Full).bytes.as_slice().to_vec();
    bytes.splice(40..40, [[8u8, 10, 0, 0, 0, 1, 0, 0, 0, 0]; 2].concat());
    bytes[32] = 0xa0;
    let len = bytes.len() as u16;
    bytes[2..4].copy_from_slice(&len.to_be_bytes());
    let datagram = Datagram {
        bytes: Payload::copy_of(&bytes),
        offload: Offload { checksum_verified: true, ..Offload::default() },
    };
    let out = world.pass(SERVER, parse(datagram).expect("it is a packet"));
    assert_eq!(toward(&out, Gateway::ACCESS).0, pattern(1, 100));
    goes_on(&mut world, 100);
}

#[test]
fn what_passes_unseen_is_counted_with_its_reason() {
    let mut world = World::new(false);
    for (protocol, name) in [(1, "passed-icmp"), (51, "passed-ipsec"), (132, "passed-other-protocol")] {
        let transport = Transport::Opaque { protocol, payload: Payload::copy_of(&[0; 30]) };
        let packet = Packet { ip: world.ip(CLIENT), transport, original: None };
        let out = world.pass(CLIENT, packet.clone());
        assert_eq!((out, world.count(name)), (vec![(Gateway::WAN, packet)], 1));
    }
}
