//! What the registry of the access side asks a flow, and tells it.
use super::{Direction, SplitFlow};
use crate::ack_release::{Event, Extent, QueueShare};
use crate::end::Side;
use core::net::IpAddr;
use shorthaul_types::{PortId, SeqNum, Time};

impl SplitFlow {
    /// The side of the host at the access side.
    pub(crate) fn access_side(&self) -> Option<Side> {
        Side::BOTH.into_iter().find(|side| self.ends[side.index()].attachment == PortId(0))
    }

    /// Whether an end is at the access side.
    pub(crate) fn is_on_access_side(&self, side: Side) -> bool {
        self.ends[side.index()].attachment == PortId(0)
    }

    /// The address of an end.
    pub(crate) fn address_of(&self, side: Side) -> IpAddr {
        self.ends[side.index()].ip.src()
    }

    /// The port of an end.
    pub(crate) fn port_of(&self, side: Side) -> u16 {
        self.ends[side.index()].port
    }

    /// Whether acknowledgments to the sender of what `side` gets wait for a release.
    pub(crate) fn is_released_to(&self, side: Side) -> bool {
        self.directions[side.other().index()].release.is_some()
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

    /// What waits for the host at `side`, or is under way to it, in order.
    pub(crate) fn queued_for(&self, side: Side) -> u64 {
        self.directions[side.other().index()].sender.queue().len()
    }

    /// Up to where the host at `side` has acknowledged.
    pub(crate) fn delivered_to(&self, side: Side) -> u64 {
        self.directions[side.other().index()].sender.una()
    }

    /// Where the next byte in order would be of what `side` sends.
    pub(crate) fn next_from(&self, side: Side) -> u64 {
        self.directions[side.index()].receiver.data_end()
    }

    /// What the deliveries to `side` mean in the queue of that host.
    pub(crate) fn on_shared(&mut self, now: Time, side: Side, share: QueueShare) {
        self.directions[side.other().index()].on_event(now, Event::Shared(share));
    }

    /// A datagram for `side` has come over the emulated link.
    pub(crate) fn on_carried(&mut self, now: Time, side: Side, extent: Extent) {
        let direction = &mut self.directions[side.other().index()];
        if direction.receiver.holds(extent.start, extent.end) {
            direction.on_event(now, Event::Carried(extent));
        }
    }
}
