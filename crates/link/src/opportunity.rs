use alloc::sync::Arc;

use shorthaul_types::{Bytes, Time};

use crate::Trace;
use crate::outage::OutageClock;
use crate::server::{Ready, Slot};

/// So many outages in a row, in each of which the next opportunity comes, have no end: where opportunities come each millisecond and so do
/// outages, none is ever of use.
const ENDLESS: u32 = 10_000;

/// The delivery opportunities of a repeating trace, and how much of the one under the cursor is left.
#[derive(Clone, Debug)]
pub(crate) struct Opportunities {
    trace: Arc<Trace>,
    origin: Time,
    /// The number of the opportunity under the cursor, counted over all repetitions.
    number: u64,
    left: u64,
}

impl Opportunities {
    pub(crate) fn new(trace: Arc<Trace>, origin: Time) -> Self {
        Opportunities { trace, origin, number: 0, left: Trace::OPPORTUNITY.0 }
    }

    /// When the opportunity under the cursor comes.
    fn time(&self) -> Time {
        self.origin + self.trace.opportunity(self.number)
    }

    fn next(&mut self) {
        self.number += 1;
        self.left = Trace::OPPORTUNITY.0;
    }

    /// Wastes the opportunities that come before `t`.
    fn skip_to(&mut self, t: Time) {
        if self.time() < t {
            self.number = self.trace.first_at_or_after(t.saturating_since(self.origin));
            self.left = Trace::OPPORTUNITY.0;
        }
    }

    /// Serializes as mahimahi's `LinkQueue` does: a packet takes the opportunities that come after its
    /// arrival, several if it is big, and leaves what it does not need to the packet behind it.
    pub(crate) fn serve(&mut self, ready: Ready, size: Bytes, outages: &mut OutageClock) -> Slot {
        let after_arrival = Time::from_nanos(ready.arrival.as_nanos().saturating_add(1));
        self.skip_to(after_arrival.max(ready.free));
        let mut needed = size.0;
        let mut start = None;
        let mut held = 0;
        loop {
            if self.left == 0 {
                self.next();
            }
            let now = self.time();
            if now == Time::MAX || held == ENDLESS {
                let never = Time::MAX;
                return Slot {
                    start: start.unwrap_or(never),
                    departure: never,
                    whole: never,
                    is_void: false,
                    is_given_up: false,
                };
            }
            if let Some(hold) = outages.hold_after(now).filter(|hold| hold.start <= now) {
                self.skip_to(hold.end);
                held += 1;
                continue;
            }
            held = 0;
            let start = *start.get_or_insert(now);
            let used = needed.min(self.left);
            needed -= used;
            self.left -= used;
            if needed == 0 {
                let is_void = outages.is_void(start) || outages.is_void(now);
                return Slot { start, departure: now, whole: now, is_void, is_given_up: false };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Distribution, Outage, OutageTimes, Outages};
    use alloc::vec;
    use core::time::Duration;
    use shorthaul_types::Seed;

    struct Line {
        opportunities: Opportunities,
        outages: OutageClock,
        free: Time,
    }

    impl Line {
        fn new(trace: &str) -> Self {
            let trace = Arc::new(trace.parse::<Trace>().unwrap());
            let opportunities = Opportunities::new(trace, Time::ZERO);
            Line { opportunities, outages: OutageClock::Clear, free: Time::ZERO }
        }

        /// Serves a packet that comes at `at` nanoseconds and says in which millisecond it leaves.
        fn serve(&mut self, at: u64, size: u64) -> u64 {
            let ready = Ready { arrival: Time::from_nanos(at), free: self.free };
            self.free = self.opportunities.serve(ready, Bytes(size), &mut self.outages).departure;
            assert_eq!(self.free.as_nanos() % 1_000_000, 0);
            self.free.as_nanos() / 1_000_000
        }
    }

    const MS: u64 = 1_000_000;

    #[test]
    fn opportunities_that_all_come_in_outages_serve_nobody() {
        let mut line = Line::new("1\n");
        let lasts = Distribution::Constant(Duration::from_micros(900));
        let when = OutageTimes::Regular { every: Duration::from_millis(1), lasts, shared: None };
        line.outages = OutageClock::new(&Outages { when, hold: Duration::MAX }, Seed(1), Time::ZERO);
        let ready = Ready { arrival: Time::ZERO, free: Time::ZERO };
        let slot = line.opportunities.serve(ready, Bytes(1500), &mut line.outages);
        assert_eq!(slot.departure, Time::MAX);
    }

    #[test]
    fn one_full_packet_per_opportunity_and_the_trace_repeats() {
        let mut line = Line::new("2\n5\n5\n10\n");
        let leaves: alloc::vec::Vec<u64> = (0..9).map(|_| line.serve(0, 1500)).collect();
        assert_eq!(leaves, [2, 5, 5, 10, 12, 15, 15, 20, 22]);
    }

    #[test]
    fn small_packets_share_an_opportunity_and_big_ones_span_several() {
        let mut line = Line::new("2\n5\n10\n");
        assert_eq!([line.serve(0, 500), line.serve(0, 500), line.serve(0, 500)], [2, 2, 2]);
        assert_eq!(line.serve(0, 1501), 10, "1 byte too big for the one at 5");
        // 1499 bytes are left at 10
        assert_eq!([line.serve(0, 1499), line.serve(0, 1)], [10, 12]);
    }

    #[test]
    fn unused_opportunities_are_wasted() {
        let mut line = Line::new("2\n5\n10\n");
        assert_eq!(line.serve(6 * MS, 100), 10);
        // the rest of the one at 10 is for those that came before it
        assert_eq!(line.serve(10 * MS - 1, 100), 10);
        assert_eq!(line.serve(10 * MS, 100), 12, "one that comes with the opportunity misses it");
        assert_eq!(line.serve(1_000_003 * MS, 100), 1_000_005, "long idle");
    }

    #[test]
    fn what_comes_during_an_outage_is_wasted() {
        let mut line = Line::new("1\n2\n3\n");
        let list = vec![Outage { at: Duration::from_millis(2), lasts: Duration::from_millis(5) }];
        let outages = Outages { when: OutageTimes::Listed(list), hold: Duration::MAX };
        line.outages = OutageClock::new(&outages, Seed(0), Time::ZERO);
        assert_eq!([line.serve(0, 1500), line.serve(0, 1500), line.serve(0, 1500)], [1, 7, 8]);
    }
}
