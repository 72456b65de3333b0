//! Who manages congestion (RFC 3124): how much may leave, beyond what a connection's own window says.
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;
use shorthaul_types::{Keep as _, Numbers, Time, keeps};

/// Manages the congestion of a sender's path.
///
/// A connection that manages itself has all that its congestion window allows, and a retransmission timer. One that shares
/// a path with others is managed from outside: it may send what it is granted, is told of losses that show in the
/// deliveries of others, and leaves feedback of its own deliveries. It does not know who the others are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CongestionManager {
    /// The sender manages itself.
    #[default]
    Own,
    /// Whoever manages it writes into the grant, and reads from it. In a box: senders that manage themselves need no room for it.
    Shared(Box<Grant>),
}

/// What the retransmission timer of a sender is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RetransmissionTimer {
    /// It repairs what was lost: each expiry counts toward giving up, and shows that what was sent is gone (RFC 6298 §5).
    #[default]
    Repairs,
    /// It asks whether the path carries anything: the first segment is its question, repeated until it is answered. Whoever asks
    /// knows when to give up.
    Probes,
}

/// What a managed sender and its manager tell each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// Bytes that may leave now. Sending uses them up.
    pub bytes: u64,
    /// Transmissions that were sent before this are lost, by what others show.
    pub lost_before: Option<Time>,
    /// The shortest round trip of the path, by what others measured: what this connection measured itself may have waited in their queue.
    pub min_rtt: Option<Duration>,
    /// What was delivered since the manager last looked.
    pub feedback: Feedback,
    /// What it means when the manager's retransmission timer expires.
    pub timer: RetransmissionTimer,
}

/// What a congestion manager learns from the acknowledgments of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Feedback {
    /// Acknowledgments that delivered something, cumulatively or selectively, or opened the window.
    pub acknowledgments: u32,
    /// Bytes that they delivered.
    pub delivered: u64,
    /// When the newest transmission was sent that certainly arrived.
    pub newest: Option<Time>,
    /// The last round-trip time that was measured.
    pub rtt: Option<Duration>,
    /// The peer has echoed a congestion mark (RFC 3168), at most once a round trip.
    pub marked: bool,
    /// Something was lost, at most once a round trip.
    pub lost: bool,
}

keeps!(Grant { bytes, lost_before, min_rtt, feedback });
keeps!(Feedback { acknowledgments, delivered, newest, rtt, marked, lost });

impl CongestionManager {
    /// Appends what it and the connection were telling each other.
    pub(crate) fn put_away(&self, to: &mut Vec<u64>) {
        if let CongestionManager::Shared(grant) = self {
            grant.put(to);
        }
    }

    /// Goes on with what was put away.
    pub(crate) fn bring_back(&mut self, from: &mut Numbers<'_>) -> Option<()> {
        self.grant_mut().map_or(Some(()), |grant| grant.take(from))
    }

    /// A manager outside with such a timer, that has granted nothing yet.
    pub fn shared(timer: RetransmissionTimer) -> Self {
        CongestionManager::Shared(Box::new(Grant { timer, ..Grant::default() }))
    }

    /// The grant of a manager outside.
    pub(crate) fn grant_mut(&mut self) -> Option<&mut Grant> {
        match self {
            CongestionManager::Own => None,
            CongestionManager::Shared(grant) => Some(grant),
        }
    }

    /// How much may leave, where the sender's own window allows `own`.
    pub(crate) fn credit(&self, own: u64) -> u64 {
        match self {
            CongestionManager::Own => own,
            CongestionManager::Shared(grant) => own.min(grant.bytes),
        }
    }

    /// What counts as in flight of a `pipe` of which `sacked_out` is known to have left.
    ///
    /// Duplicate ACKs say that others have left the network, and never the first segment. With nothing in flight a manager
    /// outside would stop its timer, and a retransmission that is lost would never be repeated.
    pub(crate) fn in_flight(&self, pipe: u64, sacked_out: u64, mss: u64) -> u64 {
        let in_flight = pipe.saturating_sub(sacked_out);
        match self {
            CongestionManager::Own => in_flight,
            CongestionManager::Shared(_) => in_flight.max(pipe.min(mss)),
        }
    }

    /// The retransmission timer that runs: none of the sender's where the manager has one.
    pub(crate) fn own_timer(&self, at: Option<Time>) -> Option<Time> {
        match self {
            CongestionManager::Own => at,
            CongestionManager::Shared(_) => None,
        }
    }

    /// Whether the sender's own retransmission timer runs.
    pub(crate) fn has_own_timer(&self) -> bool {
        matches!(self, CongestionManager::Own)
    }

    /// What the retransmission timer is for, the sender's or the manager's.
    pub(crate) fn timer(&self) -> RetransmissionTimer {
        match self {
            CongestionManager::Own => RetransmissionTimer::Repairs,
            CongestionManager::Shared(grant) => grant.timer,
        }
    }

    pub(crate) fn on_send(&mut self, bytes: u64) {
        if let Some(grant) = self.grant_mut() {
            grant.bytes = grant.bytes.saturating_sub(bytes);
        }
    }

    pub(crate) fn on_delivered(&mut self, bytes: u64, newest: Option<Time>, rtt: Option<Duration>) {
        if let Some(Grant { feedback, .. }) = self.grant_mut() {
            feedback.acknowledgments += 1;
            feedback.delivered += bytes;
            feedback.newest = feedback.newest.max(newest);
            feedback.rtt = rtt.or(feedback.rtt);
        }
    }

    pub(crate) fn on_lost(&mut self) {
        if let Some(grant) = self.grant_mut() {
            grant.feedback.lost = true;
        }
    }

    pub(crate) fn on_marked(&mut self) {
        if let Some(grant) = self.grant_mut() {
            grant.feedback.marked = true;
        }
    }

    /// The shortest round trip that is known, where the sender's own is `own`.
    pub(crate) fn min_rtt(&self, own: Option<Duration>) -> Option<Duration> {
        match self {
            CongestionManager::Own => own,
            CongestionManager::Shared(grant) => own.into_iter().chain(grant.min_rtt).min(),
        }
    }

    pub(crate) fn lost_before(&self) -> Option<Time> {
        match self {
            CongestionManager::Own => None,
            CongestionManager::Shared(grant) => grant.lost_before,
        }
    }
}
