use super::cobalt::{Parameters, Verdict};
use super::table::{Held, Set, Table};
use shorthaul_proxy::FlowId;
use shorthaul_scenario::CakeConfig;
use shorthaul_types::{BitRate, Bytes, Seed, Time};
use shorthaul_wire::Packet;
use std::collections::VecDeque;
use std::time::Duration;

/// What may be held at least.
const LEAST_MEMORY: u64 = 4 << 20;
/// A turn of a flow on a fast link, and on a slow one; bytes.
const QUANTUM: (u64, u64) = (1514, 300);

/// Why nothing left in a flow's turn.
enum Unserved {
    /// A packet was dropped, and took of the rate: it is another flow's turn, maybe.
    Dropped,
    Empty,
}

/// What a queue has done so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CakeStats {
    pub offered: u64,
    pub left: u64,
    pub left_bytes: u64,
    pub dropped: u64,
    pub marked: u64,
    pub max_len: usize,
    /// What the packet that left last had waited.
    pub last_wait: Duration,
}

/// The queue of one direction.
#[derive(Debug)]
pub(crate) struct Cake {
    config: CakeConfig,
    parameters: Parameters,
    quantum: u64,
    memory: u64,
    table: Table,
    /// Flows that wait for a turn: those that are sparse, those that are not, and those that have nothing but the memory of drops.
    sparse: VecDeque<usize>,
    bulk: VecDeque<usize>,
    decaying: VecDeque<usize>,
    bulk_flows: u32,
    len: usize,
    bytes: u64,
    /// When the next packet may leave. With `ingress` drops take of the rate, too; by the second time one leaves nevertheless.
    next: Time,
    failsafe: Time,
    chance: Seed,
    drawn: u64,
    pub stats: CakeStats,
}

impl Cake {
    pub fn new(config: CakeConfig, seed: Seed) -> Self {
        let mut cake = Cake {
            table: Table::new(config.isolation, seed.derive("hash")),
            parameters: Parameters::of(None, config.rtt),
            quantum: QUANTUM.0,
            memory: LEAST_MEMORY,
            sparse: VecDeque::new(),
            bulk: VecDeque::new(),
            decaying: VecDeque::new(),
            bulk_flows: 0,
            len: 0,
            bytes: 0,
            next: Time::ZERO,
            failsafe: Time::ZERO,
            chance: seed.derive("blue"),
            drawn: 0,
            stats: CakeStats::default(),
            config,
        };
        cake.set_rate(cake.config.rate);
        cake
    }

    /// Another rate from now on; without one, all leaves as it comes.
    pub fn set_rate(&mut self, rate: Option<BitRate>) {
        self.config.rate = rate;
        self.parameters = Parameters::of(rate, self.config.rtt);
        let bytes = rate.map_or(u64::MAX, BitRate::bytes_per_sec);
        self.quantum = (bytes >> 12).clamp(QUANTUM.1, QUANTUM.0);
        let four_intervals = rate.map_or(0, |rate| rate.bytes_in(4 * self.parameters.interval()).0);
        self.memory = LEAST_MEMORY.max(four_intervals);
    }

    /// How many packets wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// What the packet that left last had waited, while others wait; nothing if none does.
    pub fn wait(&self) -> Duration {
        if self.len > 0 { self.stats.last_wait } else { Duration::ZERO }
    }

    /// A packet comes.
    pub fn push(&mut self, now: Time, packet: Packet) {
        self.stats.offered += 1;
        if self.len == 0 && self.next < now {
            self.next = now;
            self.failsafe = now;
        }
        let place = self.table.place(&FlowId::of(&packet));
        let size = packet.wire_len() as u32;
        self.len += 1;
        self.bytes += u64::from(size);
        self.stats.max_len = self.stats.max_len.max(self.len);
        let flow = &mut self.table.flows[place];
        flow.bytes += u64::from(size);
        flow.held.push_back(Held { packet, size, came: now });
        match flow.set {
            Set::None | Set::Decaying => {
                if flow.set == Set::Decaying {
                    self.decaying.retain(|other| *other != place);
                }
                self.table.flows[place].set = Set::Sparse;
                self.table.flows[place].deficit = self.turn(place);
                self.sparse.push_back(place);
            }
            Set::SparseWait => self.set_bulk(place),
            Set::Sparse | Set::Bulk => {}
        }
        while self.bytes > self.memory {
            self.drop_of_longest(now);
        }
    }

