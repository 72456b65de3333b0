use alloc::boxed::Box;
use core::time::Duration;

use shorthaul_types::{Seed, Time};

use crate::distribution::seconds;
use crate::draw::Draw;
use crate::{Outage, OutageTimes, Outages};

/// A stretch of time, without its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub start: Time,
    pub end: Time,
}

/// The outages of a link as it meets them: first it holds packets, then it loses them.
#[derive(Clone, Debug)]
pub(crate) enum OutageClock {
    /// There are none, which is the common case and costs nothing.
    Clear,
    Stormy(Box<Storms>),
}

/// The two parts of every outage.
#[derive(Clone, Debug)]
pub(crate) struct Storms {
    holds: Windows,
    voids: Windows,
}

impl OutageClock {
    pub(crate) fn new(outages: &Outages, seed: Seed, origin: Time) -> Self {
        if outages.when == OutageTimes::Never {
            return OutageClock::Clear;
        }
        let windows = |part| Windows::new(outages, seed, origin, part);
        OutageClock::Stormy(Box::new(Storms { holds: windows(Part::Hold), voids: windows(Part::Void) }))
    }

    /// The first stretch of holding that is not over at `t`.
    pub(crate) fn hold_after(&mut self, t: Time) -> Option<Span> {
        match self {
            OutageClock::Clear => None,
            OutageClock::Stormy(storms) => storms.holds.not_over_at(t),
        }
    }

    /// Whether what is sent at `t` goes into the void.
    pub(crate) fn is_void(&mut self, t: Time) -> bool {
        match self {
            OutageClock::Clear => false,
            OutageClock::Stormy(storms) => storms.voids.not_over_at(t).is_some_and(|span| span.start <= t),
        }
    }
}

/// Which part of each outage a [`Windows`] shows.
#[derive(Clone, Copy, Debug)]
enum Part {
    Hold,
    Void,
}

/// One part of every outage, in order of time. It is asked for times that mostly grow; going back is
/// allowed and starts again from the first.
#[derive(Clone, Debug)]
pub(crate) struct Windows {
    when: OutageTimes,
    hold: Duration,
    part: Part,
    draw: Draw,
    origin: Time,
    /// The outage under the cursor and its number.
    current: Option<Span>,
    number: u64,
    /// No part before the cursor reaches beyond this.
    passed: Time,
}

impl Windows {
    fn new(outages: &Outages, seed: Seed, origin: Time, part: Part) -> Self {
        let seed = match outages.when {
            OutageTimes::Random { shared: Some(shared), .. }
            | OutageTimes::Regular { shared: Some(shared), .. } => shared,
            _ => seed,
        };
        let mut windows = Windows {
            when: outages.when.clone(),
            hold: outages.hold,
            part,
            draw: Draw::of(seed, "outages"),
            origin,
            current: None,
            number: 0,
            passed: Time::ZERO,
        };
        windows.rewind();
        windows
    }

    fn rewind(&mut self) {
        self.number = 0;
        self.passed = Time::ZERO;
        self.current = self.outage(0, self.origin);
    }

    /// The outage `number`, if there is one; the one before it ended at `previous_end`.
    fn outage(&self, number: u64, previous_end: Time) -> Option<Span> {
        match &self.when {
            OutageTimes::Never => None,
            OutageTimes::Listed(list) => {
                let &Outage { at, lasts } = list.get(usize::try_from(number).ok()?)?;
                Some(Span { start: self.origin + at, end: self.origin + at + lasts })
            }
            OutageTimes::Random { mean_gap, lasts, .. } => {
                let draw = self.draw.part(number);
                let start = previous_end + seconds(mean_gap.as_secs_f64() * draw.exponential(0));
                Some(Span { start, end: start + lasts.sample(draw, 1) })
            }
            OutageTimes::Regular { every, lasts, .. } => {
                let nanos = u128::from(number + 1) * every.as_nanos();
                let start = self.origin + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
                Some(Span {
                    start,
                    end: start + lasts.sample(self.draw.part(number), 0).min(*every / 10 * 9),
                })
            }
        }
    }

