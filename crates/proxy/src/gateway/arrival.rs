//! What arrives at a gateway: which flow it is of, and what becomes of it.
use super::Gateway;
use super::table::Phase;
use crate::end::Side;
use crate::gain::Group;
use crate::handshake::{Handshake, Step};
use crate::policy::Subject;
use crate::split_flow::Rejected;
use crate::whole_flow::WholeFlow;
use crate::{Mode, SplitFlow};
use alloc::boxed::Box;
use core::time::Duration;
use shorthaul_types::{FlowKey, PortId, Time};
use shorthaul_wire::{IcmpError, IcmpErrorKind, IpHeader, Packet, TcpFlags, Transport};

/// In a full table a flow that was idle for this long makes room for a new one.
const DISPENSABLE: Duration = Duration::from_secs(60);
/// How many flows are looked at for one that makes room.
const SEARCH: usize = 256;

impl Gateway {
    /// What came in at `port` goes on to the other one: it is of no flow that is split.
    pub(super) fn forward(&mut self, port: PortId, packet: Packet) {
        self.counters.forwarded_untouched += 1;
        self.pass_whole(opposite(port), packet);
    }

    /// The same, before all that waits: it belongs to a handshake, or tells of an error.
    pub(super) fn forward_at_once(&mut self, port: PortId, packet: Packet) {
        self.counters.forwarded_untouched += 1;
        self.counters.bytes_untouched += packet.wire_len() as u64;
        self.passing.push((opposite(port), packet));
    }

    pub(super) fn handle_tcp(&mut self, now: Time, port: PortId, packet: Packet) {
        let (Some(key), Some(segment)) = (packet.flow(), packet.as_tcp()) else {
            return self.forward(port, packet);
        };
        let flags = segment.header.flags;
        let opens = flags.contains(TcpFlags::SYN) && !flags.intersects(TcpFlags::ACK | TcpFlags::RST);
        let Some(index) = self.table.find(key) else {
            if self.answers_given_up(now, port, key, &packet) {
                return;
            }
            return if opens { self.begin(now, port, key, packet) } else { self.forward(port, packet) };
        };
        self.bring_back(now, index);
        let Some(entry) = self.table.get_mut(index) else {
            return self.forward(port, packet);
        };
        let side = if key.src == entry.key().src { Side::Client } else { Side::Server };
        match &mut entry.phase {
            Phase::Opening(_) if flags.contains(TcpFlags::SYN) && packet.has_ip_options() => {
                self.counters.unsplit_options += 1;
                self.remove(index);
                self.forward(port, packet);
            }
            Phase::Opening(handshake) => match handshake.on_segment(now, port, side, packet.ip, segment) {
                Step::Listen => {
                    let packet = self.with_first_offer(index, side, packet);
                    let packet = self.without_accurate_ecn(key, packet);
                    self.forward_at_once(port, packet);
                }
                Step::Withhold => {}
                Step::Open => self.open(now, port, index, packet),
                Step::Forget(reason) => {
                    match reason {
                        "unknown option" => self.counters.unsplit_options += 1,
                        "handshake-one-sided" => self.counters.count_reason(reason),
                        _ => {}
                    }
                    self.remove(index);
                    if opens { self.begin(now, port, key, packet) } else { self.forward(port, packet) }
                }
            },
            Phase::Split(flow) if flow.is_astray(side, port) => self.forward(port, packet),
            // Its ends have given it up while nobody stood in it, and open another. Or the SYN is forged, and nothing is lost: what
            // owes bytes waits for what the ends answer to our question.
            Phase::Split(flow) if opens && flow.is_unheard() && !flow.owes_bytes() => {
                self.remove(index);
                self.begin(now, port, key, packet);
            }
            Phase::Split(_) => self.handle_split(now, index, side, packet),
            Phase::Whole(flow) if opens && !flow.is_opened_by(segment.header.seq) => {
                self.step_out_of_whole(now, index);
                self.begin(now, port, key, packet);
            }
            Phase::Whole(_) => self.handle_whole(now, index, (side, opposite(port)), packet),
            Phase::Away(_) | Phase::Closed => self.forward(port, packet),
        }
    }

