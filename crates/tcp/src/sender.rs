use crate::prr::Prr;
use crate::rack::{DUP_THRESH, Rack};
use crate::{ByteQueue, Record, Scoreboard};
use alloc::boxed::Box;
use core::time::Duration;
use shorthaul_congestion::{
    AckSample, CongestionEvent, Control, DeliveryRate, Pacer, RttConfig, RttEstimator,
};
use shorthaul_types::{Deadline, Time};
use shorthaul_wire::PayloadList;

/// Payload of the largest super-segment: what fits into an IPv4 total length with both headers.
const MAX_SUPER_SEGMENT: u64 = 65_535 - 120;
/// The longest that a peer is expected to delay an acknowledgment (RFC 8985 §7.2, WCDelAckT).
const WORST_DELAYED_ACK: Duration = Duration::from_millis(200);
/// The longest interval between zero-window probes (RFC 9293 §3.8.6.1 leaves it open).
const MAX_PERSIST: Duration = Duration::from_secs(60);
/// After so many timeouts in a row, segments shrink to so many bytes: full-size ones may be what does
/// not pass, and the error that says so may not reach us (RFC 2923 §2.1, RFC 4821). The first size
/// fits every IPv6 path with timestamps, the second every IPv4 host.
const BLACK_HOLE: [(u32, u32); 2] = [(2, 1_208), (6, 536)];
/// After this many timeouts in a row without an answer the peer is taken for dead (as Linux's
/// `tcp_retries2`).
const MAX_TIMEOUTS: u32 = 15;

/// How a sender is to work.
#[derive(Debug)]
pub struct SenderConfig {
    /// Payload bytes of a full segment, options deducted.
    pub mss: u32,
    /// Sizes the window.
    pub control: Box<dyn Control>,
    /// The receiver reports what it holds (RFC 2018); without, NewReno (RFC 6582) is used.
    pub sack: bool,
    /// Bursts are spread over the round trip.
    pub pacing: bool,
    /// Parameters of the retransmission timer.
    pub rtt: RttConfig,
}

/// What a sender looks at in a segment that acknowledges its data; offsets are of its own stream,
/// but for `seq`.
#[derive(Clone, Copy, Debug)]
pub struct Ack<'a> {
    /// The acknowledgment.
    pub ack: u64,
    /// The window, scaled, in bytes.
    pub window: u64,
    /// The offset of the segment in the other stream, to tell old windows from new ones.
    pub seq: u64,
    /// SACK blocks as offsets, in the order of the option.
    pub sack: &'a [(u64, u64)],
    /// The segment carries data or a FIN, so it is no duplicate ACK (RFC 5681 §2).
    pub has_data: bool,
    /// ECE is set (RFC 3168).
    pub ecn_echo: bool,
}

/// A segment, or a super-segment, to send.
#[derive(Debug)]
pub struct Outgoing {
    /// The offset of its first byte.
    pub offset: u64,
    /// Its bytes.
    pub payload: PayloadList,
    /// A FIN follows them.
    pub fin: bool,
    /// Nothing more is waiting behind them.
    pub push: bool,
    /// It was sent before.
    pub retransmission: bool,
    /// The congestion window was reduced since the last segment (CWR, RFC 3168 §6.1.2).
    pub cwr: bool,
}

/// What a sender has done, for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderStats {
    /// Payload bytes sent, retransmissions included.
    pub sent: u64,
    /// Payload bytes sent again.
    pub retransmitted: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Times that recovery was entered.
    pub recoveries: u64,
    /// Tail loss probes.
    pub tail_probes: u64,
}

#[derive(Debug)]
enum State {
    Open,
    Recovery {
        end: u64,
        prr: Prr,
    },
    /// After a timeout (RFC 5681 §3.1): slow start over what was outstanding.
    Loss {
        end: u64,
    },
}

/// A tail loss probe that is unanswered (RFC 8985 §7.3).
#[derive(Clone, Copy, Debug)]
struct TailProbe {
    /// SND.NXT after it: TLP.end_seq.
    end: u64,
    /// It sent old data again: TLP.is_retrans.
    retransmission: bool,
    /// What was outstanding when it left.
    flight: u64,
}

