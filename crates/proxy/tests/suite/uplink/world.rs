//! A phone behind a gateway, whose uplink is any link, and a server: all with the code that runs live.
use shorthaul_congestion::Algorithm;
use shorthaul_link::{Link, LinkConfig, Offered, QueueLimit, Rate};
use shorthaul_proxy::{AggregateConfig, Gateway, GatewayConfig, Policy, UplinkWindow};
use shorthaul_tcp::{Addresses, ConnectionConfig, ConnectionId, Event, Host, HostConfig, SenderProfile};
use shorthaul_types::{BitRate, Bytes, Deadline, PortId, Seed, Time};
use shorthaul_wire::{Machine, Packet, Payload, TcpFlags, TxBatch};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

pub const PHONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
pub const SERVER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
const PORT: u16 = 80;
/// From the phone to the gateway, back, and the same between gateway and server.
const UP: usize = 0;
const DOWN: usize = 1;
const TO_SERVER: usize = 2;
const FROM_SERVER: usize = 3;

/// A transfer from the phone to the server.
#[derive(Debug)]
pub struct Upload {
    id: ConnectionId,
    pub total: u64,
    written: u64,
    pub opened: Time,
    pub finished: Option<Time>,
}

pub struct World {
    pub now: Time,
    pub phone: Host,
    pub server: Host,
    pub gateway: Gateway,
    links: [Link<Packet>; 4],
    pub uploads: Vec<Upload>,
    /// What the phone was told, by its port: the shift of the server's windows, and the right edge.
    told: BTreeMap<u16, (u8, u32)>,
    /// Packets to the phone, by its port.
    pub to_phone: BTreeMap<u16, usize>,
    /// How long each packet of the phone waited, and when.
    pub waits: Vec<(Time, Duration)>,
    /// Bytes of payload that the phone's link brought, by time.
    pub brought: Vec<(Time, u64)>,
    /// Windows that were closed to the phone.
    pub closed: usize,
    limited: bool,
    config: ConnectionConfig,
    accepted: Vec<ConnectionId>,
}

pub fn mbit(rate: f64) -> BitRate {
    BitRate::from_bits_per_sec((rate * 1e6) as u64)
}

/// A link of this rate, a delay of half of `rtt` and a queue of 4 MB.
pub fn link(rate: Rate, rtt_ms: u64) -> LinkConfig {
    LinkConfig {
        rate,
        delay: Duration::from_micros(rtt_ms * 500),
        queue: QueueLimit::Bytes(4_000_000),
        ..LinkConfig::default()
    }
}

pub fn cubic() -> ConnectionConfig {
    ConnectionConfig::default()
}

pub fn bbr() -> ConnectionConfig {
    let profile = SenderProfile { congestion: Algorithm::Bbr, ..SenderProfile::default() };
    ConnectionConfig { profile, ..ConnectionConfig::default() }
}

impl World {
    /// The uplink is `up`, the downlink has its delay and 50 Mbit/s; 10 ms lie between gateway and server.
    pub fn new(up: LinkConfig, uplink: UplinkWindow, config: ConnectionConfig) -> World {
        let aggregate = AggregateConfig { uplink, ..AggregateConfig::default() };
        let gateway = Gateway::new(GatewayConfig::of(Policy {
            aggregate: Some(Arc::new(aggregate)),
            ..Policy::default()
        }));
        let down = LinkConfig { delay: up.delay, rate: Rate::Fixed(mbit(50.0)), ..LinkConfig::default() };
        let wan = LinkConfig { delay: Duration::from_millis(10), ..LinkConfig::default() };
        let links = [up, down, wan.clone(), wan];
        let mut server = Host::new(HostConfig::new(SERVER, Seed(2)));
        server.listen(PORT, config.clone());
        World {
            now: Time::ZERO,
            phone: Host::new(HostConfig::new(PHONE, Seed(1))),
            server,
            gateway,
            links: links.map(|config| Link::new(config, Seed(3))),
            uploads: Vec::new(),
            told: BTreeMap::new(),
            to_phone: BTreeMap::new(),
            waits: Vec::new(),
            brought: Vec::new(),
            closed: 0,
            limited: uplink != UplinkWindow::None,
            config,
            accepted: Vec::new(),
        }
    }

