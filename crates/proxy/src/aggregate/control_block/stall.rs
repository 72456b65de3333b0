//! The link carries nothing, or a connection's own peer does not answer: who asks, and how often.
use super::{Aggregate, Expired, Stall};
use crate::SplitFlow;
use crate::aggregate::member::{Member, Silence};
use core::cmp::Reverse;
use core::time::Duration;
use shorthaul_types::Time;

/// At most this many probes leave 1.5 round trips apart; after that each waits that much longer than the one before.
const STEADY_PROBES: u32 = 16;
/// When the link is back, the connections that did not answer send at most one part in this many of the window, beside it.
const ASKED_AT_ONCE: u64 = 4;
/// The longest time between two probes.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// A connection of which nothing was answered for this long is given up: as long as Linux tries (`tcp_retries2`).
const GIVE_UP: Duration = Duration::from_secs(924);
/// A connection is silent itself, and it is not the link, that does not answer for this many round trips while others do.
const SILENT_ROUND_TRIPS: u32 = 4;
/// The least time without an answer after which a connection is silent itself.
const SILENT_TIME: Duration = Duration::from_secs(1);
/// The longest time between two questions to a silent connection (RFC 6298 §2.5 asks for 60 s at least).
const LONGEST_SILENCE: Duration = Duration::from_secs(60);

/// When a silent connection is to be asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Question {
    pub at: Time,
    pub slot: u32,
    /// Of the connection that has the slot.
    pub serial: u64,
}

/// What becomes of a silent connection whose time has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// It is asked again.
    Asks,
    /// It has been silent for too long.
    GivesUp,
}

impl Aggregate {
    /// How long to wait after a probe: linear, not exponential. By the shortest round trip, for what was queued on a link
    /// that has dropped everything is no more; if that was not another path's, much longer ago.
    fn probe_wait(&self, probes: u32) -> Duration {
        let rtt = self.rtt.srtt().map(|srtt| self.rtt.min_rtt().map_or(srtt, |min| min.max(srtt / 2)));
        let one_and_a_half = rtt.map_or(Duration::from_secs(1), |rtt| rtt * 3 / 2);
        let steps = 1 + probes.saturating_sub(STEADY_PROBES);
        one_and_a_half.saturating_mul(steps).clamp(Duration::from_millis(10), LONGEST_WAIT)
    }

    /// A connection that did not probe the link yet in this stall has something to send. It may be that not the link is gone,
    /// but others' peers: to find that does not wait for long.
    pub fn probe_soon(&mut self, member: &Member) {
        if let Some(stall) = &self.stall
            && member.probed_at < stall.since
        {
            let soon = stall.probed_at + self.probe_wait(0);
            self.rto_at = Some(self.rto_at.map_or(soon, |at| at.min(soon)));
        }
    }

    /// There is nothing to probe the link with: what there is to send may be sent.
    pub fn resume(&mut self, now: Time) {
        self.stall = None;
        self.rto_at = None;
        self.settle_timer(now);
    }

    /// Something of the connection in `slot` is lost, as others' deliveries show. Whoever does not answer for long, while others
    /// do, is silent itself.
    pub fn on_lost(&mut self, now: Time, slot: u32, member: &mut Member, flow: &SplitFlow) {
        let since = *member.unanswered.get_or_insert(now);
        let round_trips = self.rack_rtt().unwrap_or_default() * SILENT_ROUND_TRIPS;
        let (Some(sender), true) =
            (flow.managed_sender(), now.saturating_since(since) >= round_trips.max(SILENT_TIME))
        else {
            return;
        };
        if self.stall.is_some() || member.silence.is_some() || !(sender.in_flight() > 0 || sender.may_send())
        {
            return;
        }
        let wait = self.probe_wait(0).max(SILENT_TIME);
        member.silence = Some(Silence { ask_at: now + wait, wait });
        self.questions.push(Reverse(Question { at: now + wait, slot, serial: member.serial }));
        self.count(now, member, sender);
        if core::mem::take(&mut member.active) {
            self.parts.set_active(member.part, false);
        }
        self.on_active(now);
        self.settle_timer(now);
    }

    /// The link is back. That a connection did not answer meanwhile says nothing of it; but if it had not answered
    /// before the stall either, then there was perhaps none.
    pub fn on_link_back(&mut self, now: Time, slot: u32, member: &mut Member, flow: &SplitFlow) {
        match member.unanswered {
            Some(since) if since < self.stalled_at => self.on_lost(now, slot, member, flow),
            // Who was asked meanwhile owes an answer from now on.
            Some(_) => member.unanswered = (member.probed_at >= self.stalled_at).then_some(now),
            None => {}
        }
    }

    /// When the next silent connection is to be asked again.
    pub(super) fn next_question(&self) -> Option<Time> {
        self.questions.peek().map(|Reverse(question)| question.at)
    }

