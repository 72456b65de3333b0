//! How long what arrives has waited on its way, by the timestamps that it carries.
//!
//! A round trip has queues in both directions, and only one of them is made by what is sent here. Who takes the other
//! direction's queue for its own makes its window smaller: less arrives, the rate that is measured falls, and the window
//! after it, until the other direction has all of the round trip.
//!
//! ```text
//! transit  = arrival − tick · TSval        in the sender's clock, whose offset nobody knows (RFC 7323 §5.4)
//! queue    = transit − the smallest transit
//! ```
//! The offset is another one for each connection, as Linux draws them, and the tick is the host's. TSval is rounded down to
//! a tick, so a transit is too long by up to one.
use crate::min_filter::MinFilter;
use crate::volume;
use core::time::Duration;
use shorthaul_types::Time;

/// Ticks that hosts have: 1 ms, as nearly all, 4 ms and 10 ms.
const TICKS: [Duration; 3] = [Duration::from_millis(1), Duration::from_millis(4), Duration::from_millis(10)];
/// How long a clock is watched before its tick is taken for the first of [`TICKS`], the likely one.
const WATCHED: Duration = Duration::from_millis(200);
/// How long a clock is watched before its tick is taken for another of [`TICKS`]: a queue that grows meanwhile makes a clock
/// seem slower. A tick is looked at again when it was watched for twice as long.
const WATCHED_LONG: Duration = Duration::from_secs(1);
/// The first of [`TICKS`] is given up only after this time: no queue grows by half of it.
const WATCHED_LONGER: Duration = Duration::from_secs(60);
/// A clock that is off by more than this part of its rate, in percent, is none of [`TICKS`].
const OFF: u64 = 40;
/// The smallest transit is forgotten after this time, since clocks drift: by 50 ppm, or 1.5 ms in it.
const MEMORY: Duration = Duration::from_secs(30);
/// It is kept for this many round trips, if that is longer: where they take seconds, queues seldom become empty.
const MEMORY_ROUND_TRIPS: u32 = 32;
/// Transits are counted from there, so that none is negative.
const ORIGIN: u64 = 1 << 60;
/// A clock whose transits leave this range was set, or is another one's.
const RANGE: u64 = 3_600_000_000_000;

/// How long something that arrived has waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waited {
    /// The least that it can be: the rounding of the timestamp is left out.
    pub at_least: Duration,
    /// The likely value: half a tick more.
    pub about: Duration,
}

/// What is known of a host's clock, and of the way from it: for all of its connections.
#[derive(Clone, Debug, Default)]
pub struct HostClock {
    tick: Option<Duration>,
    /// How long it was watched.
    watched: Duration,
    /// How long what arrives has waited, on average over a round trip.
    mean: Duration,
    /// How long what arrived last has waited, at least.
    latest: Duration,
    arrived_at: Time,
}

/// The timestamps of one connection.
#[derive(Clone, Debug, Default)]
pub struct ArrivalDelay {
    /// The first one, and when it arrived. Transits count from there, in units of `tick`.
    first: Option<(Time, u32)>,
    /// Zero before there is a first one.
    tick: Duration,
    /// The smallest transit of late.
    least: MinFilter,
}

impl HostClock {
    /// How long what arrives from the host has waited on its way, on average over a round trip.
    pub fn mean(&self) -> Duration {
        self.mean
    }

