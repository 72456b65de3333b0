//! `shorthaul node`: sessions, fixed relays and an echo on this host.
use crate::ending::{asked, report, say};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use ipnet::IpNet;
use shorthaul_relay::discovery::{
    AnsweringConfig, AnsweringSockets, Identity, Keyring, Load, PORT, ResponderConfig,
};
use shorthaul_relay::{
    Control, Echo, Endpoint, Inherited, Listening, Node, NodeConfig, NodeHandle, Protection, ProxyVersion,
    RelayConfig, Settings, network,
};
use shorthaul_types::{BitRate, Bytes};

use crate::confine::ConfineArgs;
use crate::route::{ForwardingArgs, duration};

/// Take TCP sessions on, to where they ask or to fixed targets; answer `shorthaul measure`
///
/// Sessions are asked for by HTTP CONNECT, over TLS 1.3 or plain TCP on the same port, by members of a
/// network (`--secret`), users (`--settings`) or addresses (`--allow`). Without any of these, only this
/// host may ask. With the kernel's TCP on both sides; a side that breaks breaks the other too, so that
/// nothing cut off looks complete.
///
/// SIGTERM: no new sessions, and at most the time of --drain for those that are open. SIGHUP: the files
/// of --settings, --secret and --credential are read again. Another one goes on in its place with --take-over, and no connection is refused.
#[derive(clap::Args)]
pub struct Args {
    /// Where sessions are asked for (repeat for several); 127.0.0.1:7080 if nothing else is given
    #[arg(long, value_parser = shorthaul_types::parse_socket_address, value_name = "ADDRESS")]
    listen: Vec<SocketAddr>,
    /// The network's secret, as `shorthaul secret` makes it: who has it may use this node; read again at SIGHUP
    #[arg(long, value_name = "FILE")]
    secret: Option<PathBuf>,
    /// Users, addresses and destinations, in TOML; see docs/relay.md
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    /// Addresses that may ask without saying who they are, such as `10.1.0.0/16`
    #[arg(long, value_name = "NETWORK", value_parser = network)]
    allow: Vec<IpNet>,
    /// Destinations in private and other special ranges that may be asked for
    #[arg(long, value_name = "NETWORK", value_parser = network)]
    allow_destination: Vec<IpNet>,
    /// Addresses whose PROXY headers are believed; they must send one
    #[arg(long, value_name = "NETWORK", value_parser = network)]
    proxy_from: Vec<IpNet>,
    /// A certificate chain in PEM, instead of one of the secret's
    #[arg(long, value_name = "FILE", requires = "certificate_key")]
    certificate: Option<PathBuf>,
    /// Its private key in PEM
    #[arg(long, alias = "key", value_name = "FILE", requires = "certificate")]
    certificate_key: Option<PathBuf>,
    /// What an authority has issued to this node (`shorthaul secret issue`), instead of all that; read again at SIGHUP
    #[arg(long, value_name = "FILE", conflicts_with_all = ["certificate", "authority"])]
    credential: Option<PathBuf>,
    /// The authority in PEM whose certificates clients and nodes have, instead of the secret's
    #[arg(long, value_name = "FILE")]
    authority: Option<PathBuf>,
    /// What is between this node and the next: TLS if there is a secret or an authority
    #[arg(long, value_enum)]
    links: Option<LinkKind>,
    /// What it is called in `Proxy-Status`, and in its certificate if that is a name of a host
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// A name or address with a port that others reach it by, besides its own (repeat for several); its certificate is for
    /// them, too
    #[arg(long, value_name = "HOST:PORT")]
    reached_by: Vec<Endpoint>,
    /// Metrics at a loopback address: /metrics for Prometheus, /status.json
    #[arg(long, value_parser = shorthaul_types::parse_socket_address, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    /// Add a line of JSON to this file for each session that has ended or could not be; opened again at SIGHUP
    #[arg(long, value_name = "FILE")]
    access_log: Option<PathBuf>,
    /// Accept connections at an address and take them on to another, such as
    /// `0.0.0.0:7001=server:5201` (repeat for several)
    #[arg(long, value_name = "LISTEN=TARGET")]
    relay: Vec<Forward>,
    /// The targets of --relay get a PROXY header first
    #[arg(long, value_name = "v1|v2")]
    send_proxy: Option<ProxyVersion>,
    /// Send back what comes, at this address, for `shorthaul measure`
    #[arg(long, value_parser = shorthaul_types::parse_socket_address, value_name = "LISTEN")]
    echo: Option<SocketAddr>,
    /// Answer the probes of `shorthaul discover` at this UDP address, with how busy the node is
    #[arg(long, value_parser = shorthaul_types::parse_socket_address, value_name = "ADDRESS", requires = "secret")]
    probes: Option<SocketAddr>,
    /// Answer the probes that this host forwards, too: needs CAP_NET_RAW
    #[arg(long, requires = "probes")]
    on_path: bool,
    /// Congestion control of the kernel for what leaves here
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
    /// Let the kernel pace what leaves here
    #[arg(long)]
    paced: bool,
    /// What may be held of a direction: of each --relay (without it, the kernel sizes its buffers), and at
    /// most of a session that asks (without it, 16 MiB)
    #[arg(long, value_name = "SIZE")]
    buffer: Option<Bytes>,
    /// What this host can forward in all, told to clients so that they share nodes: such as what its provider lets through. Without it, what
    /// its processors were seen to do
    #[arg(long, value_name = "RATE")]
    rate: Option<BitRate>,
    /// What all sessions may reserve together
    #[arg(long, value_name = "SIZE", default_value = "1 GiB")]
    all_buffers: Bytes,
    /// Sessions at once; more are refused, and probes are not answered then
    #[arg(long, value_name = "NUMBER", default_value_t = 100_000)]
    sessions: u64,
    /// Let sessions ask that everything is taken before anything goes on (`Shorthaul-Forward: store`)
    #[arg(long)]
    allow_store: bool,
    /// What may lie in the temporary directory for that; for one account, a quarter of it
    #[arg(long, value_name = "SIZE", default_value = "1 GiB")]
    all_stored: Bytes,
    /// End sessions on which nothing moves for so long
    #[arg(long, value_name = "TIME", default_value = "24 h", value_parser = duration)]
    idle: Duration,
    /// A peer has gone that answers nothing for so long
    #[arg(long, value_name = "TIME", default_value = "10 min", value_parser = duration)]
    gone_after: Duration,
    /// A Unix socket by which another process may take over; only its owner's may
    #[arg(long, value_name = "FILE")]
    control: Option<PathBuf>,
    /// Go on in the place of the node that has this control socket: with its sockets, and without a connection refused. That one
    /// serves what it has, for the time of its --drain at most. For an upgrade, or for options that cannot be read again
    #[arg(long, requires = "control")]
    take_over: bool,
    /// How long sessions may go on when the node is told to stop, or another one has taken over
    #[arg(long, value_name = "TIME", default_value = "30 s", value_parser = duration)]
    drain: Duration,
    /// How long a session that can move may be without a way, until its client comes back; 0 s: no such sessions
    #[arg(long, value_name = "TIME", default_value = "60 s", value_parser = duration)]
    move_within: Duration,
    /// What is kept of a direction of such a session until its client has acknowledged it; it counts for --all-buffers
    #[arg(long, value_name = "SIZE", default_value = "4 MiB")]
    window: Bytes,
    // Of --relay.
    #[command(flatten)]
    forwarding: ForwardingArgs,
    /// Threads; as many as there are cores
    #[arg(long, value_name = "NUMBER")]
    threads: Option<usize>,
    #[command(flatten)]
    confine: ConfineArgs,
}

