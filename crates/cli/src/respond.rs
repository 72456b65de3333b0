//! `shorthaul respond`: answer the probes of `shorthaul discover`.
use crate::ending::{asked, report, say};
use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use shorthaul_relay::discovery::directory::{Etcd, Registered, Registration};
use shorthaul_relay::discovery::{
    Answering, AnsweringConfig, AnsweringSockets, Identity, Load, PORT, ResponderConfig,
};
use shorthaul_types::Bytes;
use tokio::signal::unix::{SignalKind, signal};

use crate::confine::ConfineArgs;
use crate::discover::{EtcdArgs, KeyArgs};

/// Answer probes: at a destination, or for a relay of this host
///
/// A destination needs no more than `--secret`. With `--relay` this host is offered as a relay to
/// those who ask it, and with `--on-path` also to those whose probes it forwards. Runs until it is
/// stopped.
///
/// SIGHUP: the file of --secret or --key is read again; one that runs in a terminal ends.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    keys: KeyArgs,
    /// The UDP address to answer at
    #[arg(long, value_parser = shorthaul_types::parse_socket_address, value_name = "ADDRESS", default_value_t = SocketAddr::from((std::net::Ipv6Addr::UNSPECIFIED, PORT)))]
    listen: SocketAddr,
    /// Offer the relay that accepts sessions here; 0.0.0.0 stands for whichever address leads to the asker
    #[arg(long, value_parser = shorthaul_types::parse_socket_address, value_name = "ADDRESS")]
    relay: Option<SocketAddr>,
    /// What people call the relay: up to 24 characters
    #[arg(long, value_name = "NAME", default_value = "")]
    name: String,
    /// Answer the probes that this host forwards too: needs CAP_NET_RAW
    #[arg(long, requires = "relay")]
    on_path: bool,
    /// The relay's service time for an average packet
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = shorthaul_types::parse_duration)]
    service_time: Duration,
    /// The buffer that the relay gives a session
    #[arg(long, value_name = "SIZE", default_value = "4MiB")]
    buffer: Bytes,
    /// How long after its end the relay vanishes from etcd
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = shorthaul_types::parse_duration)]
    lease: Duration,
    /// Where the relay writes itself, with the name, and addresses that others reach
    #[command(flatten)]
    etcd: EtcdArgs,
    /// Let members of the network have the way measured to private addresses too
    #[arg(long)]
    measure_private: bool,
    #[command(flatten)]
    confine: ConfineArgs,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let relay = args.relay.map(|session| Identity::relay(session, &args.name));
    let responder = ResponderConfig::new(args.keys.read()?, relay);
    let mut config = AnsweringConfig { listen: args.listen, ..AnsweringConfig::new(responder, args.on_path) };
    if args.measure_private {
        config.may_measure = std::sync::Arc::new(|_| true);
    }
    let load = Load {
        service_time: args.service_time,
        buffer: args.buffer.0,
        sessions: 0,
        capacity: None,
        overloaded: false,
    };
    let sockets = AnsweringSockets::bind(config)?;
    let directory = args.etcd.open()?;
    // Threads have the privileges of the one that starts them: there is none yet.
    let read_again: Vec<&Path> = args.keys.file().into_iter().collect();
    args.confine.apply(directory.is_some(), &read_again)?;
    let answering = sockets.answer(move || load)?;
    let also = if args.on_path { ", and those that pass" } else { "" };
    let _registered = register(args, directory, &answering, load)?;
    say!("ready: answering probes at {}{also}", answering.address());
    follow_signals(args, &answering)
}

/// Reads the keys again whenever the process is told to, until it is stopped.
fn follow_signals(args: &Args, answering: &Answering) -> Result<()> {
    // Whoever closes a terminal wants to end what runs in it.
    if std::io::stdin().is_terminal() {
        loop {
            std::thread::park();
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut told = signal(SignalKind::hangup())?;
        loop {
            told.recv().await;
            match args.keys.read() {
                Ok(keys) => {
                    answering.set_keys(keys);
                    report!("the secret was read again");
                }
                Err(error) => report!("the secret stays as it is: {error}"),
            }
        }
    })
}

/// Writes the relay into the directory that was named, if one was.
fn register(
    args: &Args,
    directory: Option<Etcd>,
    answering: &Answering,
    load: Load,
) -> Result<Option<Registered>> {
    let Some(etcd) = directory else { return Ok(None) };
    let session = args.relay.filter(|session| !session.ip().is_unspecified());
    let Some(session) = session.filter(|_| !args.name.is_empty()) else {
        let wanted = "a directory needs a --name, and a --relay ADDRESS that others reach: not 0.0.0.0";
        return Err(asked!("{wanted}").into());
    };
    let probe = SocketAddr::new(session.ip(), answering.address().port());
    let registration = Registration { name: args.name.clone(), session, probe, lease: args.lease };
    let complain = |error| report!("{error}");
    Ok(Some(Registered::start(std::sync::Arc::new(etcd), registration, move || load, complain)?))
}
