//! Segments that come in pieces: put together before anything is made of them.
//!
//! Who splits a connection must see all of it. What passed unseen would be acknowledged by the far end, though we have not sent
//! it, and nothing of that end would be believed any more.
use crate::gateway::Keyed;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::num::NonZeroU16;
use core::time::Duration;
use hashbrown::HashMap;
use shorthaul_types::{Deadline, PortId, Time};
use shorthaul_wire::{Fragment, Packet, RejectReason, Transport, join, parse};

/// How long the rest of a datagram may take. Fragments leave together, and a segment that is not acknowledged leaves again
/// within seconds. The shorter, the less often fragments of two datagrams with one identification are mixed (RFC 4963).
const REASSEMBLY_TIMEOUT: Duration = Duration::from_secs(5);
/// Fragments of one datagram, at most: 64 KiB on a path that takes 552 bytes (RFC 1191 §5).
const MOST_PARTS: usize = 128;
/// What an entry costs beside its bytes.
const OVERHEAD: usize = 256;
/// What all fragments may hold, at most.
const MOST_HELD: usize = 4 << 20;
/// The least that is kept, so that two of the largest datagrams fit.
const LEAST_HELD: usize = 256 << 10;
/// One source has this part of it.
const SOURCES: usize = 4;

type Key = (PortId, IpAddr, IpAddr, u32);

/// Datagrams of which some fragments have come.
#[derive(Debug)]
pub(crate) struct Fragments {
    datagrams: HashMap<Key, Parts, Keyed>,
    sources: HashMap<IpAddr, Source, Keyed>,
    by_age: ByAge,
    held: usize,
    limit: usize,
    /// Datagrams that made room for others, since they were last asked for.
    evicted: u64,
}

/// What one source has here.
#[derive(Debug, Default)]
struct Source {
    /// Its part of what is held.
    held: usize,
    datagrams: usize,
    by_age: ByAge,
}

/// Datagrams by the time of their first fragment. Those that are whole are skipped.
#[derive(Debug, Default)]
struct ByAge(VecDeque<(Time, Key)>);

impl ByAge {
    /// Those that are whole do not pile up in front, nor behind one that waits.
    fn skip_done(&mut self, datagrams: &HashMap<Key, Parts, Keyed>, waiting: usize) {
        let waits =
            |(since, key): &(Time, Key)| datagrams.get(key).is_some_and(|parts| parts.since == *since);
        while self.0.front().is_some_and(|front| !waits(front)) {
            self.0.pop_front();
        }
        if self.0.len() > 2 * waiting + 64 {
            self.0.retain(waits);
            self.0.shrink_to(2 * waiting + 64);
        }
    }
}

#[derive(Debug)]
struct Parts {
    since: Time,
    packets: Vec<Packet>,
    /// Bytes of the datagram that are there.
    bytes: usize,
    /// All that it has, once the last fragment is there.
    total: Option<usize>,
    charged: usize,
    /// Two of them disagreed: what still comes is dropped, too (RFC 5722 §4).
    refused: bool,
}

/// What became of a fragment.
#[allow(clippy::large_enum_variant)] // it is looked at, and never kept
#[derive(Debug)]
pub(crate) enum Joined {
    /// It waits for others.
    Waiting,
    /// It was dropped, for this reason.
    Dropped(&'static str),
    /// It was the last: the packet, or why it is none, and the fragments as they came.
    Whole(Result<Packet, RejectReason>, Vec<Packet>),
}

impl Fragments {
    /// None yet, in a gateway that may hold `memory` bytes in all.
    pub fn new(memory: u64, hash_seed: u64) -> Self {
        let mut fragments = Fragments {
            datagrams: HashMap::with_hasher(Keyed(hash_seed)),
            sources: HashMap::with_hasher(Keyed(hash_seed)),
            by_age: ByAge::default(),
            held: 0,
            limit: 0,
            evicted: 0,
        };
        fragments.set_memory(memory);
        fragments
    }

    /// The gateway may hold `memory` bytes in all from now on.
    pub fn set_memory(&mut self, memory: u64) {
        self.limit = usize::try_from(memory / 16).unwrap_or(MOST_HELD).clamp(LEAST_HELD, MOST_HELD);
    }