    /// A packet of a connection has arrived at `now` with the timestamp `val`, where round trips take about `rtt`. Returns
    /// how long it has waited, as far as that can be told: nothing where the clock is unknown.
    pub fn on_arrival(
        &mut self,
        now: Time,
        val: u32,
        rtt: Duration,
        connection: &mut ArrivalDelay,
    ) -> Option<Waited> {
        let memory = MEMORY.max(rtt.min(MEMORY) * MEMORY_ROUND_TRIPS);
        let assumed = self.tick.unwrap_or(TICKS[0]);
        if connection.tick != assumed {
            // Counted from here on. What another connection has just waited, this one has, too, but for the time since then: no
            // queue becomes shorter more quickly.
            *connection =
                ArrivalDelay { first: Some((now, val)), tick: assumed, least: MinFilter::default() };
            let known = self.latest.saturating_sub(now.saturating_since(self.arrived_at));
            connection.least.update(now, Duration::from_nanos(ORIGIN) - known, memory);
        }
        let (began, first) = *connection.first.get_or_insert((now, val));
        let elapsed = now.saturating_since(began);
        let ticked = val.wrapping_sub(first) as i32;
        let long = if self.tick == Some(TICKS[0]) { WATCHED_LONGER } else { WATCHED_LONG };
        if elapsed >= WATCHED.max(2 * self.watched)
            && let Some(found) = tick(elapsed, ticked).filter(|tick| *tick == TICKS[0] || elapsed >= long)
        {
            (self.tick, self.watched) = (Some(found), elapsed);
        }
        let tick = connection.tick;
        let sent = i64::from(ticked).saturating_mul(nanos(tick) as i64);
        let transit = ORIGIN.saturating_add(nanos(elapsed)).saturating_add_signed(-sent);
        if transit.abs_diff(ORIGIN) > RANGE {
            *connection = ArrivalDelay::default();
            return None;
        }
        let transit = Duration::from_nanos(transit);
        connection.least.update(now, transit, memory);
        let longest = transit.saturating_sub(connection.least.get().unwrap_or(transit));
        if self.tick != Some(tick) {
            return None; // not known, or found just now to be another one
        }
        let waited =
            Waited { at_least: longest.saturating_sub(tick), about: longest.saturating_sub(tick / 2) };
        Some(self.count(now, rtt, waited))
    }

    fn count(&mut self, now: Time, rtt: Duration, waited: Waited) -> Waited {
        let passed = now.saturating_since(core::mem::replace(&mut self.arrived_at, now)).min(rtt * 8);
        self.mean = mean_toward(self.mean, waited.about, passed, rtt);
        self.latest = waited.at_least;
        waited
    }
}

/// The mean over about `over`, of which `passed` is over since the last sample.
pub fn mean_toward(mean: Duration, sample: Duration, passed: Duration, over: Duration) -> Duration {
    let share = |value| volume::share(value, nanos(passed), nanos(passed + over).max(1));
    match sample > mean {
        true => mean + Duration::from_nanos(share(nanos(sample - mean))),
        false => mean - Duration::from_nanos(share(nanos(mean - sample))),
    }
}