/// The sending half: holds the bytes, sends them as window and credit allow, finds losses
/// (RACK-TLP, RFC 8985; NewReno, RFC 6582, without SACK; RFC 6298's timer), repairs them with
/// proportional rate reduction (RFC 6937), and probes closed windows.
#[derive(Debug)]
pub struct Sender {
    queue: ByteQueue,
    fin: bool,
    una: u64,
    nxt: u64,
    edge: u64,
    max_window: u64,
    window_seq: u64,
    window_ack: u64,
    mss: u32,
    sack: bool,
    pacing: bool,
    board: Scoreboard,
    state: State,
    rack: Rack,
    duplicate_acks: u64,
    tail_probe: Option<TailProbe>,
    control: Box<dyn Control>,
    rtt: RttEstimator,
    rate: DeliveryRate,
    pacer: Pacer,
    window_limited_until: u64,
    ecn_end: u64,
    send_cwr: bool,
    last_send: Time,
    rto_at: Option<Time>,
    tail_at: Option<Time>,
    rack_at: Option<Time>,
    persist_at: Option<Time>,
    pace_at: Option<Time>,
    tail_due: bool,
    probe_due: bool,
    persist_backoff: u32,
    timeouts: u32,
    nagle: bool,
    idle_restart: bool,
    stats: SenderStats,
}

impl Sender {
    /// A sender whose next byte is `next`, to a peer that offered a window up to `edge`.
    pub fn new(now: Time, next: u64, edge: u64, config: SenderConfig) -> Self {
        Sender {
            queue: ByteQueue::new(next),
            fin: false,
            una: next,
            nxt: next,
            edge,
            max_window: edge - next,
            window_seq: 0,
            window_ack: next,
            mss: config.mss,
            sack: config.sack,
            pacing: config.pacing,
            board: Scoreboard::default(),
            state: State::Open,
            rack: Rack::default(),
            duplicate_acks: 0,
            tail_probe: None,
            control: config.control,
            rtt: RttEstimator::new(config.rtt),
            rate: DeliveryRate::new(now),
            pacer: Pacer::new(config.mss),
            window_limited_until: next,
            ecn_end: next,
            send_cwr: false,
            last_send: now,
            rto_at: None,
            tail_at: None,
            rack_at: None,
            persist_at: None,
            pace_at: None,
            tail_due: false,
            probe_due: false,
            persist_backoff: 0,
            timeouts: 0,
            nagle: false,
            idle_restart: true,
            stats: SenderStats::default(),
        }
    }

    /// Holds small segments back while something is unacknowledged (Nagle's algorithm, RFC 9293
    /// §3.7.4), but for the one that carries the FIN.
    pub fn hold_small_segments(&mut self) {
        self.nagle = true;
    }

    /// Goes on with the window of before after idle times, against RFC 5681 §4.1.
    pub fn keep_window_when_idle(&mut self) {
        self.idle_restart = false;
    }

    /// The bytes held, to append to. They are sent at the next [`Sender::poll_segment`].
    pub fn queue_mut(&mut self) -> &mut ByteQueue {
        &mut self.queue
    }

    /// The bytes held: unacknowledged and unsent.
    pub fn queue(&self) -> &ByteQueue {
        &self.queue
    }

    /// The stream ends behind what is queued.
    pub fn finish(&mut self) {
        self.fin = true;
    }

    /// SND.UNA: everything before is acknowledged.
    pub fn una(&self) -> u64 {
        self.una
    }

    /// SND.NXT: everything before was sent at least once.
    pub fn nxt(&self) -> u64 {
        self.nxt
    }

    /// Whether a FIN was sent and acknowledged.
    pub fn is_finished(&self) -> bool {
        self.fin && self.una > self.queue.end()
    }

    /// Whether nothing is unacknowledged or unsent.
    pub fn is_idle(&self) -> bool {
        self.board.is_empty() && self.nxt == self.end()
    }

