use crate::ByteQueue;
use crate::byte_queue::COALESCE;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use arrayvec::ArrayVec;
use shorthaul_wire::{Payload, PayloadList};

/// The least that a copied part is charged with: about what its bookkeeping takes. Its room takes the bytes behind it.
const LEAST_COPY: usize = 256;

/// Bytes that arrived ahead of a gap, and the ranges that they form (for SACK, RFC 2018 §4).
///
/// While there are none, which is nearly always, it takes the room of a pointer.
#[derive(Debug, Default)]
pub struct Reassembly {
    held: Option<Box<Held>>,
}

#[derive(Debug, Default)]
struct Held {
    /// Slices by their first offset; they do not overlap.
    slices: BTreeMap<u64, Payload>,
    /// Merged ranges: start to end.
    ranges: BTreeMap<u64, u64>,
    /// An offset within each of the ranges that grew last, the latest first.
    recent: ArrayVec<u64, 4>,
    allocated: usize,
    /// The bytes of all slices.
    bytes: u64,
}

impl Reassembly {
    /// The memory held, in bytes.
    pub fn allocated(&self) -> usize {
        self.held.as_ref().map_or(0, |held| held.allocated)
    }

    /// The bytes held.
    pub fn bytes(&self) -> u64 {
        self.held.as_ref().map_or(0, |held| held.bytes)
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.held.is_none()
    }

    /// The range that holds `offset`, where there is one.
    pub fn range_at(&self, offset: u64) -> Option<(u64, u64)> {
        self.held.as_ref()?.range_at(offset)
    }

    /// Where the last range ends.
    pub fn end(&self) -> Option<u64> {
        self.held.as_ref()?.ranges.last_key_value().map(|(_, &end)| end)
    }

    /// The ranges for a SACK option: the one that grew last comes first.
    pub fn recent_ranges(&self) -> ArrayVec<(u64, u64), 4> {
        let mut out = ArrayVec::new();
        let Some(held) = &self.held else { return out };
        for &at in &held.recent {
            if let Some(range) = held.range_at(at)
                && !out.contains(&range)
            {
                out.push(range);
            }
        }
        out
    }

    /// Keeps the bytes of `payload`, which begin at `offset`, that are not yet held.
    pub fn insert(&mut self, offset: u64, payload: &PayloadList) {
        if payload.is_empty() {
            return;
        }
        let held = self.held.get_or_insert_default();
        let mut at = offset;
        for slice in payload.slices() {
            held.insert_slice(at, slice);
            at += slice.len() as u64;
        }
        held.merge(offset, at);
    }

    /// The bytes held, with the offsets of their first ones.
    pub fn pieces(&self) -> impl Iterator<Item = (u64, &Payload)> {
        self.held.iter().flat_map(|held| held.slices.iter().map(|(at, piece)| (*at, piece)))
    }

    /// Moves what has become contiguous with `next` into `queue`; returns the new next offset.
    pub fn take(&mut self, next: u64, queue: &mut ByteQueue) -> u64 {
        let Some(held) = &mut self.held else { return next };
        let next = held.take(next, queue);
        if held.ranges.is_empty() {
            self.clear();
        }
        next
    }

    /// Forgets everything held: it was never acknowledged cumulatively (RFC 2018 §8).
    pub fn clear(&mut self) {
        self.held = None;
    }
}

impl Held {
    fn range_at(&self, offset: u64) -> Option<(u64, u64)> {
        let (&start, &end) = self.ranges.range(..=offset).next_back()?;
        (offset < end).then_some((start, end))
    }

    fn insert_slice(&mut self, offset: u64, slice: &Payload) {
        let end = offset + slice.len() as u64;
        let mut at = offset;
        while at < end {
            if let Some((_, held)) = self.range_at(at) {
                at = held;
                continue;
            }
            let gap_end = self.ranges.range(at..).next().map_or(end, |(&next, _)| next.min(end));
            let mut part = slice.slice((at - offset) as usize..(gap_end - offset) as usize);
            if part.len() < slice.len() {
                // Several parts of one buffer would each be charged with all of it.
                part = Payload::copy_with_room(part.as_slice(), LEAST_COPY);
            }
            self.put(at, part);
            at = gap_end;
        }
    }

    /// Keeps a slice that fills a gap. One that continues its predecessor in the same buffer is charged
    /// with it: the segments of a large write do not keep it alive once each. A small one is copied behind its predecessor, if that
    /// has room: nobody makes us keep a record for each byte.
    fn put(&mut self, mut at: u64, mut part: Payload) {
        self.bytes += part.len() as u64;
        if let Some((before, held)) = self.slices.range_mut(..at).next_back()
            && before + held.len() as u64 == at
        {
            if held.extend_over(&part) {
                return;
            }
            if part.len() <= COALESCE {
                let taken = held.try_append(part.as_slice());
                part.advance(taken);
                at += taken as u64;
            }
            if part.is_empty() {
                return;
            }
        }
        self.allocated += part.allocated();
        self.slices.insert(at, part);
    }

