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
//!
//! The smallest transit of a connection that began while the queue stood is none of an empty path. What is sent to the host is there
//! `round trip − transit` later, by the host's clock; the smallest of that and the path's shortest round trip say how short a transit
//! can be. And a queue from which packets leave in the order in which they came grows no more quickly than time passes:
//!
//! ```text
//! there    = round trip − transit          and the shortest round trip = an empty transit + an empty way there
//! empty transit ≥ shortest round trip − the smallest there       equal once the way there was seen empty
//! empty transit ≥ transit − what an earlier arrival of the host had waited at most − the time since then
//! at most  = transit − the greatest of those bounds
//! ```
//! With that a round trip less what it waited is the shortest one and what `there` is longer than its smallest: the queue on the way there,
//! which is the sender's own, as far as its connection has seen it shorter. Who takes its own queue for the other direction's sees it
//! as soon as the window is drained. The other error does not end: the window is cut, and the other direction's queue stands.
use crate::min_filter::MinFilter;
use crate::volume;
use core::time::Duration;
use shorthaul_types::{Blank, Time, keeps};

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
    /// How long what arrives has waited at most, by all that arrived before, on average over a round trip.
    mean: Duration,
    counted_at: Time,
    /// How long what arrived then had waited at most: as time passes it can be so much more.
    at_most: Duration,
    bounded_at: Time,
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
    /// The smallest transit of late, or what it is taken for where another connection has just waited.
    least: MinFilter,
    /// The smallest transit of late that was seen.
    seen: MinFilter,
    /// That of what arrived last.
    transit: Duration,
    /// The smallest of late of what round trips took beyond transits.
    there: MinFilter,
    /// The greatest lower bound of late of an empty transit, from [`ORIGIN`] down.
    bound: MinFilter,
}

/// A round trip that ended with what has just arrived.
#[derive(Clone, Copy, Debug)]
pub struct Trip {
    /// How long it took.
    pub took: Duration,
    /// The shortest of the path, without any queue, as far as that is known.
    pub shortest: Option<Duration>,
}

keeps!(Waited { at_least, about });
keeps!(HostClock { tick, watched, mean, counted_at, at_most, bounded_at, latest, arrived_at });
keeps!(ArrivalDelay { first, tick, least, seen, transit, there, bound });

impl Blank for Waited {
    fn blank() -> Self {
        Waited::default()
    }
}

impl HostClock {
    /// How long what arrives from the host has waited on its way at most, on average over a round trip.
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
        let memory = memory(rtt);
        let assumed = self.tick.unwrap_or(TICKS[0]);
        if connection.tick != assumed {
            // Counted from here on. What another connection has just waited, this one has, too, but for the time since then: no
            // queue becomes shorter more quickly.
            *connection = ArrivalDelay { first: Some((now, val)), tick: assumed, ..ArrivalDelay::default() };
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
        connection.transit = transit;
        connection.least.update(now, transit, memory);
        connection.seen.update(now, transit, memory);
        let longest = transit.saturating_sub(connection.least.get().unwrap_or(transit));
        if self.tick != Some(tick) {
            return None; // not known, or found just now to be another one
        }
        let waited =
            Waited { at_least: longest.saturating_sub(tick), about: longest.saturating_sub(tick / 2) };
        (self.latest, self.arrived_at) = (waited.at_least, now);
        Some(waited)
    }

    /// How long what has just arrived, of which [`on_arrival`](Self::on_arrival) was told, has waited at most, where round trips take about `rtt`: at least a
    /// tick less. `trip` is the round trip that ended with it, if it ended one. Nothing where the clock is unknown, or the connection has
    /// measured no round trip yet.
    pub fn at_most(
        &mut self,
        now: Time,
        rtt: Duration,
        trip: Option<Trip>,
        connection: &mut ArrivalDelay,
    ) -> Option<Duration> {
        let tick = connection.tick;
        if self.tick != Some(tick) {
            return None;
        }
        let memory = memory(rtt);
        // What it is taken for is no bound: who was sent as the queue became empty arrives right behind one that has waited for long, and has not waited.
        let (transit, least) = (nanos(connection.transit), nanos(connection.seen.get()?));
        let known = self.at_most.saturating_add(now.saturating_since(self.bounded_at));
        if let Some(Trip { took, shortest }) = trip {
            // By the other end's clock, as transits are: from the same origin.
            let there = (ORIGIN + nanos(took).min(RANGE) + ORIGIN).saturating_sub(transit);
            connection.there.update(now, Duration::from_nanos(there), memory);
            let there = nanos(connection.there.get()?);
            let shortest = shortest.map_or(took, |shortest| shortest.min(took));
            let by_trips = (ORIGIN + nanos(shortest).min(RANGE) + ORIGIN).saturating_sub(there);
            let bound = by_trips.max(transit.saturating_sub(nanos(known))).min(least);
            connection.bound.update(now, Duration::from_nanos((2 * ORIGIN).saturating_sub(bound)), memory);
        }
        let empty = (2 * ORIGIN).saturating_sub(nanos(connection.bound.get()?)).min(least);
        let at_most = Duration::from_nanos(transit.saturating_sub(empty)).saturating_sub(tick);
        (self.at_most, self.bounded_at) = (at_most.min(known), now);
        self.count(now, rtt, self.at_most + tick / 2);
        Some(at_most)
    }

