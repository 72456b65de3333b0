//! What a cell came to.
use serde::Serialize;

use super::case::ParityCase;
use super::transfer::{Measured, Who};

/// Two transfers over the same path, which lost the same packets.
#[derive(Clone, Debug, Serialize)]
pub struct Pair {
    pub ours: Measured,
    pub kernel: Measured,
    /// The share of the processors' time that other programs took meanwhile, 0 to 1.
    pub others: f64,
}

impl Pair {
    /// Others took so much time that a sender may have had to wait for its turn.
    pub fn is_disturbed(&self) -> bool {
        self.others > OTHERS
    }

    /// Goodput of ours over that of the kernel's.
    pub fn ratio(&self) -> f64 {
        self.ours.goodput_bit_per_s / self.kernel.goodput_bit_per_s
    }

    /// One of the two.
    pub fn by(&self, who: Who) -> &Measured {
        match who {
            Who::Ours => &self.ours,
            Who::Kernel => &self.kernel,
        }
    }
}

/// A cell with what was measured.
#[derive(Clone, Debug)]
pub struct Row {
    pub cell: ParityCase,
    pub bytes: u64,
    pub pairs: Vec<Pair>,
    pub failure: Option<String>,
}

/// Up to this share of the processors' time other programs are no reason for doubt.
const OTHERS: f64 = 0.1;
/// Lateness up to this share of the round trip changes nothing that matters.
const LATE: f64 = 0.02;

impl Row {
    /// The median of the pairs' ratios.
    pub fn ratio(&self) -> Option<f64> {
        median(self.pairs.iter().map(Pair::ratio))
    }

    /// The smallest and the largest of the pairs' ratios.
    pub fn range(&self) -> Option<(f64, f64)> {
        let mut ratios: Vec<f64> = self.pairs.iter().map(Pair::ratio).collect();
        ratios.sort_by(f64::total_cmp);
        Some((*ratios.first()?, *ratios.last()?))
    }

    /// The median goodput of one of the senders, in bits per second.
    pub fn goodput(&self, who: Who) -> Option<f64> {
        median(self.pairs.iter().map(|pair| pair.by(who).goodput_bit_per_s))
    }

    /// As good as was promised.
    pub fn holds(&self) -> bool {
        self.failure.is_none() && self.ratio().is_some_and(|ratio| ratio >= self.cell.bound())
    }

    fn all(&self) -> impl Iterator<Item = &Measured> {
        self.pairs.iter().flat_map(|pair| [&pair.ours, &pair.kernel])
    }

    /// The worst lateness of the emulator, in seconds.
    pub fn late_s(&self) -> f64 {
        self.all().map(|measured| measured.late_s).fold(0.0, f64::max)
    }

    /// Packets that the machine was too slow for.
    pub fn missed(&self) -> u64 {
        self.all().map(|measured| measured.missed).sum()
    }

    /// The largest share of the processors' time that other programs took during a pair.
    pub fn others(&self) -> f64 {
        self.pairs.iter().map(|pair| pair.others).fold(0.0, f64::max)
    }

    /// The machine was quiet and the emulator exact enough for the figures to count.
    pub fn is_exact(&self) -> bool {
        self.missed() == 0
            && self.late_s() <= LATE * self.cell.round_trip.as_secs_f64()
            && !self.pairs.iter().any(Pair::is_disturbed)
    }
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.get(values.len().checked_sub(1)? / 2)?, values.get(values.len() / 2)?);
    Some(f64::midpoint(*low, *high))
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Results such as a run may have.
    pub fn invented(cell: ParityCase, ratios: &[f64]) -> Row {
        let measured = |goodput: f64| Measured {
            goodput_bit_per_s: goodput,
            seconds: 8.0,
            retransmitted_bytes: 0,
            lost: 3,
            overflowed: 0,
            missed: 0,
            late_s: 1e-4,
            samples: Vec::new(),
        };
        let pair = |ratio: &f64| Pair { ours: measured(ratio * 50e6), kernel: measured(50e6), others: 0.01 };
        Row { cell, bytes: 1_000_000, pairs: ratios.iter().map(pair).collect(), failure: None }
    }

    #[test]
    fn the_median_of_the_pairs_decides() {
        let cell = ParityCase::all()[0];
        let row = invented(cell, &[0.5, 0.96, 1.2]);
        assert!((row.ratio().unwrap() - 0.96).abs() < 1e-9 && row.holds());
        assert!(!invented(cell, &[0.5, 0.94, 1.2]).holds());
        assert!((invented(cell, &[0.5, 1.0]).ratio().unwrap() - 0.75).abs() < 1e-9);
        let empty = invented(cell, &[]);
        assert_eq!((empty.ratio(), empty.range(), empty.holds()), (None, None, false));
        let (low, high) = row.range().unwrap();
        assert!(low < 0.51 && high > 1.19);
    }

    #[test]
    fn a_late_or_lossy_emulator_is_noticed() {
        let cell = ParityCase::all()[0];
        let mut row = invented(cell, &[1.0]);
        assert!(row.is_exact());
        row.pairs[0].kernel.late_s = 0.021 * cell.round_trip.as_secs_f64();
        assert!(!row.is_exact());
        row.pairs[0].kernel.late_s = 0.0;
        row.pairs[0].ours.missed = 1;
        assert!(!row.is_exact());
        row.pairs[0].ours.missed = 0;
        row.pairs[0].others = 0.5;
        assert!(!row.is_exact() && row.pairs[0].is_disturbed());
    }
}
