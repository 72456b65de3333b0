//! Who is who: true addresses at both ends, and no byte in the wrong flow.
use super::sequence::exchange;
use crate::conformance::case::Case;
use crate::conformance::context::{Context, Dial, both, each};
use crate::conformance::failure::{Failure, While, ensure};
use crate::conformance::place::Place;
use socket2::{Protocol, SockAddr, Type};

pub(super) const CASES: &[Case] = &[
    Case::new(
        "true-addresses",
        "Client and server see each other's own addresses and ports.",
        "RFC 1122 §1.1.2 (end-to-end addresses)",
        true_addresses,
    )
    .both_families(),
    Case::new(
        "clients-are-isolated",
        "Two clients with fifty connections each, all at once: every byte arrives in its own connection.",
        "RFC 9293 §3.3",
        isolation,
    )
    .both_families(),
    Case::new(
        "same-port-at-two-clients",
        "Two clients that use the same port number toward the same server have two connections.",
        "RFC 9293 §3.3",
        same_port,
    ),
    Case::new(
        "server-connects-to-client",
        "A connection that the server's side opens works as well.",
        "RFC 9293 §3.5",
        |ctx| {
            let (server, client) =
                ctx.pair_with(&Dial { from: Place::Server, to: Place::Client, ..Dial::default() })?;
            exchange(server, client, 256 * 1024)
        },
    )
    .both_families(),
    Case::new(
        "port-is-reused",
        "A port that has just been used for one connection serves the next to the same server.",
        "RFC 9293 §3.6.1",
        port_is_reused,
    ),
];

fn true_addresses(ctx: &Context) -> Result<(), Failure> {
    for from in [Place::Client, Place::Neighbour] {
        let (client, server) = ctx.pair_with(&Dial { from, ..Dial::default() })?;
        let (mine, theirs) = (client.local()?, server.peer()?);
        ensure!(mine == theirs, "the server takes the client for {theirs}, but it is {mine}");
        let (mine, theirs) = (server.local()?, client.peer()?);
        ensure!(mine == theirs, "the client takes the server for {theirs}, but it is {mine}");
    }
    Ok(())
}

fn isolation(ctx: &Context) -> Result<(), Failure> {
    each(100, |i| {
        let from = if i % 2 == 0 { Place::Client } else { Place::Neighbour };
        let (client, server) = ctx.pair_with(&Dial { from, ..Dial::default() })?;
        exchange(client, server, 64 * 1024)
    })
}

fn same_port(ctx: &Context) -> Result<(), Failure> {
    let (listener, address) = ctx.listen(Place::Server, Protocol::TCP, &|_| Ok(()))?;
    let connect = |place, port| {
        let socket = ctx.socket(place, Type::STREAM, Protocol::TCP)?;
        socket.bind(&SockAddr::from(ctx.address(place, port))).doing("bind")?;
        ctx.connect(&socket, address).doing("client: connecting")?;
        let ends = ctx.ends(socket, ctx.accept(&listener)?);
        Ok::<_, Failure>(ends)
    };
    // Below the range from which the kernel picks ports by itself.
    let (client, server) = connect(Place::Client, 7777)?;
    let (neighbour, other_server) = connect(Place::Neighbour, 7777)?;
    both(|| exchange(client, server, 1 << 20), || exchange(neighbour, other_server, 1 << 20))?;
    Ok(())
}

fn port_is_reused(ctx: &Context) -> Result<(), Failure> {
    let (listener, address) = ctx.listen(Place::Server, Protocol::TCP, &|_| Ok(()))?;
    for round in 0..20 {
        let socket = ctx.socket(Place::Client, Type::STREAM, Protocol::TCP)?;
        socket.set_reuse_address(true).doing("SO_REUSEADDR")?;
        socket.bind(&SockAddr::from(ctx.address(Place::Client, 7778))).doing("bind")?;
        ctx.connect(&socket, address).doing(format!("client: connection {round} from the same port"))?;
        let (mut client, mut server) = ctx.ends(socket, ctx.accept(&listener)?);
        client.tx.send(1000)?;
        server.rx.receive(1000)?;
        server.tx.send(1000)?;
        // The server closes first, so that the waiting for old segments is on its side, where a new
        // SYN with a later sequence number may end it.
        server.tx.finish()?;
        client.rx.receive_rest(1000)?;
        client.tx.finish()?;
        server.rx.expect_end()?;
        client.tx.settle()?;
    }
    Ok(())
}
