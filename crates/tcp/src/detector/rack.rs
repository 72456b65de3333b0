use super::DUP_THRESH;
use crate::loss_detector::{Delivered, Detection, Flight, Phase};
use core::time::Duration;
use shorthaul_types::{Time, keeps};

/// Recent acknowledgment (RFC 8985 §6): what was sent sufficiently long before something that has
/// been delivered is lost.
#[derive(Debug)]
pub(super) struct Rack {
    /// The latest-sent range that was delivered: its transmission and its end.
    newest: (u64, u64),
    rtt: Duration,
    /// The highest offset delivered.
    highest: u64,
    reordering_seen: bool,
    window_factor: u32,
    /// The stream offset that ends the round in which the factor was raised.
    raised_until: u64,
    /// Recoveries left until the factor falls back to one.
    persist: u32,
    /// When the oldest range that is not yet lost has waited long enough.
    reordering_at: Option<Time>,
}

impl Default for Rack {
    fn default() -> Self {
        Rack {
            newest: (0, 0),
            rtt: Duration::ZERO,
            highest: 0,
            reordering_seen: false,
            window_factor: 1,
            raised_until: 0,
            persist: 0,
            reordering_at: None,
        }
    }
}

keeps!(Rack { newest, rtt, highest, reordering_seen, window_factor, raised_until, persist, reordering_at });

impl Rack {
    /// A range was delivered (§6.2 steps 2 and 3).
    pub fn on_delivered(&mut self, delivered: &Delivered<'_>) {
        let Delivered { now, record, of_original, min_rtt } = *delivered;
        let rtt = now.saturating_since(record.sent.sent_at());
        if of_original || (record.retransmitted && min_rtt.is_some_and(|min| rtt < min)) {
            // It was the original that arrived, after what was sent behind it.
            self.reordering_seen |= record.end < self.highest;
            return;
        }
        if record.end < self.highest && !record.retransmitted {
            self.reordering_seen = true;
        }
        self.highest = self.highest.max(record.end);
        if (record.transmission, record.end) >= self.newest {
            self.newest = (record.transmission, record.end);
            self.rtt = rtt;
        }
    }

    /// A D-SACK said that a retransmission was not needed: wait longer for reordering (§6.2 step 4).
    pub fn on_duplicate(&mut self, una: u64, nxt: u64) {
        // What was retransmitted in vain was late, not lost. Its arrival shows the reordering only to a
        // sender that had not retransmitted it yet (§6.2 step 3); without this, each late segment of a path
        // that reorders would be taken for lost anew.
        self.reordering_seen = true;
        if una >= self.raised_until {
            self.window_factor = (self.window_factor + 1).min(64);
            self.raised_until = nxt;
            self.persist = 16;
        }
    }

    /// A recovery ended.
    pub fn on_recovered(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.window_factor = 1;
        }
    }

    /// Everything outstanding is retransmitted.
    pub fn on_restart(&mut self) {
        self.reordering_at = None;
    }

    /// Marks what was sent long enough before something that was delivered (§6.2 step 5).
    pub fn detect(&mut self, detection: &mut Detection<'_>) {
        let now = detection.flight.now;
        let timeout = self.rack_rtt_and_reo_wnd(&detection.flight, detection.board().sacked());
        let waiting =
            detection.mark_lost_before(self.newest, |record| record.sent.sent_at() + timeout <= now);
        self.reordering_at = waiting.map(|sent| sent + timeout);
    }

    /// When to look again (§6.2 step 5, RACK_arm_timer).
    pub fn reordering_at(&self) -> Option<Time> {
        self.reordering_at
    }

    /// `rack_rtt + reo_wnd`: how long after its sending a range is lost, if something sent later was delivered (§6.2
    /// steps 4 and 5). `sacked` is in bytes.
    fn rack_rtt_and_reo_wnd(&self, flight: &Flight, sacked: u64) -> Duration {
        let enough = flight.phase != Phase::Open || sacked >= DUP_THRESH * flight.mss;
        let reo_wnd = if !self.reordering_seen && enough {
            Duration::ZERO
        } else {
            let min = flight.min_rtt.unwrap_or(self.rtt);
            (min / 4 * self.window_factor).min(flight.srtt.unwrap_or(min))
        };
        self.rtt + reo_wnd
    }
}
