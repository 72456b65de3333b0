use shorthaul_types::{Deadline, PortId, Time};
use shorthaul_wire::{Machine, Packet, TxBatch};

/// A machine that passes every packet on to the other port, as it came: the baseline that a
/// gateway is measured against.
#[derive(Debug, Default)]
pub struct Forwarder {
    waiting: TxBatch,
}

impl Machine for Forwarder {
    fn handle_packet(&mut self, _now: Time, port: PortId, packet: Packet) {
        self.waiting.push((PortId(port.0 ^ 1), packet));
    }

    fn handle_timeout(&mut self, _now: Time) {}

    fn poll_transmit(&mut self, _now: Time, out: &mut TxBatch) -> bool {
        out.append(&mut self.waiting);
        false
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        None
    }
}
