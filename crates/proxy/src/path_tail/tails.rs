use super::emulated_host::Extent;
use super::estimate::{Look, ThroughputEstimate};
use super::{PathTailConfig, TailScope};
use crate::gateway::Keyed;
use crate::{AckRule, GatewayConfig};
use alloc::vec::Vec;
use core::net::IpAddr;
use hashbrown::HashMap;
use shorthaul_link::{Link, LinkConfig, QueueLimit, Rate, Verdict};
use shorthaul_tcp::Timers;
use shorthaul_types::{BitRate, Bytes, Deadline, Seed, Time};

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
    Host(IpAddr),
    Flow(u64),
}

/// One emulated link: the queue of acknowledgments *is* a link, on which a token takes the time and the
/// room that its datagram would have taken.
#[derive(Debug)]
struct Tail {
    owner: Owner,
    queue: Link<AckToken>,
    /// Payload held for the hosts behind it.
    held: u64,
    flows: u32,
    /// Where the bandwidth is estimated.
    estimate: Option<ThroughputEstimate>,
    /// What was taken so far, as payload and with headers.
    taken: [u64; 2],
    /// The deadline that is in the heap, if one is.
    armed: Option<Time>,
}

/// All emulated links of a gateway.
#[derive(Debug)]
pub(crate) struct PathTails {
    config: PathTailConfig,
    /// The bandwidth of each cell, in the order of the list, and of what is in none.
    cell_bandwidth: Vec<BitRate>,
    tails: Vec<Option<Tail>>,
    free: Vec<u32>,
    by_owner: HashMap<Owner, u32, Keyed>,
    timers: Timers,
}

impl PathTails {
    /// The emulated links of a gateway that has any.
    pub fn of(config: &GatewayConfig) -> Option<Self> {
        match &config.senders.acks {
            AckRule::PathTail(tail) => Some(PathTails::new(tail.clone(), config.hash_seed)),
            _ => None,
        }
    }

    /// Emulated links that will be made as flows join them. `hash_seed` keeps anybody from choosing
    /// addresses that collide.
    pub fn new(config: PathTailConfig, hash_seed: u64) -> Self {
        let cells = if let TailScope::Cell(cells) = &config.scope { &cells[..] } else { &[] };
        let own = |bandwidth: Option<BitRate>| bandwidth.unwrap_or(config.bandwidth);
        PathTails {
            cell_bandwidth: cells.iter().map(|cell| own(cell.bandwidth)).chain([own(None)]).collect(),
            tails: Vec::new(),
            free: Vec::new(),
            by_owner: HashMap::with_hasher(Keyed(hash_seed)),
            timers: Timers::default(),
            config,
        }
    }

