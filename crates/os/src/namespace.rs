//! `namespaces(7)`, and the mounts inside them.
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_change, unmount as umount,
};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// What a file system that needs no device is mounted with.
pub(crate) const VIRTUAL: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV).union(MountFlags::NOEXEC);

/// The kinds of namespace that a lab uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Interfaces, addresses and routes.
    Net,
    /// Mounts.
    Mount,
    /// Process ids.
    Pid,
    /// Users.
    User,
}

/// Gives the calling thread new namespaces of the given kinds (`unshare(2)`). A new PID namespace is
/// that of its children. A new user namespace needs a process with no other thread.
pub fn unshare(kinds: &[Kind]) -> io::Result<()> {
    let flag = |kind| match kind {
        Kind::Net => UnshareFlags::NEWNET,
        Kind::Mount => UnshareFlags::NEWNS,
        Kind::Pid => UnshareFlags::NEWPID,
        Kind::User => UnshareFlags::NEWUSER,
    };
    without_files(kinds.iter().fold(UnshareFlags::empty(), |flags, kind| flags | flag(*kind)))
}

/// Stops sharing working directory, root and umask with the other threads of the process, without
/// which a thread cannot enter another mount namespace.
pub fn unshare_working_directory() -> io::Result<()> {
    without_files(UnshareFlags::FS)
}

/// What is unshared is anything but the table of descriptors.
pub(crate) fn without_files(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: only UnshareFlags::FILES makes descriptors mean something else in another thread.
    Ok(unsafe { unshare_unsafe(flags.difference(UnshareFlags::FILES)) }?)
}

/// Moves the calling thread into a namespace (`setns(2)`); for [`Kind::Pid`], its later children.
pub fn enter(namespace: &OwnedFd, kind: Kind) -> io::Result<()> {
    let kind = match kind {
        Kind::Net => LinkNameSpaceType::Network,
        Kind::Mount => LinkNameSpaceType::Mount,
        Kind::Pid => LinkNameSpaceType::ProcessID,
        Kind::User => LinkNameSpaceType::User,
    };
    Ok(move_into_link_name_space(namespace.as_fd(), Some(kind))?)
}

/// Holds on to a namespace of the calling thread.
pub fn current(kind: Kind) -> io::Result<OwnedFd> {
    let name = match kind {
        Kind::Net => "net",
        Kind::Mount => "mnt",
        Kind::Pid => "pid",
        Kind::User => "user",
    };
    File::open(format!("/proc/thread-self/ns/{name}")).map(OwnedFd::from)
}

/// Mounts made from now on in the calling thread's mount namespace stay in it.
pub fn make_mounts_private() -> io::Result<()> {
    Ok(mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?)
}

/// Makes `target` show the file `source`.
pub fn bind(source: &Path, target: &Path) -> io::Result<()> {
    Ok(mount_bind(source, target)?)
}

/// Mounts a file system that needs no device: `tmpfs`, `sysfs`, `proc`.
pub fn mount_new(kind: &CStr, target: &Path) -> io::Result<()> {
    Ok(mount(kind, target, kind, VIRTUAL, None)?)
}

/// Takes the topmost mount off `target`; what still uses it keeps it.
pub fn unmount(target: &Path) -> io::Result<()> {
    Ok(umount(target, UnmountFlags::DETACH)?)
}

/// The effective user and group.
pub fn user_and_group() -> (u32, u32) {
    (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
}
