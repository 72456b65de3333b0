use crate::checksum::{self, pseudo_header};
use crate::extension::{self, Behind};
use crate::tcp_options;
use crate::{
    Datagram, Fragment, IpHeader, Ipv4Header, Ipv6Header, Offload, Packet, PartialChecksum, Payload,
    TcpFlags, TcpHeader, TcpSegment, Transport, UdpHeader, be, icmp,
};
use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};
use shorthaul_types::SeqNum;

/// IP protocol number of TCP.
pub(crate) const TCP: u8 = 6;
/// IP protocol number of UDP.
pub(crate) const UDP: u8 = 17;
/// Length of a TCP header without options.
pub(crate) const TCP_HEADER_MIN: usize = 20;
/// Where the checksum field lies in a TCP header.
pub(crate) const TCP_CHECKSUM: u16 = 16;

/// Why bytes are not a packet that we can work with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RejectReason {
    /// Fewer bytes than the IP header, or than it says there are.
    IpTruncated,
    /// Neither version 4 nor 6.
    IpBadVersion,
    /// A header length below 20, or a total length below the header length.
    IpBadLength,
    /// The checksum of the IPv4 header is wrong.
    IpBadChecksum,
    /// Fewer bytes than a TCP header.
    TcpTruncated,
    /// A data offset below 20 bytes or beyond the end of the packet.
    TcpBadOffset,
    /// The TCP checksum is wrong.
    TcpBadChecksum,
    /// The device left a checksum undone that is not the one of the TCP header.
    OffloadMismatch,
    /// More IPv6 extension headers than any host has use for.
    IpChainTooLong,
}

impl RejectReason {
    /// All reasons, in the order of [`RejectReason::index`].
    pub const ALL: [RejectReason; 9] = [
        RejectReason::IpTruncated,
        RejectReason::IpBadVersion,
        RejectReason::IpBadLength,
        RejectReason::IpBadChecksum,
        RejectReason::TcpTruncated,
        RejectReason::TcpBadOffset,
        RejectReason::TcpBadChecksum,
        RejectReason::OffloadMismatch,
        RejectReason::IpChainTooLong,
    ];

    /// The place in [`RejectReason::ALL`], for arrays of counters.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The name of its counter.
    pub const fn as_str(self) -> &'static str {
        match self {
            RejectReason::IpTruncated => "ip-truncated",
            RejectReason::IpBadVersion => "ip-bad-version",
            RejectReason::IpBadLength => "ip-bad-length",
            RejectReason::IpBadChecksum => "ip-bad-checksum",
            RejectReason::TcpTruncated => "tcp-truncated",
            RejectReason::TcpBadOffset => "tcp-bad-offset",
            RejectReason::TcpBadChecksum => "tcp-bad-checksum",
            RejectReason::OffloadMismatch => "offload-mismatch",
            RejectReason::IpChainTooLong => "ip-chain-too-long",
        }
    }

    /// Whether a router, which looks at the IP header only, would still pass the packet on. Who
    /// stands transparently in its path should do the same, and leave the judgement to the ends. But for a chain of extension headers of
    /// which it does not see the end: behind it may stand a segment of a connection that it has split.
    pub const fn is_forwardable(self) -> bool {
        !matches!(
            self,
            RejectReason::IpTruncated
                | RejectReason::IpBadVersion
                | RejectReason::IpBadLength
                | RejectReason::IpBadChecksum
                | RejectReason::IpChainTooLong
        )
    }
}

impl fmt::Display for RejectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Bytes that are not a packet that we can work with, and why. They are given back unchanged,
/// because they may have to be forwarded (see [`RejectReason::is_forwardable`]).
#[derive(Clone, Debug, PartialEq)]
pub struct Rejected {
    /// Why.
    pub reason: RejectReason,
    /// The bytes as they came.
    pub datagram: Datagram,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in a packet of {} bytes", self.reason, self.datagram.bytes.len())
    }
}

impl core::error::Error for Rejected {}

