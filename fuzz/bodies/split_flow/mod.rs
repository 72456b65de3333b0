//! What must hold for a splitting gateway, whatever its ends send:
//!
//! * nothing comes out in an end's name that this end did not send, in its place in the stream;
//! * nothing is acknowledged to an end that it did not send, or that the record of custody does not
//!   cover, and no FIN before the other end has acknowledged it; no window is taken back;
//! * no more is sent to an end than it offered to take;
//! * memory stays within its bounds;
//! * nothing panics, no poll goes on for ever, and no deadline remains in the past;
//! * once both ends behave, all that was acknowledged early arrives, byte for byte.

#[path = "../contents.rs"]
mod contents;
mod end;
mod heal;
mod script;
#[path = "../shape.rs"]
mod shape;

use contents::LONGEST_STREAM;
use end::End;
use script::{Step, Target};
use shape::{Place, Script, Shape, Stamp};
use shorthaul_congestion::Algorithm;
use shorthaul_proxy::{AggregateConfig, Clamp, Gateway, GatewayConfig, Mode, UplinkWindow};
use shorthaul_tcp::AckPolicy;
use shorthaul_testkit::{Vault, draw::Draw, packets};
use shorthaul_types::{Bytes, FlowKey, PortId, SeqNum, Time};
use shorthaul_wire::{
    Chunk, IcmpError, IcmpErrorKind, Machine, Packet, Payload, PayloadList, SackBlock, TcpFlags, TcpHeader,
    TcpOptions, TcpSegment, Timestamps, Transport, TxBatch,
};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

const FLOWS: usize = 2;
/// What both ends offer while they open.
const HANDSHAKE_WINDOW: u16 = 20_000;
/// The largest packet buffer that a driver hands over.
const LARGEST_CHUNK: usize = 65_536;

/// One input of the fuzzer.
pub fn run(input: &[u8]) {
    let mut script = Script::new(input);
    let Some(mut world) = World::open(&mut script) else { return };
    while let Some(step) = script.step() {
        world.play(&step);
        world.played.push(step);
    }
    world.heal();
}

/// A flow as its ends see it.
struct Flow {
    key: FlowKey,
    ends: [End; 2],
    /// What the SYNs agreed on.
    timestamps: bool,
    shifts: Option<[u8; 2]>,
    mss: usize,
    /// It is split.
    alive: bool,
}

struct World {
    now: Time,
    gateway: Gateway,
    config: GatewayConfig,
    /// Its policy has parts that may close a window that was offered.
    is_drawn: bool,
    flows: Vec<Flow>,
    /// What would survive a crash.
    custody: Vault,
    /// What was handed in since the last flush, which may pass through as it is.
    handed: Vec<Packet>,
    /// What was handed in of flows that pass interceptors, which may put it in once more.
    seen: Vec<Packet>,
    /// Packet buffers that the driver keeps for reuse, as its pool does.
    pool: Vec<Arc<Chunk>>,
    /// The steps so far, to be told if something does not hold.
    played: Vec<Step>,
}

impl World {
    /// Reads the set-up and opens the flows; `None` if the script is too short.
    fn open(script: &mut Script) -> Option<World> {
        let (sizes, policy, agreed) = (script.byte()?, script.byte()?, script.byte()?);
        let flow_buffer = [4_000, 20_000, 100_000, 1 << 20][usize::from(sizes & 3)];
        let memory = flow_buffer * [2, 5, 16, 1 << 10][usize::from(sizes >> 2 & 3)];
        let mut config = GatewayConfig {
            flow_buffer: Bytes(flow_buffer),
            memory: Bytes(memory.max(4 * LARGEST_CHUNK as u64)),
            ..GatewayConfig::default()
        };
        // Every second time one of the gateways that can be made of what is registered.
        let draw = if sizes & 0x80 != 0 { Some(Draw::new(u64::from(script.word()?))) } else { None };
        let is_drawn = draw.is_some();
        match draw {
            Some(mut draw) => config = draw.gateway(&config, &[]),
            None => choose_policy(&mut config, sizes, policy),
        }
        let mode = config.policies[0].mode;
        let gateway = Gateway::new(config.clone());
        let mut world = World {
            now: Time::from_secs(1),
            gateway,
            config,
            is_drawn,
            flows: Vec::new(),
            custody: Vault::default(),
            handed: Vec::new(),
            seen: Vec::new(),
            pool: Vec::new(),
            played: Vec::new(),
        };
        for index in 0..FLOWS {
            let isn = [script.isn()?, script.isn()?];
            world.shake_hands(index, isn, agreed, sizes & 0x40 != 0);
        }
        let split = if mode == Mode::Split { FLOWS as u64 } else { 0 };
        assert_eq!(world.gateway.counters().flows_split, split);
        Some(world)
    }

