use crate::isn::{Keyed, Secret};
use crate::start::Paths;
use crate::timers::Timers;
use crate::{Addresses, Connection, ConnectionConfig, Event, State};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::hash::BuildHasher;
use core::net::{IpAddr, SocketAddr};
use hashbrown::HashTable;
use shorthaul_congestion::Lateness;
use shorthaul_types::{Deadline, PortId, Seed, SeqNum, Time};
use shorthaul_wire::{IcmpError, Machine, Packet, TcpFlags, TcpHeader, TcpSegment, Transport, TxBatch};

/// The ports that are given to connections that do not ask for one (RFC 6335 §6).
const EPHEMERAL: core::ops::RangeInclusive<u16> = 49_152..=65_535;

/// Which connection of a [`Host`]: it is never reused for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId {
    slot: u32,
    generation: u32,
}

/// What a host is.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// Its addresses. Packets for others are ignored.
    pub addresses: Vec<IpAddr>,
    /// What its sequence numbers, timestamps and ports are drawn from; to be kept secret where others share the network.
    pub seed: Seed,
    /// Connections of one listening port that nobody has taken yet, those still in the handshake
    /// included. More SYNs are ignored.
    pub backlog: usize,
}

impl HostConfig {
    /// A host with one address, which queues 128 connections for each listener.
    pub fn new(address: IpAddr, seed: Seed) -> Self {
        HostConfig { addresses: alloc::vec![address], seed, backlog: 128 }
    }
}

/// What a host has seen, for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostStats {
    /// Connections opened by us.
    pub connected: u64,
    /// Connections opened by others: SYNs that were answered.
    pub accepted: u64,
    /// SYNs ignored because a listener's backlog was full.
    pub overflowed: u64,
    /// Segments answered with a reset: there is no such connection or listener.
    pub refused: u64,
    /// Connections in TIME-WAIT that a new one of the same ends took the place of.
    pub reused: u64,
    /// Times that a connection was asked for what it has to send: the work that was done.
    pub polled: u64,
}

/// Why a connection could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectError {
    /// The local address is not one of the host's.
    NotOurs(IpAddr),
    /// The two addresses are of different IP versions.
    Versions(Addresses),
    /// The host has a connection between these two ends already.
    InUse(Addresses),
    /// All ephemeral ports toward this peer are in use.
    NoPort(SocketAddr),
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectError::NotOurs(ip) => {
                write!(f, "{ip} is not an address of this host: connect from one that is")
            }
            ConnectError::Versions(Addresses { local, remote }) => {
                write!(f, "{local} cannot reach {remote}: use two addresses of one IP version")
            }
            ConnectError::InUse(Addresses { local, remote }) => {
                write!(f, "{local} is connected to {remote} already: use another local port, or port 0")
            }
            ConnectError::NoPort(remote) => {
                write!(f, "all ephemeral ports are connected to {remote}: close some of the connections")
            }
        }
    }
}

impl core::error::Error for ConnectError {}

#[derive(Debug)]
struct Listener {
    config: Arc<ConnectionConfig>,
    /// Connections that count against the backlog.
    waiting: usize,
}

#[derive(Debug)]
struct Entry {
    connection: Connection,
    /// The deadline that is in the heap, if one is.
    armed: Option<Time>,
    /// In the queue of those that may have something to send.
    ready: bool,
    /// In the queue of those that have events.
    eventful: bool,
    /// The port of the listener whose backlog it counts against.
    backlog: Option<u16>,
    /// The owner knows that it has ended.
    end_told: bool,
}

#[derive(Debug, Default)]
struct Slot {
    generation: u32,
    entry: Option<alloc::boxed::Box<Entry>>,
}

