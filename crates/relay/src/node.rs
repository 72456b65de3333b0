//! A node: it accepts sessions and takes them on.
mod accepting;
mod access;
mod admission;
mod asking;
mod config;
mod heir;
mod kept;
mod metrics;
mod own_names;
mod prepared;
mod processors;
mod refusals;
mod relaying;
mod session;
mod strangers;
mod tls;

pub use config::{NodeConfig, RelayConfig, Settings, SettingsError, User, network};
pub use metrics::{Counters, Snapshot, UserSnapshot, metrics_of_everything};
pub(crate) use session::{new_session, tell_others};

use crate::accept::Shortage;
use crate::authority::Role;
use crate::discovery::Allowed;
use crate::links::{
    Credentials, LinkError, LinkOptions, Links, NameService, Protection, keep_alive, size_buffer,
};
use crate::pump::{Spool, pipe};
use crate::secret::{Identity, NetworkSecret, SecretError};
use crate::seen::Seen;
use crate::socket::{is_for_ipv6_alone, remedy};
use crate::status::NodeStatus;
use crate::take_over::{Inherited, Listening};
use access::AccessLog;
use admission::Admission;
use heir::{Heir, Inheritance};
use kept::Kept;
use own_names::{names, own_addresses};
use prepared::Prepared;
use processors::Processors;
use refusals::Refusals;
use shorthaul_os::confine::{ConfineError, Confined, Needs, Sockets};
use shorthaul_os::{limits, schedule};
use shorthaul_types::Bytes;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};
use strangers::Strangers;
use tls::Accepting;
use tokio::runtime::Builder;
use tokio::sync::{Semaphore, watch};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 4096;
/// Threads that write what sessions have stored, of each of the node's own threads; and their nice value. Others do not wait for them.
const WRITERS: usize = 2;
const WRITERS_NICE: i32 = 10;