    /// The phone begins to upload `total` bytes.
    pub fn upload(&mut self, total: u64) {
        let path = Addresses { local: SocketAddr::new(PHONE, 0), remote: SocketAddr::new(SERVER, PORT) };
        let id = self.phone.connect(self.now, path, self.config.clone()).unwrap();
        self.uploads.push(Upload { id, total, written: 0, opened: self.now, finished: None });
        self.settle();
    }

    /// The phone has `bytes` more to send on an upload.
    pub fn more(&mut self, upload: usize, bytes: u64) {
        let upload = &mut self.uploads[upload];
        upload.total += bytes;
        upload.opened = self.now;
        upload.finished = None;
        self.settle();
    }

    /// The phone aborts an upload.
    pub fn abort(&mut self, upload: usize) {
        let connection = self.phone.connection_mut(self.uploads[upload].id).unwrap();
        connection.abort(self.now);
        self.settle();
    }

    /// Bytes that the phone's connections have in flight, as they see it.
    pub fn in_flight(&self) -> u64 {
        self.phone.connections().map(|(_, connection)| connection.sender().in_flight()).sum()
    }

    /// The retransmission timeouts of the phone.
    pub fn timeouts(&self) -> u64 {
        self.phone.connections().map(|(_, connection)| u64::from(connection.sender().stats().timeouts)).sum()
    }

    fn put(&mut self, link: usize, packet: Packet) {
        if link == UP && packet.as_tcp().is_some_and(|tcp| !tcp.payload.is_empty()) {
            self.waits.push((self.now, self.links[UP].queue_delay(self.now)));
        }
        if link == DOWN {
            self.check_edge(&packet);
        }
        let size = Bytes(packet.wire_len() as u64);
        let _: Offered<Packet> = self.links[link].push(self.now, size, packet);
    }

    /// The right edge of a window never moves left.
    fn check_edge(&mut self, packet: &Packet) {
        let tcp = packet.as_tcp().unwrap();
        let header = &tcp.header;
        if header.flags.contains(TcpFlags::RST) {
            return;
        }
        let syn = header.flags.contains(TcpFlags::SYN);
        let port = header.dst_port;
        *self.to_phone.entry(port).or_default() += 1;
        let shift = match self.told.get(&port) {
            Some((shift, _)) if !syn => *shift,
            _ => header.options.window_scale.unwrap_or(0),
        };
        let window = u32::from(header.window) << if syn { 0 } else { shift };
        let edge = header.ack.0.wrapping_add(window);
        if let Some((_, before)) = self.told.insert(port, (shift, edge)) {
            let moved = edge.wrapping_sub(before) as i32;
            assert!(!self.limited || moved >= 0, "at {} the edge of {port} moved by {moved}", self.now);
        }
        self.closed += usize::from(window == 0);
    }

    fn run_apps(&mut self) {
        while self.phone.poll_event().is_some() {}
        for upload in &mut self.uploads {
            let Some(connection) = self.phone.connection_mut(upload.id) else { continue };
            while upload.written < upload.total && connection.writable() > 0 {
                let part = (upload.total - upload.written).min(16_000) as usize;
                upload.written += connection.write(Payload::copy_of(&vec![7; part])) as u64;
            }
            let all = connection.sender().una() > upload.total;
            if all && upload.finished.is_none() {
                upload.finished = Some(self.now);
            }
        }
        while let Some(id) = self.server.poll_accept() {
            self.accepted.push(id);
        }
        while let Some((id, event)) = self.server.poll_event() {
            if event == Event::Readable
                && let Some(connection) = self.server.connection_mut(id)
            {
                connection.read(self.now, usize::MAX);
            }
        }
    }

