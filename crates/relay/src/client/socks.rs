//! SOCKS version 5 (RFC 1928), as far as a TCP client needs it: no authentication, CONNECT.
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
        assert_eq!(request(&[5, 2, 0, 1, 1, 1, 1, 1, 0, 80]), Read::Wrong(7));
        assert_eq!(request(b"\x05\x01\x00\x03\x03a b\x00\x50"), Read::Wrong(8));
    }
}
