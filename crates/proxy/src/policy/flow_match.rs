use super::Policy;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use ipnet::IpNet;

/// Which flows a policy is for. What is left empty holds for every flow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(deny_unknown_fields, default)
)]
pub struct FlowMatch {
    /// Prefixes of the end at the access side.
    #[cfg_attr(
        feature = "serde",
        serde(with = "super::written::prefixes", skip_serializing_if = "Vec::is_empty"),
        schemars(with = "Vec<super::written::Prefix>")
    )]
    pub hosts: Vec<IpNet>,
    /// Prefixes of the other end.
    #[cfg_attr(
        feature = "serde",
        serde(with = "super::written::prefixes", skip_serializing_if = "Vec::is_empty"),
        schemars(with = "Vec<super::written::Prefix>")
    )]
    pub servers: Vec<IpNet>,
    /// Ports, of either end.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub ports: Vec<u16>,
    /// Differentiated services codepoints (RFC 2474) of the SYN.
    #[cfg_attr(
        feature = "serde",
        serde(deserialize_with = "codepoints", skip_serializing_if = "Vec::is_empty"),
        schemars(inner(range(max = 63)))
    )]
    pub dscp: Vec<u8>,
}

/// Differentiated services codepoints have six bits (RFC 2474 §3).
#[cfg(feature = "serde")]
pub(crate) fn codepoints<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Vec<u8>, D::Error> {
    let codepoints: Vec<u8> = serde::Deserialize::deserialize(d)?;
    match codepoints.iter().find(|codepoint| **codepoint > 63) {
        Some(wrong) => Err(serde::de::Error::custom(alloc::format!(
            "`{wrong}` is no differentiated services codepoint: write a number from 0 to 63, such as 46"
        ))),
        None => Ok(codepoints),
    }
}

/// What a flow is matched by, from its SYN.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject {
    /// The end at the access side.
    pub host: IpAddr,
    /// The other end.
    pub server: IpAddr,
    pub ports: [u16; 2],
    pub dscp: u8,
}

impl FlowMatch {
    /// Whether every flow is in the class.
    pub fn matches_all(&self) -> bool {
        *self == FlowMatch::default()
    }

    pub(crate) fn holds(&self, subject: &Subject) -> bool {
        let is_in = |prefixes: &[IpNet], address: &IpAddr| {
            prefixes.is_empty() || prefixes.iter().any(|prefix| prefix.contains(address))
        };
        is_in(&self.hosts, &subject.host)
            && is_in(&self.servers, &subject.server)
            && (self.ports.is_empty() || self.ports.iter().any(|port| subject.ports.contains(port)))
            && (self.dscp.is_empty() || self.dscp.contains(&subject.dscp))
    }

    /// Whether flows of one host can be in this class and in `other`.
    pub(crate) fn may_share_a_host(&self, other: &FlowMatch, what: HostPrefix) -> bool {
        self.hosts.is_empty()
            || other.hosts.is_empty()
            || self.hosts.iter().any(|a| other.hosts.iter().any(|b| what.overlap(a, b)))
    }
}

/// What one host is at the access side: addresses that agree in their first bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostPrefix {
    /// How many bits, for IPv4.
    pub v4: u8,
    /// The same for IPv6, where a phone has a whole prefix (RFC 7278).
    pub v6: u8,
}

impl Default for HostPrefix {
    fn default() -> Self {
        HostPrefix { v4: 32, v6: 64 }
    }
}

/// What is written of that: `hosts = { prefix_v4 = 24 }`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(deny_unknown_fields, default)
)]
pub struct HostSpec {
    /// IPv4 addresses that agree in their first this many bits are one host: 0 to 32, and 32 if left out.
    #[cfg_attr(
        feature = "serde",
        serde(deserialize_with = "bits::<32, _>", skip_serializing_if = "Option::is_none"),
        schemars(range(max = 32), extend("default" = 32))
    )]
    pub prefix_v4: Option<u8>,
    /// The same for IPv6, where a phone has a whole prefix (RFC 7278): 0 to 128, and 64 if left out.
    #[cfg_attr(
        feature = "serde",
        serde(deserialize_with = "bits::<128, _>", skip_serializing_if = "Option::is_none"),
        schemars(range(max = 128), extend("default" = 64))
    )]
    pub prefix_v6: Option<u8>,
}

