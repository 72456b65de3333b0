//! ICMP (RFC 792) and ICMPv6 (RFC 4443) errors about TCP segments.

use crate::checksum::{Sum, pseudo_header};
use crate::parse::TCP;
use crate::{IcmpError, IcmpErrorKind, IpHeader, Offload, Payload, be};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use shorthaul_types::{FlowKey, SeqNum};

/// IP protocol number of ICMP.
const ICMP: u8 = 1;
/// IP protocol number of ICMPv6.
const ICMPV6: u8 = 58;
/// Type, code, checksum and four bytes that depend on the type.
const HEADER: usize = 8;

/// The protocol number of the ICMP that belongs to an IP version. The other one's is no ICMP there.
#[inline]
pub(crate) fn protocol(ip: &IpHeader) -> u8 {
    match ip {
        IpHeader::V4(_) => ICMP,
        IpHeader::V6(_) => ICMPV6,
    }
}

/// Reads an ICMP message as an error about a TCP segment. `None` for every other message, and for
/// errors whose checksum is wrong or which quote too little: they are forwarded but not believed.
pub(crate) fn read_error(ip: &IpHeader, message: &Payload, offload: &Offload) -> Option<IcmpError> {
    let bytes = message.as_slice();
    let (header, quoted) = bytes.split_first_chunk::<HEADER>()?;
    let kind = match ip {
        IpHeader::V4(_) => kind_v4(header)?,
        IpHeader::V6(_) => kind_v6(header)?,
    };
    if !offload.checksum_verified && offload.partial_checksum.is_none() {
        let mut sum = match ip {
            IpHeader::V4(_) => Sum::new(),
            IpHeader::V6(_) => pseudo_header(ip, ICMPV6, bytes.len()),
        };
        sum.add(bytes);
        if sum.checksum() != 0 {
            return None;
        }
    }
    let (src, dst, tcp) = match ip {
        IpHeader::V4(_) => quoted_v4(quoted)?,
        IpHeader::V6(_) => quoted_v6(quoted)?,
    };
    let flow =
        FlowKey { src: SocketAddr::new(src, be::u16(tcp, 0)), dst: SocketAddr::new(dst, be::u16(tcp, 2)) };
    Some(IcmpError { kind, flow, seq: SeqNum(be::u32(tcp, 4)), message: message.clone() })
}

fn kind_v4(header: &[u8; HEADER]) -> Option<IcmpErrorKind> {
    const UNREACHABLE: u8 = 3;
    const FRAGMENTATION_NEEDED: u8 = 4;
    const SOURCE_QUENCH: u8 = 4;
    const TIME_EXCEEDED: u8 = 11;
    const PARAMETER_PROBLEM: u8 = 12;
    match (header[0], header[1]) {
        // RFC 1191 §4: the MTU is in the low half of the unused word.
        (UNREACHABLE, FRAGMENTATION_NEEDED) => {
            Some(IcmpErrorKind::PacketTooBig { mtu: u32::from(be::u16(header, 6)) })
        }
        (UNREACHABLE, code) => Some(IcmpErrorKind::Unreachable { code }),
        (kind @ (SOURCE_QUENCH | TIME_EXCEEDED | PARAMETER_PROBLEM), code) => {
            Some(IcmpErrorKind::Other { kind, code })
        }
        _ => None,
    }
}

fn kind_v6(header: &[u8; HEADER]) -> Option<IcmpErrorKind> {
    const UNREACHABLE: u8 = 1;
    const PACKET_TOO_BIG: u8 = 2;
    const TIME_EXCEEDED: u8 = 3;
    const PARAMETER_PROBLEM: u8 = 4;
    match (header[0], header[1]) {
        (UNREACHABLE, code) => Some(IcmpErrorKind::Unreachable { code }),
        (PACKET_TOO_BIG, _) => Some(IcmpErrorKind::PacketTooBig { mtu: be::u32(header, 4) }),
        (kind @ (TIME_EXCEEDED | PARAMETER_PROBLEM), code) => Some(IcmpErrorKind::Other { kind, code }),
        _ => None,
    }
}

/// The addresses of a quoted packet, and the first eight bytes of its TCP header: ports and
/// sequence number, which is all that RFC 792 promises.
type Quoted<'a> = (IpAddr, IpAddr, &'a [u8; 8]);

fn quoted_v4(quoted: &[u8]) -> Option<Quoted<'_>> {
    let fixed = quoted.first_chunk::<20>()?;
    let header_len = usize::from(fixed[0] & 0xf) * 4;
    let first_fragment = be::u16(fixed, 6) & 0x1fff == 0;
    if fixed[0] >> 4 != 4 || header_len < 20 || !first_fragment || fixed[9] != TCP {
        return None;
    }
    let tcp = quoted.get(header_len..)?.first_chunk()?;
    let address = |at: usize| IpAddr::V4(Ipv4Addr::from_bits(be::u32(fixed, at)));
    Some((address(12), address(16), tcp))
}

fn quoted_v6(quoted: &[u8]) -> Option<Quoted<'_>> {
    let (fixed, behind) = quoted.split_first_chunk::<40>()?;
    if fixed[0] >> 4 != 6 || fixed[6] != TCP {
        return None;
    }
    let address = |at: usize| {
        let mut octets = [0; 16];
        octets.copy_from_slice(&fixed[at..at + 16]);
        IpAddr::V6(Ipv6Addr::from(octets))
    };
    Some((address(8), address(24), behind.first_chunk()?))
}
