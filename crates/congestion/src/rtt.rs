//! Round-trip time and the retransmission timeout (RTO, RFC 6298).
//!
//! ```text
//! first sample R    SRTT = R, RTTVAR = R/2                                           (2.2)
//! later samples     RTTVAR = ¾·RTTVAR + ¼·|SRTT − R|, then SRTT = ⅞·SRTT + ⅛·R       (2.3)
//!                   RTO = SRTT + max(G, 4·RTTVAR), at least a minimum               (2.3, 2.4)
//! expiry            RTO = 2·RTO, at most a maximum                                   (5.5)
//! ```
use core::time::Duration;

use alloc::vec::Vec;
use shorthaul_types::{Blank, Keep, Numbers, Time, keeps};

use crate::min_filter::MinFilter;

/// How the RTO is kept from falling too low.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RtoFloor {
    /// The whole RTO is at least this (RFC 6298 rule 2.4, with one second).
    Whole(Duration),
    /// The margin over SRTT, 4·RTTVAR, is at least this, as in Linux with 200 ms: a delayed
    /// acknowledgment or a sudden queue then causes no spurious RTO though the RTO be
    /// far below a second. Also as in Linux, the largest RTTVAR of a round trip holds for that
    /// round and then wears off by a quarter a round, because many samples in one round trip
    /// would otherwise wash a peak away before it has served (RFC 7323 appendix G names the
    /// problem).
    Variance(Duration),
}

/// For how long a smallest round-trip time is remembered (RFC 8985 §6.2), as in Linux.
pub const MIN_RTT_WINDOW: Duration = Duration::from_secs(300);

/// How long an RTO stays doubled after it expired. RFC 6298 §5 has one answer; the others are for comparisons with senders that differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Doubling {
    /// Until a round trip was measured with data that was sent after it.
    UntilMeasured,
    /// Until something is acknowledged, though it was retransmitted.
    UntilAcknowledged,
    /// It is not.
    Never,
}

/// The parameters of an [`RttEstimator`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RttConfig {
    /// The RTO before the first sample (rule 2.1).
    pub initial_rto: Duration,
    /// G, the granularity of the clock that samples are taken with.
    pub granularity: Duration,
    /// The period of a coarse timer: samples are counted in whole ticks, and the RTO expires on
    /// one. The stacks of the 1990s ticked every 500 ms (Stevens, TCP/IP Illustrated 2, §25); zero is
    /// an exact timer.
    pub tick: Duration,
    /// The lower bound.
    pub floor: RtoFloor,
    /// The upper bound, backoff included (rule 2.5).
    pub max_rto: Duration,
    /// How long it stays doubled.
    pub doubling: Doubling,
}

impl RttConfig {
    /// As Linux does it: a margin of 200 ms at least, 120 s at most, the minimum of five minutes.
    pub const LINUX: RttConfig = RttConfig {
        initial_rto: Duration::from_secs(1),
        granularity: Duration::from_millis(1),
        tick: Duration::ZERO,
        floor: RtoFloor::Variance(Duration::from_millis(200)),
        max_rto: Duration::from_secs(120),
        doubling: Doubling::UntilMeasured,
    };

    /// RFC 6298 to the letter: one second at least.
    pub const RFC6298: RttConfig =
        RttConfig { floor: RtoFloor::Whole(Duration::from_secs(1)), ..RttConfig::LINUX };

    /// The stacks derived from BSD in the 1990s (Stevens, TCP/IP Illustrated 2, §25): a clock that ticks every
    /// 500 ms, two ticks at least, 64 s at most, and 3 s before the first sample.
    pub const COARSE: RttConfig = RttConfig {
        initial_rto: Duration::from_secs(3),
        granularity: Duration::from_millis(500),
        tick: Duration::from_millis(500),
        max_rto: Duration::from_secs(64),
        ..RttConfig::RFC6298
    };
}

impl Default for RttConfig {
    /// [`RttConfig::LINUX`].
    fn default() -> Self {
        RttConfig::LINUX
    }
}