    /// Whether the peer has not answered for so long that it is taken for dead.
    pub fn has_given_up(&self) -> bool {
        self.timeouts > MAX_TIMEOUTS
    }

    /// The round-trip estimate.
    pub fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    /// A round trip measured outside, in the handshake. The initial window is not spread over it:
    /// it is a burst that every path has to take (RFC 6928), and a short transfer would wait.
    pub fn on_rtt_sample(&mut self, now: Time, rtt: Duration) {
        self.rtt.on_sample(now, rtt);
    }

    /// The congestion control.
    pub fn control(&self) -> &dyn Control {
        &*self.control
    }

    /// What was done so far.
    pub fn stats(&self) -> SenderStats {
        self.stats
    }

    /// The scoreboard, for checks.
    pub fn scoreboard(&self) -> &Scoreboard {
        &self.board
    }

    /// Payload bytes of a full segment.
    pub fn mss(&self) -> u32 {
        self.mss
    }

    /// The largest window that the peer ever had open (MAX.SND.WND), in bytes.
    pub fn max_window(&self) -> u64 {
        self.max_window
    }

    /// The window that the peer has open, in bytes.
    pub fn peer_window(&self) -> u64 {
        self.edge.saturating_sub(self.una)
    }

    /// The path takes only smaller segments (RFC 8201): what is outstanding is sent again so.
    pub fn reduce_mss(&mut self, now: Time, mss: u32) {
        if mss >= self.mss {
            return;
        }
        self.mss = mss;
        self.control.set_mss(mss);
        self.pacer.set_mss(mss);
        let (una, nxt) = (self.una, self.nxt);
        self.mark_lost(now, una, nxt);
    }

    /// Bytes in flight, by what is known.
    pub fn in_flight(&self) -> u64 {
        let left = if self.sack { 0 } else { self.duplicate_acks * u64::from(self.mss) };
        self.board.in_flight().saturating_sub(left)
    }

    fn end(&self) -> u64 {
        self.queue.end() + u64::from(self.fin)
    }

    /// An acknowledgment arrived. One beyond what was sent is ignored: the caller answers it.
    pub fn on_ack(&mut self, now: Time, ack: &Ack<'_>) {
        if ack.ack > self.nxt || ack.ack < self.una {
            return;
        }
        self.timeouts = if self.board.is_empty() || ack.window == 0 { 0 } else { self.timeouts };
        let window_changed = self.update_window(ack);
        let in_flight_before = self.in_flight();
        let una_before = self.una;
        let advanced = ack.ack - self.una;
        let (delivered, rtt) = self.account(now, ack);
        if let Some(rtt) = rtt {
            self.rtt.on_sample(now, rtt);
        }
        if advanced > 0 {
            self.timeouts = 0;
            self.rtt.reset_backoff();
            self.rto_at = (!self.board.is_empty()).then(|| now + self.rtt.rto());
        }
        let duplicate =
            self.sack && ack.sack.first().is_some_and(|&(left, right)| is_duplicate_report(left, right, ack));
        if duplicate {
            self.rack.on_duplicate(self.una, self.nxt);
        }
        self.settle_tail_probe(now, ack, duplicate);
        if self.sack {
            self.detect_losses(now);
        } else {
            self.count_duplicate_acks(now, ack, advanced, window_changed);
        }
        self.leave_recovery(now);
        if ack.ecn_echo && self.una >= self.ecn_end && matches!(self.state, State::Open) {
            self.control.on_congestion(now, CongestionEvent::EcnEcho, self.nxt - self.una);
            self.ecn_end = self.nxt;
            self.send_cwr = true;
        }
        if delivered > 0 || advanced > 0 {
            let rate = self.rate.take_sample(now, self.rtt.min_rtt());
            self.control.on_ack(&AckSample {
                now,
                delivered,
                newly_acked: advanced,
                in_flight_before,
                in_flight: self.in_flight(),
                rtt,
                rate,
                cwnd_limited: una_before <= self.window_limited_until,
                in_recovery: matches!(self.state, State::Recovery { .. }),
            });
            let pipe = self.in_flight();
            if let State::Recovery { prr, .. } = &mut self.state {
                let delivered = if self.sack { delivered } else { delivered.max(u64::from(self.mss)) };
                prr.on_ack(delivered, pipe, &*self.control, self.mss);
            }
            self.set_pace();
            self.arm_tail_probe(now);
        } else if !self.sack && self.duplicate_acks > 0 {
            let pipe = self.in_flight();
            if let State::Recovery { prr, .. } = &mut self.state {
                prr.on_ack(u64::from(self.mss), pipe, &*self.control, self.mss);
            }
        }
        if self.board.is_empty() {
            self.rto_at = None;
            self.tail_at = None;
            self.rack_at = None;
        }
    }

