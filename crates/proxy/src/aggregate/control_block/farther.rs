//! Connections of one host whose ways differ: devices behind one address, one of them on a network of its own that is longer.
//!
//! A longer round trip looks like a queue, and what it has in flight would fill a window that is right for the others. Which it is cannot be told by the shortest
//! round trip of a connection: who began behind a queue has none that is short. But round trips that end at the same time, of what came by the same link,
//! had the same queue: their difference is the way's.
use super::Aggregate;
use super::overtaking::LEAST_REORDERING;
use crate::aggregate::off_link::{Lag, OffLink};
use core::time::Duration;
use shorthaul_congestion::RttEstimator;
use shorthaul_tcp::Feedback;
use shorthaul_types::Time;

/// One over the weight of the latest in the moving average of how much longer a round trip is than others'.
const WEIGHT: u32 = 8;

impl Aggregate {
    /// Acknowledgments have come of what the connection in `slot` of the host with this part had sent up to then: if others' have just come, too, and without delay,
    /// it is seen by how much longer its round trips are.
    pub fn compare(&self, now: Time, (slot, part): (u32, u32), off_link: &mut OffLink, feedback: &Feedback) {
        let other = self.parts.get(part).and_then(|part| part.delivered.newest_but_of(slot));
        let (Some(sent), Some(other)) = (feedback.newest, other) else { return };
        let others = other.came.saturating_since(other.sent);
        let longest = self.rtt.srtt().unwrap_or_default() + self.reordered();
        if now.saturating_since(other.came) > LEAST_REORDERING || others > longest || self.is_little() {
            return;
        }
        let lag = now.saturating_since(sent).saturating_sub(others);
        let (least, known) = (self.reordered(), off_link.lag);
        off_link.lag = match known.count {
            _ if lag <= least => Lag::default(),
            0 => Lag { mean: lag, count: 1 },
            count => Lag { mean: (known.mean * (WEIGHT - 1) + lag) / WEIGHT, count: count.saturating_add(1) },
        };
    }

    /// By how much longer than the link what is sent to a connection with these round trips takes at least, where that is more than is reordered, whenever it is
    /// compared: its shortest round trip tells, but for the queue that may have stood all the time.
    pub fn extra(&self, off_link: &OffLink, rtt: &RttEstimator) -> Duration {
        let Some(lag) = off_link.surely_later() else { return Duration::ZERO };
        let shortest = rtt.min_rtt().zip(self.rtt.min_rtt()).map(|(own, link)| own.saturating_sub(link));
        shortest.map_or(Duration::ZERO, |shortest| shortest.min(lag + self.reordered()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Answering;
    use super::*;
    use crate::AggregateConfig;
    use crate::aggregate::member::Member;
    use crate::aggregate::off_link::Says;
    use alloc::sync::Arc;
    use shorthaul_types::Blank as _;

    /// The window after half a second of acknowledgments, all marked or none, of a connection that tells this of the link.
    fn window_after(says: Says, marked: bool) -> u64 {
        let ms = Duration::from_millis;
        let mut aggregate = Aggregate::new(Time::ZERO, 1448, Arc::new(AggregateConfig::default()));
        let part = aggregate.parts.insert(Time::ZERO, 1);
        for at in 100..600 {
            let now = Time::from_millis(at);
            let newest = Some(Time::from_millis(at - 90));
            let feedback =
                Feedback { rtt: Some(ms(90)), newest, delivered: 1448, marked, ..Feedback::default() };
            aggregate.on_feedback(
                now,
                Answering { slot: 1, part, says, marks: true, at_once: true },
                &feedback,
                None,
            );
        }
        aggregate.window()
    }

    #[test]
    fn marks_of_who_is_farther_away_are_answered() {
        for says in [Says::All, Says::But(Duration::from_millis(60))] {
            let [with, without] = [true, false].map(|marked| window_after(says, marked));
            assert!(2 * with < without, "{says:?}: {with} {without}");
        }
    }

    #[test]
    fn what_a_slow_peer_measures_says_nothing_of_the_link() {
        let ms = Duration::from_millis;
        let mut aggregate = Aggregate::new(Time::ZERO, 1448, Arc::new(AggregateConfig::default()));
        let part = aggregate.parts.insert(Time::ZERO, 1);
        let mut tells = |at: u64, says, rtt| {
            let newest = Some(Time::from_millis(at - 30));
            let feedback = Feedback { rtt: Some(ms(rtt)), newest, delivered: 1448, ..Feedback::default() };
            aggregate
                .on_feedback(
                    Time::from_millis(at),
                    Answering { slot: 1, part, says, marks: true, at_once: true },
                    &feedback,
                    None,
                )
                .0
        };
        assert_eq!(tells(100, Says::All, 30), Some(ms(30)));
        (101..200).for_each(|at| assert_eq!(tells(at, Says::Nothing, 900), None));
        assert_eq!((aggregate.srtt(), aggregate.measured), (Some(ms(30)), Some(ms(30))));
    }

    #[test]
    fn an_entry_that_went_with_the_log_is_kept_for_nobody() {
        let mut aggregate = Aggregate::new(Time::ZERO, 1448, Arc::new(AggregateConfig::default()));
        let at = Time::from_millis;
        let member = Member { kept_at: Some(at(100)), ..Member::blank() };
        assert!(!aggregate.is_to_be_kept(at(200), &member), "one is enough");
        aggregate.log.clear(at(150));
        assert!(aggregate.is_to_be_kept(at(200), &member));
    }

    #[test]
    fn a_slow_peer_has_half_on_its_way_for_a_round_trip_after_a_mark() {
        use crate::aggregate::off_link::SlowPeer;
        let (at, ms) = (Time::from_millis, Duration::from_millis);
        let slow =
            SlowPeer { limit: 100_000, since: at(0), delivered: 0, on_time: 0, at: at(0), held_until: at(0) };
        let mut of = OffLink { slow: Some(slow), ..OffLink::default() };
        of.on_mark(at(1000), ms(400), 3000);
        of.on_mark(at(1100), ms(400), 3000);
        assert_eq!(of.slow.map(|slow| slow.limit), Some(50_000), "once a round trip");
        assert_eq!((of.limited(at(1399), 90_000), of.limited(at(1400), 90_000)), (50_000, 90_000));
    }
}
