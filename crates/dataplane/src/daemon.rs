//! A gateway from its start to its end: what it asks the host for, its workers, and who goes on in its place.
use crate::activation::Activated;
use crate::control::{ControlSocket, control_path};
use crate::crew::{Crew, Maker, Outfit, Place, last_rounds};
use crate::daemon_error::{DaemonError, file, in_run_dir, system};
use crate::desk::{Controlled, Desk};
use crate::exchange::Exchange;
use crate::journal_files::{self, JournalFiles};
use crate::keeper::{Estate, Keeper};
use crate::leading::Leading;
use crate::notice::Notice;
use crate::preflight::{check_host, larger_mtus, lock, on_this_host};
use crate::priority::Standing;
use crate::rounds::{Ended, Whole, work};
use crate::take_over::{self, Alive, HandedOver};
use crate::{Config, ConfigError, Former, Forwarder, Interception, Journal, Recorder, Session, Steering};
use shorthaul_monitor::{About, Pages};
use shorthaul_os::bpf::Program;
use shorthaul_os::clock::sharpen_timers;
use shorthaul_os::confine::{Confinement, Needs, Sockets};
use shorthaul_os::limits::handed_over;
use shorthaul_os::signals::Signals;
use shorthaul_os::{Buffers, Tun, monotonic};
use shorthaul_proxy::{Gateway, Inherited};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
    mut notify: impl FnMut(Notice),
) -> Result<(), DaemonError> {
    let hash_seed = RandomState::new().hash_one(0);
    let written = config;
    let config = on_this_host(written)?;
    larger_mtus(written, &config).into_iter().map(Notice::LargerMtu).for_each(&mut notify);
    let session = Session::gateway(&config, hash_seed)?;
    let make: Arc<Maker<Gateway>> = Arc::new(move || Ok(Gateway::new(config.gateway(hash_seed)?)));
    run(&session, &make, giving, read_again, take_over, notify)
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
    let make: Arc<Maker<Forwarder>> = Arc::new(|| Ok(Forwarder::default()));
    run(&Session::forwarder(config)?, &make, giving, &mut || None, false, notify)
}