/// The tick of a clock, by how often it ticked in a time.
fn tick(elapsed: Duration, ticked: i32) -> Option<Duration> {
    let ticked = u64::try_from(ticked).ok().filter(|ticked| *ticked > 0)?;
    let found = nanos(elapsed) / ticked;
    TICKS.into_iter().find(|tick| found.abs_diff(nanos(*tick)) <= nanos(*tick) * OFF / 100)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(40);

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// What a host sends at `sent` ms with a clock of `tick` ms, and waits for `wait` ms beside the path's 20 ms.
    fn send(
        clock: &mut HostClock,
        connection: &mut ArrivalDelay,
        (sent, wait): (u64, u64),
        tick: u64,
    ) -> Option<Waited> {
        // Behind a wrap of the timestamps, as soon as it has ticked a hundred times.
        let val = ((sent / tick) as u32).wrapping_sub(100);
        clock.on_arrival(Time::from_millis(sent + wait + 20), val, RTT, connection)
    }

    /// A segment each `step` ms until `until`, none of which waits.
    fn idle(clock: &mut HostClock, connection: &mut ArrivalDelay, until: u64, tick: u64) -> Option<Waited> {
        (0..until).step_by(7).fold(None, |_, sent| send(clock, connection, (sent, 0), tick))
    }

    #[test]
    fn what_waits_in_a_queue_is_told_to_a_tick_and_what_does_not_has_not_waited() {
        let (mut clock, mut connection) = Default::default();
        assert_eq!(idle(&mut clock, &mut connection, 150, 1), None, "nobody knows yet how fast the clock is");
        let waited = idle(&mut clock, &mut connection, 400, 1).unwrap();
        assert_eq!((waited.at_least, waited.about), (ms(0), ms(0)));
        for sent in 400..600 {
            let waited = send(&mut clock, &mut connection, (sent, 30), 1).unwrap();
            assert_eq!((waited.at_least, waited.about), (ms(29), ms(30) - ms(1) / 2), "sent at {sent} ms");
        }
        assert!((ms(28)..ms(31)).contains(&clock.mean()), "{:?}", clock.mean());
        for sent in 630..1000 {
            send(&mut clock, &mut connection, (sent, 0), 1);
        }
        assert!(clock.mean() < ms(2), "{:?}", clock.mean());
    }

    #[test]
    fn a_slow_clock_is_known_after_a_second_and_a_strange_one_never() {
        let (mut clock, mut connection) = Default::default();
        assert_eq!(idle(&mut clock, &mut connection, 950, 10), None);
        idle(&mut clock, &mut connection, 1100, 10);
        // Counted anew from here on.
        for sent in 1100..1300 {
            send(&mut clock, &mut connection, (sent, 0), 10);
        }
        let waited = send(&mut clock, &mut connection, (1300, 50), 10).unwrap();
        assert!((ms(30)..=ms(50)).contains(&waited.at_least), "{waited:?}");

        let (mut clock, mut connection) = <(HostClock, ArrivalDelay)>::default();
        for sent in 0..5000 {
            let now = Time::from_millis(sent);
            assert_eq!(clock.on_arrival(now, (sent * 50) as u32, RTT, &mut connection), None);
        }
    }

    #[test]
    fn a_clock_that_seemed_slow_beside_a_growing_queue_is_looked_at_again() {
        let (mut clock, mut connection) = Default::default();
        // For one second, three of four milliseconds are spent in a queue that grows.
        for sent in 0..260 {
            send(&mut clock, &mut connection, (sent, sent * 3), 1);
        }
        assert_eq!(clock.tick, Some(ms(4)), "the test would show nothing");
        for sent in 260..9000 {
            send(&mut clock, &mut connection, (sent, 780), 1);
        }
        let waited = send(&mut clock, &mut connection, (9000, 780), 1);
        assert!(waited.is_some_and(|waited| waited.at_least < ms(1000)), "{waited:?}");
        assert_eq!(clock.tick, Some(ms(1)));
    }

    #[test]
    fn who_comes_into_a_queue_that_stands_knows_of_it() {
        let (mut clock, mut first) = Default::default();
        idle(&mut clock, &mut first, 1000, 1);
        for sent in 1000..1200 {
            send(&mut clock, &mut first, (sent, 100), 1);
        }
        let mut second = ArrivalDelay::default();
        // Two milliseconds after the last one: this much may have drained meanwhile.
        let waited = send(&mut clock, &mut second, (1201, 100), 1).unwrap();
        assert!((ms(96)..=ms(100)).contains(&waited.at_least), "{waited:?}");
    }

    #[test]
    fn a_queue_that_stands_for_a_minute_is_no_longer_path_where_round_trips_take_seconds() {
        let (mut clock, mut connection) = <(HostClock, ArrivalDelay)>::default();
        let arrive = |clock: &mut HostClock, connection: &mut _, sent: u64, wait| {
            let rtt = Duration::from_secs(6);
            clock.on_arrival(Time::from_millis(sent + wait), sent as u32, rtt, connection)
        };
        for sent in (0..1000).step_by(100) {
            arrive(&mut clock, &mut connection, sent, 0);
        }
        for sent in (1000..91_000).step_by(100) {
            let waited = arrive(&mut clock, &mut connection, sent, 4000).unwrap();
            assert_eq!(waited.at_least, ms(3999), "sent at {sent} ms");
        }
    }
}
