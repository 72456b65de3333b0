//! Relays as programs of their own, on hosts of a lab: `shorthaul node`.
use crate::child::{Child, ChildError, Ready};
use crate::host::Host;
use serde_json::Value;
use shorthaul_scenario::Forward;
use shorthaul_types::{BufferTimes, Bytes};
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

/// How a relay works.
#[derive(Clone, Debug)]
pub struct RelaySettings {
    /// The kernel's congestion control for what leaves it.
    pub congestion: String,
    /// Whether the kernel paces what leaves it.
    pub paced: bool,
    /// What it may hold of each direction; the kernel's own sizes if `None`.
    pub buffer: Option<Bytes>,
    /// When it sends on.
    pub forward: Forward,
}

/// A relay that runs, and ends with this.
#[derive(Debug)]
pub struct RelayProcess {
    child: Child,
}

impl RelayProcess {
    /// Starts this same program as a relay in `host` that takes connections at `listen` and carries them on to
    /// `target`, and returns when it listens.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start(
        host: &Host,
        listen: SocketAddr,
        target: SocketAddr,
        settings: &RelaySettings,
    ) -> Result<RelayProcess, ChildError> {
        let RelaySettings { congestion, paced, buffer, forward } = settings;
        let program = std::env::current_exe()
            .map_err(|source| ChildError::Start { name: "the relay".into(), source })?;
        let mut command = Command::new(program);
        command
            .arg("node")
            .arg("--relay")
            .arg(format!("{listen}={target}"))
            .args(["--congestion", congestion])
            .args(["--access-log", "/dev/stdout"]);
        if *paced {
            command.arg("--paced");
        }
        if let Some(Bytes(buffer)) = buffer {
            command.arg("--buffer").arg(format!("{buffer}B"));
        }
        match forward {
            Forward::AtOnce => {}
            Forward::AfterRoundTrips(windows) => {
                command.arg("--wait").arg(windows.to_string());
            }
            Forward::WhenComplete => {
                command.arg("--store");
            }
        }
        let name = format!("the relay on `{}`", host.name());
        Child::start(&name, host, &mut command, Ready::Says("ready".into()))
            .map(|child| RelayProcess { child })
    }

    /// How long the buffer of the latest session that is over was empty, and how long full: of what the client sent, or of what it got.
    fn buffer_times(&self, to_target: bool) -> Option<BufferTimes> {
        /// A session is over when its last byte has arrived; what is written of it comes a moment later.
        const MOMENT: Duration = Duration::from_secs(2);
        self.child.await_line(MOMENT, |line| {
            let entry: Value = serde_json::from_str(line).ok()?;
            let times = entry.get("buffers")?.get(if to_target { "up" } else { "down" })?;
            serde_json::from_value(times.clone()).ok()
        })
    }
}

/// The relays between a client and a server, each of which carries connections on to the next. They end with this.
#[derive(Debug)]
pub struct RelayChain {
    /// Where the client is to connect.
    pub entrance: SocketAddr,
    relays: Vec<RelayProcess>,
}

impl RelayChain {
    /// Starts the relays, in the order from client to server, each on its host at `port` of its IPv4 address.
    /// Without any, the client is to connect to the server.
    ///
    /// # Errors
    /// If one of them does not start.
    pub fn start<'h>(
        relays: impl DoubleEndedIterator<Item = (&'h Host, RelaySettings)>,
        port: u16,
        server: SocketAddr,
    ) -> Result<RelayChain, ChildError> {
        let mut chain = RelayChain { entrance: server, relays: Vec::new() };
        // From the server on, so that whom a relay connects to is there.
        for (host, settings) in relays.rev() {
            let listen = SocketAddr::new(host.address_v4().into(), port);
            chain.relays.push(RelayProcess::start(host, listen, chain.entrance, &settings)?);
            chain.entrance = listen;
        }
        Ok(chain)
    }

    /// How long the buffer of each relay was empty, and how long full, in the order of the data: what the client gives, or what it gets. It
    /// is for a chain that has carried one session, which is over.
    pub fn buffer_times(&self, client_gives: bool) -> Vec<BufferTimes> {
        let of = |relay: &RelayProcess| relay.buffer_times(client_gives).unwrap_or_default();
        let mut times: Vec<BufferTimes> = self.relays.iter().map(of).collect();
        if client_gives {
            times.reverse(); // the one next to the server was started first
        }
        times
    }

    /// How many relays there are.
    pub fn len(&self) -> usize {
        self.relays.len()
    }

    /// Whether the client connects to the server directly.
    pub fn is_empty(&self) -> bool {
        self.relays.is_empty()
    }
}
