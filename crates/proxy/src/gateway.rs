mod aggregation;
mod tails;
mod uplink;

use crate::aggregate::{Hosts, Member};
use crate::end::Side;
use crate::handshake::{Handshake, Step};
use crate::orphan::{Orphan, Ruling};
use crate::path_tail::PathTails;
use crate::senders::{EdgeQueues, QueuePlace};
use crate::split_flow::{Budget, Fate, Odd};
use crate::{Counters, CustodyRecord, FlowInfo, GatewayConfig, SplitFlow, WindowRule};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::hash::BuildHasher;
use core::net::SocketAddr;
use core::time::Duration;
use hashbrown::HashMap;
use shorthaul_tcp::Timers;
use shorthaul_types::{Deadline, FlowKey, PortId, Time};
use shorthaul_wire::{IcmpError, IcmpErrorKind, Machine, Packet, TcpFlags, Transport, TxBatch};
use siphasher::sip::SipHasher13;

/// How long we listen to a handshake that does not complete: as long as Linux tries to open one.
const PATIENCE: Duration = Duration::from_secs(130);
/// How often the ends of an orphan are asked.
const ORPHAN_INTERVAL: Duration = Duration::from_secs(1);
/// In how many steps the whole table is looked through for idle flows in one idle timeout.
const SWEEPS: u32 = 64;
/// In a full table a flow that was idle for so long makes room for a new one...
const DISPENSABLE: Duration = Duration::from_secs(60);
/// ... if it is found among so many.
const SEARCH: usize = 256;
/// What a flow is offered when memory is short.
const SHORT_OFFER: u64 = 64 * 1024;

#[derive(Debug)]
pub(crate) struct Keyed(pub u64);

impl BuildHasher for Keyed {
    type Hasher = SipHasher13;
    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.0, !self.0)
    }
}

#[derive(Debug)]
enum Phase {
    Opening(Box<Handshake>),
    Split(Box<SplitFlow>),
    /// Between two phases.
    Closed,
    /// A predecessor crashed while it held bytes of it.
    Orphan(Box<Orphan>),
}

#[derive(Debug)]
struct Entry {
    phase: Phase,
    key: FlowKey,
    since: Time,
    last_active: Time,
    /// The deadline that is in the heap, if one is.
    armed: Option<Time>,
    ready: bool,
    custody_due: bool,
    allocated: usize,
    /// The emulated link that the flow is behind, and what is booked there.
    tail: Option<tails::Place>,
    /// Its part in the queue of its mobile host, where that is kept constant.
    queue: Option<QueuePlace>,
    /// Its part in the aggregate of its mobile host.
    member: Option<Box<Member>>,
}

/// All flows of a gateway, as one machine with two ports: [`Gateway::EDGE`] and [`Gateway::WAN`].
///
/// What it does not split, it forwards as it came, to the other port.
#[derive(Debug)]
pub struct Gateway {
    config: GatewayConfig,
    table: HashMap<(SocketAddr, SocketAddr), u32, Keyed>,
    entries: Vec<Option<Entry>>,
    free: Vec<u32>,
    timers: Timers,
    /// When idle flows are looked for again.
    sweep_at: Option<Time>,
    /// Where the search for them goes on.
    sweep_next: usize,
    ready: VecDeque<u32>,
    custody_due: Vec<u32>,
    passing: TxBatch,
    tails: Option<PathTails>,
    queues: Option<EdgeQueues>,
    allocated: usize,
    draining: bool,
    counters: Counters,
    now: Time,
    /// Mobile hosts whose connections are served together.
    hosts: Option<Hosts>,
}

impl Gateway {
    /// The port toward the edge.
    pub const EDGE: PortId = PortId(0);
    /// The port toward the rest of the world.
    pub const WAN: PortId = PortId(1);

    /// A gateway without flows.
    pub fn new(config: GatewayConfig) -> Self {
        Gateway {
            table: HashMap::with_hasher(Keyed(config.hash_seed)),
            tails: PathTails::of(&config),
            queues: matches!(config.senders.window, WindowRule::ConstantQueue { .. })
                .then(|| EdgeQueues::new(config.hash_seed)),
            hosts: config.aggregate.clone().map(Hosts::new),
            config,
            entries: Vec::new(),
            free: Vec::new(),
            timers: Timers::default(),
            sweep_at: None,
            sweep_next: 0,
            ready: VecDeque::new(),
            custody_due: Vec::new(),
            passing: Vec::new(),
            allocated: 0,
            draining: false,
            counters: Counters::default(),
            now: Time::ZERO,
        }
    }

