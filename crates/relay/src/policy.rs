//! Where a node connects to, and where it does not.
use ipnet::IpNet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::LazyLock;

/// Which destinations are allowed. It is asked about addresses, after names were resolved, and the
/// connection goes to the address that was asked about: a name that leads elsewhere the second time
/// (DNS rebinding) gains nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DestinationPolicy {
    /// Allowed although they are in a range of which most are not.
    pub allowed: Vec<IpNet>,
    /// Never allowed.
    pub denied: Vec<IpNet>,
    /// Ports that are allowed; all but the closed ones if none is named.
    pub ports: Vec<u16>,
    /// Ports that are closed.
    pub closed_ports: Vec<u16>,
    /// Addresses that lead to this host, besides those of its interfaces: those that an address translation has.
    pub own: Vec<IpAddr>,
}

/// Ranges that lead into networks of the node's own, or nowhere, each with a name for it. From the
/// registries of RFC 6890 and those that came later.
const SPECIAL: [(&str, &str); 24] = [
    ("0.0.0.0/8", "unspecified"),
    ("10.0.0.0/8", "private"),
    ("100.64.0.0/10", "shared, of a carrier's NAT"),
    ("127.0.0.0/8", "loopback"),
    ("169.254.0.0/16", "link-local, of metadata services too"),
    ("172.16.0.0/12", "private"),
    ("192.0.0.0/24", "of protocol assignments"),
    ("192.0.2.0/24", "for documentation"),
    ("192.168.0.0/16", "private"),
    ("198.18.0.0/15", "for benchmarks"),
    ("198.51.100.0/24", "for documentation"),
    ("203.0.113.0/24", "for documentation"),
    ("224.0.0.0/4", "multicast"),
    ("240.0.0.0/4", "reserved"),
    ("::/128", "unspecified"),
    ("::1/128", "loopback"),
    ("100::/64", "for discarding"),
    ("2001::/23", "of protocol assignments"),
    ("2001:db8::/32", "for documentation"),
    ("fc00::/7", "private, of metadata services too"),
    ("fe80::/10", "link-local"),
    ("fec0::/10", "site-local"),
    ("ff00::/8", "multicast"),
    ("64:ff9b:1::/48", "of local translation"),
];

impl DestinationPolicy {
    /// Whether an address may be connected to. `is_local` says whether one is of this host's interfaces.
    ///
    /// # Errors
    /// Why not, in words.
    pub fn check(&self, to: SocketAddr, is_local: impl FnOnce(IpAddr) -> bool) -> Result<(), String> {
        let (address, port) = (inner(to.ip()), to.port());
        let within = |ranges: &[IpNet]| ranges.iter().any(|range| range.contains(&address));
        if within(&self.denied) {
            return Err(format!("{address} is denied by this node's configuration"));
        }
        if self.closed_ports.contains(&port) || (!self.ports.is_empty() && !self.ports.contains(&port)) {
            return Err(format!("port {port} is closed by this node's configuration"));
        }
        if within(&self.allowed) {
            return Ok(());
        }
        match special(address) {
            Some(kind) => Err(format!("{address} is {kind}: `--allow-destination` there opens it")),
            None if self.own.contains(&address) || is_local(address) => {
                Err(format!("{address} is the node itself: `--allow-destination` there opens it"))
            }
            None => Ok(()),
        }
    }
}

/// The IPv4 address that an IPv6 address stands for, if it does: what the packets would go to.
fn inner(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    let octets = v6.octets();
    let v4_at = |at: usize| Ipv4Addr::new(octets[at], octets[at + 1], octets[at + 2], octets[at + 3]);
    let translated = Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0).octets();
    if let Some(v4) = v6.to_ipv4_mapped() {
        v4.into()
    } else if octets[..12] == translated[..12] {
        v4_at(12).into() // RFC 6052
    } else if octets[..2] == [0x20, 0x02] {
        v4_at(2).into() // RFC 3056
    } else if octets[..12] == [0; 12] && !matches!(v4_at(12).octets(), [0, 0, 0, 0 | 1]) {
        v4_at(12).into() // IPv4-compatible, RFC 4291 §2.5.5.1
    } else {
        address
    }
}

fn special(address: IpAddr) -> Option<&'static str> {
    static RANGES: LazyLock<Vec<(IpNet, &str)>> = LazyLock::new(|| {
        SPECIAL.iter().filter_map(|(range, kind)| Some((range.parse().ok()?, *kind))).collect()
    });
    RANGES.iter().find(|(range, _)| range.contains(&address)).map(|(_, kind)| *kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(policy: &DestinationPolicy, address: &str) -> bool {
        policy.check(SocketAddr::new(address.parse().unwrap(), 443), |_| false).is_ok()
    }

    #[test]
    fn every_range_is_written_as_it_is_read() {
        for (range, _) in SPECIAL {
            let parsed: IpNet = range.parse().unwrap();
            assert_eq!(parsed.trunc().to_string(), range);
        }
    }

    #[test]
    fn networks_of_its_own_are_closed_however_they_are_written() {
        let policy = DestinationPolicy::default();
        for closed in [
            "0.0.0.0",
            "127.0.0.1",
            "10.1.2.3",
            "172.31.255.255",
            "192.168.0.1",
            "169.254.169.254",
            "100.100.100.200",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "fd00:ec2::254",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::127.0.0.1",
            "64:ff9b::10.0.0.1",
            "2002:7f00:1::",
        ] {
            assert!(!check(&policy, closed), "{closed}");
        }
        for open in
            ["1.1.1.1", "172.32.0.1", "100.63.0.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"]
        {
            assert!(check(&policy, open), "{open}");
        }
    }

    #[test]
    fn the_host_itself_and_some_ports_are_closed() {
        let mut policy = DestinationPolicy {
            own: vec!["198.41.0.4".parse().unwrap()],
            closed_ports: vec![25],
            ..DestinationPolicy::default()
        };
        let check = |policy: &DestinationPolicy, to: &str| {
            policy.check(to.parse().unwrap(), |address| address == IpAddr::from([198, 41, 0, 9])).is_ok()
        };
        assert!(check(&policy, "8.8.8.8:22") && !check(&policy, "8.8.8.8:25"));
        for own in ["198.41.0.4:22", "198.41.0.9:443", "[::ffff:198.41.0.9]:443"] {
            assert!(!check(&policy, own), "{own}");
        }
        policy.allowed.push("198.41.0.9/32".parse().unwrap());
        assert!(check(&policy, "198.41.0.9:443") && !check(&policy, "198.41.0.9:25"));
        policy.ports = vec![443];
        assert!(check(&policy, "8.8.8.8:443") && !check(&policy, "8.8.8.8:22"));
    }

    #[test]
    fn ranges_can_be_opened_and_closed() {
        let policy = DestinationPolicy {
            allowed: vec!["10.1.0.0/16".parse().unwrap()],
            denied: vec!["10.1.2.0/24".parse().unwrap(), "8.0.0.0/8".parse().unwrap()],
            ..DestinationPolicy::default()
        };
        assert!(check(&policy, "10.1.1.1") && check(&policy, "::ffff:10.1.1.1"));
        assert!(!check(&policy, "10.1.2.1") && !check(&policy, "8.8.8.8") && !check(&policy, "10.2.0.1"));
    }
}
