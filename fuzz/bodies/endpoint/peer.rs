//! The peer of an endpoint: what it sent, what it was told, and what the endpoint may therefore hand
//! to its owner and say to the peer.
use super::contents::Contents;
use shorthaul_types::{SeqNum, SeqSpace};
use shorthaul_wire::{PayloadList, TcpFlags, TcpSegment};
use std::collections::BTreeSet;

/// What the SYNs said.
#[derive(Clone, Copy, Debug, Default)]
pub struct Terms {
    pub timestamps: bool,
    pub sack: bool,
    /// The shift of the peer's windows, and of the endpoint's.
    pub shifts: Option<[u8; 2]>,
    /// Payload bytes of the largest segment that the peer takes.
    pub mss: usize,
}

/// The peer. Offsets are of its own stream, but for those of which the endpoint's is said.
pub struct Peer {
    pub space: SeqSpace,
    pub terms: Terms,
    /// The highest timestamp that it used, and all of them.
    pub clock: u32,
    pub stamps: BTreeSet<u32>,
    /// The latest timestamp of the endpoint.
    pub their_clock: Option<u32>,
    /// What was sent.
    pub contents: Contents,
    pub fins: BTreeSet<u64>,
    /// The end of what it sent within the offered window: where its acknowledgments stand.
    pub furthest: u64,
    /// Up to where its bytes were acknowledged to it, and the right edge that it was offered.
    pub acknowledged: u64,
    pub edge: u64,
    pub sent_reset: bool,
    /// The endpoint's stream: where it begins, and up to where it was sent.
    pub theirs: SeqSpace,
    pub seen: u64,
    /// Which of the endpoint's bytes arrived, by offset, and up to where they did without a gap.
    arrived: Vec<bool>,
    pub got: u64,
    /// The right edge, in the endpoint's stream, of the largest window that was ever offered.
    pub advertised: u64,
}

impl Peer {
    pub fn new(isn: SeqNum, clock: u32) -> Self {
        Peer {
            space: SeqSpace::new(isn),
            terms: Terms::default(),
            clock,
            stamps: BTreeSet::from([clock]),
            their_clock: None,
            contents: Contents::new(0),
            fins: BTreeSet::new(),
            furthest: 1,
            acknowledged: 1,
            edge: 1,
            sent_reset: false,
            theirs: SeqSpace::new(SeqNum(0)),
            seen: 1,
            arrived: vec![true],
            got: 1,
            advertised: 1,
        }
    }

    /// The byte at `offset` of the endpoint's stream.
    pub fn their_byte(offset: u64) -> u8 {
        (offset.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 56) as u8
    }

    /// Notes that it sends a segment.
    pub fn on_sent(&mut self, offset: u64, bytes: &[u8], flags: TcpFlags, variant: u8) {
        let end = offset + bytes.len() as u64;
        self.contents.note(offset, bytes, variant);
        if flags.contains(TcpFlags::FIN) {
            self.fins.insert(end);
        }
        if offset <= self.edge {
            let fin = u64::from(flags.contains(TcpFlags::FIN) && end < self.edge);
            self.furthest = self.furthest.max(end.min(self.edge) + fin);
        }
        self.sent_reset |= flags.contains(TcpFlags::RST);
    }

    /// It acknowledges `ack` of the endpoint's stream and offers a window up to `edge`.
    pub fn on_acknowledges(&mut self, ack: u64, edge: u64) {
        if ack <= self.seen {
            self.advertised = self.advertised.max(edge);
        }
    }

    /// Whether these bytes, which the owner read from `offset` on, were sent and acknowledged.
    pub fn check_read(&self, offset: u64, payload: &PayloadList) {
        let at = self.contents.check(offset, payload);
        assert!(
            at <= self.contents.next,
            "{at} was read, but only up to {} all was sent",
            self.contents.next
        );
    }

