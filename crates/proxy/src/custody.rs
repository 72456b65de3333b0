use core::hash::Hasher as _;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use shorthaul_types::{FlowKey, PortId, SeqNum};
use siphasher::sip::SipHasher13;

/// What must survive a crash of the gateway: of one flow, up to where we acknowledged each
/// direction to its sender, and up to where its receiver acknowledged it to us.
///
/// Where the two differ, a crash loses bytes that the sender believes delivered, and only a reset
/// is honest. The record is written before the packets that it speaks of leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CustodyRecord {
    /// From the client to the server.
    pub flow: FlowKey,
    /// Our port that leads to the client.
    pub client_port: PortId,
    /// Sequence numbers of what the client and the server send, in this order: acknowledged to it
    /// by us, acknowledged to us by the other.
    pub directions: [(SeqNum, SeqNum); 2],
}

const USED: u8 = 0x52;
/// Where the checksum lies, over all that is before it.
const CHECKSUM: usize = 120;

/// What tells a record that was written whole from one that a crash has torn.
fn checksum(bytes: &[u8]) -> [u8; 8] {
    let mut hasher = SipHasher13::new();
    hasher.write(bytes);
    hasher.finish().to_be_bytes()
}

impl CustodyRecord {
    /// Bytes of an encoded record.
    pub const SIZE: usize = 128;

    /// Whether a crash would lose bytes.
    pub fn holds_bytes(&self) -> bool {
        self.directions.iter().any(|(acknowledged, delivered)| acknowledged != delivered)
    }

    /// The record as bytes. The first byte is never zero.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut out = [0; Self::SIZE];
        out[0] = USED;
        out[1] = if self.flow.src.is_ipv4() { 4 } else { 6 };
        out[2] = self.client_port.0;
        for (i, address) in [self.flow.src, self.flow.dst].into_iter().enumerate() {
            let at = 4 + i * 18;
            match address.ip() {
                IpAddr::V4(ip) => out[at..at + 4].copy_from_slice(&ip.octets()),
                IpAddr::V6(ip) => out[at..at + 16].copy_from_slice(&ip.octets()),
            }
            out[at + 16..at + 18].copy_from_slice(&address.port().to_be_bytes());
        }
        let numbers = self.directions.iter().flat_map(|(a, d)| [a.0, d.0]);
        for (i, number) in numbers.enumerate() {
            out[40 + i * 4..44 + i * 4].copy_from_slice(&number.to_be_bytes());
        }
        let sum = checksum(&out[..CHECKSUM]);
        out[CHECKSUM..].copy_from_slice(&sum);
        out
    }

    /// Reads a record; `None` for a free slot, for one that was torn, and for bytes that are none.
    pub fn decode(bytes: &[u8; Self::SIZE]) -> Option<Self> {
        if bytes[0] != USED || bytes[CHECKSUM..] != checksum(&bytes[..CHECKSUM]) {
            return None;
        }
        let address = |at: usize| {
            let ip: [u8; 16] = bytes[at..at + 16].try_into().ok()?;
            let ip = match bytes[1] {
                4 => IpAddr::V4(Ipv4Addr::new(ip[0], ip[1], ip[2], ip[3])),
                6 => IpAddr::V6(Ipv6Addr::from(ip)),
                _ => return None,
            };
            Some(SocketAddr::new(ip, u16::from_be_bytes([bytes[at + 16], bytes[at + 17]])))
        };
        let number = |i: usize| {
            let at = 40 + i * 4;
            SeqNum(u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]))
        };
        Some(CustodyRecord {
            flow: FlowKey { src: address(4)?, dst: address(22)? },
            client_port: PortId(bytes[2]),
            directions: [(number(0), number(1)), (number(2), number(3))],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_survives_its_bytes() {
        for (src, dst) in [("10.0.0.1:80", "10.0.0.2:4000"), ("[fd00::1]:80", "[fd00::2]:9")] {
            let record = CustodyRecord {
                flow: FlowKey { src: src.parse().unwrap(), dst: dst.parse().unwrap() },
                client_port: PortId(1),
                directions: [(SeqNum(1), SeqNum(u32::MAX)), (SeqNum(7), SeqNum(7))],
            };
            assert_eq!(CustodyRecord::decode(&record.encode()), Some(record));
            assert!(record.holds_bytes());
            for torn in 0..CustodyRecord::SIZE {
                let mut bytes = record.encode();
                bytes[torn] ^= 1;
                assert_eq!(CustodyRecord::decode(&bytes), None, "byte {torn}");
            }
        }
        assert_eq!(CustodyRecord::decode(&[0; 128]), None);
        assert_eq!(CustodyRecord::decode(&[USED; 128]), None);
    }
}
