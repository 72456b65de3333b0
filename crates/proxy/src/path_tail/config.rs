use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use ipnet::IpNet;
use shorthaul_types::{BitRate, Bytes};

/// What the emulated link between gateway and mobile hosts is like: the path's tail, as senders in the
/// wide area network shall see it (Bosau, "Path Tail Emulation", §3).
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(try_from = "super::written::Written"))]
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
    Cell(Vec<PathTailCell>),
    /// Every mobile host has one of its own.
    Host,
    /// Every flow has one of its own: a guaranteed rate, as of a quality-of-service profile.
    Flow,
}

/// A radio cell: addresses that share a bandwidth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathTailCell {
    /// By what name a radio controller speaks of it.
    pub name: String,
    /// The prefixes of its hosts' addresses.
    pub prefixes: Vec<IpNet>,
    /// Its bandwidth, where it is not that of all.
    pub bandwidth: Option<BitRate>,
}

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
    pub(crate) fn check_against(&self, flow_buffer: Bytes) -> Result<(), String> {
        let PathTailConfig { bandwidth, queue, buffer, .. } = self;
        if bandwidth.bits_per_sec() == 0 {
            return Err(
                "bandwidth: a link of no bandwidth acknowledges nothing; write a rate such as \"1 Mbit/s\""
                    .into(),
            );
        }
        if queue.0 < 3000 {
            return Err(format!(
                "queue: {queue} is less than two packets of 1500 bytes; write a size such as \"60 kB\""
            ));
        }
        if buffer < queue {
            return Err(format!(
                "buffer: {buffer} is less than the queue of {queue}; it holds the queue and what an interruption keeps back: write a larger size"
            ));
        }
        let twice = Bytes(buffer.0 * 2);
        if twice > flow_buffer {
            return Err(format!(
                "buffer: {buffer} (unless written, 2.25 s at `bandwidth`, here {bandwidth}) is more than half of `per_flow`, {flow_buffer}: \
                 windows would close before packets are dropped. Write `per_flow = \"{} MB\"` or more under [memory], or `buffer = \"{} kB\"` or less",
                twice.0.div_ceil(1_000_000),
                flow_buffer.0 / 2000
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_work_is_refused() {
        let usual = PathTailConfig::of(BitRate::from_bits_per_sec(1_000_000));
        assert_eq!(usual.check_against(Bytes(4 << 20)), Ok(()));
        let refused = |config: PathTailConfig, word: &str| {
            assert!(config.check_against(Bytes(4 << 20)).unwrap_err().starts_with(word));
        };
        refused(PathTailConfig { bandwidth: BitRate::default(), ..usual.clone() }, "bandwidth");
        refused(PathTailConfig { queue: Bytes(1500), ..usual.clone() }, "queue");
        refused(PathTailConfig { buffer: Bytes(20_000), ..usual.clone() }, "buffer");
        refused(PathTailConfig { buffer: Bytes(3 << 20), ..usual }, "buffer");
        let fast = PathTailConfig::of(BitRate::from_bits_per_sec(20_000_000));
        let said = fast.check_against(Bytes(4 << 20)).unwrap_err();
        for words in
            ["20 Mbit/s", "5.62 MB", "`per_flow`, 4.19 MB", "per_flow = \"12 MB\"", "buffer = \"2097 kB\""]
        {
            assert!(said.contains(words), "{words}: {said}");
        }
    }
}
