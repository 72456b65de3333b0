//! Which of several ways a session takes, learnt from those before. No clock, no I/O, no chance.
//!
//! What is learnt of a way is one number, its rate: what loss, link and load of all its legs come to. With the round trips of the legs, which are
//! known from elsewhere, it says how long a session of any size takes (`course`): a short one is set-up and slow start, and tells
//! little of the rate; a long one tells it. What a node's load leaves of it is no part of the rate: a node tells it, and it may be another one for the next session. What is believed of the rate is a weight for each of a grid of rates (`belief`), so that
//! a session that says only "not slower than that" moves no more than it should.
mod belief;
mod course;

use belief::{Belief, Luck, RATES, Rates, density};
use shorthaul_types::{BitRate, Bytes, Time};
use std::time::Duration;

/// How it is learnt, and what that may cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Learning {
    /// What a way's rate is taken for of which nothing is known: the median.
    pub rate: BitRate,
    /// The standard deviation of that, as a logarithm.
    pub spread: f64,
    /// That of a single session's rate about its way's.
    pub luck: f64,
    /// That of what a way's rate changes in a minute.
    pub drift: f64,
    /// How often a way's rate changes altogether, a minute.
    pub changes: f64,
    /// The standard deviation of a session's time about what its rate says, as a logarithm.
    pub error: f64,
    /// What beside that is not known, as a part of the way's round trip.
    pub round_trip_error: f64,
    /// For how many sessions to come a way is tried out.
    pub horizon: f64,
    /// The share of all time that sessions may take longer because they stay informed.
    pub purse: f64,
    /// What relays must gain to be used, as a ratio of times: less is lost in the forecast's own error.
    pub least_gain: f64,
}

impl Default for Learning {
    /// 30 Mbit/s, times or divided by e; 0.4; 0.2; once in fifty minutes; 0.08 and a fifth of the round trip; 20 sessions; 3 %; 1.05.
    fn default() -> Self {
        Learning {
            rate: BitRate::from_bits_per_sec(30_000_000),
            spread: 1.0,
            luck: 0.4,
            drift: 0.2,
            changes: 0.02,
            error: 0.08,
            round_trip_error: 0.2,
            horizon: 20.0,
            purse: 0.03,
            least_gain: 1.05,
        }
    }
}

/// Why a way was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It is expected to be the fastest.
    Fastest,
    /// No relay is expected to gain enough.
    NotWorthIt,
    /// To stay informed: what it may turn out to be is worth more to the sessions to come than it costs this one.
    Explores,
    /// There is no other.
    Only,
}

/// What was decided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// The way, by its number.
    pub way: usize,
    /// Seconds that are expected by it.
    pub expected: f64,
    /// The standard deviation of that, as a logarithm.
    pub deviation: f64,
    /// Why.
    pub why: Why,
}

/// Seconds that a session is expected to take by a way, and the standard deviation of that as a logarithm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expected {
    /// Seconds.
    pub seconds: f64,
    /// As a logarithm.
    pub deviation: f64,
}

/// What is believed of a way for the next session, whatever its size. It stays as it is when more is learnt, so that what was expected can be told
/// when the session is over.
#[derive(Clone, Debug, PartialEq)]
pub struct Believed {
    legs: Vec<Duration>,
    share: Option<BitRate>,
    /// How likely each rate is for the session.
    likely: Rates,
    learning: Learning,
}

impl Believed {
    /// The round trips of the way's legs.
    pub fn legs(&self) -> &[Duration] {
        &self.legs
    }

    /// What is expected of a session of this size.
    pub fn expected(&self, size: Bytes) -> Expected {
        let times = course::shared_times(&self.legs, size, self.share);
        expected(&self.likely, &times, &errors(&self.learning, &self.legs, &times))
    }
}

/// So many times as long as a node's share says, its load may have made a session: others came meanwhile. What took longer, the way is to blame for.
const LOAD_EXPLAINS: f64 = 3.0;

/// The purse holds what this many seconds of sessions earn, at most: an idle hour buys no long detour.
const PURSE_OF: f64 = 300.0;

