//! Finding losses. A detector finds them, a discriminator says what they mean, congestion control answers.
use crate::{Record, Scoreboard};
use alloc::vec::Vec;
use core::fmt::Debug;
use core::ops::Range;
use core::time::Duration;
use shorthaul_congestion::{CongestionEvent, Control, DeliveryRate};
use shorthaul_types::{Deadline, Numbers, Time};

/// Finds losses: it is told of acknowledgments, transmissions and the sender's phases, and marks in the
/// [`Scoreboard`] what it takes for lost.
///
/// The calls for an acknowledgment, in this order: [`on_delivered`](LossDetector::on_delivered) for each range that it
/// covers, [`on_ack`](LossDetector::on_ack) once, then [`on_event`](LossDetector::on_event) for each [`Event`] that
/// follows from it. [`Event::Acknowledged`] is the last.
pub trait LossDetector: Debug + Send {
    /// A range was delivered, cumulatively or selectively, for the first time.
    fn on_delivered(&mut self, delivered: &Delivered<'_>) {
        let _ = delivered;
    }

    /// The acknowledgment is booked: marks what it shows to be lost.
    fn on_ack(&mut self, detection: &mut Detection<'_>, ack: &AckEvent);

    /// Looks for losses without an acknowledgment: [`poll_timeout`](LossDetector::poll_timeout) is due, or the
    /// congestion manager has learned of losses elsewhere.
    fn on_timeout(&mut self, detection: &mut Detection<'_>) {
        let _ = detection;
    }

    /// Something happened at the sender.
    fn on_event(&mut self, flight: &Flight, board: &Scoreboard, event: Event);

    /// A congestion manager asks for a probe, whose timer is the manager's. Says whether one is due now.
    fn ask_probe(&mut self, flight: &Flight, board: &Scoreboard) -> bool {
        let _ = (flight, board);
        false
    }

    /// The range of a probe that leaves now, whatever window and pace say. Each due probe is given once.
    fn poll_probe(&mut self, flight: &Flight, board: &Scoreboard) -> Option<Range<u64>> {
        let _ = (flight, board);
        None
    }

    /// How many bytes may leave now, of a window with room for `room`.
    fn credit(&self, flight: &Flight, board: &Scoreboard, room: u64) -> u64 {
        let _ = (flight, board);
        room
    }

    /// Bytes that duplicate ACKs show to have left the network (`sacked_out` of a peer without SACK).
    fn sacked_out(&self, phase: Phase) -> u64 {
        let _ = phase;
        0
    }

    /// How losses are repaired that call for a smaller window.
    fn repair(&self) -> Repair;

    /// Appends all that it knows, for [`bring_back`](LossDetector::bring_back): its sender, of which nothing is under way, is put away as
    /// numbers. Says whether it can; if not, the sender stays as it is.
    fn put_away(&self, to: &mut Vec<u64>) -> bool {
        let _ = to;
        false
    }

    /// Knows again what it [put away](LossDetector::put_away).
    fn bring_back(&mut self, from: &mut Numbers<'_>) -> Option<()> {
        let _ = from;
        None
    }

    /// When to call [`on_timeout`](LossDetector::on_timeout).
    fn poll_timeout(&self) -> Option<Deadline> {
        None
    }
}

/// How losses are repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// From SND.UNA on with a window of one segment, as after an RTO (Jacobson 1988).
    SlowStart,
    /// By fast recovery, which the first new ACK ends (RFC 2001).
    UntilFirstAck,
    /// By fast recovery, until all has arrived that was outstanding (RFC 6582).
    UntilRecoveryPoint,
    /// As [`Repair::UntilRecoveryPoint`], while the window shrinks by proportional rate reduction (RFC 6937).
    ProportionalRate,
}

impl Repair {
    /// Whether congestion that ACKs show leaves more than one segment of the window.
    pub(crate) fn has_fast_recovery(self) -> bool {
        self != Repair::SlowStart
    }

    /// Whether any new ACK ends fast recovery. [`Repair::SlowStart`] is in it where the window was to stay.
    pub(crate) fn ends_with_first_ack(self) -> bool {
        matches!(self, Repair::SlowStart | Repair::UntilFirstAck)
    }
}

/// What a sender is doing about losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nothing: none is known.
    Open,
    /// Fast recovery.
    Recovery {
        /// The recovery point: SND.NXT when it began.
        end: u64,
    },
    /// Slow start over what was outstanding, after an RTO (RFC 5681 §3.1).
    Loss {
        /// The recovery point.
        end: u64,
    },
    /// The discriminator probes before it says what a loss means.
    Waiting,
}

/// What happened at a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A segment, or a super-segment, left.
    Sent(Transmission),
    /// An acknowledgment that delivered something has had all its effects.
    Acknowledged,
    /// Fast recovery begins.
    RecoveryBegun,
    /// The discriminator probes; data waits.
    WaitBegun,
    /// Everything outstanding begins anew at SND.UNA, after an RTO or a loss that means as much.
    Restarted,
    /// Everything has arrived up to the recovery point, or as much as ends fast recovery.
    Recovered,
    /// The last response to a loss was a mistake.
    Undone,
}

