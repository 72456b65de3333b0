use super::estimate::{Look, ThroughputEstimate};
use super::{PathTailConfig, TailScope};
use crate::ack_release::Extent;
use crate::gateway::Keyed;
use alloc::vec::Vec;
use core::net::IpAddr;
use hashbrown::HashMap;
use shorthaul_link::{Link, LinkConfig, QueueLimit, Rate, Verdict};
use shorthaul_tcp::Timers;
use shorthaul_types::{BitRate, Bytes, Deadline, Seed, Time};
use slab::Slab;

/// An acknowledgment in the queue of an emulated link: of what, and of which flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AckToken {
    /// The flow's place in the table.
    pub slot: u32,
    /// Its number, since places are used again.
    pub flow: u64,
    /// What its datagram had of the stream.
    pub extent: Extent,
}

/// Whom an emulated link stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Owner {
    /// The cell with this place in the list; one behind the last for hosts in none.
    Cell(usize),
    Host(u32),
    Flow(u64),
}

/// Who is behind an emulated link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkUser {
    /// The host in the registry of the access side.
    pub host: u32,
    /// The host's address.
    pub address: IpAddr,
    /// The flow's number, unlike that of any other.
    pub number: u64,
}

/// A flow's place behind an emulated link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkPlace {
    /// Which link.
    pub index: u32,
    /// Tells the flow's tokens from those of another that had its place in the table before.
    pub number: u64,
    /// What is booked there as held...
    held: u64,
    /// ... and of that, what waits behind a gap.
    early: u64,
    /// What had been delivered when that was booked.
    delivered: u64,
}

/// One emulated link: the queue of acknowledgments *is* a link, on which a token takes the time and the
/// room that its datagram would have taken.
#[derive(Debug)]
struct EmulatedLink {
    owner: Owner,
    queue: Link<AckToken>,
    /// Payload held for the hosts behind it, and of that, what waits behind gaps.
    held: u64,
    early: u64,
    flows: u32,
    /// Where the bandwidth is estimated.
    estimate: Option<ThroughputEstimate>,
    /// What was taken so far, as payload and with headers.
    taken: [u64; 2],
    /// The deadline that is in the heap, if one is.
    armed: Option<Time>,
}

/// The emulated links of a policy.
#[derive(Debug)]
pub(crate) struct EmulatedLinks {
    config: PathTailConfig,
    /// The bandwidth of each cell, in the order of the list, and of what is in none.
    cell_bandwidth: Vec<BitRate>,
    links: Slab<EmulatedLink>,
    by_owner: HashMap<Owner, u32, Keyed>,
    timers: Timers,
}

impl EmulatedLinks {
    /// Emulated links that will be made as flows join them. `hash_seed` keeps anybody from choosing
    /// addresses that collide.
    pub fn new(config: PathTailConfig, hash_seed: u64) -> Self {
        let cells = if let TailScope::Cell(cells) = &config.scope { &cells[..] } else { &[] };
        let own = |bandwidth: Option<BitRate>| bandwidth.unwrap_or(config.bandwidth);
        EmulatedLinks {
            cell_bandwidth: cells.iter().map(|cell| own(cell.bandwidth)).chain([own(None)]).collect(),
            links: Slab::new(),
            by_owner: HashMap::with_hasher(Keyed(hash_seed)),
            timers: Timers::default(),
            config,
        }
    }

    fn owner(&self, user: &LinkUser) -> Owner {
        match &self.config.scope {
            TailScope::Host => Owner::Host(user.host),
            TailScope::Flow => Owner::Flow(user.number),
            TailScope::Cell(cells) => {
                let longest = |place: &usize| {
                    let held = cells[*place].prefixes.iter().filter(|prefix| prefix.contains(&user.address));
                    held.map(|prefix| prefix.prefix_len() + 1).max().unwrap_or(0)
                };
                let best = (0..cells.len()).max_by_key(longest).filter(|place| longest(place) > 0);
                Owner::Cell(best.unwrap_or(cells.len()))
            }
        }
    }

