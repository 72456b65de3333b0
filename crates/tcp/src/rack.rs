use crate::Record;
use core::time::Duration;
use shorthaul_congestion::RttEstimator;
use shorthaul_types::Time;

/// Duplicate-ACK threshold (RFC 5681 §3.2).
pub const DUP_THRESH: u64 = 3;

/// Recent acknowledgment (RFC 8985 §6): what was sent sufficiently long before something that has
/// been delivered is lost.
#[derive(Debug)]
pub struct Rack {
    /// The latest-sent range that was delivered: its transmission and its end.
    newest: (u64, u64),
    newest_sent: Time,
    rtt: Duration,
    /// The highest offset delivered.
    highest: u64,
    reordering_seen: bool,
    window_factor: u32,
    /// The stream offset that ends the round in which the factor was raised.
    raised_until: u64,
    /// Recoveries left until the factor falls back to one.
    persist: u32,
}

impl Default for Rack {
    fn default() -> Self {
        Rack {
            newest: (0, 0),
            newest_sent: Time::ZERO,
            rtt: Duration::ZERO,
            highest: 0,
            reordering_seen: false,
            window_factor: 1,
            raised_until: 0,
            persist: 0,
        }
    }
}

impl Rack {
    /// A range was delivered (§6.2 steps 2 and 3), where it is known by what transmission of several: by that `of_original`.
    pub fn on_delivered(&mut self, now: Time, record: &Record, min_rtt: Option<Duration>, of_original: bool) {
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
            self.newest_sent = record.sent.sent_at();
            self.rtt = rtt;
        }
    }

    /// A D-SACK said that a retransmission was not needed: wait longer for reordering (§6.2 step 4).
    pub fn on_duplicate(&mut self, una: u64, nxt: u64) {
        // What was sent again in vain was late, not lost. Its arrival shows the reordering only to a
        // sender that had not sent it again yet (§6.2 step 3); without this, each late segment of a path
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

    /// The transmission and the end of the latest-sent range that was delivered.
    pub fn newest(&self) -> (u64, u64) {
        self.newest
    }

    /// How long after its sending a range is lost, if something sent later was delivered
    /// (§6.2 steps 4 and 5). `sacked` is in bytes.
    pub fn patience(&self, rtt: &RttEstimator, sacked: u64, mss: u32, recovering: bool) -> Duration {
        let reordering = if !self.reordering_seen && (recovering || sacked >= DUP_THRESH * u64::from(mss)) {
            Duration::ZERO
        } else {
            let min = rtt.min_rtt().unwrap_or(self.rtt);
            (min / 4 * self.window_factor).min(rtt.srtt().unwrap_or(min))
        };
        self.rtt + reordering
    }
}
