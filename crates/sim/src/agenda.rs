use shorthaul_types::Time;

/// When each of a fixed number of sources wants to be called next, and who is first.
///
/// A source is a link (the delivery of its first packet), a node (its machine's deadline) or the sampler:
/// each has one time, which it moves as it likes. So there are no stale entries to skip, nothing is ever
/// cancelled, and what waits in a link behind its first packet costs nothing here.
///
/// It is a tournament: a complete binary tree whose leaves are the sources and whose inner nodes hold the
/// earlier of two. To move a source is one pass from leaf to root without a branch that could be
/// mispredicted. Of two sources with the same time the one with the lower number is first, so what happens
/// at one time happens in the order of places, whoever asked first.
#[derive(Clone, Debug)]
pub struct Agenda {
    /// `tree[1]` is the winner, `tree[leaves + i]` source `i`; `tree[0]` is not used.
    tree: Vec<Entry>,
    leaves: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    at: u64,
    source: u32,
}

impl Agenda {
    /// An agenda for sources 0 to `sources − 1`, none of which wants anything.
    pub fn new(sources: usize) -> Self {
        let leaves = sources.max(1).next_power_of_two();
        let mut agenda = Agenda { tree: vec![Entry { at: u64::MAX, source: 0 }; 2 * leaves], leaves };
        for source in 0..leaves {
            agenda.tree[leaves + source].source = source as u32;
        }
        for node in (1..leaves).rev() {
            agenda.tree[node] = agenda.earlier(node);
        }
        agenda
    }

    fn earlier(&self, node: usize) -> Entry {
        let (left, right) = (self.tree[2 * node], self.tree[2 * node + 1]);
        // by halves, so that both are conditional moves
        let right_wins = right.at < left.at;
        Entry {
            at: if right_wins { right.at } else { left.at },
            source: if right_wins { right.source } else { left.source },
        }
    }

    /// Wants `source` to be called at `at`, and at no other time; `None` for never.
    #[inline]
    pub fn set(&mut self, source: u32, at: Option<Time>) {
        let at = at.map_or(u64::MAX, Time::as_nanos);
        let mut node = self.leaves + source as usize;
        if self.tree[node].at == at {
            return;
        }
        self.tree[node].at = at;
        while node > 1 {
            node /= 2;
            let winner = self.earlier(node);
            if self.tree[node] == winner {
                return;
            }
            self.tree[node] = winner;
        }
    }

    /// Who is first, and when.
    #[inline]
    pub fn first(&self) -> Option<(Time, u32)> {
        let Entry { at, source } = self.tree[1];
        (at < u64::MAX).then(|| (Time::from_nanos(at), source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shorthaul_types::Seed;
    use std::collections::BTreeMap;

    #[test]
    fn it_is_an_ordered_map_from_time_and_source() {
        for sources in [1, 2, 3, 17, 64, 100] {
            let mut agenda = Agenda::new(sources);
            let mut wanted: BTreeMap<u32, u64> = BTreeMap::new();
            for step in 0..5_000 {
                let bits = Seed(sources as u64).nth(step).0;
                let source = (bits % sources as u64) as u32;
                // few different times, so that many are equal
                let at = (bits >> 32) % 50;
                if at == 0 {
                    wanted.remove(&source);
                    agenda.set(source, None);
                } else {
                    wanted.insert(source, at);
                    agenda.set(source, Some(Time::from_nanos(at)));
                }
                let first = wanted.iter().map(|(source, at)| (*at, *source)).min();
                let got = agenda.first().map(|(at, source)| (at.as_nanos(), source));
                assert_eq!(got, first, "{sources} sources, step {step}");
            }
        }
    }
}
