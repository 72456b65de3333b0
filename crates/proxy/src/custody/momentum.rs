//! What a flow does at the moment, as one process tells the next that goes on in its place: all that begins anew after a crash.
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use shorthaul_congestion::{KnownRtt, SendState};
use shorthaul_tcp::{Momentum, Transmitted};
use shorthaul_types::BitRate;

/// The first byte: another one with each change of what follows.
const VERSION: u8 = 4;

/// What a flow does at the moment, beyond its [`FlowRecord`](super::FlowRecord) and the bytes that it holds in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowMomentum {
    /// Of what the client and the server send, in this order.
    pub(crate) directions: [DirectionMomentum; 2],
    /// What it shares with the others of its mobile host, and what it has of its own in that.
    pub(crate) group: GroupMomentum,
    /// What was offered to its mobile host and to the other end, and what came of it; nothing where that is not limited. Numbers of
    /// [`Upload`](crate::aggregate::Upload).
    pub(crate) watched: [Vec<u64>; 2],
}

/// What a connection shares with others of its mobile host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GroupMomentum {
    /// Of all connections of the host: toward it and from it; of those from one sender, what is sent to here.
    pub shared: [SharedMomentum; 3],
    /// Whether that sender is held, and since when: numbers of [`Source`](crate::aggregate::Source).
    pub hold: Vec<u64>,
    /// What the connection has of its own: numbers of [`Member`](crate::aggregate::Member).
    pub own: Vec<u64>,
    /// Which hosts are served together, though nothing was configured: numbers of the gateway's; nothing where its host is served by itself.
    pub with: Vec<u64>,
}

/// What the connections of a host share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SharedMomentum {
    /// Their window, in bytes; nothing where it is not found.
    pub window: u64,
    /// What is known of round trips.
    pub rtt: Option<KnownRtt>,
    /// All that the window knows ([`AutoClamp::snapshot`](shorthaul_congestion::AutoClamp::snapshot)), if it finds its own size.
    pub known: Vec<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DirectionMomentum {
    pub sender: Momentum,
    /// What came out of order.
    pub early: Vec<(u64, Vec<u8>)>,
}

