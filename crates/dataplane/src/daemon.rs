use crate::activation::Activated;
use crate::bandwidth::{BandwidthFile, BandwidthReport, ParseBandwidthError};
use crate::control::{ControlSocket, Controlled, Told, control_path};
use crate::keeper::{Estate, Keeper};
use crate::priority::{Granted, Standing};
use crate::reread::Reread;
use crate::routes::{RouteError, is_forwarding};
use crate::take_over::{self, HandedOver};
use crate::{
    Config, ConfigError, EventLoop, Former, Forwarder, Interception, Journal, Recorder, Routes, Session,
};
use shorthaul_monitor::{About, PageError, Pages};
use shorthaul_os::clock::sharpen_timers;
use shorthaul_os::confine::{ConfineError, Confined, Confinement, Needs, Sockets};
use shorthaul_os::files::open_privately;
use shorthaul_os::limits::handed_over;
use shorthaul_os::netlink::interfaces;
use shorthaul_os::signals::{Asked, Signals};
use shorthaul_os::{Errno, Tun, monotonic};
use shorthaul_proxy::Gateway;
use shorthaul_types::Time;
use std::fmt;
use std::fs::{File, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Why a gateway did not start, or had to end.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An interface is not there.
    #[error("there is no interface `{name}`; this host has {present}")]
    NoInterface {
        /// The one that was named.
        name: String,
        /// Those that are there.
        present: String,
    },
    /// The host does not pass packets on.
    #[error(
        "this host does not forward packets: run `sysctl -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1`"
    )]
    NotForwarding,
    /// There is one with this name.
    #[error("a gateway named `{name}` is running already: give this one another with --name")]
    Running {
        /// The name.
        name: String,
    },
    /// Another gateway splits what comes in by the same interface.
    #[error(
        "`{interface}` is another gateway's already: `{name}` splits what comes in there. End that one, or give this one other interfaces"
    )]
    InterfaceTaken {
        /// The interface.
        interface: String,
        /// The other gateway's name.
        name: String,
    },
    /// A device cannot be made.
    #[error("cannot make the device `{name}`: {error}{}", device_remedy(.error))]
    Device {
        /// The device.
        name: String,
        /// Why.
        error: io::Error,
    },
    /// Packets cannot be routed into the devices.
    #[error(transparent)]
    Routes(#[from] RouteError),
    /// Metrics and page cannot be served.
    #[error(transparent)]
    Pages(#[from] PageError),
    /// Privileges cannot be given up.
    #[error(transparent)]
    Confine(#[from] ConfineError),
    /// A file or socket of ours cannot be made.
    #[error("{path}: {error}{}", if error.kind() == io::ErrorKind::PermissionDenied { " (choose another directory with --run-dir)" } else { "" })]
    File {
        /// The path.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The running gateway cannot be taken over.
    #[error(
        "cannot take over the gateway `{name}`: {error}{}",
        if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) {
            " (none of that name runs with this --run-dir: leave out --take-over)"
        } else {
            ""
        }
    )]
    TakeOver {
        /// Its name.
        name: String,
        /// Why.
        error: io::Error,
    },
    /// The kernel refused something else.
    #[error("{what}: {error}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why.
        error: io::Error,
    },
}

/// What is held is copied again before the running gateway is asked, until it was no more than this since the last time, or that often.
const LITTLE: usize = 1 << 20;
const PASSES: usize = 4;
/// This long a keeper takes to clear up at most, on a busy machine.
const CLEARING: Duration = Duration::from_millis(500);

fn device_remedy(error: &io::Error) -> &'static str {
    match Errno::from_io_error(error) {
        Some(Errno::NOENT | Errno::NODEV | Errno::NXIO) => {
            " (/dev/net/tun is missing: run `modprobe tun`, or let the container have the device)"
        }
        Some(Errno::PERM | Errno::ACCESS) => {
            " (it takes the capability CAP_NET_ADMIN: run as root, or in a user and network namespace of your own)"
        }
        Some(Errno::BUSY) => " (another gateway has it: give this one another name with --name)",
        _ => "",
    }
}

