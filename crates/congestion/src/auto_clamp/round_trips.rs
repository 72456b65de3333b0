//! What a round has shown.
use core::time::Duration;

/// The round-trip times of one round.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundTrips {
    pub least: Option<Duration>,
    sum: Duration,
    pub count: u32,
}

impl RoundTrips {
    pub fn add(&mut self, rtt: Duration) {
        self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
        self.sum += rtt;
        self.count += 1;
    }

    pub fn mean(&self) -> Option<Duration> {
        self.sum.checked_div(self.count)
    }
}
