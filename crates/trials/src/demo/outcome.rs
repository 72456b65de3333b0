//! What a transfer did, and the few numbers that say it.
use crate::direct_or_split::DirectOrSplit;
use serde::Serialize;
use shorthaul_report::Unit;

use super::facts::PathFacts;
use super::plan::{Case, Congestion, Transfer};

/// What was seen of one transfer. Times are seconds from the moment the client began to connect.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Outcome {
    /// Bytes that the client's program received.
    pub bytes: u64,
    /// Bytes that it was to receive.
    pub asked: u64,
    /// When the last of them came, or when the transfer was stopped.
    pub seconds: f64,
    /// All came, and their hash at the far end was that of what was sent.
    pub verified: bool,
    /// What went wrong, if it was more than lack of time.
    pub failure: Option<String>,
    /// Bytes received so far, over time.
    pub received: Vec<Received>,
    /// How long the last packet waited at the bottleneck toward the client, over time.
    pub queueing: Vec<Queueing>,
    /// Packets toward the client that were lost at random.
    pub lost: u64,
    /// Packets toward the client that found the queue full.
    pub overflowed: u64,
    /// Segments that the server's kernel retransmitted.
    pub retransmitted: u64,
    /// The shortest round trip that the server's kernel measured, in seconds.
    pub server_round_trip_s: f64,
    /// Packets that this machine lost because it was too slow to emulate the links.
    pub missed: u64,
    /// 99 % of the packets toward the client were delivered at most this much too late, in seconds.
    pub late_s: f64,
    /// How long the gateway stood waiting for a processor meanwhile, in seconds.
    pub gateway_waited_s: f64,
}

/// A point of the received bytes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Received {
    pub seconds: f64,
    pub bytes: u64,
}

/// A point of the queueing delay.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Queueing {
    pub seconds: f64,
    pub delay_s: f64,
}

impl Outcome {
    /// A transfer that did not happen.
    pub fn failed(case: &Case, reason: String) -> Outcome {
        Outcome { asked: case.size().0, failure: Some(reason), ..Outcome::default() }
    }

    /// All that was asked for has come.
    pub fn complete(&self) -> bool {
        self.bytes >= self.asked && self.asked > 0
    }

    /// Received bits per second, from the beginning of the connection to the last byte.
    pub fn goodput(&self) -> f64 {
        if self.seconds > 0.0 { self.bytes as f64 * 8.0 / self.seconds } else { 0.0 }
    }

    /// Received bits per second, averaged over the last `window` seconds, every `step` seconds.
    pub fn throughput(&self, window: f64, step: f64) -> Vec<(f64, f64)> {
        let count = (self.seconds / step).floor() as u32;
        let times = (0..=count).map(|i| f64::from(i) * step);
        times.map(|t| (t, (self.received_at(t) - self.received_at(t - window)) * 8.0 / window)).collect()
    }

    /// Bytes received by `seconds`.
    fn received_at(&self, seconds: f64) -> f64 {
        let after = self.received.partition_point(|r| r.seconds <= seconds + 1e-9);
        self.received[..after].last().map_or(0.0, |r| r.bytes as f64)
    }

    /// When the bits received in the last `window` seconds first reached `rate` bits per second.
    pub fn time_to_reach(&self, rate: f64, window: f64) -> Option<f64> {
        self.received
            .iter()
            .map(|r| r.seconds)
            .find(|t| (self.received_at(*t) - self.received_at(t - window)) * 8.0 / window >= rate)
    }

    /// The queueing delay that half of the samples stay below, in seconds.
    pub fn median_queueing(&self) -> Option<f64> {
        let mut delays: Vec<f64> = self.queueing.iter().map(|q| q.delay_s).collect();
        delays.sort_by(f64::total_cmp);
        delays.get(delays.len() / 2).copied()
    }
}

/// The same transfer, direct and split.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pair {
    pub path: &'static str,
    #[serde(skip)]
    pub title: &'static str,
    #[serde(skip)]
    pub facts: PathFacts,
    pub congestion: Congestion,
    pub transfer: Transfer,
    /// Of several repeats, that in the middle by its gain.
    pub direct: Outcome,
    pub split: Outcome,
    /// All repeats in few numbers, in the order in which they ran.
    pub runs: Vec<Run>,
}

/// A repeat in few numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Run {
    /// Received bits a second, direct and split.
    pub goodput: [f64; 2],
    /// How long it took, in seconds, direct and split.
    pub seconds: [f64; 2],
    /// How many times as fast the split one was.
    pub gain: Option<f64>,
    /// The machine was fast enough for it.
    pub trusted: bool,
}

