//! Datagrams with what the kernel knows of them, and copies of datagrams that are forwarded.
use super::check;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// A datagram, and what the kernel knows of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Bytes of payload in the caller's buffer.
    pub len: usize,
    /// Who sent it.
    pub from: SocketAddr,
    /// The address of ours that it was sent to; unspecified if the kernel did not say.
    pub to: IpAddr,
    /// The hop limit that it came with.
    pub hop_limit: Option<u8>,
}

/// Room for two control messages of any kind that is asked for, aligned as the kernel wants it.
#[repr(C, align(8))]
struct Control([u8; 128]);

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
    options.iter().try_for_each(|(level, name)| set_int(socket, *level, *name, 1))
}

/// Sets the hop limit of what a socket sends.
pub fn set_hop_limit(socket: &UdpSocket, hops: u8) -> io::Result<()> {
    if socket.local_addr()?.is_ipv6() {
        set_int(socket, libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, hops.into())?;
    }
    set_int(socket, libc::IPPROTO_IP, libc::IP_TTL, hops.into())
}

fn set_int(socket: &UdpSocket, level: i32, name: i32, value: libc::c_int) -> io::Result<()> {
    let len = std::mem::size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the value is an int, as `len` says, and lives as long as the call.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), len) })
        .map(drop)
}

/// Takes one datagram, with details; waits as long as the socket's time-out says.
pub fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<Received> {
    // SAFETY: all zeros is a valid address storage.
    let mut from: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let mut slice = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut control = Control([0; 128]);
    // SAFETY: all zeros is a valid message header.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_name = (&raw mut from).cast();
    message.msg_namelen = std::mem::size_of_val(&from) as libc::socklen_t;
    message.msg_iov = &raw mut slice;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len() as _;
    // SAFETY: every pointer of the header is valid for as many bytes as stand beside it.
    let len = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) };
    let len = usize::try_from(len).map_err(|_| io::Error::last_os_error())?;
    let mut received = Received {
        len,
        from: socket_address(&from).ok_or_else(|| io::Error::other("a sender of an unknown family"))?,
        to: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        hop_limit: None,
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
                _ => {}
            }
            header = libc::CMSG_NXTHDR(&raw const message, header);
        }
    }
    Ok(received)
}

/// Reads an address that the kernel wrote; IPv4 within IPv6 as IPv4.
fn socket_address(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    let storage = &raw const *storage;
    match i32::from(
        // SAFETY: every address begins with its family.
        unsafe { (*storage).ss_family },
    ) {
        libc::AF_INET => {
            // SAFETY: the family says that it is one of these, and the storage has room for all.
            let v4 = unsafe { storage.cast::<libc::sockaddr_in>().read() };
            let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddr::new(ip.into(), u16::from_be(v4.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let v6 = unsafe { storage.cast::<libc::sockaddr_in6>().read() };
            let ip = IpAddr::V6(Ipv6Addr::from(v6.sin6_addr.s6_addr)).to_canonical();
            let port = u16::from_be(v6.sin6_port);
            Some(match ip {
                IpAddr::V4(_) => SocketAddr::new(ip, port),
                // A link-local address is one only together with its interface.
                IpAddr::V6(ip) => std::net::SocketAddrV6::new(ip, port, 0, v6.sin6_scope_id).into(),
            })
        }
        _ => None,
    }
}

/// Copies of UDP datagrams to one port that come in by any interface of this network namespace, whoever they are for.
/// The kernel forwards the datagrams themselves as ever, also if this process dies.
#[derive(Debug)]
pub struct Tap {
    socket: OwnedFd,
    v6: bool,
}

/// A datagram that a [`Tap`] saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen<'a> {
    /// Who sent it.
    pub from: SocketAddr,
    /// Where it goes.
    pub to: IpAddr,
    /// The hop limit that it came with.
    pub hop_limit: u8,
    /// Its payload.
    pub payload: &'a [u8],
}

impl Tap {
    /// A tap for IPv4 or IPv6. The socket does not block.
    ///
    /// # Errors
    /// `CAP_NET_RAW` is missing.
    pub fn open(v6: bool, port: u16) -> io::Result<Tap> {
        let protocol = if v6 { libc::ETH_P_IPV6 } else { libc::ETH_P_IP } as u16;
        let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // No protocol yet: nothing comes before the filter is there (packet(7)).
        // SAFETY: takes integers, returns a descriptor.
        let fd = check(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
        // SAFETY: the descriptor is new and nobody else's.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        let mut code = if v6 { filter_v6(port) } else { filter_v4(port) };
        let program = libc::sock_fprog { len: code.len() as u16, filter: code.as_mut_ptr() };
        let len = std::mem::size_of_val(&program) as libc::socklen_t;
        let (level, name) = (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER);
        // SAFETY: the program and its code live as long as the call, and `len` is the program's size.
        check(unsafe {
            libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const program).cast(), len)
        })?;
        // SAFETY: all zeros is a valid address.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        // A socket of one protocol sees what comes in only; what goes out is for those of all protocols.
        address.sll_protocol = protocol.to_be();
        let len = std::mem::size_of_val(&address) as libc::socklen_t;
        // SAFETY: the address is valid and `len` its size.
        check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) })?;
        Ok(Tap { socket, v6 })
    }

    /// The next datagram, if there is one. `buffer` should have room for an IP packet with a probe.
    pub fn next<'a>(&self, buffer: &'a mut [u8]) -> Option<Seen<'a>> {
        loop {
            // SAFETY: the buffer is valid for as many bytes as it has.
            let len =
                unsafe { libc::recv(self.socket.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) };
            let len = usize::try_from(len).ok()?;
            if read_udp(&buffer[..len], self.v6).is_some() {
                return read_udp(&buffer[..len], self.v6);
            }
        }
    }
}

