//! Addresses and next hops. A node's address is its number, so that no table is needed to find it.
use crate::network::DirectionIndex;
use shorthaul_link::Direction;
use shorthaul_scenario::{NodeIndex, Scenario};
use std::net::{IpAddr, Ipv4Addr};

/// 10.0.0.0, before the first node's.
const BASE: u32 = 10 << 24;

/// The address of a node: 10.0.0.1 is the first one's.
pub fn address_of(node: NodeIndex) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from_bits(BASE + 1 + node.0 as u32))
}

/// The node with an address, if it is an address of a node.
pub(crate) fn node_of(address: IpAddr) -> Option<NodeIndex> {
    match address {
        IpAddr::V4(v4) => Some(NodeIndex(v4.to_bits().checked_sub(BASE + 1)? as usize)),
        IpAddr::V6(_) => None,
    }
}

/// Where a node sends what goes to another.
#[derive(Clone, Debug)]
pub(crate) enum Routes {
    /// It has one link.
    Only(DirectionIndex),
    /// By destination; [`Routes::NONE`] where no way leads.
    Table(Box<[DirectionIndex]>),
}

impl Routes {
    const NONE: DirectionIndex = DirectionIndex::MAX;

    #[inline]
    pub fn to(&self, destination: NodeIndex) -> Option<DirectionIndex> {
        match self {
            Routes::Only(way) => Some(*way),
            Routes::Table(table) => table.get(destination.0).copied().filter(|&way| way != Self::NONE),
        }
    }

    /// The routes of every node: the ways with the fewest hops, as the scenario counts them.
    pub fn of(scenario: &Scenario) -> Vec<Routes> {
        let nodes = scenario.nodes.len();
        // by node: its links, as the way toward the neighbour and the neighbour
        let mut neighbours: Vec<Vec<(DirectionIndex, usize)>> = vec![Vec::new(); nodes];
        for (index, link) in scenario.links.iter().enumerate() {
            let [first, second] = link.between;
            neighbours[first.0].push((way(index, Direction::Up), second.0));
            neighbours[second.0].push((way(index, Direction::Down), first.0));
        }
        let mut tables: Vec<Vec<DirectionIndex>> = neighbours
            .iter()
            .map(|links| if links.len() > 1 { vec![Self::NONE; nodes] } else { Vec::new() })
            .collect();
        for source in (0..nodes).filter(|&node| neighbours[node].len() > 1) {
            tables[source] = first_hops(scenario, &neighbours, source);
        }
        let routes =
            |(links, table): (&Vec<(DirectionIndex, usize)>, Vec<DirectionIndex>)| match links.as_slice() {
                [(only, _)] => Routes::Only(*only),
                _ => Routes::Table(table.into()),
            };
        neighbours.iter().zip(tables).map(routes).collect()
    }
}

/// The number of one direction of link `index`.
pub(crate) fn way(index: usize, direction: Direction) -> DirectionIndex {
    (2 * index) as DirectionIndex + DirectionIndex::from(direction == Direction::Down)
}

/// For every destination, the first link of the way there; the search is that of `Scenario::way`.
fn first_hops(
    scenario: &Scenario,
    neighbours: &[Vec<(DirectionIndex, usize)>],
    source: usize,
) -> Vec<DirectionIndex> {
    let mut hops = vec![Routes::NONE; neighbours.len()];
    let mut frontier = std::collections::VecDeque::from([source]);
    while let Some(node) = frontier.pop_front() {
        let is_host = matches!(scenario.nodes[node].role, shorthaul_scenario::Role::Host(_));
        if node != source && is_host {
            continue;
        }
        for &(way, next) in &neighbours[node] {
            if next != source && hops[next] == Routes::NONE {
                hops[next] = if node == source { way } else { hops[node] };
                frontier.push_back(next);
            }
        }
    }
    hops
}
