//! Connections that are made of packets: of as many hosts as are asked for, and without a socket, whose memory a million would take.
//!
//! Both ends are here, behind two devices in the gateway's host. All that they know of a connection follows from its number: where it begins in
//! both streams, and that each echo moves both by as much.
use crate::error::{Result, TrialError, While};
use crate::packets::{ACK, Form, PSH, SYN, Segment, packet};
use shorthaul_lab::Host;
use shorthaul_os::netlink::{NextHop, Route, interface_index};
use shorthaul_os::poll::wait_readable;
use shorthaul_os::{BufferPool, Netlink, Tun};
use shorthaul_types::{Seed, SeqNum};
use shorthaul_wire::{Datagram, Offload, TcpFlags, TcpSegment, parse};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

/// The devices of the two sides.
pub(super) const DEVICES: [&str; 2] = ["near", "far"];
/// The clients' addresses, and the server's.
const CLIENTS: Ipv4Addr = Ipv4Addr::new(10, 64, 0, 0);
const SERVERS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);
const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(198, 18, 0, 1)), 80);
const FIRST_PORT: u32 = 1_024;
/// Ports of one host.
pub(super) const PORTS: u64 = 60_000;
/// Connections that something is done with at once: what is under way of them fits into a device's queue.
const AT_ONCE: usize = 128;
/// What is not there by then was lost, and is sent again.
const AGAIN: Duration = Duration::from_millis(500);
/// After so long without anything the gateway is gone.
const GONE: Duration = Duration::from_secs(30);
/// Packets that a device keeps.
const QUEUE: u32 = 10_000;
/// What an echo moves each way, in bytes.
const ECHO: u32 = 64;
/// What both ends offer: segments of 1460 bytes, SACK, windows in units of 128.
const OFFER: [u8; 20] = [2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 0, 0, 0, 0, 0, 1, 3, 3, 7];

/// Connections of hosts that there are not.
pub(crate) struct MadeConnections {
    devices: [Tun; 2],
    pool: BufferPool,
    hosts: u32,
    count: u32,
    seed: Seed,
    began: Instant,
    echoes: u32,
}

/// What is done with each connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Act {
    Open,
    Echo,
}

impl MadeConnections {
    /// The devices of the ends, in the host of the gateway.
    ///
    /// # Errors
    /// They cannot be made.
    pub(crate) fn new(gateway: &Host, count: u64, hosts: u64) -> Result<Self> {
        let make = || -> io::Result<[Tun; 2]> {
            let netlink = Netlink::open()?;
            let device = |name: &str, network: ipnet::Ipv4Net| -> io::Result<Tun> {
                let device = Tun::create(name)?;
                let index = interface_index(name)?;
                netlink.configure(index, 1_500, QUEUE)?;
                netlink.set_up(index)?;
                netlink.add_route(&Route::new(network.into(), NextHop::Interface(index)))?;
                Ok(device)
            };
            Ok([
                device(DEVICES[0], ipnet::Ipv4Net::new_assert(CLIENTS, 10))?,
                device(DEVICES[1], ipnet::Ipv4Net::new_assert(SERVERS, 16))?,
            ])
        };
        Ok(MadeConnections {
            devices: gateway.run(make).doing("making the devices of the ends")?,
            pool: BufferPool::new(),
            hosts: hosts as u32,
            count: count as u32,
            seed: Seed(1),
            began: Instant::now(),
            echoes: 0,
        })
    }

    /// Opens all.
    ///
    /// # Errors
    /// One is not opened.
    pub(crate) fn open(&mut self) -> Result<()> {
        self.each(Act::Open)
    }

    /// Has each say something once, and be answered.
    ///
    /// # Errors
    /// One is not answered.
    pub(crate) fn echo(&mut self) -> Result<()> {
        self.each(Act::Echo)?;
        self.echoes += 1;
        Ok(())
    }

    fn client(&self, number: u32) -> SocketAddr {
        let address = Ipv4Addr::from_bits(CLIENTS.to_bits() + 1 + number % self.hosts);
        SocketAddr::new(address.into(), (FIRST_PORT + number / self.hosts) as u16)
    }

    fn number(&self, client: SocketAddr) -> Option<u32> {
        let IpAddr::V4(address) = client.ip() else { return None };
        let host = address.to_bits().checked_sub(CLIENTS.to_bits() + 1).filter(|host| *host < self.hosts)?;
        let number = u32::from(client.port()).checked_sub(FIRST_PORT)? * self.hosts + host;
        Some(number).filter(|number| *number < self.count)
    }

    /// Where an end begins.
    fn isn(&self, number: u32, end: u64) -> SeqNum {
        SeqNum(self.seed.nth(u64::from(number) << 1 | end).0 as u32)
    }

