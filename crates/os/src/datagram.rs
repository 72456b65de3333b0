//! Datagrams with what the kernel knows of them (`recvmsg(2)`, control messages).
use crate::clock::time;
use crate::socket::set_option;
use rustix::time::Timespec;
use shorthaul_types::Time;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};

/// A datagram, and what the kernel knows of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Bytes of payload in the caller's buffer.
    pub len: usize,
    /// Who sent it.
    pub from: SocketAddr,
    /// The address of ours that it was sent to; unspecified if the kernel did not say.
    pub to: IpAddr,
    /// The hop limit that it came with, if that was asked for.
    pub hop_limit: Option<u8>,
    /// When it came in by `CLOCK_REALTIME`, if that was asked for.
    pub stamp: Option<Time>,
}

/// Has the kernel say, for every datagram, where it was sent to and with what hop limit.
pub fn ask_for_details(socket: &UdpSocket) -> io::Result<()> {
    let v6 = socket.local_addr()?.is_ipv6();
    let options: &[(i32, i32)] = if v6 {
        // A socket for both families gets IPv4's details too.
        &[
            (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
            (libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT),
            (libc::IPPROTO_IP, libc::IP_RECVTTL),
        ]
    } else {
        &[(libc::IPPROTO_IP, libc::IP_PKTINFO), (libc::IPPROTO_IP, libc::IP_RECVTTL)]
    };
    options.iter().try_for_each(|(level, name)| set_option(socket, *level, *name, 1 as libc::c_int))
}

/// Room for the control messages that can be asked for, aligned as the kernel wants it.
#[repr(C, align(8))]
struct Control([u8; 128]);

/// Takes one datagram, with the details that were asked for; waits as long as the socket's timeout says.
pub fn receive(socket: &impl AsFd, buffer: &mut [u8]) -> io::Result<Received> {
    // rustix reads none of these control messages.
    let mut slice = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut control = Control([0; 128]);
    // SAFETY: all zeros is a valid message header.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut slice;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len() as _;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: `try_init` offers a storage and its size; every other pointer of the header is valid for as many bytes
    // as stand beside it.
    let (len, from) = unsafe {
        socket2::SockAddr::try_init(|storage, storage_len| {
            message.msg_name = storage.cast();
            message.msg_namelen = *storage_len;
            let len = libc::recvmsg(fd, &raw mut message, 0);
            *storage_len = message.msg_namelen;
            usize::try_from(len).map_err(|_| io::Error::last_os_error())
        })
    }?;
    let from = from.as_socket().ok_or_else(|| io::Error::other("a sender of an unknown family"))?;
    let mut received = Received {
        len,
        from: canonical(from),
        to: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        hop_limit: None,
        stamp: None,
    };
    // SAFETY: the kernel has filled in the header and the control messages that it speaks of.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    while !header.is_null() {
        // SAFETY: the macros return null or a whole control message within the buffer; data of these kinds
        // have these types, and are read unaligned.
        unsafe {
            let data = libc::CMSG_DATA(header);
            match ((*header).cmsg_level, (*header).cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                    let hops = data.cast::<libc::c_int>().read_unaligned();
                    received.hop_limit = u8::try_from(hops).ok();
                }
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    let info = data.cast::<libc::in_pktinfo>().read_unaligned();
                    received.to = Ipv4Addr::from(info.ipi_addr.s_addr.to_ne_bytes()).into();
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    let info = data.cast::<libc::in6_pktinfo>().read_unaligned();
                    received.to = IpAddr::V6(Ipv6Addr::from(info.ipi6_addr.s6_addr)).to_canonical();
                }
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                    let stamp = data.cast::<libc::timespec>().read_unaligned();
                    let (tv_sec, tv_nsec) = (stamp.tv_sec, stamp.tv_nsec);
                    received.stamp = Some(time(Timespec { tv_sec, tv_nsec }));
                }
                _ => {}
            }
            header = libc::CMSG_NXTHDR(&raw const message, header);
        }
    }
    Ok(received)
}

/// IPv4 within IPv6 as IPv4.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(v4) => SocketAddr::new(v4.into(), address.port()),
        // A link-local address is one only together with its interface.
        IpAddr::V6(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{clock, socket};
    use std::time::Duration;

    #[test]
    fn a_datagram_comes_with_where_it_was_sent_to() {
        for address in ["127.0.0.1:0", "[::]:0"] {
            let Ok(receiver) = UdpSocket::bind(address) else { continue };
            ask_for_details(&receiver).unwrap();
            receiver.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            let port = receiver.local_addr().unwrap().port();
            let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket::set_hop_limit(&sender, 61).unwrap();
            sender.send_to(b"hello", ("127.0.0.1", port)).unwrap();
            let received = receive(&receiver, &mut [0; 64]).unwrap();
            let wanted = Received {
                len: 5,
                from: sender.local_addr().unwrap(),
                to: Ipv4Addr::LOCALHOST.into(),
                hop_limit: Some(61),
                stamp: None,
            };
            assert_eq!(received, wanted, "{address}");
        }
    }

    #[test]
    fn a_datagram_is_stamped_when_it_comes() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket::stamp_arrivals(&receiver).unwrap();
        receiver.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let before = clock::wall();
        receiver.send_to(b"hello", receiver.local_addr().unwrap()).unwrap();
        let stamp = receive(&receiver, &mut [0; 64]).unwrap().stamp.unwrap();
        assert!(before <= stamp && stamp <= clock::wall(), "{before:?} {stamp:?}");
    }
}
