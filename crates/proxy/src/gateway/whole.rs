//! Flows that stay whole.
use super::Gateway;
use super::table::{Entry, Phase};
use crate::end::Side;
use crate::whole_flow::Seen;
use shorthaul_types::{Deadline, PortId, Time};
use shorthaul_wire::{Packet, TcpFlags};

impl Gateway {
    /// A packet of a flow that stays whole, which goes on to that port.
    pub(super) fn handle_whole(&mut self, now: Time, index: u32, (side, to): (Side, PortId), packet: Packet) {
        let Some(entry) = self.table.get_mut(index) else { return };
        entry.last_active = now;
        let Phase::Whole(flow) = &mut entry.phase else { return };
        let answers = side == Side::Client
            && flow.is_answered()
            && packet.as_tcp().is_some_and(|segment| !segment.header.flags.contains(TcpFlags::SYN));
        if flow.is_untouched() {
            self.counters.forwarded_untouched += 1;
        } else {
            self.counters.intercepted += 1;
        }
        let Seen { bytes, retransmitted } = flow.on_packet(now, side, (to, packet), &mut self.let_pass);
        self.counters.observed_bytes += bytes;
        self.counters.observed_retransmitted += retransmitted;
        let (over, deadline) = (flow.is_over(), flow.poll_timeout());
        let mut let_pass = core::mem::take(&mut self.let_pass);
        let_pass.drain(..).for_each(|(to, packet)| self.pass_whole(to, packet));
        self.let_pass = let_pass;
        if answers && self.table.note_open(index) {
            self.take_shares(index);
        }
        self.note_progress(now, index, side);
        if over {
            self.counters.observed_finished += 1;
            self.step_out_of_whole(now, index);
        } else {
            self.book_whole(index);
            if let Some(Deadline { at, .. }) = deadline {
                self.table.arm(index, at);
            }
        }
    }

    /// Books what interceptors of a flow keep.
    fn book_whole(&mut self, index: u32) {
        let Some(Entry { phase: Phase::Whole(flow), allocated, shares, .. }) = self.table.get_mut(index)
        else {
            return;
        };
        let [before, now] = [allocated[0], flow.memory()];
        if before == now {
            return;
        }
        allocated[0] = now;
        self.allocated = self.allocated - before + now;
        self.shares.book(shares[1], before, now);
        if now > before && self.is_short_of_memory() {
            let Some(Entry { phase: Phase::Whole(flow), .. }) = self.table.get_mut(index) else { return };
            flow.forget();
            self.book_whole(index);
        }
    }

    /// An interceptor may have something to put in.
    pub(super) fn poll_whole(&mut self, now: Time, index: u32) {
        let Some(Entry { phase: Phase::Whole(flow), .. }) = self.table.get_mut(index) else { return };
        flow.poll(now, &mut self.passing);
        let deadline = flow.poll_timeout();
        self.book_whole(index);
        if let Some(Deadline { at, .. }) = deadline {
            self.table.arm(index, at);
        }
    }

    /// Forgets a flow that stays whole; what interceptors kept back of it goes on.
    pub(super) fn step_out_of_whole(&mut self, now: Time, index: u32) {
        if let Some(Entry { phase: Phase::Whole(flow), .. }) = self.table.get_mut(index) {
            flow.step_out(now, &mut self.passing);
            self.remove(index);
        }
    }
}
