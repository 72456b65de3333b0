//! What a process that talks to strangers gives up: a user, capabilities, files, system calls.
use crate::socket::check;
use landlock::{
    ABI, Access as _, AccessFs, CompatLevel, Compatible as _, PathBeneath, PathFd, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetStatus,
};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};
use std::io;
use std::path::{Path, PathBuf};

/// What a process gives up once its sockets listen. Threads that it starts later have given it up too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Confinement {
    /// The user to become, if the process is root's.
    pub user: Option<String>,
    /// Whether it keeps everything else: for tracing it, and for tests that share a process.
    pub keep_everything: bool,
}

/// What could be given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confined {
    /// Another user.
    pub user: bool,
    /// All capabilities.
    pub capabilities: bool,
    /// All files but those that names are looked up in, and the configuration, to read; the
    /// directory for temporary files, to write.
    pub files: bool,
    /// System calls that start programs, look into other processes, or change the system.
    pub calls: bool,
}

/// Why a process could not be confined.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    /// There is no such user.
    #[error("there is no user `{0}`: `useradd --system --no-create-home {0}` makes one")]
    NoUser(String),
    /// The kernel says no.
    #[error("cannot give up {what}: {reason}; `--keep-privileges` does without")]
    Kernel {
        /// What was to be given up.
        what: &'static str,
        /// Why it could not be.
        reason: String,
    },
}

/// System calls that a relay has no use for, and that whoever breaks into one has.
const REFUSED: [libc::c_long; 36] = [
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_open_by_handle_at,
    libc::SYS_acct,
];

impl Confinement {
    /// Confines this thread, and those that it starts. `readable` is what must still be read.
    ///
    /// # Errors
    /// What was asked for cannot be had. What the kernel does not know is left out, and reported.
    pub fn apply(&self, readable: &[PathBuf]) -> Result<Confined, ConfineError> {
        let refused = |what| move |reason: String| ConfineError::Kernel { what, reason };
        let mut confined = Confined { user: false, capabilities: false, files: false, calls: false };
        if let Some(name) = &self.user {
            let ids = user_ids(name).ok_or_else(|| ConfineError::NoUser(name.clone()))?;
            become_user(ids).map_err(|error| refused("being root")(error.to_string()))?;
            confined.user = true;
        }
        if self.keep_everything {
            return Ok(confined);
        }
        drop_capabilities().map_err(|error| refused("capabilities")(error.to_string()))?;
        confined.capabilities = true;
        confined.files = restrict_files(readable).map_err(|error| refused("files")(error.to_string()))?;
        let filter = refusals().map_err(|error| refused("system calls")(error.to_string()))?;
        confined.calls = seccompiler::apply_filter(&filter).is_ok();
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

fn restrict_files(readable: &[PathBuf]) -> Result<bool, landlock::RulesetError> {
    let abi = ABI::V5;
    let read = AccessFs::from_read(abi) & !AccessFs::Execute;
    // Names are looked up by a library that loads others, by what stands in /etc.
    let system = ["/etc", "/lib", "/lib64", "/usr/lib", "/usr/share", "/run/systemd/resolve", "/proc"];
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))?
        .create()?;
    for path in system.iter().map(Path::new).chain(readable.iter().map(PathBuf::as_path)) {
        if let Ok(open) = PathFd::new(path) {
            let access = if path.is_dir() { read } else { read & AccessFs::from_file(abi) };
            rules = rules.add_rule(PathBeneath::new(open, access))?;
        }
    }
    if let Ok(spool) = PathFd::new(std::env::temp_dir()) {
        rules = rules.add_rule(PathBeneath::new(spool, AccessFs::from_all(abi) & !AccessFs::Execute))?;
    }
    if let Ok(null) = PathFd::new("/dev/null") {
        rules = rules.add_rule(PathBeneath::new(null, AccessFs::ReadFile | AccessFs::WriteFile))?;
    }
    Ok(rules.restrict_self()?.ruleset != RulesetStatus::NotEnforced)
}

fn refusals() -> Result<BpfProgram, seccompiler::BackendError> {
    let rules = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let denied = SeccompAction::Errno(libc::EPERM as u32);
    SeccompFilter::new(rules, SeccompAction::Allow, denied, arch)?.try_into()
}

/// The user and group of a name in /etc/passwd.
fn user_ids(name: &str) -> Option<(u32, u32)> {
    let table = std::fs::read_to_string("/etc/passwd").ok()?;
    let fields = table.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let entry = fields.into_iter().find(|fields| fields.first() == Some(&name))?;
    Some((entry.get(2)?.parse().ok()?, entry.get(3)?.parse().ok()?))
}
