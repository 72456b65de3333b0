//! Where relays beside the way are written down.
mod etcd;
mod list;
mod srv;

use std::net::{SocketAddr, ToSocketAddrs};

pub use etcd::{Etcd, EtcdConfig, Registered, Registration, TIMEOUT as ETCD_TIMEOUT};
pub use list::List;
pub use srv::Srv;

use super::message::PORT;
use super::responder::Load;

/// A relay that a directory names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// What people call it.
    pub name: String,
    /// Where it accepts sessions.
    pub session: SocketAddr,
    /// Where its responder is asked.
    pub probe: SocketAddr,
    /// How it was doing when it last said so.
    pub load: Option<Load>,
}

/// Somebody who knows relays. Asking may take as long as a network does.
pub trait Directory: Send + Sync {
    /// What it is, for messages: `list of relays.toml`.
    fn name(&self) -> String;

    /// The relays that it knows now, those with room first.
    ///
    /// # Errors
    /// It cannot be asked, or says nonsense.
    fn relays(&self) -> Result<Vec<Listed>, DirectoryError>;
}

/// Why a directory is of no use now.
#[derive(Debug, thiserror::Error)]
#[error("the {directory} is of no use: {problem}")]
pub struct DirectoryError {
    /// Which one.
    pub directory: String,
    /// What is wrong, and what to do.
    pub problem: String,
}

/// Relays that want more sessions before those that do not, and those with the shortest service time first: where only so
/// many are asked, they are the best candidates.
pub(crate) fn freest_first(relays: &mut [Listed]) {
    relays.sort_by_key(|relay| {
        relay.load.map_or((false, std::time::Duration::ZERO), |load| (load.overloaded, load.service_time))
    });
}

/// The first address of `host:port`, and that of the responder beside it unless one is named.
pub(crate) fn addresses(session: &str, probe: Option<&str>) -> Result<(SocketAddr, SocketAddr), String> {
    let first = |text: &str| {
        let found = text.to_socket_addrs().map_err(|error| format!("`{text}` is no host:port: {error}"))?;
        let mut found: Vec<SocketAddr> = found.collect();
        // Where both are there, most paths to relays are IPv4.
        found.sort_by_key(SocketAddr::is_ipv6);
        found.first().copied().ok_or_else(|| format!("`{text}` has no address"))
    };
    let session = first(session)?;
    let probe = probe.map_or(Ok(SocketAddr::new(session.ip(), PORT)), first)?;
    Ok((session, probe))
}
