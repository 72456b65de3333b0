//! What leaves next.
use super::{Outgoing, Sender, State};
use crate::arbiter::{OCTETS, ProbeForm};
use core::time::Duration;
use shorthaul_types::Time;
use shorthaul_wire::Payload;

/// Payload of the largest super-segment: what fits into an IPv4 total length with both headers.
const MAX_SUPER_SEGMENT: u64 = 65_535 - 120;
/// The longest interval between zero-window probes (RFC 9293 §3.8.6.1 leaves it open).
const MAX_PERSIST: Duration = Duration::from_secs(60);
/// A slow start leaves windows up to this size, in bytes, to the clock of the acknowledgments. It is a
/// burst that every host with segmentation offload sends anyway, and spreading it would make a short
/// transfer half a round trip longer.
const UNSPREAD_WINDOW: u64 = 64 << 10;

impl Sender {
    pub(super) fn set_pace(&mut self) {
        let small = self.control.pacing_rate().is_none()
            && self.control.in_slow_start()
            && self.control.window() <= UNSPREAD_WINDOW;
        let paced = self.pacing && !small;
        let rate = if paced { self.control.pacing_rate_over(self.rtt.srtt()) } else { None };
        self.pacer.set_rate(rate);
    }

    /// How much may leave now.
    fn credit(&self) -> u64 {
        let in_flight = self.in_flight();
        let own = match &self.state {
            State::Recovery { prr: Some(prr), .. } => prr.allowance(),
            State::Loss { f_rto: Some(f_rto), .. } => f_rto.allowance,
            State::Waiting { .. } => 0,
            _ => self.control.window().saturating_sub(in_flight),
        };
        let own = if self.hole_due && self.board.lost() > 0 { own.max(u64::from(self.mss)) } else { own };
        self.governor.credit(own)
    }

    /// The next segment to send, if there is one that may leave now.
    pub fn poll_segment(&mut self, now: Time) -> Option<Outgoing> {
        if core::mem::take(&mut self.probe_due) {
            // What fits into a small window is the better probe (the override timeout of RFC 9293
            // §3.8.6.2.1).
            let fits = self.edge.saturating_sub(self.nxt).min(self.end() - self.nxt).min(u64::from(self.mss));
            return Some(match fits {
                0 => Outgoing::empty(self.una - 1),
                len => self.transmit(now, self.nxt, len),
            });
        }
        if let State::Waiting { .. } = self.state {
            return self.arbiters_probe(now);
        }
        if core::mem::take(&mut self.tail_due)
            && let Some(probe) = self.tail_loss_probe(now)
        {
            return Some(probe);
        }
        self.restore_mss(now);
        let repair = self.board.first_lost();
        if repair.is_none() && self.nxt >= self.end() {
            if self.in_flight() < self.control.window() {
                self.rate.on_app_limited(self.in_flight());
            }
            return None;
        }
        let idle = self.board.is_empty() && now.saturating_since(self.last_send) > self.rtt.rto();
        if idle && self.idle_restart {
            self.control.on_idle_restart(now); // before the credit for what follows is counted
            self.set_pace();
        }
        self.pace_at = self.pacer.next_send(now, u64::from(self.mss));
        if self.pace_at.is_some() {
            return None;
        }
        let credit = self.credit();
        let whole = |bytes: u64| bytes / u64::from(self.mss) * u64::from(self.mss);
        let burst = whole(MAX_SUPER_SEGMENT).min(whole(self.pacer.budget(now)).max(u64::from(self.mss)));
        let allowed = burst.min(whole(credit));
        if allowed == 0 {
            self.window_limited_until = self.nxt;
            return None;
        }
        if let Some((start, end)) = repair {
            return Some(self.transmit(now, start, (end - start).min(allowed)));
        }
        let usable = self.edge.saturating_sub(self.nxt);
        let pending = self.end() - self.nxt;
        if usable < pending.min(u64::from(self.mss)) && usable < self.max_window / 2 {
            // Silly-window avoidance (RFC 9293 §3.8.6.2.1): it is the persist timer's turn.
            self.arm_persist(now);
            return None;
        }
        if usable == 0 {
            self.arm_persist(now);
            return None;
        }
        let mut len = pending.min(usable).min(allowed);
        if len < pending && len > u64::from(self.mss) {
            len = whole(len);
        }
        if self.nagle && len == pending && len % u64::from(self.mss) != 0 && !self.fin {
            if len > u64::from(self.mss) {
                len = whole(len); // the small one follows when these are acknowledged
            } else if !self.board.is_empty() {
                return None;
            }
        }
        if self.board.is_empty() {
            self.control.on_transmit_start(now);
        }
        Some(self.transmit(now, self.nxt, len))
    }