    /// What a flow may send in a turn: a quantum over the flows of its host, the fraction left to chance.
    fn turn(&mut self, place: usize) -> i64 {
        let share = 65_535 / u64::from(self.table.load(place));
        ((self.quantum * share + u64::from(self.draw() >> 16)) >> 16) as i64
    }

    fn draw(&mut self) -> u32 {
        self.drawn += 1;
        (self.chance.nth(self.drawn).0 >> 32) as u32
    }

    fn set_bulk(&mut self, place: usize) {
        self.table.flows[place].set = Set::Bulk;
        self.table.count_bulk(place, 1);
        self.bulk_flows += 1;
    }

    fn drop_of_longest(&mut self, now: Time) {
        let longest = (0..self.table.flows.len()).max_by_key(|place| self.table.flows[*place].bytes);
        let Some(place) = longest else { return };
        if let Some(held) = self.take(place) {
            self.table.flows[place].cobalt.on_full(now, &self.parameters);
            self.stats.dropped += 1;
            if self.config.ingress {
                self.advance(held.size, true);
            }
        }
    }

    fn take(&mut self, place: usize) -> Option<Held> {
        let flow = &mut self.table.flows[place];
        let held = flow.held.pop_front()?;
        flow.bytes -= u64::from(held.size);
        self.len -= 1;
        self.bytes -= u64::from(held.size);
        Some(held)
    }

    /// A packet takes its time of the rate; what was dropped takes none of the failsafe's. Returns its size on the link.
    fn advance(&mut self, size: u32, is_drop: bool) -> i64 {
        let on_link = u64::from(size) + self.config.overhead.0;
        if let Some(rate) = self.config.rate {
            let takes = rate.time_to_send(Bytes(on_link));
            self.next += takes;
            if !is_drop {
                self.failsafe += takes + takes / 2;
            }
        }
        on_link as i64
    }

    /// When a packet may leave next, if one waits.
    pub fn next_departure(&self) -> Option<Time> {
        let at = if self.config.rate.is_some() { self.next.min(self.failsafe) } else { Time::ZERO };
        (self.len > 0).then_some(at)
    }

    /// The packet that leaves now, if one does.
    pub fn pop(&mut self, now: Time) -> Option<Packet> {
        let (mut first, mut is_checked) = (true, false);
        loop {
            if !is_checked && self.next_departure().is_none_or(|at| at > now) {
                return None;
            }
            is_checked = true;
            // A flow of which only drops are remembered has a turn now and then, to forget them.
            let list = if first && !self.decaying.is_empty() {
                &mut self.decaying
            } else if !self.sparse.is_empty() {
                &mut self.sparse
            } else if !self.bulk.is_empty() {
                &mut self.bulk
            } else {
                &mut self.decaying
            };
            first = false;
            let place = list.pop_front()?;
            if self.table.flows[place].deficit <= 0 {
                self.next_turn(place);
                continue;
            }
            match self.serve(now, place) {
                Ok(packet) => return Some(packet),
                Err(Unserved::Dropped) => {}
                Err(Unserved::Empty) => is_checked = false,
            }
        }
    }

    /// A flow has used its turn: it waits among the bulk for the next.
    fn next_turn(&mut self, place: usize) {
        if self.table.flows[place].set == Set::Sparse {
            if self.table.flows[place].held.is_empty() {
                self.table.flows[place].set = Set::SparseWait;
            } else {
                self.set_bulk(place);
            }
        }
        let turn = self.turn(place);
        self.table.flows[place].deficit += turn;
        self.bulk.push_back(place);
    }