/// Reads a packet. Nothing is copied: payloads are slices of the datagram, which stays with the
/// packet as [`Packet::original`] (without what lies behind the length that the IP header gives).
///
/// The IPv4 header's and the TCP checksum are verified, unless the offload says that this was done
/// or that the TCP checksum is not yet there. UDP checksums are left to the ends.
///
/// TCP is also found behind IPv4 options, and behind the extension headers of IPv6 that leave a packet what it is: hop-by-hop
/// and destination options, a routing header that has done its work, a fragment header of all there is (RFC 6946). Who forwards
/// such a packet untouched passes them on; our own packets have none. A part of a TCP segment is a [`Transport::Fragment`].
///
/// All else is [`Transport::Opaque`] and no mistake: other protocols, UDP and ICMP that are malformed or stand behind
/// options, and what is on its way to another place than its header says (RFC 8200 §4.4).
///
/// # Errors
/// [`Rejected`] for what is no IP packet, and for TCP segments that a host would drop.
#[inline]
pub fn parse(mut datagram: Datagram) -> Result<Packet, Rejected> {
    match read(&datagram) {
        Ok((ip, transport)) => {
            datagram.bytes.truncate(ip.total_len);
            Ok(Packet { ip: ip.header, transport, original: Some(datagram) })
        }
        Err(reason) => Err(Rejected { reason, datagram }),
    }
}

#[inline]
fn read(datagram: &Datagram) -> Result<(Ip, Transport), RejectReason> {
    let bytes = datagram.bytes.as_slice();
    let ip = read_ip(bytes, &datagram.offload)?;
    let behind = datagram.bytes.slice(ip.header_len..ip.total_len);
    let transport = match ip.protocol {
        _ if let Some(fragment) = ip.fragment => Transport::Fragment { fragment, payload: behind },
        TCP => Transport::Tcp(read_tcp(&ip, behind, &datagram.offload)?),
        UDP if ip.plain => read_udp(behind),
        protocol if ip.plain && protocol == icmp::protocol(&ip.header) => {
            match icmp::read_error(&ip.header, &behind, &datagram.offload) {
                Some(error) => Transport::IcmpError(error),
                None => Transport::Opaque { protocol, payload: behind },
            }
        }
        protocol => Transport::Opaque { protocol, payload: behind },
    };
    Ok((ip, transport))
}

/// An IP header and what it says about the rest.
struct Ip {
    header: IpHeader,
    protocol: u8,
    /// Options and extension headers that were read included.
    header_len: usize,
    total_len: usize,
    /// There are no options, extension headers or other fragments.
    plain: bool,
    /// It is a part of what may be a TCP segment.
    fragment: Option<Fragment>,
}

#[inline]
fn read_ip(bytes: &[u8], offload: &Offload) -> Result<Ip, RejectReason> {
    let first = bytes.first().ok_or(RejectReason::IpTruncated)?;
    match first >> 4 {
        4 => read_ipv4(bytes, offload),
        6 => read_ipv6(bytes),
        _ => Err(RejectReason::IpBadVersion),
    }
}

#[inline]
fn read_ipv4(bytes: &[u8], offload: &Offload) -> Result<Ip, RejectReason> {
    let fixed = bytes.first_chunk::<20>().ok_or(RejectReason::IpTruncated)?;
    let header_len = usize::from(fixed[0] & 0xf) * 4;
    let total_len = usize::from(be::u16(fixed, 2));
    if header_len < 20 || total_len < header_len {
        return Err(RejectReason::IpBadLength);
    }
    if total_len > bytes.len() {
        return Err(RejectReason::IpTruncated);
    }
    if !offload.checksum_verified && checksum::of(&bytes[..header_len]) != 0 {
        return Err(RejectReason::IpBadChecksum);
    }
    const DONT_FRAGMENT: u16 = 0x4000;
    const MORE_FRAGMENTS_OR_OFFSET: u16 = 0x3fff;
    let field = be::u16(fixed, 6);
    let header = Ipv4Header {
        src: Ipv4Addr::from_bits(be::u32(fixed, 12)),
        dst: Ipv4Addr::from_bits(be::u32(fixed, 16)),
        tos: fixed[1],
        ttl: fixed[8],
        id: be::u16(fixed, 4),
        dont_fragment: field & DONT_FRAGMENT != 0,
    };
    let whole = field & MORE_FRAGMENTS_OR_OFFSET == 0;
    let ip = Ip {
        header: IpHeader::V4(header),
        protocol: fixed[9],
        header_len,
        total_len,
        plain: header_len == 20 && whole,
        fragment: None,
    };
    if whole {
        return Ok(ip);
    }
    Ok(Ip {
        fragment: (fixed[9] == TCP).then_some(Fragment {
            id: u32::from(header.id),
            offset: (field & 0x1fff) * 8,
            more: field & 0x2000 != 0,
            protocol: TCP,
        }),
        // A part of something else is nothing that could be looked into.
        protocol: fixed[9],
        ..ip
    })
}

