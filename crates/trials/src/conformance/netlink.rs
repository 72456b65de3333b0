//! Routing entries that the cases need and a laboratory has no reason to offer.
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, Read, Write};
use std::net::IpAddr;

const ACKNOWLEDGED_REQUEST: u16 = (libc::NLM_F_REQUEST | libc::NLM_F_ACK | libc::NLM_F_CREATE) as u16;
const MAIN_TABLE: u8 = 254;

/// In the calling thread's network namespace: what bears the firewall mark `mark` goes nowhere.
pub(crate) fn blackhole_mark(mark: u32) -> io::Result<()> {
    const FRA_PRIORITY: u16 = 6;
    const FRA_FWMARK: u16 = 10;
    const FR_ACT_BLACKHOLE: u8 = 6;
    for family in [libc::AF_INET, libc::AF_INET6] {
        // struct fib_rule_hdr: family, dst_len, src_len, tos, table, res1, res2, action, flags.
        let mut body = vec![family as u8, 0, 0, 0, 0, 0, 0, FR_ACT_BLACKHOLE, 0, 0, 0, 0];
        push_attribute(&mut body, FRA_PRIORITY, &1u32.to_ne_bytes());
        push_attribute(&mut body, FRA_FWMARK, &mark.to_ne_bytes());
        request(libc::RTM_NEWRULE, &body)?;
    }
    Ok(())
}

/// What to do with packets for a prefix, see [`add_route`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Route {
    /// On to the next router.
    Via(IpAddr),
    /// On to the next router, but in packets of at most so many bytes.
    Narrow(IpAddr, u32),
    /// Dropped, and the sender told "host unreachable" by ICMP.
    Unreachable,
    /// Dropped without a word.
    Blackhole,
}

/// Adds a route for `prefix`/`prefix_len` in the calling thread's network namespace.
pub(crate) fn add_route(prefix: IpAddr, prefix_len: u8, route: Route) -> io::Result<()> {
    const RTN_UNICAST: u8 = 1;
    const RTN_BLACKHOLE: u8 = 6;
    const RTN_UNREACHABLE: u8 = 7;
    const RTPROT_STATIC: u8 = 4;
    const RTAX_MTU: u16 = 2;
    let family = if prefix.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let kind = match route {
        Route::Via(_) | Route::Narrow(..) => RTN_UNICAST,
        Route::Unreachable => RTN_UNREACHABLE,
        Route::Blackhole => RTN_BLACKHOLE,
    };
    // struct rtmsg: family, dst_len, src_len, tos, table, protocol, scope, type, flags.
    let mut body = vec![family as u8, prefix_len, 0, 0, MAIN_TABLE, RTPROT_STATIC, 0, kind, 0, 0, 0, 0];
    push_address(&mut body, libc::RTA_DST, prefix);
    if let Route::Via(router) | Route::Narrow(router, _) = route {
        push_address(&mut body, libc::RTA_GATEWAY, router);
    }
    if let Route::Narrow(_, mtu) = route {
        let mut metrics = Vec::new();
        push_attribute(&mut metrics, RTAX_MTU, &mtu.to_ne_bytes());
        push_attribute(&mut body, libc::RTA_METRICS, &metrics);
    }
    request(libc::RTM_NEWROUTE, &body)
}

/// Gives the calling thread's network namespace another `address`, on its loopback interface.
pub(crate) fn add_address(address: IpAddr) -> io::Result<()> {
    /// The loopback interface is the first of every namespace.
    const LOOPBACK: u32 = 1;
    let (family, bits) = match address {
        IpAddr::V4(_) => (libc::AF_INET, 32),
        IpAddr::V6(_) => (libc::AF_INET6, 128),
    };
    // struct ifaddrmsg: family, prefix length, flags, scope, interface.
    let mut body = vec![family as u8, bits, 0, 0];
    body.extend(LOOPBACK.to_ne_bytes());
    push_address(&mut body, libc::IFA_LOCAL, address);
    request(libc::RTM_NEWADDR, &body)
}

fn push_address(body: &mut Vec<u8>, kind: u16, address: IpAddr) {
    match address {
        IpAddr::V4(v4) => push_attribute(body, kind, &v4.octets()),
        IpAddr::V6(v6) => push_attribute(body, kind, &v6.octets()),
    }
}

/// A netlink attribute: length, kind, value. All values here are multiples of four bytes long, so
/// that no padding is needed.
fn push_attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    body.extend((4 + value.len() as u16).to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(value);
}

fn request(kind: u16, body: &[u8]) -> io::Result<()> {
    let mut socket =
        Socket::new(Domain::from(libc::AF_NETLINK), Type::RAW, Some(Protocol::from(libc::NETLINK_ROUTE)))?;
    let mut message = Vec::with_capacity(16 + body.len());
    message.extend((16 + body.len() as u32).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(ACKNOWLEDGED_REQUEST.to_ne_bytes());
    message.extend([0; 8]); // sequence number and sender: the kernel's choice
    message.extend(body);
    socket.write_all(&message)?;
    let mut answer = [0; 1024];
    let len = socket.read(&mut answer)?;
    // struct nlmsgerr follows the header: an errno, negated, or zero.
    let code = answer[..len].get(16..20).and_then(|b| b.try_into().ok()).map(i32::from_ne_bytes);
    match code {
        Some(0) => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error(-code)),
        None => Err(io::Error::other("netlink answered with less than a header")),
    }
}
