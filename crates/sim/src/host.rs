use crate::application::{FlowEnd, Session, Wake, add};
use crate::ping;
use shorthaul_tcp::{Addresses, Connection, ConnectionId, Event, Host, SenderStats};
use shorthaul_types::{BufferTimes, BufferWatch, Deadline, Level, PortId, Time};
use shorthaul_wire::{Machine, Packet, TxBatch};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::net::{IpAddr, SocketAddr};

/// The first port that flows listen on.
pub(crate) const FIRST_PORT: u16 = 1024;

/// The port that flow `flow` is listened to on, at every node that it passes.
pub fn port_of(flow: u32) -> u16 {
    FIRST_PORT + flow as u16
}

/// The number of the flow that a listener with this port is of.
pub(crate) fn flow_of_port(port: u16) -> Option<usize> {
    port.checked_sub(FIRST_PORT).map(usize::from)
}

/// A host with applications: the endpoint of `shorthaul-tcp`, and the ends of the flows.
pub(crate) struct AppHost {
    host: Host,
    address: IpAddr,
    pub ends: Vec<FlowEnd>,
    /// The ends that listen, by port.
    listeners: BTreeMap<u16, usize>,
    sessions: BTreeMap<ConnectionId, Session>,
    wakes: BinaryHeap<Reverse<(Time, u64, Wake, Sleeper)>>,
    /// Of each end, how long a closed window kept it from sending; nothing, unless that is watched.
    blocked: Vec<BufferWatch>,
    /// Numbers the wake-ups, so that those of one time keep their order.
    serial: u64,
    /// Answers to timestamp requests that have not left yet.
    answers: Vec<Packet>,
}

/// Who wants to be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Sleeper {
    End(usize),
    Session(ConnectionId),
}

impl AppHost {
    pub fn new(mut host: Host, address: IpAddr, ends: Vec<FlowEnd>) -> Self {
        let mut listeners = BTreeMap::new();
        let mut wakes = BinaryHeap::new();
        for (index, end) in ends.iter().enumerate() {
            match end.opens {
                Some(_) => {
                    let sleeper = Sleeper::End(index);
                    let at = end.start + end.triggering;
                    wakes.push(Reverse((at, index as u64, Wake::Open, sleeper)));
                }
                None => {
                    host.listen(port_of(end.flow), end.config.clone());
                    listeners.insert(port_of(end.flow), index);
                }
            }
        }
        let serial = ends.len() as u64;
        AppHost {
            host,
            address,
            ends,
            listeners,
            sessions: BTreeMap::new(),
            wakes,
            serial,
            blocked: Vec::new(),
            answers: Vec::new(),
        }
    }

    /// The same, with an eye on how long windows keep its ends from sending.
    pub fn watching(mut self, watches: bool) -> Self {
        if watches {
            self.blocked = vec![BufferWatch::default(); self.ends.len()];
        }
        self
    }

    /// How long its ends were kept from sending so far, by flow.
    pub fn buffer_times(&self, now: Time) -> impl Iterator<Item = (u32, BufferTimes)> {
        self.ends.iter().zip(&self.blocked).map(move |(end, watch)| (end.flow, watch.times(now)))
    }

    /// Notes which ends are kept from sending now.
    fn look(&mut self, now: Time) {
        if self.blocked.is_empty() {
            return;
        }
        for (id, session) in &self.sessions {
            let Some(connection) = self.host.connection(*id) else { continue };
            if self.ends[session.end].gives {
                let level = if connection.sender().is_held_back() { Level::Full } else { Level::Between };
                self.blocked[session.end].begin(now);
                self.blocked[session.end].set(now, level);
            }
        }
    }

    /// Whether every flow that ends here has ended.
    pub fn is_done(&self) -> bool {
        self.ends.iter().all(|end| end.gives || end.report.done)
    }

    /// The connections that send data of flows, with the flow's number.
    pub fn senders(&self) -> impl Iterator<Item = (u32, &Connection)> {
        self.sessions.iter().filter_map(|(id, session)| {
            let end = &self.ends[session.end];
            Some((end.flow, self.host.connection(*id).filter(|_| end.gives)?))
        })
    }

    /// What all senders of this host have done, those that live included.
    pub fn sent(&self) -> SenderStats {
        let mut sum = SenderStats::default();
        self.ends.iter().for_each(|end| add(&mut sum, end.report.sent));
        for id in self.sessions.keys() {
            if let Some(connection) = self.host.connection(*id) {
                add(&mut sum, connection.sender().stats());
            }
        }
        sum
    }

    fn wake_at(&mut self, wake: Option<(Time, Wake)>, sleeper: Sleeper) {
        if let Some((mut at, wake)) = wake {
            let sleeper = if wake == Wake::Open { self.end_of(sleeper) } else { sleeper };
            if let Sleeper::End(index) = sleeper {
                at += self.ends[index].triggering;
            }
            self.wakes.push(Reverse((at, self.serial, wake, sleeper)));
            self.serial += 1;
        }
    }

    fn end_of(&self, sleeper: Sleeper) -> Sleeper {
        match sleeper {
            Sleeper::Session(id) => self.sessions.get(&id).map_or(sleeper, |s| Sleeper::End(s.end)),
            end => end,
        }
    }

