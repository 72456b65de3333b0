//! The system calls that a confined process may make. All others are answered with EPERM; those of another architecture end
//! the process.
use super::Sockets;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};
use std::collections::BTreeMap;

/// What every process needs: memory, threads, time, waiting, and descriptors that it has. Files are opened as far as Landlock
/// lets it.
const ALWAYS: &[libc::c_long] = &[
    // memory
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_msync,
    // threads
    libc::SYS_clone3, // see `no_clone3`
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_getpid,
    libc::SYS_getrlimit,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_prctl,
    libc::SYS_prlimit64,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_wait4,
    // signals
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sigaltstack,
    // time and chance
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_gettimeofday,
    libc::SYS_nanosleep,
    libc::SYS_uname,
    // waiting
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_ppoll,
    // descriptors
    libc::SYS_close,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_fallocate,
    libc::SYS_fcntl,
    libc::SYS_fdatasync,
    libc::SYS_flock,
    libc::SYS_fstat,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_ioctl,
    libc::SYS_lseek,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    // files, as far as Landlock lets it
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_readlinkat,
    libc::SYS_renameat2,
    libc::SYS_statx,
    libc::SYS_unlinkat,
    // sockets that it has
    libc::SYS_accept4,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_recvfrom,
    libc::SYS_recvmmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    libc::SYS_socketpair,
];

/// The older forms of some of these, which not every architecture has.
#[cfg(target_arch = "x86_64")]
const OLDER: &[libc::c_long] = &[
    libc::SYS_access,
    libc::SYS_arch_prctl,
    libc::SYS_dup2,
    libc::SYS_epoll_wait,
    libc::SYS_open,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_rename,
    libc::SYS_stat,
    libc::SYS_time,
    libc::SYS_unlink,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[libc::c_long] = &[];

/// What one needs that opens sockets and moves bytes between them.
const SOCKETS: &[libc::c_long] = &[
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_fstatfs,
    libc::SYS_listen,
    libc::SYS_mkdirat,
    libc::SYS_pipe2,
    libc::SYS_sendmmsg,
    libc::SYS_setpriority, // of threads that others do not wait for
    libc::SYS_splice,
    libc::SYS_statfs,
    libc::SYS_sysinfo,
    libc::SYS_tee,
    libc::SYS_umask,
];

/// What of these asking the kernel for interfaces takes: to name itself, and a socket of this kind alone.
const NETLINK: &[libc::c_long] = &[libc::SYS_bind];

/// Threads come without namespaces of their own: in one of users they would have all capabilities again.
const NAMESPACES: u64 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u64;

/// A rule for the low half of these arguments.
fn rule<const N: usize>(arguments: [(u8, SeccompCmpOp, u64); N]) -> Result<SeccompRule, BackendError> {
    let conditions = arguments
        .into_iter()
        .map(|(number, op, value)| SeccompCondition::new(number, SeccompCmpArgLen::Dword, op, value));
    SeccompRule::new(conditions.collect::<Result<_, _>>()?)
}

/// The C library is told that there is no `clone3`, whose flags lie in memory where no filter sees them: it takes `clone`.
pub(super) fn no_clone3() -> Result<BpfProgram, BackendError> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let rules = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let unknown = SeccompAction::Errno(libc::ENOSYS as u32);
    SeccompFilter::new(rules, SeccompAction::Allow, unknown, arch)?.try_into()
}

/// The filter of a process that opens such sockets.
pub(super) fn filter(sockets: Sockets) -> Result<BpfProgram, BackendError> {
    let more = if sockets == Sockets::Netlink { NETLINK } else { SOCKETS };
    let plain = ALWAYS.iter().chain(OLDER).chain(more);
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = plain.map(|call| (*call, Vec::new())).collect();
    use SeccompCmpOp::{Eq, MaskedEq};
    // Interfaces and routes, and nothing else that is configured by this family.
    let is_netlink =
        rule([(0, Eq, libc::AF_NETLINK as u64), (2, Eq, netlink_sys::protocols::NETLINK_ROUTE as u64)])?;
    let families: &[libc::c_int] = match sockets {
        Sockets::Netlink => &[],
        _ => &[libc::AF_INET, libc::AF_INET6, libc::AF_UNIX],
    };
    let families = families.iter().map(|family| rule([(0, Eq, *family as u64)]));
    let families = families.chain([Ok(is_netlink)]).collect::<Result<_, _>>()?;
    rules.insert(libc::SYS_socket, families);
    rules.insert(libc::SYS_clone, vec![rule([(0, MaskedEq(NAMESPACES), 0)])?]);
    // Signals to nobody else: not to another process of our user, which may be root.
    rules.insert(libc::SYS_tgkill, vec![rule([(0, Eq, u64::from(std::process::id()))])?]);
    if cfg!(target_env = "musl") {
        rules.insert(libc::SYS_tkill, Vec::new()); // its `raise`
    }
    // What injects input into a terminal is no matter of descriptors that it has (CVE-2017-5226).
    // musl's requests are of another type.
    #[allow(clippy::unnecessary_cast)]
    let request = libc::TIOCSTI as u64;
    let harmless = SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, request)?;
    rules.insert(libc::SYS_ioctl, vec![SeccompRule::new(vec![harmless])?]);
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    SeccompFilter::new(rules, refused, SeccompAction::Allow, arch)?.try_into()
}
