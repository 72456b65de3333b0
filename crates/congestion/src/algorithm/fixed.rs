//! A window that congestion does not move, as for clamping a path whose bandwidth-delay product
//! is known, or for comparison.
use alloc::vec::Vec;
use shorthaul_types::{Bytes, Time};

use crate::snapshot::{Keep, Numbers};
use crate::window::MAX_WINDOW;
use crate::{AckSample, CongestionEvent, Control, ControlParams};

/// A constant window.
///
/// Losses are repaired without an answer. Only an RTO narrows the window, to one segment
/// that probes the path, and the first ACK of new data opens it again.
#[derive(Debug)]
pub struct Fixed {
    size: u64,
    mss: u64,
    probing: bool,
}

impl Fixed {
    /// Holds the window at `size`, one segment at least and 1 GiB at most.
    pub fn new(params: ControlParams, size: Bytes) -> Self {
        Fixed { size: size.0.min(MAX_WINDOW), mss: u64::from(params.mss.max(1)), probing: false }
    }
}

impl Control for Fixed {
    fn on_ack(&mut self, ack: &AckSample) {
        if ack.newly_acked > 0 {
            self.probing = false;
        }
    }

    fn on_congestion(&mut self, _now: Time, _event: CongestionEvent, _flight_size: u64) {}

    fn on_timeout(&mut self, _now: Time, _flight_size: u64) {
        self.probing = true;
    }

    fn on_recovered(&mut self, _now: Time) {}

    fn on_spurious(&mut self, _now: Time) {
        self.probing = false;
    }

    fn on_idle_restart(&mut self, _now: Time) {}

    fn set_mss(&mut self, mss: u32) {
        self.mss = u64::from(mss.max(1));
    }

    fn window(&self) -> u64 {
        if self.probing { self.mss } else { self.size.max(self.mss) }
    }

    fn ssthresh(&self) -> u64 {
        u64::MAX
    }

    fn in_slow_start(&self) -> bool {
        false
    }

    fn uses_prr(&self) -> bool {
        false
    }

    fn put_away(&self, to: &mut Vec<u64>) -> bool {
        self.probing.put(to);
        true
    }

    fn bring_back(&mut self, from: &mut Numbers<'_>) -> Option<()> {
        Keep::take(&mut self.probing, from)
    }

    fn name(&self) -> &'static str {
        "fixed"
    }
}
