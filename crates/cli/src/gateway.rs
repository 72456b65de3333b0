//! `shorthaul gateway`: run the transparent gateway on this host.
use crate::confine::ConfineArgs;
use crate::ending::{Asked, in_one_line, report};
use crate::service::ServiceManager;
use anyhow::Context;
use shorthaul_congestion::Algorithm;
use shorthaul_dataplane::{
    Attach, Config, ConfigError, Giving, Name, Notice, Priority, check_gateway, keep, number_of_workers,
    remove_remains, routing_table, run_forwarder, run_gateway,
};
use shorthaul_os::confine::Confined;
use shorthaul_proxy::{AggregateConfig, Clamp, GatewayMode};
use shorthaul_relay::discovery::{
    AnsweringConfig, AnsweringSockets, Identity, Keyring, Load, ResponderConfig,
};
use shorthaul_tcp::Discrimination;
use std::cell::RefCell;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Split the TCP connections that pass through this host, until told to stop
///
/// SIGTERM or Ctrl-C steps out: what is held is delivered, and every connection goes on directly.
/// SIGHUP reads the configuration file again. After a crash the next one goes on with every connection; --take-over
/// does that with a gateway that runs.
/// Needs CAP_NET_ADMIN and /dev/net/tun, and IP forwarding switched on; CAP_BPF for programs
/// at interfaces (--bridge, which needs no forwarding, and --attach interface).
#[derive(clap::Args)]
pub struct Args {
    /// A configuration file; flags override it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// An interface toward the bad link (repeat for several)
    #[arg(long, value_name = "IF", alias = "edge")]
    access: Vec<String>,
    /// An interface toward the rest of the world (repeat for several)
    #[arg(long, value_name = "IF")]
    wan: Vec<String>,
    /// Instead of these two: join two Ethernet interfaces, the first toward the bad link, with no address and no route to change. Without
    /// the gateway, everything passes between them
    #[arg(long, value_name = "IF,IF", value_parser = bridge, conflicts_with_all = ["access", "wan"])]
    bridge: Option<[String; 2]>,
    /// How packets come to it: `interface`, by programs at the access interfaces, before the host's firewall and routes see them; `rules`,
    /// by routing rules. Without, the latter, and the former where address translation, a firewall or other rules do not go with these
    #[arg(long, value_name = "interface|rules", value_parser = attach, conflicts_with = "bridge")]
    attach: Option<Attach>,
    /// A name, where several gateways run on one host
    #[arg(long)]
    name: Option<Name>,
    #[arg(long, value_name = "NAME", help = congestion_help())]
    congestion: Option<Algorithm>,
    /// What tells the meaning of losses toward the access side: none or one-sided-probing, which waits a bad
    /// phase out and resumes when the link is back
    #[arg(long, value_name = "NAME", alias = "arbiter")]
    discriminator: Option<Discrimination>,
    /// Segments that a flow may send toward the access side before it has heard anything back. The default
    /// of 10 suits unknown paths; a link of your own may take more
    #[arg(long, value_name = "SEGMENTS", value_parser = clap::value_parser!(u32).range(windows()))]
    initial_window: Option<u32>,
    #[arg(long, value_name = "POLICY", help = senders_help())]
    senders: Option<String>,
    /// The bandwidth of the emulated links of path-tail, such as "1 Mbit/s"
    #[arg(long, value_name = "RATE")]
    bandwidth: Option<shorthaul_types::BitRate>,
    /// A file that a radio controller writes bandwidths to; it is read again whenever it changes
    #[arg(long, value_name = "FILE")]
    bandwidth_file: Option<PathBuf>,
    /// `auto` finds out which side binds, and holds that; `split` leaves each connection by itself. `auto` is the default, unless
    /// --senders or --congestion are given, which are for connections each by itself
    #[arg(long, value_name = "auto|split")]
    mode: Option<GatewayMode>,
    /// The window that the connections to each host on the access side share in mode `auto`: `auto`, or a size such as "10 kB"
    #[arg(long, value_name = "auto|SIZE")]
    aggregate: Option<Clamp>,
    /// The share of flows that are observed instead of split, to find out whether splitting pays: 0.02 in mode `auto` unless
    /// given, at most 0.5; 0 compares nothing. `shorthaul gain` shows what was found
    #[arg(long, value_name = "SHARE")]
    control_group: Option<f64>,
    /// Serve metrics (/metrics) and a page that shows what it does (/) at a loopback address; 127.0.0.1:7090 if none is given
    #[arg(long, value_parser = shorthaul_types::parse_socket_address, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:7090")]
    metrics: Option<SocketAddr>,
    /// How promptly it is run while others keep the processors busy: real-time, high or normal
    #[arg(long, value_name = "PRIORITY")]
    priority: Option<Priority>,
    /// Event loops, each with a thread of its own and its part of the hosts on the access side: 1 unless given, at most 64
    #[arg(long, value_name = "NUMBER", value_parser = workers)]
    workers: Option<usize>,
    /// Where the control socket and the crash journal are
    #[arg(long, value_name = "DIR")]
    run_dir: Option<PathBuf>,
    /// How long to wait for what is held when told to stop, such as "30 s"
    #[arg(long, value_name = "TIME", value_parser = shorthaul_types::parse_duration)]
    drain_timeout: Option<Duration>,
    /// The first of the two routing tables to use, and the priority of the rules
    #[arg(long, value_name = "NUMBER", value_parser = table)]
    table: Option<u32>,
    /// Record all packets to a pcapng file, for Wireshark and for `shorthaul replay`
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Answer the probes of `shorthaul discover` that pass, as a member of the network with this secret, which is read again at
    /// SIGHUP: clients then know that the direct way is split here. Needs CAP_NET_RAW
    #[arg(long, value_name = "FILE", conflicts_with = "forward_only")]
    answer_probes: Option<PathBuf>,
    /// Forward every packet as it is, without splitting: the baseline of measurements
    #[arg(long)]
    forward_only: bool,
    /// Go on in the place of the gateway of this name that runs, which ends: with its devices, routes and connections, and without a
    /// packet lost. For an upgrade, or for a configuration that cannot be read again
    #[arg(long, conflicts_with = "forward_only")]
    take_over: bool,
    #[command(flatten)]
    confine: ConfineArgs,
    /// Say what it would do to this host, whether it could start, and do nothing
    #[arg(long, conflicts_with_all = ["take_over", "forward_only"])]
    check: bool,
    /// Remove the rules and files that a gateway with this configuration has left, if it is gone
    #[arg(long, conflicts_with_all = ["check", "take_over", "forward_only"])]
    remove: bool,
    /// Keep the routing rules of the gateway that starts this, to take them back when it is gone
    #[arg(long, hide = true, exclusive = true, value_name = "ESTATE")]
    keeper: Option<String>,
    /// Print the JSON schema of configuration files, for editors, and do nothing else
    #[arg(long, exclusive = true)]
    schema: bool,
}

