//! The sending half. It keeps queue, scoreboard and state, and calls its parts.
//!
//! Reading order: `config` (what goes in and out), this file (what it keeps), `acknowledgment` (what an acknowledgment does
//! to it), `loss` (finding losses and answering them), `f_rto` and `undo` (answers that were mistakes), `output` (what leaves
//! next), `probe` (what a discriminator sends and is answered), `peer_window`, `persist`, `shrunk_window`, `segment_size`, `timers`, `beginning` (with which window, where the path is known), `managed` (what a congestion manager outside asks of it), `momentum` (going on
//! in another process), `put_away` (going on later).
mod acknowledgment;
mod beginning;
mod config;
mod f_rto;
mod loss;
mod managed;
mod momentum;
mod output;
mod peer_window;
mod persist;
mod pipe_ack;
mod probe;
mod put_away;
mod segment_size;
mod shrunk_window;
mod timers;
mod undo;

pub use config::{Ack, Outgoing, SenderConfig, SenderStats};
pub use managed::SentBefore;
pub use momentum::Momentum;

use crate::congestion_manager::CongestionManager;
use crate::loss_detector::{Event, Flight, LossDetector, Phase};
use crate::loss_discriminator::{Discriminator, LossSign, Probe};
use crate::prr::Prr;
use crate::start::Start;
use crate::{ByteQueue, Scoreboard};
use alloc::boxed::Box;
use core::time::Duration;
use f_rto::FRto;
use peer_window::PeerWindow;
use persist::Persist;
use pipe_ack::PipeAck;
use probe::Probes;
use segment_size::SegmentSize;
use shorthaul_congestion::{Control, DeliveryRate, Pacer, RttEstimator};
use shorthaul_types::Time;
use shrunk_window::ShrunkWindow;
use timers::Timers;
use undo::Undo;

#[derive(Debug)]
enum State {
    Open,
    /// Holes are repaired, with the window already reduced, or left as the discriminator says.
    Recovery {
        end: u64,
        /// Walks down to the reduced window; without it, what is in flight has to fall below it first.
        prr: Option<Prr>,
    },
    /// After an RTO (RFC 5681 §3.1): slow start over what was outstanding.
    Loss {
        end: u64,
        /// It is still open whether the RTO was spurious.
        f_rto: Option<FRto>,
    },
    /// The discriminator probes before it says what the loss means.
    Waiting {
        sign: LossSign,
        /// A probe that leaves behind the segment that it brings.
        behind_head: Option<Probe>,
    },
}

/// The send sequence space (RFC 9293 §3.3.1), and what was noted in it.
#[derive(Debug)]
struct SendSequence {
    /// SND.UNA.
    una: u64,
    /// SND.NXT.
    nxt: u64,
    /// The congestion window held the sender back until SND.NXT was this.
    window_limited_until: u64,
    /// What was acknowledged within a round trip of late.
    pipe_ack: PipeAck,
    /// Below this, something may have reached the peer that was not sent from here.
    passed_before: u64,
    /// When something left last.
    last_send: Time,
}

/// The answer to echoed congestion marks (RFC 3168 §6.1.2).
#[derive(Debug)]
struct EcnResponse {
    /// Up to here, the window is reduced already.
    end: u64,
    /// The next new segment says so (CWR).
    send_cwr: bool,
}

/// What was configured, of what is no part.
#[derive(Clone, Copy, Debug)]
struct Options {
    sack: bool,
    f_rto: bool,
    pacing: bool,
    nagle: bool,
    idle_restart: bool,
    window_validation: bool,
    undo: bool,
    persist_on_shrink: bool,
    rttm: bool,
}

/// The sending half: holds the bytes, sends them as window and credit allow, has losses found by a [`LossDetector`] and judged
/// by a [`Discriminator`], repairs them, and probes closed windows.
#[derive(Debug)]
pub struct Sender {
    queue: ByteQueue,
    fin: bool,
    snd: SendSequence,
    peer: PeerWindow,
    segment: SegmentSize,
    options: Options,
    board: Scoreboard,
    state: State,
    detector: Box<dyn LossDetector>,
    discriminator: Box<dyn Discriminator>,
    control: Box<dyn Control>,
    start: Box<dyn Start>,
    manager: CongestionManager,
    probes: Probes,
    undo: Undo,
    persist: Persist,
    shrunk: ShrunkWindow,
    rtt: RttEstimator,
    rate: DeliveryRate,
    pacer: Pacer,
    ecn: EcnResponse,
    timers: Timers,
    stats: SenderStats,
}

