//! Bytes that nobody should send: what is no packet is given back with the reason, and nothing panics.
use crate::packets::{offload, packet, reference_checksum, tcp};
use crate::wire_parse;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use shorthaul_wire::{
    ChecksumMode, Datagram, Fragment, IpHeader, Offload, Packet, PartialChecksum, Payload, RejectReason,
    TcpOptions, Transport, join, parse, to_datagram,
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
    fn a_chain_of_extension_headers_without_end_does_not_pass_unseen(packet in tcp(), headers in 1usize..40) {
        let (mut bytes, ip_len) = tcp_bytes(&packet);
        prop_assume!(matches!(packet.ip, IpHeader::V6(_)) && bytes.len() + 8 * headers <= 65_535);
        let chain: Vec<u8> =
            (1..=headers).flat_map(|at| [if at < headers { 60 } else { 6 }, 0, 1, 4, 0, 0, 0, 0]).collect();
        bytes.splice(ip_len..ip_len, chain);
        bytes[6] = 60;
        let len = (bytes.len() - 40) as u16;
        bytes[4..6].copy_from_slice(&len.to_be_bytes());
        let expected = (headers > 8).then_some(RejectReason::IpChainTooLong);
        prop_assert_eq!(reason(&datagram(&bytes)), expected);
        let parsed = parse(datagram(&bytes)).ok().map(|parsed| parsed.transport);
        prop_assert_eq!(parsed, expected.is_none().then_some(packet.transport));
    }

    #[test]
    fn tcp_is_read_behind_ipv4_options_and_extension_headers(packet in tcp(), headers in 0usize..4) {
        let (mut bytes, ip_len) = tcp_bytes(&packet);
        match packet.ip {
            IpHeader::V4(_) => {
                bytes.splice(20..20, [1, 1, 1, 0].repeat(headers));
                bytes[0] = 0x45 + headers as u8;
                let len = bytes.len() as u16;
                bytes[2..4].copy_from_slice(&len.to_be_bytes());
                fix_ipv4(&mut bytes);
            }
            IpHeader::V6(_) => {
                // Hop-by-hop, destination options, and a fragment header of all there is (RFC 6946).
                let chain = [60, 0, 1, 4, 0, 0, 0, 0, 44, 0, 1, 4, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 9];
                bytes.splice(40..40, chain[(3 - headers) * 8..].iter().copied());
                bytes[6] = [6, 44, 60, 0][headers];
                let len = bytes.len() as u16 - 40;
                bytes[4..6].copy_from_slice(&len.to_be_bytes());
            }
        }
        let parsed = parse(datagram(&bytes)).expect("it is a packet");
        prop_assert_eq!(&parsed.transport, &packet.transport);
        prop_assert_eq!(parsed.ip, packet.ip);
        prop_assert_eq!(parsed.has_ip_options(), headers > 0);
        prop_assert_eq!(parsed.original, Some(datagram(&bytes)));
        // The checksum covers what stands behind them.
        let last = bytes.len() - 1;
        prop_assume!(last > ip_len + 20 + headers * 8);
        bytes[last] ^= 1;
        prop_assert_eq!(reason(&datagram(&bytes)), Some(RejectReason::TcpBadChecksum));
    }

    #[test]
    fn fragments_in_any_order_are_the_segment_again(packet in tcp(), size in 1usize..40, order in any::<u64>()) {
        let whole = to_datagram(&packet, ChecksumMode::Full);
        let mut parts = fragments(&packet, size * 8);
        prop_assume!(parts.len() > 1);
        parts.sort_by_key(|part| {
            let Transport::Fragment { fragment, .. } = part.transport else { unreachable!() };
            (u64::from(fragment.offset) + 1).wrapping_mul(order | 1).rotate_left(31)
        });
        let joined = join(&parts).expect("all are there");
        let again = parse(joined).expect("the checksum is right");
        prop_assert_eq!(&again.transport, &parse(whole).unwrap().transport);
        let doubled: Vec<_> = parts.iter().chain(&parts[..1]).cloned().collect();
        prop_assert_eq!(join(&doubled), None, "one twice is an overlap");
        prop_assert_eq!(join(&parts[1..]), None, "one is missing");
    }
}

