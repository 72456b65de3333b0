//! What must hold for an endpoint, whatever its peer and the network send and whatever its owner does:
//!
//! * the owner reads what the peer sent, in its place in the stream, and the peer gets what the owner
//!   wrote;
//! * nothing is acknowledged or reported that was not sent, no window is taken back, and no echo is
//!   made up;
//! * no more is sent than the peer offered to take, and no segment is larger than it takes;
//! * the sender's books are right: what is in flight is the sum of its records, and the window has
//!   room for a segment;
//! * memory stays within its bounds;
//! * nothing panics, no poll goes on for ever, and no deadline remains in the past;
//! * a connection fails only for a reason that there was;
//! * once the peer behaves, all arrives, and the connection ends in CLOSED and is forgotten.

#[path = "../contents.rs"]
mod contents;
mod heal;
mod peer;
mod script;
#[path = "../shape.rs"]
mod shape;

use contents::LONGEST_STREAM;
use peer::{Peer, Terms};
use script::Step;
use shape::{Place, Script, Shape, Stamp};
use shorthaul_tcp::{
    Addresses, Connection, ConnectionConfig, ConnectionId, Failure, Host, HostConfig, KeepAlive,
    SenderProfile, Starting, State,
};
use shorthaul_testkit::packets;
use shorthaul_types::{Bytes, FlowKey, PortId, Seed, SeqNum, SeqSpace, Time};
use shorthaul_wire::{
    Chunk, IcmpError, IcmpErrorKind, IpHeader, Machine, Packet, Payload, PayloadList, RateOption, SackBlock,
    TcpFlags, TcpHeader, TcpOptions, TcpSegment, Timestamps, Transport, TxBatch, UnknownOptions,
};
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

const OURS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const THEIRS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const PORTS: [u16; 2] = [80, 40_000];
/// What the peer offers while it opens.
const FIRST_WINDOW: u16 = 20_000;
/// The largest payload that a driver hands over.
const LARGEST_PAYLOAD: u64 = 65_536;

/// One input of the fuzzer.
pub fn run(input: &[u8]) {
    let mut script = Script::new(input);
    let Some(mut world) = World::open(&mut script) else { return };
    while let Some(step) = script.step() {
        world.play(&step);
        world.played.push(step);
        world.check_books();
    }
    if world.opened { world.heal() } else { world.leave() }
}

struct World {
    now: Time,
    host: Host,
    /// None before the peer has come.
    id: Option<ConnectionId>,
    config: ConnectionConfig,
    peer: Peer,
    /// The handshake was done as it should be: what goes over the wire can be judged.
    opened: bool,
    /// What the owner has written and read, in bytes, and done.
    written: u64,
    read: u64,
    closed: bool,
    aborted: bool,
    released: bool,
    /// What the owner was told.
    failure: Option<Failure>,
    heard_end: bool,
    /// The network complained of an unreachable peer.
    unreachable: bool,
    /// What the endpoint sends is lost.
    deaf: bool,
    /// The steps so far, to be told if something does not hold.
    played: Vec<Step>,
}