    fn put(&self, end: usize, number: u32, (seq, ack): (SeqNum, SeqNum), flags: u8, echoed: u32) {
        let ends = [self.client(number), SERVER];
        let (from, to) = (ends[end], ends[1 - end]);
        let clock = (self.began.elapsed().as_millis() as u32).wrapping_add(1_000);
        let mut options = OFFER;
        options[8..12].copy_from_slice(&clock.to_be_bytes());
        options[12..16].copy_from_slice(&echoed.to_be_bytes());
        // Behind the handshake: two that are nothing, and the timestamps.
        let later = [&[1, 1], &options[6..16]].concat();
        let options: &[u8] = if flags & SYN > 0 { &options } else { &later };
        let payload: &[u8] = if flags & PSH > 0 { &[7; ECHO as usize] } else { &[] };
        let ports = [from.port(), to.port()];
        let segment = Segment { ports, seq: seq.0, ack: ack.0, flags, options, payload };
        let bytes = packet(from.ip(), to.ip(), &segment, Form::Plain);
        // What a device does not take is sent again later.
        let _ = self.devices[end].send(&bytes, &[], &Offload::default());
    }

    /// What both ends have sent before this round of echoes.
    fn said(&self) -> u32 {
        1 + ECHO * self.echoes
    }

    fn begin(&self, act: Act, number: u32) {
        let (own, other) = (self.isn(number, 0), self.isn(number, 1));
        match act {
            Act::Open => self.put(0, number, (own, SeqNum(0)), SYN, 0),
            // What it echoes is old, as after a silence.
            Act::Echo => self.put(0, number, (own + self.said(), other + self.said()), ACK | PSH, 1_000),
        }
    }

    fn each(&mut self, act: Act) -> Result<()> {
        let mut under_way: HashMap<u32, Instant> = HashMap::new();
        let (mut next, mut heard) = (0, Instant::now());
        while next < self.count || !under_way.is_empty() {
            while under_way.len() < AT_ONCE && next < self.count {
                under_way.insert(next, Instant::now());
                self.begin(act, next);
                next += 1;
            }
            let descriptors = [self.devices[0].as_fd(), self.devices[1].as_fd()];
            let readable =
                wait_readable(descriptors, Some(Duration::from_millis(20))).doing("waiting for packets")?;
            for (end, is_readable) in readable.into_iter().enumerate() {
                while is_readable && self.take(act, end, &mut under_way)? {
                    heard = Instant::now();
                }
            }
            if heard.elapsed() > GONE {
                let why = format!("{} connections are not answered", under_way.len());
                return Err(TrialError::Failed(why));
            }
            if readable == [false; 2] {
                for (number, since) in &mut under_way {
                    if since.elapsed() > AGAIN {
                        *since = Instant::now();
                        self.begin(act, *number);
                    }
                }
            }
        }
        Ok(())
    }

    /// A packet came to one end; whether there was one.
    fn take(&mut self, act: Act, end: usize, under_way: &mut HashMap<u32, Instant>) -> Result<bool> {
        let device = &self.devices[end];
        let filled = self.pool.fill(|chunk| device.receive(chunk)).doing("reading packets")?;
        let Some((bytes, offload)) = filled else { return Ok(false) };
        let Ok(packet) = parse(Datagram { bytes, offload }) else { return Ok(true) };
        let (Some(key), Some(segment)) = (packet.flow(), packet.as_tcp()) else { return Ok(true) };
        let client = if end == 0 { key.dst } else { key.src };
        let Some(number) = self.number(client) else { return Ok(true) };
        if self.answer(act, end, number, segment) {
            under_way.remove(&number);
        }
        Ok(true)
    }

    /// What an end makes of a segment. Whether that is all that was to be done with its connection.
    fn answer(&self, act: Act, end: usize, number: u32, segment: &TcpSegment) -> bool {
        let TcpSegment { header, payload, .. } = segment;
        let opens = header.flags.contains(TcpFlags::SYN);
        let echoed = header.options.timestamps.map_or(0, |timestamps| timestamps.val);
        let own = self.isn(number, end as u64);
        match (end, opens, payload.len() as u32) {
            (0, true, _) => {
                self.put(0, number, (own + 1, header.seq + 1), ACK, echoed);
                false
            }
            (_, true, _) => {
                self.put(1, number, (own, header.seq + 1), SYN | ACK, echoed);
                false
            }
            // The third segment of the handshake.
            (1, false, 0) => act == Act::Open,
            (1, false, bytes) => {
                let seq = own + header.seq.diff(self.isn(number, 0)) as u32;
                self.put(1, number, (seq, header.seq + bytes), ACK | PSH, echoed);
                false
            }
            (_, false, 0) => false,
            (_, false, bytes) => {
                self.put(0, number, (header.ack, header.seq + bytes), ACK, echoed);
                act == Act::Echo
            }
        }
    }
}
