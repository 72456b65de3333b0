//! Packets as no kernel sends them, as bytes.
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const TCP: u8 = 6;
const UDP: u8 = 17;
const IPV6_FRAGMENT: u8 = 44;
pub const SYN: u8 = 0x02;
pub const RST: u8 = 0x04;
pub const PSH: u8 = 0x08;
pub const ACK: u8 = 0x10;

/// A TCP header, with what follows it.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    pub ports: [u16; 2],
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub options: &'a [u8],
    pub payload: &'a [u8],
}

/// How a packet is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Plain,
    /// Behind options: NOPs of IPv4, destination options of IPv6.
    Options,
    /// A fragment, with these units of eight bytes before it, and more behind it.
    Fragment {
        before: u16,
        number: u32,
    },
    /// The last fragment of such a packet.
    LastFragment {
        before: u16,
        number: u32,
    },
}

/// The one's complement sum of 16-bit words (RFC 1071).
fn sum(bytes: &[u8], mut sum: u32) -> u32 {
    for pair in bytes.chunks(2) {
        sum += u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
    }
    sum
}

fn folded(mut sum: u32) -> [u8; 2] {
    while sum >> 16 > 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

/// A segment as bytes, with its checksum.
fn tcp(src: IpAddr, dst: IpAddr, segment: &Segment<'_>) -> Vec<u8> {
    let Segment { ports, seq, ack, flags, options, payload } = *segment;
    let padding = options.len().next_multiple_of(4) - options.len();
    let words = 5 + (options.len() + padding) / 4;
    let mut out = Vec::new();
    ports.iter().for_each(|port| out.extend(port.to_be_bytes()));
    out.extend(seq.to_be_bytes());
    out.extend(ack.to_be_bytes());
    out.extend([(words as u8) << 4, flags, 0xff, 0xff, 0, 0, 0, 0]);
    out.extend(options);
    out.extend(vec![0; padding]);
    out.extend(payload);
    let checksum = checksum(TCP, src, dst, &out);
    out[16..18].copy_from_slice(&checksum);
    out
}

/// That of a transport protocol, with its pseudo header (RFC 9293 §3.1, RFC 8200 §8.1).
fn checksum(protocol: u8, src: IpAddr, dst: IpAddr, body: &[u8]) -> [u8; 2] {
    let mut pseudo = Vec::new();
    for address in [src, dst] {
        match address {
            IpAddr::V4(address) => pseudo.extend(address.octets()),
            IpAddr::V6(address) => pseudo.extend(address.octets()),
        }
    }
    folded(sum(body, sum(&pseudo, u32::from(protocol) + body.len() as u32)))
}

/// A UDP datagram.
pub fn datagram(src: SocketAddr, dst: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let mut body = [src.port(), dst.port(), 8 + payload.len() as u16, 0].map(u16::to_be_bytes).concat();
    body.extend(payload);
    let checksum = checksum(UDP, src.ip(), dst.ip(), &body);
    body[6..8].copy_from_slice(&checksum);
    whole(src.ip(), dst.ip(), UDP, &body, Form::Plain)
}

/// A packet with a segment, or a fragment with all of it.
pub fn packet(src: IpAddr, dst: IpAddr, segment: &Segment<'_>, form: Form) -> Vec<u8> {
    whole(src, dst, TCP, &tcp(src, dst, segment), form)
}

/// The two fragments of a packet with a segment; the first has its header and some of its payload.
pub fn fragments(src: IpAddr, dst: IpAddr, segment: &Segment<'_>, number: u32) -> [Vec<u8>; 2] {
    let body = tcp(src, dst, segment);
    let cut = (body.len() / 2).next_multiple_of(8).min(body.len());
    [
        whole(src, dst, TCP, &body[..cut], Form::Fragment { before: 0, number }),
        whole(src, dst, TCP, &body[cut..], Form::LastFragment { before: (cut / 8) as u16, number }),
    ]
}

fn whole(src: IpAddr, dst: IpAddr, protocol: u8, body: &[u8], form: Form) -> Vec<u8> {
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => v4(src, dst, protocol, body, form),
        (IpAddr::V6(src), IpAddr::V6(dst)) => v6(src, dst, protocol, body, form),
        _ => Vec::new(),
    }
}

