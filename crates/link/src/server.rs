use alloc::vec::Vec;
use core::time::Duration;

use shorthaul_types::{BitRate, Bytes, Time};

use crate::Rate;
use crate::opportunity::Opportunities;
use crate::outage::OutageClock;

/// Work is counted in bit-nanoseconds-per-second, so that `rate × nanoseconds` is exact.
const WORK_PER_BYTE: u128 = 8 * 1_000_000_000;

/// When a packet is serialized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    /// The first moment at which it is being sent.
    pub start: Time,
    /// The moment at which it has been sent; `Time::MAX` for never.
    pub departure: Time,
    /// When the link layer has repaired it and all before it.
    pub whole: Time,
    /// An outage swallowed it.
    pub is_void: bool,
    /// The link layer gave up repairing it.
    pub is_given_up: bool,
}

/// When a packet may be serialized at the earliest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    /// When it came. A delivery opportunity of a trace must be later than this.
    pub arrival: Time,
    /// When the link is free and awake. A delivery opportunity may coincide with this.
    pub free: Time,
}

/// Serializes one packet after the other.
#[derive(Clone, Debug)]
pub(crate) enum Server {
    Unlimited,
    /// `carry` is the work by which the last packet ended before the full nanosecond `carried_to`, so
    /// that a busy link keeps its rate exactly although departures are whole nanoseconds.
    Fixed {
        rate: BitRate,
        carry: u64,
        carried_to: Time,
    },
    Schedule(Schedule),
    Trace(Opportunities),
}

impl Server {
    pub(crate) fn new(rate: &Rate, origin: Time) -> Self {
        match rate {
            Rate::Unlimited => Server::Unlimited,
            Rate::Fixed(rate) => Server::Fixed { rate: *rate, carry: 0, carried_to: Time::ZERO },
            Rate::Schedule { phases, repeats } => {
                Server::Schedule(Schedule::new(phases.clone(), *repeats, origin))
            }
            Rate::Trace(trace) => Server::Trace(Opportunities::new(trace.clone(), origin)),
        }
    }

    /// Serializes `size` bytes, which are `ready`, around the outages.
    pub(crate) fn serve(&mut self, ready: Ready, size: Bytes, outages: &mut OutageClock) -> Slot {
        if let Server::Trace(opportunities) = self {
            return opportunities.serve(ready, size, outages);
        }
        let mut start = ready.arrival.max(ready.free);
        let mut hold = outages.hold_after(start);
        while let Some(span) = hold.filter(|span| span.start <= start) {
            start = span.end;
            hold = outages.hold_after(start);
        }
        let starts_in_void = outages.is_void(start);
        let departure = match (&mut *self, hold) {
            (Server::Unlimited, _) => start,
            (Server::Fixed { rate, carry, carried_to }, None) => {
                fixed_departure(*rate, carry, carried_to, start, size)
            }
            _ => self.departure_between_outages(start, size, outages),
        };
        Slot {
            start,
            departure,
            whole: departure,
            is_void: starts_in_void || outages.is_void(departure),
            is_given_up: false,
        }
    }

    /// The general case: the rate changes, or an outage may come in between.
    fn departure_between_outages(&mut self, start: Time, size: Bytes, outages: &mut OutageClock) -> Time {
        let mut left = u128::from(size.0) * WORK_PER_BYTE;
        let mut t = start;
        while t < Time::MAX {
            let mut until = Time::MAX;
            if let Some(hold) = outages.hold_after(t) {
                if hold.start <= t {
                    t = hold.end;
                    continue;
                }
                until = hold.start;
            }
            let (rate, rate_until) = match self {
                Server::Fixed { rate, .. } => (*rate, Time::MAX),
                Server::Schedule(schedule) => {
                    (t, left) = schedule.skip_cycles(t, until, left);
                    schedule.rate_at(t)
                }
                Server::Unlimited | Server::Trace(_) => return t,
            };
            let rate = u128::from(rate.bits_per_sec());
            if rate == 0 && until == Time::MAX && rate_until == Time::MAX {
                return Time::MAX;
            }
            let end = until.min(rate_until);
            let room = rate * u128::from(end.as_nanos() - t.as_nanos());
            if rate > 0 && room >= left {
                return t + Duration::from_nanos(left.div_ceil(rate) as u64);
            }
            left -= room;
            t = end;
        }
        Time::MAX
    }
}

