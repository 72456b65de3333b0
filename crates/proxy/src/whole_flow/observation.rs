//! What passing packets tell of a connection: round trips on both sides of us, bytes, retransmissions, times.
use crate::end::Side;
use core::time::Duration;
use shorthaul_congestion::{RttConfig, RttEstimator};
use shorthaul_types::{SeqNum, SeqSpace, Time};
use shorthaul_wire::{TcpFlags, TcpSegment};

/// A connection as it is seen in passing.
#[derive(Debug)]
pub(crate) struct Observation {
    opened: Time,
    /// When something last passed.
    last: Time,
    /// When the first byte of the server's passed.
    first_byte: Option<Time>,
    /// What each end sends.
    streams: [Stream; 2],
    reset: bool,
}

/// What one end sends.
#[derive(Debug)]
struct Stream {
    /// Its sequence numbers, from its SYN.
    space: Option<SeqSpace>,
    /// Behind the last byte that was seen.
    highest: u64,
    /// Up to where the other end has acknowledged it.
    acknowledged: u64,
    /// Behind its FIN.
    fin: Option<u64>,
    bytes: u64,
    retransmitted: u64,
    timed: Option<Timed>,
    /// From here to the other end and back.
    rtt: RttEstimator,
}

/// A segment of which the answer is waited for.
#[derive(Clone, Copy, Debug)]
struct Timed {
    end: u64,
    at: Time,
    /// The TSval that its answer will echo (RFC 7323 §3).
    ts_val: Option<u32>,
}

/// What was seen of one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedDirection {
    /// Bytes of the stream up to the last that was seen.
    pub bytes: u64,
    /// Bytes of payload that were seen after later ones: retransmitted, or reordered.
    pub retransmitted: u64,
    /// The smoothed round-trip time from the gateway to the receiver.
    pub srtt: Option<Duration>,
    /// The shortest round trip of late.
    pub min_rtt: Option<Duration>,
}

/// What was seen of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// Toward the server, and toward the client.
    pub directions: [ObservedDirection; 2],
    /// From the SYN to the first byte of the server's.
    pub first_byte: Option<Duration>,
    /// From the SYN to what passed last.
    pub duration: Duration,
    /// Memory of the packets that interceptors keep of it, in bytes: copies to send again, and what waits.
    pub kept: u64,
}

/// What a segment added to what was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// How much further the stream has come, in bytes.
    pub bytes: u64,
    /// Bytes of payload that it was beyond before.
    pub retransmitted: u64,
}

impl Stream {
    fn new() -> Self {
        Stream {
            space: None,
            highest: 0,
            acknowledged: 0,
            fin: None,
            bytes: 0,
            retransmitted: 0,
            timed: None,
            rtt: RttEstimator::new(RttConfig::LINUX),
        }
    }

    fn is_closed(&self) -> bool {
        self.fin.is_some_and(|fin| self.acknowledged >= fin)
    }

    /// Its end sends a segment.
    fn on_segment(&mut self, now: Time, segment: &TcpSegment) -> Seen {
        let header = &segment.header;
        let opens = header.flags.contains(TcpFlags::SYN);
        if opens {
            self.space.get_or_insert(SeqSpace::new(header.seq));
        }
        let Some(start) = self.space.and_then(|space| space.offset(header.seq, self.highest)) else {
            return Seen::default();
        };
        let payload = segment.payload.len() as u64;
        let fin = header.flags.contains(TcpFlags::FIN);
        let end = start + u64::from(opens) + payload + u64::from(fin);
        if end == start {
            return Seen::default();
        }
        let is_keep_alive = payload <= 1 && end <= self.highest && self.acknowledged >= self.highest;
        if is_keep_alive && !opens && !fin {
            return Seen::default();
        }
        if fin {
            self.fin = Some(end);
        }
        let again = self.highest.saturating_sub(start).min(payload);
        let ts_val = header.options.timestamps.map(|timestamps| timestamps.val);
        // Which of two transmissions is answered, only a timestamp tells (Karn's algorithm).
        if start < self.highest && self.timed.is_some_and(|timed| timed.ts_val.is_none() && start < timed.end)
        {
            self.timed = None;
        }
        if start >= self.highest {
            self.timed.get_or_insert(Timed { end, at: now, ts_val });
        }
        let bytes = (end - u64::from(fin)).saturating_sub(self.highest.max(1));
        self.highest = self.highest.max(end);
        self.bytes += bytes;
        self.retransmitted += again;
        Seen { bytes, retransmitted: again }
    }

