use super::PathTailConfig;
use crate::ack_release::{AckOptions, AckRelease, AckReleaseKind, Event, Extent, Opening, SackRanges};
use crate::policy::{Setting, Subscription};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use arrayvec::ArrayVec;
use shorthaul_types::Time;

/// The mobile host as the sender is to see it: what it would have received by now, and so what it would
/// have acknowledged, if the path's tail were the emulated link.
///
/// It holds no bytes, only their numbers. Whatever it acknowledges, the gateway has received: tokens
/// come from datagrams that were accepted, and are compared with what is held before they count.
#[derive(Debug)]
pub(crate) struct EmulatedHost {
    /// Up to where everything has come over the emulated link.
    next: u64,
    /// What has come beyond `next`: start to end.
    early: BTreeMap<u64, u64>,
    /// An offset within each of the ranges that grew last, the latest first.
    recent: ArrayVec<u64, 4>,
    /// What has come twice, for one D-SACK (RFC 2883 §4).
    duplicate: Option<(u64, u64)>,
    /// `next` has moved since the last acknowledgment.
    moved: bool,
    /// Acknowledgments that are due for datagrams out of order: each counts for its sender.
    repeats: u32,
    /// The timestamp to echo, and `next` when it was last said (RFC 7323 §4.3).
    ts_recent: Option<u32>,
    last_ack: u64,
}

impl AckReleaseKind for PathTailConfig {
    fn open(&self, opening: &Opening) -> Box<dyn AckRelease> {
        Box::new(EmulatedHost::new(opening.next, opening.ts_recent))
    }

    fn subscription(&self) -> Subscription<'_> {
        Subscription::EmulatedLink(self)
    }

    fn check(&self, setting: &Setting<'_>) -> Result<(), String> {
        self.check_against(setting.flow_buffer)?;
        match setting.aggregate {
            None => Ok(()),
            Some(_) => Err("a host that is served by an aggregate cannot be behind an emulated link too: both set the pace of its senders; leave out one of them".to_string()),
        }
    }
}

impl EmulatedHost {
    pub fn new(next: u64, ts_recent: Option<u32>) -> Self {
        EmulatedHost {
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
    fn on_arrival(&mut self, Extent { start, end, ts_val }: Extent) {
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
    fn catch_up(&mut self, end: u64) {
        self.moved |= end > self.next;
        self.next = self.next.max(end);
        self.early = self.early.split_off(&self.next);
    }

    /// What came out of order is no longer held.
    fn forget_early(&mut self) {
        self.early.clear();
        self.recent.clear();
    }
}

impl AckRelease for EmulatedHost {
    fn on_event(&mut self, _now: Time, event: Event) {
        match event {
            // A gap shows when the datagram behind it has come over the emulated link, and not as it comes here.
            Event::Carried(extent) => self.on_arrival(extent),
            Event::Reneged => self.forget_early(),
            Event::Finished(end) => self.catch_up(end),
            Event::AckSent { with_data } => {
                self.moved = false;
                if !with_data {
                    self.repeats = self.repeats.saturating_sub(1);
                }
                self.duplicate = None;
                self.last_ack = self.next;
            }
            _ => {}
        }
    }

    fn released(&self) -> u64 {
        self.next
    }

    fn wants_ack(&self) -> bool {
        self.moved || self.repeats > 0
    }

    /// As the emulated host has it: what came twice first, then what grew last.
    fn options(&self, _received: AckOptions, _in_order: u64) -> AckOptions {
        let mut ranges: SackRanges = self.duplicate.into_iter().collect();
        let range_at = |at: u64| self.early.range(..=at).next_back().filter(|(_, end)| **end > at);
        for (&start, &end) in self.recent.iter().filter_map(|&at| range_at(at)) {
            if !ranges.is_full() && !ranges.contains(&(start, end)) {
                ranges.push((start, end));
            }
        }
        AckOptions { sack: ranges, ts_recent: self.ts_recent }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> EmulatedHost {
        EmulatedHost::new(1, None)
    }

    fn sacked(host: &EmulatedHost) -> SackRanges {
        host.options(AckOptions::default(), 0).sack
    }

    fn sent(host: &mut EmulatedHost) {
        host.on_event(Time::ZERO, Event::AckSent { with_data: false });
    }

    fn arrive(host: &mut EmulatedHost, start: u64, end: u64) {
        host.on_arrival(Extent { start, end, ts_val: None });
    }

    #[test]
    fn acknowledges_in_order_and_sacks_the_rest() {
        let mut host = host();
        arrive(&mut host, 1, 1001);
        assert!(host.wants_ack());
        assert_eq!((host.released(), sacked(&host).len()), (1001, 0));
        sent(&mut host);
        assert!(!host.wants_ack());
        arrive(&mut host, 2001, 3001);
        arrive(&mut host, 4001, 5001);
        assert_eq!(host.released(), 1001);
        assert_eq!(sacked(&host).as_slice(), [(4001, 5001), (2001, 3001)]);
        // one acknowledgment for each: that is what fast retransmit counts
        sent(&mut host);
        assert!(host.wants_ack());
        sent(&mut host);
        assert!(!host.wants_ack());
        arrive(&mut host, 3001, 4001);
        assert_eq!(sacked(&host).as_slice(), [(2001, 5001)]);
        arrive(&mut host, 1001, 2001);
        assert_eq!((host.released(), sacked(&host).len()), (5001, 0));
    }

    #[test]
    fn a_duplicate_is_told_once() {
        let mut host = host();
        arrive(&mut host, 1, 1001);
        sent(&mut host);
        arrive(&mut host, 1, 1001);
        assert_eq!(sacked(&host).as_slice(), [(1, 1001)]);
        sent(&mut host);
        assert!(sacked(&host).is_empty() && !host.wants_ack());
    }

    #[test]
    fn the_timestamp_is_that_of_the_datagram_that_is_acknowledged() {
        let mut host = EmulatedHost::new(1, Some(10));
        host.on_arrival(Extent { start: 1, end: 1001, ts_val: Some(20) });
        assert_eq!(host.options(AckOptions::default(), 0).ts_recent, Some(20));
        sent(&mut host);
        host.on_arrival(Extent { start: 2001, end: 3001, ts_val: Some(30) });
        assert_eq!(
            host.options(AckOptions::default(), 0).ts_recent,
            Some(20),
            "not by what lies behind a gap (RFC 7323 §4.3)"
        );
    }
}
