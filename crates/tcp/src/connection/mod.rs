//! An endpoint of a connection (RFC 9293).
//!
//! Reading order: [`config`] (what it may be told), [`state`] (what it can be in and say),
//! [`handshake`] (the SYNs), [`arrival`] (every other segment), [`output`] (what leaves),
//! [`timers`], [`icmp`] (what the network says), [`receive_window`] (how much to advertise), [`challenge`] (how often to answer back).
mod arrival;
mod challenge;
mod config;
mod handshake;
mod icmp;
mod output;
mod receive_window;
mod state;
mod timers;

pub use config::{Addresses, ConnectionConfig, KeepAlive};
pub use handshake::{Agreed, WindowShifts};
pub use state::{Event, Failure, State};

use crate::{ByteQueue, PathMemory, RateMeter, Receiver, Sender};
use alloc::boxed::Box;
use alloc::sync::Arc;
pub use challenge::ChallengeLimit;
use handshake::{Opening, Peer};
use receive_window::ReceiveWindow;
use shorthaul_types::{Bytes, Deadline, PortId, SeqNum, SeqSpace, Time};
use shorthaul_wire::{Machine, Packet, Payload, PayloadList, ProbeOption, TcpHeader, Transport, TxBatch};
use state::Events;
use timers::Timers;

/// Answers to the peer's probes.
#[derive(Debug)]
struct Probed {
    /// When the first probe arrived: the clock of the answers begins there.
    since: Time,
    /// The answer to the last one, which is to leave.
    answer: Option<ProbeOption>,
}

/// One end of a TCP connection, without I/O: a [`Receiver`] and a [`Sender`], the states of RFC 9293
/// around them, and a queue for the owner on each side.
///
/// It is a [`Machine`] with one port. Its owner writes, reads and closes, asks
/// [`Connection::poll_event`] what happened, and after each of these lets the driver poll it for
/// packets: nothing leaves outside [`Machine::poll_transmit`].
///
/// Urgent data is delivered in line (RFC 6093 §3.2), and none is sent.
#[derive(Debug)]
pub struct Connection {
    path: Addresses,
    config: Arc<ConnectionConfig>,
    state: State,
    /// It was opened by the peer's SYN.
    passive: bool,
    own: SeqSpace,
    own_shift: u8,
    peer: Peer,
    agreed: Agreed,
    opening: Opening,
    sender: Sender,
    receiver: Receiver,
    /// Received in order, not yet read.
    inbox: ByteQueue,
    window: ReceiveWindow,
    /// The right edge of the window, as the peer last heard of it.
    advertised: u64,
    /// Measures at which rate the peer should send, where both ends want that.
    meter: Option<Box<dyn RateMeter>>,
    timestamp_offset: u32,
    timers: Timers,
    challenges: ChallengeLimit,
    /// The peer probes, and is answered. In a box: few peers do.
    probed: Option<Box<Probed>>,
    /// A reset that is to leave.
    reset: Option<Box<TcpHeader>>,
    /// The owner has closed, but the handshake is not complete.
    close_wanted: bool,
    /// The owner is gone: nobody will read what comes.
    abandoned: bool,
    /// A write filled the buffer.
    write_blocked: bool,
    /// A packet was marked (CE): say so until the peer has slowed down (RFC 3168 §6.1.3).
    echo_congestion: bool,
    /// The network reported that the peer cannot be reached, which may pass.
    unreachable: bool,
    events: Events,
}

impl Connection {
    /// Opens a connection: a SYN with the sequence number `isn` leaves at the next poll.
    pub fn connect(
        now: Time,
        path: Addresses,
        isn: SeqNum,
        config: impl Into<Arc<ConnectionConfig>>,
    ) -> Self {
        Connection::new(now, path, isn, config.into())
    }

