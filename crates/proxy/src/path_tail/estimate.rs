use core::time::Duration;
use shorthaul_types::{BitRate, Time};

/// How long deliveries are counted for one sample.
const PERIOD: Duration = Duration::from_secs(1);
/// The share of a new sample in the average: it follows within some ten samples.
const SHARE: f64 = 0.125;

/// The average throughput of the access side, from what its hosts acknowledge, and the bandwidth that the emulated
/// link gets for it.
///
/// What is delivered while more waits at the gateway is what the access side carries. While nothing waits here but
/// acknowledgments wait on the emulated link, it carries at least that much. So that one of the two waits,
/// and the right amount, the emulated link runs faster than the average while too little is held, and slower
/// while too much is.
#[derive(Clone, Debug)]
pub(crate) struct ThroughputEstimate {
    /// Bits per second.
    average: f64,
    began: Time,
    delivered: u64,
    /// Something was held at every look of this period.
    access_was_busy: bool,
    /// Something waited on the emulated link at every look.
    tail_was_busy: bool,
}

/// How things stand at a look, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    /// What was delivered since the last, headers counted.
    pub delivered: u64,
    /// What the gateway holds.
    pub held: u64,
    /// What waits on the emulated link.
    pub waiting: u64,
    /// What the gateway is to hold.
    pub wanted: u64,
}

impl ThroughputEstimate {
    /// Begins with what the operator thinks.
    pub fn new(now: Time, first: BitRate) -> Self {
        let average = first.bits_per_sec() as f64;
        ThroughputEstimate { average, began: now, delivered: 0, access_was_busy: true, tail_was_busy: true }
    }

    /// Something was delivered, or came. The bandwidth to emulate from now on, once a period.
    pub fn on_look(&mut self, now: Time, look: Look) -> Option<BitRate> {
        self.delivered += look.delivered;
        self.access_was_busy &= look.held > look.wanted / 8;
        self.tail_was_busy &= look.waiting > 0;
        let time = now.saturating_since(self.began);
        if time < PERIOD {
            return None;
        }
        let measured = self.delivered as f64 * 8.0 / time.as_secs_f64();
        if time < 2 * PERIOD || self.access_was_busy {
            if self.access_was_busy {
                self.average += SHARE * (measured - self.average);
            } else if self.tail_was_busy {
                self.average = self.average.max(measured);
            }
        }
        *self = ThroughputEstimate {
            began: now,
            delivered: 0,
            access_was_busy: true,
            tail_was_busy: true,
            ..*self
        };
        let missing = 1.0 - look.held as f64 / look.wanted.max(1) as f64;
        let bandwidth = self.average * (1.0 + 0.25 * missing.clamp(-2.0, 1.0));
        Some(BitRate::from_bits_per_sec(bandwidth.max(1000.0) as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A slow link of `carries` bit/s behind an emulated link that is fed as it asks for: the bandwidth that is
    /// emulated, and what is held, after a minute.
    fn settled(first: u64, carries: f64) -> (f64, f64) {
        let mut estimate = ThroughputEstimate::new(Time::ZERO, BitRate::from_bits_per_sec(first));
        let (mut emulated, mut held) = (first as f64, 0.0_f64);
        for step in 1..=6000_u64 {
            let (came, possible) = (emulated / 800.0, carries / 800.0); // bytes in 10 ms
            let delivered = possible.min(held + came);
            held += came - delivered;
            let look = Look { delivered: delivered as u64, held: held as u64, waiting: 3000, wanted: 60_000 };
            if let Some(bandwidth) = estimate.on_look(Time::from_millis(10 * step), look) {
                emulated = bandwidth.bits_per_sec() as f64;
            }
        }
        (emulated, held)
    }

    #[test]
    fn the_slow_link_is_filled_and_little_is_held_whatever_was_thought_at_first() {
        for first in [300_000, 2_000_000, 8_000_000] {
            let (emulated, held) = settled(first, 2e6);
            assert!((1.8e6..2.2e6).contains(&emulated), "{emulated} from {first}");
            assert!((10_000.0..150_000.0).contains(&held), "{held} held from {first}");
        }
    }

    #[test]
    fn a_silent_time_says_nothing() {
        let mut estimate = ThroughputEstimate::new(Time::ZERO, BitRate::from_bits_per_sec(1_000_000));
        let look = Look { delivered: 1000, held: 0, waiting: 0, wanted: 60_000 };
        let bandwidth = estimate.on_look(Time::from_secs(60), look).unwrap();
        assert_eq!(bandwidth.bits_per_sec(), 1_250_000, "the average as it was, and room to find more");
    }
}
