//! A tail loss probe (RFC 8985 §7) for all connections of a group together: where nothing is acknowledged any more, one segment asks why before
//! the retransmission timer does.
//!
//! While there is more to send, the window waits for acknowledgments. The timer is longer than RFC 6298 says, for what a stall has only held up
//! comes by itself. But where a way up that was away has lost the acknowledgments of a whole window, all has arrived, and nobody says so: any segment
//! that is sent then has all of it acknowledged. So one of new data leaves; what was on its way is left alone, and so is the window: a probe in vain
//! is one segment that had to be sent anyway.
//!
//! Where all has been sent, it is the last of it that may be lost, and no later delivery will show that. One connection sends its last segment
//! again; what its answer shows to be lost of the others is found as ever, by what was delivered of one that was sent later.
use super::{Aggregate, SPARED};
use core::time::Duration;
use shorthaul_types::Time;

/// So many smoothed round trips without an acknowledgment (RFC 8985 §7.2). While there is more to send, not sooner than the timer is spared for: what a
/// link in a car only holds up is there by then.
const ROUND_TRIPS: u32 = 2;
/// How long an acknowledgment of a single segment is delayed, at worst (RFC 8985 §7.2, WCDelAckT).
const WORST_DELAYED_ACK: Duration = Duration::from_millis(200);

/// When to ask, and of what.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TailProbe {
    at: Option<Time>,
    /// All had been sent when it was armed.
    is_of_tail: bool,
    /// The last segment was sent again, which is not answered yet: once is enough (§7.3).
    is_unanswered: bool,
}

impl TailProbe {
    /// When it is due.
    pub fn at(&self) -> Option<Time> {
        self.at
    }

    /// Nothing is to be asked any more.
    pub fn disarm(&mut self) {
        self.at = None;
    }

    /// Something was acknowledged.
    pub fn on_answer(&mut self) {
        self.is_unanswered = false;
    }
}

impl Aggregate {
    /// Whether all that there was to send is sent.
    fn is_at_tail(&self) -> bool {
        self.queued == 0
    }

    /// Something was acknowledged, or sent for the first time, or all is sent: when to ask next.
    pub(super) fn arm_tail_probe(&mut self, now: Time) {
        let at_tail = self.is_at_tail();
        // While the queue of the link still grows with the window, round trips were all shorter than the next one, and nothing is asked.
        let may_ask =
            self.stall.is_none() && self.window.is_steady() && !(at_tail && self.tail_probe.is_unanswered);
        // A connection with a single segment may have to wait for its peer's timer.
        let singles = u64::from(self.mss) * self.parts.active().max(1) as u64;
        let delayed = if self.in_flight <= singles { WORST_DELAYED_ACK } else { Duration::ZERO };
        let wait = self.rtt.srtt().filter(|_| may_ask).map(|srtt| match at_tail {
            true => srtt * ROUND_TRIPS + delayed,
            false => (srtt * ROUND_TRIPS).max(SPARED),
        });
        self.tail_probe.is_of_tail = at_tail;
        self.tail_probe.at =
            wait.map(|wait| now + wait).filter(|at| self.rto_at.is_some_and(|rto_at| *at < rto_at));
    }

    /// A segment has left: if nothing is left to send, the time of a probe begins.
    pub(super) fn on_last_sent(&mut self, now: Time) {
        if self.is_at_tail() || self.tail_probe.is_of_tail {
            self.arm_tail_probe(now);
        }
    }

    /// Whether a tail loss probe is due. While there is more to send, the next one is as far away, as long as the retransmission timer has not expired.
    pub(super) fn tail_probe_is_due(&mut self, now: Time) -> bool {
        if self.tail_probe.at.is_none_or(|at| at > now) {
            return false;
        }
        let outdated = self.tail_probe.is_of_tail && !self.is_at_tail();
        if self.is_at_tail() {
            self.tail_probe.disarm();
        } else {
            self.arm_tail_probe(now);
        }
        !outdated
    }

    /// The connection in `slot` is to send one segment, whatever the window says: of new data, or the last one again, for whose answer the
    /// retransmission timer waits (RFC 8985 §7.3).
    pub fn probe_tail_with(&mut self, now: Time, slot: u32) {
        if self.is_at_tail() {
            self.tail_probe.is_unanswered = true;
            self.rto_at = Some(now + self.rto());
        }
        self.asking.push_back(slot);
    }
}
