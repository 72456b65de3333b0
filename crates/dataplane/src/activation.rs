//! Sockets that a service manager has made and hands over (sd_listen_fds(3)): they are there before the gateway and while it is
//! started anew, and the page's may have a port that the gateway's user could not take.
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;

/// What was handed over.
#[derive(Debug, Default)]
pub(crate) struct Activated {
    /// A Unix socket is the one for questions.
    pub control: Option<UnixListener>,
    /// A TCP socket is the page's.
    pub pages: Option<TcpListener>,
}

impl Activated {
    /// Of these sockets the first of each kind.
    pub fn of(sockets: Vec<OwnedFd>) -> Self {
        let mut all = Activated::default();
        for socket in sockets {
            let unix = UnixListener::from(socket);
            // Each kind of address is read by its own kind of socket alone.
            if unix.local_addr().is_ok() {
                all.control.get_or_insert(unix);
                continue;
            }
            let tcp = TcpListener::from(OwnedFd::from(unix));
            if tcp.local_addr().is_ok() {
                all.pages.get_or_insert(tcp);
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_told_apart_by_their_addresses() {
        let path = std::env::temp_dir().join(format!("shorthaul-activation-{}", std::process::id()));
        let unix = UnixListener::bind(&path).unwrap();
        let tcp = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = tcp.local_addr().unwrap();
        let all = Activated::of(vec![tcp.into(), unix.into()]);
        assert_eq!(all.pages.unwrap().local_addr().unwrap(), address);
        assert_eq!(all.control.unwrap().local_addr().unwrap().as_pathname(), Some(path.as_path()));
        std::fs::remove_file(path).unwrap();
        let none = Activated::of(Vec::new());
        assert!(none.control.is_none() && none.pages.is_none());
    }
}
