use super::run::{Part, Run};
use super::{Pace, TcpSample};
use crate::host::Host;
use shorthaul_os::socket;
use shorthaul_types::{BitRate, Bytes, Seed, format_duration};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// One connection from a client to a server, over which one of them sends.
///
/// Time counts from just before the client's SYN. The sender's bytes are [`Content`](super::Content), and
/// the receiver checks every one of them.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// Who sends.
    pub sender: Sender,
    /// How much.
    pub amount: Amount,
    /// When the sender writes it.
    pub pace: Pace,
    /// Requests that the receiver sends, each for a part of the amount; without any, the one byte that makes a server send.
    pub requests: Option<Requests>,
    /// The congestion controls of the two ends, by the kernel's names. They are set explicitly, and it is
    /// checked that they are.
    pub congestion: Ends<String>,
    /// Whether an end spreads its bursts over the round trip, as the kernel does for `bbr` in any case.
    pub paced: Ends<bool>,
    /// Whether an end sends small segments at once (`TCP_NODELAY`), without Nagle's algorithm.
    pub nodelay: Ends<bool>,
    /// How much the sender writes ahead of the receiver's acknowledgments; `None` for as much as its kernel takes.
    ///
    /// A kernel's own limit (`tcp_wmem`) is none for a writer that does not wait for `POLLOUT`: as long as the last
    /// buffer of its queue has room, more is taken, and each part that leaves makes room.
    pub send_buffer: Option<Bytes>,
    /// The version of IP.
    pub family: Family,
    /// The port that the server listens on; `None` for any that is free.
    pub port: Option<u16>,
    /// When to give up.
    pub limit: Duration,
    /// How long the intervals of [`TransferReport::arrivals`] and [`TransferReport::samples`] are.
    pub interval: Duration,
    /// Where the content comes from.
    pub seed: Seed,
}

/// Requests over one connection, one after the other: the client asks, the server answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requests {
    /// The size of a request.
    pub request: Bytes,
    /// The size of a response; the amount is that of all of them.
    pub response: Bytes,
    /// The pauses between a response and the next request: one fewer than there are requests.
    pub pauses: Vec<Duration>,
}

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sender {
    /// A download: the server sends as soon as the client's request, one byte, has come.
    Server,
    /// An upload: the client sends at once.
    Client,
}

/// How much is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// This many bytes.
    Bytes(Bytes),
    /// As much as arrives in this time, counted from the SYN; then the connection is aborted.
    Time(Duration),
    /// This many bytes, or as many of them as arrive in this time, counted from the SYN; then the connection
    /// is aborted.
    Within {
        /// How much.
        bytes: Bytes,
        /// How long at most.
        time: Duration,
    },
}

impl Amount {
    /// How many bytes are sent at most.
    pub(super) fn bytes(self) -> Option<Bytes> {
        match self {
            Amount::Bytes(bytes) | Amount::Within { bytes, .. } => Some(bytes),
            Amount::Time(_) => None,
        }
    }

    /// When the receiver has had enough, whatever has come.
    pub(super) fn time(self) -> Option<Duration> {
        match self {
            Amount::Bytes(_) => None,
            Amount::Time(time) | Amount::Within { time, .. } => Some(time),
        }
    }
}

/// Something for either end of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends<T> {
    /// For the end that connects.
    pub client: T,
    /// For the end that accepts.
    pub server: T,
}

/// The version of IP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Family {
    /// IPv4.
    #[default]
    V4,
    /// IPv6.
    V6,
}

/// What came of a transfer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TransferReport {
    /// When the client was connected.
    pub connected: Duration,
    /// When the server was, too.
    pub accepted: Duration,
    /// When the receiver had the first byte.
    pub first_byte: Duration,
    /// When the receiver had the last byte and knew that it was the last.
    pub completed: Duration,
    /// How many bytes arrived.
    pub received: Bytes,
    /// From when to when each request was under way, until all of its response had come.
    pub responses: Vec<(Duration, Duration)>,
    /// How many bytes arrived in each interval, beginning with the start.
    pub arrivals: Vec<Bytes>,
    /// How long the program at one of the ends, the one that had to wait longer, stood waiting for a
    /// processor: time in which the machine and not the network held the transfer up.
    pub waited: Duration,
    /// How the sender's TCP stood, at every interval, beginning when the client was connected.
    pub samples: Vec<TcpSample>,
}