/// Why there is no node.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The address is taken, or not this host's, or asks for a privilege.
    #[error("cannot accept connections at {address}: {error}{}", remedy(error))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// Everybody who can reach the address could use the node.
    #[error(
        "{0} can be reached from elsewhere, and nobody is named who may use the node: give a secret \
         (`--secret`), users (`--settings`), an authority, or addresses (`--allow`); or listen on 127.0.0.1"
    )]
    Open(SocketAddr),
    /// Metrics are for this host.
    #[error("metrics at {0} could be read from elsewhere: use a loopback address")]
    PublicMetrics(SocketAddr),
    /// This kernel has no such congestion control, or this user may not have it.
    #[error(
        "cannot use the congestion control `{name}`: {error}; \
         /proc/sys/net/ipv4/tcp_allowed_congestion_control lists those that every user may have"
    )]
    Congestion {
        /// The name.
        name: String,
        /// Why.
        error: io::Error,
    },
    /// Settings that are none.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A secret, certificate or key that is none.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// As a secret.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// Privileges cannot be given up.
    #[error(transparent)]
    Confine(#[from] ConfineError),
    /// The access log cannot be written.
    #[error("cannot write {}: {error}", .path.display())]
    AccessLog {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The process is short of something.
    #[error("cannot start: {0}")]
    Start(#[from] io::Error),
}

/// What all threads of a node have.
pub(crate) struct Shared {
    name: String,
    config: NodeConfig,
    /// Addresses that lead to the node though its interfaces do not have them, as they were when it began.
    own: Vec<IpAddr>,
    links: Arc<Links>,
    tls: RwLock<Option<Arc<Accepting>>>,
    admission: RwLock<Arc<Admission>>,
    status: Arc<NodeStatus>,
    counters: Counters,
    seen: Seen,
    strangers: Arc<Strangers>,
    /// Room for connections of those who are let in, and have not asked yet.
    idle: Arc<Semaphore>,
    spool: Spool,
    /// Tells sessions that settings were read again.
    reloaded: watch::Sender<()>,
    /// Keeps those who are refused from filling the log.
    refusals: Refusals,
    /// Says what connections wait for that cannot be accepted.
    shortage: Shortage,
    access: Option<AccessLog>,
    prepared: Prepared,
    kept: Kept,
    /// Who takes kept sessions when another process has taken over.
    heir: watch::Sender<Option<Heir>>,
    /// Kept sessions of a process before, and of how many such processes not all are here yet.
    inherited: Inheritance,
    inheriting: watch::Sender<usize>,
    since: Instant,
    phase: watch::Sender<Phase>,
    /// What another process is handed that takes over.
    offered: Mutex<Vec<Listening>>,
    /// Processes from which this one has taken over, and which serve what they have.
    formers: AtomicUsize,
}

/// How far a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It takes what comes.
    Serving,
    /// Another process takes what comes. What came before is served as ever.
    Left,
    /// There are no new sessions.
    Stopping,
}

impl Shared {
    fn admission(&self) -> Arc<Admission> {
        Arc::clone(&self.admission.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn tls(&self) -> Option<Arc<Accepting>> {
        self.tls.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn write_access(&self, entry: Box<access::Entry>) {
        if let Some(access) = &self.access {
            access.write(*entry);
        }
    }

    fn is_stopping(&self) -> bool {
        *self.phase.borrow() == Phase::Stopping
    }

    fn settings(config: &NodeConfig) -> Result<Settings, SettingsError> {
        let read = config.settings.as_deref().map_or_else(|| Ok(Settings::default()), Settings::read);
        Ok(read?.with(&config.more))
    }
}

/// What a socket that listens is for.
#[derive(Clone, Copy, Debug)]
enum Purpose {
    Sessions,
    /// The relay of this number in the configuration.
    Relay(usize),
}

/// A node whose sockets listen.
pub struct Node {
    shared: Arc<Shared>,
    /// One of each for every thread.
    listeners: Vec<Vec<(Purpose, TcpListener)>>,
    processors: Processors,
    metrics: Option<TcpListener>,
}

/// Tells a running node something, from any thread.
#[derive(Clone)]
pub struct NodeHandle(Arc<Shared>);

impl Node {
    /// Begins to listen.
    ///
    /// # Errors
    /// An address cannot be had, the congestion control, a file; or the node would be open to everybody.
    pub fn bind(config: NodeConfig) -> Result<Node, NodeError> {
        Node::bind_with(config, &mut Inherited::default())
    }

    /// The same, with sockets of another node where there are any for an address.
    ///
    /// # Errors
    /// As above.
    pub fn bind_with(mut config: NodeConfig, inherited: &mut Inherited) -> Result<Node, NodeError> {
        // While that is still allowed. Two sockets for each session, two ends of each pipe, and what names need.
        let wanted = config.most_sessions.saturating_mul(2).saturating_add(2 * pipe::MOST as u64 + 1024);
        let descriptors = limits::raise_descriptor_limit(wanted);
        if descriptors < wanted {
            tracing::info!(
                descriptors,
                "no more than half as many sessions at once, by the limit of descriptors"
            );
        }
        let settings = Shared::settings(&config)?;
        let secret = config.secret.as_deref().map(NetworkSecret::read).transpose()?;
        let member_keys = secret.as_ref().map(NetworkSecret::believed_keys).unwrap_or_default();
        let admission = Admission::new(&settings, member_keys, None);
        let trusts_certificates =
            (config.authority.is_some() && config.certificate.is_some()) || config.credential.is_some();
        let mut public = config.listen.iter().filter(|address| !address.ip().is_loopback());
        if let Some(open) = public.next().filter(|_| !admission.knows_somebody() && !trusts_certificates) {
            return Err(NodeError::Open(*open));
        }
        if let Some(public) = config.metrics.filter(|address| !address.ip().is_loopback()) {
            return Err(NodeError::PublicMetrics(public));
        }
        let threads =
            config.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
        let mut listeners: Vec<Vec<(Purpose, TcpListener)>> = (0..threads).map(|_| Vec::new()).collect();
        let congestion = config.congestion.clone();
        let sending =
            Sending { congestion: congestion.as_deref(), paced: config.paced, gone_after: config.gone_after };
        let all: Vec<SocketAddr> =
            config.listen.iter().copied().chain(config.relays.iter().map(|relay| relay.listen)).collect();
        for address in &mut config.listen {
            let theirs = inherited.streams_at(*address);
            let at = (*address, is_for_ipv6_alone(*address, &all));
            *address = listen_on_all(&mut listeners, Purpose::Sessions, at, sending, None, theirs)?;
        }
        for at in 0..config.relays.len() {
            let RelayConfig { listen, buffer, .. } = config.relays[at];
            let theirs = inherited.streams_at(listen);
            let place = (listen, is_for_ipv6_alone(listen, &all));
            let bound = listen_on_all(&mut listeners, Purpose::Relay(at), place, sending, buffer, theirs)?;
            config.relays[at].listen = bound;
        }
        let processors = Processors::for_listeners(&listeners);
        for adopted in std::mem::take(&mut config.adopted) {
            adopted.set_nonblocking(true)?;
            let address = adopted.local_addr()?;
            if !admission.knows_somebody() && !trusts_certificates && !address.ip().is_loopback() {
                return Err(NodeError::Open(address));
            }
            prepare_listener(&SockRef::from(&*adopted), sending, None, address)?;
            for of_thread in &mut listeners {
                of_thread.push((Purpose::Sessions, adopted.try_clone()?));
            }
            config.listen.push(address);
        }
        let metrics = config.metrics.map(|address| {
            let theirs = inherited.streams_at(address).pop();
            let listener = theirs.map_or_else(|| TcpListener::bind(address), Ok);
            let listener = listener.map_err(|error| NodeError::Listen { address, error })?;
            listener.set_nonblocking(true)?;
            Ok::<_, NodeError>(listener)
        });
        let metrics = metrics.transpose()?;
        let access = config.access_log.as_deref().map(AccessLog::open).transpose()?;
        let name = config.name.clone().unwrap_or_else(|| {
            let relays = config.relays.iter().map(|relay| &relay.listen);
            config.listen.iter().chain(relays).next().map_or_else(|| "node".into(), SocketAddr::to_string)
        });
        let (links, tls) = connections(&config, &name, secret)?;
        let own = own_addresses(&config);
        links.set_policy(settings.destinations(own.clone()));
        links.set_revoked(&settings.revoked);
        let status = Arc::new(NodeStatus::new(config.all_buffers).of_rate(config.rate, threads));
        let strangers =
            Strangers::new(config.strangers_per_second, config.strangers_at_once, config.all_strangers);
        let spool = Spool::new(config.all_stored, config.room_within);
        let admission = RwLock::new(Arc::new(admission));
        let shared = Shared {
            name,
            own,
            links: Arc::new(links),
            tls: RwLock::new(tls),
            admission,
            status,
            counters: Counters::default(),
            seen: Seen::default(),
            strangers,
            idle: Arc::new(Semaphore::new(config.all_idle)),
            spool,
            reloaded: watch::Sender::new(()),
            refusals: Refusals::default(),
            shortage: Shortage::default(),
            access,
            prepared: Prepared::default(),
            kept: Kept::default(),
            heir: watch::Sender::new(None),
            inherited: Inheritance::default(),
            inheriting: watch::Sender::new(0),
            since: Instant::now(),
            phase: watch::Sender::new(Phase::Serving),
            offered: Mutex::default(),
            formers: AtomicUsize::new(0),
            config,
        };
        Ok(Node { shared: Arc::new(shared), listeners, processors, metrics })
    }

    /// Where sessions are asked for: with the ports that the kernel chose, where zero was asked for.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.shared.config.listen
    }

    /// Where fixed relays listen, in the order of the configuration.
    pub fn relays(&self) -> &[RelayConfig] {
        &self.shared.config.relays
    }

    /// Where metrics are.
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    /// What it says of itself to those who ask the way.
    pub fn status(&self) -> Arc<NodeStatus> {
        Arc::clone(&self.shared.status)
    }

    /// Which targets it connects to for others, by the settings that hold when that is asked.
    pub fn allowed(&self) -> Allowed {
        let links = Arc::clone(&self.shared.links);
        Arc::new(move |target| links.allows(target))
    }

    /// Copies of all sockets that listen, in the order in which threads have them.
    ///
    /// # Errors
    /// There are no more descriptors.
    pub fn listening(&self) -> io::Result<Vec<Listening>> {
        let of_threads = self.listeners.iter().flatten().map(|(_, listener)| listener);
        of_threads.chain(&self.metrics).map(|one| Ok(Listening::Streams(one.try_clone()?))).collect()
    }

    /// What it is told by while it runs.
    pub fn handle(&self) -> NodeHandle {
        NodeHandle(Arc::clone(&self.shared))
    }

    /// Gives up what it need not have any more. To be called before any thread is started.
    ///
    /// # Errors
    /// What was asked for cannot be had.
    pub fn confine(&self) -> Result<Confined, ConfineError> {
        // A file that is replaced is another one: its directory is what is read.
        let directory = |path: &PathBuf| {
            path.parent().filter(|path| !path.as_os_str().is_empty()).map_or(".".into(), PathBuf::from)
        };
        let config = &self.shared.config;
        let readable: Vec<PathBuf> =
            config.settings.iter().chain(&config.credential).chain(&config.secret).map(directory).collect();
        // The access log is begun anew when somebody has moved it away.
        let mut writable = vec![std::env::temp_dir()];
        writable.extend(self.shared.config.access_log.iter().map(directory));
        let needs = Needs { readable: &readable, writable: &writable, sockets: Sockets::ByAddress };
        self.shared.config.confinement.apply(&needs)
    }

    /// Serves until it is told to stop, and its sessions have ended or have had their time.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn run(self) -> io::Result<()> {
        let mut metrics = self.metrics;
        if let Some(access) = &self.shared.access {
            access.start()?;
        }
        // Before workers have processors of their own, which it would share with one of them.
        if let Err(error) = metrics::observe_lateness(&self.shared) {
            tracing::warn!(%error, "the service time will lack what the process waits for a processor");
        }
        let mut threads = Vec::new();
        let workers = accepting::workers(&self.shared, self.listeners, &self.processors);
        for (at, worker) in workers.into_iter().enumerate() {
            let (processors, metrics) = (self.processors.clone(), metrics.take());
            let run = move || -> io::Result<()> {
                processors.stay(at);
                let runtime = Builder::new_current_thread()
                    .enable_all()
                    .max_blocking_threads(WRITERS)
                    // Where it may not, they have the share of others.
                    .on_thread_start(|| drop(schedule::be_nice(WRITERS_NICE)))
                    .build()?;
                runtime.block_on(worker.work(metrics))?;
                // What is still being written is nobody's any more.
                runtime.shutdown_background();
                Ok(())
            };
            threads.push(std::thread::Builder::new().name(format!("node-{at}")).spawn(run)?);
        }
        for thread in threads {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread of the node panicked")))?;
        }
        if let Some(access) = &self.shared.access {
            access.end();
        }
        Ok(())
    }
}

impl NodeHandle {
    /// No new sessions; those that are open may go on for as long as the configuration says. Can be
    /// said again.
    pub fn stop(&self) {
        self.0.status.set_overloaded(true);
        self.0.phase.send_replace(Phase::Stopping);
        // A copy would go on listening.
        self.offered_sockets().clear();
    }

    /// What another process is handed that takes over.
    pub fn offer(&self, sockets: Vec<Listening>) {
        if !self.is_stopping() {
            *self.offered_sockets() = sockets;
        }
    }

    fn offered_sockets(&self) -> std::sync::MutexGuard<'_, Vec<Listening>> {
        self.0.offered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn offered(&self) -> io::Result<Vec<Listening>> {
        self.offered_sockets().iter().map(Listening::try_clone).collect()
    }

    /// Another process takes what comes from now on.
    pub(crate) fn leave(&self) {
        self.0.phase.send_if_modified(|phase| {
            let is_serving = *phase == Phase::Serving;
            *phase = if is_serving { Phase::Left } else { *phase };
            is_serving
        });
        self.offered_sockets().clear();
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.0.is_stopping()
    }

    pub(crate) fn seen(&self) -> &Seen {
        &self.0.seen
    }

    /// Hands kept sessions to the process that has taken over.
    pub(crate) fn hand_kept_over(&self, to: UnixStream) -> io::Result<()> {
        self.0.begin_to_hand_over(to)
    }

    /// Whether there are sessions that survive the nodes on their way.
    pub(crate) fn keeps(&self) -> bool {
        !self.0.config.moves_within.is_zero()
    }

    /// Takes kept sessions from the process from which this one has taken over.
    pub(crate) fn inherit_kept(&self, from: UnixStream) -> io::Result<()> {
        self.0.begin_to_inherit(from)
    }

    /// Tells a process from which this one has taken over what was signed and accepted here, until it ends.
    pub(crate) fn answer_former(&self, former: &UnixStream) {
        self.0.formers.fetch_add(1, Ordering::Relaxed);
        self.0.seen.answer(former);
        self.0.formers.fetch_sub(1, Ordering::Relaxed);
    }

    /// Reads the settings, the secret and the credential again, opens the access log again, and ends the sessions of those who would not be let in any more. If they cannot be read, those
    /// that hold go on holding. A secret that the node may not read (it is another user's by now) stays as it is, and so does a
    /// credential that nobody would believe: that is a warning.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn reload(&self) -> Result<(), NodeError> {
        let settings = Shared::settings(&self.0.config)?;
        let secret = match self.0.config.secret.as_deref().map(NetworkSecret::read) {
            Some(Err(SecretError::Read { path, error }))
                if error.kind() == io::ErrorKind::PermissionDenied =>
            {
                tracing::warn!("cannot read {} again, the secret stays as it is: {error}", path.display());
                None
            }
            secret => secret.transpose()?,
        };
        // Certificates that are somebody else's are read once.
        let own = (&self.0.config.certificate, &self.0.config.authority);
        let identity = match (&self.0.config.credential, &secret, own) {
            (Some(path), ..) => {
                let identity = Identity::from_credential(path)?;
                // The settings have nothing to do with it, and may say who is not let in any more.
                let fault = identity.check(Role::Node, path).err();
                fault.iter().for_each(|error| tracing::warn!("the credential stays as it is: {error}"));
                Some(identity).filter(|_| fault.is_none())
            }
            (None, Some(secret), (None, None)) => Some(secret.identity(&names(&self.0.config))?),
            _ => None,
        };
        if let Some(identity) = &identity {
            let tls = Accepting::of(identity)?;
            self.0.links.set_identity(identity)?;
            *self.0.tls.write().unwrap_or_else(PoisonError::into_inner) = tls;
        }
        if let Some(secret) = &secret {
            self.0.links.set_signing(secret);
        }
        self.0.links.set_revoked(&settings.revoked);
        self.0.links.set_policy(settings.destinations(self.0.own.clone()));
        if let Err(error) = self.0.links.reload_names() {
            tracing::warn!("names are looked up as before: {error}");
        }
        {
            let mut admission = self.0.admission.write().unwrap_or_else(PoisonError::into_inner);
            let keys =
                secret.map_or_else(|| admission.member_keys().to_vec(), |secret| secret.believed_keys());
            *admission = Arc::new(Admission::new(&settings, keys, Some(&admission)));
        }
        if let Some(access) = &self.0.access {
            access.begin_anew();
        }
        self.0.reloaded.send_replace(());
        Ok(())
    }

    /// What it could say of itself now.
    pub fn snapshot(&self) -> Snapshot {
        self.0.snapshot()
    }
}

fn connections(
    config: &NodeConfig,
    name: &str,
    secret: Option<NetworkSecret>,
) -> Result<(Links, Option<Arc<Accepting>>), NodeError> {
    let names = names(config);
    let own = config.certificate.as_ref().map(|(chain, key)| (chain.as_path(), key.as_path()));
    let identity = match (&config.credential, &secret, own, &config.authority) {
        (Some(path), ..) => Identity::from_credential(path)?,
        (None, Some(secret), None, None) => secret.identity(&names)?,
        (None, _, own, authority) => Identity::from_files(own, authority.as_deref())?,
    };
    // The chain of a secret is made for this node.
    if let Some(path) = config.credential.as_deref().or(own.map(|(chain, _)| chain)) {
        identity.check(Role::Node, path)?;
    }
    let tls = Accepting::of(&identity)?;
    let is_known = secret.is_some() || config.authority.is_some() || config.credential.is_some();
    let by_itself = if is_known { Protection::Tls } else { Protection::Plain };
    let links = Links::new(LinkOptions {
        name: name.to_owned(),
        protection: config.protection.unwrap_or(by_itself),
        identity,
        credentials: secret.map_or(Credentials::None, Credentials::Secret),
        congestion: config.congestion.clone(),
        paced: config.paced,
        timeout: Duration::from_secs(10),
        ready: 2,
        names: NameService::Own,
        gone_after: config.gone_after,
    })?;
    Ok((links, tls))
}

/// How accepted connections send.
#[derive(Clone, Copy)]
struct Sending<'a> {
    congestion: Option<&'a str>,
    paced: bool,
    gone_after: Duration,
}

