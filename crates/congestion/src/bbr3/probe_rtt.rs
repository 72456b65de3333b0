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

/// The smallest round-trip times of ten seconds and of five.
#[derive(Clone, Debug)]
pub(super) struct MinRtt {
    /// BBR.min_rtt.
    pub get: Option<Duration>,
    at: Time,
    /// BBR.probe_rtt_min_delay: when it is not renewed for [`INTERVAL`], it is probed for.
    recent: Option<Duration>,
    recent_at: Time,
    expired: bool,
    /// The flight is small enough and will be held until then.
    done_at: Option<Time>,
    round_done: bool,
}

impl MinRtt {
    pub(super) fn new(now: Time) -> Self {
        MinRtt {
            get: None,
            at: now,
            recent: None,
            recent_at: now,
            expired: false,
            done_at: None,
            round_done: false,
        }
    }

    /// UpdateMinRTT() (§5.3.4.3).
    fn update(&mut self, now: Time, rtt: Option<Duration>) {
        self.expired = now.saturating_since(self.recent_at) > INTERVAL;
        if let Some(rtt) = rtt
            && (self.expired || self.recent.is_none_or(|recent| rtt < recent))
        {
            self.recent = Some(rtt);
            self.recent_at = now;
        }
        let expired = now.saturating_since(self.at) > MIN_RTT_WINDOW;
        if let Some(recent) = self.recent
            && (expired || self.get.is_none_or(|min| recent < min))
        {
            self.get = Some(recent);
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
            self.min_rtt.done_at = None;
            self.probe.stop();
            self.rounds.restart();
        }
        if self.state == State::ProbeRtt {
            if self.min_rtt.done_at.is_some() {
                self.min_rtt.round_done |= self.rounds.started();
                if self.min_rtt.round_done {
                    self.check_probe_rtt_done(ack.now);
                }
            } else if ack.in_flight <= self.probe_rtt_window() {
                self.min_rtt.done_at = Some(ack.now + DURATION);
                self.min_rtt.round_done = false;
                self.rounds.restart();
            }
        }
        self.idle_restart = false;
    }

    /// CheckProbeRTTDone() (§5.3.4.3) and ExitProbeRTT() (§5.3.4.4).
    pub(super) fn check_probe_rtt_done(&mut self, now: Time) {
        if self.min_rtt.done_at.is_none_or(|at| now <= at) {
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
