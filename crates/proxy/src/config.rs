use shorthaul_congestion::{Algorithm, RttConfig};
use shorthaul_tcp::AckPolicy;
use shorthaul_types::Bytes;

/// How we send into one leg, and acknowledge what comes from it.
#[derive(Clone, Debug, PartialEq)]
pub struct LegConfig {
    /// Congestion control of what we send into the leg.
    pub congestion: Algorithm,
    /// Spread bursts over the round trip.
    pub pacing: bool,
    /// When we acknowledge what arrives from the leg.
    pub ack: AckPolicy,
    /// The retransmission timer of what we send into the leg.
    pub rtt: RttConfig,
}

impl Default for LegConfig {
    fn default() -> Self {
        LegConfig {
            congestion: Algorithm::Cubic,
            pacing: true,
            ack: AckPolicy::default(),
            rtt: RttConfig::LINUX,
        }
    }
}

/// How a gateway works.
#[derive(Clone, Debug, PartialEq)]
pub struct GatewayConfig {
    /// What we hold of each direction of a flow, at most. The packet buffers that hold it are allowed
    /// twice as much; beyond that, segments are dropped even within the window.
    pub flow_buffer: Bytes,
    /// What we hold in all. From three quarters of it on, new flows pass unsplit and each flow is
    /// offered 64 KiB at most; at the limit, segments are dropped even within the window.
    pub memory: Bytes,
    /// Flows that are tracked at once; more pass unsplit.
    pub max_flows: usize,
    /// The leg toward the edge.
    pub edge: LegConfig,
    /// The leg toward the rest of the world.
    pub wan: LegConfig,
    /// Key of the hash of the flow table; drawn at random in a real gateway, so that nobody can
    /// choose colliding flows.
    pub hash_seed: u64,
}

impl Default for GatewayConfig {
    fn default() -> Self {
        GatewayConfig {
            flow_buffer: Bytes(4 << 20),
            memory: Bytes(512 << 20),
            max_flows: 65_536,
            edge: LegConfig::default(),
            wan: LegConfig::default(),
            hash_seed: 0,
        }
    }
}
