//! What the two ends of a flow do, and what they have seen.
use crate::pattern::{Pattern, Stream};
use shorthaul_scenario::Workload;
use shorthaul_tcp::{ConnectionConfig, SenderStats};
use shorthaul_types::{Seed, Time};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// How much of a rate's data an on/off source writes at once, in bytes.
const PULSE: u64 = 1000;

/// One end of a flow, at one host: the same for all connections of the flow.
#[derive(Debug)]
pub(crate) struct FlowEnd {
    /// The flow's number, from which its port follows.
    pub flow: u32,
    /// It gives the data; otherwise it takes.
    pub gives: bool,
    /// It opens the connections, to there; otherwise it listens.
    pub opens: Option<SocketAddr>,
    pub config: Arc<ConnectionConfig>,
    pub pattern: Arc<Pattern>,
    pub workload: Workload,
    pub start: Time,
    /// How long each connection's relays take to be triggered one after the other, before it is opened.
    pub triggering: Duration,
    /// What is delivered before this does not count as measured.
    pub warm_up: Time,
    pub seed: Seed,
    pub report: EndReport,
}

/// What one end of a flow has seen.
#[derive(Clone, Debug, Default)]
pub struct EndReport {
    /// The connections, in order.
    pub connections: Vec<Opening>,
    /// What it has taken whole, in order.
    pub transfers: Vec<Transfer>,
    /// Payload that reached the application.
    pub delivered: u64,
    /// The part of it after the warm-up.
    pub measured: u64,
    /// When the first payload came.
    pub first_delivery: Option<Time>,
    /// When the latest payload came.
    pub last_delivery: Option<Time>,
    /// Of the connections that have ended.
    pub sent: SenderStats,
    /// Data that was not what was sent.
    pub corrupt: Option<String>,
    /// How connections ended that ended otherwise than they should.
    pub failures: Vec<String>,
    /// Nothing more is to come.
    pub done: bool,
}

/// How a connection came about, as one end has seen it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// When it was asked for, or accepted.
    pub begun: Time,
    /// When it was established at this end, if it was.
    pub established: Option<Time>,
}

/// A file, a response or a whole stream, as who takes it has seen it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// When it was asked for, or its connection.
    pub started: Time,
    /// When its last byte was read.
    pub ended: Time,
}

/// One connection of a flow's end.
#[derive(Debug)]
pub(crate) struct Session {
    /// Which of the host's flow ends.
    pub end: usize,
    /// Which of the end's connections.
    pub number: usize,
    /// When the transfer that is going on was begun.
    pub began: Time,
    /// The stream's offset up to which was written, and read.
    pub written: u64,
    pub read: u64,
    /// What is still to be written now.
    pub budget: u64,
    /// Close when the budget is used up.
    pub finishing: bool,
    pub closed: bool,
    /// Requests answered, responses taken, bursts written, or phases passed.
    pub rounds: u32,
    /// While an on/off source is on: until when.
    pub on_until: Time,
}

/// What an application wants to be woken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wake {
    /// Open the flow's next connection.
    Open,
    /// Write no more.
    Stop,
    /// Write the next piece: of an on/off source, or a burst, or a request.
    Next,
}

impl FlowEnd {
    pub fn session(&mut self, end: usize, now: Time, established: bool) -> Session {
        self.report.connections.push(Opening { begun: now, established: established.then_some(now) });
        Session {
            end,
            number: self.report.connections.len() - 1,
            began: now,
            written: 0,
            read: 0,
            budget: 0,
            finishing: false,
            closed: false,
            rounds: 0,
            on_until: Time::ZERO,
        }
    }

    /// The stream that this end writes.
    pub fn outgoing(&self) -> Stream {
        if self.gives { Stream::of_data(self.flow) } else { Stream::of_requests(self.flow) }
    }

    /// The stream that this end reads.
    pub fn incoming(&self) -> Stream {
        if self.gives { Stream::of_requests(self.flow) } else { Stream::of_data(self.flow) }
    }

    /// The connection is established: what to write, and when to wake up for more.
    pub fn on_connected(&mut self, session: &mut Session, now: Time) -> Option<(Time, Wake)> {
        self.report.connections[session.number].established = Some(now);
        match (&self.workload, self.gives) {
            (Workload::Bulk(size), true) => {
                session.budget = size.0;
                session.finishing = true;
                None
            }
            (Workload::Unlimited(time), true) => {
                session.budget = u64::MAX;
                Some((self.start + *time, Wake::Stop))
            }
            (Workload::OnOff { .. } | Workload::Persistent { .. }, true) => self.on_next(session, now),
            (Workload::Downloads { request, .. } | Workload::Requests { request, .. }, false) => {
                session.budget = request.0;
                None
            }
            _ => None,
        }
    }

