//! Flows that were given up. Each end is sent a reset, and a reset may be lost: whoever goes on is sent another.
use super::{Gateway, Keyed};
use alloc::collections::VecDeque;
use core::net::SocketAddr;
use core::time::Duration;
use hashbrown::HashMap;
use shorthaul_tcp::ChallengeLimit;
use shorthaul_types::{FlowKey, PortId, Time};
use shorthaul_wire::{IpHeader, Ipv4Header, Ipv6Header, Packet, TcpFlags, TcpHeader, TcpSegment};

/// At most this many flows are remembered; the oldest are forgotten.
const MOST: usize = 4_096;
/// How long a flow is remembered: an end that goes on sends several times within it, even at the longest RTO.
const REMEMBERED: Duration = Duration::from_secs(900);

/// The flows that were given up lately.
#[derive(Debug)]
pub(super) struct GivenUp {
    /// Since when, and how often each was answered of late.
    flows: HashMap<FlowKey, (Time, ChallengeLimit), Keyed>,
    by_age: VecDeque<(Time, FlowKey)>,
}

impl GivenUp {
    pub fn new(hash_seed: u64) -> Self {
        GivenUp { flows: HashMap::with_hasher(Keyed(hash_seed)), by_age: VecDeque::new() }
    }

    fn note(&mut self, now: Time, key: FlowKey) {
        while let Some(&(since, oldest)) = self.by_age.front()
            && (self.by_age.len() >= MOST || now.saturating_since(since) >= REMEMBERED)
        {
            self.by_age.pop_front();
            if self.flows.get(&oldest).is_some_and(|known| known.0 == since) {
                self.flows.remove(&oldest);
            }
        }
        self.by_age.push_back((now, key));
        self.flows.insert(key, (now, ChallengeLimit::default()));
    }

    /// The entry of a flow, either way.
    fn find(&mut self, now: Time, key: FlowKey) -> Option<&mut (Time, ChallengeLimit)> {
        let key = if self.flows.contains_key(&key) { key } else { key.reversed() };
        self.flows.get_mut(&key).filter(|known| now.saturating_since(known.0) < REMEMBERED)
    }
}

impl Gateway {
    /// A flow was given up.
    pub(super) fn note_given_up(&mut self, key: FlowKey) {
        self.given_up.note(self.now, key);
    }

    /// A segment that is of no flow in the table comes: it is answered and taken, if its flow was given up. The reset stands where
    /// its sender expects it (RFC 9293 §3.10.7.1), and resets leave no more often than challenges (RFC 5961 §7).
    ///
    /// A SYN is of another connection.
    pub(super) fn answers_given_up(
        &mut self,
        now: Time,
        port: PortId,
        key: FlowKey,
        packet: &Packet,
    ) -> bool {
        if self.given_up.flows.is_empty() {
            return false;
        }
        let Some(segment) = packet.as_tcp() else { return false };
        let flags = segment.header.flags;
        if flags.contains(TcpFlags::SYN) {
            self.given_up.flows.remove(&key);
            self.given_up.flows.remove(&key.reversed());
            return false;
        }
        if flags.contains(TcpFlags::RST) || !flags.contains(TcpFlags::ACK) {
            return false;
        }
        let Some((_, limit)) = self.given_up.find(now, key) else { return false };
        if limit.admits(now) {
            let header = TcpHeader {
                src_port: key.dst.port(),
                dst_port: key.src.port(),
                seq: segment.header.ack,
                flags: TcpFlags::RST,
                ..TcpHeader::default()
            };
            self.passing.extend(packet_between(key.dst, key.src, header).map(|reset| (port, reset)));
            self.counters.resets_repeated += 1;
        } else {
            self.counters.challenges_suppressed += 1;
        }
        true
    }
}

/// A segment without data between two addresses of one family.
fn packet_between(from: SocketAddr, to: SocketAddr, header: TcpHeader) -> Option<Packet> {
    let ip = ip_between(from, to)?;
    Some(Packet::tcp(ip, TcpSegment { header, ..TcpSegment::default() }))
}

/// A fresh IP header between two ends, for a packet that has no other to imitate.
fn ip_between(from: SocketAddr, to: SocketAddr) -> Option<IpHeader> {
    match (from, to) {
        (SocketAddr::V4(from), SocketAddr::V4(to)) => Some(IpHeader::V4(Ipv4Header {
            src: *from.ip(),
            dst: *to.ip(),
            tos: 0,
            ttl: 64,
            id: 0,
            dont_fragment: true,
        })),
        (SocketAddr::V6(from), SocketAddr::V6(to)) => Some(IpHeader::V6(Ipv6Header {
            src: *from.ip(),
            dst: *to.ip(),
            traffic_class: 0,
            hop_limit: 64,
            flow_label: 0,
        })),
        _ => None,
    }
}