    /// The first part that ends after `t`.
    fn not_over_at(&mut self, t: Time) -> Option<Span> {
        if t < self.passed {
            self.rewind();
        }
        while let Some(outage) = self.current {
            let give_up = outage.end.min(outage.start + self.hold);
            let part = match self.part {
                Part::Hold => Span { start: outage.start, end: give_up },
                Part::Void => Span { start: give_up, end: outage.end },
            };
            // An empty part is shown like any other: to look for one that is not could go on for ever.
            if part.end > t {
                return Some(part);
            }
            if outage.start == Time::MAX {
                return None;
            }
            self.passed = self.passed.max(part.end);
            self.number += 1;
            self.current = self.outage(self.number, outage.end);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Distribution;
    use alloc::vec;

    fn secs(s: u64) -> Duration {
        Duration::from_secs(s)
    }

    #[test]
    fn an_outage_holds_first_and_loses_then() {
        let list = vec![Outage { at: secs(10), lasts: secs(5) }, Outage { at: secs(30), lasts: secs(20) }];
        let outages = Outages { when: OutageTimes::Listed(list), hold: secs(8) };
        let mut clock = OutageClock::new(&outages, Seed(1), Time::from_secs(100));
        let span = |a, b| Some(Span { start: Time::from_secs(a), end: Time::from_secs(b) });
        assert_eq!(clock.hold_after(Time::ZERO), span(110, 115));
        assert_eq!(clock.hold_after(Time::from_secs(115)), span(130, 138));
        assert_eq!(clock.hold_after(Time::from_secs(138)), None);
        assert_eq!(clock.hold_after(Time::from_secs(114)), span(110, 115), "going back");
        let void = |clock: &mut OutageClock, s| clock.is_void(Time::from_secs(s));
        assert!(!void(&mut clock, 112) && !void(&mut clock, 137));
        assert!(void(&mut clock, 138) && void(&mut clock, 149));
        assert!(!void(&mut clock, 150));
    }

    #[test]
    fn random_outages_cover_the_share_of_time_they_should() {
        let lasts = Distribution::Uniform { min: secs(5), max: secs(40) };
        let when = OutageTimes::Random { mean_gap: secs(60), lasts, shared: None };
        let outages = Outages { when, hold: Duration::MAX };
        let mut clock = OutageClock::new(&outages, Seed(3), Time::ZERO);
        let (mut t, mut out, mut count) = (Time::ZERO, 0.0, 0);
        while t < Time::from_secs(1_000_000) {
            let span = clock.hold_after(t).unwrap();
            assert!(span.start >= t);
            out += (span.end.as_nanos() - span.start.as_nanos()) as f64 / 1e9;
            count += 1;
            t = span.end;
        }
        let mean = out / f64::from(count);
        let share = out / t.as_secs_f64();
        assert!((mean - 22.5).abs() < 0.5, "{mean}");
        assert!((share - 22.5 / 82.5).abs() < 0.01, "{share}");
    }

    #[test]
    fn regular_outages_begin_at_their_times_and_never_overlap() {
        let lasts = Distribution::Uniform { min: secs(1), max: secs(30) };
        let when = OutageTimes::Regular { every: secs(15), lasts, shared: None };
        let outages = Outages { when, hold: Duration::MAX };
        let mut clock = OutageClock::new(&outages, Seed(3), Time::from_secs(100));
        let mut lengths = vec![];
        for number in 1..200 {
            let start = Time::from_secs(100 + 15 * number);
            let span = clock.hold_after(start).unwrap();
            assert_eq!(span.start, start);
            assert!(span.end <= start + secs(15), "{span:?}");
            lengths.push(span.end.saturating_since(span.start));
        }
        assert_eq!(clock.hold_after(Time::ZERO).unwrap().start, Time::from_secs(115), "the first");
        let cut = lengths.iter().filter(|length| **length == Duration::from_millis(13_500)).count();
        assert!((90..135).contains(&cut), "more than half would last longer: {cut}");
    }

    #[test]
    fn links_with_a_shared_seed_fail_together() {
        let lasts = Distribution::Constant(secs(5));
        let starts = |link_seed, shared| {
            let when = OutageTimes::Random { mean_gap: secs(60), lasts, shared };
            let outages = Outages { when, hold: Duration::MAX };
            OutageClock::new(&outages, link_seed, Time::ZERO).hold_after(Time::from_secs(500)).unwrap()
        };
        assert_eq!(starts(Seed(1), Some(Seed(9))), starts(Seed(2), Some(Seed(9))));
        assert_ne!(starts(Seed(1), None), starts(Seed(2), None));
    }
}
