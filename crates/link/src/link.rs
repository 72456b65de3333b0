mod capacity;
mod reconfigure;

use alloc::vec::Vec;
use core::time::Duration;

use shorthaul_types::{Bytes, Seed, Time};

use crate::arq::{self, ArqClock};
use crate::backlog::{Backlog, Place};
use crate::draw::Draw;
use crate::line::{Entry, Line};
use crate::loss::Loss;
use crate::outage::OutageClock;
use crate::selective_repeat::SelectiveRepeat;
use crate::server::{Ready, Server, Slot};
use crate::{DropReason, LinkConfig, LinkStats};

/// One direction of a link that carries items of type `T`.
///
/// The driver pushes packets in and pops them when [`next_delivery`](Self::next_delivery) has come. When a
/// packet comes out is settled when it goes in, so it depends on the pushes alone: a driver that pops late
/// learns the exact time nevertheless, and no lateness adds up.
///
/// `now` must not decrease from one `push`, `pop` or `reconfigure` to the next; a push with an earlier one
/// counts as made at the latest push.
#[derive(Clone, Debug)]
pub struct Link<T> {
    config: LinkConfig,
    seed: Seed,
    origin: Time,
    /// The latest `now`.
    clock: Time,
    server: Server,
    outages: OutageClock,
    arq: ArqClock,
    repeat: Option<SelectiveRepeat>,
    loss: Loss,
    draws: Draws,
    backlog: Backlog,
    /// When everything accepted so far will have been serialized; `None` before the first packet.
    free: Option<Time>,
    /// When the link was or will be awake after its last wake-up.
    awake: Time,
    /// Packets that wait for an aggregate to fill.
    aggregate: Vec<Entry<T>>,
    /// When the last aggregate left.
    last_release: Option<Time>,
    line: Line<T>,
    /// The latest delivery so far: where order is kept, none may come before it.
    latest_delivery: Time,
    /// The highest key delivered.
    highest_delivered: Option<u64>,
    stats: LinkStats,
}

/// The randomness that has no state.
#[derive(Clone, Copy, Debug)]
struct Draws {
    duplicate: Draw,
    route: Draw,
    jitter: Draw,
    reordering: Draw,
    drx: Draw,
}

/// What has become of a packet that was pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a dropped packet is given back"]
pub enum Offered<T> {
    /// It is on its way.
    Queued,
    /// It will never come out.
    Dropped {
        /// The packet.
        item: T,
        /// Why.
        reason: DropReason,
    },
}

impl<T> Link<T> {
    /// A link that starts at [`Time::ZERO`].
    ///
    /// # Panics
    /// If [`LinkConfig::validate`] refuses the configuration.
    pub fn new(config: LinkConfig, seed: Seed) -> Self {
        Self::starting_at(Time::ZERO, config, seed)
    }

    /// A link that starts at `origin`, from which schedules, traces, outages and loss phases count.
    ///
    /// # Panics
    /// If [`LinkConfig::validate`] refuses the configuration.
    pub fn starting_at(origin: Time, config: LinkConfig, seed: Seed) -> Self {
        if let Err(error) = config.validate() {
            panic!("invalid link configuration: {error}");
        }
        Link {
            seed,
            origin,
            clock: Time::ZERO,
            server: Server::new(&config.rate, origin),
            outages: OutageClock::new(&config.outages, seed, origin),
            arq: ArqClock::new(config.arq, seed, origin),
            repeat: arq::selective_repeat(config.arq, seed, origin),
            loss: Loss::new(config.loss, seed, origin),
            draws: Draws {
                duplicate: Draw::of(seed, "duplicate"),
                route: Draw::of(seed, "route"),
                jitter: Draw::of(seed, "jitter"),
                reordering: Draw::of(seed, "reordering"),
                // The name of a draw is part of its numbers, and stays.
                drx: Draw::of(seed, "wakeup"),
            },
            backlog: Backlog::default(),
            free: None,
            awake: Time::ZERO,
            aggregate: Vec::new(),
            last_release: None,
            line: Line::new(config.keeps_order()),
            latest_delivery: Time::ZERO,
            highest_delivered: None,
            stats: LinkStats::default(),
            config,
        }
    }

    /// Puts a packet of `size` bytes onto the link, without ever duplicating it: for items that cannot be
    /// cloned. See [`push`](Self::push).
    pub fn push_once(&mut self, now: Time, size: Bytes, item: T) -> Offered<T> {
        self.clock = self.clock.max(now);
        self.backlog.advance(self.clock);
        let index = self.stats.offered;
        self.stats.offered += 1;
        self.stats.offered_bytes.0 += size.0;
        let loss_probability = self.loss.step(index, self.on_link(size));

        let key = original_key(index);
        let Some(slot) = self.enter_queue(key, size) else {
            return self.lose(item, DropReason::QueueFull);
        };
        if slot.is_void {
            return self.lose(item, DropReason::Outage);
        }
        if slot.is_given_up || self.loss.loses(index, loss_probability, slot.departure) {
            return self.lose(item, DropReason::Loss);
        }
        self.send(Entry {
            delivery: Time::MAX,
            key,
            departure: slot.departure,
            whole: slot.whole,
            size,
            item,
        });
        Offered::Queued
    }

