//! What must hold for packets in unusual clothes, of connections that are split and of no known ones, over IPv4 and IPv6: IP options, chains
//! of extension headers, fragments that overlap, come twice, come in any order or never, and bytes that are no packet at all.
//!
//! * nothing panics, and no poll goes on for ever;
//! * memory stays within its bounds;
//! * whatever leaves in an end's name is what this end sent, in its place in the stream;
//! * what leaves can be read again.
use shorthaul_proxy::{Gateway, GatewayConfig};
use shorthaul_testkit::packets;
use shorthaul_types::{Bytes, PortId, SeqNum, Time};
use shorthaul_wire::{
    ChecksumMode, Datagram, Machine, Offload, Packet, Payload, PayloadList, TcpFlags, TcpHeader, TcpOptions,
    TxBatch, parse, to_datagram,
};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

const MEMORY: u64 = 1 << 20;
/// No end sends more.
const LONGEST: u32 = 200_000;
const TCP: u8 = 6;
/// Extension headers: hop-by-hop, routing, fragment, authentication, destination options, mobility, none, and one that nobody knows.
const HEADERS: [u8; 8] = [0, 43, 44, 51, 60, 135, 59, 253];

/// One input of the fuzzer: how it begins, then packets. Says how many bytes arrived of what the two ends sent.
pub fn run(input: &[u8]) -> u64 {
    let mut script = Script(input);
    let Some(kind) = script.byte() else { return 0 };
    let mut world = World::open(kind & 1 != 0);
    while let Some(step) = script.byte() {
        if world.step(step, &mut script).is_none() {
            break;
        }
    }
    world.sent.iter().zip(world.arrived).map(|(sent, arrived)| u64::from(arrived.min(*sent))).sum()
}

struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn word(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes([self.byte()?, self.byte()?]))
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        let (taken, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        taken.to_vec()
    }
}

/// The byte of the stream of `side` at `offset`.
fn pattern(side: usize, offset: u32) -> u8 {
    (offset.wrapping_mul(31) >> 3) as u8 ^ (0x55 * side as u8)
}

/// A gateway with a connection that is split, at the level of bytes.
struct World {
    now: Time,
    gateway: Gateway,
    ends: [SocketAddr; 2],
    /// How much each end has sent, and has arrived at the other in order.
    sent: [u32; 2],
    arrived: [u32; 2],
    number: u16,
    /// What was made of a segment last, for what comes again.
    kept: Vec<Vec<u8>>,
}

impl World {
    fn open(is_v6: bool) -> World {
        let config =
            GatewayConfig { memory: Bytes(MEMORY), flow_buffer: Bytes(100_000), ..GatewayConfig::default() };
        let address = |side: u16| match is_v6 {
            false => IpAddr::from([10, 0, side as u8, 1]),
            true => IpAddr::from([0xfd00, 0, 0, 0, 0, 0, side, 1]),
        };
        let ends = [SocketAddr::new(address(0), 4_000), SocketAddr::new(address(1), 80)];
        let mut world = World {
            now: Time::from_secs(1),
            gateway: Gateway::new(config),
            ends,
            sent: [0; 2],
            arrived: [0; 2],
            number: 0,
            kept: Vec::new(),
        };
        let syn_ack = TcpFlags::SYN | TcpFlags::ACK;
        for (side, flags, seq, ack) in
            [(0, TcpFlags::SYN, 0, 0), (1, syn_ack, 0, 1), (0, TcpFlags::ACK, 1, 1)]
        {
            let options = if seq == 0 { packets::syn_options(1_000) } else { TcpOptions::default() };
            let header = TcpHeader {
                seq: SeqNum(seq),
                ack: SeqNum(ack),
                flags,
                window: 60_000,
                options,
                ..TcpHeader::default()
            };
            let packet = world.segment(side, header, &[]);
            world.come(side, packet);
        }
        assert_eq!(world.gateway.counters().flows_split, 1);
        world
    }

    /// A segment as bytes.
    fn segment(&self, side: usize, header: TcpHeader, payload: &[u8]) -> Vec<u8> {
        let payload = if payload.is_empty() { PayloadList::new() } else { Payload::copy_of(payload).into() };
        let packet = packets::segment(self.ends[side], self.ends[1 - side], header, payload);
        to_datagram(&packet, ChecksumMode::Full).bytes.as_slice().to_vec()
    }

