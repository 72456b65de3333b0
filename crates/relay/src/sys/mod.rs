//! System calls behind safe functions: the only unsafe code of this crate.
pub mod packets;
pub mod processors;
pub mod signals;
pub mod window;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// A pipe of which only the kernel sees the bytes.
#[derive(Debug)]
pub struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
    size: usize,
}

impl Pipe {
    /// A pipe that holds up to `size` bytes, or what the kernel lets it hold.
    pub fn new(size: usize) -> io::Result<Pipe> {
        let mut ends = [0; 2];
        // SAFETY: the array has room for both descriptors.
        check(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) })?;
        // SAFETY: both descriptors are new and nobody else's.
        let (read, write) = unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) };
        let wanted = libc::c_int::try_from(size).unwrap_or(libc::c_int::MAX);
        // SAFETY: F_SETPIPE_SZ and F_GETPIPE_SZ take and return integers.
        let size = check(unsafe { libc::fcntl(write.as_raw_fd(), libc::F_SETPIPE_SZ, wanted) })
            // SAFETY: as above.
            .or_else(|_| check(unsafe { libc::fcntl(write.as_raw_fd(), libc::F_GETPIPE_SZ) }))?;
        Ok(Pipe { read, write, size: usize::try_from(size).unwrap_or(65_536) })
    }

    /// What it holds.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Moves up to `most` bytes of what there is of `from` into the empty pipe; 0 at the end. It does
    /// not wait for more.
    pub fn fill(&self, from: &impl AsFd, most: usize) -> io::Result<usize> {
        splice(from, &self.write, self.size.min(most))
    }

    /// Moves up to `bytes` out of the pipe into `to`, as many as there is room for.
    pub fn empty(&self, to: &impl AsFd, bytes: usize) -> io::Result<usize> {
        splice(&self.read, to, bytes)
    }
}

fn splice(from: &impl AsFd, to: &impl AsFd, bytes: usize) -> io::Result<usize> {
    let flags = libc::SPLICE_F_MOVE | libc::SPLICE_F_NONBLOCK;
    loop {
        let (from, to) = (from.as_fd().as_raw_fd(), to.as_fd().as_raw_fd());
        // SAFETY: no offsets are given, and the descriptors live as long as the call.
        let moved =
            unsafe { libc::splice(from, std::ptr::null_mut(), to, std::ptr::null_mut(), bytes, flags) };
        match usize::try_from(moved) {
            Ok(moved) => return Ok(moved),
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}

/// Gives what was freed back to the system, where the C library would keep it for later: thousands of
/// sessions that ended together leave megabytes. Takes about a millisecond.
pub fn give_back_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes no memory from anybody that is in use, and may be called by any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Ends a connection with a reset at once, whoever else has its socket: what RFC 9293 calls ABORT.
pub fn abort(socket: &impl AsFd) -> io::Result<()> {
    // SAFETY: all zeros is a valid sockaddr, of the family AF_UNSPEC.
    let nowhere: libc::sockaddr = unsafe { std::mem::zeroed() };
    let len = std::mem::size_of::<libc::sockaddr>() as libc::socklen_t;
    // SAFETY: the address is valid for reading, and `len` is its size.
    check(unsafe { libc::connect(socket.as_fd().as_raw_fd(), &raw const nowhere, len) }).map(drop)
}

/// Whether the peer has closed or reset.
pub fn has_ended(socket: &impl AsFd) -> io::Result<bool> {
    let mut entry = libc::pollfd { fd: socket.as_fd().as_raw_fd(), events: libc::POLLRDHUP, revents: 0 };
    // SAFETY: one entry is given, and there is one.
    check(unsafe { libc::poll(&raw mut entry, 1, 0) }).map(|ready| ready > 0)
}

/// Where a connection was going before a rule of the firewall redirected it here (`REDIRECT`).
pub fn original_destination(socket: &impl AsFd) -> io::Result<SocketAddr> {
    const SO_ORIGINAL_DST: libc::c_int = 80; // linux/netfilter_ipv4.h and netfilter_ipv6/ip6_tables.h
    // Both addresses are at the beginning of one of these.
    // SAFETY: all zeros is a valid sockaddr_in6.
    let mut address: libc::sockaddr_in6 = unsafe { std::mem::zeroed() };
    let mut ask = |level| {
        let mut len = std::mem::size_of::<libc::sockaddr_in6>() as libc::socklen_t;
        let fd = socket.as_fd().as_raw_fd();
        // SAFETY: the kernel writes at most `len` bytes, which is the size of what it writes to.
        check(unsafe {
            libc::getsockopt(fd, level, SO_ORIGINAL_DST, (&raw mut address).cast(), &raw mut len)
        })
    };
    ask(libc::IPPROTO_IP).or_else(|_| ask(libc::IPPROTO_IPV6))?;
    let port = u16::from_be(address.sin6_port);
    if libc::c_int::from(address.sin6_family) == libc::AF_INET6 {
        return Ok(SocketAddr::new(address.sin6_addr.s6_addr.into(), port));
    }
    // `sockaddr_in` has its address where `sockaddr_in6` has the flow label.
    Ok(SocketAddr::new(address.sin6_flowinfo.to_ne_bytes().into(), port))
}

/// Lets this process have as many descriptors as it may; how many that is.
pub fn raise_descriptor_limit(wanted: u64) -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a valid rlimit.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) })?;
    if limit.rlim_cur >= wanted {
        return Ok(limit.rlim_cur);
    }
    // More than the hard limit takes a privilege; without it, the hard limit has to do.
    for most in [wanted.max(limit.rlim_max), limit.rlim_max] {
        let higher = libc::rlimit { rlim_cur: most.min(wanted.max(limit.rlim_max)), rlim_max: most };
        // SAFETY: as above.
        if check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const higher) }).is_ok() {
            return Ok(higher.rlim_cur);
        }
    }
    Ok(limit.rlim_cur)
}