/// What a running gateway has to say.
#[derive(Debug)]
pub enum Notice {
    /// How promptly it is run.
    Priority(Granted),
    /// What it has given up.
    Confined(Confined),
    /// Metrics and the page are served.
    Pages {
        /// Where.
        address: SocketAddr,
    },
    /// Packets are intercepted from now on.
    Ready,
    /// It was asked to end, and delivers first what it holds of this many flows.
    Draining {
        /// The flows.
        held_flows: usize,
    },
    /// The time for that is over: this many flows were reset at both ends.
    Abandoned {
        /// The flows.
        held_flows: usize,
    },
    /// The access side carries another bandwidth, from a file or the control socket.
    Bandwidth {
        /// What was said, or why it was not understood.
        said: Result<BandwidthReport, ParseBandwidthError>,
        /// Whether there is an emulated link that it is about.
        is_heeded: bool,
    },
    /// It was asked to read its configuration again, and goes on with that.
    Reread {
        /// The keys that changed.
        changed: Vec<String>,
        /// Those that were written differently and cannot change while it runs.
        fixed: Vec<String>,
    },
    /// It was asked to read its configuration again, and goes on with the one that it had.
    NotReread {
        /// Why.
        why: String,
    },
    /// Another process has taken over; this one ends.
    TakenOver,
    /// Another process wanted to take over, and did not.
    NotTakenOver {
        /// Why.
        error: io::Error,
    },
    /// Nobody takes its routing rules back when it is gone.
    NoKeeper {
        /// Why.
        why: String,
    },
    /// The run directory has no room: a crash from now on loses bytes.
    NotKept,
    /// Nothing more is recorded; the gateway goes on.
    RecordingEnded {
        /// Why.
        error: io::Error,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::Priority(granted) => granted.fmt(f),
            Notice::Confined(Confined { capabilities, files, calls, .. }) => {
                let kept: Vec<&str> =
                    [(capabilities, "capabilities"), (files, "files"), (calls, "system calls")]
                        .into_iter()
                        .filter_map(|(given, what)| (!given).then_some(what))
                        .collect();
                match kept.is_empty() {
                    true => f.write_str("confined: it has given up capabilities, files and system calls"),
                    false => write!(f, "not confined: it still has all {}", kept.join(", ")),
                }
            }
            Notice::Pages { address } => {
                write!(f, "page: http://{address}/, metrics: http://{address}/metrics")
            }
            Notice::Ready => f.write_str("ready"),
            Notice::Draining { held_flows } => {
                write!(f, "ending: delivering what is held of {held_flows} flows; once more to end at once")
            }
            Notice::Abandoned { held_flows } => {
                write!(f, "the drain timeout is over: {held_flows} flows with undelivered bytes were reset")
            }
            Notice::Bandwidth { said: Ok(report), is_heeded: true } => write!(f, "bandwidth: {report}"),
            Notice::Bandwidth { said: Ok(report), is_heeded: false } => {
                write!(f, "bandwidth: nothing here is `{report}` about; see `senders` in the configuration")
            }
            Notice::Bandwidth { said: Err(error), .. } => write!(f, "bandwidth: {error}"),
            Notice::Reread { changed, fixed } => {
                let changed = if changed.is_empty() { "nothing".into() } else { changed.join(", ") };
                write!(f, "configuration read again; changed: {changed}")?;
                if !fixed.is_empty() {
                    write!(f, "; as before until the gateway is started again: {}", fixed.join(", "))?;
                }
                Ok(())
            }
            Notice::NotReread { why } => {
                write!(f, "configuration read again and not taken, the gateway goes on as it was: {why}")
            }
            Notice::TakenOver => f.write_str("taken over: another process goes on with everything"),
            Notice::NotTakenOver { error } => {
                write!(f, "another process wanted to take over and did not, this one goes on: {error}")
            }
            Notice::NoKeeper { why } => {
                write!(f, "its routing rules stay if it is killed, and lead nowhere then: {why}")
            }
            Notice::NotKept => f.write_str(
                "the run directory has no room for what is held: were this process killed now, connections would lose bytes and be reset",
            ),
            Notice::RecordingEnded { error } => {
                write!(f, "recording ended, the gateway goes on without: {error}")
            }
        }
    }
}

