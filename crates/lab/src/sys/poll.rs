//! Waiting for descriptors, and waking who waits.
use super::{check, check_len};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// Waits until one of `descriptors` can be read from, for at most `timeout` (to the nanosecond, as far
/// as the timers go); says which can.
pub(crate) fn wait_readable<const N: usize>(
    descriptors: [BorrowedFd<'_>; N],
    timeout: Option<Duration>,
) -> io::Result<[bool; N]> {
    let mut polled =
        descriptors.map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 });
    let timeout = timeout.map(|t| libc::timespec {
        tv_sec: libc::time_t::try_from(t.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: t.subsec_nanos().into(),
    });
    // SAFETY: `polled` holds N structures and `timeout` one or none; both live until the call returns.
    let result = unsafe {
        libc::ppoll(
            polled.as_mut_ptr(),
            N as libc::nfds_t,
            timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref),
            std::ptr::null(),
        )
    };
    match check(result) {
        Ok(_) => Ok(polled.map(|p| p.revents != 0)),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok([false; N]),
        Err(error) => Err(error),
    }
}

/// What a thread that waits for descriptors can be woken by (`eventfd(2)`).
#[derive(Debug)]
pub(crate) struct Waker(OwnedFd);

impl Waker {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: eventfd takes numbers and returns a descriptor that nobody else owns.
        let fd = check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        // SAFETY: see above.
        Ok(Waker(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// The descriptor to wait for.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        use std::os::fd::AsFd;
        self.0.as_fd()
    }

    /// Wakes the waiting thread, now or when it waits next.
    pub(crate) fn wake(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: the pointer and length describe `one`. The write fails only if the counter is full,
        // in which case the thread will wake anyway.
        unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Forgets earlier wakes.
    pub(crate) fn clear(&self) {
        let mut count = [0; 8];
        // SAFETY: the pointer and length describe `count`. Nothing to read is no mistake.
        let _ = check_len(unsafe { libc::read(self.0.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) });
    }
}