    fn bandwidth(&self, owner: Owner) -> BitRate {
        match owner {
            Owner::Cell(place) => self.cell_bandwidth[place],
            Owner::Host(_) | Owner::Flow(_) => self.config.bandwidth,
        }
    }

    fn link(&self, bandwidth: BitRate) -> LinkConfig {
        let queue = QueueLimit::Bytes(self.config.queue.0);
        LinkConfig { rate: Rate::Fixed(bandwidth), queue, ..LinkConfig::default() }
    }

    /// A flow begins: its place behind the link that it shares, where `delivered` was delivered of it so far.
    pub fn join(&mut self, now: Time, user: &LinkUser, delivered: u64) -> LinkPlace {
        let place = |index| LinkPlace { index, number: user.number, held: 0, early: 0, delivered };
        let owner = self.owner(user);
        if let Some(&index) = self.by_owner.get(&owner) {
            self.links[index as usize].flows += 1;
            return place(index);
        }
        // nothing on it is random: any seed will do
        let queue = Link::starting_at(now, self.link(self.bandwidth(owner)), Seed(0));
        let estimate = self.config.is_estimated.then(|| ThroughputEstimate::new(now, self.bandwidth(owner)));
        let link =
            EmulatedLink { owner, queue, held: 0, early: 0, flows: 1, estimate, taken: [0; 2], armed: None };
        let index = self.links.insert(link) as u32;
        self.by_owner.insert(owner, index);
        place(index)
    }

    /// A flow has ended. Its tokens are void; what they take of the link they keep, as datagrams that are under way do.
    pub fn leave(&mut self, place: &LinkPlace) {
        let Some(link) = self.links.get_mut(place.index as usize) else { return };
        link.held -= place.held;
        link.early -= place.early;
        link.flows -= 1;
        if link.flows == 0 {
            self.by_owner.remove(&link.owner);
            self.links.remove(place.index as usize);
        }
    }

    /// A flow now holds `held` bytes, `early` of them behind a gap, and has been delivered up to `delivered`.
    pub fn book(&mut self, now: Time, place: &mut LinkPlace, (held, early): (u64, u64), delivered: u64) {
        // the buffer is there for interruptions: a quarter of it keeps the access link busy in short ones
        let wanted = (self.config.buffer.0 / 4).max(self.config.queue.0);
        let index = place.index;
        let Some(link) = self.links.get_mut(index as usize) else { return };
        link.held = link.held - place.held + held;
        link.early = link.early - place.early + early;
        let newly_delivered = delivered - place.delivered;
        (place.held, place.early, place.delivered) = (held, early, delivered);
        let Some(estimate) = &mut link.estimate else { return };
        let [payload, whole] = link.taken.map(|bytes| bytes.max(1));
        let delivered = (u128::from(newly_delivered) * u128::from(whole) / u128::from(payload)) as u64;
        let look = Look { delivered, held: link.held, waiting: link.queue.queue_bytes(now).0, wanted };
        let Some(bandwidth) = estimate.on_look(now, look) else { return };
        let reconfigured = self.link(bandwidth);
        if let Some(link) = self.links.get_mut(index as usize) {
            link.queue.reconfigure(now, reconfigured);
            link.armed = None;
            link.arm(index, &mut self.timers);
        }
    }

    /// Whether `payload` more bytes may be held. What is `in_order` finds room beside all that waits behind gaps, its own and
    /// those of others: or a gap that is never filled would keep everybody behind the link from going on.
    pub fn has_room(&self, index: u32, payload: u64, in_order: bool) -> bool {
        let Some(link) = self.links.get(index as usize) else { return true };
        let held = if in_order { link.held - link.early } else { link.held };
        held + payload <= self.config.buffer.0
    }