/// What is between nodes.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum LinkKind {
    /// TLS 1.3 around everything.
    Tls,
    /// Requests are signed; what is relayed can be read, and changed, on the way.
    Plain,
}

impl LinkKind {
    pub fn protection(self) -> Protection {
        match self {
            LinkKind::Tls => Protection::Tls,
            LinkKind::Plain => Protection::Plain,
        }
    }
}

/// From where to where.
#[derive(Clone, Debug)]
pub struct Forward {
    pub listen: SocketAddr,
    pub to: Endpoint,
}

impl FromStr for Forward {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let example = "write an address to listen at and a target, such as \"0.0.0.0:7001=server:5201\"";
        let (listen, to) = text.split_once('=').ok_or_else(|| format!("`{text}` has no `=`: {example}"))?;
        let listen = listen.parse().map_err(|error| format!("`{listen}`: {error}: {example}"))?;
        let to = to.parse().map_err(|error| format!("{error}: {example}"))?;
        Ok(Forward { listen, to })
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    // Whoever starts this by a socket of systemd's has said where it listens.
    let adopted = shorthaul_os::limits::handed_over();
    let adopted: Vec<_> = adopted.into_iter().map(|socket| Arc::new(TcpListener::from(socket))).collect();
    let nothing_else = args.relay.is_empty() && args.echo.is_none() && adopted.is_empty();
    let listen = match args.listen.as_slice() {
        [] if nothing_else => vec![SocketAddr::from(([127, 0, 0, 1], 7080))],
        given => given.to_vec(),
    };
    if args.idle < Duration::from_secs(1) || args.gone_after < Duration::from_secs(10) {
        return Err(asked!("--idle is a second at least, --gone-after ten").into());
    }
    if args.sessions == 0 {
        return Err(asked!("--sessions 0 would refuse everybody").into());
    }
    let (control, former, mut inherited) = match &args.control {
        Some(path) if args.take_over => {
            let (control, former, inherited) = Control::take_over(path)?;
            (Some(control), Some(former), inherited)
        }
        Some(path) => (Some(Control::bind(path)?), None, Inherited::default()),
        None => (None, None, Inherited::default()),
    };
    let node = Node::bind_with(config(args, listen, adopted), &mut inherited)?;
    let echo = args.echo.map(|address| listen_for_echo(address, &mut inherited)).transpose()?;
    let probes = probe_sockets(args, &node, &mut inherited)?;
    for address in inherited.left() {
        report!("the node before listened at {address}, too: nobody does now");
    }
    drop(inherited);
    if control.is_some() {
        node.handle().offer(listening(&node, echo.as_ref(), probes.as_ref())?);
    }
    // Threads have the privileges of the one that starts them: there is none yet.
    let confined = node.confine()?;
    tracing::info!(?confined, "privileges were given up");
    // Nothing is accepted until here: what comes waits, for this node or for the one before.
    former.map(|former| former.succeed(&node.handle())).transpose()?;
    let answering = probes.map(|sockets| sockets.answer(load(args, &node))).transpose()?;
    for address in node.addresses() {
        say!("ready: sessions at {address}");
    }
    for relay in node.relays() {
        say!("ready: relaying {} to {}", relay.listen, relay.to);
    }
    if let Some(address) = node.metrics() {
        say!("ready: metrics at http://{address}/metrics");
    }
    if let Some(answering) = &answering {
        say!("ready: answering probes at {}", answering.address());
    }
    let answering = Arc::new(Mutex::new(answering));
    let left = Arc::new(AtomicBool::new(false));
    if let Some(echo) = echo {
        say!("ready: echo at {}", echo.address()?);
        let left = Arc::clone(&left);
        thread::Builder::new().name("echo".into()).spawn(move || echo.run_until(&left))?;
    }
    if let Some(control) = control {
        let (drain, answering) = (args.drain, Arc::clone(&answering));
        control.listen(node.handle(), move || {
            left.store(true, Ordering::Release);
            drop(answering.lock().unwrap_or_else(PoisonError::into_inner).take());
            report!("another process has taken over; what is open here has {drain:?}");
        })?;
    }
    let (handle, secret, to_answer) = (node.handle(), args.secret.clone(), Arc::clone(&answering));
    let reload = move || -> Result<()> {
        handle.reload()?;
        // What the node may not read any more stays as it is there, too.
        if let (Some(answering), Some(Ok(keys))) =
            (&*to_answer.lock().unwrap_or_else(PoisonError::into_inner), secret.as_deref().map(Keyring::read))
        {
            answering.set_keys(keys);
        }
        Ok(())
    };
    follow_signals(node.handle(), reload)?;
    // Nobody may listen to this, and that is no error.
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    node.run().context("the node stopped")
}

