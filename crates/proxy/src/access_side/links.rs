use crate::path_tail::{AckToken, Booking, EmulatedLink, PathTailConfig, Tail};
use shorthaul_tcp::Timers;
use shorthaul_types::{BitRate, Bytes, Deadline, Time};
use slab::Slab;

/// What an emulated link is the tail of the path to: a node of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Node {
    /// The hosts of a group: a radio cell.
    Group(u32),
    /// One host.
    Host(u32),
    /// One flow.
    Flow,
}

/// A flow's place behind an emulated link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkPlace {
    /// Which link.
    pub index: u32,
    /// The flow's number: tells its tokens from those of another that had its place in the table before.
    pub number: u64,
    booking: Booking,
}

#[derive(Debug)]
struct Linked {
    tail: u32,
    node: Node,
    flows: u32,
    link: EmulatedLink,
    /// The deadline that is in the heap, if one is.
    armed: Option<Time>,
}

/// The emulated links of all nodes.
#[derive(Debug, Default)]
pub(crate) struct Links {
    tails: Slab<Tail>,
    links: Slab<Linked>,
    timers: Timers,
}

impl Links {
    /// A policy emulates this tail. Returns by what it is known.
    pub(super) fn add_tail(&mut self, config: &PathTailConfig) -> u32 {
        self.tails.insert(Tail::new(config.clone())) as u32
    }

    /// No flow has that policy any more.
    pub(super) fn remove_tail(&mut self, tail: u32) {
        self.tails.try_remove(tail as usize);
    }

    pub(super) fn tail(&self, tail: u32) -> Option<&Tail> {
        self.tails.get(tail as usize)
    }

    /// A new link, of a cell or of whomever, which nobody is behind yet.
    pub(super) fn insert(&mut self, now: Time, tail: u32, node: Node, cell: Option<usize>) -> u32 {
        let link = EmulatedLink::new(now, &self.tails[tail as usize], cell);
        self.links.insert(Linked { tail, node, flows: 0, link, armed: None }) as u32
    }

    /// A flow with this number takes its place behind a link, where `delivered` was delivered of it so far.
    pub(super) fn join(&mut self, index: u32, number: u64, delivered: u64) -> LinkPlace {
        self.links[index as usize].flows += 1;
        LinkPlace { index, number, booking: Booking { delivered, ..Booking::default() } }
    }

    /// A flow has ended. Its tokens are void; what they take of the link they keep, as datagrams that are under way do. Returns
    /// whose link is no more, if nobody is behind it now.
    pub(super) fn leave(&mut self, place: &LinkPlace) -> Option<Node> {
        let linked = self.links.get_mut(place.index as usize)?;
        linked.link.cancel(&place.booking);
        linked.flows -= 1;
        (linked.flows == 0).then(|| self.links.remove(place.index as usize).node)
    }

    /// A flow now holds `held` bytes, `early` of them behind a gap, and has been delivered up to `delivered`.
    pub fn book(&mut self, now: Time, place: &mut LinkPlace, (held, early): (u64, u64), delivered: u64) {
        let Links { tails, links, timers } = self;
        let Some(linked) = links.get_mut(place.index as usize) else { return };
        let Some(tail) = tails.get(linked.tail as usize) else { return };
        if linked.link.book(now, tail, &mut place.booking, Booking { held, early, delivered }) {
            linked.armed = None;
            linked.arm(place.index, timers);
        }
    }

    /// Whether `payload` more bytes may be held behind a link: see [`EmulatedLink::has_room`].
    pub fn has_room(&self, index: u32, payload: u64, in_order: bool) -> bool {
        let Some(linked) = self.links.get(index as usize) else { return true };
        self.tail(linked.tail).is_none_or(|tail| linked.link.has_room(tail, payload, in_order))
    }

