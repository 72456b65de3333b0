//! What gateways were given in a run, to give it to others like them again: what handling it costs a processor is measured so, apart from the
//! simulator and without a clock that is read for each packet.
use shorthaul_proxy::{Gateway, GatewayConfig};
use shorthaul_types::{PortId, Time};
use shorthaul_wire::{Machine, Packet, TxBatch};

// A box for each packet would be freed where time is measured.
#[allow(clippy::large_enum_variant)]
/// A call of a gateway by whoever drives it.
#[derive(Clone, Debug)]
enum Call {
    Packet(Time, PortId, Packet),
    Timeout(Time),
    Transmit(Time),
}

/// The calls of a gateway in a run, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calls {
    list: Vec<Call>,
    left: u64,
}

impl Calls {
    pub fn packet(&mut self, now: Time, port: PortId, packet: &Packet) {
        self.list.push(Call::Packet(now, port, packet.clone()));
    }

    pub fn timeout(&mut self, now: Time) {
        self.list.push(Call::Timeout(now));
    }

    /// It was asked for what it has to send, and gave this many packets.
    pub fn transmit(&mut self, now: Time, packets: usize) {
        self.list.push(Call::Transmit(now));
        self.left += packets as u64;
    }
}

/// All that a gateway was given in a run.
#[derive(Debug)]
pub struct Handled {
    /// The gateway's name in the scenario.
    pub name: String,
    config: GatewayConfig,
    calls: Calls,
}

impl Handled {
    pub(crate) fn new(name: String, config: GatewayConfig, calls: Calls) -> Self {
        Handled { name, config, calls }
    }

    /// How many packets came to it, and how many bytes of IP.
    pub fn packets(&self) -> (u64, u64) {
        let sizes = self.calls.list.iter().filter_map(|call| match call {
            Call::Packet(_, _, packet) => Some(packet.wire_len() as u64),
            _ => None,
        });
        sizes.fold((0, 0), |(packets, bytes), size| (packets + 1, bytes + size))
    }

    /// How many packets left it; of these, some are super-segments.
    pub fn left(&self) -> u64 {
        self.calls.left
    }

    /// A new gateway of the same configuration, with all that it will be given.
    pub fn again(&self) -> Again {
        Again { gateway: Gateway::new(self.config.clone()), calls: self.calls.list.clone() }
    }
}

/// A gateway that is about to be given what another one was.
#[derive(Debug)]
pub struct Again {
    gateway: Gateway,
    calls: Vec<Call>,
}

impl Again {
    /// Gives it all that. Returns how many packets left it: as many as left the other one, for it is a machine.
    pub fn run(self) -> u64 {
        let Again { mut gateway, calls } = self;
        let mut out = TxBatch::new();
        let mut left = 0;
        for call in calls {
            match call {
                Call::Packet(now, port, packet) => gateway.handle_packet(now, port, packet),
                Call::Timeout(now) => gateway.handle_timeout(now),
                Call::Transmit(now) => {
                    let more = gateway.poll_transmit(now, &mut out);
                    left += out.len() as u64;
                    out.clear();
                    if !more {
                        std::hint::black_box(gateway.poll_timeout());
                    }
                }
            }
        }
        left
    }
}