/// Many connections of one host: listening ports, demultiplexing, resets for what nobody wants.
///
/// It is a [`Machine`] with one port. What an event costs does not depend on how many connections
/// are idle. Connections are reached by [`ConnectionId`]: a connection that has ended is forgotten
/// when its last event was polled and its last byte read, or when its owner has released it.
#[derive(Debug)]
pub struct Host {
    config: HostConfig,
    secret: Secret,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// The slots of the connections that segments go to, by the hash of their two ends.
    table: HashTable<u32>,
    keyed: Keyed,
    listeners: BTreeMap<u16, Listener>,
    accepted: VecDeque<ConnectionId>,
    ready: VecDeque<u32>,
    eventful: VecDeque<u32>,
    timers: Timers,
    passing: TxBatch,
    paths: Paths,
    next_port: u16,
    stats: HostStats,
    now: Time,
    lateness: Lateness,
}

impl Host {
    /// A host without connections.
    pub fn new(config: HostConfig) -> Self {
        let secret = Secret::new(config.seed);
        Host {
            config,
            secret,
            slots: Vec::new(),
            free: Vec::new(),
            table: HashTable::new(),
            keyed: secret.keyed("table"),
            listeners: BTreeMap::new(),
            accepted: VecDeque::new(),
            ready: VecDeque::new(),
            eventful: VecDeque::new(),
            timers: Timers::default(),
            passing: TxBatch::new(),
            paths: Paths::default(),
            next_port: 0,
            stats: HostStats::default(),
            now: Time::ZERO,
            lateness: Lateness::default(),
        }
    }

    /// Time has come to `now`: how late that is, is seen from the deadline that was asked for.
    fn wake(&mut self, now: Time) {
        if now > self.now {
            self.lateness.on_wakeup(now, self.timers.next());
            self.now = now;
        }
    }

    /// Accepts connections to `port`, which work by `config`; replaces an earlier listener there.
    pub fn listen(&mut self, port: u16, config: impl Into<Arc<ConnectionConfig>>) {
        let config = config.into();
        match self.listeners.get_mut(&port) {
            Some(listener) => listener.config = config,
            None => {
                self.listeners.insert(port, Listener { config, waiting: 0 });
            }
        }
    }

    /// Accepts no more connections to `port`. Those that it has live on.
    pub fn stop_listening(&mut self, port: u16) {
        self.listeners.remove(&port);
    }

    /// Whether somebody listens on `port`: LISTEN, the first state of RFC 9293 §3.3.2.
    pub fn is_listening(&self, port: u16) -> bool {
        self.listeners.contains_key(&port)
    }

    /// Opens a connection. Local port 0 stands for any that is free.
    ///
    /// # Errors
    /// [`ConnectError`]: the two ends do not make a new connection.
    pub fn connect(
        &mut self,
        now: Time,
        path: Addresses,
        config: impl Into<Arc<ConnectionConfig>>,
    ) -> Result<ConnectionId, ConnectError> {
        let Addresses { local, remote } = path;
        if !self.config.addresses.contains(&local.ip()) {
            return Err(ConnectError::NotOurs(local.ip()));
        }
        if local.is_ipv4() != remote.is_ipv4() {
            return Err(ConnectError::Versions(path));
        }
        let path = if local.port() == 0 { self.with_free_port(path)? } else { path };
        if self.slot_of(&path).is_some() {
            return Err(ConnectError::InUse(path));
        }
        let isn = self.secret.isn(now, &path);
        let connection = Connection::connect(now, path, isn, config);
        self.stats.connected += 1;
        Ok(self.insert(connection, None))
    }

    /// RFC 6056 §3.3.3: ports follow one another from an offset that differs for each peer.
    fn with_free_port(&mut self, path: Addresses) -> Result<Addresses, ConnectError> {
        let count = EPHEMERAL.end() - EPHEMERAL.start() + 1;
        let offset = self.secret.port_offset(&path);
        for _ in 0..count {
            let port = EPHEMERAL.start() + offset.wrapping_add(self.next_port) % count;
            self.next_port = self.next_port.wrapping_add(1);
            let local = SocketAddr::new(path.local.ip(), port);
            let candidate = Addresses { local, ..path };
            if self.slot_of(&candidate).is_none() && !self.listeners.contains_key(&port) {
                return Ok(candidate);
            }
        }
        Err(ConnectError::NoPort(path.remote))
    }

