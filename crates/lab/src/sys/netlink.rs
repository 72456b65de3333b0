//! `rtnetlink(7)` in the calling thread's network namespace, as much of it as a lab needs.
use super::{check, check_len};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const HEADER: usize = 16;
const IFLA_INET6_ADDR_GEN_MODE: u16 = 8;
const IN6_ADDR_GEN_MODE_NONE: u8 = 1;
const VETH_INFO_PEER: u16 = 1;
const RTAX_INITCWND: u16 = 11;

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

    fn address(self, kind: u16, address: IpAddr) -> Self {
        match address {
            IpAddr::V4(v4) => self.attribute(kind, &v4.octets()),
            IpAddr::V6(v6) => self.attribute(kind, &v6.octets()),
        }
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

/// A connection to the kernel's routing tables and interfaces.
pub(crate) struct Netlink(OwnedFd);

impl Netlink {
    /// A connection to those of the calling thread's network namespace.
    pub(crate) fn open() -> io::Result<Self> {
        // SAFETY: socket takes numbers and returns a descriptor that nobody else owns.
        let fd = check(unsafe {
            libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_ROUTE)
        })?;
        // SAFETY: see above.
        Ok(Netlink(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Makes a pair of interfaces that are one cable: `name` here, `peer_name` in `peer_namespace`.
    pub(crate) fn add_veth(&self, name: &str, peer_name: &str, peer_namespace: &OwnedFd) -> io::Result<()> {
        let request = Request::create(libc::RTM_NEWLINK)
            .interface(0, 0)
            .text(libc::IFLA_IFNAME, name)
            .nested(libc::IFLA_LINKINFO, |r| {
                r.text(libc::IFLA_INFO_KIND, "veth").nested(libc::IFLA_INFO_DATA, |r| {
                    r.nested(VETH_INFO_PEER, |r| {
                        r.interface(0, 0)
                            .text(libc::IFLA_IFNAME, peer_name)
                            .number(libc::IFLA_NET_NS_FD, peer_namespace.as_raw_fd() as u32)
                    })
                })
            });
        self.ask(&request)
    }

    /// Switches an interface on.
    pub(crate) fn set_up(&self, index: u32) -> io::Result<()> {
        self.ask(&Request::change(libc::RTM_NEWLINK).interface(index, libc::IFF_UP as u32))
    }

    /// Sets the MTU and the transmit queue length, and that no IPv6 address comes of itself.
    pub(crate) fn configure(&self, index: u32, mtu: u32, queue: u32) -> io::Result<()> {
        let request = Request::change(libc::RTM_NEWLINK)
            .interface(index, 0)
            .number(libc::IFLA_MTU, mtu)
            .number(libc::IFLA_TXQLEN, queue)
            .nested(libc::IFLA_AF_SPEC, |r| {
                r.nested(libc::AF_INET6 as u16, |r| {
                    r.attribute(IFLA_INET6_ADDR_GEN_MODE, &[IN6_ADDR_GEN_MODE_NONE])
                })
            });
        self.ask(&request)
    }

    /// Gives an interface an address, which works at once: without duplicate address detection.
    pub(crate) fn add_address(&self, index: u32, address: IpAddr, prefix_len: u8) -> io::Result<()> {
        let (family, flags) = match address {
            IpAddr::V4(_) => (libc::AF_INET, 0),
            IpAddr::V6(_) => (libc::AF_INET6, libc::IFA_F_NODAD as u8),
        };
        // struct ifaddrmsg: family, prefix length, flags, scope, index
        let request = Request::create(libc::RTM_NEWADDR)
            .fixed(&[family as u8, prefix_len, flags, libc::RT_SCOPE_UNIVERSE])
            .fixed(&index.to_ne_bytes())
            .address(libc::IFA_LOCAL, address)
            .address(libc::IFA_ADDRESS, address);
        self.ask(&request)
    }

    /// Adds a route to `network` through the neighbour `gateway`, where connections begin with `initial_window`
    /// segments, or with as many as the kernel thinks.
    pub(crate) fn add_route(
        &self,
        network: IpAddr,
        prefix_len: u8,
        gateway: IpAddr,
        initial_window: Option<u32>,
    ) -> io::Result<()> {
        let family = if network.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        // struct rtmsg: family, destination and source length, tos, table, protocol, scope, type, flags
        let request = Request::create(libc::RTM_NEWROUTE)
            .fixed(&[family as u8, prefix_len, 0, 0, libc::RT_TABLE_MAIN])
            .fixed(&[libc::RTPROT_STATIC, libc::RT_SCOPE_UNIVERSE, libc::RTN_UNICAST])
            .fixed(&[0; 4])
            .address(libc::RTA_DST, network)
            .address(libc::RTA_GATEWAY, gateway);
        let request = match initial_window {
            Some(segments) => request.nested(libc::RTA_METRICS, |r| r.number(RTAX_INITCWND, segments)),
            None => request,
        };
        self.ask(&request)
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
