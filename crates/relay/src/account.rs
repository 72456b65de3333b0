//! What each user may have, and has had.
use serde::Deserialize;
use shorthaul_types::{BitRate, Bytes};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How far ahead of its rate a user may be at once.
const BURST: Duration = Duration::from_millis(50);
/// Stands for no limit.
const UNLIMITED: u64 = u64::MAX;

/// The account of those who proved to be members of the network, by certificate or by its secret.
pub(crate) const MEMBERS: &str = "members";
/// The account of those whose address is enough.
pub(crate) const NEIGHBOURS: &str = "neighbours";

/// Whether a name stands for those who have none of their own.
pub(crate) fn is_reserved(name: &str) -> bool {
    [MEMBERS, NEIGHBOURS, crate::secret::MEMBER].iter().any(|one| one.eq_ignore_ascii_case(name))
}

/// What a user may have at most; what is not said is not limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Sessions at once.
    pub sessions: Option<u64>,
    /// Both directions of all sessions together.
    pub rate: Option<BitRate>,
    /// Both directions of all sessions together, as long as the node runs.
    pub volume: Option<Bytes>,
}

/// Names that are looked up for one account at the same time, at most.
const LOOKUPS: u64 = 32;

/// A part of what an account may have at once, until it is dropped.
#[derive(Debug)]
pub struct Share {
    account: Arc<Account>,
    of: fn(&Account) -> &AtomicU64,
    amount: u64,
}

impl Drop for Share {
    fn drop(&mut self) {
        (self.of)(&self.account).fetch_sub(self.amount, Ordering::Relaxed);
    }
}

/// A user, and what of its limits is used.
#[derive(Debug)]
pub struct Account {
    name: String,
    sessions: AtomicU64,
    opened: AtomicU64,
    moved: AtomicU64,
    prepared: AtomicU64,
    lookups: AtomicU64,
    reserved: AtomicU64,
    stored: AtomicU64,
    waiting: AtomicU64,
    most_sessions: AtomicU64,
    most_moved: AtomicU64,
    bits_per_sec: AtomicU64,
    /// When what has been moved will be within the rate.
    even_at: Mutex<Instant>,
}

impl Account {
    /// A user of whom nothing is used yet.
    pub fn new(name: &str, limits: Limits) -> Account {
        let account = Account {
            name: name.into(),
            sessions: AtomicU64::new(0),
            opened: AtomicU64::new(0),
            moved: AtomicU64::new(0),
            prepared: AtomicU64::new(0),
            lookups: AtomicU64::new(0),
            reserved: AtomicU64::new(0),
            stored: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            most_sessions: AtomicU64::new(UNLIMITED),
            most_moved: AtomicU64::new(UNLIMITED),
            bits_per_sec: AtomicU64::new(UNLIMITED),
            even_at: Mutex::new(Instant::now()),
        };
        account.set_limits(limits);
        account
    }

    /// Other limits, from now on.
    pub fn set_limits(&self, limits: Limits) {
        self.most_sessions.store(limits.sessions.unwrap_or(UNLIMITED), Ordering::Relaxed);
        self.most_moved.store(limits.volume.map_or(UNLIMITED, |volume| volume.0), Ordering::Relaxed);
        self.bits_per_sec.store(limits.rate.map_or(UNLIMITED, BitRate::bits_per_sec), Ordering::Relaxed);
    }

    /// The user's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sessions that are open.
    pub fn sessions(&self) -> u64 {
        self.sessions.load(Ordering::Relaxed)
    }