    /// The next probe of the arbiter, if one is due, and before it the segment that it brings.
    fn arbiters_probe(&mut self, now: Time) -> Option<Outgoing> {
        let State::Waiting { sign, behind_head } = self.state else { return None };
        let probe = match behind_head {
            Some(probe) => {
                self.state = State::Waiting { sign, behind_head: None };
                probe
            }
            None => {
                let probe = self.arbiter.poll_probe(now)?;
                if probe.brings_head && !self.board.is_empty() {
                    self.state = State::Waiting { sign, behind_head: Some(probe) };
                    let len = (self.nxt - self.una).min(u64::from(self.mss));
                    let head = self.transmit(now, self.una, len);
                    self.rto_at = None; // the probe behind it has its own time
                    return Some(head);
                }
                probe
            }
        };
        self.stats.probes += 1;
        let mut out = Outgoing { probe: Some(probe), ..Outgoing::empty(self.una - 1) };
        if probe.form == ProbeForm::Octet
            && let Some(octets) = &self.octets
        {
            // The last offset below SND.UNA that the number names.
            let turns = u64::from(OCTETS);
            let back = (self.una - 1 + turns - u64::from(probe.number) % turns) % turns;
            out.offset = (self.una - 1).saturating_sub(back);
            out.payload = Payload::copy_of(&[octets[(out.offset % turns) as usize]]).into();
        }
        Some(out)
    }

    pub(super) fn arm_persist(&mut self, now: Time) {
        if self.board.is_empty() && self.persist_at.is_none() {
            let wait = self.rtt.rto().saturating_mul(1 << self.persist_backoff.min(16)).min(MAX_PERSIST);
            self.persist_at = Some(now + wait);
        }
    }

    /// RFC 8985 §7.3: one segment of new data if the peer has room, else the last one again.
    fn tail_loss_probe(&mut self, now: Time) -> Option<Outgoing> {
        let mss = u64::from(self.mss);
        let fresh = (self.end() - self.nxt).min(self.edge.saturating_sub(self.nxt)).min(mss);
        let (start, end) = if fresh > 0 {
            (self.nxt, self.nxt + fresh)
        } else {
            let (start, last) = self.board.last().map(|(start, record)| (start, record.end))?;
            (start.max(last.saturating_sub(mss)), last)
        };
        self.stats.tail_probes += 1;
        let out = self.transmit(now, start, end - start);
        let flight = self.nxt - self.una;
        self.tail_probe = Some(super::loss::TailProbe { end: self.nxt, retransmission: fresh == 0, flight });
        self.tail_at = None;
        Some(out)
    }

    fn transmit(&mut self, now: Time, offset: u64, len: u64) -> Outgoing {
        let data_end = self.queue.end();
        let data = len.min(data_end - offset.min(data_end));
        let payload = self.queue.gather(offset, data as usize);
        let mut end = offset + payload.len() as u64;
        let fin = self.fin && end == data_end && offset + len > data_end;
        end += u64::from(fin);
        let retransmission = offset < self.nxt;
        let in_flight = self.in_flight();
        let sent = self.rate.on_send(now, in_flight);
        self.board.on_send(offset, end, sent);
        self.nxt = self.nxt.max(end);
        self.pacer.on_send(now, end - offset);
        match &mut self.state {
            State::Recovery { prr: Some(prr), .. } => prr.on_send(end - offset),
            State::Loss { f_rto: Some(f_rto), .. } => {
                f_rto.allowance = f_rto.allowance.saturating_sub(end - offset);
                if retransmission {
                    f_rto.resent_at.get_or_insert(now);
                }
            }
            _ => {}
        }
        if let Some(undo) = &mut self.undo
            && retransmission
        {
            undo.resent += end - offset;
            undo.any = true;
        }
        self.governor.on_send(end - offset);
        self.last_send = now;
        self.stats.sent += payload.len() as u64;
        if retransmission {
            self.hole_due = false;
            self.stats.retransmitted += payload.len() as u64;
        }
        let deadline = self.rto_deadline(now);
        // What repairs the head has a whole time-out to arrive, as in Linux; RFC 6298 leaves it open.
        if retransmission && offset == self.una && self.recovery.uses_reports() {
            self.rto_at = Some(deadline);
        }
        self.rto_at.get_or_insert(deadline);
        if !retransmission {
            self.arm_tail_probe(now);
        }
        let cwr = !retransmission && core::mem::take(&mut self.send_cwr);
        Outgoing { offset, push: end >= data_end, payload, fin, retransmission, cwr, probe: None }
    }
}
