use super::FlowId;
use super::codel::{Codel, TARGET, is_above_step};
use crate::gateway::Keyed;
use alloc::vec::Vec;
use core::hash::BuildHasher;
use core::time::Duration;
use hashbrown::HashMap;
use shorthaul_types::{SeqNum, Time};
use shorthaul_wire::{IpHeader, Packet, TcpFlags, Transport};
use slab::Slab;

/// Queues at once, of all hosts, and of one of them: who opens many flows leaves places for others. Flows beyond share queues with others of
/// their host.
const MOST: usize = 1 << 13;
const MOST_OF_HOST: u32 = MOST as u32 / 8;
/// Queues of a host that flows share, at most.
const SHARED: usize = 8;
/// The codepoint of scalable senders (RFC 9331 §4.1).
const ECT_1: u8 = 1;
/// With those that are shared. Beyond that packets pass as they come.
const MOST_WITH_SHARED: usize = 2 * MOST;
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
    /// `None` if flows share it.
    id: Option<FlowId>,
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
    /// When it had its last turn, if that left something; and how long one usually is in coming.
    left_at: Option<Time>,
    between_turns: Duration,
}

impl Queue {
    /// It has a turn.
    pub fn begin_turn(&mut self, now: Time) {
        if let Some(left_at) = self.left_at.take() {
            let since = now.saturating_since(left_at);
            self.between_turns = (self.between_turns * 7 + since) / 8;
        }
    }

    /// The turn is over.
    pub fn end_turn(&mut self, now: Time) {
        self.left_at = (!self.is_empty()).then_some(now);
    }

    /// Whether nothing of it waits.
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }
}

/// The queues of one host.
#[derive(Debug, Default)]
struct OfHost {
    count: u32,
    shared: [Option<u32>; SHARED],
}

/// What waits of all flows. The packets are in one arena: once it has grown, none costs an allocation.
#[derive(Debug)]
pub(crate) struct Queues {
    by_id: HashMap<FlowId, u32, Keyed>,
    hosts: HashMap<u32, OfHost, Keyed>,
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
    /// It was late: its first segment is dropped, the others leave.
    Trimmed(Packet, u64),
    /// It was late, and is dropped.
    Dropped,
}

