//! How datagrams come to the emulated links, and acknowledgments from them.
use super::{Entry, Fate, Gateway, Phase};
use crate::SplitFlow;
use crate::path_tail::{AckToken, Extent, PathTails};
use shorthaul_types::{BitRate, Bytes, Time};
use shorthaul_wire::{Packet, TcpFlags, Transport};

/// A flow's place behind an emulated link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Which link.
    pub index: u32,
    /// What is booked there as held.
    pub held: u64,
    /// What had been delivered when that was booked.
    pub delivered: u64,
}

impl Gateway {
    /// Sets the bandwidth of the emulated links: of the cell of this name, or of all if there is none.
    /// What waits to be acknowledged goes on at the new rate. Returns whether there is such a cell.
    pub fn set_path_tail_bandwidth(&mut self, now: Time, cell: Option<&str>, bandwidth: BitRate) -> bool {
        self.now = now;
        self.tails.as_mut().is_some_and(|tails| tails.set_bandwidth(now, cell, bandwidth))
    }

    /// Puts a flow that begins behind its emulated link. `flow_number` is unlike that of any other.
    pub(super) fn join_tail(
        tails: &mut Option<PathTails>,
        now: Time,
        flow_number: u64,
        flow: &mut SplitFlow,
    ) -> Option<Place> {
        let tails = tails.as_mut()?;
        let side = flow.edge_side()?;
        let tail = tails.join(now, flow.address_of(side), flow_number);
        flow.emulate_tail(flow_number, tail, side);
        Some(Place { index: tail, held: 0, delivered: flow.delivered_to(side) })
    }

    pub(super) fn leave_tail(&mut self, tail: Option<Place>) {
        if let (Some(place), Some(tails)) = (tail, &mut self.tails) {
            tails.leave(place.index, place.held);
        }
    }

    /// What of a packet the emulated link takes, if it goes to one: all, or of a super-segment the first
    /// datagrams that fit; nothing if none does.
    pub(super) fn admit(&mut self, now: Time, slot: u32, mut packet: Packet) -> Option<Packet> {
        let Some(tails) = &mut self.tails else { return Some(packet) };
        let Some(Entry { phase: Phase::Split(flow), .. }) = &self.entries[slot as usize] else {
            return Some(packet);
        };
        let Some((side, emulated)) = flow.emulated() else { return Some(packet) };
        let (number, tail) = (emulated.flow, emulated.tail);
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
        // What is to fill a gap finds room beside what waits behind the gap: or nothing would move again.
        let (_, early) = flow.held_for(side);
        let exempt = if start <= flow.next_from(side.other()) { early } else { 0 };
        let mut taken = 0;
        while taken < length {
            let payload = piece.min(length - taken);
            let extent = Extent { start: start + taken, end: start + taken + payload, ts_val };
            let token = AckToken { slot, flow: number, extent };
            if !tails.has_room(tail, taken + payload, exempt)
                || !tails.offer(now, tail, Bytes(headers + payload), token)
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
        while let Some(token) = self.tails.as_mut().and_then(|tails| tails.poll(now)) {
            let AckToken { slot, flow: number, extent } = token;
            let Some(Some(Entry { phase: Phase::Split(flow), .. })) = self.entries.get_mut(slot as usize)
            else {
                continue;
            };
            if flow.emulated().is_some_and(|(_, emulated)| emulated.flow == number) {
                flow.on_token(extent);
                self.settle(slot, Fate::Alive);
            }
        }
    }
}
