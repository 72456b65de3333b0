//! Waking a thread that waits for descriptors.
use super::{check, check_len};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

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
