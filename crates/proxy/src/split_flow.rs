mod acknowledging;
mod governed;
mod keep_alive;
mod memory;
mod resent;
mod uploading;

use crate::aggregate::Upload;
use crate::end::{End, Side};
use crate::handshake::{Agreed, Handshake};
use crate::path_tail::EmulatedHost;
use crate::senders::{Gate, Invitation, Progress};
use crate::{
    AckRule, CustodyRecord, FlowInfo, GatewayConfig, LegConfig, LegInfo, SenderControl, UplinkWindow,
};
use alloc::boxed::Box;
use arrayvec::ArrayVec;
use core::net::SocketAddr;
use core::num::NonZeroU16;
use core::time::Duration;
use governed::{governed_by_aggregate, is_governed};
use memory::make_room;
use resent::Resent;
use shorthaul_congestion::ControlParams;
use shorthaul_tcp::{Ack, AckPolicy, Outgoing, ProbedPeer, Receiver, Segment, Sender, SenderConfig};
use shorthaul_types::{Deadline, FlowKey, PortId, Seed, Time};
use shorthaul_wire::{Packet, SackBlock, TcpFlags, TcpHeader, TcpOptions, TcpSegment, Timestamps, TxBatch};

/// Segments that one flow sends before another has its turn.
const TURN: usize = 32;

/// What a flow may take when a packet arrives, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// The window to offer.
    pub window: u64,
    /// Memory of a direction, whole packet buffers counted.
    pub direction: u64,
    /// Memory that is free in all.
    pub free: u64,
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
    /// We hold nothing of it and have stepped out.
    SteppedOut,
}

/// What one end sends: we receive it from that end and send it to the other.
#[derive(Debug)]
struct Direction {
    receiver: Receiver,
    sender: Sender,
    /// A keep-alive probe of the receiving end was passed through this flow and is unanswered.
    keep_alive: bool,
    /// A packet of it was marked (CE): say so until the end has slowed down (RFC 3168 §6.1.3).
    echo_congestion: bool,
    /// What its sender is acknowledged instead of what has come, where the path's tail is emulated.
    emulated: Option<Box<EmulatedHost>>,
    /// What keeps acknowledgments back, where they wait for the far end's.
    gate: Option<Gate>,
    /// How much its sender is invited to send.
    invitation: Invitation,
    resent: Option<Resent>,
}

/// A TCP connection that we stand in: two directions, each a [`Receiver`] toward the one end and a
/// [`Sender`] toward the other around one buffer, in the ends' own sequence numbers.
#[derive(Debug)]
pub struct SplitFlow {
    key: FlowKey,
    ends: [End; 2],
    directions: [Direction; 2],
    agreed: Agreed,
    opened: Time,
    draining: bool,
    odd: Odd,
    /// The end that is a mobile host whose aggregate governs what is sent to it.
    governed: Option<Side>,
    /// What its wired sender is allotted.
    allotted: Option<u64>,
    /// What the mobile host sends, where that is limited.
    upload: Option<Box<Upload>>,
}

/// Segments that were not taken, since they were last asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Odd {
    /// Outside of what the connection can hold, or old duplicates.
    pub unacceptable: u64,
    /// Resets that were not exactly where one must be.
    pub challenged: u64,
}

