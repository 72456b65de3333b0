use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use shorthaul_planner::sharing::Load;
use shorthaul_planner::{Policy, Transfer};
use shorthaul_types::{Bytes, Seed, Time};

use super::asking::{numbers_of, whom_to_ask};
use super::directory::{Directory, DirectoryError};
use super::key::{Keyring, MAC_LEN};
use super::message::{Capacity, Offer, PORT};
use super::prober::{Found, Question, Retry};
use super::probing::{probe, probe_and_tell, way_to};
use super::ranking::{Facts, Ranking, Selection, View, is_worth_probing};
use super::survey::Survey;
use super::table::{Table, TableConfig};
use crate::learning::Candidate;
use crate::route::Endpoint;

/// How long what the directories said is used.
pub const DIRECTORY_AGE: Duration = Duration::from_secs(60);
/// How long directories are left alone that were of no use: asking them can take seconds each time.
pub const DIRECTORY_REST: Duration = Duration::from_secs(10);
/// Rounds of looking at a way for one transfer, at most.
pub const ROUNDS_MAX: u32 = 5;
/// The rounds may take one part in this many of the time that the transfer is expected to take.
pub const SHARE_OF_TIME: u32 = 16;
/// Who is asked how it is before a session may take so much longer than its round trips: a machine is busy.
pub const ASKED_WITHIN: Duration = Duration::from_millis(20);
/// What a transfer of unknown size is taken for, once the way is known: enough for a relay to matter.
const UNKNOWN_SIZE: Bytes = Bytes(10_000_000);

/// How ways are found.
pub struct FinderConfig {
    /// The network's keys.
    pub keys: Keyring,
    /// The UDP port of responders.
    pub port: u16,
    /// Who knows relays beside the way.
    pub directories: Vec<Box<dyn Directory>>,
    /// What is kept.
    pub table: TableConfig,
    /// How patient a round is.
    pub retry: Retry,
    /// What is known of ways beside their round trips.
    pub facts: Facts,
    /// When relays are used, and how many.
    pub selection: Selection,
}

impl FinderConfig {
    /// No directories; two attempts a round, of half a second and of one.
    pub fn new(keys: Keyring) -> Self {
        FinderConfig {
            keys,
            port: PORT,
            directories: Vec::new(),
            table: TableConfig::default(),
            retry: Retry { timeout: Duration::from_millis(500), tries: 2 },
            facts: Facts::default(),
            selection: Selection::default(),
        }
    }
}

impl fmt::Debug for FinderConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let directories: Vec<String> = self.directories.iter().map(|directory| directory.name()).collect();
        f.debug_struct("FinderConfig")
            .field("port", &self.port)
            .field("directories", &directories)
            .field("table", &self.table)
            .field("facts", &self.facts)
            .field("selection", &self.selection)
            .finish_non_exhaustive()
    }
}

/// The way that a session should take.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// Where the relays to pass accept sessions, in order; none to go direct.
    pub hops: Vec<SocketAddr>,
    /// Why, as a sentence.
    pub why: String,
    /// How old what is known is: zero if it was looked for just now, `None` if nothing is known.
    pub age: Option<Duration>,
    /// The relays that there were to choose from.
    pub ranking: Option<Ranking>,
}

/// Finds the best way to targets: probes, asks directories, keeps a table, ranks.
///
/// All of it blocks for as long as the network takes; share one among threads with an [`Arc`].
#[derive(Debug)]
pub struct Finder {
    config: FinderConfig,
    epoch: Instant,
    state: Mutex<State>,
    /// There is something new in the table.
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    keys: Keyring,
    table: Table,
    cookie: Option<[u8; MAC_LEN]>,
    /// Responders of the relays that the directories named, and when to ask again.
    listed: Option<(Vec<SocketAddr>, Instant)>,
    /// What chance is drawn from, and how often it was.
    draws: (Seed, u64),
}