/// The first RTO after a handshake with retransmissions (rule 5.7).
const AFTER_SYN_RETRANSMISSION: Duration = Duration::from_secs(3);
/// Longer samples are taken as this, so that sums cannot overflow.
const LONGEST_SAMPLE: Duration = Duration::from_secs(3600);

/// The round-trip time of a path and the RTO that follows from it.
#[derive(Clone, Debug)]
pub struct RttEstimator {
    config: RttConfig,
    smoothed: Option<Smoothed>,
    min: MinFilter,
    backoff: u32,
}

/// What the samples came to, in nanoseconds: half the room of a `Duration`, in every connection.
#[derive(Clone, Copy, Debug)]
struct Smoothed {
    latest: u64,
    srtt: u64,
    rttvar: u64,
    /// RTTVAR as the RTO uses it under [`RtoFloor::Variance`].
    held_rttvar: u64,
    round_peak: u64,
    round_end: Time,
}

/// What is known of the round trips of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownRtt {
    /// SRTT.
    pub srtt: Duration,
    /// RTTVAR, as the RTO uses it.
    pub rttvar: Duration,
    /// The shortest of late.
    pub min: Duration,
}

const fn nanos(nanos: u64) -> Duration {
    Duration::from_nanos(nanos)
}

keeps!(Smoothed { latest, srtt, rttvar, held_rttvar, round_peak, round_end });

impl Blank for Smoothed {
    fn blank() -> Self {
        Smoothed { latest: 0, srtt: 0, rttvar: 0, held_rttvar: 0, round_peak: 0, round_end: Time::ZERO }
    }
}

/// But for its configuration, of which the handshake may have changed the first RTO.
impl Keep for RttEstimator {
    fn put(&self, to: &mut Vec<u64>) {
        self.config.initial_rto.put(to);
        self.smoothed.put(to);
        self.min.put(to);
        self.backoff.put(to);
    }

    fn take(&mut self, from: &mut Numbers<'_>) -> Option<()> {
        Keep::take(&mut self.config.initial_rto, from)?;
        Keep::take(&mut self.smoothed, from)?;
        Keep::take(&mut self.min, from)?;
        Keep::take(&mut self.backoff, from)
    }
}

impl RttEstimator {
    /// An estimator without a sample.
    pub fn new(config: RttConfig) -> Self {
        RttEstimator { config, smoothed: None, min: MinFilter::default(), backoff: 0 }
    }

    /// The parameters.
    pub fn config(&self) -> &RttConfig {
        &self.config
    }

    /// Takes a sample that arrived at `now`. Never one of a retransmitted segment, unless
    /// a timestamp tells which transmission was acknowledged (Karn's algorithm, RFC 6298 §3).
    ///
    /// A sample ends backoff, since it is made of data sent after the RTO (RFC 6298 §5).
    pub fn on_sample(&mut self, now: Time, rtt: Duration) {
        let rtt = self.in_ticks(rtt.min(LONGEST_SAMPLE));
        self.min.update(now, rtt, MIN_RTT_WINDOW);
        self.backoff = 0;
        let sample = rtt.as_nanos() as u64; // at most an hour
        match &mut self.smoothed {
            Some(smoothed) => smoothed.update(now, sample),
            None => {
                self.smoothed = Some(Smoothed {
                    latest: sample,
                    srtt: sample,
                    rttvar: sample / 2,
                    held_rttvar: sample / 2,
                    round_peak: 0,
                    round_end: now + rtt,
                });
            }
        }
    }

    /// Goes on with what another process had measured.
    pub fn take_over(&mut self, now: Time, known: &KnownRtt) {
        let KnownRtt { srtt, rttvar, min } = *known;
        self.on_sample(now, min);
        self.on_sample(now, srtt);
        if let Some(smoothed) = &mut self.smoothed {
            (smoothed.srtt, smoothed.rttvar) = (srtt.as_nanos() as u64, rttvar.as_nanos() as u64);
            (smoothed.held_rttvar, smoothed.round_peak) = (smoothed.rttvar, 0);
        }
    }