    fn lose(&mut self, item: T, reason: DropReason) -> Offered<T> {
        self.stats.dropped.count(reason);
        Offered::Dropped { item, reason }
    }

    /// Gives a packet a place in the queue and serializes it, if there is room.
    fn enter_queue(&mut self, key: u64, size: Bytes) -> Option<Slot> {
        if !self.backlog.has_room(self.config.queue, size) {
            return None;
        }
        let now = self.clock;
        let free = match (self.free, self.config.drx) {
            (Some(free), Some(drx)) if now < free + drx.idle => free,
            (_, Some(drx)) => {
                self.awake = now + drx.penalty.sample(self.draws.drx, key);
                self.awake
            }
            (free, None) => free.unwrap_or(now),
        };
        let slot = self.serialize(key, size, Ready { arrival: now, free });
        self.take_place(key, size, slot);
        self.stats.max_queue = self.stats.max_queue.max(self.backlog.len());
        self.stats.max_queue_bytes = self.stats.max_queue_bytes.max(self.backlog.bytes());
        Some(slot)
    }

    /// What a packet of `size` bytes takes of the link.
    fn on_link(&self, size: Bytes) -> Bytes {
        Bytes(size.0.saturating_add(self.config.overhead.0))
    }

    fn serialize(&mut self, key: u64, size: Bytes, mut ready: Ready) -> Slot {
        let opens = self.repeat.as_mut().map_or(Time::ZERO, |repeat| repeat.opens(size));
        // What was asked for again before the packet could be sent.
        self.repeat_frames(&mut ready.free, ready.arrival.max(opens));
        ready.free = ready.free.max(opens);
        let mut slot = self.server.serve(ready, self.on_link(size), &mut self.outages);
        let repair = self.arq.repair(key, size, slot.start);
        slot.departure += repair.takes;
        (slot.whole, slot.is_given_up) = (slot.departure, repair.fails);
        if let Some(repeat) = &mut self.repeat {
            let fate = repeat.on_packet(key, size, slot.start, slot.departure);
            slot.is_given_up = fate.fails;
            self.repeat_frames(&mut slot.departure, Time::ZERO);
            slot.whole = fate.whole.max(slot.departure);
        }
        slot
    }

    /// Sends again what is to be sent again before the link is free, or by this time; the link is free later then.
    fn repeat_frames(&mut self, free: &mut Time, by: Time) {
        let Some(repeat) = &mut self.repeat else { return };
        while let Some((due, frame)) = repeat.due(by.max(*free)) {
            *free =
                self.server.serve(Ready { arrival: due, free: *free }, frame, &mut self.outages).departure;
        }
    }

    fn take_place(&mut self, key: u64, size: Bytes, slot: Slot) {
        self.free = Some(slot.departure);
        self.backlog.push(Place { key, size, start: slot.start, departure: slot.departure });
    }

    /// Sends a packet that has been given its departure on its way.
    fn send(&mut self, entry: Entry<T>) {
        let Some(aggregation) = self.config.aggregation else {
            let delivery = self.delivery(entry.whole, entry.key, entry.key);
            self.line.insert(Entry { delivery, ..entry });
            return;
        };
        if let Some(deadline) = self.aggregate_deadline().filter(|&deadline| deadline <= entry.departure) {
            self.release_aggregate(deadline);
        }
        let departure = entry.departure;
        let goes_at_once = self.aggregate.is_empty()
            && self.last_release.is_none_or(|last| departure >= last + aggregation.wait);
        self.aggregate.push(entry);
        if goes_at_once || self.aggregate.len() >= aggregation.size {
            self.release_aggregate(departure);
        }
    }

    /// When the aggregate that is being collected leaves at the latest.
    fn aggregate_deadline(&self) -> Option<Time> {
        let first = self.aggregate.first()?;
        Some(first.departure + self.config.aggregation.map_or(Duration::ZERO, |aggregation| aggregation.wait))
    }

    /// Lets the collected packets go at `time`.
    fn release_aggregate(&mut self, time: Time) {
        // taken and put back, so that its memory is used again
        let mut aggregate = core::mem::take(&mut self.aggregate);
        let leader = aggregate.first().map_or(0, |first| first.key);
        for entry in aggregate.drain(..) {
            let delivery = self.delivery(time.max(entry.whole), leader, entry.key);
            self.line.insert(Entry { delivery, ..entry });
        }
        self.aggregate = aggregate;
        self.last_release = Some(time);
    }

