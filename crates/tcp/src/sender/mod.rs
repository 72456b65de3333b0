//! The sending half. Reading order: `config` (what goes in and out), this file (the state, and what an
//! acknowledgment does to it), `loss` (finding losses and answering them), `output` (what leaves
//! next), `shared` (what a governor outside asks of it).
mod config;
mod loss;
mod output;
mod shared;

pub use config::{Ack, Outgoing, SenderConfig, SenderStats};

use crate::arbiter::{Arbiter, LossSign, OCTETS, Probe, ProbeAnswer};
use crate::governor::Governor;
use crate::prr::Prr;
use crate::rack::Rack;
use crate::recovery::Recovery;
use crate::{ByteQueue, Record, Scoreboard};
use alloc::boxed::Box;
use core::time::Duration;
use loss::{FRto, ReducedMss, TailProbe, Undo};
use shorthaul_congestion::{AckSample, CongestionEvent, Control, DeliveryRate, Pacer, RttEstimator};
use shorthaul_types::{Deadline, SeqNum, Time};

/// After this many timeouts in a row without an answer the peer is taken for dead (as Linux's
/// `tcp_retries2`).
const MAX_TIMEOUTS: u32 = 15;

/// What an acknowledgment covers.
struct Account {
    /// Bytes that were delivered.
    delivered: u64,
    /// When the newest transmission was sent that certainly arrived.
    newest: Option<Time>,
    /// A round trip, by our own clock.
    rtt: Option<Duration>,
    /// Bytes that were sent again, and of which the original was delivered (Eifel detection, RFC 3522):
    /// the answer came sooner after the repair than a round trip takes, or echoes an older timestamp.
    of_originals: u64,
}

#[derive(Debug)]
enum State {
    Open,
    /// Holes are repaired, with the window already reduced (or, by the arbiter's ruling, not).
    Recovery {
        end: u64,
        /// Walks down to the reduced window; without it, what is in flight has to fall below it first.
        prr: Option<Prr>,
    },
    /// After a timeout (RFC 5681 §3.1): slow start over what was outstanding.
    Loss {
        end: u64,
        /// It is still open whether the timeout was spurious.
        f_rto: Option<FRto>,
    },
    /// The arbiter probes before it rules.
    Waiting {
        sign: LossSign,
        /// A probe that leaves behind the segment that it brings.
        behind_head: Option<Probe>,
    },
}

/// The sending half: holds the bytes, sends them as window and credit allow, finds losses and repairs
/// them ([`Recovery`], RFC 6298's timer), lets an [`Arbiter`] rule what they mean, and probes closed
/// windows.
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
    reduced: Option<ReducedMss>,
    sack: bool,
    recovery: Recovery,
    pacing: bool,
    nagle: bool,
    idle_restart: bool,
    f_rto: bool,
    finds_black_holes: bool,
    board: Scoreboard,
    state: State,
    rack: Rack,
    duplicate_acks: u32,
    /// The lower half of SND.NXT when everything outstanding was last sent again: up to there, duplicates
    /// say that something arrived twice rather than that something is missing (`recover` of RFC 6582
    /// §3.2). It is kept just below SND.UNA after that.
    recover: SeqNum,
    /// Bytes that duplicate acknowledgments show to have left the network, without SACK.
    left: u64,
    /// A hole that duplicates have shown is sent again whatever the window says (RFC 5681 §3.2 step 2,
    /// RFC 6582 §3.2 step 3).
    hole_due: bool,
    tail_probe: Option<TailProbe>,
    undo: Option<Undo>,
    arbiter: Box<dyn Arbiter>,
    /// The last acknowledged bytes by offset, where the arbiter may probe with them.
    octets: Option<Box<[u8]>>,
    control: Box<dyn Control>,
    governor: Governor,
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
    stats: SenderStats,
}

impl Sender {
    /// A sender whose next byte is `next`, to a peer that offered a window up to `edge`.
    pub fn new(now: Time, next: u64, edge: u64, config: SenderConfig) -> Self {
        // A peer that reports nothing leaves NewReno of the schemes that go by reports.
        let recovery = match config.recovery {
            Recovery::Sack | Recovery::RackTlp if !config.sack => Recovery::NewReno,
            recovery => recovery,
        };
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
            reduced: None,
            sack: config.sack && recovery.uses_reports(),
            recovery,
            pacing: config.pacing,
            nagle: config.nagle,
            idle_restart: config.idle_restart,
            f_rto: config.f_rto,
            finds_black_holes: config.finds_black_holes,
            board: Scoreboard::default(),
            state: State::Open,
            rack: Rack::default(),
            duplicate_acks: 0,
            recover: SeqNum(0),
            left: 0,
            hole_due: false,
            tail_probe: None,
            undo: None,
            octets: config.arbiter.wants_octets().then(|| [0; OCTETS as usize].into()),
            arbiter: config.arbiter,
            control: config.control,
            governor: config.governor,
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
            stats: SenderStats::default(),
        }
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

