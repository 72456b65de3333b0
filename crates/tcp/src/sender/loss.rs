//! Finding losses, having them ruled on, and answering them.
use super::{Ack, Sender, State};
use crate::arbiter::{LossEvidence, LossSign, Verdict};
use crate::prr::Prr;
use crate::rack::DUP_THRESH;
use crate::recovery::Recovery;
use core::time::Duration;
use shorthaul_congestion::CongestionEvent;
use shorthaul_types::{SeqNum, Time};

/// The longest that a peer is expected to delay an acknowledgment (RFC 8985 §7.2, WCDelAckT).
const WORST_DELAYED_ACK: Duration = Duration::from_millis(200);
/// After so many timeouts in a row, segments shrink to so many bytes: full-size ones may be what does
/// not pass, and the error that says so may not reach us (RFC 2923 §2.1, RFC 4821). The first size
/// fits every IPv6 path with timestamps, the second every IPv4 host.
const BLACK_HOLE: [(u32, u32); 2] = [(3, 1_208), (6, 536)];

/// How long a path MTU holds that a router told: routes change (RFC 8201 §4 and §5.3).
const PATH_MTU_LIFETIME: Duration = Duration::from_secs(600);

/// The path takes smaller segments than the peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReducedMss {
    /// What the peer takes, in bytes of payload.
    full: u32,
    until: Time,
}

/// A tail loss probe that is unanswered (RFC 8985 §7.3).
#[derive(Clone, Copy, Debug)]
pub(super) struct TailProbe {
    /// SND.NXT after it: TLP.end_seq.
    pub end: u64,
    /// It sent old data again: TLP.is_retrans.
    pub retransmission: bool,
    /// What was outstanding when it left.
    pub flight: u64,
}

/// Whether a timeout was spurious is being found out (F-RTO, RFC 5682 §2.1).
#[derive(Clone, Copy, Debug)]
pub(super) struct FRto {
    /// Bytes that may leave: first the head again, then two new segments.
    pub allowance: u64,
    /// The head was acknowledged: what comes next decides.
    head_arrived: bool,
    /// When the timer expired.
    expired_at: Time,
    /// When something was first sent again since, however often the timer has expired.
    pub resent_at: Option<Time>,
    /// When the two segments behind the head were sent again, where there was nothing new to send.
    again_at: Option<Time>,
}

/// What it takes to undo the answer to a loss: that all that was sent again was sent in vain. Either the
/// receiver reports it as a duplicate (RFC 3708, RFC 2883), or the original is seen to be what it
/// acknowledges (RFC 3522, RFC 4015), which is known a round trip sooner.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Undo {
    /// Bytes sent again, and not known to have been sent in vain.
    pub resent: u64,
    /// Something was sent again.
    pub any: bool,
    /// Bytes whose originals were acknowledged, and whose duplicates are still to be reported.
    unreported: u64,
}

impl Sender {
    /// Looks for losses after an acknowledgment, or when a range has waited long enough.
    pub(super) fn find_losses(&mut self, now: Time, advanced: u64, duplicate_ack: bool) {
        match self.recovery {
            Recovery::RackTlp => self.find_by_time(now),
            Recovery::Sack => self.find_by_reports(now),
            _ => self.find_by_duplicates(now, advanced, duplicate_ack),
        }
        if let Some(before) = self.governor.lost_before() {
            self.find_sent_before(now, before);
        }
        if self.board.lost() > 0 && matches!(self.state, State::Open) {
            self.on_loss_found(now);
        }
        self.end_unanswered_f_rto(now);
    }

    /// What F-RTO has sent is lost, too: no answer will come that says what the timeout was, and a governor has no
    /// timer of this connection's where nothing of it is on its way.
    fn end_unanswered_f_rto(&mut self, now: Time) {
        let (mss, in_flight, una) = (u64::from(self.mss), self.board.in_flight(), self.una);
        let State::Loss { end, f_rto } = &mut self.state else { return };
        let end = *end;
        if f_rto.take_if(|f_rto| f_rto.allowance < mss && in_flight == 0).is_some() {
            self.mark_lost(now, una, end.max(una));
        }
    }

