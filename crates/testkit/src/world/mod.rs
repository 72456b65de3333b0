//! Hosts on both sides of a gateway, in virtual time, and links that lose, reorder and duplicate by a seed.
mod dress;
mod failing;
mod hostile;
mod twin;

pub use twin::Twin;

use crate::{App, Chance, Vault};
use dress::Parts;
use shorthaul_proxy::{FlowInfo, GatewayConfig};
use shorthaul_tcp::{Addresses, Connection, ConnectionConfig, Host, HostConfig, Sender};
use shorthaul_types::{FlowKey, PortId, Seed, SeqNum, Time};
use shorthaul_wire::{Machine, Packet, TcpFlags, TxBatch};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// From a host to the gateway, and back.
pub const DELAY: Duration = Duration::from_millis(10);
/// How often a slow reader reads.
const READING: Duration = Duration::from_millis(10);
/// Nothing takes this many events.
const ENDLESS: usize = 400_000;

/// What links do to packets; probabilities per mille.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Packets that are lost.
    pub loss: u64,
    /// Packets that come [`DELAY`] later than others.
    pub reorder: u64,
    /// Packets that come twice.
    pub duplicate: u64,
    /// Packets of the ends that come in fragments.
    pub fragments: u64,
    /// Packets of the ends that have IP options, or an extension header.
    pub options: u64,
}

impl Faults {
    /// This many packets of a thousand are lost, come later, come twice.
    pub fn of(loss: u64, reorder: u64, duplicate: u64) -> Faults {
        Faults { loss, reorder, duplicate, ..Faults::default() }
    }
}

/// A host, on one side of the gateway.
#[derive(Debug)]
pub struct Station {
    /// The port of the gateway that leads to it.
    pub port: PortId,
    /// Its address.
    pub address: IpAddr,
    /// Its TCP.
    pub host: Host,
    parts: Parts,
}

/// A connection that somebody opens, and what both ends do with it.
#[derive(Debug)]
pub struct Flow {
    /// From the end that opens it to the other.
    pub key: FlowKey,
    /// The two stations, the opening one first.
    pub stations: [usize; 2],
    /// What they do.
    pub apps: [App; 2],
    isns: [Option<SeqNum>; 2],
    /// The gateway reset what it held of it.
    pub was_cut: bool,
    /// One of its applications gave it up.
    pub was_aborted: bool,
}

