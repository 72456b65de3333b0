//! What flows cost, with all that the gateway holds of them on the heap: those that say nothing, and those whose ends mean harm. A program of
//! its own: the allocator that counts is the whole process's.
#[path = "../../tcp/tests/counting/mod.rs"]
mod counting;

use counting::HELD;
use shorthaul_congestion::Algorithm;
use shorthaul_proxy::{AggregateConfig, Gateway, GatewayConfig, LegConfig, Policy};
use shorthaul_testkit::packets::{filler, segment};
use shorthaul_types::{PortId, SeqNum, Time};
use shorthaul_wire::{Machine, Payload, PayloadList, TcpFlags, TcpHeader, TcpOptions, Timestamps, TxBatch};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Nobody else allocates while a test counts.
static ALONE: Mutex<()> = Mutex::new(());

/// A power of two, at which tables are at their fullest.
const FLOWS: u32 = 4_096;
const HOSTS: u32 = 64;
const ECHO: usize = 64;
/// Of the heap in each mode, idle and after an echo, with queues that are as long as all flows were at once, and what is known of each host, of
/// which there is one for 64 flows. What survives a crash takes 128 bytes more, in a file.
const LIMITS: [[usize; 2]; 2] = [[390, 430], [700, 890]];

/// Both ends of all flows, each with as many bytes behind it.
struct Ends {
    gateway: Gateway,
    now: Time,
    out: TxBatch,
}

impl Ends {
    fn client(number: u32) -> SocketAddr {
        let host = number % HOSTS;
        SocketAddr::from(([10, 0, 0, host as u8], (1_024 + number / HOSTS) as u16))
    }

    /// A segment of an end: what it has sent and has had, counted from its SYN on.
    fn say(&mut self, number: u32, end: usize, at: (u32, u32), flags: TcpFlags, bytes: usize) {
        let payload = if bytes > 0 { filler(bytes) } else { PayloadList::default() };
        self.say_this(number, end, at, flags, payload);
    }

    fn open(&mut self, number: u32) {
        let (syn, ack) = (TcpFlags::SYN, TcpFlags::ACK);
        self.say(number, 0, (0, 0), syn, 0);
        self.say(number, 1, (0, 1), syn | ack, 0);
        self.say(number, 0, (1, 1), ack, 0);
    }

    fn say_this(
        &mut self,
        number: u32,
        end: usize,
        (seq, ack): (u32, u32),
        flags: TcpFlags,
        payload: PayloadList,
    ) {
        let ends = [Self::client(number), SocketAddr::from(([10, 9, 0, 1], 80))];
        let isn = [number.wrapping_mul(2_654_435_761), number.wrapping_mul(40_503) ^ 0x5555];
        let clock = (self.now.as_nanos() / 1_000_000) as u32;
        let opens = flags.contains(TcpFlags::SYN);
        let options = TcpOptions {
            mss: opens.then_some(1_460),
            sack_permitted: opens,
            window_scale: opens.then_some(7),
            timestamps: Some(Timestamps { val: clock, ecr: clock.saturating_sub(10) }),
            ..TcpOptions::default()
        };
        let header = TcpHeader {
            seq: SeqNum(isn[end].wrapping_add(seq)),
            ack: SeqNum(if flags.contains(TcpFlags::ACK) { isn[1 - end].wrapping_add(ack) } else { 0 }),
            flags,
            window: if opens { 64_240 } else { 502 },
            options,
            ..TcpHeader::default()
        };
        let packet = segment(ends[end], ends[1 - end], header, payload);
        let port: PortId = if end == 0 { Gateway::ACCESS } else { Gateway::WAN };
        self.gateway.handle_packet(self.now, port, packet);
        while self.gateway.poll_transmit(self.now, &mut self.out) {}
        self.gateway.save(&mut ());
        self.out.clear();
        self.now += Duration::from_micros(100);
    }

    /// Time passes, and nobody says anything.
    fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(deadline) = self.gateway.poll_timeout().filter(|deadline| deadline.at <= end) {
            self.now = self.now.max(deadline.at);
            self.gateway.handle_timeout(self.now);
            while self.gateway.poll_transmit(self.now, &mut self.out) {}
            self.gateway.save(&mut ());
            self.out.clear();
        }
        self.now = end;
        self.out = TxBatch::new();
    }
}

/// Segments of two bytes behind a gap, of which each overlaps the one before it, and then only every other one: nothing of what that takes
/// remains uncounted.
#[test]
fn what_a_hostile_end_makes_us_hold_is_counted() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for step in [1, 2, 3] {
        let mut ends = Ends {
            gateway: Gateway::new(GatewayConfig::of(Policy::default())),
            now: Time::from_secs(1_000_000),
            out: TxBatch::new(),
        };
        ends.open(0);
        ends.say(0, 1, (1, 1), TcpFlags::ACK, 0);
        let before = HELD.load(Ordering::Relaxed);
        for i in 0..20_000 {
            let two = Payload::copy_with_room(&[7; 2], 2_048);
            ends.say_this(0, 0, (10 + step * i, 1), TcpFlags::ACK, two.into());
        }
        let held = HELD.load(Ordering::Relaxed) - before;
        let counted = ends.gateway.allocated();
        println!("every {step}: {held} bytes of the heap, {counted} counted");
        assert!(held <= counted + counted / 2 + 100_000, "{held} bytes of the heap, {counted} counted");
    }
}

#[test]
fn a_flow_that_says_nothing_takes_little_of_the_heap() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let wan = |congestion| {
        let mut leg = LegConfig::default();
        leg.sender.congestion = congestion;
        leg
    };
    let split = Policy::default();
    let auto = Policy {
        aggregate: Some(Arc::new(AggregateConfig::default())),
        wan: wan(Algorithm::Bbr),
        ..Policy::default()
    };
    for ((name, policy), limit) in [("split", split), ("auto", auto)].into_iter().zip(LIMITS) {
        let mut ends = Ends {
            gateway: Gateway::new(GatewayConfig::of(policy)),
            now: Time::from_secs(1_000_000),
            out: TxBatch::new(),
        };
        let before = HELD.load(Ordering::Relaxed);
        let each = || (HELD.load(Ordering::Relaxed) - before) / FLOWS as usize;
        let ack = TcpFlags::ACK;
        (0..FLOWS).for_each(|number| ends.open(number));
        let open = each();
        ends.wait(Duration::from_secs(30));
        let away = ends.gateway.flows_put_away();
        let idle = each();
        println!("{name}: {open} bytes each where they are open, {idle} when {away} of {FLOWS} are away");
        assert_eq!(away, FLOWS as usize, "{name}");
        assert!(idle <= limit[0], "{name}: {idle} bytes each");
        let bytes = ECHO as u32;
        for number in 0..FLOWS {
            ends.say(number, 0, (1, 1), ack | TcpFlags::PSH, ECHO);
            ends.say(number, 1, (1, 1 + bytes), ack | TcpFlags::PSH, ECHO);
            ends.say(number, 0, (1 + bytes, 1 + bytes), ack, 0);
        }
        ends.wait(Duration::from_secs(60));
        let (away, echoed) = (ends.gateway.flows_put_away(), each());
        println!("{name}: {echoed} after an echo, {away} are away");
        assert_eq!(away, FLOWS as usize, "{name}");
        assert!(echoed <= limit[1], "{name}: {echoed} bytes each after an echo");
    }
}
