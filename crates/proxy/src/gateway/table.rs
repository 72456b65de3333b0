//! The table of flows: who is in it, when each is called again, and what it may take.
use super::Gateway;
use super::gain::Compared;
use super::half_open::HalfOpen;
use super::index::{Ends, Index};
use crate::access_side::Place;
use crate::aggregate::Member;
use crate::end::Side;
use crate::handshake::Handshake;
use crate::put_away::Packed;
use crate::shares::{Holder, LEAST_ROOM, NO_SHARE, Supply};
use crate::split_flow::{Budget, Fate, SplitFlow};
use crate::whole_flow::WholeFlow;
use crate::{Custody, HostPrefix};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;
use shorthaul_tcp::Timers;
use shorthaul_types::{FlowKey, PortId, Time};
use shorthaul_wire::Packet;

/// In how many steps the whole table is looked through for idle flows in one idle timeout, at least,
pub(super) const SWEEPS: u32 = 64;
/// and how many places are looked at in one, at most.
pub(super) const A_SWEEP: usize = 512;
/// Memory is short for long when it has been for this time.
const SHORT: Duration = Duration::from_secs(1);
/// Of the last one of so many parts of the table, hosts get something that have few flows.
const CROWDED: usize = 4;

/// What stage a flow is in.
#[derive(Debug)]
pub(super) enum Phase {
    Opening(Box<Handshake>),
    Split(Box<SplitFlow>),
    /// It stays whole.
    Whole(Box<WholeFlow>),
    /// It is split and says nothing: what is known of it.
    Away(Packed),
    /// Between two phases.
    Closed,
}

/// A flow in the table.
#[derive(Debug)]
pub(super) struct Entry {
    pub phase: Phase,
    pub ends: Ends,
    /// Its policy, by its place in the list.
    pub policy: u16,
    pub since: Time,
    pub last_active: Time,
    /// The deadline that is in the heap, if one is.
    pub armed: Option<Time>,
    pub ready: bool,
    pub custody_due: bool,
    /// It is among those that are looked at whether they say nothing.
    pub is_looked_at: bool,
    /// The store of what survives a crash has no room for some of its bytes.
    pub is_short_of_custody: bool,
    /// Tells it from others that have its slot at other times.
    pub serial: u64,
    /// Of what the client and the server send, in this order.
    pub allocated: [usize; 2],
    /// Where the shares in the memory are of the client and the server, in this order.
    pub shares: [u32; 2],
    /// Its handshake is complete.
    pub is_open: bool,
    /// What it shares with other flows of its host, if anything.
    pub place: Option<Box<Place>>,
    /// What it is to the comparison of what is split with what is not, if anything.
    pub compared: Option<Compared>,
}

impl Entry {
    /// From the client to the server.
    pub fn key(&self) -> FlowKey {
        self.ends.key()
    }

    /// The host whose aggregate serves it.
    pub fn member_of(&self) -> Option<u32> {
        Some(self.member()?.host)
    }

    /// Its part in the aggregate of its host.
    pub fn member(&self) -> Option<&Member> {
        self.place.as_ref()?.member.as_deref()
    }

    /// A split flow with its part in the aggregate of its host.
    pub fn aggregated(&mut self) -> Option<(&mut SplitFlow, &mut Member)> {
        match (&mut self.phase, &mut self.place) {
            (Phase::Split(flow), Some(place)) => Some((flow, place.member.as_deref_mut()?)),
            _ => None,
        }
    }
}

/// The flows of a gateway, in slots that are used again.
#[derive(Debug)]
pub(super) struct Table {
    by_ends: Index,
    pub entries: Vec<Option<Entry>>,
    free: Vec<u32>,
    pub timers: Timers,
    /// Flows that may have something to send.
    pub ready: VecDeque<u32>,
    pub half_open: HalfOpen,
}