    fn shake_hands(&mut self, index: usize, isn: [u32; 2], agreed: u8, is_v6: bool) {
        let mss = [1_460, 536, 1_000, 216][usize::from(agreed & 3)];
        let shifts = (agreed & 4 != 0).then_some([7, agreed >> 3 & 3]);
        let options = |side: usize, clock: u32| TcpOptions {
            mss: Some(mss),
            sack_permitted: agreed & 0x20 != 0,
            timestamps: (agreed & 0x40 != 0).then_some(Timestamps { val: clock, ecr: 0 }),
            window_scale: shifts.map(|shifts| shifts[side]),
            ..TcpOptions::default()
        };
        let address = |side: usize| match is_v6 {
            false => IpAddr::from([10, 0, side as u8, 1]),
            true => IpAddr::from([0xfd00, 0, 0, 0, 0, 0, side as u16, 1]),
        };
        let ip = |from: usize| packets::ip(address(from), address(1 - from));
        let ports = [4_000 + index as u16, 80];
        let ends = [0, 1].map(|side| End::new(ip(side), ports[side], isn[side], (2 * index + side) as u8));
        let key = FlowKey {
            src: SocketAddr::new(ends[0].ip.src(), ports[0]),
            dst: SocketAddr::new(ends[1].ip.src(), ports[1]),
        };
        let mut flow =
            Flow { key, ends, timestamps: agreed & 0x40 != 0, shifts, mss: usize::from(mss), alive: true };
        let shift = flow.shifts.map_or(0, |shifts| shifts[0]);
        let ecn = TcpFlags::ECE | TcpFlags::CWR;
        let ecn = if agreed & 0x80 != 0 { [ecn, TcpFlags::ECE] } else { [TcpFlags::default(); 2] };
        let syn_ack = TcpFlags::SYN | TcpFlags::ACK;
        let mut offered = [HANDSHAKE_WINDOW; 2];
        for (side, flags, offset) in
            [(0, TcpFlags::SYN | ecn[0], 0), (1, syn_ack | ecn[1], 0), (0, TcpFlags::ACK, 1)]
        {
            let (near, far) = (&flow.ends[side], &flow.ends[1 - side]);
            let mut header = TcpHeader {
                src_port: near.port,
                dst_port: far.port,
                seq: near.space.seq(offset),
                ack: if flags.contains(TcpFlags::ACK) { far.space.seq(1) } else { SeqNum(0) },
                flags,
                window: HANDSHAKE_WINDOW,
                ..TcpHeader::default()
            };
            // Only the window of a SYN is not scaled (RFC 7323 §2.2).
            header.window >>= if offset > 0 { shift } else { 0 };
            if offset == 0 {
                header.options = options(side, near.clock);
            } else if flow.timestamps {
                header.options.timestamps = Some(Timestamps { val: near.clock, ecr: far.clock });
            }
            let packet = Packet::tcp(near.ip, TcpSegment { header, ..TcpSegment::default() });
            let clock = near.clock;
            flow.ends[side].stamps.insert(clock);
            self.seen.push(packet.clone());
            self.gateway.handle_packet(self.now, PortId(side as u8), packet);
            self.now += Duration::from_millis(20);
            let mut out = TxBatch::new();
            while self.gateway.poll_transmit(self.now, &mut out) {}
            // The window in it may be lowered on the way, where the other end's uploads are limited.
            let told =
                out.iter().filter_map(|(_, packet)| packet.as_tcp()).map(|segment| segment.header.window);
            let told = told.min().unwrap_or(HANDSHAKE_WINDOW);
            let shift = if offset > 0 { shift } else { 0 };
            offered[1 - side] = offered[1 - side].min(told << shift);
        }
        for (end, offered) in flow.ends.iter_mut().zip(offered) {
            end.edge = 1 + u64::from(offered >> shift << shift);
            end.advertised = 1 + u64::from(HANDSHAKE_WINDOW);
        }
        flow.alive = self.gateway.counters().flows_split > index as u64;
        self.flows.push(flow);
    }

