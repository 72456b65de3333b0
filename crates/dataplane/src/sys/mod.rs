//! System calls behind safe functions: the only unsafe code of this crate.

mod journal_map;
mod netlink;
mod poll;
mod signals;
mod tun;

pub use journal_map::JournalMap;
pub use netlink::{Family, Netlink, Rule, RulePriority, interface_index, interface_mtu, interface_names};
pub use poll::{monotonic, sharpen_timers, wait_readable};
pub use signals::Signals;
pub use tun::Tun;

use std::io;

/// The value of a system call that returns −1 on failure.
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// The value of a system call that returns a length, or −1 on failure.
fn check_len(result: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}
