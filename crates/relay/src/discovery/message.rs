use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use shorthaul_types::BitRate;

use super::key::{KEY_NUMBER_AT, Keyring, MAC_LEN, sixteen};

/// The UDP port that probes go to.
pub const PORT: u16 = 7007;
/// Bytes of every probe. Longer than any answer, so that nobody can be made to send more than they were sent.
pub const PROBE_LEN: usize = 160;
/// Bytes of every answer.
pub const ANSWER_LEN: usize = 128;
/// The time to live that probes set out with, so that a node knows how many hops away the client is.
pub const HOP_LIMIT: u8 = 64;
/// Bytes of a node's name, at most.
pub const NAME_MAX: usize = 24;

const MAGIC: [u8; 4] = *b"SHPD";
const VERSION: u8 = 1;

/// What every message of discovery has: all integers are in network byte order.
///
/// | bytes | what |
/// |---|---|
/// | 0–3 | `SHPD` |
/// | 4 | version, 1 |
/// | 5 | kind |
/// | 6 | the hop limit: of a probe that it set out with, of an answer that the probe arrived with |
/// | 7 | the number of the key |
/// | 8–15 | which attempt of the client this belongs to |
/// | 16–23 | the client's clock when it sent the probe, in nanoseconds; echoed |
/// | 24–39 | of a probe the client's cookie, or zeros; of an answer the next cookie |
/// | 40–… | what the kind has |
/// | last 16 | HMAC-SHA-256 over all before it, cut to 128 bits |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// See above.
    pub hop_limit: u8,
    /// See above.
    pub attempt: u64,
    /// See above, in nanoseconds.
    pub timestamp: u64,
    /// See above.
    pub cookie: [u8; MAC_LEN],
    /// What it says.
    pub body: Body,
}

/// What a message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// Kind 1: to a destination; nodes that it passes may answer.
    Path,
    /// Kind 2: to a node itself; what it could do for sessions to `target`.
    Ask {
        /// Where sessions would go; `None` if that is not to be measured.
        target: Option<SocketAddr>,
    },
    /// Kind 3: a node offers its service.
    Available(Offer),
    /// Kind 4: the destination was reached.
    Acknowledge,
    /// Kind 5: the same question again with the cookie, please.
    Challenge,
}

/// What a node offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Where it accepts sessions.
    pub session: SocketAddr,
    /// `Ts`: how long an average packet stays in the node, waiting and processing; up to 4.29 s.
    pub service_time: Duration,
    /// `Cmax`: bytes of buffer that one session can have.
    pub buffer: u64,
    /// Sessions that it carries now.
    pub sessions: u32,
    /// What it can forward in all, and how many share that; `None` from nodes that do not tell.
    pub capacity: Option<Capacity>,
    /// What is known of the way from the node to the target that was asked for.
    pub onward: Onward,
    /// What people call it.
    pub name: Name,
    /// How it is used.
    pub service: Service,
}

/// What a node can forward in all, and how many sessions share that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// All sessions together. It is told in kbit/s, up to 4.29 Tbit/s; nothing is as good as not told.
    pub rate: BitRate,
    /// Sessions on which something moves.
    pub active: u32,
}

/// How a node on the way is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Service {
    /// By a session request: it is a relay.
    #[default]
    Sessions,
    /// Not at all: it is a gateway, which splits the connections that pass it by itself.
    Transparent,
}

/// The way from a node on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Onward {
    /// Not known, or not yet.
    #[default]
    Unknown,
    /// Nobody answers there, or the node does not go there.
    Unreachable,
    /// The round-trip time, to the microsecond; up to 71 minutes.
    RoundTrip(Duration),
}

/// Up to 24 bytes of text that every terminal can show.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name([u8; NAME_MAX]);

impl Name {
    /// The name, cut where it is too long, with `?` for what is not a printable character of ASCII.
    pub fn new(text: &str) -> Self {
        let mut name = [0; NAME_MAX];
        for (to, from) in name.iter_mut().zip(text.bytes()) {
            *to = if from.is_ascii_graphic() { from } else { b'?' };
        }
        Name(name)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(NAME_MAX);
        str::from_utf8(&self.0[..end]).unwrap_or_default()
    }
}

impl std::fmt::Debug for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(self.as_str(), f)
    }
}

/// Why bytes are no message for us: counted, and never answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unreadable {
    /// Something else altogether.
    NotDiscovery,
    /// Of a version that is not spoken here.
    Version,
    /// Too short or too long for its kind, or of no kind that is known, or with a field that makes no sense.
    Malformed,
    /// Signed with no key of this network, or changed on its way.
    Forged,
}

impl Body {
    const fn kind(&self) -> u8 {
        match self {
            Body::Path => 1,
            Body::Ask { .. } => 2,
            Body::Available(_) => 3,
            Body::Acknowledge => 4,
            Body::Challenge => 5,
        }
    }

