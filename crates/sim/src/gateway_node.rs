//! A gateway in a simulated network, with the radio controller that speaks to it.
use crate::handled::{Calls, Handled};
use crate::sleep::Sleep;
use crate::successor::{Survivors, restarted, successor};
use shorthaul_proxy::{Gateway, GatewayConfig};
use shorthaul_scenario::{BandwidthChange, Kill};
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
    /// When its process is killed, the first of them first.
    killed: VecDeque<Kill>,
    /// When the next process is there, where one was killed.
    back_at: Option<Time>,
    /// What passes while there is none.
    passing: TxBatch,
    survivors: Survivors,
    /// What its gateway was given, where that is to be known.
    calls: Option<Box<Calls>>,
}

impl GatewayNode {
    /// `changes` are in order of time.
    pub fn new(config: GatewayConfig, changes: Vec<BandwidthChange>, sleep: Option<Sleep>) -> Self {
        let gateway = Gateway::new(config.clone());
        GatewayNode {
            gateway,
            changes: changes.into(),
            sleep,
            config,
            taken_over: VecDeque::new(),
            killed: VecDeque::new(),
            back_at: None,
            passing: TxBatch::new(),
            survivors: Survivors::default(),
            calls: None,
        }
    }

    /// Notes what its gateway is given from now on, where it is one gateway to the end, and is told nothing besides.
    pub fn note_calls(&mut self) {
        let one = self.taken_over.is_empty() && self.killed.is_empty() && self.changes.is_empty();
        self.calls = one.then(Box::default);
    }

    /// What its gateway, called `name`, was given; none where that was not noted.
    pub fn take_handled(&mut self, name: &str) -> Option<Handled> {
        Some(Handled::new(name.to_owned(), self.config.clone(), *self.calls.take()?))
    }

    fn give(&mut self, now: Time, port: PortId, packet: Packet) {
        if let Some(calls) = &mut self.calls {
            calls.packet(now, port, &packet);
        }
        self.gateway.handle_packet(now, port, packet);
    }

    /// The same, taken over by another process at these times, which are in order.
    #[must_use]
    pub fn taken_over(self, taken_over: &[Duration]) -> Self {
        GatewayNode { taken_over: taken_over.iter().copied().collect(), ..self }
    }

    /// The same, killed at these times, which are in order.
    #[must_use]
    pub fn killed(self, killed: &[Kill]) -> Self {
        let survivors = Survivors::new(!killed.is_empty());
        GatewayNode { killed: killed.iter().copied().collect(), survivors, ..self }
    }

    fn next_kill(&self) -> Option<Time> {
        self.killed.front().map(|kill| Time::ZERO + kill.at)
    }

    /// Kills it, or starts the next one, if it is time.
    fn live_and_die(&mut self, now: Time) {
        while self.next_kill().is_some_and(|at| at <= now) {
            let Some(Kill { gone, .. }) = self.killed.pop_front() else { break };
            // What waits in its devices vanishes with them.
            self.sleep.iter_mut().for_each(|sleep| drop(sleep.take()));
            self.gateway = Gateway::new(self.config.clone());
            self.back_at = Some(now + gone);
        }
        if self.back_at.is_some_and(|at| at <= now) {
            self.back_at = None;
            self.gateway = restarted(now, &mut self.survivors, &self.config);
        }
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
        if self.back_at.is_some() {
            let other = if port == Gateway::ACCESS { Gateway::WAN } else { Gateway::ACCESS };
            self.passing.push((other, packet));
            return;
        }
        let packet = match &mut self.sleep {
            Some(sleep) => sleep.on_packet(now, port, packet),
            None => Some(packet),
        };
        if let Some(packet) = packet {
            self.give(now, port, packet);
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.live_and_die(now);
        if self.back_at.is_some() || self.sleep.as_mut().is_some_and(|sleep| !sleep.on_timer(now)) {
            return;
        }
        while self.next_change().is_some_and(|at| at <= now) {
            let Some(BandwidthChange { cell, bandwidth, .. }) = self.changes.pop_front() else { break };
            self.gateway.set_path_tail_bandwidth(now, cell.as_deref(), bandwidth);
        }
        let slept: Vec<_> = self.sleep.iter_mut().flat_map(Sleep::take).collect();
        for (port, packet) in slept {
            self.give(now, port, packet);
        }
        if let Some(calls) = &mut self.calls {
            calls.timeout(now);
        }
        self.gateway.handle_timeout(now);
        while self.next_take_over().is_some_and(|at| at <= now) {
            self.taken_over.pop_front();
            self.gateway = successor(now, &mut self.gateway, &mut self.survivors, &self.config);
        }
    }

    fn poll_transmit(&mut self, now: Time, out: &mut TxBatch) -> bool {
        out.append(&mut self.passing);
        if self.back_at.is_some() || self.wakes_at().is_some() {
            return false;
        }
        let before = out.len();
        let more = self.gateway.poll_transmit(now, out);
        if let Some(calls) = &mut self.calls {
            calls.transmit(now, out.len() - before);
        }
        if !self.killed.is_empty() {
            self.gateway.save(&mut self.survivors);
        }
        more
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        if let Some(at) = self.back_at {
            return Some(Deadline { at, timer: "restart" });
        }
        let killed = self.next_kill().map(|at| Deadline { at, timer: "kill" });
        if let Some(at) = self.wakes_at() {
            return Deadline::earliest(killed, Some(Deadline { at, timer: "late" }));
        }
        let change = self.next_change().map(|at| Deadline { at, timer: "radio-controller" });
        let taken_over = self.next_take_over().map(|at| Deadline { at, timer: "take-over" });
        let told = Deadline::earliest(killed, Deadline::earliest(change, taken_over));
        Deadline::earliest(told, self.gateway.poll_timeout())
    }
}
