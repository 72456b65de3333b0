//! Which queue a packet waits in: an 8-way set-associative hash over flows, and over hosts.
use super::cobalt::Cobalt;
use shorthaul_proxy::FlowId;
use shorthaul_scenario::Isolation;
use shorthaul_types::{Seed, Time};
use shorthaul_wire::Packet;
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;

/// Queues, and places for hosts.
const QUEUES: usize = 1024;
/// So many places each of them may have.
const WAYS: usize = 8;

/// How a flow takes its turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Set {
    /// It has nothing, and is forgotten.
    #[default]
    None,
    /// It has not used its quantum yet: it goes first.
    Sparse,
    /// It has used its quantum and has nothing: it counts as sparse, but waits for its turn among the bulk.
    SparseWait,
    /// It has more than its turns take.
    Bulk,
    /// It has nothing, but its drops are not forgotten.
    Decaying,
}

/// A packet that waits.
#[derive(Debug)]
pub(super) struct Held {
    pub packet: Packet,
    pub size: u32,
    pub came: Time,
}

/// One queue.
#[derive(Debug, Default)]
pub(super) struct Flow {
    tag: u64,
    pub set: Set,
    /// Bytes that it may send before its turn ends.
    pub deficit: i64,
    pub held: VecDeque<Held>,
    pub bytes: u64,
    pub cobalt: Cobalt,
    /// Its hosts, as places in the table: source and destination.
    hosts: [usize; 2],
}

/// A host, as a source and as a destination: how many flows of it are bulk.
#[derive(Clone, Copy, Debug, Default)]
struct Host {
    tags: [u64; 2],
    bulk: [u32; 2],
}

/// The queues, and the hosts that they are of.
#[derive(Debug)]
pub(super) struct Table {
    pub flows: Vec<Flow>,
    hosts: Vec<Host>,
    /// Whether flows of one source share its part, and those of one destination.
    isolates: [bool; 2],
    seed: Seed,
    /// Flows that found all their places taken by others.
    pub collisions: u64,
}

impl Table {
    pub fn new(isolation: Isolation, seed: Seed) -> Self {
        let isolates = match isolation {
            Isolation::Flows => [false, false],
            Isolation::DualSrchost => [true, false],
            Isolation::DualDsthost => [false, true],
            Isolation::TripleIsolate => [true, true],
        };
        Table {
            flows: std::iter::repeat_with(Flow::default).take(QUEUES).collect(),
            hosts: vec![Host::default(); QUEUES],
            isolates,
            seed,
            collisions: 0,
        }
    }

    /// The queue of a flow.
    pub fn place(&mut self, id: &FlowId) -> usize {
        let tag = hash(self.seed, id);
        let (set, way) = set_and_way(tag);
        if self.flows[set + way].tag == tag && self.flows[set + way].set != Set::None {
            return set + way;
        }
        let ways = (0..WAYS).map(|step| set + (way + step) % WAYS);
        let known = ways.clone().find(|place| self.flows[*place].tag == tag);
        if let Some(place) = known.filter(|place| self.flows[*place].set != Set::None) {
            return place;
        }
        let free = known.or_else(|| ways.clone().find(|place| self.flows[*place].set == Set::None));
        let place = free.unwrap_or_else(|| {
            self.collisions += 1;
            set + way
        });
        // Of a queue that two flows share, the last to come says whose it is.
        let is_bulk = self.flows[place].set == Set::Bulk;
        if is_bulk {
            self.count_bulk(place, -1);
        }
        self.flows[place].tag = tag;
        self.flows[place].hosts = [self.host(id.src, 0), self.host(id.dst, 1)];
        if is_bulk {
            self.count_bulk(place, 1);
        }
        place
    }