    /// A datagram of `size` bytes, IP header included, comes to the emulated link: whether it fits its
    /// queue. Its acknowledgment comes out of [`poll`](Self::poll) when the link would have carried it.
    pub fn offer(&mut self, now: Time, index: u32, size: Bytes, token: AckToken) -> bool {
        let Some(link) = self.links.get_mut(index as usize) else { return false };
        let accepted = link.queue.push_once(now, size, token) == Verdict::Queued;
        if accepted {
            link.taken[0] += token.extent.end - token.extent.start;
            link.taken[1] += size.0;
        }
        link.arm(index, &mut self.timers);
        accepted
    }

    /// The next token that has come over its link.
    pub fn poll(&mut self, now: Time) -> Option<AckToken> {
        while let Some((at, index)) = self.timers.pop_due(now) {
            let Some(link) = self.links.get_mut(index as usize).filter(|link| link.armed == Some(at)) else {
                continue;
            };
            link.armed = None;
            let token = link.queue.pop(now);
            link.arm(index, &mut self.timers);
            if let Some((_, token)) = token {
                return Some(token);
            }
        }
        None
    }

    /// When the next token comes over its link.
    pub fn poll_timeout(&self) -> Option<Deadline> {
        self.timers.next().map(|Deadline { at, .. }| Deadline { at, timer: "path-tail" })
    }

    /// The bandwidth is another from now on: of the cell of this name, or of everything. What waits on
    /// an emulated link goes on at the new rate. Whether there is such a cell.
    pub fn set_bandwidth(&mut self, now: Time, cell: Option<&str>, bandwidth: BitRate) -> bool {
        match (cell, &self.config.scope) {
            (None, _) => {
                self.config.bandwidth = bandwidth;
                self.cell_bandwidth.fill(bandwidth);
            }
            (Some(name), TailScope::Cell(cells)) => {
                let Some(place) = cells.iter().position(|cell| cell.name == name) else { return false };
                self.cell_bandwidth[place] = bandwidth;
            }
            (Some(_), TailScope::Host | TailScope::Flow) => return false,
        }
        let links: Vec<(u32, Owner)> =
            self.links.iter().map(|(index, link)| (index as u32, link.owner)).collect();
        for (index, owner) in links {
            let reconfigured = self.link(self.bandwidth(owner));
            if let Some(link) = self.links.get_mut(index as usize) {
                link.queue.reconfigure(now, reconfigured);
                // a controller knows better; from there on it is followed again
                link.estimate = link.estimate.take().map(|_| ThroughputEstimate::new(now, bandwidth));
                link.armed = None;
                link.arm(index, &mut self.timers);
            }
        }
        true
    }
}

