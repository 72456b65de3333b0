//! The process that all commands of a lab live and die with; signals to groups of processes.
use crate::namespace::{self, Kind, VIRTUAL};
use rustix::io::Errno;
use rustix::mount::mount;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, kill_process_group, pidfd_open, pidfd_send_signal, setsid, waitpid,
};
use rustix::thread::UnshareFlags;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

/// Ends standard output: whoever reads it sees that, and what is written from now on goes nowhere.
///
/// # Errors
/// The kernel's; there may be no /dev/null.
pub fn end_standard_output() -> io::Result<()> {
    let nowhere = File::options().write(true).open("/dev/null")?;
    Ok(rustix::stdio::dup2_stdout(&nowhere)?)
}

/// A process, by a descriptor: it names the same process also when another one has its number.
#[derive(Debug)]
pub struct ProcessHandle(OwnedFd);

impl ProcessHandle {
    /// That of the process with this number.
    pub fn of(pid: u32) -> io::Result<Self> {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
        Ok(ProcessHandle(pidfd_open(pid, PidfdFlags::empty())?))
    }

    /// Sends SIGHUP: it is to read its configuration again.
    pub fn hang_up(&self) -> io::Result<()> {
        Ok(pidfd_send_signal(&self.0, Signal::HUP)?)
    }

    /// Sends SIGSTOP: all of its threads stand still.
    pub fn pause(&self) -> io::Result<()> {
        Ok(pidfd_send_signal(&self.0, Signal::STOP)?)
    }

    /// Sends SIGCONT: it goes on.
    pub fn resume(&self) -> io::Result<()> {
        Ok(pidfd_send_signal(&self.0, Signal::CONT)?)
    }

    /// Waits until it ends, for `time` at most; whether it has.
    pub fn ends_within(&self, time: Duration) -> io::Result<bool> {
        let [ended] = crate::poll::wait_readable([self.0.as_fd()], Some(time))?;
        Ok(ended)
    }
}

/// The first process of a new PID namespace. When it ends, the kernel ends all others in there.
///
/// It ends when the other end of a pipe closes, which this process holds: so also when this process is
/// killed.
#[derive(Debug)]
pub struct FirstProcess {
    pid: Pid,
    lifeline: Mutex<Option<OwnedFd>>,
    namespace: OwnedFd,
}

impl FirstProcess {
    /// Starts it. The calling thread's later children would be in the new namespace too, so it had
    /// better end after this.
    pub fn start() -> io::Result<Self> {
        let (watched, lifeline) = pipe_with(PipeFlags::CLOEXEC)?;
        namespace::unshare(&[Kind::Pid])?;
        // rustix offers no fork.
        // SAFETY: between fork and _exit the child calls only functions that are async-signal-safe, on
        // memory that was there before.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // SAFETY: see above.
            unsafe { await_end(watched.as_raw_fd()) }
        }
        let pid = Pid::from_raw(pid).filter(|_| pid > 0).ok_or_else(io::Error::last_os_error)?;
        let namespace = File::open(format!("/proc/{}/ns/pid", pid.as_raw_pid()))?.into();
        Ok(FirstProcess { pid, lifeline: Mutex::new(Some(lifeline)), namespace })
    }

    /// The namespace, to put further processes into.
    pub fn namespace(&self) -> &OwnedFd {
        &self.namespace
    }

    /// Ends it and all the others; what is returned waits until they have ended.
    pub fn end(&self) -> impl FnOnce() + Send + use<> {
        if let Ok(mut lifeline) = self.lifeline.lock() {
            *lifeline = None;
        }
        let pid = self.pid;
        move || {
            // That the child is unknown is no harm.
            let _ = waitpid(Some(pid), WaitOptions::empty());
        }
    }
}

/// What the first process does.
///
/// # Safety
/// To be called in a child made by fork only; it never returns.
unsafe fn await_end(watched: libc::c_int) -> ! {
    let _ = setsid();
    let _ = rustix::thread::set_name(c"shorthaul-lab");
    // rustix has no signal dispositions, closes no ranges, and exits by way of a runtime's destructors.
    // SAFETY: all of these are async-signal-safe and take numbers. The descriptor 0 is open from here on.
    unsafe {
        // Orphans of the namespace become children of this process, and vanish when they end.
        libc::signal(libc::SIGCHLD, libc::SIG_IGN);
        // Nothing else of the parent may be kept open: devices live as long as their descriptors.
        libc::dup2(watched, 0);
        libc::syscall(libc::SYS_close_range, 1, libc::c_uint::MAX, 0);
        let watched = BorrowedFd::borrow_raw(0);
        while rustix::io::read(watched, &mut [0]) == Err(Errno::INTR) {}
        libc::_exit(0)
    }
}

/// Makes the program that `command` starts see the processes of its own PID namespace in `/proc`. Where
/// the host forbids that mount, it sees those of the host as before.
pub fn see_own_processes(command: &mut Command) {
    let mount_proc = || {
        if namespace::without_files(UnshareFlags::NEWNS).is_ok() {
            let _ = mount(c"proc", c"/proc", c"proc", VIRTUAL, None);
        }
        Ok(())
    };
    // SAFETY: the closure makes system calls alone: strings that are terminated already are not copied.
    unsafe { command.pre_exec(mount_proc) };
}

/// Asks every process of `group` to end (SIGTERM).
pub fn terminate_group(group: u32) {
    signal_group(group, Signal::TERM);
}

/// Ends every process of `group` (SIGKILL).
pub fn kill_group(group: u32) {
    signal_group(group, Signal::KILL);
}

fn signal_group(group: u32, signal: Signal) {
    if let Some(group) = i32::try_from(group).ok().and_then(Pid::from_raw) {
        // A group that is gone needs no signal.
        let _ = kill_process_group(group, signal);
    }
}
