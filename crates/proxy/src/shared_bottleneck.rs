//! Which hosts share a bottleneck, where nobody has said so.
//!
//! RFC 8382 looks on, and compares how delays vary. A gateway that keeps queues short sees them vary little; but it sends, and so it can ask. One group of hosts is held
//! back for a moment, for about as long as its queue lasts. If the queue of another group becomes shorter by then, they wait in the same one.
//!
//! ```text
//! drop  = shortest round trip of the time before − that of as long a time after          by the same clock, of each group
//! shares a queue: drop of the other ≥ ½ drop of the one that was held      not: ≤ ¼      in between, and above 2½: nothing is learnt
//! ```
//! The drop of the one that was held says by how much the queue has become shorter, whatever the rate of the link, so no rate needs to be known. A test in which that is less than
//! 3 ms shows nothing. Each test counts for all pairs with the group that was held; a pair shares a bottleneck once two more tests say so than deny it, and is left alone
//! for a minute once two more deny it. One group is held at a time, and only where a queue stands. It may be one that never saw the queue empty, and so
//! does not know of it.
use crate::recent_round_trips::{BIN, RecentRoundTrips};
use alloc::collections::BTreeMap;
use core::time::Duration;
use shorthaul_types::Time;

/// At most so many groups are looked at; what is of more stays by itself.
const MOST: usize = 64;
/// A queue is worth a test where it is this part of the shortest round trip.
const QUEUE_PART: u32 = 4;
/// The least drop, of the group that was held, that says anything.
const DROP: Duration = Duration::from_millis(3);
/// The longest a group is held.
const LONGEST: Duration = Duration::from_millis(250);
/// How long after a test the next one begins, so that queues are what they were.
const REST: Duration = Duration::from_millis(50);
/// How long a group is not held again of which a test showed nothing; twice as long each time after that.
const FUTILE: Duration = Duration::from_secs(1);
/// By how many tests more one thing is said than the other until it holds.
const ENOUGH: i8 = 2;
/// For how long it is taken for granted that a pair does not share a bottleneck.
const APART: Duration = Duration::from_secs(60);

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// This group is held back until then.
    Hold { group: u32, until: Time },
    /// These groups share a bottleneck: what belongs to the second belongs to the first from now on.
    Shared { into: u32, from: u32 },
}

/// What is known of a group.
#[derive(Debug)]
struct Watched {
    round_trips: RecentRoundTrips,
    /// When it began: another has its place later.
    began: Time,
    /// When it was last held, and until when it is not to be held again.
    held_at: Time,
    futile_until: Time,
    /// How long it is not, the next time that a test of it shows nothing.
    futile: Duration,
}

/// What tests said of a pair.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Evidence {
    score: i8,
    apart_until: Option<Time>,
}

impl Evidence {
    /// A pair that does not share a bottleneck.
    pub fn apart(now: Time) -> Self {
        Evidence { score: -ENOUGH, apart_until: Some(now + APART) }
    }

    /// Whether there is something to find out about it.
    pub fn is_open(&self, now: Time) -> bool {
        self.apart_until.is_none_or(|until| now >= until)
    }

    /// A test says that it shares a bottleneck, or that it does not, or nothing. Whether it is taken to; if it is taken not to, that is for so long.
    pub fn on_test(&mut self, now: Time, shares: Option<bool>, apart: Duration) -> bool {
        if self.apart_until.is_some_and(|until| now >= until) {
            *self = Evidence::default();
        }
        self.score = match shares {
            Some(true) => (self.score + 1).min(ENOUGH),
            Some(false) => (self.score - 1).max(-ENOUGH),
            None => self.score,
        };
        if self.score <= -ENOUGH {
            self.apart_until = Some(now + apart);
        }
        self.score >= ENOUGH
    }
}

/// A test under way.
#[derive(Clone, Copy, Debug)]
struct Test {
    group: u32,
    began: Time,
    held: Duration,
    judged_at: Time,
}

/// Finds groups that share a bottleneck.
#[derive(Debug, Default)]
pub(crate) struct Detector {
    groups: BTreeMap<u32, Watched>,
    pairs: BTreeMap<(u32, u32), Evidence>,
    test: Option<Test>,
    next_at: Time,
}

impl Watched {
    fn new(now: Time, began: Time, rtt: Duration) -> Self {
        Watched {
            round_trips: RecentRoundTrips::new(now, rtt),
            began,
            held_at: Time::ZERO,
            futile_until: Time::ZERO,
            futile: FUTILE,
        }
    }

    /// By how much round trips became shorter within `lasts` after `at`.
    fn drop(&self, began: Time, at: Time, lasts: Duration) -> Option<Duration> {
        let before = self.round_trips.least(began - lasts, began)?;
        Some(before.saturating_sub(self.round_trips.least(at, at + lasts)?))
    }

    fn is_busy(&self, now: Time) -> bool {
        self.round_trips.is_busy(now)
    }

