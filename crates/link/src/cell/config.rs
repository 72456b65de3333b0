use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use shorthaul_types::Bytes;

use crate::{QueueLimit, RadioNetwork};

/// The downlink of a radio cell: one channel in slots, and who shares it.
///
/// In each slot one user is sent one block. What is waiting for that user fills it, several packets if they
/// fit. A block that arrives in error is retransmitted, as a block of its own, when its sender has heard of it
/// and the user has a slot again; other blocks go on meanwhile, and what has come waits in the phone for what
/// is missing, so that every user's packets keep their order.
#[derive(Clone, Debug, PartialEq)]
pub struct CellConfig {
    /// What one block carries to a user with the best coding.
    pub block: Bytes,
    /// How long a slot is.
    pub slot: Duration,
    /// Who is served in a slot.
    pub scheduler: Scheduler,
    /// From the end of a block in error to the first slot in which it may be retransmitted.
    pub retry: Duration,
    /// How often a block is retransmitted before it is given up, and what it carries of packets is lost with
    /// them; `None` for as often as it takes.
    pub retries: Option<u32>,
    /// The users.
    pub users: Vec<CellUser>,
}

/// How a cell chooses whom to serve in a slot, of those for whom something waits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scheduler {
    /// One after the other, whatever their channels are like.
    RoundRobin,
    /// Whose channel is best by its own average: the largest R/T, with R what a block would bring on average now,
    /// and T what the user got, averaged over the last `slots` (Viswanath, Tse and Laroia, "Opportunistic
    /// Beamforming Using Dumb Antennas", 2002, §II). The scheduler knows the phase of every user's channel.
    ProportionalFair {
        /// The t_c of the average; at least 1. Their example is 1000 slots.
        slots: u32,
    },
}

/// One user of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CellUser {
    /// The share of a block that this user's coding leaves for data, above 0 and up to 1: less for who is far
    /// from the mast.
    pub coding: f64,
    /// The probability that a block arrives in error in the good phase, below 1.
    pub error_good: f64,
    /// The same in the bad phase, below 1.
    pub error_bad: f64,
    /// The mean length of the good phase.
    pub good: Duration,
    /// The mean length of the bad phase, a fade.
    pub bad: Duration,
    /// How much may wait for this user; what does not fit is dropped at the tail.
    pub queue: QueueLimit,
}

impl CellConfig {
    /// The shared downlink of a cell of `network` for this many `users` alike, served in turn:
    ///
    /// - GPRS, four time slots with coding scheme 2: a block of 30 bytes every 5 ms (48 kbit/s), acknowledged
    ///   until it arrives (3GPP TS 43.064, TS 44.060), heard of after 80 ms;
    /// - UMTS with a shared channel (HSDPA, category 6): a block of 896 bytes every 2 ms (3.6 Mbit/s), retransmitted
    ///   up to ten times, 12 ms later (3GPP TS 25.308, TS 25.306);
    /// - LTE-like: a block of 2500 bytes every 1 ms (20 Mbit/s), up to three repetitions by the hybrid ARQ 8 ms
    ///   later, and one more for the RLC's (3GPP TS 36.321, TS 36.322).
    ///
    /// Errors and phases are those of [`LinkConfig::radio_downlink`](crate::LinkConfig::radio_downlink): of the order
    /// that power control and link adaptation aim at, with fades of a second or less. They are not measurements.
    pub fn of(network: RadioNetwork, users: usize) -> CellConfig {
        let millis = Duration::from_millis;
        let user = |errors: [f64; 2], phases: [u64; 2], queue| CellUser {
            coding: 1.0,
            error_good: errors[0],
            error_bad: errors[1],
            good: millis(phases[0]),
            bad: millis(phases[1]),
            queue: QueueLimit::Bytes(queue),
        };
        let (block, slot, retry, retries, user) = match network {
            RadioNetwork::Gprs => (30, 5, 80, None, user([0.02, 0.4], [8000, 1000], 30_000)),
            RadioNetwork::Umts => (896, 2, 12, Some(10), user([0.02, 0.5], [4000, 400], 60_000)),
            RadioNetwork::Lte => (2500, 1, 8, Some(4), user([0.1, 0.5], [2000, 200], 250_000)),
        };
        CellConfig {
            block: Bytes(block),
            slot: millis(slot),
            scheduler: Scheduler::RoundRobin,
            retry: millis(retry),
            retries,
            users: vec![user; users],
        }
    }

    /// Says what makes no sense, the part first, and what would.
    ///
    /// # Errors
    /// In words.
    pub fn check(&self) -> Result<(), &'static str> {
        let is_error_rate = |rate: f64| (0.0..1.0).contains(&rate);
        if self.users.is_empty() {
            return Err("users: a cell has at least one");
        }
        if self.block.0 == 0 || self.slot.is_zero() {
            return Err("block, slot: both must be more than nothing, such as 896 B every 2 ms");
        }
        if self.scheduler == (Scheduler::ProportionalFair { slots: 0 }) {
            return Err("scheduler: an average over no slots is none; write 1000");
        }
        for user in &self.users {
            if !(user.coding > 0.0 && user.coding <= 1.0) {
                return Err("coding: the share of a block is above 0 and up to 1");
            }
            if !is_error_rate(user.error_good) || !is_error_rate(user.error_bad) {
                return Err("error_good, error_bad: a probability below 1, or no block ever arrives");
            }
            if user.good.is_zero() && user.bad.is_zero() {
                return Err("good, bad: one of the phases must last");
            }
        }
        Ok(())
    }
}