impl Queues {
    pub fn new(hash_seed: u64) -> Self {
        Queues {
            by_id: HashMap::with_hasher(Keyed(hash_seed)),
            hosts: HashMap::with_hasher(Keyed(hash_seed)),
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

    /// How many queues there are.
    pub fn len(&self) -> usize {
        self.queues.len()
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

    /// The queue of a flow to this host that has none of its own: a new one, or one that it shares. `None` if there are too many.
    pub fn insert(&mut self, now: Time, id: FlowId, host: u32, interactive: u64) -> Option<u32> {
        let place = self.by_id.hasher().hash_one(id) as usize % SHARED;
        let (count, shared) = self.hosts.get(&host).map_or((0, None), |of| (of.count, of.shared[place]));
        let is_full = count >= MOST_OF_HOST || self.queues.len() >= MOST;
        if let Some(queue) = shared
            // Its packets may wait there: those that come now stay behind them.
            && (is_full || !self.queues[queue as usize].is_empty())
        {
            return Some(queue);
        }
        if self.queues.len() >= MOST_WITH_SHARED {
            return None;
        }
        self.serial += 1;
        let queue = self.queues.insert(Queue {
            id: (!is_full).then_some(id),
            host,
            serial: self.serial,
            waiting: false,
            class: (1, 1),
            pass: 0,
            // Whoever opens many flows is not before others with each.
            interactive: if is_full { 0 } else { interactive },
            active_at: now,
            first: None,
            last: None,
            bytes: 0,
            memory: 0,
            codel: Codel::default(),
            left_at: None,
            between_turns: Duration::ZERO,
        }) as u32;
        let of_host = self.hosts.entry(host).or_default();
        of_host.count += 1;
        if is_full {
            of_host.shared[place] = Some(queue);
        } else {
            self.by_id.insert(id, queue);
        }
        Some(queue)
    }

    /// Forgets a flow that has been idle for long, if one is found among the next few; any that is idle, where there are too many. Returns
    /// its host.
    pub fn forget_idle(&mut self, now: Time) -> Option<u32> {
        let idle = if self.queues.len() < MOST { IDLE } else { Duration::ZERO };
        for _ in 0..SEARCH {
            let place = self.hand;
            self.hand = if place >= self.queues.capacity() { 0 } else { place + 1 };
            let Some(queue) = self.queues.get(place) else { continue };
            if queue.is_empty() && now.saturating_since(queue.active_at) >= idle {
                return Some(self.remove(place as u32));
            }
        }
        None
    }

    /// Forgets a queue. Returns its host.
    fn remove(&mut self, queue: u32) -> u32 {
        let Queue { id, host, .. } = self.queues.remove(queue as usize);
        if let Some(id) = id {
            self.by_id.remove(&id);
        }
        if let Some(of_host) = self.hosts.get_mut(&host) {
            of_host.count -= 1;
            for shared in of_host.shared.iter_mut().filter(|shared| **shared == Some(queue)) {
                *shared = None;
            }
            if of_host.count == 0 {
                self.hosts.remove(&host);
            }
        }
        host
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
            (known.last, known.left_at) = (None, None);
        }
        known.bytes -= held.size;
        known.memory -= held.memory;
        self.bytes -= held.size;
        self.memory -= held.memory;
        Some(held)
    }

    /// Takes the packet that is next; whether it leaves is said by controlled delay. A flow may have half of a round trip `rtt`
    /// waiting: nobody else waits in its queue, and whoever answers a loss with less than half of its window keeps its share. What a scalable sender sends (L4S,
    /// RFC 9331) is marked long before: of its queue alone, which is what a queue of its own is for in RFC 9332. We are `late` by so much at times.
    pub fn pop(&mut self, now: Time, queue: u32, (rtt, late): (Duration, Duration)) -> Option<Next> {
        let Held { mut packet, size, came, .. } = self.take_first(queue)?;
        let known = self.queues.get_mut(queue as usize)?;
        known.active_at = now;
        let waited = now.saturating_since(came);
        // Turns come as acknowledgments of others do, perhaps in bunches: what waits for one is no queue either.
        let marks =
            packet.ip.ecn() == ECT_1 && is_above_step(waited, known.bytes, known.between_turns + late);
        if !known.codel.is_too_late(now, waited, known.bytes, TARGET.max(rtt / 2)) && !marks {
            return Some(Next::Leaves(packet, size));
        }
        if packet.mark_congestion() {
            return Some(Next::Marked(packet, size));
        }
        Some(match without_first_segment(packet) {
            Some(rest) => {
                let size = rest.wire_len() as u64;
                Next::Trimmed(rest, size)
            }
            None => Next::Dropped,
        })
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

    /// Takes all that waits for hosts of which this holds, as it is. Each queue is looked at once.
    pub fn release(&mut self, is_of: impl Fn(u32) -> bool, mut leaves: impl FnMut(Packet)) {
        for place in 0..self.queues.capacity() {
            if self.queues.get(place).is_some_and(|queue| !queue.is_empty() && is_of(queue.host)) {
                while let Some(held) = self.take_first(place as u32) {
                    leaves(held.packet);
                }
            }
        }
    }
}

/// What a TCP super-segment is without its first segment. `None` if it is one packet, or came with IP options, which are in its bytes
/// alone.
fn without_first_segment(mut packet: Packet) -> Option<Packet> {
    if packet.has_ip_options() {
        return None;
    }
    let Transport::Tcp(segment) = &mut packet.transport else { return None };
    let size = segment.gso_size.filter(|size| segment.payload.len() > usize::from(size.get()))?.get();
    segment.payload.advance(usize::from(size));
    // As `shorthaul_wire::cut` numbers the second segment.
    segment.header.seq = SeqNum(segment.header.seq.0.wrapping_add(u32::from(size)));
    segment.header.flags = segment.header.flags.without(TcpFlags::CWR);
    if let IpHeader::V4(ip) = &mut packet.ip {
        ip.id = ip.id.wrapping_add(1);
    }
    packet.original = None;
    Some(packet)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;
    use core::net::Ipv4Addr;
    use core::num::NonZeroU16;
    use shorthaul_wire::{
        ChecksumMode, Ipv4Header, Ipv6Header, Payload, TcpHeader, TcpSegment, UdpHeader, cut, parse,
        to_datagram,
    };

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

    /// No round trip, and never late.
    const AT_ONCE: (Duration, Duration) = (Duration::ZERO, Duration::ZERO);

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
            let Some(Next::Leaves(packet, 1200)) = queues.pop(Time::ZERO, a, AT_ONCE) else { panic!() };
            assert_eq!(packet.ip.traffic_class(), tos);
        }
        assert!(queues.pop(Time::ZERO, a, AT_ONCE).is_none());
        queues.drop_of_longest();
        assert!(queues.get_mut(b).unwrap().is_empty());
        assert_eq!(queues.bytes(), 0);
    }

    #[test]
    fn what_stands_is_marked_where_it_may_be_and_dropped_elsewhere() {
        for (tos, marked) in [(2, true), (0, false)] {
            let mut queues = queues();
            let queue = (0..400).fold(0, |_, _| put(&mut queues, Time::ZERO, packet(1, tos)));
            let (mut marks, mut drops) = (0, 0);
            for ms in 50..450 {
                match queues.pop(Time::from_millis(ms), queue, AT_ONCE) {
                    Some(Next::Marked(packet, _)) => {
                        assert_eq!(packet.ip.ecn(), 3);
                        marks += 1;
                    }
                    Some(Next::Dropped) => drops += 1,
                    Some(Next::Leaves(packet, _)) => assert_eq!(packet.ip.ecn(), tos),
                    Some(Next::Trimmed(..)) | None => panic!(),
                }
            }
            assert!((4..20).contains(&(marks + drops)) && (marks > 0) == marked && (drops > 0) != marked);
        }
    }

    #[test]
    fn what_a_scalable_sender_sends_is_marked_as_soon_as_it_waits() {
        // Whether each of three packets is marked that come at once and leave so much later.
        let marked = |micros: u64, late: Duration, tos: u8| {
            let mut queues = queues();
            let queue = (0..3).fold(0, |_, _| put(&mut queues, Time::ZERO, packet(1, tos)));
            let now = Time::ZERO + Duration::from_micros(micros);
            [(); 3].map(|()| match queues.pop(now, queue, (Duration::ZERO, late)) {
                Some(Next::Marked(packet, _)) => packet.ip.ecn() == 3,
                Some(Next::Leaves(packet, _)) => packet.ip.ecn() != tos,
                other => panic!("{other:?}"),
            })
        };
        // Where no more than a packet is behind it, there is no queue.
        let (late, waits) = (Duration::from_millis(1), [true, false, false]);
        assert_eq!(marked(900, Duration::ZERO, ECT_1), [false; 3]);
        assert_eq!(marked(1_100, Duration::ZERO, ECT_1), waits);
        assert_eq!(marked(1_900, late, ECT_1), [false; 3], "it waited for us");
        assert_eq!(marked(2_100, late, ECT_1), waits);
        assert_eq!(marked(4_900, Duration::ZERO, 2), [false; 3], "others wait for longer");
    }

    #[test]
    fn a_flow_that_is_idle_has_no_queue_any_more() {
        let mut queues = queues();
        let queue = put(&mut queues, Time::ZERO, packet(1, 0));
        let late = Time::from_secs(20);
        assert!((0..10).all(|_| queues.forget_idle(late).is_none()), "something of it waits");
        queues.pop(Time::ZERO, queue, AT_ONCE);
        assert!((0..10).filter_map(|_| queues.forget_idle(late)).count() == 1);
        assert!(queues.queues.is_empty() && queues.by_id.is_empty() && queues.hosts.is_empty());
    }

    /// A flow of this number to this host.
    fn flow(host: u32, number: u32) -> FlowId {
        let mut packet = packet(number as u16, 0);
        if let IpHeader::V4(ip) = &mut packet.ip {
            ip.src = (0xc000_0200 + (number >> 16)).into();
            ip.dst = (0x0a00_0000 + host).into();
        }
        FlowId::of(&packet)
    }

    #[test]
    fn a_host_has_a_part_of_the_queues_and_its_flows_beyond_share_a_few() {
        let mut queues = queues();
        let scanned = |queues: &mut Queues, number| queues.insert(Time::ZERO, flow(1, number), 1, 64_000);
        for number in 0..20_000 {
            assert!(scanned(&mut queues, number).is_some());
        }
        assert_eq!(queues.len(), MOST_OF_HOST as usize + SHARED);
        let shared = scanned(&mut queues, 20_000).unwrap();
        assert_eq!(scanned(&mut queues, 20_000), Some(shared), "a flow stays where it is");
        let known = queues.get_mut(shared).unwrap();
        assert_eq!((known.id, known.host, known.interactive), (None, 1, 0));
        // Another host does not feel it.
        let other = queues.insert(Time::ZERO, flow(2, 1), 2, 64_000).unwrap();
        assert_eq!(
            (queues.find(&flow(2, 1)), queues.get_mut(other).unwrap().interactive),
            (Some(other), 64_000)
        );
        // Later all are idle, and nothing is left of them.
        let late = Time::from_secs(20);
        for _ in 0..4_000 {
            queues.forget_idle(late);
        }
        assert!(queues.queues.is_empty() && queues.by_id.is_empty() && queues.hosts.is_empty());
    }

    #[test]
    fn a_flow_leaves_a_shared_queue_when_nothing_waits_there() {
        let mut queues = queues();
        let now = Time::ZERO;
        for number in 0..MOST_OF_HOST {
            queues.insert(now, flow(1, number), 1, 0);
        }
        let late = flow(1, MOST_OF_HOST);
        let shared = queues.insert(now, late, 1, 0).unwrap();
        queues.push(now, shared, packet(1, 0), 1200);
        for _ in 0..2_000 {
            queues.forget_idle(Time::from_secs(20));
        }
        assert_eq!(queues.len(), 1, "there is room now");
        assert_eq!(queues.insert(now, late, 1, 0), Some(shared), "but its packets keep their order");
        queues.pop(now, shared, AT_ONCE);
        assert_ne!(queues.insert(now, late, 1, 0), Some(shared));
        assert!(queues.find(&late).is_some());
    }

    #[test]
    fn of_too_many_hosts_each_has_a_queue_as_long_as_others_are_empty() {
        let mut queues = queues();
        let now = Time::ZERO;
        for host in 0..4 * MOST as u32 {
            queues.forget_idle(now);
            assert!(queues.insert(now, flow(host, 1), host, 0).is_some());
        }
        assert!(queues.len() <= MOST && queues.hosts.len() <= MOST, "{}", queues.len());
        // All of these are busy: others have one that their flows share, up to a bound.
        let places: Vec<u32> = queues.by_id.values().copied().collect();
        for place in places {
            queues.push(now, place, packet(1, 0), 1200);
        }
        for host in 0..2 * MOST as u32 {
            let host = 1_000_000 + host;
            queues.forget_idle(now);
            if let Some(queue) = queues.insert(now, flow(host, 1), host, 0) {
                queues.push(now, queue, packet(1, 0), 1200);
            }
        }
        assert_eq!(queues.len(), MOST_WITH_SHARED);
    }

    #[test]
    fn what_waits_is_released_in_one_pass() {
        let mut queues = queues();
        for (host, number) in (0..4).flat_map(|host| (0..MOST_OF_HOST).map(move |number| (host, number))) {
            let queue = queues.insert(Time::ZERO, flow(host, number), host, 0).unwrap();
            queues.push(Time::ZERO, queue, packet(1, 0), 1200);
        }
        let (asked, mut left) = (Cell::new(0), 0);
        let is_of = |host: u32| {
            asked.set(asked.get() + 1);
            host < 2
        };
        queues.release(is_of, |_| left += 1);
        assert_eq!((left, asked.get()), (2 * MOST_OF_HOST, 4 * MOST_OF_HOST));
        assert_eq!(queues.bytes(), u64::from(2 * MOST_OF_HOST) * 1200);
    }

    /// A super-segment of `bytes`, in segments of 1000, with a checksum that is not finished, as a device hands it in.
    fn batch(bytes: usize, v6: bool, flags: TcpFlags) -> Packet {
        let v4 = packet(1, 0).ip;
        let ip = if v6 {
            let (src, dst) = (1.into(), 2.into());
            IpHeader::V6(Ipv6Header { src, dst, traffic_class: 0, hop_limit: 60, flow_label: 7 })
        } else {
            v4
        };
        let header = TcpHeader {
            src_port: 443,
            dst_port: 1,
            seq: SeqNum(u32::MAX - 500),
            ack: SeqNum(7),
            flags,
            window: 1000,
            ..TcpHeader::default()
        };
        let payload: Vec<u8> = (0..bytes).map(|place| place as u8).collect();
        let segment = TcpSegment {
            header,
            payload: Payload::copy_of(&payload).into(),
            gso_size: NonZeroU16::new(1000),
        };
        parse(to_datagram(&Packet::tcp(ip, segment), ChecksumMode::Full)).unwrap()
    }

    #[test]
    fn of_a_batch_the_first_segment_is_dropped() {
        let flags = TcpFlags::ACK | TcpFlags::CWR | TcpFlags::PSH | TcpFlags::FIN;
        let segments = |packet: &Packet| -> Vec<Vec<u8>> {
            let datagram = to_datagram(packet, ChecksumMode::Full);
            cut(&datagram, ChecksumMode::Full)
                .map(|cut| cut.to_datagram().bytes.as_slice().to_vec())
                .collect()
        };
        for (bytes, v6) in [(40_300, false), (40_300, true), (2_000, false), (1_001, true)] {
            let packet = batch(bytes, v6, flags);
            let rest = without_first_segment(packet.clone()).unwrap();
            assert_eq!(segments(&rest), segments(&packet)[1..], "{bytes}");
        }
        assert!(without_first_segment(batch(1_000, false, flags)).is_none(), "one packet");
        assert!(without_first_segment(packet(1, 0)).is_none());
    }

    #[test]
    fn a_batch_that_is_late_loses_a_segment() {
        let mut queues = queues();
        let id = FlowId::of(&batch(40_000, false, TcpFlags::ACK));
        let queue = queues.insert(Time::ZERO, id, 0, 0).unwrap();
        for _ in 0..100 {
            let packet = batch(40_000, false, TcpFlags::ACK);
            let size = packet.wire_len() as u64;
            queues.push(Time::ZERO, queue, packet, size);
        }
        let mut trimmed = 0;
        for ms in (50..1000).step_by(10) {
            match queues.pop(Time::from_millis(ms), queue, AT_ONCE) {
                Some(Next::Trimmed(packet, size)) => {
                    assert_eq!((packet.wire_len() as u64, size), (39_040, 39_040));
                    trimmed += 1;
                }
                Some(Next::Leaves(_, size)) => assert_eq!(size, 40_040),
                other => panic!("{other:?}"),
            }
        }
        assert!((4..40).contains(&trimmed), "{trimmed}");
    }
}
