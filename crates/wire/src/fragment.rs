use crate::emit::{HEADERS_MAX, ip_header};
use crate::{Datagram, IpHeader, Offload, Packet, Payload, Transport};
use alloc::vec::Vec;

/// Where a part of a datagram belongs (RFC 791 §3.1, RFC 8200 §4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// The identification that all parts of the datagram have; 16 bits of it in IPv4.
    pub id: u32,
    /// Where it begins, in bytes: a multiple of eight.
    pub offset: u16,
    /// It is not the last.
    pub more: bool,
    /// The protocol number of what the datagram begins with: TCP, or an extension header.
    pub protocol: u8,
}

/// Puts a datagram together from all of its fragments, in any order: its bytes as they would have come whole, to be read with
/// [`parse()`](crate::parse()), which verifies the checksum that stands in it.
///
/// Options and extension headers in front of the fragments are left out. Where one of the fragments met congestion, so did the
/// datagram (RFC 3168 §5.3).
///
/// `None` if they are no fragments, leave a gap, overlap (RFC 5722), or are more than a datagram can hold.
pub fn join(fragments: &[Packet]) -> Option<Datagram> {
    let mut parts: Vec<(&Fragment, &Payload)> = Vec::with_capacity(fragments.len());
    let (mut first, mut congested) = (None, false);
    for packet in fragments {
        let Transport::Fragment { fragment, payload } = &packet.transport else { return None };
        if fragment.offset == 0 {
            first = Some((packet.ip, fragment.protocol));
        }
        congested |= packet.ip.ecn() == 3;
        parts.push((fragment, payload));
    }
    parts.sort_unstable_by_key(|(fragment, _)| fragment.offset);
    let (mut ip, protocol) = first?;
    if congested {
        ip.set_ecn(3);
    }
    if let IpHeader::V4(header) = &mut ip {
        header.dont_fragment = false;
    }
    let len: usize = parts.iter().map(|(_, payload)| payload.len()).sum();
    let in_length_field = if matches!(ip, IpHeader::V4(_)) { ip.len() + len } else { len };
    if in_length_field > usize::from(u16::MAX) || parts.last().is_some_and(|(last, _)| last.more) {
        return None;
    }
    let mut header = [0; HEADERS_MAX];
    ip_header(&ip, protocol, len, &mut header);
    let mut bytes = Vec::with_capacity(ip.len() + len);
    bytes.extend_from_slice(&header[..ip.len()]);
    for (fragment, payload) in parts {
        if usize::from(fragment.offset) + ip.len() != bytes.len() {
            return None;
        }
        bytes.extend_from_slice(payload.as_slice());
    }
    Some(Datagram { bytes: Payload::copy_of(&bytes), offload: Offload::default() })
}
