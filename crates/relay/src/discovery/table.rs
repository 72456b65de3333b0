use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use shorthaul_types::{Seed, Time};

use super::limiter::{Allowance, Bucket};
use super::ranking::View;

/// After so many looks in a row without an answer of its responder, a destination is taken for one without: a single probe may be lost.
pub const SILENT_LOOKS: u32 = 2;
/// How long that is believed until it is asked again.
pub const RESPONDER_AGE: Duration = Duration::from_secs(600);

/// What is kept of destinations, and how it is kept fresh.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TableConfig {
    /// Destinations; none for a device that is to keep no table.
    pub destinations: usize,
    /// What is older is no longer used.
    pub max_age: Duration,
    /// How old something gets before it is looked at again.
    pub refresh: Duration,
    /// The share of that time by which it varies at random, up and down, so that a thousand clients that were
    /// started at once do not probe at once for ever.
    pub jitter: f64,
    /// A destination that was not used for this time is forgotten, and costs no more probes.
    pub idle: Duration,
    /// Rounds of probing, all destinations together.
    pub traffic: Allowance,
}

impl Default for TableConfig {
    /// 64 destinations, refreshed each minute give or take a quarter, valid for five minutes and kept for ten; two rounds a
    /// second at most. A round is one probe of 160 bytes to the destination and to each relay of the directory.
    fn default() -> Self {
        TableConfig {
            destinations: 64,
            max_age: Duration::from_secs(300),
            refresh: Duration::from_secs(60),
            jitter: 0.25,
            idle: Duration::from_secs(600),
            traffic: Allowance { per_second: 2.0, burst: 4.0 },
        }
    }
}

/// What is known of the ways to destinations, with its age ("Proactive PTS Node Discovery" in section 4 of the paper, without
/// what it warns of: only destinations that are used are probed, and no more than the configuration allows).
///
/// It owns no clock and no socket: [`poll_refresh`](Self::poll_refresh) says what to probe next, and
/// [`poll_timeout`](Self::poll_timeout) when to ask.
#[derive(Debug)]
pub struct Table<S = View> {
    config: TableConfig,
    entries: HashMap<SocketAddr, Entry<S>>,
    traffic: Bucket,
    seed: Seed,
    drawn: u64,
}

/// What a [`Table`] keeps of a destination: a [`View`], or what a simulation makes of one.
pub trait Sight {
    /// Whether the destination answered, so that this is worth more than what was seen before.
    fn has_answered(&self) -> bool;
}

impl Sight for View {
    fn has_answered(&self) -> bool {
        self.rtt.is_some()
    }
}

#[derive(Debug)]
struct Entry<S> {
    /// What was seen, and when.
    seen: Option<(S, Time)>,
    used_at: Time,
    due_at: Time,
    /// Rounds in a row in which the destination did not answer.
    failures: u32,
    /// Rounds in a row in which it did, and its responder did not; and when the last of these was. `None` if it never answered or is not known.
    silence: Option<(u32, Time)>,
}

/// What a table says of a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cached<S = View> {
    /// What was seen.
    pub view: S,
    /// How long ago.
    pub age: Duration,
}

impl<S: Sight> Table<S> {
    /// Bytes of a destination, beside what a sight has on the heap: address, entry, and the table's own byte.
    pub const DESTINATION_BYTES: usize = size_of::<(SocketAddr, Entry<S>)>() + 1;

    /// An empty table.
    pub fn new(now: Time, config: TableConfig, seed: Seed) -> Self {
        let traffic = Bucket::full(now, config.traffic);
        Table { config, entries: HashMap::new(), traffic, seed, drawn: 0 }
    }

    /// What is known of a target; from now on it is in use, and kept fresh.
    pub fn look_up(&mut self, now: Time, target: SocketAddr) -> Option<Cached<S>>
    where
        S: Clone,
    {
        let max_age = self.config.max_age;
        let entry = self.note(now, target)?;
        entry.used_at = now;
        let (view, at) = entry.seen.as_ref()?;
        let age = now.saturating_since(*at);
        (age <= max_age).then(|| Cached { view: view.clone(), age })
    }

    /// What was seen of a target last, however old; nobody uses it by that.
    pub fn seen(&self, target: SocketAddr) -> Option<&S> {
        self.entries.get(&target)?.seen.as_ref().map(|(view, _)| view)
    }

    /// Keeps what was seen of a target.
    pub fn store(&mut self, now: Time, target: SocketAddr, view: S) {
        let wait = self.jittered();
        let max_age = self.config.max_age;
        let Some(entry) = self.note(now, target) else { return };
        if view.has_answered() {
            entry.failures = 0;
            entry.seen = Some((view, now));
        } else {
            // What was known serves until it is too old.
            entry.failures += 1;
        }
        // Who does not answer is asked more and more rarely.
        let wait = wait * 2u32.saturating_pow(entry.failures.min(4));
        entry.due_at = now + wait.min(max_age);
    }

