//! What a scalable sender (RFC 9331) has of a gateway: a queue of a millisecond, and the link.
use shorthaul_proxy::{AggregateConfig, Bottleneck, Gateway, GatewayConfig, Policy, Traffic};
use shorthaul_types::{BitRate, Time};
use shorthaul_wire::{IpHeader, Ipv4Header, Machine, Packet, Payload, Transport, TxBatch, UdpHeader};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

const RATE: BitRate = BitRate::from_bits_per_sec(20_000_000);
/// Of a packet, with its headers.
const SIZE: usize = 1200;
/// There and back, without a queue.
const ROUND_TRIP: Duration = Duration::from_millis(30);
const LASTS: Duration = Duration::from_secs(20);

/// How a sender answers marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answers {
    /// By half a window, once a round trip (RFC 3168).
    Classic,
    /// By their share (RFC 8257 §3.3).
    Share,
}

/// A sender over UDP, as QUIC is: each packet is acknowledged, with whether it was marked.
struct Sender {
    answers: Answers,
    /// In packets.
    window: f64,
    in_flight: u64,
    /// Of the share of marked packets.
    alpha: f64,
    /// Since the round began: acknowledged, and of those marked.
    round: (f64, f64),
    round_ends: Time,
    has_seen_marks: bool,
}

impl Sender {
    fn new(answers: Answers) -> Sender {
        Sender {
            answers,
            window: 10.0,
            in_flight: 0,
            alpha: 1.0,
            round: (0.0, 0.0),
            round_ends: Time::ZERO,
            has_seen_marks: false,
        }
    }

    fn on_ack(&mut self, now: Time, marked: bool) {
        self.in_flight -= 1;
        self.round = (self.round.0 + 1.0, self.round.1 + f64::from(u8::from(marked)));
        self.has_seen_marks |= marked;
        if !marked {
            self.window += if self.has_seen_marks { 1.0 / self.window } else { 1.0 };
        }
        if now < self.round_ends {
            return;
        }
        let share = self.round.1 / self.round.0;
        self.alpha += (share - self.alpha) / 16.0;
        if self.round.1 > 0.0 {
            self.window *= if self.answers == Answers::Share { 1.0 - self.alpha / 2.0 } else { 0.5 };
            self.window = self.window.max(2.0);
        }
        self.round = (0.0, 0.0);
        self.round_ends = now + ROUND_TRIP;
    }
}

fn packet(ecn: u8, number: u64) -> Packet {
    let (src, dst) = ([192, 0, 2, 1].into(), [10, 0, 0, 1].into());
    let ip = Ipv4Header { src, dst, tos: ecn, ttl: 60, id: 0, dont_fragment: true };
    let mut bytes = [0; SIZE - 28];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    let header = UdpHeader { src_port: 443, dst_port: 5000 };
    let transport = Transport::Udp { header, payload: Payload::copy_of(&bytes) };
    Packet { ip: IpHeader::V4(ip), transport, original: None }
}

/// What part of the link a sender has behind a gateway, and the queue there that 99 % of its packets find at most.
fn runs(answers: Answers, ecn: u8) -> (f64, Duration) {
    let policy = Policy { aggregate: Some(Arc::new(AggregateConfig::default())), ..Policy::default() };
    let bottleneck = Bottleneck { name: "link".into(), rate: Some(RATE), ..Bottleneck::default() };
    let mut gateway = Gateway::new(GatewayConfig {
        traffic: Traffic::All,
        bottlenecks: vec![bottleneck],
        ..GatewayConfig::of(policy)
    });
    let begins = Time::from_secs(1);
    let mut now = begins;
    let mut sender = Sender::new(answers);
    // When each packet came to the gateway; what comes there, and the acknowledgments that come to the sender.
    let (mut came, mut waits, mut through) = (Vec::new(), Vec::new(), 0);
    let (mut arriving, mut acks) = (VecDeque::new(), VecDeque::new());
    let mut out = TxBatch::new();
    while now < begins + LASTS {
        while acks.front().is_some_and(|(at, _)| *at <= now) {
            let (_, marked) = acks.pop_front().unwrap();
            sender.on_ack(now, marked);
        }
        while (sender.in_flight as f64) < sender.window.floor() {
            sender.in_flight += 1;
            arriving.push_back(now + ROUND_TRIP / 3);
        }
        while arriving.front().is_some_and(|at| *at <= now) {
            arriving.pop_front();
            came.push(now);
            gateway.handle_packet(now, Gateway::WAN, packet(ecn, came.len() as u64 - 1));
        }
        gateway.handle_timeout(now);
        while gateway.poll_transmit(now, &mut out) {}
        for (_, packet) in out.drain(..) {
            let Transport::Udp { payload, .. } = &packet.transport else { continue };
            let number = u64::from_be_bytes(*payload.as_slice().first_chunk().unwrap());
            acks.push_back((now + ROUND_TRIP * 2 / 3, packet.ip.ecn() == 3));
            if now >= begins + LASTS / 4 {
                through += SIZE;
                waits.push(now.saturating_since(came[number as usize]));
            }
        }
        let next = [
            gateway.poll_timeout().map(|due| due.at),
            arriving.front().copied(),
            acks.front().map(|(at, _)| *at),
        ];
        now = next.into_iter().flatten().min().unwrap().max(now + Duration::from_nanos(1));
    }
    waits.sort_unstable();
    let carried = RATE.bits_per_sec() as f64 / 8.0 * (LASTS * 3 / 4).as_secs_f64();
    (through as f64 / carried, waits[waits.len() * 99 / 100])
}

#[test]
fn a_scalable_sender_has_the_link_and_a_queue_of_a_millisecond() {
    let (part, queue) = runs(Answers::Share, 1);
    println!("scalable: {part:.3} of the link, {queue:?}");
    assert!(part > 0.9 && queue < Duration::from_millis(3), "{part} of the link, {queue:?}");
    let (part, queue) = runs(Answers::Classic, 2);
    println!("classic: {part:.3} of the link, {queue:?}");
    assert!(part > 0.7 && queue < Duration::from_millis(25), "{part} of the link, {queue:?}");
}
