//! What a host opens within a slot of time is one batch, and counts once: its flows share a group and a link, so each of them says again what the others say.
//!
//! The test takes samples for independent. Were each object of a page one, a page of 24 that happened to be in the control group would outweigh twenty of one object.
use super::class::ClassKey;
use super::milestones::METRICS;
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
const _: () = assert!(METRICS <= u8::BITS as usize);

/// Which milestones batches have passed, those of now and those of before.
#[derive(Debug)]
pub(super) struct Batches {
    key: Keyed,
    /// The number of the time that the first map is about.
    number: u64,
    passed: [HashMap<u64, u8, Keyed>; 2],
}

impl Batches {
    pub fn new(key: Keyed) -> Self {
        let none = [(), ()].map(|()| HashMap::with_hasher(Keyed(key.0)));
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
        if passed.len() >= MOST && !passed.contains_key(&batch) {
            return 0..0;
        }
        let known = passed.entry(batch).or_default();
        let start =
            milestones.clone().find(|milestone| *known >> milestone & 1 == 0).unwrap_or(milestones.end);
        milestones.clone().for_each(|milestone| *known |= 1 << milestone);
        start..milestones.end
    }
}
