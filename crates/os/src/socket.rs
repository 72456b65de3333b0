//! Options of sockets that neither the standard library nor `socket2` offers.
use linux_raw_sys::net::{
    TCP_MD5SIG, TCP_QUEUE_SEQ, TCP_REPAIR, TCP_REPAIR_OFF_NO_WP, TCP_REPAIR_ON, TCP_REPAIR_QUEUE, tcp_md5sig,
};
use rustix::io::Errno;
use rustix::ioctl::{Getter, Opcode, ioctl};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, connect, recv, send, socket_with, sockopt,
};
use shorthaul_types::Bytes;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd};

/// The value of a system call that returns −1 on failure.
pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// `setsockopt(2)` with a value that the kernel reads as `T`: a number or one of its structures. For options that
/// rustix does not have.
pub(crate) fn set_option<T: Copy>(
    socket: &impl AsFd,
    level: libc::c_int,
    name: libc::c_int,
    value: T,
) -> io::Result<()> {
    let (fd, len) = (socket.as_fd().as_raw_fd(), size_of::<T>() as libc::socklen_t);
    // SAFETY: the pointer and the length describe `value`, which lives until the call returns; the
    // kernel only reads from it.
    check(unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), len) }).map(drop)
}

/// Sets a TCP option that takes a number.
fn set_tcp_option(socket: &impl AsFd, name: u32, value: u32) -> io::Result<()> {
    set_option(socket, libc::IPPROTO_TCP, name as libc::c_int, value)
}

/// Sets the congestion control of a TCP socket by the kernel's name for it.
pub fn set_congestion(socket: &impl AsFd, name: &str) -> io::Result<()> {
    Ok(sockopt::set_tcp_congestion(socket, name)?)
}

/// The congestion control of a TCP socket.
pub fn congestion(socket: &impl AsFd) -> io::Result<String> {
    Ok(sockopt::tcp_congestion(socket)?)
}

/// Lets the kernel pace what a TCP socket sends, at the rates that it derives from window and round trip.
pub fn set_paced(socket: &impl AsFd) -> io::Result<()> {
    // Any limit switches pacing on (tcp(7), `SO_MAX_PACING_RATE`); this one is beyond all links.
    set_option(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, 1u64 << 50)
}

/// Lets routers fragment what an IPv4 socket sends (`IP_MTU_DISCOVER`).
pub fn allow_fragments(socket: &impl AsFd) -> io::Result<()> {
    set_option(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DONT)
}

/// From now on, what an IPv4 socket sends has a router alert (RFC 2113) in its header.
pub fn add_ipv4_options(socket: &impl AsFd) -> io::Result<()> {
    set_option(socket, libc::IPPROTO_IP, libc::IP_OPTIONS, [148u8, 4, 0, 0])
}

/// From now on, what an IPv6 socket sends has a header of destination options, with padding in it. Needs `CAP_NET_RAW`.
pub fn add_ipv6_options(socket: &impl AsFd) -> io::Result<()> {
    set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_DSTOPTS, [0u8, 0, 1, 4, 0, 0, 0, 0])
}

/// Lets a listener take data with the SYN (RFC 7413) of as many connections as `waiting`.
pub fn accept_fast_open(listener: &impl AsFd, waiting: u32) -> io::Result<()> {
    set_tcp_option(listener, linux_raw_sys::net::TCP_FASTOPEN, waiting)
}

/// Has what is written first go out with the SYN (RFC 7413).
pub fn connect_with_fast_open(socket: &impl AsFd) -> io::Result<()> {
    set_tcp_option(socket, linux_raw_sys::net::TCP_FASTOPEN_CONNECT, 1)
}