fn listen_for_echo(address: SocketAddr, inherited: &mut Inherited) -> Result<Echo> {
    match inherited.streams_at(address).pop() {
        Some(listener) => Ok(Echo::adopt(listener)),
        None => {
            Echo::bind(address).with_context(|| format!("cannot accept connections for --echo at {address}"))
        }
    }
}

/// All that another process is handed that takes over.
fn listening(
    node: &Node,
    echo: Option<&Echo>,
    probes: Option<&AnsweringSockets>,
) -> std::io::Result<Vec<Listening>> {
    let mut all = node.listening()?;
    all.extend(echo.map(Echo::socket).transpose()?.map(Listening::Streams));
    all.extend(probes.map(AnsweringSockets::socket).transpose()?.map(Listening::Datagrams));
    Ok(all)
}

fn probe_sockets(args: &Args, node: &Node, inherited: &mut Inherited) -> Result<Option<AnsweringSockets>> {
    let (Some(listen), Some(secret)) = (args.probes, &args.secret) else { return Ok(None) };
    let reached = args.reached_by.iter().find_map(Endpoint::address);
    let Some(session) = reached.or(node.addresses().first().copied()) else {
        return Err(asked!("--probes offers sessions, and none can be asked for: give --listen").into());
    };
    let relay = Identity::relay(session, args.name.as_deref().unwrap_or_default());
    let responder = ResponderConfig::new(Keyring::read(secret)?, Some(relay));
    // It measures ways to where it would take sessions, and to nowhere else.
    let may_measure = node.allowed();
    if args.on_path && listen.port() != PORT {
        tracing::warn!(
            "--on-path sees probes to UDP port {}, and clients send theirs to {PORT}: give --probes [::]:{PORT}",
            listen.port()
        );
    }
    let config = AnsweringConfig { listen, may_measure, ..AnsweringConfig::new(responder, args.on_path) };
    Ok(Some(AnsweringSockets::bind_with(config, inherited.datagrams_at(listen))?))
}

