//! Whether splitting pays: a few flows are observed instead of split, and compared with those that are split.
//!
//! Reading order: `milestones` (what is measured of a flow); `batches` (what of it counts); `evidence` (what two samples say of each other, at any
//! time one looks); `class` (the flows that are compared, and the verdict on them); [`Gains`] (who is in the control
//! group, all classes, and what was found). `docs/gain.md` works the rule out.
mod batches;
mod class;
mod evidence;
mod info;
mod milestones;

pub use class::GainVerdict;
pub use info::{GainFigure, GainInfo, KnownGains};
pub(crate) use milestones::Milestones;

use crate::HostPrefix;
use crate::gateway::Keyed;
use batches::Batches;
use class::{Batch, Class, ClassKey, PARTS};
use core::hash::BuildHasher;
use core::net::IpAddr;
use core::ops::Range;
use core::time::Duration;
use hashbrown::HashMap;
use libm::floor;
use shorthaul_types::Time;

/// Hosts that are compared together: a subscriber's network, or a subnet.
const ACCESS: HostPrefix = HostPrefix { v4: 24, v6: 56 };
/// Servers that are compared together.
const SERVER: HostPrefix = HostPrefix { v4: 16, v6: 32 };
/// Classes that are kept; what is farthest back makes room.
const CLASSES: usize = 1024;
/// What a host opens within one slot belongs to one group, so that a page is all of one kind.
const SLOT: Duration = Duration::from_secs(1);
/// The slot of a time.
fn slot(at: Time) -> u64 {
    at.as_nanos() / SLOT.as_nanos() as u64
}

/// After this time without a flow in the control group, [`SHARE_TO_KNOW`] holds.
const SILENCE: Duration = Duration::from_secs(20);
/// The share of the control group after a silence, and where it looks as if splitting did harm: to know soon costs nothing
/// there.
const SHARE_TO_KNOW: f64 = 0.25;
/// How much of the mean distance between two turns of the control group is split for certain. Whoever opens a flow now and then
/// gets what splitting gains, and the first flows that somebody tries a new gateway with are split.
const SPARED: f64 = 0.2;
/// The share of the control group where splitting is tried again after it did harm.
const SHARE_ON_PROBATION: f64 = 0.5;

/// What becomes of a flow that may be split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// It is split.
    Split,
    /// It is observed, to compare with.
    Control,
    /// It stays whole: splitting does harm to its class.
    Withdrawn,
}

/// The ends of a flow, as they are classified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ends {
    /// The number of its policy.
    pub policy: u16,
    /// The end at the access side.
    pub host: IpAddr,
    /// The other one.
    pub server: IpAddr,
}

impl Ends {
    /// The classes that the flow is in, the narrower one first.
    fn classes(self) -> [ClassKey; 2] {
        let Ends { policy, host, server } = self;
        let access = ACCESS.of(host);
        [Some(SERVER.of(server)), None].map(|server| ClassKey { policy, access, server })
    }
}

/// What is known of the gain of splitting, and the choice of the control group.
#[derive(Debug)]
pub(crate) struct Gains {
    classes: HashMap<ClassKey, Class, Keyed>,
    key: Keyed,
    batches: Batches,
    /// When the last flow was chosen for the control group, or the first flow came.
    last_control: Option<Time>,
    turns: Turns,
}

/// How many flows were split since the control group had its last turn. It is looked at when a slot begins: what a host opens within
/// one is not torn apart.
#[derive(Clone, Copy, Debug, Default)]
struct Turns {
    slot: u64,
    /// What was split in earlier slots, since the last turn.
    split_before: u64,
    /// What was split in this slot, after its last turn of the control group if it has one.
    split_now: u64,
    /// Whether this slot has a control group.
    had_turn: bool,
    /// Whether there was none for long when this slot began.
    was_silent: bool,
}

impl Turns {
    /// A flow opens in `slot`, with no control group for long or not. Returns how many were split in earlier slots, since its last turn, and
    /// whether it was silent when this slot began.
    fn opens(&mut self, slot: u64, is_silent: bool) -> (u64, bool) {
        if slot != self.slot {
            let before = if self.had_turn { 0 } else { self.split_before };
            *self = Turns {
                slot,
                split_before: before + self.split_now,
                was_silent: is_silent,
                ..Turns::default()
            };
        }
        (self.split_before, self.was_silent)
    }
}

impl Gains {
    /// Nothing is known. `hash_seed` keys the choice, so that nobody can foresee it.
    pub fn new(hash_seed: u64) -> Self {
        let key = hash_seed.rotate_left(32);
        Gains {
            classes: HashMap::with_hasher(Keyed(key)),
            key: Keyed(key),
            batches: Batches::new(Keyed(key)),
            last_control: None,
            turns: Turns::default(),
        }
    }