/// The length of a prefix of an address of `MOST` bits.
#[cfg(feature = "serde")]
fn bits<'de, const MOST: u8, D: serde::Deserializer<'de>>(d: D) -> Result<Option<u8>, D::Error> {
    let bits: u8 = serde::Deserialize::deserialize(d)?;
    match bits <= MOST {
        true => Ok(Some(bits)),
        false => Err(serde::de::Error::custom(alloc::format!(
            "an address has {MOST} bits, and not {bits}; write a number from 0 to {MOST}"
        ))),
    }
}

impl HostSpec {
    /// What a host is, for a gateway with these policies: what is written here, or else in an aggregate, where these keys were
    /// before, or else what is usual. [`GatewayConfig::check`](crate::GatewayConfig::check) refuses two answers.
    pub fn resolve(&self, policies: &[Policy]) -> HostPrefix {
        let aggregates = || policies.iter().filter_map(|policy| policy.aggregate.as_ref());
        let usual = HostPrefix::default();
        let v4 = self.prefix_v4.or_else(|| aggregates().find_map(|aggregate| aggregate.prefix_v4));
        let v6 = self.prefix_v6.or_else(|| aggregates().find_map(|aggregate| aggregate.prefix_v6));
        HostPrefix { v4: v4.unwrap_or(usual.v4), v6: v6.unwrap_or(usual.v6) }
    }
}

impl HostPrefix {
    /// What an address has in common with all others of its host.
    pub fn of(self, address: IpAddr) -> IpAddr {
        match address {
            IpAddr::V4(ip) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.v4.min(32))).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(ip.to_bits() & mask))
            }
            IpAddr::V6(ip) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.v6.min(128))).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & mask))
            }
        }
    }

    /// Whether one host can have addresses in both prefixes.
    fn overlap(self, a: &IpNet, b: &IpNet) -> bool {
        let whole_hosts = |prefix: &IpNet| {
            let longest = if prefix.addr().is_ipv4() { self.v4 } else { self.v6 };
            IpNet::new_assert(prefix.network(), prefix.prefix_len().min(longest)).trunc()
        };
        let (a, b) = (whole_hosts(a), whole_hosts(b));
        a.contains(&b) || b.contains(&a)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn net(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    #[test]
    fn a_class_is_what_every_condition_holds_for() {
        let matches = FlowMatch {
            hosts: vec![net("10.1.0.0/16"), net("fd00:1::/32")],
            servers: vec![net("192.0.2.0/24")],
            ports: vec![443],
            dscp: vec![46],
        };
        let subject = |host: &str, server: &str, port, dscp| Subject {
            host: host.parse().unwrap(),
            server: server.parse().unwrap(),
            ports: [50_000, port],
            dscp,
        };
        assert!(matches.holds(&subject("10.1.2.3", "192.0.2.1", 443, 46)));
        for other in [
            subject("10.2.2.3", "192.0.2.1", 443, 46),
            subject("10.1.2.3", "192.0.3.1", 443, 46),
            subject("10.1.2.3", "192.0.2.1", 80, 46),
            subject("10.1.2.3", "192.0.2.1", 443, 0),
            subject("fd00:2::1", "192.0.2.1", 443, 46),
        ] {
            assert!(!matches.holds(&other) && FlowMatch::default().holds(&other), "{other:?}");
        }
        assert!(FlowMatch::default().matches_all() && !matches.matches_all());
    }

    #[test]
    fn prefixes_share_a_host_if_they_overlap_or_lie_in_one_host() {
        let class = |prefix: &str| FlowMatch { hosts: vec![net(prefix)], ..FlowMatch::default() };
        let host = HostPrefix { v4: 24, v6: 64 };
        for (a, b, shared) in [
            ("10.1.0.0/16", "10.1.2.0/24", true),
            ("10.1.0.0/16", "10.2.0.0/16", false),
            ("10.1.0.0/25", "10.1.0.128/25", true),
            ("fd00:0:0:1::1/128", "fd00:0:0:1::2/128", true),
            ("fd00:0:0:1::/64", "fd00:0:0:2::/64", false),
            ("0.0.0.0/0", "::/0", false),
        ] {
            assert_eq!(class(a).may_share_a_host(&class(b), host), shared, "{a} {b}");
        }
        assert!(class("10.0.0.0/8").may_share_a_host(&FlowMatch::default(), host));
    }

    #[test]
    fn no_bits_make_all_addresses_one_host() {
        let all = HostPrefix { v4: 0, v6: 0 };
        assert_eq!(all.of("1.2.3.4".parse().unwrap()), IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    }
}
