//! Random choices from a seed.
use crate::snapshot::{Keep, Numbers};
use alloc::vec::Vec;
use shorthaul_types::Seed;

/// Numbers drawn from a seed, one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Draws {
    seed: Seed,
}

impl Keep for Draws {
    fn put(&self, to: &mut Vec<u64>) {
        self.seed.0.put(to);
    }

    fn take(&mut self, from: &mut Numbers<'_>) -> Option<()> {
        Keep::take(&mut self.seed.0, from)
    }
}

impl Draws {
    pub(crate) fn new(seed: Seed) -> Self {
        Draws { seed }
    }

    /// A number from 0 to `end - 1`. The bias is below `end`/2⁶⁴.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.seed = self.seed.nth(0);
        self.seed.0 % end.max(1)
    }
}
