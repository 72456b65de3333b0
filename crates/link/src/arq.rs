use core::time::Duration;

use shorthaul_types::{Bytes, Seed, Time};

use crate::Arq;
use crate::draw::Draw;
use crate::loss::Phases;
use crate::selective_repeat::{Protocol, SelectiveRepeat};

/// Tells how long the link layer's ARQ holds up each packet at the head of the queue. What does not hold up the queue is beside it.
#[derive(Clone, Debug)]
pub(crate) struct ArqClock {
    model: Option<Arq>,
    needs: Draw,
    lasts: Draw,
    phases: Option<Phases>,
}

impl ArqClock {
    pub(crate) fn new(model: Option<Arq>, seed: Seed, origin: Time) -> Self {
        let phases = match model {
            Some(Arq::RadioBlocks { good, bad, .. }) => {
                Some(Phases::new(bad, good, Draw::of(seed, "radio phases"), origin))
            }
            Some(Arq::Delay { .. } | Arq::SelectiveRepeat { .. }) | None => None,
        };
        ArqClock { model, needs: Draw::of(seed, "recovery share"), lasts: Draw::of(seed, "recovery"), phases }
    }

    /// What ARQ for packet `key` of `size` takes, which begins to be sent at `start`.
    pub(crate) fn repair(&mut self, key: u64, size: Bytes, start: Time) -> Repair {
        match self.model {
            None | Some(Arq::SelectiveRepeat { .. }) => Repair::default(),
            Some(Arq::Delay { distribution, share }) => {
                let is_needed = share >= 1.0 || self.needs.happens(key, share);
                let takes = if is_needed { distribution.sample(self.lasts, key) } else { Duration::ZERO };
                Repair { takes, fails: false }
            }
            Some(Arq::RadioBlocks { block, retry, retries, error_good, error_bad, .. }) => {
                let is_bad = self.phases.as_mut().is_some_and(|phases| phases.is_on_at(start));
                let error = if is_bad { error_bad } else { error_good };
                let draw = self.lasts.part(key);
                let (mut again, mut fails) = (0_u32, false);
                for number in 0..size.0.div_ceil(block.0) {
                    let needed = failures(draw, number, error);
                    let limit = retries.unwrap_or(u32::MAX);
                    again = again.saturating_add(needed.min(limit));
                    fails |= needed > limit;
                }
                Repair { takes: retry.saturating_mul(again), fails }
            }
        }
    }
}

/// The radio link protocol of a link, if it has one with selective repeat.
pub(crate) fn selective_repeat(model: Option<Arq>, seed: Seed, origin: Time) -> Option<SelectiveRepeat> {
    let Some(Arq::SelectiveRepeat { frame, round_trip, rounds, window, error_good, error_bad, good, bad }) =
        model
    else {
        return None;
    };
    let protocol = Protocol { frame, round_trip, rounds, window, errors: [error_good, error_bad] };
    let phases = Phases::new(bad, good, Draw::of(seed, "radio phases"), origin);
    Some(SelectiveRepeat::new(protocol, phases, Draw::of(seed, "radio frames")))
}

/// What ARQ for a packet comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Repair {
    /// The time that it takes at the head of the queue.
    pub takes: Duration,
    /// It was given up: the packet is lost.
    pub fails: bool,
}

/// How often a block fails before it arrives: a geometric variable.
fn failures(draw: Draw, block: u64, error: f64) -> u32 {
    if error <= 0.0 { 0 } else { (libm::log(draw.positive_unit(block)) / libm::log(error)) as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Distribution;

    #[test]
    fn radio_blocks_are_repeated_as_often_as_they_fail() {
        let error = 0.2;
        let model = Arq::RadioBlocks {
            block: Bytes(50),
            retry: Duration::from_millis(20),
            retries: None,
            error_good: error,
            error_bad: error,
            good: Duration::from_secs(1),
            bad: Duration::from_secs(1),
        };
        let mut clock = ArqClock::new(Some(model), Seed(2), Time::ZERO);
        let n = 20_000;
        let total: f64 =
            (0..n).map(|key| clock.repair(key, Bytes(1460), Time::ZERO).takes.as_secs_f64()).sum();
        // 30 blocks, each p/(1-p) repetitions of 20 ms
        let expected = 30.0 * error / (1.0 - error) * 0.020;
        let got = total / n as f64;
        assert!((got / expected - 1.0).abs() < 0.01, "{got} for {expected}");
    }

    #[test]
    fn a_bad_phase_costs_more() {
        let secs = Duration::from_secs;
        let model = Arq::RadioBlocks {
            block: Bytes(50),
            retry: Duration::from_millis(1),
            retries: None,
            error_good: 0.0,
            error_bad: 0.5,
            good: secs(3),
            bad: secs(1),
        };
        let mut clock = ArqClock::new(Some(model), Seed(2), Time::ZERO);
        let n = 100_000;
        let hit = (0..n)
            .filter(|&key| !clock.repair(key, Bytes(1500), Time::from_millis(key * 100)).takes.is_zero())
            .count();
        assert!((hit as f64 / n as f64 - 0.25).abs() < 0.02, "{hit}");
    }

    #[test]
    fn a_block_that_fails_too_often_loses_its_packet() {
        let secs = Duration::from_secs;
        let (error, retries) = (0.5, 3);
        let model = Arq::RadioBlocks {
            block: Bytes(500),
            retry: Duration::from_millis(1),
            retries: Some(retries),
            error_good: error,
            error_bad: error,
            good: secs(1),
            bad: secs(1),
        };
        let mut clock = ArqClock::new(Some(model), Seed(2), Time::ZERO);
        let n = 100_000;
        let repairs: alloc::vec::Vec<Repair> =
            (0..n).map(|key| clock.repair(key, Bytes(1500), Time::ZERO)).collect();
        // three blocks, each lost when it and its three repetitions fail
        let expected = 1.0 - (1.0 - error.powi(4)).powi(3);
        let lost = repairs.iter().filter(|repair| repair.fails).count() as f64 / n as f64;
        assert!((lost / expected - 1.0).abs() < 0.03, "{lost} for {expected}");
        assert!(repairs.iter().all(|repair| repair.takes <= Duration::from_millis(9)));
    }

    #[test]
    fn only_the_share_that_needs_arq_gets_it() {
        let distribution = Distribution::pareto(Duration::from_millis(500));
        let model = Arq::Delay { distribution, share: 0.05 };
        let mut clock = ArqClock::new(Some(model), Seed(2), Time::ZERO);
        let n = 100_000;
        let hit = (0..n).filter(|&key| !clock.repair(key, Bytes(1), Time::ZERO).takes.is_zero()).count();
        assert!((hit as f64 / n as f64 - 0.05).abs() < 0.003, "{hit}");
    }
}
