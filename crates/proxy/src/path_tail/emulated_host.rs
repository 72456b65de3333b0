use alloc::collections::BTreeMap;
use arrayvec::ArrayVec;

/// The mobile host as the sender is to see it: what it would have received by now, and so what it would
/// have acknowledged, if the path's tail were the emulated link.
///
/// It holds no bytes, only their numbers. Whatever it acknowledges, the gateway has received: tokens
/// come from datagrams that were accepted, and are compared with what is held before they count.
#[derive(Debug)]
pub(crate) struct EmulatedHost {
    /// Tells the flow's tokens from those of another that had its place before.
    pub flow: u64,
    /// The emulated link that it is behind.
    pub tail: u32,
    /// Up to where everything has come over the emulated link.
    next: u64,
    /// What has come beyond `next`: start to end.
    early: BTreeMap<u64, u64>,
    /// An offset within each of the ranges that grew last, the latest first.
    recent: ArrayVec<u64, 4>,
    /// What has come twice, to be reported once (RFC 2883 §4).
    duplicate: Option<(u64, u64)>,
    /// `next` has moved since the last acknowledgment.
    moved: bool,
    /// Acknowledgments that are due for datagrams out of order: each counts for its sender.
    repeats: u32,
    /// The timestamp to echo, and `next` when it was last said (RFC 7323 §4.3).
    ts_recent: Option<u32>,
    last_ack: u64,
}

/// What a datagram had of the stream, and its timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub start: u64,
    pub end: u64,
    pub ts_val: Option<u32>,
}

impl EmulatedHost {
    pub fn new(flow: u64, tail: u32, next: u64, ts_recent: Option<u32>) -> Self {
        EmulatedHost {
            flow,
            tail,
            next,
            early: BTreeMap::new(),
            recent: ArrayVec::new(),
            duplicate: None,
            moved: false,
            repeats: 0,
            ts_recent,
            last_ack: next,
        }
    }

    /// A datagram has come over the emulated link, the bytes of which the gateway holds or has delivered.
    pub fn on_arrival(&mut self, Extent { start, end, ts_val }: Extent) {
        if let Some(val) = ts_val
            && start <= self.last_ack
            && self.ts_recent.is_none_or(|recent| val.wrapping_sub(recent) as i32 >= 0)
        {
            self.ts_recent = Some(val);
        }
        if end <= self.next {
            self.duplicate = (start < end).then_some((start, end));
            self.repeats += 1;
            return;
        }
        if start > self.next {
            self.insert(start, end);
            self.repeats += 1;
            return;
        }
        self.next = end;
        while let Some((&first, &last)) = self.early.first_key_value() {
            if first > self.next {
                break;
            }
            self.next = self.next.max(last);
            self.early.pop_first();
        }
        self.moved = true;
    }

    fn insert(&mut self, mut start: u64, mut end: u64) {
        if let Some((&first, &last)) = self.early.range(..=start).next_back()
            && last >= start
        {
            if last >= end {
                self.duplicate = Some((start, end));
            }
            (start, end) = (first, end.max(last));
        }
        while let Some((&first, &last)) = self.early.range(start..).next() {
            if first > end {
                break;
            }
            end = end.max(last);
            self.early.remove(&first);
        }
        self.early.insert(start, end);
        self.recent.retain(|at| !(start..end).contains(at));
        if self.recent.is_full() {
            self.recent.pop();
        }
        self.recent.insert(0, start);
    }

    /// Everything up to `end` counts as arrived: the real host has it all.
    pub fn catch_up(&mut self, end: u64) {
        self.moved |= end > self.next;
        self.next = self.next.max(end);
        self.early = self.early.split_off(&self.next);
    }

    /// What came out of order is no longer held.
    pub fn forget_early(&mut self) {
        self.early.clear();
        self.recent.clear();
    }

    /// Up to where to acknowledge.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The timestamp to echo.
    pub fn ts_recent(&self) -> Option<u32> {
        self.ts_recent
    }

    /// Whether an acknowledgment is due.
    pub fn wants_ack(&self) -> bool {
        self.moved || self.repeats > 0
    }

    /// The ranges for a SACK option: a duplicate first, then what grew last.
    pub fn sack_ranges(&self) -> ArrayVec<(u64, u64), 4> {
        let mut ranges: ArrayVec<_, 4> = self.duplicate.into_iter().collect();
        let range_at = |at: u64| self.early.range(..=at).next_back().filter(|(_, end)| **end > at);
        for (&start, &end) in self.recent.iter().filter_map(|&at| range_at(at)) {
            if !ranges.is_full() && !ranges.contains(&(start, end)) {
                ranges.push((start, end));
            }
        }
        ranges
    }

    /// An acknowledgment left; with data it is no duplicate for its receiver.
    pub fn on_ack_sent(&mut self, with_data: bool) {
        self.moved = false;
        if !with_data {
            self.repeats = self.repeats.saturating_sub(1);
        }
        self.duplicate = None;
        self.last_ack = self.next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> EmulatedHost {
        EmulatedHost::new(0, 0, 1, None)
    }

    fn arrive(host: &mut EmulatedHost, start: u64, end: u64) {
        host.on_arrival(Extent { start, end, ts_val: None });
    }

    #[test]
    fn acknowledges_in_order_and_reports_the_rest() {
        let mut host = host();
        arrive(&mut host, 1, 1001);
        assert!(host.wants_ack());
        assert_eq!((host.next(), host.sack_ranges().len()), (1001, 0));
        host.on_ack_sent(false);
        assert!(!host.wants_ack());
        arrive(&mut host, 2001, 3001);
        arrive(&mut host, 4001, 5001);
        assert_eq!(host.next(), 1001);
        assert_eq!(host.sack_ranges().as_slice(), [(4001, 5001), (2001, 3001)]);
        // one acknowledgment for each: that is what fast retransmit counts
        host.on_ack_sent(false);
        assert!(host.wants_ack());
        host.on_ack_sent(false);
        assert!(!host.wants_ack());
        arrive(&mut host, 3001, 4001);
        assert_eq!(host.sack_ranges().as_slice(), [(2001, 5001)]);
        arrive(&mut host, 1001, 2001);
        assert_eq!((host.next(), host.sack_ranges().len()), (5001, 0));
    }

    #[test]
    fn a_duplicate_is_reported_once() {
        let mut host = host();
        arrive(&mut host, 1, 1001);
        host.on_ack_sent(false);
        arrive(&mut host, 1, 1001);
        assert_eq!(host.sack_ranges().as_slice(), [(1, 1001)]);
        host.on_ack_sent(false);
        assert!(host.sack_ranges().is_empty() && !host.wants_ack());
    }

    #[test]
    fn the_timestamp_is_that_of_the_datagram_that_is_acknowledged() {
        let mut host = EmulatedHost::new(0, 0, 1, Some(10));
        host.on_arrival(Extent { start: 1, end: 1001, ts_val: Some(20) });
        assert_eq!(host.ts_recent(), Some(20));
        host.on_ack_sent(false);
        host.on_arrival(Extent { start: 2001, end: 3001, ts_val: Some(30) });
        assert_eq!(host.ts_recent(), Some(20), "not by what lies behind a gap (RFC 7323 §4.3)");
    }
}