    fn queue(&self, now: Time) -> Option<Duration> {
        self.round_trips.queue(now).filter(|queue| *queue >= self.round_trips.base() / QUEUE_PART)
    }

    fn srtt(&self) -> Duration {
        self.round_trips.srtt()
    }
}

fn pair(one: u32, other: u32) -> (u32, u32) {
    (one.min(other), one.max(other))
}

impl Detector {
    /// A group that began then measured a round trip. What is to be done now, if anything.
    pub fn on_round_trip(
        &mut self,
        now: Time,
        (group, began): (u32, Time),
        rtt: Duration,
    ) -> Option<Finding> {
        if self.groups.get(&group).is_some_and(|known| known.began != began) {
            // Another one has its place in the registry.
            self.forget(group);
        }
        match self.groups.get_mut(&group) {
            Some(known) => known.round_trips.on_round_trip(now, rtt),
            None => {
                if self.groups.len() >= MOST {
                    self.groups.retain(|_, known| now.saturating_since(known.round_trips.heard_at()) < APART);
                }
                if self.groups.len() >= MOST {
                    return None;
                }
                self.groups.insert(group, Watched::new(now, began, rtt));
            }
        }
        if let Some(test) = self.test {
            if now < test.judged_at {
                return None;
            }
            self.test = None;
            self.next_at = now + REST;
            return self.judge(now, &test);
        }
        (now >= self.next_at).then(|| self.begin(now)).flatten()
    }

    /// A group is no more.
    pub fn forget(&mut self, group: u32) {
        self.groups.remove(&group);
        self.pairs.retain(|(one, other), _| *one != group && *other != group);
        self.test = self.test.filter(|test| test.group != group);
    }

    /// These were one group, and are two: they do not share a bottleneck.
    pub fn on_apart(&mut self, now: Time, one: u32, other: u32) {
        self.pairs.insert(pair(one, other), Evidence::apart(now));
    }

    /// Whether there is something to find out about a pair.
    fn is_open(&self, now: Time, one: u32, other: u32) -> bool {
        self.pairs.get(&pair(one, other)).is_none_or(|known| known.is_open(now))
    }

    /// Holds the group back that was not for the longest time, of those with a queue that others may share.
    fn begin(&mut self, now: Time) -> Option<Finding> {
        self.next_at = now + REST;
        let busy = || self.groups.iter().filter(|(_, known)| known.is_busy(now));
        let candidates = busy().filter(|(_, known)| now >= known.futile_until);
        // Whoever came when a queue stood has never seen a shorter one, and knows nothing of it.
        let standing = busy().filter_map(|(_, known)| known.queue(now)).max()?;
        let open = |group: u32| busy().any(|(other, _)| *other != group && self.is_open(now, group, *other));
        let due = candidates.map(|(group, known)| (known.held_at, *group, known.queue(now)));
        let (_, group, queue) = due.filter(|(_, group, _)| open(*group)).min()?;
        let queue = queue.unwrap_or(standing);
        let longest = busy().map(|(_, known)| known.srtt()).max().unwrap_or_default().min(LONGEST);
        let known = self.groups.get_mut(&group)?;
        known.held_at = now;
        let held = (queue * 5 / 4).max(2 * BIN).min(known.srtt()).min(LONGEST);
        self.test = Some(Test { group, began: now, held, judged_at: now + held + longest + 4 * BIN });
        Some(Finding::Hold { group, until: now + held })
    }

    /// What a test has shown.
    fn judge(&mut self, now: Time, test: &Test) -> Option<Finding> {
        let after = |known: &Watched| known.srtt().min(LONGEST) + 2 * BIN;
        let known = self.groups.get_mut(&test.group)?;
        let own = known.drop(test.began, test.began + test.held, after(known)).filter(|own| *own >= DROP);
        let Some(own) = own else {
            known.futile_until = now + known.futile;
            known.futile = (2 * known.futile).min(APART);
            return None;
        };
        known.futile = FUTILE;
        let mut shared = None;
        for (other, watched) in
            self.groups.iter().filter(|(other, known)| **other != test.group && known.is_busy(now))
        {
            let Some(drop) = watched.drop(test.began, test.began + test.held, after(watched)) else {
                continue;
            };
            let shares = match 2 * drop >= own && 2 * drop <= 5 * own {
                true => Some(true),
                false => (4 * drop <= own).then_some(false),
            };
            let evidence = self.pairs.entry(pair(test.group, *other)).or_default();
            if evidence.on_test(now, shares, APART) {
                shared = shared.or(Some(*other));
            }
        }
        let other = shared?;
        let (into, from) = pair(test.group, other);
        self.absorb(into, from);
        Some(Finding::Shared { into, from })
    }

