use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;
use shorthaul_types::{BitRate, Bytes};

/// What the emulated link between gateway and mobile hosts is like: the path's tail, as senders in the
/// wide area network shall see it (Bosau, "Path Tail Emulation", §3).
#[derive(Clone, Debug, PartialEq)]
pub struct PathTailConfig {
    /// The average throughput of what is emulated, IP headers counted. It follows the mobile network's
    /// slow changes, not its fluctuations: those are what the gateway absorbs.
    pub bandwidth: BitRate,
    /// Whether the bandwidth follows what the hosts behind the link acknowledge; `bandwidth` is then what it
    /// begins with.
    pub is_estimated: bool,
    /// The queue of the emulated link, in bytes of IP packets: how long its senders wait at most is
    /// `queue / bandwidth`.
    pub queue: Bytes,
    /// What may be held for the hosts behind one emulated link, in bytes of payload, before what comes
    /// is dropped. What exceeds `queue` absorbs interruptions: they last up to
    /// `(buffer − queue) / bandwidth` without a sender's noticing.
    pub buffer: Bytes,
    /// Who shares an emulated link.
    pub scope: TailScope,
}

/// Who shares an emulated link, and its bandwidth (§5, number 3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TailScope {
    /// All hosts of a radio cell share one, like stations on an Ethernet. A host belongs to the cell
    /// with the longest prefix that holds its address; hosts in none share one more.
    Cell(Vec<Cell>),
    /// Every mobile host has one of its own.
    Host,
    /// Every flow has one of its own: a guaranteed rate, as of a quality-of-service profile.
    Flow,
}

/// A radio cell: addresses that share a bandwidth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// By what name a radio controller speaks of it.
    pub name: String,
    /// The prefixes of its hosts' addresses.
    pub prefixes: Vec<Prefix>,
    /// Its bandwidth, where it is not that of all.
    pub bandwidth: Option<BitRate>,
}

/// The first `len` bits of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// An address that begins with them.
    pub address: IpAddr,
    /// How many count: up to 32 for IPv4, 128 for IPv6.
    pub len: u8,
}

/// A text that is not a prefix of addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsePrefixError(String);

impl PathTailConfig {
    /// Emulates one link of `bandwidth` to every mobile host, with a queue of a quarter of a second and
    /// room for interruptions of two seconds.
    pub fn of(bandwidth: BitRate) -> Self {
        let time = |millis| bandwidth.bytes_in(Duration::from_millis(millis));
        let queue = time(250).max(Bytes(30_000));
        let buffer = Bytes(queue.0 + time(2000).0.max(60_000));
        PathTailConfig { bandwidth, is_estimated: false, queue, buffer, scope: TailScope::Host }
    }

    /// Says what cannot be worked with and what would be right, for a gateway that holds `flow_buffer`
    /// of a flow.
    ///
    /// # Errors
    /// In words, the parameter first.
    pub fn check(&self, flow_buffer: Bytes) -> Result<(), &'static str> {
        if self.bandwidth.bits_per_sec() == 0 {
            return Err(
                "bandwidth: a link of no bandwidth acknowledges nothing; write a rate such as \"1 Mbit/s\"",
            );
        }
        if self.queue.0 < 3000 {
            return Err("queue: less than two packets of 1500 bytes; write a size such as \"60 kB\"");
        }
        if self.buffer < self.queue {
            return Err(
                "buffer: it holds the queue and what an interruption keeps back; write a larger size than the queue's",
            );
        }
        if Bytes(self.buffer.0 * 2) > flow_buffer {
            return Err(
                "buffer: at most half of what a flow may hold, or windows close before packets are dropped; write less, or more for each flow",
            );
        }
        Ok(())
    }
}

impl Prefix {
    /// Whether `address` begins with these bits.
    pub fn holds(&self, address: IpAddr) -> bool {
        let bits = |address: IpAddr| match address {
            IpAddr::V4(ip) => (u128::from(u32::from(ip)) << 96, 4),
            IpAddr::V6(ip) => (u128::from(ip), 6),
        };
        let ((own, version), (theirs, other)) = (bits(self.address), bits(address));
        version == other && (self.len == 0 || (own ^ theirs) >> (128 - u32::from(self.len)) == 0)
    }
}

impl core::str::FromStr for Prefix {
    type Err = ParsePrefixError;

    /// `10.1.0.0/16`, or an address alone.
    fn from_str(text: &str) -> Result<Self, ParsePrefixError> {
        let wrong = || ParsePrefixError(text.into());
        let (address, len) = text.trim().split_once('/').map_or((text.trim(), None), |(a, l)| (a, Some(l)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let len = len.map_or(Ok(longest), |len| len.parse().map_err(|_| wrong()))?;
        if len > longest { Err(wrong()) } else { Ok(Prefix { address, len }) }
    }
}

impl core::fmt::Display for Prefix {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}/{}", self.address, self.len)
    }
}

impl core::fmt::Display for ParsePrefixError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "`{}` is no prefix of addresses: write one such as \"10.1.0.0/16\"", self.0)
    }
}

impl core::error::Error for ParsePrefixError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_holds_the_addresses_that_begin_with_it() {
        for (prefix, address, holds) in [
            ("10.1.0.0/16", "10.1.200.3", true),
            ("10.1.0.0/16", "10.2.0.1", false),
            ("0.0.0.0/0", "192.0.2.1", true),
            ("0.0.0.0/0", "::1", false),
            ("10.1.2.3", "10.1.2.3", true),
            ("10.1.2.3", "10.1.2.2", false),
            ("fd00:1::/32", "fd00:1:2::9", true),
            ("fd00:1::/32", "fd00:2::9", false),
        ] {
            let prefix: Prefix = prefix.parse().unwrap();
            assert_eq!(prefix.holds(address.parse().unwrap()), holds, "{prefix} {address}");
        }
        for wrong in ["10.1.0.0/33", "10.1/16", "fd00::/129", "cell"] {
            assert!(wrong.parse::<Prefix>().unwrap_err().0 == wrong);
        }
    }

    #[test]
    fn what_cannot_work_is_refused() {
        let usual = PathTailConfig::of(BitRate::from_bits_per_sec(1_000_000));
        assert_eq!(usual.check(Bytes(4 << 20)), Ok(()));
        let refused = |config: PathTailConfig, word: &str| {
            assert!(config.check(Bytes(4 << 20)).unwrap_err().starts_with(word));
        };
        refused(PathTailConfig { bandwidth: BitRate::default(), ..usual.clone() }, "bandwidth");
        refused(PathTailConfig { queue: Bytes(1500), ..usual.clone() }, "queue");
        refused(PathTailConfig { buffer: Bytes(20_000), ..usual.clone() }, "buffer");
        refused(PathTailConfig { buffer: Bytes(3 << 20), ..usual }, "buffer");
    }
}
