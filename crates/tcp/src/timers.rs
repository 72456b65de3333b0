use alloc::collections::BinaryHeap;
use core::cmp::Reverse;
use shorthaul_types::{Deadline, Time};

/// Deadlines of many connections. An idle one has none and costs nothing; one that moves its
/// deadline leaves the old entry behind, to be dropped when it comes up.
#[derive(Debug, Default)]
pub struct Timers {
    heap: BinaryHeap<Reverse<(Time, u32)>>,
}

impl Timers {
    /// Wants the connection in slot `index` to be called at `at`.
    pub fn arm(&mut self, index: u32, at: Time) {
        self.heap.push(Reverse((at, index)));
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
