//! Where everybody is, how far from each other, and when nodes die.
use super::scenario::{DirectoryKind, Scenario};
use shorthaul_types::{Seed, Time};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

/// A node by its number; numbers are never used again.
pub type NodeId = u32;

/// No round trip is shorter.
const SHORTEST: f64 = 0.001;

/// Random numbers, one after the other (SplitMix64, as [`Seed::nth`] is).
#[derive(Clone, Debug)]
pub struct Draws {
    seed: Seed,
    drawn: u64,
}

impl Draws {
    pub fn new(seed: Seed) -> Draws {
        Draws { seed, drawn: 0 }
    }

    fn bits(&mut self) -> u64 {
        self.drawn += 1;
        self.seed.nth(self.drawn).0
    }

    /// From 0 to below 1.
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Exponentially distributed.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.uniform()).ln()
    }

    /// Whether something happens that has this probability.
    pub fn happens(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.uniform() < probability
    }
}

/// A place on the sphere.
#[derive(Clone, Copy, Debug)]
pub struct Place([f32; 3]);

impl Place {
    /// Anywhere, alike.
    pub fn anywhere(seed: Seed) -> Place {
        let share = |seed: Seed| (seed.0 >> 11) as f64 / (1u64 << 53) as f64;
        let (z, turn) = (2.0 * share(seed.nth(0)) - 1.0, std::f64::consts::TAU * share(seed.nth(1)));
        let radius = (1.0 - z * z).sqrt();
        Place([radius * turn.cos(), radius * turn.sin(), z].map(|part| part as f32))
    }

    /// The arc to another place: 0 to 1, which is the other side.
    pub fn arc(self, other: Place) -> f64 {
        let product: f32 = self.0.iter().zip(other.0).map(|(a, b)| a * b).sum();
        f64::from(product.clamp(-1.0, 1.0).acos()) / std::f64::consts::PI
    }
}

/// A node and its life.
#[derive(Clone, Copy, Debug)]
pub struct Node {
    pub place: Place,
    /// Its place in lists of nodes: whoever replaces it has the same.
    pub slot: u32,
    /// Since when it is written down in the directory.
    pub listed: Time,
    pub dies: Time,
}

/// Nodes, destinations and the ways between them; all of it is drawn before anything happens.
#[derive(Debug)]
pub struct World {
    seed: Seed,
    pub nodes: Vec<Node>,
    /// The nodes that a slot has had and will have, in their order.
    slots: Vec<Vec<NodeId>>,
    destinations: Vec<Place>,
    /// The probability that a visit goes to one of the first so many destinations.
    popularity: Vec<f64>,
    pub farthest: f64,
    access: f64,
    responders: f64,
    on_path: f64,
}

impl World {
    /// Draws it all.
    pub fn new(scenario: &Scenario, ends: Time) -> World {
        let seed = Seed(scenario.seed).derive("world");
        let mut nodes = Vec::with_capacity(scenario.nodes.count);
        let mut slots = vec![Vec::new(); scenario.nodes.count];
        let mut draws = Draws::new(seed.derive("lives"));
        let mean = 3600.0 / scenario.nodes.changing.max(1e-12);
        for (slot, of_slot) in slots.iter_mut().enumerate() {
            let mut listed = Time::ZERO;
            while listed < ends {
                let number = nodes.len() as NodeId;
                // Beyond what a time can be, nobody dies.
                let dies = listed + Duration::from_secs_f64(draws.exponential(mean).min(1e8));
                nodes.push(Node {
                    place: Place::anywhere(seed.derive("node").nth(number.into())),
                    slot: slot as u32,
                    listed,
                    dies,
                });
                of_slot.push(number);
                listed = vanishes(scenario, dies, draws.uniform());
            }
        }
        let destinations = (0..scenario.destinations.count as u64)
            .map(|n| Place::anywhere(seed.derive("destination").nth(n)));
        let weights = (1..=scenario.destinations.count)
            .map(|rank| (rank as f64).powf(-scenario.destinations.popularity));
        let mut sum = 0.0;
        let mut popularity: Vec<f64> = weights
            .map(|weight| {
                sum += weight;
                sum
            })
            .collect();
        popularity.iter_mut().for_each(|part| *part /= sum);
        World {
            seed,
            nodes,
            slots,
            destinations: destinations.collect(),
            popularity,
            farthest: scenario.ways.farthest.as_secs_f64(),
            access: scenario.ways.access.as_secs_f64(),
            responders: scenario.destinations.responders,
            on_path: scenario.bootstrap.on_path,
        }
    }

