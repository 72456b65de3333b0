use crate::host::port_of;
use crate::relay_service::{Job, Service};
use shorthaul_scenario::{Forward, Overflow, Relay, Served};
use shorthaul_tcp::{Addresses, Connection, ConnectionConfig, ConnectionId, Event, Host, SenderStats};
use shorthaul_types::{BufferTimes, BufferWatch, Bytes, Deadline, Level, PortId, Time};
use shorthaul_wire::{Machine, Packet, PayloadList, Transport, TxBatch};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// A node of the proxy transport service (PTS §2, §3): it ends the connection of a session, opens the
/// next one, and serves what arrives on either one packet after the other.
///
/// Of each direction of a session it holds at most Cmax, from the first leg's receive buffer to the last
/// byte that the second leg's receiver has not acknowledged. Either the first leg's window is what is left, or what does
/// not fit is dropped before TCP sees it. Nothing that was acknowledged is ever dropped.
pub(crate) struct RelayNode {
    host: Host,
    address: IpAddr,
    sessions: Vec<RelaySession>,
    /// Sessions by their two connections, as packets name them.
    legs: BTreeMap<(u16, SocketAddr), (usize, Side)>,
    by_connection: BTreeMap<ConnectionId, (usize, Side)>,
    /// By the port of the flow: the next hop's address.
    next_hops: BTreeMap<u16, NextHop>,
    buffer: Bytes,
    overflow: Overflow,
    /// Segments that the buffer of their session had no room for.
    pub dropped: u64,
    forward: Forward,
    served: Served,
    service: Service,
    pub failures: Vec<String>,
    ended: SenderStats,
    /// Whether it is noted how long buffers are empty and full: that takes a look at each session after each packet.
    watches: bool,
}

/// Where a session goes on.
#[derive(Clone, Debug)]
pub(crate) struct NextHop {
    pub flow: u32,
    pub to: IpAddr,
    pub config: Arc<ConnectionConfig>,
}

/// Which leg of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The one that was opened to us.
    Near,
    /// The one that we opened.
    Far,
}

impl Side {
    const BOTH: [Side; 2] = [Side::Near, Side::Far];

    fn other(self) -> Side {
        match self {
            Side::Near => Side::Far,
            Side::Far => Side::Near,
        }
    }
}

#[derive(Debug)]
struct RelaySession {
    flow: u32,
    near: ConnectionId,
    far: ConnectionId,
    /// Per direction, by the side that it comes from: bytes that wait for the processor.
    in_service: [u64; 2],
    /// Per direction: its sender has closed.
    closed: [bool; 2],
    /// The far leg is established. To close it before would give it up (RFC 9293 §3.10.4).
    far_connected: bool,
    /// The most that was held of either direction.
    most_held: u64,
    /// Per direction: how long its buffer was empty, and how long the one behind it was full.
    watch: [BufferWatch; 2],
    /// What comes from the near side is sent on.
    released: bool,
    /// When it will be, where that is a matter of time.
    release_at: Option<Time>,
}

impl RelayNode {
    pub fn new(
        mut host: Host,
        address: IpAddr,
        next_hops: Vec<(NextHop, Arc<ConnectionConfig>)>,
        relay: &Relay,
        service: Service,
    ) -> Self {
        let mut hops = BTreeMap::new();
        for (hop, listening) in next_hops {
            host.listen(port_of(hop.flow), listening);
            hops.insert(port_of(hop.flow), hop);
        }
        RelayNode {
            host,
            address,
            sessions: Vec::new(),
            legs: BTreeMap::new(),
            by_connection: BTreeMap::new(),
            next_hops: hops,
            buffer: relay.buffer,
            overflow: relay.overflow,
            dropped: 0,
            forward: relay.forward,
            served: relay.served,
            service,
            failures: Vec::new(),
            ended: SenderStats::default(),
            watches: false,
        }
    }

    /// The same, with an eye on how long buffers are empty and full.
    pub fn watching(self, watches: bool) -> Self {
        RelayNode { watches, ..self }
    }

    /// How long the legs of each session had nothing to send so far, and how long no window to send it, by flow: of what comes from the near and
    /// from the far side.
    pub fn buffer_times(&self, now: Time) -> impl Iterator<Item = (u32, [BufferTimes; 2])> {
        self.sessions.iter().map(move |session| (session.flow, session.watch.map(|watch| watch.times(now))))
    }

