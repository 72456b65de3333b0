//! What a host opens within a slot of time is one batch, and counts once: its flows share a group and a link, so each of them says again what the others say.
//!
//! The test takes samples for independent. Were each object of a page one, a page of 24 that happened to be in the control group would outweigh twenty of one object.
use super::class::ClassKey;
use super::milestones::METRICS;
use crate::HostPrefix;
use crate::gateway::Keyed;
use core::hash::BuildHasher;
use core::net::IpAddr;
use core::ops::Range;
use hashbrown::HashMap;
use shorthaul_types::Time;

/// Slots whose batches are kept together, and forgotten together: as long as what is compared may take.
const KEPT: u64 = 120;
/// Batches of so many slots that are known at most: who has more to compare knows enough.
const MOST: usize = 32_768;
/// A host has all addresses of a /64.
const HOST: HostPrefix = HostPrefix { v4: 32, v6: 64 };
/// Into so many parts hosts fall, by a keyed hash.
const PARTS: usize = 64;
/// Batches that hosts of one part have at most. So no host takes the room of the others.
const MOST_OF_PART: u16 = (MOST / 16) as u16;
const _: () = assert!(METRICS <= u8::BITS as usize);

/// Which milestones batches have passed, those of now and those of before.
#[derive(Debug)]
pub(super) struct Batches {
    key: Keyed,
    /// The number of the time that the first of both is about.
    number: u64,
    passed: [Passed; 2],
}

/// Which milestones the batches of a time have passed.
#[derive(Debug)]
struct Passed {
    /// By the hash of a batch.
    milestones: HashMap<u64, u8, Keyed>,
    /// How many batches each part of the hosts has.
    of_part: [u16; PARTS],
}

impl Passed {
    fn new(key: Keyed) -> Self {
        Passed { milestones: HashMap::with_hasher(key), of_part: [0; PARTS] }
    }

    fn clear(&mut self) {
        self.milestones.clear();
        self.of_part = [0; PARTS];
    }

    /// What a batch has passed, if there is room for it.
    fn of(&mut self, batch: u64, part: usize) -> Option<&mut u8> {
        if !self.milestones.contains_key(&batch) {
            let of_part = self.of_part.get_mut(part)?;
            if self.milestones.len() >= MOST || *of_part >= MOST_OF_PART {
                return None;
            }
            *of_part += 1;
        }
        Some(self.milestones.entry(batch).or_default())
    }
}

impl Batches {
    pub fn new(key: Keyed) -> Self {
        let none = [(), ()].map(|()| Passed::new(Keyed(key.0)));
        Batches { key, number: 0, passed: none }
    }

    /// A flow of a class that `host` opened in the slot `opened` has passed `milestones`. Returns those that none of its batch has passed before: what follows
    /// the last one that was.
    pub fn first(
        &mut self,
        now: Time,
        (class, host, opened): (ClassKey, IpAddr, u64),
        milestones: Range<usize>,
    ) -> Range<usize> {
        let number = super::slot(now) / KEPT;
        if number != self.number {
            let [new, old] = &mut self.passed;
            if number == self.number + 1 {
                core::mem::swap(new, old);
            } else {
                old.clear();
            }
            new.clear();
            self.number = number;
        }
        let Some(passed) =
            number.checked_sub(opened / KEPT).and_then(|age| self.passed.get_mut(age as usize))
        else {
            return 0..0;
        };
        let batch = self.key.hash_one((class, host, opened));
        let part = self.key.hash_one(HOST.of(host)) as usize % PARTS;
        let Some(known) = passed.of(batch, part) else { return 0..0 };
        let start =
            milestones.clone().find(|milestone| *known >> milestone & 1 == 0).unwrap_or(milestones.end);
        milestones.clone().for_each(|milestone| *known |= 1 << milestone);
        start..milestones.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::{Ipv4Addr, Ipv6Addr};

    fn class(number: u16) -> ClassKey {
        ClassKey { policy: number, access: Ipv4Addr::UNSPECIFIED.into(), server: None }
    }

    #[test]
    fn one_host_does_not_take_the_room_of_all() {
        let mut batches = Batches::new(Keyed(7));
        let greedy = |number: u16| IpAddr::from(Ipv6Addr::new(0xfd00, 0, 0, 1, 0, 0, 0, number));
        let counted = (0..40_000).filter(|&number| {
            !batches.first(Time::ZERO, (class(number), greedy(number), 0), 0..1).is_empty()
        });
        assert_eq!(counted.count(), usize::from(MOST_OF_PART), "whatever address of its own it takes");
        let others = (0..100).map(|number| IpAddr::from([10, 0, 0, number]));
        let heard =
            others.filter(|&host| !batches.first(Time::ZERO, (class(0), host, 0), 0..1).is_empty()).count();
        assert!(heard >= 90, "{heard} of 100 others count");
        // What it had is forgotten with the others.
        let later = Time::from_secs(2 * KEPT);
        assert!(!batches.first(later, (class(1), greedy(1), 2 * KEPT), 0..1).is_empty());
    }
}