impl Notice {
    /// What people are shown of it later, as an event.
    fn event(&self) -> Option<String> {
        match self {
            Notice::Priority(_) | Notice::Confined(_) | Notice::Pages { .. } => None,
            other => Some(other.to_string()),
        }
    }
}

/// What a gateway gives up once it is set up, and what it keeps.
#[derive(Clone, Debug, Default)]
pub struct Giving {
    /// What it gives up.
    pub confinement: Confinement,
    /// Files and directories that it reads later: where its configuration is, and reports of bandwidth.
    pub readable: Vec<PathBuf>,
    /// What runs beside it opens sockets: it answers probes.
    pub opens_sockets: bool,
}

/// Reads the configuration again; `None` where there is no file to read.
pub type ReadAgain<'a> = dyn FnMut() -> Option<Result<Config, ConfigError>> + 'a;

/// Runs a gateway until it is asked to end and has delivered what it holds, or until another takes over. On SIGHUP it takes what
/// `read_again` says. With `take_over` it goes on in the place of the one of its name that runs.
///
/// # Errors
/// Says what is missing and what to do.
pub fn run_gateway(
    config: &Config,
    giving: &Giving,
    read_again: &mut ReadAgain<'_>,
    take_over: bool,
    notify: impl FnMut(Notice),
) -> Result<(), DaemonError> {
    let hash_seed = RandomState::new().hash_one(0);
    let config = &with_mtus(config)?;
    let session = Session::gateway(config, hash_seed)?;
    run(&session, Gateway::new(config.gateway(hash_seed)?), giving, read_again, take_over, notify)
}

/// Forwards every packet as it is, until it is asked to end: what a gateway is measured against.
///
/// # Errors
/// Says what is missing and what to do.
pub fn run_forwarder(
    config: &Config,
    giving: &Giving,
    notify: impl FnMut(Notice),
) -> Result<(), DaemonError> {
    run(&Session::forwarder(config)?, Forwarder::default(), giving, &mut || None, false, notify)
}

