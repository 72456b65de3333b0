use alloc::collections::BinaryHeap;
use core::cmp::Reverse;
use shorthaul_types::{Deadline, Time};

/// So many entries are not worth a look.
const FEW: usize = 64;

/// Deadlines of many connections. An idle one has none and costs nothing; one that moves its
/// deadline leaves the old entry behind, to be dropped when it comes up, or when there are many of them.
#[derive(Debug, Default)]
pub struct Timers {
    heap: BinaryHeap<Reverse<(Time, u32)>>,
}

impl Timers {
    /// Wants the connection in slot `index` to be called at `at`.
    pub fn arm(&mut self, index: u32, at: Time) {
        self.heap.push(Reverse((at, index)));
    }

    /// Drops entries that are not meant any more, if there are more than twice as many as there are connections: an end could have a
    /// deadline moved with each segment.
    pub fn tidy(&mut self, connections: usize, is_meant: impl Fn(u32, Time) -> bool) {
        if self.heap.len() > 2 * connections + FEW {
            self.heap.retain(|&Reverse((at, index))| is_meant(index, at));
        }
    }

    /// How many entries there are, those that are not meant any more included.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// The next slot whose entry is due; the caller knows whether the entry is still meant.
    pub fn pop_due(&mut self, now: Time) -> Option<(Time, u32)> {
        match self.heap.peek() {
            Some(&Reverse((at, index))) if at <= now => {
                self.heap.pop();
                Some((at, index))
            }
            _ => None,
        }
    }

    /// When the next entry is due.
    pub fn next(&self) -> Option<Deadline> {
        self.heap.peek().map(|&Reverse((at, _))| Deadline { at, timer: "connection" })
    }
}