/// What is known of the ways to a destination. A way has the same number each time; 0 is the direct one.
#[derive(Clone, Debug)]
pub struct Ways {
    learning: Learning,
    luck: Luck,
    of: Vec<Belief>,
    /// Seconds that staying informed may still cost.
    purse: f64,
}

/// What is known of a way for a session, as the choice needs it.
struct Prospect {
    expected: Expected,
    /// Seconds of those to come, on average.
    later: f64,
    /// What a session by it is worth to one that comes after it, in seconds.
    worth: f64,
}

impl Ways {
    /// So many ways, of which nothing is known.
    pub fn new(learning: Learning, ways: usize) -> Self {
        let of = vec![Belief::new(&learning); ways];
        Ways { learning, luck: Luck::new(learning.luck), of, purse: 0.0 }
    }

    /// Ways of higher numbers there were none of are added, of which nothing is known.
    fn grow(&mut self, ways: usize) {
        if self.of.len() < ways {
            self.of.resize(ways, Belief::new(&self.learning));
        }
    }

    /// A way of which nothing was measured begins with what another one has shown that has its first legs in common.
    pub fn begins_like(&mut self, way: usize, others: &Ways, other: usize) {
        self.grow(way + 1);
        if let (0, Some(other)) = (self.of[way].measured, others.of.get(other)) {
            self.of[way] = Belief::new(&self.learning).like(other);
        }
    }

    /// Time passes: what is not measured is known less and less.
    pub fn pass(&mut self, now: Time) {
        self.of.iter_mut().for_each(|belief| belief.pass(now, &self.learning));
    }

    /// How many sessions by this way were measured.
    pub fn measured(&self, way: usize) -> u32 {
        self.of.get(way).map_or(0, |belief| belief.measured)
    }

    /// What is expected of a session of this size by a way with these round trips.
    pub fn expected(&self, way: usize, legs: &[Duration], size: Bytes) -> Expected {
        self.expected_sharing(way, legs, size, None)
    }

    /// The same where a node on the way leaves a session `share` of what it can forward: the slower of way and node counts.
    pub fn expected_sharing(
        &self,
        way: usize,
        legs: &[Duration],
        size: Bytes,
        share: Option<BitRate>,
    ) -> Expected {
        self.believed(way, legs, share).expected(size)
    }

    /// What is believed now of a way with these round trips, by a node that leaves a session `share` of what it can forward.
    pub fn believed(&self, way: usize, legs: &[Duration], share: Option<BitRate>) -> Believed {
        let unknown = Belief::new(&self.learning);
        let belief = self.of.get(way).unwrap_or(&unknown);
        let likely = belief.of_sessions(&self.luck, &[1.0; RATES]);
        Believed { legs: legs.to_vec(), share, likely, learning: self.learning }
    }

    /// Seconds of a session by a way that is as fast as this, and no slower.
    pub fn seconds_at(legs: &[Duration], size: Bytes, rate: BitRate) -> f64 {
        course::time(legs, size, course::bits_per_sec(rate))
    }

    /// Chooses among the ways for a session of this size, by the round trips of their legs; `None` for one that cannot be had. Those that come after
    /// it are as large as `later`.
    ///
    /// The rule is the knowledge gradient (Frazier, Powell, Dayanik 2008, "A Knowledge-Gradient Policy for Sequential Information Collection"): a way is
    /// worth the seconds that the next sessions are expected to save by what this one will show of it, times the sessions for which that will be remembered; the
    /// way is taken that costs least less that. So a short session goes the way that nobody knows before a long one does, and none where
    /// nothing that it could show would change what the others do. Thompson's rule and upper bounds do not ask what a session costs. What exploring is expected to
    /// cost is paid from a purse into which each session pays a share of its time; where it is empty, the way that is
    /// expected to be the fastest is taken.
    pub fn choose(
        &mut self,
        now: Time,
        ways: &[Option<Vec<Duration>>],
        size: Bytes,
        later: &[Bytes],
    ) -> Option<Choice> {
        self.choose_sharing(now, ways, &[], size, later)
    }