    /// It is time for the next piece.
    pub fn on_next(&mut self, session: &mut Session, now: Time) -> Option<(Time, Wake)> {
        match &self.workload {
            Workload::OnOff { rate, on, off, lasts } => {
                if now >= self.start + *lasts {
                    session.finishing = true;
                    return None;
                }
                if now >= session.on_until {
                    let phase = u64::from(session.rounds);
                    session.on_until = now + on.draw(self.seed.derive("on"), phase);
                }
                session.budget += PULSE;
                let next = now + rate.time_to_send(shorthaul_types::Bytes(PULSE));
                if next < session.on_until {
                    return Some((next, Wake::Next));
                }
                let pause = off.draw(self.seed.derive("off"), u64::from(session.rounds));
                session.rounds += 1;
                Some((session.on_until + pause, Wake::Next))
            }
            Workload::Persistent { burst, count, .. } => {
                session.budget += burst.0;
                session.rounds += 1;
                session.finishing = session.rounds == *count;
                None
            }
            Workload::Requests { request, .. } => {
                session.budget += request.0;
                session.began = now;
                None
            }
            _ => None,
        }
    }

    /// Everything that was to be written was written: when to go on.
    pub fn on_written(&mut self, session: &Session, now: Time) -> Option<(Time, Wake)> {
        match &self.workload {
            Workload::Persistent { idle, .. } if self.gives && !session.finishing => {
                Some((now + idle.draw(self.seed.derive("idle"), u64::from(session.rounds)), Wake::Next))
            }
            _ => None,
        }
    }

    /// `bytes` more were read.
    pub fn on_read(&mut self, session: &mut Session, now: Time, bytes: u64) -> Option<(Time, Wake)> {
        session.read += bytes;
        if !self.gives {
            self.report.delivered += bytes;
            if now >= self.warm_up {
                self.report.measured += bytes;
            }
            self.report.first_delivery.get_or_insert(now);
            self.report.last_delivery = Some(now);
        }
        match (&self.workload, self.gives) {
            (Workload::Downloads { size, request, .. }, true) if session.read >= request.0 => {
                if session.rounds == 0 {
                    session.rounds = 1;
                    session.budget = size.0;
                    session.finishing = true;
                }
                None
            }
            (Workload::Requests { request, response, .. }, true) => {
                while session.read >= u64::from(session.rounds + 1) * request.0 {
                    session.rounds += 1;
                    session.budget += response.0;
                }
                None
            }
            (Workload::Requests { response, count, pause, .. }, false) => {
                if session.read < u64::from(session.rounds + 1) * response.0 {
                    return None;
                }
                session.rounds += 1;
                self.report.transfers.push(Transfer { started: session.began, ended: now });
                if session.rounds < *count {
                    let pause = pause.draw(self.seed.derive("pause"), u64::from(session.rounds));
                    return Some((now + pause, Wake::Next));
                }
                session.finishing = true;
                None
            }
            _ => None,
        }
    }

    /// The other side has closed, and everything was read: whether and when the next connection follows.
    pub fn on_peer_closed(&mut self, session: &mut Session, now: Time) -> Option<(Time, Wake)> {
        // a sender that waits for requests has nothing more to wait for
        session.finishing = true;
        if self.gives {
            return None;
        }
        match &self.workload {
            Workload::Requests { .. } => {}
            _ => {
                let started = session.began;
                self.report.transfers.push(Transfer { started, ended: now });
            }
        }
        if let Workload::Downloads { repeats, pause, .. } = &self.workload
            && self.report.connections.len() < *repeats as usize
        {
            let number = self.report.connections.len() as u64;
            return Some((now + pause.draw(self.seed.derive("pause"), number), Wake::Open));
        }
        self.report.done = true;
        None
    }

    /// A connection has ended otherwise than it should.
    pub fn on_failed(&mut self, now: Time, why: &str) {
        self.report.failures.push(format!("at {now}: {why}"));
        self.report.done = true;
    }

    /// Adds what a connection that ends has sent.
    pub fn add_sent(&mut self, stats: SenderStats) {
        add(&mut self.report.sent, stats);
    }
}

/// Adds up what senders have done.
pub(crate) fn add(sum: &mut SenderStats, stats: SenderStats) {
    sum.sent += stats.sent;
    sum.retransmitted += stats.retransmitted;
    sum.timeouts += stats.timeouts;
    sum.spurious_timeouts += stats.spurious_timeouts;
    sum.recoveries += stats.recoveries;
    sum.tail_probes += stats.tail_probes;
    sum.probes += stats.probes;
}

/// How long something took, in seconds.
pub(crate) fn seconds(from: Time, to: Time) -> f64 {
    Duration::as_secs_f64(&to.saturating_since(from))
}