    fn play(&mut self, step: &Step) {
        match step {
            Step::Segment(target, shape) => self.send_shape(*target, shape),
            Step::Send(target, len) => {
                let end = &self.flows[target.flow].ends[target.side];
                let room =
                    end.edge.min(LONGEST_STREAM).saturating_sub(end.contents.next).min(u64::from(*len));
                self.send(*target, end.contents.next, room, TcpFlags::ACK);
            }
            Step::Acknowledge(target) => {
                let end = &self.flows[target.flow].ends[target.side];
                self.send(*target, end.furthest, 0, TcpFlags::ACK);
            }
            Step::Close(target) => {
                let end = &self.flows[target.flow].ends[target.side];
                self.send(*target, end.contents.next, 0, TcpFlags::ACK | TcpFlags::FIN);
            }
            Step::TooBig(target, place, mtu) => self.send_too_big(*target, *place, u32::from(*mtu)),
            Step::Wait(time) => self.wait_until(self.now + *time),
            Step::Sleep => {
                self.flush();
                let at = self.gateway.poll_timeout().map_or(self.now, |deadline| deadline.at);
                // A deadline that far away is none.
                if at < self.now + Duration::from_secs(1_000) {
                    self.wait_until(at.max(self.now));
                }
            }
            Step::Drain => {
                self.flush();
                let ends = self.flows.iter_mut().flat_map(|flow| &mut flow.ends);
                ends.for_each(|end| end.direct = true);
                self.gateway.drain(self.now);
            }
            Step::Flush => self.flush(),
        }
    }

    fn wait_until(&mut self, at: Time) {
        self.flush();
        self.now = at;
        // A driver that comes late comes once; how often it must come again at one time is bounded.
        for _ in 0..8 {
            self.gateway.handle_timeout(self.now);
            self.flush();
            if self.gateway.poll_timeout().is_none_or(|deadline| deadline.at > self.now) {
                return;
            }
        }
        panic!("at {} still due: {:?}", self.now, self.gateway.poll_timeout());
    }

    /// An honest end sends what it has, and acknowledges all that it was sent.
    fn send(&mut self, target: Target, offset: u64, len: u64, flags: TcpFlags) {
        let flow = &self.flows[target.flow];
        let (near, far) = (&flow.ends[target.side], &flow.ends[1 - target.side]);
        let shift = flow.shifts.map_or(0, |shifts| shifts[target.side]);
        let mut header = TcpHeader {
            seq: near.space.seq(offset),
            ack: far.space.seq(far.passed),
            flags,
            window: 60_000 >> shift,
            ..TcpHeader::default()
        };
        header.options.timestamps = flow.timestamps.then_some(Timestamps { val: near.clock, ecr: near.echo });
        self.hand_in(target, header, offset, len.min(60_000) as usize, 0, Wrapping::default());
    }

