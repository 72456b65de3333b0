//! What leaves toward an end, in the name of the other.
use super::first_retransmission::FirstRetransmission;
use super::{Direction, SplitFlow};
use crate::end::Side;
use core::num::NonZeroU16;
use shorthaul_tcp::Outgoing;
use shorthaul_types::{PortId, Time};
use shorthaul_wire::{
    IpHeader, Packet, PayloadList, SackBlock, TcpFlags, TcpHeader, TcpOptions, TcpSegment, Timestamps,
    TxBatch,
};

impl SplitFlow {
    pub(super) fn acknowledge(&mut self, now: Time, side: Side) -> (PortId, Packet) {
        let (near, far) = (&self.ends[side.index()], &self.ends[side.other().index()]);
        // While draining, it may have more from the other end by now than we have sent to it.
        let own = if self.draining { near.acknowledges.min(far.passed) } else { 0 };
        let seq = self.sent_to(side).max(own);
        let mut options = self.options_toward(side);
        if self.agreed.sack {
            let space = self.ends[side.index()].space;
            let room = if self.agreed.timestamps { 3 } else { 4 };
            for (left, right) in self.directions[side.index()].sack_ranges().into_iter().take(room) {
                options.sack.push(SackBlock { left: space.seq(left), right: space.seq(right) });
            }
        }
        let mut header = self.header_toward(side, seq, TcpFlags::ACK);
        header.options = options;
        self.on_ack_sent(now, side, &header, false);
        self.packet_toward(side, TcpSegment { header, ..TcpSegment::default() }, 0)
    }

    /// Sends data. Before an urgent mark it goes in single segments: the pointer is from the beginning of each, and who cuts a super-segment copies that of
    /// the first.
    pub(super) fn send_data(&mut self, now: Time, side: Side, mut outgoing: Outgoing, out: &mut TxBatch) {
        let mss = self.directions[side.other().index()].sender.mss() as usize;
        while outgoing.payload.len() > mss && self.urgent_after(side, outgoing.offset).is_some() {
            let mut payload = outgoing.payload.clone();
            payload.truncate(mss);
            outgoing.payload.advance(mss);
            let first = Outgoing { payload, fin: false, push: false, probe: None, ..outgoing };
            let rest = outgoing.payload;
            outgoing = Outgoing {
                offset: first.offset + mss as u64,
                payload: rest,
                fin: outgoing.fin,
                push: outgoing.push,
                retransmission: outgoing.retransmission,
                cwr: false,
                probe: outgoing.probe,
            };
            out.push(self.data_toward(now, side, first));
        }
        out.push(self.data_toward(now, side, outgoing));
    }

    /// How far behind this place of what is sent to `side` its sender's urgent data ends, if it does, and a header can say so.
    fn urgent_after(&self, side: Side, offset: u64) -> Option<u16> {
        let urgent = self.ends[side.other().index()].urgent?;
        urgent.checked_sub(offset).filter(|ahead| *ahead > 0).and_then(|ahead| u16::try_from(ahead).ok())
    }

    fn data_toward(&mut self, now: Time, side: Side, outgoing: Outgoing) -> (PortId, Packet) {
        let far = side.other().index();
        let mut flags = TcpFlags::ACK;
        let Outgoing { offset, payload, fin, push, cwr, .. } = outgoing;
        for (wanted, flag) in [(fin, TcpFlags::FIN), (push && !payload.is_empty(), TcpFlags::PSH)] {
            if wanted {
                flags |= flag;
            }
        }
        if cwr && self.agreed.ecn {
            flags |= TcpFlags::CWR;
        }
        let mut header = self.header_toward(side, offset, flags);
        header.options = self.options_toward(side);
        if outgoing.retransmission {
            let Direction { sender, first_retransmission, .. } = &mut self.directions[far];
            FirstRetransmission::note(
                first_retransmission,
                now,
                header.options.timestamps.map(|ts| ts.val),
                sender.nxt(),
            );
        }
        if let Some(ahead) = self.urgent_after(side, offset) {
            header.flags |= TcpFlags::URG;
            header.urgent = ahead;
        }
        let mss = self.directions[far].sender.mss();
        let gso_size = (payload.len() > mss as usize).then(|| NonZeroU16::new(mss as u16)).flatten();
        let ect = if self.agreed.ecn && !payload.is_empty() && !outgoing.retransmission { 2 } else { 0 };
        self.on_ack_sent(now, side, &header, true);
        let seq = header.seq.0;
        let (port, mut packet) = self.packet_toward(side, TcpSegment { header, payload, gso_size }, ect);
        if let IpHeader::V4(ip) = &mut packet.ip
            && !ip.dont_fragment
        {
            // Routers may fragment it: of two with one identification the pieces would be mixed (RFC 4963, RFC 6864 §4.2). Each piece of a super-segment has
            // the next number, so they count segments.
            ip.id = (seq / mss.max(1)) as u16;
        }
        (port, packet)
    }

