//! The network is whole and the peer behaves from now on: what was written arrives, what was sent is
//! read, both ends close, and the host forgets the connection.

use super::World;
use super::peer::Peer;
use shorthaul_tcp::{Event, Failure, State};
use shorthaul_wire::{Machine, TcpFlags};
use std::time::Duration;

/// Without any progress in so many turns of the peer, a connection is stuck.
const STUCK_AFTER: u32 = 100;
/// After so many timeouts in a row, the next one is the end.
const LAST_TIMEOUT: u32 = 15;
/// Nothing takes so many turns, however small the segments and the windows.
const ENDLESS: u32 = 100_000;

impl World {
    /// Lets the peer and the owner behave, until all has arrived and both have closed.
    pub fn heal(&mut self) {
        self.deaf = false;
        self.flush();
        if !self.is_alive() {
            return self.check_forgotten();
        }
        let goal = self.goal();
        // It has sent for the last time already, into the void.
        let worn_out = self.connection().is_some_and(|it| it.sender().rtt().backoff() >= LAST_TIMEOUT);
        let (mut stalled, mut best) = (0, 0);
        for turn in 0.. {
            self.read(usize::MAX);
            if !self.is_alive() || self.is_whole(goal) {
                break;
            }
            let progress = self.peer.acknowledged + self.read + self.peer.got + self.peer.seen;
            stalled = if progress > best { 0 } else { stalled + 1 };
            best = best.max(progress);
            assert!(stalled < STUCK_AFTER && turn < ENDLESS, "stuck: {}", self.describe());
            self.take_turn(goal);
            // Where the round trips of before seem to last many seconds, so may repairing a loss.
            let failed = self.failure.is_some_and(|failure| failure != Failure::UserTimeout);
            assert!(!failed || worn_out, "it failed: {:?}", self.failure);
        }
        self.close();
    }

    /// Up to where the peer's stream must arrive: all that it sent without a gap, up to the first
    /// place where it closed, and in any case what was acknowledged to it.
    fn goal(&self) -> u64 {
        let open = self.peer.fins.first().copied().unwrap_or(u64::MAX);
        self.peer.contents.next.min(open).max(self.peer.acknowledged)
    }

    fn is_whole(&self, goal: u64) -> bool {
        let sent = self.written + 1 + u64::from(self.closed);
        self.peer.acknowledged >= goal && self.told() >= sent
    }

    /// Up to where the endpoint knows that the peer has its stream.
    fn told(&self) -> u64 {
        self.connection().map_or(u64::MAX, |connection| connection.sender().una())
    }

    /// The peer retransmits what is not acknowledged, acknowledges what it has, and time passes.
    fn take_turn(&mut self, goal: u64) {
        let peer = &mut self.peer;
        peer.clock = peer.clock.wrapping_add(1);
        let from = peer.acknowledged.max(1);
        let to = peer.edge.min(goal).min(from + 60_000);
        if to > from {
            self.peer_sends(from, to - from, TcpFlags::ACK);
        }
        self.peer_sends(self.peer.furthest, 0, TcpFlags::ACK);
        if self.peer.edge <= from && from < goal {
            self.peer_sends(from - 1, 0, TcpFlags::ACK); // an old segment draws an answer
        }
        self.rest();
    }

    /// Time passes up to the next deadline.
    fn rest(&mut self) {
        self.flush();
        let soon = self.now + Duration::from_millis(50);
        let next = self.host.poll_timeout().map_or(soon, |deadline| deadline.at);
        self.wait_until(next.max(self.now + Duration::from_millis(1)));
    }

    /// Whether the connection is neither over nor forgotten.
    pub fn is_alive(&self) -> bool {
        self.connection().is_some_and(|connection| connection.state() != State::Closed)
    }

    fn close(&mut self) {
        let peer = &self.peer;
        // A peer that has said contradictory things about its end cannot be brought to a good one.
        let plain =
            peer.fins.iter().all(|&fin| fin == peer.contents.next) && peer.furthest <= peer.contents.next + 1;
        let now = self.now;
        if let Some(connection) = self.connection_mut() {
            if plain {
                connection.close(now);
            } else {
                connection.abort(now);
            }
            self.closed = true;
            self.aborted |= !plain;
        }
        for _ in 0..STUCK_AFTER {
            if !self.is_alive() {
                return self.check_forgotten();
            }
            self.read(usize::MAX);
            let (next, acknowledged) = (self.peer.contents.next, self.peer.acknowledged);
            if acknowledged <= next {
                self.peer_sends(next, 0, TcpFlags::ACK | TcpFlags::FIN);
            } else {
                self.peer_sends(next + 1, 0, TcpFlags::ACK);
            }
            self.rest();
        }
        panic!("not closed: {}", self.describe());
    }

    /// Nothing is left of the connection, and of the time that it took.
    fn check_forgotten(&mut self) {
        self.read(usize::MAX);
        self.flush();
        let told = self.released || self.failure.is_some() || self.heard_end;
        assert!(told, "the owner was not told of the end: {}", self.describe());
        self.flush(); // what was told now may be forgotten
        self.check_nothing_is_left();
    }

    /// The host has no connections, and all deadlines pass.
    pub fn check_nothing_is_left(&mut self) {
        let left = self.host.connections().count();
        assert_eq!(left, 0, "{left} connections are not forgotten: {}", self.describe());
        for _ in 0..ENDLESS {
            let Some(deadline) = self.host.poll_timeout() else { return };
            self.wait_until(deadline.at.max(self.now));
        }
        panic!("deadlines without end");
    }

    /// Leaves the host to itself: nobody answers any more, and the owner is gone.
    pub fn leave(&mut self) {
        self.release();
        for _ in 0..ENDLESS {
            self.flush();
            while let Some(id) = self.host.poll_accept() {
                self.host.release(self.now, id);
            }
            while self.host.poll_event().is_some() {}
            self.poll();
            let Some(deadline) = self.host.poll_timeout() else { return self.check_nothing_is_left() };
            self.wait_until(deadline.at.max(self.now));
        }
        panic!("deadlines without end");
    }

    fn describe(&self) -> String {
        let Peer { contents, furthest, acknowledged, edge, fins, got, seen, advertised, .. } = &self.peer;
        let connection = self.connection();
        let state = connection.map(|connection| connection.state());
        format!(
            "peer: next {} furthest {furthest} acknowledged {acknowledged} edge {edge} fins {fins:?}, \
             got {got} seen {seen} advertised {advertised}; written {} closed {} read {}; {state:?}, at {}, due {:?}\n\
             {:#?}",
            contents.next,
            self.written,
            self.closed,
            self.read,
            self.now,
            self.host.poll_timeout(),
            connection.map(|connection| (connection.sender(), connection.receiver())),
        )
    }

    /// Takes what the host has to say about the connection.
    pub fn hear(&mut self) {
        while let Some((id, event)) = self.host.poll_event() {
            if Some(id) != self.id {
                continue;
            }
            match event {
                Event::Closed => self.heard_end = true,
                Event::Failed(failure) => self.failure = Some(failure),
                _ => {}
            }
        }
    }
}