    /// Takes the window from a segment that is not older than the last one taken
    /// (RFC 9293 §3.10.7.4). Returns whether the right edge moved.
    fn update_window(&mut self, ack: &Ack<'_>) -> bool {
        let newer = self.window_seq < ack.seq || (self.window_seq == ack.seq && self.window_ack <= ack.ack);
        if !newer {
            return false;
        }
        self.window_seq = ack.seq;
        self.window_ack = ack.ack;
        let edge = ack.ack + ack.window;
        let changed = edge != self.edge;
        self.edge = edge;
        self.max_window = self.max_window.max(ack.window);
        if self.edge > self.nxt {
            self.persist_at = None;
            self.persist_backoff = 0;
            self.probe_due = false;
        }
        changed
    }

    /// Books what the acknowledgment covers; returns the bytes delivered and a round-trip sample.
    fn account(&mut self, now: Time, ack: &Ack<'_>) -> (u64, Option<Duration>) {
        let Sender { board, rate, rack, rtt, .. } = self;
        let min_rtt = rtt.min_rtt();
        let mut delivered = 0;
        let mut newest: Option<Time> = None;
        let mut ambiguous = false;
        let mut on_delivered = |start: u64, record: &Record| {
            delivered += record.end - start;
            rate.on_delivered(now, record.end - start, &record.sent);
            rack.on_delivered(now, record, min_rtt);
            if !record.retransmitted {
                newest = newest.max(Some(record.sent.sent_at()));
            }
            // What lies behind a repaired hole may have arrived long before (Karn's algorithm).
            ambiguous |= record.retransmitted;
        };
        board.acknowledge(ack.ack, &mut on_delivered);
        if self.sack {
            for &(left, right) in ack.sack {
                if left >= ack.ack && right <= self.nxt {
                    board.report(left, right, &mut on_delivered);
                }
            }
        }
        self.una = ack.ack;
        self.queue.release(ack.ack);
        let sample = newest.filter(|_| !ambiguous).map(|sent| now.saturating_since(sent));
        (delivered, sample)
    }

    /// RACK: what was sent long enough before something delivered is lost.
    fn detect_losses(&mut self, now: Time) {
        let recovering = !matches!(self.state, State::Open);
        let patience = self.rack.patience(&self.rtt, self.board.sacked(), self.mss, recovering);
        let Sender { board, rate, control, .. } = self;
        let mut found = false;
        let waiting = board.mark_lost_before(
            self.rack.newest(),
            |record| record.sent.sent_at() + patience <= now,
            |start, record| {
                found = true;
                control.on_loss(&rate.on_lost(now, record.end - start, &record.sent));
            },
        );
        self.rack_at = waiting.map(|sent| sent + patience);
        if found {
            self.enter_recovery(now);
        }
    }

