//! Options: whatever the ends agree on, and whatever they do not, the streams arrive.
use super::sequence::exchange;
use crate::conformance::case::{Case, Family, Setting, Tuning};
use crate::conformance::context::{Context, Dial, both, each};
use crate::conformance::failure::{Failure, While};
use crate::conformance::place::Place;
use shorthaul_os::socket;
use socket2::{Protocol, SockAddr, Type};
use std::net::SocketAddr;
use std::time::Duration;

pub(super) const CASES: &[Case] = &[
    Case::new(
        "any-segment-size",
        "Streams arrive whole with maximum segment sizes from 88 to 1460 bytes, announced by either end.",
        "RFC 9293 §3.7.1",
        any_segment_size,
    ),
    Case::new(
        "path-mtu-discovery",
        "Where a link behind the gateway passes smaller packets than the ends agreed on, streams arrive whole.",
        "RFC 1191, RFC 8201",
        path_mtu,
    )
    .both_families(),
    Case::new(
        "segments-in-fragments",
        "Where a link in front of the gateway cuts segments into fragments, streams arrive whole.",
        "RFC 791 §3.2",
        in_fragments,
    ),
    Case::new(
        "ip-options-in-mid-stream",
        "Where an end begins to send IP options or extension headers in mid-stream, streams arrive whole.",
        "RFC 791 §3.1, RFC 8200 §4",
        ip_options,
    )
    .both_families(),
    Case::new("without-timestamps", "All works without the timestamps option.", "RFC 7323 §3", core)
        .setting(Setting::Shared(&NO_TIMESTAMPS)),
    Case::new("without-sack", "All works without selective acknowledgments.", "RFC 2018", core)
        .setting(Setting::Shared(&NO_SACK)),
    Case::new("without-window-scaling", "All works with windows of at most 64 KiB.", "RFC 7323 §2", core)
        .setting(Setting::Shared(&NO_SCALING)),
    Case::new("without-any-option", "All works with the maximum segment size alone.", "RFC 9293 §3.1", core)
        .setting(Setting::Shared(&NO_OPTIONS)),
    Case::new(
        "with-ecn",
        "All works when the ends agree on explicit congestion notification.",
        "RFC 3168",
        core,
    )
    .setting(Setting::Shared(&ECN)),
    Case::new("fast-open", "Data in the SYN arrives once and in its place.", "RFC 7413", fast_open),
    Case::new(
        "multipath-tcp",
        "A Multipath TCP connection works, be it as such or as plain TCP.",
        "RFC 8684 §3.7",
        multipath,
    ),
    Case::new(
        "md5-signed",
        "A connection whose every segment is signed works: nobody has changed or made up a segment.",
        "RFC 2385",
        md5_signed,
    ),
];

static NO_TIMESTAMPS: Tuning = Tuning { name: "no timestamps", sysctls: &[("ipv4/tcp_timestamps", "0")] };
static NO_SACK: Tuning = Tuning { name: "no SACK", sysctls: &[("ipv4/tcp_sack", "0")] };
static NO_SCALING: Tuning =
    Tuning { name: "no window scaling", sysctls: &[("ipv4/tcp_window_scaling", "0")] };
static NO_OPTIONS: Tuning = Tuning {
    name: "no options",
    sysctls: &[("ipv4/tcp_timestamps", "0"), ("ipv4/tcp_sack", "0"), ("ipv4/tcp_window_scaling", "0")],
};
static ECN: Tuning = Tuning { name: "ECN", sysctls: &[("ipv4/tcp_ecn", "1")] };

fn any_segment_size(ctx: &Context) -> Result<(), Failure> {
    const SIZES: [u32; 8] = [88, 128, 216, 536, 700, 1000, 1220, 1460];
    each(2 * SIZES.len(), |i| {
        let size = SIZES[i / 2];
        let limit = |socket: &socket2::Socket| socket.set_tcp_mss(size);
        let dial = match i % 2 {
            0 => Dial { client: &limit, ..Dial::default() },
            _ => Dial { server: &limit, ..Dial::default() },
        };
        let (client, server) = ctx.pair_with(&dial)?;
        exchange(client, server, 128 * 1024).map_err(|f| f.within(format!("segments of {size} bytes")))
    })
}

fn path_mtu(ctx: &Context) -> Result<(), Failure> {
    let place = |place: Place| SocketAddr::new(place.narrow_address(ctx.family), 0);
    let listener = ctx.socket(Place::Server, Type::STREAM, Protocol::TCP)?;
    listener.bind(&SockAddr::from(place(Place::Server))).doing("bind")?;
    listener.listen(1).doing("listen")?;
    let client = ctx.socket(Place::Client, Type::STREAM, Protocol::TCP)?;
    client.bind(&SockAddr::from(place(Place::Client))).doing("bind")?;
    let address = listener.local_addr().doing("getsockname")?;
    client.connect_timeout(&address, ctx.remaining()).doing("client: connecting")?;
    let (client, server) = ctx.ends(client, ctx.accept(&listener)?);
    exchange(client, server, 1 << 20)
}

