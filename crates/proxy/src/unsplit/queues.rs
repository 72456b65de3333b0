use super::FlowId;
use super::codel::{Codel, TARGET};
use crate::gateway::Keyed;
use alloc::vec::Vec;
use core::time::Duration;
use hashbrown::HashMap;
use shorthaul_types::Time;
use shorthaul_wire::Packet;
use slab::Slab;

/// Flows that have a queue at once; what is of more passes as it comes.
const MOST_FLOWS: usize = 1 << 13;
/// A flow of which nothing came for this long has no queue any more.
const IDLE: Duration = Duration::from_secs(10);
/// How many queues are looked at, for one that is idle, when a flow begins.
const SEARCH: usize = 8;
/// How many are looked at, for the one that takes the most memory, when there is too little.
const SEARCH_LONGEST: usize = 64;

/// A packet that waits.
#[derive(Debug)]
struct Held {
    packet: Packet,
    size: u64,
    memory: u64,
    came: Time,
    next: Option<u32>,
}

/// What waits of one flow.
#[derive(Debug)]
pub(crate) struct Queue {
    id: FlowId,
    /// Its host in the registry of the access side.
    pub host: u32,
    /// Tells its turns from those of another that has its place at other times.
    pub serial: u64,
    /// It waits for a turn.
    pub waiting: bool,
    /// Its priority and its tickets.
    pub class: (u8, u32),
    /// What it has used, over its tickets.
    pub pass: u64,
    /// Bytes that it may send before all classes.
    pub interactive: u64,
    /// When something of it last came or left.
    pub active_at: Time,
    first: Option<u32>,
    last: Option<u32>,
    bytes: u64,
    memory: u64,
    codel: Codel,
}

impl Queue {
    /// Whether nothing of it waits.
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }
}

/// What waits of all flows. The packets are in one arena: once it has grown, none costs an allocation.
#[derive(Debug)]
pub(crate) struct Queues {
    by_id: HashMap<FlowId, u32, Keyed>,
    queues: Slab<Queue>,
    packets: Slab<Held>,
    bytes: u64,
    memory: u64,
    /// Where the search for idle flows goes on, and the one for the longest.
    hand: usize,
    longest_hand: usize,
    /// The queue that took the most memory, of those that were looked at.
    longest: u32,
    serial: u64,
}

/// What becomes of the packet that is next.
#[derive(Debug)]
pub(crate) enum Next {
    /// It leaves; its size.
    Leaves(Packet, u64),
    /// The same, marked: it was late.
    Marked(Packet, u64),
    /// It was late, and is dropped.
    Dropped,
}

impl Queues {
    pub fn new(hash_seed: u64) -> Self {
        Queues {
            by_id: HashMap::with_hasher(Keyed(hash_seed)),
            queues: Slab::new(),
            packets: Slab::new(),
            bytes: 0,
            memory: 0,
            hand: 0,
            longest_hand: 0,
            longest: 0,
            serial: 0,
        }
    }

    pub fn find(&self, id: &FlowId) -> Option<u32> {
        self.by_id.get(id).copied()
    }

    pub fn get_mut(&mut self, queue: u32) -> Option<&mut Queue> {
        self.queues.get_mut(queue as usize)
    }

    /// Bytes that wait, of all flows.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The memory that they take: the small packets of somebody take many times their bytes.
    pub fn memory(&self) -> u64 {
        self.memory
    }

    fn memory_of(&self, queue: u32) -> u64 {
        self.queues.get(queue as usize).map_or(0, |queue| queue.memory)
    }

    /// A flow to this host begins. `None` if there are too many.
    pub fn insert(&mut self, now: Time, id: FlowId, host: u32, interactive: u64) -> Option<u32> {
        if self.queues.len() >= MOST_FLOWS {
            return None;
        }
        self.serial += 1;
        let queue = self.queues.insert(Queue {
            id,
            host,
            serial: self.serial,
            waiting: false,
            class: (1, 1),
            pass: 0,
            interactive,
            active_at: now,
            first: None,
            last: None,
            bytes: 0,
            memory: 0,
            codel: Codel::default(),
        }) as u32;
        self.by_id.insert(id, queue);
        Some(queue)
    }