    fn send_shape(&mut self, target: Target, shape: &Shape) {
        let flow = &mut self.flows[target.flow];
        let [near, far] = pair(&mut flow.ends, target.side);
        let seq = match shape.seq.landmark {
            0 | 1 => near.contents.next,
            2 => near.edge,
            _ => near.acknowledged,
        };
        let Some(offset) = seq.checked_add_signed(shape.seq.delta) else { return };
        if (LONGEST_STREAM - LARGEST_CHUNK as u64..LONGEST_STREAM * 2).contains(&offset) {
            return; // would have to be remembered
        }
        let ack = match shape.ack.landmark {
            0 | 1 => far.passed,
            _ => far.confirmed,
        };
        let ack = ack.wrapping_add_signed(shape.ack.delta);
        let stamp = |near: &mut End| match shape.timestamps {
            Stamp::Current => Some(near.clock),
            Stamp::Later => {
                near.clock = near.clock.wrapping_add(10);
                Some(near.clock)
            }
            Stamp::Old => Some(near.clock.wrapping_sub(5_000)),
            Stamp::Ahead => {
                near.clock = near.clock.wrapping_add(1 << 20);
                Some(near.clock)
            }
            Stamp::Absent => None,
        };
        let ecr = near.echo;
        let timestamps = stamp(near).map(|val| Timestamps { val, ecr });
        let mut header = TcpHeader {
            seq: near.space.seq(offset),
            ack: far.space.seq(ack),
            flags: TcpFlags(shape.flags),
            window: shape.window,
            urgent: shape.urgent,
            ..TcpHeader::default()
        };
        header.options.timestamps = timestamps;
        if shape.unknown_options {
            header.options.unknown.extend([253, 4, 1, 2]);
        }
        for (place, len) in &shape.sack {
            let left = if place.landmark & 1 == 0 { far.confirmed } else { far.passed };
            let left = left.wrapping_add_signed(place.delta);
            let block = SackBlock {
                left: far.space.seq(left),
                right: far.space.seq(left.wrapping_add(u64::from(*len))),
            };
            header.options.sack.push(block);
        }
        let wrapping = Wrapping { roomy: shape.roomy, ecn: shape.ecn };
        self.hand_in(target, header, offset, shape.len, shape.variant, wrapping);
    }

    /// Hands a segment to the gateway, after noting what its sender says with it.
    fn hand_in(
        &mut self,
        target: Target,
        mut header: TcpHeader,
        offset: u64,
        len: usize,
        variant: u8,
        wrapping: Wrapping,
    ) {
        let flow = &mut self.flows[target.flow];
        let shift = flow.shifts.map_or(0, |shifts| shifts[target.side]);
        let [near, far] = pair(&mut flow.ends, target.side);
        if offset > near.edge.max(near.furthest) && offset - near.edge <= self.config.flow_buffer.0 + 1 {
            return; // perhaps within a window that is about to be offered: who knows what it counts for
        }
        header.src_port = near.port;
        header.dst_port = far.port;
        let split = flow.alive && self.gateway.flows().any(|info| info.key == flow.key);
        if !split && header.flags.contains(TcpFlags::SYN) {
            return; // a new connection: not of interest here
        }
        let bytes = near.contents.make(offset, len, variant);
        near.on_sent(offset, &bytes, header.flags, variant);
        if let Some(stamp) = header.options.timestamps {
            near.stamps.insert(stamp.val);
        }
        if header.flags.contains(TcpFlags::ACK)
            && let Some(ack) = far.space.offset(header.ack, far.passed)
        {
            far.on_confirmed(ack, ack + (u64::from(header.window) << shift));
        }
        let mut chunk = Chunk::new(if wrapping.roomy { len.max(2_048) } else { len });
        chunk.append(&bytes);
        let chunk = Arc::new(chunk);
        if wrapping.roomy {
            self.pool.push(Arc::clone(&chunk));
        }
        let gso_size = (len > 1_460).then_some(NonZeroU16::new(1_460)).flatten();
        let payload = PayloadList::from(Payload::new(chunk, 0..len));
        let mut ip = near.ip;
        ip.set_ecn(wrapping.ecn);
        let packet = Packet::tcp(ip, TcpSegment { header, payload, gso_size });
        let port = PortId((target.side ^ usize::from(target.wrong_port)) as u8);
        self.handed.push(packet.clone());
        self.gateway.handle_packet(self.now, port, packet);
        self.check_memory();
    }

    fn send_too_big(&mut self, target: Target, place: Place, mtu: u32) {
        let flow = &self.flows[target.flow];
        let (near, far) = (&flow.ends[target.side], &flow.ends[1 - target.side]);
        let base = if place.landmark & 1 == 0 { near.confirmed } else { near.passed };
        let error = IcmpError {
            kind: IcmpErrorKind::PacketTooBig { mtu },
            flow: if target.side == 0 { flow.key } else { flow.key.reversed() },
            seq: near.space.seq(base.wrapping_add_signed(place.delta)),
            message: Payload::copy_of(b"quoted"),
        };
        let packet = Packet { ip: far.ip, transport: Transport::IcmpError(error), original: None };
        let port = PortId(1 - target.side as u8);
        self.handed.push(packet.clone());
        self.gateway.handle_packet(self.now, port, packet);
    }