impl World {
    /// Reads the set-up and opens the connection; `None` if the script is too short.
    fn open(script: &mut Script) -> Option<World> {
        let (profile, terms, sizes, times) = (script.byte()?, script.byte()?, script.byte()?, script.byte()?);
        let isn = SeqNum(script.isn()?);
        let names: Vec<&str> = SenderProfile::names().collect();
        let named = SenderProfile::named(names[usize::from(profile) % names.len()]).expect("a listed name");
        // What no row of the registry has, by what is left of the byte.
        let rest = usize::from(profile) / names.len();
        let profile = SenderProfile {
            undo: named.undo && rest % 3 != 1,
            persist_on_shrink: rest % 3 == 2,
            rttm: rest % 4 == 3,
            start: Starting::ALL[rest % Starting::ALL.len()],
            ..named
        };
        let size = |bits: u8| Bytes([4_000, 60_000, 300_000, 1 << 20][usize::from(bits & 3)]);
        let config = ConnectionConfig {
            profile,
            send_buffer: size(sizes),
            receive_buffer: size(sizes >> 2),
            autotuning: sizes & 16 == 0,
            super_segments: sizes & 32 != 0,
            mss: [1_460, 536][usize::from(sizes >> 6 & 1)],
            keep_alive: (times & 3 == 0).then_some(KeepAlive {
                idle: Duration::from_secs(10),
                interval: Duration::from_secs(1),
                probes: 3,
            }),
            user_timeout: (times & 12 == 0).then_some(Duration::from_secs(30)),
            time_wait: Duration::from_secs(1),
            syn_retries: 3,
            ..ConnectionConfig::default()
        };
        let (active, unopened) = (times & 16 == 0, times & 0xe0 == 0xe0);
        let now = Time::from_secs(1);
        let mut host = Host::new(HostConfig::new(OURS.into(), Seed(u64::from(isn.0))));
        let ours = SocketAddr::new(OURS.into(), PORTS[0]);
        let theirs = SocketAddr::new(THEIRS.into(), PORTS[1]);
        let path = Addresses { local: ours, remote: theirs };
        let offer = TcpOptions {
            mss: Some([1_460, 536, 1_000, 64][usize::from(terms & 3)]),
            window_scale: (terms & 4 != 0).then_some([7, 0, 2, 14][usize::from(terms >> 3 & 3)]),
            sack_permitted: terms & 32 != 0,
            timestamps: (terms & 64 != 0).then_some(Timestamps { val: 1_000, ecr: 0 }),
            // Agreed on only by an endpoint that has it, too.
            unknown: if rest.is_multiple_of(2) {
                RateOption::Offered.to_options()
            } else {
                UnknownOptions::new()
            },
            ..TcpOptions::default()
        };
        let id = active.then(|| host.connect(now, path, config.clone()).expect("a free path"));
        if !active {
            host.listen(PORTS[0], config.clone());
        }
        let mut world = World {
            now,
            host,
            id,
            config,
            peer: Peer::new(isn, 1_000),
            opened: false,
            written: 0,
            read: 0,
            closed: false,
            aborted: false,
            released: false,
            failure: None,
            heard_end: false,
            unreachable: false,
            deaf: false,
            played: Vec::new(),
        };
        if !unopened {
            world.shake_hands(active, offer, terms & 128 != 0);
        }
        Some(world)
    }

    /// The handshake, as it should be.
    fn shake_hands(&mut self, active: bool, offer: TcpOptions, ecn: bool) {
        let mut header =
            TcpHeader { seq: self.peer.space.seq(0), window: FIRST_WINDOW, ..TcpHeader::default() };
        let own = if active {
            let syn = self.poll().pop().expect("a SYN");
            let syn = syn.as_tcp().expect("a SYN").header.clone();
            self.peer.theirs = SeqSpace::new(syn.seq);
            header.flags =
                TcpFlags::SYN | TcpFlags::ACK | if ecn { TcpFlags::ECE } else { TcpFlags::default() };
            header.ack = syn.seq + 1;
            header.options = offer.clone();
            if let (Some(stamp), Some(theirs)) = (&mut header.options.timestamps, syn.options.timestamps) {
                stamp.ecr = theirs.val;
            }
            syn
        } else {
            header.flags = TcpFlags::SYN;
            if ecn {
                header.flags |= TcpFlags::ECE | TcpFlags::CWR;
            }
            header.options = offer.clone();
            self.deliver(header.clone(), PayloadList::new(), 0);
            let answer = self.poll().pop().expect("a SYN-ACK");
            let answer = answer.as_tcp().expect("a SYN-ACK").header.clone();
            self.peer.theirs = SeqSpace::new(answer.seq);
            header.flags = TcpFlags::ACK;
            header.seq = self.peer.space.seq(1);
            header.ack = answer.seq + 1;
            header.options = TcpOptions::default();
            answer
        };
        let both = |theirs: bool, ours: bool| theirs && ours;
        let scaled = offer.window_scale.filter(|_| own.options.window_scale.is_some());
        self.peer.terms = Terms {
            timestamps: both(offer.timestamps.is_some(), own.options.timestamps.is_some()),
            sack: both(offer.sack_permitted, own.options.sack_permitted),
            shifts: scaled.map(|shift| [shift, own.options.window_scale.unwrap_or(0)]),
            mss: usize::from(offer.mss.expect("the peer says its size")),
        };
        self.peer.their_clock = own.options.timestamps.map(|stamp| stamp.val);
        self.peer.edge = 1 + u64::from(own.window);
        self.peer.advertised = 1 + u64::from(FIRST_WINDOW);
        self.now += Duration::from_millis(20);
        if !active {
            let shift = self.peer.terms.shifts.map_or(0, |[shift, _]| shift);
            header.window = FIRST_WINDOW >> shift;
            header.options.timestamps = self.stamp(Stamp::Current);
        }
        self.deliver(header, PayloadList::new(), 0);
        if !active {
            self.host.stop_listening(PORTS[0]);
            self.id = Some(self.host.poll_accept().expect("the connection is complete"));
        }
        self.opened = true;
        self.flush();
        let state = self.connection().map(|connection| connection.state());
        assert_eq!(state, Some(State::Established));
    }