    /// A SYN passes. Its flow is listened to, or observed, where there is room and nothing speaks against it.
    fn begin(&mut self, now: Time, port: PortId, key: FlowKey, packet: Packet) {
        match self.enter(now, port, key, &packet) {
            Some(whole) => self.handle_whole(now, whole, (Side::Client, opposite(port)), packet),
            None => {
                let packet = self.without_accurate_ecn(key, packet);
                self.forward_at_once(port, packet);
            }
        }
    }

    /// A SYN of a flow that is going to be split, without the offer of Accurate ECN: its ends agree on classic ECN then (RFC 9768 §3.1.2), which we
    /// speak. Any other packet as it came.
    fn without_accurate_ecn(&self, key: FlowKey, mut packet: Packet) -> Packet {
        let opening = self.table.find(key).and_then(|index| self.table.get(index));
        let is_ours = opening.is_some_and(|entry| matches!(entry.phase, Phase::Opening(_)));
        if let (Transport::Tcp(segment), true) = (&mut packet.transport, is_ours)
            && segment.header.flags.contains(TcpFlags::SYN | TcpFlags::AE)
            && !segment.header.flags.contains(TcpFlags::ACK)
        {
            segment.header.flags = segment.header.flags.without(TcpFlags::AE);
            packet.original = None;
        }
        packet
    }

    /// Enters the flow of a SYN into the table, if its policy asks for that; returns where, if it stays whole.
    fn enter(&mut self, now: Time, port: PortId, key: FlowKey, packet: &Packet) -> Option<u32> {
        let segment = packet.as_tcp()?;
        if self.draining {
            return None;
        }
        let subject = subject(port, key, &packet.ip);
        let number =
            self.config.policies[..self.in_force].iter().position(|policy| policy.matches.holds(&subject))?;
        let policy = &self.config.policies[number];
        let mode = policy.mode;
        if mode == Mode::Pass && policy.intercept.is_empty() {
            return None;
        }
        let is_greedy = self.has_no_place_for(port, key);
        let full = (self.table.len() >= self.config.max_flows || is_greedy)
            && !self.step_out_of_idle(now, DISPENSABLE, SEARCH)
            && (is_greedy || !self.forget_oldest_half_open());
        if mode != Mode::Split {
            if full {
                self.counters.unobserved_overload += 1;
                return None;
            }
            return Some(self.observe(now, port, key, number));
        }
        if full || self.has_no_memory_for(port, key) {
            self.counters.unsplit_overload += 1;
            return None;
        }
        if self.table.next_slot() >= self.record_room {
            self.counters.unsplit_unkept += 1;
            return None;
        }
        // Ours would have none of its IP options, and where they name a security label that is no trifle. One that sets some
        // only later is split by then, and goes on as what it is.
        if packet.has_ip_options() {
            self.counters.unsplit_options += 1;
            return None;
        }
        let handshake = match Handshake::begin(now, port, packet.ip, segment) {
            Ok(handshake) => Box::new(handshake),
            Err(_) => {
                self.counters.unsplit_options += 1;
                return None;
            }
        };
        let compared = self.compared(now, number as u16, key, access_side(port));
        let whole = compared.map(|compared| compared.group).filter(|group| *group != Group::Split);
        let index = match whole {
            Some(group) => {
                let counter = match group {
                    Group::Control => &mut self.counters.flows_control,
                    _ => &mut self.counters.flows_withdrawn,
                };
                *counter += 1;
                self.observe(now, port, key, number)
            }
            None => {
                let expires_at = handshake.expires_at();
                let index = self.insert(now, key, number as u16, Phase::Opening(handshake));
                self.table.arm(index, expires_at);
                index
            }
        };
        if let Some(entry) = self.table.get_mut(index) {
            entry.compared = compared;
        }
        whole.map(|_| index)
    }

    /// Enters a flow that stays whole; its client's SYN came in at `port`.
    fn observe(&mut self, now: Time, port: PortId, key: FlowKey, policy: usize) -> u32 {
        let intercept = &self.config.policies[policy].intercept;
        let flow = WholeFlow::new(now, [port, opposite(port)], access_side(port), intercept);
        self.counters.flows_observed += 1;
        self.insert(now, key, policy as u16, Phase::Whole(Box::new(flow)))
    }

