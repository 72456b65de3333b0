use crate::gateway::Keyed;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;
use hashbrown::HashMap;
use shorthaul_types::Time;

/// A flow that delivered something within this time is one of those that share a queue.
const RECENT: Duration = Duration::from_secs(1);

/// What waits at the gateway for each mobile host, of all its flows together: the one thing that CLAMP's
/// senders have to be told of the access link.
#[derive(Debug)]
pub(crate) struct EdgeQueues {
    queues: Vec<Option<EdgeQueue>>,
    free: Vec<u32>,
    by_host: HashMap<IpAddr, u32, Keyed>,
}

#[derive(Debug)]
struct EdgeQueue {
    host: IpAddr,
    flows: u32,
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
    index: u32,
    held: u64,
    delivered: u64,
    /// What the queue had delivered when this flow last delivered something.
    seen: u64,
    /// The period in which it last did.
    period: u64,
}

/// What a flow is told when it has delivered something, all in bytes of payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EdgeReport {
    /// What it delivered since it was told last.
    pub delivered: u64,
    /// What each flow would have delivered in that time if all had the same rate.
    pub fair: u64,
    /// What waits at the gateway, or is under way to the host, of all flows.
    pub queue: u64,
}

impl EdgeQueues {
    /// `hash_seed` keeps anybody from choosing addresses that collide.
    pub fn new(hash_seed: u64) -> Self {
        EdgeQueues { queues: Vec::new(), free: Vec::new(), by_host: HashMap::with_hasher(Keyed(hash_seed)) }
    }

    /// A flow to `host` begins, which had been delivered up to `delivered`.
    pub fn join(&mut self, now: Time, host: IpAddr, delivered: u64) -> QueuePlace {
        let place = |index, queue: &EdgeQueue| QueuePlace {
            index,
            held: 0,
            delivered,
            seen: queue.delivered,
            period: u64::MAX,
        };
        if let Some(&index) = self.by_host.get(&host)
            && let Some(queue) = &mut self.queues[index as usize]
        {
            queue.flows += 1;
            return place(index, queue);
        }
        let queue = EdgeQueue { host, flows: 1, held: 0, delivered: 0, period: 0, began: now, busy: [0; 2] };
        let index = self.free.pop().unwrap_or_else(|| {
            self.queues.push(None);
            self.queues.len() as u32 - 1
        });
        let place = place(index, &queue);
        self.queues[index as usize] = Some(queue);
        self.by_host.insert(host, index);
        place
    }

    /// A flow has ended.
    pub fn leave(&mut self, place: QueuePlace) {
        let Some(queue) = &mut self.queues[place.index as usize] else { return };
        queue.held -= place.held;
        queue.flows -= 1;
        if queue.flows == 0 {
            self.by_host.remove(&queue.host);
            self.queues[place.index as usize] = None;
            self.free.push(place.index);
        }
    }

    /// A flow now holds `held` bytes and has been delivered up to `delivered`. What it is to be told, if
    /// that is news.
    pub fn book(
        &mut self,
        now: Time,
        place: &mut QueuePlace,
        held: u64,
        delivered: u64,
    ) -> Option<EdgeReport> {
        let queue = self.queues[place.index as usize].as_mut()?;
        queue.held = queue.held - place.held + held;
        place.held = held;
        let news = delivered - place.delivered;
        if news == 0 {
            return None;
        }
        place.delivered = delivered;
        queue.delivered += news;
        if now >= queue.began + RECENT {
            let follows = now < queue.began + 2 * RECENT;
            queue.busy = [0, if follows { queue.busy[0] } else { 0 }];
            queue.period += 1;
            queue.began = now;
        }
        if place.period != queue.period {
            place.period = queue.period;
            queue.busy[0] += 1;
        }
        let sharing = queue.busy[0].max(queue.busy[1]).max(1);
        let fair = (queue.delivered - place.seen) / u64::from(sharing);
        place.seen = queue.delivered;
        Some(EdgeReport { delivered: news, fair, queue: queue.held })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_of_a_host_share_a_queue_and_are_told_of_each_other() {
        let hosts: [IpAddr; 2] = ["10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap()];
        let mut queues = EdgeQueues::new(1);
        let at = Time::from_millis;
        let [mut a, mut b] = [0; 2].map(|_| queues.join(at(0), hosts[0], 1));
        let mut other = queues.join(at(0), hosts[1], 1);
        assert_eq!(queues.book(at(1), &mut a, 5000, 1), None, "nothing was delivered");
        let first = queues.book(at(2), &mut b, 3000, 3001);
        assert_eq!(first, Some(EdgeReport { delivered: 3000, fair: 3000, queue: 8000 }));
        let second = queues.book(at(3), &mut a, 4000, 1001);
        assert_eq!(second, Some(EdgeReport { delivered: 1000, fair: 2000, queue: 7000 }));
        let alone = queues.book(at(4), &mut other, 100, 501);
        assert_eq!(alone, Some(EdgeReport { delivered: 500, fair: 500, queue: 100 }));
        // who was silent for two periods shares no more
        let later = queues.book(at(5000), &mut a, 0, 5001);
        assert_eq!(later, Some(EdgeReport { delivered: 4000, fair: 4000, queue: 3000 }));
        queues.leave(a);
        queues.leave(b);
        assert_eq!(queues.by_host.len(), 1);
    }
}