    /// Notes that `[start, end)` is held, and that it came just now.
    fn merge(&mut self, mut start: u64, mut end: u64) {
        if start >= end {
            return;
        }
        let point = start;
        if let Some((&before, &before_end)) = self.ranges.range(..=start).next_back()
            && before_end >= start
        {
            start = before;
            end = end.max(before_end);
            self.ranges.remove(&before);
        }
        while let Some((&next, &next_end)) = self.ranges.range(start..=end).next() {
            end = end.max(next_end);
            self.ranges.remove(&next);
        }
        self.ranges.insert(start, end);
        self.recent.retain(|&mut at| at < start || at >= end);
        if self.recent.is_full() {
            self.recent.pop();
        }
        self.recent.insert(0, point);
    }

    fn take(&mut self, mut next: u64, queue: &mut ByteQueue) -> u64 {
        while let Some(entry) = self.slices.first_entry() {
            let at = *entry.key();
            if at > next {
                break;
            }
            let mut slice = entry.remove();
            self.allocated -= slice.allocated();
            self.bytes -= slice.len() as u64;
            let end = at + slice.len() as u64;
            if end > next {
                slice.advance((next - at) as usize);
                queue.push(slice);
                next = end;
            }
        }
        while let Some(entry) = self.ranges.first_entry() {
            if *entry.get() > next {
                break;
            }
            entry.remove();
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn whatever_the_order_the_bytes_come_out_once_and_whole(
            parts in prop::collection::vec((0u64..200, 1usize..40), 1..60)
        ) {
            let source: alloc::vec::Vec<u8> = (0..240u32).map(|i| (i * 7 % 251) as u8).collect();
            let mut held = Reassembly::default();
            let mut queue = ByteQueue::new(0);
            let mut next = 0u64;
            for (at, len) in parts {
                let end = (at as usize + len).min(source.len());
                let skip = (next.saturating_sub(at)) as usize;
                let start = at as usize + skip;
                if start < end {
                    held.insert(start as u64, &Payload::copy_of(&source[start..end]).into());
                }
                next = held.take(next, &mut queue);
                if let Some(held) = &held.held {
                    let mut last = next;
                    for (&start, &end) in &held.ranges {
                        prop_assert!(start > last || (start == last && last == 0) || start > next);
                        last = end;
                    }
                    let sum: usize = held.slices.values().map(Payload::allocated).sum();
                    prop_assert_eq!(sum, held.allocated);
                    let ranges: u64 = held.ranges.iter().map(|(start, end)| end - start).sum();
                    prop_assert_eq!(ranges, held.bytes);
                }
            }
            prop_assert_eq!(queue.end(), next);
            let mut read = alloc::vec![];
            while (read.len() as u64) < next {
                let list = queue.gather(read.len() as u64, 4096);
                let mut part = alloc::vec![0; list.len()];
                list.copy_to(&mut part);
                read.extend(part);
            }
            prop_assert_eq!(&read[..], &source[..next as usize]);
        }
    }

    #[test]
    fn a_slice_that_fills_several_gaps_is_charged_once() {
        let mut held = Reassembly::default();
        for at in [10, 30, 50] {
            held.insert(at, &Payload::copy_of(b"aaaaa").into());
        }
        held.insert(5, &Payload::copy_of(&[b'b'; 60]).into());
        assert_eq!(held.recent_ranges().as_slice(), &[(5, 65)]);
        // Three of 5 bytes, which have no room, and four copies.
        assert_eq!(held.allocated(), 15 + 4 * LEAST_COPY);
    }

    /// Segments of two bytes, of which each overlaps the one before it.
    #[test]
    fn parts_of_a_byte_are_gathered() {
        let mut held = Reassembly::default();
        for at in 10..4_106 {
            held.insert(at, &Payload::copy_with_room(&[7; 2], 2_048).into());
        }
        let pieces = held.pieces().count();
        assert!(pieces <= 4_097 / 256 + 2, "{pieces} pieces");
        assert!(held.allocated() <= 4_097 + 2_048 + 512, "{}", held.allocated());
        assert_eq!(held.bytes(), 4_097);
    }

    #[test]
    fn segments_of_one_buffer_are_charged_once() {
        let buffer = Payload::copy_of(&[7; 1_000]);
        let mut held = Reassembly::default();
        for at in [200, 300, 400] {
            held.insert(at, &buffer.slice(at as usize..at as usize + 100).into());
        }
        assert_eq!((held.allocated(), held.recent_ranges().as_slice()), (1_000, &[(200, 500)][..]));
        held.insert(600, &buffer.slice(600..700).into()); // behind a gap, and alive by itself
        assert_eq!(held.allocated(), 2_000);
    }

    #[test]
    fn the_range_that_grew_last_is_reported_first() {
        let mut held = Reassembly::default();
        held.insert(10, &Payload::copy_of(b"aaaaa").into());
        held.insert(30, &Payload::copy_of(b"bbbbb").into());
        held.insert(15, &Payload::copy_of(b"ccccc").into());
        assert_eq!(held.recent_ranges().as_slice(), &[(10, 20), (30, 35)]);
    }
}
