//! How promptly the kernel runs a thread.
use super::check;
use std::io;
use std::path::Path;
use std::time::Duration;

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

/// How long the calling thread has stood waiting for a processor; zero if the kernel does not count it.
pub(crate) fn waited() -> Duration {
    waited_of(Path::new("/proc/thread-self"))
}

/// How long a thread has stood waiting for a processor since it began, by its directory in `/proc`; zero if
/// the kernel does not count it, or there is no such thread.
pub fn waited_of(thread: &Path) -> Duration {
    let text = std::fs::read_to_string(thread.join("schedstat")).unwrap_or_default();
    // nanoseconds on a processor, nanoseconds waiting for one, time slices
    let nanos = text.split_whitespace().nth(1).and_then(|field| field.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}
