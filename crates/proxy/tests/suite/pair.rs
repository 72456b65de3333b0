//! One connection between a client at the access side and a server.
use shorthaul_congestion::Algorithm;
use shorthaul_proxy::{Gateway, GatewayConfig, Policy};
use shorthaul_tcp::{AckPolicy, ConnectionConfig, SenderProfile};
use shorthaul_testkit::{Faults, Opening, World};
use shorthaul_types::{Bytes, Time};
use std::net::IpAddr;
use std::time::Duration;

const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
const SERVER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

/// An end of the simplest kind: segments of 1000 bytes, each acknowledged, and a fixed window. It stays in TIME-WAIT for a minute: whoever
/// leaves after a second is gone when the last acknowledgment has been lost twice, and resets the other end.
pub fn plain() -> ConnectionConfig {
    let profile = SenderProfile {
        congestion: Algorithm::Cubic,
        ack: AckPolicy::Immediate,
        pacing: false,
        timestamps: false,
        window_scaling: false,
        ..SenderProfile::default()
    };
    ConnectionConfig {
        profile,
        mss: 1000,
        receive_buffer: Bytes(60_000),
        autotuning: false,
        syn_retries: 12,
        ..ConnectionConfig::default()
    }
}

/// A connection that is to be opened.
#[derive(Clone, Debug)]
pub struct Setup {
    pub seed: u64,
    /// What the client and the server send, in bytes.
    pub totals: [u64; 2],
    pub configs: [ConnectionConfig; 2],
    /// From the end of the handshake on, or from the SYN on.
    pub faults: Faults,
    pub from_the_start: bool,
    /// When the client begins.
    pub start: Time,
}

impl Setup {
    pub fn new(seed: u64, totals: [u64; 2]) -> Setup {
        let (faults, start) = (Faults::default(), Time::from_secs(1));
        Setup { seed, totals, configs: [plain(), plain()], faults, from_the_start: false, start }
    }

    /// The world in which it is open, behind this policy.
    pub fn behind(self, policy: Policy) -> World {
        self.with(GatewayConfig { flow_buffer: Bytes(100_000), ..GatewayConfig::of(policy) })
    }

    /// The same behind a gateway of this kind.
    pub fn with(self, config: GatewayConfig) -> World {
        let mut world = World::new(self.seed, config);
        world.now = self.start;
        let stations = [world.add_station(Gateway::ACCESS, CLIENT), world.add_station(Gateway::WAN, SERVER)];
        let Setup { totals, configs, faults, from_the_start, .. } = self;
        if from_the_start {
            world.faults = faults;
        }
        world.open(Opening { stations, port: 80, configs, totals });
        assert!(world.run_until(|world| world.connection(0, 1).is_some()), "{}", world.describe());
        world.faults = faults;
        world
    }

    /// The same, at a time at which the stream of one end begins with the sequence number `isn`.
    pub fn beginning_at(mut self, end: usize, isn: u32) -> World {
        // The clock of sequence numbers ticks every 4 µs (RFC 6528 §3). This long the handshake takes, it goes on.
        let world = self.clone().behind(Policy::default());
        let now = world.isn(0, end).expect("the connection is open").0;
        self.start += Duration::from_micros(4) * isn.wrapping_sub(now);
        let world = self.behind(Policy::default());
        assert_eq!(world.isn(0, end).map(|isn| isn.0), Some(isn));
        world
    }
}

/// What the gateway holds for the host on the access side, and up to where that host has acknowledged.
pub fn toward_access(world: &World) -> Option<(u64, u64)> {
    let leg = world.known(0)?.legs?[1].clone();
    Some((leg.buffered, leg.delivered))
}
