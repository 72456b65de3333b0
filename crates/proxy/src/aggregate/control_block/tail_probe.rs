//! A tail loss probe (RFC 8985 §7) for all connections of a group together: where nothing is acknowledged any more, a segment of new data asks why
//! before the retransmission timer does.
//!
//! The timer is longer than RFC 6298 says, for what a stall has only held up comes by itself. But where a way up that was away has lost the
//! acknowledgments of a whole window, all has arrived, and nobody says so: any segment that is sent then has all of it acknowledged. What was on
//! its way is left alone, and so is the window; a probe in vain is one segment that had to be sent anyway.
use super::{Aggregate, SPARED};
use shorthaul_types::Time;

/// So many smoothed round trips without an acknowledgment (RFC 8985 §7.2), and not sooner than the timer is spared for: what a link in a car only holds up is
/// there by then.
const ROUND_TRIPS: u32 = 2;

impl Aggregate {
    /// Something was acknowledged, or sent for the first time: when to ask next. While the queue of the link still grows with the window, round
    /// trips were all shorter than the next one, and nothing is asked.
    pub(super) fn arm_tail_probe(&mut self, now: Time) {
        let may_ask = self.stall.is_none() && self.window.is_found();
        let wait = self.rtt.srtt().filter(|_| may_ask).map(|srtt| (srtt * ROUND_TRIPS).max(SPARED));
        self.tail_probe_at =
            wait.map(|wait| now + wait).filter(|at| self.rto_at.is_some_and(|rto_at| *at < rto_at));
    }

    /// Whether a tail loss probe is due. The next one is as far away, as long as the retransmission timer has not expired.
    pub(super) fn tail_probe_is_due(&mut self, now: Time) -> bool {
        let due = self.tail_probe_at.is_some_and(|at| at <= now);
        if due {
            self.arm_tail_probe(now);
        }
        due
    }

    /// The connection in `slot` is to send one segment of new data, whatever the window says.
    pub fn probe_tail_with(&mut self, slot: u32) {
        self.asking.push_back(slot);
    }
}
