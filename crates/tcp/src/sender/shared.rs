//! What a governor asks of a sender that it governs, and tells it.
use super::Sender;
use crate::governor::{Governor, Share};
use shorthaul_types::Time;

impl Sender {
    /// What is shared with the governor; `None` for a sender that governs itself.
    pub fn share_mut(&mut self) -> Option<&mut Share> {
        match &mut self.governor {
            Governor::Solo => None,
            Governor::Shared(share) => Some(share),
        }
    }

    /// When the oldest of the bytes in flight were last sent; `None` if nothing is in flight.
    pub fn oldest_in_flight(&self) -> Option<Time> {
        self.board.oldest_in_flight()
    }

    /// Whether there is something to send, be it new or lost. It may be that the peer has no room for it.
    pub fn has_backlog(&self) -> bool {
        self.board.lost() > 0 || self.nxt < self.end()
    }

    /// Whether there is something to send that the peer takes: new, where it has room, or lost.
    pub fn may_send(&self) -> bool {
        self.board.lost() > 0 || self.sendable() > 0
    }

    /// Bytes that were never sent.
    pub fn unsent(&self) -> u64 {
        self.end() - self.nxt
    }

    /// Of those, the bytes that the peer has room for.
    pub fn sendable(&self) -> u64 {
        self.edge.min(self.end()).saturating_sub(self.nxt)
    }

    /// The governor has marked more as lost ([`Share::lost_before`]): looks for it, and repairs it.
    pub fn on_others_delivered(&mut self, now: Time) {
        self.find_losses(now, 0, false);
    }

    /// The governor's retransmission timer has expired, and this sender is to find out whether the path
    /// still carries anything: it sends its first outstanding segment again, and nothing else until that
    /// is answered (RFC 6298 §5.4, with RFC 5682 to tell what the answer means).
    pub fn on_governor_timeout(&mut self, now: Time) {
        if !self.board.is_empty() {
            self.on_retransmission_timeout(now);
        }
    }
}
