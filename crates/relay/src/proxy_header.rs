//! The PROXY protocol, versions 1 and 2 (haproxy.org, proxy-protocol.txt): who the client is, ahead of
//! what it says.
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// The longest header of version 1 (§2.1).
const MAX_V1: usize = 107;
/// The longest header of version 2 that is read: addresses, and a generous number of extensions.
const MAX_V2: usize = 16 + 512;

/// Which of the two is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyVersion {
    /// A line of text.
    V1,
    /// Binary.
    V2,
}

impl FromStr for ProxyVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "v1" => Ok(ProxyVersion::V1),
            "v2" => Ok(ProxyVersion::V2),
            _ => Err(format!("`{text}` is no version of the PROXY protocol: write `v1` or `v2`")),
        }
    }
}

impl fmt::Display for ProxyVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ProxyVersion::V1 => "v1",
            ProxyVersion::V2 => "v2",
        })
    }
}

/// The two ends of the client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyHeader {
    /// The client.
    pub source: SocketAddr,
    /// What it connected to.
    pub destination: SocketAddr,
}

impl ProxyHeader {
    /// The bytes that go ahead of the stream.
    pub fn to_bytes(&self, version: ProxyVersion) -> Vec<u8> {
        // One of IPv4 and one of IPv6 can only be told as two of IPv6.
        let (source, destination) = match (self.source.ip(), self.destination.ip()) {
            (IpAddr::V4(_), IpAddr::V4(_)) => (self.source.ip(), self.destination.ip()),
            (source, destination) => (IpAddr::V6(to_v6(source)), IpAddr::V6(to_v6(destination))),
        };
        let ports = [self.source.port(), self.destination.port()];
        match version {
            ProxyVersion::V1 => {
                let family = if source.is_ipv4() { "TCP4" } else { "TCP6" };
                format!("PROXY {family} {source} {destination} {} {}\r\n", ports[0], ports[1]).into_bytes()
            }
            ProxyVersion::V2 => {
                let mut bytes = SIGNATURE.to_vec();
                bytes.push(0x21);
                for (at, address) in [source, destination].into_iter().enumerate() {
                    match address {
                        IpAddr::V4(address) => {
                            if at == 0 {
                                bytes.extend_from_slice(&[0x11, 0, 12]);
                            }
                            bytes.extend_from_slice(&address.octets());
                        }
                        IpAddr::V6(address) => {
                            if at == 0 {
                                bytes.extend_from_slice(&[0x21, 0, 36]);
                            }
                            bytes.extend_from_slice(&address.octets());
                        }
                    }
                }
                ports.iter().for_each(|port| bytes.extend_from_slice(&port.to_be_bytes()));
                bytes
            }
        }
    }
}

fn to_v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

/// What stands at the beginning of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// A header, and how long it is. Without addresses, the sender speaks for itself (LOCAL, UNKNOWN).
    Header(Option<ProxyHeader>, usize),
    /// The rest of a header is still to come.
    Partial,
    /// Something else, or a header that is wrong.
    Wrong,
}

/// Reads a header of either version.
pub fn read(bytes: &[u8]) -> Beginning {
    if bytes.is_empty() {
        return Beginning::Partial;
    }
    if bytes.starts_with(b"PROXY ") || b"PROXY ".starts_with(bytes) {
        return read_v1(bytes);
    }
    if bytes.starts_with(SIGNATURE) || SIGNATURE.starts_with(bytes) {
        return read_v2(bytes);
    }
    Beginning::Wrong
}

fn read_v1(bytes: &[u8]) -> Beginning {
    let Some(end) = bytes.iter().take(MAX_V1).position(|byte| *byte == b'\n') else {
        return if bytes.len() < MAX_V1 { Beginning::Partial } else { Beginning::Wrong };
    };
    let line = std::str::from_utf8(&bytes[..end]).ok().and_then(|line| line.strip_suffix('\r'));
    let Some(fields) = line.map(|line| line.split(' ').collect::<Vec<_>>()) else { return Beginning::Wrong };
    match fields[..] {
        ["PROXY", "UNKNOWN", ..] => Beginning::Header(None, end + 1),
        ["PROXY", family @ ("TCP4" | "TCP6"), source, destination, from, to] => {
            let end_of = |ip: &str, port: &str| {
                let ip: IpAddr = ip.parse().ok()?;
                (ip.is_ipv4() == (family == "TCP4")).then_some(SocketAddr::new(ip, port.parse().ok()?))
            };
            match (end_of(source, from), end_of(destination, to)) {
                (Some(source), Some(destination)) => {
                    Beginning::Header(Some(ProxyHeader { source, destination }), end + 1)
                }
                _ => Beginning::Wrong,
            }
        }
        _ => Beginning::Wrong,
    }
}