fn run<M: Controlled>(
    session: &Session,
    machine: M,
    giving: &Giving,
    read_again: &mut ReadAgain<'_>,
    take_over: bool,
    mut notify: impl FnMut(Notice),
) -> Result<(), DaemonError> {
    let config = &session.config;
    check_host(config)?;
    let signals = Signals::take_over().map_err(system("taking over signals"))?;
    sharpen_timers();
    let interception = Interception::of(config);
    let journal_path = journal_path(config);
    let slots = config.memory.max_flows;
    let create_journal = || {
        let journal = Journal::create(&journal_path, slots, config.memory.total, monotonic());
        journal.map_err(file(journal_path.clone()))
    };
    // All that takes time comes before the running gateway is asked to stop: packets wait from then on.
    let (mut standing, granted) = Standing::ask(monotonic(), config.priority);
    notify(Notice::Priority(granted));
    let running = if take_over {
        let why = "what is taken over is what `custody` keeps: leave `custody = false` out, or end the one that runs";
        if !config.custody {
            return Err(ConfigError::Value { key: "custody", why: why.into() }.into());
        }
        standing.prepare();
        Some(take_over::connect(config).map_err(not_taken(config))?)
    } else {
        None
    };
    let socket = control_path(&config.run_dir, &config.name.to_string());
    let activated = Activated::of(handed_over());
    let estate = match activated.control {
        Some(_) => Estate { socket: None, ..Estate::of(config) },
        None => Estate::of(config),
    };
    let mut keeper = Keeper::start(&estate).map_err(system("starting the keeper of the routing rules"))?;
    let own = match take_over {
        true => None,
        false => {
            let [access, wan] = &interception.devices;
            Some(([create_device(access)?, create_device(wan)?], lock(config)?))
        }
    };
    let beside = if take_over { socket.with_extension("sock.new") } else { socket.clone() };
    let mut control = match activated.control {
        Some(listener) => ControlSocket::adopt(listener),
        None => ControlSocket::bind(beside.clone()),
    }
    .map_err(|error| DaemonError::File { path: beside, error })?;
    let pages = match (activated.pages, config.metrics) {
        (Some(listener), _) => Some(Pages::adopt(listener)?),
        (None, address) => address.map(|address| Pages::bind(address, take_over)).transpose()?,
    };
    let mut recorder = match &config.record {
        Some(path) => Some(Recorder::create(path, session, monotonic()).map_err(file(path.clone()))?),
        None => None,
    };
    // What a crash left is read when nothing but the kernel's refusal of a route can keep us from
    // seeing to it.
    let former = match session.forward_only {
        true => None,
        false => Some(Former::open(&journal_path).map_err(file(journal_path.clone()))?),
    };
    let keeps = config.custody && !session.forward_only;
    let journal = if keeps { Some(create_journal()?) } else { None };
    let mut routes = match take_over {
        true => Routes::handed_over(interception.clone())?,
        false => Routes::install(interception.clone())?,
    };
    if !take_over {
        own_rules(&mut keeper)?;
    }
    let confined = giving.confinement.apply(&Needs {
        readable: &giving.readable,
        writable: std::slice::from_ref(&config.run_dir),
        sockets: if giving.opens_sockets { Sockets::Any } else { Sockets::Netlink },
    })?;
    notify(Notice::Confined(confined));
    // Threads have given up what this one has.
    let monitor = control.listen(about(config), standing.is_first()).map_err(system("starting a thread"))?;
    if let (Some(pages), Some(monitor)) = (pages, &monitor) {
        let address = pages.address().map_err(system("asking for an address"))?;
        pages.serve(Arc::clone(monitor)).map_err(system("starting a thread"))?;
        notify(Notice::Pages { address });
    }
    let mut notify = |notice: Notice| {
        if let (Some(monitor), Some(what)) = (&monitor, notice.event()) {
            monitor.note(what);
        }
        notify(notice);
    };
    recorder.as_mut().map_or(Ok(()), Recorder::begin).map_err(system("starting a thread"))?;
    let buffers = journal.as_ref().map(Journal::buffers);
    let (mut handed_over, mut left) = match (running, former) {
        (Some(running), Some(mut former)) => {
            // A keeper leaves the rules alone as long as another has the lock.
            if let Err(error) = own_rules(&mut keeper) {
                notify(Notice::NoKeeper { why: error.to_string() });
            }
            let little = |copied: usize| copied < LITTLE;
            let _ = (0..PASSES).find(|_| little(former.copy_ahead(monotonic(), buffers.as_ref())));
            standing.begin(monotonic());
            let handed_over = take_over::ask(running, &interception).map_err(|error| {
                let _ = keeper.leave();
                journal.as_ref().map(Journal::discard);
                not_taken(config)(error)
            })?;
            (Some(handed_over), former.left(monotonic(), buffers.as_ref()))
        }
        (_, former) => {
            (None, former.map_or_else(Vec::new, |former| former.left(monotonic(), buffers.as_ref())))
        }
    };
    if let Some(handed_over) = &mut handed_over {
        handed_over.complete(&mut left);
    }
    let (devices, lock, predecessor) = match (handed_over, own) {
        (Some(HandedOver { devices, lock, stream, last }), _) => {
            (devices, lock, Some((stream, last.stopped)))
        }
        (None, Some((devices, lock))) => (devices, lock, None),
        (None, None) => return Err(not_taken(config)(io::Error::other("it handed over nothing"))),
    };
    let mut event_loop = EventLoop::new(devices, machine, journal, recorder).standing(standing);
    event_loop.adopt(&left);
    drop(left);
    event_loop.begin_journal().map_err(file(journal_path.clone()))?;
    if !config.custody && !session.forward_only {
        // What it says is over.
        let _ = std::fs::remove_file(&journal_path);
    }
    if let Some((stream, stopped)) = predecessor {
        control.put_in_place(socket.clone()).map_err(file(socket))?;
        routes.own();
        // It may be gone by now. Then all the more we go on.
        let _ = take_over::say_taken(&stream);
        event_loop.note_standstill(stopped);
    }
    event_loop.begin();
    notify(Notice::Ready);
    loop {
        let ended = work(session, &mut event_loop, (&signals, &mut control), read_again, &mut notify)?;
        let Ended::AskedFor(stream) = ended else { break };
        match take_over::hand_over(&stream, &interception, event_loop.hand_over(), &lock) {
            Ok(()) => {
                notify(Notice::TakenOver);
                let _ = keeper.leave();
                routes.leave();
                control.leave();
                return Ok(());
            }
            Err(error) => notify(Notice::NotTakenOver { error }),
        }
    }
    // Who is confined may not; who is not can, should the keeper be gone.
    let _ = keeper.remove_rules();
    drop(routes);
    // What was on its way to us still passes.
    loop {
        let before = event_loop.stats().packets_read;
        let round = event_loop.round([signals.as_fd(), control.as_fd()], Duration::ZERO);
        if round.is_err() || event_loop.stats().packets_read == before {
            break;
        }
    }
    // Otherwise the next one has to see to it.
    let machine = event_loop.machine();
    if !session.forward_only && machine.held_flows() == 0 && machine.inherited_flows() == 0 {
        let _ = std::fs::remove_file(journal_path);
    }
    Ok(())
}

