//! What the sender of a direction is told, where that is not simply what has come: behind an emulated link, or at a
//! gate.
use super::{Direction, Side, SplitFlow};
use crate::path_tail::{EmulatedHost, Extent};
use crate::senders::{EdgeQueues, Gate, QueuePlace};
use alloc::boxed::Box;
use arrayvec::ArrayVec;
use shorthaul_types::{PortId, SeqNum, Time};

impl SplitFlow {
    /// Puts the direction toward `side` behind the emulated link `tail`, as flow number `flow`.
    pub(crate) fn emulate_tail(&mut self, flow: u64, tail: u32, side: Side) {
        let direction = &mut self.directions[side.other().index()];
        let (next, recent) = (direction.receiver.data_end(), direction.receiver.ts_recent());
        direction.emulated = Some(Box::new(EmulatedHost::new(flow, tail, next, recent)));
    }

    /// The side of the host at the edge.
    pub(crate) fn edge_side(&self) -> Option<Side> {
        Side::BOTH.into_iter().find(|side| self.ends[side.index()].attachment == PortId(0))
    }

    /// The address of an end.
    pub(crate) fn address_of(&self, side: Side) -> core::net::IpAddr {
        self.ends[side.index()].ip.src()
    }

    /// The port of an end.
    pub(crate) fn port_of(&self, side: Side) -> u16 {
        self.ends[side.index()].port
    }

    /// The side that is behind an emulated link, with what it is told.
    pub(crate) fn emulated(&self) -> Option<(Side, &EmulatedHost)> {
        Side::BOTH.into_iter().find_map(|side| {
            let emulated = self.directions[side.other().index()].emulated.as_deref()?;
            Some((side, emulated))
        })
    }

    /// Where in the stream of `side` something lies, by its sequence number.
    pub(crate) fn offset_of(&self, side: Side, seq: SeqNum) -> Option<u64> {
        self.ends[side.index()].space.offset(seq, self.directions[side.index()].receiver.data_end())
    }

    /// Payload held for the host behind the emulated link, and of it what came out of order. What a host
    /// has closed its window for is not counted: that its application does not read is a matter of flow
    /// control, which answers it with the window.
    pub(crate) fn held_for(&self, side: Side) -> (u64, u64) {
        let Direction { receiver, sender, .. } = &self.directions[side.other().index()];
        if sender.peer_window() < u64::from(sender.mss()) {
            return (0, 0);
        }
        let early = receiver.allocated() as u64;
        (sender.queue().len() + early, early)
    }

    /// Takes its part in the queue of its mobile host, if it has one.
    pub(crate) fn join_queue(&self, now: Time, queues: &mut EdgeQueues) -> Option<QueuePlace> {
        let side = self.edge_side()?;
        Some(queues.join(now, self.address_of(side), self.delivered_to(side)))
    }

    /// Books what it holds and has delivered there, and heeds what it is told.
    pub(crate) fn book_queue(&mut self, now: Time, place: &mut QueuePlace, queues: &mut EdgeQueues) {
        let Some(side) = self.edge_side() else { return };
        let direction = &mut self.directions[side.other().index()];
        let (held, delivered) = (direction.sender.queue().len(), direction.sender.una());
        if let Some(report) = queues.book(now, place, held, delivered) {
            direction.invitation.on_report(report);
        }
    }

    /// Up to where the host at `side` has acknowledged.
    pub(crate) fn delivered_to(&self, side: Side) -> u64 {
        self.directions[side.other().index()].sender.una()
    }

    /// Where the next byte in order would be of what `side` sends.
    pub(crate) fn next_from(&self, side: Side) -> u64 {
        self.directions[side.index()].receiver.data_end()
    }

    /// An acknowledgment has come over the emulated link.
    pub(crate) fn on_token(&mut self, extent: Extent) {
        for Direction { receiver, emulated, .. } in &mut self.directions {
            if let Some(emulated) = emulated
                && receiver.holds(extent.start, extent.end)
            {
                emulated.on_arrival(extent);
            }
        }
    }
}

impl Direction {
    /// Up to where its sender is acknowledged.
    pub(super) fn ack(&self) -> u64 {
        match &self.emulated {
            Some(emulated) if emulated.next() < self.receiver.data_end() => return emulated.next(),
            _ => {}
        }
        match &self.gate {
            Some(gate) if gate.at() < self.receiver.data_end() => gate.at(),
            _ => self.receiver.ack(),
        }
    }

    /// The window that its sender is offered, from there on.
    pub(super) fn window(&self) -> u64 {
        if self.invitation.is_frozen() {
            return 0;
        }
        self.receiver.edge().saturating_sub(self.ack())
    }

    /// Whether something was received of which its sender has not heard yet.
    pub(super) fn owes_ack(&self) -> bool {
        self.ack() < self.receiver.data_end()
    }

    pub(super) fn wants_ack(&self, now: Time) -> bool {
        self.receiver.wants_ack(now)
            || self.emulated.as_ref().is_some_and(|emulated| emulated.wants_ack())
            || self.gate.as_ref().is_some_and(Gate::wants_ack)
    }

    pub(super) fn sack_ranges(&self) -> ArrayVec<(u64, u64), 4> {
        if let Some(emulated) = &self.emulated {
            return emulated.sack_ranges();
        }
        let mut ranges = self.receiver.sack_ranges();
        // What waits at the gate has come too: a sender that hears of a gap behind it must not repair it.
        let waits = (self.ack(), self.receiver.data_end());
        if waits.0 < waits.1 && !ranges.is_empty() {
            if ranges.is_full() {
                ranges.pop();
            }
            ranges.push(waits);
        }
        ranges
    }

    pub(super) fn ts_recent(&self) -> Option<u32> {
        self.emulated.as_ref().map_or_else(|| self.receiver.ts_recent(), |emulated| emulated.ts_recent())
    }

    pub(super) fn on_ack_sent(&mut self, with_data: bool) {
        self.receiver.on_ack_sent();
        if let Some(emulated) = &mut self.emulated {
            emulated.on_ack_sent(with_data);
        }
        if let Some(gate) = &mut self.gate {
            gate.on_ack_sent();
        }
    }
}
