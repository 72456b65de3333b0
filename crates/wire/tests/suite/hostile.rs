//! Bytes that nobody should send: what is no packet is given back with the reason, and nothing panics.
use crate::packets::{offload, packet, reference_checksum, tcp};
use crate::wire_parse;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use shorthaul_wire::{
    ChecksumMode, Datagram, IpHeader, Offload, PartialChecksum, Payload, RejectReason, Transport, parse,
    to_datagram,
};

fn datagram(bytes: &[u8]) -> Datagram {
    Datagram { bytes: Payload::copy_of(bytes), offload: Offload::default() }
}

/// Why the bytes are rejected. They must come back as they were.
fn reason(datagram: &Datagram) -> Option<RejectReason> {
    let rejected = parse(datagram.clone()).err()?;
    assert_eq!(rejected.datagram, *datagram);
    Some(rejected.reason)
}

/// The bytes of a TCP packet, with the place of its TCP header.
fn tcp_bytes(packet: &shorthaul_wire::Packet) -> (Vec<u8>, usize) {
    (to_datagram(packet, ChecksumMode::Full).bytes.as_slice().to_vec(), packet.ip.len())
}

/// Makes the checksum of an IPv4 header right again.
fn fix_ipv4(bytes: &mut [u8]) {
    let len = usize::from(bytes[0] & 0xf) * 4;
    bytes[10..12].fill(0);
    let checksum = reference_checksum(&bytes[..len]);
    bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
}

