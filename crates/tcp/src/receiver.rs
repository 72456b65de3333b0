use crate::{ByteQueue, Reassembly};
use alloc::vec::Vec;
use arrayvec::ArrayVec;
use core::time::Duration;
use shorthaul_types::{Deadline, Keep, Numbers, Time};
use shorthaul_wire::{Payload, PayloadList, Timestamps};

/// After so many seconds a timestamp says nothing any more: a clock of microseconds, such as that of Linux 6.7, has gone half round (RFC 7323 §5.5 has 24
/// days, which is right for a clock of milliseconds).
const TIMESTAMP_LIFE: u32 = (1 << 31) / 1_000_000;

/// When received data is acknowledged (RFC 5681 §4.2). Data out of order, data that fills a gap,
/// duplicates and segments that ask for an answer are always acknowledged at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckPolicy {
    /// Every round of the event loop.
    Immediate,
    /// Every second full-sized segment, or after `wait`; the first `quick` segments at once, so
    /// that a slow start is not slowed further.
    Delayed {
        /// The longest that an acknowledgment is held back; RFC 9293 allows 500 ms.
        wait: Duration,
        /// How many segments at the start are acknowledged at once.
        quick: u32,
    },
    /// Never by itself: its owner says when, as the path-tail policy of a gateway does. Only what the
    /// sender must hear to go on (a window that opens, an answer that was asked for, a confirmed FIN)
    /// is said at once.
    ByOwner,
}

impl Default for AckPolicy {
    fn default() -> Self {
        AckPolicy::Delayed { wait: Duration::from_millis(40), quick: 16 }
    }
}

/// What a receiver looks at in a segment; offsets are of the stream that it receives.
#[derive(Clone, Debug)]
pub struct Segment {
    /// The offset of the first byte (or of the FIN).
    pub offset: u64,
    /// The bytes.
    pub payload: PayloadList,
    /// Whether a FIN follows the bytes.
    pub fin: bool,
    /// Whether the sender set PSH.
    pub push: bool,
    /// Timestamps, where the connection uses them.
    pub timestamps: Option<Timestamps>,
}

/// The receiving half: takes segments in any order, hands bytes on in order, and says what to
/// acknowledge and what window to advertise (RFC 9293 §3.10.7.4, RFC 2018, RFC 2883, RFC 7323).
///
/// A FIN is *not* acknowledged when it arrives, but when its owner says so with
/// [`Receiver::confirm_fin`]: the gateway does when the far end has acknowledged it.
#[derive(Debug)]
pub struct Receiver {
    next: u64,
    /// Right edge of the window that was offered; it is never taken back (RFC 9293 §3.8.6).
    edge: u64,
    fin: Option<u64>,
    fin_confirmed: bool,
    reassembly: Reassembly,
    duplicate: Option<(u64, u64)>,
    policy: AckPolicy,
    mss: u32,
    quick_left: u32,
    unacknowledged: u64,
    ack_now: bool,
    ack_at: Option<Time>,
    /// RCV.NXT in the last acknowledgment that left.
    last_ack: u64,
    /// TS.Recent (RFC 7323 §4.3).
    ts_recent: Option<u32>,
    /// When it was set, in seconds.
    ts_recent_at: u32,
}

impl Receiver {
    /// Appends all that it knows beyond what it was configured with, for [`Receiver::bring_back`]. Says whether it can: nothing is kept
    /// that came out of order, and no acknowledgment is due.
    pub fn put_away(&self, to: &mut Vec<u64>) -> bool {
        let Receiver {
            next,
            edge,
            fin,
            fin_confirmed,
            mss,
            quick_left,
            unacknowledged,
            last_ack,
            ts_recent,
            ts_recent_at,
            ..
        } = self;
        if !self.reassembly.is_empty() || self.ack_now || self.ack_at.is_some() || self.duplicate.is_some() {
            return false;
        }
        [next, edge, unacknowledged, last_ack].into_iter().for_each(|number| number.put(to));
        fin.put(to);
        fin_confirmed.put(to);
        [*mss, *quick_left, *ts_recent_at].put(to);
        ts_recent.put(to);
        true
    }

