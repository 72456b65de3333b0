//! The direction of a flow toward a mobile host, where the congestion manager of an aggregate governs it.
use super::{Direction, SplitFlow};
use crate::Policy;
use crate::aggregate::{AllottedWindow, LinkLost};
use crate::end::{End, Side};
use alloc::boxed::Box;
use shorthaul_congestion::{Algorithm, ControlParams};
use shorthaul_tcp::{CongestionManager, LossDetection, RetransmissionTimer, Sender, SenderConfig};
use shorthaul_types::{Bytes, PortId, Time};
use shorthaul_wire::{IpHeader, TxBatch};

impl SplitFlow {
    /// The end that is a mobile host whose aggregate governs what is sent to it, if one is.
    pub(crate) fn mobile_side(&self) -> Option<Side> {
        self.managed
    }

    /// The sender toward the mobile host.
    pub(crate) fn managed_sender(&self) -> Option<&Sender> {
        self.managed.map(|side| &self.directions[side.other().index()].sender)
    }

    /// The same, to change.
    pub(crate) fn managed_sender_mut(&mut self) -> Option<&mut Sender> {
        self.managed.map(|side| &mut self.directions[side.other().index()].sender)
    }

    /// The timestamp of what has just arrived from the mobile host.
    pub(crate) fn take_stamp(&mut self) -> Option<u32> {
        self.stamp.take()
    }

    /// Up to where its wired sender was received in order.
    pub(crate) fn managed_received(&self) -> u64 {
        self.managed.map_or(0, |side| self.directions[side.other().index()].receiver.data_end())
    }

    /// The differentiated services codepoint of what its wired sender sends.
    pub(crate) fn managed_dscp(&self) -> u8 {
        let Some(side) = self.managed else { return 0 };
        match self.ends[side.other().index()].ip {
            IpHeader::V4(header) => header.tos >> 2,
            IpHeader::V6(header) => header.traffic_class >> 2,
        }
    }

    /// The two ports.
    pub(crate) fn ports(&self) -> [u16; 2] {
        [self.key.src.port(), self.key.dst.port()]
    }

    /// How many bytes the wired sender's window is at most, counted from what has left toward the mobile host. It is rounded up
    /// to what a window field can say (RFC 7323 §2.3), for less than a unit of it would be none, for ever; and a unit more, for its
    /// edge moves by segments.
    pub(crate) fn allot(&mut self, window: u64) {
        let shift = self.managed.map_or(0, |side| self.ends[side.index()].window_shift);
        let shift = if self.agreed.window_scaling { shift } else { 0 };
        let unit = 1 << shift;
        let bytes = if window > 0 { window.next_multiple_of(unit) + unit } else { 0 };
        self.allotted = Some(AllottedWindow { bytes });
    }

    /// Up to where the wired sender may send.
    pub(crate) fn managed_edge(&self) -> u64 {
        self.managed.map_or(0, |side| self.directions[side.other().index()].receiver.edge())
    }

    /// Bytes of the wired sender's that may have to be held, on their way to the mobile host or until they are: those that it
    /// was offered room for, or will be.
    pub(crate) fn managed_promised(&self) -> u64 {
        let Some(side) = self.managed else { return 0 };
        let Direction { receiver, sender, .. } = &self.directions[side.other().index()];
        let edge = receiver.edge().max(sender.nxt() + self.allotted.map_or(0, |allotted| allotted.bytes));
        edge.saturating_sub(sender.una())
    }

    /// Bytes that the mobile host may have held of what it sends, by what it was offered.
    pub(crate) fn promised_to_mobile(&self) -> u64 {
        let Some(side) = self.managed else { return 0 };
        let Direction { receiver, sender, .. } = &self.directions[side.index()];
        receiver.edge().saturating_sub(sender.una())
    }

    /// Its turn: sends one segment, or super-segment, of at most `credit` bytes toward the mobile host. Returns
    /// how many bytes of the stream left.
    pub(crate) fn send_managed(&mut self, now: Time, credit: u64, out: &mut TxBatch) -> u64 {
        let Some(side) = self.managed else { return 0 };
        let Some(sender) = self.managed_sender_mut() else { return 0 };
        let Some(grant) = sender.grant_mut() else { return 0 };
        grant.bytes = credit;
        let outgoing = sender.poll_segment(now);
        if let Some(grant) = sender.grant_mut() {
            grant.bytes = 0;
        }
        let Some(outgoing) = outgoing else { return 0 };
        let sent = outgoing.payload.len() as u64 + u64::from(outgoing.fin);
        self.send_data(now, side, outgoing, out);
        sent
    }
}

/// Whether the end at `side` is a mobile host whose aggregate governs what the other end sends to it.
pub(super) fn is_managed(ends: &[End; 2], side: Side, policy: &Policy) -> bool {
    let on_access_side = |side: Side| ends[side.index()].attachment == PortId(0);
    policy.aggregate.is_some() && on_access_side(side) && !on_access_side(side.other())
}

/// A sender whose window, pacing and retransmission timer are those of its mobile host's aggregate.
pub(super) fn managed_by_aggregate(sender: SenderConfig, params: ControlParams) -> SenderConfig {
    SenderConfig {
        control: Algorithm::Fixed(Bytes(u64::MAX)).build(params),
        // Losses are found among the connections of the host together.
        loss_detection: LossDetection::RACK_TLP,
        discriminator: Box::new(LinkLost),
        manager: CongestionManager::shared(RetransmissionTimer::Probes),
        pacing: false,
        idle_restart: false,
        ..sender
    }
}