    /// The other end answers.
    fn on_answer(&mut self, now: Time, segment: &TcpSegment) {
        let header = &segment.header;
        if !header.flags.contains(TcpFlags::ACK) {
            return;
        }
        let Some(ack) = self.space.and_then(|space| space.offset(header.ack, self.acknowledged)) else {
            return;
        };
        if ack > self.highest {
            return; // of what did not pass here
        }
        self.acknowledged = self.acknowledged.max(ack);
        let Some(timed) = self.timed else { return };
        let echo = header.options.timestamps.map(|timestamps| timestamps.ecr);
        let (answered, exact) = match (timed.ts_val, echo) {
            (Some(val), Some(echo)) => (echo.wrapping_sub(val) as i32 >= 0, echo == val),
            _ => (ack >= timed.end, true),
        };
        if answered {
            self.timed = None;
            let rtt = now.saturating_since(timed.at);
            if exact && !rtt.is_zero() {
                self.rtt.on_sample(now, rtt);
            }
        }
    }
}

impl Observation {
    /// A SYN passes.
    pub fn new(now: Time) -> Self {
        Observation {
            opened: now,
            last: now,
            first_byte: None,
            streams: [Stream::new(), Stream::new()],
            reset: false,
        }
    }

    /// A segment passes, from `side`.
    pub fn on_segment(&mut self, now: Time, side: Side, segment: &TcpSegment) -> Seen {
        self.last = now;
        self.reset |= segment.header.flags.contains(TcpFlags::RST) && self.is_reset_by(side, segment);
        self.streams[side.other().index()].on_answer(now, segment);
        let seen = self.streams[side.index()].on_segment(now, segment);
        if side == Side::Server && seen.bytes > 0 {
            self.first_byte.get_or_insert(now);
        }
        seen
    }

    /// Whether a reset of `side` stands where the other end believes it (RFC 5961 §3), as far as that was seen: where all that was sent ends, or what was
    /// acknowledged; or it answers a SYN (RFC 9293 §3.10.7.3).
    fn is_reset_by(&self, side: Side, segment: &TcpSegment) -> bool {
        let header = &segment.header;
        let (own, other) = (&self.streams[side.index()], &self.streams[side.other().index()]);
        match own.space.and_then(|space| space.offset(header.seq, own.highest)) {
            Some(offset) => offset == own.highest || offset == own.acknowledged,
            None => {
                header.flags.contains(TcpFlags::ACK)
                    && other
                        .space
                        .is_some_and(|space| space.offset(header.ack, other.highest) == Some(other.highest))
            }
        }
    }

    /// Whether the client opened it with this sequence number.
    pub fn is_opened_by(&self, seq: SeqNum) -> bool {
        self.streams[0].space.is_none_or(|space| space.seq(0) == seq)
    }

    /// Whether the server has answered the SYN.
    pub fn is_answered(&self) -> bool {
        self.streams[1].space.is_some()
    }

    /// Up to where `side` has acknowledged.
    pub fn delivered_to(&self, side: Side) -> u64 {
        self.streams[side.other().index()].acknowledged
    }

    /// Whether the connection is over: closed in both directions, or reset.
    pub fn is_over(&self) -> bool {
        self.reset || self.streams.iter().all(Stream::is_closed)
    }