    /// RACK: what was sent long enough before something delivered is lost.
    fn find_by_time(&mut self, now: Time) {
        let recovering = !matches!(self.state, State::Open);
        let patience = self.rack.patience(&self.rtt, self.board.sacked(), self.mss, recovering);
        let Sender { board, rate, control, .. } = self;
        let waiting = board.mark_lost_before(
            self.rack.newest(),
            |record| record.sent.sent_at() + patience <= now,
            |start, record| control.on_loss(&rate.on_lost(now, start..record.end, &record.sent)),
        );
        self.rack_at = waiting.map(|sent| sent + patience);
    }

    /// What the governor knows to be lost: all that was sent before this time and has not arrived.
    fn find_sent_before(&mut self, now: Time, before: Time) {
        let Sender { board, rate, control, .. } = self;
        board.mark_lost_before(
            (u64::MAX, u64::MAX),
            |record| record.sent.sent_at() < before,
            |start, record| control.on_loss(&rate.on_lost(now, start..record.end, &record.sent)),
        );
    }

    /// RFC 6675 §4, IsLost.
    fn find_by_reports(&mut self, now: Time) {
        let Sender { board, rate, control, .. } = self;
        board.mark_lost_below_reports(u64::from(self.mss), |start, record| {
            control.on_loss(&rate.on_lost(now, start..record.end, &record.sent));
        });
    }

    /// Without reports: three duplicates (RFC 5681 §3.2), and in NewReno partial acknowledgments
    /// (RFC 6582 §3.2).
    fn find_by_duplicates(&mut self, now: Time, advanced: u64, duplicate_ack: bool) {
        let segment_end = (self.una + u64::from(self.mss)).min(self.nxt);
        let repairing = match self.state {
            State::Recovery { end, .. } => self.una < end,
            _ => false,
        };
        if advanced > 0 {
            self.duplicate_acks = 0;
            if SeqNum(self.una as u32).after(self.recover) {
                self.recover = SeqNum((self.una - 1) as u32); // so that it is never half a space behind
            }
            if repairing && self.recovery == Recovery::NewReno {
                // The segment sent again has arrived, and what had arrived before behind it.
                self.left = self.left.saturating_sub(advanced.saturating_sub(u64::from(self.mss)));
                let una = self.una;
                self.mark_lost(now, una, segment_end);
                self.hole_due = true;
            } else {
                self.left = 0;
            }
        } else if duplicate_ack {
            self.duplicate_acks += 1;
            self.left += u64::from(self.mss);
            let is_news = SeqNum(self.una as u32).after(self.recover);
            if u64::from(self.duplicate_acks) == DUP_THRESH && is_news && matches!(self.state, State::Open) {
                let una = self.una;
                self.mark_lost(now, una, segment_end);
                self.hole_due = true;
            }
        }
    }

    fn mark_lost(&mut self, now: Time, start: u64, end: u64) {
        let Sender { board, rate, control, .. } = self;
        board.mark_lost(start, end, |at, record| {
            control.on_loss(&rate.on_lost(now, at..record.end, &record.sent));
        });
    }

    /// The path takes only smaller segments (RFC 8201): what is outstanding is sent again so. That is
    /// no congestion.
    pub fn reduce_mss(&mut self, now: Time, mss: u32) {
        if mss >= self.mss {
            return;
        }
        let full = self.reduced.map_or(self.mss, |reduced| reduced.full);
        self.reduced = Some(ReducedMss { full, until: now + PATH_MTU_LIFETIME });
        self.set_mss(mss);
        let (una, nxt) = (self.una, self.nxt);
        self.board.mark_lost(una, nxt, |_, _| {});
        if matches!(self.state, State::Open) && self.board.lost() > 0 {
            self.begin_repair(now, None);
        }
    }

    /// Tries the full size again, when what was told of the path has aged.
    pub(super) fn restore_mss(&mut self, now: Time) {
        if let Some(reduced) = self.reduced.take_if(|reduced| reduced.until <= now) {
            self.set_mss(reduced.full);
        }
    }