/// Waits until one of them has something, or the time is over.
pub fn wait(socket: &UdpSocket, taps: &[Tap], longest: Duration) -> io::Result<()> {
    let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut entries = vec![entry(socket.as_raw_fd())];
    entries.extend(taps.iter().map(|tap| entry(tap.socket.as_raw_fd())));
    let millis = libc::c_int::try_from(longest.as_millis()).unwrap_or(libc::c_int::MAX);
    // SAFETY: the pointer and the number belong to one vector.
    match check(unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, millis) }) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
        other => other.map(drop),
    }
}

const UDP: u32 = 17;

/// One instruction of the kernel's packet filter.
const fn step(code: u32, yes: u8, no: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: yes, jf: no, k }
}

use libc::{
    BPF_ABS, BPF_B, BPF_H, BPF_IND, BPF_JEQ, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_LDX, BPF_MSH, BPF_RET,
};

/// Takes UDP to a port, but no fragment; begins to read at the IP header.
fn filter_v4(port: u16) -> Vec<libc::sock_filter> {
    vec![
        step(BPF_LD | BPF_B | BPF_ABS, 0, 0, 9),
        step(BPF_JMP | BPF_JEQ | BPF_K, 0, 6, UDP),
        step(BPF_LD | BPF_H | BPF_ABS, 0, 0, 6),
        step(BPF_JMP | BPF_JSET | BPF_K, 4, 0, 0x3fff), // more fragments, or not the first
        step(BPF_LDX | BPF_B | BPF_MSH, 0, 0, 0),       // four times the header's length field
        step(BPF_LD | BPF_H | BPF_IND, 0, 0, 2),
        step(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, port as u32),
        step(BPF_RET | BPF_K, 0, 0, u32::MAX),
        step(BPF_RET | BPF_K, 0, 0, 0),
    ]
}

/// The same for IPv6 without extension headers.
fn filter_v6(port: u16) -> Vec<libc::sock_filter> {
    vec![
        step(BPF_LD | BPF_B | BPF_ABS, 0, 0, 6),
        step(BPF_JMP | BPF_JEQ | BPF_K, 0, 3, UDP),
        step(BPF_LD | BPF_H | BPF_ABS, 0, 0, 42),
        step(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, port as u32),
        step(BPF_RET | BPF_K, 0, 0, u32::MAX),
        step(BPF_RET | BPF_K, 0, 0, 0),
    ]
}