fn run<M: Controlled + 'static>(
    session: &Session,
    make: &Arc<Maker<M>>,
    giving: &Giving,
    read_again: &mut ReadAgain<'_>,
    take_over: bool,
    mut notify: impl FnMut(Notice),
) -> Result<(), DaemonError> {
    let config = &session.config;
    let workers = config.workers;
    check_host(config)?;
    let signals = Signals::take_over().map_err(system("taking over signals"))?;
    sharpen_timers();
    let interception = Interception::chosen(config, take_over)?;
    let steering = Arc::new(Steering::of(&config.gateway(session.hash_seed)?, workers));
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
        Some(_) => Estate { socket: None, ..Estate::of(config, &interception) },
        None => Estate::of(config, &interception),
    };
    let mut keeper = Keeper::start(&estate).map_err(system("starting the keeper of the routing rules"))?;
    let own = match take_over {
        true => None,
        false => {
            let [access, wan] = &interception.devices;
            let queues = create_devices(access, workers)?.into_iter().zip(create_devices(wan, workers)?);
            Some((queues.map(<[Tun; 2]>::from).collect::<Vec<_>>(), lock(config)?))
        }
    };
    let programs = match workers {
        1 => None,
        _ => Some([Gateway::ACCESS, Gateway::WAN].map(|port| Program::load(&steering.program(port)))),
    };
    let beside = if take_over { socket.with_extension("sock.new") } else { socket.clone() };
    let (mut control, desks) = match activated.control {
        Some(listener) => ControlSocket::adopt(listener, workers),
        None => ControlSocket::bind(beside.clone(), workers),
    }
    .map_err(in_run_dir(beside))?;
    let pages = match (activated.pages, config.metrics) {
        (Some(listener), _) => Some(Pages::adopt(listener)?),
        (None, address) => address.map(|address| Pages::bind(address, take_over)).transpose()?,
    };
    let mut recorders =
        (0..workers).map(|number| recorder(session, number)).collect::<Result<Vec<_>, _>>()?;
    // What a crash left is read when nothing but the kernel's refusal of a route can keep us from
    // seeing to it.
    let files = JournalFiles::find(config).map_err(in_run_dir(config.run_dir.clone()))?;
    let formers = match session.forward_only {
        true => Vec::new(),
        false => files.present().map(|path| former(path)).collect::<Result<Vec<_>, _>>()?,
    };
    for (_, path) in formers.iter().zip(files.present()).filter(|(former, _)| former.is_of_another_version())
    {
        if take_over {
            let why =
                format!("`{}` was written by a version with another format: end it first", path.display());
            return Err(not_taken(config)(io::Error::other(why)));
        }
        notify(Notice::OtherVersion { file: path.clone() });
    }
    let keeps = config.custody && !session.forward_only;
    let paths = files.next(workers);
    let mut journals = (0..workers).map(|_| None).collect::<Vec<Option<Journal>>>();
    for (journal, path) in journals.iter_mut().zip(&paths).filter(|_| keeps) {
        let share = config.share();
        let created = Journal::create(path, share.max_flows, share.total, monotonic());
        journal.insert(created.map_err(in_run_dir(path.clone()))?).make_room(0);
    }
    let mut leading = Leading::install(config, &interception, take_over)?;
    leading.notices(&interception).into_iter().for_each(&mut notify);
    if !take_over {
        own_rules(&mut keeper)?;
    }
    // With the privileges that it takes, and not before: whoever has the packets comes first while another prepares itself.
    let (mut standing, granted) = Standing::ask(monotonic(), config.priority, workers > 1);
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
    let (Place { mut desk, exchange, .. }, others) = places(&steering, desks, &standing)?;
    let mut crew = Crew::start(others, make, &desk.waker())?;
    standing.has_started();
    leading.begin().map_err(system("starting a thread"))?;
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
    for recorder in recorders.iter_mut().flatten() {
        recorder.begin().map_err(system("starting a thread"))?;
    }
    let mut former = Formers::of(formers, &journals);
    let handed_over = match running {
        Some(running) => {
            // A keeper leaves the rules alone as long as another has the lock.
            if let Err(error) = own_rules(&mut keeper) {
                notify(Notice::NoKeeper { why: error.to_string() });
            }
            let _ = (0..PASSES).find(|_| former.copy_ahead(&Alive::default()) < LITTLE);
            standing.begin(monotonic());
            let handed_over = take_over::ask(running, &interception, workers).map_err(|error| {
                let _ = keeper.leave();
                not_taken(config)(error)
            })?;
            Some(handed_over)
        }
        None => None,
    };
    let alive = handed_over.as_ref().map(|handed_over| handed_over.alive.clone()).unwrap_or_default();
    let mut left = former.left(&alive);
    let (devices, lock, predecessor) = match (handed_over, own) {
        (Some(HandedOver { devices, lock, stream, claim, mut lasts, .. }), _) => {
            // The running one has one file for each worker, which are the latest that are there.
            let first = left.len().saturating_sub(lasts.len());
            left[first..].iter_mut().zip(&mut lasts).for_each(|(left, last)| last.complete(left));
            let stopped = lasts.iter().map(|last| last.stopped).min().unwrap_or_default();
            (devices, lock, Some((stream, claim, stopped)))
        }
        (None, Some((devices, lock))) => (devices, lock, None),
        (None, None) => return Err(not_taken(config)(io::Error::other("it handed over nothing"))),
    };
    alive.say();
    let left = distribute(left, &steering, &alive);
    let mut outfits = devices.into_iter().zip(journals).zip(recorders).zip(left).map(
        |(((devices, journal), recorder), left)| Outfit {
            devices,
            journal,
            recorder,
            left,
            alive: alive.clone(),
        },
    );
    let own = outfits.next().ok_or_else(|| not_taken(config)(io::Error::other("it has no devices")))?;
    crew.prepare(outfits.collect())?;
    let mut event_loop = own.event_loop(make()?, standing, exchange).losing(leading.lost());
    // Up to here all is as if this process had never been, and from here on as if the former one had ended.
    if let Some((_, Some(claim), _)) = &predecessor
        && !claim.take()
    {
        let _ = keeper.leave();
        crew.leave();
        return Err(not_taken(config)(take_over::given_up()));
    }
    if let Some(programs) = programs
        && let Err(error) = steer(Some(event_loop.devices()), programs)
    {
        notify(Notice::SortedHere { why: error.to_string() });
    }
    event_loop.put_journal_in_place().map_err(in_run_dir(paths[0].clone()))?;
    crew.keep()?;
    // What they say is over, or stands in the files of this process.
    let former_files = files.present().filter(|path| !keeps || !paths.contains(path));
    if !session.forward_only {
        journal_files::remove(former_files).map_err(in_run_dir(config.run_dir.clone()))?;
    }
    if let Some((stream, _, stopped)) = predecessor {
        control.put_in_place(socket.clone()).map_err(in_run_dir(socket))?;
        leading.own();
        // It may be gone by now. Then all the more we go on.
        let _ = take_over::say_taken(&stream);
        event_loop.note_standstill(stopped);
    }
    event_loop.begin();
    crew.begin();
    notify(Notice::Ready);
    loop {
        let whole =
            Whole { session, signals: &signals, desk: &mut desk, crew: &crew, vanished: leading.vanished() };
        let (stream, claims) = match work(whole, &mut event_loop, read_again, &mut notify) {
            Ok(Ended::AskedFor(stream, claims)) => (stream, claims),
            Ok(Ended::Over) => break,
            Err(error) => {
                // As in a crash, what is held stays where the next one finds it: whatever is taken apart in order gives its buffers back.
                std::mem::forget((event_loop, crew));
                return Err(error);
            }
        };
        let (mut lasts, others) = crew.stop()?;
        lasts.insert(0, event_loop.hand_over());
        let devices: Vec<&[Tun; 2]> = [event_loop.devices()].into_iter().chain(others).collect();
        match take_over::hand_over((&stream, claims), &interception, &devices, &lasts, &lock) {
            Ok(()) => {
                // What is left to do here is nothing that packets wait for.
                event_loop.end();
                notify(Notice::TakenOver);
                let _ = keeper.leave();
                leading.leave();
                control.leave();
                crew.leave();
                return Ok(());
            }
            Err(error) => {
                crew.go_on();
                notify(Notice::NotTakenOver { error });
            }
        }
    }
    // Who is confined may not; who is not can, should the keeper be gone.
    let _ = keeper.remove_rules();
    leading.end();
    let others_owe_nothing = crew.end();
    last_rounds(&mut event_loop, &desk);
    // Otherwise the next one has to see to it.
    if !session.forward_only && others_owe_nothing && event_loop.machine().owes_nothing() {
        let _ = journal_files::remove(&paths);
    }
    Ok(())
}