    /// The same where nodes leave a session no more than a share of what they can forward, by the numbers of the ways; nothing is known of the others'.
    pub fn choose_sharing(
        &mut self,
        now: Time,
        ways: &[Option<Vec<Duration>>],
        shares: &[Option<BitRate>],
        size: Bytes,
        later: &[Bytes],
    ) -> Option<Choice> {
        let shares: Vec<Option<BitRate>> =
            (0..ways.len()).map(|way| shares.get(way).copied().flatten()).collect();
        self.grow(ways.len());
        let learning = self.learning;
        self.pass(now);
        let mut prospects: Vec<Option<Prospect>> = ways
            .iter()
            .enumerate()
            .map(|(way, legs)| legs.as_ref().map(|legs| self.prospect(way, legs, shares[way], size, later)))
            .collect();
        let seconds = |way: usize| prospects[way].as_ref().map(|prospect| prospect.expected.seconds);
        let there = (0..ways.len()).filter_map(|way| Some((way, seconds(way)?)));
        let (fastest, time) = there.min_by(|a, b| a.1.total_cmp(&b.1))?;
        // Relays are taken only where they gain enough.
        let direct = seconds(0).filter(|direct| *direct < time * learning.least_gain);
        let (best, time) = direct.map_or((fastest, time), |direct| (0, direct));
        let why = match best {
            _ if prospects.iter().flatten().count() == 1 => Why::Only,
            0 => Why::NotWorthIt,
            _ => Why::Fastest,
        };
        self.purse = (self.purse + learning.purse * time).min(learning.purse * PURSE_OF);
        self.worth(ways, &shares, size, later, &mut prospects);
        let score = |prospect: &Prospect| prospect.expected.seconds - learning.horizon * prospect.worth;
        let scores = prospects.iter().enumerate();
        let scores = scores.filter_map(|(way, prospect)| Some((way, score(prospect.as_ref()?))));
        let (mut way, _) = scores.min_by(|a, b| a.1.total_cmp(&b.1))?;
        let costs =
            prospects[way].as_ref().map_or(0.0, |prospect| (prospect.expected.seconds - time).max(0.0));
        let explores = way != best && way != fastest && costs <= self.purse;
        if explores {
            self.purse -= costs;
        } else {
            way = best;
        }
        let Expected { seconds, deviation } = prospects[way].as_ref()?.expected;
        Some(Choice { way, expected: seconds, deviation, why: if explores { Why::Explores } else { why } })
    }

    fn prospect(
        &self,
        way: usize,
        legs: &[Duration],
        share: Option<BitRate>,
        size: Bytes,
        later: &[Bytes],
    ) -> Prospect {
        let believed = self.believed(way, legs, share);
        let mean = mean_times(legs, share, later);
        let later = believed.likely.iter().zip(&mean).map(|(likely, time)| likely * time).sum();
        Prospect { expected: believed.expected(size), later, worth: 0.0 }
    }

    /// What a session of this size would show of each way, and what that would save those to come.
    fn worth(
        &self,
        ways: &[Option<Vec<Duration>>],
        shares: &[Option<BitRate>],
        size: Bytes,
        later: &[Bytes],
        prospects: &mut [Option<Prospect>],
    ) {
        let costs: Vec<f64> =
            prospects.iter().map(|p| p.as_ref().map_or(f64::INFINITY, |p| p.later)).collect();
        for (way, prospect) in prospects.iter_mut().enumerate() {
            let (Some(prospect), Some(Some(legs))) = (prospect, ways.get(way)) else { continue };
            let others = costs.iter().enumerate().filter(|(other, _)| *other != way);
            let others = others.map(|(_, cost)| *cost).fold(f64::INFINITY, f64::min);
            if others.is_infinite() {
                continue;
            }
            let (times, belief) = (course::shared_times(legs, size, shares[way]), &self.of[way]);
            let errors = errors(&self.learning, legs, &times);
            // Of each rate that a session may show: how likely it is, and what the later ones then cost by this way.
            let likely = belief.of_sessions(&self.luck, &[1.0; RATES]);
            let costing =
                belief.of_sessions(&self.luck, &self.luck.gather(&mean_times(legs, shares[way], later)));
            let (mut shown, mut then) = ([0.0; RATES], [0.0; RATES]);
            for at in 0..RATES {
                let seen: Rates =
                    std::array::from_fn(|as_at| density((times[as_at] / times[at]).ln(), errors[at]));
                let all: f64 = seen.iter().sum();
                for as_at in 0..RATES {
                    shown[as_at] += seen[as_at] / all * likely[at];
                    then[as_at] += seen[as_at] / all * costing[at];
                }
            }
            let with: f64 = shown.iter().zip(&then).map(|(shown, then)| (others * shown).min(*then)).sum();
            prospect.worth = (costs[way].min(others) - with).max(0.0);
        }
    }

