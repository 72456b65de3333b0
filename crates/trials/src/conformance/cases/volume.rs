//! Much of it: long streams, tiny writes, and thousands of connections that leave nothing behind.
use super::MIB;
use super::sequence::exchange;
use crate::conformance::case::{Case, Setting};
use crate::conformance::context::{Context, both, each};
use crate::conformance::end::End;
use crate::conformance::failure::{Failure, While, ensure};
use crate::conformance::pattern::Pattern;
use crate::conformance::place::Place;
use sha2::{Digest, Sha256};
use shorthaul_lab::Usage;
use socket2::{Protocol, Socket, Type};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

pub(super) const CASES: &[Case] = &[
    Case::new(
        "bulk-both-ways",
        "64 MiB in each direction at the same time (16 MiB on the lossy path) arrive whole.",
        "RFC 9293 §3.1",
        |ctx| {
            let (client, server) = ctx.pair()?;
            exchange(client, server, if ctx.lossy() { 16 * MIB } else { 64 * MIB })
        },
    )
    .within(Duration::from_secs(40)),
    Case::new(
        "bulk-both-ways-ipv6",
        "16 MiB in each direction at the same time arrive whole over IPv6.",
        "RFC 9293 §3.1",
        |ctx| {
            let (client, server) = ctx.pair()?;
            exchange(client, server, if ctx.lossy() { 4 * MIB } else { 16 * MIB })
        },
    )
    .only_ipv6(),
    Case::new(
        "one-byte-writes",
        "20,000 writes of one byte without Nagle's delay arrive whole, in each direction.",
        "RFC 9293 §3.7.4",
        one_byte_writes,
    )
    .both_families(),
    Case::new(
        "ten-thousand-connections",
        "10,000 short connections all succeed, and leave neither flows nor descriptors nor memory behind.",
        "RFC 9293 §3.3.2",
        ten_thousand_connections,
    )
    .setting(Setting::Alone)
    .within(Duration::from_secs(60)),
];

fn one_byte_writes(ctx: &Context) -> Result<(), Failure> {
    const WRITES: u64 = 20_000;
    fn talk(end: &mut End) -> Result<(), Failure> {
        end.socket().set_tcp_nodelay(true).doing("TCP_NODELAY")?;
        let (tx, rx) = (&mut end.tx, &mut end.rx);
        both(
            || {
                tx.send_in_pieces(WRITES, 1)?;
                tx.finish()
            },
            || rx.receive_rest(WRITES),
        )?;
        Ok(())
    }
    let (mut client, mut server) = ctx.pair()?;
    both(|| talk(&mut client), || talk(&mut server))?;
    server.rx.expect_all_of(&client.tx.sent())?;
    client.rx.expect_all_of(&server.tx.sent())
}

const CONNECTIONS: usize = 10_000;
/// How many are open at a time.
const AT_ONCE: usize = 48;
const REQUEST: usize = 100;
const RESPONSE: usize = 1000;

fn ten_thousand_connections(ctx: &Context) -> Result<(), Failure> {
    let before = ctx.site.with_gateway(|gateway| gateway.usage());
    let flows_before = if before.is_some() { ctx.site.flows()? } else { None };
    let (listener, address) = ctx.listen(Place::Server, Protocol::TCP, &|_| Ok(()))?;
    let next = AtomicUsize::new(0);
    // Half of the threads serve; a server thread ends when the listener no longer brings anything.
    each(2 * AT_ONCE, |i| {
        if i % 2 == 0 {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= CONNECTIONS {
                    return Ok(());
                }
                ask(ctx, address, number).map_err(|f| f.within(format!("connection {number}")))?;
            }
        } else {
            serve(ctx, &listener, &next)
        }
    })?;
    drop(listener);
    let Some(before) = before else { return Ok(()) };
    nothing_left(ctx, before, &flows_before.unwrap_or_default())
}

