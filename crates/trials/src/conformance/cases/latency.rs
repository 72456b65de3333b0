//! Small exchanges: a gateway may not sit on them.
use crate::conformance::case::{Case, Setting};
use crate::conformance::context::{Context, both};
use crate::conformance::failure::{Failure, While, ensure};
use crate::conformance::place::Place;
use shorthaul_types::format_duration;
use socket2::{Protocol, SockAddr, Type};
use std::io::{Read, Write};
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

pub(super) const CASES: &[Case] = &[
    Case::new(
        "ping-pong-latency",
        "A request and its response over TCP take about as long as two datagrams over the same path.",
        "RFC 9293 §3.8.6.3",
        ping_pong,
    )
    .setting(Setting::Alone),
    Case::new(
        "split-response-latency",
        "A response in three segments and a piece is not held up by delayed acknowledgments.",
        "RFC 9293 §3.7.4",
        split_response,
    )
    .setting(Setting::Alone),
];

const EXCHANGES: usize = 200;

/// Below this nothing is suspicious: scheduling on a busy machine.
const ALLOWANCE: Duration = Duration::from_millis(2);

fn ping_pong(ctx: &Context) -> Result<(), Failure> {
    let datagrams = datagram_round_trips(ctx)?;
    let tcp = tcp_round_trips(ctx, 1)?;
    judge(ctx, datagrams, tcp, 5)
}

fn split_response(ctx: &Context) -> Result<(), Failure> {
    let datagrams = datagram_round_trips(ctx)?;
    let tcp = tcp_round_trips(ctx, 3 * 1460 + 200)?;
    judge(ctx, datagrams, tcp, 8)
}

/// Half of the exchanges must be quick; on the lossy path, where some are not, that says enough.
fn judge(
    ctx: &Context,
    mut datagrams: Vec<Duration>,
    mut tcp: Vec<Duration>,
    factor: u32,
) -> Result<(), Failure> {
    let (datagram, tcp) = (median(&mut datagrams), median(&mut tcp));
    ctx.note(format!("median {} (datagrams {})", format_duration(tcp), format_duration(datagram)));
    let limit = datagram * factor + ALLOWANCE;
    ensure!(
        tcp <= limit,
        "half of the exchanges take longer than {}; datagrams take {}",
        format_duration(tcp),
        format_duration(datagram)
    );
    Ok(())
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn tcp_round_trips(ctx: &Context, response: usize) -> Result<Vec<Duration>, Failure> {
    let (client, server) = ctx.pair()?;
    for end in [&client, &server] {
        end.socket().set_tcp_nodelay(true).doing("TCP_NODELAY")?;
        end.socket().set_read_timeout(Some(ctx.remaining())).doing("SO_RCVTIMEO")?;
    }
    let ask = || {
        let mut times = Vec::with_capacity(EXCHANGES);
        let mut answer = vec![0; response];
        for _ in 0..EXCHANGES {
            let start = Instant::now();
            client.socket().write_all(b"?").doing("client: sending")?;
            client.socket().read_exact(&mut answer).doing("client: receiving")?;
            times.push(start.elapsed());
        }
        Ok(times)
    };
    let answer = || {
        let answer = vec![7; response];
        for _ in 0..EXCHANGES {
            server.socket().read_exact(&mut [0]).doing("server: receiving")?;
            server.socket().write_all(&answer).doing("server: sending")?;
        }
        Ok(())
    };
    Ok(both(ask, answer)?.0)
}

/// The round trips of datagrams, those that were lost left out.
fn datagram_round_trips(ctx: &Context) -> Result<Vec<Duration>, Failure> {
    const LIMIT: Duration = Duration::from_millis(200);
    let client = ctx.socket(Place::Client, Type::DGRAM, Protocol::UDP)?;
    let server = ctx.socket(Place::Server, Type::DGRAM, Protocol::UDP)?;
    server.bind(&SockAddr::from(ctx.address(Place::Server, 0))).doing("bind")?;
    client.connect(&server.local_addr().doing("getsockname")?).doing("connect")?;
    for socket in [&client, &server] {
        socket.set_read_timeout(Some(LIMIT)).doing("SO_RCVTIMEO")?;
    }
    let mut times = Vec::with_capacity(EXCHANGES);
    let mut buffer = [MaybeUninit::uninit(); 16];
    for _ in 0..EXCHANGES {
        let start = Instant::now();
        client.send(b"ping").doing("client: sending a datagram")?;
        let Ok((_, from)) = server.recv_from(&mut buffer) else { continue };
        server.send_to(b"pong", &from).doing("server: sending a datagram")?;
        if client.recv(&mut buffer).is_ok() {
            times.push(start.elapsed());
        }
    }
    ensure!(!times.is_empty(), "no datagram came back: UDP does not pass");
    Ok(times)
}
