//! An echo server with a TCP of its own: a [`Host`] behind a TUN device.
//!
//! ```text
//! cargo run --release -p shorthaul-dataplane --example echo -- tun-echo 10.77.0.2 &
//! ip addr add 10.77.0.1/24 dev tun-echo && ip link set tun-echo up
//! nc 10.77.0.2 7
//! ```
//!
//! It needs the right to make network devices (`CAP_NET_ADMIN`), and ends with Ctrl-C. A third
//! argument names another profile than `cubic`.

use shorthaul_dataplane::HostLoop;
use shorthaul_os::{Tun, clock::sharpen_timers};
use shorthaul_tcp::{Connection, ConnectionConfig, Event, Host, HostConfig, SenderProfile};
use shorthaul_types::{Seed, Time};
use std::error::Error;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::time::Duration;

/// The echo service (RFC 862).
const ECHO: u16 = 7;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let (Some(device), Some(address)) = (arguments.get(1), arguments.get(2)) else {
        return Err("usage: echo <device> <address> [<profile>]".into());
    };
    let address: IpAddr = address.parse()?;
    let profile = match arguments.get(3) {
        Some(name) => SenderProfile::named(name)?,
        None => SenderProfile::default(),
    };

    // Sequence numbers must not be guessed: std's hasher is keyed by the system's random source.
    let seed = Seed(RandomState::new().hash_one("initial sequence numbers"));
    let mut host = Host::new(HostConfig::new(address, seed));
    host.listen(ECHO, ConnectionConfig { profile, super_segments: true, ..ConnectionConfig::default() });

    sharpen_timers();
    let mut endpoint = HostLoop::new(Tun::create(device)?, host);
    println!("echoing on {address} port {ECHO}, behind {device}");
    loop {
        endpoint.round(Duration::from_secs(1), serve)?;
    }
}

/// The application.
fn serve(host: &mut Host, now: Time) {
    while let Some(id) = host.poll_accept() {
        if let Some(connection) = host.connection(id) {
            println!("{} connected", connection.path().remote);
        }
    }
    while let Some((id, event)) = host.poll_event() {
        let Some(connection) = host.connection_mut(id) else { continue };
        match event {
            Event::Closed => println!("{} closed", connection.path().remote),
            Event::Failed(failure) => println!("{}: {failure}", connection.path().remote),
            _ => echo(connection, now),
        }
    }
}

/// Sends back what has come, as far as there is room; then, if nothing more will come, the end.
fn echo(connection: &mut Connection, now: Time) {
    loop {
        let room = usize::try_from(connection.writable()).unwrap_or(usize::MAX);
        let list = connection.read(now, room);
        if list.is_empty() {
            break;
        }
        for slice in list.slices() {
            connection.write(slice.clone());
        }
    }
    if connection.peer_has_closed() && connection.readable() == 0 {
        connection.close(now);
    }
}
