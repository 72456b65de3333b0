//! A host of a scenario for engines that have a network of their own.
use crate::SimError;
use crate::application::EndReport;
use crate::build::build_host;
use crate::host::AppHost;
use shorthaul_scenario::{NodeIndex, Scenario};
use shorthaul_tcp::Connection;
use shorthaul_types::{Deadline, PortId, Seed, Time};
use shorthaul_wire::{Machine, Packet, TxBatch};
use std::net::IpAddr;

/// A host of a scenario with the applications at the ends of its flows: the machine that simulations drive,
/// for an engine that brings real packets and the real time.
///
/// Its time counts from the start of the run.
pub struct ScenarioHost(AppHost);

impl ScenarioHost {
    /// The host at `node`, where the scenario's nodes have the addresses that `address` gives.
    ///
    /// # Errors
    /// If there is no host at `node`.
    pub fn new(
        scenario: &Scenario,
        seed: Seed,
        node: NodeIndex,
        address: impl Fn(NodeIndex) -> IpAddr,
    ) -> Result<Self, SimError> {
        build_host(scenario, seed, node, &address).map(ScenarioHost)
    }

    /// Whether everything has come that comes to this host.
    pub fn is_done(&self) -> bool {
        self.0.is_done()
    }

    /// The ends of flows at this host: the flow's place in the scenario, whether this end gives the data,
    /// and what it has seen so far.
    pub fn ends(&self) -> impl Iterator<Item = (usize, bool, &EndReport)> {
        self.0.ends.iter().map(|end| (end.flow as usize, end.gives, &end.report))
    }

    /// The connections over which this host sends data of flows, each with its flow's place in the scenario.
    pub fn senders(&self) -> impl Iterator<Item = (usize, &Connection)> {
        self.0.senders().map(|(flow, connection)| (flow as usize, connection))
    }
}

impl Machine for ScenarioHost {
    fn handle_packet(&mut self, now: Time, port: PortId, packet: Packet) {
        self.0.handle_packet(now, port, packet);
    }

    fn handle_timeout(&mut self, now: Time) {
        self.0.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Time, out: &mut TxBatch) -> bool {
        self.0.poll_transmit(now, out)
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        self.0.poll_timeout()
    }
}
