//! On which processors a thread may run (sched_setaffinity(2)).
use super::check;
use std::io;
use std::mem::{size_of, zeroed};

/// The processors that the calling thread may run on.
///
/// # Errors
/// There are more than 1024 processors.
pub fn allowed() -> io::Result<Vec<usize>> {
    // SAFETY: all zeros is a valid cpu_set_t, an empty one.
    let mut set: libc::cpu_set_t = unsafe { zeroed() };
    // SAFETY: the kernel writes at most the size of the set, which is given.
    check(unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) })?;
    let most = usize::try_from(libc::CPU_SETSIZE).unwrap_or(0);
    // SAFETY: the numbers are all less than the size of the set.
    Ok((0..most).filter(|at| unsafe { libc::CPU_ISSET(*at, &set) }).collect())
}

/// Lets the calling thread run on one processor alone.
///
/// # Errors
/// It may not.
pub fn stay_on(processor: usize) -> io::Result<()> {
    if processor >= usize::try_from(libc::CPU_SETSIZE).unwrap_or(0) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: all zeros is a valid cpu_set_t, an empty one.
    let mut set: libc::cpu_set_t = unsafe { zeroed() };
    // SAFETY: the number is less than the size of the set.
    unsafe { libc::CPU_SET(processor, &mut set) };
    // SAFETY: the set is valid for reading, and its size is given.
    check(unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_stays_where_it_is_told() {
        let all = allowed().unwrap();
        let last = *all.last().unwrap();
        let thread = std::thread::spawn(move || stay_on(last).and_then(|()| allowed()));
        assert_eq!(thread.join().unwrap().unwrap(), [last]);
        assert_eq!(allowed().unwrap(), all, "of this thread nothing was said");
        stay_on(100_000).unwrap_err();
    }
}
