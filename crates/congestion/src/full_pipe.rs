//! Whether a rising sending rate has filled the pipe: the delivery rate follows it no more
//! (draft-ietf-ccwg-bbr-06 §5.3.1.2; draft-cardwell-iccrg-bbr-congestion-control-00 §4.3.2.2).
use crate::snapshot::keeps;
use crate::volume::Gain;

/// Growth that counts, per round.
const GROWTH: Gain = Gain(1250);
/// Rounds without such growth that make a plateau: the receiver has time to open its window.
const PLATEAU_ROUNDS: u32 = 3;

/// Looks for a plateau in the delivery rate.
#[derive(Clone, Debug, Default)]
pub(crate) struct FullPipe {
    baseline: u64,
    rounds: u32,
    full: bool,
}

keeps!(FullPipe { baseline, rounds, full });

impl FullPipe {
    /// A search that begins at a delivery rate of `baseline`.
    pub(crate) fn from(baseline: u64) -> Self {
        FullPipe { baseline, ..FullPipe::default() }
    }

    /// A round ended whose delivery rate, not limited by the application, was `rate`.
    pub(crate) fn on_round(&mut self, rate: u64) {
        if self.full {
            return;
        }
        if rate >= GROWTH.of(self.baseline) {
            *self = FullPipe::from(rate);
            return;
        }
        self.rounds += 1;
        self.full = self.rounds >= PLATEAU_ROUNDS;
    }

    /// Something else shows that it is full.
    pub(crate) fn fill(&mut self) {
        self.full = true;
    }

    /// A plateau was found in this search.
    pub(crate) fn is_full(&self) -> bool {
        self.full
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_rounds_without_a_quarter_more_fill_the_pipe() {
        let mut pipe = FullPipe::default();
        for rate in [100, 200, 249, 249] {
            pipe.on_round(rate);
            assert!(!pipe.is_full());
        }
        let mut grown = pipe.clone();
        grown.on_round(250);
        grown.on_round(250);
        assert!(!grown.is_full(), "growth begins the count anew");
        pipe.on_round(200);
        assert!(pipe.is_full());
    }
}