    /// A session of this size by a way with these round trips has taken so many seconds.
    pub fn on_measured(&mut self, now: Time, way: usize, legs: &[Duration], size: Bytes, took: f64) {
        self.on_measured_sharing(now, way, legs, size, took, None);
    }

    /// The same by a node that left it `share` of what it can forward, as far as it told: where that explains what it took, the way was not slower, and
    /// nothing else is learnt of it.
    pub fn on_measured_sharing(
        &mut self,
        now: Time,
        way: usize,
        legs: &[Duration],
        size: Bytes,
        took: f64,
        share: Option<BitRate>,
    ) {
        if took.is_nan() || took <= 0.0 {
            return;
        }
        self.grow(way + 1);
        let times = course::times(legs, size);
        let errors = errors(&self.learning, legs, &times);
        let belief = &mut self.of[way];
        belief.pass(now, &self.learning);
        let by_share = share.map(|share| course::time(legs, size, course::bits_per_sec(share)));
        if by_share.is_some_and(|seconds| took <= LOAD_EXPLAINS * seconds) {
            belief.on_held_up(&self.luck, took, &times, &errors);
        } else {
            belief.on_measured(&self.luck, took, &times, &errors);
        }
    }
}

fn errors(learning: &Learning, legs: &[Duration], times: &Rates) -> Rates {
    course::errors(legs, times, learning.error, learning.round_trip_error)
}

/// What is expected where each rate is as likely as that, and a session with it takes so many seconds, give or take `errors`.
fn expected(likely: &Rates, times: &Rates, errors: &Rates) -> Expected {
    let mean = |of: &dyn Fn(usize) -> f64| (0..RATES).map(|at| likely[at] * of(at)).sum::<f64>();
    let log = mean(&|at| times[at].ln());
    let variance = mean(&|at| (times[at].ln() - log).powi(2) + errors[at].powi(2));
    Expected { seconds: mean(&|at| times[at]), deviation: variance.sqrt() }
}

