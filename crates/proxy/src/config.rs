use crate::unsplit::Traffic;
use crate::{Bottleneck, HostPrefix, HostSpec, Policy};
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;
use shorthaul_types::Bytes;

/// How a gateway works.
#[derive(Clone, Debug)]
pub struct GatewayConfig {
    /// What we hold of each direction of a flow, at most: 4 MiB, and more where its path needs more. The packet buffers that hold it are allowed
    /// twice as much; beyond that, segments are dropped even within the window.
    pub flow_buffer: Bytes,
    /// What we hold in all. What waits for one host, all of its flows together, is at most what is still free: a host above
    /// that is offered nothing, and where less than a quarter is free, its flows of which nothing is held are stepped out of, and new
    /// ones stay whole. Such hosts leave an eighth to others, even if they have to drop segments within the window.
    pub memory: Bytes,
    /// Flows that are tracked at once; more pass unsplit. An eighth may be connections that are being opened; of more, the
    /// oldest is forgotten.
    pub max_flows: usize,
    /// After this time without a segment a flow of which nothing is held is stepped out of: its ends
    /// may be gone, and if they are not, it goes on unsplit.
    pub idle_timeout: Duration,
    /// After this time without a segment a split flow of which nothing is held or under way is put away: it takes a fraction of its memory
    /// until its next packet comes, and goes on as if it never had been. `None` puts none away.
    pub put_away: Option<Duration>,
    /// What is one host at the access side.
    pub hosts: HostPrefix,
    /// Links that hosts at the access side share: each is a group with one window. A host belongs to the first that has it; one that
    /// is behind none is a group by itself.
    pub bottlenecks: Vec<Bottleneck>,
    /// What of the traffic toward the access side waits for its turn.
    pub traffic: Traffic,
    /// What is done to which flows: the first that matches holds, and the last matches all.
    pub policies: Vec<Policy>,
    /// Key of the hash of the flow table; drawn at random in a real gateway, so that nobody can
    /// choose colliding flows.
    pub hash_seed: u64,
    /// Whether it is noted how long each direction of a split flow had nothing to send, and how long no window: for experiments.
    pub watches_buffers: bool,
}

impl Default for GatewayConfig {
    fn default() -> Self {
        GatewayConfig {
            flow_buffer: Bytes(32 << 20),
            memory: Bytes(512 << 20),
            max_flows: 65_536,
            // What a translator of addresses must wait at least (RFC 5382 REQ-5).
            idle_timeout: Duration::from_secs(124 * 60),
            put_away: Some(Duration::from_secs(3)),
            hosts: HostPrefix::default(),
            bottlenecks: Vec::new(),
            traffic: Traffic::default(),
            policies: vec![Policy::default()],
            hash_seed: 0,
            watches_buffers: false,
        }
    }
}

impl GatewayConfig {
    /// A gateway that does the same to all flows.
    pub fn of(policy: Policy) -> Self {
        let policies = vec![policy];
        GatewayConfig { hosts: HostSpec::default().resolve(&policies), policies, ..GatewayConfig::default() }
    }
}