fn in_fragments(ctx: &Context) -> Result<(), Failure> {
    let listener = ctx.socket(Place::Server, Type::STREAM, Protocol::TCP)?;
    listener.bind(&SockAddr::from(SocketAddr::new(Place::fragmenting_address(), 0))).doing("bind")?;
    listener.listen(1).doing("listen")?;
    let client = ctx.socket(Place::Client, Type::STREAM, Protocol::TCP)?;
    socket::allow_fragments(&client).doing("IP_MTU_DISCOVER")?;
    let address = listener.local_addr().doing("getsockname")?;
    client.connect_timeout(&address, ctx.remaining()).doing("client: connecting")?;
    let (client, server) = ctx.ends(client, ctx.accept(&listener)?);
    exchange(client, server, 1 << 20)
}

fn ip_options(ctx: &Context) -> Result<(), Failure> {
    let (mut client, mut server) = ctx.pair()?;
    client.tx.send(10_000)?;
    server.rx.receive(10_000)?;
    match ctx.family {
        Family::V4 => socket::add_ipv4_options(client.socket()),
        Family::V6 => socket::add_ipv6_options(client.socket()),
    }
    .doing("client: setting options")?;
    // Small pieces, for kernels fail to cut large ones that have extension headers.
    for _ in 0..50 {
        client.tx.send(500)?;
        server.rx.receive(500)?;
        server.tx.send(50_000)?;
        client.rx.receive(50_000)?;
    }
    exchange(server, client, 0)
}

/// What most depends on options: a stream each way, a small window, a half-close.
fn core(ctx: &Context) -> Result<(), Failure> {
    let plain = || {
        let (client, server) = ctx.pair()?;
        exchange(client, server, 2 << 20)
    };
    let small_window = || {
        let small = |socket: &socket2::Socket| socket.set_recv_buffer_size(16 * 1024);
        let (mut client, mut server) =
            ctx.pair_with(&Dial { client: &small, server: &small, ..Dial::default() })?;
        client.tx.finish()?;
        server.rx.expect_end()?;
        both(
            || {
                server.tx.send(1 << 20)?;
                server.tx.finish()
            },
            || {
                std::thread::sleep(Duration::from_secs(1));
                client.rx.receive_rest(1 << 20)
            },
        )?;
        client.rx.expect_all_of(&server.tx.sent())
    };
    both(plain, small_window)?;
    Ok(())
}

fn fast_open(ctx: &Context) -> Result<(), Failure> {
    let enabled = |socket: &socket2::Socket| socket::accept_fast_open(socket, 16);
    let (listener, address) = ctx.listen(Place::Server, Protocol::TCP, &enabled)?;
    // The first connection fetches the cookie, the others send data with the SYN.
    for round in 0..5 {
        let socket = ctx.socket(Place::Client, Type::STREAM, Protocol::TCP)?;
        socket::connect_with_fast_open(&socket).doing("TCP_FASTOPEN_CONNECT")?;
        ctx.connect(&socket, address).doing("client: connecting")?;
        socket.set_nonblocking(false).doing("blocking mode")?;
        let flow = ctx.next_flow();
        let mut client = ctx.client_end(socket, flow);
        // The SYN goes out with the first write, so that comes before accepting.
        client.tx.send(1000).map_err(|f| f.within(format!("round {round}")))?;
        let mut server = ctx.server_end(ctx.accept(&listener)?, flow);
        server.rx.receive(1000).map_err(|f| f.within(format!("round {round}")))?;
        server.tx.send(100_000)?;
        client.rx.receive(100_000)?;
        client.tx.send(100_000)?;
        server.rx.receive(100_000)?;
    }
    Ok(())
}

fn multipath(ctx: &Context) -> Result<(), Failure> {
    let (client, server) = ctx.pair_with(&Dial { protocol: Protocol::MPTCP, ..Dial::default() })?;
    exchange(client, server, 1 << 20)
}

fn md5_signed(ctx: &Context) -> Result<(), Failure> {
    const KEY: &[u8] = b"between the two ends";
    let (client, server) = (ctx.address(Place::Client, 0).ip(), ctx.address(Place::Server, 0).ip());
    let dial = Dial {
        client: &|socket| socket::set_md5_key(socket, server, KEY),
        server: &|socket| socket::set_md5_key(socket, client, KEY),
        ..Dial::default()
    };
    let (client, server) = ctx.pair_with(&dial)?;
    exchange(client, server, 256 * 1024)
}