    fn owner(&self, host: IpAddr, flow: u64) -> Owner {
        match &self.config.scope {
            TailScope::Host => Owner::Host(host),
            TailScope::Flow => Owner::Flow(flow),
            TailScope::Cell(cells) => {
                let longest = |place: &usize| {
                    let held = cells[*place].prefixes.iter().filter(|prefix| prefix.holds(host));
                    held.map(|prefix| prefix.len + 1).max().unwrap_or(0)
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

    /// Flow number `flow` to `host` begins: which emulated link it is behind.
    pub fn join(&mut self, now: Time, host: IpAddr, flow: u64) -> u32 {
        let owner = self.owner(host, flow);
        if let Some(&index) = self.by_owner.get(&owner) {
            if let Some(tail) = &mut self.tails[index as usize] {
                tail.flows += 1;
            }
            return index;
        }
        // nothing on it is random: any seed will do
        let queue = Link::starting_at(now, self.link(self.bandwidth(owner)), Seed(0));
        let estimate = self.config.is_estimated.then(|| ThroughputEstimate::new(now, self.bandwidth(owner)));
        let tail = Some(Tail { owner, queue, held: 0, flows: 1, estimate, taken: [0; 2], armed: None });
        let index = match self.free.pop() {
            Some(index) => {
                self.tails[index as usize] = tail;
                index
            }
            None => {
                self.tails.push(tail);
                self.tails.len() as u32 - 1
            }
        };
        self.by_owner.insert(owner, index);
        index
    }

    /// A flow for which `held` was booked has ended. Its tokens are void; what they take of the link
    /// they keep, as datagrams that are under way do.
    pub fn leave(&mut self, index: u32, held: u64) {
        let Some(tail) = &mut self.tails[index as usize] else { return };
        tail.held -= held;
        tail.flows -= 1;
        if tail.flows == 0 {
            self.by_owner.remove(&tail.owner);
            self.tails[index as usize] = None;
            self.free.push(index);
        }
    }

    /// A flow of which `before` bytes were held now has `after`, and `delivered` bytes of payload more have
    /// reached its host.
    pub fn book(&mut self, now: Time, index: u32, before: u64, after: u64, delivered: u64) {
        let wanted = self.config.queue.0;
        let Some(tail) = &mut self.tails[index as usize] else { return };
        tail.held = tail.held - before + after;
        let Some(estimate) = &mut tail.estimate else { return };
        let [payload, whole] = tail.taken.map(|bytes| bytes.max(1));
        let delivered = (u128::from(delivered) * u128::from(whole) / u128::from(payload)) as u64;
        let look = Look { delivered, held: tail.held, waiting: tail.queue.queue_bytes(now).0, wanted };
        let Some(bandwidth) = estimate.on_look(now, look) else { return };
        let link = self.link(bandwidth);
        if let Some(tail) = &mut self.tails[index as usize] {
            tail.queue.reconfigure(now, link);
            tail.armed = None;
            tail.arm(index, &mut self.timers);
        }
    }

    /// Whether `payload` more bytes may be held, if `exempt` bytes of what is held do not count.
    pub fn has_room(&self, index: u32, payload: u64, exempt: u64) -> bool {
        let held = self.tails[index as usize].as_ref().map_or(0, |tail| tail.held);
        held.saturating_sub(exempt) + payload <= self.config.buffer.0
    }

    /// A datagram of `size` bytes, IP header included, comes to the emulated link: whether it fits its
    /// queue. Its acknowledgment comes out of [`poll`](Self::poll) when the link would have carried it.
    pub fn offer(&mut self, now: Time, index: u32, size: Bytes, token: AckToken) -> bool {
        let Some(tail) = &mut self.tails[index as usize] else { return false };
        let accepted = tail.queue.push_once(now, size, token) == Verdict::Queued;
        if accepted {
            tail.taken[0] += token.extent.end - token.extent.start;
            tail.taken[1] += size.0;
        }
        tail.arm(index, &mut self.timers);
        accepted
    }

    /// The next token that has come over its link.
    pub fn poll(&mut self, now: Time) -> Option<AckToken> {
        while let Some((at, index)) = self.timers.pop_due(now) {
            let Some(tail) = self.tails[index as usize].as_mut().filter(|tail| tail.armed == Some(at)) else {
                continue;
            };
            tail.armed = None;
            let token = tail.queue.pop(now);
            tail.arm(index, &mut self.timers);
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
        for index in 0..self.tails.len() {
            let Some(owner) = self.tails[index].as_ref().map(|tail| tail.owner) else { continue };
            let link = self.link(self.bandwidth(owner));
            if let Some(tail) = &mut self.tails[index] {
                tail.queue.reconfigure(now, link);
                // a controller knows better; from there on it is followed again
                tail.estimate = tail.estimate.take().map(|_| ThroughputEstimate::new(now, bandwidth));
                tail.armed = None;
                tail.arm(index as u32, &mut self.timers);
            }
        }
        true
    }
}

impl Tail {
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

    #[test]
    fn an_acknowledgment_comes_after_queueing_and_serialization() {
        let mut tails = PathTails::new(config(TailScope::Host), 1);
        let tail = tails.join(Time::ZERO, addresses()[0], 0);
        let at = Time::from_millis;
        assert!((0..3).all(|flow| tails.offer(at(100), tail, Bytes(1500), token(flow))));
        assert!(!tails.offer(at(100), tail, Bytes(1500), token(3)), "the queue is full");
        assert_eq!(tails.poll_timeout().map(|deadline| deadline.at), Some(at(112)));
        assert_eq!(tails.poll(at(111)), None);
        assert_eq!(tails.poll(at(124)), Some(token(0)));
        assert_eq!(tails.poll(at(124)), Some(token(1)), "first in, first out");
        assert_eq!(tails.poll(at(124)), None);
        assert_eq!(tails.poll_timeout().map(|deadline| deadline.at), Some(at(136)));
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
            let mut tails = PathTails::new(config(scope.clone()), 1);
            let [a, b, c] = addresses();
            let joined = [(a, 0), (b, 1), (c, 2)].map(|(host, flow)| tails.join(Time::ZERO, host, flow));
            assert_eq!([joined[0] == joined[1], joined[0] == joined[2]], same, "{scope:?}");
            let again = tails.join(Time::ZERO, a, 3);
            assert_eq!(again == joined[0], scope != TailScope::Flow, "{scope:?}");
            if let TailScope::Cell(_) = scope {
                assert!(tails.offer(Time::ZERO, joined[2], Bytes(1500), token(2)));
                assert_eq!(tails.poll_timeout().map(|d| d.at), Some(Time::from_millis(24)), "half the rate");
            }
        }
    }

    #[test]
    fn a_link_without_flows_is_forgotten() {
        let mut tails = PathTails::new(config(TailScope::Host), 1);
        let host = addresses()[0];
        let tail = tails.join(Time::ZERO, host, 0);
        tails.book(Time::ZERO, tail, 0, 9000, 0);
        assert!(!tails.has_room(tail, 2000, 0) && tails.has_room(tail, 2000, 1000));
        tails.leave(tail, 9000);
        assert!(tails.by_owner.is_empty());
        let next = tails.join(Time::ZERO, host, 1);
        assert!(tails.has_room(next, 10_000, 0));
    }

    #[test]
    fn a_new_bandwidth_holds_at_once() {
        let mut tails = PathTails::new(config(TailScope::Host), 1);
        let tail = tails.join(Time::ZERO, addresses()[0], 0);
        assert!(tails.offer(Time::ZERO, tail, Bytes(1500), token(0)));
        assert!(tails.offer(Time::ZERO, tail, Bytes(1500), token(1)));
        assert!(!tails.set_bandwidth(Time::ZERO, Some("a cell"), BitRate::from_bits_per_sec(1)));
        assert!(tails.set_bandwidth(Time::from_millis(12), None, BitRate::from_bits_per_sec(100_000)));
        assert_eq!(tails.poll(Time::from_millis(12)), Some(token(0)));
        assert_eq!(tails.poll(Time::from_millis(12)), None);
        assert_eq!(tails.poll_timeout().map(|deadline| deadline.at), Some(Time::from_millis(132)));
        assert_eq!(tails.poll(Time::from_millis(132)), Some(token(1)));
    }
}
