use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec::Vec;
use core::cmp::Ordering;

use shorthaul_types::{Bytes, Time};

/// A packet inside the link.
#[derive(Clone, Debug)]
pub(crate) struct Entry<T> {
    /// When it comes out.
    pub delivery: Time,
    /// Its place in the order of pushing; a copy comes right behind its original.
    pub key: u64,
    /// When its serialization ends.
    pub departure: Time,
    /// When the link layer has repaired it and all before it, without the delay; not before its departure.
    pub whole: Time,
    pub size: Bytes,
    pub item: T,
}

impl<T> Entry<T> {
    fn rank(&self) -> (Time, u64) {
        (self.delivery, self.key)
    }
}

/// Packets in order of delivery. Where the link keeps order this is a plain FIFO; only a link that may
/// reorder pays for a heap.
#[derive(Clone, Debug)]
pub(crate) enum Line<T> {
    Fifo(VecDeque<Entry<T>>),
    Heap(BinaryHeap<Earliest<T>>),
}

impl<T> Line<T> {
    pub(crate) fn new(keeps_order: bool) -> Self {
        if keeps_order { Line::Fifo(VecDeque::new()) } else { Line::Heap(BinaryHeap::new()) }
    }

    /// Adds a packet. A FIFO must be given them in order of delivery.
    pub(crate) fn insert(&mut self, entry: Entry<T>) {
        match self {
            Line::Fifo(fifo) => {
                debug_assert!(fifo.back().is_none_or(|last| last.delivery <= entry.delivery));
                fifo.push_back(entry);
            }
            Line::Heap(heap) => heap.push(Earliest(entry)),
        }
    }

    pub(crate) fn next_delivery(&self) -> Option<Time> {
        match self {
            Line::Fifo(fifo) => fifo.front().map(|entry| entry.delivery),
            Line::Heap(heap) => heap.peek().map(|Earliest(entry)| entry.delivery),
        }
    }

    pub(crate) fn pop_until(&mut self, now: Time) -> Option<Entry<T>> {
        // what is never delivered is not even delivered at the end of time
        if self.next_delivery().is_none_or(|next| next > now || next == Time::MAX) {
            return None;
        }
        match self {
            Line::Fifo(fifo) => fifo.pop_front(),
            Line::Heap(heap) => heap.pop().map(|Earliest(entry)| entry),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Line::Fifo(fifo) => fifo.len(),
            Line::Heap(heap) => heap.len(),
        }
    }

    /// Takes everything out, in order of delivery.
    pub(crate) fn take_all(&mut self) -> Vec<Entry<T>> {
        match self {
            Line::Fifo(fifo) => fifo.drain(..).collect(),
            Line::Heap(heap) => {
                let mut all: Vec<Entry<T>> = heap.drain().map(|Earliest(entry)| entry).collect();
                all.sort_unstable_by_key(Entry::rank);
                all
            }
        }
    }
}

/// Orders entries so that the greatest, which a heap shows first, is the earliest delivery.
#[derive(Clone, Debug)]
pub(crate) struct Earliest<T>(Entry<T>);

impl<T> Ord for Earliest<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.0.rank().cmp(&self.0.rank())
    }
}

impl<T> PartialOrd for Earliest<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Earliest<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0.rank() == other.0.rank()
    }
}

impl<T> Eq for Earliest<T> {}
