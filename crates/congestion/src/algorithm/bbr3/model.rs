//! What BBRv3 believes of the path: how fast it delivers, and how much may be in flight
//! (draft-ietf-ccwg-bbr-06 §5.5).
use crate::RateSample;
use crate::recent_max::RecentMax;
use crate::snapshot::keeps;
use crate::volume::Gain;

/// No bound.
pub(super) const INFINITE: u64 = u64::MAX;
/// BBR.LossThresh: the loss rate that a probe may cause, one in fifty.
pub(super) const LOSS_THRESHOLD: u64 = 50;
/// BBR.Beta: no answer to congestion takes away more.
pub(super) const BETA: Gain = Gain(700);

/// Bandwidths in bits per second, volumes in bytes.
#[derive(Clone, Debug)]
pub(super) struct Model {
    /// BBR.max_bw over this and the last ProbeBW cycle (§5.5.3).
    max_bandwidth: RecentMax<u64, 2>,
    /// BBR.cycle_count (§5.5.6).
    cycle: u32,
    /// The bounds that hold until the next probe, taken from losses between probes (§5.5.10.3).
    pub bandwidth_shortterm: u64,
    pub inflight_shortterm: u64,
    /// The volume beyond which probes lost too much (§5.5.10.2).
    pub inflight_longterm: u64,
    /// The largest rate and volume of the present loss round.
    bandwidth_latest: u64,
    pub inflight_latest: u64,
    /// The loss round ends with what is sent when this much is delivered.
    loss_round_end: u64,
    pub loss_round_started: bool,
    pub loss_in_round: bool,
}

keeps!(Model {
    max_bandwidth,
    cycle,
    bandwidth_shortterm,
    inflight_shortterm,
    inflight_longterm,
    bandwidth_latest,
    inflight_latest,
    loss_round_end,
    loss_round_started,
    loss_in_round,
});

/// What was in flight when something was sent, and what of it was lost since: RS of the draft.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    /// Bytes in flight, what was sent itself included: RS.tx_in_flight.
    pub in_flight: u64,
    /// Bytes lost since it was sent.
    pub lost: u64,
    pub app_limited: bool,
}

impl Flight {
    pub(super) fn of(sample: &RateSample, mss: u64) -> Self {
        Flight {
            in_flight: sample.in_flight_at_send.saturating_add(mss),
            lost: sample.lost,
            app_limited: sample.app_limited,
        }
    }

    /// InflightAtLoss(): what was in flight at the byte, within the last `size`, at which the losses
    /// crossed the threshold: (lost_before + x)/(in_flight_before + x) = 1/50, solved for x.
    pub(super) fn at_threshold(&self, size: u64) -> u64 {
        let in_flight = self.in_flight.saturating_sub(size);
        let lost = self.lost.saturating_sub(size);
        let prefix = in_flight.saturating_sub(lost.saturating_mul(LOSS_THRESHOLD)) / (LOSS_THRESHOLD - 1);
        in_flight.saturating_add(prefix.min(size))
    }
}

impl Model {
    pub(super) fn new() -> Self {
        Model {
            max_bandwidth: RecentMax::new(),
            cycle: 0,
            bandwidth_shortterm: INFINITE,
            inflight_shortterm: INFINITE,
            inflight_longterm: INFINITE,
            bandwidth_latest: 0,
            inflight_latest: 0,
            loss_round_end: 0,
            loss_round_started: false,
            loss_in_round: false,
        }
    }

    /// BBR.max_bw.
    pub(super) fn max_bandwidth(&self) -> u64 {
        self.max_bandwidth.get()
    }

    /// BBR.bw: BoundBWForModel() (§5.5.10.3).
    pub(super) fn bandwidth(&self) -> u64 {
        self.max_bandwidth().min(self.bandwidth_shortterm)
    }

    /// AdvanceMaxBwFilter() (§5.5.6).
    pub(super) fn next_cycle(&mut self) {
        self.cycle = self.cycle.saturating_add(1);
        self.max_bandwidth.advance(self.cycle);
    }

    /// UpdateLatestDeliverySignals() and UpdateMaxBw() (§5.5.10.3, §5.5.5), near the start of
    /// an ACK; without a sample nothing is learnt.
    pub(super) fn on_sample(&mut self, sample: Option<&RateSample>) {
        self.loss_round_started = false;
        let Some(sample) = sample else { return };
        let rate = sample.rate.bits_per_sec();
        self.bandwidth_latest = self.bandwidth_latest.max(rate);
        self.inflight_latest = self.inflight_latest.max(volume(sample));
        if sample.prior_delivered >= self.loss_round_end {
            self.loss_round_end = sample.delivered;
            self.loss_round_started = true;
        }
        if rate >= self.max_bandwidth() || !sample.app_limited {
            self.max_bandwidth.update(self.cycle, rate);
        }
    }

    /// AdvanceLatestDeliverySignals() (§5.5.10.3), near the end of an ACK.
    pub(super) fn end_ack(&mut self, sample: Option<&RateSample>) {
        if self.loss_round_started
            && let Some(sample) = sample
        {
            self.bandwidth_latest = sample.rate.bits_per_sec();
            self.inflight_latest = volume(sample);
        }
    }

    /// NoteLoss() (§5.5.10.2). Tells whether it is the first of its round.
    pub(super) fn note_loss(&mut self, delivered: u64) -> bool {
        let first = !self.loss_in_round;
        if first {
            self.loss_round_end = delivered;
        }
        self.loss_in_round = true;
        first
    }

    /// InitLowerBounds() and LossLowerBounds() (§5.5.10.3): the present delivery process, or 0.7 of
    /// the last bound where that is more.
    pub(super) fn lower_bounds(&mut self, window: u64) {
        if self.bandwidth_shortterm == INFINITE {
            self.bandwidth_shortterm = self.max_bandwidth();
        }
        if self.inflight_shortterm == INFINITE {
            self.inflight_shortterm = window;
        }
        self.bandwidth_shortterm = self.bandwidth_latest.max(BETA.of(self.bandwidth_shortterm));
        self.inflight_shortterm = self.inflight_latest.max(BETA.of(self.inflight_shortterm));
    }

    /// ResetShortTermModel().
    pub(super) fn reset_shortterm(&mut self) {
        self.bandwidth_shortterm = INFINITE;
        self.inflight_shortterm = INFINITE;
    }

    /// ResetCongestionSignals().
    pub(super) fn reset_signals(&mut self) {
        self.loss_in_round = false;
        self.bandwidth_latest = 0;
        self.inflight_latest = 0;
    }
}

/// RS.delivered.
fn volume(sample: &RateSample) -> u64 {
    sample.delivered.saturating_sub(sample.prior_delivered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_volume_at_loss_is_where_the_losses_cross_the_threshold() {
        // 99000 were in flight and 1000 of them lost. 1000 + x = (99000 + x)/50 at x = 1000.
        let flight = Flight { in_flight: 149_000, lost: 51_000, app_limited: false };
        assert_eq!(flight.at_threshold(50_000), 100_000);
        // They had crossed it before.
        let flight = Flight { in_flight: 100_000, lost: 10_000, app_limited: false };
        assert_eq!(flight.at_threshold(1000), 99_000);
    }
}