    fn open(&mut self, now: Time, index: usize) {
        let end = &mut self.ends[index];
        let Some(remote) = end.opens else { return };
        let local = SocketAddr::new(self.address, 0);
        match self.host.connect(now, Addresses { local, remote }, end.config.clone()) {
            Ok(id) => {
                // It was asked for when the first of its relays was triggered.
                let begun = Time::ZERO + now.saturating_since(Time::ZERO + end.triggering);
                let session = end.session(index, begun, false);
                self.sessions.insert(id, session);
            }
            Err(error) => end.on_failed(now, &error.to_string()),
        }
    }

    fn woken(&mut self, now: Time, wake: Wake, sleeper: Sleeper) {
        let id = match sleeper {
            Sleeper::End(index) => return self.open(now, index),
            Sleeper::Session(id) => id,
        };
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let end = &mut self.ends[session.end];
        let next = match wake {
            Wake::Stop => {
                session.budget = 0;
                session.finishing = true;
                None
            }
            Wake::Next => end.on_next(session, now),
            Wake::Open => None,
        };
        self.wake_at(next, sleeper);
        self.write(now, id);
    }

    /// Takes what happened to the connections, until nothing more happens.
    fn serve(&mut self, now: Time) {
        while let Some(id) = self.host.poll_accept() {
            let port = self.host.connection(id).map_or(0, |connection| connection.path().local.port());
            let Some(&index) = self.listeners.get(&port) else { continue };
            let session = self.ends[index].session(index, now, true);
            self.sessions.insert(id, session);
        }
        while let Some((id, event)) = self.host.poll_event() {
            self.on_event(now, id, event);
        }
    }

    fn on_event(&mut self, now: Time, id: ConnectionId, event: Event) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let end = &mut self.ends[session.end];
        match event {
            Event::Connected => {
                let next = end.on_connected(session, now);
                self.wake_at(next, Sleeper::Session(id));
                self.write(now, id);
            }
            Event::Readable => {
                self.read(now, id);
                self.write(now, id);
            }
            Event::Writable => self.write(now, id),
            Event::PeerClosed => {
                self.read(now, id);
                self.peer_closed(now, id);
            }
            Event::Closed | Event::Failed(_) => {
                if let Event::Failed(failure) = event {
                    end.on_failed(now, &failure.to_string());
                }
                if let Some(connection) = self.host.connection(id) {
                    end.add_sent(connection.sender().stats());
                }
                self.sessions.remove(&id);
            }
        }
    }

    fn peer_closed(&mut self, now: Time, id: ConnectionId) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let next = self.ends[session.end].on_peer_closed(session, now);
        self.wake_at(next, Sleeper::Session(id));
        self.write(now, id);
    }

    /// Reads everything there is: an application that is never behind.
    fn read(&mut self, now: Time, id: ConnectionId) {
        loop {
            let (Some(session), Some(connection)) =
                (self.sessions.get_mut(&id), self.host.connection_mut(id))
            else {
                return;
            };
            let list = connection.read(now, usize::MAX);
            if list.is_empty() {
                return;
            }
            let end = &mut self.ends[session.end];
            if !end.pattern.matches(end.incoming(), session.read, &list) && end.report.corrupt.is_none() {
                let problem = format!("at {now}, within {} bytes from {}", list.len(), session.read);
                end.report.corrupt = Some(problem);
            }
            let next = end.on_read(session, now, list.len() as u64);
            self.wake_at(next, Sleeper::Session(id));
        }
    }

    /// Writes as much as is to be written and taken, and closes behind it where that is all.
    fn write(&mut self, now: Time, id: ConnectionId) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let end = &mut self.ends[session.end];
        if session.closed || (session.budget == 0 && !session.finishing) {
            return;
        }
        let Some(connection) = self.host.connection_mut(id) else { return };
        let had_work = session.budget > 0;
        while session.budget > 0 {
            let piece = end.pattern.bytes(end.outgoing(), session.written, session.budget);
            let offered = piece.len();
            let taken = connection.write(piece);
            session.written += taken as u64;
            session.budget -= taken as u64;
            if taken < offered {
                return;
            }
        }
        if session.finishing {
            session.closed = true;
            connection.close(now);
        } else if had_work {
            let next = end.on_written(session, now);
            self.wake_at(next, Sleeper::Session(id));
        }
    }
}

impl Machine for AppHost {
    fn handle_packet(&mut self, now: Time, port: PortId, packet: Packet) {
        match ping::answer(now, &packet) {
            Some(answer) => self.answers.push(answer),
            None => {
                self.host.handle_packet(now, port, packet);
                self.serve(now);
            }
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        while let Some(&Reverse((at, _, wake, sleeper))) = self.wakes.peek() {
            if at > now {
                break;
            }
            self.wakes.pop();
            self.woken(now, wake, sleeper);
        }
        self.host.handle_timeout(now);
        self.serve(now);
    }

    fn poll_transmit(&mut self, now: Time, out: &mut TxBatch) -> bool {
        self.answers.drain(..).for_each(|answer| out.push((PortId(0), answer)));
        let more = self.host.poll_transmit(now, out);
        self.serve(now);
        self.look(now);
        more
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let wake = self.wakes.peek().map(|&Reverse((at, ..))| Deadline { at, timer: "application" });
        Deadline::earliest(self.host.poll_timeout(), wake)
    }
}