    /// Knows what a receiver of the same configuration [put away](Receiver::put_away).
    pub fn bring_back(&mut self, from: &mut Numbers<'_>) -> Option<()> {
        let Receiver {
            next,
            edge,
            fin,
            fin_confirmed,
            mss,
            quick_left,
            unacknowledged,
            last_ack,
            ts_recent,
            ts_recent_at,
            ..
        } = self;
        [next, edge, unacknowledged, last_ack].into_iter().try_for_each(|number| number.take(from))?;
        Keep::take(fin, from)?;
        fin_confirmed.take(from)?;
        mss.take(from)?;
        quick_left.take(from)?;
        ts_recent_at.take(from)?;
        Keep::take(ts_recent, from)
    }

    /// A receiver that expects `next` first, from a peer that sends segments of up to `mss` bytes
    /// and was offered a window up to `edge`.
    pub fn new(next: u64, edge: u64, mss: u32, policy: AckPolicy) -> Self {
        let quick_left = match policy {
            AckPolicy::Immediate | AckPolicy::ByOwner => 0,
            AckPolicy::Delayed { quick, .. } => quick,
        };
        Receiver {
            next,
            edge: edge.max(next),
            fin: None,
            fin_confirmed: false,
            reassembly: Reassembly::default(),
            duplicate: None,
            policy,
            mss,
            quick_left,
            unacknowledged: 0,
            ack_now: false,
            ack_at: None,
            last_ack: next,
            ts_recent: None,
            ts_recent_at: 0,
        }
    }

    /// RCV.NXT: the first offset that is not yet received in order (behind the FIN, if that is).
    pub fn next(&self) -> u64 {
        if self.fin == Some(self.next) { self.next + 1 } else { self.next }
    }

    /// Up to where bytes were received in order, FIN not counted.
    pub fn data_end(&self) -> u64 {
        self.next
    }

    /// What to put into the acknowledgment field: [`Receiver::next`], but not beyond a FIN that
    /// is not yet confirmed.
    pub fn ack(&self) -> u64 {
        if self.fin_confirmed { self.next() } else { self.next }
    }

    /// Whether every byte from `start` up to `end` has been received, in order or not, and is kept or
    /// has been handed on.
    pub fn holds(&self, start: u64, end: u64) -> bool {
        let start = start.max(self.next);
        start >= end || self.reassembly.range_at(start).is_some_and(|(_, held)| held >= end)
    }

    /// Whether bytes are kept that came out of order.
    pub fn has_gap(&self) -> bool {
        !self.reassembly.is_empty()
    }

    /// Whether everything up to and with the FIN has been received.
    pub fn is_finished(&self) -> bool {
        self.fin == Some(self.next)
    }

    /// The right edge of the window offered so far.
    pub fn edge(&self) -> u64 {
        self.edge
    }

    /// Bytes that came out of order.
    pub fn early(&self) -> u64 {
        self.reassembly.bytes()
    }

    /// The bytes that came out of order, with the offsets of their first ones.
    pub fn early_pieces(&self) -> impl Iterator<Item = (u64, &Payload)> {
        self.reassembly.pieces()
    }

    /// Goes on with bytes that had come out of order to another process. What is not within the window is left out.
    pub fn take_over(&mut self, offset: u64, piece: Payload) {
        if offset > self.next && offset + piece.len() as u64 <= self.edge && self.fin.is_none() {
            self.reassembly.insert(offset, &PayloadList::from(piece));
        }
    }

    /// Memory held by data that came out of order.
    pub fn allocated(&self) -> usize {
        self.reassembly.allocated()
    }

    /// The timestamp to echo (RFC 7323 §4.3).
    pub fn ts_recent(&self) -> Option<u32> {
        self.ts_recent
    }

    /// The peer sent a segment of `bytes`: every second one of the largest so far is acknowledged.
    pub fn expect_segments_of(&mut self, bytes: u32) {
        self.mss = self.mss.max(bytes);
    }

    /// Up to where everything was acknowledged in the last acknowledgment that left. Who had it sends nothing anew from below.
    pub fn last_ack(&self) -> u64 {
        self.last_ack
    }

    /// Sets the timestamp to echo, from the handshake.
    pub fn set_ts_recent(&mut self, now: Time, val: u32) {
        (self.ts_recent, self.ts_recent_at) = (Some(val), seconds(now));
    }

    /// An acceptable segment has come, whatever is in it: its timestamp is the one to echo if it begins at what was acknowledged last, or before
    /// (RFC 7323 §4.3). Bare acknowledgments count, or one who sends nothing else would be taken for old when its clock has gone half way round.
    pub fn note_timestamps(&mut self, now: Time, offset: u64, timestamps: Option<Timestamps>) {
        if let Some(ts) = timestamps
            && offset <= self.last_ack
            && !self.is_old_duplicate(now, timestamps)
        {
            self.set_ts_recent(now, ts.val);
        }
    }