/// Becomes another user, without root's or any other groups.
pub fn become_user((user, group): (u32, u32)) -> io::Result<()> {
    // SAFETY: no groups are given, so none are read.
    check(unsafe { libc::setgroups(0, std::ptr::null()) })?;
    // SAFETY: these take integers.
    check(unsafe { libc::setresgid(group, group, group) })?;
    // SAFETY: as above.
    check(unsafe { libc::setresuid(user, user, user) }).map(drop)
}

/// Gives up all capabilities of this thread, for good.
pub fn drop_capabilities() -> io::Result<()> {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: libc::c_int,
    }
    // So that no program could give them back either.
    // SAFETY: prctl with PR_SET_NO_NEW_PRIVS takes integers.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })?;
    let header = Header { version: 0x2008_0522, pid: 0 }; // _LINUX_CAPABILITY_VERSION_3, this thread
    let nothing = [0u32; 6];
    // SAFETY: with this version the kernel reads a header and two triples of u32.
    let result = unsafe { libc::syscall(libc::SYS_capset, &raw const header, nothing.as_ptr()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A socket that whoever started this process handed over.
pub fn adopt(descriptor: std::os::fd::RawFd) -> OwnedFd {
    // SAFETY: the protocol of systemd says that it is open and this process's own, and it is asked for once.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

/// Bytes that could be read from a socket now.
pub fn readable(socket: &impl AsFd) -> io::Result<usize> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: FIONREAD writes one int through the pointer.
    check(unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::FIONREAD, &raw mut bytes) })?;
    Ok(usize::try_from(bytes).unwrap_or(0))
}

/// What the kernel says of a TCP connection (`struct tcp_info`).
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpInfo {
    /// The smoothed round-trip time.
    pub rtt: Duration,
    /// The smallest round-trip time.
    pub min_rtt: Duration,
    /// Segments with data that were sent.
    pub data_segments_out: u32,
    /// Segments that were sent again.
    pub retransmits: u32,
    /// Segments that were reported as duplicates, so sent again in vain.
    pub needless: u32,
    /// The latest delivery rate in bytes per second.
    pub delivery_rate: u64,
}

/// Asks the kernel; fields that it does not have are zero.
pub fn tcp_info(socket: &impl AsFd) -> io::Result<TcpInfo> {
    let mut bytes = [0u8; 512];
    let mut len = bytes.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, which is the size of the buffer.
    check(unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            bytes.as_mut_ptr().cast(),
            &raw mut len,
        )
    })?;
    let info = &bytes[..len as usize];
    let u32_at =
        |at: usize| info.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |b| u32::from_ne_bytes(*b));
    let u64_at =
        |at: usize| info.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |b| u64::from_ne_bytes(*b));
    let micros = |at| Duration::from_micros(u32_at(at).into());
    Ok(TcpInfo {
        rtt: micros(68),
        retransmits: u32_at(100),
        min_rtt: micros(148),
        data_segments_out: u32_at(156),
        delivery_rate: u64_at(160),
        needless: u32_at(216),
    })
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
