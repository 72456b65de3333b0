use crate::checksum::{self, FieldChange, Sum, pseudo_header};
use crate::extension;
use crate::packet::fragment_header_len;
use crate::parse::{TCP, TCP_CHECKSUM, TCP_HEADER_MIN, UDP};
use crate::tcp_options::{self, OPTIONS_MAX};
use crate::{
    Datagram, Fragment, Gso, IpHeader, Ipv4Header, Offload, Packet, PartialChecksum, Payload, TcpSegment,
    Transport, UdpHeader, be, icmp,
};
use alloc::vec::Vec;

/// The longest headers there are: an IPv4 header with options and a TCP header with options.
pub const HEADERS_MAX: usize = 120;

/// Who computes the transport checksum of a packet made here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumMode {
    /// The device below: the field holds the sum over the pseudo-header only.
    Partial,
    /// We do, over the whole payload.
    Full,
}

/// Writes the headers of a packet into `out`; returns how many bytes they are, and what is left to
/// the device. The packet's bytes are these and then those of [`payload_slices`].
///
/// To be used where [`Packet::original`] is `None`; otherwise its bytes and its offload are the
/// packet.
///
/// A segment longer than its `gso_size` is a super-segment. Its checksum is always partial, since
/// whoever cuts it has to compute one for each piece anyway; a device without segmentation offload
/// gets the pieces of [`crate::cut`] instead.
///
/// SACK blocks beyond the room that the other options leave are not written.
///
/// The packet must not be longer than an IP length field can say (65,535 bytes, for IPv6 without
/// its header): one that is has a wrong length written, and the next hop drops it.
#[inline]
pub fn headers(packet: &Packet, mode: ChecksumMode, out: &mut [u8; HEADERS_MAX]) -> (usize, Offload) {
    let ip_len = packet.ip.len();
    let behind: usize = payload_slices(packet).iter().map(Payload::len).sum();
    match &packet.transport {
        Transport::Tcp(segment) => tcp_headers(&packet.ip, segment, mode, out),
        Transport::Udp { header, payload } => {
            let len = udp_header(&packet.ip, header, payload, &mut out[ip_len..]);
            ip_header(&packet.ip, UDP, len + behind, out);
            (ip_len + len, Offload::default())
        }
        Transport::IcmpError(_) => {
            ip_header(&packet.ip, icmp::protocol(&packet.ip), behind, out);
            (ip_len, Offload::default())
        }
        Transport::Fragment { fragment, .. } => {
            (ip_len + fragment_header(&packet.ip, fragment, behind, out), Offload::default())
        }
        Transport::Opaque { protocol, .. } => {
            ip_header(&packet.ip, *protocol, behind, out);
            (ip_len, Offload::default())
        }
    }
}

/// The slices that follow the headers of a packet, in order.
#[inline]
pub fn payload_slices(packet: &Packet) -> &[Payload] {
    match &packet.transport {
        Transport::Tcp(segment) => segment.payload.slices(),
        Transport::Udp { payload, .. }
        | Transport::Fragment { payload, .. }
        | Transport::Opaque { payload, .. } => core::slice::from_ref(payload),
        Transport::IcmpError(error) => core::slice::from_ref(&error.message),
    }
}

/// The packet as bytes, in a buffer of its own: for tools and tests, since it copies the payload. A
/// packet that still has its original bytes is those.
pub fn to_datagram(packet: &Packet, mode: ChecksumMode) -> Datagram {
    if let Some(original) = &packet.original {
        return original.clone();
    }
    let mut out = [0; HEADERS_MAX];
    let (len, offload) = headers(packet, mode, &mut out);
    let mut bytes = Vec::from(&out[..len]);
    for slice in payload_slices(packet) {
        bytes.extend_from_slice(slice.as_slice());
    }
    Datagram { bytes: Payload::copy_of(&bytes), offload }
}

#[inline]
fn tcp_headers(
    ip: &IpHeader,
    segment: &TcpSegment,
    mode: ChecksumMode,
    out: &mut [u8; HEADERS_MAX],
) -> (usize, Offload) {
    let start = ip.len();
    let header_len = tcp_header(segment, &mut out[start..]);
    let transport_len = header_len + segment.payload.len();
    ip_header(ip, TCP, transport_len, out);

    let gso = segment.gso_size.filter(|size| segment.payload.len() > usize::from(size.get()));
    let mut sum = pseudo_header(ip, TCP, transport_len);
    let field = start + usize::from(TCP_CHECKSUM);
    let mut offload = Offload::default();
    if mode == ChecksumMode::Partial || gso.is_some() {
        be::put_u16(out, field, sum.folded());
        offload.partial_checksum = Some(PartialChecksum { start: start as u16, offset: TCP_CHECKSUM });
        offload.gso = gso.map(|size| Gso { size, header_len: (start + header_len) as u16 });
    } else {
        sum.add(&out[start..start + header_len]);
        for slice in segment.payload.slices() {
            sum.add(slice.as_slice());
        }
        be::put_u16(out, field, sum.checksum());
    }
    (start + header_len, offload)
}