    /// The next connection that was opened by somebody else and is complete.
    pub fn poll_accept(&mut self) -> Option<ConnectionId> {
        while let Some(id) = self.accepted.pop_front() {
            if let Some(entry) = self.entry_mut(id) {
                let backlog = entry.backlog.take();
                self.leave_backlog(backlog);
                self.announce(id.slot);
                return Some(id);
            }
        }
        None
    }

    /// The next event of any connection.
    pub fn poll_event(&mut self) -> Option<(ConnectionId, Event)> {
        while let Some(&slot) = self.eventful.front() {
            let generation = self.slots[slot as usize].generation;
            if let Some(entry) = self.slots[slot as usize].entry.as_mut() {
                if let Some(event) = entry.connection.poll_event()
                    && !entry.connection.is_abandoned()
                {
                    entry.end_told |= matches!(event, Event::Closed | Event::Failed(_));
                    return Some((ConnectionId { slot, generation }, event));
                }
                entry.eventful = false;
            }
            self.eventful.pop_front();
            self.mark_ready(slot); // it may be forgotten now
        }
        None
    }

    /// A connection, unless it is forgotten.
    pub fn connection(&self, id: ConnectionId) -> Option<&Connection> {
        let slot = self.slots.get(id.slot as usize)?;
        let entry = slot.entry.as_ref().filter(|_| slot.generation == id.generation)?;
        Some(&entry.connection)
    }

