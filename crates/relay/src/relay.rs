use crate::session;
use shorthaul_types::Bytes;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;

/// Connections at once; more wait to be accepted.
const MAX_SESSIONS: u32 = 1024;

/// How bytes go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarding {
    /// As they come.
    Pipelined {
        /// First so many round-trip times of the way that they come by are waited, so that what is
        /// held does not run dry (the W of cascaded TCP); zero begins at once.
        wait_windows: u32,
    },
    /// When all of them are there.
    Store,
}

/// What a relay does with a connection.
#[derive(Clone, Debug)]
pub struct RelayConfig {
    /// Where connections are accepted.
    pub listen: SocketAddr,
    /// Where each goes on to: `host:port`.
    pub to: String,
    /// How bytes go on.
    pub forwarding: Forwarding,
    /// The kernel's congestion control for both ways out of here; the host's own if none is named.
    pub congestion: Option<String>,
    /// What the kernel may hold of a direction, in and out together; without, it sizes that itself.
    pub buffer: Option<Bytes>,
}

/// Why there is no relay.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// The address is taken, or not this host's, or asks for a privilege.
    #[error("cannot accept connections at {address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
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
}

/// What a relay has done.
#[derive(Debug, Default)]
pub struct RelayStats {
    /// Connections that were relayed to the end of both directions.
    pub finished: AtomicU64,
    /// Connections of which one side broke, so that the other was reset.
    pub broken: AtomicU64,
    /// Connections that could not go on, because the target did not take them.
    pub refused: AtomicU64,
    /// Bytes passed on, both ways together.
    pub moved: AtomicU64,
}

/// Accepts connections and carries each on to a fixed target.
#[derive(Debug)]
pub struct Relay {
    config: RelayConfig,
    listener: TcpListener,
    stats: Arc<RelayStats>,
}

impl Relay {
    /// Begins to listen.
    ///
    /// # Errors
    /// The address cannot be had, or the congestion control.
    pub fn bind(config: RelayConfig) -> Result<Relay, RelayError> {
        let listener = listen(&config)?;
        Ok(Relay { config, listener, stats: Arc::default() })
    }

    /// Where it listens: the port that the kernel chose, if zero was asked for.
    ///
    /// # Errors
    /// The socket is gone.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// What it has done so far; counts on while it runs.
    pub fn stats(&self) -> Arc<RelayStats> {
        Arc::clone(&self.stats)
    }

    /// Relays until the process ends. Each connection has threads of its own.
    ///
    /// # Errors
    /// Accepting fails for good.
    pub fn run(self) -> io::Result<()> {
        let sessions = Arc::new(AtomicU32::new(0));
        let config = Arc::new(self.config);
        loop {
            while sessions.load(Ordering::Acquire) >= MAX_SESSIONS {
                thread::park_timeout(std::time::Duration::from_millis(10));
            }
            let near = match self.listener.accept() {
                Ok((near, _)) => near,
                // The peer has gone again, or descriptors are short for a moment.
                Err(error) if is_passing(&error) => continue,
                Err(error) => return Err(error),
            };
            sessions.fetch_add(1, Ordering::AcqRel);
            let (config, stats, left) = (Arc::clone(&config), Arc::clone(&self.stats), Arc::clone(&sessions));
            let session = thread::Builder::new().name("session".into()).spawn(move || {
                carry(&near, &config, &stats);
                left.fetch_sub(1, Ordering::AcqRel);
            });
            if session.is_err() {
                sessions.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }
}

fn carry(near: &TcpStream, config: &RelayConfig, stats: &RelayStats) {
    let counter = match connect(config) {
        Ok(far) => match session::relay(near, &far, config.forwarding, &stats.moved) {
            Ok(()) => &stats.finished,
            Err(_) => &stats.broken,
        },
        Err(_) => {
            // As the target would have done.
            let _ = crate::sys::abort(near);
            &stats.refused
        }
    };
    counter.fetch_add(1, Ordering::Relaxed);
}

fn listen(config: &RelayConfig) -> Result<TcpListener, RelayError> {
    let address = config.listen;
    let error = |error| RelayError::Listen { address, error };
    let socket =
        Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP)).map_err(error)?;
    socket.set_reuse_address(true).map_err(error)?;
    set_up(&socket, config)?;
    socket.bind(&address.into()).map_err(error)?;
    socket.listen(1024).map_err(error)?;
    Ok(socket.into())
}

/// What both legs have in common; accepted connections inherit it from the socket that listens.
fn set_up(socket: &Socket, config: &RelayConfig) -> Result<(), RelayError> {
    if let Some(name) = &config.congestion {
        let error = |error| RelayError::Congestion { name: name.clone(), error };
        socket.set_tcp_congestion(name.as_bytes()).map_err(error)?;
    }
    if let Some(buffer) = config.buffer {
        // Before the handshake, so that the window scale fits. A kernel that allows less gives less.
        let half = usize::try_from(buffer.0 / 2).unwrap_or(usize::MAX).min(1 << 30);
        let _ = (socket.set_recv_buffer_size(half), socket.set_send_buffer_size(half));
    }
    Ok(())
}

fn connect(config: &RelayConfig) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, format!("`{}` has no address", config.to));
    for address in config.to.to_socket_addrs()? {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        set_up(&socket, config).map_err(io::Error::other)?;
        match socket.connect(&address.into()) {
            Ok(()) => return Ok(socket.into()),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::ECONNABORTED
                | libc::EINTR
                | libc::EMFILE
                | libc::ENFILE
                | libc::ENOBUFS
                | libc::ENOMEM
                | libc::EPROTO
                | libc::EPERM
        )
    )
}
