//! What a congestion manager outside asks of a sender, and tells it.
use super::{Sender, State};
use crate::congestion_manager::Grant;
use shorthaul_types::Time;

/// What is on its way of what a sender sent before some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SentBefore {
    /// All of it was acknowledged, or is believed lost.
    Nothing,
    /// No more than a segment: its acknowledgment may be delayed (RFC 5681 §4.2).
    OneSegment,
    /// More than a segment.
    More,
}

impl Sender {
    /// What its congestion manager and it tell each other; `None` for a sender that manages itself.
    pub fn grant_mut(&mut self) -> Option<&mut Grant> {
        self.manager.grant_mut()
    }

    /// When the oldest of the bytes in flight were last sent; `None` if nothing is in flight.
    pub fn oldest_in_flight(&self) -> Option<Time> {
        self.board.oldest_in_flight()
    }

    /// What is on its way of what was sent before this time.
    pub fn sent_before(&mut self, before: Time) -> SentBefore {
        let segment = self.segment.bytes();
        match self.board.in_flight_before(before, segment) {
            0 => SentBefore::Nothing,
            bytes if bytes <= segment => SentBefore::OneSegment,
            _ => SentBefore::More,
        }
    }

    /// Whether there is something to send, be it new or lost. It may be that the peer has no room for it.
    pub fn has_backlog(&self) -> bool {
        self.board.lost() > 0 || self.snd.nxt < self.end()
    }

    /// Whether there is something to send that the peer takes: new, where it has room, or lost.
    pub fn may_send(&self) -> bool {
        self.board.lost() > 0 || self.sendable() > 0
    }

    /// Bytes that were sent and are not known to have arrived: on their way, or lost.
    pub fn undelivered(&self) -> u64 {
        self.board.in_flight() + self.board.lost()
    }

    /// Bytes that were believed lost, of all that was ever sent.
    pub fn bytes_lost(&self) -> u64 {
        self.board.ever_lost()
    }

    /// Bytes that were never sent.
    pub fn unsent(&self) -> u64 {
        self.end() - self.snd.nxt
    }

    /// Of those, the bytes that the peer has room for.
    pub fn sendable(&self) -> u64 {
        self.peer.edge.min(self.end()).saturating_sub(self.snd.nxt)
    }

    /// Whether there is nothing left to send, while window and peer would let a segment more go: whoever fills the queue keeps
    /// this sender waiting.
    pub fn is_starved(&self) -> bool {
        self.unsent() == 0
            && self.board.lost() == 0
            && self.in_flight() + self.segment.bytes() <= self.control.window()
            && self.snd.nxt + self.segment.bytes() <= self.peer.edge
    }

    /// Whether a whole segment waits that the congestion window would let go and the peer's window does not.
    pub fn is_blocked(&self) -> bool {
        let segment = self.segment.bytes();
        self.unsent() >= segment
            && self.peer.edge < self.snd.nxt + segment
            && self.in_flight() + segment <= self.control.window()
    }

    /// Whether the peer's window keeps this sender from sending what the path would carry at once: it is [blocked](Sender::is_blocked), and its
    /// round trips are no longer by a quarter than the shortest. Where they are, a wider window would wait in a queue.
    pub fn is_held_back(&self) -> bool {
        let is_queueing = || match (self.rtt.srtt(), self.rtt.min_rtt()) {
            (Some(srtt), Some(min_rtt)) => srtt > min_rtt + min_rtt / 4,
            _ => false,
        };
        self.is_blocked() && !is_queueing()
    }

    /// The manager has learned of more losses ([`Grant::lost_before`]): looks for them, and repairs them.
    pub fn on_others_delivered(&mut self, now: Time) {
        self.find_losses(now, None);
    }

    /// The manager's own timer of a tail loss probe (RFC 8985 §7) has expired: a segment of new data is to leave next, or the last one again,
    /// if that could tell anything. Says whether it will.
    pub fn on_manager_tail_probe(&mut self, now: Time) -> bool {
        self.ask_detector(now, |detector, flight, board| detector.ask_probe(flight, board))
    }

    /// The manager's retransmission timer has expired, and this sender is to find out whether the path still carries
    /// anything: it retransmits its first outstanding segment, and nothing else until that is answered (RFC 6298 §5.4, with
    /// RFC 5682 to tell what the answer means). While the discriminator probes, this timer waits, too.
    pub fn on_manager_timeout(&mut self, now: Time) {
        let waits = matches!(self.state, State::Waiting { .. });
        if !self.board.is_empty() && !waits {
            self.on_retransmission_timeout(now);
        }
    }
}
