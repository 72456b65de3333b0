//! `namespaces(7)`, and the mounts inside them.
use super::check;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The kinds of namespace that a lab uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Net,
    Mount,
    Pid,
    User,
}

impl Kind {
    const fn flag(self) -> libc::c_int {
        match self {
            Kind::Net => libc::CLONE_NEWNET,
            Kind::Mount => libc::CLONE_NEWNS,
            Kind::Pid => libc::CLONE_NEWPID,
            Kind::User => libc::CLONE_NEWUSER,
        }
    }
}

/// Gives the calling thread new namespaces of the given kinds (`unshare(2)`). A new PID namespace is
/// that of its children. A new user namespace needs a process with no other thread.
pub(crate) fn unshare(kinds: &[Kind]) -> io::Result<()> {
    let flags = kinds.iter().fold(0, |flags, kind| flags | kind.flag());
    // SAFETY: unshare takes a number and touches no memory of ours.
    check(unsafe { libc::unshare(flags) }).map(drop)
}

/// Stops sharing working directory, root and umask with the other threads of the process, without
/// which a thread cannot enter another mount namespace.
pub(crate) fn unshare_working_directory() -> io::Result<()> {
    // SAFETY: as in `unshare`.
    check(unsafe { libc::unshare(libc::CLONE_FS) }).map(drop)
}

/// Moves the calling thread into a namespace (`setns(2)`); for [`Kind::Pid`], its later children.
pub(crate) fn enter(namespace: &OwnedFd, kind: Kind) -> io::Result<()> {
    // SAFETY: setns takes an open descriptor and a number.
    check(unsafe { libc::setns(namespace.as_raw_fd(), kind.flag()) }).map(drop)
}

/// Holds on to a namespace of the calling thread.
pub(crate) fn current(kind: Kind) -> io::Result<OwnedFd> {
    let name = match kind {
        Kind::Net => "net",
        Kind::Mount => "mnt",
        Kind::Pid => "pid",
        Kind::User => "user",
    };
    File::open(format!("/proc/thread-self/ns/{name}")).map(OwnedFd::from)
}

/// Mounts made from now on in the calling thread's mount namespace stay in it.
pub(crate) fn make_mounts_private() -> io::Result<()> {
    mount(None, Path::new("/"), None, libc::MS_REC | libc::MS_PRIVATE)
}

/// Makes `target` show the file `source`.
pub(crate) fn bind(source: &Path, target: &Path) -> io::Result<()> {
    mount(Some(source), target, None, libc::MS_BIND)
}

/// Mounts a file system that needs no device: `tmpfs`, `sysfs`, `proc`.
pub(crate) fn mount_new(kind: &CStr, target: &Path) -> io::Result<()> {
    mount(None, target, Some(kind), libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC)
}

/// Takes the topmost mount off `target`; what still uses it keeps it.
pub(crate) fn unmount(target: &Path) -> io::Result<()> {
    let target = c_path(target)?;
    // SAFETY: the path is a terminated string that lives until the call returns.
    check(unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH) }).map(drop)
}

fn mount(source: Option<&Path>, target: &Path, kind: Option<&CStr>, flags: libc::c_ulong) -> io::Result<()> {
    let source = c_path(source.unwrap_or(Path::new("none")))?;
    let target = c_path(target)?;
    // SAFETY: all pointers are terminated strings that live until the call returns, or null where
    // mount(2) allows it.
    check(unsafe {
        libc::mount(
            source.as_ptr(),
            target.as_ptr(),
            kind.map_or(std::ptr::null(), CStr::as_ptr),
            flags,
            std::ptr::null(),
        )
    })
    .map(drop)
}

fn c_path(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

/// The effective user and group.
pub(crate) fn user_and_group() -> (u32, u32) {
    // SAFETY: both calls take nothing and cannot fail.
    unsafe { (libc::geteuid(), libc::getegid()) }
}
