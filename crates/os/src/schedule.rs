//! How promptly the kernel runs a thread, and on which processors.
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io;
use std::path::Path;
use std::time::Duration;

/// Lets the calling thread run before all ordinary ones (`SCHED_FIFO`, priority 1). Processes that it
/// starts do not inherit that.
pub fn run_first() -> io::Result<()> {
    let parameter = libc::sched_param { sched_priority: 1 };
    // rustix sets no policies.
    // SAFETY: 0 is the calling thread, and the kernel only reads the structure.
    let result = unsafe {
        libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const parameter)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// How long the calling thread has stood waiting for a processor; zero if the kernel does not count it.
pub fn waited() -> Duration {
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

/// The processors that the calling thread may run on.
///
/// # Errors
/// There are more than 1024 processors.
pub fn allowed_processors() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|at| set.is_set(*at)).collect())
}

/// Lets the calling thread run on one processor alone.
///
/// # Errors
/// It may not.
pub fn stay_on(processor: usize) -> io::Result<()> {
    if processor >= CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut set = CpuSet::new();
    set.set(processor);
    Ok(sched_setaffinity(None, &set)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_stays_where_it_is_told() {
        let all = allowed_processors().unwrap();
        let last = *all.last().unwrap();
        let thread = std::thread::spawn(move || stay_on(last).and_then(|()| allowed_processors()));
        assert_eq!(thread.join().unwrap().unwrap(), [last]);
        assert_eq!(allowed_processors().unwrap(), all, "of this thread nothing was said");
        stay_on(100_000).unwrap_err();
    }
}