impl SplitFlow {
    /// Steps in, when the handshake is complete; `None` if the server has not been heard.
    pub(crate) fn step_in(now: Time, handshake: Handshake, config: &GatewayConfig) -> Option<Self> {
        let Handshake { client, server, agreed, syn_at, syn_ack_at, ambiguous, .. } = handshake;
        let server = server?;
        let key = FlowKey {
            src: SocketAddr::new(client.ip.src(), client.port),
            dst: SocketAddr::new(server.ip.src(), server.port),
        };
        let ends = [client, server];
        let directions = Side::BOTH.map(|side| {
            let (from, to) = (&ends[side.index()], &ends[side.other().index()]);
            Direction::new(now, from, to, &agreed, config, is_governed(&ends, side.other(), config))
        });
        let mut flow = SplitFlow {
            key,
            governed: Side::BOTH.into_iter().find(|side| is_governed(&ends, *side, config)),
            ends,
            directions,
            agreed,
            opened: now,
            draining: false,
            odd: Odd::default(),
            allotted: config.aggregate.is_some().then_some(0), // until its aggregate says how much
            upload: None,
        };
        if config.aggregate.as_ref().is_some_and(|aggregate| aggregate.uplink != UplinkWindow::None) {
            flow.limit_upload(now, syn_ack_at);
        }
        if ambiguous {
            flow.directions.iter_mut().for_each(|d| d.sender.on_syn_retransmitted());
        } else {
            let to_server = syn_ack_at.saturating_since(syn_at);
            let to_client = now.saturating_since(syn_ack_at);
            for (side, rtt) in [(Side::Client, to_server), (Side::Server, to_client)] {
                if rtt > Duration::ZERO {
                    flow.directions[side.index()].sender.on_rtt_sample(now, rtt);
                }
            }
        }
        Some(flow)
    }

    /// What was not taken since the last call.
    pub(crate) fn take_odd(&mut self) -> Odd {
        core::mem::take(&mut self.odd)
    }

    /// From the client to the server.
    pub fn key(&self) -> FlowKey {
        self.key
    }

    /// Memory held, in bytes.
    pub fn allocated(&self) -> usize {
        self.directions.iter().map(|d| d.sender.queue().allocated() + d.receiver.allocated()).sum()
    }

    /// Whether bytes are held that their sender believes delivered.
    pub fn holds_bytes(&self) -> bool {
        self.directions.iter().any(|d| !d.sender.queue().is_empty())
    }

    /// Takes no more custody from now on: what comes is passed on as it is, what is held is
    /// delivered.
    pub(crate) fn drain(&mut self) -> Fate {
        self.draining = true;
        for direction in &mut self.directions {
            direction.receiver.discard();
            if direction.emulated.take().is_some() | direction.gate.take().is_some() {
                direction.receiver.request_ack(); // what we hold is ours to deliver: no more waiting
            }
        }
        self.drained()
    }

    /// Whether nothing is held or under way: it would not notice if it were stepped out of.
    pub(crate) fn is_idle(&self) -> bool {
        !self.holds_bytes() && self.directions.iter().all(|d| d.sender.is_idle() && !d.owes_ack())
    }

    fn drained(&self) -> Fate {
        if self.draining && !self.holds_bytes() { Fate::SteppedOut } else { Fate::Alive }
    }

