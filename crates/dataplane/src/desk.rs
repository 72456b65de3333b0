//! Where a thread that has packets answers questions, between two rounds.
use crate::{BandwidthReport, Driven, Forwarder, LoopStats};
use shorthaul_monitor::State;
use shorthaul_os::poll::Waker;
use shorthaul_proxy::{Brief, FlowInfo, Gateway, KnownGains};
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};

/// Flows that are looked at in one round: less than a millisecond, where they are put away and have to be unpacked.
const FLOWS_A_ROUND: usize = 64;
/// The same where nothing is said of those that say nothing.
const IN_BRIEF_A_ROUND: usize = 1_024;
/// Parts of an answer that wait for whoever asked; there are no more until they are taken. In brief they are larger.
pub(crate) const PARTS: usize = 32;
const PARTS_IN_BRIEF: usize = 8;

/// What the daemon asks of a machine beyond driving it.
pub trait Controlled: Driven {
    /// Flows that it would harm if it went away: of which it holds bytes that their sender believes delivered, or whose ends do not hear each
    /// other yet.
    fn held_flows(&self) -> usize {
        0
    }

    /// Whether there is one of those: sooner known than how many.
    fn holds_flows(&self) -> bool {
        self.held_flows() > 0
    }

    /// Flows that a predecessor left, of which it is not yet known what became.
    fn inherited_flows(&self) -> usize {
        0
    }

    /// Whether nobody needs what it has had stored.
    fn owes_nothing(&self) -> bool {
        !self.holds_flows() && self.inherited_flows() == 0
    }

    /// Flows that it knows, among `most` places from `from` on, and where to go on, if there are more.
    fn flows(&self, from: usize, most: usize) -> (Vec<FlowInfo>, Option<usize>) {
        let _ = (from, most);
        (Vec::new(), None)
    }

    /// The same for who only wants to know of those that say nothing that they are there.
    fn flows_in_brief(&self, from: usize, most: usize) -> (Brief, Option<usize>) {
        let (flows, next) = self.flows(from, most);
        (Brief { flows, silent: Vec::new() }, next)
    }

    /// Its counters, by name.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// What it gains, by classes of flows.
    fn gains(&self) -> KnownGains {
        KnownGains::default()
    }

    /// What else is shown of it.
    fn state(&self) -> State {
        State::default()
    }
}

impl Controlled for Forwarder {}

impl Controlled for Gateway {
    fn held_flows(&self) -> usize {
        Gateway::held_flows(self)
    }

    fn holds_flows(&self) -> bool {
        Gateway::holds_flows(self)
    }

    fn inherited_flows(&self) -> usize {
        Gateway::inherited_flows(self)
    }

    fn flows(&self, from: usize, most: usize) -> (Vec<FlowInfo>, Option<usize>) {
        self.flows_among(from, most)
    }

    fn flows_in_brief(&self, from: usize, most: usize) -> (Brief, Option<usize>) {
        Gateway::flows_in_brief(self, from, most)
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        Gateway::counters(self).named().collect()
    }

    fn gains(&self) -> KnownGains {
        self.known_gains()
    }

    fn state(&self) -> State {
        State {
            held: self.allocated() as u64,
            memory: self.config().memory.0,
            lateness: self.lateness(),
            flows: self.flows_known() as u64,
            max_flows: self.config().max_flows as u64,
        }
    }
}

/// What a worker is asked.
#[derive(Clone, Debug)]
pub(crate) enum Topic {
    /// Those in these places of the table.
    Flows(Range<usize>),
    /// All, and of those that say nothing that they are there.
    Brief,
    Counters,
    Gains,
    State,
}

