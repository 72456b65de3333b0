//! What an acknowledgment does to a sender.
use super::{Ack, Sender, State};
use crate::Record;
use crate::loss_detector::{AckEvent, Delivered, Duplicate, Event};
use crate::loss_discriminator::{Acknowledged, ProbeAnswer};
use core::time::Duration;
use shorthaul_congestion::{AckSample, CongestionEvent};
use shorthaul_types::Time;

/// What an acknowledgment covers.
struct Account {
    /// Bytes that were delivered.
    delivered: u64,
    /// When the newest transmission was sent that certainly arrived.
    newest: Option<Time>,
    /// A round trip, by our own clock.
    rtt: Option<Duration>,
    /// The same, or where there is none, one by the echo of a timestamp: coarser, but also of what was retransmitted. An echo
    /// counts only where SND.UNA moves: any other may be of the last segment in order (RFC 7323 §4.1).
    sample: Option<Duration>,
    /// Bytes that were retransmitted, and of which the original was delivered (Eifel detection, RFC 3522):
    /// the answer came sooner after the repair than a round trip takes, or echoes an older timestamp.
    of_originals: u64,
}

impl Sender {
    /// An acknowledgment arrived. One beyond what was sent is ignored: the caller answers it.
    pub fn on_ack(&mut self, now: Time, ack: &Ack<'_>) {
        if ack.ack > self.snd.nxt || ack.ack < self.snd.una {
            return;
        }
        if self.board.is_empty() || ack.window == 0 {
            self.timers.timeouts = 0;
        }
        let window_changed = self.update_window(ack);
        let (in_flight_before, una_before) = (self.in_flight(), self.snd.una);
        let advanced = ack.ack - una_before;
        let Account { delivered, newest, rtt, sample, of_originals } = self.account(now, ack);
        // What was reported to have arrived is where the acknowledgment stands: the receiver has discarded it. Our own timer finds that (RFC 2018 §8); a
        // manager's runs while something is in flight, and this is, again.
        if !self.manager.has_own_timer() && self.board.first().is_some_and(|(_, record)| record.sacked) {
            self.on_reneged(now);
        }
        // A window that opens shows as well that the path carries something.
        if delivered > 0 || window_changed {
            self.manager.on_delivered(delivered, newest, rtt);
        }
        if let Some(rtt) = sample {
            self.rtt.on_sample(now, rtt);
        }
        if advanced > 0 {
            // The RTO stays doubled until there is a sample (RFC 6298 §5): what was retransmitted gives none, and a path that
            // has become slower than the old RTO would look lost for ever.
            self.timers.timeouts = 0;
            self.rtt.on_acknowledged();
            self.start.on_acknowledged(self.snd.una);
            self.timers.rto_at = (!self.board.is_empty()).then(|| self.rto_deadline(now));
        }
        self.settle_shrunk_window(now);
        let (dsack, name) = self.read_dsack(ack);
        if dsack == Duplicate::Data && advanced > 0 {
            self.repair_by_answered_probe(now);
        }
        // A response is undone before anything else is made of the acknowledgment.
        if let (Duplicate::Data, Some(&(left, right))) = (dsack, ack.sack.first()) {
            self.undo.on_dsack(right - left);
            self.undo_if_in_vain(now);
        }
        self.undo.on_originals(of_originals);
        self.undo_if_in_vain(now);
        let pure = advanced == 0 && !ack.has_data && !window_changed;
        let event = AckEvent {
            ack: ack.ack,
            advanced,
            delivered,
            has_sack: self.options.sack && !ack.sack.is_empty(),
            duplicate: pure && !self.board.is_empty(),
            plain: pure && ack.sack.is_empty(),
            dsack,
            phase: self.phase(),
        };
        if let State::Waiting { sign, .. } = self.state {
            self.timers.rto_at = None;
            self.note_answer();
            let answer = ProbeAnswer { name, duplicate: event.duplicate, arrived: None };
            let response = self.discriminator.on_probe_answer(now, answer);
            self.answer_loss(now, sign, response, self.flight_size());
        }
        let sent_before = ack.sent_before(now).filter(|_| advanced > 0);
        self.settle_f_rto(now, &event, newest, sent_before);
        self.find_losses(now, Some(&event));
        self.leave_recovery(now, advanced);
        if ack.ecn_echo && self.snd.una >= self.ecn.end && matches!(self.state, State::Open) {
            self.control.on_congestion(now, CongestionEvent::EcnEcho, self.flight_size());
            self.ecn.end = self.snd.nxt;
            self.ecn.send_cwr = true;
            self.manager.on_marked();
        }
        if delivered > 0 || advanced > 0 {
            let rtt_now = self.rtt.srtt().unwrap_or_default();
            self.snd.pipe_ack.on_ack(now, self.snd.una, self.snd.nxt, self.rate.delivered(), rtt_now);
            let rate = self.rate.take_sample(now, self.rtt.min_rtt());
            self.control.on_ack(&AckSample {
                now,
                delivered,
                newly_acked: advanced,
                in_flight_before,
                in_flight: self.in_flight(),
                rtt,
                waited: ack.waited,
                reported: ack.reported,
                rate,
                cwnd_limited: !self.options.window_validation || una_before <= self.snd.window_limited_until,
                in_recovery: matches!(self.state, State::Recovery { .. } | State::Waiting { .. }),
            });
            if self.control.holds_back() {
                self.rate.on_app_limited(self.in_flight());
            }
            self.set_pace();
            self.tell_detector(now, Event::Acknowledged);
        }
        let pipe = self.in_flight();
        if let State::Recovery { prr: Some(prr), .. } = &mut self.state
            && delivered > 0
        {
            prr.on_ack(delivered, pipe, &*self.control, self.segment.mss());
        }
        if self.board.is_empty() {
            self.timers.rto_at = None;
        }
    }

