//! Strangers, who send what no kernel sends, and ports that were somebody else's: connections of others go on, and new ones open.
use super::sequence::exchange;
use crate::conformance::case::{Case, Family, Setting};
use crate::conformance::context::{Context, Dial, both, each};
use crate::conformance::end::End;
use crate::conformance::failure::{Failure, While, ensure};
use crate::conformance::pattern::Tape;
use crate::conformance::place::Place;
use crate::packets::{ACK, Form, PSH, RST, SYN, Segment, datagram, fragments, packet};
use shorthaul_os::netlink::{NextHop, Route, interface_index};
use shorthaul_os::poll::wait_readable;
use shorthaul_os::{Netlink, Tun};
use shorthaul_types::Seed;
use shorthaul_wire::{Chunk, Datagram, Offload, Packet, Payload, TcpFlags, TcpSegment, Transport, parse};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(super) const CASES: &[Case] = &[
    Case::new(
        "forged-resets",
        "Resets in the name of either end, at guessed sequence numbers, end no connection.",
        "RFC 5961 §3",
        |ctx| forged(ctx, &|seq, ack| (plain(seq, ack, if seq & 1 == 0 { RST } else { RST | ACK }), Form::Plain)),
    )
    .setting(Setting::Own)
    .both_families(),
    Case::new(
        "forged-syns",
        "SYNs in the name of either end of an open connection do not end it.",
        "RFC 5961 §4",
        |ctx| forged(ctx, &|seq, ack| (plain(seq, ack, SYN), Form::Plain)),
    )
    .setting(Setting::Own),
    Case::new(
        "forged-data",
        "Data in the name of either end, at guessed sequence numbers, is read by nobody.",
        "RFC 5961 §5",
        |ctx| forged(ctx, &|seq, ack| (Segment { payload: &FORGED, ..plain(seq, ack, ACK | PSH) }, Form::Plain)),
    )
    .setting(Setting::Own)
    .both_families(),
    Case::new(
        "forged-fragments-and-options",
        "The same in fragments whose rest never comes, and behind IP options or extension headers.",
        "RFC 5961 §5, RFC 8200 §4",
        |ctx| {
            forged(ctx, &|seq, ack| {
                let form = if seq & 1 == 0 { Form::Options } else { Form::Fragment { before: 0, number: ack } };
                (Segment { payload: &FORGED, ..plain(seq, ack, ACK | PSH) }, form)
            })
        },
    )
    .setting(Setting::Own)
    .both_families(),
    Case::new(
        "storm-of-acknowledgments",
        "Acknowledgments of what nobody sent end no connection, and when they end, all is silent.",
        "RFC 5961 §5, §7",
        storm,
    )
    .setting(Setting::Own)
    .both_families(),
    Case::new(
        "flood-of-syns",
        "While 2,000 SYNs a second come from everywhere, transfers go on, and new connections open.",
        "RFC 4987",
        flood,
    )
    .setting(Setting::Own)
    .both_families(),
    Case::new(
        "segments-in-ipv6-fragments",
        "A stream whose segments come in fragments arrives whole, and is answered.",
        "RFC 8200 §4.5",
        |ctx| by_hand(ctx, Shape::Fragments),
    )
    .setting(Setting::Own)
    .only_ipv6(),
    Case::new(
        "segments-behind-destination-options",
        "A stream whose segments have destination options, from the SYN on, arrives whole, and is answered.",
        "RFC 8200 §4.6",
        |ctx| by_hand(ctx, Shape::Options),
    )
    .setting(Setting::Own)
    .only_ipv6(),
    Case::new(
        "ports-reused-after-a-crash",
        "After kill -9 in the midst of a transfer both ends give up, and open another connection with the same ports: it works after a restart.",
        "RFC 9293 §3.4.3",
        |ctx| reused_ports(ctx, None),
    )
    .setting(Setting::Own)
    .within(Duration::from_secs(40)),
    Case::new(
        "ports-reused-hours-after-a-crash",
        "The same, where the gateway starts again three hours later.",
        "RFC 9293 §3.4.3",
        |ctx| reused_ports(ctx, Some(Duration::from_secs(3 * 3600))),
    )
    .setting(Setting::Own)
    .within(Duration::from_secs(40)),
];

