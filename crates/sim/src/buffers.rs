//! How long the buffers between legs were empty, and how long full.
//!
//! Both are seen at senders: one that has nothing to send has an empty buffer before it, and one whose receiver's window is what keeps it from sending has
//! a full one behind it.
use crate::host::flow_of_port;
use crate::network::Network;
use crate::station::Station;
use shorthaul_observe::BufferOutcome;
use shorthaul_scenario::Scenario;
use shorthaul_types::{BufferTimes, FlowKey};
use std::collections::BTreeMap;

/// A connection that a gateway splits: the flow, the gateway's place among the nodes, and the ends.
pub(crate) type Split = (usize, usize, FlowKey);
/// What was seen of each.
pub(crate) type Seen = BTreeMap<Split, BufferTimes>;

/// The buffers of split flows in the direction of the data: by flow, gateway and connection.
pub(crate) fn gateway_buffers(scenario: &Scenario, network: &Network) -> Vec<(Split, BufferTimes)> {
    let mut all = Vec::new();
    for (place, state) in network.nodes.iter().enumerate() {
        let Station::Gateway(gateway) = &state.station else { continue };
        for info in gateway.gateway.flows() {
            let flow = flow_of_port(info.key.dst.port()).filter(|flow| *flow < scenario.flows.len());
            let (Some(flow), Some([to_server, to_client])) = (flow, info.legs) else { continue };
            let leg = if scenario.flows[flow].sender_opens { to_server } else { to_client };
            all.push(((flow, place, info.key), leg.buffer));
        }
    }
    all
}

/// How long the buffers of relays and gateways were empty and full: of each flow, in the order in which its data passes them.
pub(crate) fn buffers(scenario: &Scenario, network: &Network, of_gateways: &Seen) -> Vec<BufferOutcome> {
    let mut sums: BTreeMap<(usize, usize), BufferTimes> = BTreeMap::new();
    for ((flow, place, _), times) in of_gateways {
        sums.entry((*flow, *place)).or_default().add(times);
    }
    for (place, state) in network.nodes.iter().enumerate() {
        let seen: Vec<(u32, BufferTimes)> = match &state.station {
            Station::Host(host) => host.buffer_times(network.now).collect(),
            Station::Relay(relay) => {
                let of_data = |(flow, [near, far]): (u32, [BufferTimes; 2])| {
                    (flow, if scenario.flows[flow as usize].sender_opens { near } else { far })
                };
                relay.buffer_times(network.now).map(of_data).collect()
            }
            _ => Vec::new(),
        };
        for (flow, times) in seen {
            sums.entry((flow as usize, place)).or_default().add(&times);
        }
    }
    let mut all = Vec::new();
    for (number, flow) in scenario.flows.iter().enumerate() {
        let way = scenario.way(flow.from, flow.to).unwrap_or_default();
        let passed = std::iter::once(flow.from).chain(way.iter().scan(flow.from, |here, (link, _)| {
            let [a, b] = scenario.links[*link].between;
            *here = if a == *here { b } else { a };
            Some(*here)
        }));
        // A way by relays may be none that packets would take by themselves.
        let mut places: Vec<usize> = passed.map(|node| node.0).collect();
        let via: Vec<usize> = flow.via.iter().map(|node| node.0).collect();
        if !via.iter().all(|node| places.contains(node)) {
            places = std::iter::once(flow.from.0).chain(via).collect();
        }
        // Of the sender before: what its receiver's window kept it from is the overflow of the buffer behind it.
        let mut before = BufferTimes::default();
        for place in places {
            let Some(own) = sums.get(&(number, place)).filter(|times| !times.watched.is_zero()) else {
                continue;
            };
            let BufferTimes { overflow, longest_overflow, .. } = std::mem::replace(&mut before, *own);
            if place != flow.from.0 {
                let node = scenario.nodes[place].name.clone();
                let times = BufferTimes { overflow, longest_overflow, ..*own };
                all.push(BufferOutcome { flow: flow.name.clone(), node, times });
            }
        }
    }
    all
}
