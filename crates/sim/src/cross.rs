use shorthaul_link::Distribution;
use shorthaul_scenario::{Arrivals, Cross, NodeIndex};
use shorthaul_types::{BitRate, Seed, Time};
use std::time::Duration;

/// Where competing datagrams come from.
///
/// When the *n*th one comes depends on the run's seed, the source's name and *n*, and on nothing that the
/// schemes under test do.
#[derive(Clone, Debug)]
pub struct CrossSource {
    /// Where they enter.
    pub from: NodeIndex,
    /// Where they leave.
    pub to: NodeIndex,
    /// The size of one, IP header included, in bytes.
    pub size: u32,
    gaps: Distribution,
    seed: Seed,
    count: u64,
    at: Time,
    end: Time,
}

impl CrossSource {
    /// The source that `cross` describes, in the run with the seed `run`.
    pub fn new(cross: &Cross, run: Seed) -> Self {
        let gap = cross.rate.time_to_send(cross.packet);
        let gaps = match cross.arrivals {
            Arrivals::Constant => Distribution::Constant(gap),
            Arrivals::Poisson => Distribution::Exponential { mean: gap, max: Duration::MAX },
        };
        debug_assert!(cross.rate > BitRate::default(), "the scenario's reader has ruled it out");
        let start = Time::ZERO + cross.start;
        let end = cross.lasts.map_or(Time::MAX, |lasts| start + lasts);
        let seed = run.derive("cross").derive(&cross.name);
        let size = cross.packet.0 as u32;
        let mut source =
            CrossSource { from: cross.from, to: cross.to, size, gaps, seed, count: 0, at: start, end };
        if cross.arrivals == Arrivals::Poisson {
            source.advance();
        }
        source
    }

    /// When the next datagram comes, counted from the start of the run; `None` if none does.
    pub fn next(&self) -> Option<Time> {
        (self.at < self.end).then_some(self.at)
    }

    /// It has come: on to the one after it.
    pub fn advance(&mut self) {
        self.at += self.gaps.draw(self.seed, self.count);
        self.count += 1;
    }
}
