//! Finding losses, having them judged, and answering them.
use super::f_rto::{FRto, FRtoAck, FRtoFinding};
use super::{Sender, State};
use crate::RetransmissionTimer;
use crate::loss_detector::{AckEvent, Detection, Event, Repair};
use crate::loss_discriminator::{LossEvidence, LossResponse, LossSign};
use crate::prr::Prr;
use shorthaul_congestion::CongestionEvent;
use shorthaul_types::Time;

impl Sender {
    /// Looks for losses after an acknowledgment, or without one.
    pub(super) fn find_losses(&mut self, now: Time, ack: Option<&AckEvent>) {
        if self.is_shut() {
            return; // as 4.4BSD, which counts no duplicates while its retransmission timer is off
        }
        let known = self.board.lost();
        let flight_size = self.detect(now, ack);
        if let Some(before) = self.manager.lost_before() {
            self.find_sent_before(now, before);
        }
        let found = self.board.lost().saturating_sub(known);
        if found > 0
            && matches!(self.state, State::Open | State::Recovery { .. })
            && let Some(again) = self.start.on_lost(found)
        {
            return self.begin_again(now, again);
        }
        if self.board.lost() > 0 && matches!(self.state, State::Open) {
            self.respond(now, LossSign::Acknowledgments, flight_size);
        }
        self.end_unanswered_f_rto(now);
    }

    /// Lets the detector look. Returns the FlightSize that a reduction is to go by.
    fn detect(&mut self, now: Time, ack: Option<&AckEvent>) -> u64 {
        let flight = self.flight(now);
        let mut detection = Detection {
            flight,
            flight_size: flight.size(),
            restart_rto: false,
            board: &mut self.board,
            rate: &mut self.rate,
            control: &mut *self.control,
        };
        match ack {
            Some(ack) => self.detector.on_ack(&mut detection, ack),
            None => self.detector.on_timeout(&mut detection),
        }
        let Detection { flight_size, restart_rto, .. } = detection;
        if restart_rto {
            self.timers.rto_at = Some(self.rto_deadline(now));
        }
        flight_size
    }

    /// What F-RTO has sent is lost, too: no answer will come that says what the RTO was, and where a manager has the timer,
    /// it does not run while nothing of this connection is on its way.
    fn end_unanswered_f_rto(&mut self, now: Time) {
        let (mss, in_flight, una) = (self.segment.bytes(), self.board.in_flight(), self.snd.una);
        let State::Loss { end, f_rto } = &mut self.state else { return };
        let end = *end;
        if f_rto.take_if(|f_rto| f_rto.allowance() < mss && in_flight == 0).is_some() {
            self.mark_lost(now, una, end.max(una));
        }
    }

    /// What the congestion manager knows to be lost: all that was sent before this time and has not arrived.
    fn find_sent_before(&mut self, now: Time, before: Time) {
        let Sender { board, rate, control, .. } = self;
        board.mark_lost_before(
            (u64::MAX, u64::MAX),
            |record| record.sent.sent_at() < before,
            |start, record| control.on_loss(&rate.on_lost(now, start..record.end, &record.sent)),
        );
    }

    pub(super) fn mark_lost(&mut self, now: Time, start: u64, end: u64) {
        let Sender { board, rate, control, .. } = self;
        board.mark_lost(start, end, |at, record| {
            control.on_loss(&rate.on_lost(now, at..record.end, &record.sent));
        });
    }

    /// The path takes only smaller segments (RFC 8201): what is outstanding is retransmitted so. That is no congestion.
    pub fn reduce_mss(&mut self, now: Time, mss: u32) {
        if !self.segment.reduce(now, mss) {
            return;
        }
        self.on_segment_size();
        self.board.mark_lost(self.snd.una, self.snd.nxt, |_, _| {});
        if matches!(self.state, State::Open) && self.board.lost() > 0 {
            self.begin_repair(now, None);
        }
    }

    pub(super) fn on_segment_size(&mut self) {
        self.control.set_mss(self.segment.mss());
        self.pacer.set_mss(self.segment.mss());
    }

    /// Asks the discriminator what a loss means, and does what it says.
    fn respond(&mut self, now: Time, sign: LossSign, flight_size: u64) {
        let evidence = LossEvidence {
            sign,
            flight: flight_size,
            in_slow_start: self.control.in_slow_start(),
            min_rtt: self.rtt.min_rtt(),
            srtt: self.rtt.srtt(),
        };
        let response = self.discriminator.respond(now, &evidence);
        self.answer_loss(now, sign, response, flight_size);
    }

