//! The clocks that deadlines and packets are stamped with.
use rustix::time::{ClockId, Timespec, clock_gettime};
use shorthaul_types::Time;
use std::num::NonZeroU64;
use std::time::Duration;

/// `CLOCK_MONOTONIC`.
#[inline]
pub fn monotonic() -> Time {
    time(clock_gettime(ClockId::Monotonic))
}

/// `CLOCK_THREAD_CPUTIME_ID`: for how long the calling thread has been on a processor since it began.
pub fn processor() -> Duration {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(tv_sec as u64, tv_nsec as u32)
}

/// `CLOCK_REALTIME`, in which the kernel stamps packets.
pub fn wall() -> Time {
    time(clock_gettime(ClockId::Realtime))
}

/// Asks the kernel not to delay this thread's timers for the sake of batching them.
pub fn sharpen_timers() {
    // Where it fails, timers are 50 µs coarser.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

/// A time that the kernel gave; never negative.
#[inline]
pub(crate) fn time(stamp: Timespec) -> Time {
    Time::from_nanos(stamp.tv_sec as u64 * 1_000_000_000 + stamp.tv_nsec as u64)
}
