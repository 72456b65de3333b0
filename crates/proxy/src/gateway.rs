mod aggregation;
mod arrival;
mod gain;
mod given_up;
mod half_open;
mod index;
mod inherit;
mod links;
mod opaque;
mod places;
mod put_away;
mod reconfigure;
mod regroup;
mod table;
mod unmeasured;
mod unsplit;
mod uplink;
mod whole;

use crate::access_side::AccessSide;
use crate::common_drain::CommonDrain;
use crate::end::Side;
use crate::fragments::Fragments;
use crate::gain::{Gains, Group};
use crate::shared_bottleneck::Detector;
use crate::shares::Shares;
use crate::split_flow::{Fate, Turn};
use crate::unsplit::{Queues, Unmeasured};
use crate::{Counters, FlowInfo, GatewayConfig, SplitFlow};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::hash::BuildHasher;
use core::time::Duration;
use given_up::GivenUp;
pub use put_away::Brief;
use shorthaul_congestion::Lateness;
use shorthaul_types::{Deadline, PortId, Time};
use shorthaul_wire::{Machine, Packet, Transport, TxBatch};
use siphasher::sip::SipHasher13;
use table::{Entry, Phase, Table};

#[derive(Debug)]
pub(crate) struct Keyed(pub u64);

impl BuildHasher for Keyed {
    type Hasher = SipHasher13;
    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.0, !self.0)
    }
}

/// All flows of a gateway, as one machine with two ports: [`Gateway::ACCESS`] and [`Gateway::WAN`].
///
/// What it does not split, it forwards as it came, to the other port.
#[derive(Debug)]
pub struct Gateway {
    config: GatewayConfig,
    table: Table,
    /// When idle flows are looked for again.
    sweep_at: Option<Time>,
    /// Where the search for them goes on.
    sweep_next: usize,
    /// When the search for flows to which splitting does harm goes on, and where.
    withdrawal: Option<(Time, u32)>,
    /// Flows that may have fallen silent, and how many are away.
    silent: put_away::Silent,
    custody_due: Vec<u32>,
    /// How many slots, from the first on, have room for what must survive a crash.
    record_room: u32,
    /// The number of the flow that was entered last.
    serial: u64,
    fragments: Fragments,
    given_up: GivenUp,
    shares: Shares,
    passing: TxBatch,
    /// What of the traffic that is not split waits.
    unsplit: Queues,
    /// Hosts of which nothing is measured.
    unmeasured: Unmeasured,
    /// What flows that stay whole let pass; empty between two packets.
    let_pass: TxBatch,
    allocated: usize,
    /// Since when nothing but the reserve of the memory has been left.
    short_since: Option<Time>,
    draining: bool,
    counters: Counters,
    now: Time,
    /// How late it is woken.
    lateness: Lateness,
    /// The registry of hosts at the access side that share something among their flows: queues, emulated links, aggregates.
    access: AccessSide,
    /// Which hosts share a bottleneck, where that is to be found out.
    detector: Detector,
    common_drain: CommonDrain,
    /// Groups of a predecessor by their numbers and when they began there, and which they are here.
    inherited_groups: BTreeMap<(u64, u64), (u32, Time)>,
    /// Whether splitting pays.
    gains: Gains,
    /// How many of the policies are for new flows; those behind them are kept for flows that have them.
    in_force: usize,
}

impl Gateway {
    /// The port toward the access side.
    pub const ACCESS: PortId = PortId(0);
    /// The port toward the rest of the world.
    pub const WAN: PortId = PortId(1);

    /// A gateway without flows.
    pub fn new(config: GatewayConfig) -> Self {
        let hash_seed = config.hash_seed;
        let mut access = AccessSide::new(config.hosts, &config.bottlenecks, &config.policies);
        access.memory = config.memory.0;
        Gateway {
            table: Table::new(config.hash_seed),
            in_force: config.policies.len(),
            access,
            detector: Detector::default(),
            common_drain: CommonDrain::default(),
            inherited_groups: BTreeMap::new(),
            gains: Gains::new(config.hash_seed),
            shares: Shares::new(hash_seed),
            fragments: Fragments::new(config.memory.0, hash_seed),
            given_up: GivenUp::new(hash_seed),
            config,
            sweep_at: None,
            sweep_next: 0,
            withdrawal: None,
            silent: put_away::Silent::default(),
            custody_due: Vec::new(),
            record_room: u32::MAX,
            serial: 0,
            passing: Vec::new(),
            unsplit: Queues::new(hash_seed),
            unmeasured: Unmeasured::default(),
            let_pass: Vec::new(),
            allocated: 0,
            short_since: None,
            draining: false,
            counters: Counters::default(),
            now: Time::ZERO,
            lateness: Lateness::default(),
        }
    }

