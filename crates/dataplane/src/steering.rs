//! Which worker has the packets of a host on the access side, where a gateway has several.
//!
//! A worker is a number of a host's address alone, the same in the kernel (`program`), here, and in the next process: so nothing that
//! is known of a host is ever needed in two places. Hosts of a configured bottleneck have one window, and so one worker.
mod program;

use shorthaul_os::bpf::Instruction;
use shorthaul_proxy::{Gateway, GatewayConfig, HostPrefix};
use shorthaul_types::PortId;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// 2⁶⁴ divided by the golden ratio: what is multiplied by it and falls into few classes by its highest bits is spread evenly, if it
/// comes in runs or in equal steps, as addresses do (Knuth, The Art of Computer Programming 3, §6.4).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

const ICMP: u8 = 1;
const ICMPV6: u8 = 58;

/// How hosts are shared among workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steering {
    workers: u32,
    hosts: HostPrefix,
    /// Prefixes whose hosts all have one worker; the first that has a host holds.
    together: Vec<(Prefix, u32)>,
}

/// Addresses of one family that agree in their first bits: those bits, and which they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prefix {
    V4 { bits: u32, mask: u32 },
    V6 { bits: u128, mask: u128 },
}

impl Prefix {
    fn holds(self, address: IpAddr) -> bool {
        match (self, address) {
            (Prefix::V4 { bits, mask }, IpAddr::V4(ip)) => ip.to_bits() & mask == bits,
            (Prefix::V6 { bits, mask }, IpAddr::V6(ip)) => ip.to_bits() & mask == bits,
            _ => false,
        }
    }
}

impl Steering {
    /// That of a gateway with this configuration and so many workers.
    pub fn of(config: &GatewayConfig, workers: usize) -> Self {
        let all = HostPrefix { v4: 0, v6: 0 };
        let prefixes = config.bottlenecks.iter().zip(0..).flat_map(|(bottleneck, number)| {
            let whose: Vec<Prefix> = match &bottleneck.hosts[..] {
                [] => [IpAddr::from(Ipv4Addr::UNSPECIFIED), IpAddr::from(Ipv6Addr::UNSPECIFIED)]
                    .map(|any| prefix(any, all))
                    .into(),
                hosts => hosts
                    .iter()
                    .map(|net| prefix(net.addr(), HostPrefix { v4: net.prefix_len(), v6: net.prefix_len() }))
                    .collect(),
            };
            whose.into_iter().map(move |prefix| (prefix, number % workers.max(1) as u32))
        });
        let together = if workers > 1 { prefixes.collect() } else { Vec::new() };
        Steering { workers: workers.max(1) as u32, hosts: config.hosts, together }
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.workers as usize
    }

    /// The worker of the host with this address.
    pub fn of_host(&self, address: IpAddr) -> usize {
        let host = self.hosts.of(address);
        let together = self.together.iter().find(|(prefix, _)| prefix.holds(host));
        let number = together.map_or_else(
            || {
                let number = match host {
                    IpAddr::V4(ip) => u64::from(ip.to_bits()),
                    IpAddr::V6(ip) => ((ip.to_bits() >> 64) as u64).wrapping_add(ip.to_bits() as u64),
                };
                ((number.wrapping_mul(GOLDEN) >> 32) * u64::from(self.workers)) >> 32
            },
            |(_, worker)| u64::from(*worker),
        );
        number as usize
    }

    /// The worker of a packet that came in by `port`, which begins with its IP header; `None` if it names no host.
    ///
    /// An ICMP error from the access side is about a packet to the host, which it quotes: whoever sent it may be any router.
    pub fn of_packet(&self, port: PortId, packet: &[u8]) -> Option<usize> {
        let from_access = port == Gateway::ACCESS;
        let host = match quoted(packet).filter(|_| from_access) {
            Some(quoted) => address(quoted, End::Destination)?,
            None => address(packet, if from_access { End::Source } else { End::Destination })?,
        };
        Some(self.of_host(host))
    }

    /// A program for the kernel that says the same of a packet that comes in by `port`, but for ICMP errors, and for what names no
    /// host: that goes anywhere.
    pub fn program(&self, port: PortId) -> Vec<Instruction> {
        program::write(self, port == Gateway::ACCESS)
    }
}

fn prefix(address: IpAddr, length: HostPrefix) -> Prefix {
    let whole = |v4, v6| HostPrefix { v4: length.v4.min(v4), v6: length.v6.min(v6) };
    match whole(32, 128).of(address) {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(length.v4.min(32))).unwrap_or(0);
            Prefix::V4 { bits: ip.to_bits(), mask }
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(length.v6.min(128))).unwrap_or(0);
            Prefix::V6 { bits: ip.to_bits(), mask }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Source,
    Destination,
}

/// An address of a packet that may be cut off behind its addresses.
fn address(packet: &[u8], end: End) -> Option<IpAddr> {
    let at = |v4: usize, v6: usize| if packet.first()? >> 4 == 4 { Some(v4) } else { Some(v6) };
    let at = match end {
        End::Source => at(12, 8)?,
        End::Destination => at(16, 24)?,
    };
    match packet.first()? >> 4 {
        4 => Some(IpAddr::from(*packet.get(at..)?.first_chunk::<4>()?)),
        6 => Some(IpAddr::from(*packet.get(at..)?.first_chunk::<16>()?)),
        _ => None,
    }
}

/// The packet that an ICMP error quotes (RFC 792, RFC 4443 §2.1).
fn quoted(packet: &[u8]) -> Option<&[u8]> {
    const HEADER: usize = 8;
    match packet.first()? >> 4 {
        4 if *packet.get(9)? == ICMP => {
            let length = usize::from(packet[0] & 0xf) * 4;
            let is_first = u16::from_be_bytes([packet[6], packet[7]]) & 0x1fff == 0;
            let is_error = matches!(packet.get(length)?, 3 | 4 | 5 | 11 | 12);
            packet.get(length + HEADER..).filter(|_| is_first && is_error)
        }
        6 if *packet.get(6)? == ICMPV6 => {
            let is_error = *packet.get(40)? < 128;
            packet.get(40 + HEADER..).filter(|_| is_error)
        }
        _ => None,
    }
}

#[cfg(test)]
#[path = "steering/tests.rs"]
mod tests;
