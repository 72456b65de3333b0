//! ProbeRTT of BBRv3: the round-trip time without queues (draft-ietf-ccwg-bbr-06 §5.3.4).
use core::time::Duration;

use shorthaul_types::Time;

use super::{Bbr3, State};
use crate::AckSample;

/// BBR.MinRTTFilterLen.
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
/// BBR.ProbeRTTInterval.
const INTERVAL: Duration = Duration::from_secs(5);
/// BBR.ProbeRTTDuration.
const DURATION: Duration = Duration::from_millis(200);

/// The smallest round-trip times of ten seconds and of five, in nanoseconds; [`UNKNOWN`] before the
/// first sample.
#[derive(Clone, Debug)]
pub(super) struct MinRtt {
    /// BBR.min_rtt.
    min: u64,
    at: Time,
    /// BBR.probe_rtt_min_delay: when it is not renewed for [`INTERVAL`], it is probed for.
    recent: u64,
    recent_at: Time,
    /// In ProbeRTT, the flight is small enough and will be held until then; [`Time::MAX`] is not yet.
    done_at: Time,
    expired: bool,
    round_done: bool,
}

crate::snapshot::keeps!(MinRtt { min, at, recent, recent_at, done_at, expired, round_done });

const UNKNOWN: u64 = u64::MAX;

impl MinRtt {
    pub(super) fn new(now: Time) -> Self {
        MinRtt {
            min: UNKNOWN,
            at: now,
            recent: UNKNOWN,
            recent_at: now,
            done_at: Time::MAX,
            expired: false,
            round_done: false,
        }
    }

    /// BBR.min_rtt.
    pub(super) fn get(&self) -> Option<Duration> {
        (self.min != UNKNOWN).then(|| Duration::from_nanos(self.min))
    }

    /// UpdateMinRTT() (§5.3.4.3).
    fn update(&mut self, now: Time, rtt: Option<Duration>) {
        self.expired = now.saturating_since(self.recent_at) > INTERVAL;
        let sample = rtt.map_or(UNKNOWN, |rtt| u64::try_from(rtt.as_nanos()).unwrap_or(UNKNOWN));
        if sample != UNKNOWN && (self.expired || sample < self.recent) {
            self.recent = sample;
            self.recent_at = now;
        }
        let expired = now.saturating_since(self.at) > MIN_RTT_WINDOW;
        if self.recent < self.min || (expired && self.recent != UNKNOWN) {
            self.min = self.recent;
            self.at = self.recent_at;
        }
    }
}

impl Bbr3 {
    /// UpdateMinRTT() and CheckProbeRTT() (§5.3.4.3).
    pub(super) fn update_min_rtt(&mut self, ack: &AckSample) {
        self.min_rtt.update(ack.now, ack.rtt);
        if self.state != State::ProbeRtt && self.min_rtt.expired && !self.idle_restart {
            self.save_window();
            self.state = State::ProbeRtt;
            self.min_rtt.done_at = Time::MAX;
            self.probe.stop();
            self.rounds.restart();
        }
        if self.state == State::ProbeRtt {
            if self.min_rtt.done_at != Time::MAX {
                self.min_rtt.round_done |= self.rounds.started();
                if self.min_rtt.round_done {
                    self.check_probe_rtt_done(ack.now);
                }
            } else if ack.in_flight <= self.probe_rtt_window() {
                self.min_rtt.done_at = ack.now + DURATION;
                self.min_rtt.round_done = false;
                self.rounds.restart();
            }
        }
        self.idle_restart = false;
    }

    /// CheckProbeRTTDone() (§5.3.4.3) and ExitProbeRTT() (§5.3.4.4).
    pub(super) fn check_probe_rtt_done(&mut self, now: Time) {
        if self.min_rtt.done_at == Time::MAX || now <= self.min_rtt.done_at {
            return;
        }
        self.min_rtt.recent_at = now;
        self.restore_window();
        self.model.reset_shortterm();
        if self.full_bandwidth_reached {
            self.start_down(now);
            self.start_cruise();
        } else {
            self.state = State::Startup;
        }
    }
}
