//! System calls behind safe functions: the only unsafe code of this crate.

pub(crate) mod clock;
pub(crate) mod namespace;
pub(crate) mod netlink;
pub(crate) mod process;
pub(crate) mod schedule;
pub(crate) mod socket;
pub(crate) mod waker;

use std::io;

/// The value of a system call that returns −1 on failure.
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// The value of a system call that returns a length, or −1 on failure.
fn check_len(result: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}