    /// A connection, to write to, read from or close. What it has to send then leaves at the next
    /// poll.
    pub fn connection_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.entry_mut(id)?;
        self.mark_ready(id.slot);
        self.entry_mut(id).map(|entry| &mut entry.connection)
    }

    /// The owner is done with a connection (see [`Connection::abandon`]): it is forgotten when both
    /// sides have closed, and nobody hears of it any more.
    pub fn release(&mut self, now: Time, id: ConnectionId) {
        if let Some(connection) = self.connection_mut(id) {
            connection.abandon(now);
        }
    }

    /// The connections that are not yet forgotten.
    pub fn connections(&self) -> impl Iterator<Item = (ConnectionId, &Connection)> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| {
            let id = ConnectionId { slot: index as u32, generation: slot.generation };
            Some((id, &slot.entry.as_ref()?.connection))
        })
    }

    /// What was seen so far.
    pub fn stats(&self) -> HostStats {
        self.stats
    }

    fn entry_mut(&mut self, id: ConnectionId) -> Option<&mut Entry> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        slot.entry.as_deref_mut().filter(|_| slot.generation == id.generation)
    }

    fn leave_backlog(&mut self, port: Option<u16>) {
        if let Some(listener) = port.and_then(|port| self.listeners.get_mut(&port)) {
            listener.waiting = listener.waiting.saturating_sub(1);
        }
    }

    fn insert(&mut self, connection: Connection, backlog: Option<u16>) -> ConnectionId {
        let path = connection.path();
        let connection = connection.with_timestamp_offset(self.secret.timestamp_offset(&path));
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        let entry =
            Entry { connection, armed: None, ready: false, eventful: false, backlog, end_told: false };
        self.slots[slot as usize].entry = Some(alloc::boxed::Box::new(entry));
        let (keyed, slots) = (&self.keyed, &self.slots);
        self.table
            .insert_unique(keyed.hash_one(Some(path)), slot, |&slot| keyed.hash_one(path_at(slots, slot)));
        self.mark_ready(slot);
        ConnectionId { slot, generation: self.slots[slot as usize].generation }
    }

    fn remove(&mut self, slot: u32) {
        self.unlink(slot);
        let Some(entry) = self.slots[slot as usize].entry.take() else { return };
        self.slots[slot as usize].generation += 1;
        self.free.push(slot);
        self.leave_backlog(entry.backlog);
    }

    /// The slot that segments between two ends go to.
    fn slot_of(&self, path: &Addresses) -> Option<u32> {
        let hash = self.keyed.hash_one(Some(*path));
        self.table.find(hash, |&slot| path_at(&self.slots, slot) == Some(*path)).copied()
    }

    /// Segments between these two ends do not go to `slot` any more.
    fn unlink(&mut self, slot: u32) {
        let hash = self.keyed.hash_one(path_at(&self.slots, slot));
        if let Ok(found) = self.table.find_entry(hash, |&other| other == slot) {
            found.remove();
        }
    }

    /// Queues a connection whose owner has something to hear. One that its owner has not yet taken
    /// waits until it is.
    fn announce(&mut self, slot: u32) {
        if let Some(entry) = self.slots[slot as usize].entry.as_mut()
            && entry.connection.has_event()
            && !(entry.eventful || entry.connection.is_abandoned() || entry.backlog.is_some())
        {
            entry.eventful = true;
            self.eventful.push_back(slot);
        }
    }

    fn mark_ready(&mut self, slot: u32) {
        if let Some(entry) = self.slots[slot as usize].entry.as_mut()
            && !entry.ready
        {
            entry.ready = true;
            self.ready.push_back(slot);
        }
    }

    /// Books what a call has changed: events, the deadline, the end.
    fn settle(&mut self, slot: u32) {
        let generation = self.slots[slot as usize].generation;
        let Some(entry) = self.slots[slot as usize].entry.as_mut() else { return };
        let connection = &entry.connection;
        if connection.state() == State::Closed {
            let over = entry.end_told && connection.readable() == 0 && !connection.has_event();
            let released = connection.is_abandoned();
            let taken = entry.backlog.is_none() || self.accepted.contains(&ConnectionId { slot, generation });
            self.unlink(slot);
            if over || released || !taken {
                return self.remove(slot);
            }
        } else if let Some(Deadline { at, .. }) = connection.poll_timeout()
            && entry.armed.is_none_or(|armed| at < armed)
        {
            entry.armed = Some(at);
            self.timers.arm(slot, at);
            let slots = &self.slots;
            self.timers.tidy(slots.len(), |slot, at| {
                slots[slot as usize].entry.as_ref().is_some_and(|entry| entry.armed == Some(at))
            });
        }
        self.announce(slot);
    }

    fn handle_tcp(&mut self, now: Time, packet: Packet) {
        let (Some(flow), Some(segment)) = (packet.flow(), packet.as_tcp()) else { return };
        if !self.config.addresses.contains(&packet.ip.dst()) {
            return;
        }
        let path = Addresses::of_incoming(flow);
        let mut above = None;
        if let Some(slot) = self.slot_of(&path) {
            let Some(entry) = self.slots[slot as usize].entry.as_mut() else { return };
            let successor = entry.connection.successor_isn(&segment.header);
            let reopens = successor.is_some() && self.listeners.contains_key(&path.local.port());
            if entry.connection.state() != State::Closed && !reopens {
                let (before, knew) = (entry.connection.state(), entry.connection.path_memory());
                entry.connection.handle_packet(now, PortId(0), packet);
                let is_open = entry.connection.state().is_synchronized();
                if is_open && !before.is_synchronized() {
                    if let Some(known) = self.paths.to(path.remote.ip()) {
                        entry.connection.recall(now, &known);
                    }
                } else if let Some(memory) = entry.connection.path_memory().filter(|_| knew.is_none()) {
                    self.paths.note(path.remote.ip(), memory);
                }
                let opened = before == State::SynReceived && is_open;
                if opened && entry.backlog.is_some() {
                    let generation = self.slots[slot as usize].generation;
                    self.accepted.push_back(ConnectionId { slot, generation });
                }
                self.announce(slot);
                return self.mark_ready(slot);
            }
            // It is over: what comes is for nobody, or for the next one.
            entry.connection.abort(now);
            self.stats.reused += u64::from(reopens);
            above = successor;
            self.unlink(slot);
            self.announce(slot);
            self.mark_ready(slot);
        }
        self.handle_stranger(now, path, &packet, segment, above);
    }

    /// A segment of no connection: LISTEN and CLOSED (RFC 9293 §3.10.7.1, §3.10.7.2).
    fn handle_stranger(
        &mut self,
        now: Time,
        path: Addresses,
        packet: &Packet,
        segment: &TcpSegment,
        above: Option<SeqNum>,
    ) {
        let flags = segment.header.flags;
        if flags.contains(TcpFlags::RST) {
            return;
        }
        let port = path.local.port();
        if let Some(listener) = self.listeners.get_mut(&port)
            && !flags.contains(TcpFlags::ACK)
        {
            if listener.waiting >= self.config.backlog {
                self.stats.overflowed += u64::from(flags.contains(TcpFlags::SYN));
                return;
            }
            let mut isn = self.secret.isn(now, &path);
            // RFC 9293 §3.6.1: the sequence numbers of a successor begin above the old ones.
            if let Some(above) = above
                && !isn.after(above + 65_535)
            {
                isn = above + 65_535;
            }
            if let Some(connection) = Connection::accept(now, isn, packet, Arc::clone(&listener.config)) {
                listener.waiting += 1;
                self.stats.accepted += 1;
                self.insert(connection, Some(port));
            }
            return;
        }
        self.stats.refused += 1;
        self.passing.push((PortId(0), reset(path, segment)));
    }

    fn handle_icmp(&mut self, now: Time, packet: &Packet, error: &IcmpError) {
        let path = Addresses { local: error.flow.src, remote: error.flow.dst };
        let Some(slot) = self.slot_of(&path) else { return };
        if let Some(entry) = self.slots[slot as usize].entry.as_mut() {
            entry.connection.handle_packet(now, PortId(0), packet.clone());
            self.announce(slot);
            self.mark_ready(slot);
        }
    }
}