/// What a connection is opened with.
#[derive(Clone, Debug)]
pub struct Opening {
    /// The station that opens it, and the one that is asked.
    pub stations: [usize; 2],
    /// Where the second listens.
    pub port: u16,
    /// How the two ends work.
    pub configs: [ConnectionConfig; 2],
    /// What they send, in bytes.
    pub totals: [u64; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stop {
    Gateway(PortId),
    Station(usize),
}

/// Stations, a gateway and the links between them.
#[derive(Debug)]
pub struct World {
    /// The time.
    pub now: Time,
    /// The gateway.
    pub gateway: Twin,
    /// How it works.
    pub config: GatewayConfig,
    /// What links do from now on.
    pub faults: Faults,
    /// Packets that are lost besides, by their number.
    pub lost: BTreeSet<u64>,
    /// How many packets were sent: the number of the last one.
    pub sent: u64,
    /// Where their choices come from.
    pub chance: Chance,
    /// The hosts.
    pub stations: Vec<Station>,
    /// The connections, as they were opened.
    pub flows: Vec<Flow>,
    /// What would survive a crash of the gateway.
    pub custody: Vault,
    wire: BTreeMap<(Time, u64), (Stop, Packet)>,
    count: u64,
    fragment_id: u32,
    is_down: bool,
    /// Until when the gateway does nothing, and what comes in the meantime.
    sleeps_until: Time,
    waiting: Vec<(PortId, Packet)>,
    /// What somebody overheard, and what his choices come from.
    heard: Vec<(Stop, Packet)>,
    tricks: Chance,
    /// Flows and bytes that the gateway had when it got its configuration.
    had: (usize, u64),
}

impl World {
    /// A gateway without stations, on links without faults.
    ///
    /// # Panics
    /// If the configuration cannot be worked with.
    pub fn new(seed: u64, config: GatewayConfig) -> World {
        config.check().unwrap_or_else(|error| panic!("the configuration makes no sense: {error}"));
        World {
            now: Time::from_secs(1),
            gateway: Twin::new(&config),
            config,
            faults: Faults::default(),
            lost: BTreeSet::new(),
            sent: 0,
            chance: Chance(seed),
            stations: Vec::new(),
            flows: Vec::new(),
            custody: Vault::default(),
            wire: BTreeMap::new(),
            count: 0,
            fragment_id: 0,
            is_down: false,
            sleeps_until: Time::ZERO,
            waiting: Vec::new(),
            heard: Vec::new(),
            tricks: Chance(!seed),
            had: (0, 0),
        }
    }

    /// Adds a host behind `port` of the gateway, and says its number.
    pub fn add_station(&mut self, port: PortId, address: IpAddr) -> usize {
        let seed = Seed(self.chance.number());
        let host = Host::new(HostConfig::new(address, seed));
        self.stations.push(Station { port, address, host, parts: Parts::default() });
        self.stations.len() - 1
    }

    /// Opens a connection, and says its number.
    ///
    /// # Panics
    /// If there is no port left for it.
    pub fn open(&mut self, opening: Opening) -> usize {
        let [from, to] = opening.stations;
        let [client, server] = opening.configs;
        let remote = SocketAddr::new(self.stations[to].address, opening.port);
        let near = &mut self.stations[from];
        let path = Addresses { local: SocketAddr::new(near.address, 0), remote };
        let id = near.host.connect(self.now, path, client).expect("a free port");
        let local = near.host.connection(id).expect("it was just opened").path().local;
        self.stations[to].host.listen(opening.port, server);
        let stream = 2 * self.flows.len() as u64;
        let mut apps = [
            App::new([stream, stream + 1], opening.totals[0]),
            App::new([stream + 1, stream], opening.totals[1]),
        ];
        apps[0].id = Some(id);
        self.flows.push(Flow {
            key: FlowKey { src: local, dst: remote },
            stations: opening.stations,
            apps,
            isns: [None; 2],
            was_cut: false,
            was_aborted: false,
        });
        self.settle();
        self.flows.len() - 1
    }

    /// The application at one end of a flow gives it up.
    pub fn abort(&mut self, flow: usize, end: usize) {
        let Flow { stations, apps, was_aborted, .. } = &mut self.flows[flow];
        let host = &mut self.stations[stations[end]].host;
        if let Some(connection) = apps[end].id.and_then(|id| host.connection_mut(id)) {
            *was_aborted = true;
            connection.abort(self.now);
        }
    }

    /// The gateway goes on with another configuration.
    ///
    /// # Panics
    /// If the configuration cannot be worked with.
    pub fn reconfigure(&mut self, config: GatewayConfig) {
        config.check().unwrap_or_else(|error| panic!("the configuration makes no sense: {error}"));
        self.gateway.reconfigure(self.now, &config);
        self.had = (self.gateway.flows().count(), self.gateway.allocated() as u64);
        self.config = config;
    }

    /// The connection of one end of a flow, unless it is forgotten or not there yet.
    pub fn connection(&self, flow: usize, end: usize) -> Option<&Connection> {
        let flow = &self.flows[flow];
        self.stations[flow.stations[end]].host.connection(flow.apps[end].id?)
    }

    /// The sender of one end of a flow.
    pub fn sender(&self, flow: usize, end: usize) -> Option<&Sender> {
        self.connection(flow, end).map(Connection::sender)
    }

    /// The sequence number of the SYN of one end of a flow, once it has left.
    pub fn isn(&self, flow: usize, end: usize) -> Option<SeqNum> {
        self.flows[flow].isns[end]
    }

    /// What the gateway knows of a flow, if it does.
    pub fn known(&self, flow: usize) -> Option<FlowInfo> {
        let key = self.flows[flow].key;
        self.gateway.flows().find(|info| info.key == key || info.key == key.reversed())
    }

    /// Both ends have read everything and closed.
    pub fn is_whole(&self, flow: usize) -> bool {
        let [a, b] = &self.flows[flow].apps;
        let is_done =
            |app: &App, other: &App| app.read == other.total && app.is_over() && app.failure().is_none();
        is_done(a, b) && is_done(b, a)
    }

    /// An end has sent a packet.
    fn note(&mut self, packet: &Packet) {
        let (Some(key), Some(segment)) = (packet.flow(), packet.as_tcp()) else { return };
        if segment.header.flags.contains(TcpFlags::SYN) {
            let of = |flow: &&mut Flow| flow.key == key || flow.key == key.reversed();
            if let Some(flow) = self.flows.iter_mut().find(of) {
                let end = usize::from(flow.key != key);
                flow.isns[end] = Some(segment.header.seq);
            }
        }
    }

    /// Puts a packet on a link: toward the gateway, or from it to a station.
    fn send(&mut self, to: Stop, packet: Packet) {
        self.overhear(to, &packet);
        self.sent += 1;
        if self.lost.contains(&self.sent) {
            return;
        }
        if self.chance.happens(self.faults.loss) {
            return;
        }
        let copies = if self.chance.happens(self.faults.duplicate) { 2 } else { 1 };
        for _ in 0..copies {
            let late = if self.chance.happens(self.faults.reorder) { DELAY } else { Duration::ZERO };
            self.count += 1;
            self.wire.insert((self.now + DELAY + late, self.count), (to, packet.clone()));
        }
    }

    /// Puts a packet on a link as it is.
    fn put(&mut self, to: Stop, packet: Packet) {
        self.count += 1;
        self.wire.insert((self.now + DELAY, self.count), (to, packet));
    }

    /// Applications hear what happened and do what they can; whether anything happened.
    fn run_apps(&mut self) -> bool {
        let mut heard = false;
        let World { now, stations, flows, .. } = self;
        for (index, station) in stations.iter_mut().enumerate() {
            while let Some(id) = station.host.poll_accept() {
                heard = true;
                let path = station.host.connection(id).expect("it was just accepted").path();
                let key = FlowKey { src: path.remote, dst: path.local };
                let is_its = |flow: &&mut Flow| flow.key == key && flow.apps[1].id.is_none();
                match flows.iter_mut().find(is_its) {
                    Some(flow) => flow.apps[1].id = Some(id),
                    None => station.host.release(*now, id),
                }
            }
            while let Some((id, event)) = station.host.poll_event() {
                heard = true;
                let apps = flows.iter_mut().flat_map(|flow| {
                    let of = flow.stations;
                    flow.apps.iter_mut().zip(of).filter(|(_, station)| *station == index).map(|(app, _)| app)
                });
                apps.filter(|app| app.id == Some(id)).for_each(|app| app.hear(&station.host, event));
            }
        }
        for flow in flows {
            for (app, station) in flow.apps.iter_mut().zip(flow.stations) {
                app.act(*now, &mut stations[station].host);
            }
        }
        heard
    }

    /// Lets everybody do all that they can at this time, and checks what must hold always.
    ///
    /// # Panics
    /// If somebody never comes to rest, or [`World::check`] finds something.
    pub fn settle(&mut self) {
        for round in 0.. {
            assert!(round < 10_000, "somebody never comes to rest at {}", self.now);
            let mut more = self.run_apps();
            let mut sent = false;
            for index in 0..self.stations.len() {
                let mut out = TxBatch::new();
                let station = &mut self.stations[index];
                more |= station.host.poll_transmit(self.now, &mut out);
                sent |= !out.is_empty();
                let port = station.port;
                for (_, packet) in out {
                    self.note(&packet);
                    for packet in self.dressed(packet) {
                        self.send(Stop::Gateway(port), packet);
                    }
                }
            }
            if self.is_awake() {
                let mut out = TxBatch::new();
                more |= self.gateway.poll_transmit(self.now, &mut out);
                self.gateway.save(&mut self.custody);
                sent |= !out.is_empty();
                for (port, packet) in out {
                    self.deliver(port, packet);
                }
            }
            if !more && !sent {
                break;
            }
        }
        self.check();
    }

    /// The gateway has sent a packet by `port`: it goes to the station there with its address.
    fn deliver(&mut self, port: PortId, packet: Packet) {
        let is_its = |station: &Station| station.port == port && station.address == packet.ip.dst();
        if let Some(index) = self.stations.iter().position(is_its) {
            self.send(Stop::Station(index), packet);
        }
    }

    /// The gateway is there and not asleep.
    fn is_awake(&self) -> bool {
        !self.is_down && self.sleeps_until <= self.now
    }

    /// When something happens next.
    pub fn next_time(&self) -> Option<Time> {
        let arrival = self.wire.first_key_value().map(|((at, _), _)| *at);
        let hosts = self.stations.iter().map(|station| station.host.poll_timeout());
        let gateway = self.gateway.poll_timeout().map(|deadline| deadline.at.max(self.sleeps_until));
        let waking = (!self.waiting.is_empty()).then_some(self.sleeps_until);
        let gateway = gateway.into_iter().chain(waking).filter(|_| !self.is_down);
        let timers = hosts.flatten().map(|deadline| deadline.at).chain(gateway);
        let unread = self.flows.iter().any(|flow| {
            let mut apps = flow.apps.iter().zip(flow.stations);
            apps.any(|(app, station)| app.leaves_unread(&self.stations[station].host))
        });
        let reading = unread.then(|| self.now + READING);
        timers.chain(arrival).chain(reading).min()
    }

    /// Goes on to the next event, or to `limit` if that comes before; `false` if nothing will ever happen.
    pub fn step(&mut self, limit: Time) -> bool {
        let next = self.next_time();
        if next.is_none() && limit == Time::MAX {
            return false;
        }
        self.now = self.now.max(next.unwrap_or(limit).min(limit));
        while let Some(entry) = self.wire.first_entry() {
            if entry.key().0 > self.now {
                break;
            }
            let (to, packet) = entry.remove();
            match to {
                Stop::Gateway(port) if self.is_down => self.deliver(PortId(port.0 ^ 1), packet),
                Stop::Gateway(port) => self.waiting.push((port, packet)),
                Stop::Station(index) => {
                    let Station { host, parts, .. } = &mut self.stations[index];
                    if let Some(packet) = parts.take(packet) {
                        host.handle_packet(self.now, PortId(0), packet);
                    }
                }
            }
        }
        if self.is_awake() {
            for (port, packet) in std::mem::take(&mut self.waiting) {
                self.gateway.handle_packet(self.now, port, packet);
            }
            if self.gateway.poll_timeout().is_some_and(|deadline| deadline.at <= self.now) {
                self.gateway.handle_timeout(self.now);
            }
            self.gateway.put_away(self.now);
        }
        self.stations.iter_mut().for_each(|station| station.host.handle_timeout(self.now));
        self.settle();
        true
    }

    /// Runs until every flow is whole, with a look at each step; `false` if that takes too long.
    pub fn run(&mut self, mut each: impl FnMut(&mut World)) -> bool {
        for _ in 0..ENDLESS {
            each(self);
            if (0..self.flows.len()).all(|flow| self.is_whole(flow)) {
                return true;
            }
            if !self.step(Time::MAX) {
                return false;
            }
        }
        false
    }

    /// Runs until `done`, on links as they are; `false` if nothing happens any more or that takes too long.
    pub fn run_until(&mut self, done: impl Fn(&World) -> bool) -> bool {
        for _ in 0..ENDLESS {
            if done(self) {
                return true;
            }
            if !self.step(Time::MAX) {
                return false;
            }
        }
        false
    }

    /// What must hold at any time.
    ///
    /// # Panics
    /// If it does not.
    pub fn check(&self) {
        if self.is_down {
            return;
        }
        self.gateway.check();
        let (most_flows, most_bytes) = self.bounds();
        let held = self.gateway.allocated() as u64;
        assert!(held <= most_bytes, "{held} bytes held, of {most_bytes}");
        let known = self.gateway.flows().count();
        assert!(known <= most_flows, "{known} flows in a table of {most_flows}");
        for flow in 0..self.flows.len() {
            self.check_custody(flow);
            (0..2).for_each(|end| self.check_timers(flow, end));
        }
    }

    /// An end that waits for acknowledgments does not wait for ever.
    fn check_timers(&self, flow: usize, end: usize) {
        let open = self.connection(flow, end).filter(|connection| connection.state().is_synchronized());
        if let Some(sender) = open.map(Connection::sender) {
            let waits = !sender.scoreboard().is_empty();
            assert!(
                !waits || sender.poll_timeout().is_some(),
                "at {} end {end} of flow {flow} waits for an acknowledgment, and for no time",
                self.now
            );
        }
    }

    /// How many flows the gateway may know, and how many bytes it may hold: as configured, or as many as it had or inherited when
    /// it was configured.
    fn bounds(&self) -> (usize, u64) {
        let (flows, bytes) = self.had;
        // What it had leaves in segments, and what is noted of each is memory, too.
        let noted = bytes / 16;
        (flows.max(self.config.max_flows), (bytes + noted).max(self.config.memory.0))
    }

    /// Nothing is acknowledged to its sender that is neither held nor delivered.
    fn check_custody(&self, flow: usize) {
        let legs = self.known(flow).and_then(|info| info.legs);
        for end in 0..2 {
            let (Some(near), Some(far)) = (self.connection(flow, end), self.connection(flow, 1 - end)) else {
                continue;
            };
            let opened = [near, far].iter().all(|end| end.state().is_synchronized());
            // An end that failed has thrown away what it had.
            let failed = self.flows[flow].apps.iter().any(|app| app.failure().is_some());
            if !opened || failed || self.flows[flow].was_cut {
                continue;
            }
            // Offset 0 is the SYN's, and the FIN has one, too.
            let acknowledged = near.sender().una();
            let delivered = far.receiver().next();
            let here = legs.as_ref().map_or(0, |legs| 2 + legs[end].delivered + legs[end].buffered);
            assert!(
                acknowledged <= delivered.max(here),
                "at {} end {end} of flow {flow} was acknowledged {acknowledged}, delivered are {delivered}, and up to {here} it is held",
                self.now
            );
        }
    }

    /// Everything there is to know, for the message of a test that failed.
    pub fn describe(&self) -> String {
        let mut text = format!("at {}, gateway due {:?}\n", self.now, self.gateway.poll_timeout());
        for (number, flow) in self.flows.iter().enumerate() {
            text += &format!("flow {number}, {}\n", flow.key);
            for (end, app) in flow.apps.iter().enumerate() {
                let state = self.connection(number, end).map(Connection::state);
                text += &format!(
                    "  end {end}: wrote {} of {}, read {}, {state:?}, heard {:?}\n",
                    app.written, app.total, app.read, app.events
                );
            }
        }
        self.gateway.flows().for_each(|info| text += &format!("{info}\n"));
        text
    }
}
