//! Connections of which it is not known yet whose they are: how many there may be, in all and of a source.
mod known;

use known::Known;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Most sources that are counted. Beyond that, nobody new is let in until some have done nothing for a second.
const MAX_SOURCES: usize = 65_536;
/// How long it takes until a source may make as many connections as it ever may.
const REFILLS: Duration = Duration::from_secs(1);
/// How many times as many connections a known source may have at once, and make in a second.
const OF_KNOWN: u32 = 16;

/// A network: its first address, and how many bits are its own.
type Network = (IpAddr, u8);

/// All of them.
#[derive(Debug)]
pub struct Strangers {
    per_second: f64,
    at_once: u32,
    all: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    sources: HashMap<Network, Source>,
    /// When those were left out last of which everything is over: all have to be looked at for that.
    cleaned: Option<Instant>,
    known: Known,
    /// Those whose request is waited for, the oldest first.
    waiting: BTreeMap<u64, oneshot::Sender<()>>,
    next: u64,
}

#[derive(Debug)]
struct Source {
    /// Connections that it may still make at once, as of `since`.
    left: f64,
    since: Instant,
    /// Connections that wait.
    open: u32,
}

/// A connection that waits, until it is dropped.
#[derive(Debug)]
pub struct Waiting {
    strangers: Arc<Strangers>,
    id: u64,
    source: IpAddr,
    /// How many of the source's networks it counts for.
    counts_for: usize,
    sent_away: oneshot::Receiver<()>,
}

impl Waiting {
    /// Until others need the room.
    pub async fn sent_away(&mut self) {
        if (&mut self.sent_away).await.is_err() {
            // Nobody will be told that.
            std::future::pending::<()>().await;
        }
    }

    /// It is known whose it is: others who need room do not take its place any more, but it counts for its source.
    pub fn stay(&mut self) {
        self.strangers.state().waiting.remove(&self.id);
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut state = self.strangers.state();
        state.waiting.remove(&self.id);
        for (network, _) in networks_of(self.source).iter().take(self.counts_for) {
            if let Some(source) = state.sources.get_mut(network) {
                source.open = source.open.saturating_sub(1);
            }
        }
    }
}

impl Strangers {
    /// This many per second from a host and as many at once in a burst, this many that wait, and `all` that wait from
    /// everywhere.
    pub fn new(per_second: u32, at_once: u32, all: usize) -> Arc<Strangers> {
        let state = Mutex::default();
        Arc::new(Strangers { per_second: per_second.into(), at_once, all: all.max(1), state })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more connection; nothing, if its source has too many or makes too many.
    pub fn on_connection(self: &Arc<Self>, source: IpAddr, now: Instant) -> Option<Waiting> {
        let mut state = self.state();
        let State { sources, cleaned, known, waiting, next } = &mut *state;
        let may_clean = cleaned.is_none_or(|then| now.saturating_duration_since(then) >= REFILLS);
        if sources.len() >= MAX_SOURCES && may_clean {
            *cleaned = Some(now);
            // Those of which everything is over may as well be unknown.
            sources
                .retain(|_, source| source.open > 0 || now.saturating_duration_since(source.since) < REFILLS);
        }
        let mut networks = networks_of(source);
        // Who is known counts for itself alone.
        let is_known = known.contains(&networks[0].0, now);
        if is_known {
            networks.truncate(1);
        }
        // The large ones first: whoever has a whole network cannot fill the table with its parts.
        for (network, times) in networks.iter().rev() {
            let times = if is_known { times * OF_KNOWN } else { *times };
            let rate = self.per_second * f64::from(times);
            if !sources.contains_key(network) && sources.len() >= MAX_SOURCES {
                return None;
            }
            let source = sources.entry(*network).or_insert(Source { left: rate, since: now, open: 0 });
            source.left = (source.left + (now - source.since).as_secs_f64() * rate).min(rate);
            source.since = now;
            if source.left < 1.0 || source.open >= self.at_once * times {
                return None;
            }
        }
        for (network, _) in &networks {
            if let Some(source) = sources.get_mut(network) {
                source.left -= 1.0;
                source.open += 1;
            }
        }
        if waiting.len() >= self.all
            && let Some((_, oldest)) = waiting.pop_first()
        {
            let _ = oldest.send(());
        }
        *next += 1;
        let (tell, sent_away) = oneshot::channel();
        waiting.insert(*next, tell);
        let counts_for = networks.len();
        Some(Waiting { strangers: Arc::clone(self), id: *next, source, counts_for, sent_away })
    }

    /// It turned out to be somebody: it does not count, and its source is known.
    pub fn on_known(&self, source: IpAddr, now: Instant) {
        let mut state = self.state();
        let State { sources, known, .. } = &mut *state;
        let networks = networks_of(source);
        let (Some((host, _)), Some((customer, _))) = (networks.first(), networks.last()) else { return };
        // Sources that are not counted need not be known.
        if !sources.contains_key(host) {
            return;
        }
        let was_known = known.contains(host, now);
        // Of a network that many share, one of them says nothing of the others.
        known.add(*host, *customer, now);
        for (network, times) in &networks {
            let times = if network == host { times * OF_KNOWN } else { *times };
            let may = self.per_second * f64::from(times);
            if let Some(source) = sources.get_mut(network) {
                // What it may do at once as somebody, it may at once: its sessions may begin together in this moment.
                let more = if network == host && !was_known { may } else { 1.0 };
                source.left = (source.left + more).min(may);
            }
            if was_known {
                break;
            }
        }
    }

    /// Whether somebody of a source was let in lately.
    pub fn is_known(&self, source: IpAddr, now: Instant) -> bool {
        self.state().known.contains(&networks_of(source)[0].0, now)
    }
}

/// The networks that an address counts for, the smallest first, and how many times as much as a host each may. A host has an
/// IPv4 address or a whole /64; a customer a /56 or a /48 (RFC 6177).
fn networks_of(address: IpAddr) -> Vec<(Network, u32)> {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let cut = |bits: u8| {
                let kept = u128::from(v6) & (u128::MAX << (128 - u32::from(bits)));
                (IpAddr::from(kept.to_be_bytes()), bits)
            };
            vec![(cut(64), 1), (cut(56), 2), (cut(48), 4)]
        }
        v4 => vec![((v4, 32), 1)],
    }
}