    /// Answers a SYN: the SYN-ACK with the sequence number `isn` leaves at the next poll. `None` if
    /// `syn` is no opening segment.
    pub fn accept(
        now: Time,
        isn: SeqNum,
        syn: &Packet,
        config: impl Into<Arc<ConnectionConfig>>,
    ) -> Option<Self> {
        let path = Addresses::of_incoming(syn.flow()?);
        let mut connection = Connection::new(now, path, isn, config.into());
        connection.on_first_syn(now, syn.as_tcp()?).then_some(connection)
    }

    /// Counts the timestamps that it sends from `offset` on, so that they tell nobody how long we
    /// run (RFC 7323 §5.4). To be called before anything is sent.
    pub fn with_timestamp_offset(mut self, offset: u32) -> Self {
        self.timestamp_offset = offset;
        self
    }

    /// An earlier connection to the same host knew this of the path. What comes of it is the profile's [`Start`](crate::Start). To be called
    /// when the handshake is complete, before anything is sent.
    pub fn recall(&mut self, now: Time, known: &PathMemory) {
        self.sender.recall(now, known);
    }

    /// What it has found out of its path, when all that it had to send, with its FIN, is acknowledged, and its profile remembers paths.
    pub fn path_memory(&self) -> Option<PathMemory> {
        let ends = self.config.profile.start.remembers() && self.sender.is_finished();
        if ends { self.sender.path_memory() } else { None }
    }

    /// The two ends.
    pub fn path(&self) -> Addresses {
        self.path
    }

    /// The state of RFC 9293 §3.3.2.
    pub fn state(&self) -> State {
        self.state
    }

    /// How it was told to work.
    pub fn config(&self) -> &ConnectionConfig {
        &self.config
    }

    /// The sending half, for statistics. Before the peer's SYN it says little.
    pub fn sender(&self) -> &Sender {
        &self.sender
    }

    /// The receiving half, for statistics. Before the peer's SYN it says little.
    pub fn receiver(&self) -> &Receiver {
        &self.receiver
    }

    /// The sequence number of the first byte that has not arrived. Before the peer's SYN it says nothing.
    pub fn expects(&self) -> SeqNum {
        self.peer.space.seq(self.receiver.next())
    }

    /// The most that the window may offer now, in bytes; with autotuning it grows.
    pub fn receive_window_limit(&self) -> u64 {
        self.window.limit()
    }

    /// Offers at most `limit` bytes from now on, read ones not counted, instead of the whole receive buffer:
    /// for an owner that keeps what it has read in the same memory, such as a relay. What was offered is
    /// not taken back. Not to be used with autotuning, which sets the limit itself.
    pub fn limit_receive_window(&mut self, limit: Bytes) {
        self.window.restrict(limit.0);
        if self.state.is_synchronized() {
            self.offer_window();
        }
    }

    /// What both ends agreed on: nothing, before the peer's SYN has come.
    pub fn agreed(&self) -> Agreed {
        self.agreed
    }

    /// By how much each side's windows are shifted (RFC 7323 §2): zero where not both offered it.
    pub fn window_shifts(&self) -> WindowShifts {
        WindowShifts { own: self.own_shift, peer: self.peer.shift }
    }

