//! What a mobile host sends, where its aggregate limits what it is offered.
use super::{Direction, SplitFlow};
use crate::aggregate::{Landing, Uplink, Upload};
use crate::end::Side;
use alloc::boxed::Box;
use shorthaul_types::Time;
use shorthaul_wire::{TcpHeader, TcpSegment};

impl SplitFlow {
    /// What the mobile host sends is limited from now on. Since `syn_ack_at` it knows of the first window.
    pub(super) fn limit_upload(&mut self, now: Time, syn_ack_at: Time) {
        let Some(mobile) = self.managed else { return };
        let (near, far) = (&self.directions[mobile.index()], &self.ends[mobile.other().index()]);
        // Who opened the connection learned of it from the SYN-ACK, and who was called only now.
        let at = if mobile == Side::Client { syn_ack_at } else { now };
        let val = far.ts_val.filter(|_| self.agreed.timestamps);
        self.upload =
            Some(Box::new(Upload::new(at, near.receiver.edge(), val, Uplink::burst(near.sender.mss()))));
    }

    /// What it sends, where that is limited.
    pub(crate) fn upload_mut(&mut self) -> Option<&mut Upload> {
        self.upload.as_deref_mut()
    }

    /// The upload from `side`, if there is one there.
    fn upload_of(&mut self, side: Side) -> Option<&mut Upload> {
        self.upload.as_deref_mut().filter(|_| self.managed == Some(side))
    }

    /// A segment from `side` that ends at `end` was taken.
    pub(super) fn note_arrival(&mut self, now: Time, side: Side, end: u64, segment: &TcpSegment) {
        let Direction { receiver, sender, .. } = &self.directions[side.index()];
        let length = segment.payload.len();
        let piece = segment.gso_size.map_or(length, |size| usize::from(size.get()));
        let full = piece > sender.mss() as usize / 2 && length.is_multiple_of(piece);
        let arrived = receiver.data_end() + receiver.early();
        let echo = self.ends[side.index()].ts_ecr.filter(|_| self.agreed.timestamps);
        if let Some(upload) = self.upload_of(side) {
            upload.on_segment(now, Landing { end, arrived, echo, full });
        }
    }

    /// The window field of a header toward `side`, for a window of `window` bytes, in units of 1 << `shift`.
    ///
    /// Where memory sets the window, it is rounded down. Where the mobile host's share of its uplink does, it is never
    /// rounded to zero, and so that its right edge never moves left (RFC 9293 §3.8.6, RFC 7323 §2.4), although
    /// with each acknowledgment it is rounded anew.
    pub(super) fn window_field(&self, side: Side, window: u64, shift: u8) -> u16 {
        let direction: &Direction = &self.directions[side.index()];
        let up = self.upload.as_ref().filter(|up| self.managed == Some(side) && up.is_held_back());
        let units = match up {
            Some(up) if window > 0 => {
                let told = up.told().saturating_sub(direction.ack());
                (window >> shift).max(told.div_ceil(1 << shift)).max(1)
            }
            _ => window >> shift,
        };
        units.min(u64::from(u16::MAX)) as u16
    }

    /// An acknowledgment with this header leaves toward `side`.
    pub(super) fn on_ack_sent(&mut self, now: Time, side: Side, header: &TcpHeader, with_data: bool) {
        let far = &self.ends[side.other().index()];
        let shift = if self.agreed.window_scaling { far.window_shift } else { 0 };
        let direction = &mut self.directions[side.index()];
        direction.on_ack_sent(now, with_data);
        if self.managed == Some(side)
            && let Some(upload) = &mut self.upload
        {
            let edge = direction.ack() + (u64::from(header.window) << shift);
            direction.receiver.accept_up_to(edge);
            upload.on_told(now, edge, header.options.timestamps.map(|timestamps| timestamps.val));
        }
    }
}
