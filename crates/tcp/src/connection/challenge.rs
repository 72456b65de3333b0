use core::time::Duration;
use shorthaul_types::Time;

/// RFC 5961 §7 suggests ten in five seconds.
const AT_MOST: u8 = 10;
const INTERVAL: Duration = Duration::from_secs(5);

/// Limits how often a connection answers segments that are not acceptable, so that neither
/// a forger nor a peer that is out of step makes it talk without end (RFC 5961 §7). It counts each
/// connection for itself: a count shared by all would tell a stranger about them (CVE-2016-5696).
#[derive(Clone, Copy, Debug, Default)]
pub struct ChallengeLimit {
    since: Time,
    sent: u8,
}

shorthaul_types::keeps!(ChallengeLimit { since, sent });

impl ChallengeLimit {
    /// Whether one more answer may leave now; it counts.
    pub fn admits(&mut self, now: Time) -> bool {
        if now.saturating_since(self.since) >= INTERVAL {
            *self = ChallengeLimit { since: now, sent: 0 };
        }
        let admitted = self.sent < AT_MOST;
        self.sent += u8::from(admitted);
        admitted
    }
}
