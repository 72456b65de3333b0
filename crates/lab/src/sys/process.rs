//! The process that all commands of a lab live and die with.
use super::check;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Mutex;

/// The first process of a new PID namespace. When it ends, the kernel ends all others in there.
///
/// It ends when the other end of a pipe closes, which this process holds: so also when this process is
/// killed.
#[derive(Debug)]
pub(crate) struct FirstProcess {
    pid: libc::pid_t,
    lifeline: Mutex<Option<OwnedFd>>,
    namespace: OwnedFd,
}

impl FirstProcess {
    /// Starts it. The calling thread's later children would be in the new namespace too, so it had
    /// better end after this.
    pub(crate) fn start() -> io::Result<Self> {
        let (watched, lifeline) = pipe()?;
        super::namespace::unshare(&[super::namespace::Kind::Pid])?;
        // SAFETY: between fork and _exit the child calls only functions that are async-signal-safe, on
        // memory that was there before.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // SAFETY: see above.
            unsafe { await_end(watched.as_raw_fd()) }
        }
        check(pid)?;
        let namespace = File::open(format!("/proc/{pid}/ns/pid"))?.into();
        Ok(FirstProcess { pid, lifeline: Mutex::new(Some(lifeline)), namespace })
    }

    /// The namespace, to put further processes into.
    pub(crate) fn namespace(&self) -> &OwnedFd {
        &self.namespace
    }

    /// Ends it and all the others; returns the process id for [`reap`].
    pub(crate) fn end(&self) -> libc::pid_t {
        if let Ok(mut lifeline) = self.lifeline.lock() {
            *lifeline = None;
        }
        self.pid
    }
}

/// What the first process does.
///
/// # Safety
/// To be called in a child made by fork only; it never returns.
unsafe fn await_end(watched: libc::c_int) -> ! {
    let mut byte = 0u8;
    // SAFETY: all of these are async-signal-safe and take numbers, but for the name (a terminated
    // string) and the byte read (a valid pointer to one byte).
    unsafe {
        libc::setsid();
        libc::prctl(libc::PR_SET_NAME, c"shorthaul-lab".as_ptr());
        // Orphans of the namespace become children of this process, and vanish when they end.
        libc::signal(libc::SIGCHLD, libc::SIG_IGN);
        // Nothing else of the parent may be kept open: devices live as long as their descriptors.
        libc::dup2(watched, 0);
        libc::syscall(libc::SYS_close_range, 1, libc::c_uint::MAX, 0);
        while libc::read(0, (&raw mut byte).cast(), 1) < 0 && *libc::__errno_location() == libc::EINTR {}
        libc::_exit(0)
    }
}

/// Waits for a child of this process and forgets it.
pub(crate) fn reap(pid: libc::pid_t) {
    // SAFETY: waitpid accepts a null pointer for the status. That the child is unknown is no harm.
    unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
}

/// Makes the program that `command` starts see the processes of its own PID namespace in `/proc`. Where
/// the host forbids that mount, it sees those of the host as before.
pub(crate) fn see_own_processes(command: &mut Command) {
    let mount_proc = || {
        // SAFETY: both calls are async-signal-safe and take numbers and terminated strings.
        unsafe {
            if libc::unshare(libc::CLONE_NEWNS) == 0 {
                let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
                let (source, target) = (c"proc", c"/proc");
                libc::mount(source.as_ptr(), target.as_ptr(), source.as_ptr(), flags, std::ptr::null());
            }
        }
        Ok(())
    };
    // SAFETY: the closure allocates nothing and takes no lock.
    unsafe { command.pre_exec(mount_proc) };
}

/// A pipe whose ends are not inherited by other programs: where to read, where to write.
fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: the pointer is valid for two ints.
    check(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) })?;
    // SAFETY: both descriptors are new and nobody else owns them.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

/// From now on SIGINT and SIGQUIT (Ctrl-C and Ctrl-\\ at a terminal) do nothing to this process. On programs
/// that it starts they have their ordinary effect.
///
/// # Errors
/// None are known: the kernel accepts handlers for these signals.
pub fn leave_interrupts_to_children() -> io::Result<()> {
    extern "C" fn nothing(_: libc::c_int) {}
    for signal in [libc::SIGINT, libc::SIGQUIT] {
        // SAFETY: all zeros is a valid sigaction; the handler does nothing and so is
        // async-signal-safe. A handler, unlike SIG_IGN, is not inherited by exec.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
            action.sa_flags = libc::SA_RESTART;
            check(libc::sigaction(signal, &raw const action, std::ptr::null_mut()))?;
        }
    }
    Ok(())
}

/// What can be said to a process group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Please end.
    Terminate,
    /// End at once.
    Kill,
}

/// Sends a signal to the process group that a child of this process leads. That it has ended is no harm.
pub(crate) fn signal_group(leader: u32, signal: Signal) {
    let signal = match signal {
        Signal::Terminate => libc::SIGTERM,
        Signal::Kill => libc::SIGKILL,
    };
    if let Ok(leader) = libc::pid_t::try_from(leader) {
        // SAFETY: kill takes numbers.
        unsafe { libc::kill(-leader, signal) };
    }
}