/// Seconds of sessions of these sizes with each rate of the way, on average.
fn mean_times(legs: &[Duration], share: Option<BitRate>, sizes: &[Bytes]) -> Rates {
    let mut mean = [0.0; RATES];
    for size in sizes {
        let times = course::shared_times(legs, *size, share);
        mean.iter_mut().zip(times).for_each(|(mean, time)| *mean += time / sizes.len() as f64);
    }
    mean
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEGABYTE: Bytes = Bytes(1_000_000);

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    fn legs(milliseconds: &[u64]) -> Vec<Duration> {
        milliseconds.iter().map(|ms| Duration::from_millis(*ms)).collect()
    }

    #[test]
    fn a_long_session_tells_the_rate_and_a_short_one_hardly() {
        let way = legs(&[50]);
        let mut ways = Ways::new(Learning::default(), 1);
        let unknown = ways.expected(0, &way, Bytes(20_000_000));
        // As fast as slow start lets it be: that is no sign of a slow way, nor much of a fast one.
        let short = Bytes(20_000);
        let took = course::times(&way, short)[RATES - 1];
        (0..5).for_each(|second| ways.on_measured(at(second), 0, &way, short, took));
        let known = ways.expected(0, &way, Bytes(20_000_000));
        assert!(
            known.seconds < unknown.seconds && known.seconds > 0.3 * unknown.seconds,
            "{known:?} {unknown:?}"
        );
        assert!(known.deviation > 0.5, "{known:?}");
        // Five seconds for 10 MB, and so for 20 MB ten.
        (5..10).for_each(|second| ways.on_measured(at(second), 0, &way, Bytes(10_000_000), 5.0));
        let known = ways.expected(0, &way, Bytes(20_000_000));
        assert!((9.0..11.5).contains(&known.seconds) && known.deviation < 0.5, "{known:?}");
    }

    #[test]
    fn what_is_old_is_forgotten_and_what_has_changed_is_learnt_at_once() {
        let way = legs(&[50]);
        let mut ways = Ways::new(Learning::default(), 1);
        let unknown = ways.expected(0, &way, MEGABYTE).seconds;
        let slow = course::times(&way, MEGABYTE)[10];
        let fast = course::times(&way, MEGABYTE)[30];
        (0..50).for_each(|second| ways.on_measured(at(second), 0, &way, MEGABYTE, fast));
        let before = ways.expected(0, &way, MEGABYTE).seconds;
        assert!((before / fast - 1.0).abs() < 0.2, "{before} {fast}");
        (50..53).for_each(|second| ways.on_measured(at(second), 0, &way, MEGABYTE, slow));
        let after = ways.expected(0, &way, MEGABYTE).seconds;
        assert!((0.6..1.4).contains(&(after / slow)), "{after} {slow}");
        ways.of[0].pass(at(8 * 3600), &Learning::default());
        let forgotten = ways.expected(0, &way, MEGABYTE).seconds;
        assert!((forgotten / unknown - 1.0).abs() < 0.1, "{forgotten} {unknown}");
    }

    #[test]
    fn a_relay_that_gains_nothing_is_not_used() {
        let learning = Learning { purse: 0.0, ..Learning::default() };
        let mut ways = Ways::new(learning, 2);
        let mut choose = |direct: &[u64], relay: &[u64]| {
            ways.choose(at(0), &[Some(legs(direct)), Some(legs(relay))], MEGABYTE, &[MEGABYTE]).unwrap()
        };
        let choice = choose(&[100], &[98, 2]);
        assert_eq!((choice.way, choice.why), (0, Why::NotWorthIt));
        let choice = choose(&[100], &[50, 50]);
        assert_eq!((choice.way, choice.why), (1, Why::Fastest));
        let relay = [None, Some(legs(&[50, 50]))];
        assert_eq!(ways.choose(at(0), &relay, MEGABYTE, &[MEGABYTE]).unwrap().why, Why::Only);
        assert_eq!(ways.choose(at(0), &[None, None], MEGABYTE, &[MEGABYTE]), None);
        // It turns out to be slow.
        ways.on_measured(at(1), 1, &legs(&[50, 50]), MEGABYTE, 10.0);
        let both = [Some(legs(&[100])), Some(legs(&[50, 50]))];
        assert_eq!(ways.choose(at(2), &both, MEGABYTE, &[MEGABYTE]).unwrap().way, 0);
    }

    #[test]
    fn what_a_session_would_show_is_worth_a_detour_only_to_those_it_serves() {
        let both = [Some(legs(&[100])), Some(legs(&[90, 30]))];
        let why = |size: u64, later: u64| {
            let mut ways = Ways::new(Learning::default(), 2);
            for second in 0..20 {
                ways.on_measured(at(second), 0, &legs(&[100]), Bytes(5_000_000), 2.0);
            }
            ways.purse = 10.0;
            ways.choose(at(60), &both, Bytes(size), &[Bytes(later)]).unwrap().why
        };
        // A megabyte a little aside, by a relay that may be faster than 30 Mbit/s: for those of 20 MB that come after it.
        assert_eq!(why(1_000_000, 20_000_000), Why::Explores);
        // 200 MB would show the same, and lose more if it is slower.
        assert_eq!(why(200_000_000, 20_000_000), Why::NotWorthIt);
        // What 10 kB show is hardly anything, and no relay makes 10 kB faster.
        assert_eq!(why(10_000, 20_000_000), Why::NotWorthIt);
        assert_eq!(why(1_000_000, 10_000), Why::NotWorthIt);
    }

    #[test]
    fn staying_informed_costs_no_more_than_the_purse() {
        let learning = Learning::default();
        let mut ways = Ways::new(learning, 2);
        let both = [legs(&[100]), legs(&[90, 30])];
        let some = both.clone().map(Some);
        let (mut lost, mut all, mut explored) = (0.0, 0.0, 0);
        for second in 0..500 {
            let choice = ways.choose(at(second), &some, MEGABYTE, &[Bytes(20_000_000)]).unwrap();
            let direct = ways.expected(0, &both[0], MEGABYTE).seconds;
            // What the other way was like is never told.
            ways.on_measured(at(second), 0, &both[0], MEGABYTE, 0.85);
            if choice.why == Why::Explores {
                explored += 1;
                lost += choice.expected - direct;
            }
            all += direct;
        }
        assert!(explored > 10 && lost <= 1.01 * learning.purse * all, "{explored}: {lost} of {all}");
    }

    #[test]
    fn what_a_nodes_load_explains_is_not_learnt_of_its_way() {
        let way = legs(&[10, 10]);
        let mbit = |rate: u64| Some(BitRate::from_bits_per_sec(rate * 1_000_000));
        let learnt = |share: Option<BitRate>, took: f64| {
            let mut ways = Ways::new(Learning::default(), 2);
            (0..10).for_each(|second| ways.on_measured_sharing(at(second), 1, &way, MEGABYTE, took, share));
            ways
        };
        let unknown = Ways::new(Learning::default(), 2).expected(1, &way, MEGABYTE).seconds;
        // Two seconds for a megabyte, where the node had 4 Mbit/s for it: of the way that says no more than that it is not slower.
        let loaded = learnt(mbit(4), 2.0);
        assert!(loaded.expected(1, &way, MEGABYTE).seconds <= unknown, "{loaded:?}");
        let busy = loaded.expected_sharing(1, &way, MEGABYTE, mbit(4)).seconds;
        assert!((1.9..2.4).contains(&busy), "{busy}");
        assert!(loaded.expected_sharing(1, &way, MEGABYTE, mbit(400)).seconds < 0.5);
        // Nobody told of a load, or it was none: then the way is as slow as that.
        for slow in [learnt(None, 2.0), learnt(mbit(400), 2.0)] {
            let seconds = slow.expected_sharing(1, &way, MEGABYTE, mbit(400)).seconds;
            assert!((1.6..2.6).contains(&seconds), "{seconds}");
        }
        // A session is sent to where the slower of way and node is the faster.
        let both = [None, Some(way.clone()), Some(legs(&[12, 10]))];
        let mut ways = Ways::new(Learning { purse: 0.0, ..Learning::default() }, 3);
        let shares = [None, mbit(1), mbit(20)];
        assert_eq!(ways.choose_sharing(at(1), &both, &shares, MEGABYTE, &[MEGABYTE]).unwrap().way, 2);
        assert_eq!(ways.choose(at(1), &both, MEGABYTE, &[MEGABYTE]).unwrap().way, 1);
    }

    #[test]
    fn a_way_begins_with_what_its_nodes_have_shown_elsewhere() {
        let way = legs(&[50, 50]);
        let mut elsewhere = Ways::new(Learning::default(), 1);
        elsewhere.on_measured(at(1), 0, &way, Bytes(5_000_000), 40.0);
        let mut ways = Ways::new(Learning::default(), 2);
        let unknown = ways.expected(1, &way, MEGABYTE).seconds;
        ways.begins_like(1, &elsewhere, 0);
        let warned = ways.expected(1, &way, MEGABYTE).seconds;
        assert!(warned > 1.3 * unknown, "{warned} {unknown}");
        assert_eq!(ways.measured(1), 0);
    }
}
