//! When a sender is to be woken.
use super::{Sender, State};
use core::time::Duration;
use shorthaul_congestion::RttEstimator;
use shorthaul_types::{Deadline, Time};

/// After this many RTOs in a row without an answer the peer is taken for dead (as Linux's `tcp_retries2`).
const MAX_TIMEOUTS: u32 = 15;

/// The timers that are the sender's own.
#[derive(Debug, Default)]
pub(super) struct Timers {
    /// The retransmission timer (RFC 6298).
    pub rto_at: Option<Time>,
    /// When the pacer lets something leave.
    pub pace_at: Option<Time>,
    /// RTOs in a row without an answer.
    pub timeouts: u32,
    /// When the receiver last took back what it had reported, and all of that was forgotten, in milliseconds; at 0, never.
    pub reneged_at: u32,
}

/// When the retransmission timer expires that is started now: coarse timers only do on a tick.
pub(super) fn rto_deadline(rtt: &RttEstimator, now: Time) -> Time {
    let at = now + rtt.rto();
    let tick = rtt.config().tick.as_nanos() as u64;
    if tick == 0 { at } else { Time::from_nanos(at.as_nanos().div_ceil(tick).saturating_mul(tick)) }
}

impl Sender {
    /// Whether the peer has not answered for so long that it is taken for dead.
    pub fn has_given_up(&self) -> bool {
        self.timers.timeouts > MAX_TIMEOUTS
    }

    pub(super) fn rto_deadline(&self, now: Time) -> Time {
        let rto = rto_deadline(&self.rtt, now);
        self.start.patience(self.rtt.known()).map_or(rto, |patience| rto.min(now + patience))
    }

    pub(super) fn arm_persist(&mut self, now: Time) {
        if self.board.is_empty() || self.is_shut() {
            self.persist.arm(now, self.rtt.rto());
        }
    }

    /// A timer may have fired.
    pub fn on_timeout(&mut self, now: Time) {
        let due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        if let State::Waiting { sign, .. } = self.state {
            let response = self.discriminator.on_timeout(now);
            self.answer_loss(now, sign, response, self.flight_size());
        }
        if due(self.timers.pace_at) {
            self.timers.pace_at = None;
        }
        if due(self.detector.poll_timeout().map(|deadline| deadline.at)) {
            self.find_losses(now, None);
        }
        if self.persist.expires(now) {
            self.timers.timeouts += 1;
            self.arm_persist(now);
        }
        if due(self.manager.own_timer(self.timers.rto_at)) {
            self.on_retransmission_timeout(now);
        }
    }

    /// Timers are served up to `late` after they are due. What that time earns leaves at once, but no more than half of
    /// a round trip: what acknowledgments that come at once let out of a sender that does not pace.
    pub fn set_lateness(&mut self, late: Duration) {
        self.pacer.set_lateness(late.min(self.rtt.srtt().unwrap_or_default() / 2));
    }

    /// When to call [`Sender::on_timeout`] next.
    pub fn poll_timeout(&self) -> Option<Deadline> {
        let named = |at: Option<Time>, timer| at.map(|at| Deadline { at, timer });
        let discriminator = match self.state {
            State::Waiting { .. } => self.discriminator.poll_timeout(),
            _ => None,
        };
        let all = [
            named(self.manager.own_timer(self.timers.rto_at), "rto"),
            self.detector.poll_timeout().filter(|_| !self.is_shut()),
            named(self.persist.at(), "persist"),
            named(self.timers.pace_at, "pace"),
            discriminator,
        ];
        all.into_iter().flatten().min_by_key(|deadline| deadline.at)
    }
}