impl EmulatedLink {
    /// Asks to be called when the first token comes out.
    fn arm(&mut self, index: u32, timers: &mut Timers) {
        let Some(at) = self.queue.next_delivery() else { return };
        if self.armed.is_none_or(|armed| at < armed) {
            self.armed = Some(at);
            timers.arm(index, at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Cell;
    use super::*;
    use alloc::vec;

    fn token(flow: u64) -> AckToken {
        AckToken { slot: flow as u32, flow, extent: Extent { start: 1, end: 2, ts_val: None } }
    }

    fn config(scope: TailScope) -> PathTailConfig {
        // 1500 bytes take 12 ms
        let bandwidth = BitRate::from_bits_per_sec(1_000_000);
        PathTailConfig { bandwidth, is_estimated: false, queue: Bytes(4500), buffer: Bytes(10_000), scope }
    }

    fn addresses() -> [IpAddr; 3] {
        ["10.1.0.7".parse().unwrap(), "10.1.0.8".parse().unwrap(), "10.2.0.9".parse().unwrap()]
    }

    fn user(host: usize, number: u64) -> LinkUser {
        LinkUser { host: host as u32, address: addresses()[host], number }
    }

    #[test]
    fn an_acknowledgment_comes_after_queueing_and_serialization() {
        let mut links = EmulatedLinks::new(config(TailScope::Host), 1);
        let link = links.join(Time::ZERO, &user(0, 0), 0).index;
        let at = Time::from_millis;
        assert!((0..3).all(|flow| links.offer(at(100), link, Bytes(1500), token(flow))));
        assert!(!links.offer(at(100), link, Bytes(1500), token(3)), "the queue is full");
        assert_eq!(links.poll_timeout().map(|deadline| deadline.at), Some(at(112)));
        assert_eq!(links.poll(at(111)), None);
        assert_eq!(links.poll(at(124)), Some(token(0)));
        assert_eq!(links.poll(at(124)), Some(token(1)), "first in, first out");
        assert_eq!(links.poll(at(124)), None);
        assert_eq!(links.poll_timeout().map(|deadline| deadline.at), Some(at(136)));
    }

    #[test]
    fn hosts_flows_and_cells_share_as_they_are_told() {
        let cell = |name: &str, prefix: &str, bandwidth| Cell {
            name: name.into(),
            prefixes: vec![prefix.parse().unwrap()],
            bandwidth,
        };
        let half = Some(BitRate::from_bits_per_sec(500_000));
        let cells = vec![cell("all", "10.0.0.0/8", None), cell("second", "10.2.0.0/16", half)];
        for (scope, same) in [
            (TailScope::Host, [false, false]),
            (TailScope::Flow, [false, false]),
            (TailScope::Cell(cells), [true, false]),
        ] {
            let mut links = EmulatedLinks::new(config(scope.clone()), 1);
            let joined = [0, 1, 2].map(|host| links.join(Time::ZERO, &user(host, host as u64), 0).index);
            assert_eq!([joined[0] == joined[1], joined[0] == joined[2]], same, "{scope:?}");
            let again = links.join(Time::ZERO, &user(0, 3), 0).index;
            assert_eq!(again == joined[0], scope != TailScope::Flow, "{scope:?}");
            if let TailScope::Cell(_) = scope {
                assert!(links.offer(Time::ZERO, joined[2], Bytes(1500), token(2)));
                assert_eq!(links.poll_timeout().map(|d| d.at), Some(Time::from_millis(24)), "half the rate");
            }
        }
    }

    #[test]
    fn a_link_without_flows_is_forgotten() {
        let mut links = EmulatedLinks::new(config(TailScope::Host), 1);
        let mut place = links.join(Time::ZERO, &user(0, 0), 1);
        links.book(Time::ZERO, &mut place, (9000, 1000), 1);
        assert!(!links.has_room(place.index, 2000, false) && links.has_room(place.index, 2000, true));
        links.leave(&place);
        assert!(links.by_owner.is_empty());
        let next = links.join(Time::ZERO, &user(0, 1), 1);
        assert!(links.has_room(next.index, 10_000, false));
    }

    #[test]
    fn a_new_bandwidth_holds_at_once() {
        let mut links = EmulatedLinks::new(config(TailScope::Host), 1);
        let link = links.join(Time::ZERO, &user(0, 0), 0).index;
        assert!(links.offer(Time::ZERO, link, Bytes(1500), token(0)));
        assert!(links.offer(Time::ZERO, link, Bytes(1500), token(1)));
        assert!(!links.set_bandwidth(Time::ZERO, Some("a cell"), BitRate::from_bits_per_sec(1)));
        assert!(links.set_bandwidth(Time::from_millis(12), None, BitRate::from_bits_per_sec(100_000)));
        assert_eq!(links.poll(Time::from_millis(12)), Some(token(0)));
        assert_eq!(links.poll(Time::from_millis(12)), None);
        assert_eq!(links.poll_timeout().map(|deadline| deadline.at), Some(Time::from_millis(132)));
        assert_eq!(links.poll(Time::from_millis(132)), Some(token(1)));
    }
}