    /// The node that a list of this time has in a slot.
    pub fn listed(&self, slot: usize, at: Time) -> NodeId {
        let of_slot = &self.slots[slot];
        let later =
            of_slot.iter().skip(1).take_while(|number| self.nodes[**number as usize].listed <= at).count();
        of_slot[later]
    }

    pub fn is_alive(&self, node: NodeId, at: Time) -> bool {
        let node = &self.nodes[node as usize];
        at < node.dies
    }

    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Where a client is.
    pub fn client(&self, client: u32) -> Place {
        Place::anywhere(self.seed.derive("client").nth(client.into()))
    }

    /// A destination, drawn as popular as they are.
    pub fn draw_destination(&self, uniform: f64) -> u32 {
        self.popularity.partition_point(|part| *part <= uniform).min(self.popularity.len() - 1) as u32
    }

    /// How often a visit goes to a destination.
    pub fn popularity(&self, destination: usize) -> f64 {
        self.popularity[destination]
            - destination.checked_sub(1).map_or(0.0, |before| self.popularity[before])
    }

    pub fn destinations(&self) -> usize {
        self.destinations.len()
    }

    pub fn has_responder(&self, destination: u32) -> bool {
        let seed = self.seed.derive("responder").nth(destination.into());
        ((seed.0 >> 11) as f64 / (1u64 << 53) as f64) < self.responders
    }

    /// The round trip of the direct way, in seconds.
    pub fn whole(&self, client: Place, destination: u32) -> f64 {
        (self.farthest * client.arc(self.destinations[destination as usize])).max(SHORTEST) + self.access
    }

    /// The round trip from a client to a node.
    pub fn near(&self, client: Place, node: NodeId) -> f64 {
        (self.farthest * client.arc(self.nodes[node as usize].place)).max(SHORTEST) + self.access
    }

    /// The round trip from a node to a destination.
    pub fn far(&self, node: NodeId, destination: u32) -> f64 {
        (self.farthest * self.nodes[node as usize].place.arc(self.destinations[destination as usize]))
            .max(SHORTEST)
    }

    /// Slots of the nodes that the way of a client to a destination passes, each with the part of the way up to it: the same whenever it is asked for.
    pub fn on_way(&self, client: u32, destination: u32) -> impl Iterator<Item = (usize, f64)> + use<> {
        let mut draws =
            Draws::new(self.seed.derive("on the way").nth(u64::from(client) << 32 | u64::from(destination)));
        // As many as a Poisson process has in the way's length.
        let (on_path, slots) = (self.on_path, self.slots.len());
        let mut at = 0.0;
        std::iter::from_fn(move || {
            if on_path <= 0.0 {
                return None;
            }
            at += draws.exponential(1.0 / on_path);
            (at < 1.0).then(|| ((draws.uniform() * slots as f64) as usize, at))
        })
    }
}

/// When nobody is told any more of a node that died.
fn vanishes(scenario: &Scenario, dies: Time, uniform: f64) -> Time {
    match scenario.bootstrap.directory {
        // It has renewed its lease within the last third.
        DirectoryKind::Etcd => dies + scenario.bootstrap.lease.mul_f64(1.0 - uniform / 3.0),
        DirectoryKind::File => {
            let period = scenario.bootstrap.updated.as_nanos() as u64;
            Time::from_nanos((dies.as_nanos() / period).saturating_add(1).saturating_mul(period))
        }
        DirectoryKind::None => dies,
    }
}

/// The address of a client, as responders see it.
pub fn client_address(client: u32, per_network: usize) -> IpAddr {
    let (network, host) = (client / per_network as u32, client % per_network as u32);
    Ipv4Addr::from(0x0100_0000_u32.wrapping_add(network << 8 | host)).into()
}

/// The address of a destination.
pub fn target(destination: u32) -> SocketAddr {
    SocketAddr::new(Ipv4Addr::from(0x6400_0000 + destination).into(), 443)
}

/// The number of the destination with this address.
pub fn destination_of(target: SocketAddr) -> u32 {
    match target.ip() {
        IpAddr::V4(ip) => u32::from(ip).wrapping_sub(0x6400_0000),
        IpAddr::V6(_) => 0,
    }
}