    /// What another process needs to go on.
    pub fn known(&self) -> Option<KnownRtt> {
        let smoothed = self.smoothed?;
        let (srtt, rttvar) = (nanos(smoothed.srtt), nanos(smoothed.held_rttvar));
        Some(KnownRtt { srtt, rttvar, min: self.min_rtt().unwrap_or(srtt) })
    }

    /// What a coarse clock reads for a duration: the nearest number of ticks, but one at least.
    fn in_ticks(&self, rtt: Duration) -> Duration {
        let tick = self.config.tick.as_nanos();
        if tick == 0 {
            return rtt;
        }
        let ticks = ((rtt.as_nanos() + tick / 2) / tick).max(1);
        self.config.tick * u32::try_from(ticks).unwrap_or(u32::MAX)
    }

    /// The handshake needed a retransmission: before the first sample the RTO is three seconds at
    /// least (RFC 6298 rule 5.7), since the path may be longer than the usual first RTO.
    pub fn on_syn_retransmitted(&mut self) {
        self.config.initial_rto = self.config.initial_rto.max(AFTER_SYN_RETRANSMISSION);
    }

    /// The RTO, backoff included.
    pub fn rto(&self) -> Duration {
        let RttConfig { granularity, floor, max_rto, initial_rto, .. } = self.config;
        let base = match (&self.smoothed, floor) {
            (None, _) => initial_rto,
            (Some(s), RtoFloor::Whole(min)) => {
                (nanos(s.srtt) + granularity.max(nanos(s.rttvar * 4))).max(min)
            }
            (Some(s), RtoFloor::Variance(min)) => {
                nanos(s.srtt) + granularity.max(nanos(s.held_rttvar * 4)).max(min)
            }
        };
        base.saturating_mul(1u32.checked_shl(self.backoff).unwrap_or(u32::MAX)).min(max_rto)
    }

    /// The timer expired: doubles the RTO.
    pub fn back_off(&mut self) {
        if self.config.doubling != Doubling::Never {
            self.backoff = self.backoff.saturating_add(1);
        }
    }

    /// Something was acknowledged, which need not be a sample.
    pub fn on_acknowledged(&mut self) {
        if self.config.doubling == Doubling::UntilAcknowledged {
            self.backoff = 0;
        }
    }

    /// The RTO turned out to be spurious: it is that of the samples again.
    pub fn reset_backoff(&mut self) {
        self.backoff = 0;
    }

    /// How often the RTO has been doubled.
    pub fn backoff(&self) -> u32 {
        self.backoff
    }

    /// The smoothed round-trip time.
    pub fn srtt(&self) -> Option<Duration> {
        self.smoothed.map(|s| nanos(s.srtt))
    }

    /// The mean deviation of the round-trip time.
    pub fn rttvar(&self) -> Option<Duration> {
        self.smoothed.map(|s| nanos(s.rttvar))
    }

    /// The last sample.
    pub fn latest(&self) -> Option<Duration> {
        self.smoothed.map(|s| nanos(s.latest))
    }

    /// The smallest sample of the last [`MIN_RTT_WINDOW`].
    pub fn min_rtt(&self) -> Option<Duration> {
        self.min.get()
    }
}

impl Smoothed {
    fn update(&mut self, now: Time, rtt: u64) {
        self.latest = rtt;
        self.rttvar = self.rttvar * 3 / 4 + self.srtt.abs_diff(rtt) / 4;
        self.srtt = self.srtt * 7 / 8 + rtt / 8;

        self.round_peak = self.round_peak.max(self.rttvar);
        self.held_rttvar = self.held_rttvar.max(self.rttvar);
        if now >= self.round_end {
            self.held_rttvar -= (self.held_rttvar - self.round_peak) / 4;
            self.round_peak = 0;
            self.round_end = now + nanos(self.srtt);
        }
    }
}
