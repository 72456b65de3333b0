use crate::accept::{REST, Shortage};
use shorthaul_os::poll::wait_any_readable;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Connections at once; more are turned away.
const MAX_CONNECTIONS: usize = 64;
/// Connections at once from one host: an IPv4 address, or a /64.
const MAX_OF_ONE: usize = 8;
/// The longest sleep: after this long it is noticed that another process answers.
const NAP: Duration = Duration::from_millis(200);
/// How long one may neither say nor take anything, and how long it may last.
const SILENCE: Duration = Duration::from_secs(30);
const LONGEST: Duration = Duration::from_secs(300);

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

    /// Answers at a socket that listens already.
    pub fn adopt(listener: TcpListener) -> Echo {
        Echo { listener }
    }

    /// Another descriptor of its socket.
    ///
    /// # Errors
    /// There are no more descriptors.
    pub fn socket(&self) -> io::Result<TcpListener> {
        self.listener.try_clone()
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
        self.run_until(&AtomicBool::new(false))
    }

    /// Answers until it is told to stop: what comes then is another's. Who has come is answered.
    ///
    /// # Errors
    /// Accepting fails for good.
    pub fn run_until(self, stop: &AtomicBool) -> io::Result<()> {
        // Whoever has the socket, too, may be the one who gets what has come.
        self.listener.set_nonblocking(true)?;
        let open: Arc<Mutex<Vec<IpAddr>>> = Arc::default();
        let shortage = Shortage::default();
        while !stop.load(Ordering::Acquire) {
            let (socket, peer) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    wait_any_readable([self.listener.as_fd()], NAP)?;
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => return Err(error),
                Err(error) => {
                    if shortage.on_error(&error) {
                        thread::sleep(REST);
                    }
                    continue;
                }
            };
            let Some(place) = Place::take(&open, peer.ip()) else { continue };
            // Without a thread for it, it is closed.
            let _ = thread::Builder::new().name("echo of one".into()).spawn(move || {
                let _place = place;
                // One that broke has nobody who would want to hear of it.
                let _ = answer(&socket);
            });
        }
        Ok(())
    }
}

fn answer(socket: &TcpStream) -> io::Result<()> {
    socket.set_read_timeout(Some(SILENCE))?;
    socket.set_write_timeout(Some(SILENCE))?;
    let (ends, mut buffer) = (Instant::now() + LONGEST, [0; 16 << 10]);
    while let len @ 1.. = (&*socket).read(&mut buffer)? {
        (&*socket).write_all(&buffer[..len])?;
        if Instant::now() >= ends {
            break;
        }
    }
    socket.shutdown(Shutdown::Write)
}

/// One of the connections that there may be.
struct Place {
    open: Arc<Mutex<Vec<IpAddr>>>,
    of: IpAddr,
}

impl Place {
    fn take(open: &Arc<Mutex<Vec<IpAddr>>>, of: IpAddr) -> Option<Place> {
        let of = match of {
            // An IPv4 address in another form is one host, too.
            IpAddr::V6(address) => address
                .to_ipv4_mapped()
                .map_or_else(|| IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)), IpAddr::V4),
            v4 => v4,
        };
        let mut all = open.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MAX_CONNECTIONS || all.iter().filter(|one| **one == of).count() >= MAX_OF_ONE {
            return None;
        }
        all.push(of);
        Some(Place { open: Arc::clone(open), of })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = all.iter().position(|one| *one == self.of) {
            all.swap_remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_leaves_room_for_others() {
        let open = Arc::default();
        let places: Vec<Place> = (0..100).filter_map(|_| Place::take(&open, [192, 0, 2, 1].into())).collect();
        assert_eq!(places.len(), MAX_OF_ONE);
        assert!(Place::take(&open, [192, 0, 2, 2].into()).is_some());
        drop(places);
        let all = (0..=255).flat_map(|host| Place::take(&open, [192, 0, 2, host].into()));
        assert_eq!(all.collect::<Vec<Place>>().len(), MAX_CONNECTIONS);
        assert!(open.lock().unwrap().is_empty());
    }
}
