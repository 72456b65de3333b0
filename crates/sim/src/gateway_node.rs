//! A gateway in a simulated network, with the radio controller that speaks to it.
use shorthaul_proxy::Gateway;
use shorthaul_scenario::BandwidthChange;
use shorthaul_types::{Deadline, PortId, Time};
use shorthaul_wire::{Machine, Packet, TxBatch};
use std::collections::VecDeque;

/// The very gateway that is deployed, and what it will be told of its edge.
pub(crate) struct GatewayNode {
    pub gateway: Gateway,
    changes: VecDeque<BandwidthChange>,
}

impl GatewayNode {
    /// `changes` are in order of time.
    pub fn new(gateway: Gateway, changes: Vec<BandwidthChange>) -> Self {
        GatewayNode { gateway, changes: changes.into() }
    }

    fn next_change(&self) -> Option<Time> {
        self.changes.front().map(|change| Time::ZERO + change.at)
    }
}

impl Machine for GatewayNode {
    fn handle_packet(&mut self, now: Time, port: PortId, packet: Packet) {
        self.gateway.handle_packet(now, port, packet);
    }

    fn handle_timeout(&mut self, now: Time) {
        while self.next_change().is_some_and(|at| at <= now) {
            let Some(BandwidthChange { cell, bandwidth, .. }) = self.changes.pop_front() else { break };
            self.gateway.set_path_tail_bandwidth(now, cell.as_deref(), bandwidth);
        }
        self.gateway.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Time, out: &mut TxBatch) -> bool {
        self.gateway.poll_transmit(now, out)
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let change = self.next_change().map(|at| Deadline { at, timer: "radio-controller" });
        Deadline::earliest(change, self.gateway.poll_timeout())
    }
}