/// The keeper takes the rules back from now on. It may just have been started, and not run yet.
fn own_rules(keeper: &mut Keeper) -> Result<(), DaemonError> {
    keeper.own().map_err(system("telling the keeper of the routing rules"))
}

/// Why there are no more rounds.
enum Ended {
    /// It was asked to end.
    Over,
    /// Another process wants to take over.
    AskedFor(UnixStream),
}

/// Does rounds until it was asked to end and nothing is held any more, or until it was asked twice; or until another wants to take
/// over.
fn work<M: Controlled>(
    session: &Session,
    event_loop: &mut EventLoop<M>,
    (signals, control): (&Signals, &mut ControlSocket),
    read_again: &mut ReadAgain<'_>,
    notify: &mut impl FnMut(Notice),
) -> Result<Ended, DaemonError> {
    const IDLE: Duration = Duration::from_secs(1);
    const DRAINING: Duration = Duration::from_millis(10);
    /// How often a file of bandwidths is looked at.
    const LOOK: Duration = Duration::from_millis(500);
    let mut config = session.config.clone();
    let mut bandwidth_file = config.bandwidth_file.clone().map(BandwidthFile::new);
    let mut look_at = Time::ZERO;
    let mut end: Option<Time> = None;
    let mut is_short = false;
    loop {
        let longest = if end.is_some() { DRAINING } else { IDLE };
        let others = [signals.as_fd(), control.as_fd()];
        let [signalled, asked] =
            event_loop.round(others, longest).map_err(system("reading from our own devices"))?;
        if let Some(error) = event_loop.take_recording_error() {
            notify(Notice::RecordingEnded { error });
        }
        let stats = event_loop.stats();
        if !is_short && stats.custody_bytes_without_room + stats.custody_records_without_room > 0 {
            is_short = true;
            notify(Notice::NotKept);
        }
        let told = if asked { control.answer(event_loop.machine(), event_loop.stats()) } else { None };
        let told = match told {
            Some(Told::TakeOver(stream)) if end.is_some() => {
                take_over::refuse(&stream, "it is ending: wait for that, and leave out --take-over");
                None
            }
            Some(Told::TakeOver(stream)) if !event_loop.has_journal() => {
                let why = "it keeps nothing that another could go on with (`custody = false`, or --forward-only): end it first";
                take_over::refuse(&stream, why);
                None
            }
            Some(Told::TakeOver(stream)) => return Ok(Ended::AskedFor(stream)),
            Some(Told::Bandwidth(report)) => Some(report),
            None => None,
        };
        let written = match &mut bandwidth_file {
            Some(file) if monotonic() >= look_at => {
                look_at = monotonic() + LOOK;
                file.poll()
            }
            _ => Vec::new(),
        };
        for said in written.into_iter().chain(told.map(Ok)) {
            let is_heeded = said.as_ref().is_ok_and(|report| event_loop.set_bandwidth(report));
            notify(Notice::Bandwidth { said, is_heeded });
        }
        while signalled && let Some(asked) = signals.arrived() {
            match asked {
                Asked::Reread => {
                    let former = config.bandwidth_file.clone();
                    notify(reread(&mut config, session.hash_seed, event_loop, read_again));
                    if config.bandwidth_file != former {
                        bandwidth_file = config.bandwidth_file.clone().map(BandwidthFile::new);
                    }
                }
                Asked::End if end.is_some() => return Ok(Ended::Over),
                Asked::End => {
                    notify(Notice::Draining { held_flows: event_loop.machine().held_flows() });
                    event_loop.drain();
                    end = Some(monotonic() + config.drain_timeout);
                }
            }
        }
        if let Some(end) = end {
            let held_flows = event_loop.machine().held_flows();
            if held_flows == 0 {
                return Ok(Ended::Over);
            }
            if monotonic() >= end {
                event_loop.abandon();
                notify(Notice::Abandoned { held_flows });
            }
        }
    }
}

