//! Reno: slow start and congestion avoidance as RFC 5681 has them, counted in bytes (RFC 3465).
//!
//! ```text
//! slow start            cwnd += min(N, L·SMSS)                             RFC 5681 eq. 2, RFC 3465 §2.2
//! congestion avoidance  cwnd += SMSS for each cwnd of acknowledged bytes   RFC 5681 eq. 3, RFC 3465 §2.1
//! loss, ECN-Echo        ssthresh = max(FlightSize/2, 2·SMSS), cwnd = ssthresh             RFC 5681 eq. 4
//! RTO                   ssthresh likewise, once for the same data; cwnd = SMSS          RFC 5681 §3.1
//! ```
//! N is what the ACK newly acknowledged. L is 2, or 1 while an RTO is repaired
//! (RFC 3465 §2.3). Deviation: a paced sender has no L outside such repair, since what L guards
//! against is the burst that one ACK for many segments sets off, and receivers with receive
//! offload acknowledge up to 64 KiB at once. [`ByteCounting`] selects L = 1
//! or 2 whether paced or not.
//!
//! An ECN-Echo is answered like a loss (RFC 3168 §6.1.2), at most once a round trip by the
//! contract of [`Control`].
use alloc::vec::Vec;
use shorthaul_types::Time;

use crate::congestion_avoidance::CongestionAvoidance;
use crate::snapshot::{Keep, Numbers};
use crate::window::{SavedWindow, Window, delegate_to_window};
use crate::{AckSample, ByteCounting, CongestionEvent, Control, ControlParams};

/// L of RFC 3465 for a sender that does not pace.
pub(crate) const SLOW_START_LIMIT: u64 = 2;

/// Reno congestion control (RFC 5681).
#[derive(Debug)]
pub struct Reno {
    window: Window,
    limit: Option<u64>,
    avoidance: CongestionAvoidance,
    undo: Option<SavedWindow>,
}

impl Reno {
    /// Starts in slow start from the initial window.
    pub fn new(params: ControlParams) -> Self {
        let limit = ByteCounting::limit(&params, SLOW_START_LIMIT);
        Reno { window: Window::new(&params), limit, avoidance: CongestionAvoidance::default(), undo: None }
    }

    /// RFC 5681 equation 4. What limited transmit sent beyond the window does not count
    /// (RFC 3042).
    fn half(&self, flight_size: u64) -> u64 {
        flight_size.min(self.window.bytes()) / 2
    }
}

impl Control for Reno {
    fn on_ack(&mut self, ack: &AckSample) {
        if !self.window.admits(ack) {
            return;
        }
        let mut acked = ack.newly_acked;
        if self.window.in_slow_start() {
            acked = self.window.slow_start(ack, self.limit, 1);
        }
        self.avoidance.on_ack(&mut self.window, ack, acked);
    }

    fn on_congestion(&mut self, _now: Time, _event: CongestionEvent, flight_size: u64) {
        let half = self.half(flight_size);
        self.undo = Some(self.window.reduce(half, half.max(2 * self.window.mss())));
        self.avoidance.reset();
    }

    fn on_timeout(&mut self, _now: Time, flight_size: u64) {
        let half = self.half(flight_size);
        self.undo = self.window.collapse(half).or(self.undo);
        self.avoidance.reset();
    }

    fn on_spurious(&mut self, _now: Time) {
        if let Some(saved) = self.undo.take() {
            self.window.restore(saved);
        }
    }

    fn on_idle_restart(&mut self, _now: Time) {
        self.window.restart();
        self.avoidance.reset();
        self.undo = None;
    }

    delegate_to_window!();

    fn put_away(&self, to: &mut Vec<u64>) -> bool {
        self.window.put(to);
        self.avoidance.put(to);
        self.undo.put(to);
        true
    }

    fn bring_back(&mut self, from: &mut Numbers<'_>) -> Option<()> {
        Keep::take(&mut self.window, from)?;
        Keep::take(&mut self.avoidance, from)?;
        Keep::take(&mut self.undo, from)
    }

    fn name(&self) -> &'static str {
        "reno"
    }
}
