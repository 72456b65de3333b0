//! The window itself: what slow start, an RTO, idleness and an undo do to it, which is the
//! same for Reno, CUBIC, Westwood+, Vegas, Hybla and Illinois.
use crate::snapshot::{Blank, keeps};
use crate::{AckSample, ControlParams};

/// What a control answers by its [`Window`] alone, which is its field `window`.
macro_rules! delegate_to_window {
    () => {
        fn decrease(&mut self, _now: shorthaul_types::Time, percent: u64) {
            self.window.decrease(percent);
        }

        fn on_recovered(&mut self, _now: shorthaul_types::Time) {
            self.window.recovered();
        }

        fn take_over(&mut self, _now: shorthaul_types::Time, known: &crate::KnownPath) {
            self.window.set_bytes(known.window);
            self.window.set_ssthresh(known.ssthresh);
        }

        fn set_mss(&mut self, mss: u32) {
            self.window.set_mss(mss);
        }

        fn window(&self) -> u64 {
            self.window.bytes()
        }

        fn ssthresh(&self) -> u64 {
            self.window.ssthresh()
        }

        fn in_slow_start(&self) -> bool {
            self.window.in_slow_start()
        }
    };
}
pub(crate) use delegate_to_window;

/// The largest window that TCP can announce and so the largest worth growing to
/// (RFC 7323 §2.3).
pub(crate) const MAX_WINDOW: u64 = 1 << 30;

/// cwnd and ssthresh of RFC 5681, in bytes.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    bytes: u64,
    ssthresh: u64,
    mss: u64,
    initial: u64,
    repairing_timeout: bool,
    timed_out: bool,
}

keeps!(Window { bytes, ssthresh, repairing_timeout, timed_out });

/// cwnd and ssthresh as they were before an answer to congestion.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SavedWindow {
    bytes: u64,
    ssthresh: u64,
}

keeps!(SavedWindow { bytes, ssthresh });

impl Blank for SavedWindow {
    fn blank() -> Self {
        SavedWindow { bytes: 0, ssthresh: 0 }
    }
}

