//! What a congestion manager outside asks of a sender, and tells it.
use super::{Sender, State};
use crate::congestion_manager::Grant;
use shorthaul_types::Time;

impl Sender {
    /// What its congestion manager and it tell each other; `None` for a sender that manages itself.
    pub fn grant_mut(&mut self) -> Option<&mut Grant> {
        self.manager.grant_mut()
    }

    /// When the oldest of the bytes in flight were last sent; `None` if nothing is in flight.
    pub fn oldest_in_flight(&self) -> Option<Time> {
        self.board.oldest_in_flight()
    }

    /// Whether there is something to send, be it new or lost. It may be that the peer has no room for it.
    pub fn has_backlog(&self) -> bool {
        self.board.lost() > 0 || self.snd.nxt < self.end()
    }

    /// Whether there is something to send that the peer takes: new, where it has room, or lost.
    pub fn may_send(&self) -> bool {
        self.board.lost() > 0 || self.sendable() > 0
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

    /// The manager has learned of more losses ([`Grant::lost_before`]): looks for them, and repairs them.
    pub fn on_others_delivered(&mut self, now: Time) {
        self.find_losses(now, None);
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
