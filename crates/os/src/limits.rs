//! What a process may use, and what it was handed.
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// From now on this process may be run first ([`crate::schedule::run_first_by_turns`]) without a privilege, if that can be had: whether
/// it may. Without `CAP_SYS_RESOURCE`, which containers often lack, it may if its limit was raised before (`ulimit -r`).
pub fn allow_real_time() -> bool {
    let limit = Rlimit { current: Some(1), maximum: Some(1) };
    setrlimit(Resource::Rtprio, limit).is_ok()
        || getrlimit(Resource::Rtprio).current.is_none_or(|current| current > 0)
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

/// The sockets that whoever started this process handed over, by the protocol of systemd (sd_listen_fds(3)): `LISTEN_FDS` of
/// them from descriptor 3 on, if `LISTEN_PID` is this process. They are had once: later there are none.
pub fn handed_over() -> Vec<OwnedFd> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    const FIRST: RawFd = 3;
    /// More than anybody hands over.
    const MOST: RawFd = 1024;
    let number = |name: &str| std::env::var(name).ok()?.parse::<RawFd>().ok();
    let is_ours = number("LISTEN_PID").is_some_and(|pid| i64::from(pid) == i64::from(std::process::id()));
    let Some(count) = number("LISTEN_FDS").filter(|count| is_ours && (0..=MOST).contains(count)) else {
        return Vec::new();
    };
    if TAKEN.swap(true, Ordering::SeqCst) {
        return Vec::new();
    }
    let is_open = |descriptor: RawFd| {
        // SAFETY: it asks about a number, and changes nothing.
        unsafe { libc::fcntl(descriptor, libc::F_GETFD) >= 0 }
    };
    (FIRST..FIRST + count)
        .take_while(|descriptor| is_open(*descriptor))
        .map(|descriptor| {
            // SAFETY: it is open, the environment says that it is for this process, and nobody was given it before.
            let socket = unsafe { OwnedFd::from_raw_fd(descriptor) };
            // Programs that this one starts are not meant. That it cannot be said is no error: it is said of an open one.
            let _ = rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC);
            socket
        })
        .collect()
}