    /// Somebody looks at a target, so that its turn comes later.
    pub fn begins(&mut self, now: Time, target: SocketAddr) {
        let wait = self.jittered();
        if let Some(entry) = self.entries.get_mut(&target) {
            entry.due_at = now + wait;
        }
    }

    /// A target answered a look that asked its responder, which did or did not answer, too.
    pub fn learn_responder(&mut self, now: Time, target: SocketAddr, answered: bool) {
        let Some(entry) = self.note(now, target) else { return };
        let before = entry.silence.map_or(0, |(looks, _)| looks);
        entry.silence = Some((if answered { 0 } else { before + 1 }, now));
    }

    /// Whether a target has a responder, as far as that is known.
    pub fn has_responder(&self, now: Time, target: SocketAddr) -> Option<bool> {
        match self.entries.get(&target)?.silence? {
            (0, _) => Some(true),
            (looks, at) => {
                (looks >= SILENT_LOOKS && now.saturating_since(at) < RESPONDER_AGE).then_some(false)
            }
        }
    }

    /// Whether a target did not answer when it was last probed, and need not be probed again yet.
    pub fn is_silent(&self, now: Time, target: SocketAddr) -> bool {
        self.entries.get(&target).is_some_and(|entry| entry.failures > 0 && now < entry.due_at)
    }

    /// The entry of a target, made if need be; `None` where no table is kept.
    fn note(&mut self, now: Time, target: SocketAddr) -> Option<&mut Entry<S>> {
        if self.config.destinations == 0 {
            return None;
        }
        if !self.entries.contains_key(&target) && self.entries.len() >= self.config.destinations {
            let unused = self.entries.iter().min_by_key(|(target, entry)| (entry.used_at, **target));
            let unused = unused.map(|(target, _)| *target)?;
            self.entries.remove(&unused);
        }
        let entry = self.entries.entry(target).or_insert(Entry {
            seen: None,
            used_at: now,
            due_at: now,
            failures: 0,
            silence: None,
        });
        Some(entry)
    }

    fn jittered(&mut self) -> Duration {
        self.drawn += 1;
        let draw = (self.seed.nth(self.drawn).0 >> 11) as f64 / (1u64 << 53) as f64;
        self.config.refresh.mul_f64((1.0 + self.config.jitter * (2.0 * draw - 1.0)).max(0.0))
    }

    /// A target that should be probed now, if one should and may be. Its turn comes again after that, whether or not
    /// something is stored.
    pub fn poll_refresh(&mut self, now: Time) -> Option<SocketAddr> {
        let idle = self.config.idle;
        self.entries.retain(|_, entry| now.saturating_since(entry.used_at) < idle);
        let target = self.next_due().filter(|(_, due)| *due <= now)?.0;
        if !self.traffic.take(now, self.config.traffic) {
            return None;
        }
        self.begins(now, target);
        Some(target)
    }

    /// When [`poll_refresh`](Self::poll_refresh) may have something, if nothing is looked up before.
    pub fn poll_timeout(&self) -> Option<Time> {
        let (_, due) = self.next_due()?;
        Some(due.max(self.traffic.ready_at(self.config.traffic)))
    }

    fn next_due(&self) -> Option<(SocketAddr, Time)> {
        self.entries.iter().map(|(target, entry)| (*target, entry.due_at)).min_by_key(|(t, due)| (*due, *t))
    }

