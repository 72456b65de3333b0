mod arrival;
mod direction;
mod first_retransmission;
mod info;
mod keep_alive;
mod managed;
mod memory;
mod output;
mod place;
mod put_away;
mod resumed;
mod right_sizing;
mod stepping_out;
mod uploading;

use crate::Policy;
use crate::ack_release::Event;
use crate::aggregate::{AllottedWindow, Upload};
use crate::end::{End, Side};
use crate::handshake::{Agreed, Handshake};
use crate::window_limit::WindowLimit;
use alloc::boxed::Box;
use core::net::SocketAddr;
use core::time::Duration;
use direction::{Direction, Ends, Standing};
use managed::is_managed;
use resumed::Resumed;
use shorthaul_tcp::ChallengeLimit;
use shorthaul_types::{BufferWatch, Deadline, FlowKey, Time};
use shorthaul_wire::TxBatch;
use stepping_out::Sent;

/// Segments that one flow sends before another has its turn.
const TURN: usize = 32;

/// What a flow is told that has its turn to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    /// Bytes that may be held of what the client and the server send, in this order.
    pub windows: [u64; 2],
    /// How late timers are served.
    pub late: Duration,
}

/// What a flow may take when a packet arrives, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// What may be held of what the client and the server send, in this order: they are offered what is left of it.
    pub windows: [u64; 2],
    /// Memory for what they send, whole packet buffers counted.
    pub directions: [u64; 2],
    /// Memory that is free for what they send.
    pub free: [u64; 2],
}

impl Budget {
    /// Memory for what `side` sends: of its direction, and free.
    fn of(self, side: Side) -> Room {
        Room { direction: self.directions[side.index()], free: self.free[side.index()] }
    }
}

/// Memory for what one end sends, in bytes.
#[derive(Clone, Copy, Debug)]
struct Room {
    direction: u64,
    free: u64,
}

/// What became of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It goes on.
    Alive,
    /// Both directions were closed and acknowledged.
    Finished,
    /// An end reset it; the other was told.
    Reset,
    /// An end no longer answers; both were told.
    GivenUp,
    /// A crash of ours lost bytes of it; both were told.
    Lost,
    /// We hold nothing of it and have stepped out.
    SteppedOut,
}

/// A TCP connection that we stand in: two directions, each a [`Receiver`](shorthaul_tcp::Receiver) toward the one end and a
/// [`Sender`](shorthaul_tcp::Sender) toward the other around one buffer, in the ends' own sequence numbers.
#[derive(Debug)]
pub struct SplitFlow {
    key: FlowKey,
    ends: [End; 2],
    directions: [Direction; 2],
    agreed: Agreed,
    opened: Time,
    draining: bool,
    /// Behind the last byte that passed of what each end sends, whatever was missing before it.
    passed_most: [u64; 2],
    /// What each end has sent at least.
    sent: [Sent; 2],
    rejected: Rejected,
    /// How many segments in a row that came for each end's were none; more than there were, of an end of which nothing was taken yet.
    strays: [u8; 2],
    /// How often each end is answered that sends what cannot be taken.
    challenges: [ChallengeLimit; 2],
    /// The end that is a mobile host whose aggregate governs what is sent to it.
    managed: Option<Side>,
    /// What its wired sender is allotted, where a congestion manager governs it.
    allotted: Option<AllottedWindow>,
    /// What the mobile host sends, where that is limited.
    upload: Option<Box<Upload>>,
    /// What its wired sender sends, where that may be limited.
    download: Option<Box<Upload>>,
    /// A predecessor left it.
    resumed: Option<Box<Resumed>>,
    /// The timestamp of what has arrived from the mobile host, until its aggregate takes it.
    stamp: Option<u32>,
    /// Where that is noted: how long each direction had nothing to send, and how long no window of its receiver.
    watches: Option<Box<[BufferWatch; 2]>>,
}

/// Segments that were not taken, since they were last asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rejected {
    /// Outside of what the connection can hold, or old duplicates.
    pub unacceptable: u64,
    /// Resets that were not exactly where one must be.
    pub challenged: u64,
    /// Answers that were left out.
    pub suppressed: u64,
}