    /// What was seen.
    pub fn observed(&self) -> Observed {
        let direction = |stream: &Stream| ObservedDirection {
            bytes: stream.bytes,
            retransmitted: stream.retransmitted,
            srtt: stream.rtt.srtt(),
            min_rtt: stream.rtt.min_rtt(),
        };
        Observed {
            directions: [direction(&self.streams[0]), direction(&self.streams[1])],
            first_byte: self.first_byte.map(|at| at.saturating_since(self.opened)),
            duration: self.last.saturating_since(self.opened),
            kept: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shorthaul_testkit::packets::filler;
    use shorthaul_wire::{TcpHeader, TcpOptions, Timestamps};

    const ISN: [u32; 2] = [u32::MAX - 1000, 7];

    fn at(ms: u64) -> Time {
        Time::from_millis(1000 + ms)
    }

    fn ms(ms: u64) -> Option<Duration> {
        Some(Duration::from_millis(ms))
    }

    /// A segment of `side` from the offset `from` on, with `bytes`, that acknowledges up to the offset `ack`.
    fn segment(side: Side, flags: TcpFlags, from: u32, bytes: usize, ack: u32) -> TcpSegment {
        let header = TcpHeader {
            seq: SeqNum(ISN[side.index()].wrapping_add(from)),
            ack: SeqNum(ISN[side.other().index()].wrapping_add(ack)),
            flags,
            ..TcpHeader::default()
        };
        TcpSegment { header, payload: filler(bytes), gso_size: None }
    }

    fn stamped(mut segment: TcpSegment, val: u32, ecr: u32) -> TcpSegment {
        segment.header.options =
            TcpOptions { timestamps: Some(Timestamps { val, ecr }), ..TcpOptions::default() };
        segment
    }

    /// The server is 40 ms away, the client 100 ms.
    fn opened() -> Observation {
        let mut flow = Observation::new(at(0));
        flow.on_segment(at(0), Side::Client, &segment(Side::Client, TcpFlags::SYN, 0, 0, 0));
        flow.on_segment(at(40), Side::Server, &segment(Side::Server, TcpFlags::SYN | TcpFlags::ACK, 0, 0, 1));
        flow.on_segment(at(140), Side::Client, &segment(Side::Client, TcpFlags::ACK, 1, 0, 1));
        flow
    }

    #[test]
    fn the_handshake_measures_both_sides() {
        let [to_server, to_client] = opened().observed().directions;
        assert_eq!((to_server.srtt, to_client.srtt), (ms(40), ms(100)));
    }

    #[test]
    fn a_syn_that_was_seen_twice_measures_nothing() {
        let mut flow = Observation::new(at(0));
        let syn = segment(Side::Client, TcpFlags::SYN, 0, 0, 0);
        flow.on_segment(at(0), Side::Client, &syn);
        flow.on_segment(at(1000), Side::Client, &syn);
        flow.on_segment(
            at(1040),
            Side::Server,
            &segment(Side::Server, TcpFlags::SYN | TcpFlags::ACK, 0, 0, 1),
        );
        assert_eq!(flow.observed().directions[0].srtt, None);
    }

    #[test]
    fn bytes_are_counted_once_and_what_comes_again_by_itself() {
        let mut flow = opened();
        let data = |from, bytes| segment(Side::Server, TcpFlags::ACK, from, bytes, 1);
        flow.on_segment(at(200), Side::Client, &segment(Side::Client, TcpFlags::ACK, 1, 10, 1));
        for (from, bytes, new, again) in
            [(1, 1000, 1000, 0), (2001, 1000, 2000, 0), (1001, 1000, 0, 1000), (2501, 1000, 500, 500)]
        {
            let seen = flow.on_segment(at(240), Side::Server, &data(from, bytes));
            assert_eq!((seen.bytes, seen.retransmitted), (new, again), "from {from}");
        }
        flow.on_segment(at(340), Side::Client, &segment(Side::Client, TcpFlags::ACK, 11, 0, 3501));
        // A keep-alive probe is no retransmission.
        assert_eq!(flow.on_segment(at(9000), Side::Server, &data(3500, 1)), Seen::default());
        let observed = flow.observed();
        assert_eq!(observed.directions[1].bytes, 3500);
        assert_eq!(observed.directions[1].retransmitted, 1500);
        assert_eq!((observed.first_byte, observed.duration), (ms(240), Duration::from_secs(9)));
    }

    #[test]
    fn what_was_retransmitted_is_timed_by_its_timestamp_or_not_at_all() {
        for (has_timestamps, expected) in [(true, ms(300)), (false, None)] {
            let mut flow = Observation::new(at(0));
            flow.on_segment(
                at(0),
                Side::Server,
                &segment(Side::Server, TcpFlags::SYN | TcpFlags::ACK, 0, 0, 1),
            );
            flow.streams[1].timed = None;
            let stamp = |segment, val, ecr| if has_timestamps { stamped(segment, val, ecr) } else { segment };
            let data = || segment(Side::Server, TcpFlags::ACK, 1, 1000, 1);
            flow.on_segment(at(100), Side::Server, &stamp(data(), 5, 0));
            flow.on_segment(at(350), Side::Server, &stamp(data(), 30, 0));
            let ack = segment(Side::Client, TcpFlags::ACK, 1, 0, 1001);
            flow.on_segment(at(400), Side::Client, &stamp(ack, 1, 5));
            assert_eq!(flow.observed().directions[1].srtt, expected);
        }
    }

    #[test]
    fn a_connection_is_over_when_both_fins_are_acknowledged_or_it_is_reset() {
        let mut flow = opened();
        let fin = TcpFlags::FIN | TcpFlags::ACK;
        flow.on_segment(at(200), Side::Client, &segment(Side::Client, fin, 1, 5, 1));
        flow.on_segment(at(240), Side::Server, &segment(Side::Server, fin, 1, 0, 7));
        assert!(!flow.is_over());
        flow.on_segment(at(340), Side::Client, &segment(Side::Client, TcpFlags::ACK, 7, 0, 2));
        assert!(flow.is_over());
        let mut flow = opened();
        flow.on_segment(at(150), Side::Client, &segment(Side::Client, TcpFlags::ACK, 1, 500, 1));
        for (side, offset) in
            [(Side::Server, 2), (Side::Server, 70_000), (Side::Client, 300), (Side::Client, 502)]
        {
            flow.on_segment(at(160), side, &segment(side, TcpFlags::RST, offset, 0, 0));
            assert!(!flow.is_over(), "somebody guessed");
        }
        flow.on_segment(at(200), Side::Server, &segment(Side::Server, TcpFlags::RST, 1, 0, 0));
        assert!(flow.is_over());
        let mut refused = Observation::new(at(0));
        refused.on_segment(at(0), Side::Client, &segment(Side::Client, TcpFlags::SYN, 0, 0, 0));
        let answer = |ack| segment(Side::Server, TcpFlags::RST | TcpFlags::ACK, 0, 0, ack);
        refused.on_segment(at(10), Side::Server, &answer(7));
        assert!(!refused.is_over());
        refused.on_segment(at(20), Side::Server, &answer(1));
        assert!(refused.is_over());
    }
}