    /// The receiver has discarded what it reported: the first segment, and perhaps more. All of it is forgotten once in an RTO; whoever says so with each
    /// acknowledgment has the first segment again, and not thousands looked through.
    fn on_reneged(&mut self, now: Time) {
        let (now, before) = ((now.as_nanos() / 1_000_000) as u32, self.timers.reneged_at);
        if before > 0 && u128::from(now.wrapping_sub(before)) < self.rtt.rto().as_millis() {
            return self.board.forget_first_sacked();
        }
        self.timers.reneged_at = now.max(1);
        self.board.forget_sacked();
    }

    /// Takes the window. Returns whether the right edge moved.
    fn update_window(&mut self, ack: &Ack<'_>) -> bool {
        let Some(changed) = self.peer.update(ack) else { return false };
        if self.peer.edge > self.snd.nxt {
            self.persist.stop();
        }
        changed
    }

    /// Books what the acknowledgment covers.
    fn account(&mut self, now: Time, ack: &Ack<'_>) -> Account {
        let Sender { board, rate, detector, rtt, snd, options, manager, queue, fin, .. } = self;
        let (una, min_rtt) = (snd.una, manager.min_rtt(rtt.min_rtt()));
        let (mut delivered, mut of_originals) = (0, 0);
        let mut newest: Option<Time> = None;
        let mut newest_once: Option<Time> = None;
        let mut ambiguous = false;
        let is_of_original = |start: u64, record: &Record| {
            let age = now.saturating_since(record.sent.sent_at());
            // A path can become a little faster.
            let sooner_than_possible = min_rtt.is_some_and(|min| age < min * 3 / 4);
            // The timestamp is that of the segment which filled the hole (RFC 7323 §4.3).
            let echoes_older =
                start == una && ack.sent_before(now).is_some_and(|before| before <= record.sent.sent_at());
            sooner_than_possible || echoes_older
        };
        let passed_before = snd.passed_before;
        let is_of_another = |start: u64, record: &Record| {
            let age = now.saturating_since(record.sent.sent_at());
            start < passed_before && min_rtt.is_some_and(|min| age < min / 2)
        };
        let mut on_delivered = |start: u64, record: &Record| {
            if is_of_another(start, record) {
                return; // it was not delivered since it was sent from here
            }
            delivered += record.end - start;
            rate.on_delivered(now, record.end - start, &record.sent);
            // What lies behind a repaired hole may have arrived long before (Karn's algorithm).
            ambiguous |= record.ambiguous;
            let of_original = record.retransmitted && is_of_original(start, record);
            detector.on_delivered(&Delivered { now, record, of_original, min_rtt });
            if of_original {
                of_originals += record.end - start;
                return; // when it was sent, nobody knows any more
            }
            let sent = record.sent.sent_at();
            if !record.ambiguous {
                newest_once = newest_once.max(Some(sent));
            }
            // What arrived within the shortest round trip was an earlier transmission.
            if !record.retransmitted || min_rtt.is_some_and(|min| now.saturating_since(sent) >= min) {
                newest = newest.max(Some(sent));
            }
        };
        board.acknowledge(ack.ack, &mut on_delivered);
        if options.sack {
            for &(left, right) in ack.sack {
                // Not every receiver counts a FIN that came with the last segment.
                let with_fin = *fin && right == queue.end() && board.is_within_segment(right);
                let right = right + u64::from(with_fin);
                if left >= ack.ack && right <= snd.nxt {
                    board.sack(left, right, &mut on_delivered);
                }
            }
        }
        // Our own times are finer, but say nothing of what was retransmitted (Karn's algorithm).
        let rtt = newest_once.filter(|_| !ambiguous).map(|sent| now.saturating_since(sent));
        let echo = ack.echo.filter(|_| ack.ack > una);
        // 4.4BSD had but the echo where there are timestamps, so that whoever changes that hides time from it.
        let sample = if options.rttm { echo.or(rtt) } else { rtt.or(echo) };
        if ack.ack > una || sample.is_some() {
            let acked = una..ack.ack;
            self.discriminator.on_ack(&Acknowledged { now, acked, queue: &self.queue, rtt: sample });
        }
        self.snd.una = ack.ack;
        self.queue.release(ack.ack);
        Account { delivered, newest, rtt, sample, of_originals }
    }
}