    /// One group is part of another from now on.
    fn absorb(&mut self, into: u32, from: u32) {
        let base = self.groups.get(&from).map(|known| known.round_trips.base());
        self.forget(from);
        if let (Some(known), Some(base)) = (self.groups.get_mut(&into), base) {
            known.round_trips.is_no_longer_than(base);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    /// Hosts that keep a window each under way, through queues that each of `links` is; `of` says whose link is which, `rates` in bytes a millisecond.
    struct World {
        of: Vec<usize>,
        rates: Vec<u64>,
        windows: Vec<u64>,
        /// What lies in each queue of each host, and what is on its way: when its acknowledgment comes, when it left, and how much.
        queued: Vec<Vec<(u64, usize, u64)>>,
        coming: Vec<(u64, usize, u64, u64)>,
        under_way: Vec<u64>,
        held: Vec<u64>,
        owed: Vec<u64>,
        noise: u64,
    }

    const PATH: u64 = 30;

    impl World {
        fn new(of: &[usize], rates: &[u64], windows: &[u64]) -> World {
            World {
                of: of.to_vec(),
                rates: rates.to_vec(),
                windows: windows.to_vec(),
                queued: vec![Vec::new(); rates.len()],
                coming: Vec::new(),
                under_way: vec![0; of.len()],
                held: vec![0; of.len()],
                owed: vec![0; rates.len()],
                noise: 12345,
            }
        }

        /// Runs for so many milliseconds, and says which hosts were found to share a link.
        fn run(&mut self, detector: &mut Detector, lasts: u64) -> Vec<(u32, u32)> {
            let mut found = Vec::new();
            for ms in 1000..1000 + lasts {
                for (link, rate) in self.rates.clone().into_iter().enumerate() {
                    self.owed[link] += rate;
                    while let Some((left, host, bytes)) = self.queued[link].first().copied()
                        && self.owed[link] >= bytes
                    {
                        self.queued[link].remove(0);
                        self.owed[link] -= bytes;
                        self.coming.push((ms + PATH, host, left, bytes));
                    }
                    if self.queued[link].is_empty() {
                        self.owed[link] = 0;
                    }
                }
                let (now, later): (Vec<_>, Vec<_>) = self.coming.drain(..).partition(|(at, ..)| *at <= ms);
                self.coming = later;
                for (at, host, left, bytes) in now {
                    self.under_way[host] -= bytes;
                    self.noise = self.noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let rtt =
                        Duration::from_millis(at - left) + Duration::from_micros((self.noise >> 33) % 2000);
                    match detector.on_round_trip(Time::from_millis(ms), (host as u32, Time::ZERO), rtt) {
                        Some(Finding::Hold { group, until }) => {
                            self.held[group as usize] = until.as_nanos() / 1_000_000
                        }
                        Some(Finding::Shared { into, from }) => found.push((into, from)),
                        None => {}
                    }
                }
                for host in 0..self.of.len() {
                    // Each begins a little later than the one before.
                    let begun = ms >= 1000 + 97 * host as u64;
                    while begun && ms >= self.held[host] && self.under_way[host] + 1500 <= self.windows[host]
                    {
                        self.under_way[host] += 1500;
                        self.queued[self.of[host]].push((ms, host, 1500));
                    }
                }
            }
            found
        }
    }

    #[test]
    fn who_waits_in_one_queue_is_found_and_who_does_not_is_left_alone() {
        // Three share 30 Mbit/s and a queue of 50 ms; two more have links of their own, with queues as long.
        let mut world =
            World::new(&[0, 0, 0, 1, 2], &[3750, 1250, 2500], &[100_000, 120_000, 80_000, 100_000, 200_000]);
        let mut detector = Detector::default();
        // What is found is merged by the caller; here each goes on, so the second of a pair is heard of as a new group.
        let found = world.run(&mut detector, 10_000);
        assert!(found.len() >= 2, "{found:?}");
        assert!(found.iter().all(|(into, from)| *into < 3 && *from < 3), "{found:?}");
        let pairs: alloc::collections::BTreeSet<_> = found.iter().copied().collect();
        assert!(pairs.len() >= 2, "all three: {pairs:?}");
    }

    #[test]
    fn nobody_is_held_who_has_no_queue_or_nobody_beside() {
        let mut alone = World::new(&[0], &[1250], &[100_000]);
        assert!(alone.run(&mut Detector::default(), 3000).is_empty());
        assert_eq!(alone.held, [0], "it has a queue, and nobody to share it with");
        let mut short = World::new(&[0, 1], &[1250, 1250], &[30_000, 30_000]);
        short.run(&mut Detector::default(), 3000);
        assert_eq!(short.held, [0, 0]);
    }

    #[test]
    fn a_pair_that_came_apart_is_left_alone_for_a_minute() {
        let mut detector = Detector::default();
        let mut world = World::new(&[0, 0], &[2500], &[100_000, 100_000]);
        detector.on_apart(Time::from_secs(1), 0, 1);
        assert!(world.run(&mut detector, 5000).is_empty());
        assert_eq!(world.held, [0, 0]);
    }
}