/// The ends of the connection in a slot.
fn path_at(slots: &[Slot], slot: u32) -> Option<Addresses> {
    Some(slots.get(slot as usize)?.entry.as_ref()?.connection.path())
}

/// The reset that answers a segment of no connection (RFC 9293 §3.10.7.1).
fn reset(path: Addresses, segment: &TcpSegment) -> Packet {
    let TcpHeader { seq, ack, flags, .. } = segment.header;
    let len = segment.payload.len() as u32
        + u32::from(flags.contains(TcpFlags::SYN))
        + u32::from(flags.contains(TcpFlags::FIN));
    let mut header = TcpHeader {
        src_port: path.local.port(),
        dst_port: path.remote.port(),
        flags: TcpFlags::RST,
        ..TcpHeader::default()
    };
    if flags.contains(TcpFlags::ACK) {
        header.seq = ack;
    } else {
        header.ack = seq + len;
        header.flags |= TcpFlags::ACK;
    }
    Packet::tcp(path.ip_header(), TcpSegment { header, ..TcpSegment::default() })
}

impl Machine for Host {
    fn handle_packet(&mut self, now: Time, _port: PortId, packet: Packet) {
        self.wake(now);
        match &packet.transport {
            Transport::Tcp(_) => self.handle_tcp(now, packet),
            Transport::IcmpError(error) => self.handle_icmp(now, &packet, error),
            _ => {}
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.wake(now);
        while let Some((at, slot)) = self.timers.pop_due(now) {
            let Some(entry) = self.slots[slot as usize].entry.as_mut() else { continue };
            if entry.armed == Some(at) {
                entry.armed = None;
                entry.connection.handle_timeout(now);
                self.announce(slot);
                self.mark_ready(slot);
            }
        }
    }

    fn poll_transmit(&mut self, now: Time, out: &mut TxBatch) -> bool {
        out.append(&mut self.passing);
        let late = self.lateness.recent();
        for _ in 0..self.ready.len() {
            let Some(slot) = self.ready.pop_front() else { break };
            let Some(entry) = self.slots[slot as usize].entry.as_mut() else { continue };
            entry.ready = false;
            self.stats.polled += 1;
            entry.connection.set_lateness(late);
            let more = entry.connection.poll_transmit(now, out);
            self.settle(slot);
            if more {
                self.mark_ready(slot);
            }
        }
        !self.ready.is_empty()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        self.timers.next()
    }
}
