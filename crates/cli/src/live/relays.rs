//! The relays of a flow, as processes on their hosts.
use std::io;
use std::net::SocketAddr;

use shorthaul_scenario::{Flow, Role, Scenario};

use super::network::Network;
use super::scheme::KernelScheme;
use crate::relay_process::{Relay, Settings};

/// The first port that relays listen at; each flow has one of its own.
const FIRST_PORT: u16 = 20_000;

/// Starts the relays of a flow, from the one next to `server` on; where the client is to connect, and the relays.
///
/// # Errors
/// If one of them does not start, or its scheme is none of the kernel's.
pub fn start(
    scenario: &Scenario,
    network: &Network,
    flow: &Flow,
    server: SocketAddr,
    available: &[String],
) -> io::Result<(SocketAddr, Vec<Relay>)> {
    let number = scenario.flows.iter().position(|other| other.name == flow.name).unwrap_or_default();
    let port = FIRST_PORT + number as u16;
    // `via` goes from the giver to the taker; the chain is built from the server on.
    let mut from_server = flow.via.clone();
    if flow.giver_opens {
        from_server.reverse();
    }
    let (mut target, mut relays) = (server, Vec::new());
    for node in from_server {
        let Role::Relay(relay) = &scenario.nodes[node.0].role else { continue };
        let scheme = KernelScheme::of(flow.scheme.as_ref().unwrap_or(&relay.scheme), available)
            .map_err(|lacking| io::Error::other(lacking.join("; ")))?;
        let host = network.host(node);
        let listen = SocketAddr::new(host.address_v4().into(), port);
        relays.push(Relay::start(
            host,
            &Settings {
                listen,
                target,
                congestion: scheme.congestion,
                buffer: Some(relay.buffer),
                forward: relay.forward,
            },
        )?);
        target = listen;
    }
    Ok((target, relays))
}
