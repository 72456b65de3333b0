//! How datagrams come to the emulated links, and acknowledgments from them.
use super::table::{Entry, Phase};
use super::{Fate, Gateway};
use crate::ack_release::Extent;
use crate::path_tail::AckToken;
use shorthaul_types::{BitRate, Bytes, Deadline, Time};
use shorthaul_wire::{Packet, TcpFlags, Transport};

impl Gateway {
    /// Sets the bandwidth of the emulated links: of the cell of this name, or of all if there is none.
    /// What waits to be acknowledged goes on at the new rate. Returns whether there is such a cell.
    pub fn set_path_tail_bandwidth(&mut self, now: Time, cell: Option<&str>, bandwidth: BitRate) -> bool {
        self.now = now;
        self.access.links.set_bandwidth(now, cell, bandwidth)
    }

    /// What of a packet the emulated link takes, if it goes to one: all, or of a super-segment the first
    /// datagrams that fit; nothing if none does.
    pub(super) fn admit(&mut self, now: Time, slot: u32, mut packet: Packet) -> Option<Packet> {
        let Some(Entry { phase: Phase::Split(flow), place: Some(place), .. }) = self.table.get(slot) else {
            return Some(packet);
        };
        let Some(link) = &place.link else { return Some(packet) };
        let links = &mut self.access.links;
        let Some(side) = flow.access_side().filter(|side| flow.is_released_to(*side)) else {
            return Some(packet);
        };
        let (number, link) = (link.number, link.index);
        let wire = packet.wire_len() as u64;
        let Transport::Tcp(segment) = &mut packet.transport else { return Some(packet) };
        let header = &segment.header;
        let comes_from_sender =
            packet.ip.dst() == flow.address_of(side) && header.dst_port == flow.port_of(side);
        if !comes_from_sender
            || segment.payload.is_empty()
            || header.flags.intersects(TcpFlags::SYN | TcpFlags::RST)
        {
            return Some(packet);
        }
        let Some(start) = flow.offset_of(side.other(), header.seq) else { return Some(packet) };
        let ts_val = header.options.timestamps.map(|timestamps| timestamps.val);
        let length = segment.payload.len() as u64;
        let headers = wire - length;
        let piece = segment.gso_size.map_or(length, |size| u64::from(size.get()));
        let in_order = start <= flow.next_from(side.other());
        let mut taken = 0;
        while taken < length {
            let payload = piece.min(length - taken);
            let extent = Extent { start: start + taken, end: start + taken + payload, ts_val };
            let token = AckToken { slot, flow: number, extent };
            if !links.has_room(link, taken + payload, in_order)
                || !links.offer(now, link, Bytes(headers + payload), token)
            {
                break;
            }
            taken += payload;
        }
        if taken < length {
            self.counters.path_tail_dropped += (length - taken).div_ceil(piece);
            if taken == 0 {
                return None;
            }
            segment.payload.truncate(taken as usize);
            segment.header.flags = segment.header.flags.without(TcpFlags::FIN | TcpFlags::PSH);
            packet.original = None;
        }
        Some(packet)
    }

    /// Lets what has come over the emulated links be acknowledged.
    pub(super) fn release_tokens(&mut self, now: Time) {
        while let Some(token) = self.access.links.poll(now) {
            self.release(now, token);
        }
    }

    fn release(&mut self, now: Time, AckToken { slot, flow: number, extent }: AckToken) {
        let Some(Entry { phase: Phase::Split(flow), place: Some(place), .. }) = self.table.get_mut(slot)
        else {
            return;
        };
        let Some(side) = flow.access_side().filter(|side| flow.is_released_to(*side)) else { return };
        if place.link.is_some_and(|link| link.number == number) {
            flow.on_carried(now, side, extent);
            self.settle(slot, Fate::Alive);
        }
    }

    /// When the next token comes over its link.
    pub(super) fn next_token(&self) -> Option<Deadline> {
        self.access.links.poll_timeout()
    }
}
