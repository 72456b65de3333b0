//! The clock that everything here is measured by.
use shorthaul_types::Time;

/// `CLOCK_MONOTONIC`.
#[inline]
pub(crate) fn now() -> Time {
    read(libc::CLOCK_MONOTONIC)
}

/// `CLOCK_REALTIME`, in which the kernel stamps packets.
pub(crate) fn wall() -> Time {
    read(libc::CLOCK_REALTIME)
}

fn read(clock: libc::clockid_t) -> Time {
    let mut spec = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec through the pointer, which is valid for that. Both
    // clocks exist on every Linux, so that the call cannot fail.
    unsafe { libc::clock_gettime(clock, &raw mut spec) };
    Time::from_nanos(spec.tv_sec as u64 * 1_000_000_000 + spec.tv_nsec as u64)
}