/// Makes the unconnected `socket` begin its sequence numbers at `isn`. Needs `CAP_NET_ADMIN`.
///
/// Linux keeps a sequence number that was set in repair mode (`tcp(7)` `TCP_REPAIR`) when the socket then leaves
/// that mode and connects in the ordinary way. An `isn` of zero would mean "choose one".
pub fn set_initial_sequence_number(socket: &impl AsFd, isn: u32) -> io::Result<()> {
    const SEND_QUEUE: u32 = 2;
    set_tcp_option(socket, TCP_REPAIR, TCP_REPAIR_ON)?;
    set_tcp_option(socket, TCP_REPAIR_QUEUE, SEND_QUEUE)?;
    set_tcp_option(socket, TCP_QUEUE_SEQ, isn)?;
    // "Off, without a window probe."
    set_tcp_option(socket, TCP_REPAIR, TCP_REPAIR_OFF_NO_WP as u32)
}

/// Signs and verifies the segments exchanged with `peer` (RFC 2385); ports do not matter.
///
/// # Errors
/// The key is longer than 80 bytes, or the kernel does not sign.
pub fn set_md5_key(socket: &impl AsFd, peer: IpAddr, key: &[u8]) -> io::Result<()> {
    // SAFETY: all zeros is a valid tcp_md5sig.
    let mut signature: tcp_md5sig = unsafe { std::mem::zeroed() };
    let room = signature.tcpm_key.get_mut(..key.len());
    room.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?.copy_from_slice(key);
    signature.tcpm_keylen = key.len() as u16;
    let address = socket2::SockAddr::from(SocketAddr::new(peer, 0));
    // SAFETY: an address of `len` bytes fits into a storage, and both are bytes to the kernel.
    unsafe {
        let to = (&raw mut signature.tcpm_addr).cast::<u8>();
        std::ptr::copy_nonoverlapping(address.as_ptr().cast::<u8>(), to, address.len() as usize);
    }
    set_option(socket, libc::IPPROTO_TCP, TCP_MD5SIG as libc::c_int, signature)
}

/// Asks the kernel to stamp what a socket receives with the time at which it came in.
pub fn stamp_arrivals(socket: &impl AsFd) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1 as libc::c_int)
}

/// Makes room for `bytes` of what a socket receives, beyond the machine's limit where that is allowed.
pub fn enlarge_receive_buffer(socket: &impl AsFd, bytes: usize) -> io::Result<()> {
    sockopt::set_socket_recv_buffer_size_force(socket, bytes)
        .or_else(|_| sockopt::set_socket_recv_buffer_size(socket, bytes))?;
    Ok(())
}

/// Sets the hop limit of what a socket sends.
pub fn set_hop_limit(socket: &std::net::UdpSocket, hops: u8) -> io::Result<()> {
    if socket.local_addr()?.is_ipv6() {
        sockopt::set_ipv6_unicast_hops(socket, Some(hops))?;
    }
    Ok(sockopt::set_ip_ttl(socket, hops.into())?)
}

/// How many bytes of what was written to a TCP socket its peer has not acknowledged yet (`SIOCOUTQ`).
pub fn unacknowledged(socket: &impl AsFd) -> io::Result<Bytes> {
    const SIOCOUTQ: Opcode = libc::TIOCOUTQ as Opcode;
    // SAFETY: this request writes one int.
    let bytes = unsafe { ioctl(socket, Getter::<SIOCOUTQ, libc::c_int>::new()) }?;
    Ok(Bytes(u64::try_from(bytes).unwrap_or(0)))
}

/// Bytes that could be read from a socket now.
pub fn readable(socket: &impl AsFd) -> io::Result<Bytes> {
    Ok(Bytes(rustix::io::ioctl_fionread(socket)?))
}

