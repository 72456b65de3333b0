//! Two gateways in the place of one: the second puts away each flow as soon as it says nothing, and nobody can tell.
use crate::Vault;
use shorthaul_proxy::{FlowInfo, FlowMomentum, Gateway, GatewayConfig, Inherited};
use shorthaul_types::{PortId, Time};
use shorthaul_wire::{Chunk, Machine, Packet, Payload, PayloadList, Transport, TxBatch};
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

/// A gateway that never puts a flow away, and one that always does. Both are told the same; what the second one does otherwise is a failure.
#[derive(Debug)]
pub struct Twin {
    first: Gateway,
    second: Gateway,
    /// What would survive a crash of the second.
    custody: Vault,
    sent: TxBatch,
}

/// To look at; what changes it is said to both.
impl Deref for Twin {
    type Target = Gateway;

    fn deref(&self) -> &Gateway {
        &self.first
    }
}

fn both(config: &GatewayConfig) -> [GatewayConfig; 2] {
    [None, Some(Duration::ZERO)].map(|put_away| GatewayConfig { put_away, ..config.clone() })
}

/// A packet in buffers of its own: what is free in those is known to nobody else.
fn apart(packet: &Packet) -> Packet {
    let mut packet = packet.clone();
    if let Transport::Tcp(segment) = &mut packet.transport {
        let mut copied = PayloadList::new();
        for slice in segment.payload.slices() {
            let mut chunk = Chunk::new(slice.allocated());
            chunk.append(slice.as_slice());
            copied.push(Payload::new(Arc::new(chunk), 0..slice.len())).expect("as many as there were");
        }
        segment.payload = copied;
    }
    packet
}

/// What left at once, flow by flow; of each flow in its order.
fn by_flow(sent: &[(PortId, Packet)]) -> Vec<&(PortId, Packet)> {
    let mut sent: Vec<_> = sent.iter().collect();
    sent.sort_by_key(|(port, packet)| {
        let ports = match &packet.transport {
            Transport::Tcp(segment) => (segment.header.src_port, segment.header.dst_port),
            _ => (0, 0),
        };
        (port.0, packet.ip.src(), packet.ip.dst(), ports)
    });
    sent
}

impl Twin {
    /// Two that work in this way, but for when a flow is put away.
    pub fn new(config: &GatewayConfig) -> Twin {
        let [first, second] = both(config).map(Gateway::new);
        Twin { first, second, custody: Vault::default(), sent: TxBatch::new() }
    }

    /// A packet came in.
    pub fn handle_packet(&mut self, now: Time, port: PortId, packet: Packet) {
        self.first.handle_packet(now, port, apart(&packet));
        self.second.handle_packet(now, port, apart(&packet));
    }

    /// Time has come to `now`, at which a deadline of the first is due.
    pub fn handle_timeout(&mut self, now: Time) {
        self.first.handle_timeout(now);
        self.second.handle_timeout(now);
    }

    /// The second looks whether something says nothing.
    pub(super) fn put_away(&mut self, now: Time) {
        if self.second.poll_timeout().is_some_and(|deadline| deadline.at <= now) {
            self.second.handle_timeout(now);
        }
    }

    /// What leaves; it is the same of both.
    ///
    /// # Panics
    /// If it is not.
    pub fn poll_transmit(&mut self, now: Time, out: &mut TxBatch) -> bool {
        let before = out.len();
        let more = self.first.poll_transmit(now, out);
        let again = self.second.poll_transmit(now, &mut self.sent);
        // Flows whose timers expire at one instant have no order among each other.
        let [one, other] = [&out[before..], &self.sent[..]].map(by_flow);
        assert_eq!(one, other, "at {now}, of a gateway that puts away what says nothing");
        assert_eq!(more, again, "at {now}");
        self.sent.clear();
        // What is on a link keeps no buffer of the first: of the second, nothing is.
        out[before..].iter_mut().for_each(|(_, packet)| *packet = apart(packet));
        more
    }

    /// What is to survive a crash is stored.
    pub fn save(&mut self, custody: &mut Vault) {
        self.first.save(custody);
        self.custody.is_full = custody.is_full;
        self.second.save(&mut self.custody);
    }

    /// They step out of everything.
    pub fn drain(&mut self, now: Time) {
        self.first.drain(now);
        self.second.drain(now);
    }

    /// They reset what they hold.
    pub fn reset_held(&mut self, now: Time) -> usize {
        self.second.reset_held(now);
        self.first.reset_held(now)
    }

    /// They go on with another configuration.
    pub fn reconfigure(&mut self, now: Time, config: &GatewayConfig) {
        let [first, second] = both(config);
        self.first.reconfigure(now, first);
        self.second.reconfigure(now, second);
    }

    /// So many slots have room for what is to survive a crash.
    pub fn set_record_room(&mut self, slots: u32) {
        self.first.set_record_room(slots);
        self.second.set_record_room(slots);
    }

    /// They go on with a flow that a predecessor left.
    pub fn adopt(&mut self, now: Time, inherited: &Inherited) {
        self.first.adopt(now, inherited);
        self.second.adopt(now, inherited);
    }

    /// Others go on with what they left.
    pub(super) fn restart(&mut self, now: Time, config: &GatewayConfig, custody: &mut Vault) {
        let [first, second] = both(config);
        self.first = Gateway::new(first);
        self.second = Gateway::new(second);
        for (gateway, custody) in [(&mut self.first, custody), (&mut self.second, &mut self.custody)] {
            let left = std::mem::take(custody).left();
            left.iter().for_each(|inherited| gateway.adopt(now, inherited));
        }
    }

    /// Others go on at once, and are told what they were doing.
    pub(super) fn take_over(&mut self, now: Time, config: &GatewayConfig, custody: &mut Vault) {
        let configs = both(config);
        let each = [(&mut self.first, custody), (&mut self.second, &mut self.custody)];
        for ((gateway, custody), config) in each.into_iter().zip(configs) {
            gateway.save(custody);
            let mut momenta: HashMap<u64, FlowMomentum> = gateway.momenta().collect();
            let mut unkept: HashMap<u64, Inherited> =
                gateway.unkept().map(|inherited| (inherited.record.serial, inherited)).collect();
            *gateway = Gateway::new(config);
            for mut inherited in std::mem::take(custody).left() {
                if let Some(whole) = unkept.remove(&inherited.record.serial) {
                    inherited = whole;
                }
                inherited.momentum = momenta.remove(&inherited.record.serial).map(Box::new);
                let read = Inherited::decode(&inherited.encode());
                assert_eq!(read.as_ref(), Some(&inherited), "what is handed over is read as it was said");
                gateway.adopt(now, &inherited);
            }
        }
    }

    /// Both know the same of their flows.
    ///
    /// # Panics
    /// If they do not.
    pub fn check(&self) {
        let of = |gateway: &Gateway| {
            // Their clocks are those of their last calls.
            let ageless = gateway.flows().map(|info| FlowInfo { age: Duration::ZERO, ..info });
            ageless.collect::<Vec<_>>()
        };
        assert_eq!(of(&self.first), of(&self.second));
        assert_eq!(self.first.allocated(), self.second.allocated());
    }

    /// How often the second has put a flow away, and brought one back.
    pub fn put_away_so_far(&self) -> (u64, u64) {
        (self.second.counters().flows_put_away, self.second.counters().flows_brought_back)
    }
}