/// A packet as fragments of `size` bytes, as they are read from the wire.
fn fragments(packet: &Packet, size: usize) -> Vec<Packet> {
    let bytes = to_datagram(packet, ChecksumMode::Full).bytes;
    let body = bytes.slice(packet.ip.len()..bytes.len());
    let count = body.len().div_ceil(size);
    (0..count)
        .map(|i| {
            let fragment = Fragment { id: 7, offset: (i * size) as u16, more: i + 1 < count, protocol: 6 };
            let payload = body.slice(i * size..((i + 1) * size).min(body.len()));
            let part = Packet {
                ip: packet.ip,
                transport: Transport::Fragment { fragment, payload },
                original: None,
            };
            let read = parse(to_datagram(&part, ChecksumMode::Full)).expect("it is a packet");
            assert!(count == 1 || read.transport == part.transport, "{read:?}");
            read
        })
        .collect()
}

#[test]
fn what_is_on_its_way_elsewhere_or_hidden_is_opaque() {
    let with = |first: u8, chain: &[u8]| {
        let mut bytes = vec![0; 40];
        bytes[0] = 0x60;
        bytes[6] = first;
        bytes.extend(chain);
        bytes.extend([0; 20]);
        bytes[40 + chain.len() + 12] = 0x50;
        bytes[5] = bytes.len() as u8 - 40;
        let mut datagram = datagram(&bytes);
        datagram.offload.checksum_verified = true;
        parse(datagram).expect("it is a packet").transport
    };
    assert!(matches!(with(43, &[6, 0, 4, 0, 0, 0, 0, 0]), Transport::Tcp(_)), "no segments are left");
    assert!(matches!(with(43, &[6, 0, 4, 1, 0, 0, 0, 0]), Transport::Opaque { protocol: 43, .. }));
    let chain =
        |length: usize| [[60, 0, 1, 4, 0, 0, 0, 0].repeat(length - 1), vec![6, 0, 1, 4, 0, 0, 0, 0]].concat();
    assert!(matches!(with(60, &chain(8)), Transport::Tcp(_)));
    assert!(
        matches!(with(60, &[6, 200, 0, 0, 0, 0, 0, 0]), Transport::Opaque { protocol: 60, .. }),
        "cut off"
    );
    assert!(matches!(with(44, &[17, 0, 0, 1, 0, 0, 0, 0]), Transport::Opaque { protocol: 44, .. }), "of UDP");
    assert!(matches!(with(44, &[60, 0, 0, 1, 0, 0, 0, 0]), Transport::Fragment { .. }), "TCP may follow");
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

/// What is read of a segment with these option bytes.
fn options(options: &[u8]) -> TcpOptions {
    let mut bytes = vec![0; 40];
    bytes[0] = 0x60;
    bytes.extend([0; 20]);
    bytes.extend(options);
    bytes[5] = bytes.len() as u8 - 40;
    bytes[6] = 6;
    bytes[40 + 12] = ((20 + options.len()) * 4) as u8;
    let mut datagram = datagram(&bytes);
    datagram.offload.checksum_verified = true;
    parse(datagram).expect("it is a packet").as_tcp().unwrap().header.options.clone()
}

#[test]
fn malformed_options_end_the_list_and_repeated_ones_are_unknown() {
    for malformed in [[1, 1, 1, 8], [2, 0, 1, 1], [2, 1, 1, 1], [1, 253, 4, 0]] {
        assert_eq!(options(&malformed), TcpOptions::default());
        let behind_one = TcpOptions { mss: Some(0x0506), ..TcpOptions::default() };
        assert_eq!(options(&[&[2, 4, 5, 6], malformed.as_slice()].concat()), behind_one);
    }
    let unknown = |bytes: &[u8]| bytes.iter().copied().collect();
    assert_eq!(
        options(&[2, 4, 5, 6, 2, 4, 5, 7]),
        TcpOptions { mss: Some(0x0506), unknown: unknown(&[2, 4, 5, 7]), ..TcpOptions::default() }
    );
    assert_eq!(
        options(&[4, 2, 4, 2]),
        TcpOptions { sack_permitted: true, unknown: unknown(&[4, 2]), ..TcpOptions::default() }
    );
    assert_eq!(
        options(&[3, 3, 1, 3, 3, 2, 0, 0]),
        TcpOptions { window_scale: Some(1), unknown: unknown(&[3, 3, 2]), ..TcpOptions::default() }
    );
    let two = [[8, 10, 0, 0, 0, 0, 0, 0, 0, 0]; 2].concat();
    assert_eq!(options(&two).unknown.as_slice(), &two[10..]);
    // Behind the end of the options anything may stand, and a wrong length makes an option unknown.
    assert_eq!(options(&[0, 2, 0, 9]), TcpOptions::default());
    assert_eq!(options(&[2, 3, 9, 1, 2, 4, 5, 6]).mss, Some(0x0506));
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
