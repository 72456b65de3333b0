//! What one end sends: we receive it from that end and send it to the other.
use super::first_retransmission::FirstRetransmission;
use super::managed::managed_by_aggregate;
use super::right_sizing::RightSizing;
use crate::ack_release::{AckOptions, AckRelease, Event, Opening, SackRanges};
use crate::end::End;
use crate::handshake::Agreed;
use crate::window_limit::{Buffer, Occupancy, WindowLimit, WindowUpdate};
use crate::{LegConfig, Policy, SenderControl};
use alloc::boxed::Box;
use shorthaul_tcp::{AckPolicy, ProbedPeer, Receiver, Sender, SenderStart};
use shorthaul_types::{BufferWatch, Deadline, Level, PortId, Time};

/// A [`Receiver`] toward the one end and a [`Sender`] toward the other around one buffer, with the parts that say when
/// the one end is acknowledged and how much it is offered.
#[derive(Debug)]
pub(super) struct Direction {
    pub receiver: Receiver,
    pub sender: Sender,
    /// A keep-alive probe of the receiving end was passed through this flow and is unanswered.
    pub keep_alive: bool,
    /// A packet of it was marked (CE): say so until the end has slowed down (RFC 3168 §6.1.3).
    pub echo_congestion: bool,
    /// Up to where its sender is acknowledged; `None`: what has come.
    pub release: Option<Box<dyn AckRelease>>,
    /// Bounds on what its sender is offered, besides memory.
    limits: Box<[Limit]>,
    pub first_retransmission: Option<FirstRetransmission>,
    /// How much of it may be held.
    pub buffer: RightSizing,
    /// Up to where the store of what survives a crash was told of its bytes.
    pub kept: u64,
}

/// Where a direction begins; offsets are of its stream.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Standing {
    /// The first byte that its sender is expected to send, and the right edge of what it was offered.
    pub next: u64,
    pub edge: u64,
    /// The first byte that its receiver has not acknowledged, and the right edge of what it offers.
    pub delivered: u64,
    pub peer_edge: u64,
    /// The timestamp to echo.
    pub ts_recent: Option<u32>,
}

/// A bound on what the sender of a direction is offered.
#[derive(Debug)]
struct Limit {
    part: Box<dyn WindowLimit>,
    /// It has closed the window.
    closed: bool,
}

/// The ends of a direction.
#[derive(Clone, Copy)]
pub(super) struct Ends<'a> {
    pub from: &'a End,
    pub to: &'a End,
}

impl Direction {
    /// What `from` sends to `to`, from there on.
    pub fn new(
        now: Time,
        Ends { from, to }: Ends<'_>,
        agreed: &Agreed,
        policy: &Policy,
        managed: bool,
        standing: Standing,
    ) -> Self {
        let leg = |end: &End| -> &LegConfig {
            if end.attachment == PortId(0) { &policy.access } else { &policy.wan }
        };
        let options = if agreed.timestamps { 12 } else { 0 };
        let out = leg(to);
        let room = out.mtu.saturating_sub(to.ip.len() as u32 + 20).max(88);
        let mss = u32::from(from.mss.min(to.mss)).min(room) - options;
        let start = SenderStart {
            now,
            mss,
            sack: agreed.sack,
            // We stand in for an end that has agreed to nothing.
            peer: if agreed.sack { ProbedPeer::SendsDSack } else { ProbedPeer::Plain },
            syn_retransmissions: 0,
            // Differs from flow to flow, and is the same when a recording is replayed.
            isn: from.space.seq(0),
        };
        let sender = out.sender.sender(&start);
        let params = out.sender.control_params(&start);
        let sender = if managed { managed_by_aggregate(sender, params) } else { sender };
        let plain = SenderControl::default();
        let control = if to.attachment == PortId(0) { &policy.senders } else { &plain };
        let ack = if control.ack.is_none() { leg(from).sender.ack } else { AckPolicy::ByOwner };
        let mut receiver = Receiver::new(standing.next, standing.edge, mss, ack);
        if let Some(val) = standing.ts_recent.filter(|_| agreed.timestamps) {
            receiver.set_ts_recent(now, val);
        }
        let opening = Opening { now, next: standing.next, mss, ts_recent: receiver.ts_recent() };
        Direction {
            receiver,
            sender: Sender::new(now, standing.delivered, standing.peer_edge.max(standing.delivered), sender),
            keep_alive: false,
            echo_congestion: false,
            release: control.ack.as_ref().map(|kind| kind.open(&opening)),
            limits: control
                .window
                .iter()
                .map(|kind| Limit { part: kind.open(&opening), closed: false })
                .collect(),
            first_retransmission: None,
            // Parts that say what is held, or acknowledged, by themselves are told that they have all of it.
            buffer: if control.ack.is_some() || !control.window.is_empty() {
                RightSizing::fixed()
            } else {
                RightSizing::new(now)
            },
            kept: standing.next.min(standing.delivered),
        }
    }