/// Beyond its `drain_timeout` a gateway ends in less than this.
const ENDING: Duration = Duration::from_secs(15);

/// First windows that make sense, for the parser.
fn windows() -> std::ops::RangeInclusive<i64> {
    let windows = shorthaul_tcp::SenderProfile::INITIAL_WINDOWS;
    i64::from(*windows.start())..=i64::from(*windows.end())
}

/// The help of `--congestion`, with all that is registered.
fn congestion_help() -> String {
    let names: Vec<&str> = Algorithm::NAMED.iter().map(|algorithm| algorithm.name()).collect();
    format!("Congestion control for both legs: {}, or a fixed window such as `fixed:64kB`", names.join(", "))
}

/// The help of `--senders`, with all that is registered.
fn senders_help() -> String {
    let policies: Vec<&str> = shorthaul_proxy::SenderSpec::policies().collect();
    format!(
        "How senders in the wide area network are kept to the access side's rate: {}; docs/gateway.md (of a package: in /usr/share/doc/shorthaul) has their parameters",
        policies.join(", ")
    )
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<()> {
    if args.schema {
        println!("{}", serde_json::to_string_pretty(&Config::schema())?);
        return Ok(());
    }
    if let Some(estate) = &args.keeper {
        return keep(estate).context("keeping routing rules is for gateways to ask");
    }
    let config = args.config()?;
    let processors = std::thread::available_parallelism().map_or(usize::MAX, usize::from);
    if let Some(note) = config.idle_workers(processors).filter(|_| !args.remove) {
        report!("{note}");
    }
    if args.check {
        for line in check_gateway(&config).context("the gateway could not run")? {
            println!("{line}");
        }
        return Ok(());
    }
    if args.remove {
        let removed = remove_remains(&config).context("nothing was removed")?;
        for line in &removed {
            println!("removed: {line}");
        }
        if removed.is_empty() {
            let of = match config.bridge {
                Some(_) => "a bridge".to_owned(),
                None => format!("table {}", config.table),
            };
            println!("nothing was left of a gateway `{}` with {of}", config.name);
        }
        return Ok(());
    }
    if config.bridge.is_some() && args.answer_probes.is_some() {
        let why = "--answer-probes answers from addresses of this host, and a bridge has none: leave it out, or run `shorthaul respond` on a \
                   host that has";
        return Err(Asked(why.into()).into());
    }
    let mut probes = args.answer_probes.as_deref().map(|key| answer_probes(key, &config)).transpose()?;
    // Between what begins to answer and what gives it other keys, both on this thread.
    let answering = RefCell::new(None);
    let what = if args.forward_only { "forwarding" } else { "splitting" };
    let [access, wan] = config.interfaces();
    let ready = format!("ready: {what} between {} and {}", access.join(", "), wan.join(", "));
    // Nobody may listen any more. That is no reason to stop.
    // A gateway's packets wait for one round of its loop: microseconds.
    let load = Load {
        service_time: Duration::ZERO,
        buffer: config.memory.per_flow().0,
        sessions: 0,
        capacity: None,
        overloaded: false,
    };
    let manager = ServiceManager::reach();
    let notify = |notice| match notice {
        Notice::Ready => {
            manager.tell("READY=1");
            // With no more privileges than the gateway has by now.
            match probes.take().map(|sockets| sockets.answer(move || load)).transpose() {
                Ok(begun) => *answering.borrow_mut() = begun,
                Err(error) => drop(writeln!(std::io::stderr(), "probes are not answered: {error}")),
            }
            let mut out = std::io::stdout();
            let _ = writeln!(out, "{ready}").and_then(|()| out.flush());
        }
        Notice::Confined(Confined { capabilities: true, files: true, calls: true, .. }) => {}
        other => {
            if let Notice::Draining { at_most, .. } = other {
                // What is reset then takes some rounds, and journals are removed.
                let extended = at_most.saturating_add(ENDING).as_micros();
                manager.tell(&format!("STOPPING=1\nEXTEND_TIMEOUT_USEC={extended}"));
            }
            let _ = writeln!(std::io::stderr(), "{}", in_one_line(&other.to_string()));
        }
    };
    let mut read_again = || {
        if let (Some(file), Some(answering)) = (&args.answer_probes, &*answering.borrow()) {
            match Keyring::read(file) {
                Ok(keys) => answering.set_keys(keys),
                Err(error) => drop(writeln!(std::io::stderr(), "probes are answered as before: {error}")),
            }
        }
        let reads = args.config.is_some() || args.answer_probes.is_some();
        reads.then(|| args.config())
    };
    let giving = args.giving(&config);
    let ran = if args.forward_only {
        run_forwarder(&config, &giving, notify)
    } else {
        run_gateway(&config, &giving, &mut read_again, args.take_over, notify)
    };
    ran.context("the gateway cannot run")
}

/// A routing table that can be ours.
fn table(text: &str) -> Result<u32, String> {
    let number = text.parse().map_err(|_| "write a number from 256 to 32764, such as 7001".to_owned())?;
    routing_table(number)
}

/// How packets come to it.
fn attach(text: &str) -> Result<Attach, String> {
    match text {
        "interface" => Ok(Attach::Interface),
        "rules" => Ok(Attach::Rules),
        other => Err(format!("`{other}` is no way for packets: write `interface` or `rules`")),
    }
}

/// Two interfaces.
fn bridge(text: &str) -> Result<[String; 2], String> {
    let names: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
    let is_named = names.iter().all(|name| !name.is_empty());
    names.try_into().ok().filter(|_| is_named).ok_or_else(|| {
        "write the interface toward the bad link, a comma, and the one toward the rest of the world: eth0,eth1".into()
    })
}

/// How many workers there can be.
fn workers(text: &str) -> Result<usize, String> {
    let number =
        text.parse().map_err(|_| "write a number from 1 to 64, at most that of processors".to_owned())?;
    number_of_workers(number)
}

impl Args {
    /// What is given up once all is set up.
    fn giving(&self, config: &Config) -> Giving {
        // A file that is replaced is another one: its directory is what is read.
        let directory = |path: &PathBuf| match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        let files = self.config.iter().chain(&config.bandwidth_file).chain(&self.answer_probes);
        Giving {
            confinement: self.confine.confinement(),
            readable: files.map(directory).collect(),
            opens_sockets: self.answer_probes.is_some(),
        }
    }

    /// The configuration file, and what flags say instead.
    fn config(&self) -> Result<Config, ConfigError> {
        let mut config = match &self.config {
            Some(path) => Config::read(path)?,
            None => Config::default(),
        };
        if !self.access.is_empty() {
            config.access.clone_from(&self.access);
        }
        if !self.wan.is_empty() {
            config.wan.clone_from(&self.wan);
        }
        config.attach = self.attach.or(config.attach);
        config.bridge = self.bridge.clone().or(config.bridge);
        if let Some(congestion) = self.congestion {
            config.to_access.sender.congestion = Some(congestion);
            config.to_wan.sender.congestion = Some(congestion);
        }
        let to_access = &mut config.to_access.sender;
        to_access.discriminator = self.discriminator.or(to_access.discriminator);
        to_access.initial_window = self.initial_window.or(to_access.initial_window);
        if let Some(clamp) = self.aggregate {
            let usual = config.aggregate.take().unwrap_or_else(AggregateConfig::default);
            config.aggregate = Some(AggregateConfig { clamp, ..usual });
        }
        config.mode = self.mode.or(config.mode);
        config.control_group = self.control_group.or(config.control_group);
        config.senders.policy = self.senders.clone().or(config.senders.policy);
        if let Some(bandwidth) = self.bandwidth {
            config.senders.set("bandwidth", bandwidth);
        }
        config.bandwidth_file = self.bandwidth_file.clone().or(config.bandwidth_file);
        config.metrics = self.metrics.or(config.metrics);
        config.name = self.name.clone().unwrap_or(config.name);
        config.priority = self.priority.unwrap_or(config.priority);
        config.workers = self.workers.unwrap_or(config.workers);
        config.run_dir = self.run_dir.clone().unwrap_or(config.run_dir);
        config.drain_timeout = self.drain_timeout.unwrap_or(config.drain_timeout);
        config.table = self.table.unwrap_or(config.table);
        config.record = self.record.clone().or(config.record);
        // A recording says what it was.
        config.mode = Some(config.policies().mode());
        Ok(config)
    }
}

/// What answers what passes, beside the gateway and not through it: were this to fail, no packet would be lost.
fn answer_probes(key: &Path, config: &Config) -> anyhow::Result<AnsweringSockets> {
    let gateway = Identity::gateway(&config.name.to_string());
    let responder = ResponderConfig::new(Keyring::read(key)?, Some(gateway));
    Ok(AnsweringSockets::bind(AnsweringConfig::new(responder, true))?)
}
