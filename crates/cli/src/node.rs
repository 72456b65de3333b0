//! `shorthaul node`: relays and an echo on this host.
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::mpsc;
use std::thread;

use anyhow::{Context as _, Result, bail};
use shorthaul_relay::{Echo, Forwarding, Relay, RelayConfig};
use shorthaul_types::Bytes;

/// Relay TCP connections on this host, and answer `shorthaul measure`
///
/// Each connection that comes in goes on as another, with the kernel's TCP on both sides. A side
/// that breaks breaks the other too, so that nothing cut off looks complete. Runs until it is
/// stopped; connections that are open then are reset.
#[derive(clap::Args)]
pub struct Args {
    /// Accept connections at an address and take them on to another, such as
    /// `0.0.0.0:7001=server:5201` (repeat for several)
    #[arg(long, value_name = "LISTEN=TARGET")]
    relay: Vec<Way>,
    /// Send back what comes, at this address, for `shorthaul measure`
    #[arg(long, value_name = "LISTEN")]
    echo: Option<SocketAddr>,
    /// Congestion control of the kernel for what leaves here
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
    /// What may be held of a direction, such as `4MiB`; without, the kernel sizes its buffers
    #[arg(long, value_name = "SIZE")]
    buffer: Option<Bytes>,
    /// Wait so many round trips of the incoming way before anything goes on
    #[arg(long, value_name = "NUMBER", default_value_t = 0, conflicts_with = "store")]
    wait_windows: u32,
    /// Take everything first, then send it on
    #[arg(long)]
    store: bool,
}

/// From where to where.
#[derive(Clone, Debug)]
struct Way {
    listen: SocketAddr,
    to: String,
}

impl FromStr for Way {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let example = "write an address to listen at and a target, such as \"0.0.0.0:7001=server:5201\"";
        let (listen, to) = text.split_once('=').ok_or_else(|| format!("`{text}` has no `=`: {example}"))?;
        let listen = listen.parse().map_err(|error| format!("`{listen}`: {error}: {example}"))?;
        let named =
            to.rsplit_once(':').filter(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
        match named {
            Some(_) => Ok(Way { listen, to: to.into() }),
            None => Err(format!("`{to}` is no host:port: {example}")),
        }
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    if args.relay.is_empty() && args.echo.is_none() {
        bail!("nothing to do: give --relay LISTEN=TARGET or --echo LISTEN, such as --echo 0.0.0.0:7000");
    }
    let forwarding = if args.store {
        Forwarding::Store
    } else {
        Forwarding::Pipelined { wait_windows: args.wait_windows }
    };
    let (ended, endings) = mpsc::channel();
    let mut threads = Vec::new();
    for way in &args.relay {
        let relay = Relay::bind(RelayConfig {
            listen: way.listen,
            to: way.to.clone(),
            forwarding,
            congestion: args.congestion.clone(),
            buffer: args.buffer,
        })?;
        println!("ready: relaying {} to {}", relay.address()?, way.to);
        let ended = ended.clone();
        threads.push(thread::spawn(move || ended.send(relay.run().context("a relay stopped"))));
    }
    if let Some(address) = args.echo {
        let echo = Echo::bind(address).with_context(|| format!("cannot accept connections at {address}"))?;
        println!("ready: echo at {}", echo.address()?);
        threads.push(thread::spawn(move || ended.send(echo.run().context("the echo stopped"))));
    }
    // The first that stops, stops all.
    endings.recv().context("everything stopped")?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_has_two_ends() {
        let way: Way = "[::]:7001=server:5201".parse().unwrap();
        assert_eq!((way.listen, way.to.as_str()), ("[::]:7001".parse().unwrap(), "server:5201"));
        for wrong in
            ["7001", "7001=server:5201", "0.0.0.0:7001=server", "0.0.0.0:7001=:80", "0.0.0.0:7001=a:b"]
        {
            let error = wrong.parse::<Way>().unwrap_err();
            assert!(error.contains("0.0.0.0:7001=server:5201"), "{error}");
        }
    }
}
