//! Options of TCP sockets that the standard library does not offer.
use super::check;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// The most bytes that the name of a congestion control takes, with its end (`TCP_CA_NAME_MAX`).
const CONGESTION_NAME_MAX: usize = 16;

/// Sets the congestion control of a TCP socket by the kernel's name for it.
pub(crate) fn set_congestion(socket: &impl AsFd, name: &str) -> io::Result<()> {
    // SAFETY: the pointer and length describe `name`, which the kernel only reads.
    check(unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_ptr().cast(),
            name.len() as libc::socklen_t,
        )
    })
    .map(drop)
}

/// The congestion control of a TCP socket.
pub(crate) fn congestion(socket: &impl AsFd) -> io::Result<String> {
    let mut name = [0u8; CONGESTION_NAME_MAX];
    option(socket, libc::TCP_CONGESTION, &mut name)?;
    let end = name.iter().position(|&b| b == 0).unwrap_or(name.len());
    Ok(String::from_utf8_lossy(&name[..end]).into_owned())
}

/// `struct tcp_info` of a TCP socket, as many bytes as the kernel has.
pub(crate) fn tcp_info(socket: &impl AsFd) -> io::Result<Vec<u8>> {
    let mut info = vec![0u8; 512];
    let len = option(socket, libc::TCP_INFO, &mut info)?;
    info.truncate(len);
    Ok(info)
}

fn option(socket: &impl AsFd, name: libc::c_int, value: &mut [u8]) -> io::Result<usize> {
    let mut len = value.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, which is the size of the buffer.
    check(unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            name,
            value.as_mut_ptr().cast(),
            &raw mut len,
        )
    })?;
    Ok(len as usize)
}

/// How many bytes the other end's kernel has not acknowledged yet (`SIOCOUTQ`, which is `TIOCOUTQ`).
pub(crate) fn unacknowledged(socket: &impl AsFd) -> io::Result<usize> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the request writes one int through the pointer.
    check(unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) })?;
    Ok(usize::try_from(bytes).unwrap_or(0))
}
