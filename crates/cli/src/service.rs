//! What a service manager is told (`sd_notify(3)`), by one who will not be allowed to open sockets then.
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The way to the service manager, if one has started this.
#[derive(Debug)]
pub struct ServiceManager(Option<UnixDatagram>);

impl ServiceManager {
    /// Opens the way, while that is allowed.
    pub fn reach() -> Self {
        let way = || -> io::Result<Option<UnixDatagram>> {
            let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return Ok(None) };
            let address = match path.as_encoded_bytes() {
                [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
                _ => SocketAddr::from_pathname(&path)?,
            };
            let socket = UnixDatagram::unbound()?;
            socket.connect_addr(&address)?;
            Ok(Some(socket))
        };
        // Whoever has no manager needs none.
        ServiceManager(way().unwrap_or(None))
    }

    /// Tells it something, such as `READY=1`. Nobody may listen, and that is no error.
    pub fn tell(&self, what: &str) {
        if let Some(socket) = &self.0 {
            let _ = socket.send(what.as_bytes());
        }
    }
}