    fn connection(&self) -> Option<&Connection> {
        self.host.connection(self.id?)
    }

    fn connection_mut(&mut self) -> Option<&mut Connection> {
        self.host.connection_mut(self.id?)
    }

    fn release(&mut self) {
        if let Some(id) = self.id {
            self.host.release(self.now, id);
        }
        (self.released, self.closed) = (true, true);
    }

    fn play(&mut self, step: &Step) {
        match step {
            Step::Segment(shape) => self.send_shape(shape),
            Step::Send(len) => {
                let (edge, next) = (self.peer.edge, self.peer.contents.next);
                let room = edge.min(LONGEST_STREAM).saturating_sub(next).min(u64::from(*len)).min(60_000);
                self.peer_sends(next, room, TcpFlags::ACK);
            }
            Step::Acknowledge => self.peer_sends(self.peer.furthest, 0, TcpFlags::ACK),
            Step::PeerCloses => self.peer_sends(self.peer.contents.next, 0, TcpFlags::ACK | TcpFlags::FIN),
            Step::Deafen(deaf) => self.deaf = *deaf,
            Step::TooBig(place, mtu) => {
                self.complain(*place, IcmpErrorKind::PacketTooBig { mtu: u32::from(*mtu) });
            }
            Step::Unreachable(place, code) => {
                self.unreachable = true;
                self.complain(*place, IcmpErrorKind::Unreachable { code: *code });
            }
            Step::Write(len) => {
                let from = self.written + 1;
                let bytes: Vec<u8> = (from..from + u64::from(*len)).map(Peer::their_byte).collect();
                let taken = self.connection_mut().map_or(0, |it| it.write(Payload::copy_of(&bytes)));
                self.written += taken as u64;
            }
            Step::Read(len) => self.read(usize::from(*len)),
            Step::Close => {
                let now = self.now;
                if let Some(connection) = self.connection_mut() {
                    connection.close(now);
                    self.closed = true;
                }
            }
            Step::Abort => {
                let now = self.now;
                if let Some(connection) = self.connection_mut() {
                    connection.abort(now);
                    self.aborted = true;
                }
            }
            Step::Release => self.release(),
            Step::Wait(time) => self.wait_until(self.now + *time),
            Step::Sleep => {
                self.flush();
                let at = self.host.poll_timeout().map_or(self.now, |deadline| deadline.at);
                self.wait_until(at.max(self.now));
            }
            Step::Flush => self.flush(),
        }
    }

    fn read(&mut self, most: usize) {
        let (now, mut left) = (self.now, most);
        while left > 0 && !self.released {
            let Some(connection) = self.connection_mut() else { return };
            let list = connection.read(now, left);
            if list.is_empty() {
                return;
            }
            left -= list.len();
            if self.opened {
                self.peer.check_read(self.read + 1, &list);
            }
            self.read += list.len() as u64;
        }
    }

    fn wait_until(&mut self, at: Time) {
        self.flush();
        self.now = at;
        // A driver that comes late comes once; how often it must come again at one time is bounded.
        for _ in 0..8 {
            self.host.handle_timeout(self.now);
            self.flush();
            if self.host.poll_timeout().is_none_or(|deadline| deadline.at > self.now) {
                return;
            }
        }
        panic!("at {} still due: {:?}", self.now, self.host.poll_timeout());
    }

    fn stamp(&mut self, stamp: Stamp) -> Option<Timestamps> {
        let peer = &mut self.peer;
        let theirs = peer.their_clock.filter(|_| peer.terms.timestamps || !self.opened)?;
        let (val, ecr) = match stamp {
            Stamp::Absent => return None,
            Stamp::Current => (peer.clock, theirs),
            Stamp::Later => (peer.clock.wrapping_add(10), theirs),
            Stamp::Old => (peer.clock.wrapping_sub(5_000), 0),
            // And an echo of what was not sent yet.
            Stamp::Ahead => (peer.clock.wrapping_add(1 << 20), theirs.wrapping_add(1 << 20)),
        };
        if matches!(stamp, Stamp::Later | Stamp::Ahead) {
            peer.clock = val;
        }
        peer.stamps.insert(val);
        Some(Timestamps { val, ecr })
    }

