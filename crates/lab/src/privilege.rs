use crate::error::LabError;
use shorthaul_os::Errno;
use shorthaul_os::namespace::{self, Kind};
use std::fs;
use std::io;

/// By what right this process makes namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privilege {
    /// It has the capabilities already.
    Capable,
    /// It is root in a user namespace of its own.
    UserNamespace,
}

const CAP_NET_ADMIN: u32 = 12;
const CAP_SYS_ADMIN: u32 = 21;

impl Privilege {
    /// Makes sure that this process may make namespaces: if it has not the capabilities
    /// `CAP_NET_ADMIN` and `CAP_SYS_ADMIN`, by moving it into a user namespace of its own.
    ///
    /// The kernel allows that only to a process with a single thread, so an unprivileged program should
    /// call this first thing in `main`. [`Lab::start`](crate::Lab::start) calls it too.
    ///
    /// # Errors
    /// [`LabError::Missing`] says what the machine forbids, and how it can be allowed.
    pub fn obtain() -> Result<Self, LabError> {
        if has_capabilities() {
            return Ok(Privilege::Capable);
        }
        let (user, group) = namespace::user_and_group();
        namespace::unshare(&[Kind::User]).map_err(|error| why_no_user_namespace(&error))?;
        let map = |file: &str, text: String| {
            fs::write(format!("/proc/self/{file}"), text).map_err(|error| LabError::Missing {
                need: "a user namespace",
                problem: format!("/proc/self/{file} cannot be written: {error}"),
                remedy: "run as root".into(),
            })
        };
        // An unprivileged process must give up setgroups(2) before it may map its group.
        map("setgroups", "deny".into())?;
        map("uid_map", format!("0 {user} 1"))?;
        map("gid_map", format!("0 {group} 1"))?;
        Ok(Privilege::UserNamespace)
    }
}

/// Checks that emulated links can be made.
pub(crate) fn check_tun() -> Result<(), LabError> {
    const TUN: &str = "/dev/net/tun";
    let Err(error) = fs::File::options().read(true).write(true).open(TUN) else { return Ok(()) };
    let (problem, remedy) = match error.kind() {
        io::ErrorKind::NotFound => {
            (format!("{TUN} does not exist"), "load the kernel module `tun` (modprobe tun)".into())
        }
        io::ErrorKind::PermissionDenied => (
            format!("{TUN} may not be opened by this user"),
            format!(
                "allow it (as root: chmod 0666 {TUN}, which is how most distributions ship it) or run as root"
            ),
        ),
        _ => {
            (format!("{TUN} cannot be opened: {error}"), "load the kernel module `tun` (modprobe tun)".into())
        }
    };
    Err(LabError::Missing { need: "TUN devices", problem, remedy })
}

fn has_capabilities() -> bool {
    let needed = 1u64 << CAP_NET_ADMIN | 1 << CAP_SYS_ADMIN;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).is_some_and(|held| held & needed == needed)
}

/// The settings by which Linux distributions forbid user namespaces: file, forbidding value, remedy.
const SWITCHES: [(&str, &str, &str); 3] = [
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "sysctl kernel.apparmor_restrict_unprivileged_userns=0",
    ),
    ("/proc/sys/kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1"),
    ("/proc/sys/user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=15000"),
];

fn why_no_user_namespace(error: &io::Error) -> LabError {
    const NEED: &str = "to be root, or root in a user namespace";
    let missing = |problem, remedy: String| LabError::Missing { need: NEED, problem, remedy };
    if Errno::from_io_error(error) == Some(Errno::INVAL) {
        return missing(
            "this program is not root and already has several threads, so that it cannot move into one"
                .into(),
            "run as root, or call `Privilege::obtain` at the start of `main`".into(),
        );
    }
    for (file, forbids, remedy) in SWITCHES {
        if fs::read_to_string(file).is_ok_and(|value| value.trim() == forbids) {
            return missing(format!("{file} is {forbids}"), format!("run as root, or as root do `{remedy}`"));
        }
    }
    missing(
        format!("the kernel refuses a user namespace: {error}"),
        "run as root (inside a container, also with --privileged or --cap-add=NET_ADMIN,SYS_ADMIN)".into(),
    )
}

/// Says why a namespace could not be made although this process seemed to have the right.
pub(crate) fn why_no_namespace(error: &io::Error) -> LabError {
    let restricted = fs::read_to_string(SWITCHES[0].0).is_ok_and(|value| value.trim() == SWITCHES[0].1);
    let (problem, remedy) = match Errno::from_io_error(error) {
        Some(Errno::PERM) if restricted => {
            (format!("{} is 1", SWITCHES[0].0), format!("run as root, or as root do `{}`", SWITCHES[0].2))
        }
        Some(Errno::NOSPC) => (
            "the limit of network or mount namespaces is reached".into(),
            "raise user.max_net_namespaces and user.max_mnt_namespaces (sysctl)".into(),
        ),
        _ => (
            format!("the kernel refuses one: {error}"),
            "run as root, outside of restricted containers".into(),
        ),
    };
    LabError::Missing { need: "network and mount namespaces", problem, remedy }
}
