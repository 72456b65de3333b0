//! A window that the peer closes over what is outstanding.
use super::{Sender, State};
use crate::loss_detector::Event;
use shorthaul_types::{Time, keeps};

/// Whether the peer's window has shrunk to nothing while something is outstanding, to a sender that persists then.
///
/// RFC 9293 §3.8.6 has a sender retransmit what is outstanding all the same (SHLD-16), so that its timer expires and its congestion
/// window falls. 4.4BSD (`tcp_output`; Stevens, TCP/IP Illustrated 2, §26.3) cancels the retransmission timer instead, pulls SND.NXT back to
/// SND.UNA and probes the window: M-TCP (Brown and Singh, CCR 27(5), 1997) and Freeze-TCP (Goff and others, INFOCOM 2000) count on
/// that to stop a sender for as long as the mobile host is away.
#[derive(Debug, Default)]
pub(super) struct ShrunkWindow {
    closed: bool,
}

keeps!(ShrunkWindow { closed });

impl Sender {
    /// Whether it persists though something is outstanding: nothing but window probes leaves, and nothing is found to be lost.
    pub(super) fn is_shut(&self) -> bool {
        self.shrunk.closed
    }

    /// Looks at the window that an acknowledgment has left.
    pub(super) fn settle_shrunk_window(&mut self, now: Time) {
        if !self.options.persist_on_shrink {
            return;
        }
        // While a discriminator probes, it says what leaves, and its timers run.
        let waits = matches!(self.state, State::Waiting { .. });
        let closed = !waits && !self.board.is_empty() && self.peer.edge <= self.snd.una;
        let was_closed = core::mem::replace(&mut self.shrunk.closed, closed);
        if closed {
            self.timers.rto_at = None;
            self.arm_persist(now);
        } else if was_closed {
            self.on_window_restored(now);
        }
    }

    /// The window is open again. What is outstanding is sent again from SND.UNA on, as SND.NXT was pulled back; it is no sign of congestion,
    /// so the congestion window and the RTO are what they were.
    fn on_window_restored(&mut self, now: Time) {
        if self.peer.edge > self.snd.una || self.unsent() == 0 {
            self.persist.stop();
        }
        if self.board.is_empty() || matches!(self.state, State::Waiting { .. }) {
            return;
        }
        let (una, nxt) = (self.snd.una, self.snd.nxt);
        self.board.mark_lost(una, nxt, |_, _| {});
        // Not a fast recovery: duplicates of what had arrived say nothing of losses.
        self.state = State::Loss { end: nxt, f_rto: None };
        self.undo.clear();
        self.tell_detector(now, Event::Restarted);
        self.timers.rto_at = Some(self.rto_deadline(now));
    }
}