/// The departure at a fixed rate without outages, exact over any number of packets back to back.
fn fixed_departure(rate: BitRate, carry: &mut u64, carried_to: &mut Time, start: Time, size: Bytes) -> Time {
    let bits_per_sec = rate.bits_per_sec();
    if bits_per_sec == 0 {
        return Time::MAX;
    }
    // a packet that follows at once begins where the last one really ended, within its last nanosecond
    let spare = if start == *carried_to { *carry } else { 0 };
    let (nanos, carry_now) = match size.0.checked_mul(WORK_PER_BYTE as u64) {
        Some(work) => {
            let work = work.saturating_sub(spare);
            let nanos = work.div_ceil(bits_per_sec);
            (nanos, u128::from(nanos) * u128::from(bits_per_sec) - u128::from(work))
        }
        None => {
            let work = u128::from(size.0) * WORK_PER_BYTE - u128::from(spare);
            let rate = u128::from(bits_per_sec);
            let nanos = work.div_ceil(rate);
            (u64::try_from(nanos).unwrap_or(u64::MAX), nanos * rate - work)
        }
    };
    let departure = start + Duration::from_nanos(nanos);
    // less than one nanosecond's worth, that is, less than the rate
    *carry = carry_now as u64;
    *carried_to = departure;
    departure
}

/// A piecewise constant rate with a cursor that moves forward: it is asked for times that do not decrease.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    phases: Vec<(Duration, BitRate)>,
    repeats: bool,
    cycle: Duration,
    work_per_cycle: u128,
    /// The phase under the cursor and when it begins.
    index: usize,
    begins: Time,
}

impl Schedule {
    fn new(phases: Vec<(Duration, BitRate)>, repeats: bool, origin: Time) -> Self {
        let cycle = phases.iter().fold(Duration::ZERO, |sum, (lasts, _)| sum.saturating_add(*lasts));
        let work_per_cycle = phases
            .iter()
            .map(|(lasts, rate)| lasts.as_nanos().saturating_mul(u128::from(rate.bits_per_sec())))
            .fold(0, u128::saturating_add);
        Schedule { phases, repeats, cycle, work_per_cycle, index: 0, begins: origin }
    }

    /// The rate at `t`, and until when it lasts.
    fn rate_at(&mut self, t: Time) -> (BitRate, Time) {
        if self.repeats && self.work_per_cycle == 0 {
            return (BitRate::default(), Time::MAX);
        }
        if self.repeats && t > self.begins + self.cycle {
            // jump over whole cycles: the link may have been idle for long
            let cycles = t.saturating_since(self.begins).as_nanos() / self.cycle.as_nanos();
            self.begins += Duration::from_nanos((cycles * self.cycle.as_nanos()) as u64);
        }
        loop {
            let (lasts, rate) = self.phases[self.index];
            let is_last = self.index + 1 == self.phases.len();
            if is_last && !self.repeats {
                return (rate, Time::MAX);
            }
            let ends = self.begins + lasts;
            if t < ends || ends == Time::MAX {
                return (rate, ends);
            }
            self.begins = ends;
            self.index = if is_last { 0 } else { self.index + 1 };
        }
    }

