use crate::ack_release::QueueShare;
use core::time::Duration;
use shorthaul_types::Time;

/// A flow that delivered something within this time is one of those that share a queue.
const RECENT: Duration = Duration::from_secs(1);

/// What waits at the gateway for one host, of all flows that follow its queue together.
#[derive(Debug)]
pub(crate) struct HostQueue {
    /// Payload that waits or is under way.
    held: u64,
    /// Payload delivered so far.
    delivered: u64,
    /// The period in which flows are counted, when it began, and how many delivered something in it and in the one
    /// before.
    period: u64,
    began: Time,
    busy: [u32; 2],
}

/// A flow's part in a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueuePlace {
    held: u64,
    delivered: u64,
    /// What the queue had delivered when this flow last delivered something.
    seen: u64,
    /// The period in which it last did.
    period: u64,
}

impl HostQueue {
    pub fn new(now: Time) -> Self {
        HostQueue { held: 0, delivered: 0, period: 0, began: now, busy: [0; 2] }
    }

    /// A flow begins, which had been delivered up to `delivered`.
    pub fn join(&self, delivered: u64) -> QueuePlace {
        QueuePlace { held: 0, delivered, seen: self.delivered, period: u64::MAX }
    }

    /// A flow has ended.
    pub fn leave(&mut self, place: &QueuePlace) {
        self.held -= place.held;
    }

    /// A flow now holds `held` bytes and has been delivered up to `delivered`. What it is to be told, if
    /// that is new.
    pub fn book(
        &mut self,
        now: Time,
        place: &mut QueuePlace,
        held: u64,
        delivered: u64,
    ) -> Option<QueueShare> {
        self.held = self.held - place.held + held;
        place.held = held;
        let newly_delivered = delivered - place.delivered;
        if newly_delivered == 0 {
            return None;
        }
        place.delivered = delivered;
        self.delivered += newly_delivered;
        if now >= self.began + RECENT {
            let follows = now < self.began + 2 * RECENT;
            self.busy = [0, if follows { self.busy[0] } else { 0 }];
            self.period += 1;
            self.began = now;
        }
        if place.period != self.period {
            place.period = self.period;
            self.busy[0] += 1;
        }
        let sharing = self.busy[0].max(self.busy[1]).max(1);
        let all = self.delivered - place.seen;
        let fair = all / u64::from(sharing);
        place.seen = self.delivered;
        Some(QueueShare { delivered: newly_delivered, fair, all, queue: self.held })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_of_a_host_share_a_queue_and_are_told_of_each_other() {
        let at = Time::from_millis;
        let mut queue = HostQueue::new(at(0));
        let [mut a, mut b] = [0; 2].map(|_| queue.join(1));
        assert_eq!(queue.book(at(1), &mut a, 5000, 1), None, "nothing was delivered");
        let first = queue.book(at(2), &mut b, 3000, 3001);
        assert_eq!(first, Some(QueueShare { delivered: 3000, fair: 3000, all: 3000, queue: 8000 }));
        let second = queue.book(at(3), &mut a, 4000, 1001);
        assert_eq!(second, Some(QueueShare { delivered: 1000, fair: 2000, all: 4000, queue: 7000 }));
        // who was silent for two periods shares no more
        let later = queue.book(at(5000), &mut a, 0, 5001);
        assert_eq!(later, Some(QueueShare { delivered: 4000, fair: 4000, all: 4000, queue: 3000 }));
        queue.leave(&b);
        let alone = queue.book(at(5001), &mut a, 100, 5501);
        assert_eq!(alone, Some(QueueShare { delivered: 500, fair: 500, all: 500, queue: 100 }));
    }
}