impl Table {
    pub fn new(hash_seed: u64) -> Self {
        Table {
            by_ends: Index::new(hash_seed),
            entries: Vec::new(),
            free: Vec::new(),
            timers: Timers::default(),
            ready: VecDeque::new(),
            half_open: HalfOpen::default(),
        }
    }

    pub fn len(&self) -> usize {
        self.by_ends.len()
    }

    pub fn find(&self, key: FlowKey) -> Option<u32> {
        self.by_ends.find(key, |index| self.get(index).map(|entry| &entry.ends))
    }

    pub fn get(&self, index: u32) -> Option<&Entry> {
        self.entries.get(index as usize)?.as_ref()
    }

    pub fn get_mut(&mut self, index: u32) -> Option<&mut Entry> {
        self.entries.get_mut(index as usize)?.as_mut()
    }

    /// A split flow with its part in the aggregate of its host.
    pub fn aggregated(&mut self, index: u32) -> Option<(&mut SplitFlow, &mut Member)> {
        self.get_mut(index)?.aggregated()
    }

    /// The slot that the next flow gets.
    pub fn next_slot(&self) -> u32 {
        self.free.last().copied().unwrap_or(self.entries.len() as u32)
    }

    fn insert(&mut self, entry: Entry) -> u32 {
        let key = entry.key();
        let index = match self.free.pop() {
            Some(index) => {
                self.entries[index as usize] = Some(entry);
                index
            }
            None => {
                self.entries.push(Some(entry));
                self.entries.len() as u32 - 1
            }
        };
        let entries = &self.entries;
        self.by_ends.insert(key, index, |other| Some(&entries.get(other as usize)?.as_ref()?.ends));
        index
    }

    fn remove(&mut self, index: u32) -> Option<Entry> {
        let entry = self.entries[index as usize].take()?;
        self.by_ends.remove(entry.key(), index);
        self.free.push(index);
        Some(entry)
    }

    /// The flow is to be polled.
    pub fn wake(&mut self, index: u32) {
        if let Some(entry) = self.get_mut(index)
            && !core::mem::replace(&mut entry.ready, true)
        {
            self.ready.push_back(index);
        }
    }

    /// The flow is to be called at `at`, unless it is sooner.
    pub fn arm(&mut self, index: u32, at: Time) {
        let Some(entry) = self.get_mut(index) else { return };
        if entry.armed.is_none_or(|armed| at < armed) {
            entry.armed = Some(at);
            self.timers.arm(index, at);
            let entries = &self.entries;
            self.timers.tidy(entries.len(), |index, at| {
                entries[index as usize].as_ref().is_some_and(|entry| entry.armed == Some(at))
            });
        }
    }
}

impl Gateway {
    pub(super) fn insert(&mut self, now: Time, key: FlowKey, policy: u16, phase: Phase) -> u32 {
        self.sweep_at.get_or_insert(now + self.config.idle_timeout / SWEEPS);
        let is_open = !matches!(phase, Phase::Opening(_) | Phase::Whole(_));
        self.serial += 1;
        let index = self.table.insert(Entry {
            phase,
            ends: Ends::of(key),
            policy,
            since: now,
            last_active: now,
            armed: None,
            ready: false,
            custody_due: false,
            is_looked_at: false,
            is_short_of_custody: false,
            serial: self.serial,
            allocated: [0; 2],
            shares: [NO_SHARE; 2],
            is_open,
            place: None,
            compared: None,
        });
        if !is_open {
            self.table.begin_opening(index, now);
            self.bound_half_open();
        }
        index
    }

