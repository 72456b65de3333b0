//! Relays as programs of their own, on hosts of a lab: `shorthaul node`.
use crate::child::{Child, ChildError, Ready};
use crate::host::Host;
use shorthaul_scenario::Forward;
use shorthaul_types::Bytes;
use std::net::SocketAddr;
use std::process::Command;

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
    _child: Child,
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
            .args(["--congestion", congestion]);
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
            .map(|child| RelayProcess { _child: child })
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

    /// How many relays there are.
    pub fn len(&self) -> usize {
        self.relays.len()
    }

    /// Whether the client connects to the server directly.
    pub fn is_empty(&self) -> bool {
        self.relays.is_empty()
    }
}