    /// What was done so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Counts bytes that the driver could not read as a packet.
    pub fn count_malformed(&mut self, reason: &'static str) {
        self.counters.count_malformed(reason);
    }

    /// Memory held by the flows' buffers, in bytes.
    pub fn allocated(&self) -> usize {
        self.allocated
    }

    /// Every flow that is known.
    pub fn flows(&self) -> impl Iterator<Item = FlowInfo> + '_ {
        self.entries.iter().flatten().map(|entry| match &entry.phase {
            Phase::Split(flow) => self.with_host(flow.info(self.now), flow, entry),
            phase => FlowInfo {
                key: entry.key,
                state: if matches!(phase, Phase::Orphan(_)) { "orphan" } else { "opening" },
                age: self.now.saturating_since(entry.since),
                legs: None,
            },
        })
    }

    /// Flows of which we hold bytes that their sender believes delivered.
    pub fn held_flows(&self) -> usize {
        self.split_flows().filter(|flow| flow.holds_bytes()).count()
    }

    fn split_flows(&self) -> impl Iterator<Item = &SplitFlow> {
        self.entries.iter().flatten().filter_map(|entry| match &entry.phase {
            Phase::Split(flow) => Some(&**flow),
            _ => None,
        })
    }

    /// Splits no more flows, and steps out of each as soon as nothing of it is held.
    pub fn drain(&mut self, now: Time) {
        self.now = now;
        self.draining = true;
        for index in 0..self.entries.len() as u32 {
            let fate = match self.entries[index as usize].as_mut().map(|entry| &mut entry.phase) {
                Some(Phase::Split(flow)) => {
                    flow.drain();
                    // What was to be acknowledged still is.
                    flow.poll_transmit(now, 0, &mut self.passing).1
                }
                Some(Phase::Opening(_)) => Fate::SteppedOut,
                _ => continue,
            };
            self.settle(index, fate);
        }
    }

    /// Resets what is still held, at both ends: the time for draining is over.
    pub fn reset_held(&mut self, now: Time) {
        self.now = now;
        for index in 0..self.entries.len() as u32 {
            let Some(Entry { phase: Phase::Split(flow), .. }) =
                self.entries.get_mut(index as usize).and_then(Option::as_mut)
            else {
                continue;
            };
            let fate = flow.reset_both(&mut self.passing);
            self.settle(index, fate);
        }
    }

    /// The next change of what must survive a crash: the slot, and its record or `None` if it is
    /// free now. To be stored before the packets of the same round leave.
    pub fn poll_custody(&mut self) -> Option<(u32, Option<CustodyRecord>)> {
        let index = self.custody_due.pop()?;
        let record = self.entry_mut(index).and_then(|entry| {
            entry.custody_due = false;
            match &entry.phase {
                Phase::Split(flow) => Some(flow.custody()),
                _ => None,
            }
        });
        Some((index, record))
    }

    /// Takes over from a predecessor that crashed. Flows of which it held bytes are asked, at both
    /// ends, what they have: where bytes are lost, both ends are reset, so that they fail at once
    /// instead of waiting for ever. All other flows need nothing.
    pub fn adopt(&mut self, now: Time, records: impl Iterator<Item = CustodyRecord>) {
        self.now = now;
        for record in records.filter(CustodyRecord::holds_bytes) {
            let index = self.insert(now, record.flow, Phase::Orphan(Box::new(Orphan::new(record))));
            self.arm(index, now);
        }
    }

    fn entry_mut(&mut self, index: u32) -> Option<&mut Entry> {
        self.entries.get_mut(index as usize)?.as_mut()
    }

    fn insert(&mut self, now: Time, key: FlowKey, phase: Phase) -> u32 {
        let entry = Entry {
            phase,
            key,
            since: now,
            last_active: now,
            armed: None,
            ready: false,
            custody_due: false,
            allocated: 0,
            tail: None,
            queue: None,
            member: None,
        };
        self.sweep_at.get_or_insert(now + self.config.idle_timeout / SWEEPS);
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
        self.table.insert(canonical(key), index);
        index
    }

    fn remove(&mut self, index: u32) {
        if let Some(mut entry) = self.entries[index as usize].take() {
            self.leave(&mut entry);
            self.table.remove(&canonical(entry.key));
            self.allocated -= entry.allocated;
            self.leave_tail(entry.tail);
            if let (Some(place), Some(queues)) = (entry.queue, &mut self.queues) {
                queues.leave(place);
            }
            self.free.push(index);
            if matches!(entry.phase, Phase::Split(_)) && !entry.custody_due {
                self.custody_due.push(index);
            }
        }
    }

    fn arm(&mut self, index: u32, at: Time) {
        let Some(entry) = self.entry_mut(index) else { return };
        if entry.armed.is_none_or(|armed| at < armed) {
            entry.armed = Some(at);
            self.timers.arm(index, at);
        }
    }

    /// Steps out of flows that are idle for `idle` or longer, among the next so many of the table;
    /// whether there was one. What they forget is nothing: the ends go on with each other.
    fn step_out_of_idle(&mut self, now: Time, idle: Duration, among: usize) -> bool {
        let before = self.table.len();
        for _ in 0..among.min(self.entries.len()) {
            let index = self.sweep_next % self.entries.len();
            self.sweep_next = index + 1;
            if let Some(entry) = &mut self.entries[index]
                && let Phase::Split(flow) = &mut entry.phase
                && now.saturating_since(entry.last_active) >= idle
                && flow.is_idle()
            {
                let fate = flow.drain();
                self.settle(index as u32, fate);
            }
        }
        self.table.len() < before
    }

    fn is_short_of_memory(&self) -> bool {
        self.allocated as u64 > self.config.memory.0 / 4 * 3
    }

    fn limit(&self) -> u64 {
        if self.is_short_of_memory() {
            SHORT_OFFER.min(self.config.flow_buffer.0)
        } else {
            self.config.flow_buffer.0
        }
    }

    fn budget(&self) -> Budget {
        Budget {
            window: self.limit(),
            direction: 2 * self.config.flow_buffer.0,
            free: self.config.memory.0.saturating_sub(self.allocated as u64),
        }
    }

    /// A flow was worked on: books its memory and custody, and gives it its next turn or its end.
    fn settle(&mut self, index: u32, fate: Fate) {
        let counter = match fate {
            Fate::Alive => {
                let Some(entry) = self.entries[index as usize].as_mut() else { return };
                let Phase::Split(flow) = &mut entry.phase else { return };
                let held = flow.allocated();
                self.allocated = self.allocated - entry.allocated + held;
                entry.allocated = held;
                if let (Some(tail), Some((side, _)), Some(tails)) =
                    (&mut entry.tail, flow.emulated(), &mut self.tails)
                {
                    let (held, delivered) = (flow.held_for(side).0, flow.delivered_to(side));
                    tails.book(self.now, tail.index, tail.held, held, delivered - tail.delivered);
                    (tail.held, tail.delivered) = (held, delivered);
                }
                if let (Some(place), Some(queues)) = (&mut entry.queue, &mut self.queues) {
                    flow.book_queue(self.now, place, queues);
                }
                if !core::mem::replace(&mut entry.ready, true) {
                    self.ready.push_back(index);
                }
                if !core::mem::replace(&mut entry.custody_due, true) {
                    self.custody_due.push(index);
                }
                self.sync(index);
                self.sync_upload(index);
                return;
            }
            Fate::Finished => &mut self.counters.flows_finished,
            Fate::Reset => &mut self.counters.flows_reset,
            Fate::GivenUp => &mut self.counters.flows_given_up,
            Fate::SteppedOut => &mut self.counters.flows_stepped_out,
        };
        *counter += 1;
        self.remove(index);
    }

    fn forward(&mut self, port: PortId, packet: Packet) {
        self.counters.forwarded_untouched += 1;
        self.passing.push((opposite(port), packet));
    }

    fn handle_tcp(&mut self, now: Time, port: PortId, packet: Packet) {
        let (Some(key), Some(segment)) = (packet.flow(), packet.as_tcp()) else {
            return self.forward(port, packet);
        };
        let flags = segment.header.flags;
        let opens = flags.contains(TcpFlags::SYN) && !flags.intersects(TcpFlags::ACK | TcpFlags::RST);
        let Some(&index) = self.table.get(&canonical(key)) else {
            if opens {
                self.begin(now, port, key, &packet);
            }
            return self.forward(port, packet);
        };
        let Some(entry) = self.entries[index as usize].as_mut() else {
            return self.forward(port, packet);
        };
        let side = if key.src == entry.key.src { Side::Client } else { Side::Server };
        match &mut entry.phase {
            Phase::Opening(handshake) => match handshake.on_segment(now, port, side, packet.ip, segment) {
                Step::Listen => {
                    let packet = self.with_first_offer(index, side, packet);
                    self.forward(port, packet);
                }
                Step::Withhold => {}
                Step::Open => self.open(now, port, index, packet),
                Step::Forget(reason) => {
                    self.counters.unsplit_options += u64::from(reason == "unknown option");
                    self.remove(index);
                    if opens {
                        self.begin(now, port, key, &packet);
                    }
                    self.forward(port, packet);
                }
            },
            Phase::Split(_) => self.handle_split(now, index, side, packet),
            Phase::Closed => self.forward(port, packet),
            Phase::Orphan(_) if opens => {
                self.remove(index);
                self.begin(now, port, key, &packet);
                self.forward(port, packet);
            }
            Phase::Orphan(orphan) => match orphan.on_segment(side, segment) {
                Ruling::Unknown => self.forward(port, packet),
                Ruling::Whole => {
                    self.remove(index);
                    self.forward(port, packet);
                }
                Ruling::Lost { newly } => {
                    self.counters.flows_lost_in_crash += u64::from(newly);
                    self.passing.extend(orphan.reset(side, segment).map(|reset| (port, reset)));
                }
            },
        }
    }

    /// A SYN: begins to listen, where there is room and nothing speaks against it.
    fn begin(&mut self, now: Time, port: PortId, key: FlowKey, packet: &Packet) {
        let Some(segment) = packet.as_tcp() else { return };
        if self.draining {
            return;
        }
        let full =
            self.table.len() >= self.config.max_flows && !self.step_out_of_idle(now, DISPENSABLE, SEARCH);
        if full || self.is_short_of_memory() {
            self.counters.unsplit_overload += 1;
            return;
        }
        match Handshake::begin(now, port, packet.ip, segment) {
            Ok(handshake) => {
                let index = self.insert(now, key, Phase::Opening(Box::new(handshake)));
                self.arm(index, now + PATIENCE);
            }
            Err(_) => self.counters.unsplit_options += 1,
        }
    }

    /// The third segment of a handshake: passes on its acknowledgment and steps in.
    fn open(&mut self, now: Time, port: PortId, index: u32, packet: Packet) {
        let Some(entry) = self.entries[index as usize].as_mut() else { return };
        let Phase::Opening(handshake) = core::mem::replace(&mut entry.phase, Phase::Closed) else { return };
        let Some(mut flow) = SplitFlow::step_in(now, *handshake, &self.config) else {
            self.remove(index);
            return self.forward(port, packet);
        };
        self.counters.flows_split += 1;
        entry.tail = Self::join_tail(&mut self.tails, now, self.counters.flows_split, &mut flow);
        entry.queue = self.queues.as_mut().and_then(|queues| flow.join_queue(now, queues));
        // The server's handshake ends with an acknowledgment, whatever else this segment holds.
        let carries_data =
            packet.as_tcp().is_some_and(|s| !s.payload.is_empty() || s.header.flags.contains(TcpFlags::FIN));
        if !carries_data {
            self.passing.push((opposite(port), packet.clone()));
        }
        entry.phase = Phase::Split(Box::new(flow));
        self.join(now, index);
        self.handle_split(now, index, Side::Client, packet);
    }

    /// A packet of a flow that is split.
    fn handle_split(&mut self, now: Time, index: u32, side: Side, packet: Packet) {
        let budget = self.within_host(index, self.budget());
        let admitted = self.admit(now, index, packet);
        let Some(entry) = self.entries[index as usize].as_mut() else { return };
        let Phase::Split(flow) = &mut entry.phase else { return };
        entry.last_active = now;
        let Some(packet) = admitted else { return };
        let fate = flow.on_packet(now, side, packet, budget, &mut self.passing);
        let Odd { unacceptable, challenged } = flow.take_odd();
        self.counters.segments_unacceptable += unacceptable;
        self.counters.resets_challenged += challenged;
        self.settle(index, fate);
    }

    /// An ICMP error about a flow: passed on, and heeded where it says "too big".
    fn handle_icmp(&mut self, now: Time, error: &IcmpError) {
        let IcmpErrorKind::PacketTooBig { mtu } = error.kind else { return };
        let Some(&index) = self.table.get(&canonical(error.flow)) else { return };
        let Some(entry) = self.entries[index as usize].as_mut() else { return };
        let side = if error.flow.src == entry.key.src { Side::Client } else { Side::Server };
        if let Phase::Split(flow) = &mut entry.phase {
            flow.on_packet_too_big(now, side, error.seq, mtu);
            self.settle(index, Fate::Alive);
        }
    }
}