    /// When packet `key` comes out that is whole at `departure` with the aggregate of `leader`, and notes it.
    fn delivery(&mut self, departure: Time, leader: u64, key: u64) -> Time {
        let delivery = self.possible_delivery(departure, leader, key);
        self.latest_delivery = self.latest_delivery.max(delivery);
        delivery
    }

    fn possible_delivery(&self, departure: Time, leader: u64, key: u64) -> Time {
        let mut delivery = departure + self.config.delay;
        if let Some(route) = &self.config.route_changes {
            delivery += route.extra(self.draws.route, departure.saturating_since(self.origin));
        }
        if let Some(jitter) = &self.config.jitter {
            delivery += jitter.distribution.sample(self.draws.jitter, leader);
        }
        if let Some(reordering) = self.config.reordering
            && self.draws.reordering.happens(key, reordering.share)
        {
            delivery += reordering.by;
        }
        if self.config.keeps_order() { delivery.max(self.latest_delivery) } else { delivery }
    }

    /// When the first packet of the aggregate that is being collected comes out if no other joins it.
    fn aggregate_delivery(&self) -> Option<Time> {
        let deadline = self.aggregate_deadline()?;
        let leader = self.aggregate.first()?.key;
        let of = |entry: &Entry<T>| self.possible_delivery(deadline.max(entry.whole), leader, entry.key);
        self.aggregate.iter().map(of).min()
    }

    /// Takes out the next packet that has come out by `now`, with the exact time at which it did.
    pub fn pop(&mut self, now: Time) -> Option<(Time, T)> {
        if !self.aggregate.is_empty()
            && self.aggregate_delivery().is_some_and(|delivery| delivery <= now)
            && let Some(deadline) = self.aggregate_deadline()
        {
            // nothing can join any more: a packet pushed from now on departs after the deadline
            self.release_aggregate(deadline);
        }
        let entry = self.line.pop_until(now)?;
        self.stats.delivered += 1;
        self.stats.delivered_bytes.0 += entry.size.0;
        match self.highest_delivered {
            Some(highest) if entry.key < highest => self.stats.reordered += 1,
            _ => self.highest_delivered = Some(entry.key),
        }
        Some((entry.delivery, entry.item))
    }

    /// When the next packet comes out; `None` if none does. A later push can make it earlier, by filling a
    /// aggregate or by overtaking.
    pub fn next_delivery(&self) -> Option<Time> {
        let next = match (self.line.next_delivery(), self.aggregate_delivery()) {
            (Some(line), Some(aggregate)) => line.min(aggregate),
            (line, aggregate) => line.or(aggregate)?,
        };
        (next < Time::MAX).then_some(next)
    }

    /// What the link is like now.
    pub fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// What the link has done so far.
    pub fn stats(&self) -> &LinkStats {
        &self.stats
    }

    /// How many packets are inside: in the queue, being sent, or under way.
    pub fn len(&self) -> usize {
        self.line.len() + self.aggregate.len()
    }

    /// Whether nothing is inside.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many packets are in the queue at `now`, including the one that is being serialized and those
    /// that will be lost.
    pub fn queue_len(&self, now: Time) -> usize {
        self.backlog.len_at(now)
    }

    /// How many bytes are in the queue at `now`, counted as in [`queue_len`](Self::queue_len).
    pub fn queue_bytes(&self, now: Time) -> Bytes {
        self.backlog.bytes_at(now)
    }

    /// How long a packet pushed at `now` waits before its own serialization begins.
    pub fn queue_delay(&self, now: Time) -> Duration {
        self.free.map_or(Duration::ZERO, |free| free.saturating_since(now))
    }
}

impl<T: Clone> Link<T> {
    /// Puts a packet of `size` bytes onto the link.
    ///
    /// The answer tells at once whether it is lost; a packet that is lost on the way nevertheless takes its
    /// place in the queue and its time on the link.
    pub fn push(&mut self, now: Time, size: Bytes, item: T) -> Offered<T> {
        let index = self.stats.offered;
        let is_doubled =
            self.config.duplicate > 0.0 && self.draws.duplicate.happens(index, self.config.duplicate);
        let copy = is_doubled.then(|| item.clone());
        let verdict = self.push_once(now, size, item);
        if let (Offered::Queued, Some(item)) = (&verdict, copy) {
            self.send_copy(original_key(index) + 1, size, item);
        }
        verdict
    }

    fn send_copy(&mut self, key: u64, size: Bytes, item: T) {
        if let Some(slot) = self.enter_queue(key, size)
            && !slot.is_void
            && !slot.is_given_up
        {
            self.stats.duplicated += 1;
            self.send(Entry {
                delivery: Time::MAX,
                key,
                departure: slot.departure,
                whole: slot.whole,
                size,
                item,
            });
        }
    }
}

/// The key of the original of packet `index`; its copy has the next.
fn original_key(index: u64) -> u64 {
    index * 2
}