    /// Something happened: the parts are told.
    pub fn on_event(&mut self, now: Time, event: Event) {
        if let Some(release) = &mut self.release {
            release.on_event(now, event);
        }
        for limit in &mut self.limits {
            if let Some(update) = limit.part.on_event(now, event) {
                limit.closed = update == WindowUpdate::Closed;
                self.receiver.request_ack();
                if let (true, Some(release)) = (limit.closed, &mut self.release) {
                    release.on_event(now, Event::WindowClosed);
                }
            }
        }
    }

    /// How much its sender may be offered beyond what has come in order, where `buffer` bytes may be held.
    pub fn bound(&mut self, buffer: u64) -> (Occupancy, u64) {
        let queue = self.sender.queue();
        let occupancy = Occupancy {
            held: queue.len().max((queue.allocated() + self.receiver.allocated()) as u64 / 2),
            unsent: self.sender.unsent(),
            early: self.receiver.early(),
        };
        let memory = Buffer { size: buffer }.bound(&occupancy, u64::MAX);
        let room = self.limits.iter_mut().fold(memory, |room, limit| limit.part.bound(&occupancy, room));
        (occupancy, room)
    }

    /// Whether nothing but what has come says when its sender is acknowledged, and nothing but memory how much it is offered.
    pub fn has_no_parts(&self) -> bool {
        self.release.is_none() && self.limits.is_empty()
    }

    /// Nothing but memory bounds its sender from now on. A window that was closed opens.
    pub fn lift_limits(&mut self) {
        if core::mem::take(&mut self.limits).iter().any(|limit| limit.closed) {
            self.receiver.request_ack();
        }
    }

    /// Notes what keeps it from sending, after a turn.
    pub fn look(&self, now: Time, watch: &mut BufferWatch) {
        if self.sender.nxt() <= 1 {
            return; // there was nothing but a SYN
        }
        watch.begin(now);
        if self.receiver.is_finished() {
            watch.end(now);
        } else if self.sender.is_starved() {
            watch.set(now, Level::Empty);
        } else if self.sender.is_held_back() {
            watch.set(now, Level::Full);
        } else {
            watch.set(now, Level::Between);
        }
    }

    /// When a timer falls due next.
    pub fn poll_timeout(&self) -> Option<Deadline> {
        let earliest = Deadline::earliest(self.sender.poll_timeout(), self.receiver.poll_timeout());
        let release = self.release.as_ref().and_then(|release| release.poll_timeout());
        let limits = self.limits.iter().map(|limit| limit.part.poll_timeout());
        limits.fold(Deadline::earliest(earliest, release), Deadline::earliest)
    }

    /// Up to where its sender is acknowledged.
    pub fn ack(&self) -> u64 {
        match &self.release {
            Some(release) if release.released() < self.receiver.data_end() => release.released(),
            _ => self.receiver.ack(),
        }
    }

    /// The window that its sender is offered, from there on.
    pub fn window(&self) -> u64 {
        if self.limits.iter().any(|limit| limit.closed) {
            return 0;
        }
        self.receiver.edge().saturating_sub(self.ack())
    }

    /// Whether something was received of which its sender has not heard yet.
    pub fn owes_ack(&self) -> bool {
        self.ack() < self.receiver.data_end()
    }

    /// Whether an acknowledgment is due.
    pub fn wants_ack(&self, now: Time) -> bool {
        self.receiver.wants_ack(now) || self.release.as_ref().is_some_and(|release| release.wants_ack())
    }

    /// What a SACK option says.
    pub fn sack_ranges(&self) -> SackRanges {
        match &self.release {
            Some(release) => self.held_back(&**release).sack,
            None => self.receiver.sack_ranges(),
        }
    }

    /// The timestamp to echo.
    pub fn ts_recent(&self) -> Option<u32> {
        match &self.release {
            Some(release) => self.held_back(&**release).ts_recent,
            None => self.receiver.ts_recent(),
        }
    }

    fn held_back(&self, release: &dyn AckRelease) -> AckOptions {
        let Direction { receiver, .. } = self;
        let received = AckOptions { sack: receiver.sack_ranges(), ts_recent: receiver.ts_recent() };
        release.options(received, receiver.data_end())
    }

    /// An acknowledgment left.
    pub fn on_ack_sent(&mut self, now: Time, with_data: bool) {
        self.receiver.on_ack_sent();
        self.on_event(now, Event::AckSent { with_data });
    }
}
