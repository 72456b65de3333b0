//! The transmission log of a mobile host, and skipack: losses of one connection that show in the deliveries
//! of the others (AGG §IV-E).
//!
//! The paper counts, for each unacknowledged segment, how many acknowledgments came for something that was sent
//! later, whatever the connection, and retransmits it at three. To count so for every segment would cost each
//! acknowledgment the whole window. It need not: a segment has been skipped three times exactly if it was
//! sent before the third newest of what the acknowledgments were for. So the log keeps three times.
use alloc::collections::VecDeque;
use core::time::Duration;
use shorthaul_types::Time;

/// How often a transmission is skipped before it is retransmitted.
const SKIPS: usize = 3;
/// The longest that a peer is expected to delay an acknowledgment (RFC 8985 §7.2, WCDelAckT). On GPRS three
/// segments take longer than that; on faster links, a segment alone would be taken for lost while its
/// acknowledgment is only delayed.
const DELAYED_ACK: Duration = Duration::from_millis(200);

/// What was sent and is not known to be settled, in the order of sending.
#[derive(Debug, Default)]
pub(crate) struct SkipackLog {
    sent: VecDeque<(Time, u32)>,
    /// When the newest things were sent that acknowledgments delivered, newest first.
    newest: [Option<Time>; SKIPS],
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

    /// What was sent before this time, and is not acknowledged, is lost, where round trips take `rtt`.
    pub fn lost_before(&self, now: Time, rtt: Duration) -> Option<Time> {
        let latest_answer = rtt + DELAYED_ACK;
        let aged = now.as_nanos().checked_sub(latest_answer.as_nanos() as u64).map(Time::from_nanos)?;
        // All of that time must have passed.
        let aged = Time::from_nanos(aged.as_nanos() + 1);
        self.skipped_before().map(|skipped| skipped.min(aged))
    }

    /// A connection that sent something before `lost`, and leaves the log with it.
    pub fn pop_before(&mut self, lost: Time) -> Option<u32> {
        self.sent.pop_front_if(|(sent, _)| *sent < lost).map(|(_, flow)| flow)
    }

    /// When something more will be lost if nothing else happens.
    pub fn deadline(&self, rtt: Duration) -> Option<Time> {
        let (sent, _) = self.sent.front()?;
        (*sent < self.skipped_before()?).then(|| *sent + rtt + DELAYED_ACK)
    }

    /// Nothing is outstanding.
    pub fn clear(&mut self) {
        self.sent.clear();
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
        assert_eq!(log.lost_before(ms(2000), RTT), None);
        log.on_ack(ms(3));
        assert_eq!(log.lost_before(ms(2000), RTT), Some(ms(1)));
        assert_eq!(log.pop_before(ms(1)), Some(0));
        assert_eq!(log.pop_before(ms(1)), None, "what was sent at the same time is not before");
    }

    #[test]
    fn an_acknowledgment_that_may_be_delayed_is_waited_for() {
        let mut log = SkipackLog::default();
        (0..4).for_each(|t| log.on_send(ms(t), t as u32));
        (1..4).for_each(|t| log.on_ack(ms(t)));
        let deadline = log.deadline(RTT).unwrap();
        assert_eq!(deadline, ms(300));
        assert!(log.lost_before(ms(299), RTT).is_none_or(|before| before <= ms(0)));
        assert!(log.lost_before(deadline, RTT).unwrap() > ms(0));
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
            let before = log.lost_before(ms(10_000), RTT).unwrap_or(Time::ZERO);
            for (sent, count) in skipped.iter().enumerate() {
                prop_assert_eq!(ms(sent as u64) < before, *count >= 3, "sent at {} ms, skipped {}", sent, count);
            }
        }
    }
}