    /// Forgets a flow that has been idle for long, if one is found among the next few. Returns its host.
    pub fn forget_idle(&mut self, now: Time) -> Option<u32> {
        for _ in 0..SEARCH {
            let place = self.hand;
            self.hand = if place >= self.queues.capacity() { 0 } else { place + 1 };
            let Some(queue) = self.queues.get(place) else { continue };
            if queue.is_empty() && now.saturating_since(queue.active_at) >= IDLE {
                let gone = self.queues.remove(place);
                self.by_id.remove(&gone.id);
                return Some(gone.host);
            }
        }
        None
    }

    /// A packet of `size` bytes comes.
    pub fn push(&mut self, now: Time, queue: u32, packet: Packet, size: u64) {
        let Some(known) = self.queues.get_mut(queue as usize) else { return };
        let memory = packet.allocated() as u64;
        let held = self.packets.insert(Held { packet, size, memory, came: now, next: None }) as u32;
        match known.last.replace(held) {
            Some(last) => self.packets[last as usize].next = Some(held),
            None => known.first = Some(held),
        }
        known.bytes += size;
        known.memory += memory;
        known.active_at = now;
        self.bytes += size;
        self.memory += memory;
        if self.memory_of(queue) > self.memory_of(self.longest) {
            self.longest = queue;
        }
    }

    fn take_first(&mut self, queue: u32) -> Option<Held> {
        let known = self.queues.get_mut(queue as usize)?;
        let held = self.packets.remove(known.first? as usize);
        known.first = held.next;
        if known.first.is_none() {
            known.last = None;
        }
        known.bytes -= held.size;
        known.memory -= held.memory;
        self.bytes -= held.size;
        self.memory -= held.memory;
        Some(held)
    }

    /// Takes the packet that is next; whether it leaves is said by controlled delay. A flow may have half of a round trip `rtt`
    /// waiting: nobody else waits in its queue, and whoever answers a loss with less than half of its window keeps its share.
    pub fn pop(&mut self, now: Time, queue: u32, rtt: Duration) -> Option<Next> {
        let Held { mut packet, size, came, .. } = self.take_first(queue)?;
        let known = self.queues.get_mut(queue as usize)?;
        known.active_at = now;
        let waited = now.saturating_since(came);
        if !known.codel.is_too_late(now, waited, known.bytes, TARGET.max(rtt / 2)) {
            return Some(Next::Leaves(packet, size));
        }
        Some(if packet.mark_congestion() { Next::Marked(packet, size) } else { Next::Dropped })
    }

    /// Takes the packet that is next as it is.
    pub fn pop_untouched(&mut self, queue: u32) -> Option<Packet> {
        self.take_first(queue).map(|held| held.packet)
    }

    /// Drops the packet that is next of the flow that takes the most memory: the one that was seen to, when something came for it, or one of
    /// the next few, so that a drop costs the same however many flows there are.
    pub fn drop_of_longest(&mut self) {
        let mut longest = self.longest;
        for _ in 0..SEARCH_LONGEST.min(self.queues.capacity()) {
            let place = self.longest_hand;
            self.longest_hand = if place + 1 >= self.queues.capacity() { 0 } else { place + 1 };
            if self.memory_of(place as u32) > self.memory_of(longest) {
                longest = place as u32;
            }
        }
        if self.memory_of(longest) == 0 {
            let first = self.queues.iter().find(|(_, queue)| !queue.is_empty());
            longest = first.map_or(longest, |(place, _)| place as u32);
        }
        self.longest = longest;
        self.take_first(longest);
    }

    /// The flows of a host that wait for a turn.
    pub fn waiting_of(&self, host: u32) -> Vec<u32> {
        let waiting = self.queues.iter().filter(|(_, queue)| queue.host == host && queue.waiting);
        waiting.map(|(place, _)| place as u32).collect()
    }

