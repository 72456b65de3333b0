//! A gateway from its start to its end: what it asks the host for, its rounds, and who goes on in its place.
use crate::activation::Activated;
use crate::bandwidth::BandwidthFile;
use crate::control::{ControlSocket, Controlled, Told, control_path};
use crate::daemon_error::{DaemonError, file, system};
use crate::keeper::{Estate, Keeper};
use crate::notice::Notice;
use crate::preflight::{check_host, journal_path, lock, with_mtus};
use crate::priority::Standing;
use crate::reread::Reread;
use crate::take_over::{self, HandedOver};
use crate::{
    Config, ConfigError, EventLoop, Former, Forwarder, Interception, Journal, Recorder, Routes, Session,
};
use shorthaul_monitor::{About, Pages};
use shorthaul_os::clock::sharpen_timers;
use shorthaul_os::confine::{Confinement, Needs, Sockets};
use shorthaul_os::limits::handed_over;
use shorthaul_os::signals::{Asked, Signals};
use shorthaul_os::{Tun, monotonic};
use shorthaul_proxy::Gateway;
use shorthaul_types::Time;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What is held is copied again before the running gateway is asked, until it was no more than this since the last time, or that often.
const LITTLE: usize = 1 << 20;
const PASSES: usize = 4;

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
    let running = if take_over {
        let why = "what is taken over is what `custody` keeps: leave `custody = false` out, or end the one that runs";
        if !config.custody {
            return Err(ConfigError::Value { key: "custody", why: why.into() }.into());
        }
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
    let mut journal = if keeps { Some(create_journal()?) } else { None };
    journal.iter_mut().for_each(|journal| _ = journal.make_room(0));
    let mut routes = match take_over {
        true => Routes::handed_over(interception.clone())?,
        false => Routes::install(interception.clone())?,
    };
    if !take_over {
        own_rules(&mut keeper)?;
    }
    // With the privileges that it takes, and not before: whoever has the packets comes first while another prepares itself.
    let (mut standing, granted) = Standing::ask(monotonic(), config.priority);
    notify(Notice::Priority(granted));
    if take_over {
        standing.prepare();
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
                // What is left to do here is nothing that packets wait for.
                event_loop.end();
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
            if event_loop.machine().held_flows() == 0 {
                return Ok(Ended::Over);
            }
            if monotonic() >= end {
                notify(Notice::Abandoned { held_flows: event_loop.abandon() });
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

fn create_device(name: &str) -> Result<Tun, DaemonError> {
    Tun::create(name).map_err(|error| DaemonError::Device { name: name.into(), error })
}

fn not_taken(config: &Config) -> impl FnOnce(io::Error) -> DaemonError {
    let name = config.name.to_string();
    move |error| DaemonError::TakeOver { name, error }
}
