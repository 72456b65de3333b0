//! `shorthaul proxy`: local ports that lead into the network.
use crate::ending::{report, say};
use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use ipnet::IpNet;
use shorthaul_relay::{LocalConfig, LocalProxy, Service, network};
use tokio::signal::unix::{SignalKind, signal};

use crate::confine::ConfineArgs;
use crate::node::Forward;
use crate::route::{Opening, RouteArgs};

/// Offer SOCKS and HTTP to local programs, forward ports, take redirected connections
///
/// A program is told of success when the destination has answered, and of failure as without nodes.
///
/// SIGHUP: the files of --secret and --credential are read again, and sessions go on; one that runs in a terminal ends.
#[derive(clap::Args)]
pub struct Args {
    /// SOCKS 4a and 5, HTTP and HTTP CONNECT (repeat for several); 127.0.0.1:1080 if nothing else is given
    #[arg(long, value_parser = shorthaul_types::parse_socket_address, value_name = "ADDRESS")]
    listen: Vec<SocketAddr>,
    /// A local port that leads to one destination, such as `127.0.0.1:5201=server:5201`
    #[arg(long, value_name = "LISTEN=TARGET")]
    forward: Vec<Forward>,
    /// A local port for connections that the firewall redirects (`REDIRECT`): each goes on to where it was
    /// going
    #[arg(long, value_parser = shorthaul_types::parse_socket_address, value_name = "ADDRESS")]
    transparent: Vec<SocketAddr>,
    /// Others that may use these ports
    #[arg(long, value_name = "NETWORK", value_parser = network)]
    allow: Vec<IpNet>,
    /// Connections that are kept ready to each node
    #[arg(long, value_name = "NUMBER", default_value_t = 2)]
    ready: usize,
    #[command(flatten)]
    route: RouteArgs,
    #[command(flatten)]
    confine: ConfineArgs,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let opening = args.route.client(args.ready, None)?;
    let mut ports: Vec<LocalConfig> = Vec::new();
    let nothing_else = args.forward.is_empty() && args.transparent.is_empty();
    let usual = [SocketAddr::from(([127, 0, 0, 1], 1080))];
    let proxies = if args.listen.is_empty() && nothing_else { &usual[..] } else { &args.listen };
    ports.extend(proxies.iter().map(|&listen| LocalConfig { listen, service: Service::Proxy }));
    for way in &args.forward {
        ports.push(LocalConfig { listen: way.listen, service: Service::Forward(way.to.clone()) });
    }
    ports
        .extend(args.transparent.iter().map(|&listen| LocalConfig { listen, service: Service::Transparent }));
    let services: Vec<Service> = ports.iter().map(|port| port.service.clone()).collect();
    let proxy = LocalProxy::bind(opening.client.clone(), ports, args.allow.clone())?;
    // Threads have the privileges of the one that starts them: there is none yet.
    args.confine.apply(true, &args.route.files_read_again())?;
    let _asking = opening.keep_asking()?;
    opening.ask_directories()?;
    for (address, service) in proxy.addresses().iter().zip(services) {
        match service {
            Service::Proxy => say!("ready: SOCKS and HTTP at {address}"),
            Service::Forward(to) => say!("ready: {address} leads to {to}"),
            Service::Transparent => say!("ready: redirected connections at {address}"),
        }
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        if args.ready > 0 {
            for node in args.route.via() {
                let (links, node) = (Arc::clone(&opening.links), node.clone());
                tokio::spawn(async move { links.keep_ready(&node).await });
            }
        }
        tokio::select! {
            ended = proxy.run() => ended.context("the proxy stopped"),
            failed = follow_signals(args, &opening) => failed,
        }
    })
}

/// Reads again what the process is told to read again, for ever.
async fn follow_signals(args: &Args, opening: &Opening) -> Result<()> {
    // Whoever closes a terminal wants to end what runs in it.
    if std::io::stdin().is_terminal() || args.route.files_read_again().is_empty() {
        std::future::pending::<()>().await;
    }
    let mut told = signal(SignalKind::hangup())?;
    loop {
        told.recv().await;
        match args.route.read_again(opening) {
            Ok(()) => report!("the secret or credential was read again"),
            Err(error) => report!("the secret or credential stays as it is: {error}"),
        }
    }
}
