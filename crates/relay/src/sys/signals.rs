//! Threads that no signal reaches.

/// Runs `task` with all signals held back from this thread, and so from those that it starts: signals are for the
/// program's own threads, which may wait for them.
pub fn without_signals<R>(task: impl FnOnce() -> R) -> R {
    // SAFETY: all zeros is a valid set; both are written before they are read.
    let [mut all, mut former]: [libc::sigset_t; 2] = unsafe { std::mem::zeroed() };
    // SAFETY: both sets are valid, and the first becomes full.
    unsafe {
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut former);
    }
    let result = task();
    // SAFETY: the set is the one that was in force before.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const former, std::ptr::null_mut()) };
    result
}
