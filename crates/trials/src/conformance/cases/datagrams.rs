//! Everything that is not TCP passes untouched.
use crate::conformance::case::{Case, Family};
use crate::conformance::context::Context;
use crate::conformance::failure::{Failure, While, ensure};
use crate::conformance::pattern::Pattern;
use crate::conformance::place::Place;
use socket2::{Protocol, SockAddr, Socket, Type};
use std::io::Read;
use std::mem::MaybeUninit;
use std::time::Duration;

pub(super) const CASES: &[Case] = &[
    Case::new(
        "udp-passes",
        "Datagrams arrive as they were sent, from their true source.",
        "RFC 768",
        |ctx| udp_echo(ctx, &[0, 1, 100, 1200, 1400]),
    )
    .both_families(),
    Case::new(
        "fragments-pass",
        "Datagrams of several packets arrive as they were sent.",
        "RFC 791 §3.2, RFC 8200 §4.5",
        |ctx| udp_echo(ctx, &[2000, 4000, 8000]),
    )
    .both_families(),
    Case::new("ping-passes", "An echo request is answered by the server.", "RFC 792, RFC 4443 §4", ping)
        .both_families(),
    Case::new(
        "port-unreachable-passes",
        "A datagram to a closed port is answered by an ICMP error, and the client hears of it.",
        "RFC 1122 §4.1.3.1",
        port_unreachable,
    )
    .both_families(),
];

/// Tries until an answer comes: datagrams may be lost.
const LIMIT: Duration = Duration::from_millis(300);

fn tries(ctx: &Context) -> usize {
    if ctx.lossy() { 30 } else { 3 }
}

fn udp_echo(ctx: &Context, sizes: &[usize]) -> Result<(), Failure> {
    let client = ctx.socket(Place::Client, Type::DGRAM, Protocol::UDP)?;
    let server = ctx.socket(Place::Server, Type::DGRAM, Protocol::UDP)?;
    server.bind(&SockAddr::from(ctx.address(Place::Server, 0))).doing("bind")?;
    client.connect(&server.local_addr().doing("getsockname")?).doing("connect")?;
    let mine = client.local_addr().doing("getsockname")?;
    for socket in [&client, &server] {
        socket.set_read_timeout(Some(LIMIT)).doing("SO_RCVTIMEO")?;
    }
    for (i, &size) in sizes.iter().enumerate() {
        let mut datagram = vec![0; size];
        Pattern::new(ctx.seed.derive("datagram").nth(i as u64)).fill(0, &mut datagram);
        let passed = (0..tries(ctx)).any(|_| echo(&client, &server, &mine, &datagram).is_some());
        ensure!(passed, "a datagram of {size} bytes did not come back unchanged");
    }
    Ok(())
}

/// Sends `datagram` there and back; `None` if it was lost or changed.
fn echo(client: &Socket, server: &Socket, from: &SockAddr, datagram: &[u8]) -> Option<()> {
    client.send(datagram).ok()?;
    let mut buffer = vec![MaybeUninit::new(0); 16 * 1024];
    // What is left over from an earlier try has another length or is the same datagram.
    let (_, source) = server.recv_from(&mut buffer).ok()?;
    (source.as_socket() == from.as_socket()).then_some(())?;
    server.send_to(datagram, &source).ok()?;
    let mut back = vec![0; 16 * 1024];
    let len = { client }.read(&mut back).ok()?;
    (back[..len] == *datagram).then_some(())
}

fn ping(ctx: &Context) -> Result<(), Failure> {
    const IDENTIFIER: [u8; 2] = [0x5a, 0x17];
    let (protocol, request, reply) = match ctx.family {
        Family::V4 => (Protocol::ICMPV4, 8, 0),
        Family::V6 => (Protocol::ICMPV6, 128, 129),
    };
    let socket = ctx.socket(Place::Client, Type::RAW, protocol)?;
    socket.set_read_timeout(Some(LIMIT)).doing("SO_RCVTIMEO")?;
    let server = SockAddr::from(ctx.address(Place::Server, 0));
    for (sequence, size) in [(1, 56), (2, 1400), (3, 4000)] {
        let message = echo_request(request, IDENTIFIER, sequence, size);
        let answered = (0..tries(ctx)).any(|_| {
            if socket.send_to(&message, &server).is_err() {
                return false;
            }
            let mut buffer = vec![0; 8192];
            // Other ICMP messages reach a raw socket too; the right one is the request with
            // another type and checksum.
            loop {
                let Ok(len) = (&mut &socket).read(&mut buffer) else { return false };
                let header = if ctx.family == Family::V4 { 20 } else { 0 };
                let answer = buffer[..len].get(header..).unwrap_or_default();
                if answer.len() == message.len() && answer[0] == reply && answer[4..] == message[4..] {
                    return true;
                }
            }
        });
        ensure!(answered, "an echo request of {size} bytes was not answered");
    }
    Ok(())
}

/// ICMP(v6) echo request; the kernel itself fills in the checksum for IPv6.
fn echo_request(kind: u8, identifier: [u8; 2], sequence: u8, size: usize) -> Vec<u8> {
    let mut message = vec![kind, 0, 0, 0, identifier[0], identifier[1], 0, sequence];
    message.extend((0..size).map(|i| i as u8));
    let mut sum: u32 = message.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    message[2..4].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    message
}

fn port_unreachable(ctx: &Context) -> Result<(), Failure> {
    let closed = ctx.socket(Place::Server, Type::DGRAM, Protocol::UDP)?;
    closed.bind(&SockAddr::from(ctx.address(Place::Server, 0))).doing("bind")?;
    let address = closed.local_addr().doing("getsockname")?;
    drop(closed);
    let client = ctx.socket(Place::Client, Type::DGRAM, Protocol::UDP)?;
    client.connect(&address).doing("connect")?;
    client.set_read_timeout(Some(LIMIT)).doing("SO_RCVTIMEO")?;
    // A host may send few of these errors a second, hence the many tries.
    for _ in 0..30 {
        let error = client.send(b"anybody?").err().or_else(|| (&mut &client).read(&mut [0; 16]).err());
        if error.is_some_and(|e| e.kind() == std::io::ErrorKind::ConnectionRefused) {
            return Ok(());
        }
    }
    Err(Failure::new("the ICMP error \"port unreachable\" never reached the client"))
}
