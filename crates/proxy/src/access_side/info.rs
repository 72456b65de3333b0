use super::Host;
use crate::aggregate::{Aggregate, Uplink};
use core::net::IpAddr;
use core::time::Duration;

/// What there is to know of a mobile host, for people.
#[derive(Clone, Debug)]
pub struct HostInfo {
    /// The prefix that its addresses have in common.
    pub prefix: IpAddr,
    /// Hosts of one bottleneck have the same number here.
    pub group: u32,
    /// Its connections.
    pub flows: usize,
    /// The shared window, in bytes.
    pub window: u64,
    /// The window that its uploads share, in bytes, where they do.
    pub uplink: Option<u64>,
    /// Bytes in flight to it.
    pub in_flight: u64,
    /// Memory that is held of what is sent to it, and of what it sends, in bytes.
    pub held: u64,
    /// The smoothed round-trip time.
    pub srtt: Option<Duration>,
    /// The link is believed to carry nothing now.
    pub stalled: bool,
}

impl HostInfo {
    pub(crate) fn of(host: &Host, aggregate: &Aggregate) -> Self {
        HostInfo {
            prefix: host.prefix,
            group: host.group,
            flows: host.members.len(),
            window: aggregate.window(),
            uplink: host.uplink.as_ref().map(Uplink::size),
            in_flight: aggregate.in_flight(),
            held: (host.memory.to.held + host.memory.from.held) as u64,
            srtt: aggregate.srtt(),
            stalled: aggregate.is_stalled(),
        }
    }
}
