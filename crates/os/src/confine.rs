//! What a process that talks to strangers gives up: a user, capabilities, files, system calls.
mod system_calls;

use crate::socket::check;
use landlock::{
    ABI, Access as _, AccessFs, CompatLevel, Compatible as _, PathBeneath, PathFd, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetStatus,
};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs};
use std::io;
use std::path::{Path, PathBuf};
use system_calls::{filter, no_clone3};

/// What a process gives up once it is set up. Threads that it starts later have given it up too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Confinement {
    /// The user to become, if the process is root's.
    pub user: Option<String>,
    /// How much else.
    pub extent: Extent,
}

/// How much a process gives up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extent {
    /// All that it does not need; a kernel that cannot take it away is an error.
    #[default]
    Whole,
    /// What this kernel can take away.
    Possible,
    /// Nothing: for tracing it, and for tests that share a process.
    Nothing,
}

impl Extent {
    /// What two flags say: to keep everything, and to do without what the kernel does not know.
    pub fn of(keeps_everything: bool, if_possible: bool) -> Extent {
        match (keeps_everything, if_possible) {
            (true, _) => Extent::Nothing,
            (false, true) => Extent::Possible,
            (false, false) => Extent::Whole,
        }
    }
}

/// What a process needs once it is set up.
#[derive(Clone, Copy, Debug)]
pub struct Needs<'a> {
    /// Files and directories that it reads.
    pub readable: &'a [PathBuf],
    /// Directories in which it makes, writes and removes files.
    pub writable: &'a [PathBuf],
    /// Which sockets it opens.
    pub sockets: Sockets,
}

/// Which sockets a process opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sockets {
    /// None but those that ask the kernel for interfaces and addresses: packets come by descriptors that it has.
    Netlink,
    /// Any, and names are looked up by the C library.
    Any,
    /// Any, and names are looked up by the process itself, as /etc/hosts and /etc/resolv.conf say.
    ByAddress,
}

/// What could be given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confined {
    /// Another user.
    pub user: bool,
    /// All capabilities.
    pub capabilities: bool,
    /// All files but those that are needed.
    pub files: bool,
    /// All system calls but those that are needed.
    pub calls: bool,
}

/// Why a process could not be confined.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    /// There is no such user.
    #[error("there is no user `{0}`: `useradd --system --no-create-home {0}` makes one")]
    NoUser(String),
    /// The kernel says no.
    #[error(
        "cannot give up {what}: {reason}; `--confine-if-possible` gives up what this kernel can take away, `--keep-privileges` nothing"
    )]
    Kernel {
        /// What was to be given up.
        what: &'static str,
        /// Why it could not be.
        reason: String,
    },
}

impl Confinement {
    /// Confines this thread, and those that it starts. System calls are confined for all threads of the process.
    ///
    /// # Errors
    /// What was asked for cannot be had.
    pub fn apply(&self, needs: &Needs<'_>) -> Result<Confined, ConfineError> {
        let refused = |what| move |reason: String| ConfineError::Kernel { what, reason };
        let mut confined = Confined { user: false, capabilities: false, files: false, calls: false };
        if let Some(name) = &self.user {
            let ids = user_ids(name).ok_or_else(|| ConfineError::NoUser(name.clone()))?;
            become_user(ids).map_err(|error| refused("being root")(error.to_string()))?;
            confined.user = true;
        }
        if self.extent == Extent::Nothing {
            return Ok(confined);
        }
        drop_capabilities().map_err(|error| refused("capabilities")(error.to_string()))?;
        confined.capabilities = true;
        confined.files = restrict_files(needs).map_err(|error| refused("files")(error.to_string()))?;
        let filters = no_clone3().and_then(|first| Ok([first, filter(needs.sockets)?]));
        let filters = filters.map_err(|error| refused("system calls")(error.to_string()))?;
        let filtered = filters.iter().try_for_each(|filter| seccompiler::apply_filter_all_threads(filter));
        confined.calls = filtered.is_ok();
        if self.extent == Extent::Whole {
            if !confined.files {
                return Err(refused("files")("this kernel has no Landlock".into()));
            }
            filtered.map_err(|error| refused("system calls")(error.to_string()))?;
        }
        Ok(confined)
    }
}

/// Becomes another user, without root's or any other groups.
fn become_user((user, group): (u32, u32)) -> io::Result<()> {
    // rustix changes the calling thread alone, the C library all of them.
    // SAFETY: no groups are given, so none are read.
    check(unsafe { libc::setgroups(0, std::ptr::null()) })?;
    // SAFETY: these take integers.
    check(unsafe { libc::setresgid(group, group, group) })?;
    // SAFETY: as above.
    check(unsafe { libc::setresuid(user, user, user) }).map(drop)
}

/// Gives up all capabilities of this thread, for good.
fn drop_capabilities() -> io::Result<()> {
    // So that no program could give them back either.
    set_no_new_privs(true)?;
    let none = CapabilitySet::empty();
    Ok(set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?)
}

/// Gives up all capabilities of this thread but that to change the network, for good.
///
/// # Errors
/// None are known.
pub fn keep_network_administration() -> io::Result<()> {
    set_no_new_privs(true)?;
    let kept = CapabilitySet::NET_ADMIN;
    Ok(set_capabilities(
        None,
        CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() },
    )?)
}

fn restrict_files(needs: &Needs<'_>) -> Result<bool, landlock::RulesetError> {
    let abi = ABI::V5;
    let all = AccessFs::from_all(abi) & !AccessFs::Execute;
    let read = AccessFs::from_read(abi) & !AccessFs::Execute;
    // Names are looked up by a library that loads others, by what stands in /etc.
    let system: &[&str] = match needs.sockets {
        Sockets::Any => {
            &["/etc", "/lib", "/lib64", "/usr/lib", "/usr/share", "/run/systemd/resolve", "/proc"]
        }
        Sockets::ByAddress => &[
            "/etc/hosts",
            "/etc/resolv.conf",
            "/run/systemd/resolve",
            "/proc/self",
            "/proc/sys/net",
            "/sys/devices/system/cpu/online",
        ],
        Sockets::Netlink => &["/proc/sys/net"],
    };
    let system = system.iter().map(|path| (Path::new(path), read));
    let readable = needs.readable.iter().map(|path| (path.as_path(), read));
    let writable = needs.writable.iter().map(|path| (path.as_path(), all));
    let null = (Path::new("/dev/null"), AccessFs::ReadFile | AccessFs::WriteFile);
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))?
        .create()?;
    for (path, access) in system.chain(readable).chain(writable).chain([null]) {
        if let Ok(open) = PathFd::new(path) {
            let access = if path.is_dir() { access } else { access & AccessFs::from_file(abi) };
            rules = rules.add_rule(PathBeneath::new(open, access))?;
        }
    }
    Ok(rules.restrict_self()?.ruleset != RulesetStatus::NotEnforced)
}

/// The user and group of a name in /etc/passwd.
fn user_ids(name: &str) -> Option<(u32, u32)> {
    let table = std::fs::read_to_string("/etc/passwd").ok()?;
    let fields = table.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let entry = fields.into_iter().find(|fields| fields.first() == Some(&name))?;
    Some((entry.get(2)?.parse().ok()?, entry.get(3)?.parse().ok()?))
}
