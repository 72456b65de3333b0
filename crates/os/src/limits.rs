//! What a process may use, and what it was handed.
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// From now on this process may be run first ([`crate::schedule::run_first_by_turns`]) without a privilege.
///
/// # Errors
/// The limit cannot be raised.
pub fn allow_real_time() -> std::io::Result<()> {
    let limit = Rlimit { current: Some(1), maximum: Some(1) };
    Ok(setrlimit(Resource::Rtprio, limit)?)
}

/// Lets this process have `wanted` descriptors, or as many as it may; how many that is.
pub fn raise_descriptor_limit(wanted: u64) -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // None is "without limit".
    let (current, maximum) = (current.unwrap_or(u64::MAX), maximum.unwrap_or(u64::MAX));
    if current >= wanted {
        return current;
    }
    let most = wanted.max(maximum);
    // More than the hard limit takes a privilege; without it, the hard limit has to do.
    for maximum in [most, maximum] {
        let current = maximum.min(most);
        let higher = Rlimit { current: Some(current), maximum: Some(maximum) };
        if setrlimit(Resource::Nofile, higher).is_ok() {
            return current;
        }
    }
    current
}

/// Gives what was freed back to the system, where the C library would keep it for later: thousands of
/// sessions that ended together leave megabytes. Takes about a millisecond.
pub fn give_back_memory() {
    // The allocator's, not the kernel's.
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes no memory from anybody that is in use, and may be called by any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// A socket that whoever started this process handed over.
pub fn adopt(descriptor: RawFd) -> OwnedFd {
    // SAFETY: the protocol of systemd says that it is open and this process's own, and it is asked for once.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}