fn v4(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, body: &[u8], form: Form) -> Vec<u8> {
    let options: &[u8] = if form == Form::Options { &[1, 1, 1, 1] } else { &[] };
    let (id, offset) = match form {
        Form::Fragment { before, number } => (number as u16, 0x2000 | before),
        Form::LastFragment { before, number } => (number as u16, before),
        Form::Plain | Form::Options => (0, 0x4000),
    };
    let length = (20 + options.len() + body.len()) as u16;
    let mut out = vec![0x40 | (5 + options.len() as u8 / 4), 0];
    out.extend(length.to_be_bytes());
    out.extend(id.to_be_bytes());
    out.extend(offset.to_be_bytes());
    out.extend([64, protocol, 0, 0]);
    out.extend(src.octets());
    out.extend(dst.octets());
    out.extend(options);
    let checksum = folded(sum(&out, 0));
    out[10..12].copy_from_slice(&checksum);
    out.extend(body);
    out
}

fn v6(src: Ipv6Addr, dst: Ipv6Addr, protocol: u8, body: &[u8], form: Form) -> Vec<u8> {
    const DESTINATION_OPTIONS: u8 = 60;
    let fragment = |before: u16, number: u32, more: u16| {
        let mut header = vec![protocol, 0];
        header.extend((before << 3 | more).to_be_bytes());
        header.extend(number.to_be_bytes());
        (IPV6_FRAGMENT, header)
    };
    let (next, extension): (u8, Vec<u8>) = match form {
        Form::Plain => (protocol, Vec::new()),
        Form::Options => (DESTINATION_OPTIONS, vec![protocol, 0, 1, 4, 0, 0, 0, 0]),
        Form::Fragment { before, number } => fragment(before, number, 1),
        Form::LastFragment { before, number } => fragment(before, number, 0),
    };
    let mut out = vec![0x60, 0, 0, 0];
    out.extend(((extension.len() + body.len()) as u16).to_be_bytes());
    out.extend([next, 64]);
    out.extend(src.octets());
    out.extend(dst.octets());
    out.extend(extension);
    out.extend(body);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use shorthaul_wire::{Datagram, Offload, Payload, Transport, parse};

    #[test]
    fn what_is_put_together_is_read_as_such() {
        let segment =
            Segment { ports: [1, 2], seq: 3, ack: 4, flags: ACK | PSH, options: &[1], payload: b"abc" };
        let v4: [IpAddr; 2] = [IpAddr::from([10, 66, 0, 1]), IpAddr::from([10, 1, 0, 1])];
        let v6: [IpAddr; 2] = ["fd66::1".parse().unwrap(), "fd00::1".parse().unwrap()];
        for [src, dst] in [v4, v6] {
            let halves = fragments(src, dst, &segment, 9).map(|half| {
                let bytes = Payload::copy_of(&half);
                parse(Datagram { bytes, offload: Offload::default() }).unwrap()
            });
            assert!(halves.iter().all(|half| matches!(half.transport, Transport::Fragment { .. })));
            for form in [Form::Plain, Form::Options, Form::Fragment { before: 0, number: 9 }] {
                let bytes = Payload::copy_of(&packet(src, dst, &segment, form));
                let parsed = parse(Datagram { bytes, offload: Offload::default() }).unwrap();
                assert_eq!((parsed.ip.src(), parsed.ip.dst()), (src, dst));
                let is_fragment = matches!(parsed.transport, Transport::Fragment { .. });
                assert_eq!(is_fragment, matches!(form, Form::Fragment { .. }), "{form:?}");
                if let Transport::Tcp(read) = parsed.transport {
                    assert_eq!((read.header.seq.0, read.header.ack.0, read.payload.len()), (3, 4, 3));
                }
            }
        }
    }
}