proptest! {
    #[test]
    fn arbitrary_bytes_do_no_harm(bytes in vec(any::<u8>(), 0..200), offload in offload()) {
        wire_parse::check(&Datagram { bytes: Payload::copy_of(&bytes), offload });
    }

    #[test]
    fn mutated_packets_do_no_harm(
        packet in packet(),
        offload in offload(),
        edits in vec((any::<Index>(), any::<u8>()), 0..6),
        headers_only: bool,
        len in any::<Index>(),
    ) {
        let mut bytes = to_datagram(&packet, ChecksumMode::Full).bytes.as_slice().to_vec();
        let within = if headers_only { bytes.len().min(60) } else { bytes.len() };
        for (at, value) in edits {
            bytes[at.index(within)] = value;
        }
        wire_parse::check(&Datagram { bytes: Payload::copy_of(&bytes), offload });
        bytes.truncate(len.index(bytes.len()));
        wire_parse::check(&Datagram { bytes: Payload::copy_of(&bytes), offload });
    }

    #[test]
    fn a_cut_off_packet_is_truncated(packet in packet(), len in any::<Index>()) {
        let whole = to_datagram(&packet, ChecksumMode::Full);
        let cut = Datagram { bytes: whole.bytes.slice(0..len.index(whole.bytes.len())), ..whole };
        prop_assert_eq!(reason(&cut), Some(RejectReason::IpTruncated));
    }

    #[test]
    fn a_flipped_bit_is_noticed(packet in tcp(), at in any::<Index>(), bit in 0u8..8) {
        let (mut bytes, ip_len) = tcp_bytes(&packet);
        let at = at.index(bytes.len() - ip_len) + ip_len;
        prop_assume!(at != ip_len + 12); // the data offset has a reason of its own
        bytes[at] ^= 1 << bit;
        prop_assert_eq!(reason(&datagram(&bytes)), Some(RejectReason::TcpBadChecksum));
    }

    #[test]
    fn a_flipped_bit_in_an_ipv4_header_is_noticed(packet in tcp(), at in 1usize..20, bit in 0u8..8) {
        prop_assume!(matches!(packet.ip, IpHeader::V4(_)) && !matches!(at, 2 | 3)); // nor version and lengths
        let (mut bytes, _) = tcp_bytes(&packet);
        bytes[at] ^= 1 << bit;
        prop_assert_eq!(reason(&datagram(&bytes)), Some(RejectReason::IpBadChecksum));
    }

    #[test]
    fn a_verified_checksum_is_not_verified_again(packet in tcp()) {
        let (mut bytes, ip_len) = tcp_bytes(&packet);
        bytes[ip_len + 16] ^= 0xff;
        let mut datagram = datagram(&bytes);
        datagram.offload.checksum_verified = true;
        prop_assert_eq!(parse(datagram).expect("the device knows").transport, packet.transport);
    }

    #[test]
    fn a_data_offset_beyond_the_packet_is_noticed(packet in tcp()) {
        let (mut bytes, ip_len) = tcp_bytes(&packet);
        for offset in [0, 4] {
            bytes[ip_len + 12] = offset << 4 | bytes[ip_len + 12] & 0xf;
            prop_assert_eq!(reason(&datagram(&bytes)), Some(RejectReason::TcpBadOffset));
        }
        let len = packet.ip.len() + 20;
        bytes.truncate(len);
        match packet.ip {
            IpHeader::V4(_) => {
                bytes[2..4].copy_from_slice(&(len as u16).to_be_bytes());
                fix_ipv4(&mut bytes);
            }
            IpHeader::V6(_) => bytes[4..6].copy_from_slice(&20u16.to_be_bytes()),
        }
        bytes[ip_len + 12] = 6 << 4;
        prop_assert_eq!(reason(&datagram(&bytes)), Some(RejectReason::TcpBadOffset));
    }

    #[test]
    fn a_checksum_left_undone_elsewhere_is_no_tcp(packet in tcp(), start: u16, offset: u16) {
        let mut datagram = to_datagram(&packet, ChecksumMode::Partial);
        let wrong = PartialChecksum { start, offset };
        prop_assume!(datagram.offload.partial_checksum != Some(wrong));
        datagram.offload.partial_checksum = Some(wrong);
        prop_assert_eq!(reason(&datagram), Some(RejectReason::OffloadMismatch));
    }

    #[test]
    fn fragments_and_ipv4_options_are_opaque(packet in tcp(), more: bool, offset in prop_oneof![Just(0u16), 0u16..0x2000]) {
        prop_assume!(matches!(packet.ip, IpHeader::V4(_)) && (more || offset > 0));
        let (mut bytes, _) = tcp_bytes(&packet);
        let opaque = |bytes: &[u8], header_len: usize| {
            let parsed = parse(datagram(bytes)).expect("it is a packet");
            let payload = Payload::copy_of(&bytes[header_len..]);
            assert_eq!(parsed.transport, Transport::Opaque { protocol: 6, payload });
            assert_eq!(parsed.original, Some(datagram(bytes)));
        };

        let mut fragment = bytes.clone();
        let field = u16::from_be_bytes([bytes[6], bytes[7]]) | u16::from(more) << 13 | offset;
        fragment[6..8].copy_from_slice(&field.to_be_bytes());
        fix_ipv4(&mut fragment);
        opaque(&fragment, 20);

        bytes.splice(20..20, [1, 1, 1, 0]);
        bytes[0] = 0x46;
        let len = bytes.len() as u16;
        bytes[2..4].copy_from_slice(&len.to_be_bytes());
        fix_ipv4(&mut bytes);
        opaque(&bytes, 24);
    }

    #[test]
    fn ipv6_extension_headers_are_opaque(packet in tcp()) {
        prop_assume!(matches!(packet.ip, IpHeader::V6(_)));
        for extension in [0, 43, 44, 60] {
            let (mut bytes, _) = tcp_bytes(&packet);
            bytes.splice(40..40, [6, 0, 1, 4, 0, 0, 0, 0]);
            bytes[6] = extension;
            let len = bytes.len() as u16 - 40;
            bytes[4..6].copy_from_slice(&len.to_be_bytes());
            let parsed = parse(datagram(&bytes)).expect("it is a packet");
            let payload = Payload::copy_of(&bytes[40..]);
            prop_assert_eq!(parsed.transport, Transport::Opaque { protocol: extension, payload });
        }
    }
}

