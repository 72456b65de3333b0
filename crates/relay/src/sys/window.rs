//! The window that a connection offers.
use super::check;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _};

/// Never lets a connection offer a larger window than this; those that a listening socket accepts inherit it. To be given a
/// receive buffer of a fixed size too: where the kernel enlarges that by itself, it widens the window.
///
/// # Errors
/// It is no TCP socket, or the window is larger than 2 GiB.
pub fn limit_window(socket: &impl AsFd, window: shorthaul_types::Bytes) -> io::Result<()> {
    let window = libc::c_int::try_from(window.0).map_err(io::Error::other)?;
    let len = std::mem::size_of_val(&window) as libc::socklen_t;
    let fd = socket.as_fd().as_raw_fd();
    let (level, name) = (libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP);
    // SAFETY: the value is an int, as `len` says, and lives as long as the call.
    check(unsafe { libc::setsockopt(fd, level, name, (&raw const window).cast(), len) }).map(drop)
}
