//! The largest of the samples of recent rounds.
use crate::snapshot::{Keep, Numbers};
use alloc::vec::Vec;

/// A running maximum over the last `N` rounds, the present one included. It keeps the maximum of
/// each round, so it is exact.
#[derive(Clone, Debug)]
pub(crate) struct RecentMax<T, const N: usize> {
    /// The maximum of round r is at r modulo N.
    rounds: [T; N],
    newest: u32,
}

impl<T: Keep, const N: usize> Keep for RecentMax<T, N> {
    fn put(&self, to: &mut Vec<u64>) {
        self.rounds.put(to);
        self.newest.put(to);
    }

    fn take(&mut self, from: &mut Numbers<'_>) -> Option<()> {
        self.rounds.take(from)?;
        self.newest.take(from)
    }
}

impl<T: Copy + Default + Ord, const N: usize> RecentMax<T, N> {
    pub(crate) fn new() -> Self {
        RecentMax { rounds: [T::default(); N], newest: 0 }
    }

    /// Takes in a sample of round `round`, which never falls.
    pub(crate) fn update(&mut self, round: u32, value: T) {
        self.advance(round);
        let slot = &mut self.rounds[round as usize % N];
        *slot = value.max(*slot);
    }

    /// Forgets what is `N` rounds old at `round`.
    pub(crate) fn advance(&mut self, round: u32) {
        let passed = round.saturating_sub(self.newest).min(N as u32);
        for ago in 0..passed {
            self.rounds[(round - ago) as usize % N] = T::default();
        }
        self.newest = self.newest.max(round);
    }

    /// The largest sample; zero if there was none.
    pub(crate) fn get(&self) -> T {
        self.rounds.iter().copied().max().unwrap_or_default()
    }

    /// The largest sample of the newest round.
    pub(crate) fn newest(&self) -> T {
        self.rounds[self.newest as usize % N]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_counts_for_n_rounds() {
        let mut max = RecentMax::<u64, 3>::new();
        assert_eq!(max.get(), 0);
        max.update(5, 100);
        max.update(5, 90);
        max.update(6, 50);
        assert_eq!((max.get(), max.newest()), (100, 50));
        max.update(7, 10);
        assert_eq!(max.get(), 100);
        max.update(8, 10);
        assert_eq!(max.get(), 50);
        max.advance(20);
        assert_eq!(max.get(), 0);
    }
}