/// Reads the configuration again and goes on with what can change of it.
fn reread<M: Controlled>(
    config: &mut Config,
    hash_seed: u64,
    event_loop: &mut EventLoop<M>,
    read_again: &mut ReadAgain<'_>,
) -> Notice {
    let taken = match read_again() {
        None => return Notice::NotReread { why: "it was started without a configuration file".into() },
        Some(read) => read.map_err(DaemonError::from).and_then(|read| {
            let Reread { config, changed, fixed } = Reread::of(config, with_mtus(&read)?)?;
            event_loop.reconfigure(&config, hash_seed)?;
            Ok((config, changed, fixed))
        }),
    };
    match taken {
        Err(error) => Notice::NotReread { why: error.to_string() },
        Ok((taken, changed, fixed)) => {
            *config = taken;
            Notice::Reread { changed, fixed }
        }
    }
}

/// What is shown of a gateway with this configuration.
fn about(config: &Config) -> About {
    let written = config.policies();
    let named = (1..=config.policy.len()).map(|number| format!("policy {number}"));
    About {
        name: config.name.to_string(),
        version: env!("CARGO_PKG_VERSION").into(),
        access: config.access.clone(),
        wan: config.wan.clone(),
        policies: named.chain([format!("mode {}", written.mode())]).collect(),
        hosts: config.gateway(0).map(|gateway| gateway.hosts).unwrap_or_default(),
    }
}

/// The configuration with the MTU of each leg filled in: the least of its interfaces'. The kernel
/// splits super-segments as we say, and drops what does not fit without our hearing of it.
fn with_mtus(config: &Config) -> Result<Config, DaemonError> {
    let present = interfaces().map_err(system("asking for the interfaces"))?;
    let mut config = config.clone();
    for (leg, names) in [(&mut config.to_access, &config.access), (&mut config.to_wan, &config.wan)] {
        // An interface that is not there is complained of later, with the names of those that are.
        let least =
            present.iter().filter(|interface| names.contains(&interface.0)).map(|(_, mtu)| *mtu).min();
        leg.mtu = leg.mtu.or(least.map(|mtu| mtu.clamp(576, 65_535)));
    }
    Ok(config)
}

/// What a gateway with this configuration would do to this host, line by line, and whether it could start.
///
/// # Errors
/// Why it could not.
pub fn check_gateway(config: &Config) -> Result<Vec<String>, DaemonError> {
    let config = &with_mtus(config)?;
    let machine = config.gateway(0)?;
    check_host(config)?;
    let Interception { devices, tables, priority, .. } = Interception::of(config);
    let mut lines = Vec::new();
    for (device, table) in devices.iter().zip(tables) {
        lines.push(format!("device {device}: a TUN device, with rp_filter = 2 and forwarding = 1"));
        lines.push(format!("table {table}: everything by {device}"));
    }
    for (interfaces, table) in [(&config.access, tables[0]), (&config.wan, tables[1])] {
        for interface in interfaces {
            lines.push(format!(
                "rules {}: from {interface}, TCP and ICMP (IPv4 and IPv6), look into table {table}",
                priority.0
            ));
        }
    }
    let kept = config.custody.then(|| journal_path(config));
    let files = [control_path(&config.run_dir, &config.name.to_string()), lock_path(config)];
    for path in files.into_iter().chain(kept) {
        lines.push(format!("file {}", path.display()));
    }
    if let Some(address) = config.metrics {
        drop(Pages::bind(address, false)?);
        lines.push(format!("http://{address}/ and /metrics, for this host alone"));
    }
    lines.push(format!(
        "memory: up to {} for {} flows, {} of each direction of one",
        machine.memory, machine.max_flows, machine.flow_buffer
    ));
    Ok(lines)
}

