//! Hybla: a connection with a long round-trip time sends as fast as one with a short one would.
//!
//! With ρ = max(RTT/RTT0, 1) and RTT0 = 25 ms, each ACK of a segment adds to the window, in
//! segments:
//!
//! ```text
//! slow start            W += 2^ρ − 1                                                        eq. 12
//! congestion avoidance  W += ρ²/W                                                           eq. 12
//! loss, RTO             ssthresh = max(FlightSize/2, 2·ρ), as Reno but for the floor
//! ```
//! so that W/RTT over time is that of Reno with RTT0; a threshold is scaled by ρ like everything
//! else that is counted in windows, so Reno's floor of two segments is 2·ρ here.
//!
//! Source: C. Caini and R. Firrincieli, "TCP Hybla: a TCP enhancement for heterogeneous networks",
//! International Journal of Satellite Communications and Networking 22(5), 2004. As in Linux's
//! `tcp_hybla`, ρ is that of the smallest round-trip time, so that a queue does not speed the
//! growth up that made it.
//!
//! The first slow start needs a threshold: at 600 ms, ρ is 24, and the first ACK would add 2²⁴
//! segments. The paper therefore goes with J. Hoe's estimate ("Improving the start-up behavior of
//! a congestion control scheme for TCP", SIGCOMM 1996): the rate at which the first ACKs come back
//! is that of the bottleneck, and ssthresh is this rate times the smallest round-trip time. Here it
//! is taken over the first window, from its first ACK to the one by which [`TRAIN`] segments more
//! were delivered. Until then slow start is Reno's. The window that the paper enlarges at once is
//! sent paced (its fourth proposal), which is the sender's part.
use core::time::Duration;

use shorthaul_types::Time;

use super::reno::SLOW_START_LIMIT;
use crate::volume;
use crate::window::{MAX_WINDOW, SavedWindow, Window, delegate_to_window};
use crate::{AckSample, ByteCounting, CongestionEvent, Control, ControlParams};

/// The round-trip time that all connections are to behave as if they had.
const RTT0: Duration = Duration::from_millis(25);
/// Segments between the ACKs whose spacing gives the rate of the bottleneck. Hoe took three ACKs;
/// four segments are the largest number that an initial window of RFC 5681 still holds beside the
/// first ACK's.
const TRAIN: u64 = 3;

/// Hybla congestion control (Caini and Firrincieli).
#[derive(Debug)]
pub struct Hybla {
    window: Window,
    limit: Option<u64>,
    min_rtt: Option<Duration>,
    /// Growth in avoidance that is still smaller than a byte.
    fraction: f64,
    start: Start,
    undo: Option<SavedWindow>,
}

/// The search for the first threshold.
#[derive(Debug)]
enum Start {
    /// No ACK yet.
    Waiting,
    /// When the first ACK came, and the bytes delivered since.
    Train { first: Time, delivered: u64 },
    /// The threshold is known, or congestion has set it.
    Done,
}

impl Hybla {
    /// Starts in slow start from the initial window.
    pub fn new(params: ControlParams) -> Self {
        Hybla {
            window: Window::new(&params),
            limit: ByteCounting::limit(&params, SLOW_START_LIMIT),
            min_rtt: None,
            fraction: 0.0,
            start: Start::Waiting,
            undo: None,
        }
    }

    /// ρ, by how much the path is longer than that of the reference connection; one at least.
    pub fn rho(&self) -> f64 {
        self.min_rtt.map_or(1.0, |rtt| (rtt.as_secs_f64() / RTT0.as_secs_f64()).max(1.0))
    }

    /// Half the flight, but two segments of the reference connection at least.
    fn threshold(&self, flight_size: u64) -> u64 {
        let half = flight_size.min(self.window.bytes()) / 2;
        half.max((2.0 * self.rho() * self.window.mss() as f64) as u64)
    }

    /// Hoe's estimate.
    fn seek_threshold(&mut self, ack: &AckSample) {
        match self.start {
            Start::Waiting => self.start = Start::Train { first: ack.now, delivered: 0 },
            Start::Train { first, delivered } => {
                let delivered = delivered.saturating_add(ack.delivered);
                let elapsed = ack.now.saturating_since(first);
                self.start = Start::Train { first, delivered };
                if delivered >= TRAIN * self.window.mss()
                    && let Some(rtt) = self.min_rtt
                    && !elapsed.is_zero()
                {
                    let pipe = volume::in_time(volume::rate(delivered, elapsed), rtt);
                    self.window.set_ssthresh(pipe.max(self.window.bytes()));
                    self.start = Start::Done;
                }
            }
            Start::Done => {}
        }
    }

    fn slow_start(&mut self, ack: &AckSample) {
        let counted = self.window.counted(ack, self.limit);
        let found = matches!(self.start, Start::Done);
        let factor = if found { libm::exp2(self.rho()) - 1.0 } else { 1.0 };
        // A factor of 2^24 or more is more than any window, so nothing is lost in the conversion.
        let growth = (counted as f64 * factor).min(MAX_WINDOW as f64) as u64;
        self.window.climb(ack, growth);
    }

    fn avoid_congestion(&mut self, ack: &AckSample) {
        if !ack.cwnd_limited {
            return;
        }
        let window = self.window.bytes() as f64;
        let share = (ack.newly_acked as f64 / window).min(1.0);
        let rho = self.rho();
        let growth = rho * rho * self.window.mss() as f64 * share + self.fraction;
        let whole = growth.min(MAX_WINDOW as f64) as u64;
        self.fraction = (growth - whole as f64).min(1.0);
        self.window.set_bytes(self.window.bytes() + whole);
    }

    fn forget(&mut self) {
        self.start = Start::Done;
        self.fraction = 0.0;
    }
}

impl Control for Hybla {
    fn on_ack(&mut self, ack: &AckSample) {
        if let Some(rtt) = ack.rtt {
            self.min_rtt = Some(self.min_rtt.map_or(rtt, |min| min.min(rtt)));
        }
        self.seek_threshold(ack);
        if !self.window.admits(ack) {
            return;
        }
        if self.window.in_slow_start() {
            self.slow_start(ack);
        } else {
            self.avoid_congestion(ack);
        }
    }

    fn on_congestion(&mut self, _now: Time, _event: CongestionEvent, flight_size: u64) {
        let threshold = self.threshold(flight_size);
        self.undo = Some(self.window.reduce(threshold, threshold));
        self.forget();
    }

    fn on_timeout(&mut self, _now: Time, flight_size: u64) {
        let threshold = self.threshold(flight_size);
        self.undo = self.window.collapse(threshold).or(self.undo);
        self.forget();
    }

    fn on_spurious(&mut self, _now: Time) {
        if let Some(saved) = self.undo.take() {
            self.window.restore(saved);
        }
    }

    fn on_idle_restart(&mut self, _now: Time) {
        self.window.restart();
        self.forget();
        self.undo = None;
    }

    delegate_to_window!();

    fn name(&self) -> &'static str {
        "hybla"
    }
}