    /// Notes what keeps each leg from sending now.
    fn look(&mut self, now: Time) {
        for index in 0..if self.watches { self.sessions.len() } else { 0 } {
            for from in Side::BOTH {
                if !self.has_begun(&self.sessions[index], from) {
                    continue;
                }
                let level = self.level(&self.sessions[index], from);
                let watch = &mut self.sessions[index].watch[from as usize];
                watch.begin(now);
                match level {
                    Some(level) => watch.set(now, level),
                    None => watch.end(now),
                }
            }
        }
    }

    /// Whether the first byte of a direction has come.
    fn has_begun(&self, session: &RelaySession, from: Side) -> bool {
        // Offsets begin with the SYN.
        session.watch[from as usize].is_on()
            || self.connection(session, from).is_some_and(|source| source.receiver().data_end() > 1)
    }

    /// What keeps the leg behind from sending what comes from a side; nothing, once its source has ended.
    fn level(&self, session: &RelaySession, from: Side) -> Option<Level> {
        let (source, sink) = (self.connection(session, from)?, self.connection(session, from.other())?);
        if session.closed[from as usize] {
            return None;
        }
        let waits = source.readable() + session.in_service[from as usize];
        Some(if waits == 0 && session.far_connected && sink.sender().is_starved() {
            Level::Empty
        } else if sink.sender().is_held_back() {
            Level::Full
        } else {
            Level::Between
        })
    }

    /// What the senders of all legs have done.
    pub fn sent(&self) -> SenderStats {
        let mut sum = self.ended;
        for (_, connection) in self.host.connections() {
            crate::application::add(&mut sum, connection.sender().stats());
        }
        sum
    }

    /// The connections that send onward, with the flow's number.
    pub fn senders(&self) -> impl Iterator<Item = (u32, &Connection)> {
        self.sessions.iter().flat_map(|session| {
            let of = |id| Some((session.flow, self.host.connection(id)?));
            [of(session.near), of(session.far)].into_iter().flatten()
        })
    }

    /// What is held of each flow, both directions of all its sessions together.
    pub fn held(&self) -> impl Iterator<Item = (u32, u64)> {
        self.sessions.iter().map(|session| {
            let held = Side::BOTH.map(|from| self.held_of(session, from)).into_iter().sum();
            (session.flow, held)
        })
    }

    /// The sessions that have held more than Cmax of a direction, by flow.
    pub fn overfull(&self) -> impl Iterator<Item = (u32, u64)> {
        self.sessions
            .iter()
            .filter(|session| session.most_held > self.buffer.0)
            .map(|session| (session.flow, session.most_held))
    }

    fn connection(&self, session: &RelaySession, side: Side) -> Option<&Connection> {
        self.host.connection(session.id(side))
    }

    fn held_of(&self, session: &RelaySession, from: Side) -> u64 {
        let unread = self.connection(session, from).map_or(0, Connection::readable);
        unread + self.kept_of(session, from)
    }

    /// What was read of a direction, and is not yet acknowledged on the other leg.
    fn kept_of(&self, session: &RelaySession, from: Side) -> u64 {
        let queued = self.connection(session, from.other()).map_or(0, |to| to.sender().queue().len());
        queued + session.in_service[from as usize]
    }

    fn accept(&mut self, now: Time, near: ConnectionId) {
        let Some(path) = self.host.connection(near).map(Connection::path) else { return };
        let Some(hop) = self.next_hops.get(&path.local.port()).cloned() else { return };
        let remote = SocketAddr::new(hop.to, port_of(hop.flow));
        let local = SocketAddr::new(self.address, 0);
        match self.host.connect(now, Addresses { local, remote }, hop.config) {
            Ok(far) => {
                let index = self.sessions.len();
                let far_path = self.host.connection(far).map_or(path, Connection::path);
                for (side, id, path) in [(Side::Near, near, path), (Side::Far, far, far_path)] {
                    self.legs.insert((path.local.port(), path.remote), (index, side));
                    self.by_connection.insert(id, (index, side));
                }
                let session = RelaySession {
                    flow: hop.flow,
                    near,
                    far,
                    in_service: [0; 2],
                    closed: [false; 2],
                    far_connected: false,
                    most_held: 0,
                    watch: [BufferWatch::default(); 2],
                    released: self.forward == Forward::AtOnce,
                    release_at: None,
                };
                self.sessions.push(session);
            }
            Err(error) => {
                self.failures.push(format!("at {now}: {error}"));
                if let Some(connection) = self.host.connection_mut(near) {
                    connection.abort(now);
                }
            }
        }
    }

