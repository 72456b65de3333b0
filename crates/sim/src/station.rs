use crate::gateway_node::GatewayNode;
use crate::host::AppHost;
use crate::relay::RelayNode;
use crate::shaper_node::ShaperNode;
use shorthaul_wire::Machine;

/// What a node does with what arrives.
pub(crate) enum Station {
    /// Forwards at once; its queues are those of its links.
    Router,
    /// Ends connections.
    Host(Box<AppHost>),
    /// Ends connections and opens others; forwards what is not meant for it.
    Relay(Box<RelayNode>),
    /// Sees everything that passes.
    Gateway(Box<GatewayNode>),
    /// Queues what passes.
    Shaper(Box<ShaperNode>),
}

impl Station {
    /// The machine, if there is one.
    #[inline]
    pub fn machine(&mut self) -> Option<&mut dyn Machine> {
        match self {
            Station::Router => None,
            Station::Host(host) => Some(&mut **host),
            Station::Relay(relay) => Some(&mut **relay),
            Station::Gateway(gateway) => Some(&mut **gateway),
            Station::Shaper(shaper) => Some(&mut **shaper),
        }
    }

    /// Whether a packet goes into the machine: `meant_for_it` says whether it carries the node's address.
    #[inline]
    pub fn takes(&self, meant_for_it: bool) -> bool {
        match self {
            Station::Router => false,
            Station::Gateway(_) | Station::Shaper(_) => true,
            Station::Host(_) | Station::Relay(_) => meant_for_it,
        }
    }

    /// Which timer it waits for, for messages.
    pub fn timer(&self) -> &'static str {
        let deadline = match self {
            Station::Router => None,
            Station::Host(host) => host.poll_timeout(),
            Station::Relay(relay) => relay.poll_timeout(),
            Station::Gateway(gateway) => gateway.poll_timeout(),
            Station::Shaper(shaper) => shaper.poll_timeout(),
        };
        deadline.map_or("none", |deadline| deadline.timer)
    }
}