    /// Works off what is due now, as a driver does, and checks what comes out.
    fn flush(&mut self) {
        // Every byte held leaves at most three times at one time: new, as a probe, and again.
        let bound = 1_000 + 3 * self.gateway.allocated();
        let mut out = TxBatch::new();
        let mut polls = 0;
        while self.gateway.poll_transmit(self.now, &mut out) {
            polls += 1;
            assert!(polls < bound && out.len() < bound, "polling goes on for ever");
        }
        self.gateway.save(&mut self.custody);
        let handed = std::mem::take(&mut self.handed);
        let intercepts = !self.config.policies[0].intercept.is_empty();
        if intercepts {
            self.seen.extend(handed.iter().cloned());
        }
        for (_, packet) in &out {
            self.check_packet(packet, &handed);
        }
        if self.config.policies[0].mode != Mode::Split && !intercepts {
            let passed: Vec<&Packet> = out.iter().map(|(_, packet)| packet).collect();
            assert_eq!(
                passed,
                handed.iter().collect::<Vec<_>>(),
                "a flow that stays whole passes as it comes"
            );
        }
        for flow in &mut self.flows {
            flow.alive &= self.gateway.flows().any(|info| info.key == flow.key);
        }
        self.check_memory();
        self.pool.truncate(500);
    }

    fn check_packet(&mut self, packet: &Packet, handed: &[Packet]) {
        // A keep-alive probe, or its answer, is passed on with the gateway's acknowledgment and window.
        let but_for_the_window = |other: &Packet| {
            let mut other = other.clone();
            if let (Transport::Tcp(theirs), Some(ours)) = (&mut other.transport, packet.as_tcp()) {
                (theirs.header.ack, theirs.header.window) = (ours.header.ack, ours.header.window);
            }
            other.original = None;
            packet.original.is_none() && other == *packet
        };
        let passed_on = handed.contains(packet) || handed.iter().any(but_for_the_window);
        let (Some(key), Some(segment)) = (packet.flow(), packet.as_tcp()) else {
            assert!(passed_on, "{packet:?} came from nowhere");
            return;
        };
        let of_flow = |flow: &&mut Flow| flow.key == key || flow.key == key.reversed();
        let flow = self.flows.iter_mut().find(of_flow).expect("a packet of one of the flows");
        let from = usize::from(flow.key != key);
        let shift = flow.shifts.map_or(0, |shifts| shifts[from]);
        let [near, far] = pair(&mut flow.ends, from);
        if passed_on {
            let end = segment.payload.len() as u64 + u64::from(segment.header.flags.contains(TcpFlags::FIN));
            if let Some(offset) = near.space.offset(segment.header.seq, near.passed)
                && offset <= near.passed
            {
                near.passed = near.passed.max(offset + end);
                near.furthest = near.furthest.max(near.passed);
            }
            let ack = far.space.offset(segment.header.ack, far.acknowledged);
            let ack = ack.filter(|_| segment.header.flags.contains(TcpFlags::ACK));
            far.repeatable = far.repeatable.max(ack.unwrap_or(0));
            if let Some(ack) = ack.filter(|ack| *ack <= far.passed) {
                let shift = flow.shifts.map_or(0, |shifts| shifts[from]);
                far.on_told(ack, ack + (u64::from(segment.header.window) << shift));
            }
            return;
        }
        if !self.config.policies[0].intercept.is_empty() {
            let repeats = self.seen.iter().any(|seen| is_part_of(packet, seen));
            assert!(repeats, "{packet:?} is nothing that an interceptor has seen");
            return;
        }
        let counters = self.gateway.counters();
        if counters.resets_repeated > 0 && segment.header.flags == TcpFlags::RST && !flow.alive {
            return; // whoever goes on with a flow that was given up is told once more
        }
        assert!(flow.alive, "{packet:?} of a flow that is over");
        if segment.header.flags.contains(TcpFlags::RST) {
            let given_up = counters.flows_given_up > 0;
            assert!(near.sent_reset || given_up, "a reset that nobody sent");
        }
        assert!(segment.payload.len() <= 65_535 - 60, "a packet of {} bytes", segment.payload.len());
        if segment.gso_size.is_none() {
            assert!(segment.payload.len() <= flow.mss, "a segment of {} bytes", segment.payload.len());
        }
        near.on_passed(segment);
        // While draining, the gateway repeats what the other end has acknowledged by itself.
        let ack = far.space.offset(segment.header.ack, far.acknowledged);
        let repeated = ack.is_some_and(|ack| ack <= far.repeatable);
        let may_close = self.is_drawn && segment.header.window == 0;
        far.on_acknowledged(segment, flow.shifts.map(|_| shift), may_close);
        // A flow that is over leaves no record, and nothing that could be lost.
        match self.custody.records().find(|record| record.flow() == flow.key) {
            Some(record) => {
                let acknowledged = record.acknowledged(1 - from);
                let covered = repeated || !segment.header.ack.after(acknowledged);
                assert!(covered, "acknowledged {:?}, beyond {record:?}", segment.header.ack);
            }
            None => assert!(!self.gateway.flows().any(|info| info.key == flow.key), "no record of custody"),
        }
    }

