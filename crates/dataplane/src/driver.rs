use crate::BandwidthReport;
use shorthaul_proxy::{Custody, FlowMomentum, Gateway, GatewayConfig, Inherited};
use shorthaul_types::{PortId, Time};
use shorthaul_wire::{
    ChecksumMode, Datagram, HEADERS_MAX, Machine, Offload, Packet, Payload, RejectReason, TxBatch, headers,
    parse, payload_slices,
};

/// A machine that a driver can run: what it is told beyond [`Machine`].
pub trait Driven: Machine {
    /// Bytes arrived that are no packet.
    fn on_malformed(&mut self, reason: RejectReason) {
        let _ = reason;
    }

    /// Tells a store what is to be there before the packets of this round leave.
    fn save(&mut self, custody: &mut impl Custody) {
        let _ = custody;
    }

    /// How many slots there are for flows, those that are free included.
    fn slots(&self) -> usize {
        0
    }

    /// How many slots, from the first on, have room in the store.
    fn set_record_room(&mut self, slots: u32) {
        let _ = slots;
    }

    /// A predecessor left this flow.
    fn adopt(&mut self, now: Time, inherited: &Inherited) {
        let _ = (now, inherited);
    }

    /// What each flow does at the moment, by the number of its record.
    fn momenta(&self) -> Vec<(u64, FlowMomentum)> {
        Vec::new()
    }

    /// Flows of which the store does not have all bytes, with all that is held.
    fn unkept(&self) -> Vec<Inherited> {
        Vec::new()
    }

    /// Begin to step out of everything.
    fn drain(&mut self, now: Time) {
        let _ = now;
    }

    /// Give up what is still held. Says of how many flows that was.
    fn abandon(&mut self, now: Time) -> usize {
        let _ = now;
        0
    }

    /// Goes on with another configuration.
    fn reconfigure(&mut self, now: Time, config: GatewayConfig) {
        let _ = (now, config);
    }

    /// The access side carries another bandwidth from now on. Whether there is what is spoken of.
    fn set_bandwidth(&mut self, now: Time, report: &BandwidthReport) -> bool {
        let _ = (now, report);
        false
    }
}

impl Driven for crate::Forwarder {}

impl Driven for Gateway {
    fn on_malformed(&mut self, reason: RejectReason) {
        self.count_reason(reason.as_str());
    }

    fn save(&mut self, custody: &mut impl Custody) {
        Gateway::save(self, custody);
    }

    fn slots(&self) -> usize {
        Gateway::slots(self)
    }

    fn set_record_room(&mut self, slots: u32) {
        Gateway::set_record_room(self, slots);
    }

    fn adopt(&mut self, now: Time, inherited: &Inherited) {
        Gateway::adopt(self, now, inherited);
    }

    fn unkept(&self) -> Vec<Inherited> {
        Gateway::unkept(self).collect()
    }

    fn momenta(&self) -> Vec<(u64, FlowMomentum)> {
        Gateway::momenta(self).collect()
    }

    fn drain(&mut self, now: Time) {
        Gateway::drain(self, now);
    }

    fn abandon(&mut self, now: Time) -> usize {
        self.reset_held(now)
    }

    fn reconfigure(&mut self, now: Time, config: GatewayConfig) {
        Gateway::reconfigure(self, now, config);
    }

    fn set_bandwidth(&mut self, now: Time, report: &BandwidthReport) -> bool {
        self.set_path_tail_bandwidth(now, report.cell.as_deref(), report.bandwidth)
    }
}

/// Where what a machine puts out goes: devices, or the comparison of a replay.
pub trait Outlet {
    /// A packet to leave by `port`: `headers`, then `slices`.
    fn packet(&mut self, port: PortId, headers: &[u8], slices: &[Payload], offload: &Offload);

    /// The machine says what is to be stored before the packets that follow.
    fn save(&mut self, machine: &mut impl Driven) {
        machine.save(&mut ());
    }
}

/// Drives a machine with bytes. The live loop and a replay both do it through this, in the same order.
#[derive(Debug)]
pub struct Driver<M> {
    machine: M,
    out: TxBatch,
}

impl<M: Driven> Driver<M> {
    /// A driver of `machine`.
    pub fn new(machine: M) -> Self {
        Driver { machine, out: TxBatch::new() }
    }

    /// The machine, to look at.
    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// The machine, to tell it what [`Driven`] has.
    pub fn machine_mut(&mut self) -> &mut M {
        &mut self.machine
    }

    /// Bytes came in by `port`. What is no packet for the machine, but would be for a router, goes on
    /// to the other port at once.
    #[inline]
    pub fn take_in(&mut self, now: Time, port: PortId, datagram: Datagram, outlet: &mut impl Outlet) {
        match parse(datagram) {
            Ok(packet) => self.machine.handle_packet(now, port, packet),
            Err(rejected) => {
                self.machine.on_malformed(rejected.reason);
                if rejected.reason.is_forwardable() {
                    let Datagram { bytes, offload } = &rejected.datagram;
                    outlet.packet(PortId(port.0 ^ 1), &[], std::slice::from_ref(bytes), offload);
                }
            }
        }
    }

    /// Tells the machine the time, and passes on what it puts out.
    pub fn turn(&mut self, now: Time, outlet: &mut impl Outlet) {
        self.machine.handle_timeout(now);
        loop {
            let more = self.machine.poll_transmit(now, &mut self.out);
            outlet.save(&mut self.machine);
            for (port, packet) in self.out.drain(..) {
                put_out(port, &packet, outlet);
            }
            if !more {
                return;
            }
        }
    }
}

fn put_out(port: PortId, packet: &Packet, outlet: &mut impl Outlet) {
    match &packet.original {
        Some(Datagram { bytes, offload }) => outlet.packet(port, &[], std::slice::from_ref(bytes), offload),
        None => {
            let mut bytes = [0; HEADERS_MAX];
            let (len, offload) = headers(packet, ChecksumMode::Partial, &mut bytes);
            outlet.packet(port, &bytes[..len], payload_slices(packet), &offload);
        }
    }
}
