//! Accepting connections, also where descriptors or memory are short for a while.
use std::io;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};

/// How long nothing is accepted when something was short.
pub const REST: Duration = Duration::from_millis(10);
/// How often it is said that something is short.
const SAID_EVERY: Duration = Duration::from_secs(10);
/// The process has all the descriptors that it may have (`EMFILE`, errno(3)).
const NO_DESCRIPTORS: i32 = 24;
/// Something is short: the host's descriptors (`ENFILE`), memory for sockets (`ENOBUFS`) or all memory (`ENOMEM`). Other errors are those of a connection that
/// waited, such as of its network (accept(2)).
const SHORT: [i32; 4] = [NO_DESCRIPTORS, 23, 105, 12];

/// Says that connections cannot be accepted, now and then as long as that is so.
#[derive(Debug, Default)]
pub struct Shortage(Mutex<Option<Instant>>);

impl Shortage {
    /// A connection could not be accepted: says so if something is short. Whether to rest before the next, since more than the peer is gone.
    pub fn on_error(&self, error: &io::Error) -> bool {
        if error.kind() == io::ErrorKind::ConnectionAborted {
            return false;
        }
        let is_short = error.raw_os_error().is_some_and(|error| SHORT.contains(&error));
        if is_short && self.is_to_be_said(Instant::now()) {
            let remedy = match error.raw_os_error() {
                Some(NO_DESCRIPTORS) => "; `ulimit -n`, or LimitNOFILE= of a unit, allows more",
                _ => "",
            };
            tracing::warn!("connections cannot be accepted, and wait: {error}{remedy}");
        }
        true
    }

    fn is_to_be_said(&self, now: Instant) -> bool {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = said.is_none_or(|at| now.saturating_duration_since(at) >= SAID_EVERY);
        if is_due {
            *said = Some(now);
        }
        is_due
    }
}

/// The next connection. What cannot be accepted now waits in the kernel, and is tried again.
pub async fn accept(listener: &TcpListener, shortage: &Shortage) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) if shortage.on_error(&error) => tokio::time::sleep(REST).await,
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortage_is_said_at_once_and_then_now_and_then() {
        let (shortage, now) = (Shortage::default(), Instant::now());
        let said = |after| (0..1000).filter(|_| shortage.is_to_be_said(now + after)).count();
        assert_eq!([0, 9, 10, 11].map(|seconds| said(Duration::from_secs(seconds))), [1, 0, 1, 0]);
        assert!(!shortage.on_error(&io::ErrorKind::ConnectionAborted.into()), "nothing is short");
    }

    #[test]
    fn an_error_of_a_connection_that_waited_is_no_shortage() {
        let is_said = |error| {
            let shortage = Shortage::default();
            shortage.on_error(&io::Error::from_raw_os_error(error));
            shortage.0.into_inner().unwrap().is_some()
        };
        // EMFILE, ENFILE, ENOBUFS, ENOMEM; ENETDOWN, EPROTO, EHOSTUNREACH, ENOPROTOOPT, EPERM.
        assert_eq!([24, 23, 105, 12].map(is_said), [true; 4]);
        assert_eq!([100, 71, 113, 92, 1].map(is_said), [false; 5]);
    }
}