    /// Sessions that there have been.
    pub fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }

    /// Bytes moved, both ways together.
    pub fn moved(&self) -> Bytes {
        Bytes(self.moved.load(Ordering::Relaxed))
    }

    /// One more session.
    ///
    /// # Errors
    /// Which limit is reached.
    pub fn open(&self) -> Result<(), String> {
        let most = self.most_moved.load(Ordering::Relaxed);
        if self.moved().0 >= most {
            return Err(format!("{} has moved the {most} bytes that it may", self.name));
        }
        let most = self.most_sessions.load(Ordering::Relaxed);
        let more = |open: u64| (open < most).then_some(open + 1);
        let opened = self.sessions.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        opened.map_err(|_| format!("{} has the {most} sessions that it may", self.name))?;
        self.opened.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn share(self: &Arc<Self>, of: fn(&Account) -> &AtomicU64, amount: u64, most: u64) -> Option<Share> {
        let more = |has: u64| has.checked_add(amount).filter(|sum| *sum <= most);
        of(self).fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Share { account: Arc::clone(self), of, amount })
    }

    /// A way on that is connected before its session is there: within the limits that the session will have.
    pub fn prepare(self: &Arc<Self>) -> Option<Share> {
        let most = self.most_sessions.load(Ordering::Relaxed).saturating_sub(self.sessions());
        let has_volume = self.moved().0 < self.most_moved.load(Ordering::Relaxed);
        if has_volume { self.share(|account| &account.prepared, 1, most) } else { None }
    }

    /// A name that is looked up.
    pub fn look_up(self: &Arc<Self>) -> Option<Share> {
        self.share(|account| &account.lookups, 1, LOOKUPS)
    }

    /// Reserves as much of a buffer as there is, of at most `most` for all sessions.
    pub fn reserve(self: &Arc<Self>, wanted: Bytes, most: Bytes) -> (Bytes, Share) {
        let left = |has: u64| wanted.0.min(most.0.saturating_sub(has));
        let more = |has: u64| Some(has + left(has));
        let had = self.reserved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        let amount = left(had.unwrap_or(u64::MAX));
        (Bytes(amount), Share { account: Arc::clone(self), of: |account| &account.reserved, amount })
    }

    /// What could be reserved.
    pub fn reservable(&self, most: Bytes) -> Bytes {
        Bytes(most.0.saturating_sub(self.reserved.load(Ordering::Relaxed)))
    }

    /// A connection that waits for a request, of at most `most`.
    pub fn wait(self: &Arc<Self>, most: u64) -> Option<Share> {
        self.share(|account| &account.waiting, 1, most)
    }

    /// Room in the temporary directory, of at most `most` for all sessions.
    pub fn store(self: &Arc<Self>, bytes: u64, most: Bytes) -> Option<Share> {
        self.share(|account| &account.stored, bytes, most.0)
    }

    /// One session less.
    pub fn close(&self) {
        self.sessions.fetch_sub(1, Ordering::Relaxed);
    }

    /// Bytes were moved: how long to wait before there are more, or nothing if the volume is used up.
    pub fn on_moved(&self, bytes: u64) -> Option<Duration> {
        let moved = self.moved.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if moved > self.most_moved.load(Ordering::Relaxed) {
            return None;
        }
        let rate = self.bits_per_sec.load(Ordering::Relaxed);
        if rate == UNLIMITED {
            return Some(Duration::ZERO);
        }
        let takes = BitRate::from_bits_per_sec(rate).time_to_send(Bytes(bytes)).min(Duration::from_secs(60));
        let now = Instant::now();
        let mut even_at = self.even_at.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *even_at = (*even_at).max(now) + takes;
        Some(even_at.saturating_duration_since(now).saturating_sub(BURST))
    }

    /// How long nothing may be moved, for all of its sessions have moved more than they might. A session that begins waits for that: many short ones
    /// would move a portion each otherwise, and the others pay for it.
    pub fn due(&self) -> Duration {
        let even_at = *self.even_at.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        even_at.saturating_duration_since(Instant::now()).saturating_sub(BURST)
    }

    /// How much may be moved at once: within the volume, and nothing that takes longer than the burst.
    pub fn portion(&self) -> usize {
        let left = self.most_moved.load(Ordering::Relaxed).saturating_sub(self.moved().0);
        let rate = self.bits_per_sec.load(Ordering::Relaxed);
        let at_once = match rate {
            UNLIMITED => u64::MAX,
            rate => BitRate::from_bits_per_sec(rate).bytes_in(BURST).0.clamp(1500, 1 << 20),
        };
        usize::try_from(left.min(at_once)).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_hold_and_can_be_changed() {
        let limits = Limits { sessions: Some(1), volume: Some(Bytes(1000)), rate: None };
        let account = Account::new("alice", limits);
        account.open().unwrap();
        assert!(account.open().unwrap_err().contains("1 sessions"));
        account.close();
        assert_eq!(account.portion(), 1000);
        assert_eq!(account.on_moved(1000), Some(Duration::ZERO));
        assert_eq!(account.portion(), 0);
        assert_eq!(account.on_moved(1), None);
        assert!(account.open().unwrap_err().contains("1000 bytes"));
        account.set_limits(Limits::default());
        account.open().unwrap();
    }

    #[test]
    fn what_is_had_at_once_has_bounds_and_comes_back() {
        let limits = Limits { sessions: Some(3), ..Limits::default() };
        let account = Arc::new(Account::new("alice", limits));
        account.open().unwrap();
        let prepared = [account.prepare(), account.prepare()];
        assert!(prepared.iter().all(Option::is_some) && account.prepare().is_none());
        drop(prepared);
        assert!(account.prepare().is_some());
        let first = account.reserve(Bytes(70), Bytes(100));
        let second = account.reserve(Bytes(70), Bytes(100));
        assert_eq!((first.0, second.0), (Bytes(70), Bytes(30)));
        assert_eq!(account.reservable(Bytes(100)), Bytes(0));
        drop(first);
        assert_eq!(account.reservable(Bytes(100)), Bytes(70));
        assert_eq!(account.reserve(Bytes(100), Bytes(100)).0, Bytes(70));
        let lookups: Vec<_> = (0..100).map_while(|_| account.look_up()).collect();
        assert_eq!(lookups.len() as u64, LOOKUPS);
        assert!(account.store(101, Bytes(100)).is_none() && account.store(100, Bytes(100)).is_some());
        account.on_moved(10);
        account.set_limits(Limits { volume: Some(Bytes(10)), ..limits });
        assert!(account.prepare().is_none(), "the volume is used up");
    }

    #[test]
    fn a_rate_is_waited_for() {
        let rate = Some(BitRate::from_bits_per_sec(8_000_000));
        let account = Account::new("alice", Limits { rate, ..Limits::default() });
        assert_eq!(account.portion(), 50_000);
        // A second's worth, less the burst.
        let wait = account.on_moved(1_000_000).unwrap();
        assert!(wait > Duration::from_millis(940) && wait <= Duration::from_millis(950), "{wait:?}");
    }

    #[test]
    fn whoever_begins_waits_for_what_others_have_moved() {
        let rate = Some(BitRate::from_bits_per_sec(8_000_000));
        let account = Account::new("alice", Limits { rate, ..Limits::default() });
        assert_eq!(account.due(), Duration::ZERO);
        // Sessions that begin one after the other, each with a portion at once.
        let mut moved = 0;
        while account.due().is_zero() {
            account.on_moved(account.portion() as u64).unwrap();
            moved += account.portion();
        }
        assert!((50_000..=150_000).contains(&moved), "{moved}");
        assert_eq!(Account::new("bob", Limits::default()).due(), Duration::ZERO);
    }
}
