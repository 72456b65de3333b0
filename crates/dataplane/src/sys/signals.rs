//! SIGTERM and SIGINT as a descriptor (`signalfd(2)`).
use super::{check, check_len};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Receives the signals that ask a daemon to end, instead of being ended by them.
#[derive(Debug)]
pub struct Signals(OwnedFd);

impl Signals {
    /// Blocks SIGTERM and SIGINT in the calling thread and takes them from here on.
    pub fn take_over() -> io::Result<Self> {
        // SAFETY: an all-zero set is valid, and the calls below write one through the pointer.
        let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
        for signal in [libc::SIGTERM, libc::SIGINT] {
            // SAFETY: see above.
            unsafe { libc::sigaddset(&raw mut set, signal) };
        }
        // SAFETY: the set is initialized; the old one is not asked for.
        check(unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) })?;
        // SAFETY: signalfd reads the set and returns a descriptor that nobody else owns.
        let fd =
            check(unsafe { libc::signalfd(-1, &raw const set, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC) })?;
        // SAFETY: see above.
        Ok(Signals(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Whether a signal has arrived since the last call.
    pub fn arrived(&self) -> bool {
        let mut info = [0u8; size_of::<libc::signalfd_siginfo>()];
        // SAFETY: the pointer and length describe `info`.
        check_len(unsafe { libc::read(self.0.as_raw_fd(), info.as_mut_ptr().cast(), info.len()) }).is_ok()
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