#[cfg(test)]
mod tests {
    use super::known::{KNOWN_FOR, MOST_OF_NETWORK};
    use super::*;

    fn at(address: &str) -> IpAddr {
        address.parse().unwrap()
    }

    #[test]
    fn strangers_are_few_and_friends_do_not_count() {
        let strangers = Strangers::new(10, 100, 1000);
        let (now, source) = (Instant::now(), at("192.0.2.1"));
        let connects = |source, now| strangers.on_connection(source, now).is_some();
        assert_eq!((0..100).filter(|_| connects(source, now)).count(), 10);
        assert!(connects(at("192.0.2.2"), now));
        strangers.on_known(source, now);
        // Who was let in comes with more at once, from then on: a proxy with many clients, whose sessions begin together.
        assert_eq!((0..1000).filter(|_| connects(source, now)).count(), 10 * OF_KNOWN as usize);
        strangers.on_known(source, now);
        assert!(connects(source, now) && !connects(source, now), "it is not given that twice");
        let later = now + Duration::from_secs(2);
        assert_eq!((0..1000).filter(|_| connects(source, later)).count(), 10 * OF_KNOWN as usize);
        assert_eq!((0..1000).filter(|_| connects(at("192.0.2.2"), later)).count(), 10);
    }

    #[test]
    fn who_is_known_does_not_pay_for_the_network_around_it() {
        let strangers = Strangers::new(4, 4, 1000);
        let (now, source) = (Instant::now(), at("2001:db8::1"));
        drop(strangers.on_connection(source, now));
        strangers.on_known(source, now);
        let later = now + Duration::from_secs(2);
        let mut of_known: Vec<Waiting> =
            (0..1000).map_while(|_| strangers.on_connection(source, later)).collect();
        assert_eq!(of_known.len(), 4 * OF_KNOWN as usize);
        let neighbours = |strangers: &Arc<Strangers>| {
            let of = |number: u32| strangers.on_connection(at(&format!("2001:db8:0:{number:x}::1")), later);
            (1..100).filter_map(of).collect::<Vec<Waiting>>()
        };
        let theirs = neighbours(&strangers);
        assert_eq!(theirs.len(), 8, "those around it have what they would have without it");
        drop(of_known.split_off(1));
        drop(theirs);
        assert!(strangers.state().sources.values().all(|source| source.open <= 1));
    }

    #[test]
    fn who_has_proven_who_it_is_keeps_its_place_and_counts() {
        let strangers = Strangers::new(1000, 2, 2);
        let now = Instant::now();
        let member = |host| strangers.on_connection(at(host), now).unwrap();
        let mut ready = [member("192.0.2.1"), member("192.0.2.1")];
        ready.iter_mut().for_each(Waiting::stay);
        let others = [member("192.0.2.2"), member("192.0.2.3"), member("192.0.2.4")];
        assert!(ready.iter_mut().all(|one| one.sent_away.try_recv().is_err()));
        assert!(strangers.on_connection(at("192.0.2.1"), now).is_none(), "two are there");
        drop(others);
    }

