//! Copies of datagrams that this host forwards (`packet(7)`).
use crate::socket::check;
use libc::{
    BPF_ABS, BPF_B, BPF_H, BPF_IND, BPF_JEQ, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_LDX, BPF_MSH, BPF_RET,
};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socket_with};
use socket2::{SockFilter, SockRef};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

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
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // No protocol yet: nothing comes before the filter is there (packet(7)).
        let socket = socket_with(AddressFamily::PACKET, SocketType::DGRAM, flags, None)?;
        if v6 {
            SockRef::from(&socket).attach_filter(&filter_v6(port))?;
        } else {
            SockRef::from(&socket).attach_filter(&filter_v4(port))?;
        }
        // SAFETY: all zeros is a valid address.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        // A socket of one protocol sees what comes in only; what goes out is for those of all protocols.
        let protocol = if v6 { libc::ETH_P_IPV6 } else { libc::ETH_P_IP };
        address.sll_protocol = (protocol as u16).to_be();
        let len = size_of_val(&address) as libc::socklen_t;
        // rustix has no addresses of this family.
        // SAFETY: the address is valid and `len` its size.
        check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) })?;
        Ok(Tap { socket, v6 })
    }

    /// The next datagram, if there is one. `buffer` should have room for an IP packet with a probe.
    pub fn next<'a>(&self, buffer: &'a mut [u8]) -> Option<Seen<'a>> {
        loop {
            let (len, _) = recv(&self.socket, &mut *buffer, RecvFlags::empty()).ok()?;
            if read_udp(&buffer[..len], self.v6).is_some() {
                return read_udp(&buffer[..len], self.v6);
            }
        }
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

const UDP: u32 = 17;

/// One instruction of the kernel's packet filter.
const fn step(code: u32, yes: u8, no: u8, k: u32) -> SockFilter {
    SockFilter::new(code as u16, yes, no, k)
}

/// Takes UDP to a port, but no fragment; begins to read at the IP header.
fn filter_v4(port: u16) -> [SockFilter; 9] {
    [
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
fn filter_v6(port: u16) -> [SockFilter; 6] {
    [
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