const FORGED: [u8; 100] = [0xee; 100];
/// Packets of a stranger, and between two of them: 2,000 a second, for two seconds.
const PACKETS: u64 = 4_000;
const BETWEEN: Duration = Duration::from_micros(500);
/// Windows are small, so that nobody guesses right.
const WINDOW: usize = 64 * 1024;

fn plain<'a>(seq: u32, ack: u32, flags: u8) -> Segment<'a> {
    Segment { ports: [0; 2], seq, ack, flags, options: &[], payload: &[] }
}

/// A host on the access side that puts packets together by itself, with whatever addresses.
struct Stranger {
    socket: Socket,
    seed: Seed,
    drawn: Cell<u64>,
}

impl Stranger {
    /// Its socket; and a look whether what it sends in the name of another arrives at all.
    fn new(ctx: &Context) -> Result<Self, Failure> {
        const RAW: i32 = 255;
        let domain = if ctx.family == Family::V4 { Domain::IPV4 } else { Domain::IPV6 };
        let socket =
            ctx.site.at(Place::Neighbour, || Socket::new(domain, Type::RAW, Some(Protocol::from(RAW))));
        let socket = socket.doing("a raw socket")?;
        let stranger = Stranger { socket, seed: ctx.seed.derive("stranger"), drawn: Cell::new(0) };
        let server = ctx.site.at(Place::Server, || UdpSocket::bind(ctx.address(Place::Server, 0)));
        let server = server.doing("a socket")?;
        server.set_read_timeout(Some(Duration::from_millis(50))).doing("SO_RCVTIMEO")?;
        let (named, to) = (ctx.address(Place::Client, 4_000), server.local_addr().doing("getsockname")?);
        loop {
            stranger.put(to.ip(), &datagram(named, to, b"forged"))?;
            if server.recv_from(&mut [0; 16]).is_ok_and(|(_, from)| from == named) {
                return Ok(stranger);
            }
            ensure!(!ctx.remaining().is_zero(), "nothing arrives that is sent in the name of another");
        }
    }

    fn draw(&self) -> u64 {
        self.drawn.set(self.drawn.get() + 1);
        self.seed.nth(self.drawn.get()).0
    }

    fn put(&self, dst: IpAddr, packet: &[u8]) -> Result<(), Failure> {
        let to = SockAddr::from(SocketAddr::new(dst, 0));
        self.socket.send_to(packet, &to).map(drop).doing("sending a packet that was put together")
    }