    /// A TCP packet of this flow arrived, from `side`. What it makes pass goes to `out`.
    pub(crate) fn on_packet(
        &mut self,
        now: Time,
        side: Side,
        packet: Packet,
        budget: Budget,
        out: &mut TxBatch,
    ) -> Fate {
        let Some(segment) = packet.as_tcp() else { return Fate::Alive };
        let header = &segment.header;
        let (near, far) = (side.index(), side.other().index());
        let Some(offset) =
            self.ends[near].space.offset(header.seq, self.directions[near].receiver.data_end())
        else {
            self.directions[near].receiver.request_ack();
            return Fate::Alive;
        };
        let receiver = &mut self.directions[near].receiver;
        if header.flags.contains(TcpFlags::SYN) {
            // A SYN-ACK sent again, or a stranger's SYN (RFC 5961 §4): say what we have.
            receiver.request_ack();
            return Fate::Alive;
        }
        if header.flags.contains(TcpFlags::RST) {
            return self.on_reset(side, offset, out);
        }
        // Beyond the window, nothing of a segment counts (RFC 9293 §3.10.7.4): its window would be
        // taken for the latest ever after. While draining, the windows are the ends' own.
        let own = if self.draining { self.ends[far].invites } else { 0 };
        // A FIN is taken at the edge itself; what follows it lies one behind.
        let beyond = offset > receiver.edge().max(own) + 1;
        let old = self.agreed.timestamps && receiver.is_old_duplicate(header.options.timestamps);
        if beyond || old {
            self.odd.unacceptable += 1;
            receiver.request_ack();
            return Fate::Alive;
        }
        if !header.flags.contains(TcpFlags::ACK) {
            return Fate::Alive;
        }
        let Some(ack) = self.ends[far].space.offset(header.ack, self.directions[far].sender.una()) else {
            return Fate::Alive;
        };
        // What nobody has sent cannot be acknowledged; while draining, the ends also send themselves,
        // what comes behind all that we hold; but nothing comes behind a FIN.
        let Direction { receiver, sender, .. } = &self.directions[far];
        let direct = self.draining && !receiver.is_finished() && ack > sender.queue().end();
        if ack > sender.nxt() && !direct {
            self.directions[near].receiver.request_ack();
            return Fate::Alive;
        }
        self.ends[near].observe(packet.ip, segment);
        self.take_ack(now, side, offset, ack, segment);
        if packet.ip.ecn() == 3 && self.agreed.ecn {
            self.directions[near].echo_congestion = true;
        }
        if header.flags.contains(TcpFlags::CWR) {
            self.directions[near].echo_congestion = packet.ip.ecn() == 3;
        }
        if self.draining {
            return self.pass_while_draining(side, offset, ack, packet, out);
        }
        if self.is_keep_alive(side, offset, segment) {
            self.directions[far].keep_alive = true;
            out.push(self.pass_keep_alive(side, packet));
            return Fate::Alive;
        }
        let bare = segment.payload.is_empty() && !header.flags.contains(TcpFlags::FIN);
        if bare && core::mem::take(&mut self.directions[near].keep_alive) {
            out.push(self.pass_keep_alive(side, packet)); // the answer
            return Fate::Alive;
        }
        if bare {
            if offset < self.directions[near].receiver.next() {
                self.directions[near].receiver.request_ack(); // a window probe
            }
        } else {
            self.take_data(now, side, offset, segment, budget);
        }
        self.offer_windows(budget.window);
        Fate::Alive
    }

    fn take_data(&mut self, now: Time, side: Side, offset: u64, segment: &TcpSegment, budget: Budget) {
        let header = &segment.header;
        if header.flags.contains(TcpFlags::URG) && header.urgent > 0 {
            let end = offset + u64::from(header.urgent);
            let urgent = &mut self.ends[side.index()].urgent;
            *urgent = (*urgent).max(Some(end));
        }
        let Direction { receiver, sender, emulated, gate, .. } = &mut self.directions[side.index()];
        let had_gap = receiver.has_gap();
        let queued = sender.queue().allocated();
        let Some(payload) = make_room(receiver, queued, offset, &segment.payload, budget) else {
            return receiver.request_ack();
        };
        if had_gap
            && !receiver.has_gap()
            && let Some(emulated) = emulated
        {
            emulated.forget_early();
        }
        let taken = Segment {
            offset,
            payload,
            fin: header.flags.contains(TcpFlags::FIN),
            push: header.flags.contains(TcpFlags::PSH),
            timestamps: header.options.timestamps.filter(|_| self.agreed.timestamps),
        };
        let before = receiver.data_end();
        let end = offset + segment.payload.len() as u64;
        receiver.on_segment(now, taken, sender.queue_mut(), 2 * budget.window as usize);
        if let Some(gate) = gate {
            gate.on_received(receiver.data_end() - before);
        }
        if gate.is_some() && !receiver.sack_ranges().is_empty() {
            receiver.request_ack(); // what lies behind a gap, or came twice, is reported as ever
        }
        if receiver.is_finished() {
            sender.finish();
        }
        self.note_arrival(now, side, end, segment);
    }

