//! Signals as descriptors, and threads that no signal reaches.
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a signal asks of a daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// To end (SIGTERM, SIGINT).
    End,
    /// To read its configuration again (SIGHUP).
    Reread,
}

/// Receives the signals that are meant for a daemon, instead of being ended by them. SIGUSR1 and SIGUSR2 mean nothing and do
/// nothing.
#[derive(Debug)]
pub struct Signals {
    /// Readable when one has arrived.
    arrivals: UnixStream,
    /// One byte for each that asks to end.
    ends: UnixStream,
    /// SIGHUP has arrived.
    reread: Arc<AtomicBool>,
}

impl Signals {
    /// Takes them from here on, for the whole process.
    pub fn take_over() -> io::Result<Self> {
        use signal_hook::low_level::pipe;
        let (arrivals, arrived) = UnixStream::pair()?;
        let (ends, end) = UnixStream::pair()?;
        arrivals.set_nonblocking(true)?;
        ends.set_nonblocking(true)?;
        let reread = Arc::new(AtomicBool::new(false));
        // What a signal means is noted before it is told of: actions are taken in the order in which they were registered.
        for signal in [SIGTERM, SIGINT] {
            pipe::register(signal, end.try_clone()?)?;
            pipe::register(signal, arrived.try_clone()?)?;
        }
        signal_hook::flag::register(SIGHUP, Arc::clone(&reread))?;
        pipe::register(SIGHUP, arrived)?;
        for signal in [SIGUSR1, SIGUSR2] {
            signal_hook::flag::register(signal, Arc::default())?;
        }
        Ok(Signals { arrivals, ends, reread })
    }

    /// What was asked since the last call, one at a time; `None` if there is nothing more.
    pub fn arrived(&self) -> Option<Asked> {
        // One byte a signal.
        let has = |mut stream: &UnixStream| matches!(stream.read(&mut [0]), Ok(1));
        while has(&self.arrivals) {
            if has(&self.ends) {
                return Some(Asked::End);
            }
            if self.reread.swap(false, Ordering::Relaxed) {
                return Some(Asked::Reread);
            }
        }
        None
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.arrivals.as_fd()
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
        assert_eq!(signals.arrived(), None);
        for (signal, asked) in [(SIGTERM, Asked::End), (SIGHUP, Asked::Reread), (SIGINT, Asked::End)] {
            signal_hook::low_level::raise(signal).unwrap();
            assert_eq!(wait_readable([signals.as_fd()], Some(Duration::from_secs(10))).unwrap(), [true]);
            assert_eq!((signals.arrived(), signals.arrived()), (Some(asked), None));
        }
        // Who is impatient about a configuration does not end us.
        for signal in [SIGHUP, SIGHUP, SIGTERM, SIGUSR1, SIGUSR2, SIGHUP] {
            signal_hook::low_level::raise(signal).unwrap();
        }
        let mut asked = [signals.arrived(), signals.arrived()];
        asked.sort_by_key(|asked| *asked == Some(Asked::Reread));
        assert_eq!(asked, [Some(Asked::End), Some(Asked::Reread)]);
        assert_eq!(signals.arrived(), None);
    }
}
