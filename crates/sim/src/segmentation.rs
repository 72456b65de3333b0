use shorthaul_wire::{Packet, TcpFlags, Transport, TxBatch};
use std::num::NonZeroU16;

/// Cuts the super-segments of a batch into the segments that they stand for, as a network card with
/// segmentation offload does: FIN and PSH stay on the last, CWR on the first (see `shorthaul_wire::cut`,
/// which does the same to bytes).
pub(crate) fn cut_super_segments(batch: &mut TxBatch) {
    let is_super = |packet: &Packet| {
        packet.as_tcp().is_some_and(|segment| {
            segment.gso_size.is_some_and(|size| segment.payload.len() > usize::from(size.get()))
        })
    };
    if !batch.iter().any(|(_, packet)| is_super(packet)) {
        return;
    }
    let mut pieces = TxBatch::with_capacity(batch.len() * 4);
    for (port, packet) in batch.drain(..) {
        if is_super(&packet) {
            pieces.extend(cut(packet).into_iter().map(|piece| (port, piece)));
        } else {
            pieces.push((port, packet));
        }
    }
    *batch = pieces;
}

fn cut(packet: Packet) -> Vec<Packet> {
    let Packet { ip, transport: Transport::Tcp(mut rest), .. } = packet else { return vec![packet] };
    let size = rest.gso_size.take().map_or(usize::MAX, |size: NonZeroU16| usize::from(size.get()));
    let mut pieces = Vec::with_capacity(rest.payload.len().div_ceil(size));
    while rest.payload.len() > size {
        let mut piece = rest.clone();
        piece.payload.truncate(size);
        piece.header.flags = piece.header.flags.without(TcpFlags::FIN | TcpFlags::PSH);
        pieces.push(Packet::tcp(ip, piece));
        rest.payload.advance(size);
        rest.header.seq = rest.header.seq + size as u32;
        rest.header.flags = rest.header.flags.without(TcpFlags::CWR);
    }
    pieces.push(Packet::tcp(ip, rest));
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use shorthaul_testkit::packets::ip;
    use shorthaul_types::{PortId, SeqNum};
    use shorthaul_wire::{ChecksumMode, Payload, TcpHeader, TcpSegment, to_datagram};

    #[test]
    fn the_pieces_are_those_of_the_segmentation_of_bytes() {
        let address = std::net::Ipv4Addr::LOCALHOST;
        let flags = TcpFlags::ACK | TcpFlags::PSH | TcpFlags::FIN | TcpFlags::CWR;
        let header = TcpHeader { seq: SeqNum(u32::MAX - 1000), flags, ..TcpHeader::default() };
        let bytes: Vec<u8> = (0..3500u32).map(|i| i as u8).collect();
        let segment =
            TcpSegment { header, payload: Payload::copy_of(&bytes).into(), gso_size: NonZeroU16::new(1000) };
        let packet = Packet::tcp(ip(address, address), segment);
        let whole = to_datagram(&packet, ChecksumMode::Full);
        let mut batch = vec![(PortId(1), packet)];
        cut_super_segments(&mut batch);
        assert_eq!(batch.len(), 4);
        let strip_id = |bytes: &[u8]| [&bytes[..4], &bytes[6..10], &bytes[12..]].concat();
        for ((port, ours), theirs) in batch.iter().zip(shorthaul_wire::cut(&whole, ChecksumMode::Full)) {
            assert_eq!(*port, PortId(1));
            let ours = to_datagram(ours, ChecksumMode::Full);
            // a card numbers the pieces in the IPv4 identification, which nobody looks at here
            assert_eq!(strip_id(ours.bytes.as_slice()), strip_id(theirs.to_datagram().bytes.as_slice()));
        }
    }
}
