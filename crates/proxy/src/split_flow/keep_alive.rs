//! Probes of an idle connection, which the ends answer themselves (RFC 9293 §3.8.4).
use super::{Direction, SplitFlow};
use crate::end::Side;
use shorthaul_types::PortId;
use shorthaul_wire::{Packet, TcpFlags, TcpSegment, Transport};

impl SplitFlow {
    /// An end that probes an idle connection asks the other end, not us.
    pub(super) fn is_keep_alive(&self, side: Side, offset: u64, segment: &TcpSegment) -> bool {
        let idle = |d: &Direction| d.sender.queue().is_empty() && d.sender.is_idle();
        offset + 1 == self.directions[side.index()].receiver.next()
            && segment.payload.len() <= 1
            && !segment.header.flags.contains(TcpFlags::FIN)
            && self.directions.iter().all(idle)
    }

    /// A probe, or its answer, goes on as it came, but for the window: what the end has room for is not what we have.
    pub(super) fn pass_keep_alive(&self, side: Side, mut packet: Packet) -> (PortId, Packet) {
        let ours = self.header_toward(side.other(), 0, TcpFlags::ACK);
        if let Transport::Tcp(segment) = &mut packet.transport
            && (segment.header.ack, segment.header.window) != (ours.ack, ours.window)
        {
            (segment.header.ack, segment.header.window) = (ours.ack, ours.window);
            packet.original = None;
        }
        (self.ends[side.other().index()].attachment, packet)
    }
}
