use crate::conformance::case::{Family, Fault};
use crate::conformance::end::End;
use crate::conformance::failure::{Failure, While};
use crate::conformance::pattern::Pattern;
use crate::conformance::place::Place;
use crate::conformance::site::Site;
use shorthaul_types::Seed;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What a case gets: the site, the fault, and until when it must be done.
pub(crate) struct Context {
    pub(crate) site: Arc<Site>,
    pub(crate) fault: Fault,
    pub(crate) family: Family,
    pub(crate) seed: Seed,
    pub(crate) deadline: Instant,
    flows: AtomicU64,
    notes: Mutex<Vec<String>>,
}

/// A connection to be made: from where to where, and what to set on the sockets before.
pub(crate) struct Dial<'a> {
    pub(crate) from: Place,
    pub(crate) to: Place,
    pub(crate) protocol: Protocol,
    /// Options of the connecting socket.
    pub(crate) client: &'a (dyn Fn(&Socket) -> io::Result<()> + Sync),
    /// Options of the listening socket, which the accepted one inherits.
    pub(crate) server: &'a (dyn Fn(&Socket) -> io::Result<()> + Sync),
}

impl Default for Dial<'_> {
    fn default() -> Self {
        Dial {
            from: Place::Client,
            to: Place::Server,
            protocol: Protocol::TCP,
            client: &|_| Ok(()),
            server: &|_| Ok(()),
        }
    }
}

impl Context {
    pub(crate) fn new(site: Arc<Site>, fault: Fault, family: Family, seed: Seed, limit: Duration) -> Self {
        Context {
            site,
            fault,
            family,
            seed,
            deadline: Instant::now() + limit,
            flows: AtomicU64::new(0),
            notes: Mutex::default(),
        }
    }

    /// How long is left.
    pub(crate) fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Whether the path loses packets.
    pub(crate) fn lossy(&self) -> bool {
        self.fault == Fault::Lossy
    }

    /// Adds a remark to the report.
    pub(crate) fn note(&self, remark: impl Into<String>) {
        self.notes.lock().expect("no holder panics").push(remark.into());
    }

    /// The remarks so far.
    pub(crate) fn notes(&self) -> Vec<String> {
        self.notes.lock().expect("no holder panics").clone()
    }

    /// A new socket in the host at `place`.
    pub(crate) fn socket(&self, place: Place, kind: Type, protocol: Protocol) -> Result<Socket, Failure> {
        let domain = match self.family {
            Family::V4 => Domain::IPV4,
            Family::V6 => Domain::IPV6,
        };
        let make = || {
            let socket = Socket::new(domain, kind, Some(protocol))?;
            if kind == Type::STREAM {
                // The default differs from host to host.
                socket.set_tcp_congestion(b"cubic")?;
            }
            Ok(socket)
        };
        self.site.at(place, make).doing(format!("a socket at the {place:?}"))
    }

    /// The address of `place` with `port`.
    pub(crate) fn address(&self, place: Place, port: u16) -> SocketAddr {
        SocketAddr::new(place.address(self.family), port)
    }

    /// A socket that listens at `place` on a port of its own, and that port's address.
    pub(crate) fn listen(
        &self,
        place: Place,
        protocol: Protocol,
        options: &(dyn Fn(&Socket) -> io::Result<()> + Sync),
    ) -> Result<(Socket, SocketAddr), Failure> {
        let listener = self.socket(place, Type::STREAM, protocol)?;
        let make = || {
            options(&listener)?;
            listener.bind(&SockAddr::from(self.address(place, 0)))?;
            listener.listen(4096)?;
            listener.local_addr()
        };
        let local = make().doing(format!("listening at the {place:?}"))?;
        let port = local.as_socket().map_or(0, |address| address.port());
        Ok((listener, self.address(place, port)))
    }