    /// One step of a script; `None` at its end.
    fn step(&mut self, step: u8, script: &mut Script<'_>) -> Option<()> {
        let side = usize::from(step & 1);
        match step >> 1 & 7 {
            0 => {
                let bytes = script.bytes(200);
                self.come(side, bytes);
            }
            1 => {
                self.now += Duration::from_millis(u64::from(script.byte()?) * 20);
                self.gateway.handle_timeout(self.now);
                self.flush();
            }
            2 => {
                let again = self.kept.get(usize::from(script.byte()?) % self.kept.len().max(1)).cloned();
                again.into_iter().for_each(|bytes| self.come(side, bytes));
            }
            kind => {
                let whole = self.own(side, script)?;
                let dressed = match kind {
                    3 | 4 => self.fragments(whole, script)?,
                    5 => vec![self.with_options(whole, script)?],
                    6 => {
                        let dressed = self.with_options(whole, script)?;
                        self.fragments(dressed, script)?
                    }
                    _ => vec![whole],
                };
                dressed.into_iter().for_each(|bytes| self.come(side, bytes));
            }
        }
        Some(())
    }

    /// What an end sends: what is new, or once more from some place on, and what it has.
    fn own(&mut self, side: usize, script: &mut Script<'_>) -> Option<Vec<u8>> {
        let (bits, size) = (script.byte()?, u32::from(script.byte()?) * 6);
        let from = match bits & 3 {
            0..=2 => self.sent[side],
            _ => self.sent[side].saturating_sub(u32::from(script.word()?)),
        };
        let end = (from + size).min(LONGEST);
        let payload: Vec<u8> = (from..end).map(|at| pattern(side, at)).collect();
        self.sent[side] = self.sent[side].max(end);
        let header = TcpHeader {
            seq: SeqNum(1 + from),
            ack: SeqNum(1 + self.arrived[1 - side]),
            flags: TcpFlags::ACK,
            window: if bits & 4 == 0 { 60_000 } else { 0 },
            ..TcpHeader::default()
        };
        Some(self.segment(side, header, &payload))
    }

    /// Cuts a packet where the script says, and puts the parts in an order of its own: some are left out, come twice or overlap.
    fn fragments(&mut self, whole: Vec<u8>, script: &mut Script<'_>) -> Option<Vec<Vec<u8>>> {
        let head = self.head();
        let (protocol, body) = match head {
            20 => (whole[9], whole[usize::from(whole[0] & 15) * 4..].to_vec()),
            _ => (whole[6], whole[40..].to_vec()),
        };
        self.number = self.number.wrapping_add(1);
        let size = 8 * (1 + usize::from(script.byte()? & 31));
        let tricks = script.byte()?;
        let mut parts = Vec::new();
        for (number, at) in (0..body.len()).step_by(size).enumerate() {
            let overlap = if tricks & 1 != 0 && number == 1 { 8 } else { 0 };
            let end = (at + size + overlap).min(body.len());
            let more = end < body.len() || tricks & 2 != 0;
            let mut part = whole[..head].to_vec();
            if head == 20 {
                part[0] = 0x45;
                let length = (20 + end - at) as u16;
                part[2..4].copy_from_slice(&length.to_be_bytes());
                part[4..6].copy_from_slice(&self.number.to_be_bytes());
                let field = (at / 8) as u16 | u16::from(more) << 13;
                part[6..8].copy_from_slice(&field.to_be_bytes());
                checksum(&mut part);
            } else {
                let length = (8 + end - at) as u16;
                part[4..6].copy_from_slice(&length.to_be_bytes());
                part[6] = 44;
                part.extend([protocol, 0]);
                part.extend(((at as u16) | u16::from(more)).to_be_bytes());
                part.extend(u32::from(self.number).to_be_bytes());
            }
            part.extend(&body[at..end]);
            parts.push(part);
        }
        if tricks & 4 != 0 {
            parts.reverse();
        }
        if tricks & 8 != 0 {
            parts.pop();
        }
        if tricks & 16 != 0 {
            parts.extend(parts.first().cloned());
        }
        if tricks & 32 != 0 && parts.len() > 1 {
            parts.swap(0, 1);
        }
        Some(parts)
    }

