//! The relays of a flow, as processes on their hosts.
use crate::network::Network;
use crate::scheme::KernelScheme;
use shorthaul_lab::{Host, RelayChain, RelaySettings};
use shorthaul_scenario::{Flow, Role, Scenario};
use std::io;
use std::net::SocketAddr;

/// The first port that relays listen at; each flow has one of its own.
const FIRST_PORT: u16 = 20_000;

/// Starts the relays of a flow; its client is to connect to their entrance.
///
/// # Errors
/// If one of them does not start, or its scheme is none of the kernel's.
pub fn start(
    scenario: &Scenario,
    network: &Network,
    flow: &Flow,
    server: SocketAddr,
    available: &[String],
) -> io::Result<RelayChain> {
    let number = scenario.flows.iter().position(|other| other.name == flow.name).unwrap_or_default();
    // `via` goes from the sender of the data to its receiver; a chain goes from the client to the server.
    let mut from_client = flow.via.clone();
    if !flow.sender_opens {
        from_client.reverse();
    }
    let mut relays: Vec<(&Host, RelaySettings)> = Vec::new();
    for node in from_client {
        let Role::Relay(relay) = &scenario.nodes[node.0].role else { continue };
        let scheme = KernelScheme::of(flow.scheme.as_ref().unwrap_or(&relay.scheme), available)
            .map_err(|lacking| io::Error::other(lacking.join("; ")))?;
        let settings = RelaySettings {
            congestion: scheme.congestion.to_owned(),
            paced: scheme.paced,
            buffer: Some(relay.buffer),
            forward: relay.forward,
        };
        relays.push((network.host(node), settings));
    }
    RelayChain::start(relays.into_iter(), FIRST_PORT + number as u16, server).map_err(io::Error::other)
}
