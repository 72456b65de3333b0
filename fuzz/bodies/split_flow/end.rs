//! What one end of a flow sent, what it was told, and what may therefore come out of the gateway
//! in its name.
use super::contents::Contents;
use shorthaul_types::{SeqNum, SeqSpace};
use shorthaul_wire::{IpHeader, PayloadList, TcpFlags, TcpSegment};
use std::collections::BTreeSet;

/// An end, and the stream that it sends. All offsets are of that stream.
pub struct End {
    pub ip: IpHeader,
    pub port: u16,
    pub space: SeqSpace,
    /// The highest timestamp that it used, and all of them.
    pub clock: u32,
    pub stamps: BTreeSet<u32>,
    /// The latest timestamp that was echoed to it.
    pub echo: u32,
    /// What was sent.
    pub contents: Contents,
    fins: BTreeSet<u64>,
    /// The end of what it sent within the offered window: where its acknowledgments stand.
    pub furthest: u64,
    /// Up to where its bytes were acknowledged to it, and the right edge that it was offered.
    pub acknowledged: u64,
    pub edge: u64,
    /// Up to where the other end acknowledged them in packets that passed: true or not, the gateway may repeat that, and send from there.
    pub repeatable: u64,
    /// The same as the first two, by the gateway.
    taken: u64,
    offered: u64,
    /// Up to where its bytes came out toward the other end.
    pub passed: u64,
    /// Up to where the other end acknowledged them, and offered to take them.
    pub confirmed: u64,
    pub advertised: u64,
    pub sent_reset: bool,
    /// What it sends now is for the other end, whose window counts.
    pub direct: bool,
}

impl End {
    pub fn new(ip: IpHeader, port: u16, isn: u32, salt: u8) -> Self {
        End {
            ip,
            port,
            space: SeqSpace::new(SeqNum(isn)),
            clock: 1_000 + u32::from(salt),
            stamps: BTreeSet::new(),
            echo: 0,
            contents: Contents::new(salt),
            fins: BTreeSet::new(),
            furthest: 1,
            acknowledged: 1,
            edge: 1,
            repeatable: 1,
            taken: 1,
            offered: 1,
            passed: 1,
            confirmed: 1,
            advertised: 1,
            sent_reset: false,
            direct: false,
        }
    }

    /// Notes that it sends a segment.
    pub fn on_sent(&mut self, offset: u64, bytes: &[u8], flags: TcpFlags, variant: u8) {
        let end = offset + bytes.len() as u64;
        self.contents.note(offset, bytes, variant);
        if flags.contains(TcpFlags::FIN) {
            self.fins.insert(end);
        }
        let edge = if self.direct { self.edge.max(self.advertised) } else { self.edge };
        if offset <= edge {
            let fin = u64::from(flags.contains(TcpFlags::FIN) && end <= edge);
            self.furthest = self.furthest.max(end.min(edge) + fin);
        }
        self.sent_reset |= flags.contains(TcpFlags::RST);
    }

    /// Whether it may have closed in this place.
    pub fn closed_at(&self, offset: u64) -> bool {
        self.fins.contains(&offset)
    }

    /// Where it closed.
    pub fn fins(&self) -> &BTreeSet<u64> {
        &self.fins
    }

    /// The gateway says that it may acknowledge up to `ack` to this end.
    pub fn may_acknowledge(&self, ack: u64) -> bool {
        let fin = ack.checked_sub(1).filter(|fin| self.fins.contains(fin) && *fin <= self.contents.next);
        ack <= self.contents.next || fin.is_some_and(|fin| self.confirmed > fin)
    }

    /// Checks a segment that came out of the gateway in this end's name, and notes it.
    pub fn on_passed(&mut self, segment: &TcpSegment) {
        let header = &segment.header;
        let offset = self.space.offset(header.seq, self.passed).expect("a byte before the stream");
        self.check_bytes(offset, &segment.payload);
        let end = offset + segment.payload.len() as u64;
        let fin = header.flags.contains(TcpFlags::FIN);
        assert!(!fin || self.closed_at(end), "a FIN at {end} that was not sent");
        let end = end + u64::from(fin);
        // A segment without data may stand where its receiver says that it is.
        let placed = if end > offset { self.passed } else { self.passed.max(self.repeatable) };
        assert!(offset <= placed, "a gap before {offset}: only up to {placed} was passed on");
        if end > offset {
            assert!(end <= self.advertised, "{end} is beyond the offered window, {}", self.advertised);
        }
        self.passed = self.passed.max(end);
        if header.flags.contains(TcpFlags::RST) {
            return;
        }
        if let Some(stamp) = header.options.timestamps {
            assert!(self.stamps.contains(&stamp.val), "a timestamp of {} that was never sent", stamp.val);
        }
    }

    fn check_bytes(&self, offset: u64, payload: &PayloadList) {
        if payload.len() == 1 && offset < self.confirmed {
            return; // the octet of a loss discriminator's probe: its receiver has had that byte
        }
        self.contents.check(offset, payload);
    }

    /// Somebody acknowledged `ack` to it and offered it a window up to `edge`.
    pub fn on_told(&mut self, ack: u64, edge: u64) {
        self.acknowledged = self.acknowledged.max(ack);
        self.furthest = self.furthest.max(ack);
        self.edge = self.edge.max(edge);
    }

    /// Checks an acknowledgment that came out of the gateway toward this end, and notes it. Its window
    /// has this shift, and may be smaller than what was offered if `may_close`.
    pub fn on_acknowledged(&mut self, segment: &TcpSegment, shift: Option<u8>, may_close: bool) {
        let header = &segment.header;
        let Some(ack) = self.space.offset(header.ack, self.acknowledged) else {
            panic!("acknowledged what lies before the stream");
        };
        assert!(
            self.may_acknowledge(ack) || ack <= self.repeatable,
            "{ack} was acknowledged, but only {} was sent",
            self.contents.next
        );
        assert!(ack >= self.taken, "the acknowledgment went back to {ack}");
        self.taken = ack;
        if header.flags.contains(TcpFlags::RST) {
            return self.on_told(ack, 0);
        }
        let shift = shift.unwrap_or(0);
        let edge = ack + (u64::from(header.window) << shift);
        if header.window < u16::MAX && !may_close {
            let rounding = (1 << shift) - 1;
            assert!(edge + rounding >= self.offered, "the window went back from {} to {edge}", self.offered);
        }
        self.offered = self.offered.max(edge);
        self.on_told(ack, edge);
        if let Some(stamp) = header.options.timestamps {
            self.echo = stamp.ecr;
        }
        for block in &header.options.sack {
            let (left, right) = (self.space.offset(block.left, ack), self.space.offset(block.right, ack));
            let (Some(left), Some(right)) = (left, right) else { panic!("a block before the stream") };
            assert!(left < right, "an empty SACK block at {left}");
            // A FIN that came early counts.
            let last = right - u64::from(self.fins.contains(&(right - 1)));
            let held = self.contents.has(left, right) || left == last || self.contents.has(left, last);
            assert!(held, "a SACK block {left}..{right} of what was not sent");
        }
    }

    /// The other end acknowledges `ack` and advertises a window up to `edge`.
    pub fn on_confirmed(&mut self, ack: u64, edge: u64) {
        if ack <= self.passed {
            self.confirmed = self.confirmed.max(ack);
            self.advertised = self.advertised.max(edge);
        }
    }
}
