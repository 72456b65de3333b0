//! The largest of the samples of recent rounds.

/// A running maximum over the last `N` rounds, the present one included. It keeps the maximum of
/// each round, so it is exact.
#[derive(Clone, Debug)]
pub(crate) struct RecentMax<const N: usize> {
    /// The maximum of round r is at r modulo N.
    rounds: [u64; N],
    newest: u64,
}

impl<const N: usize> RecentMax<N> {
    pub(crate) fn new() -> Self {
        RecentMax { rounds: [0; N], newest: 0 }
    }

    /// Takes in a sample of round `round`, which never falls.
    pub(crate) fn update(&mut self, round: u64, value: u64) {
        self.advance(round);
        let slot = &mut self.rounds[(round % N as u64) as usize];
        *slot = value.max(*slot);
    }

    /// Forgets what is `N` rounds old at `round`.
    pub(crate) fn advance(&mut self, round: u64) {
        let passed = round.saturating_sub(self.newest).min(N as u64);
        for ago in 0..passed {
            self.rounds[((round - ago) % N as u64) as usize] = 0;
        }
        self.newest = self.newest.max(round);
    }

    /// The largest sample; zero if there was none.
    pub(crate) fn get(&self) -> u64 {
        self.rounds.iter().copied().max().unwrap_or(0)
    }

    /// The largest sample of the newest round.
    pub(crate) fn newest(&self) -> u64 {
        self.rounds[(self.newest % N as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_counts_for_n_rounds() {
        let mut max = RecentMax::<3>::new();
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