    /// A flow opens; `share` of all flows, from above 0 to 0.5, are to be in the control group.
    pub fn assign(&mut self, now: Time, ends: Ends, share: f64) -> Group {
        let silent_since = *self.last_control.get_or_insert(now);
        let slot = slot(now);
        let is_silent = now.saturating_since(silent_since) >= SILENCE;
        let (split_before, was_silent) = self.turns.opens(slot, is_silent);
        // The rest of the mean distance is left to chance.
        let spared = floor(SPARED / share);
        let is_spared = (split_before as f64) < spared;
        let mut p = if is_spared { 0.0 } else { 1.0 / (1.0 / share - spared) };
        match self.verdict(now, ends) {
            GainVerdict::Harms => return Group::Withdrawn,
            GainVerdict::Probation => p = p.max(SHARE_ON_PROBATION),
            GainVerdict::Gains | GainVerdict::Open => {
                let leans = ends.classes().iter().any(|key| self.leans_to_harm(key, ends.host));
                if leans || (!is_spared && was_silent) {
                    p = p.max(SHARE_TO_KNOW);
                }
            }
        }
        let drawn = self.key.hash_one((ends.host, slot)) as f64 / u64::MAX as f64;
        if drawn < p {
            self.last_control = Some(now);
            self.turns = Turns { had_turn: true, split_now: 0, ..self.turns };
            return Group::Control;
        }
        self.turns.split_now += 1;
        Group::Split
    }

    fn leans_to_harm(&self, key: &ClassKey, host: IpAddr) -> bool {
        self.classes.get(key).is_some_and(|class| class.leans_to_harm(host, self.part_of(host)))
    }

    /// The part of a class that has a host: nobody outside can foresee it.
    fn part_of(&self, host: IpAddr) -> usize {
        self.key.hash_one((host, PARTS)) as usize % PARTS
    }

    /// What holds for a flow: the verdict on its narrower class, or else on the wider one.
    fn verdict(&mut self, now: Time, ends: Ends) -> GainVerdict {
        let part = self.part_of(ends.host);
        let mut verdicts = ends.classes().into_iter().filter_map(|key| {
            let class = self.classes.get_mut(&key)?;
            Some(class.verdict(now, ends.host, part)).filter(|verdict| *verdict != GainVerdict::Open)
        });
        verdicts.next().unwrap_or(GainVerdict::Open)
    }

    /// A flow of `group` has passed `milestones`, this long after its SYN. Returns whether a class turned out to be harmed.
    pub fn record(
        &mut self,
        now: Time,
        ends: Ends,
        group: Group,
        milestones: Range<usize>,
        elapsed: Duration,
    ) -> bool {
        let mut harmed = false;
        let (opened, host) =
            (slot(Time::from_nanos(now.as_nanos().saturating_sub(elapsed.as_nanos() as u64))), ends.host);
        let batch = Batch { host, part: self.part_of(host), group };
        for key in ends.classes() {
            // The first of a batch that comes so far speaks for it.
            let first = self.batches.first(now, (key, host, opened), milestones.clone());
            if first.is_empty() {
                continue;
            }
            if !self.classes.contains_key(&key) {
                self.make_room();
            }
            let class = self.classes.entry(key).or_default();
            harmed |= class.record(now, batch, first, elapsed);
        }
        harmed
    }

    /// Whether running flows between these ends are to be stepped out of.
    pub fn is_harmed(&mut self, now: Time, ends: Ends) -> bool {
        self.verdict(now, ends) == GainVerdict::Harms
    }

    /// Forgets the class that was heard of least lately, where there are too many.
    fn make_room(&mut self) {
        if self.classes.len() < CLASSES {
            return;
        }
        let oldest = self.classes.iter().min_by_key(|(_, class)| class.last_heard()).map(|(key, _)| *key);
        if let Some(key) = oldest {
            self.classes.remove(&key);
        }
    }

    /// The policies are others now. Where each of the former ones is among them, if it is, `places` says; what is known of the rest is forgotten.
    pub fn keep(&mut self, places: &[Option<u16>]) {
        let former = core::mem::replace(&mut self.classes, HashMap::with_hasher(Keyed(self.key.0)));
        self.classes.extend(former.into_iter().filter_map(|(key, class)| {
            let policy = places.get(usize::from(key.policy)).copied().flatten()?;
            Some((ClassKey { policy, ..key }, class))
        }));
    }

    /// All that is known.
    pub fn known(&self) -> KnownGains {
        KnownGains::of(self.classes.iter())
    }
}

#[cfg(test)]
mod tests;