    /// The third segment of a handshake: passes on its acknowledgment and steps in.
    fn open(&mut self, now: Time, port: PortId, index: u32, packet: Packet) {
        let Some(entry) = self.table.get_mut(index) else { return };
        let Phase::Opening(handshake) = core::mem::replace(&mut entry.phase, Phase::Closed) else { return };
        let policy = &self.config.policies[usize::from(entry.policy)];
        let Some(mut flow) = SplitFlow::step_in(now, *handshake, policy) else {
            self.remove(index);
            return self.forward(port, packet);
        };
        if self.config.watches_buffers {
            flow.watch_buffers();
        }
        entry.phase = Phase::Split(Box::new(flow));
        self.counters.flows_split += 1;
        self.table.note_open(index);
        self.take_shares(index);
        self.take_place(now, index);
        // The server's handshake ends with an acknowledgment, whatever else this segment holds.
        let carries_data =
            packet.as_tcp().is_some_and(|s| !s.payload.is_empty() || s.header.flags.contains(TcpFlags::FIN));
        if !carries_data {
            self.passing.push((opposite(port), packet.clone()));
        }
        self.handle_split(now, index, Side::Client, packet);
    }

    /// A packet of a flow that is split.
    fn handle_split(&mut self, now: Time, index: u32, side: Side, packet: Packet) {
        self.counters.bytes_split += packet.wire_len() as u64;
        let budget = self.within_host(index, self.budget(index));
        let is_better_whole = self.is_better_whole(index, side, &packet);
        let admitted = self.admit(now, index, packet);
        let Some(entry) = self.table.get_mut(index) else { return };
        let Phase::Split(flow) = &mut entry.phase else { return };
        entry.last_active = now;
        let Some(packet) = admitted else { return };
        let payload = packet.as_tcp().map_or(0, |segment| segment.payload.len() as u64);
        if flow.is_at_access(side) {
            self.counters.split_bytes_up += payload;
        } else {
            self.counters.split_bytes_down += payload;
        }
        if is_better_whole {
            flow.drain();
        }
        let before = flow.delivered_to(side);
        let fate = flow.on_packet(now, side, packet, budget, &mut self.passing);
        // What the packet acknowledges, its sender has read.
        let (read, share) = (flow.delivered_to(side) - before, entry.shares[side.index()]);
        self.shares.note_read(now, share, read);
        let Rejected { unacceptable, challenged, suppressed } = flow.take_rejected();
        self.counters.challenges_suppressed += suppressed;
        self.counters.segments_unacceptable += unacceptable;
        self.counters.resets_challenged += challenged;
        self.settle(index, fate);
        self.note_progress(now, index, side);
    }

    /// An ICMP error about a flow: passed on, and heeded where it says "too big".
    pub(super) fn handle_icmp(&mut self, now: Time, error: &IcmpError) {
        let IcmpErrorKind::PacketTooBig { mtu } = error.kind else { return };
        let Some(index) = self.table.find(error.flow) else { return };
        let Some(entry) = self.table.get_mut(index) else { return };
        let side = if error.flow.src == entry.key().src { Side::Client } else { Side::Server };
        if let Phase::Split(flow) = &mut entry.phase {
            flow.on_packet_too_big(now, side, error.seq, mtu);
            self.settle(index, crate::split_flow::Fate::Alive);
        }
    }
}

const fn opposite(port: PortId) -> PortId {
    PortId(port.0 ^ 1)
}

/// Which end of a flow is at the access side, whose SYN came in at `port`.
const fn access_side(port: PortId) -> Side {
    if port.0 == Gateway::ACCESS.0 { Side::Client } else { Side::Server }
}

/// What a flow is matched by, from its first packet.
pub(super) fn subject(port: PortId, key: FlowKey, ip: &IpHeader) -> Subject {
    let (near, far) = (key.src.ip(), key.dst.ip());
    let (host, server) = if port == Gateway::ACCESS { (near, far) } else { (far, near) };
    let dscp = match ip {
        IpHeader::V4(header) => header.tos >> 2,
        IpHeader::V6(header) => header.traffic_class >> 2,
    };
    Subject { host, server, ports: [key.src.port(), key.dst.port()], dscp }
}
