//! Where the gateway and the traffic that is not split meet.
use super::Gateway;
use crate::aggregate::{Aggregate, Turn, advance};
use crate::unsplit::{FlowId, Next, Traffic};
use alloc::sync::Arc;
use core::net::IpAddr;
use shorthaul_types::{PortId, Time};
use shorthaul_wire::{Packet, TxBatch};

/// The part of the memory that what is not split may take.
const MEMORY_PART: u64 = 16;
/// A group to which nothing was split yet begins with segments of this size.
const MSS: u32 = 1448;

impl Gateway {
    /// A packet of a flow that is not split goes on to `to`: at once, or when its flow has a turn.
    pub(super) fn pass_whole(&mut self, to: PortId, packet: Packet) {
        if self.config.traffic == Traffic::All && to == Gateway::ACCESS && !self.draining {
            if let Some(packet) = self.enqueue(self.now, packet) {
                self.counters.bytes_untouched += packet.wire_len() as u64;
                self.passing.push((to, packet));
            }
            return;
        }
        self.counters.bytes_untouched += packet.wire_len() as u64;
        self.passing.push((to, packet));
    }

    /// A packet waits for a turn, where its host's group has a window or a rate; otherwise it comes back.
    fn enqueue(&mut self, now: Time, packet: Packet) -> Option<Packet> {
        let id = FlowId::of(&packet);
        let Some(queue) = self.unsplit.find(&id).or_else(|| self.begin_unsplit(now, id)) else {
            return self.pass_unmeasured(now, packet);
        };
        let Gateway { access, unsplit, .. } = self;
        let Some(known) = unsplit.get_mut(queue) else { return Some(packet) };
        let (host, is_empty) = (known.host, known.is_empty());
        let Some(group) = access.group_of(host) else { return Some(packet) };
        if is_empty && !access.aggregate(group).is_some_and(|aggregate| aggregate.governs(now)) {
            return self.pass_unmeasured(now, packet);
        }
        let size = packet.wire_len() as u64;
        let dscp = packet.ip.traffic_class() >> 2;
        if let Some(served) = access.served(host) {
            known.class = served.aggregate.config.class_of(id.ports(), dscp);
            let silent = now.saturating_since(known.active_at);
            if is_empty && served.aggregate.srtt().is_none_or(|srtt| silent >= srtt) {
                known.interactive = served.aggregate.config.interactive.0;
            }
        }
        unsplit.push(now, queue, packet, size);
        self.await_turn(now, queue);
        let most = self.config.memory.0 / MEMORY_PART;
        while self.unsplit.memory() > most {
            self.unsplit.drop_of_longest();
            self.counters.shaped_dropped += 1;
        }
        self.access.wake(group);
        None
    }

    /// Something of a flow waits: so does the flow, for a turn of its host.
    pub(super) fn await_turn(&mut self, now: Time, queue: u32) {
        let Gateway { access, unsplit, .. } = self;
        let Some(known) = unsplit.get_mut(queue).filter(|known| !known.waiting) else { return };
        let Some(served) = access.served(known.host) else { return };
        known.waiting = true;
        let part = served.host.part_in(now, served.aggregate);
        served.aggregate.await_turn(
            part,
            (queue, known.serial),
            known.class.0,
            (known.pass, known.interactive),
        );
    }

    /// A flow has no queue of its own: it has one, or shares one, if its host is known to share something, or to be behind a bottleneck.
    fn begin_unsplit(&mut self, now: Time, id: FlowId) -> Option<u32> {
        while let Some(host) = self.unsplit.forget_idle(now) {
            self.access.leave(now, host);
        }
        let host = self.host_of_unsplit(now, id.dst)?;
        let interactive = self.access.served(host).map_or(0, |served| served.aggregate.config.interactive.0);
        let before = self.unsplit.len();
        let queue = self.unsplit.insert(now, id, host, interactive);
        // To its host each queue is a flow. One that flows share is counted already.
        if self.unsplit.len() == before {
            self.access.leave(now, host);
        }
        queue
    }

    /// The host at this address, which has one flow more now.
    fn host_of_unsplit(&mut self, now: Time, address: IpAddr) -> Option<u32> {
        let policies = &self.config.policies[..self.in_force];
        let aggregated = policies.iter().position(|policy| policy.aggregate.is_some())?;
        let joined = self.unmeasured.is_joined(self.access.prefix_of(address));
        let known = joined || self.access.find(address).is_some_and(|host| !host.members.is_empty());
        let bottleneck = self.access.is_behind_bottleneck(address);
        if !known && !bottleneck {
            return None;
        }
        let host = self.access.join(now, address, aggregated as u16);
        let config = policies[aggregated].aggregate.as_ref().map(Arc::clone);
        if let (true, Some(config)) = (bottleneck, config) {
            self.access.aggregate_for(now, host, MSS, &config);
        }
        Some(host)
    }