impl SplitFlow {
    /// Steps in, when the handshake is complete; `None` if the server has not been heard.
    pub(crate) fn step_in(now: Time, handshake: Handshake, policy: &Policy) -> Option<Self> {
        let Handshake { client, server, agreed, syn_at, syn_ack_at, ambiguous, .. } = handshake;
        let server = server?;
        let key = FlowKey {
            src: SocketAddr::new(client.ip.src(), client.port),
            dst: SocketAddr::new(server.ip.src(), server.port),
        };
        let ends = [client, server];
        let directions = Side::BOTH.map(|side| {
            let both = Ends { from: &ends[side.index()], to: &ends[side.other().index()] };
            // The window of a SYN-ACK is not scaled (RFC 7323 §2.2); the client's comes with its ACK.
            let edge = 1 + u64::from(both.to.window);
            let standing =
                Standing { next: 1, edge, delivered: 1, peer_edge: edge, ts_recent: both.from.ts_val };
            Direction::new(now, both, &agreed, policy, is_managed(&ends, side.other(), policy), standing)
        });
        let mut flow = SplitFlow {
            key,
            managed: Side::BOTH.into_iter().find(|side| is_managed(&ends, *side, policy)),
            ends,
            directions,
            agreed,
            opened: now,
            draining: false,
            passed_most: [0; 2],
            sent: [Sent { end: 1, since: now }; 2],
            rejected: Rejected::default(),
            strays: [arrival::MOST_STRAYS - arrival::FIRST_STRAYS; 2],
            challenges: Default::default(),
            allotted: policy.aggregate.is_some().then(AllottedWindow::default), // none until its aggregate says how much
            upload: None,
            download: None,
            resumed: None,
            stamp: None,
            watches: None,
        };
        if let Some(aggregate) = &policy.aggregate {
            flow.limit(now, syn_ack_at, aggregate);
        }
        let to_server = syn_ack_at.saturating_since(syn_at);
        let to_client = now.saturating_since(syn_ack_at);
        let measured = [(Side::Client, to_server), (Side::Server, to_client)];
        for ((side, rtt), ambiguous) in measured.into_iter().zip(ambiguous) {
            let sender = &mut flow.directions[side.index()].sender;
            if ambiguous {
                sender.on_syn_retransmitted();
            } else if rtt > Duration::ZERO {
                sender.on_rtt_sample(now, rtt);
            }
        }
        Some(flow)
    }

    /// Notes from now on how long its directions have nothing to send, and how long no window.
    pub(crate) fn watch_buffers(&mut self) {
        self.watches = Some(Box::default());
    }

    /// What was not taken since the last call.
    pub(crate) fn take_rejected(&mut self) -> Rejected {
        core::mem::take(&mut self.rejected)
    }

    /// From the client to the server.
    pub fn key(&self) -> FlowKey {
        self.key
    }

    /// Memory held of what the client and the server send, in this order, in bytes.
    pub(crate) fn allocated(&self) -> [usize; 2] {
        let of = |d: &Direction| d.sender.queue().allocated() + d.receiver.allocated();
        [of(&self.directions[0]), of(&self.directions[1])]
    }

    /// Memory held of what the client and the server send, in this order, with what it takes to know what is under way.
    pub(crate) fn memory(&self) -> [usize; 2] {
        let of = |d: &Direction| {
            d.sender.queue().allocated() + d.receiver.allocated() + d.sender.scoreboard().allocated()
        };
        [of(&self.directions[0]), of(&self.directions[1])]
    }

    /// How much may be held of what the client and the server send, in this order, by what their paths need.
    pub(crate) fn buffers(&self) -> [u64; 2] {
        [self.directions[0].buffer.size(), self.directions[1].buffer.size()]
    }

    /// Whether bytes are held that their sender believes delivered.
    pub fn holds_bytes(&self) -> bool {
        self.directions.iter().any(|d| !d.sender.queue().is_empty())
    }

    /// Whether nothing is held or under way: it would not notice if it were stepped out of.
    pub(crate) fn is_idle(&self) -> bool {
        !self.owes_bytes()
            && !self.is_unheard()
            && self.directions.iter().all(|d| d.sender.is_idle() && !d.owes_ack())
    }

    /// Answers an end that has sent what cannot be taken, so that it knows what could: but not without end (RFC 5961 §7).
    fn challenge(&mut self, now: Time, side: Side) {
        if self.challenges[side.index()].admits(now) {
            self.directions[side.index()].receiver.request_ack();
        } else {
            self.rejected.suppressed += 1;
        }
    }

