//! Opening: a gateway may not promise what the server has not.
use crate::conformance::case::{Case, Family};
use crate::conformance::context::{Context, both};
use crate::conformance::end::deafen;
use crate::conformance::failure::{Failure, While, ensure, name_of};
use crate::conformance::place::{Place, silent, unreachable};
use shorthaul_os::Errno;
use socket2::{Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::SocketAddr;
use std::sync::Barrier;
use std::time::{Duration, Instant};

pub(super) const CASES: &[Case] = &[
    Case::new(
        "closed-port-refused",
        "A port that nobody listens on refuses at once; nothing is accepted in the server's name.",
        "RFC 9293 §3.10.7.1",
        closed_port,
    )
    .both_families(),
    Case::new(
        "unreachable-host-reported",
        "When a router beyond the gateway answers \"unreachable\", connecting fails with that error.",
        "RFC 1122 §4.2.3.9",
        unreachable_host,
    )
    .both_families(),
    Case::new(
        "silent-host-times-out",
        "A host that does not answer is not answered for: connecting takes until the client gives up.",
        "RFC 9293 §3.5",
        silent_host,
    )
    .both_families(),
    Case::new(
        "filtered-port-times-out",
        "A port whose SYNs are filtered at the server is neither accepted nor refused.",
        "RFC 9293 §3.5",
        filtered_port,
    ),
    Case::new(
        "late-server-accepted-late",
        "The connection is established when the server has answered, not before.",
        "RFC 9293 §3.5",
        late_server,
    ),
    Case::new(
        "simultaneous-open",
        "Two hosts that connect to each other at the same time get one connection, and data passes both ways.",
        "RFC 9293 §3.5 figure 7",
        simultaneous_open,
    )
    .both_families(),
    Case::new(
        "server-speaks-first",
        "A greeting from the server arrives although the client has sent nothing.",
        "RFC 9293 §3.5",
        server_speaks_first,
    )
    .both_families(),
];

/// Connects from the client to `address` and says how that ended, and after what time.
fn attempt(
    ctx: &Context,
    address: SocketAddr,
    limit: Duration,
) -> Result<(io::Result<()>, Duration), Failure> {
    let socket = ctx.socket(Place::Client, Type::STREAM, Protocol::TCP)?;
    let start = Instant::now();
    let result = socket.connect_timeout(&SockAddr::from(address), limit);
    Ok((result, start.elapsed()))
}

/// The connection must fail with the error number `wanted`; without faults, promptly.
fn expect_error(ctx: &Context, address: SocketAddr, wanted: Errno) -> Result<(), Failure> {
    let (result, took) = attempt(ctx, address, ctx.remaining())?;
    let wanted = io::Error::from(wanted);
    match result {
        Ok(()) => {
            return Err(Failure::new(format!("the connection was accepted; expected {}", name_of(&wanted))));
        }
        Err(error) => ensure!(
            error.raw_os_error() == wanted.raw_os_error(),
            "expected {}, found {}",
            name_of(&wanted),
            name_of(&error)
        ),
    }
    // Linux keeps an ICMP error that comes while `connect` is still sending, and acts on the next:
    // the answer to the SYN that is repeated after a second.
    ensure!(
        ctx.lossy() || took < Duration::from_millis(2500),
        "{} came only after {took:.1?}",
        name_of(&wanted)
    );
    Ok(())
}

/// The connection must still be neither accepted nor refused after `limit`.
fn expect_no_answer(ctx: &Context, address: SocketAddr, limit: Duration) -> Result<(), Failure> {
    match attempt(ctx, address, limit)? {
        (Err(error), _) if error.kind() == io::ErrorKind::TimedOut => Ok(()),
        (Err(error), took) => {
            Err(Failure::new(format!("expected no answer, found {} after {took:.1?}", name_of(&error))))
        }
        (Ok(()), took) => {
            Err(Failure::new(format!("the connection was accepted after {took:.1?}, by nobody")))
        }
    }
}

fn closed_port(ctx: &Context) -> Result<(), Failure> {
    // Bound, so that nobody else gets the port, but not listening.
    let bound = ctx.socket(Place::Server, Type::STREAM, Protocol::TCP)?;
    bound.bind(&SockAddr::from(ctx.address(Place::Server, 0))).doing("bind")?;
    for _ in 0..10 {
        expect_error(ctx, local(&bound)?, Errno::CONNREFUSED)?;
    }
    Ok(())
}

fn unreachable_host(ctx: &Context) -> Result<(), Failure> {
    // What Linux as a router sends for an unreachable route is another code in ICMPv6.
    let error = if ctx.family == Family::V4 { Errno::HOSTUNREACH } else { Errno::NETUNREACH };
    expect_error(ctx, SocketAddr::new(unreachable(ctx.family), 80), error)
}

fn silent_host(ctx: &Context) -> Result<(), Failure> {
    expect_no_answer(ctx, SocketAddr::new(silent(ctx.family), 80), Duration::from_secs(4))
}

fn filtered_port(ctx: &Context) -> Result<(), Failure> {
    let (_listener, address) = ctx.listen(Place::Server, Protocol::TCP, &|socket| deafen(socket, true))?;
    expect_no_answer(ctx, address, Duration::from_secs(4))
}

fn late_server(ctx: &Context) -> Result<(), Failure> {
    const LATE: Duration = Duration::from_millis(1500);
    let (listener, address) = ctx.listen(Place::Server, Protocol::TCP, &|socket| deafen(socket, true))?;
    let client = ctx.socket(Place::Client, Type::STREAM, Protocol::TCP)?;
    let start = Instant::now();
    let (took, ()) = both(
        || {
            ctx.connect(&client, address).doing("client: connecting")?;
            Ok(start.elapsed())
        },
        || {
            std::thread::sleep(LATE);
            deafen(&listener, false).doing("server: socket filter")
        },
    )?;
    ensure!(took >= LATE, "accepted after {took:.1?} although the server answered only after {LATE:?}");
    let (mut client, mut server) = ctx.ends(client, ctx.accept(&listener)?);
    client.tx.send(1000)?;
    server.rx.receive(1000)
}

fn simultaneous_open(ctx: &Context) -> Result<(), Failure> {
    let mut attempts = 0;
    let (a, b) = loop {
        attempts += 1;
        match open_at_once(ctx, |_| Ok(()))? {
            Some(sockets) => break sockets,
            // The SYNs did not cross: one found the other host not ready.
            None => ensure!(!ctx.remaining().is_zero(), "{attempts} attempts, and never a connection"),
        }
    };
    let (mut client, mut server) = ctx.ends(a, b);
    both(
        || {
            client.tx.send(100_000)?;
            client.tx.finish()?;
            client.rx.receive_rest(100_000)
        },
        || {
            server.tx.send(100_000)?;
            server.tx.finish()?;
            server.rx.receive_rest(100_000)
        },
    )?;
    server.rx.expect_all_of(&client.tx.sent())?;
    client.rx.expect_all_of(&server.tx.sent())
}

/// Client and server connect to each other; `None` if they missed each other.
pub(super) fn open_at_once(
    ctx: &Context,
    options: impl Fn(&Socket) -> io::Result<()>,
) -> Result<Option<(Socket, Socket)>, Failure> {
    const LIMIT: Duration = Duration::from_secs(5);
    let make = |place| {
        let socket = ctx.socket(place, Type::STREAM, Protocol::TCP)?;
        options(&socket).doing("socket options")?;
        socket.bind(&SockAddr::from(ctx.address(place, 0))).doing("bind")?;
        let address = local(&socket)?;
        Ok::<_, Failure>((socket, address))
    };
    let (client, client_address) = make(Place::Client)?;
    let (server, server_address) = make(Place::Server)?;
    let start = Barrier::new(2);
    let connect = |socket: &Socket, address: SocketAddr| {
        start.wait();
        Ok(socket.connect_timeout(&SockAddr::from(address), LIMIT.min(ctx.remaining())))
    };
    let (a, b) = both(|| connect(&client, server_address), || connect(&server, client_address))?;
    match (a, b) {
        (Ok(()), Ok(())) => Ok(Some((client, server))),
        _ => Ok(None),
    }
}

fn server_speaks_first(ctx: &Context) -> Result<(), Failure> {
    let (mut client, mut server) = ctx.pair()?;
    server.tx.send(100)?;
    client.rx.receive(100)?;
    client.tx.send(100)?;
    server.rx.receive(100)?;
    server.tx.finish()?;
    client.rx.expect_end()?;
    client.tx.finish()?;
    server.rx.expect_end()
}

fn local(socket: &Socket) -> Result<SocketAddr, Failure> {
    let address = socket.local_addr().doing("getsockname")?;
    address.as_socket().ok_or_else(|| Failure::new("the socket has no IP address"))
}