    /// Puts IP options, or a chain of extension headers, in front of what a packet has.
    fn with_options(&mut self, mut whole: Vec<u8>, script: &mut Script<'_>) -> Option<Vec<u8>> {
        if self.head() == 20 {
            let words = usize::from(script.byte()? % 11);
            let mut options = script.bytes(4 * words);
            options.resize(4 * words, 0);
            whole.splice(20..20, options);
            whole[0] = 0x45 + words as u8;
            let length = whole.len() as u16;
            whole[2..4].copy_from_slice(&length.to_be_bytes());
            checksum(&mut whole);
            return Some(whole);
        }
        let mut next = TCP;
        let count = script.byte()? & 7;
        for _ in 0..count {
            let bits = script.byte()?;
            let kind = HEADERS[usize::from(bits & 7)];
            let units = usize::from(bits >> 3 & 3);
            let mut header = vec![next, units as u8];
            header.extend(script.bytes(6 + 8 * units));
            header.resize(8 + 8 * units, 0);
            match kind {
                // Its length is in words, less two.
                51 => header[1] = (2 * units) as u8,
                // A whole packet in a fragment of its own (RFC 6946), unless the script says otherwise.
                44 if bits & 0x80 == 0 => {
                    header.truncate(8);
                    header[1..4].fill(0);
                }
                _ if bits & 0x40 != 0 => header[1] = script.byte()?,
                // Padding alone.
                _ => {
                    header[2] = 1;
                    header[3] = (4 + 8 * units) as u8;
                    header[4..].fill(0);
                }
            }
            whole.splice(40..40, header);
            next = kind;
        }
        whole[6] = next;
        let length = (whole.len() - 40) as u16;
        whole[4..6].copy_from_slice(&length.to_be_bytes());
        Some(whole)
    }

    fn head(&self) -> usize {
        if self.ends[0].is_ipv4() { 20 } else { 40 }
    }

    /// A packet comes from `side`.
    fn come(&mut self, side: usize, bytes: Vec<u8>) {
        self.kept.push(bytes.clone());
        if self.kept.len() > 16 {
            self.kept.remove(0);
        }
        let datagram = Datagram { bytes: Payload::copy_of(&bytes), offload: Offload::default() };
        if let Ok(packet) = parse(datagram) {
            self.gateway.handle_packet(self.now, PortId(side as u8), packet);
        }
        self.flush();
    }

    fn flush(&mut self) {
        let mut out = TxBatch::new();
        let mut polls = 0;
        while self.gateway.poll_transmit(self.now, &mut out) {
            polls += 1;
            assert!(polls < 10_000, "polling goes on for ever");
        }
        let held = self.gateway.allocated() as u64;
        assert!(held <= MEMORY, "{held} bytes held");
        for (port, packet) in out {
            let read = parse(to_datagram(&packet, ChecksumMode::Full)).expect("what leaves can be read");
            self.check(usize::from(1 - (port.0 & 1)), &read);
        }
    }

    /// A packet leaves for the end opposite to `side`.
    fn check(&mut self, side: usize, packet: &Packet) {
        let (Some(key), Some(segment)) = (packet.flow(), packet.as_tcp()) else { return };
        if [key.src, key.dst] != [self.ends[side], self.ends[1 - side]] {
            return;
        }
        let mut bytes = vec![0; segment.payload.len()];
        segment.payload.copy_to(&mut bytes);
        let from = segment.header.seq.0.wrapping_sub(1);
        if bytes.is_empty() {
            return; // a SYN lies one before the first byte
        }
        for (at, byte) in bytes.iter().enumerate() {
            let at = from.wrapping_add(at as u32);
            assert!(at < self.sent[side], "byte {at} of {side} was not sent");
            assert_eq!(*byte, pattern(side, at), "byte {at} of {side}");
        }
        if from <= self.arrived[side] {
            self.arrived[side] = self.arrived[side].max(from + bytes.len() as u32);
        }
    }
}

/// Writes that of an IPv4 header.
fn checksum(packet: &mut [u8]) {
    let len = usize::from(packet[0] & 15) * 4;
    packet[10..12].fill(0);
    let words = packet[..len].chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    packet[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}