/// The keeper takes the rules back from now on. It may just have been started, and not run yet.
fn own_rules(keeper: &mut Keeper) -> Result<(), DaemonError> {
    keeper.own().map_err(system("telling the keeper of the routing rules"))
}

/// The first worker's place, and those of the others.
fn places(
    steering: &Arc<Steering>,
    desks: Vec<Desk>,
    standing: &Standing,
) -> Result<(Place, Vec<Place>), DaemonError> {
    let exchanges: Vec<Option<Exchange>> = match desks.len() {
        1 => vec![None],
        _ => {
            let wakers = desks.iter().map(Desk::waker).collect();
            Exchange::among(steering, wakers).into_iter().map(Some).collect()
        }
    };
    let places = desks.into_iter().zip(exchanges);
    let mut places = places.map(|(desk, exchange)| Place { desk, exchange, standing: standing.clone() });
    let nobody = || system("making a worker")(io::Error::other("there is none"));
    let first = places.next().ok_or_else(nobody)?;
    Ok((first, places.collect()))
}

/// Has the kernel lead packets to the queues of their workers.
fn steer(queues: Option<&[Tun; 2]>, programs: [io::Result<Program>; 2]) -> io::Result<()> {
    let devices = queues.into_iter().flatten();
    devices.zip(programs).try_for_each(|(device, program)| device.steer_by(&program?))
}