/// A part of an answer.
#[derive(Debug)]
pub(crate) enum Part {
    Flows(Vec<FlowInfo>),
    Brief(Brief),
    /// There are more, from there on.
    Next(usize),
    Counters(Vec<(&'static str, u64)>),
    Gains(KnownGains),
    State(State),
}

/// What the first worker is told.
#[derive(Debug)]
pub(crate) enum Told {
    /// The access side carries another bandwidth.
    Bandwidth(BandwidthReport),
    /// Another process wants to go on in its place, and is to be handed all that takes over this. Whether it knows claims.
    TakeOver(UnixStream, bool),
}

#[derive(Debug)]
enum Question {
    About(Topic, SyncSender<Part>),
    Told(Told),
}

/// A listing that is under way: where it goes on, and before which place it ends.
#[derive(Debug)]
struct Walk {
    answer: SyncSender<Part>,
    at: usize,
    end: usize,
    in_brief: bool,
    /// What nobody has taken yet.
    waiting: Option<Part>,
}

/// Of a listing that is over.
const OVER: usize = usize::MAX;

impl Walk {
    /// The next part.
    fn go_on(&mut self, machine: &impl Controlled) -> Part {
        let left = self.end.saturating_sub(self.at);
        if left == 0 {
            return Part::Next(std::mem::replace(&mut self.at, OVER));
        }
        let (part, next) = if self.in_brief {
            let (brief, next) = machine.flows_in_brief(self.at, left.min(IN_BRIEF_A_ROUND));
            (Part::Brief(brief), next)
        } else {
            let (flows, next) = machine.flows(self.at, left.min(FLOWS_A_ROUND));
            (Part::Flows(flows), next)
        };
        self.at = next.unwrap_or(OVER);
        part
    }
}

/// Where a worker looks for questions. Flows are listed a few at a time, with packets in between.
#[derive(Debug)]
pub(crate) struct Desk {
    waker: Arc<Waker>,
    questions: Receiver<Question>,
    /// Listings of flows that are under way.
    listings: VecDeque<Walk>,
}

/// What calls a worker to its desk.
#[derive(Clone, Debug)]
pub(crate) struct Bell {
    ask: SyncSender<Question>,
    waker: Arc<Waker>,
}

/// A desk at which this many questions may wait, and its bell.
pub(crate) fn desk(at_once: usize) -> io::Result<(Bell, Desk)> {
    let waker = Arc::new(Waker::new()?);
    let (ask, questions) = mpsc::sync_channel(at_once);
    Ok((Bell { ask, waker: Arc::clone(&waker) }, Desk { waker, questions, listings: VecDeque::new() }))
}

impl Bell {
    /// The parts of the answer, until there are no more.
    pub fn ask(&self, topic: Topic) -> impl Iterator<Item = Part> + use<> {
        let most = if matches!(topic, Topic::Brief) { PARTS_IN_BRIEF } else { PARTS };
        let (answer, parts) = mpsc::sync_channel(most);
        let _ = self.ask.send(Question::About(topic, answer));
        self.waker.wake();
        let waker = Arc::clone(&self.waker);
        // There is room for another.
        parts.into_iter().inspect(move |_| waker.wake())
    }

    pub fn tell(&self, told: Told) {
        let _ = self.ask.send(Question::Told(told));
        self.waker.wake();
    }
}

impl Desk {
    /// What wakes whoever waits at it.
    pub fn waker(&self) -> Arc<Waker> {
        Arc::clone(&self.waker)
    }

    /// Goes on with a listing, as far as whoever asked takes it.
    fn list(&mut self, machine: &impl Controlled) {
        let Some(mut walk) = self.listings.pop_front() else { return };
        let part = walk.waiting.take().unwrap_or_else(|| walk.go_on(machine));
        match walk.answer.try_send(part) {
            Ok(()) if walk.at == OVER => {}
            Ok(()) => self.listings.push_back(walk),
            Err(TrySendError::Full(part)) => {
                self.listings.push_back(Walk { waiting: Some(part), ..walk });
                // Whoever takes a part says so.
                if self.listings.iter().all(|walk| walk.waiting.is_some()) {
                    return;
                }
            }
            Err(TrySendError::Disconnected(_)) => {} // whoever asked is gone
        }
        self.waker.wake();
    }

    /// Says what was asked, a little at a time, and returns what was told instead.
    pub fn answer(&mut self, machine: &impl Controlled, stats: LoopStats) -> Option<Told> {
        self.waker.clear();
        self.list(machine);
        let question = self.questions.try_recv().ok()?;
        self.waker.wake(); // there may be another
        let (topic, answer) = match question {
            Question::About(topic, answer) => (topic, answer),
            Question::Told(told) => return Some(told),
        };
        let (places, in_brief) = match topic {
            Topic::Flows(places) => (places, false),
            Topic::Brief => (0..usize::MAX, true),
            other => {
                let part = match other {
                    Topic::Gains => Part::Gains(machine.gains()),
                    Topic::State => Part::State(machine.state()),
                    _ => Part::Counters(machine.counters().into_iter().chain(stats.named()).collect()),
                };
                let _ = answer.try_send(part);
                return None;
            }
        };
        let (at, end) = (places.start, places.end);
        self.listings.push_back(Walk { answer, at, end, in_brief, waiting: None });
        None
    }
}

impl AsFd for Desk {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }
}
