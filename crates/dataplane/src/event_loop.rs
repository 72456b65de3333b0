use crate::BufferPool;
use crate::sys::{Tun, monotonic, wait_readable};
use shorthaul_proxy::{CustodyRecord, Gateway};
use shorthaul_types::{PortId, Time};
use shorthaul_wire::{
    ChecksumMode, Datagram, HEADERS_MAX, Machine, Packet, RejectReason, TxBatch, headers, parse,
    payload_slices,
};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// Packets taken from each device before the machine has its turn: few enough that nothing waits
/// long for its acknowledgment, enough to spread the cost of a round.
const BATCH: usize = 32;

/// A machine that the loop can drive: what it is told beyond [`Machine`].
pub trait Driven: Machine {
    /// Bytes arrived that are no packet.
    fn on_malformed(&mut self, reason: RejectReason) {
        let _ = reason;
    }

    /// The next thing to be stored before the packets of this round leave.
    fn poll_custody(&mut self) -> Option<(u32, Option<CustodyRecord>)> {
        None
    }
}

impl Driven for crate::Forwarder {}

impl Driven for Gateway {
    fn on_malformed(&mut self, reason: RejectReason) {
        self.count_malformed(reason.as_str());
    }

    fn poll_custody(&mut self) -> Option<(u32, Option<CustodyRecord>)> {
        Gateway::poll_custody(self)
    }
}

/// What the loop itself has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoopStats {
    /// Rounds.
    pub rounds: u64,
    /// Packets read.
    pub packets_in: u64,
    /// Packets written.
    pub packets_out: u64,
    /// Packets that a device did not take.
    pub dropped: u64,
}

/// One event loop: two devices, one machine, one `now` a round.
pub struct EventLoop<M> {
    devices: [Tun; 2],
    machine: M,
    pool: BufferPool,
    out: TxBatch,
    stats: LoopStats,
}

impl<M: Driven> EventLoop<M> {
    /// A loop over the devices of port 0 and port 1.
    pub fn new(devices: [Tun; 2], machine: M) -> Self {
        let pool = BufferPool::new();
        EventLoop { devices, machine, pool, out: TxBatch::new(), stats: LoopStats::default() }
    }

    /// The machine.
    pub fn machine(&mut self) -> &mut M {
        &mut self.machine
    }

    /// What the loop has seen so far.
    pub fn stats(&self) -> LoopStats {
        self.stats
    }

    /// Waits for a packet, a deadline or `others`, but no longer than `longest`, and does one round.
    /// `journal` is given what must be stored before the round's packets leave. Says which of the
    /// others can be read from.
    ///
    /// # Errors
    /// A device is gone.
    pub fn round(
        &mut self,
        others: [BorrowedFd<'_>; 2],
        longest: Duration,
        mut journal: impl FnMut(u32, Option<CustodyRecord>),
    ) -> io::Result<[bool; 2]> {
        let timeout = self
            .machine
            .poll_timeout()
            .map_or(longest, |deadline| deadline.at.saturating_since(monotonic()).min(longest));
        let [edge, wan, first, second] = wait_readable(
            [self.devices[0].as_fd(), self.devices[1].as_fd(), others[0], others[1]],
            Some(timeout),
        )?;
        let now = monotonic();
        self.stats.rounds += 1;
        for (port, readable) in [(0, edge), (1, wan)] {
            if readable {
                self.take_in(now, PortId(port))?;
            }
        }
        self.turn(now, &mut journal);
        Ok([first, second])
    }

    /// Lets the machine put out what it has, and writes it.
    fn turn(&mut self, now: Time, journal: &mut impl FnMut(u32, Option<CustodyRecord>)) {
        self.machine.handle_timeout(now);
        loop {
            let more = self.machine.poll_transmit(now, &mut self.out);
            while let Some((slot, record)) = self.machine.poll_custody() {
                journal(slot, record);
            }
            self.put_out();
            if !more {
                return;
            }
        }
    }

    fn take_in(&mut self, now: Time, port: PortId) -> io::Result<()> {
        for _ in 0..BATCH {
            let device = &self.devices[usize::from(port.0)];
            let Some((bytes, offload)) = self.pool.fill(|chunk| device.receive(chunk))? else {
                return Ok(());
            };
            self.stats.packets_in += 1;
            let datagram = Datagram { bytes, offload };
            match parse(datagram) {
                Ok(packet) => self.machine.handle_packet(now, port, packet),
                Err(rejected) => {
                    self.machine.on_malformed(rejected.reason);
                    if rejected.reason.is_forwardable() {
                        let other = &self.devices[usize::from(port.0 ^ 1)];
                        let Datagram { bytes, offload } = &rejected.datagram;
                        let sent = other.send(&[], std::slice::from_ref(bytes), offload);
                        self.stats.dropped += u64::from(sent.is_err());
                    }
                }
            }
        }
        Ok(())
    }

    fn put_out(&mut self) {
        for (port, packet) in self.out.drain(..) {
            let device = &self.devices[usize::from(port.0 & 1)];
            match write(device, &packet) {
                Ok(()) => self.stats.packets_out += 1,
                // A device that is down or a packet that it does not take: the ends repair it.
                Err(_) => self.stats.dropped += 1,
            }
        }
    }
}

fn write(device: &Tun, packet: &Packet) -> io::Result<()> {
    match &packet.original {
        Some(Datagram { bytes, offload }) => device.send(&[], std::slice::from_ref(bytes), offload),
        None => {
            let mut bytes = [0; HEADERS_MAX];
            let (len, offload) = headers(packet, ChecksumMode::Partial, &mut bytes);
            device.send(&bytes[..len], payload_slices(packet), &offload)
        }
    }
}