/// Undoes what a gateway with this configuration has left that is gone: rules and files. What it held of connections is lost with
/// them. Says what was there.
///
/// # Errors
/// It runs; or the kernel's.
pub fn remove_remains(config: &Config) -> Result<Vec<String>, DaemonError> {
    let mut removed = Vec::new();
    let socket = control_path(&config.run_dir, &config.name.to_string());
    let held = if config.run_dir.exists() { Some(lock(config)?) } else { None };
    removed.extend(crate::host::remove_rules(config).map_err(system("removing routing rules"))?);
    for path in [socket, journal_path(config), lock_path(config)] {
        match std::fs::remove_file(&path) {
            Ok(()) => removed.push(format!("file {}", path.display())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(DaemonError::File { path, error }),
        }
    }
    drop(held);
    // Whatever else is in there keeps it.
    if std::fs::remove_dir(&config.run_dir).is_ok() {
        removed.push(format!("directory {}", config.run_dir.display()));
    }
    Ok(removed)
}

fn check_host(config: &Config) -> Result<(), DaemonError> {
    let present = interfaces().map_err(system("asking for the interfaces"))?;
    let present: Vec<String> = present.into_iter().map(|(name, _)| name).collect();
    if let Some(name) = config.access.iter().chain(&config.wan).find(|name| !present.contains(name)) {
        return Err(DaemonError::NoInterface { name: name.clone(), present: present.join(", ") });
    }
    if !is_forwarding() {
        return Err(DaemonError::NotForwarding);
    }
    match crate::host::taken(config).map_err(system("asking for routing rules"))? {
        Some((interface, name)) => Err(DaemonError::InterfaceTaken { interface, name }),
        None => Ok(()),
    }
}

fn journal_path(config: &Config) -> PathBuf {
    config.run_dir.join(format!("{}.custody", config.name))
}

/// Keeps a second gateway of this name from taking our files. The lock goes with the process.
fn lock(config: &Config) -> Result<File, DaemonError> {
    std::fs::create_dir_all(&config.run_dir).map_err(file(config.run_dir.clone()))?;
    let path = lock_path(config);
    let lock = open_privately(&path).map_err(file(path.clone()))?;
    let give_up = monotonic() + CLEARING;
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(lock),
            // The keeper of one that is gone may be clearing up.
            Err(TryLockError::WouldBlock) if monotonic() < give_up => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(TryLockError::WouldBlock) => {
                return Err(DaemonError::Running { name: config.name.to_string() });
            }
            Err(TryLockError::Error(error)) => return Err(DaemonError::File { path, error }),
        }
    }
}

fn lock_path(config: &Config) -> PathBuf {
    config.run_dir.join(format!("{}.lock", config.name))
}

fn create_device(name: &str) -> Result<Tun, DaemonError> {
    Tun::create(name).map_err(|error| DaemonError::Device { name: name.into(), error })
}

fn not_taken(config: &Config) -> impl FnOnce(io::Error) -> DaemonError {
    let name = config.name.to_string();
    move |error| DaemonError::TakeOver { name, error }
}

fn file(path: PathBuf) -> impl FnOnce(io::Error) -> DaemonError {
    move |error| DaemonError::File { path, error }
}

fn system(what: &'static str) -> impl FnOnce(io::Error) -> DaemonError {
    move |error| DaemonError::System { what, error }
}