impl Pair {
    /// Puts the outcomes of a path side by side, in the order of the table; what was not run is left out.
    pub fn of(facts: &PathFacts, mut outcomes: Vec<(Case, Outcome)>) -> Vec<Pair> {
        let repeats = outcomes.iter().map(|(case, _)| case.repeat + 1).max().unwrap_or(0);
        let mut pairs = Vec::new();
        for congestion in Congestion::ALL {
            for transfer in Transfer::ALL {
                let mut take = |way: DirectOrSplit, repeat: u64| {
                    let wanted = |c: &Case| {
                        (c.congestion, c.transfer, c.way, c.repeat) == (congestion, transfer, way, repeat)
                    };
                    let at = outcomes.iter().position(|(case, _)| wanted(case))?;
                    Some(outcomes.swap_remove(at))
                };
                let mut of_repeat = |repeat| {
                    let (case, direct) = take(DirectOrSplit::Direct, repeat)?;
                    let (_, split) = take(DirectOrSplit::Split, repeat)?;
                    let (path, title, facts) = (case.path.name, case.path.title, *facts);
                    Some(Pair { path, title, facts, congestion, transfer, direct, split, runs: Vec::new() })
                };
                pairs.extend(Pair::in_the_middle((0..repeats).filter_map(&mut of_repeat).collect()));
            }
        }
        pairs
    }

    /// Of the repeats of a pair, that which stands for all: one that failed, or else that in the middle by its gain of those that
    /// can be trusted.
    fn in_the_middle(repeats: Vec<Pair>) -> Option<Pair> {
        let runs = repeats.iter().map(|pair| Run {
            goodput: DirectOrSplit::ALL.map(|way| pair.way(way).goodput()),
            seconds: DirectOrSplit::ALL.map(|way| pair.way(way).seconds),
            gain: pair.gain(),
            trusted: pair.doubt().is_none(),
        });
        let runs: Vec<Run> = runs.collect();
        let rank = |pair: &Pair| match (pair.gain().is_some(), pair.doubt().is_none()) {
            (false, _) => 0,
            (true, true) => 1,
            (true, false) => 2,
        };
        let best = repeats.iter().map(rank).min()?;
        let mut alike: Vec<Pair> = repeats.into_iter().filter(|pair| rank(pair) == best).collect();
        alike.sort_by(|a, b| a.gain().unwrap_or(0.0).total_cmp(&b.gain().unwrap_or(0.0)));
        let middle = alike.swap_remove((alike.len() - 1) / 2);
        Some(Pair { runs, ..middle })
    }

    /// The least and the most of what the repeats that can be trusted came to; `None` of fewer than two.
    pub fn spread(&self, of: impl Fn(&Run) -> Option<f64>) -> Option<[f64; 2]> {
        let values: Vec<f64> = self.runs.iter().filter(|run| run.trusted).filter_map(of).collect();
        let ends = [f64::min, f64::max].map(|end| values.iter().copied().reduce(end));
        (values.len() > 1).then_some([ends[0]?, ends[1]?])
    }

    /// How many times as fast the split transfer was: by time where both came whole, else by bytes a
    /// second. `None` where one of them moved nothing or failed.
    pub fn gain(&self) -> Option<f64> {
        if self.direct.failure.is_some() || self.split.failure.is_some() {
            return None;
        }
        let (direct, split) = (self.direct.goodput(), self.split.goodput());
        (direct > 0.0 && split > 0.0).then(|| split / direct)
    }

    /// Of packets toward the client, 1 % may come this much too late before the pair says nothing, in seconds: a fiftieth of the
    /// round trip, or a millisecond.
    pub fn late_bound(&self) -> f64 {
        (self.facts.round_trip_s / 50.0).max(0.001)
    }

    /// Why nothing is concluded from it, if the machine was too slow for it.
    pub fn doubt(&self) -> Option<String> {
        let late = self.direct.late_s.max(self.split.late_s);
        let missed = self.direct.missed + self.split.missed;
        if missed > 0 {
            return Some(format!("this machine cannot show it: it was too slow for {missed} packets"));
        }
        (late > self.late_bound()).then(|| {
            let [late, bound] = [late, self.late_bound()].map(|time| Unit::Seconds.format(time));
            format!(
                "this machine cannot show it: 1 % of the packets came more than {late} late (bound {bound})"
            )
        })
    }