    /// The next silent connection whose time has come, by slot and serial number. It may have answered, or be another one's by now.
    pub fn pop_question(&mut self, now: Time) -> Option<(u32, u64)> {
        if self.next_question()? > now {
            return None;
        }
        self.questions.pop().map(|Reverse(question)| (question.slot, question.serial))
    }

    /// What becomes of the connection in `slot`, if it is silent and its time has come. When to ask it next is noted.
    pub fn asks(&mut self, now: Time, slot: u32, member: &mut Member) -> Option<Patience> {
        let silence = member.silence.as_mut().filter(|silence| silence.ask_at <= now)?;
        silence.wait = (2 * silence.wait).min(LONGEST_SILENCE);
        silence.ask_at = now + silence.wait;
        self.questions.push(Reverse(Question { at: silence.ask_at, slot, serial: member.serial }));
        let silent = now.saturating_since(member.unanswered.unwrap_or(now));
        Some(if silent > GIVE_UP { Patience::GivesUp } else { Patience::Asks })
    }

    /// Whether nothing of a connection was answered for so long, while the link carried nothing, that its peer is taken for gone. Who has nothing on its way
    /// owes no answer, however long the others wait for theirs.
    pub fn gives_up(&self, now: Time, member: &mut Member, flow: &SplitFlow) -> bool {
        let owes = flow.managed_sender().is_some_and(|sender| sender.undelivered() > 0);
        owes && member.silence.is_none()
            && now.saturating_since(*member.unanswered.get_or_insert(now)) > GIVE_UP
    }

    /// The order in which connections probe a stalled link: those first that have not done so. Of these, those of which nothing is on its way, for nobody
    /// has failed to answer them; then with the oldest of what is. After that by turns, for the peer of one may be gone where the link is not. Of
    /// equals, the one that has not probed a link for the longest, and the newest.
    pub fn probe_order(&self, member: &Member, flow: &SplitFlow) -> Option<impl Ord + use<>> {
        let sender = flow.managed_sender().filter(|_| member.silence.is_none())?;
        let since = self.stall.as_ref()?.since;
        let probed = if member.probed_at < since { Time::ZERO } else { member.probed_at };
        let oldest = match sender.oldest_in_flight() {
            Some(sent) => sent,
            // Who has no room takes nothing, and answers nothing that would say that the link is back.
            None if sender.may_send() && sender.undelivered() == 0 => Time::ZERO,
            None if sender.may_send() => Time::MAX,
            None => return None,
        };
        Some((probed, oldest, member.probed_at, Reverse(member.serial)))
    }

    /// A deadline has passed.
    pub fn on_timeout(&mut self, now: Time) -> Expired {
        if self.pace_at.is_some_and(|at| at <= now) {
            self.pace_at = None;
        }
        if self.look_at.is_some_and(|at| at <= now) {
            self.look_at = None;
        }
        if self.next_question().is_some_and(|at| at <= now) {
            return Expired::Ask;
        }
        if self.rto_at.is_none_or(|at| at > now) {
            return if self.tail_probe_is_due(now) { Expired::TailProbe } else { Expired::Look };
        }
        self.tail_probe.disarm();
        let stall = self.stall.get_or_insert(Stall { since: now, probes: 0, probed_at: now });
        self.stalled_at = stall.since;
        stall.probes += 1;
        stall.probed_at = now;
        let probes = stall.probes;
        self.rto_at = Some(now + self.probe_wait(probes));
        Expired::Probe
    }

    /// The connection in `slot` is to send one segment: what it sent first, if anything is outstanding.
    pub fn ask_with(&mut self, now: Time, slot: u32, member: &mut Member, flow: &mut SplitFlow) {
        member.probed_at = now;
        member.unanswered.get_or_insert(now);
        if let Some(sender) = flow.managed_sender_mut() {
            sender.on_manager_timeout(now);
        }
        self.asking.push_back(slot);
    }

    /// The link is back, and nothing of the connection in `slot` was answered: it sends a segment of new data, or what it sent first, where it has none or that
    /// was its question before.
    pub fn ask_once_more(&mut self, now: Time, slot: u32, member: &mut Member, flow: &mut SplitFlow) {
        let has_asked = member.probed_at >= self.stalled_at;
        match flow.managed_sender() {
            Some(sender) if !has_asked && sender.sendable() > 0 => self.asking.push_back(slot),
            _ => self.ask_with(now, slot, member, flow),
        }
    }

    /// So many connections may send a segment each when the link is back, whatever the window says: a part of what its queue was found to take, for what
    /// the stall has only held up may be in it.
    pub fn may_ask_at_once(&self) -> usize {
        (self.window() / ASKED_AT_ONCE / u64::from(self.mss)).max(1) as usize
    }

    /// Whether the link is believed to carry nothing now.
    pub fn is_stalled(&self) -> bool {
        self.stall.is_some()
    }
}