    /// Destinations that it knows of.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it knows of none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(n: u16) -> SocketAddr {
        ([10, 0, (n >> 8) as u8, n as u8], 443).into()
    }

    fn view() -> View {
        View { rtt: Some(Duration::from_millis(80)), relays: Vec::new() }
    }

    fn table(config: TableConfig, seed: u64) -> Table {
        Table::new(Time::ZERO, config, Seed(seed))
    }

    #[test]
    fn what_is_used_is_kept_fresh_and_what_is_not_is_forgotten() {
        let mut table = table(TableConfig::default(), 1);
        assert_eq!(table.look_up(Time::ZERO, target(1)), None);
        let (mut probes, mut now) = (0, Time::ZERO);
        while let Some(at) = table.poll_timeout() {
            now = now.max(at);
            if let Some(target) = table.poll_refresh(now) {
                probes += 1;
                table.store(now, target, view()); // which is no use
            }
            assert!(now < Time::from_secs(2000), "an unused destination is probed for ever");
        }
        assert!((9..=13).contains(&probes), "{probes} probes in ten minutes");
        assert!(table.is_empty() && now > Time::from_secs(500));
    }

    #[test]
    fn an_old_view_is_not_used_and_says_its_age_before() {
        let mut table = table(TableConfig::default(), 1);
        table.store(Time::ZERO, target(1), view());
        let cached = table.look_up(Time::from_secs(100), target(1)).unwrap();
        assert_eq!(cached.age, Duration::from_secs(100));
        // Nobody answers any more: the last view serves on, up to its age.
        table.store(Time::from_secs(120), target(1), View { rtt: None, relays: Vec::new() });
        assert_eq!(table.look_up(Time::from_secs(200), target(1)).unwrap().age, Duration::from_secs(200));
        assert_eq!(table.look_up(Time::from_secs(301), target(1)), None);
    }

    #[test]
    fn clients_that_start_together_do_not_stay_together() {
        let mut dues: Vec<u64> = (0..1000)
            .map(|seed| {
                let mut table = table(TableConfig::default(), seed);
                table.store(Time::ZERO, target(1), view());
                table.poll_timeout().unwrap().as_nanos() / 1_000_000_000
            })
            .collect();
        dues.sort_unstable();
        let densest = dues.chunk_by(|a, b| a == b).map(<[u64]>::len).max().unwrap();
        assert!(dues[0] >= 45 && dues[999] <= 75 && densest < 70, "{densest} in one second");
    }

    #[test]
    fn traffic_is_bounded_however_many_destinations_there_are() {
        let config = TableConfig { destinations: 1000, ..TableConfig::default() };
        let mut table = table(config, 1);
        for n in 0..1000 {
            table.look_up(Time::ZERO, target(n));
        }
        let mut probes = 0;
        for tenths in 0..600 {
            let now = Time::from_millis(100 * tenths);
            while table.poll_refresh(now).is_some() {
                probes += 1;
            }
        }
        assert!((120..=124).contains(&probes), "{probes} in a minute");
        assert!(table.poll_timeout().unwrap() > Time::from_millis(59_900));
    }

    #[test]
    fn a_full_table_forgets_what_was_used_longest_ago_and_a_small_device_keeps_none() {
        let mut table = table(TableConfig { destinations: 2, ..TableConfig::default() }, 1);
        for n in [1, 2, 1, 3] {
            table.drawn += 1;
            let now = Time::from_secs(table.drawn);
            table.look_up(now, target(n));
            table.store(now, target(n), view());
        }
        let now = Time::from_secs(9);
        assert!(table.look_up(now, target(1)).is_some() && table.look_up(now, target(3)).is_some());
        assert_eq!(table.len(), 2);
        let mut none = self::table(TableConfig { destinations: 0, ..TableConfig::default() }, 1);
        none.store(now, target(1), view());
        assert_eq!((none.look_up(now, target(1)), none.poll_refresh(now), none.len()), (None, None, 0));
    }

    #[test]
    fn what_a_session_looks_at_is_not_due_at_the_same_time() {
        let mut table = table(TableConfig::default(), 1);
        table.look_up(Time::ZERO, target(1));
        table.look_up(Time::ZERO, target(2));
        table.begins(Time::ZERO, target(1));
        assert_eq!(table.poll_refresh(Time::ZERO), Some(target(2)));
        assert_eq!(table.poll_refresh(Time::ZERO), None);
        // If nothing comes of it, its turn comes as if something had.
        let next = table.poll_timeout().unwrap();
        assert!((Time::from_secs(45)..=Time::from_secs(75)).contains(&next), "{next}");
    }

    #[test]
    fn a_responder_that_did_not_answer_twice_is_not_there_for_a_while() {
        let mut table = table(TableConfig::default(), 1);
        let minutes = |minutes: u64| Time::from_secs(60 * minutes);
        assert_eq!(table.has_responder(minutes(0), target(1)), None);
        table.learn_responder(minutes(0), target(1), false);
        assert_eq!(table.has_responder(minutes(0), target(1)), None, "a probe may be lost");
        table.learn_responder(minutes(1), target(1), false);
        assert_eq!(table.has_responder(minutes(10), target(1)), Some(false));
        assert_eq!(table.has_responder(minutes(11), target(1)), None);
        table.learn_responder(minutes(11), target(1), false);
        assert_eq!(table.has_responder(minutes(20), target(1)), Some(false));
        table.learn_responder(minutes(21), target(1), true);
        assert_eq!(table.has_responder(minutes(60), target(1)), Some(true));
        table.learn_responder(minutes(60), target(1), false);
        assert_eq!(table.has_responder(minutes(60), target(1)), None);
    }

    #[test]
    fn who_does_not_answer_is_asked_more_and_more_rarely() {
        let mut table = table(TableConfig::default(), 1);
        let silent = View { rtt: None, relays: Vec::new() };
        let mut waits = Vec::new();
        let mut now = Time::ZERO;
        for _ in 0..4 {
            table.store(now, target(1), silent.clone());
            let next = table.poll_timeout().unwrap();
            waits.push(next.saturating_since(now).as_secs());
            assert!(table.is_silent(now, target(1)) && !table.is_silent(next, target(1)));
            now = next;
        }
        assert!(waits[0] >= 90 && waits[1] >= 180 && waits[3] == 300, "{waits:?}");
    }
}
