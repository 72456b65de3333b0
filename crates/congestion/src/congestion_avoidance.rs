//! Congestion avoidance of RFC 5681 §3.1, counted in bytes (RFC 3465 §2.1): a segment for each
//! window of acknowledged bytes, however the ACKs are cut.
use crate::AckSample;
use crate::window::Window;

/// The acknowledged bytes that the window has not grown for yet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CongestionAvoidance {
    unrewarded: u64,
}

crate::snapshot::keeps!(CongestionAvoidance { unrewarded });

impl CongestionAvoidance {
    /// Counts `acked` bytes, of which the window must have limited the sender to count.
    pub(crate) fn on_ack(&mut self, window: &mut Window, ack: &AckSample, acked: u64) {
        if acked == 0 || !ack.cwnd_limited || window.in_slow_start() {
            return;
        }
        // One ACK never covers more than a window, so this is one segment a round trip.
        let size = window.bytes();
        self.unrewarded += acked.min(size);
        if self.unrewarded >= size {
            self.unrewarded -= size;
            window.set_bytes(size + window.mss());
        }
    }

    /// The window was set anew.
    pub(crate) fn reset(&mut self) {
        self.unrewarded = 0;
    }
}