    /// Does all the whole cycles of `left` work at once that fit between `t` and `until`.
    fn skip_cycles(&self, t: Time, until: Time, left: u128) -> (Time, u128) {
        if !self.repeats || self.work_per_cycle == 0 || left <= self.work_per_cycle {
            return (t, left);
        }
        let cycle = self.cycle.as_nanos();
        // `- 1` leaves some work for the last cycle, in which the exact end is found
        let cycles = ((left - 1) / self.work_per_cycle).min(until.saturating_since(t).as_nanos() / cycle);
        (t + Duration::from_nanos((cycles * cycle) as u64), left - cycles * self.work_per_cycle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Outage, OutageTimes, Outages};
    use alloc::vec;
    use shorthaul_types::Seed;

    fn mbit(n: u64) -> BitRate {
        BitRate::from_bits_per_sec(n * 1_000_000)
    }

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn back_to_back(server: &mut Server, count: u64, size: Bytes, outages: &mut OutageClock) -> Time {
        let mut free = Time::ZERO;
        for _ in 0..count {
            free = server.serve(Ready { arrival: Time::ZERO, free }, size, outages).departure;
        }
        free
    }

    #[test]
    fn a_fixed_rate_is_exact_over_a_million_packets() {
        for (rate, size) in [(mbit(7), 1500), (mbit(10_000), 64), (BitRate::from_bits_per_sec(33_333), 40)] {
            let mut server = Server::new(&Rate::Fixed(rate), Time::ZERO);
            let end = back_to_back(&mut server, 1_000_000, Bytes(size), &mut OutageClock::Clear);
            let exact = rate.time_to_send(Bytes(size * 1_000_000));
            assert_eq!(end, Time::ZERO + exact, "{rate}");
        }
    }

    #[test]
    fn a_rate_change_counts_in_the_middle_of_a_packet() {
        let rate = Rate::Schedule { phases: vec![(ms(10), mbit(1)), (ms(10), mbit(3))], repeats: true };
        let mut server = Server::new(&rate, Time::ZERO);
        // 20 kbit: 10 kbit in the first 10 ms, 10 kbit at 3 Mbit/s
        let slot = server.serve(
            Ready { arrival: Time::ZERO, free: Time::ZERO },
            Bytes(2500),
            &mut OutageClock::Clear,
        );
        assert_eq!(slot.departure, Time::from_nanos(13_333_334));
        // 100 cycles later, 1000 cycles' worth at once
        let ready = Ready { arrival: Time::from_millis(2_000), free: slot.departure };
        let slot = server.serve(ready, Bytes(40_000 / 8 * 1000), &mut OutageClock::Clear);
        assert_eq!(slot.departure, Time::from_millis(2_000 + 20 * 1000));
    }

    #[test]
    fn whole_cycles_end_where_their_work_ends() {
        let rate = Rate::Schedule { phases: vec![(ms(10), mbit(1)), (ms(10), mbit(0))], repeats: true };
        let mut server = Server::new(&rate, Time::ZERO);
        // the work of three cycles is done when the third goes silent
        let end = back_to_back(&mut server, 1, Bytes(3 * 10_000 / 8), &mut OutageClock::Clear);
        assert_eq!(end, Time::from_millis(50));
    }

    #[test]
    fn without_repetition_the_last_rate_stays() {
        let phases = vec![(ms(10), mbit(0)), (ms(10), mbit(8))];
        let mut server = Server::new(&Rate::Schedule { phases, repeats: false }, Time::ZERO);
        let end = back_to_back(&mut server, 100, Bytes(1000), &mut OutageClock::Clear);
        assert_eq!(end, Time::from_millis(110));
    }

    #[test]
    fn a_rate_of_zero_never_sends() {
        let dead = vec![(ms(10), mbit(0))];
        for rate in [
            Rate::Fixed(mbit(0)),
            Rate::Schedule { phases: dead.clone(), repeats: true },
            Rate::Schedule { phases: dead, repeats: false },
        ] {
            let mut server = Server::new(&rate, Time::ZERO);
            assert_eq!(back_to_back(&mut server, 3, Bytes(1), &mut OutageClock::Clear), Time::MAX);
        }
    }

    #[test]
    fn an_outage_interrupts_and_swallows() {
        let list = vec![Outage { at: ms(5), lasts: ms(10) }, Outage { at: ms(30), lasts: ms(100) }];
        let outages = Outages { when: OutageTimes::Listed(list), hold: ms(20) };
        let mut clock = OutageClock::new(&outages, Seed(0), Time::ZERO);
        let mut server = Server::new(&Rate::Fixed(mbit(1)), Time::ZERO);
        let mut free = Time::ZERO;
        let mut serve = |size| {
            let slot = server.serve(Ready { arrival: Time::ZERO, free }, Bytes(size), &mut clock);
            free = slot.departure;
            (slot.departure, slot.is_void)
        };
        // 8 ms of sending, 5 before and 3 after the short outage
        assert_eq!(serve(1000), (Time::from_millis(18), false));
        // 16 ms of sending: 12 until the long outage, 20 of holding, then 4 into the void
        assert_eq!(serve(2000), (Time::from_millis(54), true));
        assert_eq!(serve(1000), (Time::from_millis(62), true));
        // begun in the void at 62, ended after it at 142
        assert_eq!(serve(10_000), (Time::from_millis(142), true));
        assert_eq!(serve(1000), (Time::from_millis(150), false));
    }
}