/// A segment, or a super-segment, that left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmission {
    /// The offset of its first byte.
    pub start: u64,
    /// The offset behind its last byte, a FIN included.
    pub end: u64,
    /// It begins with something that was sent before.
    pub retransmission: bool,
}

/// A range that was delivered.
#[derive(Clone, Copy, Debug)]
pub struct Delivered<'a> {
    /// When its acknowledgment came.
    pub now: Time,
    /// What is known of its last transmission.
    pub record: &'a Record,
    /// It is the original of a range that was retransmitted since.
    pub of_original: bool,
    /// The smallest round-trip time.
    pub min_rtt: Option<Duration>,
}

/// What a D-SACK said (RFC 2883).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicate {
    /// There was none.
    None,
    /// Data arrived twice.
    Data,
    /// A probe of the discriminator arrived: one of the last acknowledged bytes.
    Probe,
}

/// What an acknowledgment says.
#[derive(Clone, Copy, Debug)]
pub struct AckEvent {
    /// Where SND.UNA is now.
    pub ack: u64,
    /// By how much SND.UNA has moved.
    pub advanced: u64,
    /// Bytes that were delivered, cumulatively or selectively, for the first time.
    pub delivered: u64,
    /// It carries SACK blocks.
    pub has_sack: bool,
    /// It is a duplicate ACK (RFC 5681 §2).
    pub duplicate: bool,
    /// It is as a duplicate ACK without SACK blocks, though nothing may be outstanding.
    pub plain: bool,
    /// What it says of data that arrived twice.
    pub dsack: Duplicate,
    /// The phase that it found the sender in.
    pub phase: Phase,
}

/// What a detector sees of its sender.
#[derive(Clone, Copy, Debug)]
pub struct Flight {
    /// The time.
    pub now: Time,
    /// SND.UNA.
    pub una: u64,
    /// SND.NXT.
    pub nxt: u64,
    /// New bytes that are there to be sent, and that the peer has room for.
    pub sendable: u64,
    /// Payload bytes of a full segment.
    pub mss: u64,
    /// What it is doing about losses.
    pub phase: Phase,
    /// When its retransmission timer expires, where it has one.
    pub rto_at: Option<Time>,
    /// The smoothed round-trip time.
    pub srtt: Option<Duration>,
    /// The smallest round-trip time.
    pub min_rtt: Option<Duration>,
}

impl Flight {
    /// FlightSize (RFC 5681 §2): bytes sent and not cumulatively acknowledged.
    pub fn size(&self) -> u64 {
        self.nxt - self.una
    }

    /// Whether the time of a timer has come.
    pub fn is_due(&self, at: Option<Time>) -> bool {
        at.is_some_and(|at| at <= self.now)
    }
}

/// A detector's hand on the scoreboard. The delivery rate and congestion control learn of each loss that it marks.
#[derive(Debug)]
pub struct Detection<'a> {
    /// What it sees of its sender.
    pub flight: Flight,
    /// The FlightSize that a reduction of the window goes by. A detector that has put its judgement off sets it to what it
    /// was before.
    pub flight_size: u64,
    /// The retransmission timer is to start anew.
    pub restart_rto: bool,
    pub(crate) board: &'a mut Scoreboard,
    pub(crate) rate: &'a mut DeliveryRate,
    pub(crate) control: &'a mut dyn Control,
}

impl Detection<'_> {
    /// What became of each transmission.
    pub fn board(&self) -> &Scoreboard {
        self.board
    }

    /// Marks `[start, end)` as lost, where it is not SACKed.
    pub fn mark_lost(&mut self, start: u64, end: u64) {
        let Detection { flight, board, rate, control, .. } = self;
        board.mark_lost(start, end, |at, record| {
            control.on_loss(&rate.on_lost(flight.now, at..record.end, &record.sent));
        });
    }

    /// Marks, in the order of sending, what was sent before the transmission `before` and what `is_lost` agrees on. Returns
    /// when the first range was sent on which it does not. See [`Scoreboard::mark_lost_before`].
    pub fn mark_lost_before(
        &mut self,
        before: (u64, u64),
        is_lost: impl FnMut(&Record) -> bool,
    ) -> Option<Time> {
        let Detection { flight, board, rate, control, .. } = self;
        board.mark_lost_before(before, is_lost, |at, record| {
            control.on_loss(&rate.on_lost(flight.now, at..record.end, &record.sent));
        })
    }

    /// Marks what is lost by IsLost of RFC 6675 §4 with a threshold of `dup_thresh`. See
    /// [`Scoreboard::mark_lost_below_sacked`].
    pub fn mark_lost_below_sacked(&mut self, dup_thresh: u64) {
        let Detection { flight, board, rate, control, .. } = self;
        board.mark_lost_below_sacked(flight.mss, dup_thresh, |at, record| {
            control.on_loss(&rate.on_lost(flight.now, at..record.end, &record.sent));
        });
    }

    /// A loss is known only now that it is repaired: congestion, with `flight` bytes outstanding then.
    pub fn on_repaired(&mut self, flight: u64) {
        self.control.on_congestion(self.flight.now, CongestionEvent::Loss, flight);
        self.control.on_recovered(self.flight.now);
    }
}
