//! Timestamp requests and their answers (RFC 792), by which one-way delays are measured. Clocks here are exact, and the same everywhere.
use shorthaul_types::Time;
use shorthaul_wire::{IpHeader, Ipv4Header, Packet, Payload, Transport};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

const ICMP: u8 = 1;
const REQUEST: u8 = 13;
const ANSWER: u8 = 14;
/// Type, code, checksum (not made: nobody here looks at it), identifier, number, and three times in milliseconds.
const LEN: usize = 20;

/// What an answer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub identifier: u16,
    /// How long the request took, and the answer.
    pub there: Duration,
    pub back: Duration,
}

/// A request from one address to another.
pub(crate) fn request(now: Time, from: IpAddr, to: IpAddr, identifier: u16) -> Option<Packet> {
    let mut message = [0; LEN];
    message[0] = REQUEST;
    message[4..6].copy_from_slice(&identifier.to_be_bytes());
    message[8..12].copy_from_slice(&millis(now).to_be_bytes());
    Some(packet(v4(from)?, v4(to)?, &message))
}

/// The answer to a packet, if it is a request.
pub(crate) fn answer(now: Time, packet: &Packet) -> Option<Packet> {
    let mut message = message(packet, REQUEST)?;
    message[0] = ANSWER;
    message[12..16].copy_from_slice(&millis(now).to_be_bytes());
    message[16..20].copy_from_slice(&millis(now).to_be_bytes());
    Some(self::packet(v4(packet.ip.dst())?, v4(packet.ip.src())?, &message))
}

/// What a packet says, if it is an answer.
pub(crate) fn read_answer(now: Time, packet: &Packet) -> Option<Answer> {
    let message = message(packet, ANSWER)?;
    let word = |at: usize| message[at..at + 4].iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte));
    let apart = |later: u32, earlier: u32| Duration::from_millis(u64::from(later.wrapping_sub(earlier)));
    Some(Answer {
        identifier: u16::from_be_bytes([message[4], message[5]]),
        there: apart(word(12), word(8)),
        back: apart(millis(now), word(16)),
    })
}

fn message(packet: &Packet, kind: u8) -> Option<[u8; LEN]> {
    match &packet.transport {
        Transport::Opaque { protocol: ICMP, payload } => {
            let message = *payload.as_slice().first_chunk::<LEN>()?;
            (message[0] == kind).then_some(message)
        }
        _ => None,
    }
}

fn millis(now: Time) -> u32 {
    (now.as_nanos() / 1_000_000) as u32
}

fn v4(address: IpAddr) -> Option<Ipv4Addr> {
    match address {
        IpAddr::V4(v4) => Some(v4),
        IpAddr::V6(_) => None,
    }
}

fn packet(src: Ipv4Addr, dst: Ipv4Addr, message: &[u8]) -> Packet {
    let ip = Ipv4Header { src, dst, tos: 0, ttl: 64, id: 0, dont_fragment: true };
    let transport = Transport::Opaque { protocol: ICMP, payload: Payload::copy_of(message) };
    Packet { ip: IpHeader::V4(ip), transport, original: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_tells_both_ways_apart() {
        let [a, b] = [1, 2].map(|last| IpAddr::from([10, 0, 0, last]));
        let request = request(Time::from_millis(100), a, b, 7).unwrap();
        assert!(read_answer(Time::from_millis(130), &request).is_none());
        let back = answer(Time::from_millis(130), &request).unwrap();
        assert_eq!((back.ip.src(), back.ip.dst()), (b, a));
        assert!(answer(Time::from_millis(130), &back).is_none(), "answers are not answered");
        let ms = Duration::from_millis;
        let expected = Answer { identifier: 7, there: ms(30), back: ms(45) };
        assert_eq!(read_answer(Time::from_millis(175), &back), Some(expected));
    }
}