    fn check_memory(&self) {
        let held = self.gateway.allocated() as u64;
        assert!(held <= self.config.memory.0, "{held} bytes held, of {}", self.config.memory);
        // A buffer is charged with twice its bytes at most, and with the packet that filled it. What interceptors keep has other bounds.
        let of_flows = (2 * FLOWS) as u64 * (2 * self.config.flow_buffer.0 + LARGEST_CHUNK as u64);
        let intercepts = !self.config.policies[0].intercept.is_empty();
        assert!(intercepts || held <= of_flows, "{held} bytes held by {FLOWS} flows, at most {of_flows}");
        for leg in self.gateway.flows().filter_map(|info| info.legs).flatten() {
            assert!(leg.window > 0 && leg.mss > 0);
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{:#?}", self.config);
            self.played.iter().for_each(|step| eprintln!("{step:?}"));
            eprintln!("then it was {}", self.now);
        }
    }
}

/// How a segment is packed.
#[derive(Default)]
struct Wrapping {
    roomy: bool,
    ecn: u8,
}

/// The end that acts, and the other.
fn pair(ends: &mut [End; 2], side: usize) -> [&mut End; 2] {
    let [client, server] = ends;
    if side == 0 { [client, server] } else { [server, client] }
}

/// What the bytes of the set-up say of the policy.
fn choose_policy(config: &mut GatewayConfig, sizes: u8, policy: u8) {
    let row = &mut config.policies[0];
    for (leg, bits) in [(&mut row.access, policy & 15), (&mut row.wan, policy >> 4)] {
        leg.sender.congestion =
            [Algorithm::Cubic, Algorithm::Reno, Algorithm::Fixed(Bytes(50_000)), Algorithm::Cubic]
                [usize::from(bits & 3)];
        leg.sender.pacing = bits & 4 == 0;
        leg.sender.ack = if bits & 8 == 0 { AckPolicy::default() } else { AckPolicy::Immediate };
    }
    // Uploads are not limited: that would lower the window of the handshake, which the ends here know.
    let usual = AggregateConfig { uplink: UplinkWindow::None, ..AggregateConfig::default() };
    let aggregate = match sizes >> 4 & 3 {
        0 | 1 => None,
        2 => Some(AggregateConfig { clamp: Clamp::Fixed(Bytes(10_000)), ..usual }),
        _ => Some(AggregateConfig { host_buffer: Bytes(4 * LARGEST_CHUNK as u64), ..usual }),
    };
    row.aggregate = aggregate.map(Arc::new);
}

/// Whether a packet is one that was seen, or a segment of one: the same end says the same bytes.
fn is_part_of(packet: &Packet, seen: &Packet) -> bool {
    let (Some(ours), Some(theirs)) = (packet.as_tcp(), seen.as_tcp()) else { return false };
    let bytes = |segment: &TcpSegment| {
        let mut bytes = vec![0; segment.payload.len()];
        segment.payload.copy_to(&mut bytes);
        bytes
    };
    let from = ours.header.seq.diff(theirs.header.seq);
    packet.flow() == seen.flow()
        && ours.header.ack == theirs.header.ack
        && from >= 0
        && bytes(theirs).get(from as usize..).is_some_and(|rest| rest.starts_with(&bytes(ours)))
}
