//! The same segment in other packets: in fragments, behind IP options, behind extension headers. And what a host makes of them.
use super::World;
use shorthaul_wire::{
    ChecksumMode, Datagram, Fragment, IpHeader, Offload, Packet, Payload, Transport, join, parse, to_datagram,
};
use std::net::IpAddr;

const TCP: u8 = 6;
/// More fragments than this a host does not keep.
const KEPT: usize = 64;

/// Cuts a packet into fragments of about `size` bytes; leaves a super-segment as it is.
pub fn fragments(packet: Packet, id: u32, size: usize) -> Vec<Packet> {
    let is_plain = packet.as_tcp().is_some_and(|segment| segment.gso_size.is_none());
    if !is_plain || packet.original.is_some() {
        return vec![packet];
    }
    let bytes = to_datagram(&packet, ChecksumMode::Full).bytes;
    let body = bytes.slice(packet.ip.len()..bytes.len());
    let size = (size / 8).max(1) * 8;
    let count = body.len().div_ceil(size);
    let part = |i: usize| {
        let fragment = Fragment { id, offset: (i * size) as u16, more: i + 1 < count, protocol: TCP };
        let payload = body.slice(i * size..((i + 1) * size).min(body.len()));
        let part =
            Packet { ip: packet.ip, transport: Transport::Fragment { fragment, payload }, original: None };
        read(to_datagram(&part, ChecksumMode::Full).bytes.as_slice().to_vec())
    };
    (0..count).map(part).collect()
}

/// Puts options of no meaning behind the IP header: four NOPs in IPv4, a destination options header in IPv6.
pub fn with_options(packet: Packet) -> Packet {
    let is_plain = packet.as_tcp().is_some_and(|segment| segment.gso_size.is_none());
    if !is_plain || packet.original.is_some() {
        return packet;
    }
    let mut bytes = to_datagram(&packet, ChecksumMode::Full).bytes.as_slice().to_vec();
    match packet.ip {
        IpHeader::V4(_) => {
            bytes.splice(20..20, [1; 4]);
            bytes[0] = 0x46;
            let length = bytes.len() as u16;
            bytes[2..4].copy_from_slice(&length.to_be_bytes());
            bytes[10..12].copy_from_slice(&[0; 2]);
            let words = bytes[..24].chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
            let mut sum: u32 = words.sum();
            while sum > 0xffff {
                sum = (sum & 0xffff) + (sum >> 16);
            }
            bytes[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
        }
        IpHeader::V6(_) => {
            const DESTINATION_OPTIONS: u8 = 60;
            const PAD_N: u8 = 1;
            bytes.splice(40..40, [TCP, 0, PAD_N, 4, 0, 0, 0, 0]);
            bytes[6] = DESTINATION_OPTIONS;
            let length = (bytes.len() - 40) as u16;
            bytes[4..6].copy_from_slice(&length.to_be_bytes());
        }
    }
    read(bytes)
}

fn read(bytes: Vec<u8>) -> Packet {
    let datagram = Datagram { bytes: Payload::copy_of(&bytes), offload: Offload::default() };
    parse(datagram).unwrap_or_else(|rejected| panic!("{} in {bytes:02x?}", rejected.reason))
}

/// What a host keeps of datagrams that came in part.
#[derive(Debug, Default)]
pub struct Parts(Vec<Packet>);

impl Parts {
    /// A packet comes: what it is, or what it completes.
    pub fn take(&mut self, packet: Packet) -> Option<Packet> {
        let Transport::Fragment { fragment, .. } = &packet.transport else { return Some(packet) };
        let name = |packet: &Packet, fragment: &Fragment| -> (IpAddr, u32) { (packet.ip.src(), fragment.id) };
        let own = name(&packet, fragment);
        let offset = fragment.offset;
        let is_of = |other: &Packet| match &other.transport {
            Transport::Fragment { fragment, .. } => name(other, fragment) == own,
            _ => false,
        };
        let is_known = self.0.iter().filter(|other| is_of(other)).any(
            |other| matches!(&other.transport, Transport::Fragment { fragment, .. } if fragment.offset == offset),
        );
        if is_known {
            return None;
        }
        self.0.push(packet);
        let all: Vec<Packet> = self.0.iter().filter(|other| is_of(other)).cloned().collect();
        if let Some(whole) = join(&all) {
            self.0.retain(|other| !is_of(other));
            return parse(whole).ok();
        }
        if self.0.len() > KEPT {
            self.0.remove(0);
        }
        None
    }
}

impl World {
    /// What an end's packet looks like on its link.
    pub(super) fn dressed(&mut self, packet: Packet) -> Vec<Packet> {
        if self.chance.happens(self.faults.fragments) {
            self.fragment_id += 1;
            let size = 8 * (1 + self.chance.below(100) as usize);
            return fragments(packet, self.fragment_id, size);
        }
        if self.chance.happens(self.faults.options) {
            return vec![with_options(packet)];
        }
        vec![packet]
    }
}
