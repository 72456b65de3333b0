//! Connections that are being opened, of which most may never be: a flood of SYNs costs others nothing.
use super::Gateway;
use super::table::{Phase, Table};
use alloc::collections::VecDeque;
use arrayvec::ArrayVec;
use core::net::IpAddr;
use shorthaul_types::Time;

/// One place in this many of the table is for connections that are being opened.
const PART: usize = 8;
/// The least number of these places.
const LEAST: usize = 16;
/// So many of the oldest are looked at, for one that goes.
const OLDEST: usize = 32;

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

    /// The connection is open. Says whether that is news.
    pub fn note_open(&mut self, index: u32) -> bool {
        let is_news = self.get_mut(index).is_some_and(|entry| !core::mem::replace(&mut entry.is_open, true));
        self.half_open.count -= usize::from(is_news);
        is_news
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

    /// Forgets one of the connections that are being opened for the longest time: of the host that has the most of these, so that one host
    /// alone leaves those of others the time that their round trips take. Whether there was one.
    pub(super) fn forget_oldest_half_open(&mut self) -> bool {
        let mut oldest = ArrayVec::<((u32, Time), IpAddr), OLDEST>::new();
        let hosts = self.config.hosts;
        let Table { entries, half_open, .. } = &mut self.table;
        // Those that are open by now, or gone, are met once.
        while !oldest.is_full()
            && let Some((index, since)) = half_open.by_age.pop_front()
        {
            let entry = entries.get(index as usize).and_then(Option::as_ref);
            if let Some(entry) = entry.filter(|entry| !entry.is_open && entry.since == since) {
                oldest.push(((index, since), hosts.of(entry.key().src.ip())));
            }
        }
        let of_host = |host: IpAddr| oldest.iter().filter(|(_, other)| *other == host).count();
        // Of the host with the most, the oldest.
        let goes = (0..oldest.len()).rev().max_by_key(|at| of_host(oldest[*at].1));
        let goes = goes.map(|at| oldest.remove(at).0.0);
        oldest.iter().rev().for_each(|(one, _)| half_open.by_age.push_front(*one));
        let Some(index) = goes else { return false };
        self.counters.half_open_forgotten += 1;
        match self.table.get(index).map(|entry| &entry.phase) {
            Some(Phase::Whole(_)) => self.step_out_of_whole(self.now, index),
            _ => self.remove(index),
        }
        true
    }
}