/// Writes a TCP header with a checksum of zero; returns its length.
#[inline]
fn tcp_header(segment: &TcpSegment, out: &mut [u8]) -> usize {
    let header = &segment.header;
    let Some(room) = out.first_chunk_mut::<{ TCP_HEADER_MIN + OPTIONS_MAX }>() else { return 0 };
    let Some((fixed, behind)) = room.split_first_chunk_mut::<TCP_HEADER_MIN>() else { return 0 };
    let Some(options) = behind.first_chunk_mut() else { return 0 };
    let len = TCP_HEADER_MIN + tcp_options::write(&header.options, options);
    be::put_u16(fixed, 0, header.src_port);
    be::put_u16(fixed, 2, header.dst_port);
    be::put_u32(fixed, 4, header.seq.0);
    be::put_u32(fixed, 8, header.ack.0);
    be::put_u16(fixed, 12, (len as u16 / 4) << 12 | header.flags.0 & 0xfff);
    be::put_u16(fixed, 14, header.window);
    be::put_u16(fixed, 16, 0);
    be::put_u16(fixed, 18, header.urgent);
    len
}

/// Writes a UDP header with its checksum; returns its length.
fn udp_header(ip: &IpHeader, header: &UdpHeader, payload: &Payload, out: &mut [u8]) -> usize {
    const LEN: usize = 8;
    const CHECKSUM: u16 = 6;
    let total = LEN + payload.len();
    be::put_u16(out, 0, header.src_port);
    be::put_u16(out, 2, header.dst_port);
    be::put_u16(out, 4, length_field(total));
    be::put_u16(out, usize::from(CHECKSUM), 0);
    let mut sum = pseudo_header(ip, UDP, total);
    sum.add(&out[..LEN]);
    sum.add(payload.as_slice());
    let place = PartialChecksum { start: ip.len() as u16, offset: CHECKSUM };
    be::put_u16(out, usize::from(CHECKSUM), checksum::complete(sum.checksum(), place));
    LEN
}

/// Writes the IP header of a fragment, and in IPv6 the fragment header; returns the length of the latter.
fn fragment_header(ip: &IpHeader, fragment: &Fragment, behind: usize, out: &mut [u8; HEADERS_MAX]) -> usize {
    match ip {
        IpHeader::V4(h) => {
            const MORE: u16 = 0x2000;
            ip_header(
                &IpHeader::V4(Ipv4Header { id: fragment.id as u16, ..*h }),
                fragment.protocol,
                behind,
                out,
            );
            let from = be::u16(out, 6);
            let to = from | (fragment.offset / 8) | if fragment.more { MORE } else { 0 };
            be::put_u16(out, 6, to);
            let sum = checksum::updated(be::u16(out, 10), FieldChange { from, to });
            be::put_u16(out, 10, sum);
        }
        IpHeader::V6(_) => {
            ip_header(ip, extension::FRAGMENT, 8 + behind, out);
            out[40] = fragment.protocol;
            out[41] = 0;
            be::put_u16(out, 42, fragment.offset & !7 | u16::from(fragment.more));
            be::put_u32(out, 44, fragment.id);
        }
    }
    fragment_header_len(ip)
}

/// Writes an IP header in front of `behind` bytes.
#[inline]
pub(crate) fn ip_header(ip: &IpHeader, protocol: u8, behind: usize, out: &mut [u8; HEADERS_MAX]) {
    match ip {
        IpHeader::V4(h) => {
            const DONT_FRAGMENT: u16 = 0x4000;
            let fixed = &mut out[..20];
            fixed[0] = 0x45;
            fixed[1] = h.tos;
            be::put_u16(fixed, 2, length_field(20 + behind));
            be::put_u16(fixed, 4, h.id);
            be::put_u16(fixed, 6, if h.dont_fragment { DONT_FRAGMENT } else { 0 });
            fixed[8] = h.ttl;
            fixed[9] = protocol;
            be::put_u16(fixed, 10, 0);
            fixed[12..16].copy_from_slice(&h.src.octets());
            fixed[16..20].copy_from_slice(&h.dst.octets());
            let mut sum = Sum::new();
            sum.add(fixed);
            be::put_u16(fixed, 10, sum.checksum());
        }
        IpHeader::V6(h) => {
            let fixed = &mut out[..40];
            let first_word = 6 << 28 | u32::from(h.traffic_class) << 20 | h.flow_label & 0xf_ffff;
            be::put_u32(fixed, 0, first_word);
            be::put_u16(fixed, 4, length_field(behind));
            fixed[6] = protocol;
            fixed[7] = h.hop_limit;
            fixed[8..24].copy_from_slice(&h.src.octets());
            fixed[24..40].copy_from_slice(&h.dst.octets());
        }
    }
}

/// A length as its field can say it.
#[inline]
fn length_field(len: usize) -> u16 {
    debug_assert!(len <= usize::from(u16::MAX), "a packet of {len} bytes is longer than IP allows");
    u16::try_from(len).unwrap_or(u16::MAX)
}
