use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use shorthaul_os::poll::wait_either;
use shorthaul_os::socket::{abort, begin_to_connect, set_hop_limit};
use shorthaul_types::{Seed, Time};

use super::key::Keyring;
use super::message::{HOP_LIMIT, PORT};
use super::prober::{By, Findings, Handshake, Prober, Question, Retry};

/// How long a target may take to answer a node that measures the way to it.
const WAY_TIMEOUT: Duration = Duration::from_secs(2);

/// One round of probing on a socket of its own, in the network namespace of the calling thread.
///
/// # Errors
/// There is no socket to be had. That nobody answers is no error.
pub fn probe(keys: &Keyring, question: Question, retry: Retry) -> io::Result<Findings> {
    probe_and_tell(keys, question, retry, &mut |_| {})
}

/// The same; `early` is told whenever something came, so that a client can open a connection to a relay while the round goes on.
///
/// # Errors
/// As [`probe`].
pub fn probe_and_tell(
    keys: &Keyring,
    question: Question,
    retry: Retry,
    early: &mut dyn FnMut(&Prober),
) -> io::Result<Findings> {
    let socket = socket()?;
    let dual = socket.local_addr()?.is_ipv6();
    let mut seed = [0; 8];
    getrandom::fill(&mut seed).map_err(io::Error::other)?;
    let start = Instant::now();
    let now = || Time::from_nanos(1) + start.elapsed();
    let mut prober = Prober::new(now(), keys.clone(), question, retry, Seed(u64::from_ne_bytes(seed)));
    let mut buffer = [0; 512];
    let mut handshake: Option<Shaking> = None;
    loop {
        if let Some(target) = prober.poll_handshake() {
            handshake = Shaking::begin(target).ok();
            if handshake.is_none() {
                prober.handle_handshake(now(), None);
            }
        }
        while let Some((mut to, datagram)) = prober.poll_transmit(now()) {
            if let (true, IpAddr::V4(v4)) = (dual, to.ip()) {
                to.set_ip(v4.to_ipv6_mapped().into());
            }
            // What cannot be sent is as good as lost on the way.
            let _ = socket.send_to(datagram.as_slice(), to);
        }
        if let Some(findings) = prober.findings() {
            return Ok(findings);
        }
        let wait = prober.poll_timeout().map(|at| at.saturating_since(now())).unwrap_or_default();
        if !wait.is_zero() {
            let mut comes = true;
            if let Some(shaking) = handshake.take() {
                let [readable, over] = wait_either(socket.as_fd(), shaking.socket.as_fd(), wait)?;
                comes = readable;
                if over {
                    prober.handle_handshake(now(), shaking.end());
                    early(&prober);
                } else {
                    handshake = Some(shaking);
                }
            }
            if comes {
                socket.set_read_timeout(Some(wait.max(Duration::from_micros(10))))?;
                match socket.recv_from(&mut buffer) {
                    Ok((len, _)) => {
                        // What is not for us changes nothing.
                        let _ = prober.handle_datagram(now(), &buffer[..len]);
                        early(&prober);
                    }
                    Err(error) if is_passing(&error) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        prober.handle_timeout(now());
    }
}

/// A handshake that nobody waits for.
struct Shaking {
    socket: TcpStream,
    began: Instant,
}

impl Shaking {
    fn begin(target: SocketAddr) -> io::Result<Shaking> {
        let began = Instant::now();
        Ok(Shaking { socket: begin_to_connect(target)?, began })
    }

    /// How long it took, if it came about. Nothing was said, so nothing is lost when it is reset.
    fn end(self) -> Option<Duration> {
        let took = self.began.elapsed();
        let came_about = matches!(self.socket.take_error(), Ok(None));
        let _ = abort(&self.socket);
        came_about.then_some(took)
    }
}

/// A timeout, or an ICMP error about an earlier probe.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{
        ConnectionRefused, HostUnreachable, Interrupted, NetworkUnreachable, TimedOut, WouldBlock,
    };
    matches!(
        error.kind(),
        ConnectionRefused | HostUnreachable | Interrupted | NetworkUnreachable | TimedOut | WouldBlock
    )
}

fn socket() -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))
        .or_else(|_| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)))?;
    set_hop_limit(&socket, HOP_LIMIT)?;
    Ok(socket)
}

/// How far a target is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Distance {
    /// The round-trip time.
    pub rtt: Duration,
    /// How that is known.
    pub by: By,
}

/// The way from here to a target: as a handshake at the port itself tells, which is given up right after; or else
/// as the target's responder does.
pub fn way_to(keys: &Keyring, target: SocketAddr) -> Option<Distance> {
    if let Some(rtt) = shake_hands(target, WAY_TIMEOUT) {
        return Some(Distance { rtt, by: By::Handshake });
    }
    let question = Question {
        destination: Some(SocketAddr::new(target.ip(), PORT)),
        relays: Vec::new(),
        target: None,
        handshake: Handshake::Never,
        cookie: None,
    };
    let rtt = probe(keys, question, Retry { timeout: WAY_TIMEOUT, tries: 1 }).ok()?.rtt?;
    Some(Distance { rtt, by: By::Responder })
}

/// The round-trip time that a handshake takes; nothing was said, so nothing is lost when it is reset.
pub(crate) fn shake_hands(target: SocketAddr, timeout: Duration) -> Option<Duration> {
    let start = Instant::now();
    let socket = TcpStream::connect_timeout(&target, timeout).ok()?;
    let rtt = start.elapsed();
    let _ = abort(&socket);
    Some(rtt)
}