    /// Checks a segment of the endpoint, which has been given `written` bytes and has closed or not,
    /// and notes it. What is lost is checked, too, but does not arrive.
    pub fn on_segment(&mut self, segment: &TcpSegment, written: u64, closed: bool, lost: bool) {
        let TcpSegment { header, payload, .. } = segment;
        let offset = self.theirs.offset(header.seq, self.seen).expect("a byte before the stream");
        let mut at = offset;
        for slice in payload.slices() {
            for &byte in slice.as_slice() {
                assert!(byte == Self::their_byte(at), "at {at} came a byte that was not written");
                at += 1;
            }
        }
        assert!(
            payload.is_empty() || at <= written + 1,
            "{at} was sent, but only {written} bytes were written"
        );
        assert!(offset <= self.seen, "a gap before {offset}: only up to {} was sent", self.seen);
        let fin = header.flags.contains(TcpFlags::FIN);
        assert!(!fin || (closed && at == written + 1), "a FIN at {at} of {written} bytes, closed: {closed}");
        let end = at + u64::from(fin);
        assert!(end == offset || end <= self.advertised, "{end} is beyond the window, {}", self.advertised);
        self.seen = self.seen.max(end);
        if !lost {
            self.on_arrived(offset, end);
        }
        self.check_acknowledgment(segment);
    }

    /// It has these bytes of the endpoint's stream, or has claimed to have them: what it claimed, it
    /// does without.
    pub fn on_arrived(&mut self, start: u64, end: u64) {
        if end <= start {
            return;
        }
        let needed = self.arrived.len().max(end as usize);
        self.arrived.resize(needed, false);
        self.arrived[start as usize..end as usize].fill(true);
        let missing = self.arrived[self.got as usize..].iter().position(|arrived| !arrived);
        self.got = missing.map_or(self.arrived.len() as u64, |at| self.got + at as u64);
    }

    fn check_acknowledgment(&mut self, segment: &TcpSegment) {
        let header = &segment.header;
        assert!(header.flags.contains(TcpFlags::ACK), "a segment that acknowledges nothing");
        let ack = self.space.offset(header.ack, self.acknowledged).expect("an ACK from before the stream");
        assert!(ack >= self.acknowledged, "the acknowledgment went back to {ack}");
        let fin = ack.checked_sub(1).is_some_and(|fin| self.fins.contains(&fin) && fin <= self.contents.next);
        assert!(
            ack <= self.contents.next || fin,
            "{ack} was acknowledged, but only {} was sent",
            self.contents.next
        );
        let shift = self.terms.shifts.map_or(0, |[_, theirs]| theirs);
        let edge = ack + (u64::from(header.window) << shift);
        if header.window < u16::MAX {
            let rounding = (1 << shift) - 1;
            assert!(edge + rounding >= self.edge, "the window went back from {} to {edge}", self.edge);
        }
        self.acknowledged = ack;
        self.furthest = self.furthest.max(ack);
        self.edge = self.edge.max(edge);
        match header.options.timestamps {
            None => assert!(!self.terms.timestamps, "a segment without the timestamps agreed on"),
            Some(stamp) => {
                assert!(self.terms.timestamps, "timestamps that were not agreed on");
                assert!(self.stamps.contains(&stamp.ecr), "an echo of {}, which was never sent", stamp.ecr);
                let back = self.their_clock.is_some_and(|last| stamp.val.wrapping_sub(last) as i32 <= -1);
                assert!(!back, "the timestamps went back to {}", stamp.val);
                self.their_clock = Some(stamp.val);
            }
        }
        for block in &header.options.sack {
            assert!(self.terms.sack, "a report that was not agreed on");
            let (left, right) = (self.space.offset(block.left, ack), self.space.offset(block.right, ack));
            let (Some(left), Some(right)) = (left, right) else { panic!("a block before the stream") };
            assert!(left < right, "an empty SACK block at {left}");
            // A FIN that came early counts.
            let last = right - u64::from(self.fins.contains(&(right - 1)));
            let held = self.contents.has(left, right) || left == last || self.contents.has(left, last);
            assert!(held, "a SACK block {left}..{right} of what was not sent");
        }
    }
}
