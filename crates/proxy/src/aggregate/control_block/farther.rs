//! Connections of one host whose ways differ: devices behind one address, one of them on a network of its own that is longer.
//!
//! A longer round trip looks like a queue, and what it has in flight would fill a window that is right for the others. Which it is cannot be told by the shortest
//! round trip of a connection: who began behind a queue has none that is short. But round trips that end at the same time, of what came by the same link,
//! had the same queue: their difference is the way's.
use super::Aggregate;
use super::overtaking::LEAST_REORDERING;
use crate::aggregate::member::{Lag, Member};
use core::time::Duration;
use shorthaul_tcp::{Feedback, Sender};
use shorthaul_types::Time;

/// One over the weight of the latest in the moving average of how much longer a round trip is than others'.
const WEIGHT: u32 = 8;

impl Aggregate {
    /// Acknowledgments have come of what the connection in `slot` had sent up to then: if others' have just come, too, and without delay, it is seen by how
    /// much longer its round trips are.
    pub fn compare(&mut self, now: Time, slot: u32, member: &mut Member, feedback: &Feedback) {
        let other = self.parts.get(member.part).and_then(|part| part.delivered.newest_but_of(slot));
        let (Some(sent), Some(other)) = (feedback.newest, other) else { return };
        let others = other.came.saturating_since(other.sent);
        let longest = self.rtt.srtt().unwrap_or_default() + self.reordered();
        if now.saturating_since(other.came) > LEAST_REORDERING || others > longest || self.is_little() {
            return;
        }
        let lag = now.saturating_since(sent).saturating_sub(others);
        let known = member.lag.filter(|_| lag > self.reordered());
        member.lag = (lag > self.reordered()).then(|| Lag {
            mean: known.map_or(lag, |known| (known.mean * (WEIGHT - 1) + lag) / WEIGHT),
            count: known.map_or(1, |known| known.count.saturating_add(1)),
        });
    }

    /// By how much longer than the link what is sent to a connection takes at least, where that is more than is reordered, whenever it is compared: its
    /// shortest round trip tells, but for the queue that may have stood all the time.
    pub fn extra(&self, member: &Member, sender: &Sender) -> Duration {
        let lag = member.surely_later().map(|lag| lag + self.reordered());
        let shortest =
            sender.rtt().min_rtt().zip(self.rtt.min_rtt()).map(|(own, link)| own.saturating_sub(link));
        lag.zip(shortest).map_or(Duration::ZERO, |(lag, shortest)| shortest.min(lag))
    }
}