    /// Time has come to `now`: how late that is, is seen from the deadline that was asked for.
    fn wake(&mut self, now: Time) {
        if now > self.now {
            let deadline = self.next_deadline();
            self.lateness.on_wakeup(now, deadline);
            self.now = now;
            self.note_shortage();
        }
    }

    /// When something is to be done next that must not wait.
    fn next_deadline(&self) -> Option<Deadline> {
        let sweep = self.sweep_at.map(|at| Deadline { at, timer: "idle-sweep" });
        let withdrawal = self.withdrawal.map(|(at, _)| Deadline { at, timer: "withdrawal" });
        let sweep = Deadline::earliest(sweep, withdrawal);
        let groups = self.access.timers.next();
        let flows = Deadline::earliest(self.table.timers.next(), self.fragments.poll_timeout());
        let unmeasured = self.unmeasured.deadline().map(|at| Deadline { at, timer: "unmeasured" });
        let groups = Deadline::earliest(groups, unmeasured);
        Deadline::earliest(Deadline::earliest(flows, groups), Deadline::earliest(sweep, self.next_token()))
    }

    /// How late timers are served: the largest lateness of the last one to two seconds.
    pub fn lateness(&self) -> Duration {
        self.lateness.recent()
    }

    /// What it was told to do.
    pub fn config(&self) -> &GatewayConfig {
        &self.config
    }

    /// What was done so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Counts bytes that the driver could not read as a packet.
    pub fn count_reason(&mut self, reason: &'static str) {
        self.counters.count_reason(reason);
    }

    /// Memory held by the flows' buffers and by segments that came in part, in bytes.
    pub fn allocated(&self) -> usize {
        self.allocated + self.fragments.held() + self.unsplit.memory() as usize + self.unmeasured.memory()
    }

    /// How many slots the table of flows has, those that are free included.
    pub fn slots(&self) -> usize {
        self.table.entries.len()
    }

    /// How many slots, from the first on, have room in the store of what survives a crash: a flow that would have another stays whole.
    /// All, unless this is called.
    pub fn set_record_room(&mut self, slots: u32) {
        self.record_room = slots;
    }

    /// How many flows are known.
    pub fn flows_known(&self) -> usize {
        self.table.len()
    }

    /// Every flow that is known.
    pub fn flows(&self) -> impl Iterator<Item = FlowInfo> + '_ {
        self.table.entries.iter().flatten().map(|entry| self.flow_info(entry))
    }

    /// The flows in `most` places of the table from `from` on, and where to go on, if there are more.
    pub fn flows_among(&self, from: usize, most: usize) -> (Vec<FlowInfo>, Option<usize>) {
        let entries = self.table.entries.get(from..).unwrap_or_default();
        let among = &entries[..most.min(entries.len())];
        let flows = among.iter().flatten().map(|entry| self.flow_info(entry)).collect();
        (flows, (entries.len() > most).then_some(from + most))
    }

    fn flow_info(&self, entry: &Entry) -> FlowInfo {
        let age = self.now.saturating_since(entry.since);
        let (key, policy) = (entry.key(), entry.policy);
        let known = |state, client_at_access| FlowInfo {
            key,
            state,
            client_at_access,
            policy,
            age,
            legs: None,
            observed: None,
        };
        match &entry.phase {
            Phase::Split(flow) => {
                FlowInfo { policy, ..self.with_group(flow.info(self.now), flow, entry.member_of()) }
            }
            Phase::Away(_) => self.info_of_put_away(entry).unwrap_or_else(|| known("split", true)),
            Phase::Whole(flow) => {
                let state = match entry.compared.map(|compared| compared.group) {
                    Some(Group::Control) => "control",
                    Some(_) => "withdrawn",
                    None if flow.is_untouched() => "observed",
                    None => "passed",
                };
                FlowInfo { observed: Some(flow.observed()), ..known(state, flow.access() == Side::Client) }
            }
            Phase::Opening(handshake) => known("opening", handshake.client.attachment == Gateway::ACCESS),
            Phase::Closed => known("opening", true),
        }
    }

    /// Flows that it would harm if the gateway went away: bytes are held that their sender believes delivered, or their ends do not hear
    /// each other yet.
    pub fn held_flows(&self) -> usize {
        self.split_flows().filter(|flow| flow.needs_us(self.now)).count()
    }

    /// Whether there is one of those: sooner known than how many.
    pub fn holds_flows(&self) -> bool {
        self.split_flows().any(|flow| flow.needs_us(self.now))
    }

    fn split_flows(&self) -> impl Iterator<Item = &SplitFlow> {
        self.table.entries.iter().flatten().filter_map(|entry| match &entry.phase {
            Phase::Split(flow) => Some(&**flow),
            _ => None,
        })
    }

    /// Splits no more flows, and steps out of each as soon as nothing of it is held.
    pub fn drain(&mut self, now: Time) {
        self.now = now;
        self.draining = true;
        self.unmeasured.stop(now);
        self.serve_unmeasured(now);
        for index in 0..self.table.entries.len() as u32 {
            let fate = match self.table.get_mut(index).map(|entry| &mut entry.phase) {
                Some(Phase::Split(flow)) => {
                    flow.drain();
                    // What was to be acknowledged still is.
                    let turn = Turn { windows: [0; 2], late: self.lateness.recent() };
                    flow.poll_transmit(now, turn, &mut self.passing).1
                }
                Some(Phase::Opening(_) | Phase::Away(_)) => Fate::SteppedOut,
                Some(Phase::Whole(_)) => {
                    self.step_out_of_whole(now, index);
                    continue;
                }
                _ => continue,
            };
            self.settle(index, fate);
        }
    }

    /// Resets what is still held, at both ends: the time for draining is over. Of what nothing is held it steps out. Says how many were
    /// reset.
    pub fn reset_held(&mut self, now: Time) -> usize {
        self.now = now;
        let mut reset = 0;
        for index in 0..self.table.entries.len() as u32 {
            let fate = match self.table.get_mut(index).map(|entry| &mut entry.phase) {
                Some(Phase::Split(flow)) if flow.owes_bytes() => flow.reset_both(&mut self.passing),
                Some(Phase::Split(_) | Phase::Away(_)) => Fate::SteppedOut,
                _ => continue,
            };
            reset += usize::from(fate == Fate::GivenUp);
            self.settle(index, fate);
        }
        reset
    }
}