    pub(super) fn reset_toward(&self, side: Side) -> (PortId, Packet) {
        self.reset_at(side, self.sent_to(side))
    }

    /// A reset of the end at `side`, at this place of what it sends, for the other end.
    pub(super) fn reset_from(&self, side: Side, offset: u64) -> (PortId, Packet) {
        self.reset_at(side.other(), offset)
    }

    fn reset_at(&self, side: Side, seq: u64) -> (PortId, Packet) {
        let header = self.header_toward(side, seq, TcpFlags::RST | TcpFlags::ACK);
        self.packet_toward(side, TcpSegment { header, ..TcpSegment::default() }, 0)
    }

    /// Up to where `side` is acknowledged in whatever is sent to it now.
    ///
    /// While draining, the other end acknowledges and advertises by itself. Who was told so discards what says much less, with all
    /// data in it (RFC 5961 §5.2).
    pub(super) fn acknowledged_to(&self, side: Side) -> u64 {
        let (near, far) = (&self.ends[side.index()], &self.ends[side.other().index()]);
        let own = if self.draining { far.acknowledges.min(near.passed) } else { 0 };
        self.directions[side.index()].ack().max(own)
    }

    /// A header as the other end would send it to `side`.
    pub(super) fn header_toward(&self, side: Side, offset: u64, flags: TcpFlags) -> TcpHeader {
        let (near, far) = (&self.ends[side.index()], &self.ends[side.other().index()]);
        let direction = &self.directions[side.index()];
        let shift = if self.agreed.window_scaling { far.window_shift } else { 0 };
        let echo = if direction.echo_congestion { TcpFlags::ECE } else { TcpFlags::default() };
        let ack = self.acknowledged_to(side);
        let own = if self.draining { far.advertised } else { 0 };
        let window = (direction.ack() + direction.window()).max(own).saturating_sub(ack);
        TcpHeader {
            src_port: far.port,
            dst_port: near.port,
            seq: far.space.seq(offset),
            ack: near.space.seq(ack),
            flags: flags | echo,
            window: self.window_field(side, window, shift),
            ..TcpHeader::default()
        }
    }

    /// A segment without data.
    pub(super) fn bare_toward(&self, side: Side, header: TcpHeader) -> (PortId, Packet) {
        self.small_toward(side, header, PayloadList::new())
    }

    /// A segment with what can be made of these, and with the timestamps that the ends know.
    pub(super) fn small_toward(
        &self,
        side: Side,
        header: TcpHeader,
        payload: PayloadList,
    ) -> (PortId, Packet) {
        let header = TcpHeader { options: self.options_toward(side), ..header };
        self.packet_toward(side, TcpSegment { header, payload, ..TcpSegment::default() }, 0)
    }

    pub(super) fn options_toward(&self, side: Side) -> TcpOptions {
        let far = &self.ends[side.other().index()];
        let ecr = self.directions[side.index()].ts_recent().unwrap_or(0);
        let timestamps = far.ts_val.filter(|_| self.agreed.timestamps).map(|val| Timestamps { val, ecr });
        TcpOptions { timestamps, ..TcpOptions::default() }
    }

    pub(super) fn packet_toward(&self, side: Side, segment: TcpSegment, ecn: u8) -> (PortId, Packet) {
        let mut ip = self.ends[side.other().index()].ip;
        ip.set_ecn(ecn);
        (self.ends[side.index()].attachment, Packet::tcp(ip, segment))
    }
}