    /// The peer sends what it has, and acknowledges all that it was sent.
    fn peer_sends(&mut self, offset: u64, len: u64, flags: TcpFlags) {
        let shift = self.peer.terms.shifts.map_or(0, |[shift, _]| shift);
        let claimed = self.connection().map_or(0, |connection| connection.sender().una());
        self.peer.on_arrived(self.peer.got, claimed);
        let header = TcpHeader {
            seq: self.peer.space.seq(offset),
            ack: self.peer.theirs.seq(self.peer.got),
            flags,
            window: 60_000 >> shift,
            options: TcpOptions { timestamps: self.stamp(Stamp::Current), ..TcpOptions::default() },
            ..TcpHeader::default()
        };
        self.send(header, offset, len as usize, &Shape::plain());
    }

    fn send_shape(&mut self, shape: &Shape) {
        let timestamps = self.stamp(shape.timestamps);
        let peer = &self.peer;
        let base = match shape.seq.landmark {
            0 | 1 => peer.contents.next,
            2 => peer.edge,
            _ => peer.acknowledged,
        };
        let Some(offset) = base.checked_add_signed(shape.seq.delta) else { return };
        if (LONGEST_STREAM - LARGEST_PAYLOAD..LONGEST_STREAM * 2).contains(&offset) {
            return; // would have to be remembered
        }
        let una = self.connection().map_or(1, |connection| connection.sender().una());
        let place = |place: &Place| {
            let base = if place.landmark & 2 == 0 { peer.seen } else { una };
            base.wrapping_add_signed(place.delta)
        };
        let mut header = TcpHeader {
            seq: peer.space.seq(offset),
            ack: peer.theirs.seq(place(&shape.ack)),
            flags: TcpFlags(shape.flags),
            window: shape.window,
            urgent: shape.urgent,
            ..TcpHeader::default()
        };
        header.options.timestamps = timestamps;
        if shape.unknown_options {
            header.options.unknown.extend([253, 4, 1, 2]);
            // A report of a rate from none to 34 Gbit/s.
            let rate = RateOption::BytesPerSecond(u32::from(shape.window).pow(2));
            header.options.unknown.extend(rate.to_options());
        }
        for (at, len) in &shape.sack {
            let left = place(at);
            let right = left.wrapping_add(u64::from(*len));
            header
                .options
                .sack
                .push(SackBlock { left: peer.theirs.seq(left), right: peer.theirs.seq(right) });
        }
        self.send(header, offset, shape.len, shape);
    }

    /// Hands a segment to the host, after noting what the peer says with it.
    fn send(&mut self, header: TcpHeader, offset: u64, len: usize, shape: &Shape) {
        let peer = &mut self.peer;
        if offset > peer.edge.max(peer.furthest) && offset - peer.edge <= self.config.receive_buffer.0 + 1 {
            return; // perhaps within a window that is about to be offered: who knows what it counts for
        }
        let bytes = peer.contents.make(offset, len, shape.variant);
        peer.on_sent(offset, &bytes, header.flags, shape.variant);
        if header.flags.contains(TcpFlags::ACK)
            && let Some(ack) = peer.theirs.offset(header.ack, peer.seen)
        {
            let shift = peer.terms.shifts.map_or(0, |[shift, _]| shift);
            peer.on_acknowledges(ack, ack + (u64::from(header.window) << shift));
        }
        let mut chunk = Chunk::new(if shape.roomy { len.max(2_048) } else { len });
        chunk.append(&bytes);
        let payload = PayloadList::from(Payload::new(Arc::new(chunk), 0..len));
        self.deliver(header, payload, shape.ecn);
    }

    fn deliver(&mut self, mut header: TcpHeader, payload: PayloadList, ecn: u8) {
        (header.src_port, header.dst_port) = (PORTS[1], PORTS[0]);
        let mut ip = ip_header();
        ip.set_ecn(ecn);
        let gso_size = (payload.len() > 1_460).then_some(NonZeroU16::new(1_460)).flatten();
        let packet = Packet::tcp(ip, TcpSegment { header, payload, gso_size });
        self.host.handle_packet(self.now, PortId(0), packet);
    }

