//! Why a gateway does not start, or has to end, in sentences that say what to do.
use crate::ConfigError;
use crate::attach::AttachError;
use crate::bridge::BridgeError;
use crate::routes::RouteError;
use shorthaul_monitor::PageError;
use shorthaul_os::Errno;
use shorthaul_os::confine::ConfineError;
use std::io;
use std::path::PathBuf;

/// Why a gateway did not start, or had to end.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An interface is not there.
    #[error("there is no interface `{name}`; this host has {present}")]
    NoInterface {
        /// The one that was named.
        name: String,
        /// Those that are there.
        present: String,
    },
    /// The host does not pass packets on.
    #[error(
        "this host does not forward packets: run `echo net.ipv4.ip_forward=1 > /etc/sysctl.d/90-shorthaul.conf && sysctl --system`; where IPv6 \
         alone is routed, net.ipv6.conf.all.forwarding=1"
    )]
    NotForwarding,
    /// There is one with this name.
    #[error(
        "a gateway named `{name}` is running already: --take-over goes on in its place; one beside it takes another --name, and interfaces of its own"
    )]
    Running {
        /// The name.
        name: String,
    },
    /// Another gateway has the same interface, on the same side or the other one.
    #[error(
        "`{interface}` is another gateway's already: `{name}` splits what comes in there. End that one, or give this one other interfaces"
    )]
    InterfaceTaken {
        /// The interface.
        interface: String,
        /// The other gateway's name.
        name: String,
    },
    /// A device cannot be made.
    #[error("cannot make the device `{name}`: {error}{}", device_remedy(.error))]
    Device {
        /// The device.
        name: String,
        /// Why.
        error: io::Error,
    },
    /// Packets cannot be routed into the devices.
    #[error(transparent)]
    Routes(#[from] RouteError),
    /// Packets cannot be taken at the access interfaces.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// Two interfaces cannot be joined, or packets not taken out of what passes.
    #[error(transparent)]
    Bridge(#[from] BridgeError),
    /// Metrics and page cannot be served.
    #[error(transparent)]
    Pages(#[from] PageError),
    /// Privileges cannot be given up.
    #[error(transparent)]
    Confine(#[from] ConfineError),
    /// A file cannot be made.
    #[error("{path}: {error}")]
    File {
        /// The path.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The run directory, or a file or socket in it, cannot be made.
    #[error("{path}: {error}{}", run_dir_remedy(.error))]
    RunDir {
        /// The path.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The path of the socket is longer than sockets can have.
    #[error(
        "`{path}` is a path of {} bytes, and that of a socket has {} at most: choose another directory with --run-dir",
        path.as_os_str().len(),
        LONGEST_SOCKET_PATH
    )]
    SocketPath {
        /// The path.
        path: PathBuf,
    },
    /// The running gateway cannot be taken over.
    #[error(
        "cannot take over the gateway `{name}`: {error}{}",
        if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) {
            " (none of that name runs with this --run-dir: leave out --take-over)"
        } else {
            ""
        }
    )]
    TakeOver {
        /// Its name.
        name: String,
        /// Why.
        error: io::Error,
    },
    /// The kernel refused something else.
    #[error("{what}: {error}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why.
        error: io::Error,
    },
}

fn device_remedy(error: &io::Error) -> &'static str {
    match Errno::from_io_error(error) {
        Some(Errno::NOENT | Errno::NODEV | Errno::NXIO) => {
            " (/dev/net/tun is missing: run `modprobe tun`, or let the container have the device)"
        }
        Some(Errno::PERM | Errno::ACCESS) => {
            " (it takes the capability CAP_NET_ADMIN: run as root, or in a user and network namespace of your own)"
        }
        Some(Errno::BUSY) => {
            " (another gateway of this name has it: --take-over goes on in its place; one beside it takes another --name, and interfaces of its own)"
        }
        _ => "",
    }
}

/// The length of `sun_path`, without the zero at its end.
pub(crate) const LONGEST_SOCKET_PATH: usize = 107;

fn run_dir_remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied
        | io::ErrorKind::ReadOnlyFilesystem
        | io::ErrorKind::NotADirectory => " (choose another directory with --run-dir)",
        _ => "",
    }
}

/// About the run directory, or this file in it.
pub(crate) fn in_run_dir(path: PathBuf) -> impl FnOnce(io::Error) -> DaemonError {
    move |error| DaemonError::RunDir { path, error }
}

/// About this file.
pub(crate) fn file(path: PathBuf) -> impl FnOnce(io::Error) -> DaemonError {
    move |error| DaemonError::File { path, error }
}

/// While this was tried.
pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> DaemonError {
    move |error| DaemonError::System { what, error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_run_directory_is_the_remedy_for_what_is_in_it_alone() {
        let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
        let said = |error: DaemonError| error.to_string();
        assert!(said(in_run_dir("/run/gw.lock".into())(denied())).contains("--run-dir"));
        assert!(!said(file("/srv/run.pcapng".into())(denied())).contains("--run-dir"));
        let path = PathBuf::from(format!("/{}", "x".repeat(LONGEST_SOCKET_PATH)));
        assert!(said(DaemonError::SocketPath { path }).contains("108 bytes"));
    }
}
