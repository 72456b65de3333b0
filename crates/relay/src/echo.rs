use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

/// Connections at once; more are turned away.
const MAX_CONNECTIONS: u32 = 64;

/// Sends back what comes (RFC 862): what `shorthaul measure` talks to.
#[derive(Debug)]
pub struct Echo {
    listener: TcpListener,
}

impl Echo {
    /// Begins to listen.
    ///
    /// # Errors
    /// The address cannot be had.
    pub fn bind(address: SocketAddr) -> io::Result<Echo> {
        Ok(Echo { listener: TcpListener::bind(address)? })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The socket is gone.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until the process ends.
    ///
    /// # Errors
    /// Accepting fails for good.
    pub fn run(self) -> io::Result<()> {
        let open = Arc::new(AtomicU32::new(0));
        loop {
            let (socket, _) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(error) => return Err(error),
            };
            if open.fetch_add(1, Ordering::AcqRel) >= MAX_CONNECTIONS {
                open.fetch_sub(1, Ordering::AcqRel);
                continue;
            }
            let open = Arc::clone(&open);
            thread::spawn(move || {
                // One that broke has nobody who would want to hear of it.
                let _ = io::copy(&mut &socket, &mut &socket).and_then(|_| socket.shutdown(Shutdown::Write));
                open.fetch_sub(1, Ordering::AcqRel);
            });
        }
    }
}
