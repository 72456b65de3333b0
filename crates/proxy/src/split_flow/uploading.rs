//! What a mobile host sends, and what is sent to it, where its aggregate limits what senders are offered.
use super::{Direction, SplitFlow};
use crate::UplinkWindow;
use crate::aggregate::{AggregateConfig, Landing, Uplink, Upload};
use crate::end::Side;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;
use shorthaul_types::Time;
use shorthaul_wire::{TcpHeader, TcpSegment};

impl SplitFlow {
    /// What the mobile host sends is limited from now on, and what is sent to it may be, as its aggregate has it. Since
    /// `syn_ack_at` the host knows of the first window.
    pub(super) fn limit(&mut self, now: Time, syn_ack_at: Time, config: &AggregateConfig) {
        let Some(mobile) = self.managed else { return };
        // Who opened the connection learned of it from the SYN-ACK, and who was called only now.
        let at = |side: Side| if side == Side::Client { syn_ack_at } else { now };
        if config.uplink != UplinkWindow::None {
            self.upload = Some(self.watch(mobile, at(mobile)));
        }
        if config.hold_senders {
            let mut download = self.watch(mobile.other(), at(mobile.other()));
            download.limit(false, false);
            download.saw_handshake = mobile == Side::Client;
            self.download = Some(download);
        }
    }

    /// What `side` sends is watched: since `at` it knows of its first window.
    fn watch(&self, side: Side, at: Time) -> Box<Upload> {
        let (near, far) = (&self.directions[side.index()], &self.ends[side.other().index()]);
        let val = far.ts_val.filter(|_| self.agreed.timestamps);
        let (came, early) = (near.receiver.data_end(), near.receiver.early());
        let upload = Upload::new(at, near.receiver.edge(), val, Uplink::burst(near.sender.mss()));
        Box::new(upload.in_midst(came + early, came))
    }

    /// What was offered until now and what came of it, for another process.
    pub(super) fn watched_so_far(&self) -> [Vec<u64>; 2] {
        [&self.upload, &self.download]
            .map(|watched| watched.as_ref().map_or_else(Vec::new, |of| of.momentum()))
    }

    /// Goes on with what another process had offered.
    pub(super) fn watch_on(&mut self, momentum: &[Vec<u64>; 2]) {
        for (watched, numbers) in [&mut self.upload, &mut self.download].into_iter().zip(momentum) {
            if let Some(next) = watched.as_ref().and_then(|_| Upload::of_momentum(numbers)) {
                *watched = Some(Box::new(next));
            }
        }
    }

    /// What `side` sends has come past us up to `end`.
    pub(super) fn note_passed(&mut self, side: Side) {
        let receiver = &self.directions[side.index()].receiver;
        let (came, early) = (receiver.data_end(), receiver.early());
        if let Some(upload) = self.watched(side) {
            upload.skip_to(came + early, came);
        }
    }

    /// What it sends, where that is limited.
    pub(crate) fn upload_mut(&mut self) -> Option<&mut Upload> {
        self.upload.as_deref_mut()
    }

    /// What is sent to it, where that may be limited.
    pub(crate) fn download_mut(&mut self) -> Option<&mut Upload> {
        self.download.as_deref_mut()
    }

    /// The round trip to the wired sender, as the handshake measured it.
    pub(crate) fn server_rtt(&self) -> Option<Duration> {
        self.managed.and_then(|side| self.directions[side.index()].sender.rtt().latest())
    }

    /// What is watched of what `side` sends, if it is.
    pub(super) fn watched(&mut self, side: Side) -> Option<&mut Upload> {
        match self.managed? {
            mobile if mobile == side => self.upload.as_deref_mut(),
            _ => self.download.as_deref_mut(),
        }
    }

    /// A segment from `side` that ends at `end` was taken.
    pub(super) fn note_arrival(&mut self, now: Time, side: Side, end: u64, segment: &TcpSegment) {
        let Direction { receiver, sender, .. } = &self.directions[side.index()];
        let length = segment.payload.len();
        let piece = segment.gso_size.map_or(length, |size| usize::from(size.get()));
        let full = piece > sender.mss() as usize / 2 && length.is_multiple_of(piece);
        let arrived = receiver.data_end() + receiver.early();
        let echo = self.ends[side.index()].ts_ecr.filter(|_| self.agreed.timestamps);
        if let Some(upload) = self.watched(side) {
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
        let watched = if self.managed == Some(side) { &self.upload } else { &self.download };
        let up = watched.as_ref().filter(|up| up.is_held_back());
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
        let is_mobile = self.managed == Some(side);
        let watched = if is_mobile { &mut self.upload } else { &mut self.download };
        if let Some(upload) = watched {
            let edge = direction.ack() + (u64::from(header.window) << shift);
            if is_mobile || upload.is_held_back() {
                direction.receiver.accept_up_to(edge);
            }
            upload.on_told(now, edge, header.options.timestamps.map(|timestamps| timestamps.val));
        }
    }
}
