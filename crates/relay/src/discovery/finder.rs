use std::collections::{BTreeSet, HashMap};
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
use super::look::{Look, Waited};
use super::message::{Capacity, Offer, PORT};
use super::prober::{By, Found, Handshake, Prober, Question, Retry};
use super::probing::{probe, probe_and_tell};
use super::ranking::{Facts, Ranking, Selection, View};
use super::survey::Survey;
use super::table::{Table, TableConfig};
use super::waiting::{ASSUMED_DISTANCE, is_worth_probing, waits_after, worth_waiting};
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
    /// When a handshake measures how far a destination is of which it is not known whether it has a responder.
    pub unknown: Handshake,
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
            unknown: Handshake::AtOnce,
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
    /// Targets that somebody looks at.
    looks: HashMap<SocketAddr, Arc<Look>>,
    cookie: Option<[u8; MAC_LEN]>,
    /// Directories of which it was told that they are of no use.
    useless: BTreeSet<String>,
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
        let state = State {
            keys: config.keys.clone(),
            table,
            looks: HashMap::new(),
            useless: BTreeSet::new(),
            cookie: None,
            listed: None,
            draws,
        };
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
    /// use now is left out, and told of in the second part: once, until it is of use again.
    pub fn listed(&self) -> (Vec<SocketAddr>, Vec<DirectoryError>) {
        if let Some((listed, again_at)) = &mut self.state().listed {
            if Instant::now() < *again_at {
                return (listed.clone(), Vec::new());
            }
            // One asks, and the others have the old list meanwhile.
            *again_at = Instant::now() + DIRECTORY_REST;
        }
        let (mut listed, mut errors, mut useful) = (Vec::new(), Vec::new(), Vec::new());
        for directory in &self.config.directories {
            match directory.relays() {
                Ok(relays) => {
                    listed.extend(relays.iter().map(|relay| relay.probe));
                    useful.push(directory.name());
                }
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
        state.useless.retain(|name| !useful.contains(name));
        errors.retain(|error| state.useless.insert(error.directory.clone()));
        drop(state);
        (listed, errors)
    }

    /// The same, for those who have nobody else to tell of directories that are of no use.
    fn listed_and_logged(&self) -> Vec<SocketAddr> {
        let (listed, errors) = self.listed();
        errors.iter().for_each(|error| tracing::warn!("{error}"));
        listed
    }

    /// Asks the directories on a thread of its own, for which nobody waits, unless somebody has: whoever has named one of a service that runs for long hears at
    /// once that it is of no use.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn ask_directories(self: &Arc<Self>) -> io::Result<()> {
        let finder = Arc::clone(self);
        let ask = move || {
            if finder.state().listed.is_none() {
                finder.listed_and_logged();
            }
        };
        thread::Builder::new().name("directories".into()).spawn(ask).map(drop)
    }

    /// Those of the listed responders that are asked about a target in one round.
    fn to_ask(&self, target: SocketAddr) -> Vec<SocketAddr> {
        let listed = self.listed_and_logged();
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

    /// One round of probing toward a target, added to `survey`. Its distance is what its responder says, or a handshake where that is sooner: both are
    /// asked at once ([`FinderConfig::unknown`]), unless it is known which will answer.
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
        early: &mut dyn FnMut(&Prober),
    ) -> io::Result<()> {
        let relays = self.to_ask(target);
        let (cookie, responder) = {
            let state = self.state();
            (state.cookie, state.table.has_responder(self.now(), target))
        };
        if responder == Some(false) && relays.is_empty() {
            // Nobody is there who could say anything of relays.
            survey.rounds += 1;
            return Ok(());
        }
        let handshake = match responder {
            Some(true) => Handshake::IfSilent,
            Some(false) => Handshake::AtOnce,
            None => self.config.unknown,
        };
        let responder_of = SocketAddr::new(target.ip(), self.config.port);
        let destination = (responder != Some(false)).then_some(responder_of);
        let question = Question { destination, relays, target: Some(target), handshake, cookie };
        let findings = probe_and_tell(&self.keys(), question, self.config.retry, early)?;
        let mut state = self.state();
        if findings.cookie.is_some() {
            state.cookie = findings.cookie;
        }
        if let (Some(by), Some(_)) = (findings.by, destination) {
            let now = self.now();
            state.table.learn_responder(now, target, by == By::Responder);
        }
        drop(state);
        survey.add(&findings);
        Ok(())
    }

    /// Looks at the way to a target once, and keeps what is seen. If somebody does already, that is waited for.
    ///
    /// # Errors
    /// There is no socket to be had.
    pub fn look(&self, target: SocketAddr) -> io::Result<Survey> {
        let (look, begins) = self.state().begin(self.now(), target);
        if begins {
            self.carry_out(target, &look);
        }
        match look.wait(|_| Duration::MAX, &mut |_| {}) {
            Waited::Whole(found) => found,
            // Whoever is so patient has all of it.
            Waited::Part(survey) => Ok(survey),
            Waited::Nothing => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// What a look consists of.
    fn carry_out(&self, target: SocketAddr, look: &Arc<Look>) {
        let mut ending = Ending { finder: self, target, look, found: None };
        let mut survey = Survey::default();
        let looked = self.round_and_tell(target, &mut survey, &mut |prober| look.tell(prober));
        if looked.is_ok() {
            self.keep(target, &survey);
        }
        ending.found = Some(looked.map(|()| survey));
    }

    /// Waits for a look as long as it pays for a transfer of this size, and no longer than `patience`; whoever has begun it and has waited for all of it looks again if that takes hardly any time
    /// beside the transfer, since one round trip that was held up by a queue or a busy machine puts a relay in the wrong place.
    fn wait_for(
        &self,
        target: SocketAddr,
        (look, begins): (&Look, bool),
        size: Bytes,
        patience: Duration,
        early: &mut dyn FnMut(&Found),
    ) -> Option<io::Result<Survey>> {
        let began = Instant::now();
        let (facts, selection) = (&self.config.facts, self.config.selection);
        let waits = |distance: Option<(Duration, Duration)>| {
            let (whole, known) = distance.unzip();
            let worth = worth_waiting(size, whole.unwrap_or(ASSUMED_DISTANCE), facts, selection.policy);
            let pays = match whole.zip(known) {
                Some((whole, known)) => waits_after(worth, whole, known),
                None => worth,
            };
            pays.min(patience)
        };
        let mut survey = match look.wait(waits, early) {
            Waited::Whole(Ok(survey)) => survey,
            Waited::Whole(Err(error)) => return Some(Err(error)),
            Waited::Part(survey) => return Some(Ok(survey)),
            Waited::Nothing => return None,
        };
        let transfer = Transfer::new(Bytes(size.0.max(1)));
        while begins && survey.rounds < ROUNDS_MAX {
            let Ok(ranking) = Ranking::new(&survey.view(), facts, &transfer, selection) else { break };
            let time = ranking.expected().time.expected / SHARE_OF_TIME;
            if ranking.relays.is_empty() || began.elapsed() + ranking.rtt > time {
                break;
            }
            if let Err(error) = self.round(target, &mut survey) {
                return Some(Err(error));
            }
            self.keep(target, &survey);
        }
        Some(Ok(survey))
    }

    /// Keeps a survey in the table.
    pub fn keep(&self, target: SocketAddr, survey: &Survey) {
        let now = self.now();
        self.state().table.store(now, target, survey.view());
        self.changed.notify_all();
    }

    /// The best way for a transfer of `size` to `target`; without a size, of a large one.
    ///
    /// What is in the table decides at once. What is not is looked for first if that can pay, and no longer than that ([`worth_waiting`]); otherwise the way is
    /// direct, and what was begun goes on for the next. For a transfer of unknown size, which may be the first of many, the table is filled meanwhile if
    /// [`Refreshing`] runs.
    pub fn best_route(self: &Arc<Self>, target: SocketAddr, size: Option<Bytes>) -> Choice {
        self.best_route_and_tell(target, size, &mut |_| {})
    }

    /// The same; while relays are looked for, those that answer are told to `early`: a client that begins its handshake with
    /// a relay then has it open when the destination has answered, which is half a round trip later for a relay half-way.
    pub fn best_route_and_tell(
        self: &Arc<Self>,
        target: SocketAddr,
        size: Option<Bytes>,
        early: &mut dyn FnMut(&Found),
    ) -> Choice {
        self.route(target, size, Duration::MAX, early)
    }

    /// The same; nobody waits longer than `patience` until relays were looked for. Without any, that is done meanwhile if [`Refreshing`] runs.
    fn route(
        self: &Arc<Self>,
        target: SocketAddr,
        size: Option<Bytes>,
        patience: Duration,
        early: &mut dyn FnMut(&Found),
    ) -> Choice {
        let direct = |why: &str| Choice { hops: Vec::new(), why: why.into(), age: None, ranking: None };
        if self.config.selection.policy == Policy::Never {
            return direct("relays are never to be used: go direct");
        }
        let now = self.now();
        let mut state = self.state();
        let (cached, silent) = (state.table.look_up(now, target), state.table.is_silent(now, target));
        let policy = self.config.selection.policy;
        let (view, age) = match (cached, size) {
            (Some(cached), _) => {
                drop(state);
                self.changed.notify_all(); // there may be something new to keep fresh
                (cached.view, cached.age)
            }
            (None, Some(size))
                if !silent && !patience.is_zero() && is_worth_probing(size, &self.config.facts, policy) =>
            {
                // Before the table can say that it is due: one look is enough.
                let (look, begins) = state.begin(now, target);
                drop(state);
                if begins && let Err(error) = self.look_apart(target, &look) {
                    return direct(&format!("nobody can look for relays ({error}): go direct"));
                }
                match self.wait_for(target, (&look, begins), size, patience, early) {
                    Some(Ok(survey)) => (survey.view(), Duration::ZERO),
                    Some(Err(error)) => return direct(&format!("no probe can be sent ({error}): go direct")),
                    None => {
                        return direct(
                            "looking for relays takes longer than they could save: go direct, and look on",
                        );
                    }
                }
            }
            (None, size) => {
                drop(state);
                self.changed.notify_all();
                return direct(match size {
                    _ if silent => "nobody answered when the way was last probed: go direct",
                    None => "the way is not known yet: go direct this time",
                    Some(_) if patience.is_zero() => {
                        "relays did not pay before: go direct while they are looked for"
                    }
                    Some(_) => "too short a transfer to look for relays first: go direct",
                });
            }
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

    /// Carries out a look on a thread of its own, in the network namespace of the calling one: it goes on where nobody waits for it any more.
    fn look_apart(self: &Arc<Self>, target: SocketAddr, look: &Arc<Look>) -> io::Result<()> {
        let (finder, theirs) = (Arc::clone(self), Arc::clone(look));
        let looks = move || finder.carry_out(target, &theirs);
        let begun = thread::Builder::new().name("looking".into()).spawn(looks);
        if let Err(error) = &begun {
            self.state().looks.remove(&target);
            look.end(Err(io::Error::new(error.kind(), error.to_string())));
        }
        begun.map(drop)
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

impl State {
    /// The look at a target that goes on, or a new one, which whoever is told so carries out.
    fn begin(&mut self, now: Time, target: SocketAddr) -> (Arc<Look>, bool) {
        if let Some(look) = self.looks.get(&target) {
            return (Arc::clone(look), false);
        }
        self.table.begins(now, target);
        let look = Arc::new(Look::default());
        self.looks.insert(target, Arc::clone(&look));
        (look, true)
    }
}

/// Ends a look for all who wait, also where it panics.
struct Ending<'a> {
    finder: &'a Finder,
    target: SocketAddr,
    look: &'a Look,
    found: Option<io::Result<Survey>>,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        // Who comes now finds the table filled, and who has waited may look again.
        self.finder.state().looks.remove(&self.target);
        let found = self.found.take();
        self.look.end(found.unwrap_or_else(|| Err(io::Error::other("the look was given up"))));
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

/// Service times that are shorter are alike.
const SHORT: Duration = Duration::from_millis(1);

/// What a node told of its load so long ago. One that does not tell what it can forward is as strong as its service time is short.
fn load_of(offer: &Offer, age: Duration) -> Load {
    match offer.capacity {
        Some(Capacity { rate, active }) => Load::of_rate(rate, f64::from(active), age),
        None => Load {
            strength: 1.0 / offer.service_time.max(SHORT).as_secs_f64(),
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
        // However old that is: a session waits, and no directory is asked for the port of a responder.
        let listed = self.state().listed.as_ref().map(|(listed, _)| listed.clone()).unwrap_or_default();
        let responder = |session: SocketAddr| {
            let beside = listed.iter().copied().find(|listed| listed.ip() == session.ip());
            beside.unwrap_or(SocketAddr::new(session.ip(), self.config.port))
        };
        let relays = nodes.iter().map(|(session, _)| responder(*session)).collect();
        let farthest = nodes.iter().map(|(_, round_trip)| *round_trip).max().unwrap_or_default();
        let cookie = self.state().cookie;
        let question =
            Question { destination: None, relays, target: None, handshake: Handshake::Never, cookie };
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
    /// can pay, and within the session's `patience`, relays are looked for first.
    pub(crate) fn candidates(
        self: &Arc<Self>,
        destination: &str,
        size: Option<Bytes>,
        patience: Duration,
    ) -> Vec<Candidate> {
        let direct = Candidate::by(Vec::new());
        let target = destination.to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
        let Some(target) = target else { return vec![direct] };
        let choice = self.route(target, size, patience, &mut |_| {});
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
mod tests;