    /// A flow is open: both of its ends have a share in the memory, and a place in the table.
    pub(super) fn take_shares(&mut self, index: u32) {
        let Some(entry) = self.table.get(index) else { return };
        let key = entry.key();
        let addresses = [key.src.ip(), key.dst.ip()];
        let on_access_side = match &entry.phase {
            Phase::Split(flow) => Side::BOTH.map(|side| flow.is_on_access_side(side)),
            Phase::Whole(flow) => Side::BOTH.map(|side| flow.access() == side),
            _ => return,
        };
        let held = entry.allocated;
        let holders =
            Side::BOTH.map(|side| self.holder(on_access_side[side.index()], addresses[side.index()]));
        let shares = holders.map(|holder| self.shares.join(holder));
        for side in 0..2 {
            self.shares.book(shares[1 - side], 0, held[side]);
        }
        if let Some(entry) = self.table.get_mut(index) {
            entry.shares = shares;
        }
    }

    fn holder(&self, on_access_side: bool, address: IpAddr) -> Holder {
        let hosts = if on_access_side { self.config.hosts } else { HostPrefix::default() };
        Holder { on_access_side, address: hosts.of(address) }
    }

    pub(super) fn remove(&mut self, index: u32) {
        if let Some(mut entry) = self.table.remove(index) {
            if let Some(place) = entry.place.take() {
                self.leave(*place);
            }
            for (side, held) in entry.allocated.into_iter().enumerate() {
                self.allocated -= held;
                self.shares.book(entry.shares[1 - side], held, 0);
            }
            entry.shares.into_iter().for_each(|share| self.shares.leave(share));
            if !entry.is_open {
                self.table.note_never_opened();
            }
            if let Phase::Away(packed) = &entry.phase {
                self.forget_put_away(packed);
            }
            if matches!(entry.phase, Phase::Split(_) | Phase::Away(_)) && !entry.custody_due {
                self.custody_due.push(index);
            }
        }
    }

    /// Steps out of flows that are idle for `idle` or longer, among the next `among` entries of the table;
    /// whether there was one. What they forget is nothing: the ends go on with each other.
    pub(super) fn step_out_of_idle(&mut self, now: Time, idle: Duration, among: usize) -> bool {
        let before = self.table.len();
        for _ in 0..among.min(self.table.entries.len()) {
            let index = self.sweep_next % self.table.entries.len();
            self.sweep_next = index + 1;
            let Some(entry) = &mut self.table.entries[index] else { continue };
            if now.saturating_since(entry.last_active) < idle {
                continue;
            }
            match &mut entry.phase {
                Phase::Split(flow) if flow.is_idle() => {
                    self.settle(index as u32, Fate::SteppedOut);
                }
                Phase::Away(_) => self.settle(index as u32, Fate::SteppedOut),
                Phase::Whole(_) => self.step_out_of_whole(now, index as u32),
                _ => {}
            }
        }
        self.table.len() < before
    }

    /// Idle flows are looked for, once in a while.
    pub(super) fn sweep(&mut self, now: Time) {
        if self.sweep_at.is_some_and(|at| at <= now) {
            let idle = self.config.idle_timeout;
            let sweeps = self.sweeps();
            self.step_out_of_idle(now, idle, self.table.entries.len().div_ceil(sweeps as usize));
            self.sweep_at = (self.table.len() > 0).then(|| now + idle / sweeps);
        }
    }

    /// In how many steps the whole table is looked through in one idle timeout: in more where there is much in it, for packets wait for each.
    fn sweeps(&self) -> u32 {
        SWEEPS.max(self.table.entries.len().div_ceil(A_SWEEP) as u32)
    }

    pub(super) fn free_memory(&self) -> u64 {
        self.config.memory.0.saturating_sub(self.allocated() as u64)
    }

    /// Whether more than three quarters of the memory are in use.
    pub(super) fn is_short_of_memory(&self) -> bool {
        self.free_memory() < self.config.memory.0 / 4
    }

    /// Whether there is no memory for a flow that a SYN from `port` opens: none at all, or its ends have more than their share.
    pub(super) fn has_no_memory_for(&self, port: PortId, key: FlowKey) -> bool {
        if !self.is_short_of_memory() {
            return false;
        }
        let supply = self.supply();
        supply.free < LEAST_ROOM
            || self
                .ends(port, key)
                .iter()
                .filter_map(|end| self.shares.of(*end))
                .any(|share| !share.has_room_for_one(supply))
    }

