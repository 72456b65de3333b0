//! CUBIC (RFC 9438): the window is a cubic function of the time since the last congestion.
//!
//! ```text
//! W_cubic(t) = C·(t − K)³ + W_max          K = ∛((W_max − cwnd_epoch) / C)             §4.2
//! target     = W_cubic(t + RTT), within [cwnd, 1.5·cwnd]                               §4.2
//! cwnd      += (target − cwnd) / cwnd  for each segment acknowledged                   §4.4, 4.5
//! W_est     += α · segments_acked / cwnd    α = 3·(1 − β)/(1 + β), then 1 from cwnd_prior on   §4.3
//! cwnd       = W_est  where W_cubic(t) < W_est  (Reno-friendly region)                 §4.3
//! congestion   ssthresh = β·FlightSize, cwnd = ssthresh, W_max = cwnd before           §4.6
//!              or W_max = cwnd·(1 + β)/2 where cwnd had not regained W_max             §4.7
//! RTO          ssthresh likewise, cwnd = SMSS, then K = 0 and W_max = cwnd             §4.8
//! ```
//! with β = 0.7 and C = 0.4 segments/s³. Here all windows are bytes, so C is multiplied by the
//! segment size. t counts only the time in which the window limited the sender (§4.2, §5.8): an
//! application that pauses does not find a window that grew meanwhile. The initial slow start is
//! HyStart++ (RFC 9406, RFC 9438 §4.10).
//!
//! The arithmetic is `f64` without the platform's mathematics library, so it gives the same
//! result everywhere.
use alloc::vec::Vec;
use core::time::Duration;

use shorthaul_types::Time;

use crate::hystart::{self, HyStart, Phase};
use crate::snapshot::{Blank, Keep, Numbers, keeps, restored, snapshot};
use crate::window::{SavedWindow, Window, delegate_to_window};
use crate::{AckSample, ByteCounting, CongestionEvent, Control, ControlParams};

/// Multiplicative decrease factor β_cubic.
const BETA: f64 = 0.7;
/// How fast the window regains W_max, in segments per second cubed.
const C: f64 = 0.4;
/// Additive increase of the Reno-friendly region that makes up for the gentler decrease.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// Of [`Control::snapshot`]: another one with each change of what is handed over.
const VERSION: u64 = 1;

/// CUBIC congestion control (RFC 9438) with HyStart++ (RFC 9406).
#[derive(Clone, Debug)]
pub struct Cubic {
    window: Window,
    curve: Curve,
    srtt: Option<Duration>,
    last_ack: Time,
    hystart: HyStart,
    limit: Option<u64>,
    undo: Option<(SavedWindow, Curve)>,
}

// HyStart++ looks at one round at a time, and an undo at one loss: both begin anew.
keeps!(Cubic { window, curve, srtt, last_ack });

/// What congestion avoidance remembers between rounds and a spurious congestion event restores
/// (§4.9.2). Windows in bytes.
#[derive(Clone, Copy, Debug)]
struct Curve {
    /// The window just before the last reduction, less a share for fast convergence. `None` where
    /// the RFC leaves it undefined: before any loss, and after an RTO.
    w_max: Option<f64>,
    /// The window when ssthresh was last set.
    cwnd_prior: f64,
    epoch: Option<Epoch>,
}

/// One stage of congestion avoidance.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    /// Seconds since the stage began, as far as the window limited the sender.
    t: f64,
    /// Seconds from the beginning to the plateau.
    k: f64,
    /// Where the plateau lies: W_max, or the first window of the stage if that is larger.
    plateau: f64,
    /// The window that Reno would have.
    w_est: f64,
}

keeps!(Curve { w_max, cwnd_prior, epoch });
keeps!(Epoch { t, k, plateau, w_est });

impl Blank for Curve {
    fn blank() -> Self {
        Curve { w_max: None, cwnd_prior: 0.0, epoch: None }
    }
}

impl Blank for Epoch {
    fn blank() -> Self {
        Epoch { t: 0.0, k: 0.0, plateau: 0.0, w_est: 0.0 }
    }
}

impl Epoch {
    /// Begins a stage at `window` bytes.
    fn new(window: f64, w_max: Option<f64>, c: f64) -> Self {
        let plateau = w_max.unwrap_or(window).max(window);
        Epoch { t: 0.0, k: libm::cbrt((plateau - window) / c), plateau, w_est: window }
    }

    /// W_cubic(`t`), equation 1, in bytes; `c` in bytes per second cubed.
    fn w_cubic(&self, t: f64, c: f64) -> f64 {
        let d = t - self.k;
        c * d * d * d + self.plateau
    }
}

impl Cubic {
    /// Starts in slow start from the initial window.
    pub fn new(params: ControlParams) -> Self {
        Cubic {
            window: Window::new(&params),
            curve: Curve { w_max: None, cwnd_prior: 0.0, epoch: None },
            srtt: None,
            last_ack: params.now,
            hystart: HyStart::default(),
            limit: ByteCounting::limit(&params, hystart::SLOW_START_LIMIT),
            undo: None,
        }
    }

    /// C in bytes per second cubed.
    fn c(&self) -> f64 {
        C * self.window.mss() as f64
    }