    fn set_mss(&mut self, mss: u32) {
        self.mss = mss;
        self.control.set_mss(mss);
        self.pacer.set_mss(mss);
    }

    fn on_loss_found(&mut self, now: Time) {
        self.rule(now, LossSign::Acknowledgments);
    }

    fn rule(&mut self, now: Time, sign: LossSign) {
        let evidence = LossEvidence {
            sign,
            flight: self.nxt - self.una,
            in_slow_start: self.control.in_slow_start(),
            min_rtt: self.rtt.min_rtt(),
            srtt: self.rtt.srtt(),
        };
        let verdict = self.arbiter.judge(now, &evidence);
        self.answer_loss(now, sign, verdict);
    }

    /// Does what the arbiter ruled about a loss.
    pub(super) fn answer_loss(&mut self, now: Time, sign: LossSign, verdict: Verdict) {
        let flight = self.nxt - self.una;
        let severe =
            verdict == Verdict::Severe || (verdict == Verdict::Mild && !self.recovery.has_fast_recovery());
        if self.board.is_empty() {
            self.state = State::Open; // while it was being ruled on, everything arrived
        } else if verdict == Verdict::Waiting {
            if !matches!(self.state, State::Waiting { .. }) {
                self.state = State::Waiting { sign, behind_head: None };
            }
            self.rto_at = None;
            self.tail_at = None;
        } else if severe {
            if sign == LossSign::Timeout {
                self.rtt.back_off();
            }
            self.control.on_timeout(now, self.used_window());
            self.begin_anew(now, sign);
        } else {
            let prr = if verdict == Verdict::Mild {
                self.control.on_congestion(now, CongestionEvent::Loss, self.used_window());
                self.ecn_end = self.nxt;
                self.send_cwr = true;
                let spread = self.recovery.uses_reports() && self.control.uses_prr();
                spread.then(|| Prr::new(flight, self.mss))
            } else {
                if verdict == Verdict::Gentle {
                    self.control.on_slow_start_loss(now);
                }
                None
            };
            if sign == LossSign::Timeout {
                if verdict == Verdict::Mild {
                    self.rtt.back_off();
                }
                let (una, nxt) = (self.una, self.nxt);
                self.mark_lost(now, una, nxt);
            }
            self.begin_repair(now, prr);
        }
    }

    /// What a reduction goes by: FlightSize (RFC 5681 equation 4). While a paced window grows, less is out
    /// than it allows, as the rest of the round trip's share is still to come; where the window is in use
    /// and therefore grows, it counts as a whole (as in RFC 9438 §4.6 and RFC 9002 §7.3.2).
    fn used_window(&self) -> u64 {
        let flight = self.nxt - self.una;
        let in_use = self.pacing && self.una <= self.window_limited_until;
        if in_use { flight.max(self.control.window()) } else { flight }
    }

    /// Repairs what is marked, until all that is outstanding now has arrived.
    fn begin_repair(&mut self, now: Time, prr: Option<Prr>) {
        self.state = State::Recovery { end: self.nxt, prr };
        self.undo = Some(Undo::default());
        self.stats.recoveries += 1;
        self.tail_at = None;
        let deadline = self.rto_deadline(now);
        self.rto_at.get_or_insert(deadline);
        self.set_pace();
    }