/// Sends what fits of `bytes` at once. A connection that has ended is an error, and no signal.
pub fn send_without_waiting(socket: &impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    Ok(send(socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?)
}

/// Forgets up to `most` bytes that a TCP socket has received, which the kernel does not even copy (tcp(7),
/// `MSG_TRUNC`). How many there were; 0 at the end of the stream.
pub fn discard(socket: &impl AsFd, most: usize) -> io::Result<usize> {
    // SAFETY: with this flag TCP writes nothing to the buffer, so that it may be null.
    let got = unsafe { libc::recv(socket.as_fd().as_raw_fd(), std::ptr::null_mut(), most, libc::MSG_TRUNC) };
    usize::try_from(got).map_err(|_| io::Error::last_os_error())
}

/// Whether the next byte to be read is the urgent one (`sockatmark(3)`).
pub fn at_urgent_mark(socket: &impl AsFd) -> io::Result<bool> {
    const SIOCATMARK: Opcode = 0x8905;
    // SAFETY: this request writes one int.
    Ok(unsafe { ioctl(socket, Getter::<SIOCATMARK, libc::c_int>::new()) }? != 0)
}

/// Reads the urgent byte out of band; `None` at the end of the stream.
pub fn receive_urgent_byte(socket: &impl AsFd) -> io::Result<Option<u8>> {
    let mut byte = [0];
    let (got, _) = recv(socket, &mut byte, RecvFlags::OOB | RecvFlags::DONTWAIT)?;
    Ok((got == 1).then_some(byte[0]))
}

/// Begins a connection that nobody waits for: it can be written to when it is there, or has failed (`take_error`).
pub fn begin_to_connect(target: SocketAddr) -> io::Result<TcpStream> {
    let family = if target.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    match connect(&socket, &target) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket.into()),
        Err(error) => Err(error.into()),
    }
}

/// Ends a connection with a reset at once, whoever else has its socket: what RFC 9293 calls ABORT.
pub fn abort(socket: &impl AsFd) -> io::Result<()> {
    Ok(rustix::net::connect_unspec(socket)?)
}

/// Where a connection was going before a rule of the firewall redirected it here (`REDIRECT`).
pub fn original_destination(socket: &impl AsFd) -> io::Result<SocketAddr> {
    let v4 = sockopt::ip_original_dst(socket).map(SocketAddr::from);
    let v6 = |_: Errno| sockopt::ipv6_original_dst(socket).map(SocketAddr::from);
    Ok(v4.or_else(v6)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    #[test]
    fn what_is_begun_comes_about_or_says_why_not() {
        let wait = |socket: &TcpStream| {
            let (idle, _other) = std::os::unix::net::UnixStream::pair().unwrap();
            let long = std::time::Duration::from_secs(60);
            assert!(crate::poll::wait_either(idle.as_fd(), socket.as_fd(), long).unwrap()[1]);
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = listener.local_addr().unwrap();
        let begun = begin_to_connect(target).unwrap();
        wait(&begun);
        assert!(begun.take_error().unwrap().is_none());
        assert_eq!(begun.local_addr().unwrap(), listener.accept().unwrap().1);
        drop(listener);
        // Loopback refuses while it is asked, or right after.
        let refused = match begin_to_connect(target) {
            Ok(begun) => {
                wait(&begun);
                begun.take_error().unwrap().unwrap()
            }
            Err(error) => error,
        };
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn an_aborted_connection_is_reset() {
        let (near, mut far) = pair();
        abort(&near).unwrap();
        assert_eq!(far.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    }

    #[test]
    fn what_waits_is_counted_on_either_side() {
        let (mut near, far) = pair();
        near.write_all(b"hello").unwrap();
        far.peek(&mut [0; 5]).unwrap();
        assert_eq!(readable(&far).unwrap(), Bytes(5));
        assert!(unacknowledged(&near).unwrap() <= Bytes(5));
        original_destination(&near).unwrap_err();
        assert_eq!((discard(&far, 3).unwrap(), readable(&far).unwrap()), (3, Bytes(2)));
    }

    #[test]
    fn the_congestion_control_is_the_one_that_was_set() {
        let (near, _far) = pair();
        set_congestion(&near, "reno").unwrap();
        assert_eq!(congestion(&near).unwrap(), "reno");
        assert_eq!(set_congestion(&near, "none such").unwrap_err().kind(), io::ErrorKind::NotFound);
        set_paced(&near).unwrap();
    }

    #[test]
    fn a_key_that_is_too_long_is_an_error() {
        let (near, _far) = pair();
        let error = set_md5_key(&near, IpAddr::from([127, 0, 0, 1]), &[1; 81]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}