    #[test]
    fn so_many_wait_of_a_source_and_more_of_one_that_is_known() {
        let strangers = Strangers::new(1000, 4, 1000);
        let (now, source) = (Instant::now(), at("192.0.2.1"));
        let all = || (0..200).map_while(|_| strangers.on_connection(source, now)).collect::<Vec<Waiting>>();
        let waiting = all();
        assert_eq!(waiting.len(), 4);
        drop(waiting);
        assert_eq!(all().len(), 4, "those that are over do not count");
        assert!(!strangers.is_known(source, now));
        strangers.on_known(source, now);
        assert!(strangers.is_known(source, now) && !strangers.is_known(source, now + KNOWN_FOR));
        assert_eq!(all().len(), 4 * OF_KNOWN as usize);
    }

    #[test]
    fn networks_of_ipv6_have_bounds_of_their_own() {
        let strangers = Strangers::new(8, 8, 1000);
        let now = Instant::now();
        let mut waiting = Vec::new();
        let mut count = |address: &dyn Fn(u32) -> String| {
            let before = waiting.len();
            waiting.extend((0..100).filter_map(|number| strangers.on_connection(at(&address(number)), now)));
            waiting.len() - before
        };
        assert_eq!(count(&|number| format!("2001:db8::{number:x}")), 8, "a /64 is a host");
        assert_eq!(count(&|number| format!("2001:db8:0:{number:x}::1")), 8, "a /56 has twice as many");
        assert_eq!(
            count(&|number| format!("2001:db8:0:{:x}::1", 0x100 + (number << 8))),
            16,
            "a /48 four times"
        );
        assert_eq!(count(&|number| format!("2001:db8:1:{:x}::1", number << 8)), 32);
        assert!(strangers.state().sources.len() < 120, "what is refused is not remembered");
    }

    #[test]
    fn who_is_let_in_everywhere_in_a_network_keeps_nobody_else_out() {
        let strangers = Strangers::new(1_000_000, 64, 4096);
        let mut now = Instant::now();
        let friend = at("192.0.2.1");
        drop(strangers.on_connection(friend, now).unwrap());
        strangers.on_known(friend, now);
        let host = |number: usize| at(&format!("2001:db8:0:{number:x}::1"));
        for number in 0..MAX_SOURCES {
            now += Duration::from_millis(1);
            drop(strangers.on_connection(host(number), now).expect("there is room"));
            strangers.on_known(host(number), now);
        }
        let known = (0..MAX_SOURCES).filter(|number| strangers.is_known(host(*number), now)).count();
        assert_eq!(known, MOST_OF_NETWORK);
        assert!(strangers.is_known(host(MAX_SOURCES - 1), now) && strangers.is_known(friend, now));
        let others = (0..1000).filter_map(|number: u32| {
            strangers.on_connection(IpAddr::from((0xc633_6400 + number).to_be_bytes()), now)
        });
        assert_eq!(others.count(), 1000, "and nobody new is kept out");
    }

    #[test]
    fn a_full_table_is_cleaned_once_a_second_at_most() {
        let strangers = Strangers::new(100, 64, 4096);
        let now = Instant::now();
        let host = |number: usize| IpAddr::from((number as u32).to_be_bytes());
        for number in 0..MAX_SOURCES {
            drop(strangers.on_connection(host(number), now).unwrap());
        }
        let comes = |after| strangers.on_connection(at("192.0.2.1"), now + after).is_some();
        assert!(!comes(Duration::ZERO));
        let cleaned = strangers.state().cleaned;
        assert!(cleaned.is_some() && !comes(Duration::from_millis(999)));
        assert_eq!(strangers.state().cleaned, cleaned);
        assert!(comes(Duration::from_secs(1)));
        assert_eq!(strangers.state().sources.len(), 1, "all others have done nothing for a second");
    }

    #[test]
    fn the_oldest_goes_when_all_are_too_many() {
        let strangers = Strangers::new(1000, 1000, 2);
        let now = Instant::now();
        let mut waiting: Vec<Waiting> = (1..=3)
            .filter_map(|host| strangers.on_connection(IpAddr::from([192, 0, 2, host]), now))
            .collect();
        assert_eq!(waiting.len(), 3);
        let gone: Vec<bool> = waiting.iter_mut().map(|one| one.sent_away.try_recv().is_ok()).collect();
        assert_eq!(gone, [true, false, false]);
    }
}