    /// The gain, where the run can be trusted.
    pub fn trusted_gain(&self) -> Option<f64> {
        self.gain().filter(|_| self.doubt().is_none())
    }

    /// One way's outcome.
    pub fn way(&self, way: DirectOrSplit) -> &Outcome {
        match way {
            DirectOrSplit::Direct => &self.direct,
            DirectOrSplit::Split => &self.split,
        }
    }

    /// The share of the bottleneck's rate that the direct transfer used.
    pub fn direct_share(&self) -> f64 {
        self.direct.goodput() / self.facts.rate_bit_per_s
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A transfer that received `rates` bits per second, each for one second, and then was whole.
    pub fn steady(rates: &[f64]) -> Outcome {
        let mut received = Vec::new();
        let mut bytes = 0.0;
        for (second, rate) in rates.iter().enumerate() {
            for tenth in 1..=10 {
                bytes += rate / 80.0;
                let seconds = second as f64 + f64::from(tenth) / 10.0;
                received.push(Received { seconds, bytes: bytes as u64 });
            }
        }
        let bytes = bytes as u64;
        let seconds = rates.len() as f64;
        Outcome { bytes, asked: bytes, seconds, verified: true, received, ..Outcome::default() }
    }

    #[test]
    fn goodput_and_throughput_agree_with_the_bytes() {
        let outcome = steady(&[1e6, 3e6, 2e6]);
        assert_eq!(outcome.goodput(), 2e6);
        let rates = outcome.throughput(1.0, 0.5);
        assert_eq!(rates.len(), 7);
        for (t, rate) in [(0.0, 0.0), (1.0, 1e6), (1.5, 2e6), (2.0, 3e6), (3.0, 2e6)] {
            let found = rates.iter().find(|r| r.0 == t).unwrap().1;
            assert!((found - rate).abs() < 100.0, "{found} at {t}");
        }
        assert_eq!(Outcome::default().throughput(1.0, 1.0), [(0.0, 0.0)]);
    }

    #[test]
    fn a_rate_is_reached_when_it_was_held_for_the_window() {
        let outcome = steady(&[1e6, 1e6, 4e6, 4e6]);
        let reached = outcome.time_to_reach(3.9e6, 0.5).unwrap();
        assert!((2.4..=2.6).contains(&reached), "{reached}");
        assert_eq!(outcome.time_to_reach(5e6, 0.5), None);
    }

    #[test]
    fn of_repeats_the_one_in_the_middle_stands_for_all_that_can_be_trusted() {
        let facts = PathFacts {
            rate_bit_per_s: 1e7,
            round_trip_s: 0.1,
            access_round_trip_s: 0.05,
            wan_round_trip_s: 0.05,
            initial_window: 10,
            loss: 0.0,
        };
        let case = |way, repeat| Case {
            path: super::super::plan::PATHS[0],
            congestion: Congestion::Reno,
            transfer: Transfer::Long,
            way,
            repeat,
        };
        // The second was late; of the others, gains are 2, 4 and 3.
        let gains = [2.0, 9.0, 4.0, 3.0];
        let both = gains.into_iter().enumerate().flat_map(|(repeat, gain)| {
            let late_s = if gain == 9.0 { 1.0 } else { 0.0 };
            let split = Outcome { late_s, ..steady(&[1e6 * gain]) };
            let case = |way| case(way, repeat as u64);
            [(case(DirectOrSplit::Split), split), (case(DirectOrSplit::Direct), steady(&[1e6]))]
        });
        let pairs = Pair::of(&facts, both.collect());
        assert_eq!(pairs.len(), 1);
        assert_eq!((pairs[0].trusted_gain(), pairs[0].runs.len()), (Some(3.0), 4));
        assert_eq!(pairs[0].spread(|run| run.gain), Some([2.0, 4.0]));
        assert_eq!(
            Pair { runs: pairs[0].runs[..2].to_vec(), ..pairs[0].clone() }.spread(|run| run.gain),
            None
        );
    }

    #[test]
    fn the_median_is_of_the_delays_not_of_the_times() {
        let delays = [5.0, 1.0, 3.0];
        let queueing = delays.iter().map(|d| Queueing { seconds: 0.0, delay_s: *d }).collect();
        assert_eq!(Outcome { queueing, ..Outcome::default() }.median_queueing(), Some(3.0));
        assert_eq!(Outcome::default().median_queueing(), None);
    }
}
