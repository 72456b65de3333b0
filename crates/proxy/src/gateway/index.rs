//! Where each flow is in the table, by its ends.
//!
//! The keys are in the table alone: what is here takes five bytes a flow, and the room that is free. It is in many parts, so that none takes
//! long to become larger, while packets wait.
use super::Keyed;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::hash::BuildHasher as _;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use hashbrown::HashTable;
use shorthaul_types::FlowKey;

/// So many parts.
const PARTS: usize = 256;

/// The ends of a flow, in little room where they are nearly always.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    V4([(Ipv4Addr, u16); 2]),
    Other(Box<FlowKey>),
}

impl Ends {
    pub fn of(key: FlowKey) -> Ends {
        match (key.src, key.dst) {
            (SocketAddr::V4(src), SocketAddr::V4(dst)) => {
                Ends::V4([src, dst].map(|end| (*end.ip(), end.port())))
            }
            _ => Ends::Other(Box::new(key)),
        }
    }

    /// From the client to the server.
    pub fn key(&self) -> FlowKey {
        match self {
            Ends::V4(ends) => {
                let [src, dst] = ends.map(|(address, port)| SocketAddr::new(IpAddr::V4(address), port));
                FlowKey { src, dst }
            }
            Ends::Other(key) => **key,
        }
    }

    /// Whether they are those of a segment, whoever sent it.
    fn are_of(&self, key: FlowKey) -> bool {
        let own = self.key();
        own == key || own == key.reversed()
    }
}

/// The places of flows.
#[derive(Debug)]
pub(super) struct Index {
    parts: Vec<HashTable<u32>>,
    hasher: Keyed,
    len: usize,
}

impl Index {
    pub fn new(hash_seed: u64) -> Index {
        let parts = (0..PARTS).map(|_| HashTable::new()).collect();
        Index { parts, hasher: Keyed(hash_seed), len: 0 }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// The same for both directions of a connection.
    fn hash(hasher: &Keyed, key: FlowKey) -> u64 {
        let FlowKey { src, dst } = key;
        hasher.hash_one(if src <= dst { (src, dst) } else { (dst, src) })
    }

    /// The part that a hash belongs to: by other bits than its place there.
    const fn part(hash: u64) -> usize {
        (hash >> 40) as usize % PARTS
    }

    /// Where a flow is, of which `ends` has the ends by its place.
    pub fn find<'a>(&self, key: FlowKey, ends: impl Fn(u32) -> Option<&'a Ends>) -> Option<u32> {
        let hash = Self::hash(&self.hasher, key);
        let is_its = |place: &u32| ends(*place).is_some_and(|ends| ends.are_of(key));
        self.parts[Self::part(hash)].find(hash, is_its).copied()
    }

    /// A flow that has none gets a place. `ends` has those of the others.
    pub fn insert<'a>(&mut self, key: FlowKey, place: u32, ends: impl Fn(u32) -> Option<&'a Ends>) {
        let Index { parts, hasher, len } = self;
        let hash = Self::hash(hasher, key);
        let again = |other: &u32| match ends(*other) {
            Some(ends) => Self::hash(hasher, ends.key()),
            None => hash, // its own
        };
        parts[Self::part(hash)].insert_unique(hash, place, again);
        *len += 1;
    }

    /// The flow in this place is no more.
    pub fn remove(&mut self, key: FlowKey, place: u32) {
        let hash = Self::hash(&self.hasher, key);
        if let Ok(found) = self.parts[Self::part(hash)].find_entry(hash, |other| *other == place) {
            found.remove();
            self.len -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;

    #[test]
    fn flows_are_found_by_either_direction_until_they_are_gone() {
        assert_eq!(size_of::<Ends>(), 16);
        let mut index = Index::new(7);
        let mut known: BTreeMap<u32, Ends> = BTreeMap::new();
        let key = |place: u32| {
            let address = |last: u32| match place % 3 {
                0 => IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, last as u16]),
                _ => IpAddr::from([10, 0, 0, last as u8]),
            };
            FlowKey {
                src: SocketAddr::new(address(1), place as u16),
                dst: SocketAddr::new(address(2 + place % 200), (place >> 16) as u16),
            }
        };
        for place in 0..100_000 {
            index.insert(key(place), place, |other| known.get(&other));
            known.insert(place, Ends::of(key(place)));
            assert_eq!(known[&place].key(), key(place));
        }
        for place in (0..100_000).step_by(3) {
            index.remove(key(place), place);
            known.remove(&place);
        }
        assert_eq!(index.len(), known.len());
        for place in 0..100_000 {
            let expected = known.contains_key(&place).then_some(place);
            assert_eq!(index.find(key(place), |other| known.get(&other)), expected);
            assert_eq!(index.find(key(place).reversed(), |other| known.get(&other)), expected);
        }
    }
}
