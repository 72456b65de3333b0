//! `rtnetlink(7)` in the calling thread's network namespace, as much of it as routing into a device needs.
use super::{check, check_len};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const HEADER: usize = 16;
const IFLA_INET6_ADDR_GEN_MODE: u16 = 8;
const IN6_ADDR_GEN_MODE_NONE: u8 = 1;

/// A request for the kernel, as it is written.
struct Request {
    kind: u16,
    flags: u16,
    body: Vec<u8>,
}

impl Request {
    /// A request that makes something, which must not be there yet.
    fn create(kind: u16) -> Self {
        Request { kind, flags: (libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16, body: Vec::new() }
    }

    /// A request that changes something.
    fn change(kind: u16) -> Self {
        Request { kind, flags: 0, body: Vec::new() }
    }

    /// Appends the structure that follows the header.
    fn fixed(mut self, bytes: &[u8]) -> Self {
        self.body.extend_from_slice(bytes);
        self
    }

    /// Appends `struct ifinfomsg`: family, type, index, flags, and which flags to change.
    fn interface(self, index: u32, flags: u32) -> Self {
        self.fixed(&[0; 4])
            .fixed(&index.to_ne_bytes())
            .fixed(&flags.to_ne_bytes())
            .fixed(&flags.to_ne_bytes())
    }

    /// Appends an attribute.
    fn attribute(self, kind: u16, value: &[u8]) -> Self {
        self.nested(kind, |r| r.fixed(value))
    }

    /// Appends an attribute that `inner` fills.
    fn nested(mut self, kind: u16, inner: impl FnOnce(Self) -> Self) -> Self {
        let start = self.body.len();
        self.body.extend_from_slice(&[0, 0]);
        self.body.extend_from_slice(&kind.to_ne_bytes());
        let mut request = inner(self);
        let len = (request.body.len() - start) as u16; // the requests below are a few hundred bytes long
        request.body[start..start + 2].copy_from_slice(&len.to_ne_bytes());
        request.body.resize(request.body.len().next_multiple_of(4), 0);
        request
    }

    fn text(self, kind: u16, value: &str) -> Self {
        self.attribute(kind, &[value.as_bytes(), &[0]].concat())
    }

    fn number(self, kind: u16, value: u32) -> Self {
        self.attribute(kind, &value.to_ne_bytes())
    }

    fn message(&self) -> Vec<u8> {
        let flags = self.flags | (libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16;
        let mut message = Vec::with_capacity(HEADER + self.body.len());
        message.extend_from_slice(&((HEADER + self.body.len()) as u32).to_ne_bytes());
        message.extend_from_slice(&self.kind.to_ne_bytes());
        message.extend_from_slice(&flags.to_ne_bytes());
        message.extend_from_slice(&[0; 8]); // sequence number and sender: we await every answer
        message.extend_from_slice(&self.body);
        message
    }
}

/// IPv4 or IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    const fn number(self) -> u8 {
        match self {
            Family::V4 => libc::AF_INET as u8,
            Family::V6 => libc::AF_INET6 as u8,
        }
    }
}

/// A rule of policy routing: packets of `protocol` that came in by `interface` look into `table`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The address family.
    pub family: Family,
    /// The interface that the packets came in by.
    pub interface: String,
    /// The IP protocol number.
    pub protocol: u8,
    /// The routing table to look into.
    pub table: u32,
    /// When it is asked.
    pub priority: RulePriority,
}

/// The priority of a rule: those with smaller numbers are asked first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RulePriority(pub u32);

const FR_ACT_TO_TBL: u8 = 1;
const FRA_IIFNAME: u16 = 3;
const FRA_PRIORITY: u16 = 6;
const FRA_TABLE: u16 = 15;
const FRA_IP_PROTO: u16 = 22;

/// Appends `struct fib_rule_hdr`: family, lengths, tos, table, two reserved, action, flags.
fn rule_request(request: Request, family: Family) -> Request {
    request.fixed(&[family.number(), 0, 0, 0, libc::RT_TABLE_UNSPEC, 0, 0, FR_ACT_TO_TBL]).fixed(&[0; 4])
}

/// A connection to the kernel's routing tables and interfaces.
pub struct Netlink(OwnedFd);

