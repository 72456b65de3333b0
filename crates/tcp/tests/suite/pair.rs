//! Two hosts in virtual time, and a link between them that loses, delays, reorders and duplicates
//! by a seed.
use shorthaul_tcp::{Addresses, ConnectionConfig, Event, Host, HostConfig, State};
use shorthaul_testkit::{App, Chance};
use shorthaul_types::{Deadline, PortId, Seed, Time};
use shorthaul_wire::{Machine, Packet, TxBatch};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

pub const PORT: u16 = 80;

/// What the link does to packets; probabilities per mille.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    pub delay: Duration,
    /// Between two packets of one direction, at least: the rate, without bound on the queue.
    pub gap: Duration,
    pub loss: u64,
    pub reorder: u64,
    pub duplicate: u64,
    /// How much later than others a reordered packet comes, at most.
    pub lag: Duration,
}

impl Default for Link {
    fn default() -> Self {
        let delay = Duration::from_millis(10);
        Link { delay, gap: Duration::ZERO, loss: 0, reorder: 0, duplicate: 0, lag: Duration::from_millis(15) }
    }
}

pub struct Pair {
    pub now: Time,
    pub hosts: [Host; 2],
    pub apps: [App; 2],
    pub link: Link,
    pub chance: Chance,
    /// Packets that were sent, by side.
    pub sent: [u64; 2],
    /// Every packet that left, with its time, if wanted.
    pub trace: Option<Vec<(Time, usize, Packet)>>,
    /// The test is the application.
    pub manual: bool,
    /// Check the senders' books after each step.
    pub audit: bool,
    wire: BTreeMap<(Time, u64), (usize, Packet)>,
    /// When each direction is free again.
    free_at: [Time; 2],
    count: u64,
}

pub fn address(side: usize) -> IpAddr {
    IpAddr::from([10, 0, 0, side as u8 + 1])
}

impl Pair {
    pub fn new(seed: u64, link: Link, totals: [u64; 2]) -> Pair {
        let host = |side: usize| Host::new(HostConfig::new(address(side), Seed(seed).nth(side as u64)));
        Pair {
            now: Time::from_secs(1),
            hosts: [host(0), host(1)],
            apps: [App::new([0, 1], totals[0]), App::new([1, 0], totals[1])],
            link,
            chance: Chance(seed),
            sent: [0; 2],
            trace: None,
            manual: false,
            audit: false,
            wire: BTreeMap::new(),
            free_at: [Time::ZERO; 2],
            count: 0,
        }
    }

    /// Side 0 opens a connection to side 1.
    pub fn open(&mut self, client: ConnectionConfig, server: ConnectionConfig) {
        self.hosts[1].listen(PORT, server);
        let path =
            Addresses { local: SocketAddr::new(address(0), 0), remote: SocketAddr::new(address(1), PORT) };
        let id = self.hosts[0].connect(self.now, path, client).unwrap();
        self.apps[0].id = Some(id);
        self.settle();
    }

    fn send(&mut self, from: usize, packet: Packet) {
        self.sent[from] += 1;
        if let Some(trace) = &mut self.trace {
            trace.push((self.now, from, packet.clone()));
        }
        if self.chance.happens(self.link.loss) {
            return;
        }
        let copies = if self.chance.happens(self.link.duplicate) { 2 } else { 1 };
        for _ in 0..copies {
            let leaves = self.now.max(self.free_at[from]);
            self.free_at[from] = leaves + self.link.gap;
            let mut at = leaves + self.link.delay;
            if self.chance.happens(self.link.reorder) {
                at += Duration::from_nanos(self.chance.below(self.link.lag.as_nanos() as u64));
            }
            self.count += 1;
            self.wire.insert((at, self.count), (1 - from, packet.clone()));
        }
    }

    /// What the application does whenever it can; says whether it heard of anything.
    fn run_app(&mut self, side: usize) -> bool {
        let host = &mut self.hosts[side];
        let app = &mut self.apps[side];
        if app.id.is_none() {
            app.id = host.poll_accept();
        }
        let mut heard = false;
        while let Some((id, event)) = host.poll_event() {
            heard = true;
            if Some(id) == app.id {
                app.hear(host, event);
            }
        }
        app.act(self.now, host);
        heard
    }

    /// Lets both ends do all that they can at this time.
    pub fn settle(&mut self) {
        for round in 0.. {
            assert!(round < 10_000, "the ends never come to rest at {}", self.now);
            let mut batches: [TxBatch; 2] = Default::default();
            let mut more = false;
            for (side, batch) in batches.iter_mut().enumerate() {
                more |= !self.manual && self.run_app(side);
                more |= self.hosts[side].poll_transmit(self.now, batch);
            }
            let quiet = batches.iter().all(Vec::is_empty);
            for (side, batch) in batches.into_iter().enumerate() {
                for (_, packet) in batch {
                    self.send(side, packet);
                }
            }
            if quiet && !more {
                return;
            }
        }
    }

    /// When something happens next.
    fn next_time(&self) -> Option<Time> {
        let timers = self.hosts.iter().filter_map(|host| host.poll_timeout().map(|Deadline { at, .. }| at));
        let arrival = self.wire.first_key_value().map(|((at, _), _)| *at);
        timers.chain(arrival).chain(self.reader_time()).min()
    }

    /// When a slow reader reads on.
    fn reader_time(&self) -> Option<Time> {
        let waits = |side: usize| self.apps[side].leaves_unread(&self.hosts[side]);
        (waits(0) || waits(1)).then(|| self.now + Duration::from_millis(1))
    }

    /// Goes on to the next event; `false` if there is none.
    pub fn step(&mut self) -> bool {
        let Some(next) = self.next_time() else { return false };
        self.now = self.now.max(next);
        while let Some(entry) = self.wire.first_entry() {
            if entry.key().0 > self.now {
                break;
            }
            let (side, packet) = entry.remove();
            self.hosts[side].handle_packet(self.now, PortId(0), packet);
        }
        for host in &mut self.hosts {
            host.handle_timeout(self.now);
        }
        self.settle();
        if self.audit {
            self.check();
        }
        true
    }

    /// What must hold at any time.
    fn check(&self) {
        for (side, host) in self.hosts.iter().enumerate() {
            for (_, connection) in host.connections() {
                let sender = connection.sender();
                assert!(sender.scoreboard().audit(), "side {side}: the scoreboard's sums are wrong");
                assert!(sender.una() <= sender.nxt(), "side {side}: SND.UNA passed SND.NXT");
                let window = sender.control().window();
                assert!(window >= 1, "side {side}: a window of {window} bytes");
            }
        }
    }

    /// Runs until `done` or `limit`; says whether it was done.
    pub fn run_until(&mut self, limit: Duration, done: impl Fn(&Pair) -> bool) -> bool {
        let end = self.now + limit;
        for _ in 0..3_000_000 {
            if done(self) {
                return true;
            }
            if self.next_time().is_none_or(|at| at > end) {
                self.now = self.now.max(end);
                return done(self);
            }
            self.step();
        }
        panic!("too many events until {}: somebody never comes to rest", self.now);
    }

    pub fn state(&self, side: usize) -> State {
        let connection = self.apps[side].id.and_then(|id| self.hosts[side].connection(id));
        connection.map_or(State::Closed, |connection| connection.state())
    }

    /// Everything arrived, and both ends know that the connection is over.
    pub fn is_done(&self) -> bool {
        self.apps[0].read == self.apps[1].total
            && self.apps[1].read == self.apps[0].total
            && self.apps.iter().all(|app| app.events.contains(&Event::Closed))
    }
}
