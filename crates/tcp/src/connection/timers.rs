use super::{Connection, ConnectionConfig, Event, Failure, State};
use core::time::Duration;
use shorthaul_types::{Deadline, Time};

/// The timers of a connection that are not those of its halves.
#[derive(Debug)]
pub(super) struct Timers {
    /// When our SYN or SYN-ACK is retransmitted; none before it was sent.
    pub syn_at: Option<Time>,
    time_wait_until: Option<Time>,
    /// When something of the peer arrived last.
    pub heard_at: Time,
    /// Since when we wait for an answer to what was sent.
    pub waiting_since: Option<Time>,
    /// Unanswered keep-alive probes.
    probes: u32,
    /// From when the next keep-alive interval counts.
    quiet_since: Time,
    /// A keep-alive probe is to leave.
    pub probe_due: bool,
}

impl Timers {
    pub(super) fn new(now: Time) -> Self {
        Timers {
            syn_at: None,
            time_wait_until: None,
            heard_at: now,
            waiting_since: None,
            probes: 0,
            quiet_since: now,
            probe_due: false,
        }
    }

    pub(super) fn on_open(&mut self, now: Time, config: &ConnectionConfig) {
        self.waiting_since = config.user_timeout.map(|_| now);
    }

    /// The SYN left for the `retransmissions`th time again: it waits twice as long each time (RFC 6298 §5).
    pub(super) fn start_syn(&mut self, now: Time, config: &ConnectionConfig, retransmissions: u32) {
        let rtt = &config.profile.rto;
        let wait = rtt.initial_rto.saturating_mul(1 << retransmissions.min(16)).min(rtt.max_rto);
        self.syn_at = Some(now + wait);
    }

    pub(super) fn on_established(&mut self, now: Time) {
        self.syn_at = None;
        self.waiting_since = None;
        self.on_heard(now);
    }

    pub(super) fn on_heard(&mut self, now: Time) {
        self.heard_at = now;
        self.quiet_since = now;
        self.probes = 0;
        self.probe_due = false;
    }

    pub(super) fn start_time_wait(&mut self, now: Time, length: Duration) {
        self.waiting_since = None;
        self.time_wait_until = Some(now + length);
    }

    /// The connection is no more.
    pub(super) fn stop(&mut self, now: Time) {
        *self = Timers::new(now);
    }
}

impl Connection {
    pub(super) fn on_timeout(&mut self, now: Time) {
        let due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        match self.state {
            State::Closed | State::Listen => return,
            State::SynSent | State::SynReceived => {
                if due(self.timers.syn_at) {
                    self.on_syn_timeout(now);
                }
            }
            State::TimeWait => {
                if due(self.timers.time_wait_until) {
                    self.end(now, Event::Closed);
                }
                return;
            }
            _ => {
                self.sender.on_timeout(now);
                if self.sender.has_given_up() {
                    return self.give_up(now);
                }
            }
        }
        if due(self.abandoned_at()) {
            return self.end(now, Event::Closed);
        }
        if due(self.user_timeout_at()) {
            return self.fail(now, Failure::UserTimeout);
        }
        if due(self.keep_alive_at()) {
            self.on_keep_alive(now);
        }
    }

    fn on_syn_timeout(&mut self, now: Time) {
        let limit = self.config.syn_retries.saturating_sub(u32::from(self.state == State::SynReceived));
        if self.opening.retransmissions >= limit {
            return self.give_up(now);
        }
        self.opening.retransmissions += 1;
        self.opening.due = true;
        self.timers.syn_at = None;
    }

    fn give_up(&mut self, now: Time) {
        let failure = if self.unreachable { Failure::Unreachable } else { Failure::TimedOut };
        self.fail(now, failure);
    }

    fn on_keep_alive(&mut self, now: Time) {
        let Some(keep_alive) = self.config.keep_alive else { return };
        self.timers.quiet_since = now;
        if !self.sender.is_idle() {
            return; // retransmissions and window probes ask already
        }
        if self.timers.probes >= keep_alive.probes {
            return self.fail(now, Failure::KeepAlive);
        }
        self.timers.probes += 1;
        self.timers.probe_due = true;
    }

    fn keep_alive_at(&self) -> Option<Time> {
        let keep_alive = self.config.keep_alive?;
        let wait = if self.timers.probes == 0 { keep_alive.idle } else { keep_alive.interval };
        let alive = self.state.is_synchronized() && self.state != State::TimeWait;
        alive.then(|| self.timers.quiet_since + wait)
    }

    /// When a peer that does not close is waited for no more.
    fn abandoned_at(&self) -> Option<Time> {
        let waits = self.abandoned && self.state == State::FinWait2;
        waits.then(|| self.timers.heard_at + self.config.time_wait)
    }

    fn user_timeout_at(&self) -> Option<Time> {
        Some(self.timers.waiting_since? + self.config.user_timeout?)
    }

    /// Its timers are served up to `late` after they are due ([`Sender::set_lateness`](crate::Sender::set_lateness)).
    pub fn set_lateness(&mut self, late: Duration) {
        self.sender.set_lateness(late);
    }

    pub(super) fn next_deadline(&self) -> Option<Deadline> {
        let timers = &self.timers;
        let own = match self.state {
            State::Closed | State::Listen => return None,
            State::TimeWait => [timers.time_wait_until.map(|at| (at, "time-wait")), None],
            State::FinWait2 if self.abandoned => [self.abandoned_at().map(|at| (at, "fin-wait-2")), None],
            State::SynSent | State::SynReceived => {
                [timers.syn_at.map(|at| (at, "syn")), self.user_timeout_at().map(|at| (at, "user-timeout"))]
            }
            _ => [
                self.keep_alive_at().map(|at| (at, "keep-alive")),
                self.user_timeout_at().map(|at| (at, "user-timeout")),
            ],
        };
        let deadlines = own.map(|timer| timer.map(|(at, timer)| Deadline { at, timer }));
        let halves = match self.state {
            State::SynSent | State::SynReceived => [None, None],
            State::TimeWait => [None, self.receiver.poll_timeout()],
            _ => [self.sender.poll_timeout(), self.receiver.poll_timeout()],
        };
        deadlines.into_iter().chain(halves).fold(None, Deadline::earliest)
    }
}
