//! Two ends made of the same halves, a gateway between them, and links that lose, reorder and
//! duplicate: the stream must arrive whole and in order, and nothing may be acknowledged to its
//! sender that is neither held nor delivered.
use proptest::prelude::*;
use shorthaul_congestion::{Algorithm, ControlParams};
use shorthaul_proxy::{
    ACK_RELEASES, AggregateConfig, Clamp, Delivered, ExplicitWindow, Freeze, Gateway, GatewayConfig,
    INTERCEPTORS, Mode, PathTailConfig, Policy, Regulated, SenderControl, TailScope, WINDOW_LIMITS,
};
use shorthaul_tcp::{Ack, AckPolicy, ByteQueue, Receiver, Segment, Sender, SenderConfig};
use shorthaul_types::{BitRate, Bytes, PortId, SeqNum, SeqSpace, Time};
use shorthaul_wire::{
    IpHeader, Ipv4Header, Machine, Packet, Payload, SackBlock, TcpFlags, TcpHeader, TcpOptions, TcpSegment,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const MSS: u32 = 1000;
const DELAY: Duration = Duration::from_millis(10);

/// An end of a connection: sends `total` bytes of a pattern, and reads what comes.
struct End {
    port: u16,
    peer: u16,
    own: SeqSpace,
    theirs: SeqSpace,
    sender: Sender,
    receiver: Receiver,
    inbox: ByteQueue,
    read: Vec<u8>,
    total: u64,
}

fn pattern(from: u16, offset: u64) -> u8 {
    (offset.wrapping_mul(31).wrapping_add(u64::from(from) * 7) >> 3) as u8
}

impl End {
    fn new(port: u16, peer: u16, own: u32, theirs: u32, total: u64) -> End {
        let control = Algorithm::Cubic.build(ControlParams::new(MSS, Time::ZERO));
        let config = SenderConfig { pacing: false, ..SenderConfig::new(MSS, control) };
        let mut sender = Sender::new(Time::ZERO, 1, 1 + 60_000, config);
        let bytes: Vec<u8> = (1..=total).map(|offset| pattern(port, offset)).collect();
        for part in bytes.chunks(MSS as usize) {
            sender.queue_mut().push(Payload::copy_of(part));
        }
        sender.finish();
        End {
            port,
            peer,
            own: SeqSpace::new(SeqNum(own)),
            theirs: SeqSpace::new(SeqNum(theirs)),
            sender,
            receiver: Receiver::new(1, 60_001, MSS, AckPolicy::Immediate),
            inbox: ByteQueue::new(1),
            read: Vec::new(),
            total,
        }
    }

    fn header(&self, offset: u64, flags: TcpFlags) -> TcpHeader {
        TcpHeader {
            src_port: self.port,
            dst_port: self.peer,
            seq: self.own.seq(offset),
            ack: self.theirs.seq(self.receiver.ack()),
            flags,
            window: self.receiver.window().min(65_535) as u16,
            ..TcpHeader::default()
        }
    }

    fn on_segment(&mut self, now: Time, segment: &TcpSegment) {
        let header = &segment.header;
        let offset = self.theirs.offset(header.seq, self.receiver.next()).unwrap();
        let ack = self.own.offset(header.ack, self.sender.una()).unwrap();
        assert!(ack <= self.sender.nxt(), "an acknowledgment of what was never sent");
        let sack: Vec<(u64, u64)> = header
            .options
            .sack
            .iter()
            .map(|b| (self.own.offset(b.left, ack).unwrap(), self.own.offset(b.right, ack).unwrap()))
            .collect();
        let fin = header.flags.contains(TcpFlags::FIN);
        let has_data = !segment.payload.is_empty() || fin;
        self.sender.on_ack(
            now,
            &Ack {
                ack,
                window: u64::from(header.window),
                seq: offset,
                sack: &sack,
                has_data,
                ecn_echo: false,
                echo: None,
                sent_before: None,
            },
        );
        let payload = segment.payload.clone();
        let data = Segment { offset, payload, fin, push: false, timestamps: None };
        self.receiver.on_segment(now, data, &mut self.inbox, 1 << 20);
        while !self.inbox.is_empty() {
            let list = self.inbox.gather(self.inbox.start(), 100_000);
            let at = self.read.len();
            self.read.resize(at + list.len(), 0);
            list.copy_to(&mut self.read[at..]);
            self.inbox.release(self.inbox.start() + list.len() as u64);
        }
        self.receiver.confirm_fin();
        self.receiver.offer(60_000);
        if offset < self.receiver.next() && !has_data {
            self.receiver.request_ack();
        }
    }

    fn poll(&mut self, now: Time, out: &mut Vec<Packet>) {
        while let Some(outgoing) = self.sender.poll_segment(now) {
            let mut flags = TcpFlags::ACK;
            if outgoing.fin {
                flags |= TcpFlags::FIN;
            }
            let header = self.header(outgoing.offset, flags);
            // A kernel cuts super-segments at its device: so do we, that losses hit segments.
            let mut rest = outgoing.payload.clone();
            let mut at = outgoing.offset;
            loop {
                let mut part = rest.clone();
                part.truncate(MSS as usize);
                rest.advance(MSS as usize);
                let mut header = header.clone();
                header.seq = self.own.seq(at);
                at += part.len() as u64;
                let last = rest.is_empty();
                if !last {
                    header.flags = header.flags.without(TcpFlags::FIN);
                }
                out.push(Packet::tcp(
                    ip(self.port, self.peer),
                    TcpSegment { header, payload: part, gso_size: None },
                ));
                if last {
                    break;
                }
            }
            self.receiver.on_ack_sent();
        }
        if self.receiver.wants_ack(now) {
            let mut header = self.header(self.sender.nxt(), TcpFlags::ACK);
            for (left, right) in self.receiver.sack_ranges() {
                let block = SackBlock { left: self.theirs.seq(left), right: self.theirs.seq(right) };
                header.options.sack.push(block);
            }
            self.receiver.on_ack_sent();
            out.push(Packet::tcp(ip(self.port, self.peer), TcpSegment { header, ..Default::default() }));
        }
    }

    fn is_done(&self, other_total: u64) -> bool {
        self.sender.is_finished() && self.receiver.is_finished() && self.read.len() as u64 == other_total
    }
}

fn ip(from: u16, to: u16) -> IpHeader {
    let address = |port: u16| [10, 0, 0, port as u8].into();
    IpHeader::V4(Ipv4Header {
        src: address(from),
        dst: address(to),
        tos: 0,
        ttl: 64,
        id: 0,
        dont_fragment: true,
    })
}

/// Seeded faults: SplitMix64.
struct Faults {
    state: u64,
    loss: u64,
    reorder: u64,
    duplicate: u64,
}

impl Faults {
    fn draw(&mut self, per_mille: u64) -> bool {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % 1000 < per_mille
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stop {
    Gateway(PortId),
    End(usize),
}

struct World {
    now: Time,
    ends: [End; 2],
    gateway: Gateway,
    wire: BTreeMap<(Time, u64), (Stop, Packet)>,
    count: u64,
    faults: Faults,
}

impl World {
    fn new(isn: [u32; 2], totals: [u64; 2], faults: Faults) -> World {
        World::with(isn, totals, faults, Policy::default())
    }

    fn behind(senders: SenderControl, isn: [u32; 2], totals: [u64; 2], faults: Faults) -> World {
        World::with(isn, totals, faults, Policy { senders, ..Policy::default() })
    }

    /// The client is a mobile host whose connections are served with this shared window, if with any.
    fn aggregating(isn: [u32; 2], totals: [u64; 2], faults: Faults, clamp: Option<Clamp>) -> World {
        let aggregate = clamp.map(|clamp| Arc::new(AggregateConfig { clamp, ..AggregateConfig::default() }));
        World::with(isn, totals, faults, Policy { aggregate, ..Policy::default() })
    }

    fn with(isn: [u32; 2], totals: [u64; 2], faults: Faults, policy: Policy) -> World {
        let config = GatewayConfig { flow_buffer: Bytes(100_000), ..GatewayConfig::of(policy) };
        config.check().expect("the policy can be worked with");
        let mut gateway = Gateway::new(config);
        let ends = [End::new(1, 2, isn[0], isn[1], totals[0]), End::new(2, 1, isn[1], isn[0], totals[1])];
        // The handshake, which this test does not disturb.
        let options = TcpOptions { mss: Some(MSS as u16), sack_permitted: true, ..TcpOptions::default() };
        let mut out = Vec::new();
        for (from, flags, offset) in
            [(0, TcpFlags::SYN, 0), (1, TcpFlags::SYN | TcpFlags::ACK, 0), (0, TcpFlags::ACK, 1)]
        {
            let end = &ends[from];
            let mut header = end.header(offset, flags);
            header.ack = end.theirs.seq(1);
            header.window = 60_000;
            if offset == 0 {
                header.options = options.clone();
            }
            let packet = Packet::tcp(ip(end.port, end.peer), TcpSegment { header, ..Default::default() });
            gateway.handle_packet(Time::ZERO, PortId(from as u8), packet);
            while gateway.poll_transmit(Time::ZERO, &mut out) {}
        }
        let entered = gateway.counters().flows_split + gateway.counters().flows_observed;
        assert_eq!(entered, 1, "the gateway knows the flow");
        World { now: Time::ZERO, ends, gateway, wire: BTreeMap::new(), count: 0, faults }
    }

    fn send(&mut self, to: Stop, packet: Packet) {
        if self.faults.draw(self.faults.loss) {
            return;
        }
        let copies = if self.faults.draw(self.faults.duplicate) { 2 } else { 1 };
        for _ in 0..copies {
            let held = if self.faults.draw(self.faults.reorder) { DELAY } else { Duration::ZERO };
            self.count += 1;
            self.wire.insert((self.now + DELAY + held, self.count), (to, packet.clone()));
        }
    }

    fn flush(&mut self) {
        for i in 0..2 {
            let mut out = Vec::new();
            self.ends[i].poll(self.now, &mut out);
            for packet in out {
                self.send(Stop::Gateway(PortId(i as u8)), packet);
            }
        }
        let mut out = Vec::new();
        while self.gateway.poll_transmit(self.now, &mut out) {}
        for (port, packet) in out {
            self.send(Stop::End(port.0 as usize), packet);
        }
        while self.gateway.poll_custody().is_some() {}
    }

    /// Runs until both ends are done; `false` if that takes too long.
    fn run(&mut self, mut each: impl FnMut(&mut World)) -> bool {
        for _ in 0..400_000 {
            self.flush();
            each(self);
            let totals = [self.ends[0].total, self.ends[1].total];
            if self.ends[0].is_done(totals[1]) && self.ends[1].is_done(totals[0]) {
                return true;
            }
            let arrival = self.wire.keys().next().map(|&(at, _)| at);
            let timers = self
                .ends
                .iter()
                .flat_map(|end| [end.sender.poll_timeout(), end.receiver.poll_timeout()])
                .chain([self.gateway.poll_timeout()])
                .flatten()
                .map(|deadline| deadline.at);
            let Some(next) = timers.chain(arrival).min() else { return false };
            self.now = self.now.max(next);
            while let Some(entry) = self.wire.first_entry() {
                if entry.key().0 > self.now {
                    break;
                }
                let (to, packet) = entry.remove();
                match to {
                    Stop::Gateway(port) => self.gateway.handle_packet(self.now, port, packet),
                    Stop::End(i) => self.ends[i].on_segment(self.now, packet.as_tcp().unwrap()),
                }
            }
            self.gateway.handle_timeout(self.now);
            self.ends.iter_mut().for_each(|end| end.sender.on_timeout(self.now));
        }
        false
    }

    fn check_bytes(&self) {
        for (reader, writer) in [(0, 1), (1, 0)] {
            let expected: Vec<u8> =
                (1..=self.ends[writer].total).map(|o| pattern(self.ends[writer].port, o)).collect();
            assert!(self.ends[reader].read == expected, "end {reader} read other bytes than were sent");
        }
    }
}

/// No aggregation, or a window.
fn clamp() -> impl Strategy<Value = Option<Clamp>> {
    prop_oneof![
        Just(None),
        Just(Some(Clamp::Auto)),
        (1000u64..50_000).prop_map(|size| Some(Clamp::Fixed(Bytes(size))))
    ]
}

/// The second of the two segments that F-RTO sends is lost, too, before a round trip was ever measured: nothing is on its
/// way that could answer.
#[test]
fn a_loss_after_a_timeout_does_not_end_an_aggregated_stream() {
    let faults = Faults { state: 2_978_657_173_670_038_134, loss: 62, reorder: 7, duplicate: 15 };
    let mut world = World::aggregating([0, 0], [42_000, 60_000], faults, Some(Clamp::Auto));
    assert!(world.run(|_| ()), "stuck at {}: {:#?}", world.now, world.gateway.flows().collect::<Vec<_>>());
    world.check_bytes();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]
    #[test]
    fn whatever_the_links_do_the_stream_arrives_whole(
        seed: u64, isn: [u32; 2], up in 0u64..200_000, down in 0u64..200_000,
        loss in 0u64..80, reorder in 0u64..100, duplicate in 0u64..50, clamp in clamp(),
    ) {
        let faults = Faults { state: seed, loss, reorder, duplicate };
        let mut world = World::aggregating(isn, [up, down], faults, clamp);
        let finished = world.run(|world| {
            let held = world.gateway.allocated();
            assert!(held < 2_000_000, "{held} bytes held for buffers of 2 × 100 kB");
        });
        prop_assert!(finished, "stuck at {}: {:#?}", world.now, world.gateway.flows().collect::<Vec<_>>());
        world.check_bytes();
    }

    #[test]
    fn a_gateway_that_steps_out_breaks_nothing(
        seed: u64, isn: [u32; 2], up in 1u64..200_000, down in 1u64..200_000, loss in 0u64..30, when in 0u64..3000,
        clamp in clamp(),
    ) {
        let faults = Faults { state: seed, loss, reorder: 10, duplicate: 10 };
        let mut world = World::aggregating(isn, [up, down], faults, clamp);
        let mut drained = false;
        let finished = world.run(|world| {
            if !drained && world.now >= Time::from_millis(when) {
                drained = true;
                world.gateway.drain(world.now);
            }
        });
        prop_assert!(finished, "stuck at {}: {:#?}", world.now, world.gateway.flows().collect::<Vec<_>>());
        world.check_bytes();
        prop_assert_eq!(world.gateway.held_flows(), 0);
    }
}

/// A tail of 2 Mbit/s to each host: a segment of 1040 bytes takes 4.16 ms.
fn tail() -> SenderControl {
    let tail = PathTailConfig {
        bandwidth: BitRate::from_bits_per_sec(2_000_000),
        is_estimated: false,
        queue: Bytes(12_000),
        buffer: Bytes(25_000),
        scope: TailScope::Host,
    };
    SenderControl::acknowledging(tail)
}

/// What the gateway holds for the host at the edge, and up to where that host has acknowledged.
fn toward_edge(gateway: &Gateway) -> Option<(u64, u64)> {
    let leg = gateway.flows().next()?.legs?[1].clone();
    Some((leg.buffered, leg.delivered))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn an_emulated_tail_acknowledges_only_what_is_held_and_holds_only_so_much(
        seed: u64, isn: [u32; 2], up in 0u64..50_000, down in 0u64..200_000,
        loss in 0u64..60, reorder in 0u64..100, duplicate in 0u64..50, drain in prop::option::of(0u64..3000),
    ) {
        let faults = Faults { state: seed, loss, reorder, duplicate };
        let mut world = World::behind(tail(), isn, [up, down], faults);
        let mut drained = false;
        let finished = world.run(|world| {
            // while it drains, the ends acknowledge to each other what passes
            if let Some((held, delivered)) = toward_edge(&world.gateway).filter(|_| !drained) {
                // in the gateway's offsets as in the sender's: 0 is the SYN
                let acknowledged = world.ends[1].sender.una() - 1;
                assert!(acknowledged <= delivered + held + 1, "{acknowledged} of {delivered} and {held}");
                // what is out of order is not counted against what fills its gap
                assert!(held <= 2 * 25_000 + u64::from(MSS), "{held} bytes held");
            }
            if !drained && drain.is_some_and(|at| world.now >= Time::from_millis(at)) {
                drained = true;
                world.gateway.drain(world.now);
            }
        });
        prop_assert!(finished, "stuck at {}: {:#?}", world.now, world.gateway.flows().collect::<Vec<_>>());
        world.check_bytes();
    }
}

/// Any kind of release, or none, with any set of bounds.
fn sender_control() -> impl Strategy<Value = SenderControl> {
    let ack = prop::option::of((0..ACK_RELEASES.len()).prop_map(|row| (ACK_RELEASES[row].example)()));
    let window = prop::sample::subsequence(WINDOW_LIMITS.iter().collect::<Vec<_>>(), 0..=WINDOW_LIMITS.len());
    (ack, window).prop_map(|(ack, window)| SenderControl {
        ack,
        window: window.into_iter().map(|row| (row.example)()).collect(),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]
    #[test]
    fn however_senders_are_kept_back_the_stream_arrives_whole(
        seed: u64, isn: [u32; 2], up in 0u64..50_000, down in 0u64..200_000,
        loss in 0u64..60, reorder in 0u64..100, duplicate in 0u64..50, control in sender_control(),
        drain in prop::option::of(0u64..3000),
    ) {
        let faults = Faults { state: seed, loss, reorder, duplicate };
        let mut world = World::behind(control, isn, [up, down], faults);
        let mut drained = false;
        let finished = world.run(|world| {
            if let Some((held, delivered)) = toward_edge(&world.gateway).filter(|_| !drained) {
                let acknowledged = world.ends[1].sender.una() - 1;
                assert!(acknowledged <= delivered + held + 1, "{acknowledged} of {delivered} and {held}");
            }
            if !drained && drain.is_some_and(|at| world.now >= Time::from_millis(at)) {
                drained = true;
                world.gateway.drain(world.now);
            }
        });
        prop_assert!(finished, "stuck at {}: {:#?}", world.now, world.gateway.flows().collect::<Vec<_>>());
        world.check_bytes();
    }

    #[test]
    fn what_waits_for_the_receiver_is_acknowledged_when_it_is_delivered(
        seed: u64, down in 0u64..200_000, loss in 0u64..60, reorder in 0u64..100, is_regulated: bool,
    ) {
        let control = if is_regulated {
            SenderControl::acknowledging(Regulated { queue: Bytes(10_000) })
        } else {
            SenderControl::acknowledging(Delivered {}).limited_by(Freeze { after: 8 * DELAY })
        };
        let faults = Faults { state: seed, loss, reorder, duplicate: 0 };
        let mut world = World::behind(control, [1, 2], [0, down], faults);
        let finished = world.run(|world| {
            let Some((_, delivered)) = toward_edge(&world.gateway) else { return };
            let acknowledged = world.ends[1].sender.una() - 1;
            assert!(acknowledged <= delivered + 1, "{acknowledged} of {delivered} acknowledged");
        });
        prop_assert!(finished, "stuck at {}: {:#?}", world.now, world.gateway.flows().collect::<Vec<_>>());
        world.check_bytes();
    }
}

/// A flow that stays whole passes these kinds of interceptors, by their places in the registry, or is observed.
fn whole(intercept: &[usize]) -> Policy {
    let mode = if intercept.is_empty() { Mode::Observe } else { Mode::Pass };
    let intercept = intercept.iter().map(|row| (INTERCEPTORS[*row].example)()).collect();
    Policy { mode, intercept, ..Policy::default() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn a_flow_that_stays_whole_arrives_whole_and_is_seen(
        seed: u64, isn: [u32; 2], up in 0u64..50_000, down in 0u64..200_000,
        loss in 0u64..60, reorder in 0u64..100, duplicate in 0u64..50, drain in prop::option::of(0u64..3000),
        intercept in prop::collection::vec(0..INTERCEPTORS.len(), 0..3),
    ) {
        let faults = Faults { state: seed, loss, reorder, duplicate };
        let mut world = World::with(isn, [up, down], faults, whole(&intercept));
        let state = if intercept.is_empty() { "observed" } else { "passed" };
        let mut drained = false;
        let mut seen = [0, 0];
        let finished = world.run(|world| {
            for flow in world.gateway.flows() {
                assert_eq!((flow.state, flow.legs.is_none()), (state, true));
                let [to_server, to_client] = flow.observed.unwrap().directions;
                seen = [to_server.bytes, to_client.bytes];
            }
            if !drained && drain.is_some_and(|at| world.now >= Time::from_millis(at)) {
                drained = true;
                world.gateway.drain(world.now);
                assert_eq!(world.gateway.flows().count(), 0);
            }
        });
        prop_assert!(finished, "stuck at {}: {:#?}", world.now, world.gateway.flows().collect::<Vec<_>>());
        world.check_bytes();
        let counters = world.gateway.counters();
        prop_assert_eq!((counters.flows_split, world.gateway.allocated()), (0, 0));
        if !drained {
            // The last acknowledgments may be on their way still, or lost.
            prop_assert!(counters.observed_finished == 1 || seen == [up, down], "{seen:?} of {up} and {down}");
            prop_assert_eq!(counters.observed_bytes, up + down);
        }
    }
}

#[test]
fn a_flow_that_stays_whole_is_measured_on_both_sides() {
    let faults = Faults { state: 1, loss: 0, reorder: 0, duplicate: 0 };
    let mut world = World::with([1, 2], [20_000, 300_000], faults, whole(&[]));
    let mut seen = None;
    assert!(world.run(|world| {
        seen = world.gateway.flows().next().and_then(|flow| flow.observed).or(seen.take());
    }));
    let seen = seen.unwrap();
    for direction in &seen.directions {
        assert_eq!(direction.retransmitted, 0);
        assert_eq!(direction.min_rtt, Some(2 * DELAY), "to the end and back");
    }
    // The server's first byte is at the gateway when it has sent it: one way.
    assert_eq!(seen.first_byte, Some(DELAY));
    assert!(seen.duration > 4 * DELAY, "{seen:?}");
}

#[test]
fn what_is_lost_behind_the_gateway_is_seen_again() {
    let faults = Faults { state: 3, loss: 20, reorder: 0, duplicate: 0 };
    let mut world = World::with([1, 2], [0, 500_000], faults, whole(&[]));
    assert!(world.run(|_| ()));
    let counters = world.gateway.counters();
    let sent_again = world.ends[1].sender.stats().retransmitted;
    assert!(counters.observed_retransmitted > 0 && counters.observed_retransmitted <= sent_again);
}

#[test]
fn an_explicit_window_bounds_what_a_sender_has_under_way() {
    let faults = Faults { state: 1, loss: 0, reorder: 0, duplicate: 0 };
    let kind = ExplicitWindow { window: Bytes(5_000) };
    let policy = Policy { mode: Mode::Pass, intercept: vec![Arc::new(kind)], ..Policy::default() };
    let mut world = World::with([1, 2], [50_000, 500_000], faults, policy);
    let (mut most, mut other) = (0, 0);
    assert!(world.run(|world| {
        let [client, server] = &world.ends;
        // At first the ends of this test know of the window that was offered in the handshake.
        if server.sender.una() > 61_000 {
            most = most.max(server.sender.in_flight());
        }
        other = other.max(client.sender.in_flight());
    }));
    world.check_bytes();
    assert!((4_000..=5_000).contains(&most), "{most} bytes toward the access side");
    assert!(other > 5_000, "{other} bytes from there, whose windows pass as they come");
}

#[test]
fn a_sender_keeps_to_the_rate_of_the_emulated_tail() {
    let faults = Faults { state: 1, loss: 0, reorder: 0, duplicate: 0 };
    let mut world = World::behind(tail(), [1, 2], [0, 1_000_000], faults);
    let mut most = 0;
    assert!(world.run(|world| {
        most = most.max(toward_edge(&world.gateway).map_or(0, |(held, _)| held));
        assert!(world.ends[1].sender.peer_window() >= 25_000, "the window was closed");
    }));
    world.check_bytes();
    // 1000 segments of 1040 bytes at 2 Mbit/s, and the handful of round trips at both ends
    let time = world.now.as_secs_f64();
    assert!((4.16..4.5).contains(&time), "took {time} s");
    assert!(world.gateway.counters().path_tail_dropped > 0, "a full queue drops");
    assert!(world.ends[1].sender.stats().retransmitted > 0, "and its sender reacts");
    assert_eq!(world.ends[1].sender.stats().timeouts, 0);
    assert!(most <= 25_000, "{most} bytes held");
}

#[test]
fn the_stream_crosses_the_wrap_of_the_sequence_numbers() {
    let faults = Faults { state: 1, loss: 10, reorder: 10, duplicate: 10 };
    let mut world = World::new([u32::MAX - 50_000, u32::MAX - 1], [150_000, 150_000], faults);
    assert!(world.run(|_| ()));
    world.check_bytes();
}

#[test]
fn without_faults_nothing_is_sent_twice_and_nothing_is_left_behind() {
    let faults = Faults { state: 1, loss: 0, reorder: 0, duplicate: 0 };
    let mut world = World::new([1, 2], [500_000, 500_000], faults);
    assert!(world.run(|world| {
        for flow in world.gateway.flows() {
            assert!(flow.legs.unwrap().iter().all(|leg| leg.retransmitted == 0));
        }
    }));
    world.check_bytes();
    assert_eq!((world.gateway.flows().count(), world.gateway.allocated()), (0, 0));
    assert_eq!(world.gateway.counters().flows_finished, 1);
}
