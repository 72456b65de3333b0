//! How a host's memory is shared out among its connections: what may be promised, and what is taken. As much as there is for what is sent to a host,
//! there is for what it sends.
use super::served::FIRST_WINDOW;
use super::{Member, Served};
use crate::shares::MEMORY_PER_BYTE;

/// A host is expected to have this many connections.
const EXPECTED: usize = 8;
/// A host has so many times the largest buffer that one of its connections needs, and this at least, in bytes: with all that it may have,
/// the many connections of one that needs less would fill more. More than this it has of half of the memory, which leaves the others a half.
const BUFFERS: u64 = 4;
const USUAL: u64 = 16 << 20;

/// Memory for the connections of one host, in bytes.
#[derive(Debug, Default)]
pub(crate) struct HostMemory {
    /// For what is sent to it.
    pub to: Ledger,
    /// For what it sends.
    pub from: Ledger,
    /// The largest buffer that one of them needed, in bytes.
    needed: u64,
}

/// What is held in one direction, of all connections of a host, and what was promised.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// What is held of all.
    pub held: usize,
    /// What is needed for all that the senders of active connections were promised room for.
    active: u64,
    /// The same of those that are idle.
    idle: u64,
}

/// A connection's part in that.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Account {
    /// Memory that is held of it.
    pub held: usize,
    /// Memory for what is held of it and what its sender may still send, in bytes.
    pub promise: Promise,
}

shorthaul_types::keeps!(Account { held, promise });

/// What of a host's memory is needed for what one connection was promised.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Promise {
    bytes: u64,
    idle: bool,
}

shorthaul_types::keeps!(Promise { bytes, idle });

impl Promise {
    /// How much.
    pub fn bytes(self) -> u64 {
        self.bytes
    }
}

/// Of a host's memory, the part that is set aside for connections that are idle.
///
/// What they were offered cannot be taken back, and a hundred of them would take all. But hardly ever do all begin at once; if they do, what does
/// not fit is not taken, and sent again.
const IDLE_PART: u64 = 4;

impl HostMemory {
    /// One of its connections needs buffers of these sizes.
    pub(super) fn needs(&mut self, buffers: [u64; 2]) {
        self.needed = self.needed.max(buffers[0]).max(buffers[1]);
    }
}

impl Ledger {
    /// So much is held of a connection.
    pub(super) fn hold(&mut self, account: &mut Account, held: usize) {
        self.held = self.held - account.held + held;
        account.held = held;
    }

    /// The sender of a connection may have so many bytes held.
    pub(super) fn promise(&mut self, account: &mut Account, bytes: u64, idle: bool) {
        let bytes = (MEMORY_PER_BYTE * bytes).max(account.held as u64);
        self.set(&mut account.promise, Promise { bytes, idle });
    }

    /// A connection is gone.
    pub(super) fn leave(&mut self, account: &mut Account) {
        self.hold(account, 0);
        self.set(&mut account.promise, Promise::default());
    }

    fn set(&mut self, promise: &mut Promise, new: Promise) {
        *self.sum(promise.idle) -= promise.bytes;
        *self.sum(new.idle) += new.bytes;
        *promise = new;
    }

    fn sum(&mut self, idle: bool) -> &mut u64 {
        if idle { &mut self.idle } else { &mut self.active }
    }

    /// What is set aside of `all` for connections but for the one with this promise.
    fn set_aside(&self, all: u64, own: Promise) -> u64 {
        let (active, idle) = match own.idle {
            true => (self.active, self.idle - own.bytes),
            false => (self.active - own.bytes, self.idle),
        };
        active + idle.min(all / IDLE_PART)
    }
}

impl Served<'_> {
    /// What may be held of the host.
    fn most(&self) -> u64 {
        let most = self.aggregate.config.host_buffer.0.min((self.memory / 2).max(USUAL));
        BUFFERS.saturating_mul(self.host.memory.needed).max(USUAL).min(most)
    }

    /// The largest window that a connection's sender can be offered, counted from what has left: for that, and for what is on
    /// its way to the host, there is memory.
    pub(super) fn most_for(&self, member: &Member, mss: u32) -> u64 {
        self.most_with(member.to.promise, member.in_flight, mss)
    }

    /// The same for a connection with this promise.
    pub(super) fn most_with(&self, own: Promise, in_flight: u64, mss: u32) -> u64 {
        let part = self.part(&self.host.memory.to, own);
        part.saturating_sub(in_flight).max(self.least(mss))
    }

    /// The largest window that the host can be offered for what it sends by a connection, counted from what has arrived at the other end.
    pub fn most_from(&self, member: &Member) -> u64 {
        let part = self.part(&self.host.memory.from, member.from.promise);
        // Who sends nothing needs no more than what he begins with: all may begin at once.
        let part = if member.from.held > 0 { part } else { part.min(FIRST_WINDOW) };
        part.max(self.least(self.aggregate.mss))
    }

    /// Bytes that can be promised to a connection with this promise: twice what is left beside the others, so that
    /// whoever comes later finds a part that is half of any other's (a dynamic threshold, Choudhury and Hahne 1998).
    fn part(&self, ledger: &Ledger, own: Promise) -> u64 {
        let all = self.most();
        all.saturating_sub(ledger.set_aside(all, own)) / 3 * 2 / MEMORY_PER_BYTE
    }

    /// Everybody has at least this: a window that closes before anything was sent would never be opened again.
    fn least(&self, mss: u32) -> u64 {
        (2 * u64::from(mss)).min(self.half().1 / MEMORY_PER_BYTE)
    }

    /// Memory that is left for what a connection sends to the host, in bytes. What we offered is taken. Of what the host itself had
    /// advertised, before we did, half of the memory takes what comes first, and of the other half each has its part, so
    /// that those whose peers do not read leave something to the others. Nobody has more than is there, but for a segment, which
    /// everybody may have.
    pub fn room_for(&self, member: &Member) -> u64 {
        self.room(&self.host.memory.to, &member.to, member.offered_more)
    }

    /// The same for what the host sends by a connection.
    pub fn room_from(&self, member: &Member) -> u64 {
        self.room(&self.host.memory.from, &member.from, true)
    }

    fn room(&self, ledger: &Ledger, account: &Account, offered_more: bool) -> u64 {
        let (all, own) = (ledger.held as u64, account.held as u64);
        let (half, part) = self.half();
        let promised = if offered_more { account.promise.bytes().saturating_sub(own) } else { 0 };
        let room = promised.max(half.saturating_sub(all)).max(part.saturating_sub(own));
        let segment = if own == 0 { MEMORY_PER_BYTE * u64::from(self.aggregate.mss) } else { 0 };
        room.min(self.most().saturating_sub(all)).max(segment)
    }

    /// Half of a host's memory, and the part that each connection has of that: no more than if there were some others, which
    /// may still come.
    fn half(&self) -> (u64, u64) {
        let half = self.most() / 2;
        (half, half / self.host.members.len().max(EXPECTED) as u64)
    }
}
