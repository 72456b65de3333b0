//! What the standard library does not offer of sockets.
use super::{check, check_len};
use shorthaul_types::Time;
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

/// Lets the kernel pace what a TCP socket sends, at the rates that it derives from window and round trip.
pub(crate) fn set_paced(socket: &impl AsFd) -> io::Result<()> {
    // Any limit switches pacing on (tcp(7), `SO_MAX_PACING_RATE`); this one is beyond all links.
    let limit: u64 = 1 << 50;
    // SAFETY: the pointer and length describe `limit`, which the kernel only reads.
    check(unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MAX_PACING_RATE,
            (&raw const limit).cast(),
            size_of_val(&limit) as libc::socklen_t,
        )
    })
    .map(drop)
}

/// `struct tcp_info` of a TCP socket, as many bytes as the kernel has.
pub(crate) fn tcp_info(socket: &impl AsFd) -> io::Result<Vec<u8>> {
    let mut info = vec![0u8; 512];
    let len = option(socket, libc::TCP_INFO, &mut info)?;
    info.truncate(len);
    Ok(info)
}

/// How many bytes of what was written to a TCP socket its peer has not acknowledged yet.
pub(crate) fn unacknowledged(socket: &impl AsFd) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the kernel writes an int to `bytes`.
    check(unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) })?;
    Ok(u64::try_from(bytes).unwrap_or(0))
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

/// Asks the kernel to stamp what a socket receives with the time at which it came in.
pub(crate) fn stamp_arrivals(socket: &impl AsFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the pointer and length describe `on`, which the kernel only reads.
    check(unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPNS,
            (&raw const on).cast(),
            size_of_val(&on) as libc::socklen_t,
        )
    })
    .map(drop)
}

/// Makes room for `bytes` of what a socket receives, beyond the machine's limit where that is allowed.
pub(crate) fn enlarge_receive_buffer(socket: &impl AsFd, bytes: libc::c_int) -> io::Result<()> {
    let set = |option| {
        // SAFETY: the pointer and length describe `bytes`, which the kernel only reads.
        check(unsafe {
            libc::setsockopt(
                socket.as_fd().as_raw_fd(),
                libc::SOL_SOCKET,
                option,
                (&raw const bytes).cast(),
                size_of_val(&bytes) as libc::socklen_t,
            )
        })
    };
    set(libc::SO_RCVBUFFORCE).or_else(|_| set(libc::SO_RCVBUF)).map(drop)
}

/// Receives a datagram; its length, and when it came in by `CLOCK_REALTIME`. The socket must
/// [`stamp_arrivals`].
pub(crate) fn receive_stamped(socket: &impl AsFd, buffer: &mut [u8]) -> io::Result<(usize, Time)> {
    // Aligned as control messages have to be, and long enough for one with a timespec.
    let mut control = [0u64; 8];
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: all zeros is a valid msghdr.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    // SAFETY: the message describes `buffer` and `control`, which are valid for writing.
    let len = check_len(unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &raw mut message, 0) })?;
    // SAFETY: the kernel has filled in the control messages and their length; the macros walk over them.
    // A message of this type holds a timespec, which may be unaligned.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(&raw const message);
        while !header.is_null() {
            if (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_TIMESTAMPNS {
                let stamp: libc::timespec = std::ptr::read_unaligned(libc::CMSG_DATA(header).cast());
                return Ok((
                    len,
                    Time::from_nanos(stamp.tv_sec as u64 * 1_000_000_000 + stamp.tv_nsec as u64),
                ));
            }
            header = libc::CMSG_NXTHDR(&raw const message, header);
        }
    }
    Err(io::Error::other("the kernel did not stamp a datagram"))
}