    /// The ends of a flow that a SYN from `port` opens, who opens it first.
    fn ends(&self, port: PortId, key: FlowKey) -> [Holder; 2] {
        let opened_on_access_side = port == Gateway::ACCESS;
        [(opened_on_access_side, key.src.ip()), (!opened_on_access_side, key.dst.ip())]
            .map(|(on_access_side, address)| self.holder(on_access_side, address))
    }

    fn supply(&self) -> Supply {
        Supply { now: self.now, total: self.config.memory.0, free: self.free_memory() }
    }

    /// Time has come to now: how long nothing but the reserve has been left.
    pub(super) fn note_shortage(&mut self) {
        let since = self.short_since.unwrap_or(self.now);
        self.short_since = self.supply().is_down_to_the_reserve().then_some(since);
    }

    /// Whether a packet of a flow of which nothing is held is sooner at the other end of `side`, which sends it, if it passes: memory is short, and
    /// that end holds more than its share, or has had no room for long. One that brings nothing is none, but for a question whether
    /// there is room.
    pub(super) fn is_better_whole(&self, index: u32, side: Side, packet: &Packet) -> bool {
        if !self.is_short_of_memory() {
            return false;
        }
        let Some(Entry { phase: Phase::Split(flow), shares, .. }) = self.table.get(index) else {
            return false;
        };
        let Some(share) = self.shares.get(shares[side.other().index()]) else { return false };
        let asks = packet.as_tcp().is_some_and(|segment| {
            let offset = flow.offset_of(side, segment.header.seq);
            !segment.payload.is_empty() || offset.is_some_and(|offset| offset < flow.next_from(side))
        });
        let supply = self.supply();
        let is_long = self.short_since.is_some_and(|since| self.now.saturating_since(since) >= SHORT);
        let has_no_room = share.is_exceeded(supply) || is_long && share.is_used_up(supply);
        has_no_room && asks && flow.memory() == [0; 2] && !flow.owes_bytes()
    }

    /// Whether the table is nearly full, and the host that opens a flow with a SYN from `port` has more flows than there is room for: a
    /// dynamic threshold, as for the memory. Whom it asks has no part in that: one may ask a host that many ask.
    pub(super) fn has_no_place_for(&self, port: PortId, key: FlowKey) -> bool {
        let free = self.config.max_flows.saturating_sub(self.table.len());
        free < self.config.max_flows / CROWDED
            && self.shares.flows_of(self.ends(port, key)[0]) as usize > free
    }

    /// What a flow may take.
    pub(super) fn budget(&self, index: u32) -> Budget {
        let flow_buffer = self.config.flow_buffer.0;
        let supply = self.supply();
        let free = supply.free;
        let mut budget =
            Budget { windows: [flow_buffer; 2], directions: [2 * flow_buffer; 2], free: [free; 2] };
        let Some(entry) = self.table.get(index) else { return budget };
        if let Phase::Split(flow) = &entry.phase {
            budget.windows = flow.buffers().map(|size| size.min(flow_buffer));
            budget.directions = budget.windows.map(|size| 2 * size);
        }
        for side in 0..2 {
            // What one end sends waits for the other.
            let Some(share) = self.shares.get(entry.shares[1 - side]) else { continue };
            let window = share.window(entry.allocated[side] as u64, supply);
            budget.windows[side] = budget.windows[side].min(window);
            budget.free[side] = share.room(supply);
        }
        budget
    }

