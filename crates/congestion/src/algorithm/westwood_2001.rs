//! Westwood as it was published first: a bandwidth sample with every acknowledgment, where [Westwood+](super::westwood) takes one
//! a round trip.
//!
//! ```text
//! sample        b_k = d_k / (t_k − t_{k−1})
//! filter        BWE_k = α_k·BWE_{k−1} + (1 − α_k)·(b_k + b_{k−1})/2,   α_k = (2τ − Δ_k)/(2τ + Δ_k)
//! silence       after each τ/2 without an acknowledgment, a sample of zero
//! ```
//! The filter is the bilinear transform of a low-pass of the first order, whose cut-off is 1/τ. What is done with the estimate at a
//! loss is the same as in Westwood+.
//!
//! Source: S. Mascolo, C. Casetti, M. Gerla, M. Y. Sanadidi and R. Wang, "TCP Westwood: Bandwidth Estimation for Enhanced
//! Transport over Wireless Links", MobiCom 2001, §2.2 (samples, filter, samples of zero). Acknowledgments that come together measure the
//! link that they came through, and not the one that the data took: the estimate is too high then, which is why Westwood+
//! followed. τ = 0.5 s is that of the authors' simulations, as far as public text has them. Delivered bytes are known here, so the
//! paper's counting of delayed and duplicate acknowledgments is not needed. Guessed: acknowledgments at the same instant count as one.
use core::time::Duration;

use shorthaul_types::Time;

use super::westwood::{Estimate, Westwood};
use crate::AckSample;
use crate::volume;

/// The time constant of the filter, τ.
const TIME_CONSTANT: Duration = Duration::from_millis(500);
/// After so much silence there is a sample of zero.
const SILENCE: Duration = Duration::from_millis(250);
/// More samples of zero than these change nothing that is left.
const MOST_SILENCES: u128 = 64;

/// Westwood congestion control as of 2001.
pub type Westwood2001 = Westwood<PerAck>;

/// A filter over the rates between acknowledgments.
#[derive(Debug)]
pub struct PerAck {
    last: Time,
    /// What came since then, or at the same instant.
    delivered: u64,
    /// The last sample, and the estimate, in bits per second.
    sample: u64,
    estimate: Option<u64>,
}

impl PerAck {
    /// A sample over this time goes through the filter.
    fn take(&mut self, sample: u64, over: Duration) {
        let (twice, over) = (2 * TIME_CONSTANT.as_nanos(), over.min(2 * TIME_CONSTANT).as_nanos());
        let mean = u128::midpoint(u128::from(sample), u128::from(self.sample));
        let kept = u128::from(self.estimate.unwrap_or(0)) * (twice - over);
        // 1 − α is 2Δ/(2τ + Δ).
        let estimate = (kept + 2 * over * mean) / (twice + over);
        self.estimate = Some(u64::try_from(estimate).unwrap_or(u64::MAX));
        self.sample = sample;
    }
}

impl Estimate for PerAck {
    const NAME: &'static str = "westwood-2001";

    fn begin(now: Time) -> Self {
        PerAck { last: now, delivered: 0, sample: 0, estimate: None }
    }

    fn on_ack(&mut self, ack: &AckSample, _rtt: Duration) {
        self.delivered = self.delivered.saturating_add(ack.delivered);
        let elapsed = ack.now.saturating_since(self.last);
        if elapsed.is_zero() {
            return;
        }
        // The last part of the time has what has come; the parts before it were silent.
        let silences = (elapsed.as_nanos() - 1) / SILENCE.as_nanos();
        let rest = elapsed.saturating_sub(SILENCE * silences.min(u128::from(u32::MAX)) as u32);
        for _ in 0..silences.min(MOST_SILENCES) {
            self.take(0, SILENCE);
        }
        self.take(volume::rate(self.delivered, elapsed), rest);
        self.last = ack.now;
        self.delivered = 0;
    }

    fn restart(&mut self, now: Time) {
        self.last = now;
        self.delivered = 0;
    }

    fn rate(&self) -> Option<u64> {
        self.estimate
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn ack(now: Time, delivered: u64) -> AckSample {
        AckSample {
            now,
            delivered,
            newly_acked: delivered,
            in_flight_before: delivered,
            in_flight: 0,
            rtt: None,
            waited: None,
            reported: None,
            rate: None,
            cwnd_limited: true,
            in_recovery: false,
        }
    }

    /// 1000 bytes come each 10 ms from one second on: 800 kbit/s.
    fn steady(estimate: &mut PerAck, from: u64, until: u64) -> Vec<u64> {
        let mut seen = Vec::new();
        for at in (from..until).step_by(10) {
            estimate.on_ack(&ack(Time::from_millis(at + 10), 1000), Duration::ZERO);
            seen.extend(estimate.rate());
        }
        seen
    }

    #[test]
    fn the_estimate_follows_with_the_time_constant() {
        let mut estimate = PerAck::begin(Time::from_secs(1));
        let seen = steady(&mut estimate, 1000, 6000);
        let share = |at: usize| seen[at / 10 - 1] as f64 / 800e3;
        // 1 − 1/e after τ, and the whole after many.
        assert!((share(500) - 0.632).abs() < 0.01, "{}", share(500));
        assert!((share(5000) - 1.0).abs() < 0.001, "{}", share(5000));
    }

    #[test]
    fn silence_lets_it_fall() {
        let mut estimate = PerAck::begin(Time::from_secs(1));
        steady(&mut estimate, 1000, 6000);
        estimate.on_ack(&ack(Time::from_millis(7000), 1000), Duration::ZERO);
        // Three samples of zero are taken, α = 3/5 each, and one of 8 kbit/s.
        let expected = 800e3 * 0.6 * 0.6 * 0.6 * 0.6 + 0.4 * 400e3 * 0.6 * 0.6 * 0.6 + 0.4 * 4e3;
        let rate = estimate.rate().unwrap() as f64;
        assert!((rate / expected - 1.0).abs() < 0.01, "{rate}, {expected}");
    }

    #[test]
    fn acknowledgments_that_come_together_make_it_too_high() {
        let mut estimate = PerAck::begin(Time::from_secs(1));
        for round in 1..50u64 {
            for number in 0..10 {
                let at = Time::from_micros(1_000_000 + round * 100_000 + number * 100);
                estimate.on_ack(&ack(at, 1000), Duration::ZERO);
            }
        }
        // 10 kB each 100 ms are 800 kbit/s.
        assert!(estimate.rate().unwrap() > 1_000_000, "{:?}", estimate.rate());
    }
}