fn read_v2(bytes: &[u8]) -> Beginning {
    let Some(&[version, family, high, low]) = bytes.get(12..16) else { return Beginning::Partial };
    let len = usize::from(u16::from_be_bytes([high, low]));
    if version >> 4 != 2 || 16 + len > MAX_V2 {
        return Beginning::Wrong;
    }
    let Some(body) = bytes.get(16..16 + len) else { return Beginning::Partial };
    let header = |size: usize, ip: fn(&[u8]) -> Option<IpAddr>| {
        let port = |at: usize| Some(u16::from_be_bytes(*body.get(at..)?.first_chunk()?));
        let source = SocketAddr::new(ip(body.get(..size)?)?, port(2 * size)?);
        let destination = SocketAddr::new(ip(body.get(size..2 * size)?)?, port(2 * size + 2)?);
        Some(ProxyHeader { source, destination })
    };
    let read = match (version & 15, family) {
        (0, _) => return Beginning::Header(None, 16 + len),
        (1, 0x11) => header(4, |bytes| Some(IpAddr::from(*bytes.first_chunk::<4>()?))),
        (1, 0x21) => header(16, |bytes| Some(IpAddr::from(*bytes.first_chunk::<16>()?))),
        (1, _) => return Beginning::Header(None, 16 + len),
        _ => return Beginning::Wrong,
    };
    read.map_or(Beginning::Wrong, |read| Beginning::Header(Some(read), 16 + len))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between(source: &str, destination: &str) -> ProxyHeader {
        ProxyHeader { source: source.parse().unwrap(), destination: destination.parse().unwrap() }
    }

    #[test]
    fn what_is_written_is_read_in_any_pieces() {
        let cases = [
            between("192.0.2.1:1000", "198.51.100.2:443"),
            between("[2001:db8::1]:65535", "[2001:db8::2]:1"),
        ];
        for header in cases {
            for version in [ProxyVersion::V1, ProxyVersion::V2] {
                let mut bytes = header.to_bytes(version);
                let len = bytes.len();
                for end in 0..len {
                    assert_eq!(read(&bytes[..end]), Beginning::Partial, "{version} {end}");
                }
                bytes.extend_from_slice(b"data");
                assert_eq!(read(&bytes), Beginning::Header(Some(header), len));
            }
        }
    }

    #[test]
    fn the_examples_of_the_specification() {
        let line = b"PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n";
        assert_eq!(
            between("255.255.255.255:65535", "255.255.255.255:65535").to_bytes(ProxyVersion::V1),
            line
        );
        assert_eq!(read(b"PROXY UNKNOWN\r\n"), Beginning::Header(None, 15));
        let local = b"\r\n\r\n\0\r\nQUIT\n\x20\x00\x00\x00";
        assert_eq!(read(local), Beginning::Header(None, 16));
    }

    #[test]
    fn what_is_none_is_refused() {
        for wrong in [
            &b"GET / HTTP/1.1\r\n"[..],
            b"PROXY TCP4 ::1 ::1 1 1\r\n",
            b"PROXY TCP4 1.2.3.4 1.2.3.4 1 65536\r\n",
            b"PROXY TCP4 1.2.3.4\n",
            b"\r\n\r\n\0\r\nQUIT\n\x11\x11\x00\x0c",
            b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff",
            b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x01\x00",
        ] {
            assert_eq!(read(wrong), Beginning::Wrong);
        }
        let long = [b"PROXY ".as_slice(), &[b'x'; 200]].concat();
        assert_eq!(read(&long), Beginning::Wrong);
    }
}
