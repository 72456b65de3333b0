//! Where `top` has it from: a gateway's control socket, or a node's `/status.json`.
use crate::http::fetch;
use crate::snapshot::{FlowRow, Snapshot};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(10);

/// What is watched.
pub trait Feed: Send {
    /// How it stands now; with the flows in which `sought` comes up, if something is sought.
    ///
    /// # Errors
    /// Nobody answers, or it is not understood.
    fn look(&mut self, sought: Option<&str>) -> io::Result<Seen>;
}

/// How it stands.
#[derive(Clone, Debug)]
pub enum Seen {
    /// A gateway, and the flows that were sought.
    Gateway(Box<Snapshot>, Option<Vec<FlowRow>>),
    /// A node.
    Node(Box<NodeStatus>),
}

/// What a node says of itself, as far as it is shown.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    /// Its name.
    pub name: String,
    /// Sessions that are open.
    pub sessions: u64,
    /// Whether new ones are turned away.
    pub overloaded: bool,
    /// Waiting and processing of an average packet, in microseconds.
    pub service_time_us: f64,
    /// What sessions can still reserve.
    pub buffer_free_bytes: u64,
    /// Sessions that were set up.
    pub sessions_opened: u64,
    /// Of which both directions came to their end.
    pub sessions_finished: u64,
    /// Of which one side broke.
    pub sessions_broken: u64,
    /// By the name of the failure.
    pub sessions_refused: BTreeMap<String, u64>,
    /// Toward targets.
    pub bytes_up: u64,
    /// Back.
    pub bytes_down: u64,
    /// Both ways, over the last seconds.
    pub bits_per_second: u64,
    /// By user.
    pub users: BTreeMap<String, NodeUser>,
}

/// A user of a node.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeUser {
    /// Open.
    pub sessions: u64,
    /// Since the node began.
    pub sessions_opened: u64,
    /// Both ways.
    pub bytes: u64,
}

/// A gateway on this host, by its control socket.
#[derive(Debug)]
pub struct GatewayFeed(pub PathBuf);

impl GatewayFeed {
    fn ask<T: for<'de> Deserialize<'de>>(&self, question: &str) -> io::Result<T> {
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("no gateway answers at {}: {error}", self.0.display()))
        };
        let mut stream = UnixStream::connect(&self.0).map_err(named)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.write_all(question.as_bytes())?; // in one piece: the gateway reads once
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        serde_json::from_str(&text).map_err(|_| {
            io::Error::other(format!("the gateway is of another version: it said `{}`", text.trim()))
        })
    }
}

impl Feed for GatewayFeed {
    fn look(&mut self, sought: Option<&str>) -> io::Result<Seen> {
        let snapshot = self.ask("snapshot")?;
        let flows = sought.map(|sought| self.ask(&format!("find {sought}"))).transpose()?;
        Ok(Seen::Gateway(snapshot, flows))
    }
}

/// A node, by its metrics.
#[derive(Debug)]
pub struct NodeFeed(pub SocketAddr);

impl Feed for NodeFeed {
    fn look(&mut self, _: Option<&str>) -> io::Result<Seen> {
        let named = |error: io::Error| {
            let hint = "start it with --metrics";
            io::Error::new(error.kind(), format!("no node answers at http://{}: {error} ({hint})", self.0))
        };
        let text = fetch(self.0, "/status.json").map_err(named)?;
        let status = serde_json::from_str(&text).map_err(io::Error::other)?;
        Ok(Seen::Node(Box::new(status)))
    }
}