    /// Does what the discriminator said about a loss.
    pub(super) fn answer_loss(
        &mut self,
        now: Time,
        sign: LossSign,
        response: LossResponse,
        flight_size: u64,
    ) {
        let repair = self.detector.repair();
        if self.board.is_empty() {
            self.state = State::Open; // meanwhile, everything arrived
            return;
        }
        match response {
            LossResponse::Waiting => {
                if !matches!(self.state, State::Waiting { .. }) {
                    self.state = State::Waiting { sign, behind_head: None };
                }
                self.timers.rto_at = None;
                self.tell_detector(now, Event::WaitBegun);
            }
            LossResponse::Mild if repair.has_fast_recovery() => {
                if sign == LossSign::Timeout {
                    self.rtt.back_off();
                }
                self.control.on_congestion(now, CongestionEvent::Loss, self.used_window(flight_size));
                self.ecn.end = self.snd.nxt;
                self.ecn.send_cwr = true;
                let spread = repair == Repair::ProportionalRate && self.control.uses_prr();
                let prr = spread.then(|| Prr::new(self.flight_size(), self.segment.mss()));
                self.repair_what_is_lost(now, sign, prr);
            }
            LossResponse::Severe | LossResponse::Mild => {
                if sign == LossSign::Timeout {
                    self.rtt.back_off();
                }
                self.control.on_timeout(now, self.used_window(flight_size));
                self.begin_anew(now, sign);
            }
            LossResponse::Decrease { percent } => {
                self.control.decrease(now, percent);
                self.repair_what_is_lost(now, sign, None);
            }
            LossResponse::Transient => {
                self.manager.on_lost();
                self.repair_what_is_lost(now, sign, None);
            }
        }
    }

    /// Repairs what is lost: after an RTO, everything outstanding.
    fn repair_what_is_lost(&mut self, now: Time, sign: LossSign, prr: Option<Prr>) {
        if sign == LossSign::Timeout {
            self.mark_lost(now, self.snd.una, self.snd.nxt);
        }
        self.begin_repair(now, prr);
    }

    /// What a reduction goes by: FlightSize (RFC 5681 equation 4). While a paced window grows, less is out
    /// than it allows, as the rest of the round trip's share is still to come; where the window is in use
    /// and therefore grows, it counts as a whole (as in RFC 9438 §4.6 and RFC 9002 §7.3.2). Where there was no more to send, what
    /// was acknowledged within a round trip of late counts (RFC 7661 §4.4.1).
    fn used_window(&self, flight_size: u64) -> u64 {
        if !self.options.pacing {
            return flight_size;
        }
        let window = self.control.window();
        let in_use = self.snd.una <= self.snd.window_limited_until;
        flight_size.max(if in_use { window } else { self.snd.pipe_ack.bytes().min(window) })
    }

    /// Repairs what is marked, until all that is outstanding now has arrived.
    fn begin_repair(&mut self, now: Time, prr: Option<Prr>) {
        self.state = State::Recovery { end: self.snd.nxt, prr };
        if self.options.undo {
            self.undo.begin();
        }
        self.stats.recoveries += 1;
        self.tell_detector(now, Event::RecoveryBegun);
        let deadline = self.rto_deadline(now);
        self.timers.rto_at.get_or_insert(deadline);
        self.set_pace();
    }

    /// Begins with one segment at SND.UNA again (RFC 5681 §3.1).
    fn begin_anew(&mut self, now: Time, sign: LossSign) {
        let (first, before) = match self.state {
            State::Loss { f_rto, .. } => (false, f_rto),
            _ => (true, None),
        };
        let (una, nxt, mss) = (self.snd.una, self.snd.nxt, self.segment.bytes());
        // A second RTO, or one with nothing behind the head, cannot be told apart so. A timer that probes has sent nothing but
        // the head again, however often.
        let probing = self.manager.timer() == RetransmissionTimer::Probes;
        let f_rto = self.options.f_rto && (first || probing) && sign == LossSign::Timeout && nxt - una > mss;
        let f_rto = f_rto.then(|| FRto::new(now, mss, before, probing));
        let end = if f_rto.is_some() { una + mss } else { nxt };
        self.mark_lost(now, una, end);
        if first && self.options.undo {
            self.undo.begin();
        }
        self.state = State::Loss { end: nxt, f_rto };
        self.tell_detector(now, Event::Restarted);
        self.timers.rto_at = Some(self.rto_deadline(now));
        self.set_pace();
        self.pacer.set_rate(None); // the probe after an RTO waits for nobody
    }

