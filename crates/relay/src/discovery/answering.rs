use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use shorthaul_os::poll::wait_any_readable;
use shorthaul_os::signals::without_signals;
use shorthaul_os::{Tap, datagram, netlink};
use shorthaul_types::Time;

use super::key::Keyring;
use super::message::PORT;
use super::probing::{Distance, way_to};
use super::responder::{Arrival, Bound, Counters, Load, Responder, ResponderConfig};
use crate::policy::DestinationPolicy;

/// How often the list of this host's own addresses is asked for.
const ADDRESSES_AGE: Duration = Duration::from_secs(5);
/// The longest sleep: after this long it is noticed that we are to stop.
const NAP: Duration = Duration::from_millis(200);
/// Datagrams that are taken of one socket in a row: then it is the others' turn, however many there are.
const TURN: usize = 64;
/// More than an IP packet with a probe and every IPv4 option.
const PACKET: usize = 512;

/// How a host answers probes.
#[derive(Clone)]
pub struct AnsweringConfig {
    /// What it says.
    pub responder: ResponderConfig,
    /// The UDP address that it is asked at.
    pub listen: SocketAddr,
    /// Whether it also answers probes that it forwards: needs `CAP_NET_RAW`.
    pub on_path: bool,
    /// Which targets it may be asked to measure the way to.
    pub may_measure: Allowed,
}

/// Says of a target whether members of the network may have it measured, and so connected to.
pub type Allowed = Arc<dyn Fn(SocketAddr) -> bool + Send + Sync>;

impl AnsweringConfig {
    /// Answers at the usual port of all addresses, on the path too if `on_path`; any target that is a public address
    /// may be measured.
    pub fn new(responder: ResponderConfig, on_path: bool) -> Self {
        let listen = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), PORT);
        AnsweringConfig { responder, listen, on_path, may_measure: Arc::new(|target| is_public(target.ip())) }
    }
}

impl fmt::Debug for AnsweringConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnsweringConfig")
            .field("responder", &self.responder)
            .field("listen", &self.listen)
            .field("on_path", &self.on_path)
            .finish_non_exhaustive()
    }
}

/// Whether an address is one that anybody may talk to: none of a private, local or documentation range
/// (RFC 6890), where services are that trust their neighbours, however it is written.
pub fn is_public(address: IpAddr) -> bool {
    DestinationPolicy::default().check(SocketAddr::new(address, 0), |_| false).is_ok()
}

/// Why probes cannot be answered.
#[derive(Debug, thiserror::Error)]
pub enum AnsweringError {
    /// The port is taken, or the address not ours.
    #[error("cannot answer probes at UDP {address}: {error}; does another responder run here?")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// The kernel shows us no packets.
    #[error("cannot see probes that this host forwards: {error}; that needs CAP_NET_RAW")]
    Tap {
        /// Why.
        error: io::Error,
    },
}

/// Sockets that probes come in by, which take privileges that answering does not.
pub struct AnsweringSockets {
    config: AnsweringConfig,
    socket: UdpSocket,
    taps: Vec<Tap>,
    address: SocketAddr,
}

/// Answers probes on a thread of its own, until it is dropped.
#[derive(Debug)]
pub struct Answering {
    shared: Arc<Shared>,
    address: SocketAddr,
    thread: Option<thread::JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    responder: Mutex<Responder>,
    epoch: Instant,
    stop: AtomicBool,
}

impl Shared {
    fn now(&self) -> Time {
        Time::ZERO + self.epoch.elapsed()
    }

    fn responder(&self) -> MutexGuard<'_, Responder> {
        // What it holds is whole whenever the lock is free.
        self.responder.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AnsweringSockets {
    /// Takes the port, in the network namespace of the calling thread, and what is needed to see what is forwarded.
    ///
    /// # Errors
    /// The port cannot be had, or the privilege to see what is forwarded.
    pub fn bind(config: AnsweringConfig) -> Result<Self, AnsweringError> {
        AnsweringSockets::bind_with(config, None)
    }

    /// The same, with the socket of another process that has the port.
    ///
    /// # Errors
    /// As above.
    pub fn bind_with(config: AnsweringConfig, theirs: Option<UdpSocket>) -> Result<Self, AnsweringError> {
        let listen = |error| AnsweringError::Listen { address: config.listen, error };
        let socket = theirs.map_or_else(|| bind(config.listen), Ok).map_err(listen)?;
        datagram::ask_for_details(&socket).map_err(listen)?;
        socket.set_nonblocking(true).map_err(listen)?;
        let address = socket.local_addr().map_err(listen)?;
        let mut taps = Vec::new();
        if config.on_path {
            let tap = |error| AnsweringError::Tap { error };
            taps.push(Tap::open(false, address.port()).map_err(tap)?);
            taps.push(Tap::open(true, address.port()).map_err(tap)?);
        }
        Ok(AnsweringSockets { config, socket, taps, address })
    }

    /// Where probes are answered: the port that the kernel chose, if zero was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Another descriptor of the socket.
    ///
    /// # Errors
    /// There are no more descriptors.
    pub fn socket(&self) -> io::Result<UdpSocket> {
        self.socket.try_clone()
    }

    /// Begins to answer, with no more privileges than the calling thread has now; `load` is asked for every answer.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn answer(self, load: impl Fn() -> Load + Send + 'static) -> io::Result<Answering> {
        let AnsweringSockets { config, socket, taps, address } = self;
        let shared = Arc::new(Shared {
            responder: Mutex::new(Responder::new(Time::ZERO, config.responder)),
            epoch: Instant::now(),
            stop: AtomicBool::new(false),
        });
        let service = Service {
            shared: Arc::clone(&shared),
            socket,
            taps,
            own: Vec::new(),
            own_since: None,
            may_measure: config.may_measure,
        };
        let spawn = || thread::Builder::new().name("answering".into()).spawn(move || service.run(load));
        let thread = Some(without_signals(spawn)?);
        Ok(Answering { shared, address, thread })
    }
}

