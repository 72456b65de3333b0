use super::{Limit, Rate, Response, ThroughputModel, limited};
use crate::Leg;

/// Which BBR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BbrVersion {
    /// Of 2016, as in Linux.
    V1,
    /// draft-ietf-ccwg-bbr.
    V3,
}

/// BBR's response to loss: a coarse model, a plateau with a cliff.
///
/// *Version 1* takes the largest delivery rate of ten round trips for the link's. It probes at 1.25 times that;
/// while `1.25·(1 − p) ≥ 1`, that is `p ≤ 0.2`, a probe can confirm it (N. Cardwell, bbr-dev mailing list). Beyond,
/// the estimate decays without end; what remains is the least window of four segments.
///
/// *Version 3* cuts its window by 0.7 when a round trip loses more than `LossThresh` = 2 %
/// (draft-ietf-ccwg-bbr §2.7, `BBRLossThresh`, `BBRBeta`). Beyond that it is taken for an additive-increase sender
/// that keeps 0.7, `√(α(1+β)/2(1−β)p)` with α = 1 (RFC 9438 §4.3).
///
/// Both spend 200 ms of every 10 s at four segments (ProbeRTT; version 3: every 5 s at half the window).
/// Between plateau and cliff, in competition, and on queues shorter than the estimate allows, it says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bbr {
    /// Which one.
    pub version: BbrVersion,
}

/// The least window in segments (`BBRMinPipeCwnd`).
const LEAST_WINDOW: f64 = 4.0;

impl ThroughputModel for Bbr {
    fn name(&self) -> &'static str {
        match self.version {
            BbrVersion::V1 => "bbr",
            BbrVersion::V3 => "bbr3",
        }
    }

    fn source(&self) -> &'static str {
        "coarse: Cardwell et al. 2016 (loss limit 1 − 1/1.25) and draft-ietf-ccwg-bbr (LossThresh 2 %)"
    }

    fn rate(&self, leg: &Leg) -> Rate {
        let (p, rtt, arriving) = (leg.loss, leg.round_trip(), 1.0 - leg.loss);
        let beyond = match self.version {
            BbrVersion::V1 => (p > 0.2).then_some(LEAST_WINDOW),
            BbrVersion::V3 => {
                (p > 0.02).then(|| (1.7 / (2.0 * 0.3 * leg.segments_per_ack * p)).sqrt().max(LEAST_WINDOW))
            }
        };
        if let Some(window) = beyond {
            return limited(leg, window / rtt * arriving, Limit::Loss);
        }
        let probing_rtt = match self.version {
            BbrVersion::V1 => (0.2 + rtt) / 10.0,
            BbrVersion::V3 => 0.5 * (0.2 + rtt) / 5.0,
        };
        let plateau = leg.capacity_segments() * arriving * (1.0 - probing_rtt.min(0.5));
        limited(leg, plateau, Limit::Capacity)
    }

    fn relative_error(&self) -> f64 {
        0.2
    }

    fn response(&self) -> Response {
        Response::GoesByRate
    }

    /// Single losses change nothing, and at the cliff a slope says nothing.
    fn loss_elasticity(&self, _leg: &Leg) -> f64 {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use shorthaul_types::BitRate;

    use super::*;

    fn share(version: BbrVersion, loss: f64) -> f64 {
        let leg = Leg::new(Duration::from_millis(100), loss, BitRate::from_bits_per_sec(1_000_000_000));
        Bbr { version }.rate(&leg).segments_per_sec / leg.capacity_segments()
    }

    #[test]
    fn losses_below_the_cliff_cost_themselves_and_probing() {
        // 0.2 s and a round trip: every 10 s at nearly nothing, or every 5 s at a half.
        for version in [BbrVersion::V1, BbrVersion::V3] {
            for loss in [0.0, 0.01, 0.019] {
                assert!((share(version, loss) - 0.97 * (1.0 - loss)).abs() < 1e-3, "{version:?} {loss}");
            }
        }
    }

    #[test]
    fn the_cliff_is_where_each_version_has_it() {
        assert!(share(BbrVersion::V1, 0.19) > 0.7 && share(BbrVersion::V1, 0.21) < 0.01);
        assert!(share(BbrVersion::V3, 0.019) > 0.9 && share(BbrVersion::V3, 0.021) < 0.01);
    }
}