    /// The handshake needed a retransmission, so it measured nothing, and the path may be a long one.
    pub fn on_syn_retransmitted(&mut self) {
        self.rtt.on_syn_retransmitted();
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

    /// Bytes in flight, by what is known.
    pub fn in_flight(&self) -> u64 {
        let left = match (self.recovery, &self.state) {
            (Recovery::Sack | Recovery::RackTlp | Recovery::Tahoe, _) | (_, State::Loss { .. }) => 0,
            // Before RFC 3042, the first duplicates let nothing leave.
            (Recovery::Reno, State::Open) => 0,
            _ => self.left,
        };
        let in_flight = self.board.in_flight();
        // Duplicates say that others have left the network, and never the first: with nothing of it in flight, a governor
        // would stop its timer, and a repair that is lost would never be made again.
        let first = if self.governor.is_shared() { in_flight.min(u64::from(self.mss)) } else { 0 };
        in_flight.saturating_sub(left).max(first)
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
        let (in_flight_before, una_before) = (self.in_flight(), self.una);
        let advanced = ack.ack - self.una;
        let Account { delivered, newest, rtt, of_originals } = self.account(now, ack);
        // A window that opens shows as well that the path carries something.
        if delivered > 0 || window_changed {
            self.governor.on_delivered(delivered, newest, rtt);
        }
        // Our own times are finer, but say nothing of what was sent again (Karn's algorithm). An echo
        // counts only where SND.UNA moves: any other may be of the last segment in order (RFC 7323 §4.1).
        if let Some(rtt) = rtt.or(ack.echo.filter(|_| advanced > 0)) {
            self.rtt.on_sample(now, rtt);
            self.arbiter.on_rtt_sample(now, rtt);
        }
        if advanced > 0 {
            // The time-out stays doubled until there is a sample (RFC 6298 §5): what was sent again gives none, and a path that has
            // become slower than the old time-out would look lost for ever.
            self.timeouts = 0;
            self.rto_at = (!self.board.is_empty()).then(|| self.rto_deadline(now));
        }
        let duplicate_ack = advanced == 0 && !ack.has_data && !window_changed && !self.board.is_empty();
        let duplicate_report =
            self.sack && ack.sack.first().is_some_and(|&(left, right)| is_duplicate_report(left, right, ack));
        let octet = ack
            .sack
            .first()
            .filter(|(left, right)| duplicate_report && right - left == 1 && self.octets.is_some());
        let octet = octet.map(|(left, _)| (left % u64::from(OCTETS)) as u32);
        if duplicate_report
            && octet.is_none()
            && let Some(&(left, right)) = ack.sack.first()
        {
            // A tail loss probe that was not needed says nothing about the order.
            if self.tail_probe.is_none() {
                self.rack.on_duplicate(self.una, self.nxt);
            }
            self.on_duplicate_report(now, right - left);
        }
        self.on_originals(now, of_originals);
        // Not `duplicate_ack`: by now nothing may be outstanding.
        let plain_duplicate = advanced == 0 && !ack.has_data && !window_changed && ack.sack.is_empty();
        self.settle_tail_probe(now, ack, duplicate_report, plain_duplicate);
        if let State::Waiting { sign, .. } = self.state {
            self.rto_at = None;
            let answer = ProbeAnswer { number: octet, duplicate: duplicate_ack };
            let verdict = self.arbiter.on_probe_answer(now, answer);
            self.answer_loss(now, sign, verdict);
        }
        let sent_before = ack.sent_before(now).filter(|_| advanced > 0);
        self.settle_f_rto(now, sent_before, advanced, delivered, newest);
        self.find_losses(now, advanced, duplicate_ack);
        self.leave_recovery(now, advanced);
        if ack.ecn_echo && self.una >= self.ecn_end && matches!(self.state, State::Open) {
            self.control.on_congestion(now, CongestionEvent::EcnEcho, self.nxt - self.una);
            self.ecn_end = self.nxt;
            self.send_cwr = true;
            self.governor.on_marked();
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
                in_recovery: matches!(self.state, State::Recovery { .. } | State::Waiting { .. }),
            });
            if self.control.holds_back() {
                self.rate.on_app_limited(self.in_flight());
            }
            self.set_pace();
            self.arm_tail_probe(now);
        }
        let pipe = self.in_flight();
        if let State::Recovery { prr: Some(prr), .. } = &mut self.state {
            // Without reports, a duplicate acknowledgment stands for a segment.
            let counted = if self.sack { delivered } else { delivered.max(u64::from(self.mss)) };
            if counted > 0 && (delivered > 0 || duplicate_ack) {
                prr.on_ack(counted, pipe, &*self.control, self.mss);
            }
        }
        if self.board.is_empty() {
            self.rto_at = None;
            self.tail_at = None;
            self.rack_at = None;
        }
    }

    /// An answer to one of the arbiter's probes that names its number.
    pub fn on_probe_answer(&mut self, now: Time, number: u32) {
        if let State::Waiting { sign, .. } = self.state {
            let answer = ProbeAnswer { number: Some(number), duplicate: false };
            let verdict = self.arbiter.on_probe_answer(now, answer);
            self.answer_loss(now, sign, verdict);
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

    /// Books what the acknowledgment covers.
    fn account(&mut self, now: Time, ack: &Ack<'_>) -> Account {
        let Sender { board, rate, rack, rtt, una, .. } = self;
        let (una, min_rtt) = (*una, rtt.min_rtt());
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
        let mut on_delivered = |start: u64, record: &Record| {
            delivered += record.end - start;
            rate.on_delivered(now, record.end - start, &record.sent);
            // What lies behind a repaired hole may have arrived long before (Karn's algorithm).
            ambiguous |= record.retransmitted;
            let of_original = record.retransmitted && is_of_original(start, record);
            rack.on_delivered(now, record, min_rtt, of_original);
            if of_original {
                of_originals += record.end - start;
                return; // when it was sent, nobody knows any more
            }
            let sent = record.sent.sent_at();
            if !record.retransmitted {
                newest_once = newest_once.max(Some(sent));
            }
            // What arrived within the shortest round trip was an earlier transmission.
            if !record.retransmitted || min_rtt.is_some_and(|min| now.saturating_since(sent) >= min) {
                newest = newest.max(Some(sent));
            }
        };
        board.acknowledge(ack.ack, &mut on_delivered);
        if self.sack {
            for &(left, right) in ack.sack {
                if left >= ack.ack && right <= self.nxt {
                    board.report(left, right, &mut on_delivered);
                }
            }
        }
        if let Some(octets) = &mut self.octets
            && ack.ack > self.una
        {
            let first = ack.ack.saturating_sub(u64::from(OCTETS)).max(self.una);
            let mut recent = [0; OCTETS as usize];
            let list = self.queue.gather(first, (ack.ack - first) as usize);
            list.copy_to(&mut recent);
            for (offset, byte) in (first..).zip(&recent[..list.len()]) {
                octets[(offset % u64::from(OCTETS)) as usize] = *byte;
            }
        }
        self.una = ack.ack;
        self.queue.release(ack.ack);
        let rtt = newest_once.filter(|_| !ambiguous).map(|sent| now.saturating_since(sent));
        Account { delivered, newest, rtt, of_originals }
    }

    /// When the retransmission timer expires that is started now: coarse timers only do on a tick.
    fn rto_deadline(&self, now: Time) -> Time {
        let at = now + self.rtt.rto();
        let tick = self.rtt.config().tick.as_nanos() as u64;
        if tick == 0 { at } else { Time::from_nanos(at.as_nanos().div_ceil(tick).saturating_mul(tick)) }
    }

    /// A timer may have fired.
    pub fn on_timeout(&mut self, now: Time) {
        let due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        if let State::Waiting { sign, .. } = self.state {
            let verdict = self.arbiter.on_timeout(now);
            self.answer_loss(now, sign, verdict);
        }
        if due(self.pace_at) {
            self.pace_at = None;
        }
        if due(self.rack_at) {
            self.find_losses(now, 0, false);
        }
        let own_timers = !self.governor.is_shared();
        if due(self.tail_at) && own_timers {
            self.tail_at = None;
            self.tail_due = true;
            self.rto_at = Some(self.rto_deadline(now));
        }
        if due(self.persist_at) {
            self.persist_at = None;
            self.persist_backoff += 1;
            self.timeouts += 1;
            self.probe_due = true;
            self.arm_persist(now);
        }
        if due(self.rto_at) && own_timers {
            self.on_retransmission_timeout(now);
        }
    }

    /// When to call [`Sender::on_timeout`] next.
    pub fn poll_timeout(&self) -> Option<Deadline> {
        let own_timers = !self.governor.is_shared();
        let own = [
            (self.rto_at.filter(|_| own_timers), "rto"),
            (self.tail_at.filter(|_| own_timers), "tail-loss-probe"),
            (self.rack_at, "rack"),
            (self.persist_at, "persist"),
            (self.pace_at, "pace"),
        ];
        let own = own.into_iter().filter_map(|(at, timer)| at.map(|at| Deadline { at, timer }));
        let arbiter = match self.state {
            State::Waiting { .. } => self.arbiter.poll_timeout(),
            _ => None,
        };
        own.chain(arbiter).min_by_key(|deadline| deadline.at)
    }
}

/// Whether the first block of an option reports a duplicate (RFC 2883 §4): it lies below the
/// acknowledgment or within the second block.
fn is_duplicate_report(left: u64, right: u64, ack: &Ack<'_>) -> bool {
    right <= ack.ack || ack.sack.get(1).is_some_and(|&(l, r)| l <= left && right <= r)
}
