//! Signals as descriptors, and threads that no signal reaches.
use signal_hook::consts::{SIGINT, SIGQUIT, SIGTERM};
use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// Receives SIGTERM and SIGINT, which ask a daemon to end, instead of being ended by them.
#[derive(Debug)]
pub struct Signals(UnixStream);

impl Signals {
    /// Takes them from here on, for the whole process.
    pub fn take_over() -> io::Result<Self> {
        let (arrivals, handler) = UnixStream::pair()?;
        arrivals.set_nonblocking(true)?;
        for signal in [SIGTERM, SIGINT] {
            signal_hook::low_level::pipe::register(signal, handler.try_clone()?)?;
        }
        Ok(Signals(arrivals))
    }

    /// Whether a signal has arrived since the last call that said so.
    pub fn arrived(&self) -> bool {
        // One byte a signal.
        matches!((&self.0).read(&mut [0]), Ok(1))
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// From now on SIGINT and SIGQUIT (Ctrl-C and Ctrl-\\ at a terminal) do nothing to this process. On programs
/// that it starts they have their ordinary effect.
///
/// # Errors
/// None are known: the kernel accepts handlers for these signals.
pub fn leave_interrupts_to_children() -> io::Result<()> {
    for signal in [SIGINT, SIGQUIT] {
        // A handler, unlike SIG_IGN, is not inherited by exec.
        signal_hook::flag::register(signal, Arc::default())?;
    }
    Ok(())
}

/// Runs `task` with all signals held back from this thread, and so from those that it starts. Signals are for
/// the program's own threads, which may wait for them.
pub fn without_signals<R>(task: impl FnOnce() -> R) -> R {
    // rustix has no signal masks.
    // SAFETY: all zeros is a valid set; both are written before they are read.
    let [mut all, mut former]: [libc::sigset_t; 2] = unsafe { std::mem::zeroed() };
    // SAFETY: both sets are valid, and the first becomes full.
    unsafe {
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut former);
    }
    let result = task();
    // SAFETY: the set is the one that was in force before.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const former, std::ptr::null_mut()) };
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poll::wait_readable;
    use std::time::Duration;

    #[test]
    fn a_signal_arrives_once_and_ends_nobody() {
        let signals = Signals::take_over().unwrap();
        assert!(!signals.arrived());
        signal_hook::low_level::raise(SIGTERM).unwrap();
        assert_eq!(wait_readable([signals.as_fd()], Some(Duration::from_secs(10))).unwrap(), [true]);
        assert!(signals.arrived());
        assert!(!signals.arrived());
    }
}
