//! Waiting for descriptors, and waking who waits.
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Waits until one of `descriptors` can be read from, for at most `timeout`; says which can.
pub fn wait_readable<const N: usize>(
    descriptors: [BorrowedFd<'_>; N],
    timeout: Option<Duration>,
) -> io::Result<[bool; N]> {
    let mut polled = descriptors.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    wait(&mut polled, timeout)?;
    Ok(polled.map(|fd| !fd.revents().is_empty()))
}

/// Waits until any of `descriptors` can be read from, for at most `timeout`.
pub fn wait_any_readable<'a>(
    descriptors: impl IntoIterator<Item = BorrowedFd<'a>>,
    timeout: impl Into<Option<Duration>>,
) -> io::Result<()> {
    let polled = descriptors.into_iter().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    wait(&mut polled.collect::<Vec<_>>(), timeout.into())
}

/// Waits until `reads` can be read from, or `writes` be written to, for at most `timeout`; says which can. A connection that was begun can be written to
/// when it is there, or has failed.
pub fn wait_either(
    reads: BorrowedFd<'_>,
    writes: BorrowedFd<'_>,
    timeout: Duration,
) -> io::Result<[bool; 2]> {
    let mut polled =
        [PollFd::from_borrowed_fd(reads, PollFlags::IN), PollFd::from_borrowed_fd(writes, PollFlags::OUT)];
    wait(&mut polled, Some(timeout))?;
    Ok(polled.map(|fd| !fd.revents().is_empty()))
}

/// Whether the peer of a connection has closed or reset it.
pub fn has_ended(socket: &impl AsFd) -> io::Result<bool> {
    let mut polled = [PollFd::new(socket, PollFlags::RDHUP)];
    wait(&mut polled, Some(Duration::ZERO))?;
    Ok(!polled[0].revents().is_empty())
}

/// A signal ends the wait early.
fn wait(polled: &mut [PollFd<'_>], timeout: Option<Duration>) -> io::Result<()> {
    let timeout = timeout.map(|timeout| Timespec {
        tv_sec: timeout.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    });
    match poll(polled, timeout.as_ref()) {
        Ok(_) => Ok(()),
        Err(Errno::INTR) => {
            polled.iter_mut().for_each(PollFd::clear_revents);
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// Wakes a thread that waits for descriptors (`eventfd(2)`).
#[derive(Debug)]
pub struct Waker(OwnedFd);

impl Waker {
    /// One that nobody has used yet.
    pub fn new() -> io::Result<Self> {
        Ok(Waker(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Wakes the waiting thread, now or when it waits next.
    pub fn wake(&self) {
        // This fails only if the counter is full, in which case the thread wakes anyway.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Forgets earlier wakes.
    pub fn clear(&self) {
        // Nothing to read is no mistake.
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waker_is_readable_from_its_wake_to_its_clearing() {
        let [waker, other] = [Waker::new().unwrap(), Waker::new().unwrap()];
        let readable = || wait_readable([waker.as_fd(), other.as_fd()], Some(Duration::ZERO)).unwrap();
        assert_eq!(readable(), [false, false]);
        waker.wake();
        waker.wake();
        assert_eq!(readable(), [true, false]);
        waker.clear();
        assert_eq!(readable(), [false, false]);
    }

    #[test]
    fn either_of_two_is_told() {
        let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
        let (idle, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let waker = Waker::new().unwrap();
        let wait = |reads: BorrowedFd<'_>, writes: BorrowedFd<'_>| {
            wait_either(reads, writes, Duration::ZERO).unwrap()
        };
        assert_eq!(wait(near.as_fd(), idle.as_fd()), [false, true]);
        drop(far);
        assert_eq!(wait(near.as_fd(), idle.as_fd()), [true, true], "its end can be read");
        // What is full cannot be written to.
        idle.set_nonblocking(true).unwrap();
        while io::Write::write(&mut &idle, &[0; 65_536]).is_ok() {}
        assert_eq!(wait(waker.as_fd(), idle.as_fd()), [false, false]);
    }

    #[test]
    fn a_connection_has_ended_once_its_peer_closed_it() {
        let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(!has_ended(&near).unwrap());
        drop(far);
        assert!(has_ended(&near).unwrap());
    }
}