    /// The part of a segment from `side` that is about what the other end sent.
    fn take_ack(&mut self, now: Time, side: Side, seq: u64, ack: u64, segment: &TcpSegment) {
        let header = &segment.header;
        let (near, far) = (side.index(), side.other().index());
        let space = self.ends[far].space;
        let shift = if self.agreed.window_scaling { self.ends[near].window_shift } else { 0 };
        let window = u64::from(header.window) << shift;
        let end = &mut self.ends[near];
        end.acknowledges = end.acknowledges.max(ack);
        end.invites = end.invites.max(ack + window);
        let Direction { receiver, sender, emulated, gate, invitation, resent, .. } =
            &mut self.directions[far];
        let una = sender.una();
        let sack: ArrayVec<(u64, u64), 4> = header
            .options
            .sack
            .iter()
            .filter_map(|block| Some((space.offset(block.left, una)?, space.offset(block.right, una)?)))
            .filter(|(left, right)| left < right)
            .collect();
        sender.on_ack(
            now,
            &Ack {
                ack: ack.min(sender.nxt()),
                window,
                seq,
                sack: &sack,
                has_data: !segment.payload.is_empty() || header.flags.contains(TcpFlags::FIN),
                ecn_echo: self.agreed.ecn && header.flags.contains(TcpFlags::ECE),
                echo: None, // the timestamps are the ends' own, and so are their clocks
                sent_before: Resent::on_ack(resent, ack, header.options.timestamps.map(|ts| ts.ecr)),
            },
        );
        if sender.una() > una {
            let held = sender.queue().len();
            if let Some(gate) = gate {
                let received = receiver.data_end();
                gate.on_delivered(Progress { delivered: sender.una().min(received), received, held });
            }
            if invitation.on_delivered(now) {
                receiver.request_ack();
            }
        }
        if sender.is_finished() {
            receiver.confirm_fin();
            if let Some(emulated) = emulated {
                emulated.catch_up(receiver.data_end()); // the far end has it all
            }
        }
    }

    /// RFC 5961 §3: a reset counts if it is exactly where it must be; one that is merely within
    /// the window draws an acknowledgment, which a real sender answers with an exact one.
    fn on_reset(&mut self, side: Side, offset: u64, out: &mut TxBatch) -> Fate {
        let receiver = &mut self.directions[side.index()].receiver;
        if offset == receiver.next() || offset == receiver.ack() {
            out.push(self.reset_toward(side.other()));
            return Fate::Reset;
        }
        self.odd.challenged += 1;
        if offset > receiver.next() && offset < receiver.edge() {
            receiver.request_ack();
        }
        Fate::Alive
    }

    /// While draining, what we hold is ours to deliver and what is new is the ends' own business.
    fn pass_while_draining(
        &mut self,
        side: Side,
        offset: u64,
        ack: u64,
        packet: Packet,
        out: &mut TxBatch,
    ) -> Fate {
        let (near, far) = (side.index(), side.other().index());
        let Some(segment) = packet.as_tcp() else { return Fate::Alive };
        let fin = segment.header.flags.contains(TcpFlags::FIN);
        let end = offset + segment.payload.len() as u64 + u64::from(fin);
        let bare = segment.payload.is_empty() && !fin;
        let receiver = &mut self.directions[near].receiver;
        let ours = end <= receiver.ack() && !bare;
        // An acknowledgment of less than we acknowledged ourselves is of no use to the far end.
        let stale = bare && ack < self.directions[far].ack();
        if ours {
            self.directions[near].receiver.request_ack();
        } else if !stale {
            self.ends[near].passed = self.ends[near].passed.max(end);
            out.push((self.ends[far].attachment, packet));
        }
        self.drained()
    }