    /// The place of a host, as a source (0) or destination (1).
    fn host(&mut self, address: IpAddr, end: usize) -> usize {
        let tag = hash(self.seed, &address);
        let (set, way) = set_and_way(tag);
        let ways = (0..WAYS).map(|step| set + (way + step) % WAYS);
        let known = ways.clone().find(|place| self.hosts[*place].tags[end] == tag);
        let free = known.or_else(|| ways.clone().find(|place| self.hosts[*place].bulk[end] == 0));
        let place = free.unwrap_or(set + way);
        self.hosts[place].tags[end] = tag;
        place
    }

    /// A flow has become bulk (1), or is no more (-1).
    pub fn count_bulk(&mut self, place: usize, by: i32) {
        let hosts = self.flows[place].hosts;
        for (end, host) in hosts.into_iter().enumerate() {
            let bulk = &mut self.hosts[host].bulk[end];
            *bulk = bulk.saturating_add_signed(by);
        }
    }

    /// Among how many flows a flow shares its turn: those that are bulk of the busier of its hosts.
    pub fn load(&self, place: usize) -> u32 {
        let hosts = self.flows[place].hosts.into_iter().enumerate();
        let isolated = hosts.filter(|(end, _)| self.isolates[*end]);
        isolated.map(|(end, host)| self.hosts[host].bulk[end]).max().unwrap_or(1).max(1)
    }
}

/// The set that a tag belongs to, as its first place, and the way that it is looked for first.
fn set_and_way(tag: u64) -> (usize, usize) {
    let place = (tag % QUEUES as u64) as usize;
    (place - place % WAYS, place % WAYS)
}

/// A hash that is the same on every machine, and never zero, which is the tag of nobody.
fn hash(seed: Seed, value: &impl Hash) -> u64 {
    let mut mix = Mix(seed);
    value.hash(&mut mix);
    mix.finish().max(1)
}

struct Mix(Seed);

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = self.0.nth(word);
    }

    fn finish(&self) -> u64 {
        self.0.0
    }
}

#[cfg(test)]
mod tests {
    use super::super::queue::tests::packet;
    use super::*;
    use std::collections::BTreeSet;

    fn id(src: u8, dst: u8, port: u16) -> FlowId {
        FlowId::of(&packet(src, dst, port, 100))
    }

    /// With sets of 8 ways that fill by chance, 0, 4 and 143 flows are expected to share a queue; with a plain hash it would be 8, 109 and
    /// 377 of them.
    #[test]
    fn flows_have_queues_of_their_own() {
        for (flows, most) in [(128, 0), (512, 12), (1024, 180)] {
            let mut table = Table::new(Isolation::Flows, Seed(5));
            let places: BTreeSet<usize> = (0..flows)
                .map(|flow| {
                    let place = table.place(&id(1, 2, flow));
                    table.flows[place].set = Set::Bulk;
                    assert_eq!(table.place(&id(1, 2, flow)), place, "again the same");
                    place
                })
                .collect();
            let shared = usize::from(flows) - places.len();
            assert!(shared <= most, "{flows} flows: {shared} share");
            assert!(table.collisions as usize >= shared);
        }
    }

    #[test]
    fn the_busier_host_says_how_many_share() {
        let load = |isolation| {
            let mut table = Table::new(isolation, Seed(5));
            let places: Vec<usize> = [id(1, 9, 1), id(2, 9, 2), id(3, 9, 3), id(1, 8, 4)]
                .iter()
                .map(|id| {
                    let place = table.place(id);
                    table.flows[place].set = Set::Bulk;
                    table.count_bulk(place, 1);
                    place
                })
                .collect();
            places.iter().map(|place| table.load(*place)).collect::<Vec<_>>()
        };
        assert_eq!(load(Isolation::Flows), [1, 1, 1, 1]);
        assert_eq!(load(Isolation::DualDsthost), [3, 3, 3, 1]);
        assert_eq!(load(Isolation::DualSrchost), [2, 1, 1, 2]);
        assert_eq!(load(Isolation::TripleIsolate), [3, 3, 3, 2]);
    }
}