const fn opposite(port: PortId) -> PortId {
    PortId(port.0 ^ 1)
}

/// The same key for both directions of a connection.
fn canonical(key: FlowKey) -> (SocketAddr, SocketAddr) {
    if key.src <= key.dst { (key.src, key.dst) } else { (key.dst, key.src) }
}

impl Machine for Gateway {
    fn handle_packet(&mut self, now: Time, port: PortId, packet: Packet) {
        self.now = now;
        self.counters.packets_in += 1;
        match &packet.transport {
            Transport::Tcp(_) => self.handle_tcp(now, port, packet),
            Transport::IcmpError(error) => {
                self.handle_icmp(now, error);
                self.forward(port, packet);
            }
            _ => self.forward(port, packet),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.now = now;
        if self.sweep_at.is_some_and(|at| at <= now) {
            let idle = self.config.idle_timeout;
            self.step_out_of_idle(now, idle, self.entries.len().div_ceil(SWEEPS as usize));
            self.sweep_at = (!self.table.is_empty()).then(|| now + idle / SWEEPS);
        }
        self.release_tokens(now);
        self.on_host_timeouts(now);
        while let Some((at, index)) = self.timers.pop_due(now) {
            let Some(entry) = self.entries[index as usize].as_mut() else { continue };
            if entry.armed != Some(at) {
                continue;
            }
            entry.armed = None;
            match &mut entry.phase {
                Phase::Split(flow) => {
                    let fate = flow.on_timeout(now, &mut self.passing);
                    self.settle(index, fate);
                }
                Phase::Orphan(orphan) => match orphan.ask(&mut self.passing) {
                    true => self.arm(index, now + ORPHAN_INTERVAL),
                    false => self.remove(index),
                },
                Phase::Opening(_) | Phase::Closed => self.remove(index),
            }
        }
    }

    fn poll_transmit(&mut self, now: Time, out: &mut TxBatch) -> bool {
        self.counters.packets_out += self.passing.len() as u64;
        out.append(&mut self.passing);
        let limit = self.limit();
        let before = out.len();
        for _ in 0..self.ready.len() {
            let Some(index) = self.ready.pop_front() else { break };
            let Some(entry) = self.entries[index as usize].as_mut() else { continue };
            entry.ready = false;
            let Phase::Split(flow) = &mut entry.phase else { continue };
            let (more, fate) = flow.poll_transmit(now, limit, out);
            let deadline = flow.poll_timeout();
            if more {
                entry.ready = true;
                self.ready.push_back(index);
            }
            if fate != Fate::Alive {
                self.settle(index, fate);
            } else {
                if let Some(Deadline { at, .. }) = deadline {
                    self.arm(index, at);
                }
                self.sync_if_behind(index);
            }
        }
        let more = self.serve_hosts(now, out);
        self.counters.packets_out += (out.len() - before) as u64;
        more || !self.ready.is_empty()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let sweep = self.sweep_at.map(|at| Deadline { at, timer: "idle-sweep" });
        let tails = self.tails.as_ref().and_then(PathTails::poll_timeout);
        let hosts = self.hosts.as_ref().and_then(|hosts| hosts.timers.next());
        let others = Deadline::earliest(sweep, tails);
        Deadline::earliest(Deadline::earliest(self.timers.next(), hosts), others)
    }
}
