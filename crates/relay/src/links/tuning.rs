//! What the kernel is asked for of a connection: buffers, and whether the peer is there.
use shorthaul_types::Bytes;
use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::net::IpAddr;
use std::time::Duration;

/// What is received within a host and not read yet, of one connection. With 64 of them, half and twice as much
/// were slower, a quarter much slower (docs/relay.md); the kernel alone grows to tens of megabytes.
const WITHIN_HOST: usize = 512 << 10;

/// Asks the kernel to hold this much of a direction; half on each of the sockets that it passes. A kernel
/// that allows less gives less.
pub fn set_buffer(socket: &SockRef<'_>, buffer: Bytes) {
    // The kernel doubles what it is asked for, to have room for its own accounts (socket(7)).
    let quarter = usize::try_from(buffer.0 / 4).unwrap_or(usize::MAX).clamp(2048, 1 << 30);
    let _ = (socket.set_recv_buffer_size(quarter * 2), socket.set_send_buffer_size(quarter * 2));
}

/// The buffer that was asked for; without one, the kernel sizes it by what comes, as paths need. Within a host
/// that only fills memory: the buffers of a few flows grow beyond all caches, and copying into them takes
/// longer. So there it has a bound, for a socket at, or toward, an address of the loopback interface.
pub fn size_buffer(socket: &SockRef<'_>, buffer: Option<Bytes>, address: IpAddr) {
    match buffer {
        Some(buffer) => set_buffer(socket, buffer),
        None if address.to_canonical().is_loopback() => {
            let _ = socket.set_recv_buffer_size(WITHIN_HOST);
        }
        None => {}
    }
}

/// Has the kernel ask a peer that is silent whether it is there still: it has gone if it says nothing within this time.
pub fn keep_alive(socket: &SockRef<'_>, gone_after: Duration) -> io::Result<()> {
    let asked = TcpKeepalive::new()
        .with_time((gone_after / 2).max(Duration::from_secs(1)))
        .with_interval((gone_after / 10).max(Duration::from_secs(1)))
        .with_retries(5);
    socket.set_tcp_keepalive(&asked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::{Domain, Type};

    #[test]
    fn what_stays_within_the_host_needs_no_great_buffer() {
        let sized = |buffer: Option<Bytes>, address: &str| {
            let socket = socket2::Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            size_buffer(&SockRef::from(&socket), buffer, address.parse().unwrap());
            socket.recv_buffer_size().unwrap()
        };
        let untouched = socket2::Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let by_kernel = untouched.recv_buffer_size().unwrap();
        assert_eq!(sized(None, "192.0.2.1"), by_kernel);
        let bounded = sized(None, "127.0.0.1");
        // The kernel doubles it, and may allow less.
        assert!(bounded != by_kernel && bounded <= 2 * WITHIN_HOST, "{bounded}");
        assert_eq!(sized(None, "::1"), bounded);
        assert_eq!(sized(None, "::ffff:127.0.0.1"), bounded);
        let asked = sized(Some(Bytes(64 << 10)), "127.0.0.1");
        assert_eq!(asked, sized(Some(Bytes(64 << 10)), "192.0.2.1"), "what is asked for goes before");
        assert!(asked < bounded);
    }
}