/// Reads an IP packet with a UDP datagram. Checksums are not looked at: the message has a better one.
fn read_udp(packet: &[u8], v6: bool) -> Option<Seen<'_>> {
    let (from, to, hop_limit, datagram): (IpAddr, IpAddr, u8, &[u8]) = if v6 {
        let (header, rest) = packet.split_first_chunk::<40>()?;
        let address = |at: usize| {
            let octets: [u8; 16] = header[at..].first_chunk().copied().unwrap_or_default();
            IpAddr::from(octets)
        };
        (address(8), address(24), header[7], rest)
    } else {
        let header = packet.first_chunk::<20>()?;
        let len = usize::from(header[0] & 0xf) * 4;
        let address = |at: usize| IpAddr::from([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        (address(12), address(16), header[8], packet.get(len.max(20)..)?)
    };
    let (header, payload) = datagram.split_first_chunk::<8>()?;
    // Behind a short datagram, a network may have filled up the frame.
    let len = usize::from(u16::from_be_bytes([header[4], header[5]])).checked_sub(8)?;
    let port = u16::from_be_bytes([header[0], header[1]]);
    Some(Seen { from: SocketAddr::new(from, port), to, hop_limit, payload: payload.get(..len)? })
}

/// The addresses of this network namespace's interfaces.
pub fn local_addresses() -> io::Result<Vec<IpAddr>> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: the kernel's list is put where the pointer points.
    check(unsafe { libc::getifaddrs(&raw mut first) })?;
    let mut addresses = Vec::new();
    let mut entry = first;
    while !entry.is_null() {
        // SAFETY: an entry of the list, which is freed only below; its address is null or one of its family.
        unsafe {
            let address = (*entry).ifa_addr;
            if !address.is_null() {
                match i32::from((*address).sa_family) {
                    libc::AF_INET => {
                        let v4 = address.cast::<libc::sockaddr_in>().read_unaligned();
                        addresses.push(Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes()).into());
                    }
                    libc::AF_INET6 => {
                        let v6 = address.cast::<libc::sockaddr_in6>().read_unaligned();
                        addresses.push(Ipv6Addr::from(v6.sin6_addr.s6_addr).into());
                    }
                    _ => {}
                }
            }
            entry = (*entry).ifa_next;
        }
    }
    // SAFETY: it came from getifaddrs, and nothing points into it any more.
    unsafe { libc::freeifaddrs(first) };
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_comes_with_where_it_was_sent_to() {
        for address in ["127.0.0.1:0", "[::]:0"] {
            let Ok(socket) = UdpSocket::bind(address) else { continue };
            ask_for_details(&socket).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            let port = socket.local_addr().unwrap().port();
            let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
            set_hop_limit(&sender, 61).unwrap();
            sender.send_to(b"hello", ("127.0.0.1", port)).unwrap();
            let received = receive(&socket, &mut [0; 64]).unwrap();
            let wanted = Received {
                len: 5,
                from: sender.local_addr().unwrap(),
                to: Ipv4Addr::LOCALHOST.into(),
                hop_limit: Some(61),
            };
            assert_eq!(received, wanted, "{address}");
        }
    }

    #[test]
    fn short_and_lying_packets_are_no_datagrams() {
        let mut packet = vec![0x45, 0, 0, 33, 0, 0, 0, 0, 60, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        packet.extend([0x9c, 0x40, 0x1b, 0x5f, 0, 13, 0, 0]);
        packet.extend(b"hello, and what fills the frame");
        let seen = read_udp(&packet, false).unwrap();
        assert_eq!((seen.payload, seen.hop_limit), (&b"hello"[..], 60));
        assert_eq!((seen.from, seen.to), (SocketAddr::from(([10, 0, 0, 1], 40_000)), [10, 0, 0, 2].into()));
        for len in 0..33 {
            assert_eq!(read_udp(&packet[..len], false), None, "{len} bytes");
        }
        packet[25] = 7; // shorter than its own header
        assert_eq!(read_udp(&packet, false), None);
    }

    #[test]
    fn the_loopback_is_ours() {
        assert!(local_addresses().unwrap().contains(&Ipv4Addr::LOCALHOST.into()));
    }
}