/// How busy the node says that it is.
fn load(args: &Args, node: &Node) -> impl Fn() -> Load + Send + use<> {
    let (status, most) = (node.status(), args.buffer.unwrap_or(NodeConfig::default().most_buffer));
    move || Load {
        service_time: status.service_time(),
        buffer: status.buffer_free().min(most).0,
        sessions: u32::try_from(status.sessions()).unwrap_or(u32::MAX),
        capacity: status.capacity(),
        overloaded: status.is_overloaded(),
    }
}

fn config(args: &Args, listen: Vec<SocketAddr>, adopted: Vec<Arc<TcpListener>>) -> NodeConfig {
    let forwarding = args.forwarding.forwarding();
    let relays = args.relay.iter().map(|way| RelayConfig {
        listen: way.listen,
        to: way.to.clone(),
        forwarding,
        buffer: args.buffer,
        send_proxy: args.send_proxy,
    });
    // This host's own need not say who they are, unless others may ask as well.
    let only_here = listen.iter().all(|address| address.ip().is_loopback()) && adopted.is_empty();
    let nobody = args.secret.is_none()
        && args.settings.is_none()
        && args.authority.is_none()
        && args.allow.is_empty()
        && args.credential.is_none();
    let mut allow = args.allow.clone();
    if only_here && nobody {
        allow.extend([network("127.0.0.0/8"), network("::1/128")].into_iter().flatten());
    }
    let defaults = NodeConfig::default();
    NodeConfig {
        listen,
        adopted,
        access_log: args.access_log.clone(),
        relays: relays.collect(),
        name: args.name.clone(),
        reached_by: args.reached_by.clone(),
        secret: args.secret.clone(),
        credential: args.credential.clone(),
        certificate: args.certificate.clone().zip(args.certificate_key.clone()),
        authority: args.authority.clone(),
        protection: args.links.map(LinkKind::protection),
        metrics: args.metrics,
        congestion: args.congestion.clone(),
        paced: args.paced,
        most_buffer: args.buffer.unwrap_or(defaults.most_buffer),
        rate: args.rate,
        all_buffers: args.all_buffers,
        most_sessions: args.sessions,
        stores: args.allow_store,
        all_stored: args.all_stored,
        idle: args.idle,
        gone_after: args.gone_after,
        moves_within: args.move_within,
        window: args.window,
        drain: args.drain,
        threads: args.threads,
        confinement: args.confine.confinement(),
        settings: args.settings.clone(),
        more: Settings {
            allow,
            allow_destinations: args.allow_destination.clone(),
            proxies: args.proxy_from.clone(),
            ..Settings::default()
        },
        ..defaults
    }
}

/// Tells the node what the process is told.
fn follow_signals(node: NodeHandle, read_again: impl Fn() -> Result<()> + Send + 'static) -> Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut stop, mut interrupt, mut reload) = {
        let _within = runtime.enter();
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?, signal(SignalKind::hangup())?)
    };
    let follow = async move {
        loop {
            tokio::select! {
                _ = stop.recv() => break,
                _ = interrupt.recv() => break,
                _ = reload.recv() => match read_again() {
                    Ok(()) => report!("the settings were read again"),
                    Err(error) => report!("the settings stay as they are: {error}"),
                },
            }
        }
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
        node.stop();
        // Whoever is impatient says it again.
        tokio::select! {
            _ = stop.recv() => {}
            _ = interrupt.recv() => {}
        }
        std::process::exit(1);
    };
    thread::Builder::new().name("signals".into()).spawn(move || runtime.block_on(follow))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_has_two_ends() {
        let way: Forward = "[::]:7001=server:5201".parse().unwrap();
        assert_eq!((way.listen, way.to.to_string().as_str()), ("[::]:7001".parse().unwrap(), "server:5201"));
        for wrong in
            ["7001", "7001=server:5201", "0.0.0.0:7001=server", "0.0.0.0:7001=:80", "0.0.0.0:7001=a:b"]
        {
            let error = wrong.parse::<Forward>().unwrap_err();
            assert!(error.contains("0.0.0.0:7001=server:5201"), "{error}");
        }
    }
}
