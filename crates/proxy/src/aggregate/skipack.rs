//! The transmission log of a mobile host, and skipack: losses of one connection that show in the deliveries
//! of the others (AGG §IV-E).
//!
//! The paper counts, for each unacknowledged segment, how many acknowledgments came for something that was sent
//! later, whatever the connection, and retransmits it at three. To count so for every segment would cost each
//! acknowledgment the whole window. It need not: a segment has been skipped three times exactly if it was
//! sent before the third newest of what the acknowledgments were for. So the log keeps three times.
use alloc::collections::VecDeque;
use core::time::Duration;
use shorthaul_congestion::RttEstimator;
use shorthaul_types::Time;

/// How often a transmission is skipped before it is retransmitted.
const SKIPS: usize = 3;
/// By this part of a round trip what was sent first may arrive later (RACK.reo_wnd, RFC 8985 §6.2).
const REORDERING: u32 = 4;
/// The longest that a peer is expected to delay an acknowledgment (RFC 8985 §7.2, WCDelAckT). On GPRS three
/// segments take longer than that; on faster links, a segment alone would be taken for lost while its
/// acknowledgment is only delayed. Two that arrive are acknowledged at once.
pub(super) const DELAYED_ACK: Duration = Duration::from_millis(200);

/// What was sent and is not known to be settled, in the order of sending.
#[derive(Debug, Default)]
pub(crate) struct SkipackLog {
    sent: VecDeque<(Time, u32)>,
    /// Of these the acknowledgments may still come.
    kept: VecDeque<(Time, u32)>,
    /// These are looked at again, as if they had been sent at that time.
    again: VecDeque<(Time, u32)>,
    /// When it was last emptied.
    cleared_at: Time,
    /// When the newest things were sent that acknowledgments delivered, newest first.
    newest: [Option<Time>; SKIPS],
}

/// A connection that has sent something that others' deliveries show to be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Skipped {
    /// Its slot.
    pub slot: u32,
    /// All that it sent before this time, and that is not acknowledged, is lost.
    pub before: Time,
    /// Its acknowledgment was waited for as long as one may be delayed.
    pub is_overdue: bool,
    sent: Time,
}

impl Skipped {
    /// Whether it was kept at this time.
    pub fn was_kept_at(&self, time: Option<Time>) -> bool {
        time == Some(self.sent)
    }

    /// Lost is only what was sent longer ago than this connection's own round trips take.
    pub fn wait_for(&mut self, now: Time, rtt: &RttEstimator) {
        let own = rtt.srtt().max(rtt.latest()).unwrap_or_default();
        let aged = now.as_nanos().saturating_sub((own + own / REORDERING).as_nanos() as u64);
        self.before = self.before.min(Time::from_nanos(aged));
    }

    /// Whether it was sent less than a round trip of this length ago, and by how much packets are reordered.
    pub fn is_too_early(&self, now: Time, rtt: Duration) -> bool {
        now < self.sent + rtt + rtt / REORDERING
    }
}

impl SkipackLog {
    /// The connection in slot `flow` sent something.
    pub fn on_send(&mut self, now: Time, flow: u32) {
        if self.sent.back() != Some(&(now, flow)) {
            self.sent.push_back((now, flow));
        }
    }

    /// An acknowledgment delivered something that was sent at `sent`.
    pub fn on_ack(&mut self, sent: Time) {
        let place = self.newest.iter().position(|newest| newest.is_none_or(|newest| newest < sent));
        if let Some(place) = place {
            self.newest[place..].rotate_right(1);
            self.newest[place] = Some(sent);
        }
    }

    /// What was sent before this time was skipped often enough.
    fn skipped_before(&self) -> Option<Time> {
        self.newest[SKIPS - 1]
    }

    /// What was sent before this time was skipped, and not answered within `wait`.
    fn lost_before(&self, now: Time, wait: Duration) -> Option<Time> {
        let aged = now.as_nanos().checked_sub(wait.as_nanos() as u64)?;
        // All of that time must have passed.
        self.skipped_before().map(|skipped| skipped.min(Time::from_nanos(aged + 1)))
    }