    /// Sends packets from one of the ends to the other, as `forge` says, with numbers drawn by chance.
    fn forge(
        &self,
        ends: &[[SocketAddr; 2]],
        forge: &dyn Fn(u32, u32) -> (Segment<'static>, Form),
    ) -> Result<(), Failure> {
        let begun = Instant::now();
        for number in 0..PACKETS {
            let (drawn, which) = (self.draw(), self.draw());
            let [client, server] = ends[(which >> 1) as usize % ends.len()];
            let [src, dst] = if which & 1 == 0 { [client, server] } else { [server, client] };
            let (segment, form) = forge(drawn as u32, (drawn >> 32) as u32);
            let segment = Segment { ports: [src.port(), dst.port()], ..segment };
            self.put(dst.ip(), &packet(src.ip(), dst.ip(), &segment, form))?;
            let due = begun + BETWEEN * number as u32;
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        Ok(())
    }
}

/// Connections with small windows.
fn connections(ctx: &Context, count: usize) -> Result<Vec<(End, End)>, Failure> {
    let small = |socket: &Socket| socket.set_recv_buffer_size(WINDOW);
    (0..count).map(|_| ctx.pair_with(&Dial { client: &small, server: &small, ..Dial::default() })).collect()
}

fn addresses(pairs: &[(End, End)]) -> Result<Vec<[SocketAddr; 2]>, Failure> {
    pairs.iter().map(|(client, _)| Ok([client.local()?, client.peer()?])).collect()
}

/// Two connections that carry data, slowly, and two that wait, while somebody forges segments of all.
fn forged(ctx: &Context, forge: &dyn Fn(u32, u32) -> (Segment<'static>, Form)) -> Result<(), Failure> {
    ctx.site.start_gateway()?;
    let stranger = Stranger::new(ctx)?;
    let mut pairs = connections(ctx, 4)?;
    let ends = addresses(&pairs)?;
    let idle = pairs.split_off(2);
    let begun = Instant::now();
    let lasts = BETWEEN * PACKETS as u32;
    let slowly = |pair: (End, End)| {
        let (mut client, mut server) = pair;
        // At the pace of what is forged, and as long.
        while begun.elapsed() < lasts {
            client.tx.send(5_000)?;
            server.rx.receive(5_000)?;
            server.tx.send(5_000)?;
            client.rx.receive(5_000)?;
            std::thread::sleep(Duration::from_millis(5));
        }
        exchange(client, server, 100_000)
    };
    let busy = std::thread::scope(|scope| {
        let busy: Vec<_> = pairs.into_iter().map(|pair| scope.spawn(move || slowly(pair))).collect();
        let forged = stranger.forge(&ends, forge);
        let panicked = |_| Err(Failure::new("a thread of the case panicked"));
        busy.into_iter().map(|busy| busy.join().unwrap_or_else(panicked)).fold(forged, Result::and)
    });
    busy.map_err(|f| f.within("connections that carried data"))?;
    for (client, server) in idle {
        exchange(client, server, 100_000).map_err(|f| f.within("connections that waited"))?;
    }
    Ok(())
}

/// Acknowledgments, and afterwards silence: two that answer each other would do so for ever.
fn storm(ctx: &Context) -> Result<(), Failure> {
    const SILENCE: Duration = Duration::from_secs(1);
    /// What may still be said then.
    const FEW: u64 = 40;
    forged(ctx, &|seq, ack| (plain(seq, ack, ACK), Form::Plain))?;
    let count =
        || Ok::<_, Failure>([ctx.site.segments_in(Place::Client)?, ctx.site.segments_in(Place::Server)?]);
    let mut before = count()?;
    loop {
        std::thread::sleep(SILENCE);
        let now = count()?;
        let heard = now[0] + now[1] - before[0] - before[1];
        if heard <= FEW {
            return Ok(());
        }
        ensure!(!ctx.remaining().is_zero(), "{heard} segments a second, though nobody has anything to say");
        before = now;
    }
}

/// SYNs from everywhere, and in the midst of them others open connections.
fn flood(ctx: &Context) -> Result<(), Failure> {
    ctx.site.start_gateway()?;
    let stranger = Stranger::new(ctx)?;
    let (_flooded, to) = ctx.listen(Place::Server, Protocol::TCP, &|_| Ok(()))?;
    let (client, server) = ctx.pair()?;
    let floods = || {
        let begun = Instant::now();
        for number in 0..PACKETS {
            let drawn = stranger.draw();
            let from: IpAddr = match ctx.family {
                Family::V4 => Ipv4Addr::from_bits(0x0a42_0000 | drawn as u32 & 0xffff).into(),
                Family::V6 => Ipv6Addr::from_bits(0xfd66 << 112 | u128::from(drawn & 0xffff)).into(),
            };
            let options = &[2, 4, 5, 180, 4, 2, 1, 3, 3, 7];
            let ports = [(drawn >> 16) as u16 | 1_024, to.port()];
            let syn = Segment { ports, options, ..plain((drawn >> 32) as u32, 0, SYN) };
            stranger.put(to.ip(), &packet(from, to.ip(), &syn, Form::Plain))?;
            let due = begun + BETWEEN * number as u32;
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        Ok(())
    };
    // What is opened half way in, and later.
    let others = || {
        for _ in 0..5 {
            each(4, |_| {
                let (client, server) = ctx.pair()?;
                exchange(client, server, 64 * 1024)
            })
            .map_err(|f| f.within("new connections"))?;
            std::thread::sleep(BETWEEN * PACKETS as u32 / 8);
        }
        Ok(())
    };
    let all = || both(|| exchange(client, server, 4 << 20), others);
    std::thread::scope(|scope| {
        let all = scope.spawn(all);
        let flooded = floods();
        flooded
            .and(all.join().unwrap_or_else(|_| Err(Failure::new("a thread of the case panicked"))))
            .map(drop)
    })
}

/// How a client that is put together by hand wraps its segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Fragments,
    Options,
}

/// A client that no kernel knows, at an address of its own on the access side.
struct Hand {
    device: Tun,
    chunk: Arc<Chunk>,
    shape: Shape,
    ends: [SocketAddr; 2],
    /// What it sends next, and has received up to.
    next: u32,
    had: u32,
    number: u32,
}

impl Hand {
    /// A device in the host of the second client, to which an address leads that is nobody's.
    fn new(ctx: &Context, shape: Shape, server: SocketAddr) -> Result<Self, Failure> {
        const NAME: &str = "hand";
        const OWN: Ipv6Addr = Ipv6Addr::new(0xfd66, 0, 0, 0, 0, 0, 0, 0x77);
        ctx.site.lead_to_neighbour(OWN.into()).doing("adding routes")?;
        let device = ctx.site.at(Place::Neighbour, || {
            let device = Tun::create(NAME)?;
            let (netlink, index) = (Netlink::open()?, interface_index(NAME)?);
            netlink.configure(index, 1_500, 1_000)?;
            netlink.set_up(index)?;
            netlink.add_route(&Route::new(IpAddr::from(OWN).into(), NextHop::Interface(index)))?;
            std::fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1")?;
            Ok(device)
        });
        let device: Tun = device.doing("a device")?;
        let ends = [SocketAddr::new(OWN.into(), 5_077), server];
        let chunk = Arc::new(Chunk::new(65_536));
        Ok(Hand { device, chunk, shape, ends, next: 0, had: 0, number: 0 })
    }

    fn say(&mut self, seq: u32, flags: u8, options: &[u8], payload: &[u8]) -> Result<(), Failure> {
        let [from, to] = self.ends;
        let ack = if flags & ACK == 0 { 0 } else { self.had };
        let segment = Segment { ports: [from.port(), to.port()], seq, ack, flags, options, payload };
        self.number += 1;
        let packets = match self.shape {
            Shape::Options => vec![packet(from.ip(), to.ip(), &segment, Form::Options)],
            // The first fragment must have all headers (RFC 7112): what has nothing else is not cut.
            Shape::Fragments if payload.is_empty() => vec![packet(from.ip(), to.ip(), &segment, Form::Plain)],
            Shape::Fragments => fragments(from.ip(), to.ip(), &segment, self.number).to_vec(),
        };
        let mut put = packets.iter().map(|packet| self.device.send(packet, &[], &Offload::default()));
        put.try_for_each(|put| put).doing("sending by the device")
    }

    /// What the server says next; `None` if it is silent for a while.
    fn hear(&mut self) -> Result<Option<TcpSegment>, Failure> {
        let deadline = Instant::now() + Duration::from_millis(200);
        loop {
            if Arc::get_mut(&mut self.chunk).is_none() {
                self.chunk = Arc::new(Chunk::new(65_536));
            }
            let Some(chunk) = Arc::get_mut(&mut self.chunk) else { return Ok(None) };
            chunk.clear();
            if let Some(offload) = self.device.receive(chunk).doing("receiving by the device")? {
                let bytes = Payload::new(Arc::clone(&self.chunk), 0..self.chunk.filled());
                if let Ok(Packet { transport: Transport::Tcp(segment), .. }) =
                    parse(Datagram { bytes, offload })
                {
                    return Ok(Some(segment));
                }
                continue;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            wait_readable([self.device.as_fd()], Some(left)).doing("poll")?;
        }
    }
}

/// A client by hand sends a stream, segment by segment, reads as long an answer, and closes.
fn by_hand(ctx: &Context, shape: Shape) -> Result<(), Failure> {
    const SEGMENTS: usize = 30;
    const SIZE: usize = 1_200;
    ctx.site.start_gateway()?;
    let (listener, server) = ctx.listen(Place::Server, Protocol::TCP, &|_| Ok(()))?;
    let mut hand = Hand::new(ctx, shape, server)?;
    let first = ctx.seed.derive("first sequence number").0 as u32;
    loop {
        // An MSS, and nothing else.
        hand.say(first, SYN, &[2, 4, 4, 196], &[])?;
        if let Some(TcpSegment { header, .. }) = hand.hear()?
            && header.flags == TcpFlags::SYN | TcpFlags::ACK
            && header.ack.0 == first.wrapping_add(1)
        {
            (hand.next, hand.had) = (header.ack.0, header.seq.0.wrapping_add(1));
            break;
        }
        ensure!(!ctx.remaining().is_zero(), "the server never answered the SYN");
    }
    let flow = ctx.next_flow();
    let accepted = both(|| ctx.accept(&listener), || hand.say(hand.next, ACK, &[], &[]))?.0;
    let mut server = ctx.server_end(accepted, flow);
    let mut sent = Tape::new(ctx.upward(flow));
    let up = || {
        for _ in 0..SEGMENTS {
            let bytes = sent.upcoming(SIZE).to_vec();
            sent.advance(bytes.len());
            let end = hand.next.wrapping_add(SIZE as u32);
            while hand.next != end {
                hand.say(hand.next, ACK | PSH, &[], &bytes)?;
                // Until it is acknowledged, or for a while.
                while hand.next != end
                    && let Some(TcpSegment { header, .. }) = hand.hear()?
                {
                    hand.next = if header.ack.0 == end { end } else { hand.next };
                }
                ensure!(!ctx.remaining().is_zero(), "a segment was never acknowledged");
            }
        }
        Ok(())
    };
    both(|| server.rx.receive((SEGMENTS * SIZE) as u64), up)?;
    server.tx.send((SEGMENTS * SIZE) as u64)?;
    let mut answer = Tape::new(ctx.downward(flow));
    while answer.position() < (SEGMENTS * SIZE) as u64 {
        if let Some(TcpSegment { header, payload, .. }) = hand.hear()?
            && header.seq.0 == hand.had
        {
            let mut bytes = vec![0; payload.len()];
            payload.copy_to(&mut bytes);
            hand.had = hand.had.wrapping_add(bytes.len() as u32);
            answer.check(&bytes).map_err(|at| Failure::new(format!("byte {at} of the answer is wrong")))?;
        }
        hand.say(hand.next, ACK, &[], &[])?;
        ensure!(!ctx.remaining().is_zero(), "the answer ended after {} bytes", answer.position());
    }
    hand.say(hand.next, RST | ACK, &[], &[])
}

/// A connection with a port of its own, from and to.
fn from_port(
    ctx: &Context,
    listener: &Socket,
    address: SocketAddr,
    port: u16,
) -> Result<(End, End), Failure> {
    let small = |socket: &Socket| socket.set_recv_buffer_size(16 * 1024);
    let socket = ctx.socket(Place::Client, Type::STREAM, Protocol::TCP)?;
    socket.set_reuse_address(true).doing("SO_REUSEADDR")?;
    small(&socket).doing("SO_RCVBUF")?;
    socket.bind(&SockAddr::from(ctx.address(Place::Client, port))).doing("bind")?;
    ctx.connect(&socket, address).doing("client: connecting")?;
    Ok(ctx.ends(socket, ctx.accept(listener)?))
}

fn reused_ports(ctx: &Context, later: Option<Duration>) -> Result<(), Failure> {
    const PORT: u16 = 7_779;
    let small = |socket: &Socket| socket.set_recv_buffer_size(16 * 1024);
    ctx.site.start_gateway()?;
    let (listener, address) = ctx.listen(Place::Server, Protocol::TCP, &small)?;
    let (mut client, server) = from_port(ctx, &listener, address, PORT)?;
    // Nobody reads: much is acknowledged that is not delivered, where somebody stands between.
    client.tx.fill(Duration::from_millis(500), 16 << 20)?;
    ctx.site.kill_gateway();
    client.abort()?;
    server.abort()?;
    let (mut client, mut server) =
        from_port(ctx, &listener, address, PORT).map_err(|f| f.within("the next one"))?;
    let talk = |client: &mut End, server: &mut End| {
        client.tx.send(10_000)?;
        server.rx.receive(10_000)?;
        server.tx.send(10_000)?;
        client.rx.receive(10_000)
    };
    talk(&mut client, &mut server).map_err(|f| f.within("without the gateway"))?;
    match later {
        None => ctx.site.start_gateway()?,
        Some(time) => ctx.site.start_gateway_later(time)?,
    }
    for _ in 0..5 {
        talk(&mut client, &mut server).map_err(|f| f.within("after the restart"))?;
        std::thread::sleep(Duration::from_millis(500));
    }
    exchange(client, server, 100_000).map_err(|f| f.within("after the restart"))?;
    let (client, server) = ctx.pair().map_err(|f| f.within("new connections"))?;
    exchange(client, server, 100_000)
}
