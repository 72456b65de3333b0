//! The few system calls that the standard library and `socket2` do not offer.
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// `setsockopt(2)` with a value that the kernel reads as `T`: a number or one of its structures.
fn set_option<T: Copy>(
    socket: &impl AsFd,
    level: libc::c_int,
    name: libc::c_int,
    value: T,
) -> io::Result<()> {
    // SAFETY: the pointer and the length describe `value`, which lives until the call returns; the
    // kernel only reads from it.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sets a TCP option that takes a number.
pub(crate) fn set_tcp_option(socket: &impl AsFd, name: libc::c_int, value: u32) -> io::Result<()> {
    set_option(socket, libc::IPPROTO_TCP, name, value)
}

/// Makes the unconnected `socket` begin its sequence numbers at `isn`.
///
/// Linux keeps a sequence number that was set in repair mode (`tcp(7)` `TCP_REPAIR`) when the
/// socket then leaves that mode and connects in the ordinary way. Needs `CAP_NET_ADMIN`. An `isn`
/// of zero would mean "choose one".
pub(crate) fn set_initial_sequence_number(socket: &impl AsFd, isn: u32) -> io::Result<()> {
    const TCP_REPAIR: libc::c_int = 19;
    const TCP_REPAIR_QUEUE: libc::c_int = 20;
    const TCP_QUEUE_SEQ: libc::c_int = 21;
    const SEND_QUEUE: u32 = 2;
    const ON: u32 = 1;
    // "Off, without a window probe."
    const OFF: u32 = u32::MAX;
    set_tcp_option(socket, TCP_REPAIR, ON)?;
    set_tcp_option(socket, TCP_REPAIR_QUEUE, SEND_QUEUE)?;
    set_tcp_option(socket, TCP_QUEUE_SEQ, isn)?;
    set_tcp_option(socket, TCP_REPAIR, OFF)
}

/// The kernel's `struct tcp_md5sig`.
#[derive(Clone, Copy)]
#[repr(C)]
struct TcpMd5Sig {
    address: [u8; 128],
    flags: u8,
    prefix_len: u8,
    key_len: u16,
    interface: libc::c_int,
    key: [u8; 80],
}

/// Signs and verifies the segments exchanged with `peer` (RFC 2385); ports do not matter.
pub(crate) fn set_md5_key(socket: &impl AsFd, peer: std::net::IpAddr, key: &[u8]) -> io::Result<()> {
    const TCP_MD5SIG: libc::c_int = 14;
    let mut address = [0; 128];
    match peer {
        std::net::IpAddr::V4(v4) => {
            address[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
            address[4..8].copy_from_slice(&v4.octets());
        }
        std::net::IpAddr::V6(v6) => {
            address[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
            address[8..24].copy_from_slice(&v6.octets());
        }
    }
    let mut padded = [0; 80];
    padded[..key.len()].copy_from_slice(key);
    let signature =
        TcpMd5Sig { address, flags: 0, prefix_len: 0, key_len: key.len() as u16, interface: 0, key: padded };
    set_option(socket, libc::IPPROTO_TCP, TCP_MD5SIG, signature)
}

/// Whether the next byte to be read is the urgent one (`sockatmark(3)`).
pub(crate) fn at_urgent_mark(socket: &impl AsFd) -> io::Result<bool> {
    const SIOCATMARK: libc::Ioctl = 0x8905;
    ask_number(socket, SIOCATMARK).map(|at_mark| at_mark != 0)
}

/// Reads the urgent byte out of band; `None` at the end of the stream.
pub(crate) fn receive_urgent_byte(socket: &impl AsFd) -> io::Result<Option<u8>> {
    let mut byte = 0u8;
    let flags = libc::MSG_OOB | libc::MSG_DONTWAIT;
    // SAFETY: the kernel writes at most one byte through the pointer, which is valid for that.
    let got = unsafe { libc::recv(socket.as_fd().as_raw_fd(), (&raw mut byte).cast(), 1, flags) };
    match got {
        1 => Ok(Some(byte)),
        0 => Ok(None),
        _ => Err(io::Error::last_os_error()),
    }
}

/// How many bytes the peer's kernel has not acknowledged yet (`SIOCOUTQ`, the socket meaning of
/// `TIOCOUTQ`).
pub(crate) fn unacknowledged(socket: &impl AsFd) -> io::Result<usize> {
    ask_number(socket, libc::TIOCOUTQ).map(|bytes| bytes as usize)
}

/// How many bytes wait to be read.
pub(crate) fn queued(socket: &impl AsFd) -> io::Result<usize> {
    ask_number(socket, libc::FIONREAD).map(|bytes| bytes as usize)
}

fn ask_number(socket: &impl AsFd, request: libc::Ioctl) -> io::Result<libc::c_int> {
    let mut number: libc::c_int = 0;
    // SAFETY: each of the requests above writes one int through the pointer, which is valid for that.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), request, &raw mut number) };
    if result == 0 { Ok(number) } else { Err(io::Error::last_os_error()) }
}

/// The states of RFC 9293 §3.3.2 that the cases ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TcpState {
    FinWait1,
    FinWait2,
    /// Any other, by the kernel's number.
    Other(u8),
}

/// The state of a TCP socket, the first field of the kernel's `struct tcp_info`.
pub(crate) fn tcp_state(socket: &impl AsFd) -> io::Result<TcpState> {
    let mut info = [0u8; 8];
    let mut len = info.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, which is the size of the buffer.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(match info[0] {
        4 => TcpState::FinWait1,
        5 => TcpState::FinWait2,
        other => TcpState::Other(other),
    })
}