/// One connection from the client's side: a request with its number, and the answer made from that.
fn ask(ctx: &Context, address: SocketAddr, number: usize) -> Result<(), Failure> {
    let mut socket = ctx.socket(Place::Client, Type::STREAM, Protocol::TCP)?;
    ctx.connect(&socket, address).doing("connecting")?;
    socket.set_read_timeout(Some(ctx.remaining().max(Duration::from_millis(1)))).doing("SO_RCVTIMEO")?;
    let mut request = [0; REQUEST];
    request[..8].copy_from_slice(&(number as u64).to_le_bytes());
    socket.write_all(&request).doing("sending the request")?;
    let mut response = Vec::new();
    socket.read_to_end(&mut response).doing("receiving the response")?;
    ensure!(response.len() == RESPONSE, "{} of {RESPONSE} bytes of the response", response.len());
    let expected = Sha256::digest(self::response(ctx, number));
    ensure!(Sha256::digest(&response) == expected, "the SHA-256 of the response is wrong");
    Ok(())
}

fn serve(ctx: &Context, listener: &Socket, next: &AtomicUsize) -> Result<(), Failure> {
    loop {
        listener.set_read_timeout(Some(Duration::from_millis(200))).doing("SO_RCVTIMEO")?;
        let Ok((mut socket, _)) = listener.accept() else {
            // The clients take numbers beyond the last when they are done.
            if next.load(Ordering::Relaxed) >= CONNECTIONS + AT_ONCE || ctx.remaining().is_zero() {
                return Ok(());
            }
            continue;
        };
        socket.set_read_timeout(Some(ctx.remaining().max(Duration::from_millis(1)))).doing("SO_RCVTIMEO")?;
        let mut request = [0; REQUEST];
        socket.read_exact(&mut request).doing("receiving a request")?;
        let number = u64::from_le_bytes(request[..8].try_into().expect("eight bytes"));
        socket.write_all(&response(ctx, number as usize)).doing("sending a response")?;
    }
}

fn response(ctx: &Context, number: usize) -> [u8; RESPONSE] {
    let mut bytes = [0; RESPONSE];
    Pattern::new(ctx.seed.derive("response").nth(number as u64)).fill(0, &mut bytes);
    bytes
}

/// The gateway must soon hold no more than before, but for a little memory.
fn nothing_left(ctx: &Context, before: Usage, flows_before: &BTreeSet<String>) -> Result<(), Failure> {
    const LIMIT: Duration = Duration::from_secs(15);
    const DESCRIPTORS: usize = 16;
    const RESIDENT_KIB: u64 = 32 * 1024;
    let until = Instant::now() + LIMIT.min(ctx.remaining());
    loop {
        let after = ctx.site.with_gateway(|gateway| gateway.usage()).unwrap_or_default();
        let flows = ctx.site.flows()?.unwrap_or_default();
        // Other cases may have left flows whose ends both are gone without a word.
        let left: Vec<&String> = flows.difference(flows_before).collect();
        let verdict = if let Some(first) = left.first() {
            Err(Failure::new(format!("{} flows are left in the gateway, such as {first}", left.len())))
        } else if after.descriptors > before.descriptors + DESCRIPTORS {
            Err(Failure::new(format!(
                "{} descriptors before, {} after",
                before.descriptors, after.descriptors
            )))
        } else if after.resident_kib > before.resident_kib + RESIDENT_KIB {
            Err(Failure::new(format!(
                "{} KiB of memory before, {} KiB after",
                before.resident_kib, after.resident_kib
            )))
        } else {
            ctx.note(format!("memory {} to {} KiB", before.resident_kib, after.resident_kib));
            if !flows_before.is_empty() {
                let flows: Vec<&str> = flows_before.iter().map(String::as_str).collect();
                ctx.note(format!("flows left by earlier cases: {}", flows.join(", ")));
            }
            Ok(())
        };
        if verdict.is_ok() || Instant::now() >= until {
            return verdict.map_err(|f| f.within(format!("{LIMIT:?} after the last connection")));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}
