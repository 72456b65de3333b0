//! How much more than the bandwidth explains is acknowledged at a time (draft-ietf-ccwg-bbr-06
//! §5.5.9): ACKs that come aggregated need a larger window to bridge the silence between them.
use shorthaul_types::Time;

use crate::recent_max::RecentMax;
use crate::snapshot::keeps;
use crate::volume;

/// BBR.extra_acked.
#[derive(Clone, Debug)]
pub(crate) struct AckAggregation {
    since: Time,
    acked: u32,
    /// BBR.ExtraAckedFilterLen rounds, in bytes: no window has 4 GiB.
    extra: RecentMax<u32, 10>,
}

/// What is known of the path when an ACK arrives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expectation {
    /// The bandwidth that ACKs are expected to come at, in bits per second.
    pub bandwidth: u64,
    /// More than a window is never acknowledged at once.
    pub window: u64,
    /// The round that the ACK belongs to.
    pub round: u32,
}

keeps!(AckAggregation { since, acked, extra });

impl AckAggregation {
    pub(crate) fn new(now: Time) -> Self {
        AckAggregation { since: now, acked: 0, extra: RecentMax::new() }
    }

    /// An ACK delivered `delivered` bytes.
    pub(crate) fn on_ack(&mut self, now: Time, delivered: u64, path: Expectation) {
        let mut expected = volume::in_time(path.bandwidth, now.saturating_since(self.since));
        if u64::from(self.acked) <= expected {
            self.restart(now);
            expected = 0;
        }
        self.acked = self.acked.saturating_add(u32::try_from(delivered).unwrap_or(u32::MAX));
        let extra = u64::from(self.acked).saturating_sub(expected).min(path.window);
        self.extra.update(path.round, u32::try_from(extra).unwrap_or(u32::MAX));
    }

    /// A new interval begins.
    pub(crate) fn restart(&mut self, now: Time) {
        self.since = now;
        self.acked = 0;
    }

    /// Bytes beyond the bandwidth, the most of the last ten rounds.
    pub(crate) fn extra(&self) -> u64 {
        u64::from(self.extra.get())
    }

    /// The same of the present round only, for while the pipe is not full yet.
    pub(crate) fn extra_of_round(&self) -> u64 {
        u64::from(self.extra.newest())
    }
}