    /// Congestion avoidance for `acked` bytes, of which the sender took `elapsed` to be told.
    fn avoid_congestion(&mut self, acked: u64, elapsed: Duration) {
        let c = self.c();
        let mss = self.window.mss() as f64;
        let cwnd = self.window.bytes() as f64;
        let cwnd_prior = self.curve.cwnd_prior;
        let epoch = match &mut self.curve.epoch {
            Some(epoch) => {
                epoch.t += elapsed.as_secs_f64();
                epoch
            }
            none => none.insert(Epoch::new(cwnd, self.curve.w_max, c)),
        };

        let share = (acked as f64 / cwnd).min(1.0);
        let alpha = if epoch.w_est >= cwnd_prior { 1.0 } else { ALPHA };
        epoch.w_est += alpha * mss * share;

        let grown = if epoch.w_cubic(epoch.t, c) < epoch.w_est {
            epoch.w_est.max(cwnd)
        } else {
            let rtt = self.srtt.unwrap_or_default().as_secs_f64();
            let target = epoch.w_cubic(epoch.t + rtt, c).clamp(cwnd, 1.5 * cwnd);
            cwnd + (target - cwnd) * share
        };
        // What is cut off below a byte is made up for: the target goes by time, not by ACKs.
        self.window.set_bytes(grown as u64);
    }

    /// β·cwnd. §4.6 lets cwnd stand for FlightSize where it does not outgrow what is used, and it does
    /// not here (RFC 7661, [`Window::slow_start`]). A sender that happened to have little in flight
    /// when a loss showed, as at the end of a burst, then keeps most of what it has learnt.
    fn reduced(&self) -> u64 {
        // In whole numbers, so that seven tenths of ten segments are seven segments.
        self.window.bytes() * 7 / 10
    }
}

impl Control for Cubic {
    fn on_ack(&mut self, ack: &AckSample) {
        let elapsed = ack.now.saturating_since(self.last_ack);
        self.last_ack = ack.now;
        if let Some(rtt) = ack.rtt {
            self.srtt = Some(self.srtt.map_or(rtt, |srtt| srtt - srtt / 8 + rtt / 8));
        }
        // HyStart++ is for the initial slow start; later ones have a threshold to go by (§4.3).
        let mut divisor = 1;
        if self.window.ssthresh() == u64::MAX {
            match self.hystart.on_ack(ack) {
                Phase::SlowStart => {}
                Phase::Conservative => divisor = hystart::CSS_GROWTH_DIVISOR,
                Phase::Done => {
                    self.window.leave_slow_start();
                    self.curve = Curve { w_max: None, cwnd_prior: self.window.bytes() as f64, epoch: None };
                }
            }
        }
        if !self.window.admits(ack) {
            return;
        }
        let mut acked = ack.newly_acked;
        if self.window.in_slow_start() {
            acked = self.window.slow_start(ack, self.limit, divisor);
        }
        if acked > 0 && ack.cwnd_limited && !self.window.in_slow_start() {
            self.avoid_congestion(acked, elapsed);
        }
    }

    fn on_congestion(&mut self, _now: Time, event: CongestionEvent, _flight_size: u64) {
        let cwnd = self.window.bytes() as f64;
        let reduced = self.reduced();
        // A mark, unlike a loss, may bring the window down to a single segment (§4.6).
        let floor = match event {
            CongestionEvent::Loss => 2 * self.window.mss(),
            CongestionEvent::EcnEcho => self.window.mss(),
        };
        let saved = (self.window.reduce(reduced, reduced.max(floor)), self.curve);
        self.undo = Some(saved);
        // Fast convergence: a flow that did not regain its window makes room for others (§4.7).
        let regained = self.curve.w_max.is_none_or(|w_max| cwnd >= w_max);
        let w_max = if regained { cwnd } else { cwnd * (1.0 + BETA) / 2.0 };
        self.curve = Curve { w_max: Some(w_max), cwnd_prior: cwnd, epoch: None };
    }

    fn on_timeout(&mut self, _now: Time, _flight_size: u64) {
        let cwnd = self.window.bytes() as f64;
        if let Some(saved) = self.window.collapse(self.reduced()) {
            self.undo = Some((saved, self.curve));
            self.curve.cwnd_prior = cwnd;
        }
        self.curve.w_max = None;
        self.curve.epoch = None;
    }

    fn on_spurious(&mut self, _now: Time) {
        if let Some((window, curve)) = self.undo.take()
            && self.window.restore(window)
        {
            self.curve = curve;
        }
    }

    fn on_idle_restart(&mut self, now: Time) {
        self.last_ack = now;
        self.window.restart();
        self.curve.epoch = None;
        self.undo = None;
    }

    fn on_transmit_start(&mut self, now: Time) {
        self.last_ack = now;
    }

    delegate_to_window!();

    fn snapshot(&self) -> Vec<u64> {
        snapshot(VERSION, self)
    }

    fn restore(&mut self, numbers: &[u64]) -> bool {
        let Some(mut next) = restored(VERSION, self, numbers) else { return false };
        next.window.set_bytes(next.window.bytes());
        *self = next;
        true
    }

    fn put_away(&self, to: &mut Vec<u64>) -> bool {
        self.put(to);
        self.hystart.put(to);
        self.undo.put(to);
        true
    }

    fn bring_back(&mut self, from: &mut Numbers<'_>) -> Option<()> {
        self.take(from)?;
        Keep::take(&mut self.hystart, from)?;
        Keep::take(&mut self.undo, from)
    }

    fn name(&self) -> &'static str {
        "cubic"
    }
}
