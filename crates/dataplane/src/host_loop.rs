use crate::event_loop::batch;
use shorthaul_os::poll::wait_readable;
use shorthaul_os::{BufferPool, Tun, monotonic};
use shorthaul_tcp::Host;
use shorthaul_types::{PortId, Time};
use shorthaul_wire::{ChecksumMode, Datagram, HEADERS_MAX, Machine, TxBatch, headers, parse, payload_slices};
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// A [`Host`], or another machine that ends connections, behind a TUN device, live: a TCP of one's own, in
/// this process.
pub struct HostLoop<M = Host> {
    device: Tun,
    host: M,
    /// What the host's time counts from.
    origin: Time,
    pool: BufferPool,
    out: TxBatch,
}

impl<M: Machine> HostLoop<M> {
    /// A loop over `device`, to which the kernel has to send what is meant for the host. The host's time is
    /// the machine's monotonic clock.
    pub fn new(device: Tun, host: M) -> Self {
        HostLoop { device, host, origin: Time::ZERO, pool: BufferPool::new(), out: TxBatch::new() }
    }

    /// The same with a host whose time counts from this moment.
    #[must_use]
    pub fn from_now(mut self) -> Self {
        self.origin = monotonic();
        self
    }

    /// The host.
    pub fn host(&self) -> &M {
        &self.host
    }

    /// The host's time.
    pub fn now(&self) -> Time {
        Time::ZERO + monotonic().saturating_since(self.origin)
    }

    /// Waits for a packet or a deadline, but no longer than `longest`, and does one round: takes
    /// in what has come, lets `application` write, read and close, and sends what there is to send.
    ///
    /// # Errors
    /// The device is gone.
    pub fn round(&mut self, longest: Duration, mut application: impl FnMut(&mut M, Time)) -> io::Result<()> {
        let deadline = self.host.poll_timeout();
        let wait = deadline.map_or(longest, |deadline| deadline.at.saturating_since(self.now()));
        wait_readable([self.device.as_fd()], Some(wait.min(longest)))?;
        let now = self.now();
        for _ in 0..batch(now, deadline) {
            let Some((bytes, offload)) = self.pool.fill(|chunk| self.device.receive(chunk))? else { break };
            if let Ok(packet) = parse(Datagram { bytes, offload }) {
                self.host.handle_packet(now, PortId(0), packet);
            }
        }
        self.host.handle_timeout(now);
        loop {
            application(&mut self.host, now);
            let more = self.host.poll_transmit(now, &mut self.out);
            for (_, packet) in self.out.drain(..) {
                let mut bytes = [0; HEADERS_MAX];
                let (len, offload) = headers(&packet, ChecksumMode::Partial, &mut bytes);
                // What the device does not take is lost as on any link, and will be retransmitted.
                let _ = self.device.send(&bytes[..len], payload_slices(&packet), &offload);
            }
            if !more {
                return Ok(());
            }
        }
    }
}
