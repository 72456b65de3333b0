use super::estimate::{Look, ThroughputEstimate};
use super::{PathTailConfig, TailScope};
use crate::ack_release::Extent;
use alloc::vec::Vec;
use core::net::IpAddr;
use shorthaul_link::{Link, LinkConfig, Offered, QueueLimit, Rate};
use shorthaul_types::{BitRate, Bytes, Seed, Time};

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

/// The path's tail, as a policy has it emulated: what its links are made of.
#[derive(Debug)]
pub(crate) struct Tail {
    config: PathTailConfig,
    /// The bandwidth of each cell, in the order of the list, and of what is in none.
    cell_bandwidth: Vec<BitRate>,
}

impl Tail {
    pub fn new(config: PathTailConfig) -> Self {
        let cells = if let TailScope::Cell(cells) = &config.scope { &cells[..] } else { &[] };
        let own = |bandwidth: Option<BitRate>| bandwidth.unwrap_or(config.bandwidth);
        let cell_bandwidth = cells.iter().map(|cell| own(cell.bandwidth)).chain([own(None)]).collect();
        Tail { config, cell_bandwidth }
    }

    /// Who shares a link.
    pub fn scope(&self) -> &TailScope {
        &self.config.scope
    }

    /// The place in the list of the cell that an address is in, one behind the last if it is in none; `None` where there are no
    /// cells.
    pub fn cell_of(&self, address: IpAddr) -> Option<usize> {
        let TailScope::Cell(cells) = &self.config.scope else { return None };
        let longest = |place: &usize| {
            let held = cells[*place].prefixes.iter().filter(|prefix| prefix.contains(&address));
            held.map(|prefix| prefix.prefix_len() + 1).max().unwrap_or(0)
        };
        let best = (0..cells.len()).max_by_key(longest).filter(|place| longest(place) > 0);
        Some(best.unwrap_or(cells.len()))
    }

    fn bandwidth(&self, cell: Option<usize>) -> BitRate {
        cell.map_or(self.config.bandwidth, |place| self.cell_bandwidth[place])
    }

    fn link(&self, bandwidth: BitRate) -> LinkConfig {
        let queue = QueueLimit::Bytes(self.config.queue.0);
        LinkConfig { rate: Rate::Fixed(bandwidth), queue, ..LinkConfig::default() }
    }

    /// The bandwidth is another from now on: of the cell of this name, or of everything. Whether there is such a cell.
    pub fn set_bandwidth(&mut self, cell: Option<&str>, bandwidth: BitRate) -> bool {
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
        true
    }
}

/// One emulated link: the queue of acknowledgments *is* a link, on which a token takes the time and the
/// room that its datagram would have taken.
#[derive(Debug)]
pub(crate) struct EmulatedLink {
    /// The cell that it stands for, if it does.
    cell: Option<usize>,
    queue: Link<AckToken>,
    /// Payload held for the hosts behind it, and of that, what waits behind gaps.
    held: u64,
    early: u64,
    /// Where the bandwidth is estimated.
    estimate: Option<ThroughputEstimate>,
    /// What was taken so far, as payload and with headers.
    taken: [u64; 2],
}

/// What a flow has booked on a link, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Booking {
    /// What is held.
    pub held: u64,
    /// Of what is held, what waits behind a gap.
    pub early: u64,
    /// Up to where it had been delivered then.
    pub delivered: u64,
}

impl EmulatedLink {
    /// A link that begins, for a cell or for whomever.
    pub fn new(now: Time, tail: &Tail, cell: Option<usize>) -> Self {
        let bandwidth = tail.bandwidth(cell);
        EmulatedLink {
            cell,
            // nothing on it is random: any seed will do
            queue: Link::starting_at(now, tail.link(bandwidth), Seed(0)),
            held: 0,
            early: 0,
            estimate: tail.config.is_estimated.then(|| ThroughputEstimate::new(now, bandwidth)),
            taken: [0; 2],
        }
    }

    /// A flow has ended that had booked this.
    pub fn cancel(&mut self, booking: &Booking) {
        self.held -= booking.held;
        self.early -= booking.early;
    }

    /// What a flow has booked changes. Whether the link has another bandwidth from now on.
    pub fn book(&mut self, now: Time, tail: &Tail, before: &mut Booking, booking: Booking) -> bool {
        // the buffer is there for interruptions: a quarter of it keeps the access link busy in short ones
        let wanted = (tail.config.buffer.0 / 4).max(tail.config.queue.0);
        self.cancel(before);
        self.held += booking.held;
        self.early += booking.early;
        let newly_delivered = booking.delivered - before.delivered;
        *before = booking;
        let Some(estimate) = &mut self.estimate else { return false };
        let [payload, whole] = self.taken.map(|bytes| bytes.max(1));
        let delivered = (u128::from(newly_delivered) * u128::from(whole) / u128::from(payload)) as u64;
        let look = Look { delivered, held: self.held, waiting: self.queue.queue_bytes(now).0, wanted };
        let Some(bandwidth) = estimate.on_look(now, look) else { return false };
        self.queue.reconfigure(now, tail.link(bandwidth));
        true
    }

    /// Whether `payload` more bytes may be held. What is `in_order` finds room beside all that waits behind gaps, its own and
    /// those of others: or a gap that is never filled would keep everybody behind the link from going on.
    pub fn has_room(&self, tail: &Tail, payload: u64, in_order: bool) -> bool {
        let held = if in_order { self.held - self.early } else { self.held };
        held + payload <= tail.config.buffer.0
    }

    /// A datagram of `size` bytes, IP header included, comes to the link: whether it fits its queue.
    pub fn offer(&mut self, now: Time, size: Bytes, token: AckToken) -> bool {
        let accepted = self.queue.push_once(now, size, token) == Offered::Queued;
        if accepted {
            self.taken[0] += token.extent.end - token.extent.start;
            self.taken[1] += size.0;
        }
        accepted
    }

    /// The next token that has come over it.
    pub fn poll(&mut self, now: Time) -> Option<AckToken> {
        self.queue.pop(now).map(|(_, token)| token)
    }

    /// When the next token comes over it.
    pub fn next_delivery(&self) -> Option<Time> {
        self.queue.next_delivery()
    }

    /// The tail's bandwidth has been set to `bandwidth`, here or elsewhere. What waits goes on at the rate that is now this link's.
    pub fn set_bandwidth(&mut self, now: Time, tail: &Tail, bandwidth: BitRate) {
        self.queue.reconfigure(now, tail.link(tail.bandwidth(self.cell)));
        // a controller knows better; from there on it is followed again
        self.estimate = self.estimate.take().map(|_| ThroughputEstimate::new(now, bandwidth));
    }
}