    /// Whether a client sends it.
    pub const fn is_probe(&self) -> bool {
        matches!(self, Body::Path | Body::Ask { .. })
    }
}

/// A message as bytes: a probe fills all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    bytes: [u8; PROBE_LEN],
    len: usize,
}

impl Datagram {
    /// The bytes to send.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Message {
    /// As bytes, signed with the network's current key.
    pub fn sign(&self, keys: &Keyring) -> Datagram {
        let len = if self.body.is_probe() { PROBE_LEN } else { ANSWER_LEN };
        let mut bytes = [0; PROBE_LEN];
        put(&mut bytes, 0, MAGIC);
        put(&mut bytes, 4, [VERSION, self.body.kind(), self.hop_limit]);
        put(&mut bytes, 8, self.attempt.to_be_bytes());
        put(&mut bytes, 16, self.timestamp.to_be_bytes());
        put(&mut bytes, 24, self.cookie);
        match &self.body {
            Body::Ask { target: Some(target) } => put_address(&mut bytes, 40, *target),
            Body::Available(offer) => {
                put_address(&mut bytes, 40, offer.session);
                let service_time = u32::try_from(offer.service_time.as_nanos()).unwrap_or(u32::MAX);
                put(&mut bytes, 58, service_time.to_be_bytes());
                put(&mut bytes, 62, offer.buffer.to_be_bytes());
                put(&mut bytes, 70, offer.sessions.to_be_bytes());
                put(&mut bytes, 74, offer.onward.to_micros().to_be_bytes());
                put(&mut bytes, 78, offer.name.0);
                put(&mut bytes, 102, [offer.service as u8]);
                if let Some(Capacity { rate, active }) = offer.capacity {
                    // Nodes of before leave zeros here, and clients of before do not look.
                    let kbits = u32::try_from(rate.bits_per_sec() / 1000).unwrap_or(u32::MAX);
                    put(&mut bytes, 103, kbits.to_be_bytes());
                    put(&mut bytes, 107, active.to_be_bytes());
                }
            }
            Body::Ask { target: None } | Body::Path | Body::Acknowledge | Body::Challenge => {}
        }
        keys.seal(&mut bytes[..len]);
        Datagram { bytes, len }
    }

    /// Reads and verifies.
    ///
    /// # Errors
    /// The bytes are no message, or none that was signed with a key of this network.
    pub fn read(bytes: &[u8], keys: &Keyring) -> Result<Message, Unreadable> {
        if bytes.get(..4) != Some(&MAGIC) {
            return Err(Unreadable::NotDiscovery);
        }
        let (len, probe) = match bytes.len() {
            PROBE_LEN => (PROBE_LEN, true),
            ANSWER_LEN => (ANSWER_LEN, false),
            _ => return Err(Unreadable::Malformed),
        };
        if bytes[4] != VERSION {
            return Err(Unreadable::Version);
        }
        let (signed, code) = bytes.split_at(len - MAC_LEN);
        if !keys.numbered(bytes[KEY_NUMBER_AT]).any(|key| key.verify(&[signed], code)) {
            return Err(Unreadable::Forged);
        }
        let body = match bytes[5] {
            1 => Body::Path,
            2 => Body::Ask { target: Some(address(bytes, 40)).filter(|target| target.port() != 0) },
            3 => Body::Available(read_offer(bytes).ok_or(Unreadable::Malformed)?),
            4 => Body::Acknowledge,
            5 => Body::Challenge,
            _ => return Err(Unreadable::Malformed),
        };
        if body.is_probe() != probe {
            return Err(Unreadable::Malformed);
        }
        Ok(Message {
            hop_limit: bytes[6],
            attempt: u64::from_be_bytes(field(bytes, 8)),
            timestamp: u64::from_be_bytes(field(bytes, 16)),
            cookie: field(bytes, 24),
            body,
        })
    }
}

fn read_offer(bytes: &[u8]) -> Option<Offer> {
    let name: [u8; NAME_MAX] = field(bytes, 78);
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(NAME_MAX);
    let (text, rest) = name.split_at(end);
    // What is shown on a terminal does not move its cursor.
    if !text.iter().all(u8::is_ascii_graphic) || rest.iter().any(|byte| *byte != 0) {
        return None;
    }
    let (kbits, active) = (u32::from_be_bytes(field(bytes, 103)), u32::from_be_bytes(field(bytes, 107)));
    let capacity = || Capacity { rate: BitRate::from_bits_per_sec(u64::from(kbits) * 1000), active };
    let session = address(bytes, 40);
    if session.port() == 0 || session.ip().is_unspecified() || session.ip().is_multicast() {
        return None;
    }
    Some(Offer {
        session,
        service_time: Duration::from_nanos(u32::from_be_bytes(field(bytes, 58)).into()),
        buffer: u64::from_be_bytes(field(bytes, 62)),
        sessions: u32::from_be_bytes(field(bytes, 70)),
        capacity: (kbits > 0).then(capacity),
        onward: Onward::from_micros(u32::from_be_bytes(field(bytes, 74))),
        name: Name(name),
        service: match bytes[102] {
            0 => Service::Sessions,
            1 => Service::Transparent,
            _ => return None,
        },
    })
}