impl Sender {
    /// A sender whose next byte is `next`, to a peer that offered a window up to `edge`.
    pub fn new(now: Time, next: u64, edge: u64, config: SenderConfig) -> Self {
        let detection = config.loss_detection.for_peer(config.sack);
        Sender {
            queue: ByteQueue::new(next),
            fin: false,
            snd: SendSequence {
                una: next,
                nxt: next,
                window_limited_until: next,
                pipe_ack: PipeAck::new(now, next),
                passed_before: next,
                last_send: now,
            },
            peer: PeerWindow::new(next, edge),
            segment: SegmentSize::new(config.mss, config.black_hole_probing),
            options: Options {
                sack: detection.uses_sack(),
                f_rto: config.f_rto,
                pacing: config.pacing,
                nagle: config.nagle,
                idle_restart: config.idle_restart,
                window_validation: config.window_validation,
                undo: config.undo,
                persist_on_shrink: config.persist_on_shrink,
                rttm: config.rttm,
            },
            board: Scoreboard::default(),
            state: State::Open,
            detector: detection.build(),
            discriminator: config.discriminator,
            control: config.control,
            start: config.start,
            manager: config.manager,
            probes: Probes::default(),
            undo: Undo::default(),
            persist: Persist::default(),
            shrunk: ShrunkWindow::default(),
            rtt: RttEstimator::new(config.rto),
            rate: DeliveryRate::new(now),
            pacer: Pacer::new(config.mss),
            ecn: EcnResponse { end: next, send_cwr: false },
            timers: Timers::default(),
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

    /// Everything before `offset`, which is beyond SND.NXT, has reached the peer on another way, or was sent by a predecessor:
    /// it is as if it had been sent and acknowledged now. The queue is the caller's where `offset` lies beyond its end.
    pub fn skip_to(&mut self, now: Time, offset: u64) {
        if offset <= self.snd.nxt {
            return;
        }
        self.board.acknowledge(offset, |_, _| {});
        self.queue.release(offset);
        self.snd.una = offset;
        self.snd.nxt = offset;
        self.peer.edge = self.peer.edge.max(offset);
        self.ecn.end = self.ecn.end.max(offset);
        self.state = State::Open;
        self.timers.rto_at = None;
        self.timers.timeouts = 0;
        self.manager.on_delivered(0, None, None);
        self.tell_detector(now, Event::Restarted);
        self.set_pace();
    }

    /// Another process had sent all before `offset`: acknowledgments of that may be answers to it, and say nothing of when it was sent from
    /// here.
    pub fn was_sent(&mut self, offset: u64) {
        self.board.set_sent_before(offset);
        self.may_have_passed(offset);
    }

    /// Some of what lies before `offset` may have reached the peer on another way: an acknowledgment that comes sooner than a path
    /// answers is no sample of what it carries, nor of how long it takes.
    pub fn may_have_passed(&mut self, offset: u64) {
        self.snd.passed_before = self.snd.passed_before.max(offset);
    }

    /// The stream ends behind what is queued.
    pub fn finish(&mut self) {
        self.fin = true;
    }

    /// SND.UNA: everything before is acknowledged.
    pub fn una(&self) -> u64 {
        self.snd.una
    }

    /// SND.NXT: everything before was sent at least once.
    pub fn nxt(&self) -> u64 {
        self.snd.nxt
    }

    /// Whether a FIN was sent and acknowledged.
    pub fn is_finished(&self) -> bool {
        self.fin && self.snd.una > self.queue.end()
    }

    /// Whether nothing is unacknowledged or unsent.
    pub fn is_idle(&self) -> bool {
        self.board.is_empty() && self.snd.nxt == self.end()
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
        self.segment.mss()
    }

    /// The largest window that the peer ever had open (MAX.SND.WND), in bytes.
    pub fn max_window(&self) -> u64 {
        self.peer.max
    }

    /// The window that the peer has open, in bytes.
    pub fn peer_window(&self) -> u64 {
        self.peer.edge.saturating_sub(self.snd.una)
    }

    /// Bytes in flight, by what is known.
    pub fn in_flight(&self) -> u64 {
        let sacked_out = self.detector.sacked_out(self.phase());
        self.manager.in_flight(self.board.in_flight(), sacked_out, self.segment.bytes())
    }

    fn end(&self) -> u64 {
        self.queue.end() + u64::from(self.fin)
    }

    /// FlightSize (RFC 5681 §2).
    fn flight_size(&self) -> u64 {
        self.snd.nxt - self.snd.una
    }

    fn phase(&self) -> Phase {
        match self.state {
            State::Open => Phase::Open,
            State::Recovery { end, .. } => Phase::Recovery { end },
            State::Loss { end, .. } => Phase::Loss { end },
            State::Waiting { .. } => Phase::Waiting,
        }
    }

    /// What the detector sees.
    fn flight(&self, now: Time) -> Flight {
        Flight {
            now,
            una: self.snd.una,
            nxt: self.snd.nxt,
            sendable: self.sendable(),
            mss: self.segment.bytes(),
            phase: self.phase(),
            rto_at: self.manager.own_timer(self.timers.rto_at),
            srtt: self.rtt.srtt(),
            min_rtt: self.rtt.min_rtt(),
        }
    }

    /// Asks the detector, which sees the flight and the scoreboard.
    fn ask_detector<R>(
        &mut self,
        now: Time,
        ask: impl FnOnce(&mut dyn LossDetector, &Flight, &Scoreboard) -> R,
    ) -> R {
        let flight = self.flight(now);
        ask(&mut *self.detector, &flight, &self.board)
    }

    /// Tells the detector what happened.
    fn tell_detector(&mut self, now: Time, event: Event) {
        self.ask_detector(now, |detector, flight, board| detector.on_event(flight, board, event));
    }
}