impl Finder {
    /// Knows nothing yet.
    ///
    /// # Errors
    /// The kernel gives no random bytes.
    pub fn new(config: FinderConfig) -> io::Result<Self> {
        let mut seed = [0; 8];
        getrandom::fill(&mut seed).map_err(io::Error::other)?;
        let table = Table::new(Time::ZERO, config.table, Seed(u64::from_ne_bytes(seed)));
        let draws = (Seed(u64::from_ne_bytes(seed)).derive("whom to ask"), 0);
        let state = State { keys: config.keys.clone(), table, cookie: None, listed: None, draws };
        Ok(Finder { config, epoch: Instant::now(), state: Mutex::new(state), changed: Condvar::new() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // What it holds is whole whenever the lock is free.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The network has these keys from now on.
    pub fn set_keys(&self, keys: Keyring) {
        self.state().keys = keys;
    }

    fn keys(&self) -> Keyring {
        self.state().keys.clone()
    }

    fn now(&self) -> Time {
        Time::ZERO + self.epoch.elapsed()
    }

    /// The responders of the relays beside the way: what the directories say, or said a short while ago. One that is of no
    /// use now is left out, and told of in the second part.
    pub fn listed(&self) -> (Vec<SocketAddr>, Vec<DirectoryError>) {
        if let Some((listed, again_at)) = &self.state().listed
            && Instant::now() < *again_at
        {
            return (listed.clone(), Vec::new());
        }
        let (mut listed, mut errors) = (Vec::new(), Vec::new());
        for directory in &self.config.directories {
            match directory.relays() {
                Ok(relays) => listed.extend(relays.iter().map(|relay| relay.probe)),
                Err(error) => errors.push(error),
            }
        }
        // In the order of the directories, each once.
        let mut seen = std::collections::HashSet::new();
        listed.retain(|address| seen.insert(*address));
        let mut state = self.state();
        let is_of_use = errors.is_empty() || !listed.is_empty();
        if let (false, Some((former, _))) = (is_of_use, &state.listed) {
            // Better an old list than none.
            listed = former.clone();
        }
        let age = if is_of_use { DIRECTORY_AGE } else { DIRECTORY_REST };
        state.listed = Some((listed.clone(), Instant::now() + age));
        drop(state);
        (listed, errors)
    }

    /// Those of the listed responders that are asked about a target in one round.
    fn to_ask(&self, target: SocketAddr) -> Vec<SocketAddr> {
        let (listed, _) = self.listed();
        let mut state = self.state();
        let beside = |view: &View| {
            let beside = view.relays.iter().filter(|found| !found.on_path);
            beside.map(|found| found.offer.session.ip()).collect::<Vec<_>>()
        };
        let known = state.table.seen(target).map(beside).unwrap_or_default();
        let (seed, drawn) = &mut state.draws;
        let asked = whom_to_ask(listed.len(), numbers_of(&listed, &known), || {
            *drawn += 1;
            (seed.nth(*drawn).0 >> 11) as f64 / (1u64 << 53) as f64
        });
        asked.into_iter().map(|number| listed[number]).collect()
    }

    /// One round of probing toward a target, added to `survey`.
    ///
    /// # Errors
    /// There is no socket to be had.
    pub fn round(&self, target: SocketAddr, survey: &mut Survey) -> io::Result<()> {
        self.round_and_tell(target, survey, &mut |_| {})
    }

    fn round_and_tell(
        &self,
        target: SocketAddr,
        survey: &mut Survey,
        early: &mut dyn FnMut(&Found),
    ) -> io::Result<()> {
        let relays = self.to_ask(target);
        let cookie = self.state().cookie;
        let question = Question {
            destination: Some(SocketAddr::new(target.ip(), self.config.port)),
            relays,
            target: Some(target),
            cookie,
        };
        let findings = probe_and_tell(&self.keys(), question, self.config.retry, early)?;
        if findings.cookie.is_some() {
            self.state().cookie = findings.cookie;
        }
        survey.add(&findings);
        Ok(())
    }

    /// For a destination without a responder: the distance by a handshake, and the relays of the directories, which
    /// measure theirs in the same way.
    ///
    /// # Errors
    /// There is no socket to be had.
    pub fn round_without_responder(&self, target: SocketAddr, survey: &mut Survey) -> io::Result<()> {
        let relays = self.to_ask(target);
        let Some(way) = way_to(&self.keys(), target) else { return Ok(()) };
        let cookie = self.state().cookie;
        let question = Question { destination: None, relays, target: Some(target), cookie };
        let mut findings = probe(&self.keys(), question, self.config.retry)?;
        findings.rtt = Some(way.rtt);
        if findings.cookie.is_some() {
            self.state().cookie = findings.cookie;
        }
        survey.add(&findings);
        Ok(())
    }

    /// Looks at the way to a target once, and keeps what is seen.
    ///
    /// # Errors
    /// There is no socket to be had.
    pub fn look(&self, target: SocketAddr) -> io::Result<Survey> {
        self.look_and_tell(target, &mut |_| {})
    }

    fn look_and_tell(&self, target: SocketAddr, early: &mut dyn FnMut(&Found)) -> io::Result<Survey> {
        let mut survey = Survey::default();
        self.round_and_tell(target, &mut survey, early)?;
        // Handshakes with the target are worth it only where relays could be.
        if survey.rtts.is_empty() && !self.listed().0.is_empty() {
            self.round_without_responder(target, &mut survey)?;
        }
        self.keep(target, &survey);
        Ok(survey)
    }

    /// Looks at the way for a transfer of this size: several times if that takes hardly any time beside the transfer,
    /// since one round trip that was held up by a queue or a busy machine puts a relay in the wrong place.
    fn look_for(&self, target: SocketAddr, size: Bytes, early: &mut dyn FnMut(&Found)) -> io::Result<Survey> {
        let began = Instant::now();
        let mut survey = self.look_and_tell(target, early)?;
        let transfer = Transfer::new(Bytes(size.0.max(1)));
        while survey.rounds < ROUNDS_MAX {
            let ranking = Ranking::new(&survey.view(), &self.config.facts, &transfer, self.config.selection);
            let Ok(ranking) = ranking else { break };
            let time = ranking.expected().time.expected / SHARE_OF_TIME;
            if ranking.relays.is_empty() || began.elapsed() + ranking.rtt > time {
                break;
            }
            self.round(target, &mut survey)?;
            self.keep(target, &survey);
        }
        Ok(survey)
    }

    /// Keeps a survey in the table.
    pub fn keep(&self, target: SocketAddr, survey: &Survey) {
        let now = self.now();
        self.state().table.store(now, target, survey.view());
        self.changed.notify_all();
    }

    /// The best way for a transfer of `size` to `target`; without a size, of a large one.
    ///
    /// What is in the table decides at once. What is not is looked for first if that can pay; otherwise the way is
    /// direct, and for a transfer of unknown size, which may be the first of many, the table is filled meanwhile if
    /// [`Refreshing`] runs.
    pub fn best_route(&self, target: SocketAddr, size: Option<Bytes>) -> Choice {
        self.best_route_and_tell(target, size, &mut |_| {})
    }

    /// The same; while relays are looked for, those that answer are told to `early`: a client that begins its handshake with
    /// a relay then has it open when the destination has answered, which is half a round trip later for a relay half-way.
    pub fn best_route_and_tell(
        &self,
        target: SocketAddr,
        size: Option<Bytes>,
        early: &mut dyn FnMut(&Found),
    ) -> Choice {
        self.route(target, size, true, early)
    }

    /// The same; where nobody `waits` until relays were looked for, that is done meanwhile if [`Refreshing`] runs.
    fn route(
        &self,
        target: SocketAddr,
        size: Option<Bytes>,
        waits: bool,
        early: &mut dyn FnMut(&Found),
    ) -> Choice {
        let direct = |why: &str| Choice { hops: Vec::new(), why: why.into(), age: None, ranking: None };
        if self.config.selection.policy == Policy::Never {
            return direct("relays are never to be used: go direct");
        }
        let now = self.now();
        let (cached, silent) = {
            let mut state = self.state();
            (state.table.look_up(now, target), state.table.is_silent(now, target))
        };
        self.changed.notify_all(); // there may be something new to keep fresh
        let (view, age) = match (cached, size) {
            (Some(cached), _) => (cached.view, cached.age),
            (None, _) if silent => return direct("nobody answered when the way was last probed: go direct"),
            (None, None) => return direct("the way is not known yet: go direct this time"),
            (None, Some(_)) if !waits => {
                return direct("relays did not pay before: go direct while they are looked for");
            }
            (None, Some(size))
                if !is_worth_probing(size, &self.config.facts, self.config.selection.policy) =>
            {
                return direct("too short a transfer to look for relays first: go direct");
            }
            (None, Some(size)) => match self.look_for(target, size, early) {
                Ok(survey) => (survey.view(), Duration::ZERO),
                Err(error) => return direct(&format!("no probe can be sent ({error}): go direct")),
            },
        };
        let transfer = Transfer::new(size.filter(|size| size.0 > 0).unwrap_or(UNKNOWN_SIZE));
        match Ranking::new(&view, &self.config.facts, &transfer, self.config.selection) {
            Ok(ranking) => Choice {
                hops: ranking.chosen().iter().map(|found| found.offer.session).collect(),
                why: ranking.why().to_owned(),
                age: Some(age),
                ranking: Some(ranking),
            },
            Err(error) => direct(&format!("{error}: go direct")),
        }
    }

    /// Probes what is due, or waits a little for something to be.
    fn refresh(&self) {
        const AT_MOST: Duration = Duration::from_secs(1);
        let now = self.now();
        let mut state = self.state();
        if let Some(target) = state.table.poll_refresh(now) {
            drop(state);
            // What goes wrong now may go right next time; the table keeps what it has.
            let _ = self.look(target);
            return;
        }
        let wait = state.table.poll_timeout().map_or(AT_MOST, |at| at.saturating_since(now).min(AT_MOST));
        if !wait.is_zero() {
            drop(self.changed.wait_timeout(state, wait));
        }
    }
}

/// Keeps the table of a [`Finder`] fresh on a thread of its own, until it is dropped.
#[derive(Debug)]
pub struct Refreshing {
    finder: Arc<Finder>,
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Refreshing {
    /// Begins.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn start(finder: &Arc<Finder>) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (theirs, stopped) = (Arc::clone(finder), Arc::clone(&stop));
        let thread = thread::Builder::new().name("refreshing".into()).spawn(move || {
            while !stopped.load(Ordering::Acquire) {
                theirs.refresh();
            }
        })?;
        Ok(Refreshing { finder: Arc::clone(finder), stop, thread: Some(thread) })
    }
}

impl Drop for Refreshing {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.finder.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What a node told of its load so long ago. One that does not tell what it can forward is as strong as its service time is short.
fn load_of(offer: &Offer, age: Duration) -> Load {
    match offer.capacity {
        Some(Capacity { rate, active }) => Load::of_rate(rate, f64::from(active), age),
        None => Load {
            strength: 1.0 / offer.service_time.max(Duration::from_nanos(100)).as_secs_f64(),
            rate: None,
            sessions: f64::from(offer.sessions),
            age,
        },
    }
}

impl Finder {
    /// How nodes are now, by where they accept sessions: each is asked once. `None` for one that does not answer within twice the round trip
    /// that is given for it, and [`ASKED_WITHIN`].
    pub(crate) fn loads(&self, nodes: &[(SocketAddr, Duration)]) -> Vec<Option<Load>> {
        let (listed, _) = self.listed();
        let responder = |session: SocketAddr| {
            let beside = listed.iter().copied().find(|listed| listed.ip() == session.ip());
            beside.unwrap_or(SocketAddr::new(session.ip(), self.config.port))
        };
        let relays = nodes.iter().map(|(session, _)| responder(*session)).collect();
        let farthest = nodes.iter().map(|(_, round_trip)| *round_trip).max().unwrap_or_default();
        let cookie = self.state().cookie;
        let question = Question { destination: None, relays, target: None, cookie };
        let retry = Retry { timeout: 2 * farthest + ASKED_WITHIN, tries: 1 };
        let Ok(findings) = probe(&self.keys(), question, retry) else { return vec![None; nodes.len()] };
        if findings.cookie.is_some() {
            self.state().cookie = findings.cookie;
        }
        let told = |session: &SocketAddr| {
            let found = findings.relays.iter().find(|found| found.offer.session == *session)?;
            Some(load_of(&found.offer, Duration::ZERO))
        };
        nodes.iter().map(|(session, _)| told(session)).collect()
    }

    /// The ways to `host:port` that may be taken by a session that is expected to carry so much, from what is known already; where that
    /// can pay, and the session `waits` for that, relays are looked for first.
    pub(crate) fn candidates(&self, destination: &str, size: Option<Bytes>, waits: bool) -> Vec<Candidate> {
        let direct = Candidate::by(Vec::new());
        let target = destination.to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
        let Some(target) = target else { return vec![direct] };
        let choice = self.route(target, size, waits, &mut |_| {});
        let Some(ranking) = &choice.ranking else { return vec![direct] };
        let age = choice.age.unwrap_or_default();
        let mut ways = vec![Candidate { legs: vec![ranking.rtt], ..direct }];
        ways.extend(ranking.relays.iter().map(|relay| {
            let offer = &relay.found.offer;
            Candidate {
                hops: vec![offer.session.into()],
                legs: vec![relay.near, relay.far],
                load: Some(load_of(offer, age)),
            }
        }));
        if choice.hops.len() > 1 {
            ways.push(Candidate::by(choice.hops.iter().copied().map(Endpoint::from).collect()));
        }
        ways
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::{AnsweringConfig, AnsweringSockets, Identity, Key, Load as Told, ResponderConfig};
    use shorthaul_types::BitRate;

    #[test]
    fn nodes_tell_how_they_are_when_they_are_asked_and_who_is_gone_does_not() {
        let keys = Keyring::single(Key::new([7; 32]));
        let answering = |address: &str, active: u32| {
            let address: SocketAddr = address.parse().unwrap();
            let relay = Identity::relay(SocketAddr::new(address.ip(), 7001), "n");
            let responder = ResponderConfig::new(keys.clone(), Some(relay));
            let config = AnsweringConfig { listen: address, ..AnsweringConfig::new(responder, false) };
            let capacity = Some(Capacity { rate: BitRate::from_bits_per_sec(90_000_000), active });
            let load =
                Told { service_time: Duration::ZERO, buffer: 1, sessions: 9, capacity, overloaded: false };
            AnsweringSockets::bind(config).unwrap().answer(move || load).unwrap()
        };
        let first = answering("127.0.0.1:0", 2);
        let port = first.address().port();
        let second = answering(&format!("127.0.0.2:{port}"), 5);
        let finder = Finder::new(FinderConfig { port, ..FinderConfig::new(keys.clone()) }).unwrap();
        let ask = |hosts: &[&str]| {
            // As long as a machine that is busy may take.
            let node = |host: &&str| (format!("{host}:7001").parse().unwrap(), Duration::from_secs(5));
            let loads = finder.loads(&hosts.iter().map(node).collect::<Vec<_>>());
            loads.iter().map(|load| load.map(|load| (load.strength, load.sessions))).collect::<Vec<_>>()
        };
        assert_eq!(ask(&["127.0.0.1", "127.0.0.2"]), [Some((9e7, 2.0)), Some((9e7, 5.0))]);
        drop(second);
        let finder = Finder::new(FinderConfig { port, ..FinderConfig::new(keys.clone()) }).unwrap();
        let short = Duration::from_millis(200);
        let loads = finder.loads(
            &[([127, 0, 0, 1], 7001).into(), ([127, 0, 0, 2], 7001).into()]
                .map(|node: SocketAddr| (node, short)),
        );
        assert!(loads[0].is_some() && loads[1].is_none(), "{loads:?}");
    }
}