    /// Says that the FIN may be acknowledged now.
    pub fn confirm_fin(&mut self) {
        if self.is_finished() && !self.fin_confirmed {
            self.fin_confirmed = true;
            self.ack_now = true;
        }
    }

    /// Whether a segment with these timestamps is an old duplicate (PAWS, RFC 7323 §5). TS.Recent expires when the sender's clock may have gone half round since
    /// it was set (§5.5): then no segment is old.
    pub fn is_old_duplicate(&self, now: Time, timestamps: Option<Timestamps>) -> bool {
        match (timestamps, self.ts_recent) {
            (Some(ts), Some(recent)) if seconds(now).wrapping_sub(self.ts_recent_at) < TIMESTAMP_LIFE => {
                (ts.val.wrapping_sub(recent) as i32) < 0
            }
            _ => false,
        }
    }

    /// Takes a segment: what is in order goes into `queue`, what is early is kept while less than
    /// `memory` bytes are, what lies outside the window is dropped. Returns the number of new
    /// bytes that are now in order.
    pub fn on_segment(&mut self, now: Time, segment: Segment, queue: &mut ByteQueue, memory: usize) -> u64 {
        let asked = self.ack_now;
        let new = self.take(now, segment, queue, memory);
        if self.policy == AckPolicy::ByOwner {
            self.ack_now = asked;
        }
        new
    }

    fn take(&mut self, now: Time, segment: Segment, queue: &mut ByteQueue, memory: usize) -> u64 {
        let Segment { mut offset, mut payload, mut fin, push, timestamps } = segment;
        let end = offset + payload.len() as u64;
        self.note_timestamps(now, offset, timestamps);
        if payload.is_empty() && !fin {
            return 0;
        }
        if end + u64::from(fin) <= self.next() {
            // All of it was here before: say so (RFC 2883 §4), and again what we have.
            if !payload.is_empty() {
                self.duplicate = Some((offset, end));
            }
            self.ack_now = true;
            return 0;
        }
        if offset < self.next {
            let old = self.next - offset;
            if old > 0 && !payload.is_empty() {
                self.duplicate = Some((offset, self.next.min(end)));
            }
            payload.advance(old as usize);
            offset = self.next;
            self.ack_now = true;
        }
        if offset > self.edge {
            self.ack_now = true;
            return 0;
        }
        if end > self.edge {
            payload.truncate((self.edge - offset) as usize);
            fin = false;
            self.ack_now = true;
        }
        let end = offset + payload.len() as u64;
        if self.is_finished() {
            payload.truncate(0); // nothing follows a FIN
        } else {
            self.note_fin(end, fin);
        }
        let before = self.next;
        if offset == self.next && self.reassembly.is_empty() {
            for slice in payload.slices() {
                queue.push(slice.clone());
            }
            self.next += payload.len() as u64;
        } else {
            self.ack_now = true;
            if let Some((start, held)) = self.reassembly.range_at(offset)
                && held >= end
                && start <= offset
                && !payload.is_empty()
            {
                self.duplicate = Some((offset, end));
            } else if offset == self.next || self.reassembly.allocated() + payload.allocated() <= memory {
                self.reassembly.insert(offset, &payload);
            }
            self.next = self.reassembly.take(self.next, queue);
        }
        let new = self.next - before;
        self.schedule_ack(now, new, push);
        new
    }

    /// A segment ends at `end`, perhaps with a FIN. One that came early may be forged, and ends nothing before all until there has come: it is
    /// contradicted by whatever lies behind it.
    fn note_fin(&mut self, end: u64, fin: bool) {
        if self.fin.is_some_and(|known| end > known) {
            self.fin = None;
        }
        let is_contradicted = self.reassembly.end().is_some_and(|held| held > end);
        if fin && !is_contradicted && self.fin.is_none_or(|known| end < known) {
            self.fin = Some(end);
        }
    }