    /// A flow of which something waits for a host of which this holds.
    pub fn find_busy(&self, is_of: impl Fn(u32) -> bool) -> Option<u32> {
        let mut queues = self.queues.iter();
        queues.find(|(_, queue)| !queue.is_empty() && is_of(queue.host)).map(|(place, _)| place as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;
    use shorthaul_wire::{IpHeader, Ipv4Header, Payload, Transport, UdpHeader};

    fn packet(port: u16, tos: u8) -> Packet {
        let ip = Ipv4Header {
            src: Ipv4Addr::new(192, 0, 2, 1),
            dst: Ipv4Addr::new(10, 0, 0, 1),
            tos,
            ttl: 60,
            id: 0,
            dont_fragment: true,
        };
        let header = UdpHeader { src_port: 443, dst_port: port };
        let transport = Transport::Udp { header, payload: Payload::copy_of(&[0; 1172]) };
        Packet { ip: IpHeader::V4(ip), transport, original: None }
    }

    fn queues() -> Queues {
        Queues::new(1)
    }

    fn put(queues: &mut Queues, now: Time, packet: Packet) -> u32 {
        let id = FlowId::of(&packet);
        let queue = queues.find(&id).unwrap_or_else(|| queues.insert(now, id, 0, 0).unwrap());
        queues.push(now, queue, packet, 1200);
        queue
    }

    #[test]
    fn packets_leave_in_order_and_each_flow_has_a_queue() {
        let mut queues = queues();
        let [a, b] = [1, 2].map(|port| put(&mut queues, Time::ZERO, packet(port, 0)));
        assert_ne!(a, b);
        for tos in [4, 8, 12] {
            assert_eq!(put(&mut queues, Time::ZERO, packet(1, tos)), a);
        }
        assert_eq!(queues.bytes(), 5 * 1200);
        for tos in [0, 4, 8, 12] {
            let Some(Next::Leaves(packet, 1200)) = queues.pop(Time::ZERO, a, Duration::ZERO) else {
                panic!()
            };
            assert_eq!(packet.ip.traffic_class(), tos);
        }
        assert!(queues.pop(Time::ZERO, a, Duration::ZERO).is_none());
        assert_eq!(queues.find_busy(|_| true), Some(b));
        queues.drop_of_longest();
        assert_eq!(queues.bytes(), 0);
    }

    #[test]
    fn what_stands_is_marked_where_it_may_be_and_dropped_elsewhere() {
        for (tos, marked) in [(2, true), (1, true), (0, false)] {
            let mut queues = queues();
            let queue = (0..400).fold(0, |_, _| put(&mut queues, Time::ZERO, packet(1, tos)));
            let (mut marks, mut drops) = (0, 0);
            for ms in 50..450 {
                match queues.pop(Time::from_millis(ms), queue, Duration::ZERO) {
                    Some(Next::Marked(packet, _)) => {
                        assert_eq!(packet.ip.ecn(), 3);
                        marks += 1;
                    }
                    Some(Next::Dropped) => drops += 1,
                    Some(Next::Leaves(packet, _)) => assert_eq!(packet.ip.ecn(), tos),
                    None => panic!(),
                }
            }
            assert!((4..20).contains(&(marks + drops)) && (marks > 0) == marked && (drops > 0) != marked);
        }
    }

    #[test]
    fn a_flow_that_is_idle_has_no_queue_any_more() {
        let mut queues = queues();
        let queue = put(&mut queues, Time::ZERO, packet(1, 0));
        let late = Time::from_secs(20);
        assert!((0..10).all(|_| queues.forget_idle(late).is_none()), "something of it waits");
        queues.pop(Time::ZERO, queue, Duration::ZERO);
        assert!((0..10).filter_map(|_| queues.forget_idle(late)).count() == 1);
        assert!(queues.queues.is_empty() && queues.by_id.is_empty());
    }
}
