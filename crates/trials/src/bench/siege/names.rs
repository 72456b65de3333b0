//! A server of names that means harm.
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Names that end so are never answered.
pub const SLOW: &str = "slow.test";
/// Those that end so have another address each time they are asked for, good for no time.
pub const REBIND: &str = "rebind.test";

/// After this long it is noticed that all is over.
const NAP: Duration = Duration::from_millis(200);
/// A header, and where what was asked stands behind it (RFC 1035 §4.1).
const HEADER: usize = 12;

/// Answers until it is told to stop; `addresses` are what the names that change lead to, by turns.
pub fn serve(socket: &UdpSocket, addresses: &[Ipv4Addr], stop: &AtomicBool) -> io::Result<()> {
    socket.set_read_timeout(Some(NAP))?;
    let (mut query, mut turn) = ([0; 512], 0);
    while !stop.load(Ordering::Relaxed) {
        let Ok((length, from)) = socket.recv_from(&mut query) else { continue };
        if let Some(answer) = answer(&query[..length], addresses[turn % addresses.len()]) {
            turn += 1;
            reply(socket, &answer, from);
        }
    }
    Ok(())
}

fn reply(socket: &UdpSocket, answer: &[u8], to: SocketAddr) {
    // Who is gone has no use for it.
    let _ = socket.send_to(answer, to);
}

/// What a query is answered: an address, or that there is none. A slow name is not.
fn answer(query: &[u8], address: Ipv4Addr) -> Option<Vec<u8>> {
    let (mut name, mut at) = (Vec::new(), HEADER);
    loop {
        let length = usize::from(*query.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        name.push(String::from_utf8_lossy(query.get(at..at + length)?).to_ascii_lowercase());
        at += length;
    }
    let name = name.join(".");
    let kind = query.get(at..at + 4)?;
    if name.ends_with(SLOW) {
        return None;
    }
    let has_one = name.ends_with(REBIND) && kind == [0, 1, 0, 1]; // A, IN
    let mut answer = query[..2].to_vec();
    // A response, recursion desired and available; "no such name" for what is not ours.
    let code = if name.ends_with(REBIND) { 0 } else { 3 };
    answer.extend([0x81, 0x80 | code, 0, 1, 0, u8::from(has_one), 0, 0, 0, 0]);
    answer.extend(&query[HEADER..at + 4]);
    if has_one {
        // The name as above, A, IN, good for no time, four bytes.
        answer.extend([0xc0, HEADER as u8, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4]);
        answer.extend(address.octets());
    }
    Some(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(name: &str, kind: u8) -> Vec<u8> {
        let mut query = vec![7, 8, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split('.') {
            query.push(label.len() as u8);
            query.extend(label.as_bytes());
        }
        query.extend([0, 0, kind, 0, 1]);
        query
    }

    #[test]
    fn names_are_answered_as_they_end() {
        let address = Ipv4Addr::new(192, 0, 2, 1);
        let said = answer(&query("a.Rebind.test", 1), address).unwrap();
        assert_eq!((&said[..2], &said[said.len() - 4..]), (&[7, 8][..], &address.octets()[..]));
        assert_eq!((said[3] & 15, said[7]), (0, 1));
        let no_ipv6 = answer(&query("a.rebind.test", 28), address).unwrap();
        assert_eq!((no_ipv6[3] & 15, no_ipv6[7]), (0, 0));
        assert_eq!(answer(&query("other.test", 1), address).unwrap()[3] & 15, 3);
        assert!(answer(&query("b.slow.test", 1), address).is_none());
        for length in 0..query("a.rebind.test", 1).len() {
            assert!(answer(&query("a.rebind.test", 1)[..length], address).is_none(), "{length} bytes");
        }
    }
}
