use core::time::Duration;

use shorthaul_types::{Bytes, Seed, Time};

use crate::Recovery;
use crate::draw::Draw;
use crate::loss::Phases;

/// Tells how long the link layer's recovery holds up each packet.
#[derive(Clone, Debug)]
pub(crate) struct RecoveryClock {
    model: Option<Recovery>,
    needs: Draw,
    lasts: Draw,
    phases: Option<Phases>,
}

impl RecoveryClock {
    pub(crate) fn new(model: Option<Recovery>, seed: Seed, origin: Time) -> Self {
        let phases = match model {
            Some(Recovery::RadioBlocks { good, bad, .. }) => {
                Some(Phases::new(bad, good, Draw::of(seed, "radio phases"), origin))
            }
            _ => None,
        };
        RecoveryClock {
            model,
            needs: Draw::of(seed, "recovery share"),
            lasts: Draw::of(seed, "recovery"),
            phases,
        }
    }

    /// The delay of packet `key` of `size`, which begins to be sent at `start`.
    pub(crate) fn delay(&mut self, key: u64, size: Bytes, start: Time) -> Duration {
        match self.model {
            None => Duration::ZERO,
            Some(Recovery::Delay { distribution, share }) => {
                if share >= 1.0 || self.needs.happens(key, share) {
                    distribution.sample(self.lasts, key)
                } else {
                    Duration::ZERO
                }
            }
            Some(Recovery::RadioBlocks { block, retry, error_good, error_bad, .. }) => {
                let is_bad = self.phases.as_mut().is_some_and(|phases| phases.is_on_at(start));
                let error = if is_bad { error_bad } else { error_good };
                retry.saturating_mul(self.retransmissions(key, size.0.div_ceil(block.0), error))
            }
        }
    }

    /// How often any of `blocks` blocks has to be sent again: a sum of geometric variables.
    fn retransmissions(&self, key: u64, blocks: u64, error: f64) -> u32 {
        if error <= 0.0 {
            return 0;
        }
        let draw = self.lasts.part(key);
        let log_error = libm::log(error);
        (0..blocks)
            .map(|block| (libm::log(draw.positive_unit(block)) / log_error) as u32)
            .fold(0, u32::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Distribution;

    #[test]
    fn radio_blocks_are_repeated_as_often_as_they_fail() {
        let error = 0.2;
        let model = Recovery::RadioBlocks {
            block: Bytes(50),
            retry: Duration::from_millis(20),
            error_good: error,
            error_bad: error,
            good: Duration::from_secs(1),
            bad: Duration::from_secs(1),
        };
        let mut clock = RecoveryClock::new(Some(model), Seed(2), Time::ZERO);
        let n = 20_000;
        let total: f64 = (0..n).map(|key| clock.delay(key, Bytes(1460), Time::ZERO).as_secs_f64()).sum();
        // 30 blocks, each p/(1-p) repetitions of 20 ms
        let expected = 30.0 * error / (1.0 - error) * 0.020;
        let got = total / n as f64;
        assert!((got / expected - 1.0).abs() < 0.01, "{got} for {expected}");
    }

    #[test]
    fn a_bad_phase_costs_more() {
        let secs = Duration::from_secs;
        let model = Recovery::RadioBlocks {
            block: Bytes(50),
            retry: Duration::from_millis(1),
            error_good: 0.0,
            error_bad: 0.5,
            good: secs(3),
            bad: secs(1),
        };
        let mut clock = RecoveryClock::new(Some(model), Seed(2), Time::ZERO);
        let n = 100_000;
        let hit = (0..n)
            .filter(|&key| !clock.delay(key, Bytes(1500), Time::from_millis(key * 100)).is_zero())
            .count();
        assert!((hit as f64 / n as f64 - 0.25).abs() < 0.02, "{hit}");
    }

    #[test]
    fn only_the_share_that_needs_recovery_gets_it() {
        let distribution = Distribution::pareto(Duration::from_millis(500));
        let model = Recovery::Delay { distribution, share: 0.05 };
        let mut clock = RecoveryClock::new(Some(model), Seed(2), Time::ZERO);
        let n = 100_000;
        let hit = (0..n).filter(|&key| !clock.delay(key, Bytes(1), Time::ZERO).is_zero()).count();
        assert!((hit as f64 / n as f64 - 0.05).abs() < 0.003, "{hit}");
    }
}