/// One socket for each thread at the same address: the kernel spreads connections over them. All that another process had there are
/// listened to, however many they are: connections may wait on each.
fn listen_on_all(
    listeners: &mut [Vec<(Purpose, TcpListener)>],
    purpose: Purpose,
    (address, is_ipv6_alone): (SocketAddr, bool),
    sending: Sending<'_>,
    buffer: Option<Bytes>,
    theirs: Vec<TcpListener>,
) -> Result<SocketAddr, NodeError> {
    let error = |error| NodeError::Listen { address, error };
    if !theirs.is_empty() {
        for one in &theirs {
            prepare_listener(&SockRef::from(one), sending, buffer, address)?;
        }
        for at in 0..theirs.len().max(listeners.len()) {
            let one = theirs[at % theirs.len()].try_clone().map_err(error)?;
            listeners[at % listeners.len()].push((purpose, one));
        }
        return Ok(address);
    }
    // Sockets that share a port would share it with another node on it, too: see that there is none.
    let socket = |share: bool, at: SocketAddr| -> io::Result<Socket> {
        let socket = Socket::new(Domain::for_address(at), Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        socket.set_reuse_port(share)?;
        if is_ipv6_alone {
            socket.set_only_v6(true)?;
        }
        socket.bind(&at.into())?;
        Ok(socket)
    };
    let mut bound = address;
    if address.port() != 0 {
        let probe = socket(false, address).map_err(error)?;
        probe.listen(1).map_err(error)?;
    }
    for of_thread in listeners {
        let socket = socket(true, bound).map_err(error)?;
        prepare_listener(&SockRef::from(&socket), sending, buffer, bound)?;
        socket.listen(BACKLOG).map_err(error)?;
        let listener = TcpListener::from(socket);
        bound = listener.local_addr().map_err(error)?;
        of_thread.push((purpose, listener));
    }
    Ok(bound)
}

/// What accepted connections have in common: they inherit it.
fn prepare_listener(
    socket: &SockRef<'_>,
    sending: Sending<'_>,
    buffer: Option<Bytes>,
    address: SocketAddr,
) -> Result<(), NodeError> {
    if let Some(name) = sending.congestion {
        let error = |error| NodeError::Congestion { name: name.to_owned(), error };
        socket.set_tcp_congestion(name.as_bytes()).map_err(error)?;
    }
    if sending.paced {
        shorthaul_os::socket::set_paced(&**socket)?;
    }
    socket.set_tcp_nodelay(true)?;
    keep_alive(socket, sending.gone_after)?;
    // Whatever ends the process ends what is open with a reset, so that nothing cut off looks complete.
    socket.set_linger(Some(Duration::ZERO))?;
    size_buffer(socket, buffer, address.ip());
    Ok(())
}
