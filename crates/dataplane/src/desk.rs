//! Where a thread that has packets answers questions, between two rounds.
use crate::{BandwidthReport, Driven, Forwarder, LoopStats};
use shorthaul_monitor::State;
use shorthaul_os::poll::Waker;
use shorthaul_proxy::{FlowInfo, Gateway, KnownGains};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};

/// Flows that are looked at in one round: a fraction of a millisecond.
const FLOWS_A_ROUND: usize = 256;

/// What the daemon asks of a machine beyond driving it.
pub trait Controlled: Driven {
    /// Flows that it would harm if it went away: of which it holds bytes that their sender believes delivered, or whose ends do not hear each
    /// other yet.
    fn held_flows(&self) -> usize {
        0
    }

    /// Flows that a predecessor left, of which it is not yet known what became.
    fn inherited_flows(&self) -> usize {
        0
    }

    /// Whether nobody needs what it has had stored.
    fn owes_nothing(&self) -> bool {
        self.held_flows() == 0 && self.inherited_flows() == 0
    }

    /// Flows that it knows, among `most` places from `from` on, and where to go on, if there are more.
    fn flows(&self, from: usize, most: usize) -> (Vec<FlowInfo>, Option<usize>) {
        let _ = (from, most);
        (Vec::new(), None)
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

    fn inherited_flows(&self) -> usize {
        Gateway::inherited_flows(self)
    }

    fn flows(&self, from: usize, most: usize) -> (Vec<FlowInfo>, Option<usize>) {
        self.flows_among(from, most)
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
#[derive(Clone, Copy, Debug)]
pub(crate) enum Topic {
    Flows,
    Counters,
    Gains,
    State,
}

/// A part of an answer.
#[derive(Debug)]
pub(crate) enum Part {
    Flows(Vec<FlowInfo>),
    Counters(Vec<(&'static str, u64)>),
    Gains(KnownGains),
    State(State),
}

/// What the first worker is told.
#[derive(Debug)]
pub(crate) enum Told {
    /// The access side carries another bandwidth.
    Bandwidth(BandwidthReport),
    /// Another process wants to go on in its place, and is to be handed all that takes over this.
    TakeOver(UnixStream),
}

#[derive(Debug)]
enum Question {
    About(Topic, Sender<Part>),
    Told(Told),
}

/// Where a worker looks for questions. Flows are listed a few at a time, with packets in between.
#[derive(Debug)]
pub(crate) struct Desk {
    waker: Arc<Waker>,
    questions: Receiver<Question>,
    /// A listing of flows that is under way, and where it goes on.
    listing: Option<(Sender<Part>, usize)>,
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
    Ok((Bell { ask, waker: Arc::clone(&waker) }, Desk { waker, questions, listing: None }))
}

impl Bell {
    /// The parts of the answer, until there are no more.
    pub fn ask(&self, topic: Topic) -> impl Iterator<Item = Part> + use<> {
        let (answer, parts) = mpsc::channel();
        let _ = self.ask.send(Question::About(topic, answer));
        self.waker.wake();
        parts.into_iter()
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

    /// Says what was asked, a little at a time, and returns what was told instead.
    pub fn answer(&mut self, machine: &impl Controlled, stats: LoopStats) -> Option<Told> {
        self.waker.clear();
        if let Some((answer, from)) = self.listing.take() {
            let (flows, next) = machine.flows(from, FLOWS_A_ROUND);
            // Whoever asked may be gone.
            if answer.send(Part::Flows(flows)).is_ok()
                && let Some(next) = next
            {
                self.listing = Some((answer, next));
            }
            self.waker.wake();
            return None;
        }
        let question = self.questions.try_recv().ok()?;
        self.waker.wake(); // there may be another
        let (topic, answer) = match question {
            Question::About(topic, answer) => (topic, answer),
            Question::Told(told) => return Some(told),
        };
        let part = match topic {
            Topic::Flows => {
                self.listing = Some((answer, 0));
                return None;
            }
            Topic::Counters => Part::Counters(machine.counters().into_iter().chain(stats.named()).collect()),
            Topic::Gains => Part::Gains(machine.gains()),
            Topic::State => Part::State(machine.state()),
        };
        let _ = answer.send(part);
        None
    }
}

impl AsFd for Desk {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }
}