    /// NewReno (RFC 6582) for peers that report nothing.
    fn count_duplicate_acks(&mut self, now: Time, ack: &Ack<'_>, advanced: u64, window_changed: bool) {
        let segment_end = (self.una + u64::from(self.mss)).min(self.nxt);
        if advanced > 0 {
            self.duplicate_acks = 0;
            if let State::Recovery { end, .. } = self.state
                && self.una < end
            {
                self.mark_lost(now, self.una, segment_end); // a partial ACK: the next hole
            }
            return;
        }
        if ack.has_data || window_changed || self.board.is_empty() {
            return;
        }
        self.duplicate_acks += 1;
        if self.duplicate_acks == DUP_THRESH && matches!(self.state, State::Open) {
            self.mark_lost(now, self.una, segment_end);
        }
    }

    fn mark_lost(&mut self, now: Time, start: u64, end: u64) {
        let Sender { board, rate, control, .. } = self;
        board.mark_lost(start, end, |at, record| {
            control.on_loss(&rate.on_lost(now, record.end - at, &record.sent));
        });
        self.enter_recovery(now);
    }

    fn enter_recovery(&mut self, now: Time) {
        if !matches!(self.state, State::Open) || self.board.lost() == 0 {
            return;
        }
        let flight = self.nxt - self.una;
        self.control.on_congestion(now, CongestionEvent::Loss, flight);
        self.state = State::Recovery { end: self.nxt, prr: Prr::new(flight, self.mss) };
        self.ecn_end = self.nxt;
        self.send_cwr = true;
        self.stats.recoveries += 1;
        self.tail_at = None;
        self.set_pace();
    }

    fn leave_recovery(&mut self, now: Time) {
        let (State::Recovery { end, .. } | State::Loss { end }) = self.state else { return };
        if self.una >= end {
            self.state = State::Open;
            self.control.on_recovered(now);
            self.rack.on_recovered();
            self.duplicate_acks = 0;
        }
    }

    /// Rules on a tail loss probe that is answered (RFC 8985 §7.4).
    fn settle_tail_probe(&mut self, now: Time, ack: &Ack<'_>, duplicate: bool) {
        let Some(probe) = self.tail_probe else { return };
        if ack.ack < probe.end {
            return;
        }
        self.tail_probe = None;
        if probe.retransmission && !duplicate && matches!(self.state, State::Open) {
            // The probe itself repaired a loss that nothing else has shown.
            self.control.on_congestion(now, CongestionEvent::Loss, probe.flight);
            self.control.on_recovered(now);
        }
    }

