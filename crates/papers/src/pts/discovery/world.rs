//! Datagrams over the links of a scenario: who asks, who answers on the way, and who competes with them.
use shorthaul_link::{Direction, Link};
use shorthaul_relay::discovery::{
    Arrival, Bound, Findings, HOP_LIMIT, Handshake, Identity, Key, Keyring, Load, MAC_LEN, PORT, Prober,
    Question, Responder, ResponderConfig, Retry,
};
use shorthaul_scenario::{NodeIndex, Role, Scenario};
use shorthaul_sim::{CrossSource, address_of};
use shorthaul_types::{Bytes, Seed, Time};
use std::net::SocketAddr;
use std::time::Duration;

/// What IPv4 and UDP add to a message, in bytes.
const HEADERS: u64 = 28;

/// When a run begins: cookies are made with it.
const BEGINNING: Duration = Duration::from_secs(1_800_000_000);

/// One look for relays: what was found, and how long that took.
#[derive(Clone, Debug)]
pub(super) struct Look {
    pub findings: Findings,
    pub took: Duration,
}

/// Something that a link carries.
#[derive(Clone, Debug)]
enum Carried {
    /// A datagram of others, of this size, to this place on the way.
    Other {
        to: usize,
        size: u64,
    },
    Message(Message),
}

/// A message of discovery.
#[derive(Clone, Debug)]
struct Message {
    from: usize,
    to: usize,
    hop_limit: u8,
    bytes: Vec<u8>,
}

/// The nodes from a source to its destination, in order, and what is between them. A place is a number of hops from the source.
pub(super) struct World {
    now: Time,
    nodes: Vec<NodeIndex>,
    /// Between a place and the next one: there, and back.
    links: Vec<[Link<Carried>; 2]>,
    /// Who answers at a place, and how it is doing.
    responders: Vec<Option<(Responder, Load)>>,
    others: Vec<(CrossSource, [usize; 2])>,
}

impl World {
    /// The way of the scenario's first flow in the run with this seed. Of the relays on it those at `offered` answer, and the `overloaded` keep silent.
    /// `None` if there is no such way.
    pub fn new(scenario: &Scenario, run: u64, offered: &[usize], overloaded: &[usize]) -> Option<World> {
        let flow = scenario.flows.first()?;
        let seed = Seed(run);
        let way = scenario.way(flow.from, flow.to)?;
        let mut nodes = vec![flow.from];
        let mut links = Vec::with_capacity(way.len());
        for (index, direction) in way {
            let link = &scenario.links[index];
            let carries = |direction: Direction, name: &str| {
                Link::new(link.config(direction, seed), link.seed(seed).derive("discovery").derive(name))
            };
            let back = match direction {
                Direction::Up => Direction::Down,
                Direction::Down => Direction::Up,
            };
            links.push([carries(direction, "there"), carries(back, "back")]);
            let last = *nodes.last()?;
            nodes.push(if link.between[0] == last { link.between[1] } else { link.between[0] });
        }
        let keys = Keyring::single(Key::new([7; 32]));
        let respond = |relay| Responder::new(Time::ZERO, ResponderConfig::new(keys.clone(), relay));
        let calm =
            Load { service_time: Duration::ZERO, buffer: 0, sessions: 0, capacity: None, overloaded: false };
        let responder = |(place, node): (usize, &NodeIndex)| {
            if *node == flow.to {
                return Some((respond(None), calm));
            }
            let Role::Relay(relay) = &scenario.nodes[node.0].role else { return None };
            let identity = Identity::relay(SocketAddr::new(address_of(*node), PORT), "relay");
            let load = Load {
                service_time: relay.service_time.mean(),
                buffer: relay.buffer.0,
                overloaded: overloaded.contains(&place),
                ..calm
            };
            offered.contains(&place).then(|| (respond(Some(identity)), load))
        };
        let responders = nodes.iter().enumerate().map(responder).collect();
        let place = |node: NodeIndex| nodes.iter().position(|own| *own == node);
        let others = scenario
            .cross
            .iter()
            .filter_map(|cross| Some((CrossSource::new(cross, seed), [place(cross.from)?, place(cross.to)?])))
            .collect();
        Some(World { now: Time::ZERO, nodes, links, responders, others })
    }

    /// The place of who accepts sessions at an address.
    pub fn place_of(&self, address: SocketAddr) -> Option<usize> {
        self.nodes.iter().position(|node| address_of(*node) == address.ip())
    }

    fn address(&self, place: usize) -> SocketAddr {
        SocketAddr::new(address_of(self.nodes[place]), PORT)
    }

