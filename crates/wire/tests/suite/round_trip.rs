//! Packets to bytes and back.
use crate::packets::{packet, super_segment, tcp, tcp_options};
use proptest::prelude::*;
use shorthaul_types::SeqNum;
use shorthaul_wire::checksum::finish_partial;
use shorthaul_wire::{
    ChecksumMode, Datagram, HEADERS_MAX, Offload, Packet, Payload, SackBlock, TcpHeader, TcpOptions,
    TcpSegment, Timestamps, headers, parse, payload_slices, to_datagram,
};

fn mode() -> impl Strategy<Value = ChecksumMode> {
    prop_oneof![Just(ChecksumMode::Full), Just(ChecksumMode::Partial)]
}

/// The packet as it is read back.
fn read_back(packet: &Packet, mode: ChecksumMode) -> Packet {
    parse(to_datagram(packet, mode)).expect("what we write is a packet")
}

proptest! {
    #[test]
    fn what_is_written_is_read(packet in packet(), mode in mode()) {
        let datagram = to_datagram(&packet, mode);
        let parsed = parse(datagram.clone()).expect("what we write is a packet");
        prop_assert_eq!(&parsed.ip, &packet.ip);
        prop_assert_eq!(&parsed.transport, &packet.transport);
        prop_assert_eq!(to_datagram(&parsed, mode), datagram);
    }

    #[test]
    fn headers_and_slices_are_the_packet(packet in packet(), mode in mode()) {
        let mut out = [0xaa; HEADERS_MAX];
        let (len, offload) = headers(&packet, mode, &mut out);
        let mut bytes = out[..len].to_vec();
        for slice in payload_slices(&packet) {
            bytes.extend_from_slice(slice.as_slice());
        }
        prop_assert_eq!(Datagram { bytes: Payload::copy_of(&bytes), offload }, to_datagram(&packet, mode));
    }

    #[test]
    fn the_length_is_known_without_writing(packet in packet(), mode in mode()) {
        let written = to_datagram(&packet, mode);
        prop_assert_eq!(packet.wire_len(), written.bytes.len());
        prop_assert_eq!(parse(written).expect("what we write is a packet").wire_len(), packet.wire_len());
    }

    #[test]
    fn a_partial_checksum_finished_is_the_full_one(packet in tcp()) {
        let partial = to_datagram(&packet, ChecksumMode::Partial);
        let mut bytes = partial.bytes.as_slice().to_vec();
        prop_assert!(finish_partial(&mut bytes, partial.offload.partial_checksum.expect("it was left undone")));
        let full = to_datagram(&packet, ChecksumMode::Full);
        prop_assert_eq!(full.offload, Offload::default());
        prop_assert_eq!(bytes.as_slice(), full.bytes.as_slice());
    }

    #[test]
    fn a_super_segment_says_how_to_cut_it(packet in super_segment(), mode in mode()) {
        let datagram = to_datagram(&packet, mode);
        let segment = packet.as_tcp().unwrap();
        let gso = datagram.offload.gso.expect("it is longer than one piece");
        prop_assert_eq!(Some(gso.size), segment.gso_size);
        prop_assert_eq!(usize::from(gso.header_len), datagram.bytes.len() - segment.payload.len());
        prop_assert!(datagram.offload.partial_checksum.is_some());
    }

    #[test]
    fn padding_behind_the_packet_is_trimmed(packet in tcp(), padding in 1usize..50) {
        let clean = to_datagram(&packet, ChecksumMode::Full);
        let mut padded = clean.bytes.as_slice().to_vec();
        padded.resize(padded.len() + padding, 0x55);
        let datagram = Datagram { bytes: Payload::copy_of(&padded), offload: Offload::default() };
        let parsed = parse(datagram).expect("padding is no mistake");
        prop_assert_eq!(&parsed.transport, &packet.transport);
        prop_assert_eq!(parsed.original, Some(clean));
    }

    #[test]
    fn options_fill_whole_words_within_the_header(options in tcp_options()) {
        let header = TcpHeader { options: options.clone(), ..TcpHeader::default() };
        let packet = Packet::tcp(v4(), TcpSegment { header, ..TcpSegment::default() });
        let datagram = to_datagram(&packet, ChecksumMode::Full);
        let len = usize::from(datagram.bytes.as_slice()[20 + 12] >> 4) * 4;
        prop_assert_eq!(len, datagram.bytes.len() - 20);
        let parsed = read_back(&packet, ChecksumMode::Full);
        prop_assert_eq!(&parsed.as_tcp().unwrap().header.options, &options);
    }
}

fn v4() -> shorthaul_wire::IpHeader {
    shorthaul_wire::IpHeader::V4(shorthaul_wire::Ipv4Header {
        src: [10, 0, 0, 1].into(),
        dst: [10, 0, 0, 2].into(),
        tos: 0,
        ttl: 64,
        id: 0,
        dont_fragment: true,
    })
}

/// The option bytes of a segment with these options.
fn option_bytes(options: TcpOptions) -> Vec<u8> {
    let header = TcpHeader { options, ..TcpHeader::default() };
    let packet = Packet::tcp(v4(), TcpSegment { header, ..TcpSegment::default() });
    to_datagram(&packet, ChecksumMode::Full).bytes.as_slice()[40..].to_vec()
}

#[test]
fn options_are_laid_out_as_linux_does() {
    let timestamps = Some(Timestamps { val: 0x01020304, ecr: 0x05060708 });
    let syn = TcpOptions {
        mss: Some(1460),
        window_scale: Some(7),
        sack_permitted: true,
        timestamps,
        ..TcpOptions::default()
    };
    let expected = [2, 4, 5, 0xb4, 4, 2, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 3, 3, 7];
    assert_eq!(option_bytes(syn), expected);
    let data = TcpOptions { timestamps, ..TcpOptions::default() };
    assert_eq!(option_bytes(data), [1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn sack_blocks_beyond_the_room_are_left_out_from_the_last() {
    let block = |n: u32| SackBlock { left: SeqNum(n), right: SeqNum(n + 1) };
    let options = TcpOptions {
        timestamps: Some(Timestamps::default()),
        sack: (1..=4).map(|n| block(10 * n)).collect(),
        ..TcpOptions::default()
    };
    let header = TcpHeader { options, ..TcpHeader::default() };
    let packet = Packet::tcp(v4(), TcpSegment { header, ..TcpSegment::default() });
    let sack = read_back(&packet, ChecksumMode::Full).as_tcp().unwrap().header.options.sack.clone();
    assert_eq!(sack.as_slice(), [block(10), block(20), block(30)]);
}

#[test]
fn options_that_fit_only_without_alignment_are_packed() {
    let options = TcpOptions {
        mss: Some(1),
        window_scale: Some(2),
        sack_permitted: true,
        timestamps: Some(Timestamps { val: 3, ecr: 4 }),
        sack: (0..2).map(|n| SackBlock { left: SeqNum(n), right: SeqNum(n + 9) }).collect(),
        ..TcpOptions::default()
    };
    let header = TcpHeader { options: options.clone(), ..TcpHeader::default() };
    let packet = Packet::tcp(v4(), TcpSegment { header, ..TcpSegment::default() });
    assert_eq!(read_back(&packet, ChecksumMode::Full).as_tcp().unwrap().header.options, options);
}