    fn arm_tail_probe(&mut self, now: Time) {
        let wanted = self.sack
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

    fn set_pace(&mut self) {
        let rate = if self.pacing { self.control.pacing_rate_over(self.rtt.srtt()) } else { None };
        self.pacer.set_rate(rate);
    }

    /// How much congestion control lets leave now.
    fn credit(&self) -> u64 {
        match &self.state {
            State::Recovery { prr, .. } if self.control.uses_prr() => prr.allowance(),
            _ => self.control.window().saturating_sub(self.in_flight()),
        }
    }

    /// The next segment to send, if there is one that may leave now.
    pub fn poll_segment(&mut self, now: Time) -> Option<Outgoing> {
        if core::mem::take(&mut self.probe_due) {
            return Some(self.empty_segment(self.una - 1));
        }
        if core::mem::take(&mut self.tail_due)
            && let Some(probe) = self.tail_loss_probe(now)
        {
            return Some(probe);
        }
        let repair = self.board.first_lost();
        if repair.is_none() && self.nxt >= self.end() {
            if self.in_flight() < self.control.window() {
                self.rate.on_app_limited(self.in_flight());
            }
            return None;
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
            // Silly-window avoidance (RFC 9293 §3.8.6.2.1); alone, it is the persist timer's turn.
            if !self.board.is_empty() || usable == 0 {
                self.arm_persist(now);
                return None;
            }
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
            if self.idle_restart && now.saturating_since(self.last_send) > self.rtt.rto() {
                self.control.on_idle_restart(now);
                self.set_pace();
            }
            self.control.on_transmit_start(now);
        }
        Some(self.transmit(now, self.nxt, len))
    }

    fn arm_persist(&mut self, now: Time) {
        if self.board.is_empty() && self.persist_at.is_none() {
            let wait = self.rtt.rto().saturating_mul(1 << self.persist_backoff.min(16)).min(MAX_PERSIST);
            self.persist_at = Some(now + wait);
        }
    }

    /// A segment without data: as a window probe it lies below the window and draws an ACK
    /// (RFC 9293 §3.10.7.4).
    fn empty_segment(&self, offset: u64) -> Outgoing {
        Outgoing {
            offset,
            payload: PayloadList::new(),
            fin: false,
            push: false,
            retransmission: false,
            cwr: false,
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
        self.tail_probe = Some(TailProbe { end: self.nxt, retransmission: fresh == 0, flight });
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
        if let State::Recovery { prr, .. } = &mut self.state {
            prr.on_send(end - offset);
        }
        self.last_send = now;
        self.stats.sent += payload.len() as u64;
        if retransmission {
            self.stats.retransmitted += payload.len() as u64;
        }
        self.rto_at.get_or_insert(now + self.rtt.rto());
        if !retransmission {
            self.arm_tail_probe(now);
        }
        let cwr = !retransmission && core::mem::take(&mut self.send_cwr);
        Outgoing { offset, push: end >= data_end, payload, fin, retransmission, cwr }
    }

    /// A timer may have fired.
    pub fn on_timeout(&mut self, now: Time) {
        let due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        if due(self.pace_at) {
            self.pace_at = None;
        }
        if due(self.rack_at) {
            self.detect_losses(now);
        }
        if due(self.tail_at) {
            self.tail_at = None;
            self.tail_due = true;
            self.rto_at = Some(now + self.rtt.rto());
        }
        if due(self.persist_at) {
            self.persist_at = None;
            self.persist_backoff += 1;
            self.timeouts += 1;
            self.probe_due = true;
            self.arm_persist(now);
        }
        if due(self.rto_at) {
            self.on_retransmission_timeout(now);
        }
    }

    /// RFC 6298 §5.4–5.7, RFC 5681 §3.1.
    fn on_retransmission_timeout(&mut self, now: Time) {
        self.stats.timeouts += 1;
        self.timeouts += 1;
        self.control.on_timeout(now, self.nxt - self.una);
        if let Some(&(_, size)) = BLACK_HOLE.iter().find(|(timeouts, _)| *timeouts == self.timeouts) {
            self.mss = self.mss.min(size);
            self.control.set_mss(self.mss);
            self.pacer.set_mss(self.mss);
        }
        if self.board.first().is_some_and(|(_, record)| record.sacked) {
            self.board.forget_reports(); // the receiver reneged (RFC 2018 §8)
        }
        self.state = State::Loss { end: self.nxt };
        let (una, nxt) = (self.una, self.nxt);
        let Sender { board, rate, control, .. } = self;
        board.mark_lost(una, nxt, |at, record| {
            control.on_loss(&rate.on_lost(now, record.end - at, &record.sent));
        });
        self.duplicate_acks = 0;
        self.tail_probe = None;
        self.tail_at = None;
        self.rack_at = None;
        self.rtt.back_off();
        self.rto_at = Some(now + self.rtt.rto());
        self.set_pace();
        self.pacer.set_rate(None); // the probe after a timeout waits for nobody
    }

    /// When to call [`Sender::on_timeout`] next.
    pub fn poll_timeout(&self) -> Option<Deadline> {
        [
            (self.rto_at, "rto"),
            (self.tail_at, "tail-loss-probe"),
            (self.rack_at, "rack"),
            (self.persist_at, "persist"),
            (self.pace_at, "pace"),
        ]
        .into_iter()
        .filter_map(|(at, timer)| at.map(|at| Deadline { at, timer }))
        .min_by_key(|deadline| deadline.at)
    }
}

/// Whether the first block of an option reports a duplicate (RFC 2883 §4): it lies below the
/// acknowledgment or within the second block.
fn is_duplicate_report(left: u64, right: u64, ack: &Ack<'_>) -> bool {
    right <= ack.ack || ack.sack.get(1).is_some_and(|&(l, r)| l <= left && right <= r)
}
