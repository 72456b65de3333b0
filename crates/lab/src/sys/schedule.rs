//! How promptly the kernel runs a thread.
use super::check;
use std::io;

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
