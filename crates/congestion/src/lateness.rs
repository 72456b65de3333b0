//! How late timers are served.
use crate::recent_max::RecentMax;
use core::time::Duration;
use shorthaul_types::{Deadline, Time};

/// A period of the memory: lateness counts for one to two of them.
const PERIOD: Duration = Duration::from_secs(1);
/// A machine that stood still for longer than this was suspended. That tells nothing of the next wake-up.
const LONGEST: Duration = Duration::from_millis(250);

/// How late its owner was served of late: the largest difference between a deadline and the time at which it was
/// handled.
///
/// A machine that is stopped, shared or busy serves its timers late, and what arrives meanwhile waits. Whoever measures
/// by the clock has to know: a [`Pacer`](crate::Pacer) keeps the credit of that time, and a timer is not believed before
/// what waited has been looked at. A simulated machine is served in time, unless the scenario says otherwise.
#[derive(Clone, Debug)]
pub struct Lateness {
    recent: RecentMax<Duration, 2>,
    /// When the owner was woken last.
    woken_at: Time,
}

impl Default for Lateness {
    fn default() -> Self {
        Lateness { recent: RecentMax::new(), woken_at: Time::ZERO }
    }
}

impl Lateness {
    /// `deadline`, the earliest that there was, is handled at `now`. One that had passed when it was set counts from the
    /// wake-up before: nobody could have been in time for it.
    pub fn on_wakeup(&mut self, now: Time, deadline: Option<Deadline>) {
        let asleep_since = core::mem::replace(&mut self.woken_at, now);
        let period = (now.as_nanos() / PERIOD.as_nanos() as u64) as u32;
        self.recent.advance(period);
        if let Some(Deadline { at, .. }) = deadline
            && at < now
        {
            self.recent.update(period, now.saturating_since(at.max(asleep_since)).min(LONGEST));
        }
    }

    /// The largest lateness of the last one to two seconds.
    pub fn recent(&self) -> Duration {
        self.recent.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Option<Deadline> {
        Some(Deadline { at: Time::from_millis(millis), timer: "test" })
    }

    #[test]
    fn the_largest_lateness_counts_for_a_second_or_two() {
        let mut lateness = Lateness::default();
        lateness.on_wakeup(Time::from_millis(100), at(100));
        lateness.on_wakeup(Time::from_millis(100), at(300));
        lateness.on_wakeup(Time::from_millis(100), None);
        assert_eq!(lateness.recent(), Duration::ZERO, "in time, early, or without a deadline");
        lateness.on_wakeup(Time::from_millis(910), at(900));
        lateness.on_wakeup(Time::from_millis(950), at(946));
        assert_eq!(lateness.recent(), Duration::from_millis(10));
        lateness.on_wakeup(Time::from_millis(1_903), at(1_900));
        assert_eq!(lateness.recent(), Duration::from_millis(10));
        lateness.on_wakeup(Time::from_millis(2_000), at(2_000));
        assert_eq!(lateness.recent(), Duration::from_millis(3));
        lateness.on_wakeup(Time::from_millis(5_000), None);
        assert_eq!(lateness.recent(), Duration::ZERO);
    }

    #[test]
    fn a_deadline_that_was_set_in_the_past_is_not_late_before_it_could_be_met() {
        let mut lateness = Lateness::default();
        lateness.on_wakeup(Time::from_millis(500), None);
        lateness.on_wakeup(Time::from_millis(502), at(300));
        assert_eq!(lateness.recent(), Duration::from_millis(2));
    }

    #[test]
    fn a_machine_that_was_suspended_is_not_taken_for_a_late_one() {
        let mut lateness = Lateness::default();
        lateness.on_wakeup(Time::from_secs(3_600), at(1));
        assert_eq!(lateness.recent(), LONGEST);
    }
}
