//! How promptly the kernel runs a thread, and on which processors.
use rustix::process::setpriority_process;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io;
use std::path::Path;
use std::time::Duration;

/// Lets the calling thread run before all ordinary ones (`SCHED_FIFO`, priority 1). Processes that it
/// starts do not inherit that.
pub fn run_first() -> io::Result<()> {
    set_policy(libc::SCHED_FIFO, 1)
}

/// The same, but threads that are first in this way take turns (`SCHED_RR`, priority 1). The kernel keeps a share of each
/// second for all others: a twentieth, unless `sched_rt_runtime_us` says otherwise.
pub fn run_first_by_turns() -> io::Result<()> {
    set_policy(libc::SCHED_RR, 1)
}

/// The same, and threads that it starts from now on are first, too: until it asks for [`run_first_by_turns`], which takes no
/// privilege then.
pub fn run_first_by_turns_with_threads() -> io::Result<()> {
    set_inherited_policy(libc::SCHED_RR, 1)
}

/// Lets the calling thread run as all ordinary ones do (`SCHED_OTHER`); its nice value stays.
pub fn run_as_others() -> io::Result<()> {
    set_policy(libc::SCHED_OTHER, 0)
}

/// Sets the nice value of the calling thread, from -20, which has the largest share, to 19.
pub fn be_nice(value: i32) -> io::Result<()> {
    // Of no process in particular means, to Linux, of the calling thread.
    Ok(setpriority_process(None, value)?)
}

fn set_policy(policy: libc::c_int, priority: libc::c_int) -> io::Result<()> {
    set_inherited_policy(policy | libc::SCHED_RESET_ON_FORK, priority)
}

fn set_inherited_policy(policy: libc::c_int, priority: libc::c_int) -> io::Result<()> {
    // rustix sets no policies, and musl's function of this name does nothing. The kernel's structure is the priority alone.
    // SAFETY: 0 is the calling thread, and the kernel only reads the integer.
    let result = unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// How long the calling thread has stood waiting for a processor; zero if the kernel does not count it.
pub fn waited() -> Duration {
    waited_of(Path::new("/proc/thread-self"))
}

/// How long a thread has stood waiting for a processor since it began, by its directory in `/proc`; zero if
/// the kernel does not count it, or there is no such thread.
pub fn waited_of(thread: &Path) -> Duration {
    schedstat(thread, 1)
}

/// How long a thread has been on a processor since it began, as above.
pub fn worked_of(thread: &Path) -> Duration {
    schedstat(thread, 0)
}

fn schedstat(thread: &Path, field: usize) -> Duration {
    let text = std::fs::read_to_string(thread.join("schedstat")).unwrap_or_default();
    // nanoseconds on a processor, nanoseconds waiting for one, time slices
    let nanos = text.split_whitespace().nth(field).and_then(|field| field.parse().ok());
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