impl FlowMomentum {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer([VERSION].to_vec());
        for SharedMomentum { window, rtt, known } in &self.group.shared {
            out.number(*window);
            out.rtt(*rtt);
            out.numbers(known);
        }
        let [from_mobile, to_mobile] = &self.watched;
        let GroupMomentum { hold, own, with, .. } = &self.group;
        [hold, own, with, from_mobile, to_mobile].iter().for_each(|of| out.numbers(of));
        for DirectionMomentum { sender, early } in &self.directions {
            let Momentum { sent, repairs_to, window, ssthresh, rate, rtt, algorithm, known, delivery } =
                sender;
            let rate = rate.map_or(0, BitRate::bits_per_sec);
            // No stream begins at its offset 0, which is that of the SYN.
            [repairs_to.unwrap_or(0), *window, *ssthresh, rate].iter().for_each(|number| out.number(*number));
            out.rtt(*rtt);
            out.number(algorithm.len() as u64);
            out.0.extend(algorithm.as_bytes());
            out.numbers(known);
            out.numbers(delivery);
            out.number(sent.len() as u64);
            for range in sent {
                let flags = range.flags.iter().rev().fold(0, |flags, flag| flags << 1 | u64::from(*flag));
                let (from, size) = range.cuts;
                let numbers = [range.start, range.end, range.transmission, from, u64::from(size), flags];
                numbers.iter().chain(&range.sent.numbers()).for_each(|number| out.number(*number));
            }
            out.number(early.len() as u64);
            for (at, bytes) in early {
                out.number(*at);
                out.number(bytes.len() as u64);
                out.0.extend(bytes);
            }
        }
        out.0
    }

    /// Reads what [`FlowMomentum::encode`] wrote; `None` for what another version wrote, and for what is garbled.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (&VERSION, rest) = bytes.split_first()? else { return None };
        let mut from = Reader(rest);
        let mut shared = <[SharedMomentum; 3]>::default();
        for shared in &mut shared {
            *shared = SharedMomentum { window: from.number()?, rtt: from.rtt()?, known: from.numbers()? };
        }
        let [hold, own, with] = [from.numbers()?, from.numbers()?, from.numbers()?];
        let group = GroupMomentum { shared, hold, own, with };
        let watched = [from.numbers()?, from.numbers()?];
        let mut directions = [DirectionMomentum::default(), DirectionMomentum::default()];
        for direction in &mut directions {
            let [repairs_to, window, ssthresh, rate] =
                [from.number()?, from.number()?, from.number()?, from.number()?];
            let rtt = from.rtt()?;
            let length = usize::try_from(from.number()?).ok()?;
            let algorithm = String::from_utf8(from.bytes(length)?.to_vec()).ok()?;
            direction.sender = Momentum {
                sent: Vec::new(),
                repairs_to: Some(repairs_to).filter(|at| *at > 0),
                window,
                ssthresh,
                rate: Some(BitRate::from_bits_per_sec(rate)).filter(|_| rate > 0),
                rtt,
                algorithm,
                known: from.numbers()?,
                delivery: from.numbers()?,
            };
            for _ in 0..from.number()? {
                let [start, end, transmission] = [from.number()?, from.number()?, from.number()?];
                let [cut, size, flags] = [from.number()?, from.number()?, from.number()?];
                let mut state = [0; SendState::NUMBERS];
                for number in &mut state {
                    *number = from.number()?;
                }
                direction.sender.sent.push(Transmitted {
                    start,
                    end,
                    sent: SendState::from_numbers(state)?,
                    transmission,
                    cuts: (cut, u32::try_from(size).ok()?),
                    flags: [0, 1, 2, 3].map(|bit| flags >> bit & 1 == 1),
                });
            }
            for _ in 0..from.number()? {
                let (at, len) = (from.number()?, usize::try_from(from.number()?).ok()?);
                direction.early.push((at, from.bytes(len)?.to_vec()));
            }
        }
        from.0.is_empty().then_some(FlowMomentum { directions, group, watched })
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn number(&mut self, number: u64) {
        self.0.extend(number.to_be_bytes());
    }

    fn numbers(&mut self, numbers: &[u64]) {
        self.number(numbers.len() as u64);
        numbers.iter().for_each(|number| self.number(*number));
    }

    /// No round trip takes no time: that says that none is known.
    fn rtt(&mut self, rtt: Option<KnownRtt>) {
        let nanos = |time: Duration| time.as_nanos() as u64;
        let rtt = rtt.map_or([0; 3], |rtt| [rtt.srtt, rtt.rttvar, rtt.min].map(nanos));
        rtt.iter().for_each(|number| self.number(*number));
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_be_bytes(*number))
    }

    fn numbers(&mut self) -> Option<Vec<u64>> {
        // Not more than there are.
        let count = usize::try_from(self.number()?).ok().filter(|count| *count <= self.0.len() / 8)?;
        (0..count).map(|_| self.number()).collect()
    }

    fn rtt(&mut self) -> Option<Option<KnownRtt>> {
        let [srtt, rttvar, min] = [self.number()?, self.number()?, self.number()?].map(Duration::from_nanos);
        Some((srtt > Duration::ZERO).then_some(KnownRtt { srtt, rttvar, min }))
    }

    fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_under_way_survives_its_bytes_and_what_is_cut_short_is_nothing() {
        let range = |start, sacked| Transmitted {
            start,
            end: start + 10,
            sent: SendState::from_numbers([7, 6, 5, 4, 3, 2, 1]).unwrap(),
            transmission: start + 1,
            cuts: (start, 10),
            flags: [true, false, sacked, false],
        };
        let rtt = KnownRtt {
            srtt: Duration::from_millis(20),
            rttvar: Duration::from_millis(3),
            min: Duration::from_millis(11),
        };
        let sender = Momentum {
            sent: [range(5, false), range(15, true)].to_vec(),
            repairs_to: Some(25),
            window: 9_000,
            ssthresh: u64::MAX,
            rate: Some(BitRate::from_bits_per_sec(8_000_001)),
            rtt: Some(rtt),
            algorithm: "bbr".into(),
            known: [1, 2, u64::MAX].to_vec(),
            delivery: [4].to_vec(),
        };
        let early = [(100, b"early".to_vec()), (200, Vec::new())].to_vec();
        let directions = [DirectionMomentum { sender, early }, DirectionMomentum::default()];
        let shared = [
            SharedMomentum { window: 1, rtt: Some(rtt), known: [5; 3].to_vec() },
            SharedMomentum { window: 1 << 40, ..SharedMomentum::default() },
            SharedMomentum { known: [8].to_vec(), ..SharedMomentum::default() },
        ];
        let (hold, own, with) = ([1; 4].to_vec(), [2; 5].to_vec(), [9; 3].to_vec());
        let group = GroupMomentum { shared, hold, own, with };
        let momentum = FlowMomentum { directions, group, watched: [Vec::new(), [3; 6].to_vec()] };
        let bytes = momentum.encode();
        assert_eq!(FlowMomentum::decode(&bytes), Some(momentum));
        for len in 0..bytes.len() {
            assert_eq!(FlowMomentum::decode(&bytes[..len]), None);
        }
        assert_eq!(FlowMomentum::decode(&[&bytes[..], &[0]].concat()), None);
    }
}