    /// The next packet of a flow that has its turn. The flow has been taken from its list, and is put back.
    fn serve(&mut self, now: Time, place: usize) -> Result<Packet, Unserved> {
        loop {
            let Some(Held { mut packet, size, came }) = self.take(place) else {
                self.on_empty(now, place);
                return Err(Unserved::Empty);
            };
            let waited = now.saturating_since(came);
            let (bulk_flows, chance) = (self.bulk_flows, self.draw());
            let flow = &mut self.table.flows[place];
            let verdict = flow.cobalt.decide(now, &self.parameters, waited, bulk_flows, chance);
            let is_marked = verdict == Verdict::MarkOrDrop && packet.mark_congestion();
            self.stats.marked += u64::from(is_marked);
            // The last of a flow is never dropped: its sender would learn of it by a timeout alone.
            if verdict == Verdict::Leaves || is_marked || flow.held.is_empty() {
                let on_link = self.advance(size, false);
                self.table.flows[place].deficit -= on_link;
                self.put_back(place);
                self.stats.left += 1;
                self.stats.left_bytes += u64::from(size);
                self.stats.last_wait = waited;
                return Ok(packet);
            }
            self.stats.dropped += 1;
            if self.config.ingress {
                let on_link = self.advance(size, true);
                self.table.flows[place].deficit -= on_link;
                self.put_back(place);
                return Err(Unserved::Dropped);
            }
        }
    }

    /// A flow that goes on with its turn is the first of its list again.
    fn put_back(&mut self, place: usize) {
        match self.table.flows[place].set {
            Set::Sparse => self.sparse.push_front(place),
            _ => self.bulk.push_front(place),
        }
    }