    /// What happened since the last call, in the order in which it matters.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop()
    }

    /// Whether an event waits to be polled.
    pub fn has_event(&self) -> bool {
        !self.events.is_empty()
    }

    /// How many bytes a write would take now.
    pub fn writable(&self) -> u64 {
        if !self.state.may_write() || self.close_wanted {
            return 0;
        }
        self.config.send_buffer.0.saturating_sub(self.sender.queue().len())
    }

    /// Queues bytes to send, without copying them; returns how many were taken. Once the buffer is
    /// full, [`Event::Writable`] says when to go on.
    pub fn write(&mut self, mut payload: Payload) -> usize {
        let room = usize::try_from(self.writable()).unwrap_or(usize::MAX);
        self.write_blocked = payload.len() >= room;
        payload.truncate(room);
        let taken = payload.len();
        self.sender.queue_mut().push(payload);
        taken
    }

    /// Whether the peer will send nothing more: what is left to read is the end.
    pub fn peer_has_closed(&self) -> bool {
        self.receiver.is_finished()
    }

    /// How many bytes there are to read.
    pub fn readable(&self) -> u64 {
        self.inbox.len()
    }

    /// The memory that received data takes, in bytes: whole packet buffers, in order and out of order.
    pub fn allocated(&self) -> usize {
        self.inbox.allocated() + self.receiver.allocated()
    }

    /// Reads up to `max` bytes, fewer where they lie in too many slices for one list: an empty list
    /// says that there is nothing more. That opens the window, and where the peer waits for it,
    /// it will be told (RFC 9293 §3.8.6.2.2).
    pub fn read(&mut self, now: Time, max: usize) -> PayloadList {
        let list = self.inbox.gather(self.inbox.start(), max);
        if list.is_empty() {
            return list;
        }
        self.inbox.release(self.inbox.start() + list.len() as u64);
        self.window.on_read(now, list.len() as u64);
        if self.state.is_synchronized() {
            self.offer_window();
        }
        list
    }

    /// Sends nothing more: a FIN follows what was written. What the peer sends can still be read.
    ///
    /// In SYN-SENT the connection is gone at once if nothing was written. If something was, it is
    /// sent first, where RFC 9293 §3.10.4 would drop it: what was taken must not be lost in
    /// silence.
    pub fn close(&mut self, now: Time) {
        match self.state {
            State::SynSent if self.sender.queue().is_empty() => self.end(now, Event::Closed),
            State::SynSent | State::SynReceived => self.close_wanted = true,
            State::Established => self.finish(State::FinWait1),
            State::CloseWait => self.finish(State::LastAck),
            _ => {}
        }
    }

    fn finish(&mut self, state: State) {
        self.sender.finish();
        self.state = state;
    }

    /// Closes, and will not read what still comes: if the peer sends more, it is reset, so that it
    /// knows that the data is lost (RFC 2525 §2.17); if it does not close either, it is waited for
    /// as long as TIME-WAIT lasts and then forgotten.
    pub fn abandon(&mut self, now: Time) {
        self.close(now);
        self.abandoned = true;
        self.refuse_unread(now);
    }

    /// Whether the owner is gone.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned
    }

    fn refuse_unread(&mut self, now: Time) {
        if self.abandoned && self.readable() > 0 && self.state != State::Closed {
            self.abort(now);
        }
    }

    /// Gives the connection up: what is queued is forgotten, and the peer is reset where it does
    /// not yet know that we are done (RFC 9293 §3.10.5).
    pub fn abort(&mut self, now: Time) {
        match self.state {
            State::Closed => {}
            State::TimeWait => self.end(now, Event::Closed),
            _ => self.fail(now, Failure::Aborted),
        }
    }

    /// The connection is no more.
    fn end(&mut self, now: Time, event: Event) {
        self.state = State::Closed;
        self.timers.stop(now);
        self.sender.queue_mut().clear();
        self.receiver.discard();
        self.events.push(event);
    }

    /// Ends the connection, with a reset where the peer should know of it.
    fn fail(&mut self, now: Time, failure: Failure) {
        let tell = matches!(failure, Failure::Aborted | Failure::KeepAlive)
            && matches!(
                self.state,
                State::SynReceived
                    | State::Established
                    | State::FinWait1
                    | State::FinWait2
                    | State::CloseWait
            );
        if tell {
            self.reset = Some(Box::new(self.reset_header()));
        }
        self.inbox.clear();
        self.end(now, Event::Failed(failure));
    }
}

impl Machine for Connection {
    fn handle_packet(&mut self, now: Time, _port: PortId, packet: Packet) {
        match &packet.transport {
            Transport::Tcp(segment) => self.on_segment(now, packet.ip, segment),
            Transport::IcmpError(error) => self.on_icmp(now, packet.ip, error),
            _ => {}
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.on_timeout(now);
    }

    fn poll_transmit(&mut self, now: Time, out: &mut TxBatch) -> bool {
        self.transmit(now, out)
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        self.next_deadline()
    }
}