    fn offer_windows(&mut self, limit: u64) {
        for side in Side::BOTH {
            let direction = &self.directions[side.index()];
            let queue = direction.sender.queue();
            if direction.receiver.is_finished() {
                continue;
            }
            let held = queue.len().max((queue.allocated() + direction.receiver.allocated()) as u64 / 2);
            let limit = direction.invitation.limit(limit);
            let free = self.invited(side, limit.saturating_sub(held));
            let free = self.invited_up(side, free);
            self.directions[side.index()].receiver.offer(free);
        }
    }

    /// The path from `side` to the other end takes packets of `mtu` bytes at most: one that
    /// carried our data from `seq` on was too big.
    pub(crate) fn on_packet_too_big(
        &mut self,
        now: Time,
        side: Side,
        seq: shorthaul_types::SeqNum,
        mtu: u32,
    ) {
        let end = &self.ends[side.index()];
        let sender = &mut self.directions[side.index()].sender;
        let sent = end.space.offset(seq, sender.una());
        if !sent.is_some_and(|offset| offset >= sender.una() && offset < sender.nxt()) {
            return; // not about anything outstanding: forged or old (RFC 5927)
        }
        let overhead = end.ip.len() as u32 + 20 + if self.agreed.timestamps { 12 } else { 0 };
        let floor = if end.ip.len() == 20 { 552 } else { 1280 };
        sender.reduce_mss(now, mtu.max(floor) - overhead);
    }

    /// Timers may have fired.
    pub(crate) fn on_timeout(&mut self, now: Time, out: &mut TxBatch) -> Fate {
        for Direction { receiver, sender, invitation, .. } in &mut self.directions {
            sender.on_timeout(now);
            if invitation.on_timeout(now) {
                receiver.request_ack();
            }
        }
        if self.directions.iter().any(|d| d.sender.has_given_up()) {
            return self.reset_both(out);
        }
        Fate::Alive
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
        self.directions.iter().fold(None, |earliest, d| {
            let earliest = Deadline::earliest(earliest, d.sender.poll_timeout());
            let earliest = Deadline::earliest(earliest, d.invitation.poll_timeout());
            Deadline::earliest(earliest, d.receiver.poll_timeout())
        })
    }

    /// Puts out what may leave now, at most a turn's worth; returns whether there may be more.
    pub(crate) fn poll_transmit(&mut self, now: Time, limit: u64, out: &mut TxBatch) -> (bool, Fate) {
        if !self.draining {
            self.offer_windows(limit);
        }
        let mut more = false;
        for side in Side::BOTH {
            let (near, far) = (side.index(), side.other().index());
            let direction = &self.directions[near];
            if direction.wants_ack(now) && !direction.sack_ranges().is_empty() {
                out.push(self.acknowledge(now, side));
            }
            let mut turns = TURN;
            while turns > 0 {
                let Some(outgoing) = self.directions[far].sender.poll_segment(now) else { break };
                out.push(self.data_toward(now, side, outgoing));
                turns -= 1;
            }
            let Direction { sender, invitation, .. } = &mut self.directions[far];
            invitation.on_sent(now, sender.in_flight() > 0);
            more |= turns == 0;
            // datagrams out of order are acknowledged one by one: their sender counts
            while self.directions[near].wants_ack(now) {
                out.push(self.acknowledge(now, side));
            }
        }
        let over = self.directions.iter().all(|d| d.sender.is_finished());
        let fate = if over && !more { Fate::Finished } else { self.drained() };
        (more, fate)
    }

    fn acknowledge(&mut self, now: Time, side: Side) -> (PortId, Packet) {
        let far = side.other().index();
        let seq = self.directions[far].sender.nxt();
        let mut options = self.options_toward(side);
        if self.agreed.sack {
            let space = self.ends[side.index()].space;
            let room = if self.agreed.timestamps { 3 } else { 4 };
            for (left, right) in self.directions[side.index()].sack_ranges().into_iter().take(room) {
                options.sack.push(SackBlock { left: space.seq(left), right: space.seq(right) });
            }
        }
        let mut header = self.header_toward(side, seq, TcpFlags::ACK);
        header.options = options;
        self.on_ack_sent(now, side, &header, false);
        self.packet_toward(side, TcpSegment { header, ..TcpSegment::default() }, 0)
    }