    /// The turn of a flow that is not split.
    pub(super) fn serve_unsplit(
        &mut self,
        now: Time,
        group: u32,
        (turn, credit): (&Turn, u64),
        out: &mut TxBatch,
    ) {
        let late = self.lateness();
        let Gateway { access, unsplit, counters, .. } = self;
        let Some(known) = unsplit.get_mut(turn.flow).filter(|known| known.serial == turn.serial) else {
            return;
        };
        known.waiting = false;
        known.begin_turn(now);
        let Some(served) = access.served(known.host).filter(|served| served.host.group == group) else {
            return self.await_turn(now, turn.flow);
        };
        let part = served.host.part_in(now, served.aggregate);
        let times = (served.aggregate.srtt().unwrap_or_default(), late);
        let mut sent = 0;
        while sent < credit
            && let Some(next) = unsplit.pop(now, turn.flow, times)
        {
            let (packet, size) = match next {
                Next::Leaves(packet, size) => (packet, size),
                Next::Marked(packet, size) => {
                    counters.shaped_marked += 1;
                    (packet, size)
                }
                Next::Trimmed(packet, size) => {
                    counters.shaped_dropped += 1;
                    (packet, size)
                }
                Next::Dropped => {
                    counters.shaped_dropped += 1;
                    continue;
                }
            };
            sent += size;
            counters.bytes_shaped += size;
            out.push((Gateway::ACCESS, packet));
        }
        served.aggregate.on_unsplit_sent(now, part, sent);
        let (priority, tickets) = unsplit.get_mut(turn.flow).map_or((0, 1), |known| known.class);
        let come = served.aggregate.parts.now(part, priority);
        let Some(known) = unsplit.get_mut(turn.flow) else { return };
        if known.interactive == 0 {
            // Who is served before the others because it was behind them is not, any more.
            known.pass = advance(known.pass.max(come), sent, tickets);
        }
        known.interactive = known.interactive.saturating_sub(sent);
        known.end_turn(now);
        if !known.is_empty() {
            self.await_turn(now, turn.flow);
        }
    }

    /// A group can say nothing of its bottleneck any more: what waits for its hosts passes.
    pub(super) fn release_unsplit(&mut self, now: Time, group: u32, out: &mut TxBatch) {
        // Whoever waits has a turn.
        let settled = |known: &Aggregate| known.parts.is_empty() || known.governs(now);
        if self.unsplit.bytes() == 0 || self.access.aggregate(group).is_none_or(settled) {
            return;
        }
        let Gateway { access, unsplit, counters, .. } = self;
        let is_of = |host| access.group_of(host) == Some(group);
        unsplit.release(is_of, |packet| {
            counters.bytes_untouched += packet.wire_len() as u64;
            out.push((Gateway::ACCESS, packet));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::AggregateConfig;
    use crate::{Bottleneck, GatewayConfig, Policy};
    use alloc::vec;
    use shorthaul_types::BitRate;
    use shorthaul_wire::{IpHeader, Ipv4Header, Machine, Payload, Transport, UdpHeader};

    fn datagram(from: u32, to: u8) -> Packet {
        let ip = Ipv4Header {
            src: (0xc633_0000 + from).into(),
            dst: [10, 0, 0, to].into(),
            tos: 0,
            ttl: 60,
            id: 0,
            dont_fragment: true,
        };
        let transport = Transport::Udp {
            header: UdpHeader { src_port: 443, dst_port: 5000 },
            payload: Payload::copy_of(&[0; 100]),
        };
        Packet { ip: IpHeader::V4(ip), transport, original: None }
    }

    #[test]
    fn who_opens_more_flows_than_have_queues_does_not_pass_the_rate_and_others_have_theirs() {
        let rate = BitRate::from_bits_per_sec(1_000_000);
        let bottleneck = Bottleneck { name: "ship".into(), rate: Some(rate), ..Bottleneck::default() };
        let policy = Policy { aggregate: Some(Arc::new(AggregateConfig::default())), ..Policy::default() };
        let mut gateway = Gateway::new(GatewayConfig {
            traffic: Traffic::All,
            bottlenecks: vec![bottleneck],
            ..GatewayConfig::of(policy)
        });
        let mut out = TxBatch::new();
        // A host is scanned from 20,000 addresses; another has a call. 13 Mbit/s come for a second.
        for number in 0..20_000_u32 {
            let now = Time::from_secs(1) + core::time::Duration::from_micros(50) * number;
            gateway.handle_timeout(now);
            gateway.handle_packet(now, Gateway::WAN, datagram(number, 1));
            if number % 400 == 0 {
                gateway.handle_packet(now, Gateway::WAN, datagram(0, 2));
            }
            while gateway.poll_transmit(now, &mut out) {}
        }
        assert_eq!(gateway.counters().bytes_untouched, 0);
        let bytes: usize = out.iter().map(|(_, packet)| packet.wire_len()).sum();
        assert!((80_000..160_000).contains(&bytes), "{bytes} bytes in a second of 125,000");
        let call = out.iter().filter(|(_, packet)| packet.ip.dst() == IpAddr::from([10, 0, 0, 2])).count();
        assert!(call >= 49, "{call} of 50 packets of the call");
        assert!(gateway.unsplit.len() < 1100, "{}", gateway.unsplit.len());
    }
}
