//! A radio cell: several users behind one channel, scheduled block by block.
mod config;
#[cfg(feature = "serde")]
mod spec;
mod user;

pub use config::{CellConfig, CellUser, Scheduler};
#[cfg(feature = "serde")]
pub use spec::{CellNetwork, CellSpec};

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use shorthaul_types::{Bytes, Seed, Time};

use crate::{DropReason, LinkStats, Offered};
use user::{Block, Repetition, User};

/// The downlink of a radio cell that carries items of type `T`: see [`CellConfig`].
///
/// Unlike on a [`Link`](crate::Link), when a packet comes out is not settled when it goes in: what others are sent
/// meanwhile decides it. Nevertheless it depends on the pushes alone. `now` must not decrease from one push or
/// pop to the next; a packet pushed at the very start of a slot is still in time for it.
#[derive(Clone, Debug)]
pub struct Cell<T> {
    config: CellConfig,
    origin: Time,
    users: Vec<User<T>>,
    /// When the last block that was sent has ended.
    free: Time,
    on_air: Option<OnAir>,
    /// Who was served last.
    last: usize,
    /// What each user got a slot, averaged, as of the slot that began at `averaged`.
    averages: Vec<f64>,
    averaged: Time,
    out: VecDeque<Departure<T>>,
}

/// A packet that has come out of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure<T> {
    /// When exactly.
    pub at: Time,
    /// The number of its user.
    pub user: usize,
    /// The packet.
    pub item: T,
    /// The radio gave up a block with a part of it: it never arrives.
    pub is_lost: bool,
}

/// The block that is being sent.
#[derive(Clone, Copy, Debug)]
struct OnAir {
    user: usize,
    block: Block,
    start: Time,
    ends: Time,
}

impl<T> Cell<T> {
    /// A cell whose slots and phases count from `origin`.
    ///
    /// # Panics
    /// If [`CellConfig::check`] refuses the configuration.
    pub fn starting_at(origin: Time, config: CellConfig, seed: Seed) -> Self {
        if let Err(error) = config.check() {
            panic!("invalid cell: {error}");
        }
        let user = |(number, channel): (usize, &CellUser)| {
            User::new(*channel, seed.derive("user").nth(number as u64), origin)
        };
        Cell {
            users: config.users.iter().enumerate().map(user).collect(),
            origin,
            free: origin,
            on_air: None,
            last: config.users.len() - 1,
            averages: vec![0.0; config.users.len()],
            averaged: origin,
            out: VecDeque::new(),
            config,
        }
    }

    /// Puts a packet of `size` bytes into the queue of user number `user`.
    ///
    /// # Panics
    /// If there is no such user.
    pub fn push(&mut self, now: Time, user: usize, size: Bytes, item: T) -> Offered<T> {
        self.advance(now);
        match self.users[user].push(now, size, item) {
            Ok(()) => Offered::Queued,
            Err(item) => Offered::Dropped { item, reason: DropReason::QueueFull },
        }
    }

    /// Takes out the next packet that has come out by `now`.
    pub fn pop(&mut self, now: Time) -> Option<Departure<T>> {
        self.advance(now);
        self.out.pop_front()
    }

    /// When to pop next: a block ends then. A later push can only add to what comes out by that time.
    pub fn next_event(&self) -> Option<Time> {
        let ready = self.out.front().map(|departure| departure.at);
        ready.or(self.on_air.map(|air| air.ends)).or_else(|| Some(self.next_start()? + self.config.slot))
    }

    /// Lets the slots pass that end by `now`, and begins those that have begun.
    fn advance(&mut self, now: Time) {
        loop {
            if let Some(air) = self.on_air {
                if air.ends > now {
                    return;
                }
                self.finish(air);
            } else {
                // At the start itself, more may still be pushed.
                let Some(start) = self.next_start().filter(|start| *start < now) else { return };
                self.begin(start);
            }
        }
    }

    /// When the next slot begins that has something to send.
    fn next_start(&self) -> Option<Time> {
        let ready = self.users.iter().filter_map(User::ready).min()?.max(self.free);
        let slot = self.config.slot.as_nanos();
        let number = u128::from(ready.as_nanos() - self.origin.as_nanos()).div_ceil(slot);
        Some(self.origin + Duration::from_nanos((number * slot) as u64))
    }

    fn begin(&mut self, start: Time) {
        let Some(user) = self.choose(start) else { return };
        let capacity = self.users[user].capacity(self.config.block);
        let Some(block) = self.users[user].next_block(start, capacity) else { return };
        self.last = user;
        self.on_air = Some(OnAir { user, block, start, ends: start + self.config.slot });
    }

    /// Whom to serve in the slot at `start`.
    fn choose(&mut self, start: Time) -> Option<usize> {
        let count = self.users.len();
        let waits = |user: &User<T>| user.ready().is_some_and(|ready| ready <= start);
        match self.config.scheduler {
            Scheduler::RoundRobin => {
                (1..=count).map(|step| (self.last + step) % count).find(|user| waits(&self.users[*user]))
            }
            Scheduler::ProportionalFair { slots } => {
                self.age(start, slots);
                let mut best: Option<(usize, f64)> = None;
                for (number, user) in self.users.iter_mut().enumerate().filter(|(_, user)| waits(user)) {
                    let rate = user.capacity(self.config.block) as f64 * (1.0 - user.error(start));
                    // who never got anything comes first
                    let metric = rate / self.averages[number].max(f64::MIN_POSITIVE);
                    if best.is_none_or(|(_, most)| metric > most) {
                        best = Some((number, metric));
                    }
                }
                best.map(|(number, _)| number)
            }
        }
    }

    /// Lets the averages wear off until `start`.
    fn age(&mut self, start: Time, slots: u32) {
        let passed = start.saturating_since(self.averaged).as_nanos() / self.config.slot.as_nanos();
        let kept = libm::pow(1.0 - 1.0 / f64::from(slots), passed as f64);
        self.averages.iter_mut().for_each(|average| *average *= kept);
        self.averaged = start;
    }

    fn finish(&mut self, OnAir { user, block, start, ends }: OnAir) {
        let rules = Repetition { retry: self.config.retry, retries: self.config.retries };
        let arrived = self.users[user].on_sent(block, start, ends, rules);
        if let Scheduler::ProportionalFair { slots } = self.config.scheduler
            && arrived
        {
            self.averages[user] += block.bytes as f64 / f64::from(slots);
        }
        while let Some((item, is_lost)) = self.users[user].pop() {
            self.out.push_back(Departure { at: ends, user, item, is_lost });
        }
        self.free = ends;
        self.on_air = None;
    }

    /// What the cell is like.
    pub fn config(&self) -> &CellConfig {
        &self.config
    }

    /// What has become of the packets of user number `user`.
    ///
    /// # Panics
    /// If there is no such user.
    pub fn stats(&self, user: usize) -> &LinkStats {
        &self.users[user].stats
    }

    /// How many packets wait for user number `user`, those on the air included.
    ///
    /// # Panics
    /// If there is no such user.
    pub fn queue_len(&self, user: usize) -> usize {
        self.users[user].len()
    }

    /// How long the packets that wait for user number `user` would take if the channel were that user's alone
    /// and without errors.
    ///
    /// # Panics
    /// If there is no such user.
    pub fn queue_delay(&self, user: usize) -> Duration {
        let user = &self.users[user];
        let blocks = user.bytes().0.div_ceil(user.capacity(self.config.block));
        self.config.slot.saturating_mul(u32::try_from(blocks).unwrap_or(u32::MAX))
    }
}

#[cfg(test)]
mod tests;
