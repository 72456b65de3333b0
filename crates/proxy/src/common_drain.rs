//! When all hosts hold back at once, so that each sees its path without a queue.
//!
//! A window that is found needs the round trip of the path itself. A host alone sees it when its window is drained; of hosts that share a queue each
//! would see what the others left in it. And whoever came when the queue stood has never seen the path without: it takes the queue for the path, and asks
//! for a window that fills it. All their windows are here, so they are drained at the same time.
//!
//! ```text
//! newcomer   a group that began beside others, or lost its path, and whose round trips were never as short as 1.25 times the nearest group's
//! drained    when a group that was busy for 300 ms is a newcomer, loses much for long, or would drain its window by itself: 0.5 s after the last
//!            time, then 1, 2, 4, 8 s; 0.5 s again after a quiet 8 s
//! to         ¾ of what its rate carries in its own shortest round trip, each window; of a newcomer, in the nearest group's
//! mean       rate of the hosts of all busy groups: who has less has a larger surplus (AutoClamp)
//! ```
//! A group that is farther away after eight drains is taken to be so.
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;
use shorthaul_types::Time;

/// How often it is looked whether there is a reason.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// A group that was heard of within this time is busy.
const BUSY: Duration = Duration::from_millis(500);
/// A group that is busy for this long is more than a page.
const SETTLED: Duration = Duration::from_millis(300);
/// The shortest time between two drains, and the longest: it doubles.
const WAIT: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(8)];
/// A full segment, with its headers, in bytes.
const SEGMENT: u128 = 1500;
/// What a window is drained to at least, in segments: where the mean rate of those who have a window carries less in a round trip, nothing drains the queue.
const DRAINED: usize = 2;
/// The least window that a host has otherwise, in segments, and the least of each of its connections.
const LEAST: [usize; 2] = [4, 2];

/// What is known of a busy group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathSeen {
    /// Its shortest round trip.
    pub shortest: Duration,
    /// Its rate, in bit/s.
    pub rate: u64,
    /// It asks for a drain.
    pub asks: bool,
    /// The number of its hosts.
    pub hosts: usize,
    /// The number of their connections that have data to send.
    pub connections: usize,
    /// It was measured without a queue of the others.
    pub for_certain: bool,
}

/// What a look at all busy groups says.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Look {
    /// The mean rate of their hosts in bit/s, where there are two groups or more.
    pub mean_rate: Option<u64>,
    /// The mean of the active connections of a host, rounded up.
    pub connections: usize,
    /// How far away the nearest of them is.
    pub nearest: Duration,
    /// To hold back may drain their queues: the least windows of all groups do not fill them.
    pub can_drain: bool,
    /// The least windows of all hosts would fill them, if each had one.
    pub is_crowded: bool,
    /// All are to hold back now.
    pub drain: bool,
}

/// Whether the path of one group is longer than that of another, or has a queue.
pub(crate) fn is_farther(path: Duration, nearest: Duration) -> bool {
    path > nearest.saturating_add(nearest / 4)
}

#[derive(Clone, Copy, Debug)]
struct Busy {
    /// When the group began: another has its number later.
    began: Time,
    since: Time,
    heard_at: Time,
}

/// Says when all are to hold back.
#[derive(Debug)]
pub(crate) struct CommonDrain {
    busy: BTreeMap<u32, Busy>,
    look_at: Time,
    drained_at: Time,
    wait: Duration,
}

impl Default for CommonDrain {
    fn default() -> Self {
        CommonDrain { busy: BTreeMap::new(), look_at: Time::ZERO, drained_at: Time::ZERO, wait: WAIT[0] }
    }
}

impl CommonDrain {
    /// Something was delivered to a group that began then. Whether it is busy by itself, and has just become so.
    pub fn on_delivery(&mut self, now: Time, (group, began): (u32, Time)) -> bool {
        let is_busy = |busy: &Busy| now.saturating_since(busy.heard_at) <= BUSY;
        if let Some(busy) = self.busy.get_mut(&group).filter(|busy| busy.began == began) {
            if !is_busy(busy) {
                busy.since = now;
            }
            busy.heard_at = now;
            return false;
        }
        let alone = !self.busy.iter().any(|(other, busy)| *other != group && is_busy(busy));
        self.busy.insert(group, Busy { began, since: now, heard_at: now });
        alone
    }

    /// Looks at all busy groups, where it is time to; `path` tells of one.
    pub fn look(&mut self, now: Time, mut path: impl FnMut(u32) -> Option<PathSeen>) -> Option<Look> {
        if now < self.look_at {
            return None;
        }
        self.look_at = now + LOOK_EVERY;
        self.busy.retain(|_, busy| now.saturating_since(busy.heard_at) <= BUSY);
        let seen = |(group, busy): (&u32, &Busy)| Some((path(*group)?, now.saturating_since(busy.since)));
        let mut paths: Vec<(PathSeen, Duration)> = self.busy.iter().filter_map(seen).collect();
        paths.retain(|(_, busy)| *busy >= SETTLED);
        if paths.len() < 2 {
            return Some(Look::default());
        }
        let hosts = paths.iter().map(|(path, _)| path.hosts).sum::<usize>().max(1);
        let connections = paths.iter().map(|(path, _)| path.connections).sum::<usize>().div_ceil(hosts);
        let rates = paths.iter().map(|(path, _)| path.rate).fold(0, u64::saturating_add);
        let mean_rate = rates / hosts as u64;
        let nearest = paths.iter().map(|(path, _)| path.shortest).min()?;
        let fits = |segments: usize| {
            u128::from(rates) * nearest.as_nanos() / 8_000_000_000 >= SEGMENT * segments as u128
        };
        let least =
            |(path, _): &(PathSeen, Duration)| (LEAST[0] * path.hosts).max(LEAST[1] * path.connections);
        let can_drain = fits(DRAINED * paths.len());
        let is_crowded = !fits(paths.iter().map(least).sum());
        let drain = can_drain && self.is_due(now, &paths, nearest);
        Some(Look { mean_rate: Some(mean_rate), connections, nearest, can_drain, is_crowded, drain })
    }

