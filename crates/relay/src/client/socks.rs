//! SOCKS version 5 (RFC 1928) and 4 with names (4a), as far as a TCP client needs them: no authentication, CONNECT.
use crate::answer::Failure;
use crate::route::Endpoint;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The version that every message begins with.
pub const VERSION: u8 = 5;
/// The answer to a greeting: no authentication (§3).
pub const WELCOME: [u8; 2] = [VERSION, 0];
/// The answer to a greeting that offers nothing acceptable.
pub const NO_METHOD: [u8; 2] = [VERSION, 0xff];

/// What stands at the beginning of some bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read<T> {
    /// It, and how long it is.
    There(T, usize),
    /// The rest is still to come.
    Partial,
    /// Something else; what to answer before closing.
    Wrong(u8),
}

/// Reads a greeting (§3): whether it offers to do without authentication.
pub fn greeting(bytes: &[u8]) -> Read<bool> {
    match *bytes {
        [VERSION, count, ref methods @ ..] => match methods.get(..usize::from(count)) {
            Some(methods) => Read::There(methods.contains(&0), 2 + usize::from(count)),
            None => Read::Partial,
        },
        [VERSION] | [] => Read::Partial,
        _ => Read::Wrong(1),
    }
}

/// Reads a request (§4): where to.
pub fn request(bytes: &[u8]) -> Read<Endpoint> {
    const COMMAND_NOT_SUPPORTED: u8 = 7;
    const ADDRESS_NOT_SUPPORTED: u8 = 8;
    let (command, kind, rest) = match *bytes {
        [VERSION, command, _, kind, ref rest @ ..] => (command, kind, rest),
        [VERSION, ..] | [] => return Read::Partial,
        _ => return Read::Wrong(1),
    };
    if command != 1 {
        return Read::Wrong(COMMAND_NOT_SUPPORTED);
    }
    let (host, len) = match kind {
        1 => match rest.first_chunk::<4>() {
            Some(address) => (Ipv4Addr::from(*address).to_string(), 4),
            None => return Read::Partial,
        },
        3 => {
            let Some((&len, name)) = rest.split_first() else { return Read::Partial };
            let Some(name) = name.get(..usize::from(len)) else { return Read::Partial };
            (String::from_utf8_lossy(name).into_owned(), 1 + usize::from(len))
        }
        4 => match rest.first_chunk::<16>() {
            Some(address) => (format!("[{}]", Ipv6Addr::from(*address)), 16),
            None => return Read::Partial,
        },
        _ => return Read::Wrong(ADDRESS_NOT_SUPPORTED),
    };
    let Some(port) = rest.get(len..).and_then(|rest| rest.first_chunk::<2>()) else { return Read::Partial };
    match format!("{host}:{}", u16::from_be_bytes(*port)).parse() {
        Ok(target) => Read::There(target, 4 + len + 2),
        Err(_) => Read::Wrong(ADDRESS_NOT_SUPPORTED),
    }
}

/// The version that a request of SOCKS 4 begins with.
pub const VERSION_4: u8 = 4;
/// Room for the user's name and the host's in a request of SOCKS 4, with their ends.
const MOST_4: usize = 8 + 256 + 256;

/// Reads a request of SOCKS 4 or 4a: where to. Who the user says to be does not matter.
pub fn request_4(bytes: &[u8]) -> Read<Endpoint> {
    let (command, port, address, rest) = match *bytes {
        [VERSION_4, command, p0, p1, a, b, c, d, ref rest @ ..] => {
            (command, u16::from_be_bytes([p0, p1]), [a, b, c, d], rest)
        }
        [VERSION_4, ..] | [] => return Read::Partial,
        _ => return Read::Wrong(REFUSED_4),
    };
    let text = |bytes: &[u8]| bytes.iter().position(|byte| *byte == 0);
    let partial = if bytes.len() < MOST_4 { Read::Partial } else { Read::Wrong(REFUSED_4) };
    let Some(user) = text(rest) else { return partial };
    // An address that nobody has, 0.0.0.x, stands for a name behind the user's.
    let (host, len) = match address {
        [0, 0, 0, last] if last > 0 => match text(&rest[user + 1..]) {
            Some(end) => (String::from_utf8_lossy(&rest[user + 1..][..end]).into_owned(), user + 1 + end + 1),
            None => return partial,
        },
        address => (Ipv4Addr::from(address).to_string(), user + 1),
    };
    match format!("{host}:{port}").parse() {
        Ok(target) if command == 1 => Read::There(target, 8 + len),
        _ => Read::Wrong(REFUSED_4),
    }
}

/// Of SOCKS 4: it did not work.
pub const REFUSED_4: u8 = 91;
/// Of SOCKS 4: it did.
pub const GRANTED_4: u8 = 90;

/// The answer to a request of SOCKS 4.
pub fn reply_4(code: u8) -> [u8; 8] {
    [0, code, 0, 0, 0, 0, 0, 0]
}

/// The answer to a request (§6); zero is success. Which address is used is nobody's business.
pub fn reply(code: u8) -> [u8; 10] {
    [VERSION, code, 0, 1, 0, 0, 0, 0, 0, 0]
}

/// The code for a failure (§6).
pub fn code_of(failure: Failure) -> u8 {
    match failure {
        Failure::DestinationProhibited | Failure::RequestDenied => 2,
        Failure::Unroutable => 3,
        Failure::Dns | Failure::ConnectionTimeout => 4,
        Failure::ConnectionRefused => 5,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_in_any_pieces() {
        assert_eq!(greeting(&[5, 2, 2, 0, 9]), Read::There(true, 4));
        assert_eq!(greeting(&[5, 1, 2]), Read::There(false, 3));
        assert_eq!(greeting(b"GET "), Read::Wrong(1));
        let cases: [(&[u8], &str); 3] = [
            (&[5, 1, 0, 1, 192, 0, 2, 1, 0, 80], "192.0.2.1:80"),
            (b"\x05\x01\x00\x03\x0bexample.org\x01\xbb", "example.org:443"),
            (&[5, 1, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 22], "[::1]:22"),
        ];
        for (bytes, target) in cases {
            assert_eq!(request(bytes), Read::There(target.parse().unwrap(), bytes.len()));
            for end in 0..bytes.len() {
                assert_eq!(request(&bytes[..end]), Read::Partial);
            }
        }
        let cases: [(&[u8], &str); 2] = [
            (b"\x04\x01\x00\x50\xc0\x00\x02\x01me\x00", "192.0.2.1:80"),
            (b"\x04\x01\x01\xbb\x00\x00\x00\x07\x00example.org\x00", "example.org:443"),
        ];
        for (bytes, target) in cases {
            assert_eq!(request_4(bytes), Read::There(target.parse().unwrap(), bytes.len()));
            for end in 0..bytes.len() {
                assert_eq!(request_4(&bytes[..end]), Read::Partial);
            }
        }
        assert_eq!(request_4(b"\x04\x02\x00\x50\xc0\x00\x02\x01\x00"), Read::Wrong(91));
        assert_eq!(
            request_4(&[[4, 1, 0, 80, 1, 1, 1, 1].as_slice(), &[b'x'; 600]].concat()),
            Read::Wrong(91)
        );
        assert_eq!(request(&[5, 2, 0, 1, 1, 1, 1, 1, 0, 80]), Read::Wrong(7));
        assert_eq!(request(b"\x05\x01\x00\x03\x03a b\x00\x50"), Read::Wrong(8));
    }
}