    /// Looks for relays, with the cookie of an earlier look if there is one.
    pub fn look(&mut self, seed: Seed, cookie: Option<[u8; MAC_LEN]>) -> Look {
        let destination = self.nodes.len() - 1;
        let question = Question {
            destination: Some(self.address(destination)),
            relays: Vec::new(),
            target: None,
            handshake: Handshake::Never,
            cookie,
        };
        let keys = Keyring::single(Key::new([7; 32]));
        let began = self.now;
        let mut prober = Prober::new(began, keys, question, Retry::default(), seed);
        loop {
            while let Some((_, datagram)) = prober.poll_transmit(self.now) {
                let bytes = datagram.as_slice().to_vec();
                self.send(
                    0,
                    Carried::Message(Message { from: 0, to: destination, hop_limit: HOP_LIMIT, bytes }),
                );
            }
            if let Some(findings) = prober.findings() {
                return Look { findings, took: self.now.saturating_since(began) };
            }
            let timeout = prober.poll_timeout().unwrap_or(self.now);
            self.now = self.now.max(self.next_event().map_or(timeout, |event| event.min(timeout)));
            self.emit();
            for (place, carried) in self.arrived() {
                if let Some(answer) = self.arrive(place, carried) {
                    // What is of no use to it, it ignores by itself.
                    let _ = prober.handle_datagram(self.now, &answer);
                }
            }
            prober.handle_timeout(self.now);
        }
    }

    /// Lets time pass before a look, so that what others send is on its way.
    pub fn run_until(&mut self, end: Time) {
        while let Some(event) = self.next_event().filter(|event| *event <= end) {
            self.now = self.now.max(event);
            self.emit();
            for (place, carried) in self.arrived() {
                self.arrive(place, carried);
            }
        }
        self.now = self.now.max(end);
    }

    fn next_event(&self) -> Option<Time> {
        let links = self.links.iter().flatten().filter_map(Link::next_delivery);
        links.chain(self.others.iter().filter_map(|(source, _)| source.next())).min()
    }

    /// What others send by now.
    fn emit(&mut self) {
        for index in 0..self.others.len() {
            while self.others[index].0.next().is_some_and(|at| at <= self.now) {
                let (source, [from, to]) = &mut self.others[index];
                let (from, other) = (*from, Carried::Other { to: *to, size: u64::from(source.size) });
                source.advance();
                self.send(from, other);
            }
        }
    }

    /// What has come out of the links by now, and where.
    fn arrived(&mut self) -> Vec<(usize, Carried)> {
        let now = self.now;
        let mut all = Vec::new();
        for (place, [there, back]) in self.links.iter_mut().enumerate() {
            while let Some((_, carried)) = there.pop(now) {
                all.push((place + 1, carried));
            }
            while let Some((_, carried)) = back.pop(now) {
                all.push((place, carried));
            }
        }
        all
    }

    /// Puts something onto the link that leads to where it is to go.
    fn send(&mut self, from: usize, carried: Carried) {
        let (to, size) = match &carried {
            Carried::Other { to, size } => (*to, *size),
            Carried::Message(message) => (message.to, message.bytes.len() as u64 + HEADERS),
        };
        let now = self.now;
        let link = match to > from {
            true => self.links[from].first_mut(),
            false => from.checked_sub(1).and_then(|before| self.links[before].last_mut()),
        };
        if let Some(link) = link {
            // What a link loses, or has no room for, is not heard of again.
            let _ = link.push(now, Bytes(size), carried);
        }
    }

    /// Something is at a place: on with it, unless it is for here. Answers to the source are given back.
    fn arrive(&mut self, place: usize, carried: Carried) -> Option<Vec<u8>> {
        let mut message = match carried {
            Carried::Other { to, .. } => {
                if to != place {
                    self.send(place, carried);
                }
                return None;
            }
            Carried::Message(message) => message,
        };
        if message.to == place && place == 0 {
            return Some(message.bytes);
        }
        let (from, local) = (self.address(message.from), self.address(place).ip());
        if let Some((responder, load)) = &mut self.responders[place] {
            let arrival = Arrival {
                from,
                bytes: &message.bytes,
                bound: if message.to == place { Bound::Here } else { Bound::Onward },
                hop_limit: Some(message.hop_limit),
                local,
                since_1970: BEGINNING + self.now.saturating_since(Time::ZERO),
            };
            if let Ok(answer) = responder.answer(self.now, load, &arrival) {
                let bytes = answer.datagram.as_slice().to_vec();
                let back = Message { from: place, to: message.from, hop_limit: HOP_LIMIT, bytes };
                self.send(place, Carried::Message(back));
            }
        }
        if message.to != place && message.hop_limit > 1 {
            message.hop_limit -= 1;
            self.send(place, Carried::Message(message));
        }
        None
    }
}