    /// Begins with one segment at SND.UNA again (RFC 5681 §3.1).
    fn begin_anew(&mut self, now: Time, sign: LossSign) {
        let (first, resent_at) = match &self.state {
            State::Loss { f_rto: Some(f_rto), .. } => (false, f_rto.resent_at),
            State::Loss { .. } => (false, None),
            _ => (true, None),
        };
        let (una, nxt) = (self.una, self.nxt);
        // A second timeout, or one with nothing behind the head, cannot be told apart so. A governor that
        // probes has sent nothing but the head again, however often.
        let f_rto = (self.f_rto
            && (first || self.governor.is_shared())
            && sign == LossSign::Timeout
            && nxt - una > u64::from(self.mss))
        .then(|| FRto {
            allowance: u64::from(self.mss),
            head_arrived: false,
            expired_at: now,
            resent_at,
            again_at: None,
        });
        let end = if f_rto.is_some() { una + u64::from(self.mss) } else { nxt };
        self.mark_lost(now, una, end);
        if first {
            self.undo = Some(Undo::default());
        }
        self.state = State::Loss { end: nxt, f_rto };
        self.recover = SeqNum(nxt as u32);
        self.duplicate_acks = 0;
        self.left = 0;
        self.tail_probe = None;
        self.tail_at = None;
        self.rack_at = None;
        self.rto_at = Some(self.rto_deadline(now));
        self.set_pace();
        self.pacer.set_rate(None); // the probe after a timeout waits for nobody
    }

    /// RFC 6298 §5.4–5.7.
    pub(super) fn on_retransmission_timeout(&mut self, now: Time) {
        self.stats.timeouts += 1;
        // A governor gives up by itself, and an outage looks like a black hole: but not where nothing of full
        // size ever arrived.
        let last = BLACK_HOLE.iter().map(|(timeouts, _)| *timeouts).max().unwrap_or(0);
        let nothing_arrived = self.rate.delivered() < u64::from(self.mss) && self.timeouts < last;
        self.timeouts += u32::from(!self.governor.is_shared() || nothing_arrived);
        if let Some(&(_, size)) = BLACK_HOLE.iter().find(|(timeouts, _)| *timeouts == self.timeouts)
            && self.finds_black_holes
            && size < self.mss
        {
            self.reduced = None; // nobody tells of a black hole: to try again would cost these timeouts again
            self.set_mss(size);
        }
        if self.board.first().is_some_and(|(_, record)| record.sacked) {
            self.board.forget_reports(); // the receiver reneged (RFC 2018 §8)
        }
        self.rule(now, LossSign::Timeout);
    }

    /// F-RTO (RFC 5682 §2.1): what the first two acknowledgments after a timeout say of it.
    /// `newest` is when the newest transmission was sent that arrived; `sent_before` is when that was sent, at the latest, which
    /// moved SND.UNA.
    pub(super) fn settle_f_rto(
        &mut self,
        now: Time,
        sent_before: Option<Time>,
        advanced: u64,
        delivered: u64,
        newest: Option<Time>,
    ) {
        let fresh = self.end() > self.nxt && self.edge > self.nxt;
        let (mss, shared) = (u64::from(self.mss), self.governor.is_shared());
        let State::Loss { end, f_rto: Some(f_rto) } = &mut self.state else { return };
        let end = *end;
        // A timestamp from before anything was sent again: it was the original that moved SND.UNA (RFC 4015 §3.2), however
        // often the head was sent again.
        if f_rto.resent_at.zip(sent_before).is_some_and(|(resent, sent)| sent <= resent) {
            self.undo_answer(now);
            return;
        }
        if advanced > 0 && self.una < end {
            // Sooner than the shortest round trip, no answer to what was sent again can have come. (A
            // connection of its own is as careful as RFC 5682 is.)
            let since = f_rto.again_at.unwrap_or(f_rto.expired_at);
            let too_soon = self.rtt.min_rtt().is_some_and(|min| now.saturating_since(since) < min);
            // Or only data that was sent once can have moved it.
            if (f_rto.head_arrived && f_rto.again_at.is_none()) || (shared && too_soon) {
                self.undo_answer(now);
                return;
            }
            if !f_rto.head_arrived {
                f_rto.head_arrived = true;
                f_rto.allowance = 2 * mss;
                if fresh {
                    return;
                }
                if shared {
                    // There is nothing new to find out with: two segments again, and not the whole window.
                    f_rto.again_at = Some(now);
                    let una = self.una;
                    self.mark_lost(now, una, (una + 2 * mss).min(end));
                    return;
                }
            }
        } else if self.sack
            && delivered > 0
            && self.una < end
            && newest.is_none_or(|sent| sent < f_rto.expired_at)
        {
            return; // a report of what had been on its way says nothing yet
        }
        // It was no mistake: what was outstanding is sent again.
        if let State::Loss { f_rto, .. } = &mut self.state {
            *f_rto = None;
        }
        let una = self.una;
        self.mark_lost(now, una, end.max(una));
    }