    fn settle(&mut self) {
        for round in 0.. {
            assert!(round < 10_000, "somebody never comes to rest at {}", self.now);
            self.run_apps();
            let mut out: [TxBatch; 3] = Default::default();
            let mut more = self.phone.poll_transmit(self.now, &mut out[0]);
            more |= self.gateway.poll_transmit(self.now, &mut out[1]);
            more |= self.server.poll_transmit(self.now, &mut out[2]);
            self.gateway.save(&mut ());
            let quiet = out.iter().all(Vec::is_empty);
            let [phone, gateway, server] = out;
            phone.into_iter().for_each(|(_, packet)| self.put(UP, packet));
            for (port, packet) in gateway {
                self.put(if port == Gateway::ACCESS { DOWN } else { TO_SERVER }, packet);
            }
            server.into_iter().for_each(|(_, packet)| self.put(FROM_SERVER, packet));
            if quiet && !more {
                return;
            }
        }
    }

    fn next_time(&self) -> Option<Time> {
        let at = |deadline: Option<Deadline>| deadline.map(|deadline| deadline.at);
        let timers =
            [at(self.phone.poll_timeout()), at(self.gateway.poll_timeout()), at(self.server.poll_timeout())];
        let arrivals = self.links.iter().filter_map(Link::next_delivery);
        timers.into_iter().flatten().chain(arrivals).min()
    }

    /// Goes on until `end`, or until `done`.
    pub fn run_until(&mut self, end: Time, done: impl Fn(&World) -> bool) {
        while !done(self) {
            let Some(next) = self.next_time().filter(|next| *next <= end) else {
                self.now = end;
                return;
            };
            self.now = self.now.max(next);
            for link in 0..4 {
                while let Some((_, packet)) = self.links[link].pop(self.now) {
                    self.arrive(link, packet);
                }
            }
            self.phone.handle_timeout(self.now);
            self.gateway.handle_timeout(self.now);
            self.server.handle_timeout(self.now);
            self.settle();
        }
    }

    pub fn run(&mut self, seconds: f64) {
        self.run_until(self.now + Duration::from_secs_f64(seconds), |_| false);
    }

    fn arrive(&mut self, link: usize, packet: Packet) {
        match link {
            UP => {
                let bytes = packet.as_tcp().map_or(0, |tcp| tcp.payload.len() as u64);
                self.brought.push((self.now, bytes));
                self.gateway.handle_packet(self.now, Gateway::ACCESS, packet);
            }
            DOWN => self.phone.handle_packet(self.now, PortId(0), packet),
            TO_SERVER => self.server.handle_packet(self.now, PortId(0), packet),
            _ => self.gateway.handle_packet(self.now, Gateway::WAN, packet),
        }
    }

    /// The payload that came over the uplink from `from` to `to`, in seconds, as a part of what fits at `rate`.
    pub fn used(&self, from: f64, to: f64, rate: BitRate) -> f64 {
        let within = |at: Time| (from..to).contains(&at.as_secs_f64());
        let bytes: u64 = self.brought.iter().filter(|(at, _)| within(*at)).map(|(_, bytes)| bytes).sum();
        bytes as f64 * 8.0 / (rate.bits_per_sec() as f64 * (to - from)) * 1500.0 / 1448.0
    }

    /// 95 % of the packets of these seconds waited at most this many milliseconds.
    pub fn wait_p95(&self, from: f64, to: f64) -> f64 {
        let within = |at: Time| (from..to).contains(&at.as_secs_f64());
        let mut waits: Vec<Duration> =
            self.waits.iter().filter(|(at, _)| within(*at)).map(|(_, wait)| *wait).collect();
        waits.sort();
        waits.get(waits.len() * 95 / 100).map_or(0.0, |wait| wait.as_secs_f64() * 1e3)
    }
}