    /// RFC 6298 §5.4–5.7.
    pub(super) fn on_retransmission_timeout(&mut self, now: Time) {
        if let Some(again) = self.start.on_timer() {
            return self.begin_again(now, again);
        }
        self.stats.timeouts += 1;
        // A timer that probes gives up by itself, and an outage looks like a black hole: but not where nothing of full size
        // ever arrived.
        let counts = self.manager.timer() == RetransmissionTimer::Repairs
            || self.segment.is_untried(self.timers.timeouts, self.rate.delivered());
        self.timers.timeouts += u32::from(counts);
        if self.segment.probe_black_hole(self.timers.timeouts) {
            self.on_segment_size();
        }
        if self.board.first().is_some_and(|(_, record)| record.sacked) {
            self.board.forget_sacked(); // the receiver reneged (RFC 2018 §8)
        }
        self.respond(now, LossSign::Timeout, self.flight_size());
    }

    /// Lets F-RTO look at an acknowledgment. `newest` is when the newest transmission was sent that arrived; `sent_before` is
    /// when that was sent, at the latest, which moved SND.UNA.
    pub(super) fn settle_f_rto(
        &mut self,
        now: Time,
        ack: &AckEvent,
        newest: Option<Time>,
        sent_before: Option<Time>,
    ) {
        let fresh = self.sendable() > 0;
        let min_rtt = self.manager.min_rtt(self.rtt.min_rtt());
        let (una, mss) = (self.snd.una, self.segment.bytes());
        let State::Loss { end, f_rto: Some(f_rto) } = &mut self.state else { return };
        let end = *end;
        let finding = f_rto.on_ack(&FRtoAck {
            now,
            mss,
            advanced: ack.advanced > 0,
            sacked: self.options.sack && ack.delivered > 0,
            complete: una >= end,
            newest,
            sent_before,
            fresh,
            min_rtt,
        });
        match finding {
            FRtoFinding::Open => {}
            FRtoFinding::TwoMore => self.mark_lost(now, una, (una + 2 * mss).min(end)),
            FRtoFinding::Spurious => self.undo_response(now),
            FRtoFinding::Genuine => self.repair_all(now, end),
        }
    }

    /// An RTO was none by mistake: what was outstanding then, and still is, is retransmitted.
    fn repair_all(&mut self, now: Time, end: u64) {
        self.state = State::Loss { end, f_rto: None };
        self.mark_lost(now, self.snd.una, end.max(self.snd.una));
    }

    /// SND.UNA has moved, and what moved it had arrived before (D-SACK). A timer that probes has sent the head again and
    /// nothing else: this is the answer to that, which all that had been sent before was ahead of. So what it leaves out is lost.
    /// F-RTO would take it for the answer to an original where it is sooner than the shortest round trip, as it is where the
    /// queue has drained meanwhile, and would find out a round trip later at best.
    pub(super) fn repair_by_answered_probe(&mut self, now: Time) {
        if let State::Loss { end, f_rto: Some(f_rto) } = self.state
            && f_rto.is_probing()
            && self.snd.una < end
        {
            self.repair_all(now, end);
        }
    }

    pub(super) fn undo_if_in_vain(&mut self, now: Time) {
        if self.undo.all_in_vain() && self.board.lost() == 0 {
            self.undo_response(now);
        }
    }

    fn undo_response(&mut self, now: Time) {
        self.undo.clear();
        self.stats.undone += 1;
        self.stats.spurious_timeouts += u32::from(matches!(self.state, State::Loss { .. }));
        self.control.on_spurious(now);
        // What arrived twice was an answer; and the backoff ends, so that RTOs would soon be many.
        self.rtt.reset_backoff();
        self.timers.timeouts = 0;
        // What is being asked about is another loss, and is answered by itself.
        if !matches!(self.state, State::Waiting { .. }) {
            self.state = State::Open;
            self.tell_detector(now, Event::Undone);
        }
        self.set_pace();
    }

    pub(super) fn leave_recovery(&mut self, now: Time, advanced: u64) {
        let (end, first_is_enough) = match self.state {
            State::Recovery { end, .. } => (end, self.detector.repair().ends_with_first_ack()),
            State::Loss { end, .. } => (end, false),
            State::Open | State::Waiting { .. } => return,
        };
        if self.snd.una >= end || (first_is_enough && advanced > 0) {
            self.state = State::Open;
            self.control.on_recovered(now);
            self.tell_detector(now, Event::Recovered);
        }
    }
}