impl Window {
    pub(crate) fn new(params: &ControlParams) -> Self {
        let mss = u64::from(params.mss.max(1));
        let initial = params.initial_window.clamp(mss, MAX_WINDOW.max(mss));
        Window {
            bytes: initial,
            ssthresh: params.initial_ssthresh.max(2 * mss),
            mss,
            initial,
            repairing_timeout: false,
            timed_out: false,
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn ssthresh(&self) -> u64 {
        self.ssthresh
    }

    pub(crate) fn mss(&self) -> u64 {
        self.mss
    }

    pub(crate) fn in_slow_start(&self) -> bool {
        self.bytes < self.ssthresh
    }

    pub(crate) fn set_mss(&mut self, mss: u32) {
        self.mss = u64::from(mss.max(1));
        self.initial = self.initial.max(self.mss);
        self.set_bytes(self.bytes);
    }

    /// Sets the window, kept between one segment and [`MAX_WINDOW`].
    pub(crate) fn set_bytes(&mut self, bytes: u64) {
        self.bytes = bytes.min(MAX_WINDOW).max(self.mss);
    }

    /// Slow start ends here: ssthresh becomes the present window.
    pub(crate) fn leave_slow_start(&mut self) {
        self.ssthresh = self.bytes;
    }

    /// Whether this ACK may enlarge the window: it acknowledges new data outside fast recovery.
    pub(crate) fn admits(&mut self, ack: &AckSample) -> bool {
        if ack.newly_acked > 0 {
            self.timed_out = false;
        }
        ack.newly_acked > 0 && (self.repairing_timeout || !ack.in_recovery)
    }

    /// Slow start by bytes (RFC 5681 §3.1, RFC 3465): adds what was acknowledged, at most
    /// `limit` segments for one ACK, divided by `divisor`. Returns the acknowledged bytes that
    /// are left for congestion avoidance once ssthresh is met.
    ///
    /// While an RTO is repaired, an ACK can cover much that had arrived before it, which
    /// says nothing about the path now, so only one segment counts (RFC 3465 §2.3). A window
    /// that the sender did not fill grows to no more than twice what was in flight (RFC 7661).
    pub(crate) fn slow_start(&mut self, ack: &AckSample, limit: Option<u64>, divisor: u64) -> u64 {
        let growth = self.counted(ack, limit) / divisor;
        self.climb(ack, growth)
    }

    /// The acknowledged bytes that count in slow start.
    pub(crate) fn counted(&self, ack: &AckSample, limit: Option<u64>) -> u64 {
        let limit = if self.repairing_timeout { Some(1) } else { limit };
        match limit {
            Some(segments) => ack.newly_acked.min(segments * self.mss),
            None => ack.newly_acked,
        }
    }

    /// Enlarges the window by `growth` bytes, up to ssthresh, and returns what is left.
    pub(crate) fn climb(&mut self, ack: &AckSample, mut growth: u64) -> u64 {
        if !ack.cwnd_limited {
            growth = growth.min(ack.in_flight_before.saturating_mul(2).saturating_sub(self.bytes));
        }
        let room = self.ssthresh.saturating_sub(self.bytes);
        self.set_bytes(self.bytes.saturating_add(growth.min(room)));
        growth.saturating_sub(room)
    }

    /// `percent` of the window remain, and the threshold is the window.
    pub(crate) fn decrease(&mut self, percent: u64) {
        self.set_bytes(self.bytes * percent.min(100) / 100);
        self.set_ssthresh(self.bytes);
    }

    /// Whether an RTO is being repaired.
    pub(crate) fn is_repairing_timeout(&self) -> bool {
        self.repairing_timeout
    }

    /// Sets ssthresh outside congestion, at least two segments.
    pub(crate) fn set_ssthresh(&mut self, bytes: u64) {
        self.ssthresh = bytes.max(2 * self.mss);
    }

    /// Congestion was met: ssthresh becomes `ssthresh`, at least two segments, and the window
    /// falls to `window`. Neither answer ever raises the window.
    pub(crate) fn reduce(&mut self, ssthresh: u64, window: u64) -> SavedWindow {
        let saved = self.save();
        self.ssthresh = ssthresh.max(2 * self.mss);
        self.set_bytes(window.min(self.bytes));
        self.repairing_timeout = false;
        saved
    }

    /// The retransmission timer expired: the window falls to one segment. `ssthresh` (RFC 5681
    /// equation 4) is taken, and the state before it returned, only at the first expiry for the
    /// same data.
    pub(crate) fn collapse(&mut self, ssthresh: u64) -> Option<SavedWindow> {
        let saved = (!self.timed_out).then(|| self.save());
        if saved.is_some() {
            self.ssthresh = ssthresh.max(2 * self.mss);
        }
        self.bytes = self.mss;
        self.timed_out = true;
        self.repairing_timeout = true;
        saved
    }

    /// The recovery point has passed.
    pub(crate) fn recovered(&mut self) {
        self.repairing_timeout = false;
    }

    /// Goes back to `saved` where that is larger. Tells whether it was.
    pub(crate) fn restore(&mut self, saved: SavedWindow) -> bool {
        self.timed_out = false;
        self.repairing_timeout = false;
        self.ssthresh = self.ssthresh.max(saved.ssthresh);
        let larger = saved.bytes > self.bytes;
        if larger {
            self.set_bytes(saved.bytes);
        }
        larger
    }

    /// After an idle time the window starts from the initial one again (RFC 5681 §4.1), and
    /// ssthresh remembers three quarters of what it was (RFC 7661 §4.4.3).
    pub(crate) fn restart(&mut self) {
        self.ssthresh = self.ssthresh.max(self.bytes / 4 * 3);
        self.set_bytes(self.bytes.min(self.initial));
    }

    fn save(&self) -> SavedWindow {
        SavedWindow { bytes: self.bytes, ssthresh: self.ssthresh }
    }
}