    fn complain(&mut self, place: Place, kind: IcmpErrorKind) {
        let base = if place.landmark & 1 == 0 { self.peer.got } else { self.peer.seen };
        let flow = FlowKey {
            src: SocketAddr::new(OURS.into(), PORTS[0]),
            dst: SocketAddr::new(THEIRS.into(), PORTS[1]),
        };
        let seq = self.peer.theirs.seq(base.wrapping_add_signed(place.delta));
        let error = IcmpError { kind, flow, seq, message: Payload::copy_of(b"quoted") };
        let packet = Packet { ip: ip_header(), transport: Transport::IcmpError(error), original: None };
        self.host.handle_packet(self.now, PortId(0), packet);
    }

    /// Everything that is to leave now.
    fn poll(&mut self) -> Vec<Packet> {
        // Every byte held leaves at most three times at one time: new, as a probe, and again.
        let bound = 1_000 + 3 * self.config.send_buffer.0 as usize;
        let mut out = TxBatch::new();
        let mut polls = 0;
        while self.host.poll_transmit(self.now, &mut out) {
            polls += 1;
            assert!(polls < bound && out.len() < bound, "polling goes on for ever");
        }
        out.into_iter().map(|(_, packet)| packet).collect()
    }

    /// Works off what is due now, as a driver does, and checks what comes out.
    fn flush(&mut self) {
        for packet in self.poll() {
            if self.opened {
                self.check_packet(&packet);
            } else if let Some(segment) = packet.as_tcp()
                && segment.header.flags.contains(TcpFlags::SYN)
            {
                self.peer.theirs = SeqSpace::new(segment.header.seq);
                self.peer.their_clock = segment.header.options.timestamps.map(|stamp| stamp.val);
            }
        }
        self.hear();
        if let Some(failure) = self.failure.filter(|_| self.opened) {
            self.check_failure(failure);
        }
        self.check_books();
    }

    fn check_packet(&mut self, packet: &Packet) {
        let segment = packet.as_tcp().expect("a TCP segment");
        if segment.header.flags.contains(TcpFlags::RST) {
            assert!(!self.is_alive(), "a reset from a connection that goes on");
            return;
        }
        assert!(!segment.header.flags.contains(TcpFlags::SYN), "a SYN after the handshake");
        let len = segment.payload.len();
        let size = segment.gso_size.map_or(len, |size| usize::from(size.get()));
        assert!(size <= self.peer.terms.mss, "a segment of {size} bytes");
        assert!(self.config.super_segments || segment.gso_size.is_none(), "an uncut super-segment");
        assert!(len <= 65_535 - 60, "a packet of {len} bytes");
        self.peer.on_segment(segment, self.written, self.closed, self.deaf);
    }

    fn check_failure(&self, failure: Failure) {
        let reason = match failure {
            Failure::Reset => self.peer.sent_reset,
            Failure::Aborted => self.aborted || self.released,
            Failure::Unreachable => self.unreachable,
            Failure::UserTimeout => self.config.user_timeout.is_some(),
            Failure::KeepAlive => self.config.keep_alive.is_some(),
            Failure::TimedOut => true,
            Failure::Refused => false,
        };
        assert!(reason, "it failed without a reason: {failure}");
    }

    fn check_books(&self) {
        for (_, connection) in self.host.connections() {
            let sender = connection.sender();
            let board = sender.scoreboard();
            assert!(board.audit(), "the scoreboard's sums are wrong");
            assert!(sender.una() <= sender.nxt(), "SND.UNA passed SND.NXT");
            assert!(
                sender.in_flight() <= board.in_flight() && board.in_flight() <= sender.nxt() - sender.una()
            );
            let (window, mss) = (sender.control().window(), u64::from(sender.mss()));
            assert!(window >= mss, "a window of {window} bytes, with segments of {mss}");
            // A buffer is charged with twice its bytes at most, and with the packet that filled it. The
            // smallest is four units of the window scale.
            let (held, buffer) = (connection.allocated() as u64, self.config.receive_buffer.0.max(4 << 14));
            assert!(held <= 2 * buffer + LARGEST_PAYLOAD, "{held} bytes held, of a buffer of {buffer}");
            assert!(sender.queue().len() <= self.config.send_buffer.0);
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{:?}, {:?}", self.config, self.peer.terms);
            self.played.iter().for_each(|step| eprintln!("{step:?}"));
            eprintln!("then it was {}", self.now);
        }
    }
}

fn ip_header() -> IpHeader {
    packets::ip(THEIRS, OURS)
}
