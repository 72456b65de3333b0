use core::fmt;
use core::num::NonZeroU64;
use core::ops::{Add, AddAssign, Sub};
use core::time::Duration;

/// A point in time: nanoseconds since an epoch that the driver chose.
///
/// The simulator starts at zero; the live loop uses `CLOCK_MONOTONIC`. Protocol code never asks
/// for the time, it is told. The range is 584 years. `Option<Time>` takes no more room than this, as
/// every connection has many timers that are not set.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(NonZeroU64); // the nanoseconds, plus one

impl Time {
    /// The epoch.
    pub const ZERO: Time = Time(NonZeroU64::MIN);
    /// Later than anything that happens.
    pub const MAX: Time = Time(NonZeroU64::MAX);

    /// The point `nanos` nanoseconds after the epoch.
    pub const fn from_nanos(nanos: u64) -> Self {
        Time(NonZeroU64::MIN.saturating_add(nanos))
    }

    /// The point `micros` microseconds after the epoch.
    pub const fn from_micros(micros: u64) -> Self {
        Time::from_nanos(micros * 1_000)
    }

    /// The point `millis` milliseconds after the epoch.
    pub const fn from_millis(millis: u64) -> Self {
        Time::from_nanos(millis * 1_000_000)
    }

    /// The point `secs` seconds after the epoch.
    pub const fn from_secs(secs: u64) -> Self {
        Time::from_nanos(secs * 1_000_000_000)
    }

    /// Nanoseconds since the epoch.
    pub const fn as_nanos(self) -> u64 {
        self.0.get() - 1
    }

    /// Seconds since the epoch, for reports.
    pub fn as_secs_f64(self) -> f64 {
        self.as_nanos() as f64 / 1e9
    }

    /// How long after `earlier` this is; zero if it is not after it.
    pub const fn saturating_since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.get().saturating_sub(earlier.0.get()))
    }
}

/// A `Duration` in nanoseconds, saturating after 584 years.
const fn nanos(d: Duration) -> u64 {
    let n = d.as_nanos();
    if n > u64::MAX as u128 { u64::MAX } else { n as u64 }
}

impl Default for Time {
    /// The epoch.
    fn default() -> Self {
        Time::ZERO
    }
}

impl Add<Duration> for Time {
    type Output = Time;
    fn add(self, d: Duration) -> Time {
        Time(self.0.saturating_add(nanos(d)))
    }
}

impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, d: Duration) {
        *self = *self + d;
    }
}

impl Sub<Duration> for Time {
    type Output = Time;
    fn sub(self, d: Duration) -> Time {
        Time::from_nanos(self.as_nanos().saturating_sub(nanos(d)))
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.as_nanos();
        write!(f, "{}.{:09}s", nanos / 1_000_000_000, nanos % 1_000_000_000)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.as_nanos();
        write!(f, "{}.{:06}", nanos / 1_000_000_000, nanos % 1_000_000_000 / 1_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_that_is_not_set_takes_no_room() {
        assert_eq!(size_of::<Option<Time>>(), size_of::<u64>());
    }

    #[test]
    fn times_order_and_saturate_as_their_nanoseconds_do() {
        let day = Duration::from_secs(86_400);
        assert_eq!(Time::from_nanos(7).as_nanos(), 7);
        assert_eq!(Time::default(), Time::from_nanos(0));
        assert!(Time::ZERO < Time::from_nanos(1) && Time::from_nanos(1) < Time::MAX);
        assert_eq!((Time::MAX + day, Time::from_nanos(u64::MAX)), (Time::MAX, Time::MAX));
        assert_eq!(Time::ZERO - day, Time::ZERO);
        assert_eq!(Time::from_secs(3).saturating_since(Time::from_secs(1)), Duration::from_secs(2));
    }
}