    /// Memory held, in bytes.
    pub fn held(&self) -> usize {
        self.held
    }

    /// How many datagrams made room for others, since the last call.
    pub fn take_evicted(&mut self) -> u64 {
        core::mem::take(&mut self.evicted)
    }

    /// When the next datagram is given up.
    pub fn poll_timeout(&self) -> Option<Deadline> {
        self.by_age
            .0
            .front()
            .map(|(since, _)| Deadline { at: *since + REASSEMBLY_TIMEOUT, timer: "fragments" })
    }

    /// Gives up what has waited for too long; how many datagrams.
    pub fn expire(&mut self, now: Time) -> u64 {
        let mut given_up = 0;
        while let Some((since, key)) = self.by_age.0.front().copied()
            && since + REASSEMBLY_TIMEOUT <= now
        {
            self.by_age.0.pop_front();
            given_up += u64::from(self.forget(since, key));
        }
        given_up
    }

    /// A fragment came in by `port`, while `free` bytes of the gateway's memory are.
    pub fn add(&mut self, now: Time, port: PortId, packet: Packet, free: u64) -> Joined {
        let Transport::Fragment { fragment, payload } = &packet.transport else {
            return Joined::Dropped("fragment-misplaced");
        };
        let Fragment { id, offset, more, .. } = *fragment;
        let (start, len) = (usize::from(offset), payload.len());
        if len == 0 || start + len > usize::from(u16::MAX) || (more && !len.is_multiple_of(8)) {
            return Joined::Dropped("fragment-malformed");
        }
        let (src, dst) = (packet.ip.src(), packet.ip.dst());
        let key = (port, src, dst, id);
        let charge = payload.allocated() + OVERHEAD;
        let share = self.limit / SOURCES;
        if charge > share {
            return Joined::Dropped("fragment-source-over-share");
        }
        // Who has much here loses the oldest of it: somebody who speaks in its name keeps what it sends from being put together only
        // with hundreds of packets within the moments that this takes.
        while let Some(source) = self.sources.get_mut(&src).filter(|source| source.held + charge > share) {
            let Some((since, oldest)) = source.by_age.0.pop_front() else {
                return Joined::Dropped("fragment-source-over-share");
            };
            self.evicted += u64::from(self.forget(since, oldest));
        }
        let parts = self.datagrams.entry(key).or_insert_with(|| {
            self.by_age.0.push_back((now, key));
            let source = self.sources.entry(src).or_default();
            source.by_age.0.push_back((now, key));
            source.datagrams += 1;
            Parts { since: now, packets: Vec::new(), bytes: 0, total: None, charged: 0, refused: false }
        });
        match parts.place(start, &packet) {
            Place::Fits => {}
            Place::Again => return Joined::Dropped("fragment-duplicate"),
            Place::Disagrees => {
                // That it is refused is remembered, and takes its place.
                let freed = parts.charged.saturating_sub(OVERHEAD);
                parts.charged -= freed;
                parts.packets = Vec::new();
                parts.refused = true;
                self.release(src, freed);
                return Joined::Dropped("fragment-overlap");
            }
        }
        let limit = self.limit.min(self.held.saturating_add(usize::try_from(free).unwrap_or(usize::MAX)));
        parts.bytes += len;
        if !more {
            parts.total = Some(start + len);
        }
        parts.charged += charge;
        parts.packets.push(packet);
        let complete = parts.total == Some(parts.bytes);
        self.held += charge;
        if let Some(source) = self.sources.get_mut(&src) {
            source.held += charge;
        }
        if complete {
            let Some(parts) = self.remove(key) else { return Joined::Waiting };
            return Joined::Whole(whole(&parts.packets), parts.packets);
        }
        // Whoever floods us has the oldest soon, and a datagram that arrives at all is whole within moments.
        while self.held > limit {
            let Some((oldest, old)) = self.by_age.0.pop_front() else { break };
            self.evicted += u64::from(self.forget(oldest, old));
        }
        Joined::Waiting
    }

    /// Forgets a datagram; whether it was still there.
    fn forget(&mut self, since: Time, key: Key) -> bool {
        let waits = self.datagrams.get(&key).is_some_and(|parts| parts.since == since);
        waits && self.remove(key).is_some()
    }