#[test]
fn what_is_no_ip_header_is_named() {
    let with = |edits: &[(usize, u8)]| {
        let mut bytes = [0u8; 40];
        bytes[0] = 0x45;
        bytes[3] = 40;
        bytes[9] = 59;
        for &(at, value) in edits {
            bytes[at] = value;
        }
        fix_ipv4(&mut bytes);
        reason(&datagram(&bytes))
    };
    assert_eq!(with(&[]), None);
    assert_eq!(with(&[(0, 0x55)]), Some(RejectReason::IpBadVersion));
    assert_eq!(with(&[(0, 0x44)]), Some(RejectReason::IpBadLength));
    assert_eq!(with(&[(3, 19)]), Some(RejectReason::IpBadLength));
    assert_eq!(with(&[(3, 41)]), Some(RejectReason::IpTruncated));
    assert_eq!(with(&[(9, 6), (3, 39)]), Some(RejectReason::TcpTruncated));
    assert_eq!(reason(&datagram(&[])), Some(RejectReason::IpTruncated));
}

/// Why a segment with these option bytes is rejected.
fn options_reason(options: &[u8]) -> Option<RejectReason> {
    let mut bytes = vec![0; 40];
    bytes[0] = 0x60;
    bytes.extend([0; 20]);
    bytes.extend(options);
    bytes[5] = bytes.len() as u8 - 40;
    bytes[6] = 6;
    bytes[40 + 12] = ((20 + options.len()) * 4) as u8;
    let mut datagram = datagram(&bytes);
    datagram.offload.checksum_verified = true;
    reason(&datagram)
}

#[test]
fn malformed_and_repeated_options_are_named() {
    let malformed = Some(RejectReason::TcpOptionsMalformed);
    assert_eq!(options_reason(&[1, 1, 1, 8]), malformed);
    assert_eq!(options_reason(&[2, 0, 1, 1]), malformed);
    assert_eq!(options_reason(&[2, 1, 1, 1]), malformed);
    assert_eq!(options_reason(&[1, 253, 4, 0]), malformed);
    assert_eq!(options_reason(&[2, 4, 5, 6, 2, 4, 5, 6]), Some(RejectReason::TcpOptionRepeated));
    assert_eq!(options_reason(&[4, 2, 4, 2]), Some(RejectReason::TcpOptionRepeated));
    assert_eq!(options_reason(&[3, 3, 1, 3, 3, 1, 0, 0]), Some(RejectReason::TcpOptionRepeated));
    let two = [[8, 10, 0, 0, 0, 0, 0, 0, 0, 0]; 2].concat();
    assert_eq!(options_reason(&two), Some(RejectReason::TcpOptionRepeated));
    // Behind the end of the options anything may stand, and a wrong length makes an option unknown.
    assert_eq!(options_reason(&[0, 2, 0, 9]), None);
    assert_eq!(options_reason(&[2, 3, 9, 1, 2, 4, 5, 6]), None);
}

#[test]
fn a_router_passes_on_what_only_the_ends_reject() {
    for (index, reason) in RejectReason::ALL.into_iter().enumerate() {
        assert_eq!(reason.index(), index);
        assert_eq!(reason.is_forwardable(), !reason.as_str().starts_with("ip-"), "{reason}");
    }
}

#[test]
fn an_ipv6_jumbogram_keeps_its_bytes() {
    let mut bytes = vec![0; 40];
    bytes[0] = 0x60;
    bytes.extend([6, 0, 0xc2, 4, 0, 1, 0x11, 0x70]);
    bytes.resize(40 + 70_000, 7);
    let parsed = parse(datagram(&bytes)).expect("RFC 2675 allows it");
    assert_eq!(parsed.original, Some(datagram(&bytes)));
    assert!(matches!(parsed.transport, Transport::Opaque { protocol: 0, .. }));
}