    /// The receiver reports `bytes` that it had before.
    pub(super) fn on_duplicate_report(&mut self, now: Time, bytes: u64) {
        let Some(undo) = &mut self.undo else { return };
        let known = bytes.min(undo.unreported);
        undo.unreported -= known;
        undo.resent = undo.resent.saturating_sub(bytes - known);
        self.undo_if_in_vain(now);
    }

    /// The originals were delivered of `bytes` that had been sent again.
    pub(super) fn on_originals(&mut self, now: Time, bytes: u64) {
        let Some(undo) = &mut self.undo else { return };
        undo.resent = undo.resent.saturating_sub(bytes);
        undo.unreported += bytes;
        self.undo_if_in_vain(now);
    }

    fn undo_if_in_vain(&mut self, now: Time) {
        if self.undo.is_some_and(|undo| undo.any && undo.resent == 0) && self.board.lost() == 0 {
            self.undo_answer(now);
        }
    }

    fn undo_answer(&mut self, now: Time) {
        self.undo = None;
        self.stats.undone += 1;
        self.stats.spurious_timeouts += u64::from(matches!(self.state, State::Loss { .. }));
        self.control.on_spurious(now);
        self.rtt.reset_backoff();
        self.state = State::Open;
        self.duplicate_acks = 0;
        self.left = 0;
        self.set_pace();
    }

    pub(super) fn leave_recovery(&mut self, now: Time, advanced: u64) {
        let (State::Recovery { end, .. } | State::Loss { end, .. }) = self.state else { return };
        // Tahoe is here where the arbiter has ruled that the window stays.
        let first_is_enough = matches!(self.recovery, Recovery::Reno | Recovery::Tahoe)
            && matches!(self.state, State::Recovery { .. });
        if self.una >= end || (first_is_enough && advanced > 0) {
            self.state = State::Open;
            self.control.on_recovered(now);
            self.rack.on_recovered();
            self.duplicate_acks = 0;
            self.left = 0;
        }
    }

    /// Rules on a tail loss probe that is answered (RFC 8985 §7.4.2). An acknowledgment up to the
    /// probe alone says nothing: it may be that of the original, with the report still to come.
    pub(super) fn settle_tail_probe(
        &mut self,
        now: Time,
        ack: &Ack<'_>,
        duplicate: bool,
        plain_duplicate: bool,
    ) {
        let Some(probe) = self.tail_probe else { return };
        if ack.ack < probe.end {
            return;
        }
        let repaired = ack.ack > probe.end && probe.retransmission && !duplicate;
        if probe.retransmission && !duplicate && !repaired && !plain_duplicate {
            return;
        }
        self.tail_probe = None;
        if repaired && matches!(self.state, State::Open) {
            // The probe itself repaired a loss that nothing else has shown.
            self.control.on_congestion(now, CongestionEvent::Loss, probe.flight);
            self.control.on_recovered(now);
        }
    }

    pub(super) fn arm_tail_probe(&mut self, now: Time) {
        let wanted = self.sack
            && self.recovery == Recovery::RackTlp
            && matches!(self.state, State::Open)
            && self.board.sacked() == 0
            && self.tail_probe.is_none()
            && !self.board.is_empty();
        self.tail_at = wanted.then(|| {
            let mut timeout = self.rtt.srtt().map_or(Duration::from_secs(1), |srtt| srtt * 2);
            if self.board.in_flight() <= u64::from(self.mss) {
                timeout += WORST_DELAYED_ACK;
            }
            now + timeout.max(Duration::from_millis(2))
        });
        if self.tail_at >= self.rto_at {
            self.tail_at = None; // the retransmission timer comes first
        }
    }
}