    /// A flow was worked on: books its memory, its parts at the access side and its custody, and gives it its next turn
    /// or its end.
    pub(super) fn settle(&mut self, index: u32, fate: Fate) {
        let counter = match fate {
            Fate::Alive => {
                let Some(entry) = self.table.entries[index as usize].as_mut() else { return };
                let Phase::Split(flow) = &mut entry.phase else { return };
                let held = flow.memory();
                let before = core::mem::replace(&mut entry.allocated, held);
                for side in 0..2 {
                    self.allocated = self.allocated - before[side] + held[side];
                    self.shares.book(entry.shares[1 - side], before[side], held[side]);
                }
                self.book(index);
                self.table.wake(index);
                self.note_custody(index);
                self.sync(index);
                self.sync_upload(index);
                self.sync_download(index);
                self.note_heard(index);
                return;
            }
            Fate::Finished => &mut self.counters.flows_finished,
            Fate::Reset => &mut self.counters.flows_reset,
            Fate::GivenUp => &mut self.counters.flows_given_up,
            Fate::Lost => &mut self.counters.flows_lost_in_crash,
            Fate::SteppedOut => &mut self.counters.flows_stepped_out,
        };
        *counter += 1;
        if matches!(fate, Fate::GivenUp | Fate::Lost)
            && let Some(entry) = self.table.get(index)
        {
            self.note_given_up(entry.key());
        }
        self.remove(index);
    }

    pub(super) fn note_custody(&mut self, index: u32) {
        if let Some(entry) = self.table.get_mut(index)
            && !core::mem::replace(&mut entry.custody_due, true)
        {
            self.custody_due.push(index);
        }
    }

    /// Tells the store what has changed of what must survive a crash. To be done before the packets of the same round leave.
    pub fn save(&mut self, custody: &mut impl Custody) {
        while let Some(slot) = self.custody_due.pop() {
            match self.table.get_mut(slot) {
                Some(Entry {
                    phase: Phase::Split(flow), custody_due, is_short_of_custody, serial, ..
                }) => {
                    *custody_due = false;
                    *is_short_of_custody = !flow.hold(slot, *serial, custody);
                    custody.store(slot, &flow.record(*serial));
                }
                // What was said of it last is true.
                Some(Entry { phase: Phase::Away(_), custody_due, .. }) => *custody_due = false,
                Some(Entry { custody_due, .. }) => {
                    *custody_due = false;
                    custody.free(slot);
                }
                None => custody.free(slot),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::SocketAddr;

    /// Whatever the ends do with their deadlines, what is left behind of them is bounded.
    #[test]
    fn deadlines_that_were_moved_take_no_memory_for_long() {
        let mut gateway = Gateway::new(crate::GatewayConfig::default());
        let start = Time::from_secs(1);
        let key = |port: u16| FlowKey {
            src: SocketAddr::from(([10, 0, 0, 1], port)),
            dst: SocketAddr::from(([10, 0, 0, 2], 80)),
        };
        let flows: Vec<u32> = (0..3).map(|port| gateway.insert(start, key(port), 0, Phase::Closed)).collect();
        // A long deadline is put off by a short one, which is over soon.
        for millis in 0..10_000 {
            let now = start + Duration::from_millis(millis);
            for index in &flows {
                gateway.table.arm(*index, now + Duration::from_secs(120));
                gateway.table.arm(*index, now);
            }
            let mut due = 0;
            while let Some((at, index)) = gateway.table.timers.pop_due(now) {
                let entry = gateway.table.get_mut(index).unwrap();
                due += u32::from(entry.armed.take_if(|armed| *armed == at).is_some());
            }
            assert_eq!(due, 3, "none that is meant is forgotten");
            assert!(
                gateway.table.timers.len() < 100,
                "{} deadlines of three flows",
                gateway.table.timers.len()
            );
        }
    }

    /// Gateways hold a million idle flows.
    #[test]
    fn an_idle_flow_is_small() {
        assert!(size_of::<Option<Entry>>() <= 128, "{} bytes in the table", size_of::<Option<Entry>>());
        let parts = SplitFlow::bytes_of_parts();
        assert!(parts <= 96, "{parts} bytes of each direction beside its halves");
        assert!(size_of::<WholeFlow>() <= 640, "{} bytes to observe a flow", size_of::<WholeFlow>());
    }
}
