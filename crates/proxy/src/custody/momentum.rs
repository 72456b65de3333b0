//! What a flow does at the moment, as one process tells the next that goes on in its place: all that begins anew after a crash.
use alloc::vec::Vec;
use core::time::Duration;
use shorthaul_congestion::KnownRtt;
use shorthaul_tcp::{Momentum, Transmitted};
use shorthaul_types::{BitRate, Time};

/// The first byte: another one with each change of what follows.
const VERSION: u8 = 1;

/// What a flow does at the moment, beyond its [`FlowRecord`](super::FlowRecord) and the bytes that it holds in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowMomentum {
    /// Of what the client and the server send, in this order.
    pub(crate) directions: [DirectionMomentum; 2],
    /// The windows that the connections of its mobile host share, toward it and from it, in bytes; nothing where they are not found.
    pub(crate) shared: [u64; 2],
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
        self.shared.iter().for_each(|window| out.number(*window));
        for DirectionMomentum { sender, early } in &self.directions {
            let Momentum { sent, repairs_to, window, ssthresh, rate, rtt } = sender;
            let rate = rate.map_or(0, BitRate::bits_per_sec);
            // No stream begins at its offset 0, which is that of the SYN.
            [repairs_to.unwrap_or(0), *window, *ssthresh, rate].iter().for_each(|number| out.number(*number));
            let nanos = |time: Duration| time.as_nanos() as u64;
            let rtt = rtt.map_or([0; 3], |rtt| [rtt.srtt, rtt.rttvar, rtt.min].map(nanos));
            rtt.iter().for_each(|number| out.number(*number));
            out.number(sent.len() as u64);
            for range in sent {
                let flags = range.flags.iter().rev().fold(0, |flags, flag| flags << 1 | u64::from(*flag));
                let (from, size) = range.cuts;
                let sent_at = range.sent_at.as_nanos();
                let numbers =
                    [range.start, range.end, sent_at, range.transmission, from, u64::from(size), flags];
                numbers.iter().for_each(|number| out.number(*number));
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
        let shared = [from.number()?, from.number()?];
        let mut directions = [DirectionMomentum::default(), DirectionMomentum::default()];
        for direction in &mut directions {
            let [repairs_to, window, ssthresh, rate] =
                [from.number()?, from.number()?, from.number()?, from.number()?];
            let [srtt, rttvar, min] =
                [from.number()?, from.number()?, from.number()?].map(Duration::from_nanos);
            direction.sender = Momentum {
                sent: Vec::new(),
                repairs_to: Some(repairs_to).filter(|at| *at > 0),
                window,
                ssthresh,
                rate: Some(BitRate::from_bits_per_sec(rate)).filter(|_| rate > 0),
                rtt: (srtt > Duration::ZERO).then_some(KnownRtt { srtt, rttvar, min }),
            };
            for _ in 0..from.number()? {
                let [start, end, sent_at, transmission] =
                    [from.number()?, from.number()?, from.number()?, from.number()?];
                let [cut, size, flags] = [from.number()?, from.number()?, from.number()?];
                direction.sender.sent.push(Transmitted {
                    start,
                    end,
                    sent_at: Time::from_nanos(sent_at),
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
        from.0.is_empty().then_some(FlowMomentum { directions, shared })
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn number(&mut self, number: u64) {
        self.0.extend(number.to_be_bytes());
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_be_bytes(*number))
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
            sent_at: Time::from_millis(7),
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
        };
        let early = [(100, b"early".to_vec()), (200, Vec::new())].to_vec();
        let directions = [DirectionMomentum { sender, early }, DirectionMomentum::default()];
        let momentum = FlowMomentum { directions, shared: [1, 1 << 40] };
        let bytes = momentum.encode();
        assert_eq!(FlowMomentum::decode(&bytes), Some(momentum));
        for len in 0..bytes.len() {
            assert_eq!(FlowMomentum::decode(&bytes[..len]), None);
        }
        assert_eq!(FlowMomentum::decode(&[&bytes[..], &[0]].concat()), None);
    }
}