impl Machine for Gateway {
    fn handle_packet(&mut self, now: Time, port: PortId, packet: Packet) {
        self.wake(now);
        self.counters.packets_in += 1;
        match &packet.transport {
            Transport::Tcp(_) => self.handle_tcp(now, port, packet),
            Transport::IcmpError(error) => {
                self.handle_icmp(now, error);
                self.forward_at_once(port, packet);
            }
            Transport::Fragment { .. } => self.handle_fragment(now, port, packet),
            Transport::Udp { .. } | Transport::Opaque { .. } => self.pass_unseen(port, packet),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.wake(now);
        self.expire_fragments(now);
        self.sweep(now);
        self.withdraw(now);
        self.put_silent_away(now);
        self.release_tokens(now);
        self.on_group_timeouts(now);
        self.serve_unmeasured(now);
        while let Some((at, index)) = self.table.timers.pop_due(now) {
            let Some(entry) = self.table.get_mut(index) else { continue };
            if entry.armed != Some(at) {
                continue;
            }
            entry.armed = None;
            match &mut entry.phase {
                // One of before says nothing: who has no timer any more is as if it never had one.
                Phase::Split(flow) => match flow.poll_timeout() {
                    Some(Deadline { at, .. }) if at > now => self.table.arm(index, at),
                    Some(_) => {
                        let fate = flow.on_timeout(now, &mut self.passing);
                        self.settle(index, fate);
                    }
                    None => {}
                },
                Phase::Whole(_) => self.poll_whole(now, index),
                Phase::Away(_) => {} // it has no timer: that was one of before
                Phase::Opening(handshake) if handshake.expires_at() > now => {
                    let at = handshake.expires_at();
                    self.table.arm(index, at);
                }
                Phase::Opening(_) | Phase::Closed => self.remove(index),
            }
        }
    }

    fn poll_transmit(&mut self, now: Time, out: &mut TxBatch) -> bool {
        self.counters.packets_out += self.passing.len() as u64;
        out.append(&mut self.passing);
        let late = self.lateness.recent();
        let before = out.len();
        for _ in 0..self.table.ready.len() {
            let Some(index) = self.table.ready.pop_front() else { break };
            let windows = self.within_host(index, self.budget(index)).windows;
            let Some(entry) = self.table.get_mut(index) else { continue };
            entry.ready = false;
            let Phase::Split(flow) = &mut entry.phase else { continue };
            let (more, fate) = flow.poll_transmit(now, Turn { windows, late }, out);
            let deadline = flow.poll_timeout();
            if more {
                self.table.wake(index);
            }
            if fate != Fate::Alive {
                self.settle(index, fate);
            } else {
                if let Some(Deadline { at, .. }) = deadline {
                    self.table.arm(index, at);
                }
                self.sync_if_behind(index);
            }
        }
        let more = self.serve_groups(now, out);
        self.counters.packets_out += (out.len() - before) as u64;
        more || !self.table.ready.is_empty()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        Deadline::earliest(self.next_deadline(), self.next_look_for_silence())
    }
}
