use core::time::Duration;
use shorthaul_types::Time;

/// The longest interval between zero-window probes (RFC 9293 §3.8.6.1 leaves it open).
const MAX_PERSIST: Duration = Duration::from_secs(60);

/// The persist timer (RFC 9293 §3.8.6.1): asks a peer whose window is closed whether it still is.
#[derive(Debug, Default)]
pub(super) struct Persist {
    at: Option<Time>,
    backoff: u32,
    probe_due: bool,
}

shorthaul_types::keeps!(Persist { at, backoff, probe_due });

impl Persist {
    /// When it expires.
    pub fn at(&self) -> Option<Time> {
        self.at
    }

    /// Starts it, where it does not run.
    pub fn arm(&mut self, now: Time, rto: Duration) {
        if self.at.is_none() {
            let wait = rto.saturating_mul(1 << self.backoff.min(16)).min(MAX_PERSIST);
            self.at = Some(now + wait);
        }
    }

    /// The window is open.
    pub fn stop(&mut self) {
        *self = Persist::default();
    }

    /// Whether it has expired by now. Then a probe is due, and the next interval is twice as long.
    pub fn expires(&mut self, now: Time) -> bool {
        let expired = self.at.take_if(|at| *at <= now).is_some();
        self.backoff += u32::from(expired);
        self.probe_due |= expired;
        expired
    }

    /// Whether a probe is to leave. It counts as sent.
    pub fn take_probe(&mut self) -> bool {
        core::mem::take(&mut self.probe_due)
    }
}
