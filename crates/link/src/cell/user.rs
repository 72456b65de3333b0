use alloc::collections::VecDeque;
use core::time::Duration;

use shorthaul_types::{Bytes, Seed, Time};

use super::CellUser;
use crate::draw::Draw;
use crate::loss::Phases;
use crate::{LinkStats, QueueLimit};

/// What waits for one user of a cell, and how it fares on the channel.
#[derive(Clone, Debug)]
pub(super) struct User<T> {
    channel: CellUser,
    phases: Phases,
    errors: Draw,
    /// In order; the first has the number `first`.
    packets: VecDeque<Waiting<T>>,
    first: u64,
    /// The first that is not wholly in blocks yet.
    unsent: u64,
    /// Blocks to be retransmitted, in the order in which they failed.
    repairs: VecDeque<Block>,
    /// How many blocks were made.
    blocks: u64,
    bytes: u64,
    pub stats: LinkStats,
}

#[derive(Clone, Debug)]
struct Waiting<T> {
    item: T,
    size: u64,
    arrival: Time,
    /// Bytes that are in no block yet.
    left: u64,
    /// Blocks with a part of it that have not arrived.
    missing: u32,
    is_lost: bool,
}

/// What one slot carries: the parts of packets from number `first` to `last`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    first: u64,
    last: u64,
    /// Tells its randomness from that of others.
    number: u64,
    /// How often it was sent before.
    failed: u32,
    /// From when on it may be sent.
    ready: Time,
    pub bytes: u64,
}

impl<T> User<T> {
    pub fn new(channel: CellUser, seed: Seed, origin: Time) -> Self {
        User {
            phases: Phases::new(channel.bad, channel.good, Draw::of(seed, "radio phases"), origin),
            errors: Draw::of(seed, "block errors"),
            channel,
            packets: VecDeque::new(),
            first: 0,
            unsent: 0,
            repairs: VecDeque::new(),
            blocks: 0,
            bytes: 0,
            stats: LinkStats::default(),
        }
    }

    /// Takes a packet to its queue, or gives it back.
    pub fn push(&mut self, now: Time, size: Bytes, item: T) -> Result<(), T> {
        self.stats.offered += 1;
        self.stats.offered_bytes.0 += size.0;
        let has_room = match self.channel.queue {
            QueueLimit::Unlimited => true,
            QueueLimit::Packets(packets) => self.packets.len() < packets,
            QueueLimit::Bytes(bytes) => self.bytes + size.0 <= bytes,
        };
        if !has_room {
            self.stats.dropped.queue_full += 1;
            return Err(item);
        }
        let left = size.0.max(1); // what has no bytes must be in some block nevertheless
        self.packets.push_back(Waiting {
            item,
            size: size.0,
            arrival: now,
            left,
            missing: 0,
            is_lost: false,
        });
        self.bytes += size.0;
        self.stats.max_queue = self.stats.max_queue.max(self.packets.len());
        self.stats.max_queue_bytes = self.stats.max_queue_bytes.max(Bytes(self.bytes));
        Ok(())
    }

    /// From when on there is something to send; `None` while there is not.
    pub fn ready(&self) -> Option<Time> {
        let fresh = self.packets.get((self.unsent - self.first) as usize).map(|packet| packet.arrival);
        let again = self.repairs.front().map(|block| block.ready);
        fresh.into_iter().chain(again).min()
    }

    /// The probability that a block sent at `start` arrives in error.
    pub fn error(&mut self, start: Time) -> f64 {
        if self.phases.is_on_at(start) { self.channel.error_bad } else { self.channel.error_good }
    }

    /// What a block of `block` bytes carries to it.
    pub fn capacity(&self, block: Bytes) -> u64 {
        ((block.0 as f64 * self.channel.coding) as u64).max(1)
    }

    /// The block that it is sent in the slot at `start`, of at most `capacity` bytes: first what failed.
    pub fn next_block(&mut self, start: Time, capacity: u64) -> Option<Block> {
        if self.repairs.front().is_some_and(|block| block.ready <= start) {
            return self.repairs.pop_front();
        }
        let mut block = Block {
            first: self.unsent,
            last: self.unsent,
            number: self.blocks,
            failed: 0,
            ready: start,
            bytes: 0,
        };
        while block.bytes < capacity
            && let Some(packet) = self.packets.get_mut((self.unsent - self.first) as usize)
            && packet.arrival <= start
        {
            let taken = packet.left.min(capacity - block.bytes);
            packet.left -= taken;
            packet.missing += 1;
            block.bytes += taken;
            block.last = self.unsent;
            self.unsent += u64::from(packet.left == 0);
        }
        self.blocks += 1;
        (block.bytes > 0).then_some(block)
    }

    /// A block that began at `start` has been sent by `ends`. Whether it brought its bytes.
    pub fn on_sent(&mut self, mut block: Block, start: Time, ends: Time, rules: Repetition) -> bool {
        let error = self.error(start);
        let fails = self.errors.part(block.number).happens(u64::from(block.failed), error);
        block.failed += u32::from(fails);
        if fails && rules.retries.is_none_or(|most| block.failed <= most) {
            block.ready = ends + rules.retry;
            self.repairs.push_back(block);
            return false;
        }
        for number in block.first..=block.last {
            let packet = &mut self.packets[(number - self.first) as usize];
            packet.missing -= 1;
            packet.is_lost |= fails;
        }
        !fails
    }

    /// The next packet that is complete, with all before it, and whether it is lost.
    pub fn pop(&mut self) -> Option<(T, bool)> {
        let packet = self.packets.pop_front_if(|packet| packet.left == 0 && packet.missing == 0)?;
        self.first += 1;
        self.bytes -= packet.size;
        if packet.is_lost {
            self.stats.dropped.loss += 1;
        } else {
            self.stats.delivered += 1;
            self.stats.delivered_bytes.0 += packet.size;
        }
        Some((packet.item, packet.is_lost))
    }

    /// Packets in its queue, those under way or waiting for a repair included.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// The same in bytes.
    pub fn bytes(&self) -> Bytes {
        Bytes(self.bytes)
    }
}

/// How blocks in error are repeated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Repetition {
    pub retry: Duration,
    pub retries: Option<u32>,
}
