use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;
use shorthaul_congestion::SendState;
use shorthaul_types::{Keep as _, Numbers, Time};

/// Ranges that are told apart, at most: the segments of a full window of any but the smallest size. Beyond, a SACK block counts
/// for whole ranges only.
const MOST_RECORDS: usize = 16_384;
/// What was sent longer ago is no longer on its way, nor is an acknowledgment of it: half of the Maximum Segment Lifetime
/// of RFC 9293 §3.4.2, as long as Linux keeps TIME-WAIT.
const LIFETIME: Duration = Duration::from_secs(60);
/// What a range costs in the tree: its place, and the share of the nodes' room that is empty.
const TREE_OVERHEAD: usize = 24;

/// What became of the last transmission of a range of the stream.
#[derive(Clone, Debug)]
pub struct Record {
    /// The offset behind the range.
    pub end: u64,
    /// The state of the connection when it was sent.
    pub sent: SendState,
    /// The number of its transmission: later ones have greater numbers.
    pub transmission: u64,
    /// It was retransmitted.
    pub retransmitted: bool,
    /// An acknowledgment of it may be of an earlier transmission (Karn's algorithm, RFC 6298 §3).
    pub ambiguous: bool,
    /// The receiver has SACKed it (RFC 2018).
    pub sacked: bool,
    /// It is believed lost and not yet retransmitted.
    pub lost: bool,
    /// It left in segments of `size` bytes, of which one began at `from`: nothing else arrives, or is lost, at once.
    cuts: Cuts,
}

/// Where the segments of a transmission begin.
#[derive(Clone, Copy, Debug)]
struct Cuts {
    from: u64,
    size: u32,
}

impl Cuts {
    /// The first at or after `at`, which is not before the first of all.
    fn after(self, at: u64) -> u64 {
        self.from + (at - self.from).next_multiple_of(u64::from(self.size))
    }

    /// The last at or before `at`.
    fn before(self, at: u64) -> u64 {
        self.from + (at - self.from) / u64::from(self.size) * u64::from(self.size)
    }
}

impl Record {
    /// Takes in the record that follows it, where both are SACKed. Should the receiver discard them
    /// after all, the later transmission counts.
    fn absorb(&mut self, next: &Record) {
        if next.transmission > self.transmission {
            (self.sent, self.transmission) = (next.sent, next.transmission);
        }
        self.retransmitted |= next.retransmitted;
        self.ambiguous |= next.ambiguous;
        self.end = next.end;
    }
}

/// A [`Record`] as another process is told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmitted {
    /// The offset of its first byte.
    pub start: u64,
    /// The offset behind its last one.
    pub end: u64,
    /// The state of the connection when it was sent last.
    pub sent: SendState,
    /// The number of that transmission.
    pub transmission: u64,
    /// Where a segment of it began, and the size of its segments in bytes.
    pub cuts: (u64, u32),
    /// It was retransmitted; ambiguously; is SACKed; is believed lost.
    pub flags: [bool; 4],
}

/// Every transmission that is not cumulatively acknowledged.
///
/// By offset it is a tree, in which adjacent SACKed ranges are one record, by time of sending a queue
/// of which stale entries are dropped when they come to the front: each ACK costs what it newly covers,
/// not what is outstanding.
///
/// A SACK block counts for the segments that it covers whole, as they were sent. A receiver has no others, and one that SACKs
/// single bytes would have us keep a record for each (CVE-2019-11477 was of that kind).
#[derive(Debug, Default)]
pub struct Scoreboard {
    records: BTreeMap<u64, Record>,
    order: VecDeque<(u64, u64, u64)>,
    /// Where the records begin that are SACKed.
    sacked_at: BTreeSet<u64>,
    next_transmission: u64,
    outstanding: u64,
    sacked: u64,
    lost: u64,
    /// No lost record begins before this offset.
    lost_from: u64,
    ever_lost: u64,
    /// Nothing is SACKed from this offset on.
    sacked_to: u64,
    /// Below this offset, IsLost has judged.
    judged_to: u64,
    /// Below this offset, another process had sent all: what is sent here is sent once more.
    sent_before: u64,
}