    fn serve(&mut self, now: Time) {
        while let Some(id) = self.host.poll_accept() {
            self.accept(now, id);
        }
        while let Some((id, event)) = self.host.poll_event() {
            let Some(&(index, side)) = self.by_connection.get(&id) else { continue };
            match event {
                Event::Connected => self.sessions[index].far_connected |= side == Side::Far,
                Event::Readable | Event::Writable => {}
                Event::PeerClosed => self.sessions[index].closed[side as usize] = true,
                Event::Closed | Event::Failed(_) => {
                    if let Some(connection) = self.host.connection(id) {
                        crate::application::add(&mut self.ended, connection.sender().stats());
                    }
                    self.by_connection.remove(&id);
                    if let Event::Failed(failure) = event {
                        self.failures.push(format!("at {now}: {failure}"));
                        let other = self.sessions[index].id(side.other());
                        if let Some(connection) = self.host.connection_mut(other) {
                            connection.abort(now);
                        }
                    }
                }
            }
            self.relay(now, index);
        }
    }

    /// Whether what comes from a side may be sent on already.
    fn may_forward(&mut self, now: Time, index: usize, from: Side) -> bool {
        let session = &self.sessions[index];
        if session.released || from == Side::Far {
            return true;
        }
        let closed = session.closed[Side::Near as usize];
        let release_at = match (self.forward, session.release_at) {
            // Nothing more will come that would be worth waiting for.
            _ if closed => Some(now),
            (Forward::AtOnce, _) => Some(now),
            (Forward::WhenComplete, _) => None,
            (Forward::AfterRoundTrips(_), Some(at)) => Some(at),
            (Forward::AfterRoundTrips(count), None) => {
                let began = self.connection(session, Side::Near).is_some_and(|near| near.readable() > 0);
                let far = self.connection(session, Side::Far).and_then(|far| far.sender().rtt().srtt());
                far.filter(|_| began).map(|round_trip| now + round_trip * count)
            }
        };
        let released = release_at.is_some_and(|at| at <= now);
        let session = &mut self.sessions[index];
        session.released = released;
        session.release_at = release_at.filter(|_| !released);
        released
    }

    /// Moves what can be moved in both directions of a session.
    fn relay(&mut self, now: Time, index: usize) {
        for from in Side::BOTH {
            self.take_in(now, index, from);
            self.pass_on_end(now, index, from);
            self.set_window(index, from);
        }
    }

    /// Reads what has arrived, a packet at a time, and queues it for the processor.
    fn take_in(&mut self, now: Time, index: usize, from: Side) {
        let held = self.held_of(&self.sessions[index], from);
        let session = &mut self.sessions[index];
        session.most_held = session.most_held.max(held);
        let (source, target) = (session.id(from), session.id(from.other()));
        if self.overflow == Overflow::Close {
            // what is read is still held: reading must not open the window
            let room = Bytes(self.buffer.0.saturating_sub(held));
            if let Some(connection) = self.host.connection_mut(source) {
                connection.limit_receive_window(room);
            }
        }
        if !self.may_forward(now, index, from) {
            return;
        }
        loop {
            let Some(connection) = self.host.connection(source) else { return };
            if connection.readable() == 0 {
                return;
            }
            let Some(connection) = self.host.connection_mut(source) else { return };
            let bytes = connection.read(now, self.service.packet as usize);
            if bytes.is_empty() {
                return;
            }
            if self.service.takes_time() && self.served == Served::AfterAcknowledgment {
                self.sessions[index].in_service[from as usize] += bytes.len() as u64;
                self.service.push(now, Job { session: index, from, bytes });
            } else {
                write(&mut self.host, target, &bytes);
            }
        }
    }

    /// Closes the other leg when a direction has ended and everything of it was passed on.
    fn pass_on_end(&mut self, now: Time, index: usize, from: Side) {
        let session = &self.sessions[index];
        let unread = self.connection(session, from).map_or(0, Connection::readable);
        let ended = session.closed[from as usize] && session.in_service[from as usize] == 0 && unread == 0;
        if ended && session.far_connected {
            let target = session.id(from.other());
            if let Some(connection) = self.host.connection_mut(target) {
                connection.close(now); // again, perhaps: that does nothing
            }
        }
    }