    fn data_toward(&mut self, now: Time, side: Side, outgoing: Outgoing) -> (PortId, Packet) {
        let far = side.other().index();
        let mut flags = TcpFlags::ACK;
        let Outgoing { offset, payload, fin, push, cwr, .. } = outgoing;
        for (wanted, flag) in [(fin, TcpFlags::FIN), (push && !payload.is_empty(), TcpFlags::PSH)] {
            if wanted {
                flags |= flag;
            }
        }
        if cwr && self.agreed.ecn {
            flags |= TcpFlags::CWR;
        }
        let mut header = self.header_toward(side, offset, flags);
        header.options = self.options_toward(side);
        if outgoing.retransmission {
            let Direction { sender, resent, .. } = &mut self.directions[far];
            Resent::note(resent, now, header.options.timestamps.map(|ts| ts.val), sender.nxt());
        }
        if let Some(urgent) = self.ends[far].urgent
            && urgent > offset
            && urgent - offset <= u64::from(u16::MAX)
        {
            header.flags |= TcpFlags::URG;
            header.urgent = (urgent - offset) as u16;
        }
        let mss = self.directions[far].sender.mss();
        let gso_size = (payload.len() > mss as usize).then(|| NonZeroU16::new(mss as u16)).flatten();
        let ect = if self.agreed.ecn && !payload.is_empty() && !outgoing.retransmission { 2 } else { 0 };
        self.on_ack_sent(now, side, &header, true);
        self.packet_toward(side, TcpSegment { header, payload, gso_size }, ect)
    }

    fn reset_toward(&self, side: Side) -> (PortId, Packet) {
        let seq = self.directions[side.other().index()].sender.nxt();
        let header = self.header_toward(side, seq, TcpFlags::RST | TcpFlags::ACK);
        self.packet_toward(side, TcpSegment { header, ..TcpSegment::default() }, 0)
    }

    /// A header as the other end would send it to `side`.
    fn header_toward(&self, side: Side, offset: u64, flags: TcpFlags) -> TcpHeader {
        let (near, far) = (&self.ends[side.index()], &self.ends[side.other().index()]);
        let direction = &self.directions[side.index()];
        let shift = if self.agreed.window_scaling { far.window_shift } else { 0 };
        let echo = if direction.echo_congestion { TcpFlags::ECE } else { TcpFlags::default() };
        // While draining, the other end acknowledges and invites by itself. Who was told so discards what says much less, with all
        // data in it (RFC 5961 §5.2).
        let own = if self.draining { (far.acknowledges.min(near.passed), far.invites) } else { (0, 0) };
        let ack = direction.ack().max(own.0);
        let window = (direction.ack() + direction.window()).max(own.1).saturating_sub(ack);
        TcpHeader {
            src_port: far.port,
            dst_port: near.port,
            seq: far.space.seq(offset),
            ack: near.space.seq(ack),
            flags: flags | echo,
            window: self.window_field(side, window, shift),
            ..TcpHeader::default()
        }
    }

    fn options_toward(&self, side: Side) -> TcpOptions {
        let far = &self.ends[side.other().index()];
        let ecr = self.directions[side.index()].ts_recent().unwrap_or(0);
        let timestamps = far.ts_val.filter(|_| self.agreed.timestamps).map(|val| Timestamps { val, ecr });
        TcpOptions { timestamps, ..TcpOptions::default() }
    }

    fn packet_toward(&self, side: Side, segment: TcpSegment, ecn: u8) -> (PortId, Packet) {
        let mut ip = self.ends[side.other().index()].ip;
        ip.set_ecn(ecn);
        (self.ends[side.index()].attachment, Packet::tcp(ip, segment))
    }