#[inline]
fn read_ipv6(bytes: &[u8]) -> Result<Ip, RejectReason> {
    let (fixed, _) = bytes.split_first_chunk::<40>().ok_or(RejectReason::IpTruncated)?;
    const HOP_BY_HOP: u8 = 0;
    let total_len = match be::u16(fixed, 4) {
        // RFC 2675 §2: an option behind gives the length of a packet that is too long for the field.
        0 if fixed[6] == HOP_BY_HOP => bytes.len(),
        len => 40 + usize::from(len),
    };
    if total_len > bytes.len() {
        return Err(RejectReason::IpTruncated);
    }
    let address = |at: usize| {
        let mut octets = [0; 16];
        octets.copy_from_slice(&fixed[at..at + 16]);
        Ipv6Addr::from(octets)
    };
    let first_word = be::u32(fixed, 0);
    let header = Ipv6Header {
        src: address(8),
        dst: address(24),
        traffic_class: (first_word >> 20) as u8,
        hop_limit: fixed[7],
        flow_label: first_word & 0xf_ffff,
    };
    let header = IpHeader::V6(header);
    let ip = Ip { header, protocol: fixed[6], header_len: 40, total_len, plain: true, fragment: None };
    let jumbogram = total_len > 40 && be::u16(fixed, 4) == 0;
    if !extension::is_one(ip.protocol) || jumbogram {
        return Ok(ip);
    }
    Ok(match extension::read(ip.protocol, bytes.get(40..total_len).unwrap_or_default())? {
        Some(Behind { protocol, at, fragment }) if protocol == TCP || fragment.is_some() => {
            Ip { protocol, header_len: 40 + at, plain: false, fragment, ..ip }
        }
        _ => Ip { plain: false, ..ip },
    })
}

#[inline]
fn read_tcp(ip: &Ip, mut segment: Payload, offload: &Offload) -> Result<TcpSegment, RejectReason> {
    let bytes = segment.as_slice();
    let fixed = bytes.first_chunk::<TCP_HEADER_MIN>().ok_or(RejectReason::TcpTruncated)?;
    let header_len = usize::from(fixed[12] >> 4) * 4;
    if header_len < TCP_HEADER_MIN || header_len > bytes.len() {
        return Err(RejectReason::TcpBadOffset);
    }
    match offload.partial_checksum {
        Some(partial) => {
            let expected = PartialChecksum { start: ip.header_len as u16, offset: TCP_CHECKSUM };
            if partial != expected {
                return Err(RejectReason::OffloadMismatch);
            }
        }
        None if offload.checksum_verified => {}
        None => {
            let mut sum = pseudo_header(&ip.header, TCP, bytes.len());
            sum.add(bytes);
            if sum.checksum() != 0 {
                return Err(RejectReason::TcpBadChecksum);
            }
        }
    }
    let options = tcp_options::read(&bytes[TCP_HEADER_MIN..header_len]);
    let header = TcpHeader {
        src_port: be::u16(fixed, 0),
        dst_port: be::u16(fixed, 2),
        seq: SeqNum(be::u32(fixed, 4)),
        ack: SeqNum(be::u32(fixed, 8)),
        flags: TcpFlags(be::u16(fixed, 12) & 0xfff),
        window: be::u16(fixed, 14),
        urgent: be::u16(fixed, 18),
        options,
    };
    segment.advance(header_len);
    let gso_size = offload.gso.map(|gso| gso.size).filter(|size| segment.len() > usize::from(size.get()));
    Ok(TcpSegment { header, payload: segment.into(), gso_size })
}

fn read_udp(datagram: Payload) -> Transport {
    const HEADER: usize = 8;
    let bytes = datagram.as_slice();
    let len = match bytes.first_chunk::<HEADER>() {
        Some(header) => usize::from(be::u16(header, 4)),
        None => 0,
    };
    if len < HEADER || len > bytes.len() {
        return Transport::Opaque { protocol: UDP, payload: datagram };
    }
    let header = UdpHeader { src_port: be::u16(bytes, 0), dst_port: be::u16(bytes, 2) };
    Transport::Udp { header, payload: datagram.slice(HEADER..len) }
}