    /// Accepts a connection before the deadline.
    pub(crate) fn accept(&self, listener: &Socket) -> Result<Socket, Failure> {
        listener
            .set_read_timeout(Some(self.remaining().max(Duration::from_millis(1))))
            .doing("SO_RCVTIMEO")?;
        match listener.accept() {
            Ok((socket, _)) => Ok(socket),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                Err(Failure::new("server: the client's connection is established but never arrived here"))
            }
            Err(error) => Err(error).doing("server: accept"),
        }
    }

    /// Connects `socket` to `address` before the deadline.
    pub(crate) fn connect(&self, socket: &Socket, address: SocketAddr) -> io::Result<()> {
        socket.connect_timeout(&SockAddr::from(address), self.remaining().max(Duration::from_millis(1)))
    }

    /// A connection from the client to the server: the client's end and the server's.
    pub(crate) fn pair(&self) -> Result<(End, End), Failure> {
        self.pair_with(&Dial::default())
    }

    /// A connection as `dial` says: the end that connected and the one that accepted.
    pub(crate) fn pair_with(&self, dial: &Dial<'_>) -> Result<(End, End), Failure> {
        let (listener, address) = self.listen(dial.to, dial.protocol, dial.server)?;
        let socket = self.socket(dial.from, Type::STREAM, dial.protocol)?;
        (dial.client)(&socket).doing("client: socket options")?;
        self.connect(&socket, address).doing("client: connecting to a server that listens")?;
        let accepted = self.accept(&listener)?;
        Ok(self.ends(socket, accepted))
    }

    /// The two ends of a connection whose sockets are `client` and `server`.
    pub(crate) fn ends(&self, client: Socket, server: Socket) -> (End, End) {
        let flow = self.next_flow();
        (self.client_end(client, flow), self.server_end(server, flow))
    }

    /// The seed of another flow.
    pub(crate) fn next_flow(&self) -> Seed {
        self.seed.derive("flow").nth(self.flows.fetch_add(1, Ordering::Relaxed))
    }

    /// What the client sends in `flow`.
    pub(crate) fn upward(&self, flow: Seed) -> Pattern {
        upward(flow)
    }

    /// What the server sends in `flow`.
    pub(crate) fn downward(&self, flow: Seed) -> Pattern {
        downward(flow)
    }

    /// The client's end of `flow`.
    pub(crate) fn client_end(&self, socket: Socket, flow: Seed) -> End {
        End::new("client", socket, upward(flow), downward(flow), self.deadline)
    }

    /// The server's end of `flow`.
    pub(crate) fn server_end(&self, socket: Socket, flow: Seed) -> End {
        End::new("server", socket, downward(flow), upward(flow), self.deadline)
    }
}

/// What the client sends in `flow`.
fn upward(flow: Seed) -> Pattern {
    Pattern::new(flow.derive("client to server"))
}

/// What the server sends in `flow`.
fn downward(flow: Seed) -> Pattern {
    Pattern::new(flow.derive("server to client"))
}

/// Does two things at once; both must succeed.
pub(crate) fn both<A: Send, B: Send>(
    first: impl FnOnce() -> Result<A, Failure> + Send,
    second: impl FnOnce() -> Result<B, Failure> + Send,
) -> Result<(A, B), Failure> {
    std::thread::scope(|scope| {
        let first = scope.spawn(first);
        let second = second();
        match (joined(first.join()), second) {
            (Ok(a), Ok(b)) => Ok((a, b)),
            (Err(a), Err(b)) => Err(Failure::new(format!("{a}; {b}"))),
            (Err(e), _) | (_, Err(e)) => Err(e),
        }
    })
}

/// Does `task` for `0..n`, all at once; says how many failed, and why the first and the last did.
pub(crate) fn each(n: usize, task: impl Fn(usize) -> Result<(), Failure> + Sync) -> Result<(), Failure> {
    let task = &task;
    let failures: Vec<Failure> = std::thread::scope(|scope| {
        let tasks: Vec<_> = (0..n).map(|i| scope.spawn(move || task(i))).collect();
        tasks.into_iter().filter_map(|t| joined(t.join()).err()).collect()
    });
    match &failures[..] {
        [] => Ok(()),
        [only] => Err(Failure::new(format!("1 of {n} failed: {only}"))),
        [first, .., last] => Err(Failure::new(format!(
            "{} of {n} failed, the first: {first}; the last: {last}",
            failures.len()
        ))),
    }
}

fn joined<T>(result: std::thread::Result<Result<T, Failure>>) -> Result<T, Failure> {
    result.unwrap_or_else(|_| Err(Failure::new("a thread of the case panicked")))
}