    fn remove(&mut self, key: Key) -> Option<Parts> {
        let parts = self.datagrams.remove(&key)?;
        let src = key.1;
        self.release(src, parts.charged);
        if let Some(source) = self.sources.get_mut(&src) {
            source.datagrams -= 1;
            source.by_age.skip_done(&self.datagrams, source.datagrams);
            if source.datagrams == 0 {
                self.sources.remove(&src);
            }
        }
        self.by_age.skip_done(&self.datagrams, self.datagrams.len());
        Some(parts)
    }

    fn release(&mut self, src: IpAddr, bytes: usize) {
        self.held -= bytes;
        if let Some(source) = self.sources.get_mut(&src) {
            source.held -= bytes;
        }
    }
}

enum Place {
    Fits,
    Again,
    Disagrees,
}

impl Parts {
    /// Where a fragment stands to those that are there.
    fn place(&self, start: usize, packet: &Packet) -> Place {
        let Transport::Fragment { fragment, payload } = &packet.transport else { return Place::Disagrees };
        let end = start + payload.len();
        let beyond = self.total.is_some_and(|total| end > total || (!fragment.more && end != total));
        if self.refused || beyond || self.packets.len() >= MOST_PARTS {
            return Place::Disagrees;
        }
        for other in &self.packets {
            let Transport::Fragment { fragment: there, payload: bytes } = &other.transport else { continue };
            let (from, to) = (usize::from(there.offset), usize::from(there.offset) + bytes.len());
            if there == fragment && payload.as_slice() == bytes.as_slice() {
                return Place::Again; // a copy that the network made is harmless (RFC 8200 §4.5)
            }
            if (start < to && from < end) || (!fragment.more && to > end) {
                return Place::Disagrees;
            }
        }
        Place::Fits
    }
}

/// The segment that all of these fragments are. It has no bytes of its own, so that it leaves in pieces as large as the first
/// fragment was: they fit the path that the fragments came by.
fn whole(fragments: &[Packet]) -> Result<Packet, RejectReason> {
    let mut packet = join(fragments)
        .ok_or(RejectReason::IpBadLength)
        .and_then(|datagram| parse(datagram).map_err(|rejected| rejected.reason))?;
    let first = fragments.iter().find_map(|packet| match &packet.transport {
        Transport::Fragment { fragment: Fragment { offset: 0, .. }, payload } => Some(payload.len()),
        _ => None,
    });
    if let Transport::Tcp(segment) = &mut packet.transport {
        const SMALLEST: usize = 512;
        let original = packet.original.take();
        let header =
            original.map_or(0, |original| original.bytes.len()) - packet.ip.len() - segment.payload.len();
        let piece = first.unwrap_or(0).saturating_sub(header).max(SMALLEST);
        segment.gso_size = u16::try_from(piece)
            .ok()
            .and_then(NonZeroU16::new)
            .filter(|piece| segment.payload.len() > usize::from(piece.get()));
    }
    Ok(packet)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::Gateway;
    use core::net::Ipv4Addr;
    use shorthaul_wire::{IpHeader, Ipv4Header, Payload};

    /// The first fragment of a datagram with this identification.
    fn first(id: u32) -> Packet {
        let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(192, 0, 2, 1));
        let ip = Ipv4Header { src, dst, tos: 0, ttl: 64, id: 0, dont_fragment: false };
        let fragment = Fragment { id, offset: 0, more: true, protocol: 6 };
        let transport = Transport::Fragment { fragment, payload: Payload::copy_of(&[0; 64]) };
        Packet { ip: IpHeader::V4(ip), transport, original: None }
    }

    #[test]
    fn who_never_ends_a_datagram_takes_no_more_than_its_share() {
        let mut fragments = Fragments::new(64 << 20, 1);
        for id in 0..100_000 {
            let now = Time::from_millis(u64::from(id) / 100);
            assert!(matches!(fragments.add(now, Gateway::ACCESS, first(id), u64::MAX), Joined::Waiting));
        }
        let waiting = fragments.datagrams.len();
        assert!(fragments.held() <= fragments.limit / SOURCES);
        let ages = [&fragments.by_age, &fragments.sources.values().next().unwrap().by_age];
        assert!(ages.iter().all(|ages| ages.0.len() <= 2 * waiting + 64), "{waiting} wait");
    }
}