impl TransferReport {
    /// The received bytes over the time from the SYN to the end.
    pub fn throughput(&self) -> BitRate {
        let bits = self.received.0 as f64 * 8.0 / self.completed.as_secs_f64().max(1e-9);
        BitRate::from_bits_per_sec(bits as u64)
    }

    /// How many segments the sender retransmitted in all.
    pub fn retransmits(&self) -> u32 {
        self.samples.last().map_or(0, |sample| sample.retransmits)
    }
}

/// Why a transfer did not come to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// The machine's kernel lacks or forbids a congestion control.
    #[error("congestion control `{wanted}` could not be set: {error}; this kernel has: {available}")]
    Congestion {
        /// What was asked for.
        wanted: String,
        /// What the kernel has.
        available: String,
        /// What it said.
        error: io::Error,
    },
    /// It took too long.
    #[error("{} passed and only {received} had arrived", format_duration(*limit))]
    Late {
        /// The limit.
        limit: Duration,
        /// What had arrived.
        received: Bytes,
    },
    /// The connection ended before everything had arrived, as if it were complete.
    #[error("the connection ended properly after {received} of {sent}: bytes are lost")]
    Truncated {
        /// What arrived.
        received: Bytes,
        /// What was sent.
        sent: Bytes,
    },
    /// Other bytes arrived than were sent.
    #[error("byte {at} is not the one that was sent")]
    Corrupted {
        /// The place of the first wrong byte.
        at: u64,
    },
    /// The other end failed first.
    #[error("the other end gave up")]
    Abandoned,
    /// A system call failed.
    #[error("{doing}: {error}")]
    Socket {
        /// What was being done.
        doing: &'static str,
        /// What the kernel said.
        error: io::Error,
    },
}

pub(super) fn failed(doing: &'static str) -> impl FnOnce(io::Error) -> TransferError {
    move |error| TransferError::Socket { doing, error }
}

impl Default for Transfer {
    /// A download of 1 MB with cubic at both ends over IPv4, in at most a minute.
    fn default() -> Self {
        Transfer {
            sender: Sender::Server,
            amount: Amount::Bytes(Bytes(1_000_000)),
            pace: Pace::AtOnce,
            requests: None,
            congestion: Ends { client: "cubic".into(), server: "cubic".into() },
            paced: Ends::default(),
            nodelay: Ends::default(),
            send_buffer: None,
            family: Family::V4,
            port: None,
            limit: Duration::from_secs(60),
            interval: Duration::from_millis(100),
            seed: Seed(0),
        }
    }
}

impl Transfer {
    /// The same with this congestion control at both ends.
    pub fn with_congestion(mut self, name: &str) -> Self {
        self.congestion = Ends { client: name.into(), server: name.into() };
        self
    }

    /// Does it, and waits for the end.
    ///
    /// # Errors
    /// If anything but the right bytes in time arrives, in full, at the receiver.
    pub fn run(&self, client: &Host, server: &Host) -> Result<TransferReport, TransferError> {
        self.run_through(client, server, Ok)
    }

    /// The same by way of something in between: `reach` is told where the server listens, and tells where
    /// the client is to connect.
    ///
    /// # Errors
    /// As [`Transfer::run`], and what `reach` fails with.
    pub fn run_through(
        &self,
        client: &Host,
        server: &Host,
        reach: impl FnOnce(SocketAddr) -> io::Result<SocketAddr>,
    ) -> Result<TransferReport, TransferError> {
        let (listener, address) = self.listen(server)?;
        let address = reach(address).map_err(failed("reaching the server by way of others"))?;
        let connecting = self.socket(client, Sender::Client)?;
        let run = Run::new(self);
        let (client_end, server_end) = std::thread::scope(|scope| {
            let serving = scope.spawn(|| run.end(Sender::Server, || run.accept(&listener)));
            let client_end = run.end(Sender::Client, || run.connect(connecting, address));
            let server_end = serving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (client_end, server_end)
        });
        let (sent, received) = match self.sender {
            Sender::Server => (server_end, client_end),
            Sender::Client => (client_end, server_end),
        };
        match (received, sent) {
            (Ok(Part::Received(report)), Ok(Part::Sent { bytes, samples, waited })) => {
                let ended = self.amount.time().is_none_or(|time| report.completed < time);
                if ended && report.received != bytes {
                    return Err(TransferError::Truncated { received: report.received, sent: bytes });
                }
                let (connected, accepted) = (run.connected(), run.accepted());
                let waited = waited.max(report.waited);
                Ok(TransferReport { connected, accepted, waited, samples, ..report })
            }
            // The sender ran out of time and closed, which looks like a proper end to the receiver.
            (Ok(Part::Received(report)), Err(TransferError::Late { limit, .. })) => {
                Err(TransferError::Late { limit, received: report.received })
            }
            // Who gave up because the other end had failed has nothing to tell.
            (Err(TransferError::Abandoned), Err(error)) | (Err(error), _) | (_, Err(error)) => Err(error),
            (Ok(_), Ok(_)) => unreachable!("one end receives and the other sends"),
        }
    }

