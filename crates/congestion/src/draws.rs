//! Random choices from a seed.
use shorthaul_types::Seed;

/// Numbers drawn from a seed, one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Draws {
    seed: Seed,
    drawn: u64,
}

impl Draws {
    pub(crate) fn new(seed: Seed) -> Self {
        Draws { seed, drawn: 0 }
    }

    /// A number from 0 to `end - 1`. The bias is below `end`/2⁶⁴.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.drawn += 1;
        self.seed.nth(self.drawn).0 % end.max(1)
    }
}
