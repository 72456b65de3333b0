use crate::Packet;
use alloc::vec::Vec;
use shorthaul_types::{Deadline, PortId, Time};

/// Packets on their way out of a machine, in order, each with the port that it leaves by.
///
/// The driver owns one and empties it after every poll, so that its memory is reused.
pub type TxBatch = Vec<(PortId, Packet)>;

/// What takes packets and time in, and gives packets and deadlines out.
///
/// It owns no socket, clock, thread or random source: the simulator and the live loop drive the
/// same code. A driver, whenever anything happened,
///
/// 1. hands in what arrived with [`Machine::handle_packet`],
/// 2. calls [`Machine::handle_timeout`] if [`Machine::poll_timeout`] has passed,
/// 3. calls [`Machine::poll_transmit`] until it returns `false`, sending what it put out,
/// 4. asks [`Machine::poll_timeout`] when to come again.
///
/// All calls of one round carry the same `now`, which never goes back. The same calls give the
/// same output, always.
pub trait Machine {
    /// A packet came in by `port`.
    fn handle_packet(&mut self, now: Time, port: PortId, packet: Packet);

    /// A deadline may have passed. Calls that come too early do nothing.
    fn handle_timeout(&mut self, now: Time);

    /// Appends packets to send to `out`; returns whether there may be more to come at this `now`.
    fn poll_transmit(&mut self, now: Time, out: &mut TxBatch) -> bool;

    /// When to call [`Machine::handle_timeout`] next, if nothing else happens before.
    fn poll_timeout(&self) -> Option<Deadline>;
}