impl Onward {
    const fn to_micros(self) -> u32 {
        match self {
            Onward::Unknown => 0,
            Onward::Unreachable => u32::MAX,
            Onward::RoundTrip(time) => {
                let micros = time.as_micros();
                // A round trip is never nothing, and never quite for ever.
                if micros == 0 {
                    1
                } else if micros >= u32::MAX as u128 {
                    u32::MAX - 1
                } else {
                    micros as u32
                }
            }
        }
    }

    const fn from_micros(micros: u32) -> Self {
        match micros {
            0 => Onward::Unknown,
            u32::MAX => Onward::Unreachable,
            micros => Onward::RoundTrip(Duration::from_micros(micros as u64)),
        }
    }
}

fn put<const N: usize>(bytes: &mut [u8; PROBE_LEN], at: usize, field: [u8; N]) {
    bytes[at..at + N].copy_from_slice(&field);
}

fn put_address(bytes: &mut [u8; PROBE_LEN], at: usize, address: SocketAddr) {
    put(bytes, at, sixteen(address.ip()));
    put(bytes, at + 16, address.port().to_be_bytes());
}

/// A field of a message whose length was checked: the last ends at 111, before the code of an answer.
fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

fn address(bytes: &[u8], at: usize) -> SocketAddr {
    let ip = Ipv6Addr::from(field::<16>(bytes, at));
    let ip = ip.to_ipv4_mapped().map_or(IpAddr::V6(ip), IpAddr::V4);
    SocketAddr::new(ip, u16::from_be_bytes(field(bytes, at + 16)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::Key;

    fn keys() -> Keyring {
        Keyring::single(Key::new([7; 32]))
    }

    fn messages() -> Vec<Message> {
        let offer = Offer {
            session: "192.0.2.1:7001".parse().unwrap(),
            service_time: Duration::from_micros(100),
            buffer: 1_024_000,
            sessions: 3,
            capacity: Some(Capacity { rate: BitRate::from_bits_per_sec(90_000_000), active: 2 }),
            onward: Onward::RoundTrip(Duration::from_millis(40)),
            name: Name::new("frankfurt-1"),
            service: Service::Transparent,
        };
        let six = Offer {
            session: "[2001:db8::1]:7001".parse().unwrap(),
            onward: Onward::Unreachable,
            capacity: None,
            ..offer
        };
        let bodies = [
            Body::Path,
            Body::Ask { target: None },
            Body::Ask { target: Some("198.51.100.7:443".parse().unwrap()) },
            Body::Available(offer),
            Body::Available(Offer { onward: Onward::Unknown, ..six }),
            Body::Available(six),
            Body::Acknowledge,
            Body::Challenge,
        ];
        bodies
            .map(|body| Message { hop_limit: 61, attempt: 5, timestamp: u64::MAX, cookie: [9; 16], body })
            .to_vec()
    }

    #[test]
    fn what_is_written_is_read_and_no_answer_is_longer_than_a_probe() {
        for message in messages() {
            let datagram = message.sign(&keys());
            assert_eq!(Message::read(datagram.as_slice(), &keys()), Ok(message));
            assert_eq!(datagram.as_slice().len() == PROBE_LEN, message.body.is_probe());
        }
        const { assert!(ANSWER_LEN < PROBE_LEN) };
    }

    #[test]
    fn any_changed_byte_is_noticed() {
        for message in messages() {
            let datagram = message.sign(&keys());
            for at in 0..datagram.as_slice().len() {
                let mut bytes = datagram.as_slice().to_vec();
                bytes[at] ^= 0x40;
                let error = Message::read(&bytes, &keys()).unwrap_err();
                let wanted = match at {
                    0..4 => Unreadable::NotDiscovery,
                    4 => Unreadable::Version,
                    _ => Unreadable::Forged,
                };
                assert_eq!(error, wanted, "byte {at}");
            }
        }
        let foreign = messages()[0].sign(&Keyring::single(Key::new([8; 32])));
        assert_eq!(Message::read(foreign.as_slice(), &keys()), Err(Unreadable::Forged));
    }

    #[test]
    fn a_kind_comes_in_its_own_length_only() {
        let probe = messages()[0].sign(&keys());
        for len in 0..probe.as_slice().len() {
            assert!(Message::read(&probe.as_slice()[..len], &keys()).is_err());
        }
    }

    #[test]
    fn a_name_moves_no_cursor() {
        assert_eq!(Name::new("a\u{1b}[2Jb").as_str(), "a?[2Jb");
        assert_eq!(Name::new(&"x".repeat(100)).as_str().len(), NAME_MAX);
    }
}