    /// What has just arrived has `waited` so long, for the [`mean`](Self::mean).
    pub fn count(&mut self, now: Time, rtt: Duration, waited: Duration) {
        let passed = now.saturating_since(core::mem::replace(&mut self.counted_at, now)).min(rtt * 8);
        self.mean = mean_toward(self.mean, waited, passed, rtt);
    }
}

/// For how long extremes are remembered where round trips take `rtt`.
fn memory(rtt: Duration) -> Duration {
    MEMORY.max(rtt.min(MEMORY) * MEMORY_ROUND_TRIPS)
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

    /// The same, of what answers at once what was sent to the host, which waited there for `there` ms beside the 20 ms of that way.
    fn answer(
        clock: &mut HostClock,
        connection: &mut ArrivalDelay,
        (sent, wait): (u64, u64),
        there: u64,
    ) -> Option<Duration> {
        send(clock, connection, (sent, wait), 1);
        let trip = Trip { took: ms(40 + there + wait), shortest: Some(ms(40)) };
        clock.at_most(Time::from_millis(sent + wait + 20), RTT, Some(trip), connection)
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
    }

    /// A connection that begins after a silence, in which the queue may have become shorter, does not know how long it waits until its round trips
    /// show it: then it waits for all of it, and for nothing of what waits on the way there.
    #[test]
    fn who_comes_into_a_queue_after_a_silence_learns_of_it_by_its_round_trips() {
        let (mut clock, mut first) = Default::default();
        idle(&mut clock, &mut first, 1000, 1);
        let mut second = ArrivalDelay::default();
        for sent in (1500..2500).step_by(7) {
            let at_most = answer(&mut clock, &mut second, (sent, 300), 0).unwrap();
            assert!((ms(298)..=ms(300)).contains(&at_most), "sent at {sent} ms: {at_most:?}");
        }
        assert!((ms(297)..=ms(301)).contains(&clock.mean()), "{:?}", clock.mean());
        // A queue of its own, on the way there, is none that what arrives waits in.
        for sent in (2500..3000).step_by(7) {
            let at_most = answer(&mut clock, &mut second, (sent, 300), 50).unwrap();
            assert!((ms(298)..=ms(300)).contains(&at_most), "sent at {sent} ms: {at_most:?}");
        }
        for sent in (3310..4000).step_by(7) {
            assert_eq!(answer(&mut clock, &mut second, (sent, 0), 0), Some(ms(0)), "sent at {sent} ms");
        }
        assert!(clock.mean() < ms(2), "{:?}", clock.mean());
    }

    /// Its own queue stands when it begins: it cannot be told from the other direction's, but a connection that has waited for little just now says
    /// that there is none.
    #[test]
    fn what_others_have_just_waited_bounds_what_a_new_connection_has() {
        let (mut clock, mut first) = Default::default();
        idle(&mut clock, &mut first, 1000, 1);
        answer(&mut clock, &mut first, (1000, 0), 0);
        let mut second = ArrivalDelay::default();
        let at_most = answer(&mut clock, &mut second, (1003, 0), 80).unwrap();
        assert!(at_most <= ms(3), "{at_most:?} of 80 ms that it waited on the way there");
        let mut alone = HostClock { tick: Some(ms(1)), ..HostClock::default() };
        let mut third = ArrivalDelay::default();
        let at_most = answer(&mut alone, &mut third, (1003, 0), 80).unwrap();
        assert_eq!(at_most, ms(79), "and where nobody says so it may be all beyond the shortest round trip");
    }

    /// One connection has waited for 200 ms, and the first segment of another comes right behind it, which was sent when the queue had just become empty.
    #[test]
    fn who_comes_right_behind_one_that_has_waited_may_not_have_waited() {
        let (mut clock, mut first) = Default::default();
        idle(&mut clock, &mut first, 1000, 1);
        send(&mut clock, &mut first, (1000, 200), 1);
        let mut second = ArrivalDelay::default();
        for sent in (1201..1400).step_by(7) {
            let took = ms(40);
            let at_most = answer(&mut clock, &mut second, (sent, 0), 0).unwrap();
            assert!(
                took - at_most >= ms(39),
                "sent at {sent} ms: of {took:?} it is taken to have waited {at_most:?}"
            );
        }
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