impl Netlink {
    /// A connection to those of the calling thread's network namespace.
    pub fn open() -> io::Result<Self> {
        // SAFETY: socket takes numbers and returns a descriptor that nobody else owns.
        let fd = check(unsafe {
            libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_ROUTE)
        })?;
        // SAFETY: see above.
        Ok(Netlink(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Switches an interface on.
    pub fn set_up(&self, index: u32) -> io::Result<()> {
        self.ask(&Request::change(libc::RTM_NEWLINK).interface(index, libc::IFF_UP as u32))
    }

    /// Sets the MTU, in bytes.
    pub fn set_mtu(&self, index: u32, mtu: u32) -> io::Result<()> {
        self.ask(&Request::change(libc::RTM_NEWLINK).interface(index, 0).number(libc::IFLA_MTU, mtu))
    }

    /// Sets how many packets may wait to be sent.
    pub fn set_queue_length(&self, index: u32, packets: u32) -> io::Result<()> {
        self.ask(&Request::change(libc::RTM_NEWLINK).interface(index, 0).number(libc::IFLA_TXQLEN, packets))
    }

    /// Wants no IPv6 address to come of itself. Fails where the kernel has no IPv6.
    pub fn set_no_automatic_address(&self, index: u32) -> io::Result<()> {
        let request =
            Request::change(libc::RTM_NEWLINK).interface(index, 0).nested(libc::IFLA_AF_SPEC, |r| {
                r.nested(libc::AF_INET6 as u16, |r| {
                    r.attribute(IFLA_INET6_ADDR_GEN_MODE, &[IN6_ADDR_GEN_MODE_NONE])
                })
            });
        self.ask(&request)
    }

    /// Sends everything that looks into `table` out by the interface `index`.
    pub fn add_default_route(&self, family: Family, table: u32, index: u32) -> io::Result<()> {
        // struct rtmsg: family, destination and source length, tos, table, protocol, scope, type, flags
        let request = Request::create(libc::RTM_NEWROUTE)
            .fixed(&[family.number(), 0, 0, 0, libc::RT_TABLE_UNSPEC])
            .fixed(&[libc::RTPROT_STATIC, libc::RT_SCOPE_UNIVERSE, libc::RTN_UNICAST])
            .fixed(&[0; 4])
            .number(libc::RTA_TABLE, table)
            .number(libc::RTA_OIF, index);
        self.ask(&request)
    }

    /// Makes packets of `rule` look into its table before any other.
    pub fn add_rule(&self, rule: &Rule) -> io::Result<()> {
        let request = rule_request(Request::create(libc::RTM_NEWRULE), rule.family)
            .text(FRA_IIFNAME, &rule.interface)
            .number(FRA_PRIORITY, rule.priority.0)
            .number(FRA_TABLE, rule.table)
            .attribute(FRA_IP_PROTO, &[rule.protocol]);
        self.ask(&request)
    }

    /// Takes back all rules of this priority that look into `table`, whoever made them.
    pub fn remove_rules(&self, family: Family, RulePriority(priority): RulePriority, table: u32) {
        let any = rule_request(Request::change(libc::RTM_DELRULE), family)
            .number(FRA_PRIORITY, priority)
            .number(FRA_TABLE, table);
        // Each request removes one; after the last one, there is none to be found.
        while self.ask(&any).is_ok() {}
    }

    fn ask(&self, request: &Request) -> io::Result<()> {
        let message = request.message();
        // SAFETY: the pointer and length describe `message`.
        check_len(unsafe { libc::send(self.0.as_raw_fd(), message.as_ptr().cast(), message.len(), 0) })?;
        let mut answer = [0; 4096];
        // SAFETY: the pointer and length describe `answer`.
        let len = check_len(unsafe {
            libc::recv(self.0.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), 0)
        })?;
        // Behind the header, struct nlmsgerr begins with an errno, negated, or zero.
        match answer[..len].get(HEADER..).and_then(|rest| rest.first_chunk()) {
            Some(code) => match i32::from_ne_bytes(*code) {
                0 => Ok(()),
                code => Err(io::Error::from_raw_os_error(-code)),
            },
            None => Err(io::Error::other("the kernel's answer over netlink is cut off")),
        }
    }
}

/// The index of an interface in the calling thread's network namespace.
pub fn interface_index(name: &str) -> io::Result<u32> {
    let name = std::ffi::CString::new(name)?;
    // SAFETY: the name is a terminated string.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

/// The largest packet, in bytes, that an interface in the calling thread's network namespace takes.
pub fn interface_mtu(name: &str) -> io::Result<u32> {
    // SAFETY: the call takes no pointers.
    let fd = check(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the descriptor is new and nobody else's.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: all zeros is a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the interface name is too long"));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    // SAFETY: SIOCGIFMTU reads the name and writes the MTU of one ifreq through the pointer.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU, &raw mut request) })?;
    // SAFETY: the call that succeeded has filled in this member.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu };
    u32::try_from(mtu).map_err(io::Error::other)
}

/// The names of the interfaces in the calling thread's network namespace.
pub fn interface_names() -> Vec<String> {
    let mut names = Vec::new();
    // SAFETY: if_nameindex returns null or an array that is ours until it is freed below.
    let list = unsafe { libc::if_nameindex() };
    let mut entry = list;
    // SAFETY: the array ends with an entry whose index is zero; names are terminated strings.
    while !entry.is_null() && unsafe { (*entry).if_index } != 0 {
        // SAFETY: as above.
        names.push(unsafe { std::ffi::CStr::from_ptr((*entry).if_name) }.to_string_lossy().into_owned());
        // SAFETY: this was not the last entry.
        entry = unsafe { entry.add(1) };
    }
    if !list.is_null() {
        // SAFETY: it came from if_nameindex and is not used any more.
        unsafe { libc::if_freenameindex(list) };
    }
    names
}