    /// Offers each end what there is room for, where this much may be held of what it sends.
    fn offer_windows(&mut self, buffers: [u64; 2]) {
        for side in Side::BOTH {
            let direction = &mut self.directions[side.index()];
            if direction.receiver.is_finished() {
                continue;
            }
            let (occupancy, mut room) = direction.bound(buffers[side.index()]);
            // What the aggregate of the host says of what is sent to it, and of what it sends.
            if let Some(allotted) = self.allotted.as_mut().filter(|_| self.managed == Some(side.other())) {
                room = allotted.bound(&occupancy, room);
            }
            if let Some(upload) = self.upload.as_deref_mut().filter(|_| self.managed == Some(side)) {
                room = upload.bound(&occupancy, room);
            }
            if let Some(download) =
                self.download.as_deref_mut().filter(|_| self.managed == Some(side.other()))
            {
                room = download.bound(&occupancy, room);
            }
            // Less than a window field can say (RFC 7323 §2.3) would be nothing, and nothing held means that nothing would change
            // that. A unit more, for the edge moves by segments.
            let shift =
                if self.agreed.window_scaling { self.ends[side.other().index()].window_shift } else { 0 };
            if room > 0 && occupancy.held == 0 {
                room = room.max(2 << shift);
            }
            direction.receiver.offer(room);
        }
    }

    /// Timers may have fired.
    pub(crate) fn on_timeout(&mut self, now: Time, out: &mut TxBatch) -> Fate {
        for direction in &mut self.directions {
            direction.sender.on_timeout(now);
            direction.on_event(now, Event::Timeout);
        }
        if self.directions.iter().any(|d| d.sender.has_given_up()) {
            return self.reset_both(out);
        }
        self.ask(now, out)
    }

    /// Ends the flow with a reset to both ends.
    pub(crate) fn reset_both(&mut self, out: &mut TxBatch) -> Fate {
        for side in Side::BOTH {
            out.push(self.reset_toward(side));
        }
        Fate::GivenUp
    }

    /// When a timer falls due next.
    pub(crate) fn poll_timeout(&self) -> Option<Deadline> {
        let own = Deadline::earliest(self.next_question(), self.next_look());
        self.directions.iter().map(Direction::poll_timeout).fold(own, Deadline::earliest)
    }

    /// Puts out what may leave now, at most a turn's worth; returns whether there may be more.
    pub(crate) fn poll_transmit(&mut self, now: Time, turn: Turn, out: &mut TxBatch) -> (bool, Fate) {
        if !self.draining {
            self.offer_windows(turn.windows);
        }
        let mut more = false;
        for side in Side::BOTH {
            let (near, far) = (side.index(), side.other().index());
            let direction = &self.directions[near];
            if direction.wants_ack(now) && !direction.sack_ranges().is_empty() {
                out.push(self.acknowledge(now, side));
            }
            self.directions[far].sender.set_lateness(turn.late);
            let mut turns = TURN;
            while turns > 0 {
                let Some(outgoing) = self.directions[far].sender.poll_segment(now) else { break };
                self.send_data(now, side, outgoing, out);
                turns -= 1;
            }
            let direction = &mut self.directions[far];
            direction.on_event(now, Event::Polled { under_way: direction.sender.in_flight() > 0 });
            more |= turns == 0;
            // datagrams out of order are acknowledged one by one: their sender counts
            while self.directions[near].wants_ack(now) {
                out.push(self.acknowledge(now, side));
            }
        }
        if let Some(watches) = self.watches.as_deref_mut() {
            self.directions.iter().zip(watches).for_each(|(direction, watch)| direction.look(now, watch));
        }
        let over = self.directions.iter().all(|d| d.sender.is_finished());
        let fate = if over && !more { Fate::Finished } else { self.drained(now) };
        (more, fate)
    }
}

#[cfg(test)]
impl SplitFlow {
    /// What a direction takes beside its receiver and its sender.
    pub(crate) fn bytes_of_parts() -> usize {
        size_of::<Direction>() - size_of::<shorthaul_tcp::Receiver>() - size_of::<shorthaul_tcp::Sender>()
    }
}