    /// The next connection that sent something that is lost, where round trips take `rtt`. It leaves the log, unless it is
    /// [kept](SkipackLog::keep).
    pub fn pop_lost(&mut self, now: Time, rtt: Duration) -> Option<Skipped> {
        let overdue = self.lost_before(now, rtt + DELAYED_ACK);
        let skipped = self.lost_before(now, rtt + rtt / REORDERING);
        let of = |log: &mut VecDeque<(Time, u32)>, before: Time, is_overdue| {
            let (sent, slot) = log.pop_front_if(|(sent, _)| *sent < before)?;
            Some(Skipped { slot, before, is_overdue, sent })
        };
        let kept = overdue.and_then(|before| {
            of(&mut self.kept, before, true).or_else(|| of(&mut self.again, before, true))
        });
        kept.or_else(|| {
            let before = skipped?;
            let is_overdue = |sent: Time| overdue.is_some_and(|overdue| sent < overdue);
            of(&mut self.sent, before, false)
                .map(|skipped| Skipped { is_overdue: is_overdue(skipped.sent), ..skipped })
        })
    }

    /// What was said to be lost is a segment alone, or was sent to a host that is farther away: it is lost when no acknowledgment is delayed for so
    /// long.
    pub fn keep(&mut self, skipped: Skipped) {
        self.kept.push_back((skipped.sent, skipped.slot));
    }

    /// The same, as if it had been sent now: it is looked at again as long after.
    pub fn keep_from(&mut self, now: Time, skipped: Skipped) {
        self.again.push_back((now, skipped.slot));
    }

    /// When something more will be lost if nothing else happens.
    pub fn deadline(&self, rtt: Duration) -> Option<Time> {
        let skipped = self.skipped_before()?;
        let of = |log: &VecDeque<(Time, u32)>, wait| {
            log.front().filter(|(sent, _)| *sent < skipped).map(|(sent, _)| *sent + wait)
        };
        let delayed = rtt + DELAYED_ACK;
        let all = [of(&self.sent, rtt + rtt / REORDERING), of(&self.kept, delayed), of(&self.again, delayed)];
        all.into_iter().flatten().min()
    }

    /// When nothing was outstanding last.
    pub fn cleared_at(&self) -> Time {
        self.cleared_at
    }

    /// Nothing is outstanding.
    pub fn clear(&mut self, now: Time) {
        self.cleared_at = now;
        self.sent.clear();
        self.kept.clear();
        self.again.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    const RTT: Duration = Duration::from_millis(100);

    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    #[test]
    fn three_acknowledgments_for_later_segments_are_needed() {
        let mut log = SkipackLog::default();
        for t in 0..5 {
            log.on_send(ms(t), t as u32);
        }
        log.on_ack(ms(1));
        log.on_ack(ms(2));
        assert_eq!(log.pop_lost(ms(2000), RTT), None);
        log.on_ack(ms(3));
        let lost = log.pop_lost(ms(2000), RTT).unwrap();
        assert_eq!((lost.slot, lost.before, lost.is_overdue), (0, ms(1), true));
        assert_eq!(log.pop_lost(ms(2000), RTT), None, "what was sent at the same time is not before");
    }

    #[test]
    fn one_that_may_be_delayed_is_waited_for_and_another_no_longer_than_packets_are_reordered() {
        let mut log = SkipackLog::default();
        (0..4).for_each(|t| log.on_send(ms(t), t as u32));
        (1..4).for_each(|t| log.on_ack(ms(t)));
        assert_eq!(log.deadline(RTT), Some(ms(125)));
        assert_eq!(log.pop_lost(ms(124), RTT), None);
        let lost = log.pop_lost(ms(125), RTT).unwrap();
        assert_eq!((lost.slot, lost.is_overdue), (0, false));
        log.keep(lost);
        assert_eq!(log.deadline(RTT), Some(ms(300)));
        assert_eq!(log.pop_lost(ms(299), RTT), None);
        let lost = log.pop_lost(ms(300), RTT).unwrap();
        assert_eq!((lost.slot, lost.is_overdue), (0, true));
        assert_eq!(log.deadline(RTT), None);
    }

    proptest! {
        /// The paper's own way to count, a number for each segment, finds the same losses.
        #[test]
        fn the_third_newest_stands_for_a_count_of_each(acks in proptest::collection::vec(0u64..30, 0..40)) {
            let mut log = SkipackLog::default();
            let mut skipped: Vec<u32> = alloc::vec![0; 30];
            (0..30).for_each(|t| log.on_send(ms(t), t as u32));
            for sent in acks {
                log.on_ack(ms(sent));
                skipped[..sent as usize].iter_mut().for_each(|count| *count += 1);
            }
            let before = log.lost_before(ms(10_000), RTT + DELAYED_ACK).unwrap_or(Time::ZERO);
            for (sent, count) in skipped.iter().enumerate() {
                prop_assert_eq!(ms(sent as u64) < before, *count >= 3, "sent at {} ms, skipped {}", sent, count);
            }
        }
    }
}