impl Scoreboard {
    /// Appends what it knows while nothing is outstanding.
    pub(crate) fn put_away(&self, to: &mut Vec<u64>) {
        let Scoreboard { next_transmission, lost_from, ever_lost, sacked_to, judged_to, sent_before, .. } =
            self;
        to.extend([next_transmission, lost_from, ever_lost, sacked_to, judged_to, sent_before]);
    }

    /// Knows what was put away.
    pub(crate) fn bring_back(&mut self, from: &mut Numbers<'_>) -> Option<()> {
        let Scoreboard { next_transmission, lost_from, ever_lost, sacked_to, judged_to, sent_before, .. } =
            self;
        [next_transmission, lost_from, ever_lost, sacked_to, judged_to, sent_before]
            .into_iter()
            .try_for_each(|number| number.take(from))
    }

    /// Bytes in flight: sent, neither acknowledged, SACKed nor believed lost ("pipe").
    pub fn in_flight(&self) -> u64 {
        self.outstanding - self.sacked - self.lost
    }

    /// Bytes that the receiver has SACKed.
    pub fn sacked(&self) -> u64 {
        self.sacked
    }

    /// Bytes that were ever believed lost.
    pub fn ever_lost(&self) -> u64 {
        self.ever_lost
    }

    /// Bytes believed lost and not yet retransmitted.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// How many ranges are told apart.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Memory that it takes, in bytes.
    pub fn allocated(&self) -> usize {
        self.records.len() * (size_of::<(u64, Record)>() + TREE_OVERHEAD)
            + self.sacked_at.len() * (size_of::<u64>() + TREE_OVERHEAD)
            + self.order.len() * size_of::<(u64, u64, u64)>()
    }

    /// Whether nothing is outstanding.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The first outstanding range.
    pub fn first(&self) -> Option<(u64, &Record)> {
        self.records.first_key_value().map(|(&start, record)| (start, record))
    }

    /// The last outstanding range.
    pub fn last(&self) -> Option<(u64, &Record)> {
        self.records.last_key_value().map(|(&start, record)| (start, record))
    }

    /// When the oldest transmission was sent that is neither delivered nor believed lost.
    pub fn oldest_in_flight(&self) -> Option<Time> {
        self.order.iter().find_map(|&(transmission, start, end)| {
            let records = self.records.range(start..end).map(|(_, record)| record);
            let mut own = records.filter(|r| r.transmission == transmission && !r.sacked && !r.lost);
            own.next().map(|record| record.sent.sent_at())
        })
    }