impl Answering {
    /// Takes the sockets and begins to answer; `load` is asked for every answer.
    ///
    /// # Errors
    /// The port cannot be had, or the privilege to see what is forwarded.
    pub fn start(
        config: AnsweringConfig,
        load: impl Fn() -> Load + Send + 'static,
    ) -> Result<Self, AnsweringError> {
        let address = config.listen;
        let sockets = AnsweringSockets::bind(config)?;
        sockets.answer(load).map_err(|error| AnsweringError::Listen { address, error })
    }

    /// Where it answers: the port that the kernel chose, if zero was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The network has these keys from now on.
    pub fn set_keys(&self, keys: Keyring) {
        self.shared.responder().set_keys(keys);
    }

    /// What it has done so far.
    pub fn counters(&self) -> Counters {
        self.shared.responder().counters().clone()
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// For both families where the host has both.
fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    match UdpSocket::bind(address) {
        Err(_) if address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) => {
            UdpSocket::bind((Ipv4Addr::UNSPECIFIED, address.port()))
        }
        other => other,
    }
}

struct Service {
    shared: Arc<Shared>,
    socket: UdpSocket,
    taps: Vec<Tap>,
    /// This host's addresses.
    own: Vec<IpAddr>,
    own_since: Option<Instant>,
    may_measure: Allowed,
}

impl Service {
    fn run(mut self, load: impl Fn() -> Load) {
        while !self.shared.stop.load(Ordering::Acquire) {
            let taps = self.taps.iter().map(AsFd::as_fd);
            if wait_any_readable(taps.chain([self.socket.as_fd()]), NAP).is_err() {
                return;
            }
            let mut buffer = [0; PACKET];
            // What else fails is about one datagram, and the next is another.
            for _ in 0..TURN {
                let Ok(received) = datagram::receive(&self.socket, &mut buffer) else { break };
                let arrival = Arrival {
                    from: received.from,
                    bytes: &buffer[..received.len],
                    bound: Bound::Here,
                    hop_limit: received.hop_limit,
                    local: received.to,
                    since_1970: since_1970(),
                };
                self.answer(&load(), &arrival);
            }
            for index in 0..self.taps.len() {
                self.look(index, &load);
            }
        }
    }

    /// Answers what passes.
    fn look(&mut self, index: usize, load: &impl Fn() -> Load) {
        let mut buffer = [0; PACKET];
        for _ in 0..TURN {
            let Some(seen) = self.taps[index].next(&mut buffer) else { return };
            // What is for this host comes by its socket.
            if is_own(&mut self.own, &mut self.own_since, seen.to) {
                continue;
            }
            let Some(local) = facing(seen.from) else { continue };
            let arrival = Arrival {
                from: seen.from,
                bytes: seen.payload,
                bound: Bound::Onward,
                hop_limit: Some(seen.hop_limit),
                local,
                since_1970: since_1970(),
            };
            self.answer(&load(), &arrival);
        }
    }

    fn answer(&self, load: &Load, arrival: &Arrival<'_>) {
        let now = self.shared.now();
        let Ok(answer) = self.shared.responder().answer(now, load, arrival) else { return };
        let mut to = arrival.from;
        if let (Ok(SocketAddr::V6(_)), IpAddr::V4(v4)) = (self.socket.local_addr(), to.ip()) {
            to.set_ip(v4.to_ipv6_mapped().into());
        }
        // A host that cannot be reached has no use for the answer.
        let _ = self.socket.send_to(answer.datagram.as_slice(), to);
        if let Some(target) = answer.measure {
            if !(self.may_measure)(target) {
                return self.shared.responder().learn(now, target, None);
            }
            let shared = Arc::clone(&self.shared);
            let keys = shared.responder().keys().clone();
            // The responder asks for no more than a few at a time.
            let measuring = thread::Builder::new().name("way".into()).spawn(move || {
                let way = way_to(&keys, target).map(|way: Distance| way.rtt);
                let now = shared.now();
                shared.responder().learn(now, target, way);
            });
            drop(measuring);
        }
    }
}

fn is_own(own: &mut Vec<IpAddr>, since: &mut Option<Instant>, address: IpAddr) -> bool {
    if since.is_none_or(|since| since.elapsed() > ADDRESSES_AGE)
        && let Ok(addresses) = netlink::local_addresses()
    {
        (*own, *since) = (addresses, Some(Instant::now()));
    }
    own.contains(&address)
}

/// The address of ours that the kernel would use toward `peer`.
fn facing(peer: SocketAddr) -> Option<IpAddr> {
    let any: IpAddr =
        if peer.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(peer).ok()?; // sends nothing
    Some(socket.local_addr().ok()?.ip())
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_and_metadata_ranges_are_not_public() {
        for address in [
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "127.0.0.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "fe80::1",
            "fd00::1",
            "::ffff:10.0.0.1",
            "64:ff9b::10.0.0.1",
            "2002:a00:1::",
            "2001:db8::1",
        ] {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
        for address in ["1.1.1.1", "8.8.8.8", "2606:4700::1111", "::ffff:1.1.1.1"] {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
    }
}