    /// Does the server's part of an upload, for a client that has a TCP of its own: `client` is given the
    /// address to connect to, has to send [`Content`](super::Content) of the seed, and to close. It runs
    /// beside the server, and time counts from the moment at which it is called.
    ///
    /// # Errors
    /// As [`Transfer::run`], but for what happens to the client.
    ///
    /// # Panics
    /// If this is a download.
    pub fn receive_from<R: Send>(
        &self,
        server: &Host,
        client: impl FnOnce(SocketAddr) -> R + Send,
    ) -> (Result<TransferReport, TransferError>, Option<R>) {
        assert!(self.sender == Sender::Client, "only uploads can come from another client");
        let (listener, address) = match self.listen(server) {
            Ok(listening) => listening,
            Err(error) => return (Err(error), None),
        };
        let run = Run::new(self);
        let (server_end, client_end) = std::thread::scope(|scope| {
            let serving = scope.spawn(|| run.end(Sender::Server, || run.accept(&listener)));
            let client_end = client(address);
            (serving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), client_end)
        });
        let report = match (server_end, self.amount) {
            (Ok(Part::Received(report)), Amount::Bytes(sent)) if report.received != sent => {
                Err(TransferError::Truncated { received: report.received, sent })
            }
            (Ok(Part::Received(report)), _) => Ok(report),
            (Ok(Part::Sent { .. }), _) => unreachable!("in an upload the server receives"),
            (Err(error), _) => Err(error),
        };
        (report, Some(client_end))
    }

    fn socket(&self, host: &Host, end: Sender) -> Result<Socket, TransferError> {
        let domain = match self.family {
            Family::V4 => Domain::IPV4,
            Family::V6 => Domain::IPV6,
        };
        let made = host.run(|| Socket::new(domain, Type::STREAM, Some(Protocol::TCP)));
        let made = made.map_err(failed("making a socket"))?;
        let congestion = self.congestion_of(end);
        socket::set_congestion(&made, congestion).map_err(|error| congestion_error(congestion, error))?;
        let of = |both: &Ends<bool>| match end {
            Sender::Client => both.client,
            Sender::Server => both.server,
        };
        if of(&self.paced) {
            socket::set_paced(&made).map_err(failed("switching pacing on"))?;
        }
        made.set_tcp_nodelay(of(&self.nodelay)).map_err(failed("setting TCP_NODELAY"))?;
        Ok(made)
    }

    fn listen(&self, server: &Host) -> Result<(Socket, SocketAddr), TransferError> {
        let listener = self.socket(server, Sender::Server)?;
        let address: IpAddr = match self.family {
            Family::V4 => server.address_v4().into(),
            Family::V6 => server.address_v6().into(),
        };
        let listen = || {
            // The same port again, though connections of before linger in TIME-WAIT.
            listener.set_reuse_address(self.port.is_some())?;
            listener.bind(&SockAddr::from(SocketAddr::new(address, self.port.unwrap_or(0))))?;
            listener.listen(1)?;
            listener.local_addr()
        };
        let bound = listen().map_err(failed("listening"))?;
        let port = bound.as_socket().map_or(0, |bound| bound.port());
        Ok((listener, SocketAddr::new(address, port)))
    }

    pub(super) fn congestion_of(&self, end: Sender) -> &str {
        match end {
            Sender::Client => &self.congestion.client,
            Sender::Server => &self.congestion.server,
        }
    }
}

pub(super) fn check_congestion(socket: &Socket, wanted: &str) -> Result<(), TransferError> {
    let found = socket::congestion(socket).map_err(failed("asking for TCP_CONGESTION"))?;
    if found == wanted {
        return Ok(());
    }
    Err(congestion_error(wanted, io::Error::other(format!("the socket has `{found}` nevertheless"))))
}

fn congestion_error(wanted: &str, error: io::Error) -> TransferError {
    let available = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    let available = available.unwrap_or_default().trim().to_owned();
    TransferError::Congestion { wanted: wanted.to_owned(), available, error }
}
