//! Connections that are being opened, of which most may never be: a flood of SYNs costs others nothing.
use super::Gateway;
use super::table::{Phase, Table};
use alloc::collections::VecDeque;
use shorthaul_types::Time;

/// One place in this many of the table is for connections that are being opened.
const PART: usize = 8;
/// The least number of these places.
const LEAST: usize = 16;

/// Who is being opened, the oldest first.
#[derive(Debug, Default)]
pub(super) struct HalfOpen {
    count: usize,
    /// Places in the table and since when they are taken. Some are open by now, or gone.
    by_age: VecDeque<(u32, Time)>,
}

impl Table {
    /// The entry at `index` is of a connection that is being opened.
    pub fn begin_opening(&mut self, index: u32, now: Time) {
        self.half_open.count += 1;
        self.half_open.by_age.push_back((index, now));
        if self.half_open.by_age.len() > 2 * self.half_open.count + 64 {
            let entries = &self.entries;
            self.half_open.by_age.retain(|&(index, since)| {
                let entry = entries.get(index as usize).and_then(Option::as_ref);
                entry.is_some_and(|entry| !entry.is_open && entry.since == since)
            });
        }
    }

    /// The connection is open.
    pub fn note_open(&mut self, index: u32) {
        if let Some(entry) = self.get_mut(index)
            && !core::mem::replace(&mut entry.is_open, true)
        {
            self.half_open.count -= 1;
        }
    }

    /// A connection that was never opened is no more.
    pub fn note_never_opened(&mut self) {
        self.half_open.count -= 1;
    }
}

impl Gateway {
    /// Keeps connections that are being opened within their part of the table. The oldest goes: whoever answers at all has
    /// answered by then, and who has not is forgotten without harm, for nothing of it is held.
    pub(super) fn bound_half_open(&mut self) {
        let most = (self.config.max_flows / PART).max(LEAST);
        while self.table.half_open.count > most && self.forget_oldest_half_open() {}
    }

    /// Forgets the connection that is being opened for the longest time; whether there was one.
    pub(super) fn forget_oldest_half_open(&mut self) -> bool {
        while let Some((index, since)) = self.table.half_open.by_age.pop_front() {
            let Some(entry) = self.table.get(index).filter(|entry| !entry.is_open && entry.since == since)
            else {
                continue;
            };
            self.counters.half_open_forgotten += 1;
            match entry.phase {
                Phase::Whole(_) => self.step_out_of_whole(self.now, index),
                _ => self.remove(index),
            }
            return true;
        }
        false
    }
}