    /// What must survive a crash.
    pub fn custody(&self) -> CustodyRecord {
        let directions = Side::BOTH.map(|side| {
            let space = self.ends[side.index()].space;
            let direction = &self.directions[side.index()];
            (space.seq(direction.ack()), space.seq(direction.sender.una()))
        });
        CustodyRecord { flow: self.key, client_port: self.ends[0].attachment, directions }
    }

    /// What people see of it.
    pub fn info(&self, now: Time) -> FlowInfo {
        let closing = self.directions.iter().any(|d| d.receiver.is_finished());
        let state = match (self.draining, closing) {
            (true, _) => "draining",
            (_, true) => "closing",
            _ => "split",
        };
        let legs = Side::BOTH.map(|side| {
            let Direction { receiver, sender, .. } = &self.directions[side.index()];
            let stats = sender.stats();
            LegInfo {
                control: sender.control().name(),
                window: sender.control().window(),
                ssthresh: sender.control().ssthresh(),
                in_flight: sender.in_flight(),
                buffered: sender.queue().len() + receiver.allocated() as u64,
                srtt: sender.rtt().srtt(),
                mss: sender.mss(),
                peer_window: sender.peer_window(),
                delivered: sender.una().saturating_sub(1),
                retransmitted: stats.retransmitted,
                timeouts: stats.timeouts,
            }
        });
        FlowInfo { key: self.key, state, age: now.saturating_since(self.opened), legs: Some(legs) }
    }
}

impl Direction {
    /// What `from` sends to `to`.
    fn new(now: Time, from: &End, to: &End, agreed: &Agreed, config: &GatewayConfig, governed: bool) -> Self {
        let leg = |end: &End| -> &LegConfig {
            if end.attachment == PortId(0) { &config.edge } else { &config.wan }
        };
        let options = if agreed.timestamps { 12 } else { 0 };
        let out = leg(to);
        let room = out.mtu.saturating_sub(to.ip.len() as u32 + 20).max(88);
        let mss = u32::from(from.mss.min(to.mss)).min(room) - options;
        // Differs from flow to flow, and is the same when a recording is replayed.
        let seed = Seed(u64::from(from.space.seq(0).0)).derive("congestion control");
        let params = ControlParams {
            paced: out.pacing,
            selective_acks: agreed.sack,
            seed,
            ..ControlParams::new(mss, now)
        };
        let control = out.congestion.build(params.with_initial_segments(out.initial_window));
        // We stand in for an end that has agreed to nothing.
        let peer = if agreed.sack { ProbedPeer::Reporting } else { ProbedPeer::Plain };
        let sender = SenderConfig {
            sack: agreed.sack,
            arbiter: out.arbiter.build(now, peer),
            pacing: out.pacing,
            rtt: out.rtt,
            ..SenderConfig::new(mss, control)
        };
        let sender = if governed { governed_by_aggregate(sender, params) } else { sender };
        // The window of a SYN-ACK is not scaled (RFC 7323 §2.2); the client's comes with its ACK.
        let edge = 1 + u64::from(to.window);
        let to_edge = to.attachment == PortId(0);
        let rules = if to_edge { config.senders.clone() } else { SenderControl::default() };
        let ack = if rules.acks == AckRule::Early { leg(from).ack } else { AckPolicy::ByOwner };
        let mut receiver = Receiver::new(1, 1 + u64::from(to.window), mss, ack);
        if let Some(val) = from.ts_val.filter(|_| agreed.timestamps) {
            receiver.set_ts_recent(val);
        }
        Direction {
            receiver,
            sender: Sender::new(now, 1, edge, sender),
            keep_alive: false,
            echo_congestion: false,
            emulated: None,
            gate: Gate::of(&rules.acks, 1, mss),
            invitation: Invitation::new(now, rules.window, mss),
            resent: None,
        }
    }
}