    /// A flow had its turn, and had nothing.
    fn on_empty(&mut self, now: Time, place: usize) {
        if self.table.flows[place].set == Set::Bulk {
            self.table.count_bulk(place, -1);
            self.bulk_flows -= 1;
        }
        let flow = &mut self.table.flows[place];
        flow.cobalt.on_empty(now, &self.parameters);
        if flow.cobalt.is_at_rest(now) {
            flow.set = Set::None;
        } else {
            flow.set = Set::Decaying;
            self.decaying.push_back(place);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use shorthaul_scenario::Isolation;
    use shorthaul_wire::{IpHeader, Ipv4Header, Payload, Transport, UdpHeader};
    use std::net::Ipv4Addr;

    /// A datagram of `size` bytes, IP header included.
    pub(in crate::cake) fn packet(src: u8, dst: u8, port: u16, size: u32) -> Packet {
        let ip = Ipv4Header {
            src: Ipv4Addr::new(10, 0, 0, src),
            dst: Ipv4Addr::new(10, 0, 1, dst),
            tos: 0,
            ttl: 60,
            id: 0,
            dont_fragment: true,
        };
        let header = UdpHeader { src_port: port, dst_port: 443 };
        let transport = Transport::Udp { header, payload: Payload::copy_of(&vec![0; size as usize - 28]) };
        Packet { ip: IpHeader::V4(ip), transport, original: None }
    }

    fn marked(mut packet: Packet) -> Packet {
        packet.ip.set_ecn(2);
        packet
    }

    fn mbit(rate: u64) -> Option<BitRate> {
        Some(BitRate::from_bits_per_sec(rate * 1_000_000))
    }

    fn config(rate: u64) -> CakeConfig {
        CakeConfig { rate: mbit(rate), ..CakeConfig::default() }
    }

    /// A source that always has this much waiting, as the packets of a flow: source, destination, port, size.
    type Source = (u8, u8, u16, u32);

    /// Lets `sources` fill the queue for `seconds`, each keeping `depth` packets in it. The bytes that each got.
    fn compete(cake: &mut Cake, sources: &[Source], depth: usize, seconds: u64) -> Vec<u64> {
        let mut got = vec![0; sources.len()];
        let mut inside = vec![0; sources.len()];
        let mut now = Time::ZERO;
        let end = Time::from_secs(seconds);
        while now < end {
            for (source, (src, dst, port, size)) in sources.iter().enumerate() {
                // What was dropped is put in again: nobody here answers drops.
                while inside[source] < depth {
                    cake.push(now, packet(*src, *dst, *port, *size));
                    inside[source] += 1;
                }
            }
            while let Some(packet) = cake.pop(now) {
                let id = FlowId::of(&packet);
                let of = |(src, dst, port, size): &Source| {
                    FlowId::of(&super::tests::packet(*src, *dst, *port, *size)) == id
                };
                let source = sources.iter().position(of).unwrap();
                got[source] += packet.wire_len() as u64;
            }
            // Drops leave room as departures do.
            for (source, (src, dst, port, size)) in sources.iter().enumerate() {
                let place = cake.table.place(&FlowId::of(&packet(*src, *dst, *port, *size)));
                inside[source] = cake.table.flows[place].held.len();
            }
            now = cake.next_departure().unwrap_or(end).max(now + Duration::from_micros(1));
        }
        got
    }

    #[test]
    fn no_more_leaves_than_the_rate_with_overhead_and_no_burst() {
        for (overhead, payload) in [(0, 10.0), (38, 10.0 * 1000.0 / 1038.0)] {
            let mut cake = Cake::new(CakeConfig { overhead: Bytes(overhead), ..config(10) }, Seed(1));
            let got = compete(&mut cake, &[(1, 1, 1, 1000)], 20, 10);
            let rate = got[0] as f64 * 8e-7;
            assert!((rate - payload).abs() < 0.01, "{overhead} bytes: {rate} of {payload} Mbit/s");
        }
        // After a pause, too.
        let mut cake = Cake::new(config(8), Seed(1));
        (0..10).for_each(|_| cake.push(Time::from_secs(5), packet(1, 1, 1, 1000)));
        let leaves = |cake: &mut Cake, at| std::iter::from_fn(|| cake.pop(at)).count();
        assert_eq!(leaves(&mut cake, Time::from_secs(5)), 1);
        assert_eq!(leaves(&mut cake, Time::from_secs(5) + Duration::from_millis(3)), 3, "one a millisecond");
    }

    #[test]
    fn flows_share_by_bytes_and_not_by_packets() {
        let got = compete(&mut Cake::new(config(10), Seed(2)), &[(1, 1, 1, 1500), (2, 2, 2, 300)], 50, 20);
        let share = got[0] as f64 / (got[0] + got[1]) as f64;
        assert!((share - 0.5).abs() < 0.02, "{share}");
    }

    #[test]
    fn hosts_share_where_hosts_are_isolated() {
        // Nine downloads to one host beside one to another, from as many servers.
        let sources: Vec<Source> = (0..10).map(|flow| (flow + 1, u8::from(flow == 9), 7, 1000)).collect();
        for (isolation, expected) in [
            (Isolation::Flows, 0.1),
            (Isolation::DualDsthost, 0.5),
            (Isolation::TripleIsolate, 0.5),
            (Isolation::DualSrchost, 0.1),
        ] {
            let mut cake = Cake::new(CakeConfig { isolation, ..config(20) }, Seed(3));
            let got = compete(&mut cake, &sources, 20, 20);
            let share = got[9] as f64 / got.iter().sum::<u64>() as f64;
            assert!((share - expected).abs() < 0.03, "{isolation:?}: {share}");
        }
    }

    #[test]
    fn a_sparse_flow_goes_first_and_a_flow_that_is_not_does_not() {
        let mut cake = Cake::new(config(10), Seed(4));
        let flows: Vec<Source> = (1..=8).map(|flow| (flow, flow, 1, 1500)).collect();
        compete(&mut cake, &flows, 50, 1);
        let refill = |cake: &mut Cake, now: Time| {
            for (src, dst, port, size) in &flows {
                let place = cake.table.place(&FlowId::of(&packet(*src, *dst, *port, *size)));
                while cake.table.flows[place].held.len() < 50 {
                    cake.push(now, packet(*src, *dst, *port, *size));
                }
            }
        };
        let sparse_waits = |cake: &mut Cake, every: Duration, size: u32| {
            // It goes on where the others have come to: nobody can be served later than then.
            let (mut waits, mut now) = (Vec::new(), cake.next);
            for _ in 0..50 {
                let came = now;
                cake.push(came, packet(99, 99, 9, size));
                loop {
                    refill(cake, now);
                    now = cake.next_departure().unwrap().max(now);
                    if cake.pop(now).is_some_and(|out| FlowId::of(&out).ports()[0] == 9) {
                        break;
                    }
                }
                waits.push(now.saturating_since(came));
                // The others go on until it comes again.
                while let Some(at) = cake.next_departure().filter(|at| *at < came + every) {
                    now = at.max(now);
                    let _ = cake.pop(now);
                    refill(cake, now);
                }
                now = now.max(came + every);
            }
            waits.sort();
            waits[45]
        };
        // 100 bytes each 100 ms: at most the packet that is being sent is waited for, 1.2 ms.
        let call = sparse_waits(&mut cake, Duration::from_millis(100), 100);
        assert!(call <= Duration::from_micros(1300), "{call:?}");
        // Each 1 ms 1500 bytes, more than its part: it waits for the others' turns.
        let mut cake = Cake::new(config(10), Seed(4));
        compete(&mut cake, &flows, 50, 1);
        let bulk = sparse_waits(&mut cake, Duration::from_millis(1), 1500);
        assert!(bulk >= Duration::from_millis(8), "{bulk:?}");
    }

    #[test]
    fn what_may_be_marked_is_marked_and_the_rest_is_dropped() {
        for may_mark in [true, false] {
            let mut cake = Cake::new(config(10), Seed(5));
            let make = || if may_mark { marked(packet(1, 1, 1, 1000)) } else { packet(1, 1, 1, 1000) };
            let mut now = Time::ZERO;
            while now < Time::from_secs(2) {
                while cake.len() < 50 {
                    cake.push(now, make());
                }
                now = cake.next_departure().unwrap().max(now);
                let _ = cake.pop(now);
            }
            let (marks, drops) = (cake.stats.marked, cake.stats.dropped);
            assert!(
                marks + drops > 20 && (marks == 0) != may_mark && (drops == 0) == may_mark,
                "{marks} {drops}"
            );
            assert_eq!(cake.stats.offered, cake.stats.left + drops + cake.len() as u64);
        }
    }

    #[test]
    fn beyond_the_memory_the_longest_queue_is_dropped_from() {
        let mut cake = Cake::new(config(1), Seed(6));
        (0..10).for_each(|_| cake.push(Time::ZERO, packet(2, 2, 2, 1000)));
        (0..5000).for_each(|_| cake.push(Time::ZERO, packet(1, 1, 1, 1500)));
        assert!(cake.bytes <= 4 << 20 && cake.stats.dropped > 2000);
        let small = cake.table.place(&FlowId::of(&packet(2, 2, 2, 1000)));
        assert_eq!(cake.table.flows[small].held.len(), 10);
    }

    #[test]
    fn what_ingress_drops_has_used_the_link_already() {
        let left = |ingress| {
            let mut cake = Cake::new(CakeConfig { ingress, ..config(10) }, Seed(7));
            let mut now = Time::ZERO;
            // 20 Mbit/s that nobody slows down.
            for number in 0..25_000_u64 {
                let comes = Time::from_micros(400 * number);
                while let Some(at) = cake.next_departure().filter(|at| *at <= comes) {
                    now = at.max(now);
                    let _ = cake.pop(now);
                }
                cake.push(comes, packet(1, 1, 1, 1000));
                now = now.max(comes);
            }
            cake.stats.left_bytes as f64 * 8e-7
        };
        let [egress, ingress] = [left(false), left(true)];
        assert!((9.8..10.1).contains(&egress), "{egress}");
        // Two thirds leave at least: the failsafe.
        assert!((6.5..8.5).contains(&ingress), "{ingress}");
    }

    #[test]
    fn without_a_rate_all_leaves_as_it_comes() {
        let mut cake = Cake::new(CakeConfig::default(), Seed(8));
        (0..100).for_each(|_| cake.push(Time::from_secs(1), packet(1, 1, 1, 1500)));
        assert_eq!(std::iter::from_fn(|| cake.pop(Time::from_secs(1))).count(), 100);
        cake.set_rate(mbit(12));
        (0..3).for_each(|_| cake.push(Time::from_secs(2), packet(1, 1, 1, 1500)));
        assert!(cake.pop(Time::from_secs(2)).is_some() && cake.pop(Time::from_secs(2)).is_none());
        assert_eq!(cake.next_departure(), Some(Time::from_millis(2001)));
    }
}
