//! How promptly the kernel runs a thread.
use super::check;
use std::io;

/// Makes timers of the calling thread expire when they are due, not up to 50 µs later
/// (`PR_SET_TIMERSLACK`).
pub(crate) fn sharpen_timers() {
    const NANOSECONDS: libc::c_ulong = 1;
    // SAFETY: prctl with these arguments takes numbers only. It cannot fail for one's own thread, and
    // blunt timers would be no more than an inaccuracy, which is measured.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, NANOSECONDS) };
}

/// Lets the calling thread run before all ordinary ones (`SCHED_FIFO`, priority 1). Processes that it
/// starts do not inherit that.
pub(crate) fn run_first() -> io::Result<()> {
    let parameter = libc::sched_param { sched_priority: 1 };
    // SAFETY: 0 is the calling thread, and the kernel only reads the structure.
    check(unsafe {
        libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const parameter)
    })
    .map(drop)
}