/// What predecessors have left: one file a worker of theirs.
struct Formers {
    all: Vec<Former>,
    /// Where what is held is copied to, if the hosts of a file are all one worker's.
    into: Vec<Option<Buffers>>,
}

impl Formers {
    fn of(all: Vec<Former>, journals: &[Option<Journal>]) -> Self {
        let is_alike = all.len() == journals.len();
        let buffers = |journal: &Option<Journal>| journal.as_ref().filter(|_| is_alike).map(Journal::buffers);
        let into = journals.iter().map(buffers).chain(std::iter::repeat(None)).take(all.len()).collect();
        Formers { all, into }
    }

    fn copy_ahead(&mut self, alive: &Alive) -> usize {
        let now = monotonic();
        let pairs = self.all.iter_mut().zip(&self.into);
        pairs.map(|(former, into)| former.copy_ahead(now, into.as_ref(), alive)).sum()
    }

    /// What each has left.
    fn left(self, alive: &Alive) -> Vec<Vec<Inherited>> {
        let now = monotonic();
        let pairs = self.all.into_iter().zip(self.into);
        pairs.map(|(former, into)| former.left(now, into.as_ref(), alive)).collect()
    }
}

/// What was left, by the workers that have its hosts now. What lies in another's journal is taken out of it.
fn distribute(left: Vec<Vec<Inherited>>, steering: &Steering, alive: &Alive) -> Vec<Vec<Inherited>> {
    let mut workers: Vec<Vec<Inherited>> = (0..steering.workers()).map(|_| Vec::new()).collect();
    for (from, flows) in left.into_iter().enumerate() {
        for flow in flows {
            alive.say();
            let key = flow.record.flow();
            let host = if flow.record.client_port() == Gateway::ACCESS { key.src } else { key.dst };
            let to = steering.of_host(host.ip());
            let moved = if to == from { None } else { Inherited::decode(&flow.encode()) };
            workers[to].push(moved.unwrap_or(flow));
        }
    }
    workers
}

/// What a worker is to record into: the file that is named, or one of several beside it.
fn recorder(session: &Session, worker: usize) -> Result<Option<Recorder>, DaemonError> {
    let Some(path) = &session.config.record else { return Ok(None) };
    let path = match session.config.workers {
        1 => path.clone(),
        _ => numbered(path, worker),
    };
    let recorder = Recorder::create(&path, session, monotonic()).map_err(file(path))?;
    Ok(Some(recorder))
}

/// `run-1.pcapng` of `run.pcapng`.
fn numbered(path: &Path, number: usize) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!("-{number}"));
    if let Some(ending) = path.extension() {
        name.push(".");
        name.push(ending);
    }
    path.with_file_name(name)
}

fn former(path: &Path) -> Result<Former, DaemonError> {
    Former::open(path).map_err(in_run_dir(path.to_owned()))
}

/// What is shown of a gateway with this configuration.
fn about(config: &Config) -> About {
    let written = config.policies();
    let [access, wan] = config.interfaces();
    let named = (1..=config.policy.len()).map(|number| format!("policy {number}"));
    About {
        name: config.name.to_string(),
        version: env!("CARGO_PKG_VERSION").into(),
        access,
        wan,
        policies: named.chain([format!("mode {}", written.mode())]).collect(),
        hosts: config.gateway(0).map(|gateway| gateway.hosts).unwrap_or_default(),
    }
}

/// The queues of a device: one for each worker.
fn create_devices(name: &str, workers: usize) -> Result<Vec<Tun>, DaemonError> {
    let created = match workers {
        1 => Tun::create(name).map(|device| vec![device]),
        _ => Tun::create_queues(name, workers),
    };
    created.map_err(|error| DaemonError::Device { name: name.into(), error })
}

fn not_taken(config: &Config) -> impl FnOnce(io::Error) -> DaemonError {
    let name = config.name.to_string();
    move |error| DaemonError::TakeOver { name, error }
}