    /// A datagram of `size` bytes, IP header included, comes to a link: whether it fits its queue. Its acknowledgment comes out
    /// of [`poll`](Self::poll) when the link would have carried it.
    pub fn offer(&mut self, now: Time, index: u32, size: Bytes, token: AckToken) -> bool {
        let Some(linked) = self.links.get_mut(index as usize) else { return false };
        let accepted = linked.link.offer(now, size, token);
        linked.arm(index, &mut self.timers);
        accepted
    }

    /// The next token that has come over its link.
    pub fn poll(&mut self, now: Time) -> Option<AckToken> {
        while let Some((at, index)) = self.timers.pop_due(now) {
            let Some(linked) = self.links.get_mut(index as usize).filter(|linked| linked.armed == Some(at))
            else {
                continue;
            };
            linked.armed = None;
            let token = linked.link.poll(now);
            linked.arm(index, &mut self.timers);
            if token.is_some() {
                return token;
            }
        }
        None
    }

    /// When the next token comes over its link.
    pub fn poll_timeout(&self) -> Option<Deadline> {
        self.timers.next().map(|Deadline { at, .. }| Deadline { at, timer: "path-tail" })
    }

    /// The bandwidth is another from now on: of the cells of this name, or of everything. What waits on
    /// an emulated link goes on at the new rate. Whether there is such a cell.
    pub fn set_bandwidth(&mut self, now: Time, cell: Option<&str>, bandwidth: BitRate) -> bool {
        let Links { tails, links, timers } = self;
        let mut heeded = false;
        for (number, tail) in tails.iter_mut().filter_map(|(number, tail)| {
            let has_it = tail.set_bandwidth(cell, bandwidth);
            has_it.then_some((number as u32, &*tail))
        }) {
            heeded = true;
            for (index, linked) in links.iter_mut().filter(|(_, linked)| linked.tail == number) {
                linked.link.set_bandwidth(now, tail, bandwidth);
                linked.armed = None;
                linked.arm(index as u32, timers);
            }
        }
        heeded
    }
}

impl Linked {
    /// Asks to be called when the first token comes out.
    fn arm(&mut self, index: u32, timers: &mut Timers) {
        let Some(at) = self.link.next_delivery() else { return };
        if self.armed.is_none_or(|armed| at < armed) {
            self.armed = Some(at);
            timers.arm(index, at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ack_release::Extent;
    use crate::path_tail::TailScope;

    fn token(flow: u64) -> AckToken {
        AckToken { slot: flow as u32, flow, extent: Extent { start: 1, end: 2, ts_val: None } }
    }

    /// One link on which 1500 bytes take 12 ms, with a flow behind it.
    fn one() -> (Links, LinkPlace) {
        let mut links = Links::default();
        let tail = links.add_tail(&PathTailConfig {
            bandwidth: BitRate::from_bits_per_sec(1_000_000),
            is_estimated: false,
            queue: Bytes(4500),
            buffer: Bytes(10_000),
            scope: TailScope::Host,
        });
        let link = links.insert(Time::ZERO, tail, Node::Host(0), None);
        let place = links.join(link, 0, 0);
        (links, place)
    }

    #[test]
    fn an_acknowledgment_comes_after_queueing_and_serialization() {
        let (mut links, LinkPlace { index: link, .. }) = one();
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
    fn what_is_booked_is_given_back_with_the_last_flow() {
        let (mut links, mut place) = one();
        links.book(Time::ZERO, &mut place, (9000, 1000), 0);
        assert!(!links.has_room(place.index, 2000, false) && links.has_room(place.index, 2000, true));
        let other = links.join(place.index, 1, 0);
        assert_eq!(links.leave(&place), None, "there is another behind it");
        assert!(links.has_room(other.index, 10_000, false));
        assert_eq!(links.leave(&other), Some(Node::Host(0)));
        assert!(links.links.is_empty());
    }

    #[test]
    fn a_new_bandwidth_holds_at_once() {
        let (mut links, LinkPlace { index: link, .. }) = one();
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
