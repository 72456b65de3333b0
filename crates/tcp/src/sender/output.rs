//! What leaves next.
use super::{Outgoing, Sender, State};
use crate::loss_detector::{Event, Transmission};
use shorthaul_types::Time;

/// Payload of the largest super-segment: what fits into an IPv4 total length with both headers.
const MAX_SUPER_SEGMENT: u64 = 65_535 - 120;
/// A slow start leaves windows up to this size, in bytes, to the clock of the acknowledgments. It is a
/// burst that every host with segmentation offload sends anyway, and spreading it would make a short
/// transfer half a round trip longer.
const UNSPREAD_WINDOW: u64 = 64 << 10;

impl Sender {
    pub(super) fn set_pace(&mut self) {
        let small = self.control.pacing_rate().is_none()
            && self.control.in_slow_start()
            && self.control.window() <= UNSPREAD_WINDOW;
        let paced = self.options.pacing && !small;
        let rate = if paced { self.control.pacing_rate_over(self.rtt.srtt()) } else { None };
        self.pacer.set_rate(rate);
    }

    /// How much may leave now.
    fn credit(&self, now: Time) -> u64 {
        let room = match &self.state {
            State::Recovery { prr: Some(prr), .. } => prr.allowance(),
            State::Loss { f_rto: Some(f_rto), .. } => f_rto.allowance(),
            State::Waiting { .. } => 0,
            _ => {
                let room = self.control.window().saturating_sub(self.in_flight());
                self.start.burst(self.snd.nxt).map_or(room, |burst| room.min(burst))
            }
        };
        self.manager.credit(self.detector.credit(&self.flight(now), &self.board, room))
    }

    /// The next segment to send, if there is one that may leave now.
    pub fn poll_segment(&mut self, now: Time) -> Option<Outgoing> {
        if self.persist.take_probe() {
            // What fits into a small window is the better probe (the override timeout of RFC 9293 §3.8.6.2.1).
            return Some(match self.sendable().min(self.segment.bytes()) {
                0 => Outgoing::empty(self.snd.una - 1),
                len => self.transmit(now, self.snd.nxt, len),
            });
        }
        if self.is_shut() {
            return None;
        }
        if let State::Waiting { .. } = self.state {
            return self.discriminators_probe(now);
        }
        if let Some(probe) =
            self.ask_detector(now, |detector, flight, board| detector.poll_probe(flight, board))
        {
            self.stats.tail_probes += 1;
            return Some(self.transmit(now, probe.start, probe.end - probe.start));
        }
        if self.segment.restore(now) {
            self.on_segment_size();
        }
        let mss = self.segment.bytes();
        let repair = self.board.first_lost();
        if repair.is_none() && self.snd.nxt >= self.end() {
            if self.in_flight() < self.control.window() {
                self.rate.on_app_limited(self.in_flight());
            }
            return None;
        }
        let idle = self.board.is_empty() && now.saturating_since(self.snd.last_send) > self.rtt.rto();
        if idle && self.options.idle_restart {
            self.begin_after_idle(now); // before the credit for what follows is counted
        }
        if self.board.is_empty() {
            self.pacer.on_transmit_start(now);
        }
        if let Some(rate) = self.start.pace(self.snd.nxt) {
            self.pacer.set_rate(Some(rate));
        }
        self.timers.pace_at = self.pacer.next_send(now, mss);
        if self.timers.pace_at.is_some() {
            return None;
        }
        let credit = self.credit(now);
        let whole = |bytes: u64| bytes / mss * mss;
        // A single one always fits, however large packets may be.
        let burst = whole(MAX_SUPER_SEGMENT).max(mss).min(whole(self.pacer.budget(now)).max(mss));
        let allowed = burst.min(whole(credit));
        if allowed == 0 {
            self.snd.window_limited_until = self.snd.nxt;
            return None;
        }
        if let Some((start, end)) = repair {
            return Some(self.transmit(now, start, (end - start).min(allowed)));
        }
        let len = self.new_data(now, allowed)?;
        if self.board.is_empty() {
            self.control.on_transmit_start(now);
        }
        Some(self.transmit(now, self.snd.nxt, len))
    }

    /// How much new data leaves as one segment or super-segment, of `allowed` bytes that may; `None` where it had better wait.
    fn new_data(&mut self, now: Time, allowed: u64) -> Option<u64> {
        let mss = self.segment.bytes();
        let whole = |bytes: u64| bytes / mss * mss;
        let usable = self.peer.edge.saturating_sub(self.snd.nxt);
        let pending = self.unsent();
        let silly = usable < pending.min(mss) && usable < self.peer.max / 2;
        if silly || usable == 0 {
            // Silly-window avoidance (RFC 9293 §3.8.6.2.1): it is the persist timer's turn.
            self.arm_persist(now);
            return None;
        }
        let mut len = pending.min(usable).min(allowed);
        if len < pending && len > mss {
            len = whole(len);
        }
        if self.options.nagle && len == pending && !len.is_multiple_of(mss) && !self.fin {
            if len > mss {
                len = whole(len); // the small one follows when these are acknowledged
            } else if !self.board.is_empty() {
                return None;
            }
        }
        Some(len)
    }

    pub(super) fn transmit(&mut self, now: Time, offset: u64, len: u64) -> Outgoing {
        let data_end = self.queue.end();
        let data = len.min(data_end - offset.min(data_end));
        let payload = self.queue.gather(offset, data as usize);
        let mut end = offset + payload.len() as u64;
        let fin = self.fin && end == data_end && offset + len > data_end;
        end += u64::from(fin);
        let retransmission = offset < self.snd.nxt;
        let in_flight = self.in_flight();
        let sent = self.rate.on_send(now, in_flight);
        self.board.on_send(offset, end, self.segment.mss(), sent);
        self.snd.nxt = self.snd.nxt.max(end);
        self.pacer.on_send(now, end - offset);
        match &mut self.state {
            State::Recovery { prr: Some(prr), .. } => prr.on_send(end - offset),
            State::Loss { f_rto: Some(f_rto), .. } => f_rto.on_send(now, end - offset, retransmission),
            _ => {}
        }
        self.manager.on_send(end - offset);
        self.snd.last_send = now;
        self.stats.sent += payload.len() as u64;
        let deadline = self.rto_deadline(now);
        if retransmission {
            self.undo.on_retransmit(end - offset);
            self.stats.retransmitted += payload.len() as u64;
            // What repairs the head has a whole RTO to arrive, as in Linux; RFC 6298 leaves it open.
            if offset == self.snd.una && self.options.sack {
                self.timers.rto_at = Some(deadline);
            }
        }
        self.timers.rto_at.get_or_insert(deadline);
        self.tell_detector(now, Event::Sent(Transmission { start: offset, end, retransmission }));
        let cwr = !retransmission && core::mem::take(&mut self.ecn.send_cwr);
        Outgoing { offset, push: end >= data_end, payload, fin, retransmission, cwr, probe: None }
    }
}
