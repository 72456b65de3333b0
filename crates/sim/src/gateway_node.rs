//! A gateway in a simulated network, with the radio controller that speaks to it.
use crate::sleep::Sleep;
use crate::successor::successor;
use shorthaul_proxy::{Gateway, GatewayConfig};
use shorthaul_scenario::BandwidthChange;
use shorthaul_types::{Deadline, PortId, Time};
use shorthaul_wire::{Machine, Packet, TxBatch};
use std::collections::VecDeque;
use std::time::Duration;

/// The very gateway that is deployed, what it will be told of its access side, and how late it is.
pub(crate) struct GatewayNode {
    pub gateway: Gateway,
    changes: VecDeque<BandwidthChange>,
    sleep: Option<Sleep>,
    config: GatewayConfig,
    /// When another process takes over, the first of them first.
    taken_over: VecDeque<Duration>,
}

impl GatewayNode {
    /// `changes` are in order of time.
    pub fn new(config: GatewayConfig, changes: Vec<BandwidthChange>, sleep: Option<Sleep>) -> Self {
        let gateway = Gateway::new(config.clone());
        GatewayNode { gateway, changes: changes.into(), sleep, config, taken_over: VecDeque::new() }
    }

    /// The same, taken over by another process at these times, which are in order.
    #[must_use]
    pub fn taken_over(self, taken_over: &[Duration]) -> Self {
        GatewayNode { taken_over: taken_over.iter().copied().collect(), ..self }
    }

    fn next_take_over(&self) -> Option<Time> {
        self.taken_over.front().map(|at| Time::ZERO + *at)
    }

    fn next_change(&self) -> Option<Time> {
        self.changes.front().map(|change| Time::ZERO + change.at)
    }

    /// When it looks at what has happened, if it has not done so.
    fn wakes_at(&self) -> Option<Time> {
        self.sleep.as_ref().and_then(Sleep::wakes_at)
    }
}

impl Machine for GatewayNode {
    fn handle_packet(&mut self, now: Time, port: PortId, packet: Packet) {
        let packet = match &mut self.sleep {
            Some(sleep) => sleep.on_packet(now, port, packet),
            None => Some(packet),
        };
        if let Some(packet) = packet {
            self.gateway.handle_packet(now, port, packet);
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.sleep.as_mut().is_some_and(|sleep| !sleep.on_timer(now)) {
            return;
        }
        while self.next_change().is_some_and(|at| at <= now) {
            let Some(BandwidthChange { cell, bandwidth, .. }) = self.changes.pop_front() else { break };
            self.gateway.set_path_tail_bandwidth(now, cell.as_deref(), bandwidth);
        }
        for (port, packet) in self.sleep.iter_mut().flat_map(Sleep::take) {
            self.gateway.handle_packet(now, port, packet);
        }
        self.gateway.handle_timeout(now);
        while self.next_take_over().is_some_and(|at| at <= now) {
            self.taken_over.pop_front();
            self.gateway = successor(now, &mut self.gateway, &self.config);
        }
    }

    fn poll_transmit(&mut self, now: Time, out: &mut TxBatch) -> bool {
        self.wakes_at().is_none() && self.gateway.poll_transmit(now, out)
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        if let Some(at) = self.wakes_at() {
            return Some(Deadline { at, timer: "late" });
        }
        let change = self.next_change().map(|at| Deadline { at, timer: "radio-controller" });
        let taken_over = self.next_take_over().map(|at| Deadline { at, timer: "take-over" });
        Deadline::earliest(Deadline::earliest(change, taken_over), self.gateway.poll_timeout())
    }
}