    fn schedule_ack(&mut self, now: Time, new: u64, push: bool) {
        self.unacknowledged += new;
        match self.policy {
            AckPolicy::ByOwner => {}
            AckPolicy::Immediate => self.ack_now = true,
            AckPolicy::Delayed { wait, .. } => {
                let quick = self.quick_left > 0;
                self.quick_left = self.quick_left.saturating_sub(1);
                if quick || self.unacknowledged >= 2 * u64::from(self.mss) {
                    self.ack_now = true;
                } else if new > 0 && self.ack_at.is_none() {
                    let _ = push; // PSH asks for delivery to the application, not for an ACK
                    self.ack_at = Some(now + wait);
                }
            }
        }
    }

    /// The stream ends here: what was received is followed by a FIN, which is acknowledged already if `confirmed`. For a
    /// receiver that goes on where another stopped.
    pub fn ends_here(&mut self, confirmed: bool) {
        self.fin = Some(self.next);
        self.fin_confirmed = confirmed;
    }

    /// Everything before `offset` reached its reader on another way. What is contiguous with it goes into `queue`, which goes on
    /// there, too.
    pub fn skip_to(&mut self, offset: u64, queue: &mut ByteQueue) {
        if offset <= self.next || self.is_finished() {
            return;
        }
        // Behind a FIN there is nothing.
        let offset = self.fin.map_or(offset, |fin| offset.min(fin));
        queue.skip_to(offset);
        self.next = self.reassembly.take(offset, queue);
        self.edge = self.edge.max(self.next);
        self.ack_now = true;
    }

    /// Acknowledges by another policy from now on.
    pub fn acknowledge_by(&mut self, policy: AckPolicy) {
        self.policy = policy;
        self.ack_now = true;
    }

    /// Asks for an acknowledgment at once, whatever the policy.
    pub fn request_ack(&mut self) {
        self.ack_now = true;
    }

    /// Whether an acknowledgment is due.
    pub fn wants_ack(&self, now: Time) -> bool {
        self.ack_now || self.ack_at.is_some_and(|at| at <= now)
    }

    /// Offers `free` bytes beyond what was received. The right edge moves by at least a segment
    /// or half of what there is (silly-window avoidance, RFC 9293 §3.8.6.2.2), and never back.
    /// Asks for an acknowledgment where the peer must hear of it to go on.
    pub fn offer(&mut self, free: u64) {
        let edge = self.next + free;
        let step = u64::from(self.mss).min(free / 2 + 1);
        if edge < self.edge + step {
            return;
        }
        // The peer may be waiting: it had less than two segments' room, or half of it is new.
        let room = self.edge - self.next;
        if room < 2 * u64::from(self.mss) || edge - self.edge >= free / 2 {
            self.ack_now = true;
        }
        self.edge = edge;
    }

    /// The peer was told of room up to `edge`, since a window field cannot say it more exactly: what comes there is taken.
    pub fn accept_up_to(&mut self, edge: u64) {
        self.edge = self.edge.max(edge);
    }

    /// The window to put into a header: from [`Receiver::ack`] to the edge.
    pub fn window(&self) -> u64 {
        self.edge.saturating_sub(self.ack())
    }

    /// The SACK blocks to send: a D-SACK first (RFC 2883), then what grew last. A FIN that came early counts with the data before it, as in
    /// Linux: whoever sent it last learns that it has arrived.
    pub fn sack_ranges(&self) -> ArrayVec<(u64, u64), 4> {
        let early_fin = self.fin.filter(|&fin| fin > self.next);
        let with_fin = |(left, right)| (left, right + u64::from(early_fin == Some(right)));
        let grown = self.reassembly.recent_ranges().into_iter().map(with_fin);
        let mut ranges: ArrayVec<_, 4> = self.duplicate.into_iter().chain(grown).take(4).collect();
        if let Some(fin) = early_fin.filter(|fin| ranges.iter().all(|&(_, right)| right != fin + 1)) {
            // The data before it is missing.
            let _ = ranges.try_push((fin, fin + 1));
        }
        ranges
    }

    /// An acknowledgment left, alone or with data.
    pub fn on_ack_sent(&mut self) {
        self.ack_now = false;
        self.ack_at = None;
        self.unacknowledged = 0;
        self.duplicate = None;
        self.last_ack = self.ack();
    }

    /// When a delayed acknowledgment falls due.
    pub fn poll_timeout(&self) -> Option<Deadline> {
        self.ack_at.map(|at| Deadline { at, timer: "delayed-ack" })
    }

    /// Forgets what came out of order.
    pub fn discard(&mut self) {
        self.reassembly.clear();
    }
}

fn seconds(at: Time) -> u32 {
    (at.as_nanos() / 1_000_000_000) as u32
}