    /// Advertises the room that Cmax leaves.
    fn set_window(&mut self, index: usize, from: Side) {
        if self.overflow == Overflow::Drop {
            return;
        }
        let session = &self.sessions[index];
        let room = Bytes(self.buffer.0.saturating_sub(self.kept_of(session, from)));
        let id = session.id(from);
        if let Some(connection) = self.host.connection_mut(id) {
            connection.limit_receive_window(room);
        }
    }

    /// The processor is done with a packet.
    fn served(&mut self, now: Time, Job { session, from, bytes }: Job) {
        self.sessions[session].in_service[from as usize] -= bytes.len() as u64;
        let target = self.sessions[session].id(from.other());
        write(&mut self.host, target, &bytes);
        self.relay(now, session);
    }

    /// Whether the buffer of its session has no room for a segment.
    ///
    /// Out of order, it must leave room for what is missing before it, or that would never be accepted.
    fn overflows(&self, packet: &Packet) -> bool {
        let Transport::Tcp(segment) = &packet.transport else { return false };
        let leg = packet.flow().map(|flow| (flow.dst.port(), flow.src));
        let Some(&(index, side)) = leg.and_then(|leg| self.legs.get(&leg)) else { return false };
        let session = &self.sessions[index];
        let Some(connection) = self.connection(session, side) else { return false };
        let waiting: usize =
            self.service.arriving().filter(|other| other.flow() == packet.flow()).map(payload).sum();
        let held = self.held_of(session, side) + connection.receiver().early() + waiting as u64;
        let size = segment.payload.len() as u64;
        let is_early = segment.header.seq.diff(connection.expects()) > 0;
        let kept_free = if is_early && waiting == 0 { size.max(self.service.packet) } else { 0 };
        held + size + kept_free > self.buffer.0
    }
}

impl RelaySession {
    fn id(&self, side: Side) -> ConnectionId {
        match side {
            Side::Near => self.near,
            Side::Far => self.far,
        }
    }
}

/// Bytes of data in a packet.
pub(crate) fn payload(packet: &Packet) -> usize {
    match &packet.transport {
        Transport::Tcp(segment) => segment.payload.len(),
        _ => 0,
    }
}

/// Writes all of it: the window of the other leg was never wider than the room that is left here.
fn write(host: &mut Host, target: ConnectionId, bytes: &PayloadList) {
    let Some(connection) = host.connection_mut(target) else { return };
    for slice in bytes.slices() {
        let taken = connection.write(slice.clone());
        debug_assert!(taken == slice.len() || connection.writable() == 0, "a relay's buffer overflowed");
    }
}

impl RelayNode {
    /// TCP sees a packet.
    fn arrived(&mut self, now: Time, port: PortId, packet: Packet) {
        let leg = packet.flow().map(|flow| (flow.dst.port(), flow.src));
        self.host.handle_packet(now, port, packet);
        self.serve(now);
        // an acknowledgment makes room, of which no event tells
        if let Some((index, _)) = leg.and_then(|leg| self.legs.get(&leg).copied()) {
            self.relay(now, index);
        }
    }
}

impl Machine for RelayNode {
    fn handle_packet(&mut self, now: Time, port: PortId, packet: Packet) {
        if self.overflow == Overflow::Drop && payload(&packet) > 0 && self.overflows(&packet) {
            self.dropped += 1;
            return;
        }
        let serves_first = self.served != Served::AfterAcknowledgment && self.service.takes_time();
        if serves_first && payload(&packet) > 0 {
            self.service.hold(now, self.served, port, packet);
        } else {
            self.arrived(now, port, packet);
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        while let Some((port, packet)) = self.service.next_arrived(now) {
            self.arrived(now, port, packet);
        }
        while let Some(job) = self.service.next_done(now) {
            self.served(now, job);
            self.service.begin_all(now);
        }
        for index in 0..self.sessions.len() {
            if self.sessions[index].release_at.is_some_and(|at| at <= now) {
                self.relay(now, index);
            }
        }
        self.host.handle_timeout(now);
        self.serve(now);
    }

    fn poll_transmit(&mut self, now: Time, out: &mut TxBatch) -> bool {
        let more = self.host.poll_transmit(now, out);
        self.serve(now);
        self.look(now);
        more
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let release = self.sessions.iter().filter_map(|session| session.release_at).min();
        let release = release.map(|at| Deadline { at, timer: "forward" });
        let own = Deadline::earliest(self.service.poll_timeout(), release);
        Deadline::earliest(self.host.poll_timeout(), own)
    }
}
