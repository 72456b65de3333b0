//! Any packet that there can be, as proptest strategies.
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use shorthaul_types::SeqNum;
use shorthaul_wire::{
    Gso, IpHeader, Ipv4Header, Ipv6Header, Offload, Packet, PartialChecksum, Payload, PayloadList, SackBlock,
    TcpFlags, TcpHeader, TcpOptions, TcpSegment, Timestamps, Transport, UdpHeader,
};
use std::num::NonZeroU16;

/// Headers of either version.
pub fn ip() -> impl Strategy<Value = IpHeader> {
    let v4 = (any::<[u8; 4]>(), any::<[u8; 4]>(), any::<(u8, u8, u16, bool)>()).prop_map(
        |(src, dst, (tos, ttl, id, dont_fragment))| {
            IpHeader::V4(Ipv4Header { src: src.into(), dst: dst.into(), tos, ttl, id, dont_fragment })
        },
    );
    let v6 = (any::<[u8; 16]>(), any::<[u8; 16]>(), any::<(u8, u8)>(), 0u32..1 << 20).prop_map(
        |(src, dst, (traffic_class, hop_limit), flow_label)| {
            let (src, dst) = (src.into(), dst.into());
            IpHeader::V6(Ipv6Header { src, dst, traffic_class, hop_limit, flow_label })
        },
    );
    prop_oneof![v4, v6]
}

/// Options that fit into a header.
pub fn tcp_options() -> impl Strategy<Value = TcpOptions> {
    let known = (
        option::of(any::<u16>()),
        option::of(any::<u8>()),
        any::<bool>(),
        option::of(any::<(u32, u32)>()),
        vec(any::<(u32, u32)>(), 0..=4),
    );
    let unknown = vec((9u8.., vec(any::<u8>(), 0..12)), 0..4);
    (known, unknown).prop_map(|((mss, window_scale, sack_permitted, timestamps, sack), unknown)| {
        let timestamps = timestamps.map(|(val, ecr)| Timestamps { val, ecr });
        let mut options =
            TcpOptions { mss, window_scale, sack_permitted, timestamps, ..TcpOptions::default() };
        let mut room = 40 - 4 * usize::from(mss.is_some()) - 3 * usize::from(window_scale.is_some());
        room -= 2 * usize::from(sack_permitted) + 10 * usize::from(timestamps.is_some());
        let blocks = sack.len().min(room.saturating_sub(2) / 8);
        options.sack = sack[..blocks]
            .iter()
            .map(|&(left, right)| SackBlock { left: SeqNum(left), right: SeqNum(right) })
            .collect();
        room -= if blocks > 0 { 2 + 8 * blocks } else { 0 };
        for (kind, data) in unknown {
            if data.len() + 2 <= room {
                room -= data.len() + 2;
                options.unknown.extend([kind, data.len() as u8 + 2]);
                options.unknown.extend(data);
            }
        }
        options
    })
}

/// TCP headers.
pub fn tcp_header() -> impl Strategy<Value = TcpHeader> {
    let fields = any::<(u16, u16, u32, u32, u16, u16)>();
    (fields, 0u16..1 << 12, tcp_options()).prop_map(
        |((src_port, dst_port, seq, ack, window, urgent), flags, options)| TcpHeader {
            src_port,
            dst_port,
            seq: SeqNum(seq),
            ack: SeqNum(ack),
            flags: TcpFlags(flags),
            window,
            urgent,
            options,
        },
    )
}

/// Payloads in slices of any lengths, odd ones included.
pub fn payload_list() -> impl Strategy<Value = PayloadList> {
    vec(vec(any::<u8>(), 0..400), 0..6).prop_map(|parts| {
        let mut list = PayloadList::new();
        for part in parts {
            list.push(Payload::copy_of(&part)).expect("there are fewer slices than fit");
        }
        list
    })
}

/// Plain TCP packets.
pub fn tcp() -> impl Strategy<Value = Packet> {
    (ip(), tcp_header(), payload_list())
        .prop_map(|(ip, header, payload)| Packet::tcp(ip, TcpSegment { header, payload, gso_size: None }))
}

/// TCP super-segments of at least two pieces.
pub fn super_segment() -> impl Strategy<Value = Packet> {
    (ip(), tcp_header(), vec(vec(any::<u8>(), 1..2500), 2..6), 1u16..1460).prop_map(
        |(ip, header, parts, size)| {
            let mut payload = PayloadList::new();
            for part in parts {
                payload.push(Payload::copy_of(&part)).expect("there are fewer slices than fit");
            }
            let size = usize::from(size).min(payload.len() - 1) as u16;
            Packet::tcp(ip, TcpSegment { header, payload, gso_size: NonZeroU16::new(size) })
        },
    )
}

/// Packets of any kind that a header without extensions can carry.
pub fn packet() -> impl Strategy<Value = Packet> {
    let udp = (ip(), any::<(u16, u16)>(), vec(any::<u8>(), 0..1500)).prop_map(
        |(ip, (src_port, dst_port), payload)| {
            let header = UdpHeader { src_port, dst_port };
            Packet {
                ip,
                transport: Transport::Udp { header, payload: Payload::copy_of(&payload) },
                original: None,
            }
        },
    );
    let opaque = (ip(), 60u8.., vec(any::<u8>(), 0..1500)).prop_map(|(ip, protocol, payload)| Packet {
        ip,
        transport: Transport::Opaque { protocol, payload: Payload::copy_of(&payload) },
        original: None,
    });
    prop_oneof![4 => tcp(), 2 => super_segment(), 1 => udp, 1 => opaque]
}

/// What a device may claim, also what makes no sense.
pub fn offload() -> impl Strategy<Value = Offload> {
    let number = prop_oneof![0u16..80, any::<u16>()];
    let partial = option::of((number.clone(), prop_oneof![Just(16), number.clone()]))
        .prop_map(|partial| partial.map(|(start, offset)| PartialChecksum { start, offset }));
    let gso = option::of((1u16.., number)).prop_map(|gso| {
        gso.and_then(|(size, header_len)| Some(Gso { size: NonZeroU16::new(size)?, header_len }))
    });
    (partial, gso, any::<bool>()).prop_map(|(partial_checksum, gso, checksum_verified)| Offload {
        partial_checksum,
        gso,
        checksum_verified,
    })
}

/// The internet checksum as RFC 1071 §4.1 spells it out, one word after the other.
pub fn reference_checksum(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