    /// Bytes that were last sent before `before` and are neither delivered nor believed lost, counted until they are more than `enough`.
    pub fn in_flight_before(&mut self, before: Time, enough: u64) -> u64 {
        let (mut bytes, mut settled) = (0, 0);
        'sent: for &(transmission, start, end) in &self.order {
            let own =
                self.records.range(start..end).filter(|(_, record)| record.transmission == transmission);
            for (at, record) in own.filter(|(_, record)| !record.sacked && !record.lost) {
                if record.sent.sent_at() >= before || bytes > enough {
                    break 'sent;
                }
                bytes += record.end - at;
            }
            settled += usize::from(bytes == 0);
        }
        self.order.drain(..settled); // nobody asks for them again
        bytes
    }

    /// Whether `at` lies within a segment, which is not SACKed.
    pub fn is_within_segment(&self, at: u64) -> bool {
        self.segment_around(at).is_some()
    }

    /// Another process had sent all below this offset: it counts as retransmitted when it is sent, and its acknowledgments may be of the
    /// earlier transmission (Karn's algorithm, RFC 6298 §3).
    pub fn set_sent_before(&mut self, offset: u64) {
        self.sent_before = offset;
    }

    /// `[start, end)` is sent, for the first time or once more, in segments of `size` bytes (the last may be shorter).
    pub fn on_send(&mut self, start: u64, end: u64, size: u32, sent: SendState) {
        let cuts = Cuts { from: start, size: size.max(1) };
        let transmission = self.next_transmission;
        self.next_transmission += 1;
        let fresh = self.records.last_key_value().is_none_or(|(_, last)| last.end <= start);
        if fresh {
            self.outstanding += end - start;
            let again = start < self.sent_before;
            let (retransmitted, ambiguous, sacked, lost) = (again, again, false, false);
            let record = Record { end, sent, transmission, retransmitted, ambiguous, sacked, lost, cuts };
            self.records.insert(start, record);
        } else {
            self.split(start);
            self.split(end);
            for (&at, record) in self.records.range_mut(start..end) {
                if record.sacked {
                    continue;
                }
                if record.lost {
                    self.lost -= record.end - at;
                }
                let ambiguous = sent.sent_at().saturating_since(record.sent.sent_at()) < LIFETIME;
                let (retransmitted, lost) = (true, false);
                *record = Record { sent, transmission, retransmitted, ambiguous, lost, cuts, ..*record };
            }
        }
        self.order.push_back((transmission, start, end));
        if self.order.len() > 64 + 4 * self.records.len() {
            let records = &self.records;
            let is_last = |&(number, start, end): &(u64, u64, u64)| {
                records.range(start..end).any(|(_, record)| record.transmission == number)
            };
            self.order.retain(is_last);
        }
    }

    /// All that is outstanding, in the order of the stream.
    pub fn transmitted(&self) -> impl Iterator<Item = Transmitted> + '_ {
        self.records.iter().map(|(&start, record)| Transmitted {
            start,
            end: record.end,
            sent: record.sent,
            transmission: record.transmission,
            cuts: (record.cuts.from, record.cuts.size),
            flags: [record.retransmitted, record.ambiguous, record.sacked, record.lost],
        })
    }

    /// Goes on with what another process had sent, in the order of the stream and without gaps, on a scoreboard that is empty.
    pub fn take_over(&mut self, transmitted: &[Transmitted]) {
        for range in transmitted {
            let Transmitted { start, end, sent, transmission, cuts: (from, size), .. } = *range;
            let [retransmitted, ambiguous, sacked, lost] = range.flags;
            let (len, cuts) = (end - start, Cuts { from, size: size.max(1) });
            let lost = lost && !sacked;
            self.outstanding += len;
            if sacked {
                self.sacked += len;
                self.sacked_at.insert(start);
                self.sacked_to = end;
            }
            if lost {
                self.lost += len;
                self.lost_from = self.lost_from.min(start);
            }
            let record = Record { end, sent, transmission, retransmitted, ambiguous, sacked, lost, cuts };
            self.records.insert(start, record);
            self.next_transmission = self.next_transmission.max(transmission.saturating_add(1));
            self.order.push_back((transmission, start, end));
        }
        self.order.make_contiguous().sort_unstable();
    }

    /// Cuts the record that spans `at` in two. One that is SACKed stays whole: nothing more can
    /// happen to a part of it.
    fn split(&mut self, at: u64) {
        self.split_where(at, |record| !record.sacked);
    }

    fn split_where(&mut self, at: u64, wanted: impl Fn(&Record) -> bool) {
        if let Some((&start, record)) = self.records.range_mut(..at).next_back()
            && start < at
            && record.end > at
            && wanted(record)
        {
            let tail = record.clone();
            record.end = at;
            if tail.sacked {
                self.sacked_at.insert(at);
            }
            self.records.insert(at, tail);
        }
    }

    /// The segment that holds `at` in its midst: where it begins and ends, as far as it is outstanding. `None` at its edge, and
    /// where all is SACKed.
    fn segment_around(&self, at: u64) -> Option<(u64, u64)> {
        let (&start, record) = self.records.range(..at).next_back()?;
        if record.end <= at || record.sacked {
            return None;
        }
        if self.records.len() >= MOST_RECORDS {
            return Some((start, record.end));
        }
        let (before, after) = (record.cuts.before(at).max(start), record.cuts.after(at).min(record.end));
        (before < at && at < after).then_some((before, after))
    }

    /// Everything before `ack` is acknowledged: `delivered` is told of each range that was not
    /// SACKed before.
    pub fn acknowledge(&mut self, ack: u64, mut delivered: impl FnMut(u64, &Record)) {
        self.split_where(ack, |_| true);
        while let Some(entry) = self.records.first_entry() {
            if entry.get().end > ack {
                break;
            }
            let (start, record) = entry.remove_entry();
            let len = record.end - start;
            self.outstanding -= len;
            self.lost -= if record.lost { len } else { 0 };
            if record.sacked {
                self.sacked -= len;
                self.sacked_at.remove(&start);
            } else {
                delivered(start, &record);
            }
        }
        if self.records.is_empty() {
            // An idle connection keeps no memory for busier times.
            self.records = BTreeMap::new();
            self.sacked_at = BTreeSet::new();
            self.order = VecDeque::new();
        }
    }

    /// The receiver SACKs `[start, end)`: `delivered` is told of each range that it had not before. Of a segment that it
    /// covers in part, nothing counts.
    ///
    /// What is SACKed becomes one record, however many it was: a block that grows by a segment
    /// with each ACK, or that joins two when a hole is filled, must not be walked through each time.
    pub fn sack(&mut self, start: u64, end: u64, mut delivered: impl FnMut(u64, &Record)) {
        if self.records.is_empty() || start >= end {
            return;
        }
        let (mut start, mut end) = (start, end);
        if let Some((_, after)) = self.segment_around(start) {
            start = after;
        }
        if let Some((before, _)) = self.segment_around(end) {
            end = before;
        }
        if start >= end {
            return;
        }
        self.sacked_to = self.sacked_to.max(end);
        // What was SACKed before, at either side, is left as it is and joined in the end.
        if let Some((_, before)) = self.sacked_around(start) {
            start = before;
        }
        if let Some((after, _)) = self.sacked_around(end) {
            end = after;
        }
        if start >= end {
            return;
        }
        self.split(start);
        self.split(end);
        let mut joined: Option<(u64, Record)> = None;
        while let Some((&at, record)) = self.records.range_mut(start..end).next() {
            let len = record.end - at;
            if !record.sacked {
                self.sacked += len;
                if record.lost {
                    record.lost = false;
                    self.lost -= len;
                }
                delivered(at, record);
                record.sacked = true;
            }
            match &mut joined {
                None => joined = self.records.remove_entry(&at),
                Some((_, all)) => {
                    all.absorb(record);
                    self.records.remove(&at);
                }
            }
            self.sacked_at.remove(&at);
        }
        if let Some((from, all)) = joined {
            self.insert_sacked(from, all);
        }
    }

    /// The SACKed record that begins at or before `at` and ends behind it.
    fn sacked_around(&self, at: u64) -> Option<(u64, u64)> {
        let (&start, record) = self.records.range(..=at).next_back()?;
        (record.sacked && record.end > at).then_some((start, record.end))
    }

    /// Puts a SACKed record in its place, joined with those that it touches.
    fn insert_sacked(&mut self, start: u64, mut record: Record) {
        if let Some(after) = self.records.get(&record.end).filter(|after| after.sacked) {
            let (from, after) = (record.end, after.clone());
            record.absorb(&after);
            self.records.remove(&from);
            self.sacked_at.remove(&from);
        }
        if let Some((_, all)) = self.records.range_mut(..start).next_back()
            && all.sacked
            && all.end == start
        {
            all.absorb(&record);
            return;
        }
        self.records.insert(start, record);
        self.sacked_at.insert(start);
    }

    /// In the order of sending, the ranges that were sent before `before` and are neither SACKed nor
    /// yet believed lost: those for which `is_lost` agrees are believed lost from now on and `on_lost`
    /// is told; at the first for which it does not the walk ends, and its time of sending is returned.
    ///
    /// `before` is the transmission and the end of a range. Segments that left together, as one
    /// super-segment, left in the order of the stream (`RACK_sent_after`, RFC 8985 §6.2).
    pub fn mark_lost_before(
        &mut self,
        before: (u64, u64),
        mut is_lost: impl FnMut(&Record) -> bool,
        mut on_lost: impl FnMut(u64, &Record),
    ) -> Option<Time> {
        while let Some(&(transmission, start, end)) = self.order.front() {
            if transmission > before.0 {
                return None;
            }
            for (&at, record) in self.records.range_mut(start..end) {
                let earlier = (transmission, record.end) < before;
                if record.transmission != transmission || record.sacked || record.lost || !earlier {
                    continue;
                }
                if !is_lost(record) {
                    return Some(record.sent.sent_at());
                }
                record.lost = true;
                self.lost += record.end - at;
                self.ever_lost += record.end - at;
                self.lost_from = self.lost_from.min(at);
                on_lost(at, record);
            }
            if transmission == before.0 {
                return None; // the rest of it may still be on its way
            }
            self.order.pop_front();
        }
        None
    }

    /// Believes lost what lies below `dup_thresh` separate SACKed ranges, or below more SACKed bytes than one segment less
    /// than that has, and was not judged so before (RFC 6675 §4, IsLost, with DupThresh). `mss` is the size of a segment in
    /// bytes. Each range is looked at once: one that was retransmitted is not judged anew.
    pub fn mark_lost_below_sacked(&mut self, mss: u64, dup_thresh: u64, on_lost: impl FnMut(u64, &Record)) {
        let (mut ranges, mut bytes, mut above) = (0, 0, u64::MAX);
        let mut boundary = None;
        for &start in self.sacked_at.range(..self.sacked_to).rev() {
            let Some(record) = self.records.get(&start) else { continue };
            ranges += u64::from(record.end < above);
            bytes += record.end - start;
            above = start;
            if ranges >= dup_thresh || bytes > (dup_thresh - 1) * mss {
                boundary = Some(start);
                break;
            }
        }
        let Some(boundary) = boundary.filter(|boundary| *boundary > self.judged_to) else { return };
        let from = self.judged_to;
        self.judged_to = boundary;
        self.mark_lost(from, boundary, on_lost);
    }

    /// Believes `[start, end)` lost, where it is not SACKed.
    pub fn mark_lost(&mut self, start: u64, end: u64, mut on_lost: impl FnMut(u64, &Record)) {
        self.split(start);
        self.split(end);
        for (&at, record) in self.records.range_mut(start..end) {
            if record.sacked || record.lost {
                continue;
            }
            record.lost = true;
            self.lost += record.end - at;
            self.ever_lost += record.end - at;
            self.lost_from = self.lost_from.min(at);
            on_lost(at, record);
        }
    }

    /// Forgets what the receiver has SACKed: it may have discarded it (RFC 2018 §8).
    pub fn forget_sacked(&mut self) {
        for start in core::mem::take(&mut self.sacked_at) {
            if let Some(record) = self.records.get_mut(&start) {
                record.sacked = false;
            }
        }
        self.sacked = 0;
    }

    /// Forgets that the receiver has SACKed what is outstanding first.
    pub fn forget_first_sacked(&mut self) {
        if let Some((&start, record)) = self.records.iter_mut().next()
            && core::mem::take(&mut record.sacked)
        {
            self.sacked -= record.end - start;
            self.sacked_at.remove(&start);
        }
    }

    /// The first range that is believed lost.
    pub fn first_lost(&mut self) -> Option<(u64, u64)> {
        if self.lost == 0 {
            self.lost_from = u64::MAX;
            return None;
        }
        let (&start, record) =
            self.records.range(self.lost_from.min(u64::MAX - 1)..).find(|(_, r)| r.lost)?;
        self.lost_from = start;
        Some((start, record.end))
    }

    /// Recomputes the sums from the records, for tests: (outstanding, sacked, lost).
    #[doc(hidden)]
    pub fn audit(&self) -> bool {
        let sum = |pick: fn(&Record) -> bool| -> u64 {
            self.records.iter().filter(|(_, r)| pick(r)).map(|(start, r)| r.end - start).sum()
        };
        let sacked = self.records.iter().filter(|(_, r)| r.sacked).map(|(start, _)| start);
        sum(|_| true) == self.outstanding
            && sum(|r| r.sacked) == self.sacked
            && sum(|r| r.lost) == self.lost
            && sacked.eq(&self.sacked_at)
    }
}