    /// Whether all are to hold back now.
    fn is_due(&mut self, now: Time, paths: &[(PathSeen, Duration)], nearest: Duration) -> bool {
        let since = now.saturating_since(self.drained_at);
        let asks = |(path, _): &(PathSeen, Duration)| {
            path.asks || !path.for_certain && is_farther(path.shortest, nearest)
        };
        if since >= WAIT[1] {
            self.wait = WAIT[0];
        }
        let is_due = since >= self.wait && paths.iter().any(asks);
        if is_due {
            self.drained_at = now;
            self.wait = (2 * self.wait).min(WAIT[1]);
        }
        is_due
    }

    /// The groups that are busy, as of the last look.
    pub fn busy(&self) -> impl Iterator<Item = u32> + '_ {
        self.busy.keys().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    const NEAR: Duration = Duration::from_millis(30);

    fn path(shortest: Duration, for_certain: bool, rate: u64) -> PathSeen {
        PathSeen { shortest, rate, asks: false, hosts: 1, connections: 2, for_certain }
    }

    /// When all had to hold back within the first ten seconds, in tenths of a second, of groups that are always busy.
    fn drains(paths: &[PathSeen]) -> (Vec<u64>, Option<Look>) {
        let mut all = CommonDrain::default();
        let (mut drains, mut last) = (Vec::new(), None);
        for tenth in 0..100 {
            let now = Time::from_millis(100 * tenth);
            for group in 0..paths.len() as u32 {
                all.on_delivery(now, (group, Time::ZERO));
            }
            let look = all.look(now, |group| Some(paths[group as usize]));
            drains.extend(look.filter(|look| look.drain).map(|_| tenth));
            last = look.or(last);
        }
        (drains, last)
    }

    #[test]
    fn all_hold_back_for_whoever_may_never_have_seen_the_path_and_less_and_less_often() {
        let known = path(NEAR, true, 2_000_000);
        assert!(drains(&[known]).0.is_empty(), "nobody else is here");
        assert!(drains(&[known, path(NEAR * 6 / 5, false, 2_000_000)]).0.is_empty(), "as near as the others");
        assert!(
            drains(&[known, path(4 * NEAR, true, 2_000_000)]).0.is_empty(),
            "it is farther away for certain"
        );
        let (times, look) = drains(&[known, path(4 * NEAR, false, 4_000_000)]);
        assert_eq!(times, [5, 15, 35, 75]);
        let look = look.unwrap();
        assert_eq!((look.mean_rate, look.connections, look.nearest), (Some(3_000_000), 2, NEAR));
        assert_eq!(drains(&[known, PathSeen { asks: true, ..known }]).0, [5, 15, 35, 75]);
    }

    #[test]
    fn a_queue_that_the_least_windows_fill_is_not_drained() {
        let (times, look) = drains(&[path(NEAR, true, 200_000), path(4 * NEAR, false, 200_000)]);
        assert!(times.is_empty() && !look.unwrap().can_drain);
    }

    #[test]
    fn many_hosts_in_few_groups_can_be_drained_and_are_crowded_all_the_same() {
        // 30 Mbit/s and 30 ms are 75 segments.
        let look = |groups: usize, hosts: usize, connections: usize| {
            let rate = 30_000_000 / groups as u64;
            let path = PathSeen {
                hosts: hosts / groups,
                connections: connections / groups,
                ..path(NEAR, true, rate)
            };
            let look = drains(&vec![path; groups]).1.unwrap();
            assert_eq!(look.mean_rate, Some(rate * groups as u64 / hosts as u64));
            (look.can_drain, look.is_crowded)
        };
        assert_eq!(look(18, 18, 18), (true, false), "four segments each are 72");
        assert_eq!(look(20, 20, 20), (true, true), "and 80; two are 40");
        assert_eq!(look(10, 10, 40), (true, true), "two for each connection");
        assert_eq!(look(40, 40, 40), (false, true), "two for each");
        assert_eq!(look(2, 40, 40), (true, true), "two windows can be drained");
    }

    #[test]
    fn who_begins_alone_knows_its_path() {
        let mut all = CommonDrain::default();
        assert!(all.on_delivery(Time::ZERO, (1, Time::ZERO)));
        assert!(!all.on_delivery(Time::from_millis(100), (2, Time::ZERO)), "beside another");
        assert!(!all.on_delivery(Time::from_millis(100), (1, Time::ZERO)), "it is known");
        assert!(all.on_delivery(Time::from_millis(700), (3, Time::ZERO)), "the others are silent");
    }
}
