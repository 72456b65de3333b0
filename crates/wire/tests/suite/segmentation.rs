//! Super-segments cut in software: the pieces are the packets that the sender would have made itself.
use crate::packets::{offload, packet, super_segment};
use proptest::prelude::*;
use shorthaul_wire::checksum::finish_partial;
use shorthaul_wire::{
    ChecksumMode, Datagram, Gso, IpHeader, Packet, Payload, TcpFlags, TcpSegment, cut, parse, to_datagram,
};
use std::num::NonZeroU16;

fn pieces(datagram: &Datagram, mode: ChecksumMode) -> Vec<Datagram> {
    let cuts = cut(datagram, mode);
    let expected = cuts.len();
    let pieces: Vec<_> = cuts.map(|piece| piece.to_datagram()).collect();
    assert_eq!(pieces.len(), expected);
    pieces
}

/// The IP header of the piece `index`.
fn piece_header(ip: IpHeader, index: usize) -> IpHeader {
    match ip {
        IpHeader::V4(mut header) => {
            header.id = header.id.wrapping_add(index as u16);
            IpHeader::V4(header)
        }
        v6 => v6,
    }
}

proptest! {
    #[test]
    fn pieces_are_packets_that_reassemble(packet in super_segment()) {
        let segment = packet.as_tcp().unwrap();
        let size = usize::from(segment.gso_size.unwrap().get());
        let mut payload = vec![0; segment.payload.len()];
        segment.payload.copy_to(&mut payload);
        let pieces = pieces(&to_datagram(&packet, ChecksumMode::Full), ChecksumMode::Full);
        prop_assert_eq!(pieces.len(), payload.len().div_ceil(size));
        for (index, piece) in pieces.iter().enumerate() {
            let part = &payload[index * size..payload.len().min((index + 1) * size)];
            let mut header = segment.header.clone();
            header.seq = header.seq + (index * size) as u32;
            if index > 0 {
                header.flags = header.flags.without(TcpFlags::CWR);
            }
            if index + 1 < pieces.len() {
                header.flags = header.flags.without(TcpFlags::FIN | TcpFlags::PSH);
            }
            let expected = Packet::tcp(
                piece_header(packet.ip, index),
                TcpSegment { header, payload: Payload::copy_of(part).into(), gso_size: None },
            );
            prop_assert_eq!(piece, &to_datagram(&expected, ChecksumMode::Full));
            prop_assert_eq!(parse(piece.clone()).expect("a piece is a packet").transport, expected.transport);
        }
    }

    #[test]
    fn partial_pieces_finished_are_full_ones(packet in super_segment()) {
        let datagram = to_datagram(&packet, ChecksumMode::Partial);
        let (partial, full) = (pieces(&datagram, ChecksumMode::Partial), pieces(&datagram, ChecksumMode::Full));
        prop_assert_eq!(partial.len(), full.len());
        for (partial, full) in partial.iter().zip(full) {
            prop_assert!(partial.offload.gso.is_none());
            let mut bytes = partial.bytes.as_slice().to_vec();
            prop_assert!(finish_partial(&mut bytes, partial.offload.partial_checksum.expect("left undone")));
            prop_assert_eq!(bytes.as_slice(), full.bytes.as_slice());
        }
    }

    #[test]
    fn a_plain_packet_is_its_only_piece(packet in packet(), mode in prop_oneof![Just(ChecksumMode::Full), Just(ChecksumMode::Partial)]) {
        prop_assume!(packet.as_tcp().is_none_or(|segment| segment.gso_size.is_none()));
        let datagram = to_datagram(&packet, mode);
        prop_assert_eq!(pieces(&datagram, mode), std::slice::from_ref(&datagram));
        prop_assert_eq!(pieces(&datagram, ChecksumMode::Full), [to_datagram(&packet, ChecksumMode::Full)]);
    }

    #[test]
    fn what_fits_into_one_piece_is_no_super_segment(packet in crate::packets::tcp(), more in 0u16..100) {
        let segment = packet.as_tcp().unwrap();
        let mut datagram = to_datagram(&packet, ChecksumMode::Partial);
        let size = NonZeroU16::new(segment.payload.len() as u16 + more).unwrap_or(NonZeroU16::MIN);
        let header_len = (datagram.bytes.len() - segment.payload.len()) as u16;
        datagram.offload.gso = Some(Gso { size, header_len });
        prop_assert_eq!(pieces(&datagram, ChecksumMode::Full), [to_datagram(&packet, ChecksumMode::Full)]);
    }

    #[test]
    fn an_offload_that_does_not_fit_does_no_harm(packet in packet(), offload in offload(), len: proptest::sample::Index) {
        let whole = to_datagram(&packet, ChecksumMode::Full).bytes;
        let datagram = Datagram { bytes: whole.slice(0..len.index(whole.len() + 1)), offload };
        for mode in [ChecksumMode::Full, ChecksumMode::Partial] {
            let total: usize = pieces(&datagram, mode).iter().map(|piece| piece.bytes.len()).sum();
            prop_assert!(total >= datagram.bytes.len());
        }
    }
}

#[test]
fn a_piece_that_no_length_field_can_describe_is_not_made() {
    for first in [0x45, 0x60] {
        let mut bytes = vec![0; 70_000];
        bytes[0] = first;
        bytes[if first == 0x45 { 9 } else { 6 }] = 6;
        let tcp_at = if first == 0x45 { 20 } else { 40 };
        bytes[tcp_at + 12] = 5 << 4;
        let mut datagram = Datagram { bytes: Payload::copy_of(&bytes), offload: Default::default() };
        datagram.offload.gso = Some(Gso { size: NonZeroU16::MAX, header_len: tcp_at as u16 + 20 });
        assert_eq!(pieces(&datagram, ChecksumMode::Full), [datagram]);
    }
}
